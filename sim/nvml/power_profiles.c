/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload power profiles (Blackwell and later): a client asks for some, the driver enforces those that do not conflict
 * with a stronger one. The simulated driver knows the first eight; they do not change how works run. Any thread may
 * call.
 */
#include <string.h>

#include "sim/nvml/change.h"

enum { PROFILES = 8, MASK_WORDS = 8 };

/* A smaller number is stronger. The two extremes exclude each other, and so do the kinds of work. */
typedef struct Profile {
    uint32_t priority, conflicts; /* conflicts: profiles as bits */
} Profile;
#define BIT(name) (1u << NVML_POWER_PROFILE_##name)
static const Profile profiles[PROFILES] = {
    [NVML_POWER_PROFILE_MAX_P] = {10, BIT(MAX_Q) | BIT(BALANCED)},
    [NVML_POWER_PROFILE_MAX_Q] = {20, BIT(MAX_P) | BIT(BALANCED)},
    [NVML_POWER_PROFILE_COMPUTE] = {30, BIT(MEMORY_BOUND) | BIT(NETWORK) | BIT(BALANCED)},
    [NVML_POWER_PROFILE_MEMORY_BOUND] = {40, BIT(COMPUTE) | BIT(NETWORK) | BIT(BALANCED)},
    [NVML_POWER_PROFILE_NETWORK] = {50, BIT(COMPUTE) | BIT(MEMORY_BOUND) | BIT(BALANCED)},
    [NVML_POWER_PROFILE_BALANCED] = {60, BIT(MAX_P) | BIT(MAX_Q) | BIT(COMPUTE) | BIT(MEMORY_BOUND) | BIT(NETWORK)},
    [NVML_POWER_PROFILE_LLM_INFERENCE] = {70, BIT(LLM_TRAINING)},
    [NVML_POWER_PROFILE_LLM_TRAINING] = {80, BIT(LLM_INFERENCE)},
};

static int offered(const NvmlCall *c)
{
    return c->board->arch >= NVML_DEVICE_ARCH_BLACKWELL;
}

/* Of those asked for, the ones that no stronger enforced one excludes. The table is in order of strength. */
static uint32_t enforced(uint32_t requested)
{
    uint32_t result = 0, excluded = 0;
    for (uint32_t i = 0; i < PROFILES; i++) {
        if (!(requested >> i & 1) || (excluded >> i & 1))
            continue;
        result |= 1u << i;
        excluded |= profiles[i].conflicts;
    }
    return result;
}

/* 0 when the mask names a profile that is not there. */
static int mask_read(const nvmlMask255_t *mask, uint32_t *ret)
{
    for (uint32_t i = 1; i < MASK_WORDS; i++)
        if (mask->mask[i])
            return 0;
    *ret = mask->mask[0];
    return *ret >> PROFILES == 0;
}

nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetProfilesInfo(nvmlDevice_t device,
                                                           nvmlWorkloadPowerProfileProfilesInfo_t *info)
{
    NvmlFn fn = NVML_FN_nvmlDeviceWorkloadPowerProfileGetProfilesInfo;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, info->version, nvmlWorkloadPowerProfileProfilesInfo_v1);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!offered(&c))
        return NVML_ERROR_NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->version = nvmlWorkloadPowerProfileProfilesInfo_v1;
    for (uint32_t i = 0; i < PROFILES; i++) {
        info->perfProfilesMask.mask[0] |= 1u << i;
        info->perfProfile[i].version = nvmlWorkloadPowerProfileInfo_v1;
        info->perfProfile[i].profileId = i;
        info->perfProfile[i].priority = profiles[i].priority;
        info->perfProfile[i].conflictingMask.mask[0] = profiles[i].conflicts;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(nvmlDevice_t device,
                                                              nvmlWorkloadPowerProfileCurrentProfiles_t *current)
{
    NvmlFn fn = NVML_FN_nvmlDeviceWorkloadPowerProfileGetCurrentProfiles;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!current)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, current->version, nvmlWorkloadPowerProfileCurrentProfiles_v1);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!offered(&c))
        return NVML_ERROR_NOT_SUPPORTED;
    uint32_t requested = c.now->cond.set[SIM_KEY_WORKLOAD_PROFILES];
    memset(current, 0, sizeof *current);
    current->version = nvmlWorkloadPowerProfileCurrentProfiles_v1;
    current->perfProfilesMask.mask[0] = (1u << PROFILES) - 1;
    current->requestedProfilesMask.mask[0] = requested;
    current->enforcedProfilesMask.mask[0] = enforced(requested);
    return NVML_SUCCESS;
}

/* Adds to, takes from or replaces what is asked for. */
static nvmlReturn_t update(const NvmlCall *c, nvmlPowerProfileOperation_t operation, const nvmlMask255_t *mask)
{
    uint32_t bits, old = c->now->cond.set[SIM_KEY_WORKLOAD_PROFILES];
    if ((unsigned)operation >= NVML_POWER_PROFILE_OPERATION_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!offered(c))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!mask_read(mask, &bits))
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t all = operation == NVML_POWER_PROFILE_OPERATION_CLEAR ? old & ~bits
                   : operation == NVML_POWER_PROFILE_OPERATION_SET ? old | bits
                                                                   : bits;
    return nvml_change_key(c, SIM_KEY_WORKLOAD_PROFILES, all);
}

static nvmlReturn_t request(NvmlFn fn, nvmlDevice_t device, nvmlPowerProfileOperation_t operation,
                            const nvmlWorkloadPowerProfileRequestedProfiles_t *requested)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!requested)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, requested->version, nvmlWorkloadPowerProfileRequestedProfiles_v1);
    return rc == NVML_SUCCESS ? update(&c, operation, &requested->requestedProfilesMask) : rc;
}

nvmlReturn_t nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(nvmlDevice_t device,
                                                                nvmlWorkloadPowerProfileRequestedProfiles_t *requested)
{
    return request(NVML_FN_nvmlDeviceWorkloadPowerProfileSetRequestedProfiles, device, NVML_POWER_PROFILE_OPERATION_SET,
                   requested);
}

nvmlReturn_t
nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(nvmlDevice_t device,
                                                     nvmlWorkloadPowerProfileRequestedProfiles_t *requested)
{
    return request(NVML_FN_nvmlDeviceWorkloadPowerProfileClearRequestedProfiles, device,
                   NVML_POWER_PROFILE_OPERATION_CLEAR, requested);
}

nvmlReturn_t nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(nvmlDevice_t device,
                                                             nvmlWorkloadPowerProfileUpdateProfiles_v1_t *request_v1)
{
    NvmlCall c;
    nvmlReturn_t rc =
        nvml_enter_device(NVML_FN_nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!request_v1)
        return NVML_ERROR_INVALID_ARGUMENT;
    return update(&c, request_v1->operation, &request_v1->updateProfilesMask);
}
