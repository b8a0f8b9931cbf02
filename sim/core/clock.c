/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual clock: an anchor (monotonic, virtual, speed) that every process extrapolates from. Changing it moves the
 * anchor to now under the image's lock; readers read the copy in force, so that a writer's death never leaves a torn
 * one.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/core/control.h"
#include "sim/core/plan.h"
#include "sim/core/seq.h"

typedef struct Anchor {
    uint64_t mono_ns, virtual_ns;
    double speed;
} Anchor;

static uint64_t mono_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * SIM_NS + (uint64_t)ts.tv_nsec;
}

static Anchor anchor_read(SimImage *image)
{
    Anchor a;
    uint32_t turn;
    do {
        turn = atomic_load_explicit(&image->clock_turn, memory_order_acquire);
        uint32_t i = turn & 1;
        a.mono_ns = atomic_load_explicit(&image->clock[i].mono_ns, memory_order_relaxed);
        a.virtual_ns = atomic_load_explicit(&image->clock[i].virtual_ns, memory_order_relaxed);
        uint64_t bits = atomic_load_explicit(&image->clock[i].speed_bits, memory_order_relaxed);
        memcpy(&a.speed, &bits, sizeof bits);
        atomic_thread_fence(memory_order_acquire);
    } while (turn != atomic_load_explicit(&image->clock_turn, memory_order_relaxed));
    return a;
}

static void anchor_write(SimImage *image, Anchor a)
{
    uint64_t bits;
    memcpy(&bits, &a.speed, sizeof bits);
    uint32_t turn = atomic_load_explicit(&image->clock_turn, memory_order_relaxed) + 1;
    uint32_t i = turn & 1;
    atomic_store_explicit(&image->clock[i].mono_ns, a.mono_ns, memory_order_relaxed);
    atomic_store_explicit(&image->clock[i].virtual_ns, a.virtual_ns, memory_order_relaxed);
    atomic_store_explicit(&image->clock[i].speed_bits, bits, memory_order_relaxed);
    atomic_store_explicit(&image->clock_turn, turn, memory_order_release);
}

static uint64_t virtual_at(const Anchor *a, uint64_t mono)
{
    if (a->speed <= 0 || mono <= a->mono_ns)
        return a->virtual_ns;
    if (a->speed == 1)
        return a->virtual_ns + (mono - a->mono_ns);
    return a->virtual_ns + (uint64_t)((double)(mono - a->mono_ns) * a->speed);
}

uint64_t sim_clock_now(SimImage *image)
{
    Anchor a = anchor_read(image);
    return a.speed > 0 ? virtual_at(&a, mono_ns()) : a.virtual_ns;
}

uint64_t sim_clock_wall_us(SimImage *image, uint64_t t_ns)
{
    return image->epoch_us + t_ns / 1000;
}

double sim_clock_speed(SimImage *image)
{
    return anchor_read(image).speed;
}

void clock_wake(SimImage *image)
{
    atomic_fetch_add_explicit(&image->wake, 1, memory_order_release);
    syscall(SYS_futex, &image->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sim_clock_set_speed(SimImage *image, double speed)
{
    plan_lock(image);
    Anchor a = anchor_read(image);
    uint64_t mono = mono_ns();
    a.virtual_ns = virtual_at(&a, mono);
    a.mono_ns = mono;
    a.speed = speed > 0 ? speed : 0;
    anchor_write(image, a);
    plan_unlock(image);
    clock_wake(image);
}

int sim_clock_advance(SimImage *image, uint64_t by_ns)
{
    plan_lock(image);
    Anchor a = anchor_read(image);
    uint64_t mono = mono_ns();
    uint64_t now = virtual_at(&a, mono);
    int rc = by_ns > UINT64_MAX / 4 - now ? -EOVERFLOW : 0;
    if (rc == 0) {
        a.virtual_ns = now + by_ns;
        a.mono_ns = mono;
        anchor_write(image, a);
    }
    plan_unlock(image);
    clock_wake(image);
    return rc;
}

/* Real nanoseconds until virtual time t, or `cap` when that is sooner (a paused clock never gets there). */
static uint64_t real_wait_ns(SimImage *image, uint64_t t_ns, uint64_t cap)
{
    Anchor a = anchor_read(image);
    uint64_t now = virtual_at(&a, mono_ns());
    if (now >= t_ns)
        return 0;
    if (a.speed <= 0)
        return cap;
    double wait = (double)(t_ns - now) / a.speed + 1;
    return wait < (double)cap ? (uint64_t)wait : cap;
}

void sim_clock_wait(SimImage *image, uint64_t t_ns, int real_timeout_ms)
{
    uint32_t seen = atomic_load_explicit(&image->wake, memory_order_acquire);
    uint64_t cap = real_timeout_ms < 0 ? 3600 * SIM_NS : (uint64_t)real_timeout_ms * 1000000;
    uint64_t wait = real_wait_ns(image, t_ns, cap);
    if (wait == 0)
        return;
    struct timespec ts = {.tv_sec = (time_t)(wait / SIM_NS), .tv_nsec = (long)(wait % SIM_NS)};
    syscall(SYS_futex, &image->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
}
