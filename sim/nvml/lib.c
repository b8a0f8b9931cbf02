/* SPDX-License-Identifier: Apache-2.0 */
/* What every exported function shares: nvmlInit and the image, handles, the way in, hang rules, strict mode. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/nvml/process.h"

/* --- nvmlInit, and the image ------------------------------------------------------------------------------------- */

/*
 * nvmlInit and nvmlShutdown: a count, and the image named by STOKER_SIM. A mapping stays until the process ends: a
 * thread that is still in a call when another shuts down must not lose it. Initialising again with the same file uses
 * the same mapping.
 */

enum { MAPPINGS_MAX = 64 }; /* files that one process goes through; more stay mapped without being closed */

typedef struct Mapping {
    SimImage *image;
    dev_t dev;
    ino_t ino;
    off_t size;
} Mapping;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int init_count;        /* under the lock */
static Mapping mappings[MAPPINGS_MAX]; /* under the lock */
static unsigned int mapping_count;
static _Atomic(SimImage *) live;

SimImage *nvml_image(void)
{
    return atomic_load_explicit(&live, memory_order_acquire);
}

static int flag_from_env(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

static SimImage *known_mapping(const struct stat *st)
{
    for (unsigned int i = 0; i < mapping_count; i++) {
        const Mapping *m = &mappings[i];
        if (m->dev == st->st_dev && m->ino == st->st_ino && m->size == st->st_size && m->image->magic == SIM_MAGIC)
            return m->image;
    }
    return NULL;
}

/* The image named by the environment, under the lock; NULL with errno. */
static SimImage *map_image(void)
{
    const char *path = getenv("STOKER_SIM");
    struct stat st;

    if (!path || !*path) {
        errno = ENOENT;
        return NULL;
    }
    if (stat(path, &st) < 0)
        return NULL;
    SimImage *image = known_mapping(&st);
    if (image)
        return image;
    image = sim_image_open(path);
    if (image && mapping_count < MAPPINGS_MAX)
        mappings[mapping_count++] = (Mapping){image, st.st_dev, st.st_ino, st.st_size};
    return image;
}

/* What the kernel driver of the node answers to a new client. */
static nvmlReturn_t driver_answer(SimImage *image)
{
    SimNodeSeg node;

    sim_node_at(image, sim_clock_now(image), &node);
    switch ((SimDriver)node.key[SIM_NODE_DRIVER]) {
    case SIM_DRIVER_LOADED:
        break;
    case SIM_DRIVER_UNLOADED:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    case SIM_DRIVER_MISMATCH:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case SIM_DRIVER_UNKNOWN_ERROR:
        return NVML_ERROR_UNKNOWN;
    case SIM_DRIVER_NO_PERMISSION:
        return NVML_ERROR_NO_PERMISSION;
    }
    return image->generation == nvml_library_generation ? NVML_SUCCESS : NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

/* Attaching touches every GPU, so it hangs with any of them. */
static void attach_image(SimImage *image, NvmlFn fn)
{
    for (uint32_t i = 0; i < nvml_process.visible_count; i++)
        nvml_hang(image, fn, (int32_t)nvml_process.visible[i]);
}

static nvmlReturn_t first_init(NvmlFn fn, unsigned int flags)
{
    SimImage *image = map_image();
    if (!image) {
        const int code = errno;
        nvml_strict(fn, "no image of a node behind STOKER_SIM: %s", strerror(code));
        return code == EPROTO ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, fn, SIM_NONE);
    const nvmlReturn_t r = driver_answer(image);
    if (r != NVML_SUCCESS)
        return r;
    nvml_process.no_block = flag_from_env("STOKER_SIM_NOBLOCK");
    nvml_process.no_libcuda = flag_from_env("STOKER_SIM_NO_LIBCUDA");
    nvml_handles_build(image);
    if (nvml_process.visible_count == 0 && !(flags & NVML_INIT_FLAG_NO_GPUS))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (!(flags & NVML_INIT_FLAG_NO_ATTACH) && atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        attach_image(image, fn);
    atomic_store_explicit(&live, image, memory_order_release);
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_init(NvmlFn fn, unsigned int flags)
{
    nvmlReturn_t r = NVML_SUCCESS;

    pthread_mutex_lock(&init_lock);
    if (init_count == 0)
        r = first_init(fn, flags);
    if (r == NVML_SUCCESS)
        init_count++;
    pthread_mutex_unlock(&init_lock);
    return r;
}

static void report_leaks(const char *when)
{
    const unsigned int sets = nvml_event_sets_open ? nvml_event_sets_open() : 0;

    if (sets > 0)
        nvml_strict(NVML_FN_nvmlShutdown, "%u event sets were not freed at %s", sets, when);
}

nvmlReturn_t nvml_shutdown(void)
{
    SimImage *image = nvml_image();

    if (image && atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, NVML_FN_nvmlShutdown, SIM_NONE);
    pthread_mutex_lock(&init_lock);
    if (init_count > 0 && --init_count == 0) {
        report_leaks("the last shutdown");
        atomic_store_explicit(&live, NULL, memory_order_release);
    }
    pthread_mutex_unlock(&init_lock);
    return NVML_SUCCESS; /* more shutdowns than inits are no error on the real library */
}

void nvml_version_text(char *buf, size_t size)
{
    pthread_mutex_lock(&init_lock);
    SimImage *image = nvml_image();
    if (!image)
        image = map_image();
    if (image && image->nvml[0])
        snprintf(buf, size, "%s", image->nvml);
    else
        snprintf(buf, size, "%u.%u.00", nvml_library_generation >= 580 ? 13u : 12u, nvml_library_generation);
    pthread_mutex_unlock(&init_lock);
}

/* At the end of the process. */
static void __attribute__((destructor)) leave(void)
{
    if (nvml_image())
        report_leaks("exit");
    atomic_store_explicit(&live, NULL, memory_order_release);
}

/* ---- exported ---- */

nvmlReturn_t nvmlInit(void)
{
    return nvml_init(NVML_FN_nvmlInit, 0);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvml_init(NVML_FN_nvmlInit_v2, 0);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    return nvml_init(NVML_FN_nvmlInitWithFlags, flags);
}

nvmlReturn_t nvmlShutdown(void)
{
    return nvml_shutdown();
}

/* --- handles ----------------------------------------------------------------------------------------------------- */

/*
 * Handles: addresses inside two tables that live as long as the library. A MIG device has its place by (GPU, GPU
 * instance, compute instance), so the same device has the same handle each time without any bookkeeping.
 */

NvmlProcess nvml_process;

static struct nvmlDevice_st gpu_handles[SIM_GPU_MAX];
static struct nvmlDevice_st mig_handles[SIM_GPU_MAX][NVML_GI_IDS][NVML_CI_IDS];

static void fill_tables(void)
{
    for (uint32_t g = 0; g < SIM_GPU_MAX; g++) {
        gpu_handles[g] = (struct nvmlDevice_st){.gpu = g, .gi_id = SIM_NONE, .ci_id = SIM_NONE};
        for (int32_t gi = 0; gi < NVML_GI_IDS; gi++)
            for (int32_t ci = 0; ci < NVML_CI_IDS; ci++)
                mig_handles[g][gi][ci] = (struct nvmlDevice_st){.gpu = g, .gi_id = gi, .ci_id = ci};
    }
}

static uint64_t bus_address(const SimGpuId *id)
{
    return (uint64_t)id->domain << 16 | id->bus << 8 | id->device;
}

void nvml_handles_build(SimImage *image)
{
    NvmlProcess *p = &nvml_process;
    static SimNow now; /* large, and only one thread is here at a time */

    if (!gpu_handles[0].gi_id)
        fill_tables();
    p->visible_count = p->visible_mask = 0;
    for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++) {
        const SimGpuId *id = &image->gpus[g];
        snprintf(p->bus_id[g], sizeof p->bus_id[g], "%08X:%02X:%02X.0", id->domain, id->bus & 0xff, id->device & 0xff);
        snprintf(p->bus_id_legacy[g], sizeof p->bus_id_legacy[g], "%04X:%02X:%02X.0", id->domain & 0xffff,
                 id->bus & 0xff, id->device & 0xff);
        sim_state_at(image, g, sim_clock_now(image), &now);
        if (!now.cond.present || now.cond.set[SIM_KEY_NOT_STARTED])
            continue;
        uint32_t at = p->visible_count++;
        while (at > 0 && bus_address(&image->gpus[p->visible[at - 1]]) > bus_address(id)) {
            p->visible[at] = p->visible[at - 1];
            at--;
        }
        p->visible[at] = g;
        p->visible_mask |= 1u << g;
    }
}

/* Whether `address` is that of an element of a table of handles. */
static int in_table(uintptr_t address, const void *table, size_t bytes)
{
    const uintptr_t offset = address - (uintptr_t)table;
    return offset < bytes && offset % sizeof(struct nvmlDevice_st) == 0;
}

int nvml_handle_valid(nvmlDevice_t device)
{
    const uintptr_t address = (uintptr_t)device;

    if (!in_table(address, gpu_handles, sizeof gpu_handles) && !in_table(address, mig_handles, sizeof mig_handles))
        return 0;
    return nvml_process.visible_mask >> device->gpu & 1;
}

nvmlDevice_t nvml_handle_gpu(uint32_t gpu)
{
    if (gpu >= SIM_GPU_MAX || !(nvml_process.visible_mask >> gpu & 1))
        return NULL;
    return &gpu_handles[gpu];
}

nvmlDevice_t nvml_handle_mig(uint32_t gpu, uint32_t gi_id, uint32_t ci_id)
{
    if (gpu >= SIM_GPU_MAX || gi_id >= NVML_GI_IDS || ci_id >= NVML_CI_IDS)
        return NULL;
    return &mig_handles[gpu][gi_id][ci_id];
}

uint32_t nvml_visible_count(void)
{
    return nvml_process.visible_count;
}

uint32_t nvml_visible_gpu(uint32_t index)
{
    return index < nvml_process.visible_count ? nvml_process.visible[index] : 0;
}

/* --- the way in -------------------------------------------------------------------------------------------------- */

/*
 * The way into every function: init check, hang rules, handle, liveness. The common path makes no system call and
 * takes no lock.
 */

nvmlReturn_t nvml_enter(NvmlFn fn, SimImage **ret_image)
{
    SimImage *image = nvml_image();
    if (!image) {
        nvml_strict(fn, "called before nvmlInit");
        return NVML_ERROR_UNINITIALIZED;
    }
    if (atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, fn, SIM_NONE);
    *ret_image = image;
    return NVML_SUCCESS;
}

/* Finds the instances of a MIG handle in the GPU's present condition. */
static nvmlReturn_t find_instances(NvmlFn fn, nvmlDevice_t device, NvmlCall *c)
{
    const SimCond *cond = &c->now->cond;
    uint32_t found = 0;

    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && cond->gi[i].id == (uint32_t)device->gi_id) {
            c->gi = cond->gi[i];
            found |= 1;
        }
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == (uint32_t)device->gi_id &&
            cond->ci[i].id == (uint32_t)device->ci_id) {
            c->ci = cond->ci[i];
            found |= 2;
        }
    if (cond->mig_mode && found == 3)
        return NVML_SUCCESS;
    nvml_strict(fn, "handle of a MIG device that is gone");
    return NVML_ERROR_INVALID_ARGUMENT;
}

/* What the real library answers for a kind of handle that a function does not take. */
static nvmlReturn_t check_takes(NvmlTakes takes, const NvmlCall *c)
{
    switch (takes) {
    case NVML_TAKES_GPU:
        return c->mig ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
    case NVML_TAKES_GPU_NS:
        return c->mig ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_TAKES_NO_MIG:
        return c->mig || c->now->cond.mig_mode ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_TAKES_ANY:
        break;
    }
    return NVML_SUCCESS;
}

/* What the library keeps of an attached GPU and answers when it is lost or wants a reset: public reports of a device
 * plugin show the lost one alone marked by its UUID, which fails where the UUID cannot be read (reference:
 * k8s-device-plugin, pull request 2039). For a reset this is inferred. */
static int is_remembered(NvmlFn fn)
{
    return fn == NVML_FN_nvmlDeviceGetUUID || fn == NVML_FN_nvmlDeviceGetIndex || fn == NVML_FN_nvmlDeviceGetName;
}

nvmlReturn_t nvml_enter_device(NvmlFn fn, nvmlDevice_t device, NvmlTakes takes, NvmlCall *ret)
{
    NvmlCall c = {0};
    nvmlReturn_t r = nvml_enter(fn, &c.image);

    if (r != NVML_SUCCESS)
        return r;
    if (!nvml_handle_valid(device)) {
        nvml_strict(fn, "not a device handle");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    c.gpu = device->gpu;
    c.mig = device->gi_id != SIM_NONE;
    if (atomic_load_explicit(&c.image->hang_any, memory_order_relaxed))
        nvml_hang(c.image, fn, (int32_t)c.gpu);
    c.now = sim_state_now(c.image, c.gpu);
    if (!is_remembered(fn)) {
        if (c.now->cond.lost || !c.now->cond.present)
            return NVML_ERROR_GPU_IS_LOST;
        if (c.now->cond.reset_required)
            return NVML_ERROR_RESET_REQUIRED;
    }
    c.id = &c.image->gpus[c.gpu];
    c.board = &c.image->boards[c.id->board];
    if (c.mig && (r = find_instances(fn, device, &c)) != NVML_SUCCESS)
        return r;
    if ((r = check_takes(takes, &c)) != NVML_SUCCESS)
        return r;
    const unsigned int deprecated = nvml_fn_info(fn)->deprecated_since;
    if (deprecated && nvml_library_generation >= deprecated)
        return NVML_ERROR_DEPRECATED;
    *ret = c;
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_stub_enter(const char *name, nvmlReturn_t refusal)
{
    const NvmlFn fn = nvml_fn_find(name);
    SimImage *image;
    nvmlReturn_t r = nvml_enter(fn, &image);

    if (r == NVML_SUCCESS)
        r = refusal;
    if (atomic_load_explicit(&nvml_trace_fd, memory_order_relaxed) != -1)
        nvml_trace(fn, NULL, r);
    return r;
}

nvmlReturn_t nvml_need_root(void)
{
    return geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvml_copy_text(char *out, unsigned int length, const char *text)
{
    const size_t need = strlen(text) + 1;

    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length < need)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, need);
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_check_tag(NvmlFn fn, unsigned int got, unsigned int wanted)
{
    if (got == wanted)
        return NVML_SUCCESS;
    nvml_strict(fn, "struct version 0x%08x, wanted 0x%08x", got, wanted);
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

unsigned long long nvml_stamp(SimImage *image, uint64_t t_ns)
{
    return sim_clock_wall_us(image, t_ns);
}

/* --- hang rules -------------------------------------------------------------------------------------------------- */

/*
 * Hang rules: a matching call sleeps inside the library, like one that waits for a stuck GPU. Delays are real
 * time. The sleep ends when the delay is over or the rule is gone, whether a client took it away or the scenario's
 * time moved past it.
 */

enum { LOOK_AGAIN_NS = 10000000 }; /* a running clock ends a rule without waking anybody */

static uint64_t real_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * SIM_NS + (uint64_t)ts.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / SIM_NS), .tv_nsec = (long)(ns % SIM_NS)};
}

void nvml_sleep(uint64_t ns)
{
    struct timespec rest = timespec_of(ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) != 0)
        ;
}

/* Sleeps until the image changes or `ns` are over. */
static void wait_for_change(SimImage *image, uint32_t seen, uint64_t ns)
{
    const struct timespec ts = timespec_of(ns);
    syscall(SYS_futex, &image->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
}

static int rule_stands(SimImage *image, unsigned int slot, const SimHang *rule)
{
    SimNodeSeg node;

    sim_node_at(image, sim_clock_now(image), &node);
    const SimHang *now = &node.hang[slot];
    return now->used && now->gpu == rule->gpu && now->fn == rule->fn && now->delay_ns == rule->delay_ns;
}

static void sleep_in_hang(SimImage *image, unsigned int slot, const SimHang *rule)
{
    const uint64_t start = real_now();

    for (;;) {
        const uint32_t seen = atomic_load_explicit(&image->wake, memory_order_acquire);
        if (!rule_stands(image, slot, rule))
            return;
        uint64_t nap = LOOK_AGAIN_NS;
        if (rule->delay_ns != SIM_FOREVER) {
            const uint64_t slept = real_now() - start;
            if (slept >= rule->delay_ns)
                return;
            if (rule->delay_ns - slept < nap)
                nap = rule->delay_ns - slept;
        }
        wait_for_change(image, seen, nap);
    }
}

void nvml_hang(SimImage *image, NvmlFn fn, int32_t gpu)
{
    SimNodeSeg node;

    sim_node_at(image, sim_clock_now(image), &node);
    for (unsigned int slot = 0; slot < SIM_HANG_MAX; slot++) {
        const SimHang *rule = &node.hang[slot];
        if (!rule->used || rule->gpu != gpu || (rule->fn != SIM_NONE && rule->fn != (int32_t)fn))
            continue;
        if (atomic_fetch_add_explicit(&image->hang_calls[slot], 1, memory_order_relaxed) >= rule->after)
            sleep_in_hang(image, slot, rule);
    }
}

/* --- strict mode and trace --------------------------------------------------------------------------------------- */

/*
 * Strict mode (STOKER_SIM_STRICT=stderr or a file) and the trace (STOKER_SIM_TRACE=file). Both are chosen once per
 * process, at the first call that has something to say. Every line is one write to a file opened for appending, so
 * lines of several processes do not mix.
 */

enum { SEEN_MAX = 2048, PROBES = 32, LINE_MAX_BYTES = 512 };

_Atomic int nvml_trace_fd = -2;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int strict_fd = -1;
static _Atomic uint64_t seen[SEEN_MAX]; /* (function, reason) pairs already reported */

static int open_log(const char *variable)
{
    const char *path = getenv(variable);

    if (!path || !*path)
        return -1;
    if (strcmp(path, "stderr") == 0)
        return STDERR_FILENO;
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void open_logs(void)
{
    strict_fd = open_log("STOKER_SIM_STRICT");
    atomic_store_explicit(&nvml_trace_fd, open_log("STOKER_SIM_TRACE"), memory_order_relaxed);
}

int nvml_strict_on(void)
{
    pthread_once(&once, open_logs);
    return strict_fd >= 0;
}

/* 1 the first time a pair comes by. A full table reports no more. */
static int first_time(NvmlFn fn, const char *fmt)
{
    const uint64_t key = nvml_made_up((uint64_t)(uintptr_t)fmt, (uint64_t)fn) | 1;

    for (unsigned int i = 0; i < PROBES; i++) {
        _Atomic uint64_t *slot = &seen[(key / 2 + i) % SEEN_MAX];
        uint64_t old = 0;
        if (atomic_compare_exchange_strong(slot, &old, key))
            return 1;
        if (old == key)
            return 0;
    }
    return 0;
}

static void write_line(int fd, const char *line, size_t size)
{
    if (write(fd, line, size) < 0)
        return; /* a log that is full loses lines: the client must not suffer */
}

/* Length that snprintf wrote into `room` bytes. */
static size_t clip_length(int n, size_t room)
{
    if (n < 0)
        return 0;
    return (size_t)n < room ? (size_t)n : room - 1;
}

void nvml_strict(NvmlFn fn, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    if (!nvml_strict_on() || !first_time(fn, fmt))
        return;
    const char *name = nvml_fn_name((unsigned int)fn);
    size_t used = clip_length(snprintf(line, sizeof line, "stoker-sim: strict: %s: ", name ? name : "?"), sizeof line);
    va_start(args, fmt);
    used += clip_length(vsnprintf(line + used, sizeof line - 1 - used, fmt, args), sizeof line - 1 - used);
    va_end(args);
    line[used++] = '\n';
    write_line(strict_fd, line, used);
}

static size_t device_text(const void *address, char *buf, size_t size)
{
    const nvmlDevice_t device = (nvmlDevice_t)(uintptr_t)address;

    if (!address)
        return clip_length(snprintf(buf, size, "-"), size);
    if (!nvml_handle_valid(device))
        return clip_length(snprintf(buf, size, "%p", address), size);
    if (device->gi_id == SIM_NONE)
        return clip_length(snprintf(buf, size, "gpu%u", device->gpu), size);
    return clip_length(snprintf(buf, size, "gpu%u/%d/%d", device->gpu, device->gi_id, device->ci_id), size);
}

void nvml_trace(NvmlFn fn, const void *device, nvmlReturn_t result)
{
    char line[LINE_MAX_BYTES];

    pthread_once(&once, open_logs);
    const int fd = atomic_load_explicit(&nvml_trace_fd, memory_order_relaxed);
    if (fd < 0)
        return;
    const char *name = nvml_fn_name((unsigned int)fn);
    size_t used = clip_length(snprintf(line, sizeof line, "%s ", name ? name : "?"), sizeof line);
    used += device_text(device, line + used, sizeof line - used);
    used += clip_length(snprintf(line + used, sizeof line - used, " %d\n", (int)result), sizeof line - used);
    write_line(fd, line, used);
}
