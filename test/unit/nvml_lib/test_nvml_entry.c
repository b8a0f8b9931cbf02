/* SPDX-License-Identifier: Apache-2.0 */
/* Walks every exported function: before init, with bad handles, on a GPU that is lost or wants a reset. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "sim/nvml/generation.h"
#include "sim/nvml/process.h"

/* Every function takes at most six words; what is not looked at does not matter. */
typedef nvmlReturn_t (*AnyFn)(void *, void *, void *, void *, void *, void *);

static AnyFn find(const char *name)
{
    AnyFn fn;
    void *address = dlsym(RTLD_DEFAULT, name);
    assert_non_null(address);
    memcpy(&fn, &address, sizeof fn);
    return fn;
}

static int starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Works without init. */
static int is_free(const char *name)
{
    return starts_with(name, "nvmlInit") || strcmp(name, "nvmlShutdown") == 0 || strcmp(name, "nvmlErrorString") == 0 ||
           strcmp(name, "nvmlSystemGetNVMLVersion") == 0;
}

/* A function with a body whose first argument is a device. */
static int takes_device(const NvmlFnInfo *info)
{
    const char *name = info->name;
    return info->priority < 3 && (starts_with(name, "nvmlDevice")) && !starts_with(name, "nvmlDeviceGetCount") &&
           !starts_with(name, "nvmlDeviceGetHandleBy");
}

static nvmlReturn_t call(const NvmlFnInfo *info, const void *first)
{
    return find(info->name)((void *)(uintptr_t)first, NULL, NULL, NULL, NULL, NULL);
}

static nvmlDevice_t device_at(unsigned int index)
{
    nvmlDevice_t device;
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

/* What a live handle tells of a GPU that is lost or wants a reset. */
static const NvmlFn remembered[] = {NVML_FN_nvmlDeviceGetUUID, NVML_FN_nvmlDeviceGetIndex, NVML_FN_nvmlDeviceGetName};

/* Every function that takes a device, without anywhere to write: `wanted` but for the first `count` of those above,
 * which find that out first. Names the functions that answer otherwise. */
static void walk_devices_but(const void *device, nvmlReturn_t wanted, size_t count)
{
    unsigned int walked = 0, wrong = 0;

    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++) {
        const NvmlFnInfo *info = nvml_fn_info(fn);
        if (!takes_device(info))
            continue;
        walked++;
        const nvmlReturn_t got = call(info, device);
        nvmlReturn_t right = wanted;
        for (size_t i = 0; i < count; i++)
            if (remembered[i] == (NvmlFn)fn)
                right = NVML_ERROR_INVALID_ARGUMENT;
        if (got != right) {
            print_error("%s: %d, wanted %d\n", info->name, (int)got, (int)right);
            wrong++;
        }
    }
    assert_true(walked > 120);
    assert_int_equal(wrong, 0);
}

static void walk_devices(const void *device, nvmlReturn_t wanted)
{
    walk_devices_but(device, wanted, 0);
}

static int setup(void **state)
{
    *state = node_new(nvml_library_generation);
    return 0;
}

static int setup_and_init(void **state)
{
    setup(state);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    return 0;
}

static int teardown(void **state)
{
    nvmlShutdown();
    node_free(*state);
    return 0;
}

static void before_init_everything_is_uninitialized(void **state)
{
    unsigned int walked = 0;
    (void)state;

    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++) {
        const NvmlFnInfo *info = nvml_fn_info(fn);
        if (is_free(info->name))
            continue;
        if (call(info, NULL) != NVML_ERROR_UNINITIALIZED)
            fail_msg("%s", info->name);
        walked++;
    }
    assert_int_equal(walked, NVML_FN_COUNT - 6);
}

/* After init, no function takes a null pointer for an answer's place. */
static void null_is_an_invalid_argument(void **state)
{
    unsigned int wrong = 0;
    (void)state;

    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++) {
        const NvmlFnInfo *info = nvml_fn_info(fn);
        if (is_free(info->name) || info->priority > 2)
            continue;
        const nvmlReturn_t got = call(info, NULL);
        if (got != NVML_ERROR_INVALID_ARGUMENT) {
            print_error("%s: %d\n", info->name, (int)got);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void stubs_refuse(void **state)
{
    (void)state;
    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++) {
        const NvmlFnInfo *info = nvml_fn_info(fn);
        if (info->priority < 3)
            continue;
        const nvmlReturn_t got = call(info, NULL);
        if (strcmp(info->name, "nvmlGpmQueryIfStreamingEnabled") == 0 || got == NVML_SUCCESS)
            continue;
        if (got != NVML_ERROR_NOT_SUPPORTED && got != NVML_ERROR_INVALID_ARGUMENT && got != NVML_ERROR_NOT_FOUND)
            fail_msg("%s: %d", info->name, (int)got);
    }
}

static void garbage_is_no_handle(void **state)
{
    unsigned char here[64] = {0};
    const uintptr_t good = (uintptr_t)device_at(0);
    const uintptr_t none[] = {
        0, 1, 0x10, (uintptr_t)here, good + 1, good + 4, (uintptr_t)-1, (uintptr_t)-16, (uintptr_t)&find};
    (void)state;

    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        walk_devices((const void *)none[i], NVML_ERROR_INVALID_ARGUMENT);
    /* Places in the tables that belong to no GPU of the node, and to no MIG device that exists. */
    for (uintptr_t n = NODE_GPUS; n < SIM_GPU_MAX; n++) {
        const uintptr_t behind = (uintptr_t)nvml_handle_gpu(0) + n * sizeof(struct nvmlDevice_st);
        assert_int_equal(call(nvml_fn_info(NVML_FN_nvmlDeviceGetName), (const void *)behind),
                         NVML_ERROR_INVALID_ARGUMENT);
    }
    walk_devices(nvml_handle_mig(0, 3, 0), NVML_ERROR_INVALID_ARGUMENT);
}

static void a_lost_gpu_is_lost_but_keeps_its_name(void **state)
{
    SimImage *image = *state;
    char uuid[80];
    const nvmlDevice_t lost = device_at(0), other = device_at(1);
    nvmlDevice_t found;
    unsigned int count, index;

    node_op(image, (SimOp){.type = SIM_OP_LOST, .gpu = NODE_FIRST});
    walk_devices_but(lost, NVML_ERROR_GPU_IS_LOST, sizeof remembered / sizeof *remembered);
    assert_int_equal(nvmlDeviceGetUUID(lost, uuid, sizeof uuid), NVML_SUCCESS);
    assert_string_equal(uuid, image->gpus[NODE_FIRST].uuid);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    assert_int_equal(count, NODE_GPUS);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &found), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nvmlDeviceGetHandleByUUID(image->gpus[NODE_FIRST].uuid, &found), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nvmlDeviceGetIndex(other, &index), NVML_SUCCESS);
    nvmlGpuTopologyLevel_t level;
    assert_int_equal(nvmlDeviceGetTopologyCommonAncestor(other, lost, &level), NVML_ERROR_GPU_IS_LOST);
}

static void a_gpu_that_wants_a_reset_says_so(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(0);
    unsigned int index;
    char uuid[80];

    node_op(image, (SimOp){.type = SIM_OP_SET, .gpu = NODE_FIRST, .a = {SIM_KEY_RESET_REQUIRED}, .u = 1});
    walk_devices_but(device, NVML_ERROR_RESET_REQUIRED, sizeof remembered / sizeof *remembered);
    assert_int_equal(nvmlDeviceGetUUID(device, uuid, sizeof uuid), NVML_SUCCESS);
    assert_string_equal(uuid, image->gpus[NODE_FIRST].uuid);
    assert_ptr_equal(device_at(0), device);
    node_op(image, (SimOp){.type = SIM_OP_RESET, .gpu = NODE_FIRST});
    assert_int_equal(nvmlDeviceGetIndex(device, &index), NVML_SUCCESS);
}

static void error_texts(void **state)
{
    (void)state;
    assert_string_equal(nvmlErrorString(NVML_SUCCESS), "Success");
    assert_string_equal(nvmlErrorString(NVML_ERROR_CORRUPTED_INFOROM), "Corrupted infoROM");
    assert_string_equal(nvmlErrorString(NVML_ERROR_OPERATING_SYSTEM), "GPU access blocked by the operating system");
    assert_string_equal(nvmlErrorString(NVML_ERROR_LIB_RM_VERSION_MISMATCH), "Driver/library version mismatch");
    assert_string_equal(nvmlErrorString(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED), "vGPU ECC not supported");
    assert_string_equal(nvmlErrorString(NVML_ERROR_FREQ_NOT_SUPPORTED), "Invalid Frequency");
    assert_string_equal(nvmlErrorString(NVML_ERROR_NOT_READY), "System is not in ready state");
    assert_string_equal(nvmlErrorString(NVML_ERROR_UNKNOWN), "Unknown Error");
    assert_string_equal(nvmlErrorString((nvmlReturn_t)31), "Unknown Error");
    assert_string_equal(nvmlErrorString((nvmlReturn_t)-1), "Unknown Error");
    const int old = strcmp(nvmlErrorString(NVML_ERROR_GPU_NOT_FOUND), "Unknown Error") == 0;
    assert_int_equal(old, nvml_library_generation < 590);
    for (int code = 0; code <= 27; code++)
        for (int other = code + 1; other <= 27; other++)
            assert_string_not_equal(nvmlErrorString((nvmlReturn_t)code), nvmlErrorString((nvmlReturn_t)other));
}

static void deprecated_since_590(void **state)
{
    const nvmlReturn_t wanted = nvml_library_generation >= 590 ? NVML_ERROR_DEPRECATED : NVML_SUCCESS;
    const nvmlDevice_t device = device_at(0);
    nvmlEnableState_t mode;
    unsigned int mhz;
    (void)state;

    assert_int_equal(nvmlDeviceGetDisplayMode(device, &mode), wanted);
    assert_int_equal(nvmlDeviceGetPowerManagementMode(device, &mode), wanted);
    assert_int_equal(nvmlDeviceGetApplicationsClock(device, NVML_CLOCK_SM, &mhz), wanted);
    assert_int_equal(nvmlDeviceGetDefaultApplicationsClock(device, NVML_CLOCK_MEM, &mhz), wanted);
    assert_int_equal(nvmlDeviceGetClock(device, NVML_CLOCK_SM, NVML_CLOCK_ID_APP_CLOCK_TARGET, &mhz), wanted);
    assert_int_equal(nvmlDeviceGetDisplayActive(device, &mode), NVML_SUCCESS);
}

/* ---- texts ---- */

typedef nvmlReturn_t (*TextFn)(nvmlDevice_t, char *, unsigned int);

static nvmlReturn_t inforom_oem(nvmlDevice_t device, char *out, unsigned int length)
{
    return nvmlDeviceGetInforomVersion(device, NVML_INFOROM_OEM, out, length);
}

static void texts_want_room(void **state)
{
    SimImage *image = *state;
    const SimBoard *board = &image->boards[0];
    const struct {
        TextFn fn;
        const char *wanted;
        nvmlReturn_t on_desk;
    } rows[] = {
        {nvmlDeviceGetName, board->name, NVML_SUCCESS},
        {nvmlDeviceGetUUID, image->gpus[NODE_FIRST].uuid, NVML_SUCCESS},
        {nvmlDeviceGetSerial, image->gpus[NODE_FIRST].serial, NVML_ERROR_NOT_SUPPORTED},
        {nvmlDeviceGetVbiosVersion, board->vbios, NVML_SUCCESS},
        {nvmlDeviceGetBoardPartNumber, board->part_number, NVML_ERROR_NOT_SUPPORTED},
        {nvmlDeviceGetInforomImageVersion, board->inforom_image, NVML_ERROR_NOT_SUPPORTED},
        {inforom_oem, board->inforom_oem, NVML_ERROR_NOT_SUPPORTED},
    };
    const nvmlDevice_t device = device_at(0), desk = device_at(2);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[96];
        const unsigned int need = (unsigned int)strlen(rows[i].wanted) + 1;
        memset(text, 'x', sizeof text);
        assert_int_equal(rows[i].fn(device, text, need), NVML_SUCCESS);
        assert_string_equal(text, rows[i].wanted);
        assert_int_equal(text[need], 'x');
        text[0] = 'y';
        assert_int_equal(rows[i].fn(device, text, need - 1), NVML_ERROR_INSUFFICIENT_SIZE);
        assert_int_equal(text[0], 'y');
        assert_int_equal(rows[i].fn(device, text, 0), NVML_ERROR_INSUFFICIENT_SIZE);
        assert_int_equal(rows[i].fn(device, NULL, need), NVML_ERROR_INVALID_ARGUMENT);
        assert_int_equal(rows[i].fn(desk, text, sizeof text), rows[i].on_desk);
    }
}

int main(void)
{
#define INITIALISED(f) cmocka_unit_test_setup_teardown(f, setup_and_init, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(before_init_everything_is_uninitialized, setup, teardown),
        INITIALISED(null_is_an_invalid_argument),
        INITIALISED(stubs_refuse),
        INITIALISED(garbage_is_no_handle),
        INITIALISED(a_lost_gpu_is_lost_but_keeps_its_name),
        INITIALISED(a_gpu_that_wants_a_reset_says_so),
        INITIALISED(error_texts),
        INITIALISED(deprecated_since_590),
        INITIALISED(texts_want_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
