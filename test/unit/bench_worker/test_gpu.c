/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of one GPU, src/source/cuda/{patterns,bandwidth,probes,rate}.c, on healthy and on faulty ones. */
#include "kit.h"

static const char all[] = "gpu stages=patterns,memory,probes keep_mib=4 windows=3";

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static void assert_near(double value, double want, double share)
{
    if (!(value > want * (1 - share) && value < want * (1 + share)))
        fail_msg("%g is not %g", value, want);
}

static void test_healthy(void **state)
{
    const BenchMeasure *m;

    (void)state;
    assert_int_equal(run_bench(all), 0);
    assert_int_equal(fake_leaks(), 0);
    assert_int_equal(count_errors(), 0);
    assert_int_equal(last_stage(), BENCH_STAGE_END_OF_WORK);
    assert_int_equal(records.at[0].kind, BENCH_RECORD_STAGE);
    assert_int_equal(records.at[1].kind, BENCH_RECORD_DEVICE);
    assert_string_equal(records.at[1].device.uuid, "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0");
    assert_string_equal(records.at[1].device.pci, "0000:1B:00.0");
    assert_int_equal(records.at[1].device.sm_count, FAKE_SMS);
    assert_int_equal(records.at[1].device.free_bytes, 40 << 20);
    assert_non_null(find_measure(BENCH_CONTEXT, 0, BENCH_NONE));
    for (BenchMeasureId id = BENCH_MEMORY_WRITE; id <= BENCH_MEMORY_TRIAD; id++) {
        m = find_measure(id, 0, BENCH_NONE);
        assert_int_equal(m->count, 3);
        assert_near(m->samples[2], 4, 0.01);
        assert_near(m->sm_mhz, 1400, 0.001);
    }
    assert_near(find_measure(BENCH_MEMORY_LATENCY, 0, BENCH_NONE)->samples[0], 500, 0.01);
    assert_near(find_measure(BENCH_L2_READ, 0, BENCH_NONE)->samples[0], 4, 0.01);
    assert_true(fake.longest_kernel_ms < 50);
    assert_int_equal(fake.broken_chains, 0);
    assert_true(fake.most_bytes <= 36 << 20); /* 40 MiB less keep_mib */
    assert_true(fake.most_bytes > 32 << 20);
}

static void test_probes(void **state)
{
    const BenchMeasure *m;

    (void)state;
    assert_int_equal(run_bench("gpu stages=probes windows=4"), 0);
    m = find_measure(BENCH_MMA_BF16, 0, BENCH_NONE);
    assert_int_equal(m->count, 4);
    assert_near(m->samples[3], 1, 0.01);
    assert_int_equal(m->sm_count, FAKE_SMS * 2 - 1);
    for (uint32_t i = 0; i < m->sm_count; i += 2) {
        assert_near((double)m->per_clock[i], 1e12 / FAKE_SMS / 1.4e9, 0.01);
        assert_true(m->per_clock[i + 1] <= 0);
    }
    assert_non_null(find_measure(BENCH_MMA_INT8, 0, BENCH_NONE));
    assert_null(find_measure(BENCH_MMA_FP8, 0, BENCH_NONE)); /* 8.0 has none */
    assert_null(find_measure(BENCH_WGMMA_BF16, 0, BENCH_NONE));
    assert_int_equal(run_bench("gpu stages=probes probes=fma.fp64"), 0);
    assert_non_null(find_measure(BENCH_FMA_FP64, 0, BENCH_NONE));
    assert_null(find_measure(BENCH_FMA_FP32, 0, BENCH_NONE));
}

static void test_probes_by_capability(void **state)
{
    static const struct {
        int major, minor;
        BenchMeasureId has, has_not;
    } rows[] = {
        {7, 0, BENCH_FMA_FP32, BENCH_MMA_FP16},        {7, 5, BENCH_MMA_INT8, BENCH_MMA_BF16},
        {8, 9, BENCH_MMA_FP8, BENCH_WGMMA_BF16},       {9, 0, BENCH_WGMMA_FP8, BENCH_TCGEN05_BF16},
        {10, 0, BENCH_TCGEN05_BF16, BENCH_WGMMA_BF16}, {10, 3, BENCH_TCGEN05_BF16, BENCH_WGMMA_BF16},
        {12, 0, BENCH_MMA_FP8, BENCH_TCGEN05_BF16},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        fake_reset();
        fake.gpus[0].major = rows[i].major;
        fake.gpus[0].minor = rows[i].minor;
        assert_int_equal(run_bench("gpu stages=probes"), 0);
        assert_non_null(find_measure(rows[i].has, 0, BENCH_NONE));
        assert_null(find_measure(rows[i].has_not, 0, BENCH_NONE));
        assert_int_equal(count_errors(), 0);
    }
}

static void test_slow_sm(void **state)
{
    const BenchMeasure *m;

    (void)state;
    fake.gpus[0].slow_sm = 6;
    run_bench("gpu stages=probes probes=fma.fp32");
    m = find_measure(BENCH_FMA_FP32, 0, BENCH_NONE);
    assert_near((double)(m->per_clock[6] / m->per_clock[4]), 0.8, 0.001);
    assert_near(m->samples[0], (FAKE_SMS - 1 + 0.8) / FAKE_SMS, 0.01); /* by each SM's own time */
    assert_int_equal(count_errors(), 0);
}

static void test_missing_sm(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].missing_sm = 4;
    run_bench("gpu stages=probes probes=fma.fp32");
    e = find_error(BENCH_ERROR_MISSING_SM, 0);
    assert_int_equal(e->want, FAKE_SMS);
    assert_int_equal(e->got, FAKE_SMS - 1);
    assert_int_equal(e->count, 1);
    assert_int_equal(e->measure, BENCH_FMA_FP32);
}

static void test_wrong_sm(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].wrong_probe_sm = 10;
    run_bench("gpu stages=probes probes=mma.bf16 windows=3");
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_int_equal(e->stage, BENCH_STAGE_PROBES);
    assert_int_equal(e->sm, 10);
    assert_int_equal(e->count, 3);
    assert_int_equal(e->want, 0x3f800000);
    assert_int_equal(e->got, 0x3f800001);
    assert_int_equal(e->measure, BENCH_MMA_BF16);
    assert_string_equal(e->what, "probe_mma_bf16");
    assert_true(e->repeats);
    assert_int_equal(count_errors(), 1);
}

/* ---- memory ---- */

static void test_stuck_cell(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].stuck_word = 1234567;
    fake.gpus[0].stuck_value = 0xaaaaaaab;
    run_bench("gpu stages=patterns keep_mib=30");
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_string_equal(e->what, "zero");
    e = find_error(BENCH_ERROR_MISCOMPARE, 2);
    assert_string_equal(e->what, "aa");
    assert_int_equal(e->address, 1234567 * 4);
    assert_int_equal(e->want, 0xaaaaaaaa);
    assert_int_equal(e->got, 0xaaaaaaab);
    assert_int_equal(e->count, 1);
    assert_int_equal(e->sm, BENCH_NONE);
    assert_true(e->repeats);
    assert_false(e->path);
    assert_string_equal(find_error(BENCH_ERROR_MISCOMPARE, 3)->what, "aa inverted");
    assert_int_equal(find_error(BENCH_ERROR_MISCOMPARE, 3)->want, 0x55555555);
    assert_int_equal(fake_leaks(), 0);
}

static void test_flipped_once(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].stuck_word = 99;
    fake.gpus[0].stuck_value = 0x100;
    fake.gpus[0].stuck_times = 1;
    run_bench("gpu stages=patterns keep_mib=30");
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_int_equal(e->got, 0x100);
    assert_false(e->repeats);
    assert_int_equal(count_errors(), 1);
}

static void test_less_memory(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].free_bytes = 800 << 20;
    fake.gpus[0].refused_over = 300 << 20;
    fake.lazy = true;
    run_bench("gpu stages=patterns keep_mib=0 memory_percent=90");
    e = find_error(BENCH_ERROR_LESS_MEMORY, 0);
    assert_int_equal(count_errors(), 1);
    assert_int_equal(e->want, 720 << 20);
    assert_true(e->got > 240 << 20 && e->got <= 300 << 20);
    assert_int_equal(e->count, e->want - e->got);
    assert_int_equal(fake_leaks(), 0);
}

/* Slices are cut so that no kernel runs long, whatever the memory's size and speed. */
static void test_slices(void **state)
{
    (void)state;
    fake.gpus[0].free_bytes = UINT64_C(200) << 20;
    fake.gpus[0].gb_per_s = 2;
    fake.lazy = true;
    run_bench("gpu stages=patterns keep_mib=0");
    assert_int_equal(count_errors(), 0);
    assert_true(fake.longest_kernel_ms < 100); /* the first one, before the speed is known, is the longest */
}

/* ---- start ---- */

static void test_older_text(void **state)
{
    const BenchError *e;

    (void)state;
    fake.refused_text = CUDA_TEXT_AMPERE;
    fake.refused_result = CUDA_PTX_TOO_NEW;
    run_bench("gpu stages=probes");
    e = find_error(BENCH_ERROR_OLDER_TEXT, 0);
    assert_string_equal(e->what, "ampere");
    assert_int_equal(e->code, CUDA_PTX_TOO_NEW);
    assert_int_equal(count_errors(), 1);
    assert_null(find_measure(BENCH_MMA_BF16, 0, BENCH_NONE));
    assert_non_null(find_measure(BENCH_MMA_INT8, 0, BENCH_NONE)); /* the base has an older one */
}

static void test_no_text(void **state)
{
    (void)state;
    fake.refused_text = CUDA_TEXT_BASE;
    fake.refused_result = CUDA_NO_JIT;
    assert_int_equal(run_bench(all), 0);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->code, CUDA_NO_JIT);
    assert_string_equal(find_error(BENCH_ERROR_CALL, 0)->what, "cuModuleLoadDataEx");
    assert_int_equal(count_errors(), 1);
    assert_int_equal(fake_leaks(), 0);
    fake_reset();
    fake.gpus[0].major = 6; /* Pascal */
    run_bench(all);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->code, CUDA_NO_BINARY);
    assert_int_equal(last_stage(), BENCH_STAGE_END_OF_WORK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_healthy, set_up),
        cmocka_unit_test_setup(test_probes, set_up),
        cmocka_unit_test_setup(test_probes_by_capability, set_up),
        cmocka_unit_test_setup(test_slow_sm, set_up),
        cmocka_unit_test_setup(test_missing_sm, set_up),
        cmocka_unit_test_setup(test_wrong_sm, set_up),
        cmocka_unit_test_setup(test_stuck_cell, set_up),
        cmocka_unit_test_setup(test_flipped_once, set_up),
        cmocka_unit_test_setup(test_less_memory, set_up),
        cmocka_unit_test_setup(test_slices, set_up),
        cmocka_unit_test_setup(test_older_text, set_up),
        cmocka_unit_test_setup(test_no_text, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
