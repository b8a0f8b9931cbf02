/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A clock for the whole process: clock_gettime as every part of it calls it, shared libraries included, stands still
 * until it is advanced. Include it in one file of a program that is linked with export_dynamic.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"

static _Atomic uint64_t clock_passed_ns;
static uint64_t clock_base_ns[16];

static uint64_t read_kernel_clock(clockid_t id)
{
    struct timespec ts = {0};

    syscall(SYS_clock_gettime, id, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void stop_clocks(void)
{
    static const clockid_t stopped[] = {CLOCK_REALTIME, CLOCK_MONOTONIC,       CLOCK_MONOTONIC_RAW,
                                        CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE};

    for (size_t i = 0; i < sizeof stopped / sizeof stopped[0]; i++)
        clock_base_ns[stopped[i]] = read_kernel_clock(stopped[i]);
}

static void advance_clocks(uint64_t ns)
{
    atomic_fetch_add(&clock_passed_ns, ns);
}

/* As the next: a thread of ours that waits until a time of this clock looks again each real millisecond. */
__attribute__((visibility("default"))) int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                                                  const struct timespec *until)
{
    const uint64_t now = clock_base_ns[CLOCK_MONOTONIC] + atomic_load(&clock_passed_ns);
    const uint64_t real = read_kernel_clock(CLOCK_MONOTONIC) + NS_PER_MS;
    const struct timespec soon = {.tv_sec = (time_t)(real / NS_PER_S), .tv_nsec = (long)(real % NS_PER_S)};
    const int rc = pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &soon);

    if (rc == ETIMEDOUT && now < (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec)
        return 0;
    return rc;
}

/* Replaces the C library's. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ret)
{
    uint64_t ns;

    if (id < 0 || id >= 16 || !clock_base_ns[id])
        return (int)syscall(SYS_clock_gettime, id, ret);
    ns = clock_base_ns[id] + atomic_load(&clock_passed_ns);
    *ret = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    return 0;
}
