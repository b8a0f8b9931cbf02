/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles and instances of a GPU. */
#include "sim/smi/mig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

static int by_size(const void *a, const void *b)
{
    const nvmlGpuInstanceProfileInfo_v2_t *x = a, *y = b;

    if (x->sliceCount != y->sliceCount)
        return x->sliceCount < y->sliceCount ? -1 : 1;
    if (x->memorySizeMB != y->memorySizeMB)
        return x->memorySizeMB < y->memorySizeMB ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

unsigned int mig_profiles(const Gpu *gpu, nvmlGpuInstanceProfileInfo_v2_t *out)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < MIG_PROFILES_MAX; i++) {
        nvmlGpuInstanceProfileInfo_v2_t *info = &out[count];
        *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = NVML_STRUCT_TAG(nvmlGpuInstanceProfileInfo_v2_t, 2)};
        count += NV(DeviceGetGpuInstanceProfileInfoV, gpu->handle, i, info) == NVML_SUCCESS;
    }
    qsort(out, count, sizeof(*out), by_size);
    return count;
}

/* Whether `id` is in "1,3"; NULL holds all. */
static bool chosen(const char *ids, unsigned int id)
{
    for (const char *at = ids; at && *at;) {
        char *end;
        if (strtoul(at, &end, 10) == id && end != at)
            return true;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return !ids;
}

static int by_instance_id(const void *a, const void *b)
{
    const MigInstance *x = a, *y = b;

    return x->info.id < y->info.id ? -1 : x->info.id > y->info.id;
}

unsigned int mig_instances(const Gpu *gpu, const char *only_ids, MigInstance *out)
{
    nvmlGpuInstanceProfileInfo_v2_t profiles[MIG_PROFILES_MAX];
    unsigned int profile_count = mig_profiles(gpu, profiles), count = 0;

    for (unsigned int i = 0; i < profile_count; i++) {
        nvmlGpuInstance_t handles[MIG_INSTANCES_MAX];
        unsigned int found = 0;
        if (NV(DeviceGetGpuInstances, gpu->handle, profiles[i].id, handles, &found) != NVML_SUCCESS)
            continue;
        for (unsigned int k = 0; k < found && count < MIG_INSTANCES_MAX; k++) {
            MigInstance *gi = &out[count];
            *gi = (MigInstance){.handle = handles[k], .profile = profiles[i]};
            count += NV(GpuInstanceGetInfo, handles[k], &gi->info) == NVML_SUCCESS && chosen(only_ids, gi->info.id);
        }
    }
    qsort(out, count, sizeof(*out), by_instance_id);
    return count;
}

unsigned int mig_compute_profiles(const MigInstance *gi, nvmlComputeInstanceProfileInfo_v2_t *out)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < MIG_CI_PROFILES; i++) {
        nvmlComputeInstanceProfileInfo_v2_t *info = &out[count];
        *info =
            (nvmlComputeInstanceProfileInfo_v2_t){.version = NVML_STRUCT_TAG(nvmlComputeInstanceProfileInfo_v2_t, 2)};
        count += NV(GpuInstanceGetComputeInstanceProfileInfoV, gi->handle, i, 0, info) == NVML_SUCCESS;
    }
    return count;
}

unsigned int mig_computes(const MigInstance *gi, const char *only_ids, MigCompute *out)
{
    nvmlComputeInstanceProfileInfo_v2_t profiles[MIG_CI_PROFILES];
    unsigned int profile_count = mig_compute_profiles(gi, profiles), count = 0;

    for (unsigned int i = 0; i < profile_count; i++) {
        nvmlComputeInstance_t handles[MIG_INSTANCES_MAX];
        unsigned int found = 0;
        if (NV(GpuInstanceGetComputeInstances, gi->handle, profiles[i].id, handles, &found) != NVML_SUCCESS)
            continue;
        for (unsigned int k = 0; k < found && count < MIG_INSTANCES_MAX; k++) {
            MigCompute *ci = &out[count];
            *ci = (MigCompute){.handle = handles[k], .profile = profiles[i]};
            count +=
                NV(ComputeInstanceGetInfo_v2, handles[k], &ci->info) == NVML_SUCCESS && chosen(only_ids, ci->info.id);
        }
    }
    return count;
}

const char *mig_bare_name(const char *name)
{
    return strncmp(name, "MIG ", 4) == 0 ? name + 4 : name;
}
