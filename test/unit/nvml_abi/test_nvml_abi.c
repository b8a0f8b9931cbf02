/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests sim/nvml/gen: the generated header, names and stubs. That nvml_layout_check.c is linked in proves the layouts;
 * here are the facts that were stated as numbers in another place: version tags, sizes that callers of an older header
 * own, constants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nvml_abi.h"
#include "nvml_names.h"
#include "stub_enter_fake.h"

static void test_version_tags(void **state)
{
    (void)state;
    static const struct {
        unsigned int tag, expected;
    } rows[] = {
        {nvmlPciInfoExt_v1, 0x01000040},
        {nvmlMemory_v2, 0x02000028},
        {nvmlProcessDetailList_v1, 0x01000018},
        {nvmlProcessesUtilizationInfo_v1, 0x01000018},
        {nvmlEccSramErrorStatus_v1, 0x01000068},
        {nvmlRepairStatus_v1, 0x0100000C},
        {nvmlMarginTemperature_v1, 0x01000008},
        {nvmlTemperature_v1, 0x0100000C},
        {nvmlGpuInstanceProfileInfo_v2, 0x02000098},
        {nvmlGpuInstanceProfileInfo_v3, 0x03000098},
        {nvmlComputeInstanceProfileInfo_v2, 0x02000088},
        {nvmlComputeInstanceProfileInfo_v3, 0x0300008C},
        {nvmlGpuFabricInfo_v2, 0x02000024},
        {nvmlGpuFabricInfo_v3, 0x03000028},
        {nvmlPlatformInfo_v1, 0x0100002C},
        {nvmlPlatformInfo_v2, 0x0200002C},
        {nvmlDeviceAddressingMode_v1, 0x01000008},
        {nvmlSystemConfComputeSettings_v1, 0x01000014},
        {nvmlDramEncryptionInfo_v1, 0x01000008},
        {nvmlWorkloadPowerProfileInfo_v1, 0x0100002C},
        {nvmlWorkloadPowerProfileProfilesInfo_v1, 0x01002BF8},
        {nvmlWorkloadPowerProfileCurrentProfiles_v1, 0x01000064},
        {nvmlWorkloadPowerProfileRequestedProfiles_v1, 0x01000024},
        {nvmlSystemEventSetCreateRequest_v1, 0x01000010},
        {nvmlSystemRegisterEventRequest_v1, 0x01000018},
        {nvmlSystemEventSetWaitRequest_v1, 0x01000020},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(rows[i].tag, rows[i].expected);
}

/* A v1 entry point writes no more than its callers own. */
static void test_old_structs_are_prefixes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(nvmlProcessInfo_v1_t), 16);
    assert_int_equal(sizeof(nvmlProcessInfo_t), 24);
    assert_int_equal(sizeof(nvmlPciInfo_v1_t), 36);
    assert_int_equal(offsetof(nvmlPciInfo_v1_t, pciSubSystemId), offsetof(nvmlPciInfo_t, pciSubSystemId));
    assert_int_equal(sizeof(nvmlEventData_v1_t), offsetof(nvmlEventData_t, gpuInstanceId));
    assert_int_equal(sizeof(nvmlDeviceAttributes_v1_t), offsetof(nvmlDeviceAttributes_t, gpuInstanceSliceCount));
    assert_int_equal(sizeof(nvmlComputeInstanceInfo_v1_t), offsetof(nvmlComputeInstanceInfo_t, placement));
    assert_int_equal(sizeof(nvmlGridLicensableFeaturesHead_t),
                     offsetof(nvmlGridLicensableFeatures_t, gridLicensableFeatures));
}

/* Spot checks of numbers that clients of the interface hard-code. */
static void test_constants(void **state)
{
    (void)state;
    assert_int_equal(NVML_ERROR_GPU_IS_LOST, 15);
    assert_int_equal(NVML_ERROR_RESET_REQUIRED, 16);
    assert_int_equal(NVML_ERROR_LIB_RM_VERSION_MISMATCH, 18);
    assert_int_equal(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25);
    assert_int_equal(NVML_ERROR_DEPRECATED, 26);
    assert_int_equal(NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, 30);
    assert_int_equal(NVML_ERROR_UNKNOWN, 999);
    assert_int_equal(NVML_BRAND_NVIDIA, 14);
    assert_int_equal(NVML_FI_DEV_NVLINK_LINK_COUNT, 91);
    assert_int_equal(NVML_FI_DEV_REMAPPED_FAILURE, 145);
    assert_int_equal(NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER, 222);
    assert_int_equal(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 230);
    assert_int_equal(NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, 269);
    assert_int_equal(NVML_FI_DEV_EDPP_MULTIPLIER, 274);
    assert_int_equal(NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC, 97);
    assert_int_equal(NVML_GPM_METRIC_SM_CYCLES_ELAPSED, 248);
    assert_int_equal(NVML_GPM_METRIC_MAX, sizeof(((nvmlGpmMetricsGet_t *)0)->metrics) / sizeof(nvmlGpmMetric_t));
    assert_int_equal(NVML_GPU_INSTANCE_PROFILE_COUNT, 18);
    assert_int_equal(NVML_COMPUTE_INSTANCE_PROFILE_COUNT, 9);
    assert_true(nvmlEventTypeGpuRecoveryAction == 0x8000ULL);
    assert_true(nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80ULL);
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(NVML_FN_COUNT, 417);
    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++)
        assert_int_equal(nvml_fn_find(nvml_fn_name(fn)), fn);
    assert_string_equal(nvml_fn_name(NVML_FN_nvmlDeviceGetTemperature), "nvmlDeviceGetTemperature");
    assert_null(nvml_fn_name(NVML_FN_COUNT));
    assert_int_equal(nvml_fn_find(""), NVML_FN_COUNT);
    assert_int_equal(nvml_fn_find("nvmlDeviceGetTemp"), NVML_FN_COUNT);
    assert_int_equal(nvml_fn_find("nvmlDeviceGetPowerMode"), NVML_FN_COUNT); /* declared once, never exported */
    assert_int_equal(nvml_fn_info(NVML_FN_nvmlDeviceGetRemappedRows_v2)->since, 610);
    assert_int_equal(nvml_fn_info(NVML_FN_nvmlDeviceGetDisplayMode)->deprecated_since, 590);
    assert_int_equal(nvml_fn_info(NVML_FN_nvmlDeviceGetDisplayActive)->deprecated_since, 0);
    assert_int_equal(nvml_fn_info(NVML_FN_nvmlDeviceGetName)->priority, 1);
}

nvmlReturn_t nvmlUnitGetHandleByIndex(void);
nvmlReturn_t nvmlVgpuTypeGetName(void);
nvmlReturn_t nvmlInternalGetExportTable(void);

static void test_stubs(void **state)
{
    (void)state;
    assert_int_equal(nvmlUnitGetHandleByIndex(), NVML_ERROR_INVALID_ARGUMENT);
    assert_string_equal(stub_enter_fake_last().name, "nvmlUnitGetHandleByIndex");
    assert_int_equal(nvmlVgpuTypeGetName(), NVML_ERROR_NOT_SUPPORTED);
    assert_string_equal(stub_enter_fake_last().name, "nvmlVgpuTypeGetName");
    assert_int_equal(nvmlInternalGetExportTable(), NVML_ERROR_NOT_SUPPORTED);
    assert_string_equal(stub_enter_fake_last().name, "nvmlInternalGetExportTable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_tags), cmocka_unit_test(test_old_structs_are_prefixes),
        cmocka_unit_test(test_constants),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_stubs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
