/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/cuda/{host,pairs,collectives,links}.c: copies, on three GPUs. */
#include "kit.h"

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    fake.count = 3;
    for (int i = 0; i < 3; i++)
        fake.gpus[i].free_bytes = 12 << 20;
    return 0;
}

static void assert_near(const BenchMeasure *m, double want, double share)
{
    assert_non_null(m);
    if (!(m->samples[0] > want * (1 - share) && m->samples[0] < want * (1 + share)))
        fail_msg("%s: %g is not %g", bench_measures[m->id].key, m->samples[0], want);
}

static void test_healthy(void **state)
{
    (void)state;
    assert_int_equal(run_bench("links stages=host,pairs,collectives keep_mib=0 windows=3"), 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(records.at[1 + 2 * i].device.uuid[5], '0' + i); /* a DEVICE and its first context each */
        assert_near(find_measure(BENCH_HOST_TO_GPU, i, BENCH_NONE), 2, 0.02);
        assert_near(find_measure(BENCH_GPU_TO_HOST, i, BENCH_NONE), 1, 0.02);
        assert_near(find_measure(BENCH_HOST_TO_ALL, i, BENCH_NONE), 2, 0.02);
        assert_near(find_measure(BENCH_ALL_TO_HOST, i, BENCH_NONE), 1, 0.02);
        assert_near(find_measure(BENCH_RING, i, BENCH_NONE), 3, 0.02);
        assert_near(find_measure(BENCH_ALL_TO_ALL, i, BENCH_NONE), 3, 0.03);
        assert_non_null(find_measure(BENCH_ALL_REDUCE, i, BENCH_NONE));
        for (uint32_t j = 0; j < 3; j++) {
            if (i == j)
                continue;
            assert_near(find_measure(BENCH_PEER, i, j), 3, 0.02);
            assert_near(find_measure(BENCH_PEER_SM, i, j), 2, 0.02); /* reads and writes at 4 GB/s in all */
            assert_true(i > j || find_measure(BENCH_PEER_BOTH, i, j)->samples[0] > 5.8);
        }
    }
    assert_int_equal(fake.loaded_texts, 3); /* the base of each: those of arithmetic would take seconds */
    assert_int_equal(count_errors(), 0);
    assert_int_equal(last_stage(), BENCH_STAGE_END_OF_WORK);
    assert_int_equal(fake_leaks(), 0);
    assert_true(fake.most_bytes <= 3 * 12 << 20);
}

static void test_one_gpu_alone(void **state)
{
    (void)state;
    fake.count = 1;
    assert_int_equal(run_bench("links stages=host,pairs,collectives keep_mib=0 windows=3"), 0);
    assert_non_null(find_measure(BENCH_HOST_TO_GPU, 0, BENCH_NONE));
    assert_null(find_measure(BENCH_RING, 0, BENCH_NONE));
    assert_int_equal(count_errors(), 0);
}

static void test_corrupt_host(void **state)
{
    (void)state;
    fake.corrupt_to_gpu = true;
    run_bench("links stages=host keep_mib=0");
    assert_int_equal(count_errors(), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const BenchError *e = find_error(BENCH_ERROR_MISCOMPARE, i);
        assert_int_equal(e->gpu, i);
        assert_int_equal(e->measure, BENCH_HOST_TO_GPU);
        assert_int_equal(e->want ^ e->got, 0x10);
        assert_int_equal(e->address, (2 << 20) / 2);
        assert_int_equal(e->count, 1);
        assert_true(e->path && e->repeats);
    }
    set_up(NULL);
    fake.corrupt_to_host = true;
    run_bench("links stages=host keep_mib=0");
    assert_int_equal(count_errors(), 3);
    assert_int_equal(find_error(BENCH_ERROR_MISCOMPARE, 2)->measure, BENCH_GPU_TO_HOST);
}

/* ---- pairs ---- */

static void test_no_peer(void **state)
{
    const BenchError *e;

    (void)state;
    fake.no_peer[1][2] = true;
    run_bench("links stages=pairs keep_mib=0 windows=2");
    e = find_error(BENCH_ERROR_NO_PEER, 0);
    assert_int_equal(count_errors(), 2);
    assert_int_equal(e->gpu, 1);
    assert_int_equal(e->peer, 2);
    e = find_error(BENCH_ERROR_STAGED, 0);
    assert_int_equal(e->gpu, 1);
    assert_int_equal(e->peer, 2);
    assert_non_null(find_measure(BENCH_PEER, 1, 2));
    assert_null(find_measure(BENCH_PEER_SM, 1, 2));
    assert_non_null(find_measure(BENCH_PEER_SM, 2, 1));
}

static void test_access_refused(void **state)
{
    (void)state;
    fake.fail_function = CUDA_FN_cuCtxEnablePeerAccess;
    fake.fail_at = 2;
    fake.fail_result = CUDA_TOO_MANY_PEERS;
    run_bench("links stages=pairs keep_mib=0 windows=2");
    assert_int_equal(find_error(BENCH_ERROR_NO_PEER, 0)->code, CUDA_TOO_MANY_PEERS);
    assert_int_equal(find_error(BENCH_ERROR_NO_PEER, 0)->peer, 2);
    set_up(NULL);
    fake.fail_function = CUDA_FN_cuCtxEnablePeerAccess;
    fake.fail_at = 2;
    fake.fail_result = CUDA_PEER_ALREADY;
    run_bench("links stages=pairs keep_mib=0 windows=2");
    assert_int_equal(count_errors(), 0);
}

static void test_corrupt_pair(void **state)
{
    const BenchError *e;

    (void)state;
    fake.corrupt[2][0] = true;
    run_bench("links stages=pairs,collectives keep_mib=0 windows=2");
    e = find_error(BENCH_ERROR_MISCOMPARE, 0);
    assert_int_equal(e->gpu, 2);
    assert_int_equal(e->peer, 0);
    assert_int_equal(e->measure, BENCH_PEER);
    assert_true(e->path && e->repeats);
    assert_int_equal(e->want ^ e->got, 0x10);
    e = find_error(BENCH_ERROR_MISCOMPARE, 1);
    assert_int_equal(e->stage, BENCH_STAGE_COLLECTIVES);
    assert_int_equal(e->measure, BENCH_ALL_REDUCE);
}

static void test_slow_engines(void **state)
{
    (void)state;
    fake.copy_share[0][1] = 0.3; /* 0.9 GB/s, of 2 by SMs */
    run_bench("links stages=pairs keep_mib=0 windows=2");
    assert_int_equal(count_errors(), 1);
    assert_int_equal(find_error(BENCH_ERROR_STAGED, 0)->gpu, 0);
    assert_int_equal(find_error(BENCH_ERROR_STAGED, 0)->peer, 1);
    set_up(NULL);
    fake.copy_share[0][1] = 0.4; /* slow, but no other path */
    run_bench("links stages=pairs keep_mib=0 windows=2");
    assert_int_equal(count_errors(), 0);
}

/* ---- collectives ---- */

/* What GPU 1 sends to GPU 2 arrives wrong: its sum on GPU 2, and its share of GPU 2's own sum; no more is blamed. */
static void test_wrong_sum(void **state)
{
    const BenchError *e;
    size_t ways = 0, sums = 0;

    (void)state;
    fake.corrupt[1][2] = true;
    run_bench("links stages=collectives keep_mib=0 windows=2");
    for (size_t i = 0; (e = find_error(BENCH_ERROR_MISCOMPARE, i)); i++) {
        assert_true(e->path && e->repeats);
        assert_int_equal(e->measure, BENCH_ALL_REDUCE);
        ways += e->gpu == 1 && e->peer == 2;
        sums += e->gpu == 2 && e->peer == BENCH_NONE;
    }
    assert_int_equal(ways, 2); /* of two sizes */
    assert_int_equal(sums, 2);
    assert_int_equal(count_errors(), 4);
}

static void test_affinity(void **state)
{
    char root[] = "/tmp/bench_links_XXXXXX", path[256];
    cpu_set_t before, after;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "mkdir -p %s/sys/bus/pci/devices/0000:1b:00.0", root);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:1b:00.0/local_cpulist", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("0\n", file);
    fclose(file);
    sched_getaffinity(0, sizeof before, &before);
    snprintf(path, sizeof path, "links stages=host keep_mib=0 root=%s", root);
    assert_int_equal(run_bench(path), 0);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(fake.pinned_on[0], 0);
    snprintf(path, sizeof path, "rm -r %s", root);
    assert_int_equal(system(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_healthy, set_up),        cmocka_unit_test_setup(test_one_gpu_alone, set_up),
        cmocka_unit_test_setup(test_corrupt_host, set_up),   cmocka_unit_test_setup(test_no_peer, set_up),
        cmocka_unit_test_setup(test_access_refused, set_up), cmocka_unit_test_setup(test_corrupt_pair, set_up),
        cmocka_unit_test_setup(test_slow_engines, set_up),   cmocka_unit_test_setup(test_wrong_sum, set_up),
        cmocka_unit_test_setup(test_affinity, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
