/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes: a process that asks the driver as a new client does. Its place among the samplers, its deadline and its end
 * are those of supervisor_slot.c; here is when one is sent and what its answer means. The time between two is of the
 * agent's clock.
 */

#include <stdio.h>

#include "base/duration.h"
#include "source/sampler/supervisor_inside.h"

#define AGAIN_NS (10 * NS_PER_S) /* after the first refusal */
#define REFUSED_NS NS_PER_MIN    /* after any later one */

static uint64_t agent_now(const Supervisor *s)
{
    return board_at(s->board, s->now_ns);
}

/* ---- answers ---- */

static void forget(Supervisor *s)
{
    s->probing.said = (NodeProbe){.driver = NODE_DRIVER_FINE};
}

static void note_refusal(Supervisor *s, NodeDriver driver, int32_t code)
{
    Probing *p = &s->probing;
    uint64_t pause_ns;

    p->said.driver = driver;
    p->said.code = code;
    p->said.count++;
    pause_ns = p->said.count < 2 ? AGAIN_NS : REFUSED_NS;
    p->due_ns = agent_now(s) + (pause_ns < s->limits.probe_ns ? pause_ns : s->limits.probe_ns);
    supervisor_say(s, p->said.count == 2 ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "Probe of the driver: %s.", p->said.why);
}

void supervisor_probe_late(Supervisor *s, uint32_t at)
{
    const Miss *miss = &s->slots[at].miss;

    if (miss->start_ns == 0) { /* it was not the driver that kept it */
        supervisor_say(s, LOG_LEVEL_DEBUG, "A probe of the driver did not get along; it is killed.");
        return;
    }
    snprintf(s->probing.said.why, sizeof(s->probing.said.why), "a new client gets no answer: %s did not return in time",
             supervisor_function_text(miss->function));
    note_refusal(s, NODE_DRIVER_HANGS, 0);
}

static void take_answer(Supervisor *s, const BoardSampler *board)
{
    char why[NODE_WHY_CAP];

    switch (atomic_load(&board->driver)) {
    case BOARD_DRIVER_RELEASED:
        if (s->probing.said.count >= 2)
            supervisor_say(s, LOG_LEVEL_INFO, "The driver serves new clients again.");
        forget(s);
        break;
    case BOARD_DRIVER_INIT_FAILED:
        board_copy_why(board, why);
        snprintf(s->probing.said.why, sizeof(s->probing.said.why), "new clients are refused: %.130s", why);
        note_refusal(s, board_trouble(board), atomic_load(&board->code));
        break;
    default: /* the library is being replaced, or it crashed: that says nothing of the driver */
        supervisor_say(s, LOG_LEVEL_DEBUG, "A probe of the driver ended without an answer.");
    }
}

void supervisor_probe_ended(Supervisor *s, uint32_t at)
{
    const Slot *slot = &s->slots[at];

    if (slot->state == SAMPLER_STARTING && slot->ending_ns == 0)
        take_answer(s, &s->board->samplers[at]);
    atomic_store(&s->board->samplers[at].driver, BOARD_DRIVER_UNKNOWN); /* it holds nothing any more */
    s->probing.slot = NO_SLOT;
}

/* ---- sending ---- */

static uint32_t shared_driver(const Supervisor *s)
{
    return s->shared == NO_SLOT ? BOARD_DRIVER_UNKNOWN : atomic_load(&s->board->samplers[s->shared].driver);
}

/* Whether a sampler was started after the last probe, and is served. */
static bool another_is_served(const Supervisor *s)
{
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        if (slot_alive(&s->slots[i]) && !s->slots[i].probe && s->slots[i].order > s->probing.order &&
            atomic_load(&s->board->samplers[i].driver) == BOARD_DRIVER_FINE)
            return true;
    return false;
}

/* Only beside a sampler that holds every GPU there is, so that a probe wakes none up. */
static bool may_ask(const Supervisor *s)
{
    bool any = false;

    if (s->released || s->release_until_ns || s->shared == NO_SLOT || s->slots[s->shared].state != SAMPLER_RUNNING ||
        shared_driver(s) != BOARD_DRIVER_FINE || supervisor_gpus_in_trouble(s))
        return false;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const GpuState state = s->gpus[i].state;

        if (state != GPU_UP && state != GPU_MISSING && state != GPU_GONE)
            return false;
        any |= state == GPU_UP;
    }
    return any;
}

void supervisor_probe_turn(Supervisor *s)
{
    Probing *p = &s->probing;
    uint32_t driver = shared_driver(s);

    if (s->limits.probe_ns == 0)
        return;
    if (s->released || driver == BOARD_DRIVER_INIT_FAILED || driver == BOARD_DRIVER_NO_LIBRARY ||
        (p->said.count && another_is_served(s)))
        forget(s); /* told by the samplers themselves, or no longer true */
    if (p->slot != NO_SLOT && s->slots[p->slot].state == SAMPLER_ABANDONED && p->said.count == 1)
        p->said.count = 2; /* none is sent while it is there: it is sure enough */
    if (!may_ask(s)) {
        if (p->slot != NO_SLOT && slot_alive(&s->slots[p->slot]))
            supervisor_slot_kill(s, p->slot);
        return;
    }
    if (p->due_ns == 0)
        p->due_ns = agent_now(s) + s->limits.probe_ns;
    if (p->slot != NO_SLOT || agent_now(s) < p->due_ns)
        return;
    p->due_ns = agent_now(s) + s->limits.probe_ns;
    p->slot = supervisor_slot_start_probe(s);
    if (p->slot != NO_SLOT)
        p->order = s->slots[p->slot].order;
}

const NodeProbe *supervisor_probe(const Supervisor *s)
{
    return &s->probing.said;
}
