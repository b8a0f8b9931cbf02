/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may set: range, support, permission, and that the getters see it. */
#include "rig.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void power_limit_has_a_range(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    unsigned int mw = 0;
    assert_int_equal(nvmlDeviceSetPowerManagementLimit(dev, 199999), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceSetPowerManagementLimit(dev, 700001), NVML_ERROR_INVALID_ARGUMENT);
    nvmlPowerValue_v2_t v = {
        .version = nvmlPowerValue_v2, .powerScope = NVML_POWER_SCOPE_MODULE, .powerValueMw = 300000};
    assert_int_equal(nvmlDeviceSetPowerManagementLimit_v2(dev, &v), NVML_ERROR_NOT_SUPPORTED);
    v.powerScope = 9;
    assert_int_equal(nvmlDeviceSetPowerManagementLimit_v2(dev, &v), NVML_ERROR_INVALID_ARGUMENT);
    v.powerScope = NVML_POWER_SCOPE_GPU;
    rig_need_root();
    assert_int_equal(nvmlDeviceSetPowerManagementLimit(dev, 400000), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPowerManagementLimit(dev, &mw), NVML_SUCCESS);
    assert_int_equal(mw, 400000);
    assert_int_equal(nvmlDeviceSetPowerManagementLimit_v2(dev, &v), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPowerManagementLimit(dev, &mw), NVML_SUCCESS);
    assert_int_equal(mw, 300000);
    v.version = 2;
    assert_int_equal(nvmlDeviceSetPowerManagementLimit_v2(dev, &v), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void modes(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    nvmlEnableState_t on = NVML_FEATURE_ENABLED, pending = NVML_FEATURE_ENABLED;
    nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
    assert_int_equal(nvmlDeviceSetPersistenceMode(dev, (nvmlEnableState_t)2), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceSetComputeMode(dev, NVML_COMPUTEMODE_COUNT), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceSetComputeMode(dev, NVML_COMPUTEMODE_EXCLUSIVE_THREAD), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceSetEccMode(rig->gpu[RIG_DESK], NVML_FEATURE_ENABLED), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceSetDriverModel(dev, NVML_DRIVER_WDM, 0), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceSetGpuOperationMode(dev, NVML_GOM_COMPUTE), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceSetAutoBoostedClocksEnabled(dev, NVML_FEATURE_ENABLED), NVML_ERROR_NOT_SUPPORTED);
    rig_need_root();
    assert_int_equal(nvmlDeviceSetPersistenceMode(dev, NVML_FEATURE_DISABLED), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPersistenceMode(dev, &on), NVML_SUCCESS);
    assert_int_equal(on, NVML_FEATURE_DISABLED);
    assert_int_equal(nvmlDeviceSetComputeMode(dev, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetComputeMode(dev, &mode), NVML_SUCCESS);
    assert_int_equal(mode, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
    assert_int_equal(nvmlDeviceSetEccMode(dev, NVML_FEATURE_DISABLED), NVML_SUCCESS); /* until the next reset */
    assert_int_equal(nvmlDeviceGetEccMode(dev, &on, &pending), NVML_SUCCESS);
    assert_int_equal(on, NVML_FEATURE_ENABLED);
    assert_int_equal(pending, NVML_FEATURE_DISABLED);
    rig_op(rig, (SimOp){.type = SIM_OP_RESET, .gpu = RIG_BUSY});
    assert_int_equal(nvmlDeviceGetEccMode(dev, &on, &pending), NVML_SUCCESS);
    assert_int_equal(on, NVML_FEATURE_DISABLED);
    assert_int_equal(
        nvmlDeviceSetAPIRestriction(dev, NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS, NVML_FEATURE_DISABLED),
        NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetAPIRestriction(dev, NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS, &on), NVML_SUCCESS);
    assert_int_equal(on, NVML_FEATURE_DISABLED);
}

static nvmlReturn_t set_persistence(const Rig *rig)
{
    return nvmlDeviceSetPersistenceMode(rig->gpu[RIG_BUSY], NVML_FEATURE_DISABLED);
}

static nvmlReturn_t set_limit(const Rig *rig)
{
    return nvmlDeviceSetPowerManagementLimit(rig->gpu[RIG_BUSY], 300000);
}

static nvmlReturn_t set_limit_too_low(const Rig *rig)
{
    return nvmlDeviceSetPowerManagementLimit(rig->gpu[RIG_BUSY], 1);
}

static nvmlReturn_t set_ecc_where_there_is_none(const Rig *rig)
{
    return nvmlDeviceSetEccMode(rig->gpu[RIG_DESK], NVML_FEATURE_ENABLED);
}

static nvmlReturn_t lock_clocks(const Rig *rig)
{
    return nvmlDeviceSetGpuLockedClocks(rig->gpu[RIG_BUSY], 345, 990);
}

/* Arguments first, then support, then permission. */
static void only_root_changes(void **state)
{
    const Rig *rig = *state;
    unsigned int mw = 0;
    assert_int_equal(rig_as_nobody(rig, set_persistence), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(rig_as_nobody(rig, set_limit), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(rig_as_nobody(rig, lock_clocks), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(rig_as_nobody(rig, set_limit_too_low), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rig_as_nobody(rig, set_ecc_where_there_is_none), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetPowerManagementLimit(rig->gpu[RIG_BUSY], &mw), NVML_SUCCESS);
    assert_int_equal(mw, 700000);
}

static void locked_clocks_hold(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    unsigned int mhz = 0;
    assert_int_equal(nvmlDeviceSetGpuLockedClocks(dev, 1000, 900), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceSetGpuLockedClocks(dev, 345, 5000), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceSetMemoryLockedClocks(dev, 10, 0), NVML_ERROR_INVALID_ARGUMENT);
    rig_need_root();
    assert_int_equal(lock_clocks(rig), NVML_SUCCESS);
    rig_step_ms(rig, 1000);
    assert_int_equal(nvmlDeviceGetClockInfo(dev, NVML_CLOCK_SM, &mhz), NVML_SUCCESS);
    assert_in_range(mhz, 345, 990);
    assert_int_equal(nvmlDeviceResetGpuLockedClocks(dev), NVML_SUCCESS);
    rig_step_ms(rig, 1000);
    assert_int_equal(nvmlDeviceGetClockInfo(dev, NVML_CLOCK_SM, &mhz), NVML_SUCCESS);
    assert_true(mhz > 990);
    assert_int_equal(nvmlDeviceSetGpuLockedClocks(dev, NVML_CLOCK_LIMIT_ID_TDP, NVML_CLOCK_LIMIT_ID_UNLIMITED),
                     NVML_SUCCESS);
    assert_int_equal(nvmlDeviceSetMemoryLockedClocks(dev, 1593, 2619), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceResetMemoryLockedClocks(dev), NVML_SUCCESS);
    /* this driver has let go of clocks for applications */
    assert_int_equal(nvmlDeviceSetApplicationsClocks(dev, 2619, 1980), NVML_ERROR_DEPRECATED);
    assert_int_equal(nvmlDeviceResetApplicationsClocks(dev), NVML_ERROR_DEPRECATED);
}

static void counters_are_cleared(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    unsigned long long n = 0;
    rig_op(rig, (SimOp){.type = SIM_OP_ECC, .gpu = RIG_BUSY, .a = {SIM_ECC_DRAM, 0, 5}});
    rig_op(
        rig,
        (SimOp){.type = SIM_OP_LINK, .gpu = RIG_BUSY, .a = {2, SIM_LINK_ERRORS, NVML_NVLINK_ERROR_DL_REPLAY}, .u = 9});
    assert_int_equal(nvmlDeviceClearEccErrorCounts(dev, NVML_ECC_COUNTER_TYPE_COUNT), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceResetNvLinkErrorCounters(dev, 36), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceResetNvLinkErrorCounters(dev, 18), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceResetNvLinkUtilizationCounter(dev, 0, 0), NVML_ERROR_NOT_SUPPORTED);
    rig_need_root();
    assert_int_equal(nvmlDeviceClearEccErrorCounts(dev, NVML_VOLATILE_ECC), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetTotalEccErrors(dev, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &n),
                     NVML_SUCCESS);
    assert_int_equal(n, 0);
    assert_int_equal(nvmlDeviceGetTotalEccErrors(dev, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC, &n),
                     NVML_SUCCESS);
    assert_int_equal(n, 5);
    assert_int_equal(nvmlDeviceResetNvLinkErrorCounters(dev, 2), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetNvLinkErrorCounter(dev, 2, NVML_NVLINK_ERROR_DL_REPLAY, &n), NVML_SUCCESS);
    assert_int_equal(n, 0);
}

static void inforom_and_thresholds(void **state)
{
    const Rig *rig = *state;
    int celsius = 75;
    unsigned int seen = 0;
    assert_int_equal(nvmlDeviceValidateInforom(rig->gpu[RIG_BUSY]), NVML_SUCCESS);
    rig_op(rig, (SimOp){.type = SIM_OP_SET, .gpu = RIG_BUSY, .a = {SIM_KEY_INFOROM_BAD}, .u = 1});
    assert_int_equal(nvmlDeviceValidateInforom(rig->gpu[RIG_BUSY]), NVML_ERROR_CORRUPTED_INFOROM);
    assert_int_equal(nvmlDeviceValidateInforom(rig->gpu[RIG_DESK]), NVML_ERROR_NOT_SUPPORTED);
    nvmlTemperatureThresholds_t curr = NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR;
    assert_int_equal(nvmlDeviceSetTemperatureThreshold(rig->gpu[RIG_BUSY], curr, &celsius), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(
        nvmlDeviceSetTemperatureThreshold(rig->gpu[RIG_DESK], NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, &celsius),
        NVML_ERROR_NOT_SUPPORTED);
    celsius = 20;
    assert_int_equal(nvmlDeviceSetTemperatureThreshold(rig->gpu[RIG_DESK], curr, &celsius),
                     NVML_ERROR_INVALID_ARGUMENT);
    rig_need_root();
    celsius = 75;
    assert_int_equal(nvmlDeviceSetTemperatureThreshold(rig->gpu[RIG_DESK], curr, &celsius), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetTemperatureThreshold(rig->gpu[RIG_DESK], curr, &seen), NVML_SUCCESS);
    assert_int_equal(seen, 75);
}

static void the_thread_moves_to_the_gpus_cpus(void **state)
{
    const Rig *rig = *state;
    cpu_set_t before, here, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (!CPU_ISSET(0, &before))
        skip();
    assert_int_equal(nvmlDeviceSetCpuAffinity(rig->gpu[RIG_BUSY]), NVML_SUCCESS);
    assert_int_equal(sched_getaffinity(0, sizeof here, &here), 0);
    assert_true(CPU_ISSET(0, &here));
    for (size_t cpu = 1; cpu < 64; cpu++)
        assert_false(CPU_ISSET(cpu, &here)); /* the node says "0,64-127" */
    assert_int_equal(nvmlDeviceClearCpuAffinity(rig->gpu[RIG_BUSY]), NVML_SUCCESS);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_COUNT(&after) >= CPU_COUNT(&before));
}

static void draining_and_registers(void **state)
{
    const Rig *rig = *state;
    nvmlPciInfo_t pci;
    nvmlEnableState_t drain = NVML_FEATURE_ENABLED;
    assert_int_equal(nvmlDeviceGetPciInfo_v3(rig->gpu[RIG_BUSY], &pci), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceQueryDrainState(&pci, &drain), NVML_SUCCESS);
    assert_int_equal(drain, NVML_FEATURE_DISABLED);
    rig_op(rig, (SimOp){.type = SIM_OP_SET, .gpu = RIG_BUSY, .a = {SIM_KEY_DRAIN}, .u = 1});
    assert_int_equal(nvmlDeviceQueryDrainState(&pci, &drain), NVML_SUCCESS);
    assert_int_equal(drain, NVML_FEATURE_ENABLED);
    pci.bus = 0x77;
    assert_int_equal(nvmlDeviceQueryDrainState(&pci, &drain), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceReadWritePRM_v1(rig->gpu[RIG_BUSY], NULL), NVML_ERROR_INVALID_ARGUMENT);
}

/* ---- power profiles and vGPU ---- */
static void stronger_profiles_win(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BLACKWELL];
    nvmlWorkloadPowerProfileRequestedProfiles_t ask = {.version = nvmlWorkloadPowerProfileRequestedProfiles_v1};
    nvmlWorkloadPowerProfileCurrentProfiles_t now = {.version = nvmlWorkloadPowerProfileCurrentProfiles_v1};
    nvmlWorkloadPowerProfileProfilesInfo_t *info = calloc(1, sizeof *info);
    assert_non_null(info);
    info->version = nvmlWorkloadPowerProfileProfilesInfo_v1;
    assert_int_equal(nvmlDeviceWorkloadPowerProfileGetProfilesInfo(dev, info), NVML_SUCCESS);
    for (unsigned int a = 0; a < 32; a++)
        for (unsigned int b = 0; b < 32; b++) /* who excludes is excluded */
            assert_int_equal(info->perfProfile[a].conflictingMask.mask[0] >> b & 1,
                             info->perfProfile[b].conflictingMask.mask[0] >> a & 1);
    free(info);
    ask.requestedProfilesMask.mask[0] = 1u << NVML_POWER_PROFILE_MAX_Q | 1u << NVML_POWER_PROFILE_MAX_P;
    assert_int_equal(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(rig->gpu[RIG_BUSY], &ask),
                     NVML_ERROR_NOT_SUPPORTED);
    ask.requestedProfilesMask.mask[3] = 1;
    assert_int_equal(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(dev, &ask), NVML_ERROR_INVALID_ARGUMENT);
    ask.requestedProfilesMask.mask[3] = 0;
    rig_need_root();
    assert_int_equal(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(dev, &ask), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(dev, &now), NVML_SUCCESS);
    assert_int_equal(now.requestedProfilesMask.mask[0], ask.requestedProfilesMask.mask[0]);
    assert_int_equal(now.enforcedProfilesMask.mask[0], 1u << NVML_POWER_PROFILE_MAX_P);
    ask.requestedProfilesMask.mask[0] = 1u << NVML_POWER_PROFILE_MAX_P;
    assert_int_equal(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(dev, &ask), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(dev, &now), NVML_SUCCESS);
    assert_int_equal(now.enforcedProfilesMask.mask[0], 1u << NVML_POWER_PROFILE_MAX_Q);
    nvmlWorkloadPowerProfileUpdateProfiles_v1_t update = {.operation = NVML_POWER_PROFILE_OPERATION_SET_AND_OVERWRITE};
    assert_int_equal(nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(dev, &update), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(dev, &now), NVML_SUCCESS);
    assert_int_equal(now.requestedProfilesMask.mask[0], 0);
}

static void nothing_is_virtual(void **state)
{
    const Rig *rig = *state;
    nvmlGpuVirtualizationMode_t mode = NVML_GPU_VIRTUALIZATION_MODE_VGPU;
    nvmlGridLicensableFeatures_t all;
    nvmlGridLicensableFeaturesHead_t head = {1, 1};
    assert_int_equal(nvmlDeviceGetVirtualizationMode(rig->gpu[RIG_BUSY], &mode), NVML_SUCCESS);
    assert_int_equal(mode, NVML_GPU_VIRTUALIZATION_MODE_NONE);
    memset(&all, 0x5a, sizeof all);
    assert_int_equal(nvmlDeviceGetGridLicensableFeatures_v4(rig->gpu[RIG_BUSY], &all), NVML_SUCCESS);
    assert_int_equal(all.isGridLicenseSupported, 0);
    assert_int_equal(all.licensableFeaturesCount, 0);
    assert_int_equal(nvmlDeviceGetGridLicensableFeatures(rig->gpu[RIG_BUSY], &head), NVML_SUCCESS);
    assert_int_equal(head.isGridLicenseSupported, 0);
    assert_int_equal(nvmlDeviceGetGridLicensableFeatures_v2(rig->gpu[RIG_BUSY], NULL), NVML_ERROR_INVALID_ARGUMENT);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(power_limit_has_a_range),
        T(modes),
        T(only_root_changes),
        T(locked_clocks_hold),
        T(counters_are_cleared),
        T(inforom_and_thresholds),
        T(the_thread_moves_to_the_gpus_cpus),
        T(draining_and_registers),
        T(stronger_profiles_win),
        T(nothing_is_virtual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
