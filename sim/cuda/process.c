/* SPDX-License-Identifier: Apache-2.0 */
/* The process: its image and lock, its own time, the way into every call, and what tests can order to fail. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/lib.h"

enum { FAILS_MAX = 16, LINE_MAX_BYTES = 512, SLICE_MS = 5, IDLE_MS = 100, PAUSED_IDLE_MS = 2000 };
enum { FAIL_HANG = -1, FAIL_KILL = -2 };

/* STOKER_SIM_CUDA_FAIL=FUNCTION:N:CODE|hang|kill,...: the N-th call of a function in this process. */
typedef struct Fail {
    CudaFunction fn;
    unsigned long nth;
    int code;
} Fail;

static const char *const names[CUDA_FUNCTION_COUNT] = {
#define FUNCTION_NAME(name, arguments) [CUDA_FN_##name] = #name,
    CUDA_FUNCTION_TABLE(FUNCTION_NAME)
#undef FUNCTION_NAME
};

CuProcess cu_process;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread CuDevice *current;
static unsigned long calls[CUDA_FUNCTION_COUNT];
static Fail fails[FAILS_MAX];
static unsigned int fail_count;
static int trace_fd = -1, strict_fd = -1;

/* --- environment ------------------------------------------------------------------------------------------------- */

static int open_log(const char *variable)
{
    const char *path = getenv(variable);

    if (!path || !*path)
        return -1;
    if (strcmp(path, "stderr") == 0)
        return STDERR_FILENO;
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void read_fail(const char *text)
{
    for (CudaFunction fn = 0; fn < CUDA_FUNCTION_COUNT && fail_count < FAILS_MAX; fn++) {
        const size_t length = strlen(names[fn]);
        char *rest;

        if (strncmp(text, names[fn], length) != 0 || text[length] != ':')
            continue;
        Fail fail = {.fn = fn, .nth = strtoul(text + length + 1, &rest, 10)};
        if (*rest != ':')
            return;
        fail.code = strncmp(rest + 1, "hang", 4) == 0   ? FAIL_HANG
                    : strncmp(rest + 1, "kill", 4) == 0 ? FAIL_KILL
                                                        : atoi(rest + 1);
        fails[fail_count++] = fail;
        return;
    }
}

static void read_environment(void)
{
    trace_fd = open_log("STOKER_SIM_CUDA_TRACE");
    strict_fd = open_log("STOKER_SIM_STRICT");
    for (const char *at = getenv("STOKER_SIM_CUDA_FAIL"); at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        read_fail(at);
    }
}

SimImage *cu_map_image(void)
{
    const char *path = getenv("STOKER_SIM");

    if (path && *path)
        return sim_image_open(path);
    errno = ENOENT;
    return NULL;
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

static size_t clip_length(int n, size_t room)
{
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void write_line(int fd, const char *line, size_t size)
{
    if (write(fd, line, size) < 0)
        return; /* a log that is full loses lines: the client must not suffer */
}

void cu_strict(const char *what, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    pthread_once(&once, read_environment);
    if (strict_fd < 0)
        return;
    size_t used = clip_length(snprintf(line, sizeof line, "stoker-sim: strict: %s: ", what), sizeof line);
    va_start(args, fmt);
    used += clip_length(vsnprintf(line + used, sizeof line - 1 - used, fmt, args), sizeof line - 1 - used);
    va_end(args);
    line[used++] = '\n';
    write_line(strict_fd, line, used);
}

static void trace_call(CudaFunction fn, CUresult result)
{
    char line[LINE_MAX_BYTES];

    if (trace_fd >= 0)
        write_line(trace_fd, line, clip_length(snprintf(line, sizeof line, "%s %d\n", names[fn], result), sizeof line));
}

/* --- time -------------------------------------------------------------------------------------------------------- */

uint64_t cu_now(void)
{
    return cu_process.cursor_ns;
}

static uint64_t real_time_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Real time of the end of the last call: of a paused clock it cannot be seen how long a client did nothing. 0: none. */
static uint64_t last_ns;

/* A client that did nothing for a while finds the node's time. */
static void follow_clock(void)
{
    const double speed = sim_clock_speed(cu_process.image);
    const uint64_t now = sim_clock_now(cu_process.image), idle_ns = real_time_ns() - last_ns;

    if (speed > 0 ? (double)now > (double)cu_process.cursor_ns + speed * IDLE_MS * 1e6
                  : last_ns && idle_ns > PAUSED_IDLE_MS * 1000000ull && now > cu_process.cursor_ns)
        cu_process.cursor_ns = now;
}

void cu_nap(void)
{
    const struct timespec ms = {.tv_nsec = SLICE_MS * 1000000L};

    pthread_mutex_unlock(&lock);
    nanosleep(&ms, NULL);
    pthread_mutex_lock(&lock);
}

bool cu_wait_a_bit(uint64_t t_ns)
{
    SimImage *image = cu_process.image;

    if (sim_clock_speed(image) <= 0) {
        sim_clock_reach(image, t_ns);
    } else if (sim_clock_now(image) < t_ns) {
        pthread_mutex_unlock(&lock);
        sim_clock_wait(image, t_ns, SLICE_MS);
        pthread_mutex_lock(&lock);
    }
    if (sim_clock_now(image) < t_ns)
        return false;
    if (cu_process.cursor_ns < t_ns)
        cu_process.cursor_ns = t_ns;
    return true;
}

void cu_wait(uint64_t t_ns)
{
    while (!cu_wait_a_bit(t_ns))
        ;
}

const SimNow *cu_state(CuDevice *device, uint64_t t_ns)
{
    SimImage *image = cu_process.image;
    SimNow *now = &device->now;
    const uint64_t at = t_ns + device->work.lag_ns;

    if (!device->has_now || now->plan_seq != atomic_load_explicit(&image->plan_seq, memory_order_acquire) ||
        at < now->from_ns || at >= now->until_ns)
        sim_state_at(image, device->gpu, at, now);
    device->has_now = true;
    return now;
}

/* --- the way in and out ------------------------------------------------------------------------------------------ */

CuDevice *cu_current(void)
{
    return current;
}

void cu_make_current(CuDevice *device)
{
    current = device;
}

void cu_hang(CudaFunction fn, CuDevice *device)
{
    while (cu_state(device, cu_now())->cond.set[SIM_KEY_CUDA_HANG] == 2u + (uint32_t)fn) {
        cu_nap();
        follow_clock();
    }
}

static void hang_by_rule(CudaFunction fn)
{
    for (uint32_t i = 0; i < cu_process.device_count; i++)
        if (!current || current == &cu_process.devices[i])
            cu_hang(fn, &cu_process.devices[i]);
}

/* What a test ordered for this call. */
static CUresult fail_by_order(CudaFunction fn)
{
    const unsigned long nth = ++calls[fn];

    for (unsigned int i = 0; i < fail_count; i++) {
        if (fails[i].fn != fn || fails[i].nth != nth)
            continue;
        if (fails[i].code == FAIL_KILL)
            kill(getpid(), SIGKILL);
        while (fails[i].code == FAIL_HANG)
            cu_nap();
        return fails[i].code;
    }
    return CUDA_SUCCESS;
}

static CUresult check_needs(CudaFunction fn, int needs)
{
    if (needs == CU_NEEDS_NOTHING)
        return CUDA_SUCCESS;
    if (!cu_process.ready || cu_process.pid != getpid()) { /* a child after fork has to begin anew */
        cu_strict(names[fn], "called before cuInit");
        return CUDA_NOT_INITIALIZED;
    }
    follow_clock();
    if (needs == CU_NEEDS_INIT)
        return CUDA_SUCCESS;
    if (!current || current->retained == 0) {
        cu_strict(names[fn], "called without a current context");
        return CUDA_BAD_CONTEXT;
    }
    return current->sticky;
}

CUresult cu_enter(CudaFunction fn, int needs)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    CUresult result = fail_by_order(fn);
    if (result == CUDA_SUCCESS)
        result = check_needs(fn, needs);
    if (result == CUDA_SUCCESS && cu_process.ready && needs != CU_NEEDS_NOTHING)
        hang_by_rule(fn);
    return result;
}

CUresult cu_leave(CudaFunction fn, CUresult result)
{
    trace_call(fn, result);
    last_ns = real_time_ns();
    pthread_mutex_unlock(&lock);
    return result;
}
