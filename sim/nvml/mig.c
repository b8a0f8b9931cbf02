/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG on a GPU: its mode, its MIG devices, GPU instance profiles and GPU instances. Compute instances are in
 * mig_compute.c. Every call looks at the condition of its own instant; nothing is kept but the tables of handles.
 */

#include <stdio.h>
#include <string.h>

#include "sim/nvml/getter.h"

struct nvmlGpuInstance_st {
    char address_only;
};
static struct nvmlGpuInstance_st handles[SIM_GPU_MAX][NVML_GI_IDS];

/* ---- handles ---- */
nvmlGpuInstance_t instance_handle(uint32_t gpu, uint32_t gi_id)
{
    return gpu < SIM_GPU_MAX && gi_id < NVML_GI_IDS ? &handles[gpu][gi_id] : NULL;
}

const SimGi *instance_find(const SimCond *cond, uint32_t gi_id)
{
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && cond->gi[i].id == gi_id)
            return &cond->gi[i];
    return NULL;
}

nvmlReturn_t instance_enter(NvmlFn fn, nvmlGpuInstance_t handle, InstanceCall *ret)
{
    uintptr_t at = (uintptr_t)handle - (uintptr_t)handles;
    if (at >= sizeof handles) {
        nvmlReturn_t rc = nvml_enter(fn, &ret->on.image);
        return rc != NVML_SUCCESS ? rc : NVML_ERROR_INVALID_ARGUMENT;
    }
    nvmlReturn_t rc = nvml_enter_device(fn, nvml_handle_gpu((uint32_t)(at / NVML_GI_IDS)), NVML_TAKES_GPU, &ret->on);
    if (rc != NVML_SUCCESS)
        return rc;
    const SimGi *gi = instance_find(&ret->on.now->cond, (uint32_t)(at % NVML_GI_IDS));
    if (!gi || gi->profile >= ret->on.board->profile_count) {
        nvml_strict(fn, "handle of a destroyed GPU instance %u", (unsigned)(at % NVML_GI_IDS));
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ret->gi = *gi;
    ret->profile = &ret->on.board->profiles[gi->profile];
    return NVML_SUCCESS;
}

/* ---- mode and MIG devices ---- */
NVML_GETTER_PAIR(nvmlDeviceGetMigMode, NVML_TAKES_GPU, unsigned int, c.board->has_mig, c.now->cond.mig_mode,
                 c.now->cond.mig_pending)

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceSetMigMode, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!activation || mode > NVML_DEVICE_MIG_ENABLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_mig)
        return NVML_ERROR_NOT_SUPPORTED;
    rc = nvml_change(&c, (SimOp){.type = SIM_OP_MIG_MODE, .a = {(int32_t)mode}}, NULL);
    if (rc == NVML_ERROR_IN_USE) { /* the request is valid; what fails is making it true */
        *activation = rc;
        return NVML_SUCCESS;
    }
    if (rc != NVML_SUCCESS)
        return rc;
    const SimNow *now = sim_state_now(c.image, c.gpu);
    *activation = now->cond.mig_mode == mode ? NVML_SUCCESS : NVML_ERROR_RESET_REQUIRED;
    return NVML_SUCCESS;
}

NVML_GETTER(nvmlDeviceIsMigDeviceHandle, NVML_TAKES_ANY, unsigned int, 1, c.mig)

/* Zero when MIG is off or not there at all. */
NVML_GETTER(nvmlDeviceGetMaxMigDeviceCount, NVML_TAKES_GPU, unsigned int, 1,
            c.now->cond.mig_mode ? c.board->mig_max_devices : 0)

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetMigDeviceHandleByIndex, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!mig)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_mig)
        return NVML_ERROR_NOT_SUPPORTED;
    if (index >= c.board->mig_max_devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    const SimCond *cond = &c.now->cond;
    uint32_t gi, ci;
    if (!cond->mig_mode || !sim_mig_device(cond, index, &gi, &ci))
        return NVML_ERROR_NOT_FOUND;
    nvmlDevice_t handle = nvml_handle_mig(c.gpu, cond->gi[gi].id, cond->ci[ci].id);
    if (!handle)
        return NVML_ERROR_NOT_FOUND;
    *mig = handle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig, NVML_TAKES_ANY, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!device || !c.mig)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = nvml_handle_gpu(c.gpu);
    return NVML_SUCCESS;
}

NVML_GETTER(nvmlDeviceGetGpuInstanceId, NVML_TAKES_ANY, unsigned int, c.mig, c.gi.id)
NVML_GETTER(nvmlDeviceGetComputeInstanceId, NVML_TAKES_ANY, unsigned int, c.mig, c.ci.id)

/* Writes as much of the attributes as the caller's struct holds. */
static nvmlReturn_t read_attributes(NvmlFn fn, nvmlDevice_t device, void *out, size_t size)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.mig || c.gi.profile >= c.board->profile_count)
        return NVML_ERROR_NOT_SUPPORTED;
    const SimProfile *p = &c.board->profiles[c.gi.profile];
    nvmlDeviceAttributes_t a = {
        .multiprocessorCount = c.ci.sm,
        .sharedCopyEngineCount = p->copy,
        .sharedDecoderCount = p->dec,
        .sharedEncoderCount = p->enc,
        .sharedJpegCount = p->jpg,
        .sharedOfaCount = p->ofa,
        .gpuInstanceSliceCount = p->slices,
        .computeInstanceSliceCount = c.ci.size,
        .memorySizeMB = p->memory_mib,
    };
    memcpy(out, &a, size);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_v1_t *attr)
{
    return read_attributes(NVML_FN_nvmlDeviceGetAttributes, device, attr, sizeof *attr);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attr)
{
    return read_attributes(NVML_FN_nvmlDeviceGetAttributes_v2, device, attr, sizeof *attr);
}

/* ---- GPU instance profiles ---- */
static const SimProfile *profile_by_index(const SimBoard *board, unsigned int index)
{
    for (uint32_t i = 0; board->has_mig && i < board->profile_count; i++)
        if (board->profiles[i].index == index)
            return &board->profiles[i];
    return NULL;
}

/* The position in the board's list, SIM_NONE when the board has no such profile. */
static int profile_by_id(const SimBoard *board, unsigned int id)
{
    for (uint32_t i = 0; board->has_mig && i < board->profile_count; i++)
        if (board->profiles[i].id == id)
            return (int)i;
    return SIM_NONE;
}

/* Members that all versions of the struct have. */
#define PROFILE_INFO(p)                                                                                                \
    .id = (p)->id, .sliceCount = (p)->slices, .instanceCount = (p)->max_instances, .multiprocessorCount = (p)->sm,     \
    .copyEngineCount = (p)->copy, .decoderCount = (p)->dec, .encoderCount = (p)->enc, .jpegCount = (p)->jpg,           \
    .ofaCount = (p)->ofa, .memorySizeMB = (p)->memory_mib

static unsigned int is_p2p(const SimProfile *p)
{
    return p->capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_P2P ? 1 : 0;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetGpuInstanceProfileInfo, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info || profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    const SimProfile *p = profile_by_index(c.board, profile);
    if (!p)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlGpuInstanceProfileInfo_t){PROFILE_INFO(p), .isP2pSupported = is_p2p(p)};
    return NVML_SUCCESS;
}

static void fill_v2(const SimProfile *p, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v2_t){PROFILE_INFO(p), .version = nvmlGpuInstanceProfileInfo_v2,
                                              .isP2pSupported = is_p2p(p)};
    snprintf(info->name, sizeof info->name, "MIG %s", p->name);
}

static void fill_v3(const SimProfile *p, nvmlGpuInstanceProfileInfo_v3_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v3_t){PROFILE_INFO(p), .version = nvmlGpuInstanceProfileInfo_v3,
                                              .capabilities = p->capabilities};
    snprintf(info->name, sizeof info->name, "MIG %s", p->name);
}

/* The two struct versions are of one size; the tag says which one the caller has. */
static nvmlReturn_t profile_info_v(NvmlFn fn, nvmlDevice_t device, unsigned int key,
                                   nvmlGpuInstanceProfileInfo_v2_t *info)
{
    int by_id = fn == NVML_FN_nvmlDeviceGetGpuInstanceProfileInfoByIdV;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info || (!by_id && key >= NVML_GPU_INSTANCE_PROFILE_COUNT))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int tag = info->version;
    if (tag != nvmlGpuInstanceProfileInfo_v3) {
        rc = nvml_check_tag(fn, tag, nvmlGpuInstanceProfileInfo_v2);
        if (rc != NVML_SUCCESS)
            return rc;
    }
    int at = by_id ? profile_by_id(c.board, key) : SIM_NONE;
    const SimProfile *p = by_id ? (at == SIM_NONE ? NULL : &c.board->profiles[at]) : profile_by_index(c.board, key);
    if (!p)
        return NVML_ERROR_NOT_SUPPORTED;
    if (tag == nvmlGpuInstanceProfileInfo_v2) {
        fill_v2(p, info);
        return NVML_SUCCESS;
    }
    nvmlGpuInstanceProfileInfo_v3_t v3;
    fill_v3(p, &v3);
    memcpy(info, &v3, sizeof v3);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    return profile_info_v(NVML_FN_nvmlDeviceGetGpuInstanceProfileInfoV, device, profile, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int profile_id,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info)
{
    return profile_info_v(NVML_FN_nvmlDeviceGetGpuInstanceProfileInfoByIdV, device, profile_id, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profile_id,
                                                       unsigned int *count)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetGpuInstanceRemainingCapacity, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    int at = profile_by_id(c.board, profile_id);
    if (at == SIM_NONE || !c.now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = sim_mig_capacity(c.board, &c.now->cond, (uint32_t)at);
    return NVML_SUCCESS;
}

/* All starts that the profile has, taken or not, and whether MIG is on or not. */
static nvmlReturn_t placements_of(NvmlFn fn, nvmlDevice_t device, unsigned int profile_id,
                                  nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    int at = profile_by_id(c.board, profile_id);
    if (at == SIM_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    const SimProfile *p = &c.board->profiles[at];
    *count = p->place_count; /* output only: a caller with an array has read the number before */
    for (uint32_t i = 0; placements && i < p->place_count && i < SIM_PLACE_MAX; i++)
        placements[i] = (nvmlGpuInstancePlacement_t){.start = p->place_start[i], .size = p->place_size};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int profile_id,
                                                        nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    return placements_of(NVML_FN_nvmlDeviceGetGpuInstancePossiblePlacements, device, profile_id, placements, count);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int profile_id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    return placements_of(NVML_FN_nvmlDeviceGetGpuInstancePossiblePlacements_v2, device, profile_id, placements, count);
}

/* ---- GPU instances ---- */
static int may_start_at(const SimProfile *p, const nvmlGpuInstancePlacement_t *want)
{
    if (want->size != p->place_size)
        return 0;
    for (uint32_t i = 0; i < p->place_count && i < SIM_PLACE_MAX; i++)
        if (p->place_start[i] == want->start)
            return 1;
    return 0;
}

/* Creates where the driver would, or at `want`. */
static nvmlReturn_t create_gi(const NvmlCall *c, unsigned int profile_id, const nvmlGpuInstancePlacement_t *want,
                              nvmlGpuInstance_t *instance)
{
    if (!c->board->has_mig || !c->now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    int at = profile_by_id(c->board, profile_id);
    if (at == SIM_NONE || (want && !may_start_at(&c->board->profiles[at], want)))
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t id = NVML_GI_IDS;
    SimOp op = {.type = SIM_OP_GI_CREATE, .a = {at, want ? (int32_t)want->start : SIM_NONE}};
    nvmlReturn_t rc = nvml_change(c, op, &id);
    if (rc != NVML_SUCCESS)
        return rc;
    *instance = instance_handle(c->gpu, id);
    return *instance ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t *instance)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceCreateGpuInstance, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    return instance ? create_gi(&c, profile_id, NULL, instance) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile_id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *instance)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceCreateGpuInstanceWithPlacement, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    return instance && placement ? create_gi(&c, profile_id, placement, instance) : NVML_ERROR_INVALID_ARGUMENT;
}

/* `count` is output only: the caller's array holds as many as the profile's instanceCount. */
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t *instances,
                                       unsigned int *count)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetGpuInstances, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!instances || !count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_mig || !c.now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    int at = profile_by_id(c.board, profile_id);
    if (at == SIM_NONE)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_need_root();
    if (rc != NVML_SUCCESS)
        return rc;
    unsigned int n = 0;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
        const SimGi *gi = &c.now->cond.gi[i];
        if (gi->used && gi->profile == at)
            instances[n++] = instance_handle(c.gpu, gi->id);
    }
    *count = n;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetGpuInstanceById, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_mig || !c.now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!instance_find(&c.now->cond, id))
        return NVML_ERROR_NOT_FOUND;
    *instance = instance_handle(c.gpu, id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceGetInfo, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlGpuInstanceInfo_t){
        .device = nvml_handle_gpu(c.on.gpu),
        .id = c.gi.id,
        .profileId = c.profile->id,
        .placement = {.start = c.gi.start, .size = c.gi.size},
    };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    InstanceCall c;
    nvmlReturn_t rc = instance_enter(NVML_FN_nvmlGpuInstanceDestroy, instance, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    return nvml_change(&c.on, (SimOp){.type = SIM_OP_GI_DESTROY, .a = {(int32_t)c.gi.id}}, NULL);
}
