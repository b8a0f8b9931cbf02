/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/cuda/{product,burn}.c: the matrix product as a rate and as a check, and its repetition. */
#include "kit.h"

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static void test_rate(void **state)
{
    const BenchMeasure *m;
    const double tflops = 2.0 * 256 * 384 * 256 / 10e-3 / 1e12; /* a product takes 10 ms */

    (void)state;
    assert_int_equal(run_bench("gpu stages=gemm shape=256x384x256 windows=4"), 0);
    m = find_measure(BENCH_GEMM_BF16, 0, BENCH_NONE);
    assert_int_equal(m->count, 4);
    assert_true(m->samples[0] > tflops * 0.99 && m->samples[0] < tflops * 1.01);
    assert_true(m->sm_mhz > 1399 && m->sm_mhz < 1401);
    assert_int_equal(m->bytes, (256 * 256 + 384 * 256) * 2 + 256 * 384 * 4);
    assert_int_equal(count_errors(), 0);
    assert_int_equal(fake_leaks(), 0);
}

/* Without a shape the largest that fits: the memory of 8192 a side is not there, or its time is too long. */
static void test_size_fits(void **state)
{
    static const struct {
        uint64_t free_mib, side;
        double ms; /* of 2048 a side */
    } rows[] = {{260, 4096, 0.5}, {1024, 8192, 0.5}, {1024, 4096, 4}, {1024, 2048, 10}, {140, 2048, 0.5}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        fake_reset();
        fake.lazy = true;
        fake.gpus[0].free_bytes = rows[i].free_mib << 20;
        fake.gpus[0].gemm_ms = rows[i].ms;
        run_bench("gpu stages=gemm keep_mib=4");
        assert_int_equal(find_measure(BENCH_GEMM_BF16, 0, BENCH_NONE)->bytes, rows[i].side * rows[i].side * 8);
        assert_int_equal(count_errors(), 0);
    }
}

static void test_no_tensor_cores(void **state)
{
    (void)state;
    fake.gpus[0].major = 7;
    fake.gpus[0].minor = 5;
    assert_int_equal(run_bench("gpu stages=gemm,burn"), 0);
    assert_null(find_measure(BENCH_GEMM_BF16, 0, BENCH_NONE));
    assert_int_equal(count_errors(), 0);
}

static void test_wrong_sm(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].wrong_sm = 4; /* block 2: tile 2 of 2 x 3, row 0, column 256 */
    run_bench("gpu stages=gemm shape=256x384x64");
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_int_equal(count_errors(), 1);
    assert_int_equal(e->sm, 4);
    assert_int_equal(e->address, 256 * 4);
    assert_int_equal(e->count, 1);
    assert_int_equal(e->measure, BENCH_GEMM_BF16);
    assert_true(e->repeats);
    assert_false(e->path);
    assert_true(e->want != e->got);
    assert_string_equal(e->what, "gemm_bf16");
}

/* ---- burn ---- */

static const char burn[] = "gpu stages=burn seconds=4 shape=256x384x64";

static void test_burn(void **state)
{
    const BenchMeasure *m;

    (void)state;
    assert_int_equal(run_bench(burn), 0);
    m = find_measure(BENCH_BURN, 0, BENCH_NONE);
    assert_int_equal(m->count, 12);
    assert_true(m->samples[11] > 2.0 * 256 * 384 * 64 / 10e-3 / 1e12 * 0.98);
    assert_true(m->sm_mhz > 1399 && m->sm_mhz < 1401);
    assert_true(fake.gemms > 4 / 10e-3 * 0.98 && fake.gemms < 4.5 / 10e-3);
    assert_int_equal(count_errors(), 0);
    assert_int_equal(fake_leaks(), 0);
    run_bench("gpu stages=burn seconds=1 shape=128x128x32");
    assert_true(find_measure(BENCH_BURN, 0, BENCH_NONE)->count >= 3);
}

/* Wrong the same way from the first run on: no run differs from another, the exact product does. */
static void test_burn_stuck(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].wrong_sm = 6;
    run_bench(burn);
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_int_equal(e->sm, 6);
    assert_true(e->repeats);
    assert_int_equal(e->measure, BENCH_BURN);
    assert_true(count_errors() >= 5); /* one for each half second */
}

/* One wrong product among those that set the measure: two of three agree. */
static void test_burn_wrong_at_first(void **state)
{
    const BenchError *e;

    (void)state;
    fake.gpus[0].wrong_sm = 2;
    fake.gpus[0].wrong_times = 3; /* two to find the speed, and the first of the three */
    run_bench(burn);
    assert_int_equal(count_errors(), 1);
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_int_equal(e->sm, 2);
    assert_int_equal(e->count, 1);
    assert_int_equal(e->address, 1);
    assert_false(e->repeats);
}

static void test_burn_wrong_for_a_while(void **state)
{
    const BenchError *first, *rest;

    (void)state;
    fake.gpus[0].wrong_sm = 2;
    fake.gpus[0].wrong_after = 20;
    fake.gpus[0].wrong_times = 30;
    run_bench(burn);
    first = find_error(BENCH_ERROR_MISCOMPARE, 0);
    rest = find_error(BENCH_ERROR_MISCOMPARE, count_errors() - 1);
    assert_int_equal(first->sm, 2);
    assert_true(first->count > 0 && first->repeats);
    assert_int_equal(rest->sm, 2);
    assert_true(first != rest && rest->count > 0);
}

static void test_delay(void **state)
{
    (void)state;
    run_bench("gpu stages=burn seconds=1 shape=128x128x32 delay_ms=30");
    assert_non_null(find_measure(BENCH_BURN, 0, BENCH_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rate, set_up),
        cmocka_unit_test_setup(test_size_fits, set_up),
        cmocka_unit_test_setup(test_no_tensor_cores, set_up),
        cmocka_unit_test_setup(test_wrong_sm, set_up),
        cmocka_unit_test_setup(test_burn, set_up),
        cmocka_unit_test_setup(test_burn_stuck, set_up),
        cmocka_unit_test_setup(test_burn_wrong_at_first, set_up),
        cmocka_unit_test_setup(test_burn_wrong_for_a_while, set_up),
        cmocka_unit_test_setup(test_delay, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
