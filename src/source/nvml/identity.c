/* SPDX-License-Identifier: Apache-2.0 */
/* Who a GPU is. Read once per attachment. */

#include "source/nvml/identity.h"

#include <stdio.h>
#include <string.h>

/* Takes over what the driver wrote, if it wrote it. */
static void take(nvmlReturn_t answer, const char *text, char *out, size_t cap)
{
    if (answer == NVML_SUCCESS)
        snprintf(out, cap, "%.*s", (int)cap - 1, text);
}

static void read_numbers(NvmlGpu *gpu)
{
    Device *device = &gpu->reading.device;
    unsigned int number = 0;
    nvmlDeviceArchitecture_t arch = 0;

    if (NVML_ASK(gpu, nvmlDeviceGetIndex, (gpu->handle, &number)) == NVML_SUCCESS)
        device->index = number;
    if (NVML_ASK(gpu, nvmlDeviceGetMinorNumber, (gpu->handle, &number)) == NVML_SUCCESS)
        device->minor = number;
    if (NVML_ASK(gpu, nvmlDeviceGetArchitecture, (gpu->handle, &arch)) == NVML_SUCCESS)
        device->arch = arch == UINT32_MAX ? DEVICE_ARCH_UNKNOWN : arch;
}

void nvml_identity_read(NvmlGpu *gpu)
{
    Device *device = &gpu->reading.device;
    char text[DEVICE_NAME_CAP];
    const unsigned int room = sizeof text;

    device->kind = DEVICE_GPU;
    device->vendor = DEVICE_NVIDIA;
    device->has_pci = true;
    device->pci = gpu->row->pci;
    take(NVML_ASK(gpu, nvmlDeviceGetUUID, (gpu->handle, text, room)), text, device->uuid, sizeof device->uuid);
    take(NVML_ASK(gpu, nvmlDeviceGetName, (gpu->handle, text, room)), text, device->name, sizeof device->name);
    take(NVML_ASK(gpu, nvmlDeviceGetSerial, (gpu->handle, text, room)), text, device->serial, sizeof device->serial);
    take(NVML_ASK(gpu, nvmlDeviceGetBoardPartNumber, (gpu->handle, text, room)), text, device->board,
         sizeof device->board);
    read_numbers(gpu);
}

/* ---- texts ---- */

static void set_text(NvmlGpu *gpu, ReadingText which, const char *text)
{
    snprintf(gpu->reading.text[which], READING_TEXT_CAP, "%.*s", READING_TEXT_CAP - 1, text);
}

static void read_brand(NvmlGpu *gpu)
{
    nvmlBrandType_t brand = NVML_BRAND_UNKNOWN;

    if (NVML_ASK(gpu, nvmlDeviceGetBrand, (gpu->handle, &brand)) == NVML_SUCCESS)
        set_text(gpu, READING_BRAND, nvml_brand_text(brand));
}

static void read_inforom(NvmlGpu *gpu, MetricId id, nvmlInforomObject_t object)
{
    char *text = gpu->reading.text[reading_text_of(id)];
    char got[READING_TEXT_CAP];

    if (nvml_gpu_wants(gpu, id))
        take(NVML_ASK(gpu, nvmlDeviceGetInforomVersion, (gpu->handle, object, got, sizeof got)), got, text,
             READING_TEXT_CAP);
}

void nvml_identity_texts(NvmlGpu *gpu)
{
    Reading *reading = &gpu->reading;
    char got[READING_TEXT_CAP];

    memset(reading->text, 0, sizeof reading->text);
    set_text(gpu, READING_DRIVER_VERSION, gpu->reader->driver_version);
    set_text(gpu, READING_NVML_VERSION, gpu->reader->nvml_version);
    set_text(gpu, READING_SERIAL, reading->device.serial);
    if (nvml_gpu_wants(gpu, METRIC_BRAND))
        read_brand(gpu);
    read_inforom(gpu, METRIC_OEM_INFOROM_VER, NVML_INFOROM_OEM);
    read_inforom(gpu, METRIC_ECC_INFOROM_VER, NVML_INFOROM_ECC);
    read_inforom(gpu, METRIC_POWER_INFOROM_VER, NVML_INFOROM_POWER);
    if (nvml_gpu_wants(gpu, METRIC_INFOROM_IMAGE_VER))
        take(NVML_ASK(gpu, nvmlDeviceGetInforomImageVersion, (gpu->handle, got, sizeof got)), got,
             reading->text[READING_INFOROM_IMAGE_VER], READING_TEXT_CAP);
    if (nvml_gpu_wants(gpu, METRIC_VBIOS_VERSION))
        take(NVML_ASK(gpu, nvmlDeviceGetVbiosVersion, (gpu->handle, got, sizeof got)), got,
             reading->text[READING_VBIOS_VERSION], READING_TEXT_CAP);
}
