/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn of the supervisor: look at every sampler (supervisor_slot.c), say how each GPU is (supervisor_gpu.c), then
 * give every GPU that may be sampled to somebody. A GPU's owner is changed in one place and one at a time, and only to
 * a sampler that is alive, so that no two ever sample the same.
 */

#include "source/sampler/supervisor.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "source/sampler/supervisor_inside.h"

#define FIRST_DELAY_NS NS_PER_S

const SupervisorLimits supervisor_default_limits = {
    .call_ns = 500 * NS_PER_MS,
    .attach_ns = 3 * NS_PER_S,
    .beat_ns = 2 * NS_PER_S,
    .kill_ns = 5 * NS_PER_S,
    .abandon_ns = 2 * NS_PER_S,
    .retry_max_ns = 60 * NS_PER_S,
    .rejoin_ns = 60 * NS_PER_S,
};

Supervisor *supervisor_new(Board *board, const SupervisorLimits *limits, const SupervisorOps *ops, void *self,
                           const char *library)
{
    Supervisor *s = xcalloc(1, sizeof(*s));
    size_t len = library ? strlen(library) : 0;

    assert(len < sizeof(s->library));
    *s = (Supervisor){.board = board,
                      .limits = *limits,
                      .ops = ops,
                      .self = self,
                      .shared = NO_SLOT,
                      .crash_gpu = NO_GPU,
                      .probing = {.slot = NO_SLOT}};
    memcpy(s->library, library ? library : "", len);
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        s->slots[i] = (Slot){.solo = NO_GPU, .miss_gpu = NO_GPU};
    return s;
}

void supervisor_free(Supervisor *s)
{
    free(s);
}

void supervisor_use_dcgm(Supervisor *s, const SupervisorDcgm *dcgm)
{
    assert(strlen(dcgm->library) < SAMPLER_LIBRARY_CAP && strlen(dcgm->address) < SAMPLER_ADDRESS_CAP);
    s->dcgm = *dcgm;
}

/* The shared sampler is lost after `ran_ns`: the next one starts at once, the ones after it later and later. */
void supervisor_shared_failed(Supervisor *s, uint64_t ran_ns)
{
    uint64_t delay = 0;

    if (ran_ns >= s->limits.rejoin_ns) {
        s->fails = 0;
        supervisor_slots_forgive(s, NO_GPU);
    }
    if (s->fails > 0)
        delay = FIRST_DELAY_NS << (s->fails < 20 ? s->fails - 1 : 19);
    if (delay > s->limits.retry_max_ns)
        delay = s->limits.retry_max_ns;
    s->fails++;
    s->shared_ns = s->now_ns + delay;
}

/* ---- placing ---- */

static void place_shared(Supervisor *s)
{
    if (s->shared != NO_SLOT || s->now_ns < s->shared_ns || !supervisor_gpus_need_shared(s))
        return;
    if (supervisor_slots_stuck(s, NO_GPU) >= STUCK_MAX) {
        snprintf(s->start_why, sizeof(s->start_why), "%d samplers hang and do not end", STUCK_MAX);
        s->shared_ns = s->now_ns + FIRST_DELAY_NS;
        return;
    }
    s->shared = supervisor_slot_start(s, NO_GPU);
    if (s->shared == NO_SLOT) {
        supervisor_say(s, LOG_LEVEL_ERROR, "%s.", s->start_why);
        s->fails += s->fails == 0;
        supervisor_shared_failed(s, 0);
    }
}

static void place_alone(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];
    uint32_t slot;

    if (s->now_ns < g->retry_ns || supervisor_slots_stuck(s, gpu) >= STUCK_MAX)
        return;
    slot = supervisor_slot_start(s, gpu);
    if (slot == NO_SLOT)
        supervisor_gpu_retry_later(s, gpu);
    else
        supervisor_gpu_give(s, gpu, slot);
}

/* An isolated GPU that has been fine for long goes back to the others. */
static void rejoin(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];
    uint32_t alone = g->slot;

    if (g->good_ns == 0 || s->now_ns - g->good_ns < s->limits.rejoin_ns || !slot_alive(&s->slots[alone]))
        return;
    if (s->shared == NO_SLOT ? supervisor_gpus_need_shared(s) : s->slots[s->shared].state != SAMPLER_RUNNING)
        return; /* there is none just now */
    g->isolated = false;
    g->good_ns = 0;
    supervisor_slots_forgive(s, gpu);
    if (s->shared == NO_SLOT) { /* all others are isolated */
        s->slots[alone].solo = NO_GPU;
        s->shared = alone;
        return;
    }
    supervisor_gpu_give(s, gpu, s->shared);
    supervisor_slot_end(s, alone);
}

static void place(Supervisor *s)
{
    place_shared(s);
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const Gpu *g = &s->gpus[i];

        if (g->gone)
            continue;
        if (g->isolated && g->slot == NO_SLOT)
            place_alone(s, i);
        else if (g->isolated)
            rejoin(s, i);
        else if (g->slot == NO_SLOT && s->shared != NO_SLOT && slot_alive(&s->slots[s->shared]))
            supervisor_gpu_give(s, i, s->shared);
    }
}

/* ---- release ---- */

void supervisor_release(Supervisor *s, uint64_t until_ns)
{
    s->release_until_ns = until_ns;
    atomic_store(&s->board->release_until_ns, until_ns);
}

static void look_release(Supervisor *s)
{
    bool released = board_at(s->board, s->now_ns) < s->release_until_ns;

    if (!released && s->release_until_ns)
        supervisor_release(s, 0);
    if (s->released && !released)
        supervisor_gpus_forget_passes(s);
    if (s->released != released)
        supervisor_say(s, LOG_LEVEL_INFO, released ? "The driver is let go." : "The driver is taken up again.");
    s->released = released;
}

/* ---- turns ---- */

static void look(Supervisor *s)
{
    uint64_t now = s->ops->now_ns(s->self);

    if (s->looked_ns && now - s->looked_ns > s->limits.beat_ns)
        s->resumed_ns = now;
    s->looked_ns = s->now_ns = now;
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        supervisor_slot_look(s, i);
}

void supervisor_turn(Supervisor *s)
{
    look(s);
    if (s->stopping)
        return;
    if (s->shared != NO_SLOT && s->slots[s->shared].state == SAMPLER_RUNNING)
        s->driver_hung = false;
    look_release(s);
    supervisor_gpus_judge(s);
    if (!s->released)
        place(s);
    supervisor_probe_turn(s);
    supervisor_driver_text(s);
}

bool supervisor_stop(Supervisor *s)
{
    bool any = false;

    look(s);
    if (!s->stopping)
        for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
            if (s->slots[i].state == SAMPLER_STUCK || slot_alive(&s->slots[i]))
                supervisor_slot_end(s, i);
    s->stopping = true;
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        any |= s->slots[i].state != SAMPLER_FREE && s->slots[i].state != SAMPLER_ABANDONED;
    return !any;
}

void supervisor_told_pid(Supervisor *s, uint32_t slot, pid_t pid)
{
    assert(slot < NODE_SAMPLERS_MAX);
    if (s->slots[slot].state != SAMPLER_FREE && pid > 0)
        s->slots[slot].pid = pid;
}

void supervisor_closed(Supervisor *s, uint32_t slot)
{
    assert(slot < NODE_SAMPLERS_MAX);
    s->slots[slot].closed = true;
}
