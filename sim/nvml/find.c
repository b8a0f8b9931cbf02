/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting devices and finding them by index, bus address, serial and UUID. A GPU that fell off the bus stays in the
 * count, and finding it fails.
 */
#include "sim/nvml/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nvmlReturn_t count_devices(NvmlFn fn, unsigned int *count)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = nvml_visible_count();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return count_devices(NVML_FN_nvmlDeviceGetCount, count);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    return count_devices(NVML_FN_nvmlDeviceGetCount_v2, count);
}

/* Hands out a handle. This attaches the GPU, so it hangs with it; a lost one is refused. One that wants a reset is
 * handed out: its own functions say so. */
static nvmlReturn_t hand_out(SimImage *image, NvmlFn fn, uint32_t gpu, nvmlDevice_t handle, nvmlDevice_t *ret)
{
    if (atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, fn, (int32_t)gpu);
    const SimNow *now = sim_state_now(image, gpu);
    if (now->cond.lost || !now->cond.present)
        return NVML_ERROR_GPU_IS_LOST;
    *ret = handle;
    return NVML_SUCCESS;
}

static nvmlReturn_t by_index(NvmlFn fn, unsigned int index, nvmlDevice_t *device)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!device || index >= nvml_visible_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    const uint32_t gpu = nvml_visible_gpu(index);
    return hand_out(image, fn, gpu, nvml_handle_gpu(gpu), device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return by_index(NVML_FN_nvmlDeviceGetHandleByIndex, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    return by_index(NVML_FN_nvmlDeviceGetHandleByIndex_v2, index, device);
}

/* "[domain:]bus:device[.function]", hexadecimal. */
static int parse_bus_id(const char *text, unsigned int part[4])
{
    unsigned int value[4] = {0}, count = 0;
    const char *p = text;

    for (;;) {
        char *end;
        const unsigned long v = strtoul(p, &end, 16);
        if (end == p || *p == '-' || *p == '+' || *p == ' ' || v > UINT32_MAX || count == 4)
            return 0;
        value[count++] = (unsigned int)v;
        if (*end != ':' && *end != '.') {
            if (*end != '\0' || count < 2)
                return 0;
            break;
        }
        p = end + 1;
    }
    const int has_function = strchr(text, '.') != NULL;
    const unsigned int colons = count - (unsigned int)has_function;
    if (colons < 2 || colons > 3)
        return 0;
    const unsigned int first = 3 - colons; /* 1: no domain */
    memset(part, 0, 4 * sizeof *part);
    memcpy(part + first, value, count * sizeof *value);
    return 1;
}

static nvmlReturn_t by_bus_id(NvmlFn fn, const char *text, nvmlDevice_t *device)
{
    SimImage *image;
    unsigned int part[4];
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!text || !device || !parse_bus_id(text, part))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_visible_count(); i++) {
        const uint32_t gpu = nvml_visible_gpu(i);
        const SimGpuId *id = &image->gpus[gpu];
        if (id->domain == part[0] && id->bus == part[1] && id->device == part[2] && part[3] == 0)
            return hand_out(image, fn, gpu, nvml_handle_gpu(gpu), device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return by_bus_id(NVML_FN_nvmlDeviceGetHandleByPciBusId, bus_id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return by_bus_id(NVML_FN_nvmlDeviceGetHandleByPciBusId_v2, bus_id, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    const NvmlFn fn = NVML_FN_nvmlDeviceGetHandleBySerial;
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!serial || !*serial || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_visible_count(); i++) {
        const uint32_t gpu = nvml_visible_gpu(i);
        if (strcmp(image->gpus[gpu].serial, serial) == 0)
            return hand_out(image, fn, gpu, nvml_handle_gpu(gpu), device);
    }
    return NVML_ERROR_NOT_FOUND;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The 16 bytes of "GPU-8-4-4-4-12"; 0 when it is none. */
static int uuid_bytes(const char *text, unsigned char bytes[16])
{
    unsigned int digits = 0;

    const char *p = strchr(text, '-');
    for (p = p ? p + 1 : ""; *p; p++) {
        if (*p == '-')
            continue;
        const int d = hex_digit(*p);
        if (d < 0 || digits == 32)
            return 0;
        bytes[digits / 2] = (unsigned char)(digits % 2 ? bytes[digits / 2] << 4 | d : d);
        digits++;
    }
    return digits == 32;
}

/* Whether a device's UUID is the wanted one: as text, or as bytes when text is NULL. */
static int uuid_is(const char *uuid, const char *text, const unsigned char *bytes)
{
    unsigned char own[16];

    if (text)
        return strcmp(uuid, text) == 0;
    return uuid_bytes(uuid, own) && memcmp(own, bytes, sizeof own) == 0;
}

static nvmlDevice_t find_mig(SimImage *image, uint32_t gpu, const char *text, const unsigned char *bytes)
{
    const SimCond *cond = &sim_state_now(image, gpu)->cond;
    uint32_t gi, ci;
    char uuid[48];

    for (uint32_t i = 0; cond->mig_mode && sim_mig_device(cond, i, &gi, &ci); i++) {
        sim_mig_uuid(&image->gpus[gpu], &cond->gi[gi], &cond->ci[ci], uuid);
        if (uuid_is(uuid, text, bytes))
            return nvml_handle_mig(gpu, cond->gi[gi].id, cond->ci[ci].id);
    }
    return NULL;
}

static nvmlReturn_t by_uuid(SimImage *image, NvmlFn fn, const char *text, const unsigned char *bytes,
                            nvmlDevice_t *device)
{
    for (uint32_t i = 0; i < nvml_visible_count(); i++) {
        const uint32_t gpu = nvml_visible_gpu(i);
        if (uuid_is(image->gpus[gpu].uuid, text, bytes))
            return hand_out(image, fn, gpu, nvml_handle_gpu(gpu), device);
        const nvmlDevice_t mig = find_mig(image, gpu, text, bytes);
        if (mig)
            return hand_out(image, fn, gpu, mig, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    const NvmlFn fn = NVML_FN_nvmlDeviceGetHandleByUUID;
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    return by_uuid(image, fn, uuid, NULL, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    const NvmlFn fn = NVML_FN_nvmlDeviceGetHandleByUUIDV;
    SimImage *image;
    nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(fn, uuid->version, nvmlUUID_v1);
    if (r != NVML_SUCCESS)
        return r;
    if (uuid->type == NVML_UUID_TYPE_ASCII && memchr(uuid->value.str, 0, sizeof uuid->value.str))
        return by_uuid(image, fn, uuid->value.str, NULL, device);
    if (uuid->type == NVML_UUID_TYPE_BINARY)
        return by_uuid(image, fn, NULL, uuid->value.bytes, device);
    return NVML_ERROR_INVALID_ARGUMENT;
}
