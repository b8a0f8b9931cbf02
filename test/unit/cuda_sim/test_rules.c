/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the driver's interface: order of calls, contexts, modules, memory, what CUDA sees. */
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

extern const char *const cuda_texts[CUDA_TEXT_COUNT];

/* --- order ------------------------------------------------------------------------------------------------------- */

static void use_before_init(Client *c)
{
    int count, version;
    CUcontext context;
    const char *name;

    CHECK_INT(c->cu.cuDeviceGetCount(&count), CUDA_NOT_INITIALIZED);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_NOT_INITIALIZED);
    CHECK_INT(c->cu.cuDriverGetVersion(&version), 0);
    CHECK_INT(version, 13010);
    CHECK_INT(c->cu.cuGetErrorName(CUDA_SYSTEM_NOT_READY, &name), 0);
    CHECK(strcmp(name, "CUDA_ERROR_SYSTEM_NOT_READY") == 0);
    CHECK_INT(c->cu.cuGetErrorName(12345, &name), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuInit(1), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuInit(0), 0);
    CHECK_INT(c->cu.cuInit(0), 0);
    CHECK_INT(c->cu.cuDeviceGetCount(&count), 0);
    CHECK_INT(count, NODE_GPUS);
    const pid_t pid = fork(); /* a child has to begin anew */
    int status = 1;
    if (pid == 0)
        _exit(c->cu.cuDeviceGetCount(&count) == CUDA_NOT_INITIALIZED && c->cu.cuInit(0) == CUDA_NOT_INITIALIZED ? 0
                                                                                                                : 1);
    waitpid(pid, &status, 0);
    CHECK_INT(status, 0);
}

static void nothing_goes_before_init(void **state)
{
    (void)state;
    client_case(use_before_init);
}

static void use_without_context(Client *c)
{
    CUdeviceptr at;
    CUstream stream;
    CUcontext context;

    CHECK_INT(c->cu.cuInit(0), 0);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 4), CUDA_BAD_CONTEXT);
    CHECK_INT(c->cu.cuStreamCreate(&stream, 0), CUDA_BAD_CONTEXT);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 9), CUDA_BAD_DEVICE);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 4), CUDA_BAD_CONTEXT);
    CHECK_INT(c->cu.cuCtxSetCurrent((CUcontext)&at), CUDA_BAD_CONTEXT);
    CHECK_INT(c->cu.cuCtxSetCurrent(context), 0);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 4), 0);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 0), 0); /* counts */
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), 0);
    CHECK_INT(c->cu.cuMemFree_v2(at), 0);
    CHECK_INT(c->cu.cuMemFree_v2(at), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuMemFree_v2(0), 0);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), 0);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 4), CUDA_BAD_CONTEXT);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_BAD_CONTEXT);
}

static void a_context_is_needed(void **state)
{
    (void)state;
    client_case(use_without_context);
}

/* --- what it says of devices ------------------------------------------------------------------------------------- */

static void read_devices(Client *c)
{
    char text[64];
    CUuuid uuid;
    size_t bytes;
    int value;

    CHECK_INT(c->cu.cuInit(0), 0);
    CHECK_INT(c->cu.cuDeviceGetName(text, sizeof text, 0), 0);
    CHECK(strcmp(text, "NVIDIA H100 80GB HBM3") == 0);
    CHECK_INT(c->cu.cuDeviceGetPCIBusId(text, sizeof text, 0), 0);
    CHECK(strcmp(text, "0000:1b:00.0") == 0);
    CHECK_INT(c->cu.cuDeviceGetUuid_v2(&uuid, 0), 0);
    CHECK_INT(uuid.bytes[3], 1);
    CHECK_INT(uuid.bytes[4], 0x11);
    CHECK_INT(uuid.bytes[15], 0x61);
    CHECK_INT(c->cu.cuDeviceTotalMem_v2(&bytes, 0), 0);
    CHECK_INT(bytes, (81559ll - 479) << 20);
    const struct {
        int attribute, want;
    } rows[] = {{CUDA_ATTRIBUTE_SM_COUNT, 132},
                {CUDA_ATTRIBUTE_MAJOR, 9},
                {CUDA_ATTRIBUTE_MINOR, 0},
                {CUDA_ATTRIBUTE_CLOCK_KHZ, 1980000},
                {CUDA_ATTRIBUTE_BUS_WIDTH_BITS, 5120},
                {CUDA_ATTRIBUTE_ECC, 1},
                {CUDA_ATTRIBUTE_L2_BYTES, 50 << 20},
                {CUDA_ATTRIBUTE_PCI_BUS, 0x1b},
                {CUDA_ATTRIBUTE_WATCHDOG, 0},
                {CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ, 2619000},
                {CUDA_ATTRIBUTE_SHARED_OPTIN, 227 << 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(c->cu.cuDeviceGetAttribute(&value, rows[i].attribute, 0), 0);
        CHECK_INT(value, rows[i].want);
    }
    CHECK_INT(c->cu.cuDeviceGetAttribute(&value, 4711, 0), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuDeviceGetAttribute(&value, CUDA_ATTRIBUTE_MAJOR, 4), CUDA_BAD_DEVICE);
    CHECK_INT(c->cu.cuDeviceCanAccessPeer(&value, 0, 1), 0);
    CHECK_INT(value, 1);
    CHECK_INT(c->cu.cuDeviceCanAccessPeer(&value, 0, DESK), 0);
    CHECK_INT(value, 0);
}

static void devices_are_those_of_the_node(void **state)
{
    (void)state;
    client_case(read_devices);
}

/* What cuInit and the count are, in the order of the buses: the first character of each name, N or the desk's G. */
static CUresult wanted_result;
static const char *wanted_buses;

static void count_visible(Client *c)
{
    char got[64] = "", id[32];
    int count = 0;

    CHECK_INT(c->cu.cuInit(0), wanted_result);
    if (wanted_result != CUDA_SUCCESS)
        return;
    CHECK_INT(c->cu.cuDeviceGetCount(&count), 0);
    for (int i = 0; i < count; i++) {
        CHECK_INT(c->cu.cuDeviceGetPCIBusId(id, sizeof id, i), 0);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.2s", i ? " " : "", id + 5);
    }
    if (strcmp(got, wanted_buses) != 0)
        fprintf(stderr, "# %s, not %s\n", got, wanted_buses);
    CHECK(strcmp(got, wanted_buses) == 0);
}

static void visible_devices_are_chosen(void **state)
{
    static const struct {
        const char *variable, *buses;
    } rows[] = {{NULL, "1b 43 63 83"},
                {"1", "43"},
                {"3,0", "83 1b"},
                {"GPU-00000002-1111-2222-3333-444455556662", "43"},
                {"GPU-00000003,GPU-00000001", "63 1b"},
                {"0,7,1", "1b"},
                {"0,nonsense", "1b"},
                {"", ""},
                {"-1", ""},
                {"MIG-unknown", ""}};
    (void)state;
    SimImage *image = node_new(590);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].variable)
            setenv("CUDA_VISIBLE_DEVICES", rows[i].variable, 1);
        wanted_result = rows[i].buses[0] ? CUDA_SUCCESS : CUDA_NO_DEVICE;
        wanted_buses = rows[i].buses;
        assert_int_equal(client_run(image, count_visible), 0);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    node_op(image, (SimOp){.type = SIM_OP_PLUG, .gpu = 2});
    node_op(image, (SimOp){.type = SIM_OP_LOST, .gpu = 0});
    wanted_result = CUDA_SUCCESS;
    wanted_buses = "1b 63";
    assert_int_equal(client_run(image, count_visible), 0);
    node_free(image);
}

static void use_mig(Client *c)
{
    char name[64];
    size_t bytes;
    int count, sms, can;

    CHECK_INT(c->cu.cuInit(0), 0);
    CHECK_INT(c->cu.cuDeviceGetCount(&count), 0);
    CHECK_INT(count, 1);
    CHECK_INT(c->cu.cuDeviceGetAttribute(&sms, CUDA_ATTRIBUTE_SM_COUNT, 0), 0);
    CHECK_INT(sms, 60);
    CHECK_INT(c->cu.cuDeviceGetName(name, sizeof name, 0), 0);
    CHECK(strcmp(name, "NVIDIA H100 80GB HBM3 MIG 3g.40gb") == 0);
    CHECK_INT(c->cu.cuDeviceTotalMem_v2(&bytes, 0), 0);
    CHECK_INT(bytes, 40448ll << 20);
    CHECK_INT(c->cu.cuDeviceCanAccessPeer(&can, 0, 0), 0);
    CHECK_INT(can, 0);
    client_open(c, 1);
    CHECK_INT(client_launch(c, CUDA_PROBE_FMA32, 60, (CudaKernelArgs){.rounds = 1000}), 0);
    const SimNow *now = sim_state_now(c->image, 1);
    CHECK_INT(now->proc_count, 1);
    CHECK(now->proc[0].gi >= 0);
}

static void of_mig_devices_one_is_seen(void **state)
{
    char list[160], uuid[2][48];
    uint32_t g, ci;
    (void)state;
    SimImage *image = node_new(590);

    node_op(image, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = 1, .a = {1}, .origin = SIM_FROM_SCENARIO});
    node_op(image, (SimOp){.type = SIM_OP_RESET, .gpu = 1});
    wanted_result = CUDA_SUCCESS;
    wanted_buses = "43 63 83"; /* MIG without an instance */
    assert_int_equal(client_run(image, count_visible), 0);
    for (int i = 0; i < 2; i++) {
        SimOp op = {.type = SIM_OP_GI_CREATE, .gpu = 1, .a = {1, SIM_NONE}, .origin = SIM_FROM_INJECT};
        uint32_t id = 0;
        assert_int_equal(sim_op_apply(image, &op, NULL, 0, &id), SIM_OK);
        node_op(image, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = 1, .a = {(int32_t)id, 2, SIM_NONE}});
        assert_true(sim_mig_device(&sim_state_now(image, 1)->cond, (uint32_t)i, &g, &ci));
        sim_mig_uuid(&image->gpus[1], &sim_state_now(image, 1)->cond.gi[g], &sim_state_now(image, 1)->cond.ci[ci],
                     uuid[i]);
    }
    snprintf(list, sizeof list, "%s,%s", uuid[1], uuid[0]);
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    assert_int_equal(client_run(image, use_mig), 0);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    assert_int_equal(client_run(image, use_mig), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    node_free(image);
}

/* --- the node's driver ------------------------------------------------------------------------------------------- */

static void the_driver_decides_what_init_says(void **state)
{
    static const struct {
        SimNodeKey key;
        uint32_t value;
        CUresult result;
    } rows[] = {{SIM_NODE_DRIVER, SIM_DRIVER_UNLOADED, CUDA_NO_DEVICE},
                {SIM_NODE_DRIVER, SIM_DRIVER_MISMATCH, CUDA_DRIVER_MISMATCH},
                {SIM_NODE_DRIVER, SIM_DRIVER_UNKNOWN_ERROR, CUDA_UNKNOWN},
                {SIM_NODE_DRIVER, SIM_DRIVER_NO_PERMISSION, CUDA_OPERATING_SYSTEM},
                {SIM_NODE_FABRIC_MANAGER, 0, CUDA_SYSTEM_NOT_READY}};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SimImage *image = node_new(590);
        node_op(image, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {(int32_t)rows[i].key}, .u = rows[i].value});
        wanted_result = rows[i].result;
        assert_int_equal(client_run(image, count_visible), 0);
        node_free(image);
    }
    SimImage *image = node_new(590);
    node_op(image, (SimOp){.type = SIM_OP_SET, .gpu = 2, .a = {SIM_KEY_FABRIC_STATE}, .u = 2});
    wanted_result = CUDA_SYSTEM_NOT_READY;
    assert_int_equal(client_run(image, count_visible), 0);
    node_free(image);
    image = node_new(550); /* another driver than the library's */
    wanted_result = CUDA_DRIVER_MISMATCH;
    assert_int_equal(client_run(image, count_visible), 0);
    node_free(image);
    image = node_new(590);
    setenv("STOKER_SIM_NO_LIBCUDA", "1", 1);
    wanted_result = CUDA_NO_DEVICE;
    assert_int_equal(client_run(image, count_visible), 0);
    unsetenv("STOKER_SIM_NO_LIBCUDA");
    setenv("STOKER_SIM", "/nonexistent", 1);
    assert_int_equal(client_run(image, count_visible), 0);
    unsetenv("STOKER_SIM");
    assert_int_equal(client_run(image, count_visible), 0);
    node_free(image);
}

/* --- modules and launches ---------------------------------------------------------------------------------------- */

static CUresult load_text(Client *c, const char *version, const char *target)
{
    char text[200], log[200] = "x";
    CUmodule module;
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};

    snprintf(text, sizeof text, ".version %s\n.target %s\n.address_size 64\n.visible .entry compare()\n", version,
             target);
    const CUresult result = c->cu.cuModuleLoadDataEx(&module, text, 2, options, values);
    CHECK((log[0] == '\0') == (result == CUDA_SUCCESS));
    return result;
}

static void load_modules(Client *c)
{
    CUmodule module;
    CUfunction function;

    client_open(c, 3);
    CHECK_INT(load_text(c, "6.5", "sm_75"), 0);
    CHECK_INT(load_text(c, "9.1", "sm_90"), 0);
    CHECK_INT(load_text(c, "9.2", "sm_75"), CUDA_PTX_TOO_NEW);
    CHECK_INT(load_text(c, "8.0", "sm_90a"), 0);
    CHECK_INT(load_text(c, "8.6", "sm_100"), CUDA_NO_BINARY);
    CHECK_INT(load_text(c, "8.6", "sm_100a"), CUDA_NO_BINARY);
    CHECK_INT(load_text(c, "x", "sm_75"), CUDA_BAD_PTX);
    CHECK_INT(c->cu.cuModuleLoadDataEx(&module, cuda_texts[CUDA_TEXT_BASE], 0, NULL, NULL), 0);
    CHECK_INT(c->cu.cuModuleGetFunction(&function, module, "no_such_entry"), CUDA_NOT_FOUND);
    CHECK_INT(c->cu.cuModuleGetFunction(&function, module, "gemm_bf16"), CUDA_NOT_FOUND); /* of another text */
    CHECK_INT(c->cu.cuModuleGetFunction(&function, module, "compare"), 0);
    CHECK_INT(c->cu.cuFuncSetAttribute(function, CUDA_FUNCTION_MAX_DYNAMIC_SHARED, 227 << 10), 0);
    CHECK_INT(c->cu.cuFuncSetAttribute(function, CUDA_FUNCTION_MAX_DYNAMIC_SHARED, 228 << 10), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuModuleUnload(module), 0);
    CHECK_INT(c->cu.cuModuleUnload(module), CUDA_BAD_ARGUMENT);
    client_use(c, DESK);
    CHECK_INT(load_text(c, "8.0", "sm_90a"), CUDA_NO_BINARY);
    CHECK_INT(load_text(c, "8.4", "sm_89"), 0);
}

static void texts_have_to_fit_driver_and_gpu(void **state)
{
    (void)state;
    client_case(load_modules);
}

/* Each kernel of the table is in its text, and runs. */
static void run_all_kernels(Client *c)
{
    static const struct {
        CudaText text;
        uint32_t lowest, highest;
    } texts[] = {
#define TEXT_ROW(id, file, target, lowest, highest) {id, lowest, highest},
        CUDA_TEXT_TABLE(TEXT_ROW)
#undef TEXT_ROW
    };
    static const CudaText of[CUDA_KERNEL_COUNT] = {
#define KERNEL_TEXT(id, name, text, threads, operations) [id] = text,
        CUDA_KERNEL_TABLE(KERNEL_TEXT)
#undef KERNEL_TEXT
    };

    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, 1 << 20), b = client_alloc(c, 1 << 20), d = client_alloc(c, 1 << 20);
    CHECK_INT(c->cu.cuMemsetD8Async(a, 0, 1 << 20, c->stream), 0);
    for (CudaKernel kernel = 0; kernel < CUDA_KERNEL_COUNT; kernel++) {
        CudaKernelArgs args = {.a = a, .b = b, .c = d, .count = 64, .rounds = 3, .m = 128, .n = 256, .k = 64};
        if (texts[of[kernel]].lowest > 90 || texts[of[kernel]].highest < 90)
            continue;
        CHECK_INT(client_launch(c, kernel, 2, args), 0);
        CHECK(c->results[1].end_ns > c->results[1].begin_ns && c->results[1].clocks > 0);
        CHECK_INT(c->results[1].smid, 1);
    }
}

static void each_kernel_is_known(void **state)
{
    (void)state;
    client_case(run_all_kernels);
}

static void launch_wrongly(Client *c)
{
    CudaKernelArgs args = {.a = 0x1000, .count = 64};
    CudaBlockResult *mine;
    void *params[] = {&args}, *memory;
    CUdeviceptr at;
    CUcontext context;

    client_open(c, 1);
    CUfunction function = client_kernel(c, CUDA_MEMORY_WRITE);
    CHECK_INT(c->cu.cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, c->stream, params, NULL), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, c->stream, params, NULL), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 64 << 10, c->stream, params, NULL), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, c->stream, params, NULL), CUDA_BAD_ARGUMENT);
    /* a wrong address is seen by the wait, and by all calls after it */
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 1, args), CUDA_ILLEGAL_ADDRESS);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 4), CUDA_ILLEGAL_ADDRESS);
    CHECK_INT(c->cu.cuCtxSynchronize(), CUDA_ILLEGAL_ADDRESS);
    CHECK_INT(c->cu.cuMemHostAlloc(&memory, 64, 0), CUDA_ILLEGAL_ADDRESS);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRelease_v2(0), 0);
    CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ILLEGAL_ADDRESS);
    mine = c->results;
    CHECK_INT(mine->errors, 0);
}

static void a_wrong_address_ends_the_context(void **state)
{
    (void)state;
    client_case(launch_wrongly);
}

static void launch_misaligned(Client *c)
{
    client_open(c, 1);
    CudaKernelArgs args = {.a = client_alloc(c, 4096) + 4, .count = 64};
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 1, args), CUDA_MISALIGNED);
}

static void a_misaligned_address_too(void **state)
{
    (void)state;
    client_case(launch_misaligned);
}

static void stop_kernels(Client *c)
{
    client_open(c, 1);
    CudaKernelArgs args = {.rounds = 1u << 31};
    *c->stop = 1;
    const double ms = client_time(c, CUDA_PROBE_FMA32, 2, args);
    CHECK(ms < 1);
    CHECK_INT(c->results[0].stopped, 1);
    CHECK_INT(c->results[1].stopped, 1);
    *c->stop = 0;
    args.rounds = 100;
    client_time(c, CUDA_PROBE_FMA32, 2, args);
    CHECK_INT(c->results[0].stopped, 0);
}

static void kernels_heed_the_stop_word(void **state)
{
    (void)state;
    client_case(stop_kernels);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void fill_memory(Client *c)
{
    size_t is_free, total, later;
    CUdeviceptr at, second;

    client_open(c, 1);
    CHECK_INT(c->cu.cuMemGetInfo_v2(&is_free, &total), 0);
    CHECK_INT(total, (81559ll - 479) << 20);
    CHECK_NEAR(is_free, (81559. - 479 - 520) * 1048576, 0.001);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, total), CUDA_OUT_OF_MEMORY);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 0), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 60ull << 30), 0);
    CHECK_INT(c->cu.cuMemAlloc_v2(&second, 30ull << 30), CUDA_OUT_OF_MEMORY);
    CHECK_INT(c->cu.cuMemGetInfo_v2(&later, &total), 0);
    CHECK_INT(is_free - later, 60ll << 30);
    CHECK_INT(c->cu.cuMemFree_v2(at + 16), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuMemFree_v2(at), 0);
    client_set(c, 1, SIM_KEY_ORPHAN_MIB, 40 << 10); /* memory that nobody holds */
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 60ull << 30), CUDA_OUT_OF_MEMORY);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 30ull << 30), 0);
    client_set(c, 1, SIM_KEY_ORPHAN_MIB, 0);
    client_set(c, 1, SIM_KEY_MEMORY_ROOM, 600);
    CHECK_INT(c->cu.cuMemAlloc_v2(&second, 20ull << 30), CUDA_OUT_OF_MEMORY);
    CHECK_INT(c->cu.cuMemAlloc_v2(&second, 10ull << 30), 0);
}

static void memory_can_run_out(void **state)
{
    (void)state;
    client_case(fill_memory);
}

/* --- orders of tests --------------------------------------------------------------------------------------------- */

static void call_three_times(Client *c)
{
    CUdeviceptr at;

    client_open(c, 1);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 64), 0);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 64), CUDA_UNKNOWN);
    CHECK_INT(c->cu.cuMemAlloc_v2(&at, 64), 0);
    CHECK_INT(c->cu.cuCtxSynchronize(), 0); /* kills */
    CHECK(false);
}

static char *read_all(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    buf[fread(buf, 1, size - 1, file)] = '\0';
    fclose(file);
    return buf;
}

static void calls_fail_to_order_and_are_traced(void **state)
{
    char trace[] = "/tmp/cuda-trace-XXXXXX", text[4096];
    (void)state;
    SimImage *image = node_new(590);

    close(mkstemp(trace));
    setenv("STOKER_SIM_CUDA_FAIL", "cuMemAlloc_v2:2:999,cuCtxSynchronize:1:kill", 1);
    setenv("STOKER_SIM_CUDA_TRACE", trace, 1);
    const int status = client_run(image, call_three_times);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("STOKER_SIM_CUDA_FAIL");
    unsetenv("STOKER_SIM_CUDA_TRACE");
    read_all(trace, text, sizeof text);
    assert_non_null(strstr(text, "cuInit 0\ncuDevicePrimaryCtxRetain 0\n"));
    assert_non_null(strstr(text, "cuMemAlloc_v2 0\ncuMemAlloc_v2 999\ncuMemAlloc_v2 0\n"));
    unlink(trace);
    node_free(image);
}

static void hang_in_init(Client *c)
{
    alarm(1); /* ends a process that waits for ever */
    c->cu.cuInit(0);
    CHECK(false);
}

static void a_call_can_hang_to_order(void **state)
{
    (void)state;
    SimImage *image = node_new(590);

    setenv("STOKER_SIM_CUDA_FAIL", "cuInit:1:hang", 1);
    const int status = client_run(image, hang_in_init);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    unsetenv("STOKER_SIM_CUDA_FAIL");
    node_free(image);
}

static void leave_all(Client *c)
{
    client_open(c, 1);
    client_alloc(c, 1000);
}

static void strict_mode_names_mistakes(void **state)
{
    char strict[] = "/tmp/cuda-strict-XXXXXX", text[4096];
    (void)state;
    SimImage *image = node_new(590);

    close(mkstemp(strict));
    setenv("STOKER_SIM_STRICT", strict, 1);
    assert_int_equal(client_run(image, use_before_init), 0);
    assert_int_equal(client_run(image, leave_all), 0);
    unsetenv("STOKER_SIM_STRICT");
    read_all(strict, text, sizeof text);
    assert_non_null(strstr(text, "strict: cuDeviceGetCount: called before cuInit\n"));
    assert_non_null(strstr(text, "strict: exit: the context of device 0 was not released, with 1024 bytes\n"));
    unlink(strict);
    node_free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_before_init),           cmocka_unit_test(a_context_is_needed),
        cmocka_unit_test(devices_are_those_of_the_node),      cmocka_unit_test(visible_devices_are_chosen),
        cmocka_unit_test(of_mig_devices_one_is_seen),         cmocka_unit_test(the_driver_decides_what_init_says),
        cmocka_unit_test(texts_have_to_fit_driver_and_gpu),   cmocka_unit_test(each_kernel_is_known),
        cmocka_unit_test(a_wrong_address_ends_the_context),   cmocka_unit_test(a_misaligned_address_too),
        cmocka_unit_test(kernels_heed_the_stop_word),         cmocka_unit_test(memory_can_run_out),
        cmocka_unit_test(calls_fail_to_order_and_are_traced), cmocka_unit_test(a_call_can_hang_to_order),
        cmocka_unit_test(strict_mode_names_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
