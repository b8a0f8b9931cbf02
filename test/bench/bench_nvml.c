/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library as a client meets it: opened by name, on a node of eight GPUs.
 * usage: bench_nvml LIBRARY DATA_DIR
 */
#include "bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvml_abi.h"
#include "sim/core/control.h"
#include "sim/scenario/scenario.h"
#include "test/unit/memory_folder.h"

enum { GPUS = 8, FIELDS = 40 };

#define NVML_CALLS(X)                                                                                                  \
    X(DeviceGetTemperature)                                                                                            \
    X(DeviceGetPowerUsage)                                                                                             \
    X(DeviceGetUtilizationRates)                                                                                       \
    X(DeviceGetMemoryInfo_v2)                                                                                          \
    X(DeviceGetName)                                                                                                   \
    X(DeviceGetClockInfo)                                                                                              \
    X(DeviceGetFieldValues)                                                                                            \
    X(DeviceGetComputeRunningProcesses_v3)                                                                             \
    X(DeviceGetTotalEccErrors)                                                                                         \
    X(DeviceGetNvLinkErrorCounter)                                                                                     \
    X(DeviceGetCurrentClocksEventReasons)                                                                              \
    X(DeviceGetTotalEnergyConsumption)                                                                                 \
    X(DeviceGetPcieReplayCounter)                                                                                      \
    X(DeviceGetHandleByIndex_v2)                                                                                       \
    X(DeviceGetPerformanceState)                                                                                       \
    X(GpmSampleAlloc)                                                                                                  \
    X(GpmSampleGet)                                                                                                    \
    X(GpmMetricsGet)                                                                                                   \
    X(Init_v2)                                                                                                         \
    X(Shutdown)

static struct {
#define X(name) __typeof__(nvml##name) *name;
    NVML_CALLS(X)
#undef X
} nv;

static const char *library_path;
static char image_path[64];
static SimImage *image;
static nvmlDevice_t gpu[GPUS];
static nvmlFieldValue_t fields[FIELDS];
static nvmlGpmSample_t gpm[2];
static int proc_fd;

/* Field ids that exist on every board; the list may be any, what counts is its length. */
static const unsigned int field_ids[FIELDS] = {1,   2,   3,   4,   5,   6,   7,   8,   82,  83,  91,  92,  93,  94,
                                               138, 139, 142, 143, 144, 145, 146, 161, 162, 163, 164, 165, 173, 174,
                                               175, 176, 177, 178, 185, 186, 189, 190, 193, 194, 230, 269};

static void must(int holds)
{
    if (!holds)
        abort();
}

/* ---- getters ---- */

static void get_temperature(size_t n)
{
    unsigned int v;
    for (size_t i = 0; i < n; i++) {
        nv.DeviceGetTemperature(gpu[i % GPUS], NVML_TEMPERATURE_GPU, &v);
        bench_use(&v);
    }
}

static void get_power(size_t n)
{
    unsigned int v;
    for (size_t i = 0; i < n; i++) {
        nv.DeviceGetPowerUsage(gpu[i % GPUS], &v);
        bench_use(&v);
    }
}

static void get_utilization(size_t n)
{
    nvmlUtilization_t v;
    for (size_t i = 0; i < n; i++) {
        nv.DeviceGetUtilizationRates(gpu[i % GPUS], &v);
        bench_use(&v);
    }
}

static void get_memory(size_t n)
{
    nvmlMemory_v2_t v = {.version = nvmlMemory_v2};
    for (size_t i = 0; i < n; i++) {
        nv.DeviceGetMemoryInfo_v2(gpu[i % GPUS], &v);
        bench_use(&v);
    }
}

static void get_name(size_t n)
{
    char v[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    for (size_t i = 0; i < n; i++) {
        nv.DeviceGetName(gpu[i % GPUS], v, sizeof v);
        bench_use(v);
    }
}

static void get_field(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        nv.DeviceGetFieldValues(gpu[i % GPUS], FIELDS, fields);
        bench_use(fields);
    }
}

static void get_processes(size_t n)
{
    nvmlProcessInfo_t v[32];
    for (size_t i = 0; i < n; i++) {
        unsigned int count = 32;
        nv.DeviceGetComputeRunningProcesses_v3(gpu[i % GPUS], &count, v);
        bench_use(v);
    }
}

static void get_gpm(size_t n)
{
    for (size_t i = 0; i < n; i++)
        nv.GpmSampleGet(gpu[i % GPUS], gpm[i & 1]);
}

/* ---- limits: what no getter can be faster than, and what one costs that asks a kernel ---- */

static nvmlReturn_t __attribute__((noinline)) empty(nvmlDevice_t device, unsigned int *out)
{
    bench_use(device);
    bench_use(out);
    return NVML_SUCCESS;
}

static void call_empty(size_t n)
{
    nvmlReturn_t (*volatile fn)(nvmlDevice_t, unsigned int *) = empty;
    unsigned int v;
    for (size_t i = 0; i < n; i++)
        fn(gpu[i % GPUS], &v);
}

static void call_clock(size_t n)
{
    struct timespec t;
    for (size_t i = 0; i < n; i++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        bench_use(&t);
    }
}

static void call_proc(size_t n)
{
    char text[256];
    for (size_t i = 0; i < n; i++)
        must(pread(proc_fd, text, sizeof text, 0) > 0);
}

/* ---- a whole look at the node: 8 GPUs, 80 readings each, at an instant not seen before ---- */

static void read_gpu(nvmlDevice_t device)
{
    unsigned int u;
    unsigned long long ull;
    nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
    nvmlUtilization_t utilization;
    nvmlPstates_t state;
    for (nvmlClockType_t c = NVML_CLOCK_GRAPHICS; c <= NVML_CLOCK_VIDEO; c++) /* 4 */
        nv.DeviceGetClockInfo(device, c, &u);
    nv.DeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &u); /* 9 more with two of memory and utilisation each */
    nv.DeviceGetPowerUsage(device, &u);
    nv.DeviceGetMemoryInfo_v2(device, &memory);
    nv.DeviceGetUtilizationRates(device, &utilization);
    nv.DeviceGetCurrentClocksEventReasons(device, &ull);
    nv.DeviceGetTotalEnergyConsumption(device, &ull);
    nv.DeviceGetPcieReplayCounter(device, &u);
    nv.DeviceGetPerformanceState(device, &state); /* 14 */
    for (int e = 0; e < 4; e++)                   /* 18 */
        nv.DeviceGetTotalEccErrors(device, (nvmlMemoryErrorType_t)(e & 1), (nvmlEccCounterType_t)(e >> 1), &ull);
    for (unsigned int link = 0; link < 18; link++) /* 36 */
        nv.DeviceGetNvLinkErrorCounter(device, link, NVML_NVLINK_ERROR_DL_CRC_FLIT, &ull);
    for (unsigned int link = 0; link < 4; link++) /* 40, and 40 fields */
        nv.DeviceGetNvLinkErrorCounter(device, link, NVML_NVLINK_ERROR_DL_REPLAY, &ull);
    nv.DeviceGetFieldValues(device, FIELDS, fields);
}

static void look(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sim_clock_advance(image, 20000000);
        for (int g = 0; g < GPUS; g++)
            read_gpu(gpu[g]);
    }
}

static void look_again(size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int g = 0; g < GPUS; g++)
            read_gpu(gpu[g]);
}

static void advance(size_t n)
{
    for (size_t i = 0; i < n; i++)
        sim_clock_advance(image, 20000000);
}

/* ---- init ---- */

static void init_again(size_t n)
{
    nv.Shutdown();
    for (size_t i = 0; i < n; i++) {
        must(nv.Init_v2() == NVML_SUCCESS);
        nv.Shutdown();
    }
    must(nv.Init_v2() == NVML_SUCCESS);
}

static void child(const char *library, int init)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        void *lib = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
        nvmlReturn_t (*start)(void) = NULL, (*stop)(void) = NULL;
        void *symbol;
        if (library && !lib)
            _exit(1);
        if (init) {
            memcpy(&start, (symbol = dlsym(lib, "nvmlInit_v2"), &symbol), sizeof start);
            memcpy(&stop, (symbol = dlsym(lib, "nvmlShutdown"), &symbol), sizeof stop);
        }
        _exit(init && (start() != NVML_SUCCESS || stop() != NVML_SUCCESS));
    }
    must(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void cold_init(size_t n)
{
    for (size_t i = 0; i < n; i++)
        child(library_path, 1);
}

static void cold_libm(size_t n)
{
    for (size_t i = 0; i < n; i++)
        child("libm.so.6", 0);
}

static void cold_fork(size_t n)
{
    for (size_t i = 0; i < n; i++)
        child(NULL, 0);
}

static void make_node(const char *data)
{
    char boards[512], scenarios[512];
    const char *const scenario_dirs[] = {scenarios, NULL}, *const board_dirs[] = {boards, NULL};
    const ScenarioBuild how = {.now_us = 1767600000000000, .generation = 610};
    Err err = {0};
    snprintf(boards, sizeof boards, "%s/boards", data);
    snprintf(scenarios, sizeof scenarios, "%s/scenarios", data);
    snprintf(image_path, sizeof image_path, "%s/bench-nvml-%ld.img", memory_folder(), (long)getpid());
    if (scenario_compile(scenario_dirs, board_dirs, "default", &how, image_path, &image, &err) < 0) {
        fprintf(stderr, "bench_nvml: %s\n", err.text);
        exit(1);
    }
    sim_clock_advance(image, 60 * SIM_NS);
    setenv("STOKER_SIM", image_path, 1);
}

static void open_library(void)
{
    void *lib = dlopen(library_path, RTLD_NOW | RTLD_LOCAL), *symbol;
    must(lib != NULL);
#define X(name)                                                                                                        \
    symbol = dlsym(lib, "nvml" #name);                                                                                 \
    must(symbol != NULL);                                                                                              \
    memcpy(&nv.name, &symbol, sizeof symbol);
    NVML_CALLS(X)
#undef X
    must(nv.Init_v2() == NVML_SUCCESS);
    for (unsigned int i = 0; i < GPUS; i++)
        must(nv.DeviceGetHandleByIndex_v2(i, &gpu[i]) == NVML_SUCCESS);
    for (int i = 0; i < 2; i++)
        must(nv.GpmSampleAlloc(&gpm[i]) == NVML_SUCCESS);
    for (int i = 0; i < FIELDS; i++)
        fields[i].fieldId = field_ids[i];
}

/* Before anything is opened in this process: a child pays for its own mapping. */
static void cold(void)
{
    static const Bench list[] = {
        {"init and shutdown in a new process", cold_init, NULL, 0},
        {"dlopen libm in a new process", cold_libm, NULL, 0},
        {"new process", cold_fork, NULL, 0},
    };
    bench_all(list, sizeof list / sizeof *list);
}

int main(int argc, char **argv)
{
    static const Bench list[] = {
        {"nvmlDeviceGetTemperature", get_temperature, NULL, 0},
        {"nvmlDeviceGetPowerUsage", get_power, NULL, 0},
        {"nvmlDeviceGetUtilizationRates", get_utilization, NULL, 0},
        {"nvmlDeviceGetMemoryInfo_v2", get_memory, NULL, 0},
        {"nvmlDeviceGetName", get_name, NULL, 0},
        {"nvmlDeviceGetFieldValues, 40 fields", get_field, NULL, 0},
        {"nvmlDeviceGetComputeRunningProcesses_v3", get_processes, NULL, 0},
        {"nvmlGpmSampleGet", get_gpm, NULL, 0},
        {"empty function", call_empty, NULL, 0},
        {"clock_gettime", call_clock, NULL, 0},
        {"read of /proc/loadavg", call_proc, NULL, 0},
        {"8 GPUs, 80 readings each, new instant", look, NULL, 0},
        {"8 GPUs, 80 readings each, same instant", look_again, NULL, 0},
        {"moving the clock", advance, NULL, 0},
        {"init and shutdown again", init_again, NULL, 0},
    };
    if (argc != 3)
        return 2;
    library_path = argv[1];
    make_node(argv[2]);
    proc_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    must(proc_fd >= 0);
    cold();
    open_library();
    sim_clock_set_speed(image, 1); /* as it is used: every call looks at the clock */
    bench_all(list, sizeof list / sizeof *list);
    sim_image_close(image);
    unlink(image_path);
    return 0;
}
