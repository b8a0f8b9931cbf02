/* SPDX-License-Identifier: Apache-2.0 */
/* How long things take, against the figures of docs/sim.md worked out here anew. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit.h"
#include "test/unit/nvml_lib/node.h"

#define GIB (1ull << 30)
#define PEAK (5120 / 8 * 2619e6 * 2) /* bytes per second */
#define MHZ 1980.0
#define PCIE (985e6 * 4 * 16 * 0.88)
#define NVLINK (26562e6 * 18 * 0.93)

/* --- memory and arithmetic --------------------------------------------------------------------------------------- */

static void time_memory(Client *c)
{
    client_open(c, 1);
    const uint64_t bytes = 4 * GIB;
    const CUdeviceptr a = client_alloc(c, bytes), b = client_alloc(c, bytes), d = client_alloc(c, bytes);
    const struct {
        CudaKernel kernel;
        double bytes; /* for each of 16 */
        double share;
        uint32_t flags;
    } rows[] = {{CUDA_MEMORY_WRITE, 1, 0.97, 0},  {CUDA_MEMORY_READ, 1, 0.95, 0},
                {CUDA_MEMORY_COPY, 2, 0.90, 0},   {CUDA_MEMORY_TRIAD, 3, 0.89, 0},
                {CUDA_MEMORY_VERIFY, 1, 0.95, 0}, {CUDA_MEMORY_VERIFY, 2, 0.90, CUDA_KERNEL_INVERT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const CudaKernelArgs args = {.a = a, .b = b, .c = d, .count = bytes / 16, .rounds = 1, .flags = rows[i].flags};
        const double ms = client_time(c, rows[i].kernel, 264, args);
        CHECK_NEAR(ms, rows[i].bytes * (double)bytes / (PEAK * rows[i].share) * 1e3, 0.01);
        CHECK_NEAR((double)c->results[3].clocks * 1e3 / (double)(c->results[3].end_ns - c->results[3].begin_ns), MHZ,
                   0.001);
        CHECK_NEAR(c->results[3].end_ns - c->results[3].begin_ns, ms * 1e6, 0.01);
    }
    /* what fits into L2 comes from there */
    const CudaKernelArgs small = {.a = a, .count = (16 << 20) / 16, .rounds = 5000};
    CHECK_NEAR(client_time(c, CUDA_MEMORY_READ, 264, small), 5000. * (16 << 20) / (PEAK * 2.4) * 1e3, 0.01);
    const uint32_t loop = 0;
    client_put(c, b, &loop, 4);
    CHECK_NEAR(client_time(c, CUDA_MEMORY_CHASE, 1, (CudaKernelArgs){.a = b, .rounds = 100000}), 65, 0.01);
}

static void memory_has_its_bandwidth(void **state)
{
    (void)state;
    client_case(time_memory);
}

static void time_arithmetic(Client *c)
{
    static const struct {
        CudaKernel kernel;
        double per_clock, operations; /* of an SM; of a block in a round */
    } rows[] = {{CUDA_PROBE_FMA32, 256, 524288},
                {CUDA_PROBE_FMA64, 128, 262144},
                {CUDA_PROBE_MMA_F16, 4096 * .64, 262144},
                {CUDA_PROBE_MMA_BF16, 4096 * .64, 524288},
                {CUDA_PROBE_MMA_TF32, 2048 * .64, 262144},
                {CUDA_PROBE_MMA_INT8, 8192 * .64, 1048576},
                {CUDA_PROBE_MMA_FP8, 4096 * .64, 1048576},
                {CUDA_PROBE_WGMMA_BF16, 4096, 2097152},
                {CUDA_PROBE_WGMMA_FP8, 8192, 4194304}};

    client_open(c, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t rounds = (uint32_t)(rows[i].per_clock * MHZ * 1e6 * 0.02 / rows[i].operations);
        const double clocks = rounds * rows[i].operations / rows[i].per_clock;
        CHECK_NEAR(client_time(c, rows[i].kernel, H100_SMS, (CudaKernelArgs){.rounds = rounds}), clocks / MHZ / 1e3,
                   0.01);
        for (uint32_t b = 0; b < H100_SMS; b++)
            CHECK_NEAR(c->results[b].clocks, clocks, 1e-5);
    }
    const uint32_t size = 8192;
    const CUdeviceptr a = client_alloc(c, size * size * 2ull), d = client_alloc(c, size * size * 4ull);
    const CudaKernelArgs args = {.a = a, .b = a, .c = d, .m = size, .n = size, .k = size};
    CHECK_NEAR(client_time(c, CUDA_GEMM_BF16, 4096, args),
               2. * 8192 * 8192 * 8192 / (132 * 4096 * .64 * .8 * MHZ * 1e6) * 1e3, 0.01);
}

static void sms_have_their_rates(void **state)
{
    (void)state;
    client_case(time_arithmetic);
}

/* A locked clock makes arithmetic slower, not its work per clock, and not memory. */
static void time_locked(Client *c)
{
    client_set(c, 1, SIM_KEY_LOCK_SM_MAX, 990);
    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, GIB);
    const double clocks = 10000 * (524288 / 256.0);
    CHECK_NEAR(client_time(c, CUDA_PROBE_FMA32, H100_SMS, (CudaKernelArgs){.rounds = 10000}), clocks / 990 / 1e3,
               0.01);
    CHECK_NEAR(c->results[5].clocks, clocks, 1e-5);
    CHECK_NEAR(client_time(c, CUDA_MEMORY_WRITE, 264, (CudaKernelArgs){.a = a, .count = GIB / 16}),
               GIB / (PEAK * .97) * 1e3, 0.01);
    client_set(c, 1, SIM_KEY_APP_MEM_MHZ, 1593);
    CHECK_NEAR(client_time(c, CUDA_MEMORY_WRITE, 264, (CudaKernelArgs){.a = a, .count = GIB / 16}),
               GIB / (PEAK * .97 * 1593 / 2619) * 1e3, 0.01);
}

static void clocks_that_are_locked_count(void **state)
{
    (void)state;
    client_case(time_locked);
}

/* A neighbour on the GPU takes its turns. */
static void time_shared(Client *c)
{
    const CudaKernelArgs args = {.rounds = 100000};

    client_open(c, 1);
    const double alone = client_time(c, CUDA_PROBE_FMA32, H100_SMS, args);
    static SimWork work = {.gpu = 1,
                           .mig = SIM_NONE,
                           .job = SIM_NONE,
                           .before = SIM_NONE,
                           .slow = 1,
                           .phase_count = 1,
                           .phases = {{.seconds = 1, .act = {[SIM_CH_KERNEL] = 1, [SIM_CH_SM] = 1}}}};
    const int32_t at = sim_work_add(c->image, &work);
    client_op(c, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {at}});
    sim_clock_advance(c->image, SIM_NS);
    CHECK_NEAR(client_time(c, CUDA_PROBE_FMA32, H100_SMS, args), 2 * alone, 0.02);
}

static void a_neighbour_takes_its_share(void **state)
{
    (void)state;
    client_case(time_shared);
}

/* --- links ------------------------------------------------------------------------------------------------------- */

typedef struct Copy {
    int to, from; /* ordinals; -1: the host */
    double rate;
} Copy;

static CUdeviceptr memory_of[4][2];
static void *host;

/* Runs copies of `bytes` at the same time, each in a stream of its own, and checks what each took. */
static void time_copies(Client *c, const Copy *copies, size_t count, uint64_t bytes)
{
    CUevent begin[8], end[8];
    CUstream streams[8];
    float ms;

    for (size_t i = 0; i < count; i++) {
        const Copy *copy = &copies[i];
        client_use(c, copy->from >= 0 ? copy->from : copy->to);
        streams[i] = c->stream;
        CHECK_INT(c->cu.cuEventCreate(&begin[i], 0), 0);
        CHECK_INT(c->cu.cuEventCreate(&end[i], 0), 0);
        CHECK_INT(c->cu.cuEventRecord(begin[i], streams[i]), 0);
        if (copy->from < 0)
            CHECK_INT(c->cu.cuMemcpyHtoDAsync_v2(memory_of[copy->to][0], host, bytes, streams[i]), 0);
        else if (copy->to < 0)
            CHECK_INT(c->cu.cuMemcpyDtoHAsync_v2(host, memory_of[copy->from][1], bytes, streams[i]), 0);
        else
            CHECK_INT(c->cu.cuMemcpyPeerAsync(memory_of[copy->to][0], c->context[copy->to], memory_of[copy->from][1],
                                              c->context[copy->from], bytes, streams[i]),
                      0);
        CHECK_INT(c->cu.cuEventRecord(end[i], streams[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_INT(c->cu.cuEventSynchronize(end[i]), 0);
        CHECK_INT(c->cu.cuEventElapsedTime(&ms, begin[i], end[i]), 0);
        CHECK_NEAR((double)bytes / (double)ms / 1e-3, copies[i].rate, 0.01);
    }
}

static void open_links(Client *c, uint64_t bytes)
{
    client_open(c, 4);
    CHECK_INT(c->cu.cuMemHostAlloc(&host, bytes, CUDA_HOST_PORTABLE), 0);
    for (int n = 0; n < 4; n++) {
        client_use(c, n);
        for (int i = 0; i < 2; i++)
            memory_of[n][i] = client_alloc(c, bytes);
        for (int peer = 0; peer < 4; peer++)
            if (peer != n && peer != DESK && n != DESK)
                CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[peer], 0), 0);
    }
}

static void time_host_copies(Client *c)
{
    const uint64_t bytes = 64 << 20;

    open_links(c, bytes);
    time_copies(c, (Copy[]){{0, -1, PCIE}}, 1, bytes);
    time_copies(c, (Copy[]){{-1, 0, PCIE}}, 1, bytes);
    time_copies(c, (Copy[]){{DESK, -1, 985e6 * 2 * 16 * 0.88}}, 1, bytes);
    /* both ways at once; two the same way share; two GPUs lose something to each other */
    time_copies(c, (Copy[]){{0, -1, PCIE}, {-1, 0, PCIE}}, 2, bytes);
    time_copies(c, (Copy[]){{0, -1, PCIE / 2}, {0, -1, PCIE / 2}}, 2, bytes);
    time_copies(c, (Copy[]){{0, -1, PCIE * .92}, {1, -1, PCIE * .92}, {LAST, -1, PCIE * .92}}, 3, bytes);
    client_op(c, (SimOp){.type = SIM_OP_PCIE, .gpu = 1, .a = {1, 0}});
    time_copies(c, (Copy[]){{0, -1, 250e6 * 16 * .88}}, 1, bytes);
    client_op(c, (SimOp){.type = SIM_OP_PCIE, .gpu = 1, .a = {5, 8}});
    time_copies(c, (Copy[]){{0, -1, PCIE / 2}}, 1, bytes);
}

static void host_copies_go_by_pcie(void **state)
{
    (void)state;
    client_case(time_host_copies);
}

static void time_peer_copies(Client *c)
{
    const uint64_t bytes = 512 << 20;

    open_links(c, bytes);
    time_copies(c, (Copy[]){{1, 0, NVLINK}}, 1, bytes);
    time_copies(c, (Copy[]){{1, 0, NVLINK}, {0, 1, NVLINK}}, 2, bytes);
    time_copies(c, (Copy[]){{1, 0, NVLINK / 2}, {LAST, 0, NVLINK / 2}}, 2, bytes);
    time_copies(c, (Copy[]){{1, 0, NVLINK}, {LAST, 1, NVLINK}, {0, LAST, NVLINK}}, 3, bytes); /* a ring */
    client_use(c, 1);                                                                         /* by kernels */
    const CudaKernelArgs args = {.a = memory_of[1][0], .b = memory_of[0][0], .count = bytes / 16};
    CHECK_NEAR((double)bytes / client_time(c, CUDA_MEMORY_COPY, 264, args) / 1e-3, NVLINK, 0.01);
    for (int32_t link = 0; link < NODE_LINKS / 2; link++)
        client_op(c, (SimOp){.type = SIM_OP_LINK, .gpu = 2, .a = {link, SIM_LINK_DOWN}});
    time_copies(c, (Copy[]){{1, 0, NVLINK / 2}}, 1, bytes);
    time_copies(c, (Copy[]){{LAST, 0, NVLINK}}, 1, bytes);
    client_op(c, (SimOp){.type = SIM_OP_LINK, .gpu = 2, .a = {SIM_NONE, SIM_LINK_DOWN}});
    time_copies(c, (Copy[]){{1, 0, PCIE}}, 1, bytes);                        /* through PCIe then */
    time_copies(c, (Copy[]){{DESK, 0, 985e6 * 2 * 16 * .88 / 2}}, 1, bytes); /* no access: staged */
}

static void peer_copies_go_by_nvlink(void **state)
{
    (void)state;
    client_case(time_peer_copies);
}

/* --- streams, events, the clock ---------------------------------------------------------------------------------- */

static void use_streams(Client *c)
{
    const CudaKernelArgs ten_ms = {.a = 0, .rounds = 9668}; /* of fp32 */
    void *params[1];
    CudaKernelArgs args = ten_ms;
    CUstream other;
    CUevent event, later;
    float ms;

    client_open(c, 1);
    const uint64_t began = sim_clock_now(c->image);
    CHECK_INT(c->cu.cuStreamCreate(&other, 0), 0);
    CHECK_INT(c->cu.cuEventCreate(&event, 0), 0);
    CHECK_INT(c->cu.cuEventCreate(&later, 0), 0);
    CHECK_INT(c->cu.cuEventElapsedTime(&ms, event, later), CUDA_BAD_ARGUMENT); /* never recorded */
    CHECK_INT(c->cu.cuEventQuery(event), 0);
    args.result = (uint64_t)(uintptr_t)c->results;
    args.stop = (uint64_t)(uintptr_t)c->stop;
    params[0] = &args;
    CUfunction kernel = client_kernel(c, CUDA_PROBE_FMA32);
    const uint64_t loaded = sim_clock_now(c->image);
    CHECK_INT(c->cu.cuLaunchKernel(kernel, 132, 1, 1, 1024, 1, 1, 0, c->stream, params, NULL), 0);
    CHECK_INT(c->cu.cuEventRecord(event, c->stream), 0);
    CHECK_INT(c->cu.cuStreamWaitEvent(other, event, 0), 0);
    CHECK_INT(c->cu.cuLaunchKernel(kernel, 132, 1, 1, 1024, 1, 1, 0, other, params, NULL), 0);
    CHECK_INT(c->cu.cuEventRecord(later, other), 0);
    CHECK_INT(sim_clock_now(c->image), loaded); /* nothing has waited */
    CHECK_INT(c->cu.cuEventQuery(event), CUDA_NOT_READY);
    CHECK_INT(c->cu.cuEventElapsedTime(&ms, event, later), CUDA_NOT_READY);
    int looks = 0;
    while (c->cu.cuEventQuery(event) == CUDA_NOT_READY)
        looks++;
    CHECK(looks > 100);
    CHECK_INT(c->cu.cuStreamSynchronize(other), 0);
    CHECK_INT(c->cu.cuEventElapsedTime(&ms, event, later), 0);
    CHECK_NEAR(ms, 10, 0.01);
    CHECK_NEAR(sim_clock_now(c->image) - loaded, 20e6, 0.01);
    CHECK(loaded - began >= 20000000); /* the compiler takes its time */
    CHECK_INT(c->cu.cuStreamDestroy_v2(other), 0);
    CHECK_INT(c->cu.cuStreamSynchronize(other), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuEventDestroy_v2(later), 0);
    CHECK_INT(c->cu.cuEventRecord(later, c->stream), CUDA_BAD_ARGUMENT);
}

static void streams_wait_for_events(void **state)
{
    (void)state;
    client_case(use_streams);
}

static void measure_start(Client *c)
{
    const uint64_t began = sim_clock_now(c->image);

    CHECK_INT(c->cu.cuInit(0), 0);
    CHECK_INT(sim_clock_now(c->image) - began, 400000000);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&c->context[0], 0), 0);
    CHECK_INT(sim_clock_now(c->image) - began, 700000000);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&c->context[0], 0), 0);
    CHECK_INT(sim_clock_now(c->image) - began, 700000000);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), 0);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), 0);
}

static void the_start_takes_its_time(void **state)
{
    (void)state;
    client_case(measure_start);
}

static void work_for_a_second(Client *c)
{
    client_open(c, 1);
    for (int i = 0; i < 10; i++)
        client_time(c, CUDA_PROBE_FMA32, H100_SMS, (CudaKernelArgs){.rounds = 96680}); /* 100 ms */
}

/* One after the other in real time, at the same time in the node's. */
static void processes_run_beside_each_other(void **state)
{
    char from[32];
    (void)state;
    SimImage *image = node_new(590);
    const uint64_t began = sim_clock_now(image);

    snprintf(from, sizeof from, "%llu", (unsigned long long)began);
    setenv("STOKER_SIM_CUDA_FROM", from, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_run(image, work_for_a_second), 0);
    unsetenv("STOKER_SIM_CUDA_FROM");
    assert_true(sim_clock_now(image) - began < 1900000000);
    assert_int_equal(client_run(image, work_for_a_second), 0);
    assert_true(sim_clock_now(image) - began > 3300000000);
    node_free(image);
}

/* On a clock that runs, the CPU time of the client is no part of what it measures. */
static void work_on_a_running_clock(Client *c)
{
    client_open(c, 1);
    for (int i = 0; i < 3; i++) {
        const double ms = client_time(c, CUDA_PROBE_FMA32, H100_SMS, (CudaKernelArgs){.rounds = 96680});
        CHECK_NEAR(ms, 100, 0.001);
        usleep(10000);
    }
}

static void measures_do_not_depend_on_the_clocks_speed(void **state)
{
    (void)state;
    SimImage *image = node_new(590);

    sim_clock_set_speed(image, 20);
    const uint64_t began = sim_clock_now(image);
    assert_int_equal(client_run(image, work_on_a_running_clock), 0);
    assert_true(sim_clock_now(image) - began > 1000000000);
    node_free(image);
}

static volatile uint32_t *stop_word;

static void stop_by_signal(int number)
{
    (void)number;
    *stop_word = 1;
}

/* A kernel of a minute, and a signal that sets its stop word while the client waits for it. */
static void stop_on_the_way(Client *c)
{
    client_open(c, 1);
    client_kernel(c, CUDA_PROBE_FMA32); /* the compiler takes its time */
    stop_word = c->stop;
    signal(SIGALRM, stop_by_signal);
    ualarm(50000, 0);
    const double ms = client_time(c, CUDA_PROBE_FMA32, H100_SMS, (CudaKernelArgs){.rounds = 58007813});
    CHECK(ms > 10 && ms < 30000);
    CHECK_INT(c->results[0].stopped, 1);
    CHECK_INT(c->results[H100_SMS - 1].stopped, 1);
    CHECK_NEAR(c->results[0].end_ns - c->results[0].begin_ns, ms * 1e6, 0.01);
}

static void a_kernel_is_stopped_on_its_way(void **state)
{
    (void)state;
    SimImage *image = node_new(590);

    sim_clock_set_speed(image, 1);
    assert_int_equal(client_run(image, stop_on_the_way), 0);
    node_free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_has_its_bandwidth),        cmocka_unit_test(sms_have_their_rates),
        cmocka_unit_test(clocks_that_are_locked_count),    cmocka_unit_test(a_neighbour_takes_its_share),
        cmocka_unit_test(host_copies_go_by_pcie),          cmocka_unit_test(peer_copies_go_by_nvlink),
        cmocka_unit_test(streams_wait_for_events),         cmocka_unit_test(the_start_takes_its_time),
        cmocka_unit_test(processes_run_beside_each_other), cmocka_unit_test(measures_do_not_depend_on_the_clocks_speed),
        cmocka_unit_test(a_kernel_is_stopped_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
