/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels, in a process of their own: loads CUDA's driver library, lets it compile the PTX text of kernels/, runs
 * one kind of work for a bounded time, checks its result and prints what it did as one line of JSON. Every launch is
 * short, so that the process can end between two; memory is a small part of what is free. Nothing of the device is set
 * but the flags of this process's own context.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "cuda_abi.h"
#include "real.h"

enum {
    EXIT_IMPOSSIBLE = 3,
    DEVICES_MAX = 64,
    PTX_MAX = 1 << 20,
    LOG_MAX = 4096,
    SPIN_NS = 40 * 1000 * 1000, /* of one launch */
    SPIN_THREADS = 128,
    LAUNCHES_PER_LOOK = 64, /* at the clock */
    COPY_THREADS = 512,
    COPY_BLOCKS_PER_SM = 4,
    COPY_VECTORS = 4, /* of 16 bytes, per thread and step: as in copy.ptx */
    COPIES_PER_WAIT = 10,
    MATMUL_THREADS = 256,
    MATMUL_BLOCKS_PER_SM = 2,
    MATMUL_ROUNDS = 100 * 1000,
    MATMUL_SUMS = 32, /* accumulators of a thread */
};

#define COPY_BYTES_MAX ((size_t)1 << 30)
#define HOLD_BYTES_MAX ((size_t)4 << 30)
#define PATTERN 0x5eed1234U
#define HALVES_OF_ONE 0x3c003c00U /* two f16 of 1.0 */
#define HALVES_OF_TWO 0x40004000U

typedef struct Cuda {
#define MEMBER(member, symbol, ...) CudaResult (*member)(__VA_ARGS__);
    CUDA_FUNCTIONS(MEMBER)
#undef MEMBER
    CudaDevice device;
    CudaFunction function;
    CudaPointer out; /* two counters of 64 bits */
    int sms, capability;
    double end_s; /* on the monotonic clock */
    json_t *said;
} Cuda;

static double now_s(void)
{
    return (double)clock_read(CLOCK_MONOTONIC) / 1e9;
}

/* Remembers the first error, by its call and name. Returns whether there is none. */
static bool is_fine(const Cuda *cuda, CudaResult result, const char *call)
{
    const char *name = NULL;
    char text[256];

    if (result == 0)
        return true;
    if (cuda->error_name)
        cuda->error_name(result, &name);
    snprintf(text, sizeof text, "%s: %s (%d)", call, name ? name : "unknown error", (int)result);
    if (!json_object_get(cuda->said, "error"))
        json_object_set_new(cuda->said, "error", json_string(text));
    return false;
}

#define FINE(call) is_fine(cuda, cuda->call, #call)

/* --- the library and the device ----------------------------------------------------------------------------------- */

static bool open_cuda(Cuda *cuda)
{
    static const struct {
        const char *name;
        size_t offset;
    } list[] = {
#define ROW(member, symbol, ...) {#symbol, offsetof(Cuda, member)},
        CUDA_FUNCTIONS(ROW)
#undef ROW
    };
    char text[512];
    void *library;

    setenv("CUDA_CACHE_DISABLE", "1", 1); /* else it writes into the home folder */
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    library = dlopen("libcuda.so.1", RTLD_NOW);
    snprintf(text, sizeof text, "no CUDA driver library on this machine: %s", library ? "" : dlerror());
    for (size_t i = 0; library && i < ARRAY_LEN(list); i++) {
        void *symbol = dlsym(library, list[i].name);

        if (!symbol) {
            snprintf(text, sizeof text, "libcuda.so.1 has no %s: it is older than CUDA 11", list[i].name);
            library = NULL;
        }
        memcpy((char *)cuda + list[i].offset, &symbol, sizeof symbol);
    }
    if (!library)
        json_object_set_new(cuda->said, "error", json_string(text));
    return library != NULL;
}

/* "0000:1B:00.0" of "00000000:1B:00.0" too: NVML writes eight digits of the domain, CUDA four. */
static const char *skip_domain(const char *address)
{
    const char *colon = strchr(address, ':');

    return colon && colon - address == 8 ? address + 4 : address;
}

static bool choose_device(Cuda *cuda, const char *pci)
{
    char address[64], text[128];
    int count = 0;

    if (!FINE(device_count(&count)))
        return false;
    for (int i = 0; i < count && i < DEVICES_MAX; i++)
        if (cuda->device_get(&cuda->device, i) == 0 &&
            cuda->device_address(address, sizeof address, cuda->device) == 0 &&
            strcasecmp(skip_domain(address), skip_domain(pci)) == 0)
            return true;
    snprintf(text, sizeof text, "CUDA shows %d devices and none at %s", count, pci);
    json_object_set_new(cuda->said, "error", json_string(text));
    return false;
}

static int read_attribute(const Cuda *cuda, int attribute)
{
    int value = 0;

    cuda->device_attribute(&value, attribute, cuda->device);
    return value;
}

static void describe_device(Cuda *cuda)
{
    char name[128] = "";
    int version = 0;
    const double memory_hz = 1e3 * read_attribute(cuda, CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ);

    cuda->device_name(name, sizeof name, cuda->device);
    cuda->driver_version(&version);
    cuda->sms = read_attribute(cuda, CUDA_ATTRIBUTE_MULTIPROCESSORS);
    cuda->capability = 10 * read_attribute(cuda, CUDA_ATTRIBUTE_CAPABILITY_MAJOR) +
                       read_attribute(cuda, CUDA_ATTRIBUTE_CAPABILITY_MINOR);
    json_object_set_new(cuda->said, "device", json_string(name));
    json_object_set_new(cuda->said, "cuda", json_integer(version));
    json_object_set_new(cuda->said, "multiprocessors", json_integer(cuda->sms));
    json_object_set_new(cuda->said, "compute_capability", json_integer(cuda->capability));
    json_object_set_new(cuda->said, "clock_mhz", json_integer(read_attribute(cuda, CUDA_ATTRIBUTE_CLOCK_KHZ) / 1000));
    json_object_set_new(cuda->said, "memory_peak_gb_per_s",
                        json_real(memory_hz * 2 * read_attribute(cuda, CUDA_ATTRIBUTE_BUS_WIDTH_BITS) / 8 / 1e9));
}

static bool open_device(Cuda *cuda, const char *pci)
{
    const double start = now_s();
    CudaContext context;
    double ready;

    if (!FINE(init(0)) || !choose_device(cuda, pci))
        return false;
    describe_device(cuda);
    ready = now_s();
    cuda->context_flags(cuda->device, CUDA_CONTEXT_BLOCKING_SYNC);
    if (!FINE(context_retain(&context, cuda->device)) || !FINE(context_use(context)) ||
        !FINE(memory_new(&cuda->out, 2 * sizeof(uint64_t))) || !FINE(memory_fill(cuda->out, 0, 4)))
        return false;
    json_object_set_new(cuda->said, "init_ms", json_real(1e3 * (ready - start)));
    json_object_set_new(cuda->said, "context_ms", json_real(1e3 * (now_s() - ready)));
    return true;
}

/* Compiles FILE.ptx of the folder STOKER_REAL_KERNELS and finds its entry. */
static bool load_kernel(Cuda *cuda, const char *file, const char *entry)
{
    CLEANUP(str_done) Str path = str_limited(4096);
    CLEANUP(str_done) Str ptx = str_limited(PTX_MAX);
    char log[LOG_MAX] = "";
    const char *folder = getenv("STOKER_REAL_KERNELS");
    const int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    union {
        uintptr_t number;
        void *pointer;
    } bytes = {.number = sizeof log};
    void *values[] = {log, bytes.pointer};
    const double start = now_s();
    CudaModule module;
    Err err = {0};

    str_addf(&path, "%s/%s.ptx", folder ? folder : "kernels", file);
    if (file_read(path.text, PTX_MAX, &ptx, &err) < 0) {
        json_object_set_new(cuda->said, "error", json_string(err.text));
        return false;
    }
    if (!FINE(module_load(&module, ptx.text, 2, options, values))) {
        json_object_set_new(cuda->said, "compiler", json_string(log));
        return false;
    }
    json_object_set_new(cuda->said, "compile_ms", json_real(1e3 * (now_s() - start)));
    return FINE(module_function(&cuda->function, module, entry));
}

static bool launch_kernel(Cuda *cuda, int blocks, int threads, void **parameters)
{
    return FINE(
        launch(cuda->function, (unsigned int)blocks, 1, 1, (unsigned int)threads, 1, 1, 0, NULL, parameters, NULL));
}

/* Whether the kernels counted to `want` in all. */
static bool check_count(Cuda *cuda, uint64_t want)
{
    uint64_t counted = 0;

    if (!FINE(memory_read(&counted, cuda->out, sizeof counted)))
        return false;
    json_object_set_new(cuda->said, "counted", json_integer((json_int_t)counted));
    json_object_set_new(cuda->said, "right", json_boolean(counted == want));
    return true;
}

/* --- the kinds of work -------------------------------------------------------------------------------------------- */

static void note_work(const Cuda *cuda, uint64_t launches, double start)
{
    json_object_set_new(cuda->said, "launches", json_integer((json_int_t)launches));
    json_object_set_new(cuda->said, "seconds", json_real(now_s() - start));
}

static bool work_spin(Cuda *cuda)
{
    uint64_t ns = SPIN_NS;
    void *parameters[] = {&cuda->out, &ns};
    const double start = now_s();
    uint64_t n = 0;

    if (!load_kernel(cuda, "spin", "spin"))
        return false;
    for (; now_s() < cuda->end_s; n++)
        if (!launch_kernel(cuda, 1, SPIN_THREADS, parameters) || !FINE(synchronize()))
            return false;
    note_work(cuda, n, start);
    return check_count(cuda, n);
}

static bool work_launch(Cuda *cuda)
{
    void *parameters[] = {&cuda->out};
    const double start = now_s();
    uint64_t n = 0;

    if (!load_kernel(cuda, "launch", "launch"))
        return false;
    while (now_s() < cuda->end_s)
        for (int i = 0; i < LAUNCHES_PER_LOOK; i++, n++)
            if (!launch_kernel(cuda, 1, 1, parameters) || !FINE(synchronize()))
                return false;
    note_work(cuda, n, start);
    json_object_set_new(cuda->said, "launches_per_s", json_real((double)n / (now_s() - start)));
    return check_count(cuda, n);
}

static size_t choose_bytes(Cuda *cuda, size_t most, size_t multiple)
{
    size_t free_bytes = 0, total = 0;

    if (!FINE(memory_info(&free_bytes, &total)))
        return 0;
    if (free_bytes / 8 < most)
        most = free_bytes / 8;
    return most / multiple * multiple;
}

static bool work_copy(Cuda *cuda)
{
    const int blocks = cuda->sms * COPY_BLOCKS_PER_SM;
    const size_t bytes = choose_bytes(cuda, COPY_BYTES_MAX, (size_t)blocks * COPY_THREADS * COPY_VECTORS * 16);
    CudaPointer from = 0, to = 0;
    uint64_t vectors = bytes / 16;
    void *parameters[] = {&to, &from, &vectors};
    unsigned int edge[2] = {0, 0};
    const double start = now_s();
    uint64_t n = 0;
    double began;

    if (bytes == 0 || !load_kernel(cuda, "copy", "copy") || !FINE(memory_new(&from, bytes)) ||
        !FINE(memory_new(&to, bytes)) || !FINE(memory_fill(from, PATTERN, bytes / 4)) ||
        !FINE(memory_fill(to, 0, bytes / 4)) || !FINE(synchronize()))
        return false;
    for (began = now_s(); now_s() < cuda->end_s; n += COPIES_PER_WAIT) {
        for (int i = 0; i < COPIES_PER_WAIT; i++)
            if (!launch_kernel(cuda, blocks, COPY_THREADS, parameters))
                return false;
        if (!FINE(synchronize()))
            return false;
    }
    json_object_set_new(cuda->said, "gb_per_s", json_real(2 * (double)bytes * (double)n / (now_s() - began) / 1e9));
    note_work(cuda, n, start);
    if (!FINE(memory_read(&edge[0], to, 4)) || !FINE(memory_read(&edge[1], to + bytes - 4, 4)))
        return false;
    json_object_set_new(cuda->said, "bytes", json_real((double)bytes));
    json_object_set_new(cuda->said, "right", json_boolean(edge[0] == PATTERN && edge[1] == PATTERN));
    return true;
}

static bool work_matmul(Cuda *cuda)
{
    const bool modern = cuda->capability >= 80;
    const int blocks = cuda->sms * MATMUL_BLOCKS_PER_SM;
    const double depth = modern ? 16 : 4, tiles = modern ? 8 : 4,
                 flops = modern ? 2.0 * 16 * 8 * 16 : 4 * 2.0 * 8 * 8 * 4;
    uint32_t rounds = MATMUL_ROUNDS, a = HALVES_OF_ONE, b = HALVES_OF_TWO;
    float want = (float)(depth * 2 * MATMUL_ROUNDS); /* below 2^24: exact */
    void *parameters[] = {&cuda->out, &rounds, &a, &b, &want};
    const double start = now_s();
    uint64_t n = 0;
    double began;

    if (!load_kernel(cuda, modern ? "matmul_sm80" : "matmul_sm70", "matmul"))
        return false;
    for (began = now_s(); now_s() < cuda->end_s; n++)
        if (!launch_kernel(cuda, blocks, MATMUL_THREADS, parameters) || !FINE(synchronize()))
            return false;
    json_object_set_new(cuda->said, "tflops",
                        json_real((double)n * blocks * (MATMUL_THREADS / 32.0) * MATMUL_ROUNDS * tiles * flops /
                                  (now_s() - began) / 1e12));
    note_work(cuda, n, start);
    return check_count(cuda, n * (uint64_t)blocks * MATMUL_THREADS * MATMUL_SUMS);
}

static bool work_hold(Cuda *cuda)
{
    const size_t bytes = choose_bytes(cuda, HOLD_BYTES_MAX, 1 << 20);
    const double start = now_s();
    CudaPointer held;

    if (bytes == 0 || !FINE(memory_new(&held, bytes)) || !FINE(memory_fill(held, PATTERN, bytes / 4)) ||
        !FINE(synchronize()))
        return false;
    while (now_s() < cuda->end_s)
        clock_sleep(clock_kernel(), 100 * NS_PER_MS);
    json_object_set_new(cuda->said, "bytes", json_real((double)bytes));
    json_object_set_new(cuda->said, "right", json_true());
    note_work(cuda, 0, start);
    return true;
}

typedef struct Kind {
    const char *name;
    bool (*run)(Cuda *cuda);
} Kind;

static const Kind kinds[] = {
    {"spin", work_spin}, {"launch", work_launch}, {"copy", work_copy}, {"matmul", work_matmul}, {"hold", work_hold}};

/* Returns an exit code. What the machine lacks is no failure of this program. */
static int run_kind(Cuda *cuda, const Kind *kind, const char *pci, double seconds)
{
    bool done;

    if (!open_cuda(cuda) || !open_device(cuda, pci))
        return EXIT_IMPOSSIBLE;
    cuda->end_s = now_s() + seconds;
    done = kind->run(cuda);
    cuda->context_release(cuda->device);
    return done && json_is_true(json_object_get(cuda->said, "right")) ? 0 : 1;
}

int work_run(const char *kind, const char *pci, double seconds)
{
    Cuda cuda = {.said = json_pack("{s:s}", "kind", kind)};
    int code = 2;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].name, kind) == 0)
            code = run_kind(&cuda, &kinds[i], pci, seconds);
    if (code == 2)
        fprintf(stderr, "stoker-real: no kind of work '%s'\n", kind);
    json_dumpf(cuda.said, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(cuda.said);
    return code;
}
