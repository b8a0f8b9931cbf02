/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/cuda/{process,gpu,cuda,send,options}.c: whatever call fails, at whatever use, the process reports it once,
 * does what still can be done, and holds nothing in the end; stops; arguments. */
#include "kit.h"

static const char one[] = "gpu stages=patterns,memory,probes,gemm,burn keep_mib=4 windows=1 seconds=1 shape=128x128x32";
static const char links[] = "links stages=host,pairs,collectives keep_mib=0 windows=1";
static const char *const names[] = {
#define FUNCTION_NAME(name, ...) [CUDA_FN_##name] = #name,
    CUDA_FUNCTION_TABLE(FUNCTION_NAME)
#undef FUNCTION_NAME
};

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    fake.lazy = true;
    return 0;
}

static int run_with(const char *arguments, int function, int at, CUresult result)
{
    set_up(NULL);
    fake.lazy = strncmp(arguments, "gpu", 3) == 0;
    fake.count = fake.lazy ? 1 : 2;
    for (int i = 0; !fake.lazy && i < 2; i++)
        fake.gpus[i].free_bytes = 6 << 20;
    fake.fail_function = function;
    fake.fail_at = at;
    fake.fail_result = result;
    return run_bench(arguments);
}

/* Uses of each function in a run without faults. */
static void count_uses(const char *arguments, int *uses)
{
    assert_int_equal(run_with(arguments, FAKE_NONE, 0, 0), 0);
    assert_int_equal(count_errors(), 0);
    memcpy(uses, fake.uses, sizeof fake.uses);
}

static void check_failure(const char *arguments, CudaFunction function, int at, CUresult result)
{
    const BenchError *e;

    if (run_with(arguments, (int)function, at, result) != 0 || fake_leaks() != 0 ||
        last_stage() != BENCH_STAGE_END_OF_WORK)
        fail_msg("%s, use %d: %d held, last stage %d", names[function], at, fake_leaks(), (int)last_stage());
    e = find_error(BENCH_ERROR_CALL, 0);
    if (!e || e->code != result || strcmp(e->what, names[function]) != 0 || count_errors() != 1)
        fail_msg("%s, use %d: %zu errors, first of %s: %d", names[function], at, count_errors(), e ? e->what : "-",
                 e ? e->code : 0);
}

/* The first uses, the last one, and some between. */
static void check_each(const char *arguments, CUresult result)
{
    int uses[CUDA_FUNCTION_COUNT];

    count_uses(arguments, uses);
    for (CudaFunction f = 0; f < CUDA_FUNCTION_COUNT; f++) {
        if (f == CUDA_FN_cuDevicePrimaryCtxRelease_v2)
            continue;
        for (int at = 1; at <= uses[f]; at = at < 5             ? at + 1
                                             : at == uses[f]    ? at + 1
                                             : at * 3 > uses[f] ? uses[f]
                                                                : at * 3)
            check_failure(arguments, f, at, result);
    }
}

static void test_each_call(void **state)
{
    (void)state;
    check_each(one, CUDA_UNKNOWN);
    check_each(links, CUDA_UNKNOWN);
}

static void test_each_call_sticky(void **state)
{
    (void)state;
    check_each(one, CUDA_ECC_UNCORRECTABLE);
    check_each(links, CUDA_ILLEGAL_ADDRESS);
}

static void test_goes_on_after_an_error(void **state)
{
    (void)state;
    run_with(one, CUDA_FN_cuMemGetInfo_v2, 2, CUDA_UNKNOWN); /* the budget of the patterns */
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->stage, BENCH_STAGE_PATTERNS);
    assert_non_null(find_measure(BENCH_BURN, 0, BENCH_NONE));
    run_with(one, CUDA_FN_cuMemGetInfo_v2, 2, CUDA_CONTAINED);
    assert_null(find_measure(BENCH_MEMORY_READ, 0, BENCH_NONE));
}

static void test_names_the_gpu(void **state)
{
    int uses[CUDA_FUNCTION_COUNT];

    (void)state;
    count_uses("links stages=host keep_mib=0 windows=1", uses);
    run_with("links stages=host keep_mib=0 windows=1", CUDA_FN_cuMemcpyDtoHAsync_v2, uses[CUDA_FN_cuMemcpyDtoHAsync_v2],
             CUDA_UNKNOWN);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->gpu, 1);
    run_with("links stages=host", CUDA_FN_cuInit, 1, CUDA_SYSTEM_NOT_READY);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->gpu, BENCH_NONE);
    run_with("gpu stages=probes", CUDA_FN_cuInit, 1, CUDA_SYSTEM_NOT_READY);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->gpu, 0);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->stage, BENCH_STAGE_START);
}

static void test_no_memory(void **state)
{
    (void)state;
    fake.gpus[0].free_bytes = 1 << 20;
    assert_int_equal(run_bench("gpu stages=memory,probes keep_mib=0"), 0);
    assert_int_equal(find_error(BENCH_ERROR_CALL, 0)->code, CUDA_OUT_OF_MEMORY);
    assert_string_equal(find_error(BENCH_ERROR_CALL, 0)->what, "cuMemAlloc_v2");
    assert_non_null(find_measure(BENCH_FMA_FP32, 0, BENCH_NONE));
}

/* ---- stop ---- */

static void test_stop(void **state)
{
    int launches;

    (void)state;
    run_with(one, FAKE_NONE, 0, 0);
    launches = fake.uses[CUDA_FN_cuLaunchKernel];
    for (int at = 1; at <= launches; at = at * 2 + 1) {
        set_up(NULL);
        fake.term_after = at;
        assert_int_equal(run_bench(one), 0);
        assert_int_equal(count_errors(), 1);
        assert_non_null(find_error(BENCH_ERROR_STOPPED, 0));
        assert_int_equal(last_stage(), BENCH_STAGE_END_OF_WORK);
        assert_int_equal(fake_leaks(), 0);
        assert_true(fake.stopped_launches >= 1); /* the word was seen */
        assert_true(fake.launches <= at + 8192);
    }
}

static void test_stop_links(void **state)
{
    (void)state;
    fake.count = 2;
    fake.gpus[0].free_bytes = fake.gpus[1].free_bytes = 6 << 20;
    fake.term_after = 20;
    assert_int_equal(run_bench(links), 0);
    assert_int_equal(find_error(BENCH_ERROR_STOPPED, 0)->gpu, BENCH_NONE);
    assert_int_equal(fake_leaks(), 0);
}

/* ---- arguments ---- */

static int parse_text(const char *arguments, BenchOptions *ret, Err *err)
{
    char *argv[8] = {(char[]){"stoker-bench"}}, *at = strdup(arguments), *start = at, *word;
    int argc = 1, rc;

    while ((word = strsep(&at, " ")))
        argv[argc++] = word;
    rc = bench_options_parse(argc, argv, ret, err);
    free(start);
    return rc;
}

static void test_arguments(void **state)
{
    BenchOptions o;

    (void)state;
    assert_int_equal(parse_text("gpu", &o, NULL), 0);
    assert_true(o.seconds == 8 && o.windows == 5 && o.memory_percent == 90 && o.keep_mib == 512 && o.stage_count == 0);
    assert_true(o.all_probes && !o.links && o.m == 0);
    assert_int_equal(parse_text("gpu stages=burn,patterns seconds=3 delay_ms=400 shape=128x256x64 probes=", &o, NULL),
                     0);
    assert_true(o.stage_count == 2 && o.stages[0] == BENCH_STAGE_BURN && o.stages[1] == BENCH_STAGE_PATTERNS);
    assert_true(o.m == 128 && o.n == 256 && o.k == 64 && o.seconds == 3 && o.delay_ms == 400 && o.all_probes);
    assert_int_equal(parse_text("links stages=pairs probes=fma.fp32,tcgen05.bf16", &o, NULL), 0);
    assert_true(o.links && o.probes[BENCH_FMA_FP32] && o.probes[BENCH_TCGEN05_BF16] && !o.probes[BENCH_MMA_FP8]);
}

static void test_wrong_arguments(void **state)
{
    static const char *const wrong[] = {
        "",
        "both",
        "gpu stages=pairs",
        "links stages=burn",
        "gpu stages=start",
        "gpu stages=end",
        "gpu stages=",
        "gpu stages=burn,,gemm",
        "gpu stages=burn,burn",
        "gpu seconds=0",
        "gpu seconds",
        "gpu windows=17",
        "gpu windows=0",
        "gpu memory_percent=96",
        "gpu memory_percent=-1",
        "gpu keep_mib=x",
        "gpu probes=burn",
        "gpu probes=memory.read",
        "gpu shape=128x128",
        "gpu shape=128x128x32x32",
        "gpu shape=100x128x32",
        "gpu shape=128x128x48",
        "gpu shape=65536x128x32",
        "gpu library=",
        "gpu color=red",
        "gpu =1",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        BenchOptions o;
        Err err = {0};

        if (parse_text(wrong[i], &o, &err) >= 0 || err.text[0] == '\0')
            fail_msg("'%s' is taken", wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_call, set_up),
        cmocka_unit_test_setup(test_each_call_sticky, set_up),
        cmocka_unit_test_setup(test_goes_on_after_an_error, set_up),
        cmocka_unit_test_setup(test_names_the_gpu, set_up),
        cmocka_unit_test_setup(test_no_memory, set_up),
        cmocka_unit_test_setup(test_stop, set_up),
        cmocka_unit_test_setup(test_stop_links, set_up),
        cmocka_unit_test_setup(test_arguments, set_up),
        cmocka_unit_test_setup(test_wrong_arguments, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
