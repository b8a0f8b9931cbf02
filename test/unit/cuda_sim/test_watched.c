/* SPDX-License-Identifier: Apache-2.0 */
/* What a monitor sees of a client: its process, memory, activity, power and clocks, and that all of it goes away. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "kit.h"
#include "sim/node/lend.h"
#include "test/unit/nvml_lib/node.h"

enum { SIZE = 8192 };

/* Runs products until the node's clock has moved by `seconds`. */
static void burn(Client *c, double seconds)
{
    const CUdeviceptr a = client_alloc(c, SIZE * SIZE * 2ull), d = client_alloc(c, SIZE * SIZE * 4ull);
    const CudaKernelArgs args = {.a = a, .b = a, .c = d, .m = SIZE, .n = SIZE, .k = SIZE};
    const uint64_t until = sim_clock_now(c->image) + (uint64_t)(seconds * 1e9);

    while (sim_clock_now(c->image) < until)
        CHECK_INT(client_launch(c, CUDA_GEMM_BF16, 4096, args), 0);
    CHECK_INT(c->cu.cuMemFree_v2(a), 0);
    CHECK_INT(c->cu.cuMemFree_v2(d), 0);
}

static void watch_burn(Client *c)
{
    const SimNow *now;

    client_open(c, 2);
    now = sim_state_now(c->image, 1);
    CHECK_INT(now->proc_count, 1);
    CHECK_INT(now->proc[0].pid, getpid());
    CHECK(strcmp(now->proc[0].name, "bench-client") == 0);
    CHECK_NEAR(now->used_mib, 520, 0.01);
    CHECK(now->act[SIM_CH_KERNEL] <= 0);
    const double quiet = now->watt_mean;
    const CUdeviceptr large = client_alloc(c, 40ull << 30);
    now = sim_state_now(c->image, 1);
    CHECK_NEAR(now->used_mib, 520 + 40 * 1024, 0.01);
    burn(c, 3);
    now = sim_state_now(c->image, 1);
    CHECK_INT(now->proc_count, 1);
    CHECK_INT(now->proc[0].pid, getpid());
    CHECK_NEAR(now->win[SIM_CH_KERNEL], 1, 0.01);
    CHECK(now->win[SIM_CH_TENSOR] > 0.5);
    CHECK(now->watt_mean > quiet + 200);
    CHECK_INT(sim_state_now(c->image, 2)->proc[0].pid, getpid());
    CHECK(sim_state_now(c->image, 2)->win[SIM_CH_KERNEL] <= 0);
    /* memory, then nothing */
    const uint64_t until = sim_clock_now(c->image) + SIM_NS;
    while (sim_clock_now(c->image) < until)
        CHECK_INT(client_launch(c, CUDA_MEMORY_READ, 264, (CudaKernelArgs){.a = large, .count = 1 << 30, .rounds = 1}),
                  0);
    now = sim_state_now(c->image, 1);
    CHECK(now->win[SIM_CH_DRAM] > 0.85 && now->win[SIM_CH_TENSOR] < 0.01);
    CHECK_INT(c->cu.cuMemFree_v2(large), 0);
    client_use(c, 1);
    burn(c, 1);
    now = sim_state_now(c->image, 1);
    CHECK(now->win[SIM_CH_KERNEL] <= 0);
    CHECK_NEAR(now->used_mib, 520, 0.01);
    CHECK(c->image->op_count < 60); /* not one for each launch */
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), 0);
    CHECK_INT(sim_state_now(c->image, 1)->proc_count, 0);
    CHECK_INT(sim_state_now(c->image, 2)->proc_count, 1);
}

static void a_burn_is_seen(void **state)
{
    (void)state;
    SimImage *image = node_new(590);

    assert_int_equal(client_run(image, watch_burn), 0);
    for (uint32_t g = 0; g < NODE_GPUS; g++)
        assert_int_equal(sim_state_now(image, g)->proc_count, 0); /* it has ended */
    node_free(image);
}

/* A power limit: lower clocks under load, the same work per clock. */
static void burn_capped(Client *c)
{
    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, SIZE * SIZE * 2ull), d = client_alloc(c, SIZE * SIZE * 4ull);
    const CudaKernelArgs args = {.a = a, .b = a, .c = d, .m = SIZE, .n = SIZE, .k = SIZE};
    burn(c, 1);
    const double free_ms = client_time(c, CUDA_GEMM_BF16, 4096, args);
    const double free_clocks = (double)c->results[0].clocks;
    client_op(c, (SimOp){.type = SIM_OP_SET, .gpu = 1, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = 250000});
    burn(c, 1);
    const double capped_ms = client_time(c, CUDA_GEMM_BF16, 4096, args);
    const SimNow *now = sim_state_now(c->image, 1);
    CHECK(now->sm_mhz < 1800 && now->reasons & 4);
    CHECK(now->watt_mean <= 250);
    CHECK_NEAR(capped_ms / free_ms, 1980.0 / now->sm_mhz, 0.02);
    CHECK_NEAR(c->results[0].clocks, free_clocks, 0.01);
    client_op(c, (SimOp){.type = SIM_OP_SET, .gpu = 1, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = 700000});
    client_op(c, (SimOp){.type = SIM_OP_SET, .gpu = 1, .a = {SIM_KEY_COOLING_PERMILLE}, .u = 300});
    burn(c, 120);
    now = sim_state_now(c->image, 1);
    CHECK(now->reasons & 0x60); /* too hot */
    CHECK(client_time(c, CUDA_GEMM_BF16, 4096, args) > 1.1 * free_ms);
}

static void power_and_heat_hold_the_clock_down(void **state)
{
    (void)state;
    client_case(burn_capped);
}

static void burn_on(Client *c)
{
    client_open(c, 2);
    client_alloc(c, 10ull << 30);
    burn(c, 1);
    kill(getpid(), SIGKILL);
}

/* As `stoker sim run` looks after the processes of its node. */
static void nothing_is_left_of_a_killed_client(void **state)
{
    (void)state;
    static Lend lend;
    Err err = {0};
    SimImage *image = node_new(590);

    for (int i = 0; i < 3; i++) {
        const uint32_t works = image->work_count;
        const int status = client_run(image, burn_on);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(sim_state_now(image, 1)->proc_count, 1); /* the driver has not noticed yet */
        lend_start(&lend, image);
        assert_true(lend_update(&lend, sim_clock_now(image), &err) >= 2);
        lend_stop(&lend);
        for (uint32_t g = 0; g < NODE_GPUS; g++)
            assert_int_equal(sim_state_now(image, g)->proc_count, 0);
        assert_true(sim_state_now(image, 1)->used_mib < 1);
        assert_true(i == 0 || image->work_count == works); /* the works are used again */
    }
    node_free(image);
}

static void open_and_leave(Client *c)
{
    client_open(c, 1);
    CHECK_INT(sim_state_now(c->image, 1)->proc_count, 1);
}

/* Without `sim run` the next client cleans up. */
static void the_next_client_cleans_up(void **state)
{
    (void)state;
    SimImage *image = node_new(590);
    const int status = client_run(image, burn_on);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(client_run(image, open_and_leave), 0);
    for (uint32_t g = 0; g < NODE_GPUS; g++)
        assert_int_equal(sim_state_now(image, g)->proc_count, 0);
    node_free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burn_is_seen),
        cmocka_unit_test(power_and_heat_hold_the_clock_down),
        cmocka_unit_test(nothing_is_left_of_a_killed_client),
        cmocka_unit_test(the_next_client_cleans_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
