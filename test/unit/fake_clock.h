/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for base/clock.h: a clock that a test moves. One thread. */
#pragma once

#include "base/clock.h"

/* A clock that stands still. */
typedef struct ClockFake {
    Clock clock; /* pass &fake.clock */
    uint64_t monotonic;
    uint64_t real;
} ClockFake;

/* The Clock is the first member of its ClockFake. */
static inline uint64_t fake_monotonic(const Clock *clock)
{
    return ((const ClockFake *)(const void *)clock)->monotonic;
}

static inline uint64_t fake_real(const Clock *clock)
{
    return ((const ClockFake *)(const void *)clock)->real;
}

static inline void clock_fake_advance(ClockFake *fake, uint64_t ns)
{
    fake->monotonic += ns;
    fake->real += ns;
}

static inline void fake_sleep(Clock *clock, uint64_t ns)
{
    clock_fake_advance((ClockFake *)(void *)clock, ns);
}

static inline void clock_fake_init(ClockFake *fake, uint64_t monotonic_ns, uint64_t real_ns)
{
    static const ClockOps ops = {.monotonic_ns = fake_monotonic, .real_ns = fake_real, .sleep_ns = fake_sleep};

    *fake = (ClockFake){.clock = {.ops = &ops}, .monotonic = monotonic_ns, .real = real_ns};
}

static inline void clock_fake_set_real(ClockFake *fake, uint64_t real_ns)
{
    fake->real = real_ns;
}
