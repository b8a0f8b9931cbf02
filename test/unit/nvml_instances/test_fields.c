/* SPDX-License-Identifier: Apache-2.0 */
/* Field values: each entry's own answer, its type, its scope, and agreement with the getters. */
#include "rig.h"

#include <string.h>

enum { SUM = -1 };

static nvmlFieldValue_t field_at(nvmlDevice_t dev, unsigned int id, unsigned int scope)
{
    nvmlFieldValue_t v;
    memset(&v, 0x5a, sizeof v);
    v.fieldId = id;
    v.scopeId = scope;
    assert_int_equal(nvmlDeviceGetFieldValues(dev, 1, &v), NVML_SUCCESS);
    assert_int_equal(v.fieldId, id);
    assert_true(v.latencyUsec >= 0);
    return v;
}

static nvmlFieldValue_t field(nvmlDevice_t dev, unsigned int id)
{
    return field_at(dev, id, 0);
}

static void assert_uint(nvmlFieldValue_t v, unsigned int want)
{
    assert_int_equal(v.nvmlReturn, NVML_SUCCESS);
    assert_int_equal(v.valueType, NVML_VALUE_TYPE_UNSIGNED_INT);
    assert_int_equal(v.value.uiVal, want);
}

static void assert_ull(nvmlFieldValue_t v, unsigned long long want)
{
    assert_int_equal(v.nvmlReturn, NVML_SUCCESS);
    assert_int_equal(v.valueType, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
    assert_true(v.value.ullVal == want);
}

static void entries_answer_for_themselves(void **state)
{
    const Rig *rig = *state;
    nvmlFieldValue_t v[5] = {{.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT},
                             {.fieldId = 0},
                             {.fieldId = NVML_FI_MAX},
                             {.fieldId = NVML_FI_DEV_RETIRED_SBE},
                             {.fieldId = NVML_FI_DEV_MEMORY_TEMP}};
    assert_int_equal(nvmlDeviceGetFieldValues(rig->gpu[RIG_BUSY], 5, v), NVML_SUCCESS);
    assert_uint(v[0], 18);
    assert_int_equal(v[1].nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(v[2].nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(v[3].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(v[4].nvmlReturn, NVML_SUCCESS);
    assert_true(v[0].timestamp == (long long)rig->image->epoch_us + 3000000);
    assert_int_equal(nvmlDeviceGetFieldValues(rig->gpu[RIG_BUSY], 0, v), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetFieldValues(rig->gpu[RIG_BUSY], 1, NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetFieldValues(NULL, 1, v), NVML_ERROR_INVALID_ARGUMENT);
}

static void every_answer_has_a_type(void **state)
{
    const Rig *rig = *state;
    unsigned int answered = 0;
    for (unsigned int g = 0; g < RIG_GPUS; g++) {
        for (unsigned int id = 0; id <= NVML_FI_MAX; id++) {
            nvmlFieldValue_t v = field(rig->gpu[g], id);
            assert_true(v.nvmlReturn == NVML_SUCCESS || v.nvmlReturn == NVML_ERROR_NOT_SUPPORTED ||
                        v.nvmlReturn == NVML_ERROR_INVALID_ARGUMENT);
            assert_in_range(v.valueType, NVML_VALUE_TYPE_DOUBLE, NVML_VALUE_TYPE_UNSIGNED_SHORT);
            answered += v.nvmlReturn == NVML_SUCCESS;
        }
    }
    assert_true(answered > 300);
}

/* What two functions say about one thing is one value. */
static void fields_agree_with_getters(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    unsigned int u = 0;
    unsigned long long ull = 0;
    nvmlViolationTime_t held;
    rig_op(rig, (SimOp){.type = SIM_OP_ECC, .gpu = RIG_BUSY, .a = {SIM_ECC_DRAM, 0, 5}});
    rig_op(rig, (SimOp){.type = SIM_OP_ECC, .gpu = RIG_BUSY, .a = {SIM_ECC_SRAM, 1, 2}});
    rig_op(rig, (SimOp){.type = SIM_OP_PCIE, .gpu = RIG_BUSY, .a = {0, 0, 17}});
    rig_step_ms(rig, 20);
    assert_int_equal(nvmlDeviceGetTotalEnergyConsumption(dev, &ull), NVML_SUCCESS);
    assert_ull(field(dev, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION), ull);
    assert_ull(field(dev, NVML_FI_DEV_ENERGY), ull);
    assert_int_equal(nvmlDeviceGetPowerUsage(dev, &u), NVML_SUCCESS);
    assert_uint(field(dev, NVML_FI_DEV_POWER_AVERAGE), u);
    assert_int_equal(nvmlDeviceGetEnforcedPowerLimit(dev, &u), NVML_SUCCESS);
    assert_uint(field(dev, NVML_FI_DEV_POWER_CURRENT_LIMIT), u);
    assert_int_equal(nvmlDeviceGetPcieReplayCounter(dev, &u), NVML_SUCCESS);
    assert_int_equal(u, 17);
    assert_uint(field(dev, NVML_FI_DEV_PCIE_REPLAY_COUNTER), u);
    assert_int_equal(nvmlDeviceGetTotalEccErrors(dev, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &ull),
                     NVML_SUCCESS);
    assert_ull(field(dev, NVML_FI_DEV_ECC_DBE_VOL_TOTAL), ull);
    assert_int_equal(nvmlDeviceGetMemoryErrorCounter(dev, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC,
                                                     NVML_MEMORY_LOCATION_DRAM, &ull),
                     NVML_SUCCESS);
    assert_int_equal(ull, 5);
    assert_ull(field(dev, NVML_FI_DEV_ECC_SBE_AGG_DEV), ull);
    assert_int_equal(nvmlDeviceGetViolationStatus(dev, NVML_PERF_POLICY_POWER, &held), NVML_SUCCESS);
    assert_ull(field(dev, NVML_FI_DEV_PERF_POLICY_POWER), held.violationTime);
    assert_uint(field(dev, NVML_FI_DEV_ECC_CURRENT), 1);
}

static void links_by_scope(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    rig_op(
        rig,
        (SimOp){.type = SIM_OP_LINK, .gpu = RIG_BUSY, .a = {2, SIM_LINK_ERRORS, NVML_NVLINK_ERROR_DL_REPLAY}, .u = 9});
    rig_op(rig, (SimOp){.type = SIM_OP_LINK, .gpu = RIG_BUSY, .a = {5, SIM_LINK_DOWN}});
    assert_ull(field_at(dev, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 2), 9);
    assert_ull(field_at(dev, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 3), 0);
    assert_ull(field(dev, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L2), 9);
    assert_ull(field(dev, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL), 9);
    assert_int_equal(field_at(dev, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 18).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field_at(dev, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 36).nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    assert_uint(field_at(dev, NVML_FI_DEV_NVLINK_GET_STATE, 5), NVML_NVLINK_STATE_INACTIVE);
    assert_uint(field_at(dev, NVML_FI_DEV_NVLINK_GET_STATE, 6), NVML_NVLINK_STATE_ACTIVE);
    assert_uint(field_at(dev, NVML_FI_DEV_NVLINK_GET_SPEED, 6), 26562);
    assert_uint(field(dev, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON), 26562);
    assert_uint(field(dev, NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT), 17);
    assert_uint(field_at(dev, NVML_FI_DEV_NVLINK_GET_VERSION, 0), NVML_NVLINK_VERSION_4_0);
    assert_int_equal(field(rig->gpu[RIG_DESK], NVML_FI_DEV_NVLINK_LINK_COUNT).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
}

static void throughput_per_link_and_in_sum(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    nvmlFieldValue_t before = field_at(dev, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, (unsigned int)SUM);
    rig_step_ms(rig, 10000);
    nvmlFieldValue_t after = field_at(dev, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, (unsigned int)SUM);
    unsigned long long kib = after.value.ullVal - before.value.ullVal,
                       want = (unsigned long long)TRAINER_LINK_MIB * 10240;
    assert_in_range(kib, want - 1, want + 1);
    nvmlFieldValue_t one = field_at(dev, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0);
    assert_in_range(one.value.ullVal, after.value.ullVal / 18, after.value.ullVal / 18 + 1);
    assert_true(field_at(dev, NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX, 0).value.ullVal > one.value.ullVal);
}

/* Links of the fifth generation have other counters than those before. */
static void counters_by_link_generation(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t old = rig->gpu[RIG_BUSY], new = rig->gpu[RIG_BLACKWELL];
    rig_op(rig, (SimOp){.type = SIM_OP_LINK,
                        .gpu = RIG_BLACKWELL,
                        .a = {1, SIM_LINK_ERRORS, NVML_NVLINK_ERROR_DL_RECOVERY},
                        .u = 3});
    assert_int_equal(field(old, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field(new, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES).nvmlReturn, NVML_SUCCESS);
    assert_ull(field_at(new, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, 1), 3);
    assert_int_equal(field(new, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field(old, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0).nvmlReturn, NVML_SUCCESS);
    assert_int_equal(field(new, NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15).nvmlReturn, NVML_SUCCESS);
    assert_int_equal(field_at(new, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, 18).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
}

static void power_by_scope_and_margins(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    assert_uint(field(dev, NVML_FI_DEV_POWER_MIN_LIMIT), 200000);
    assert_uint(field(dev, NVML_FI_DEV_POWER_REQUESTED_LIMIT), 700000);
    assert_int_equal(field_at(dev, NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_MEMORY).nvmlReturn,
                     NVML_ERROR_NOT_SUPPORTED);
    nvmlFieldValue_t memory = field_at(rig->gpu[RIG_HOPPER], NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_MEMORY);
    assert_int_equal(memory.nvmlReturn, NVML_SUCCESS);
    assert_in_range(memory.value.uiVal, 40000, 46000); /* a capture of an idle H100 has 43.19 W */
    assert_true(field_at(dev, NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_MEMORY).value.uiVal > memory.value.uiVal);
    assert_int_equal(field_at(rig->gpu[RIG_DESK], NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_MEMORY).nvmlReturn,
                     NVML_ERROR_NOT_SUPPORTED);
    assert_uint(field(dev, NVML_FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK), 0x3f);
    assert_uint(field(dev, NVML_FI_DEV_EDPP_MULTIPLIER), 100);
    assert_int_equal(field(rig->gpu[RIG_DESK], NVML_FI_DEV_EDPP_MULTIPLIER).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field_at(dev, NVML_FI_DEV_POWER_INSTANT, 9).nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    nvmlFieldValue_t margin = field(dev, NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT);
    assert_int_equal(margin.nvmlReturn, NVML_SUCCESS);
    assert_int_equal(margin.valueType, NVML_VALUE_TYPE_SIGNED_INT);
    assert_int_equal(margin.value.siVal, -8);
    assert_int_equal(field(rig->gpu[RIG_AMPERE], NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT).nvmlReturn,
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field(rig->gpu[RIG_DESK], NVML_FI_DEV_MEMORY_TEMP).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field(rig->gpu[RIG_DESK], NVML_FI_DEV_ECC_CURRENT).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
}

static void repairs_and_recovery(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    assert_uint(field(dev, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION), NVML_GPU_RECOVERY_ACTION_NONE);
    rig_op(rig, (SimOp){.type = SIM_OP_REMAP, .gpu = RIG_BUSY, .a = {1, 2, 0}});
    assert_uint(field(dev, NVML_FI_DEV_REMAPPED_UNC), 2);
    assert_uint(field(dev, NVML_FI_DEV_REMAPPED_COR), 0);
    assert_uint(field(dev, NVML_FI_DEV_REMAPPED_PENDING), 1);
    assert_uint(field(dev, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION), NVML_GPU_RECOVERY_ACTION_GPU_RESET);
    assert_uint(field(dev, NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED), 1);
    assert_uint(field(rig->gpu[RIG_AMPERE], NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED), 0);
}

static void mig_takes_links_and_rows_away(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER], mig;
    rig_op(rig, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = RIG_HOPPER, .a = {1}});
    rig_op(rig, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = RIG_HOPPER, .a = {3, 0}});
    rig_op(rig, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = RIG_HOPPER, .a = {1, 2, SIM_NONE}});
    assert_int_equal(field(dev, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(field(dev, NVML_FI_DEV_REMAPPED_COR).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_uint(field(dev, NVML_FI_DEV_NVLINK_GET_STATE), NVML_NVLINK_STATE_INACTIVE);
    assert_int_equal(field(dev, NVML_FI_DEV_POWER_INSTANT).nvmlReturn, NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(dev, 0, &mig), NVML_SUCCESS);
    assert_int_equal(field(mig, NVML_FI_DEV_POWER_INSTANT).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(entries_answer_for_themselves),  T(every_answer_has_a_type),
        T(fields_agree_with_getters),      T(links_by_scope),
        T(throughput_per_link_and_in_sum), T(counters_by_link_generation),
        T(power_by_scope_and_margins),     T(repairs_and_recovery),
        T(mig_takes_links_and_rows_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
