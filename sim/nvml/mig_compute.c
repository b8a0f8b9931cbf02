/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compute instances of a GPU instance: profiles, placements, creation, look-up and end. Any thread may call.
 */
#include <stdio.h>
#include <string.h>

#include "sim/nvml/process.h"

struct nvmlComputeInstance_st {
    char address_only;
};
static struct nvmlComputeInstance_st handles[SIM_GPU_MAX][NVML_GI_IDS][NVML_CI_IDS];

typedef struct ComputeCall {
    InstanceCall in;
    SimCi ci;
} ComputeCall;

static nvmlComputeInstance_t compute_handle(uint32_t gpu, uint32_t gi_id, uint32_t ci_id)
{
    return gpu < SIM_GPU_MAX && gi_id < NVML_GI_IDS && ci_id < NVML_CI_IDS ? &handles[gpu][gi_id][ci_id] : NULL;
}

static const SimCi *find_ci(const SimCond *cond, uint32_t gi_id, uint32_t ci_id)
{
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == gi_id && cond->ci[i].id == ci_id)
            return &cond->ci[i];
    return NULL;
}

/* What is no handle, and a handle whose instance is gone, gets INVALID_ARGUMENT. */
static nvmlReturn_t compute_enter(NvmlFn fn, nvmlComputeInstance_t handle, ComputeCall *ret)
{
    uintptr_t at = (uintptr_t)handle - (uintptr_t)handles;
    int known = at < sizeof handles;
    uint32_t gpu = (uint32_t)(at / (NVML_GI_IDS * NVML_CI_IDS)), gi = (uint32_t)(at / NVML_CI_IDS % NVML_GI_IDS);
    nvmlReturn_t rc = instance_enter(fn, known ? instance_handle(gpu, gi) : NULL, &ret->in);
    if (rc != NVML_SUCCESS)
        return rc;
    const SimCi *ci = find_ci(&ret->in.on.now->cond, gi, (uint32_t)(at % NVML_CI_IDS));
    if (!ci) {
        nvml_strict(fn, "handle of a destroyed compute instance %u of GPU instance %u", (unsigned)(at % NVML_CI_IDS),
                    gi);
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ret->ci = *ci;
    return NVML_SUCCESS;
}

/* Slices of a profile inside the instance's profile; 0 when it is not offered. */
static uint32_t slices_of(const InstanceCall *c, unsigned int profile)
{
    uint32_t sm = 0;
    return profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT ? sim_ci_slices(c->profile, profile, &sm) : 0;
}

/* ---- profiles ---- */
/* Fills a v3; the older structs are made from it. */
static nvmlReturn_t profile_info(const InstanceCall *c, unsigned int profile, unsigned int engine,
                                 nvmlComputeInstanceProfileInfo_v3_t *ret)
{
    if (profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engine >= NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t sm = 0;
    uint32_t slices = sim_ci_slices(c->profile, profile, &sm);
    if (slices == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    const SimProfile *p = c->profile;
    *ret = (nvmlComputeInstanceProfileInfo_v3_t){
        .version = nvmlComputeInstanceProfileInfo_v3,
        .id = profile,
        .sliceCount = slices,
        .instanceCount = p->slices / slices,
        .multiprocessorCount = sm,
        .sharedCopyEngineCount = p->copy,
        .sharedDecoderCount = p->dec,
        .sharedEncoderCount = p->enc,
        .sharedJpegCount = p->jpg,
        .sharedOfaCount = p->ofa,
        .capabilities = p->capabilities,
    };
    if (slices == p->slices)
        snprintf(ret->name, sizeof ret->name, "MIG %s", p->name);
    else
        snprintf(ret->name, sizeof ret->name, "MIG %uc.%s", slices, p->name);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
                                                          unsigned int engine_profile,
                                                          nvmlComputeInstanceProfileInfo_t *info)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlComputeInstanceProfileInfo_v3_t all;
    rc = profile_info(&c, profile, engine_profile, &all);
    if (rc == NVML_SUCCESS) /* the first version is the newest without tag and tail */
        memcpy(info, &all.id, sizeof *info);
    return rc;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
                                                           unsigned int engine_profile,
                                                           nvmlComputeInstanceProfileInfo_v2_t *info)
{
    NvmlFn fn = NVML_FN_nvmlGpuInstanceGetComputeInstanceProfileInfoV;
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(fn, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int tag = info->version;
    if (tag != nvmlComputeInstanceProfileInfo_v3) {
        rc = nvml_check_tag(fn, tag, nvmlComputeInstanceProfileInfo_v2);
        if (rc != NVML_SUCCESS)
            return rc;
    }
    nvmlComputeInstanceProfileInfo_v3_t all;
    rc = profile_info(&c, profile, engine_profile, &all);
    if (rc != NVML_SUCCESS)
        return rc;
    all.version = tag; /* v2 is the head of v3 */
    memcpy(info, &all, tag == nvmlComputeInstanceProfileInfo_v3 ? sizeof all : sizeof *info);
    return NVML_SUCCESS;
}

/* The condition with one more compute instance, or NULL when the table is full. */
static SimCi *add_virtual(SimCond *cond, const SimGi *gi, uint32_t start, uint32_t slices)
{
    for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
        if (cond->ci[i].used)
            continue;
        cond->ci[i] = (SimCi){.used = 1, .start = (uint8_t)start, .size = (uint8_t)slices, .gi_id = gi->id};
        return &cond->ci[i];
    }
    return NULL;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int profile_id,
                                                                unsigned int *count)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceGetComputeInstanceRemainingCapacity, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t slices = slices_of(&c, profile_id);
    if (slices == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    SimCond cond = c.on.now->cond;
    unsigned int n = 0;
    for (;;) {
        int start = sim_ci_place(c.on.board, &cond, &c.gi, slices, SIM_NONE);
        if (start == SIM_NONE || !add_virtual(&cond, &c.gi, (uint32_t)start, slices))
            break;
        n++;
    }
    *count = n;
    return NVML_SUCCESS;
}

/* All starts in an empty GPU instance; capacity is looked at only when there is an array. */
nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int profile_id,
                                                                 nvmlComputeInstancePlacement_t *placements,
                                                                 unsigned int *count)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceGetComputeInstancePossiblePlacements, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t slices = slices_of(&c, profile_id);
    if (slices == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    SimCond empty = c.on.now->cond;
    memset(empty.ci, 0, sizeof empty.ci);
    nvmlComputeInstancePlacement_t all[NVML_CI_IDS]; /* a GPU instance has at most 8 slices */
    unsigned int n = 0;
    for (int start = 0; start < (int)c.profile->slices && n < NVML_CI_IDS; start++)
        if (sim_ci_place(c.on.board, &empty, &c.gi, slices, start) == start)
            all[n++] = (nvmlComputeInstancePlacement_t){.start = (unsigned)start, .size = slices};
    *count = n;
    if (placements)
        memcpy(placements, all, n * sizeof *all);
    return NVML_SUCCESS;
}

/* ---- instances ---- */
static nvmlReturn_t create_ci(const InstanceCall *c, unsigned int profile_id,
                              const nvmlComputeInstancePlacement_t *want, nvmlComputeInstance_t *compute)
{
    uint32_t slices = slices_of(c, profile_id);
    if (slices == 0 || (want && (want->size != slices || want->start >= c->profile->slices)))
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t id = NVML_CI_IDS;
    SimOp op = {.type = SIM_OP_CI_CREATE,
                .a = {(int32_t)c->gi.id, (int32_t)profile_id, want ? (int32_t)want->start : SIM_NONE}};
    nvmlReturn_t rc = nvml_change(&c->on, op, &id);
    if (rc != NVML_SUCCESS)
        return rc;
    *compute = compute_handle(c->on.gpu, c->gi.id, id);
    return *compute ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int profile_id,
                                                  nvmlComputeInstance_t *compute)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceCreateComputeInstance, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    return compute ? create_ci(&c, profile_id, NULL, compute) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int profile_id,
                                                               const nvmlComputeInstancePlacement_t *placement,
                                                               nvmlComputeInstance_t *compute)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceCreateComputeInstanceWithPlacement, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    return compute && placement ? create_ci(&c, profile_id, placement, compute) : NVML_ERROR_INVALID_ARGUMENT;
}

/* `count` is output only, as for GPU instances. */
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profile_id,
                                                nvmlComputeInstance_t *computes, unsigned int *count)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceGetComputeInstances, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!computes || !count || slices_of(&c, profile_id) == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int n = 0;
    for (uint32_t i = 0; i < SIM_CI_MAX; i++) {
        const SimCi *ci = &c.on.now->cond.ci[i];
        if (ci->used && ci->gi_id == c.gi.id && ci->profile == profile_id)
            computes[n++] = compute_handle(c.on.gpu, c.gi.id, ci->id);
    }
    *count = n;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
                                                   nvmlComputeInstance_t *compute)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceGetComputeInstanceById, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!compute)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!find_ci(&c.on.now->cond, c.gi.id, id))
        return NVML_ERROR_NOT_FOUND;
    *compute = compute_handle(c.on.gpu, c.gi.id, id);
    return NVML_SUCCESS;
}

/* Writes as much as the caller's struct holds. */
static nvmlReturn_t info_of(NvmlFn fn, nvmlComputeInstance_t compute, void *out, size_t size)
{
    ComputeCall c;
    nvmlReturn_t rc = compute_enter(fn, compute, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlComputeInstanceInfo_t info = {
        .device = nvml_handle_gpu(c.in.on.gpu),
        .gpuInstance = instance_handle(c.in.on.gpu, c.in.gi.id),
        .id = c.ci.id,
        .profileId = c.ci.profile,
        .placement = {.start = c.ci.start, .size = c.ci.size},
    };
    memcpy(out, &info, size);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_v1_t *info)
{
    return info_of(NVML_FN_nvmlComputeInstanceGetInfo, compute, info, sizeof *info);
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info)
{
    return info_of(NVML_FN_nvmlComputeInstanceGetInfo_v2, compute, info, sizeof *info);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute)
{
    ComputeCall c;
    nvmlReturn_t rc = compute_enter(NVML_FN_nvmlComputeInstanceDestroy, compute, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    SimOp op = {.type = SIM_OP_CI_DESTROY, .a = {(int32_t)c.in.gi.id, (int32_t)c.ci.id}};
    return nvml_change(&c.in.on, op, NULL);
}
