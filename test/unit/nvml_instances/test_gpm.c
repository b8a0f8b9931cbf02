/* SPDX-License-Identifier: Apache-2.0 */
/* GPM: pairs of samples, what a metric means, and what makes no pair. */
#include "rig.h"

#include <string.h>

typedef struct Pair {
    nvmlGpmSample_t a, b;
} Pair;

static Pair make_pair(void)
{
    Pair p;
    assert_int_equal(nvmlGpmSampleAlloc(&p.a), NVML_SUCCESS);
    assert_int_equal(nvmlGpmSampleAlloc(&p.b), NVML_SUCCESS);
    assert_ptr_not_equal(p.a, p.b);
    return p;
}

static void free_pair(Pair p)
{
    assert_int_equal(nvmlGpmSampleFree(p.a), NVML_SUCCESS);
    assert_int_equal(nvmlGpmSampleFree(p.b), NVML_SUCCESS);
}

static Pair busy_pair(const Rig *rig)
{
    Pair p = make_pair();
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_BUSY], p.a), NVML_SUCCESS);
    rig_step_ms(rig, 1234);
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_BUSY], p.b), NVML_SUCCESS);
    return p;
}

static nvmlGpmMetric_t metric(Pair p, unsigned int id)
{
    nvmlGpmMetricsGet_t get = {
        .version = NVML_GPM_METRICS_GET_VERSION, .numMetrics = 1, .sample1 = p.a, .sample2 = p.b};
    get.metrics[0].metricId = id;
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_SUCCESS);
    return get.metrics[0];
}

static void assert_near(double value, double want)
{
    double off = value - want;
    assert_true((off < 0 ? -off : off) <= 1e-6 * (want + 1));
}

static void support(void **state)
{
    const Rig *rig = *state;
    nvmlGpmSupport_t s = {.version = NVML_GPM_SUPPORT_VERSION};
    nvmlGpmSample_t sample;
    unsigned int streaming = 9;
    assert_int_equal(nvmlGpmQueryDeviceSupport(rig->gpu[RIG_BUSY], &s), NVML_SUCCESS);
    assert_int_equal(s.isSupportedDevice, 1);
    assert_int_equal(nvmlGpmQueryDeviceSupport(rig->gpu[RIG_AMPERE], &s), NVML_SUCCESS);
    assert_int_equal(s.isSupportedDevice, 0);
    s.version = 2;
    assert_int_equal(nvmlGpmQueryDeviceSupport(rig->gpu[RIG_BUSY], &s), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    assert_int_equal(nvmlGpmSampleAlloc(&sample), NVML_SUCCESS);
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_AMPERE], sample), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlGpmMigSampleGet(rig->gpu[RIG_BUSY], 0, sample), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlGpmSampleFree(sample), NVML_SUCCESS);
    assert_int_equal(nvmlGpmQueryIfStreamingEnabled(rig->gpu[RIG_BUSY], &streaming), NVML_SUCCESS);
    assert_int_equal(streaming, 0);
}

static void metrics_are_means_between_the_samples(void **state)
{
    const Rig *rig = *state;
    static const struct {
        unsigned int id;
        double value;
        const char *unit;
    } want[] = {
        {NVML_GPM_METRIC_GRAPHICS_UTIL, 100 * TRAINER_KERNEL, "%"},
        {NVML_GPM_METRIC_SM_UTIL, 100 * TRAINER_SM, "%"},
        {NVML_GPM_METRIC_ANY_TENSOR_UTIL, 100 * TRAINER_TENSOR, "%"},
        {NVML_GPM_METRIC_HMMA_TENSOR_UTIL, 100 * TRAINER_TENSOR, "%"},
        {NVML_GPM_METRIC_IMMA_TENSOR_UTIL, 0, "%"},
        {NVML_GPM_METRIC_PCIE_TX_PER_SEC, TRAINER_PCIE_MIB, "MiB/s"},
        {NVML_GPM_METRIC_PCIE_RX_PER_SEC, 0, "MiB/s"},
        {NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, TRAINER_LINK_MIB, "MiB/s"},
        {NVML_GPM_METRIC_NVLINK_L0_TX_PER_SEC, TRAINER_LINK_MIB / 18, "MiB/s"},
        {NVML_GPM_METRIC_NVDEC_6_UTIL, 0, "%"},
    };
    Pair p = busy_pair(rig);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        nvmlGpmMetric_t m = metric(p, want[i].id);
        assert_int_equal(m.nvmlReturn, NVML_SUCCESS);
        assert_near(m.value, want[i].value);
        assert_string_equal(m.metricInfo.unit, want[i].unit);
        assert_true(strlen(m.metricInfo.shortName) > 0 && strlen(m.metricInfo.longName) > 0);
    }
    free_pair(p);
}

static void links_that_are_down_carry_nothing(void **state)
{
    const Rig *rig = *state;
    rig_op(rig, (SimOp){.type = SIM_OP_LINK, .gpu = RIG_BUSY, .a = {3, SIM_LINK_DOWN}});
    Pair p = busy_pair(rig);
    assert_near(metric(p, NVML_GPM_METRIC_NVLINK_L3_RX_PER_SEC).value, 0);
    double total = metric(p, NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC).value;
    assert_near(metric(p, NVML_GPM_METRIC_NVLINK_L4_RX_PER_SEC).value, total / 17);
    free_pair(p);
}

static void counters_never_decrease(void **state)
{
    const Rig *rig = *state;
    static const unsigned int ids[] = {NVML_GPM_METRIC_SM_CYCLES_ELAPSED, NVML_GPM_METRIC_SM_CYCLES_ACTIVE,
                                       NVML_GPM_METRIC_PCIE_TX, NVML_GPM_METRIC_NVLINK_L17_RX};
    Pair p = busy_pair(rig), q = busy_pair(rig);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_true(metric(q, ids[i]).value > metric(p, ids[i]).value);
    free_pair(p);
    free_pair(q);
}

static void entries_answer_for_themselves(void **state)
{
    const Rig *rig = *state;
    Pair p = busy_pair(rig);
    assert_int_equal(metric(p, 0).nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(metric(p, NVML_GPM_METRIC_MAX).nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(metric(p, NVML_GPM_METRIC_NVDEC_7_UTIL).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(metric(p, NVML_GPM_METRIC_NVLINK_L18_RX_PER_SEC).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(metric(p, NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    nvmlGpmMetricsGet_t get = {
        .version = NVML_GPM_METRICS_GET_VERSION, .numMetrics = 2, .sample1 = p.a, .sample2 = p.b};
    get.metrics[0].metricId = 999;
    get.metrics[1].metricId = NVML_GPM_METRIC_SM_UTIL;
    memset(&get.metrics[2], 0x5a, sizeof get.metrics[2]);
    nvmlGpmMetric_t beyond = get.metrics[2];
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_SUCCESS);
    assert_int_equal(get.metrics[1].nvmlReturn, NVML_SUCCESS);
    assert_memory_equal(&beyond, &get.metrics[2], sizeof beyond);
    free_pair(p);
}

static void what_is_no_pair(void **state)
{
    const Rig *rig = *state;
    Pair p = make_pair();
    nvmlGpmMetricsGet_t get = {.version = NVML_GPM_METRICS_GET_VERSION, .sample1 = p.a, .sample2 = p.b};
    assert_int_equal(nvmlGpmMetricsGet(NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT); /* empty samples */
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_BUSY], p.a), NVML_SUCCESS);
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_BUSY], p.b), NVML_SUCCESS);
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT); /* one instant */
    rig_step_ms(rig, 200);
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_HOPPER], p.b), NVML_SUCCESS);
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT); /* two GPUs */
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_BUSY], p.b), NVML_SUCCESS);
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_SUCCESS);
    get.sample1 = p.b;
    get.sample2 = p.a;
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT); /* backwards */
    get.version = NVML_STRUCT_TAG(nvmlGpmMetricsGet_t, 1);
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    free_pair(p);
    get.version = NVML_GPM_METRICS_GET_VERSION;
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT); /* freed */
    assert_int_equal(nvmlGpmSampleFree(p.a), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpmSampleGet(rig->gpu[RIG_BUSY], (nvmlGpmSample_t)(uintptr_t)rig),
                     NVML_ERROR_INVALID_ARGUMENT);
}

/* On an instance metrics are of what the instance has. */
static void instances_are_measured_by_id(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER];
    rig_op(rig, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = RIG_HOPPER, .a = {1}});
    rig_op(rig, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = RIG_HOPPER, .a = {3, 0}});
    rig_op(rig, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = RIG_HOPPER, .a = {1, 2, SIM_NONE}});
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {WORK_TENANT}});
    rig_step_ms(rig, 1000);
    Pair own = make_pair(), whole = make_pair();
    assert_int_equal(nvmlGpmMigSampleGet(dev, 1, own.a), NVML_SUCCESS);
    assert_int_equal(nvmlGpmSampleGet(dev, whole.a), NVML_SUCCESS);
    rig_step_ms(rig, 1000);
    assert_int_equal(nvmlGpmMigSampleGet(dev, 1, own.b), NVML_SUCCESS);
    assert_int_equal(nvmlGpmSampleGet(dev, whole.b), NVML_SUCCESS);
    assert_near(metric(own, NVML_GPM_METRIC_SM_UTIL).value, 50);
    double all = metric(whole, NVML_GPM_METRIC_SM_UTIL).value;
    assert_true(all > 0 && all < 30); /* 60 of 132 SMs */
    assert_int_equal(metric(own, NVML_GPM_METRIC_PCIE_TX_PER_SEC).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(metric(own, NVML_GPM_METRIC_NVDEC_2_UTIL).nvmlReturn, NVML_SUCCESS);
    assert_int_equal(metric(own, NVML_GPM_METRIC_NVDEC_3_UTIL).nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    nvmlGpmMetricsGet_t get = {.version = NVML_GPM_METRICS_GET_VERSION, .sample1 = own.a, .sample2 = whole.b};
    assert_int_equal(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpmMigSampleGet(dev, 13, own.a), NVML_ERROR_INVALID_ARGUMENT);
    free_pair(own);
    free_pair(whole);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(support),
        T(metrics_are_means_between_the_samples),
        T(links_that_are_down_carry_nothing),
        T(counters_never_decrease),
        T(entries_answer_for_themselves),
        T(what_is_no_pair),
        T(instances_are_measured_by_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
