/* SPDX-License-Identifier: Apache-2.0 */
/* Finding GPUs, their MIG devices and processes. */
#include "sim/smi/smi.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

nvmlReturn_t gpu_memory_of(nvmlDevice_t handle, nvmlMemory_v2_t *ret)
{
    nvmlMemory_t old = {0};

    ret->version = NVML_STRUCT_TAG(nvmlMemory_v2_t, 2);
    nvmlReturn_t rc = NV(DeviceGetMemoryInfo_v2, handle, ret);
    if (rc != NVML_ERROR_FUNCTION_NOT_FOUND)
        return rc;
    rc = NV(DeviceGetMemoryInfo, handle, &old);
    *ret = (nvmlMemory_v2_t){.total = old.total, .used = old.used, .free = old.free};
    return rc;
}

nvmlReturn_t gpu_read_memory(Gpu *gpu)
{
    if (!gpu->memory_read)
        gpu->memory_rc = gpu_memory_of(gpu->handle, &gpu->memory);
    gpu->memory_read = true;
    return gpu->memory_rc;
}

/* A lost GPU has no bus id in the library; the driver's folder lists it, in index order. Without the folder: the index.
 */
static void find_lost_bus_id(unsigned int index, char *out, size_t size)
{
    struct dirent **entries = NULL;
    int count = scandir("/proc/driver/nvidia/gpus", &entries, NULL, alphasort);
    unsigned int at = 0;

    snprintf(out, size, "%u", index);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.' && at++ == index) {
            snprintf(out, size, "%s", entries[i]->d_name);
            for (char *c = out; *c; c++)
                *c = (char)toupper((unsigned char)*c);
        }
        free(entries[i]);
    }
    free(entries);
}

static nvmlReturn_t report_no_handle(unsigned int index, nvmlReturn_t rc)
{
    char bus_id[300];

    find_lost_bus_id(index, bus_id, sizeof(bus_id));
    printf("Unable to determine the device handle for GPU%s: %s%s\n", bus_id, nvml_error_text(rc),
           rc == NVML_ERROR_GPU_IS_LOST ? ". Reboot the system to recover this GPU" : "");
    return rc;
}

static void add_gpu(GpuSet *set, nvmlDevice_t handle, unsigned int index, unsigned int total)
{
    nvmlPciInfo_t pci = {0};
    Gpu *gpu = &set->gpus[set->count];

    for (unsigned int i = 0; i < set->count; i++) {
        if (set->gpus[i].handle == handle)
            return;
    }
    *gpu = (Gpu){.handle = handle, .index = index, .total = total};
    if (NV(DeviceGetPciInfo_v3, handle, &pci) == NVML_SUCCESS)
        memcpy(gpu->bus_id, pci.busId, sizeof(gpu->bus_id));
    else
        find_lost_bus_id(index, gpu->bus_id, sizeof(gpu->bus_id));
    set->count++;
}

/* NVML_ERROR_NOT_FOUND where the word names no GPU. */
static nvmlReturn_t add_named(GpuSet *set, const char *word, unsigned int total)
{
    nvmlDevice_t handle = NULL;
    unsigned int index = 0;
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    nvmlReturn_t rc;

    if (*word && !*end && isdigit((unsigned char)*word)) {
        if (number >= total)
            return NVML_ERROR_NOT_FOUND;
        index = (unsigned int)number;
        rc = NV(DeviceGetHandleByIndex_v2, index, &handle);
    } else {
        rc = strncmp(word, "GPU-", 4) == 0 ? NV(DeviceGetHandleByUUID, word, &handle)
                                           : NV(DeviceGetHandleByPciBusId_v2, word, &handle);
        if (rc == NVML_SUCCESS)
            (void)NV(DeviceGetIndex, handle, &index);
    }
    if (rc == NVML_ERROR_INVALID_ARGUMENT || rc == NVML_ERROR_NOT_FOUND)
        return NVML_ERROR_NOT_FOUND;
    if (rc != NVML_SUCCESS)
        return report_no_handle(index, rc);
    add_gpu(set, handle, index, total);
    return NVML_SUCCESS;
}

static nvmlReturn_t add_all(GpuSet *set, unsigned int total)
{
    for (unsigned int i = 0; i < total; i++) {
        nvmlDevice_t handle = NULL;
        nvmlReturn_t rc = NV(DeviceGetHandleByIndex_v2, i, &handle);
        if (rc != NVML_SUCCESS)
            return report_no_handle(i, rc);
        add_gpu(set, handle, i, total);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t gpu_set_open(const char *ids, GpuSet *ret)
{
    unsigned int total = 0;
    char words[4096], *rest = words;
    nvmlReturn_t rc = NV(DeviceGetCount_v2, &total);

    ret->count = 0;
    if (total > GPU_MAX)
        total = GPU_MAX;
    if (rc != NVML_SUCCESS) {
        printf("Unable to count the GPUs: %s\n", nvml_error_text(rc));
        return rc;
    }
    if (!ids)
        rc = add_all(ret, total);
    else
        snprintf(words, sizeof(words), "%s", ids);
    for (char *word; ids && rc == NVML_SUCCESS && (word = strsep(&rest, ",")) != NULL;)
        rc = add_named(ret, word, total);
    if (rc == NVML_SUCCESS && !ret->count)
        rc = NVML_ERROR_NOT_FOUND;
    if (rc == NVML_ERROR_NOT_FOUND)
        puts("No devices were found");
    return rc;
}

bool gpu_mig_enabled(Gpu *gpu)
{
    unsigned int current = 0, pending = 0;

    return NV(DeviceGetMigMode, gpu->handle, &current, &pending) == NVML_SUCCESS && current;
}

unsigned int gpu_mig_devices(Gpu *gpu, MigDevice *devices)
{
    unsigned int max = 0, count = 0;

    if (!gpu_mig_enabled(gpu) || NV(DeviceGetMaxMigDeviceCount, gpu->handle, &max) != NVML_SUCCESS)
        return 0;
    for (unsigned int i = 0; i < max && count < GPU_MIG_MAX; i++) {
        MigDevice *device = &devices[count];
        *device = (MigDevice){.index = i};
        if (NV(DeviceGetMigDeviceHandleByIndex, gpu->handle, i, &device->handle) != NVML_SUCCESS)
            continue;
        (void)NV(DeviceGetGpuInstanceId, device->handle, &device->gi);
        (void)NV(DeviceGetComputeInstanceId, device->handle, &device->ci);
        count++;
    }
    return count;
}

typedef nvmlReturn_t ProcCall(nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *);

/* An allocation with *ret_count entries, or NULL. The list may grow between two calls: ask again with more room. */
static nvmlProcessInfo_t *list_procs(ProcCall *call, nvmlDevice_t handle, unsigned int *ret_count)
{
    nvmlProcessInfo_t *list = NULL;
    unsigned int room = 32;

    *ret_count = 0;
    for (int tries = 0; call && tries < 8 && room <= GPU_PROC_MAX; tries++) {
        nvmlProcessInfo_t *more = realloc(list, room * sizeof(*list));
        if (!more)
            break;
        list = more;
        unsigned int count = room;
        nvmlReturn_t rc = call(handle, &count, list);
        if (rc == NVML_SUCCESS) {
            *ret_count = count;
            return list;
        }
        if (rc != NVML_ERROR_INSUFFICIENT_SIZE)
            break;
        room = count + 8;
    }
    free(list);
    return NULL;
}

static unsigned int merge_procs(GpuProc *procs, unsigned int count, const nvmlProcessInfo_t *list, unsigned int more,
                                const char *type)
{
    unsigned int known = count;

    for (unsigned int i = 0; i < more && count < GPU_PROC_MAX; i++) {
        unsigned int at = 0;
        while (at < known && (procs[at].pid != list[i].pid || procs[at].gi != list[i].gpuInstanceId ||
                              procs[at].ci != list[i].computeInstanceId))
            at++;
        if (at < known) {
            procs[at].type = *type == 'G' ? "C+G" : type;
            continue;
        }
        procs[count++] = (GpuProc){.pid = list[i].pid,
                                   .gi = list[i].gpuInstanceId,
                                   .ci = list[i].computeInstanceId,
                                   .type = type,
                                   .used_bytes = list[i].usedGpuMemory,
                                   .used_known = list[i].usedGpuMemory != ~0ull};
    }
    return count;
}

GpuProc *gpu_procs(Gpu *gpu, unsigned int *ret_count)
{
    const struct {
        ProcCall *call;
        const char *type;
    } lists[] = {{nvml.DeviceGetComputeRunningProcesses_v3, "C"},
                 {nvml.DeviceGetMPSComputeRunningProcesses_v3, "M+C"},
                 {nvml.DeviceGetGraphicsRunningProcesses_v3, "G"}};
    GpuProc *procs = calloc(GPU_PROC_MAX, sizeof(*procs));

    *ret_count = 0;
    for (size_t i = 0; procs && i < ARRAY_LEN(lists); i++) {
        unsigned int more;
        nvmlProcessInfo_t *list = list_procs(lists[i].call, gpu->handle, &more);
        *ret_count = merge_procs(procs, *ret_count, list, more, lists[i].type);
        free(list);
    }
    return procs;
}

/* The highest id that the driver's own header of its time had: NVML_FI_MAX was 200 until driver 550. */
static unsigned int field_limit(void)
{
    static unsigned int limit;
    char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";

    if (!limit) {
        (void)NV(SystemGetDriverVersion, version, sizeof(version));
        limit = strtoul(version, NULL, 10) < 550 ? 200 : NVML_FI_MAX;
    }
    return limit;
}

nvmlReturn_t gpu_field(Gpu *gpu, unsigned int id, nvmlFieldValue_t *ret)
{
    *ret = (nvmlFieldValue_t){.fieldId = id};
    if (id >= field_limit())
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t rc = NV(DeviceGetFieldValues, gpu->handle, 1, ret);
    return rc == NVML_SUCCESS ? ret->nvmlReturn : rc;
}

double gpu_field_number(const nvmlFieldValue_t *field)
{
    switch (field->valueType) {
    case NVML_VALUE_TYPE_DOUBLE:
        return field->value.dVal;
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        return field->value.uiVal;
    case NVML_VALUE_TYPE_SIGNED_INT:
        return field->value.siVal;
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        return (double)field->value.sllVal;
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        return field->value.usVal;
    default:
        return (double)field->value.ullVal;
    }
}
