/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of what is wanted. Covers src/source/nvml/plan.c, functions.c and the table of rows.c. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "source/nvml/plan.h"
#include "source/nvml/readers.h"
#include "source/sampler/protocol.h"

static NvmlPlan plan;

static BoardPlan wanting(const MetricId *ids, size_t count)
{
    BoardPlan board = {.wanted = {0}};

    for (size_t i = 0; i < count; i++)
        board.wanted[ids[i] / 64] |= UINT64_C(1) << (ids[i] % 64);
    return board;
}

static BoardPlan wanting_all(void)
{
    BoardPlan board;

    memset(&board, 0, sizeof board);
    memset(board.wanted, 0xff, sizeof board.wanted);
    return board;
}

static uint32_t rows_of(MetricId id)
{
    uint32_t count = 0;

    for (size_t i = 0; i < nvml_rows_count; i++)
        for (uint32_t k = 0; k < nvml_rows[i].count; k++)
            count += nvml_rows[i].metrics[k] == id;
    return count;
}

/* Every metric that has a call of its own is read by one row; the MIG mode comes with the devices, texts with the
 * identity, what links have with the links. */
static void each_call_is_made(void **state)
{
    (void)state;
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);
        const bool of_a_row = metric->source.kind == METRIC_FROM_CALL && metric->type != METRIC_LABEL &&
                              metric->scope != METRIC_SCOPE_LINK && id != METRIC_MIG_MODE;
        if (rows_of(id) != (of_a_row ? 1U : 0U))
            fail_msg("%s is read by %u rows", metric->name, rows_of(id));
    }
}

static void rows_have_one_pace(void **state)
{
    (void)state;
    for (size_t i = 0; i < nvml_rows_count; i++)
        for (uint32_t k = 1; k < nvml_rows[i].count; k++)
            assert_int_equal(metric_get(nvml_rows[i].metrics[k])->pace, metric_get(nvml_rows[i].metrics[0])->pace);
}

static void blocking_rows(void **state)
{
    uint32_t blocking = 0;

    (void)state;
    for (size_t i = 0; i < nvml_rows_count; i++)
        blocking += metric_get(nvml_rows[i].metrics[0])->pace == METRIC_PACE_BLOCKING;
    assert_int_equal(blocking, nvml_blocking_rows());
    for (uint32_t i = 0; i < nvml_blocking_rows(); i++)
        assert_int_equal(metric_get(nvml_blocking_row(i)->metrics[0])->pace, METRIC_PACE_BLOCKING);
}

static uint32_t uses_of(MetricId id)
{
    uint32_t count = 0;

    for (MetricPace pace = 0; pace < METRIC_PACE_DERIVE; pace++)
        for (uint16_t i = 0; i < plan.batches[pace].use_count; i++)
            count += plan.batches[pace].uses[i].metric == id;
    for (uint16_t i = 0; i < plan.gpm_gpu.count; i++)
        count += plan.gpm_gpu.metrics[i] == id;
    return count;
}

/* The whole catalogue fits, and each field and GPM metric is asked for once; none at a pace that is not read. */
static void all_of_the_catalogue(void **state)
{
    const BoardPlan board = wanting_all();

    (void)state;
    nvml_plan_make(&plan, &board, 610);
    for (MetricId id = 0; id < METRIC_END; id++) {
        const MetricSourceKind kind = metric_get(id)->source.kind;
        const bool here = kind == METRIC_FROM_FIELD || kind == METRIC_FROM_GPM;
        if (uses_of(id) != (here ? 1U : 0U))
            fail_msg("%s is asked for %u times", metric_get(id)->name, uses_of(id));
        assert_false(plan.lacking[id]);
    }
    assert_int_equal(plan.batches[METRIC_PACE_BLOCKING].use_count, 0);
    assert_int_equal(plan.batches[METRIC_PACE_EVENTS].use_count, 0);
}

static void nothing_wanted_is_nothing_asked(void **state)
{
    const BoardPlan board = wanting(NULL, 0);

    (void)state;
    nvml_plan_make(&plan, &board, 610);
    for (MetricPace pace = 0; pace < METRIC_PACE_DERIVE; pace++)
        assert_int_equal(plan.batches[pace].field_count, 0);
    assert_int_equal(plan.gpm_gpu.count, 0);
}

/* Rates and counters of one field cost one entry. */
static void fields_are_shared(void **state)
{
    static const MetricId ids[] = {METRIC_NVLINK_BANDWIDTH_TOTAL, METRIC_NVLINK_TX_BANDWIDTH_TOTAL,
                                   METRIC_NVLINK_TX_BYTES_COUNT, METRIC_NVLINK_RX_BYTES_COUNT};
    const BoardPlan board = wanting(ids, 4);
    const NvmlBatch *batch = &plan.batches[METRIC_PACE_NORMAL];

    (void)state;
    nvml_plan_make(&plan, &board, 590);
    assert_int_equal(batch->use_count, 4);
    assert_int_equal(batch->field_count, 2);
    assert_int_equal(batch->fields[0].scope, UINT32_MAX);
    assert_false(batch->fields[0].per_link);
}

static void links_are_told_apart(void **state)
{
    static const MetricId ids[] = {METRIC_NVLINK_BANDWIDTH_L3, METRIC_NVLINK_COUNT_TX_BYTES};
    const BoardPlan board = wanting(ids, 2);
    const NvmlBatch *batch = &plan.batches[METRIC_PACE_NORMAL];

    (void)state;
    nvml_plan_make(&plan, &board, 610);
    assert_int_equal(batch->field_count, 2 + NVML_LINKS_MAX);
    for (uint16_t i = 0; i < batch->field_count; i++)
        assert_true(batch->fields[i].per_link);
    assert_int_equal(batch->fields[0].scope, 3);
}

static void older_drivers_lack_some(void **state)
{
    const BoardPlan board = wanting_all();

    (void)state;
    nvml_plan_make(&plan, &board, 535);
    assert_true(plan.lacking[METRIC_GPU_RECOVERY_ACTION]);                      /* 230 */
    assert_true(plan.lacking[METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS]); /* 270 */
    assert_true(plan.lacking[METRIC_PROF_PCIE_TX_BYTES_TOTAL]);                 /* GPM 255 */
    assert_false(plan.lacking[METRIC_PCIE_TX_BYTES_COUNT]);                     /* 197 */
    assert_int_equal(uses_of(METRIC_GPU_RECOVERY_ACTION), 0);
    assert_int_equal(uses_of(METRIC_PROF_PCIE_TX_BYTES_TOTAL), 0);
}

/* What belongs to the whole GPU is not asked of an instance. */
static void instances_are_asked_for_less(void **state)
{
    const BoardPlan board = wanting_all();

    (void)state;
    nvml_plan_make(&plan, &board, 610);
    assert_true(plan.gpm_instance.count > 0 && plan.gpm_instance.count < plan.gpm_gpu.count);
    for (uint16_t i = 0; i < plan.gpm_instance.count; i++)
        assert_int_not_equal(metric_get(plan.gpm_instance.metrics[i])->scope, METRIC_SCOPE_GPU);
}

static void periods(void **state)
{
    BoardPlan board = wanting(NULL, 0);

    (void)state;
    board.period_ns[METRIC_PACE_FAST] = 12345;
    nvml_plan_make(&plan, &board, 610);
    assert_int_equal(nvml_plan_period(&plan, METRIC_PACE_FAST), 12345);
    assert_true(nvml_plan_period(&plan, METRIC_PACE_NORMAL) > 0);
    assert_true(nvml_plan_period(&plan, METRIC_PACE_BLOCKING) > 0);
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(sampler_function_name(0), "");
    assert_string_equal(sampler_function_name(NVML_CALLED_nvmlDeviceGetPowerUsage), "nvmlDeviceGetPowerUsage");
    assert_null(sampler_function_name(NVML_CALLED_END));
    for (uint32_t i = 0; i < NVML_CALLED_END; i++) {
        assert_non_null(sampler_function_name(i));
        assert_true(strlen(sampler_function_name(i)) < sizeof((NodeSampler *)NULL)->function);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_is_made),
        cmocka_unit_test(rows_have_one_pace),
        cmocka_unit_test(blocking_rows),
        cmocka_unit_test(all_of_the_catalogue),
        cmocka_unit_test(nothing_wanted_is_nothing_asked),
        cmocka_unit_test(fields_are_shared),
        cmocka_unit_test(links_are_told_apart),
        cmocka_unit_test(older_drivers_lack_some),
        cmocka_unit_test(instances_are_asked_for_less),
        cmocka_unit_test(periods),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
