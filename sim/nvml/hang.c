/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hang rules: a call that matches sleeps inside the library, as one that waits for a stuck GPU does. Delays are real
 * time. The sleep ends when the delay is over or the rule is gone, whether a client took it away or the scenario's
 * time moved past it.
 */
#include "sim/nvml/process.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static void bite(SimImage *image, unsigned int slot, const SimHang *rule)
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
            bite(image, slot, rule);
    }
}
