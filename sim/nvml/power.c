/* SPDX-License-Identifier: Apache-2.0 */
/* Power, its limits, energy, workload power profiles, temperatures and fans. */
#include <string.h>

#include "sim/nvml/getter.h"

/* --- power ------------------------------------------------------------------------------------------------------- */

/* From Ampere on the reading is a mean of one second; GA100 (8.0) and what came before show the instant. */
static double power_w(const NvmlCall *c)
{
    const SimBoard *b = c->board;
    const int is_mean = b->arch > NVML_DEVICE_ARCH_AMPERE || (b->arch == NVML_DEVICE_ARCH_AMPERE && b->cc_minor != 0);
    return is_mean ? c->now->watt_mean : c->now->watt;
}

/* The requested profiles, or the board's default. */
static unsigned int limit_mw(const NvmlCall *c)
{
    const unsigned int asked = c->now->cond.set[SIM_KEY_POWER_LIMIT_MW];
    return asked ? asked : c->board->power_default_mw;
}

NVML_GETTER(nvmlDeviceGetPowerUsage, NVML_TAKES_GPU, unsigned int, 1, nvml_round(power_w(&c) * 1000))
NVML_GETTER(nvmlDeviceGetPowerManagementMode, NVML_TAKES_GPU, nvmlEnableState_t, 1, NVML_FEATURE_ENABLED)
NVML_GETTER(nvmlDeviceGetPowerManagementLimit, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0, limit_mw(&c))
NVML_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0,
            c.board->power_default_mw)
NVML_GETTER_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0,
                 c.board->power_min_mw, c.board->power_max_mw)
NVML_GETTER(nvmlDeviceGetEnforcedPowerLimit, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0,
            nvml_round(c.now->limit_w * 1000))
NVML_GETTER(nvmlDeviceGetTotalEnergyConsumption, NVML_TAKES_GPU, unsigned long long,
            c.board->arch >= NVML_DEVICE_ARCH_VOLTA, nvml_round(c.now->energy_mj))
NVML_GETTER(nvmlDeviceGetPowerSource, NVML_TAKES_GPU, nvmlPowerSource_t, 1, NVML_POWER_SOURCE_AC)

/* --- workload power profiles ------------------------------------------------------------------------------------- */

/*
 * Workload power profiles (Blackwell and later): a client asks for some, the driver enforces those that do not conflict
 * with a stronger one. The simulated driver knows the first eight; they do not change how works run. Any thread may
 * call.
 */

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

static int has_profiles(const NvmlCall *c)
{
    return c->board->arch >= NVML_DEVICE_ARCH_BLACKWELL;
}

/* Of those asked for, the ones that no stronger enforced one excludes. The table is in order of strength. */
static uint32_t enforced_mask(uint32_t requested)
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
    if (!has_profiles(&c))
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
    if (!has_profiles(&c))
        return NVML_ERROR_NOT_SUPPORTED;
    uint32_t requested = c.now->cond.set[SIM_KEY_WORKLOAD_PROFILES];
    memset(current, 0, sizeof *current);
    current->version = nvmlWorkloadPowerProfileCurrentProfiles_v1;
    current->perfProfilesMask.mask[0] = (1u << PROFILES) - 1;
    current->requestedProfilesMask.mask[0] = requested;
    current->enforcedProfilesMask.mask[0] = enforced_mask(requested);
    return NVML_SUCCESS;
}

/* Adds to, removes from or replaces the requested profiles. */
static nvmlReturn_t update_profiles(const NvmlCall *c, nvmlPowerProfileOperation_t operation, const nvmlMask255_t *mask)
{
    uint32_t bits, old = c->now->cond.set[SIM_KEY_WORKLOAD_PROFILES];
    if ((unsigned)operation >= NVML_POWER_PROFILE_OPERATION_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_profiles(c))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!mask_read(mask, &bits))
        return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t all = operation == NVML_POWER_PROFILE_OPERATION_CLEAR ? old & ~bits
                   : operation == NVML_POWER_PROFILE_OPERATION_SET ? old | bits
                                                                   : bits;
    return nvml_change_key(c, SIM_KEY_WORKLOAD_PROFILES, all);
}

static nvmlReturn_t request_profiles(NvmlFn fn, nvmlDevice_t device, nvmlPowerProfileOperation_t operation,
                                     const nvmlWorkloadPowerProfileRequestedProfiles_t *requested)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!requested)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, requested->version, nvmlWorkloadPowerProfileRequestedProfiles_v1);
    return rc == NVML_SUCCESS ? update_profiles(&c, operation, &requested->requestedProfilesMask) : rc;
}

nvmlReturn_t nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(nvmlDevice_t device,
                                                                nvmlWorkloadPowerProfileRequestedProfiles_t *requested)
{
    return request_profiles(NVML_FN_nvmlDeviceWorkloadPowerProfileSetRequestedProfiles, device,
                            NVML_POWER_PROFILE_OPERATION_SET, requested);
}

nvmlReturn_t
nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(nvmlDevice_t device,
                                                     nvmlWorkloadPowerProfileRequestedProfiles_t *requested)
{
    return request_profiles(NVML_FN_nvmlDeviceWorkloadPowerProfileClearRequestedProfiles, device,
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
    return update_profiles(&c, request_v1->operation, &request_v1->updateProfilesMask);
}

/* --- temperatures and fans --------------------------------------------------------------------------------------- */

/*
 * Temperatures, their thresholds, and fans.
 */

enum { ACOUSTIC_MIN_C = 65, ACOUSTIC_DEFAULT_C = 83, FAN_MIN_PERCENT = 30, FAN_MAX_PERCENT = 100 };

static int rounded_c(double celsius)
{
    return (int)(celsius < 0 ? celsius - 0.5 : celsius + 0.5);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetTemperature, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!celsius || sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *celsius = (unsigned int)nvml_round(c.now->temp_c);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetTemperatureV;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!temperature)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((r = nvml_check_tag(fn, temperature->version, nvmlTemperature_v1)) != NVML_SUCCESS)
        return r;
    if (temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = rounded_c(c.now->temp_c);
    return NVML_SUCCESS;
}

/* Target temperature of the fans, for boards with fans. */
static int acoustic_c(const NvmlCall *c)
{
    const int asked = (int)c->now->cond.set[SIM_KEY_TEMP_ACOUSTIC];
    return asked ? asked : ACOUSTIC_DEFAULT_C;
}

/* A threshold in degrees; 0 when the board has none. */
static int threshold_c(const NvmlCall *c, nvmlTemperatureThresholds_t threshold)
{
    switch (threshold) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        return c->board->temp_shutdown;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        return c->board->temp_slowdown;
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
        return c->board->temp_mem_max;
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
        return c->board->temp_gpu_max;
    case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN:
        return c->board->fans ? ACOUSTIC_MIN_C : 0;
    case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR:
        return c->board->fans ? acoustic_c(c) : 0;
    case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX:
        return c->board->fans ? c->board->temp_gpu_max : 0;
    default:
        return 0;
    }
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                               unsigned int *celsius)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetTemperatureThreshold, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!celsius || (unsigned int)threshold >= NVML_TEMPERATURE_THRESHOLD_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    const int value = threshold_c(&c, threshold);
    if (value <= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *celsius = (unsigned int)value;
    return NVML_SUCCESS;
}

NVML_GETTER_TAGGED(nvmlDeviceGetMarginTemperature, NVML_TAKES_GPU, nvmlMarginTemperature_t, nvmlMarginTemperature_v1,
                   c.board->has_tlimit,
                   ((nvmlMarginTemperature_t){.version = nvmlMarginTemperature_v1,
                                              .marginTemperature = c.board->temp_gpu_max - rounded_c(c.now->temp_c)}))

nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned int sensor_index,
                                          nvmlGpuThermalSettings_t *settings)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetThermalSettings, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!settings || (sensor_index != 0 && sensor_index != NVML_THERMAL_TARGET_ALL))
        return NVML_ERROR_INVALID_ARGUMENT;
    *settings = (nvmlGpuThermalSettings_t){.count = 1};
    settings->sensor[0].controller = NVML_THERMAL_CONTROLLER_GPU_INTERNAL;
    settings->sensor[0].defaultMinTemp = 0;
    settings->sensor[0].defaultMaxTemp = c.board->temp_slowdown;
    settings->sensor[0].currentTemp = rounded_c(c.now->temp_c);
    settings->sensor[0].target = NVML_THERMAL_TARGET_GPU;
    return NVML_SUCCESS;
}

/* ---- fans ---- */

NVML_GETTER(nvmlDeviceGetFanSpeed, NVML_TAKES_GPU, unsigned int, c.board->fans > 0, c.now->fan_percent)
NVML_GETTER(nvmlDeviceGetNumFans, NVML_TAKES_GPU, unsigned int, c.board->fans > 0, c.board->fans)
NVML_GETTER_PAIR(nvmlDeviceGetMinMaxFanSpeed, NVML_TAKES_GPU, unsigned int, c.board->fans > 0, FAN_MIN_PERCENT,
                 FAN_MAX_PERCENT)

/* Enters a function that takes the number of a fan. */
static nvmlReturn_t enter_fan(NvmlFn fn, nvmlDevice_t device, unsigned int fan, const unsigned int *percent,
                              NvmlCall *ret)
{
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, ret);

    if (r != NVML_SUCCESS)
        return r;
    if (!percent)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (ret->board->fans == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return fan < ret->board->fans ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_fan(NVML_FN_nvmlDeviceGetFanSpeed_v2, device, fan, percent, &c);

    if (r == NVML_SUCCESS)
        *percent = c.now->fan_percent;
    return r;
}

nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_fan(NVML_FN_nvmlDeviceGetTargetFanSpeed, device, fan, percent, &c);

    if (r == NVML_SUCCESS)
        *percent = c.now->fan_target;
    return r;
}
