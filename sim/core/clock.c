/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual clock: an anchor (monotonic, virtual, speed) that every process extrapolates from. Changing it moves the
 * anchor to now under the image's lock. There are two copies, so that a writer's death never leaves a torn one; and
 * while the other copy is written readers wait, since a time they read then could lie beyond the new anchor.
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

static uint64_t virtual_at(const Anchor *a, uint64_t mono)
{
    if (a->speed <= 0 || mono <= a->mono_ns)
        return a->virtual_ns;
    if (a->speed == 1)
        return a->virtual_ns + (mono - a->mono_ns);
    return a->virtual_ns + (uint64_t)((double)(mono - a->mono_ns) * a->speed);
}

/* The copy in force while clock_turn is `turn`. */
static Anchor anchor_copy(SimImage *image, uint32_t turn)
{
    Anchor a;
    uint32_t i = turn / 2 % 2;
    a.mono_ns = atomic_load_explicit(&image->clock[i].mono_ns, memory_order_acquire);
    a.virtual_ns = atomic_load_explicit(&image->clock[i].virtual_ns, memory_order_acquire);
    uint64_t bits = atomic_load_explicit(&image->clock[i].speed_bits, memory_order_acquire);
    memcpy(&a.speed, &bits, sizeof bits);
    return a;
}

static uint32_t turn_even(SimImage *image)
{
    for (uint32_t spins = 0;; spins++) {
        uint32_t turn = atomic_load_explicit(&image->clock_turn, memory_order_acquire);
        if (!(turn & 1))
            return turn;
        if (spins < 1000)
            continue;
        plan_lock(image); /* repairs the state of a dead writer */
        plan_unlock(image);
        spins = 0;
    }
}

/* The anchor, and a real time at which it was in force (left alone on a clock that stands). */
static Anchor anchor_read(SimImage *image, uint64_t *ret_mono)
{
    Anchor a;
    uint32_t turn;
    do {
        turn = turn_even(image);
        a = anchor_copy(image, turn);
        if (a.speed > 0)
            *ret_mono = mono_ns();
    } while (turn != atomic_load_explicit(&image->clock_turn, memory_order_acquire));
    return a;
}

/* Holds readers up until anchor_put; the lock is held. */
static Anchor anchor_take(SimImage *image)
{
    uint32_t turn = atomic_load_explicit(&image->clock_turn, memory_order_relaxed);
    Anchor a = anchor_copy(image, turn);
    atomic_store(&image->clock_turn, turn | 1);
    uint64_t mono = mono_ns();
    a.virtual_ns = virtual_at(&a, mono);
    a.mono_ns = mono;
    return a;
}

static void anchor_put(SimImage *image, Anchor a)
{
    uint64_t bits;
    memcpy(&bits, &a.speed, sizeof bits);
    uint32_t turn = atomic_load_explicit(&image->clock_turn, memory_order_relaxed) + 1;
    uint32_t i = turn / 2 % 2;
    atomic_store_explicit(&image->clock[i].mono_ns, a.mono_ns, memory_order_release);
    atomic_store_explicit(&image->clock[i].virtual_ns, a.virtual_ns, memory_order_release);
    atomic_store_explicit(&image->clock[i].speed_bits, bits, memory_order_release);
    atomic_store_explicit(&image->clock_turn, turn, memory_order_release);
}

uint64_t sim_clock_now(SimImage *image)
{
    uint64_t mono = 0;
    Anchor a = anchor_read(image, &mono);
    return virtual_at(&a, mono);
}

uint64_t sim_clock_wall_us(SimImage *image, uint64_t t_ns)
{
    return image->epoch_us + t_ns / 1000;
}

double sim_clock_speed(SimImage *image)
{
    uint64_t mono;
    return anchor_read(image, &mono).speed;
}

void clock_wake(SimImage *image)
{
    atomic_fetch_add_explicit(&image->wake, 1, memory_order_release);
    syscall(SYS_futex, &image->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sim_clock_set_speed(SimImage *image, double speed)
{
    plan_lock(image);
    Anchor a = anchor_take(image);
    a.speed = speed > 0 ? speed : 0;
    anchor_put(image, a);
    plan_unlock(image);
    clock_wake(image);
}

int sim_clock_advance(SimImage *image, uint64_t by_ns)
{
    plan_lock(image);
    Anchor a = anchor_take(image);
    int rc = a.virtual_ns > UINT64_MAX / 4 || by_ns > UINT64_MAX / 4 - a.virtual_ns ? -EOVERFLOW : 0;
    if (rc == 0)
        a.virtual_ns += by_ns;
    anchor_put(image, a);
    plan_unlock(image);
    clock_wake(image);
    return rc;
}

void sim_clock_reach(SimImage *image, uint64_t t_ns)
{
    if (sim_clock_now(image) >= t_ns || t_ns > UINT64_MAX / 4)
        return;
    plan_lock(image);
    Anchor a = anchor_take(image);
    if (a.virtual_ns < t_ns)
        a.virtual_ns = t_ns;
    anchor_put(image, a);
    plan_unlock(image);
    clock_wake(image);
}

/* Real nanoseconds until virtual time t, or `cap` when that is sooner (a paused clock never gets there). */
static uint64_t real_wait_ns(SimImage *image, uint64_t t_ns, uint64_t cap)
{
    uint64_t mono = 0;
    Anchor a = anchor_read(image, &mono);
    uint64_t now = virtual_at(&a, mono);
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
