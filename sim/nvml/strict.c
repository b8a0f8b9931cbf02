/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict mode (STOKER_SIM_STRICT=stderr or a file) and the trace (STOKER_SIM_TRACE=file). Both are chosen once per
 * process, at the first call that has something to say. Every line is one write to a file opened for appending, so
 * lines of several processes do not mix.
 */
#include "sim/nvml/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static size_t written(int n, size_t room)
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
    size_t used = written(snprintf(line, sizeof line, "stoker-sim: strict: %s: ", name ? name : "?"), sizeof line);
    va_start(args, fmt);
    used += written(vsnprintf(line + used, sizeof line - 1 - used, fmt, args), sizeof line - 1 - used);
    va_end(args);
    line[used++] = '\n';
    write_line(strict_fd, line, used);
}

static size_t device_text(const void *address, char *buf, size_t size)
{
    const nvmlDevice_t device = (nvmlDevice_t)(uintptr_t)address;

    if (!address)
        return written(snprintf(buf, size, "-"), size);
    if (!nvml_handle_valid(device))
        return written(snprintf(buf, size, "%p", address), size);
    if (device->gi_id == SIM_NONE)
        return written(snprintf(buf, size, "gpu%u", device->gpu), size);
    return written(snprintf(buf, size, "gpu%u/%d/%d", device->gpu, device->gi_id, device->ci_id), size);
}

void nvml_trace(NvmlFn fn, const void *device, nvmlReturn_t result)
{
    char line[LINE_MAX_BYTES];

    pthread_once(&once, open_logs);
    const int fd = atomic_load_explicit(&nvml_trace_fd, memory_order_relaxed);
    if (fd < 0)
        return;
    const char *name = nvml_fn_name((unsigned int)fn);
    size_t used = written(snprintf(line, sizeof line, "%s ", name ? name : "?"), sizeof line);
    used += device_text(device, line + used, sizeof line - used);
    used += written(snprintf(line + used, sizeof line - used, " %d\n", (int)result), sizeof line - used);
    write_line(fd, line, used);
}
