/* SPDX-License-Identifier: Apache-2.0 */
/* Hang rules: which calls they stop, after how many, and what lets them go. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "node.h"
#include "sim/nvml/generation.h"
#include "sim/nvml/lib.h"

enum { SLOT = 3, GPU = NODE_FIRST };

static int setup(void **state)
{
    *state = node_new(nvml_library_generation);
    return 0;
}

static int teardown(void **state)
{
    nvmlShutdown();
    node_free(*state);
    return 0;
}

static SimOp rule(int32_t gpu, int32_t fn, int32_t after, uint64_t delay_ns)
{
    return (SimOp){.type = SIM_OP_HANG, .gpu = gpu, .a = {SLOT, fn, after, 1}, .u = delay_ns};
}

static SimOp no_rule(int32_t gpu)
{
    return (SimOp){.type = SIM_OP_HANG, .gpu = gpu, .a = {SLOT, SIM_NONE, 0, 0}};
}

static void nap(long ms)
{
    const struct timespec ts = {.tv_nsec = ms * 1000000};
    nanosleep(&ts, NULL);
}

static nvmlDevice_t device_at(unsigned int index)
{
    nvmlDevice_t device;
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

typedef struct Caller {
    pthread_t thread;
    nvmlDevice_t device;
    nvmlReturn_t result;
    _Atomic int done;
} Caller;

static void *call_temperature(void *arg)
{
    Caller *caller = arg;
    unsigned int celsius;
    caller->result = nvmlDeviceGetTemperature(caller->device, NVML_TEMPERATURE_GPU, &celsius);
    atomic_store(&caller->done, 1);
    return NULL;
}

static void *call_init(void *arg)
{
    Caller *caller = arg;
    caller->result = nvmlInit_v2();
    atomic_store(&caller->done, 1);
    return NULL;
}

static unsigned int matched(SimImage *image)
{
    return atomic_load(&image->hang_calls[SLOT]);
}

/* Starts a call that must hang, and returns once it does. */
static void start_hanging(SimImage *image, Caller *caller, void *(*call)(void *))
{
    const unsigned int before = matched(image);

    assert_int_equal(pthread_create(&caller->thread, NULL, call, caller), 0);
    while (matched(image) == before)
        nap(1);
    nap(30);
    assert_int_equal(atomic_load(&caller->done), 0);
}

static void finish(Caller *caller, nvmlReturn_t wanted)
{
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
    assert_int_equal(caller->result, wanted);
}

static void one_function_of_one_gpu(void **state)
{
    SimImage *image = *state;
    unsigned int value;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    Caller caller = {.device = device_at(0)};
    node_op(image, rule(GPU, NVML_FN_nvmlDeviceGetTemperature, 0, SIM_FOREVER));
    assert_int_equal(nvmlDeviceGetIndex(caller.device, &value), NVML_SUCCESS); /* another function */
    assert_int_equal(nvmlDeviceGetTemperature(device_at(1), NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
    assert_int_equal(matched(image), 0);
    start_hanging(image, &caller, call_temperature);
    node_op(image, no_rule(GPU));
    finish(&caller, NVML_SUCCESS);
}

static void the_first_calls_pass(void **state)
{
    SimImage *image = *state;
    unsigned int value;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    Caller caller = {.device = device_at(0)};
    node_op(image, rule(GPU, NVML_FN_nvmlDeviceGetTemperature, 2, SIM_FOREVER));
    for (unsigned int i = 1; i <= 2; i++) {
        assert_int_equal(nvmlDeviceGetTemperature(caller.device, NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
        assert_int_equal(matched(image), i);
    }
    start_hanging(image, &caller, call_temperature);
    node_op(image, no_rule(GPU));
    finish(&caller, NVML_SUCCESS);
}

static void the_clock_may_end_it(void **state)
{
    SimImage *image = *state;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    Caller caller = {.device = device_at(0)};
    node_op(image, rule(GPU, SIM_NONE, 0, SIM_FOREVER));
    SimOp later = no_rule(GPU);
    later.t_ns = sim_clock_now(image) + 10 * SIM_NS;
    assert_int_equal(sim_op_apply(image, &later, NULL, 1, NULL), SIM_OK);
    start_hanging(image, &caller, call_temperature);
    sim_clock_advance(image, 11 * SIM_NS);
    finish(&caller, NVML_SUCCESS);
}

static void a_delay_is_real_time(void **state)
{
    SimImage *image = *state;
    struct timespec start, end;
    unsigned int value;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    const nvmlDevice_t device = device_at(0);
    node_op(image, rule(GPU, NVML_FN_nvmlDeviceGetTemperature, 0, 40000000));
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const int64_t took = (end.tv_sec - start.tv_sec) * (int64_t)SIM_NS + end.tv_nsec - start.tv_nsec;
    assert_true(took >= 40000000);
}

/* The hardware counts traffic for 20 ms in each call. */
static void throughput_takes_its_time(void **state)
{
    SimImage *image = *state;
    struct timespec start, end;
    unsigned int kb_per_s;

    unsetenv("STOKER_SIM_NOBLOCK");
    sim_clock_set_speed(image, 1);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    const nvmlDevice_t device = device_at(0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(nvmlDeviceGetPcieThroughput(device, NVML_PCIE_UTIL_TX_BYTES, &kb_per_s), NVML_SUCCESS);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const int64_t took = (end.tv_sec - start.tv_sec) * (int64_t)SIM_NS + end.tv_nsec - start.tv_nsec;
    assert_true(took >= 20000000);
}

static void init_attaches_to_the_hung_gpu_unless_told(void **state)
{
    SimImage *image = *state;
    Caller caller = {0};
    unsigned int value;

    node_op(image, rule(GPU, SIM_NONE, 0, SIM_FOREVER));
    assert_int_equal(nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetTemperature(device_at(1), NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
    assert_int_equal(matched(image), 0);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    start_hanging(image, &caller, call_init);
    node_op(image, no_rule(GPU));
    finish(&caller, NVML_SUCCESS);
}

static void a_rule_for_the_node_stops_every_call(void **state)
{
    SimImage *image = *state;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    Caller caller = {.device = device_at(2)};
    node_op(image, rule(SIM_NONE, SIM_NONE, 0, SIM_FOREVER));
    start_hanging(image, &caller, call_temperature);
    node_op(image, no_rule(SIM_NONE));
    finish(&caller, NVML_SUCCESS);
}

int main(void)
{
#define ON_A_NODE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_A_NODE(one_function_of_one_gpu),
        ON_A_NODE(the_first_calls_pass),
        ON_A_NODE(the_clock_may_end_it),
        ON_A_NODE(a_delay_is_real_time),
        ON_A_NODE(throughput_takes_its_time),
        ON_A_NODE(init_attaches_to_the_hung_gpu_unless_told),
        ON_A_NODE(a_rule_for_the_node_stops_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
