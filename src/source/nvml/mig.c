/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG devices. They are counted and named every time, since the driver does not report changes: a handle per place and
 * a UUID per handle. More is read only where these changed.
 */

#include "source/nvml/readers.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"

typedef struct Found {
    nvmlDevice_t handle;
    uint32_t index, gpu_instance, compute_instance;
    char uuid[DEVICE_UUID_CAP];
} Found;

typedef struct FoundList {
    uint32_t count;
    Found items[NODE_INSTANCES_MAX];
} FoundList;

static NvmlInstance *pool_of(NvmlGpu *gpu)
{
    return gpu->mig.pool[gpu->mig.now];
}

void nvml_mig_forget(NvmlGpu *gpu)
{
    NvmlInstance *pool = pool_of(gpu);

    for (uint32_t i = 0; i < gpu->mig.count; i++)
        nvml_gpm_free(gpu, &pool[i].gpm);
    gpu->mig.count = 0;
}

/* ---- the mode ---- */

static bool mode_is_on(NvmlGpu *gpu)
{
    unsigned int current = 0, pending = 0;
    nvmlReturn_t r = NVML_ERROR_NOT_SUPPORTED;
    Absence why = ABSENCE_NOT_SUPPORTED;
    NvmlNumber number;

    if (!gpu->no_mig) {
        r = NVML_GPU_CALL(gpu, nvmlDeviceGetMigMode, (gpu->handle, &current, &pending));
        why = nvml_gpu_count_answer(gpu, r);
    }
    if (r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND)
        gpu->no_mig = true;
    gpu->reading.mig_known = r == NVML_SUCCESS;
    number = r == NVML_SUCCESS ? nvml_whole(current) : nvml_lacking(why);
    if (nvml_gpu_wants(gpu, METRIC_MIG_MODE))
        nvml_sample_set(metric_get(METRIC_MIG_MODE), number, nvml_gpu_now(gpu), &gpu->reading.sample[METRIC_MIG_MODE]);
    return r == NVML_SUCCESS && current == NVML_DEVICE_MIG_ENABLE;
}

/* ---- the devices ---- */

static void find_one(NvmlGpu *gpu, uint32_t index, FoundList *list)
{
    Found *found = &list->items[list->count];

    if (list->count == NODE_INSTANCES_MAX)
        return;
    *found = (Found){.index = index};
    const nvmlReturn_t r =
        NVML_GPU_CALL(gpu, nvmlDeviceGetMigDeviceHandleByIndex, (gpu->handle, index, &found->handle));
    if (r == NVML_SUCCESS &&
        NVML_GPU_CALL(gpu, nvmlDeviceGetUUID, (found->handle, found->uuid, sizeof found->uuid)) == NVML_SUCCESS)
        list->count++;
    else if (r != NVML_ERROR_NOT_FOUND) /* that is a place without a device */
        gpu->reading.mig_known = false;
}

static void find_all(NvmlGpu *gpu, FoundList *list)
{
    unsigned int places = 0;

    list->count = 0;
    if (!gpu->reading.mig)
        return;
    if (NVML_GPU_CALL(gpu, nvmlDeviceGetMaxMigDeviceCount, (gpu->handle, &places)) != NVML_SUCCESS) {
        gpu->reading.mig_known = false;
        return;
    }
    for (unsigned int i = 0; i < places && i < NODE_INSTANCES_MAX && !gpu->target.trouble; i++)
        find_one(gpu, i, list);
}

static NvmlInstance *find_instance(NvmlInstance *pool, uint32_t count, const char *uuid)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(pool[i].reading.device.uuid, uuid) == 0)
            return &pool[i];
    return NULL;
}

/* The same devices as before: their handles are renewed, no more. */
static bool renew_handles(NvmlGpu *gpu, const FoundList *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        NvmlInstance *before = find_instance(pool_of(gpu), gpu->mig.count, list->items[i].uuid);
        if (!before)
            return false;
        before->handle = list->items[i].handle;
    }
    return list->count == gpu->mig.count;
}

/* Whether a second look finds the same devices, each once. Who changes a layout moves the rest to other places, so that
 * a look in between finds one device twice, or misses one. */
static bool is_confirmed(NvmlGpu *gpu, const FoundList *list)
{
    FoundList again;

    find_all(gpu, &again);
    if (again.count != list->count)
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(again.items[i].uuid, list->items[i].uuid) != 0)
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(list->items[k].uuid, list->items[i].uuid) == 0)
                return false;
    }
    return true;
}

/* Those that vanish between two questions are left out. */
static void ask_numbers(NvmlGpu *gpu, FoundList *list)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        Found *found = &list->items[i];
        if (NVML_GPU_CALL(gpu, nvmlDeviceGetGpuInstanceId, (found->handle, &found->gpu_instance)) != NVML_SUCCESS ||
            NVML_GPU_CALL(gpu, nvmlDeviceGetComputeInstanceId, (found->handle, &found->compute_instance)) !=
                NVML_SUCCESS)
            continue;
        list->items[kept++] = *found;
    }
    gpu->reading.mig_known &= kept == list->count;
    list->count = kept;
}

static int by_numbers(const void *a, const void *b)
{
    const Found *x = a, *y = b;

    return x->gpu_instance != y->gpu_instance ? number_compare_u64(x->gpu_instance, y->gpu_instance)
                                              : number_compare_u64(x->compute_instance, y->compute_instance);
}

static void read_profile(NvmlGpu *gpu, NvmlInstance *instance)
{
    Reading *reading = &instance->reading;
    nvmlDeviceAttributes_t attributes = {0};
    char name[DEVICE_NAME_CAP] = "";

    if (NVML_GPU_CALL(gpu, nvmlDeviceGetName, (instance->handle, name, sizeof name)) == NVML_SUCCESS)
        nvml_profile_from_name(name, reading->profile, sizeof reading->profile);
    if (reading->profile[0])
        return;
    if (NVML_GPU_CALL(gpu, nvmlDeviceGetAttributes_v2, (instance->handle, &attributes)) == NVML_SUCCESS)
        nvml_profile_from_attributes(&attributes, reading->profile, sizeof reading->profile);
}

/* Values that an instance does not have, and those it may have but were not read yet. */
static void start_samples(NvmlGpu *gpu, Reading *reading)
{
    const uint64_t now = nvml_gpu_now(gpu);

    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);
        Sample *sample = &reading->sample[id];
        if (metric->pace == METRIC_PACE_DERIVE || metric->type == METRIC_LABEL)
            continue;
        if (metric->scope == METRIC_SCOPE_GPU || metric->scope == METRIC_SCOPE_LINK)
            sample_set_absent(sample, now, ABSENCE_NOT_SUPPORTED);
        else if (!nvml_gpu_wants(gpu, id))
            sample_set_absent(sample, now, ABSENCE_TURNED_OFF);
        else if (gpu->reader->plan.lacking[id])
            sample_set_absent(sample, now, ABSENCE_DRIVER_LACKS);
        else if (!sample->valid && (sample->time_ns == 0 || sample->absence == ABSENCE_TURNED_OFF))
            sample_set_absent(sample, now, ABSENCE_NO_DATA);
    }
}

static void start_instance(NvmlGpu *gpu, NvmlInstance *instance, const Found *found)
{
    Reading *reading = &instance->reading;

    *instance = (NvmlInstance){.handle = found->handle};
    reading_init(reading, DEVICE_COMPUTE_INSTANCE);
    reading->device = gpu->reading.device;
    reading->device.kind = DEVICE_COMPUTE_INSTANCE;
    reading->device.index = found->index;
    reading->device.gpu_instance = found->gpu_instance;
    reading->device.compute_instance = found->compute_instance;
    memcpy(reading->device.parent_uuid, gpu->reading.device.uuid, sizeof reading->device.parent_uuid);
    memcpy(reading->device.uuid, found->uuid, sizeof reading->device.uuid);
    read_profile(gpu, instance);
}

static void rebuild_instances(NvmlGpu *gpu, FoundList *list)
{
    NvmlInstance *old = pool_of(gpu), *fresh = gpu->mig.pool[!gpu->mig.now];

    ask_numbers(gpu, list);
    qsort(list->items, list->count, sizeof list->items[0], by_numbers);
    for (uint32_t i = 0; i < list->count; i++) {
        NvmlInstance *before = find_instance(old, gpu->mig.count, list->items[i].uuid);
        if (before)
            fresh[i] = *before;
        else
            start_instance(gpu, &fresh[i], &list->items[i]);
        if (before)
            before->gpm = (NvmlGpm){0};
        fresh[i].handle = list->items[i].handle;
        fresh[i].gpm.instance = list->items[i].gpu_instance;
        fresh[i].reading.instance_head = i == 0 || list->items[i].gpu_instance != list->items[i - 1].gpu_instance;
    }
    nvml_mig_forget(gpu);
    gpu->mig.now = !gpu->mig.now;
    gpu->mig.count = list->count;
}

static void refresh_instances(NvmlGpu *gpu)
{
    NvmlInstance *pool = pool_of(gpu);

    for (uint32_t i = 0; i < gpu->mig.count; i++) {
        memcpy(pool[i].reading.text, gpu->reading.text, sizeof gpu->reading.text);
        start_samples(gpu, &pool[i].reading);
    }
}

void nvml_mig_find(NvmlGpu *gpu)
{
    const bool was = gpu->reading.mig;
    FoundList list;

    gpu->reading.mig = mode_is_on(gpu);
    find_all(gpu, &list);
    if (gpu->target.trouble) { /* a GPU that is lost is split as it was */
        gpu->reading.mig = was;
        gpu->reading.mig_known = false;
        return;
    }
    if (gpu->reading.mig != was) {
        gpu->links = nvml_fields_links(gpu);
        gpu->gpm.seeded = false;
    }
    if (!renew_handles(gpu, &list)) {
        if (is_confirmed(gpu, &list))
            rebuild_instances(gpu, &list);
        else
            gpu->reading.mig_known = false; /* the next pass finds them */
    }
    refresh_instances(gpu);
}

/* ---- memory of a device ---- */

void nvml_mig_read(NvmlGpu *gpu)
{
    static const MetricId ids[] = {METRIC_FB_TOTAL, METRIC_FB_FREE, METRIC_FB_USED, METRIC_FB_RESERVED};
    NvmlInstance *pool = pool_of(gpu);
    bool wanted = false;

    for (size_t k = 0; k < ARRAY_LEN(ids); k++)
        wanted |= nvml_gpu_wants(gpu, ids[k]);
    for (uint32_t i = 0; wanted && i < gpu->mig.count && !gpu->target.trouble; i++) {
        NvmlNumber numbers[ARRAY_LEN(ids)] = {{0}};
        const nvmlReturn_t answer = nvml_read_memory(gpu, pool[i].handle, numbers);
        const Absence why = nvml_gpu_count_answer(gpu, answer);
        for (size_t k = 0; k < ARRAY_LEN(ids); k++)
            if (nvml_gpu_wants(gpu, ids[k]))
                nvml_sample_set(metric_get(ids[k]), answer == NVML_SUCCESS ? numbers[k] : nvml_lacking(why),
                                nvml_gpu_now(gpu), &pool[i].reading.sample[ids[k]]);
    }
}
