/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver's library for what the simulated one does not do: it is old (first forms of functions, no newer ones), can
 * be unloaded, keeps a descriptor open between init and shutdown, loses its init when the driver is reloaded, and gives
 * odd values. The file named by FAKE_PROCESSES holds how many compute processes there are, how many more come each time
 * that the list did not fit, and what graphics processes answer. FAKE_P2P holds what a call about two GPUs answers, and
 * a status. The file named by FAKE_MIG holds the MIG devices in their places, a letter each; a second word is the
 * layout that comes into force behind the first place, in every second look. The file named by FAKE_DRIVER holds two
 * numbers: the driver's load (another one: the driver was reloaded) and what calls about the GPU answer. Each init and
 * shutdown adds a line to that file's name with ".log".
 */

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml_abi.h"

static int device_fd = -1, load_at_init = -1;
static char one_device, other_device, samples[2], event_set, mig_devices[26];
static int next_sample, told_event;

static void read_control(int *ret_load, int *ret_answer)
{
    const char *path = getenv("FAKE_DRIVER");
    FILE *file = path ? fopen(path, "re") : NULL;

    *ret_load = 1;
    *ret_answer = 0;
    if (!file)
        return;
    if (fscanf(file, "%d %d", ret_load, ret_answer) != 2)
        *ret_answer = 0;
    fclose(file);
}

static void note(const char *what)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s.log", getenv("FAKE_DRIVER"));
    file = fopen(path, "ae");
    if (!file)
        return;
    fprintf(file, "%s\n", what);
    fclose(file);
}

static nvmlReturn_t ready(void)
{
    int load, answer;

    read_control(&load, &answer);
    return load_at_init == load ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t about_gpu(void)
{
    int load, answer;
    const nvmlReturn_t r = ready();

    read_control(&load, &answer);
    return r == NVML_SUCCESS ? (nvmlReturn_t)answer : r;
}

static nvmlReturn_t text(nvmlReturn_t r, const char *value, char *out, unsigned int length)
{
    if (r == NVML_SUCCESS)
        snprintf(out, length, "%s", value);
    return r;
}

/* ---- as a whole ---- */

nvmlReturn_t nvmlInit(void)
{
    int load, answer;

    read_control(&load, &answer);
    note("init");
    if (load == 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    load_at_init = load;
    if (device_fd < 0)
        device_fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
    note("shutdown");
    if (device_fd >= 0)
        close(device_fd);
    device_fd = load_at_init = -1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return text(ready(), "450.80.02", version, length);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    *count = 1;
    return ready();
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    *device = (nvmlDevice_t)(void *)&one_device;
    return index == 0 ? about_gpu() : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    const int is_other = strcmp(bus_id, "00000000:3C:00.0") == 0;

    *device = (nvmlDevice_t)(void *)(is_other ? &other_device : &one_device);
    return is_other || strcmp(bus_id, "00000000:3B:00.0") == 0 ? about_gpu() : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    (void)device;
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3b;
    return about_gpu();
}

/* ---- values ---- */

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    const char *mig = (const char *)(void *)device;
    char name[] = "MIG-x";

    if (mig >= mig_devices && mig < mig_devices + sizeof mig_devices) {
        name[4] = (char)('a' + (mig - mig_devices));
        return text(about_gpu(), name, uuid, length);
    }
    return text(about_gpu(), "GPU-11111111-2222-3333-4444-555555555555", uuid, length);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    (void)device;
    *memory = (nvmlMemory_t){.total = 1000ull << 20, .free = 300ull << 20, .used = 700ull << 20};
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    (void)device;
    *reasons = 0x24;
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
    (void)device;
    *milliwatts = 61500;
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
    (void)device;
    (void)sensor;
    *celsius = 255;
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *percent)
{
    (void)device;
    (void)percent;
    return about_gpu() == NVML_SUCCESS ? NVML_ERROR_UNKNOWN : about_gpu();
}

nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t device, nvmlGridLicensableFeatures_t *features)
{
    (void)device;
    memset(features, 0, sizeof *features);
    features->isGridLicenseSupported = 1;
    features->licensableFeaturesCount = 2;
    features->gridLicensableFeatures[0].featureCode = NVML_GRID_LICENSE_FEATURE_CODE_GAMING;
    features->gridLicensableFeatures[1].featureCode = NVML_GRID_LICENSE_FEATURE_CODE_VGPU;
    features->gridLicensableFeatures[1].featureState = 2;
    return about_gpu();
}

/* Counters of ECC that have no time, the fourth of which has one. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    (void)device;
    for (int i = 0; i < count; i++) {
        values[i].nvmlReturn = values[i].fieldId <= 6 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        values[i].value.ullVal = values[i].fieldId;
        values[i].timestamp = values[i].fieldId == 6 ? 1 : 0;
    }
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t *status)
{
    const char *text = getenv("FAKE_P2P");
    char *end = NULL;
    const long answer = text ? strtol(text, &end, 10) : NVML_ERROR_NOT_SUPPORTED;

    if (first == second || index != NVML_P2P_CAPS_INDEX_NVLINK)
        return NVML_ERROR_INVALID_ARGUMENT;
    *status = (nvmlGpuP2PStatus_t)(text ? strtol(end, NULL, 10) : 0);
    return ready() == NVML_SUCCESS ? (nvmlReturn_t)answer : ready();
}

/* ---- MIG ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    (void)device;
    *current = *pending = 1;
    return getenv("FAKE_MIG") ? about_gpu() : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    (void)device;
    *count = 7;
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    static unsigned int looks;
    char first[8] = "", second[8] = "";
    FILE *file = fopen(getenv("FAKE_MIG"), "re");
    const int words = file ? fscanf(file, "%7s %7s", first, second) : 0;
    const char *places = words == 2 && (index > 0 || looks % 2) ? second : first;

    (void)device;
    if (file)
        fclose(file);
    looks += index == 6;
    if (index >= strlen(places))
        return NVML_ERROR_NOT_FOUND;
    *mig = (nvmlDevice_t)(void *)&mig_devices[places[index] - 'a'];
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    *id = (unsigned int)((const char *)(void *)device - mig_devices);
    return about_gpu();
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    (void)device;
    *id = 0;
    return about_gpu();
}

/* ---- events: one XID, once ---- */

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    *set = (nvmlEventSet_t)(void *)&event_set;
    return ready();
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    (void)set;
    note("events freed");
    return ready();
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    (void)device;
    (void)set;
    return types == nvmlEventTypeXidCriticalError ? about_gpu() : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int timeout_ms)
{
    (void)set;
    if (ready() != NVML_SUCCESS)
        return ready();
    if (timeout_ms != 0 || told_event)
        return NVML_ERROR_TIMEOUT;
    told_event = 1;
    *data = (nvmlEventData_v1_t){.eventType = nvmlEventTypeXidCriticalError, .eventData = 43};
    return NVML_SUCCESS;
}

/* ---- performance monitoring ---- */

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    (void)device;
    support->isSupportedDevice = 1;
    return about_gpu();
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    *sample = (nvmlGpmSample_t)(void *)&samples[next_sample++ % 2];
    return ready();
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    (void)sample;
    note("sample freed");
    return ready();
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    (void)device;
    (void)sample;
    return about_gpu();
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metrics)
{
    for (unsigned int i = 0; i < metrics->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &metrics->metrics[i];
        metric->nvmlReturn = metric->metricId == 3 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
        metric->value = metric->metricId == 1 ? NAN : metric->metricId == 2 ? 150 : 50;
    }
    return metrics->sample1 != metrics->sample2 ? ready() : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- processes, in the second form ---- */

static void read_processes(unsigned int *ret_count, unsigned int *ret_more, int *ret_graphics)
{
    const char *path = getenv("FAKE_PROCESSES");
    FILE *file = path ? fopen(path, "re") : NULL;

    *ret_count = *ret_more = 0;
    *ret_graphics = NVML_ERROR_NOT_SUPPORTED;
    if (!file)
        return;
    if (fscanf(file, "%u %u %d", ret_count, ret_more, ret_graphics) != 3)
        *ret_count = 0;
    fclose(file);
}

/* Every third does not tell its memory; the others have the more, the larger their pid is. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v2_t *infos)
{
    static unsigned int grown;
    unsigned int there, more;
    int graphics;
    const nvmlReturn_t r = about_gpu();

    (void)device;
    read_processes(&there, &more, &graphics);
    if (r != NVML_SUCCESS)
        return r;
    there += grown;
    if (*count < there) {
        *count = there;
        grown += more;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    grown = 0;
    *count = there;
    for (unsigned int i = 0; i < there; i++)
        infos[i] = (nvmlProcessInfo_v2_t){.pid = 1000 + i,
                                          .usedGpuMemory = i % 3 ? (unsigned long long)i << 20
                                                                 : (unsigned long long)NVML_VALUE_NOT_AVAILABLE,
                                          .gpuInstanceId = 0xffffffff,
                                          .computeInstanceId = 0xffffffff};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_v2_t *infos)
{
    unsigned int there, more;
    int graphics;

    (void)device;
    (void)infos;
    read_processes(&there, &more, &graphics);
    *count = 0;
    return (nvmlReturn_t)graphics;
}
