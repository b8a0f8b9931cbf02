/* SPDX-License-Identifier: Apache-2.0 */
/* nvmlInit and nvmlShutdown: what makes them fail, how they count, what stays the same over generations of use. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "sim/nvml/generation.h"
#include "sim/nvml/lib.h"

static int node_setup(void **state)
{
    *state = node_new(nvml_library_generation);
    return 0;
}

static int node_teardown(void **state)
{
    unsigned int count;
    while (nvmlDeviceGetCount(&count) != NVML_ERROR_UNINITIALIZED)
        nvmlShutdown();
    node_free(*state);
    return 0;
}

static void without_a_node_the_driver_is_not_loaded(void **state)
{
    (void)state;
    unsetenv("STOKER_SIM");
    assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    setenv("STOKER_SIM", "/nonexistent/node", 1);
    for (unsigned int flags = 0; flags < 8; flags++)
        assert_int_equal(nvmlInitWithFlags(flags), NVML_ERROR_DRIVER_NOT_LOADED);
    assert_int_equal(nvmlInit(), NVML_ERROR_DRIVER_NOT_LOADED);
    unsigned int count;
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    unsetenv("STOKER_SIM");
}

static void init_counts(void **state)
{
    unsigned int count;
    (void)state;

    assert_int_equal(nvmlShutdown(), NVML_SUCCESS); /* never initialised: no error */
    assert_int_equal(nvmlInit(), NVML_SUCCESS);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH), NVML_SUCCESS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
        assert_int_equal(count, NODE_GPUS);
        assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    }
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
}

static void the_driver_of_the_node_decides(void **state)
{
    SimImage *image = *state;
    static const struct {
        SimDriver driver;
        nvmlReturn_t wanted;
    } rows[] = {{SIM_DRIVER_UNLOADED, NVML_ERROR_DRIVER_NOT_LOADED},
                {SIM_DRIVER_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH},
                {SIM_DRIVER_UNKNOWN_ERROR, NVML_ERROR_UNKNOWN},
                {SIM_DRIVER_NO_PERMISSION, NVML_ERROR_NO_PERMISSION},
                {SIM_DRIVER_LOADED, NVML_SUCCESS}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        node_op(image, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = rows[i].driver});
        assert_int_equal(nvmlInit_v2(), rows[i].wanted);
    }
}

static void a_gpu_that_could_not_be_started_is_not_found(void **state)
{
    SimImage *image = *state;
    unsigned int before, count;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCount_v2(&before), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    node_op(image, (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_NOT_STARTED}, .u = 1});
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    assert_int_equal(count, before - 1);
}

static void another_generation_is_a_mismatch(void **state)
{
    SimImage *image = *state;

    image->generation = nvml_library_generation == 590 ? 535 : 590;
    assert_int_equal(nvmlInit_v2(), NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    image->generation = nvml_library_generation;
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void a_node_without_gpus_wants_a_flag(void **state)
{
    SimImage *image = *state;
    unsigned int count = 9;

    for (int g = 0; g < NODE_GPUS; g++)
        node_op(image, (SimOp){.type = SIM_OP_PLUG, .gpu = g, .a = {0}});
    assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    assert_int_equal(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    assert_int_equal(count, 0);
}

static void handles_stay_the_same(void **state)
{
    nvmlDevice_t first, again;
    (void)state;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(2, &first), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    unsigned int index;
    assert_int_equal(nvmlDeviceGetIndex(first, &index), NVML_ERROR_UNINITIALIZED); /* old handles do not crash */
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByIndex(2, &again), NVML_SUCCESS);
    assert_ptr_equal(first, again);
    assert_int_equal(nvmlDeviceGetIndex(first, &index), NVML_SUCCESS);
    assert_int_equal(index, 2);
}

static void another_node_is_another_image(void **state)
{
    SimImage *first = *state;
    char name[64];
    nvmlDevice_t device;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    node_free(first);
    SimImage *second = node_new(nvml_library_generation);
    *state = second;
    snprintf(second->boards[0].name, sizeof second->boards[0].name, "another");
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetName(device, name, sizeof name), NVML_SUCCESS);
    assert_string_equal(name, "another");
}

enum { ROUNDS = 300, THREADS = 4 };

static void *init_and_ask(void *arg)
{
    unsigned int failed = 0, index, temperature;
    nvmlDevice_t device;
    (void)arg;

    for (int i = 0; i < ROUNDS; i++) {
        failed += nvmlInit_v2() != NVML_SUCCESS;
        failed += nvmlDeviceGetHandleByIndex_v2(3, &device) != NVML_SUCCESS;
        failed += nvmlDeviceGetIndex(device, &index) != NVML_SUCCESS || index != 3;
        failed += nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &temperature) != NVML_SUCCESS;
        failed += nvmlShutdown() != NVML_SUCCESS;
    }
    return (void *)(uintptr_t)failed;
}

static void threads_count_together(void **state)
{
    pthread_t threads[THREADS];
    void *failed;
    unsigned int count;
    (void)state;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, init_and_ask, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
}

static void versions(void **state)
{
    SimImage *image = *state;
    char text[80];
    int cuda = 0;

    assert_int_equal(nvmlSystemGetNVMLVersion(text, sizeof text), NVML_SUCCESS); /* before init */
    assert_string_equal(text, image->nvml);
    assert_int_equal(nvmlSystemGetNVMLVersion(text, 3), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(nvmlSystemGetNVMLVersion(NULL, 80), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlSystemGetDriverVersion(text, sizeof text), NVML_ERROR_UNINITIALIZED);
    setenv("STOKER_SIM_NO_LIBCUDA", "1", 1);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    unsetenv("STOKER_SIM_NO_LIBCUDA");
    assert_int_equal(nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
    assert_string_equal(text, image->driver);
    assert_int_equal(nvmlSystemGetCudaDriverVersion(&cuda), NVML_SUCCESS);
    assert_int_equal(cuda, 13010);
    assert_int_equal(nvmlSystemGetCudaDriverVersion_v2(&cuda), NVML_ERROR_LIBRARY_NOT_FOUND);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlSystemGetCudaDriverVersion_v2(&cuda), NVML_SUCCESS);
    assert_int_equal(cuda, 13010);
    nvmlSystemDriverBranchInfo_t branch = {.version = nvmlSystemDriverBranchInfo_v1};
    assert_int_equal(nvmlSystemGetDriverBranch(&branch, sizeof branch.branch), NVML_SUCCESS);
    snprintf(text, sizeof text, "r%u_48", nvml_library_generation);
    assert_string_equal(branch.branch, text);
}

static void the_version_has_an_answer_without_a_node(void **state)
{
    char text[80];
    char wanted[16];
    (void)state;

    unsetenv("STOKER_SIM");
    assert_int_equal(nvmlSystemGetNVMLVersion(text, sizeof text), NVML_SUCCESS);
    snprintf(wanted, sizeof wanted, ".%u.", nvml_library_generation);
    assert_non_null(strstr(text, wanted));
}

int main(void)
{
#define ON_A_NODE(f) cmocka_unit_test_setup_teardown(f, node_setup, node_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_node_the_driver_is_not_loaded),
        cmocka_unit_test(the_version_has_an_answer_without_a_node),
        ON_A_NODE(init_counts),
        ON_A_NODE(the_driver_of_the_node_decides),
        ON_A_NODE(a_gpu_that_could_not_be_started_is_not_found),
        ON_A_NODE(another_generation_is_a_mismatch),
        ON_A_NODE(a_node_without_gpus_wants_a_flag),
        ON_A_NODE(handles_stay_the_same),
        ON_A_NODE(another_node_is_another_image),
        ON_A_NODE(threads_count_together),
        ON_A_NODE(versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
