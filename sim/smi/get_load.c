/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU does at the moment: memory, engines, clocks, power, temperature. */
#include "sim/smi/get.h"

#include <stdio.h>

#include "base/owner.h"

void get_memory(const Subject *of, int arg, Value *ret)
{
    const nvmlMemory_v2_t *memory;
    nvmlReturn_t rc = gpu_memory(of->gpu, &memory);
    const unsigned long long parts[] = {[MEMORY_TOTAL] = memory->total,
                                        [MEMORY_RESERVED] = memory->reserved,
                                        [MEMORY_USED] = memory->used,
                                        [MEMORY_FREE] = memory->free};

    value_mib(ret, rc, parts[arg]);
}

void get_bar1(const Subject *of, int arg, Value *ret)
{
    const nvmlBAR1Memory_t *memory;
    nvmlReturn_t rc = gpu_bar1(of->gpu, &memory);
    const unsigned long long parts[] = {
        [MEMORY_TOTAL] = memory->bar1Total, [MEMORY_USED] = memory->bar1Used, [MEMORY_FREE] = memory->bar1Free};

    value_mib(ret, rc, parts[arg]);
}

void get_protected(const Subject *of, int arg, Value *ret)
{
    const nvmlMemory_t *memory;
    nvmlReturn_t rc = gpu_protected_memory(of->gpu, &memory);
    const unsigned long long parts[] = {
        [MEMORY_TOTAL] = memory->total, [MEMORY_USED] = memory->used, [MEMORY_FREE] = memory->free};

    value_mib(ret, rc, parts[arg]);
}

void get_utilization(const Subject *of, int arg, Value *ret)
{
    const nvmlUtilization_t *rates;
    nvmlReturn_t rc = gpu_utilization(of->gpu, &rates);

    value_uint(ret, rc, arg ? rates->memory : rates->gpu);
}

void get_pstate(const Subject *of, int arg, Value *ret)
{
    nvmlPstates_t state = NVML_PSTATE_UNKNOWN;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetPerformanceState, of->gpu->handle, &state);
    if (rc == NVML_SUCCESS && state == NVML_PSTATE_UNKNOWN)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        value_text(ret, "P%d", (int)state);
    else
        value_error(ret, rc);
}

void get_reason(const Subject *of, int arg, Value *ret)
{
    const unsigned long long *reasons;
    nvmlReturn_t rc = gpu_reasons(of->gpu, &reasons);

    value_active(ret, rc, *reasons & (unsigned int)arg);
}

/* arg 0: the bits that hold; 1: the bits that the board knows. */
void get_reasons(const Subject *of, int arg, Value *ret)
{
    const unsigned long long *active;
    unsigned long long supported = 0;
    nvmlReturn_t rc =
        arg ? NV(DeviceGetSupportedClocksThrottleReasons, of->gpu->handle, &supported) : gpu_reasons(of->gpu, &active);

    if (rc != NVML_SUCCESS)
        value_error(ret, rc);
    else
        value_text(ret, "0x%016llX", arg ? supported : *active);
}

/* The field is in nanoseconds. */
void get_reason_us(const Subject *of, int arg, Value *ret)
{
    nvmlFieldValue_t field;
    nvmlReturn_t rc = gpu_field(of->gpu, (unsigned int)arg, 0, &field);

    value_uint(ret, rc, rc == NVML_SUCCESS ? (unsigned long long)gpu_field_number(&field) / 1000 : 0);
}

static void clock_value(const Subject *of, GetClockCall *call, int arg, Value *ret)
{
    unsigned int mhz = 0;
    nvmlReturn_t rc = call ? call(of->gpu->handle, (nvmlClockType_t)arg, &mhz) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_uint(ret, rc, mhz);
}

void get_clock(const Subject *of, int arg, Value *ret)
{
    clock_value(of, nvml.DeviceGetClockInfo, arg, ret);
}

void get_max_clock(const Subject *of, int arg, Value *ret)
{
    clock_value(of, nvml.DeviceGetMaxClockInfo, arg, ret);
}

void get_app_clock(const Subject *of, int arg, Value *ret)
{
    clock_value(of, nvml.DeviceGetApplicationsClock, arg, ret);
}

void get_default_app_clock(const Subject *of, int arg, Value *ret)
{
    clock_value(of, nvml.DeviceGetDefaultApplicationsClock, arg, ret);
}

void get_boost_clock(const Subject *of, int arg, Value *ret)
{
    clock_value(of, nvml.DeviceGetMaxCustomerBoostClock, arg, ret);
}

void get_auto_boost(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"Off", "On"};
    nvmlEnableState_t state[2] = {NVML_FEATURE_DISABLED, NVML_FEATURE_DISABLED};
    nvmlReturn_t rc = NV(DeviceGetAutoBoostedClocksEnabled, of->gpu->handle, &state[0], &state[1]);

    value_word(ret, rc, state[arg], words, ARRAY_LEN(words));
}

void get_encoder(const Subject *of, int arg, Value *ret)
{
    unsigned int part[3] = {0, 0, 0};
    nvmlReturn_t rc = NV(DeviceGetEncoderStats, of->gpu->handle, &part[0], &part[1], &part[2]);

    value_uint(ret, rc, part[arg]);
}

void get_fbc(const Subject *of, int arg, Value *ret)
{
    const nvmlFBCStats_t *stats;
    nvmlReturn_t rc = gpu_fbc(of->gpu, &stats);
    const unsigned int parts[] = {stats->sessionsCount, stats->averageFPS, stats->averageLatency};

    value_uint(ret, rc, parts[arg]);
}

/* arg 0: the lowest limit that may be set; 1: the highest. */
void get_limit(const Subject *of, int arg, Value *ret)
{
    unsigned int limit[2] = {0, 0};
    nvmlReturn_t rc = NV(DeviceGetPowerManagementLimitConstraints, of->gpu->handle, &limit[0], &limit[1]);

    value_watt(ret, rc, limit[arg]);
}

/* Boards before Ampere have no mean: there the plain reading is the instant one. */
static nvmlReturn_t old_instant(Gpu *gpu, nvmlFieldValue_t *field)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (gpu_field(gpu, NVML_FI_DEV_POWER_AVERAGE, SCOPE_GPU, &(nvmlFieldValue_t){0}) == NVML_SUCCESS)
        return NVML_ERROR_NOT_SUPPORTED;
    return NV(DeviceGetPowerUsage, gpu->handle, &field->value.uiVal);
}

void get_power_field(const Subject *of, int arg, Value *ret)
{
    nvmlFieldValue_t field;
    nvmlReturn_t rc = gpu_field(of->gpu, (unsigned int)arg & 0xFFFF, (unsigned int)arg >> 16, &field);

    if (rc == NVML_ERROR_NOT_SUPPORTED && arg == GET_SCOPE(SCOPE_GPU, NVML_FI_DEV_POWER_INSTANT))
        rc = old_instant(of->gpu, &field);
    value_watt(ret, rc, rc == NVML_SUCCESS ? (unsigned int)gpu_field_number(&field) : 0);
}

void get_power_mode(const Subject *of, int arg, Value *ret)
{
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetPowerManagementMode, of->gpu->handle, &state);
    value_enabled(ret, rc, state);
}

void get_edpp(const Subject *of, int arg, Value *ret)
{
    nvmlFieldValue_t field;

    (void)arg;
    nvmlReturn_t rc = gpu_field(of->gpu, NVML_FI_DEV_EDPP_MULTIPLIER, 0, &field);
    if (rc == NVML_SUCCESS)
        value_text(ret, "%.2f", gpu_field_number(&field));
    else
        value_error(ret, rc);
}

void get_temperature(const Subject *of, int arg, Value *ret)
{
    unsigned int celsius = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetTemperature, of->gpu->handle, NVML_TEMPERATURE_GPU, &celsius);
    value_uint(ret, rc, celsius);
}

void get_margin(const Subject *of, int arg, Value *ret)
{
    nvmlMarginTemperature_t margin = {.version = NVML_STRUCT_TAG(nvmlMarginTemperature_t, 1)};

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetMarginTemperature, of->gpu->handle, &margin);
    if (rc == NVML_SUCCESS)
        value_text(ret, "%d", margin.marginTemperature);
    else
        value_error(ret, rc);
}

void get_field_int(const Subject *of, int arg, Value *ret)
{
    nvmlFieldValue_t field;
    nvmlReturn_t rc = gpu_field(of->gpu, (unsigned int)arg, 0, &field);

    if (rc == NVML_SUCCESS)
        value_text(ret, "%.0f", gpu_field_number(&field));
    else
        value_error(ret, rc);
}

void get_threshold(const Subject *of, int arg, Value *ret)
{
    unsigned int celsius = 0;
    nvmlReturn_t rc = NV(DeviceGetTemperatureThreshold, of->gpu->handle, (nvmlTemperatureThresholds_t)arg, &celsius);

    value_uint(ret, rc, celsius);
}

/* Numbers of the profiles in force, arg 1, or asked for, arg 0. */
void get_profiles(const Subject *of, int arg, Value *ret)
{
    nvmlWorkloadPowerProfileCurrentProfiles_v1_t now = {
        .version = NVML_STRUCT_TAG(nvmlWorkloadPowerProfileCurrentProfiles_v1_t, 1)};
    nvmlReturn_t rc = NV(DeviceWorkloadPowerProfileGetCurrentProfiles, of->gpu->handle, &now);
    const nvmlMask255_t *mask = arg ? &now.enforcedProfilesMask : &now.requestedProfilesMask;
    size_t used = 0;

    value_error(ret, rc);
    for (unsigned int i = 0; rc == NVML_SUCCESS && i < 255 && used < sizeof(ret->text); i++) {
        if (mask->mask[i / 32] >> (i % 32) & 1)
            used += (size_t)snprintf(ret->text + used, sizeof(ret->text) - used, "%s%u", used ? "," : "", i);
    }
    if (rc == NVML_SUCCESS && !used)
        value_error(ret, NVML_ERROR_NOT_SUPPORTED);
}
