/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that scenarios put into a GPU, and what a client finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "kit.h"
#include "sim/scenario/scenario.h"
#include "test/unit/nvml_lib/node.h"

enum { OPS = 32, TILES = 64, SIZE = 1024 };

/* `stoker sim inject` of some words. GPU 1 of the node is ordinal 0, GPU 2 ordinal 1. */
static void inject(SimImage *image, const char *text)
{
    static ScenarioOp ops[OPS];
    Arena arena = {0};
    Err err = {0};
    size_t count = 0;
    char *words[16], *copy = strdup(text);
    int n = 0;

    for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
        words[n++] = at;
    if (scenario_step_parse(image, n, (const char *const *)words, ops, OPS, &count, &arena, &err) < 0)
        client_fail(__FILE__, __LINE__, err.text, 0, 0);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(sim_op_apply(image, &ops[i].op, ops[i].text, 0, NULL), SIM_OK);
    arena_done(&arena);
    free(copy);
}

/* --- speed ------------------------------------------------------------------------------------------------------- */

static void use_slow_memory(Client *c)
{
    client_open(c, 2);
    const CudaKernelArgs first = {.a = client_alloc(c, 1ull << 30), .count = 1 << 26};
    const double healthy = client_time(c, CUDA_MEMORY_WRITE, 264, first);
    inject(c->image, "compute gpu=1 memory=0.94");
    CHECK_NEAR(client_time(c, CUDA_MEMORY_WRITE, 264, first) * 0.94, healthy, 0.001);
    client_use(c, 1);
    const CudaKernelArgs second = {.a = client_alloc(c, 1ull << 30), .count = 1 << 26};
    CHECK_NEAR(client_time(c, CUDA_MEMORY_WRITE, 264, second), healthy, 0.001);
}

static void memory_can_be_slow(void **state)
{
    (void)state;
    client_case(use_slow_memory);
}

static void use_odd_sms(Client *c)
{
    const CudaKernelArgs args = {.rounds = 100000};
    bool seen[H100_SMS] = {0};

    client_open(c, 1);
    const double healthy = client_time(c, CUDA_PROBE_MMA_BF16, H100_SMS, args);
    const double clocks = (double)c->results[0].clocks;
    inject(c->image, "compute gpu=1 sm=17 speed=0.8");
    CHECK_NEAR(client_time(c, CUDA_PROBE_MMA_BF16, H100_SMS, args), healthy / 0.8, 0.001);
    for (uint32_t b = 0; b < H100_SMS; b++)
        CHECK_NEAR(c->results[b].clocks, c->results[b].smid == 17 ? clocks / 0.8 : clocks, 1e-4);
    inject(c->image, "compute gpu=1 sm_missing=40");
    client_time(c, CUDA_PROBE_MMA_BF16, H100_SMS, args);
    for (uint32_t b = 0; b < H100_SMS; b++)
        seen[c->results[b].smid] = true;
    for (uint32_t sm = 0; sm < H100_SMS; sm++)
        CHECK_INT(seen[sm], sm != 40);
    CHECK_INT(c->results[H100_SMS - 1].smid, 0); /* after the first there */
    CHECK(c->results[H100_SMS - 1].begin_ns >= c->results[0].end_ns);
    int sms;
    CHECK_INT(c->cu.cuDeviceGetAttribute(&sms, CUDA_ATTRIBUTE_SM_COUNT, 0), 0);
    CHECK_INT(sms, H100_SMS);
}

static void sms_can_be_slow_or_missing(void **state)
{
    (void)state;
    client_case(use_odd_sms);
}

/* --- wrong results ----------------------------------------------------------------------------------------------- */

static uint32_t wrong_sms(const Client *c, uint32_t *ret_sm)
{
    uint32_t count = 0;

    for (uint32_t b = 0; b < H100_SMS; b++)
        if (c->results[b].errors > 0) {
            *ret_sm = c->results[b].smid;
            count++;
        }
    return count;
}

static void find_wrong_probe(Client *c)
{
    const CudaKernelArgs args = {.rounds = 50000}; /* 2.6e10 operations of each SM */
    uint32_t sm = 0, rare = 0, others = 0, got[10];

    client_open(c, 1);
    inject(c->image, "compute gpu=1 wrong=1e-9 wrong_sm=99");
    for (int i = 0; i < 10; i++) {
        CHECK_INT(client_launch(c, CUDA_PROBE_MMA_BF16, H100_SMS, args), 0);
        CHECK_INT(wrong_sms(c, &sm), 1);
        CHECK_INT(sm, 99);
        CHECK(c->results[99].want != c->results[99].got && c->results[99].checksum != c->results[98].checksum);
        got[i] = c->results[99].got;
        others += got[i] != got[0];
    }
    CHECK(others > 3);
    inject(c->image, "compute gpu=1 wrong=1e-9 wrong_sm=99 repeats=yes");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(client_launch(c, CUDA_PROBE_MMA_BF16, H100_SMS, args), 0);
        got[i] = c->results[99].got;
    }
    CHECK(got[0] == got[1] && got[0] != c->results[99].want);
    inject(c->image, "compute gpu=1 wrong=1e-11 wrong_sm=99"); /* in one of four launches */
    for (int i = 0; i < 200; i++) {
        CHECK_INT(client_launch(c, CUDA_PROBE_MMA_BF16, H100_SMS, args), 0);
        rare += wrong_sms(c, &sm);
    }
    CHECK(rare > 25 && rare < 75);
    inject(c->image, "compute gpu=1 wrong=1e-9 nan=yes");
    CHECK_INT(client_launch(c, CUDA_PROBE_MMA_BF16, H100_SMS, args), 0);
    CHECK_INT(c->results[0].got, 0x7fc00000);
}

static void probes_find_the_sm_that_is_wrong(void **state)
{
    (void)state;
    client_case(find_wrong_probe);
}

static void find_wrong_product(Client *c)
{
    const uint64_t words = (uint64_t)SIZE * SIZE;
    uint64_t checksums[TILES];
    uint32_t differ = 0;

    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, words * 2), d = client_alloc(c, words * 4), e = client_alloc(c, words * 4);
    CHECK_INT(client_launch(c, CUDA_FILL_INTEGER, 8, (CudaKernelArgs){.a = a, .count = words / 2, .seed = 1}), 0);
    CudaKernelArgs args = {.a = a, .b = a, .c = d, .m = SIZE, .n = SIZE, .k = SIZE};
    CHECK_INT(client_launch(c, CUDA_GEMM_BF16, TILES, args), 0);
    for (uint32_t b = 0; b < TILES; b++)
        checksums[b] = c->results[b].checksum;
    inject(c->image, "compute gpu=1 wrong=3e-7 wrong_sm=20"); /* some ten of the 3.4e7 operations of a tile */
    args.c = e;
    CHECK_INT(client_launch(c, CUDA_GEMM_BF16, TILES, args), 0);
    for (uint32_t b = 0; b < TILES; b++)
        if (checksums[b] != c->results[b].checksum) {
            CHECK_INT(c->results[b].smid, 20);
            differ++;
        }
    CHECK_INT(differ, 1);
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = e, .b = d, .count = words}), 0);
    CHECK(client_errors(c, 8) > 2 && client_errors(c, 8) < 30);
    for (uint32_t b = 0; b < 8; b++)
        if (c->results[b].errors > 0) { /* in tile 20: the third row of tiles, the fifth in it */
            CHECK_INT(c->results[b].first_bad / SIZE / 128, 2);
            CHECK_INT(c->results[b].first_bad % SIZE / 128, 4);
        }
}

static void products_show_the_tile_that_is_wrong(void **state)
{
    (void)state;
    client_case(find_wrong_product);
}

static void find_stuck_word(Client *c)
{
    client_open(c, 1);
    inject(c->image, "compute gpu=1 bad_address=1073741824"); /* the first 2 MiB are the context's */
    const CUdeviceptr a = client_alloc(c, 4ull << 30);
    CudaKernelArgs args = {.a = a, .count = 1 << 28, .pattern = CUDA_PATTERN_AA};
    const uint64_t word = ((1ull << 30) - (a & 0xffffffffffff)) / 4;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 8, args), 0);
        CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
        CHECK_INT(client_errors(c, 8), 0); /* the bit is set in this pattern */
        args.pattern = CUDA_PATTERN_ZERO;
        CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 8, args), 0);
        CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
        CHECK_INT(client_errors(c, 8), 1);
        for (uint32_t b = 0; b < 8; b++)
            if (c->results[b].errors) {
                CHECK_INT(c->results[b].first_bad, word);
                CHECK_INT(c->results[b].got, 1 << 11);
            }
        args.pattern = CUDA_PATTERN_AA;
    }
}

static void a_stuck_bit_is_found_each_time(void **state)
{
    (void)state;
    client_case(find_stuck_word);
}

/* --- results of calls -------------------------------------------------------------------------------------------- */

static CUresult wanted;

static void try_init(Client *c)
{
    CHECK_INT(c->cu.cuInit(0), wanted);
    CHECK_INT(c->cu.cuDeviceGetCount(&(int){0}), wanted ? CUDA_NOT_INITIALIZED : 0);
}

static void init_gives_the_result_of_the_scenario(void **state)
{
    static const struct {
        const char *words;
        CUresult result;
    } rows[] = {{"compute gpu=2 cuda=802", CUDA_SYSTEM_NOT_READY},   {"compute gpu=all cuda=803", CUDA_DRIVER_MISMATCH},
                {"compute gpu=all cuda=100", CUDA_NO_DEVICE},        {"compute gpu=all cuda=999", CUDA_UNKNOWN},
                {"compute gpu=all cuda=304", CUDA_OPERATING_SYSTEM}, {"compute gpu=all cuda=46", CUDA_SUCCESS},
                {"compute gpu=all cuda=222", CUDA_SUCCESS},          {"compute gpu=all cuda=214", CUDA_SUCCESS}};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SimImage *image = node_new(590);
        inject(image, rows[i].words);
        wanted = rows[i].result;
        assert_int_equal(client_run(image, try_init), 0);
        node_free(image);
    }
}

static void try_later(Client *c)
{
    CUmodule module;
    CUcontext context;

    CHECK_INT(c->cu.cuInit(0), 0);
    inject(c->image, "compute gpu=1 cuda=46");
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_DEVICE_UNAVAILABLE);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 1), 0);
    inject(c->image, "set gpu=3 compute_mode=prohibited");
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, DESK), CUDA_DEVICE_UNAVAILABLE);
    inject(c->image, "reset-required gpu=0");
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, LAST), CUDA_DEVICE_UNAVAILABLE);
    inject(c->image, "compute gpu=1 cuda=222");
    client_open(c, 1);
    CHECK_INT(c->cu.cuModuleLoadDataEx(&module, ".version 6.5\n.target sm_75\n", 0, NULL, NULL), CUDA_PTX_TOO_NEW);
    inject(c->image, "compute gpu=1 cuda=221");
    CHECK_INT(c->cu.cuModuleLoadDataEx(&module, ".version 6.5\n.target sm_75\n", 0, NULL, NULL), CUDA_NO_JIT);
    inject(c->image, "compute gpu=1 cuda=214 after=3");
    for (int i = 0; i < 3; i++)
        CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, 4, (CudaKernelArgs){.rounds = 10}), 0);
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, 4, (CudaKernelArgs){.rounds = 10}), CUDA_ECC_UNCORRECTABLE);
    CHECK_INT(c->cu.cuCtxSynchronize(), CUDA_ECC_UNCORRECTABLE);
    CHECK_INT(c->cu.cuModuleUnload(NULL), CUDA_ECC_UNCORRECTABLE);
    client_use(c, 0);
}

/* The last call of it has to fail: the error is sticky. */
static void later_calls_do_too(void **state)
{
    (void)state;
    SimImage *image = node_new(590);
    const int status = client_run(image, try_later);

    node_free(image);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void meet_xid(Client *c)
{
    client_open(c, 2);
    const CudaKernelArgs args = {.rounds = 1000000};
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, H100_SMS, args), 0);
    inject(c->image, "xid 48 gpu=1 work=bench-client");
    sim_clock_advance(c->image, SIM_NS / 10);
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, H100_SMS, args), CUDA_ECC_UNCORRECTABLE);
    client_use(c, 1);
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, H100_SMS, args), 0);
    inject(c->image, "xid 79 gpu=2");
    sim_clock_advance(c->image, SIM_NS / 10);
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, H100_SMS, args), CUDA_LAUNCH_FAILED);
}

static void an_xid_ends_the_context(void **state)
{
    (void)state;
    client_case(meet_xid);
}

/* --- hangs ------------------------------------------------------------------------------------------------------- */

static const char *hang_words;

static void run_into_hang(Client *c)
{
    client_open(c, 1);
    const CudaKernelArgs args = {.rounds = 10};
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, 4, args), 0);
    inject(c->image, hang_words);
    alarm(1); /* ends the process that waits for ever */
    *c->stop = 1;
    client_launch(c, CUDA_PROBE_FMA32, 4, args);
    CHECK(false);
}

static void hung_calls_do_not_return(void **state)
{
    static const char *const words[] = {"compute gpu=1 hang=kernel", "compute gpu=1 hang=cuStreamSynchronize",
                                        "compute gpu=1 hang=cuLaunchKernel"};
    (void)state;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        SimImage *image = node_new(590);
        hang_words = words[i];
        const int status = client_run(image, run_into_hang);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
        node_free(image);
    }
}

/* --- pairs ------------------------------------------------------------------------------------------------------- */

static double copy_to(Client *c, int to, CUdeviceptr target, CUdeviceptr source, uint64_t bytes)
{
    CUevent begin, end;
    float ms;

    CHECK_INT(c->cu.cuEventCreate(&begin, 0), 0);
    CHECK_INT(c->cu.cuEventCreate(&end, 0), 0);
    CHECK_INT(c->cu.cuEventRecord(begin, c->stream), 0);
    CHECK_INT(c->cu.cuMemcpyPeerAsync(target, c->context[to], source, c->context[0], bytes, c->stream), 0);
    CHECK_INT(c->cu.cuEventRecord(end, c->stream), 0);
    CHECK_INT(c->cu.cuEventSynchronize(end), 0);
    CHECK_INT(c->cu.cuEventElapsedTime(&ms, begin, end), 0);
    return (double)bytes / (double)ms / 1e6; /* GB/s */
}

static void use_pairs(Client *c)
{
    const uint64_t bytes = 64 << 20;
    const double staged = 985e6 * 4 * 16 * 0.88 / 2 / 1e9, nvlink = 26562e6 * 18 * 0.93 / 1e9;
    CudaKernelArgs args = {.count = bytes / 16, .pattern = CUDA_PATTERN_RANDOM};
    int can;

    client_open(c, 4);
    client_use(c, 1);
    const CUdeviceptr target = client_alloc(c, bytes);
    client_use(c, LAST);
    const CUdeviceptr other = client_alloc(c, bytes);
    client_use(c, 0);
    args.a = client_alloc(c, bytes);
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 8, args), 0);
    CHECK_NEAR(copy_to(c, 1, target, args.a, bytes), staged, 0.01); /* access was not enabled */
    inject(c->image, "compute gpu=1 peer=2 access=none");
    CHECK_INT(c->cu.cuDeviceCanAccessPeer(&can, 0, 1), 0);
    CHECK_INT(can, 0);
    CHECK_INT(c->cu.cuDeviceCanAccessPeer(&can, 1, 0), 0);
    CHECK_INT(can, 0);
    CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[1], 0), CUDA_NO_PEER);
    inject(c->image, "compute gpu=1 peer=2 access=staged");
    CHECK_INT(c->cu.cuDeviceCanAccessPeer(&can, 0, 1), 0);
    CHECK_INT(can, 1);
    CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[1], 0), 0);
    CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[LAST], 0), 0);
    CHECK_NEAR(copy_to(c, 1, target, args.a, bytes), staged, 0.01);
    CHECK_NEAR(copy_to(c, LAST, other, args.a, bytes), nvlink, 0.01);
    inject(c->image, "compute gpu=1 peer=2 access=corrupt");
    CHECK_NEAR(copy_to(c, 1, target, args.a, bytes), nvlink, 0.01);
    const CUdeviceptr back = client_alloc(c, bytes);
    CHECK_INT(c->cu.cuMemcpyPeerAsync(back, c->context[0], target, c->context[1], bytes, c->stream), 0);
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = back, .b = args.a, .count = bytes / 4}), 0);
    CHECK_INT(client_errors(c, 8), 1);
    inject(c->image, "compute gpu=1 peer=2 access=yes");
    copy_to(c, 1, target, args.a, bytes);
    CHECK_INT(c->cu.cuMemcpyPeerAsync(back, c->context[0], target, c->context[1], bytes, c->stream), 0);
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = back, .b = args.a, .count = bytes / 4}), 0);
    CHECK_INT(client_errors(c, 8), 0);
}

static void pairs_can_lack_access_be_staged_or_corrupt(void **state)
{
    (void)state;
    client_case(use_pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_can_be_slow),
        cmocka_unit_test(sms_can_be_slow_or_missing),
        cmocka_unit_test(probes_find_the_sm_that_is_wrong),
        cmocka_unit_test(products_show_the_tile_that_is_wrong),
        cmocka_unit_test(a_stuck_bit_is_found_each_time),
        cmocka_unit_test(init_gives_the_result_of_the_scenario),
        cmocka_unit_test(later_calls_do_too),
        cmocka_unit_test(an_xid_ends_the_context),
        cmocka_unit_test(hung_calls_do_not_return),
        cmocka_unit_test(pairs_can_lack_access_be_staged_or_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
