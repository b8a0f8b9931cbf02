/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each GPU: its sampler, whether it needs one of its own, and the state that it is shown in. And what the files of the
 * supervisor share: log sentences, names of calls, and samplers that never ended.
 */

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "source/sampler/supervisor_inside.h"

#define CALM_NS (5 * NS_PER_S)

enum { SAY_CAP = 384 };

/* ---- shared ---- */

void supervisor_log(Supervisor *s, LogLevel level, const char *fmt, ...)
{
    char text[SAY_CAP];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    s->ops->log(s->self, (int)level, text);
}

const char *supervisor_function_text(uint32_t function)
{
    const char *name = sampler_function_name(function);

    return name && name[0] ? name : "a driver call";
}

uint32_t supervisor_count_abandoned(const Supervisor *s, uint32_t solo)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        const Slot *slot = &s->slots[i];

        count += slot->solo == solo && !slot->forgiven && slot->state == SAMPLER_ABANDONED;
    }
    return count;
}

void supervisor_forgive_abandoned(Supervisor *s, uint32_t solo)
{
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        if (s->slots[i].solo == solo && s->slots[i].state == SAMPLER_ABANDONED)
            s->slots[i].forgiven = true;
}

/* The shared sampler is lost after `ran_ns`: the next one starts at once, the ones after it later and later. */
void supervisor_delay_shared(Supervisor *s, uint64_t ran_ns, bool ended)
{
    const uint32_t at_once = ended ? ENDS_AT_ONCE : 1;
    uint64_t delay = 0;

    if (ran_ns >= (ended ? STEADY_NS : s->limits.rejoin_ns))
        s->fails = 0;
    if (ran_ns >= s->limits.rejoin_ns)
        supervisor_forgive_abandoned(s, NO_GPU);
    if (s->fails >= at_once)
        delay = FIRST_DELAY_NS << (s->fails - at_once < 19 ? s->fails - at_once : 19);
    if (delay > s->limits.retry_max_ns)
        delay = s->limits.retry_max_ns;
    s->fails++;
    s->shared_ns = s->now_ns + delay;
}

static void name_of(const Supervisor *s, uint32_t gpu, char text[PCI_TEXT_CAP])
{
    pci_format(s->gpus[gpu].pci, PCI_FORM_NVML, text);
}

/* ---- assignment ---- */

void supervisor_gpu_assign(Supervisor *s, uint32_t gpu, uint32_t slot)
{
    BoardGpu *board = &s->board->gpus[gpu];

    if (slot != NO_SLOT)
        atomic_store(&board->outcome, BOARD_NOT_TRIED);
    s->gpus[gpu].slot = slot;
    if (slot != NO_SLOT)
        s->gpus[gpu].last = slot;
    atomic_store(&board->slot, slot == NO_SLOT ? (uint16_t)BOARD_NO_SLOT : (uint16_t)slot);
}

void supervisor_gpus_unassign(Supervisor *s, uint32_t slot, uint32_t but)
{
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].slot == slot && i != but)
            supervisor_gpu_assign(s, i, NO_SLOT);
}

/* ---- trouble ---- */

void supervisor_gpu_isolate(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];

    if (!g->isolated) {
        g->delay_ns = FIRST_DELAY_NS;
        g->slow_ns = 0;
    }
    g->isolated = true;
    g->apart = false;
    g->good_ns = 0;
}

void supervisor_gpu_delay_retry(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];
    uint64_t delay = g->delay_ns < s->limits.retry_max_ns ? g->delay_ns : s->limits.retry_max_ns;

    g->retry_ns = s->now_ns + delay;
    g->delay_ns = 2 * delay;
    g->good_ns = 0;
}

void supervisor_gpu_note_slow_call(Supervisor *s, uint32_t gpu, uint32_t function, uint64_t took_ns)
{
    Gpu *g = &s->gpus[gpu];
    char name[PCI_TEXT_CAP];

    if (g->slow_ns == 0) {
        name_of(s, gpu, name);
        supervisor_log(s, LOG_LEVEL_INFO, "GPU %s is slow: %s returned late. It keeps a sampler of its own.", name,
                       supervisor_function_text(function));
    }
    g->apart = false;
    g->slow_function = function;
    if (took_ns > g->slow_ns)
        g->slow_ns = took_ns;
}

void supervisor_gpu_note_hang(Supervisor *s, uint32_t gpu, const Miss *miss)
{
    Gpu *g = &s->gpus[gpu];
    bool about_it = s->slots[miss->slot].miss_gpu == gpu;
    char name[PCI_TEXT_CAP];

    if (about_it) {
        g->missed_calls++;
        name_of(s, gpu, name);
        supervisor_log(s, g->isolated ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "GPU %s hangs: %s does not return.", name,
                       supervisor_function_text(miss->function));
        supervisor_gpu_isolate(s, gpu);
    }
    g->miss = *miss;
    g->hung = true;
    g->good_ns = 0;
    atomic_store(&s->board->gpus[gpu].outcome, BOARD_NOT_TRIED);
}

bool supervisor_gpus_in_trouble(const Supervisor *s)
{
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (!s->gpus[i].gone && (s->gpus[i].isolated || s->gpus[i].hung))
            return true;
    return s->driver_hung;
}

void supervisor_slot_end(Supervisor *s, uint32_t at)
{
    supervisor_gpus_unassign(s, at, NO_GPU);
    if (s->shared == at)
        s->shared = NO_SLOT;
    if (s->slots[at].ending_ns || (s->slots[at].state != SAMPLER_STUCK && !slot_alive(&s->slots[at])))
        return;
    s->ops->forget(s->self, at);
    s->slots[at].ending_ns = s->now_ns;
}

/* ---- which there are ---- */

static uint32_t find_gpu(const Supervisor *s, PciAddress pci)
{
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (pci_compare(s->gpus[i].pci, pci) == 0)
            return i;
    return NO_GPU;
}

static uint32_t add_gpu(Supervisor *s, PciAddress pci)
{
    uint32_t at = s->gpu_count;

    if (at == NODE_GPUS_MAX) {
        if (!s->gpus_full)
            supervisor_log(s, LOG_LEVEL_WARN, "There are more than %d GPUs; the others are not sampled.",
                           NODE_GPUS_MAX);
        s->gpus_full = true;
        return NO_GPU;
    }
    s->gpus[at] = (Gpu){.pci = pci, .slot = NO_SLOT, .last = NO_SLOT, .state = GPU_STARTING, .since_ns = s->now_ns};
    s->board->gpus[at].pci = pci;
    atomic_store(&s->board->gpus[at].slot, (uint16_t)BOARD_NO_SLOT);
    s->gpu_count = at + 1;
    atomic_store_explicit(&s->board->gpu_count, at + 1, memory_order_release);
    return at;
}

/* The log level of a change: debug for expected, flapping and repeated ones. */
static LogLevel level_of(const Supervisor *s, const Gpu *g, GpuState state)
{
    if (state == GPU_STARTING || state == GPU_RELEASED || (state == GPU_HUNG && g->isolated))
        return LOG_LEVEL_DEBUG;
    if (state == GPU_UP && s->now_ns - g->since_ns < CALM_NS)
        return LOG_LEVEL_DEBUG;
    return LOG_LEVEL_INFO;
}

static void set_state(Supervisor *s, uint32_t gpu, GpuState state)
{
    Gpu *g = &s->gpus[gpu];
    char name[PCI_TEXT_CAP];

    if (g->state == state)
        return;
    const bool alone = state == GPU_FAILED && g->slot == NO_SLOT; /* the driver is not to blame */

    name_of(s, gpu, name);
    supervisor_log(s, level_of(s, g, state), "GPU %s: %s.", name,
                   alone ? "no sampler runs for it" : gpu_states[state].text);
    g->state = state;
    g->since_ns = s->now_ns;
    g->hidden = false;
}

static void remove_gpu(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];
    uint32_t slot = g->slot;

    g->gone = true;
    g->isolated = g->hung = false;
    g->good_ns = 0;
    supervisor_gpu_assign(s, gpu, NO_SLOT);
    atomic_store(&s->board->gpus[gpu].outcome, BOARD_NOT_FOUND);
    if (slot != NO_SLOT && s->slots[slot].solo == gpu)
        supervisor_slot_end(s, slot);
    set_state(s, gpu, GPU_GONE);
}

void supervisor_set_bus(Supervisor *s, const PciAddress *gpus, size_t count)
{
    s->now_ns = s->ops->now_ns(s->self);
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        bool is_there = false;

        for (size_t k = 0; k < count; k++)
            is_there |= pci_compare(s->gpus[i].pci, gpus[k]) == 0;
        if (s->gpus[i].gone && is_there) {
            s->gpus[i].gone = false;
            supervisor_forgive_abandoned(s, i);
            set_state(s, i, GPU_STARTING);
        } else if (!s->gpus[i].gone && s->gpus[i].on_bus && !is_there) {
            remove_gpu(s, i);
        }
    }
    for (size_t k = 0; k < count; k++) {
        uint32_t at = find_gpu(s, gpus[k]);

        if (at == NO_GPU)
            at = add_gpu(s, gpus[k]);
        if (at != NO_GPU)
            s->gpus[at].on_bus = true;
    }
}

uint32_t supervisor_add_gone_gpu(Supervisor *s, PciAddress pci, bool drained)
{
    s->now_ns = s->ops->now_ns(s->self);
    const uint32_t known = find_gpu(s, pci), at = known == NO_GPU ? add_gpu(s, pci) : known;

    if (at == NO_GPU || (known != NO_GPU && s->gpus[at].state != GPU_GONE))
        return UINT32_MAX;
    s->gpus[at].on_bus = true;
    if (atomic_load(&s->board->gpus[at].drained) == 0)
        atomic_store(&s->board->gpus[at].drained, drained ? 2 : 0);
    remove_gpu(s, at);
    return at;
}

void supervisor_hide_gone_gpu(Supervisor *s, PciAddress pci)
{
    const uint32_t at = find_gpu(s, pci);

    if (at != NO_GPU)
        s->gpus[at].hidden = s->gpus[at].state == GPU_GONE;
}

bool supervisor_gpu_is_hidden(const Supervisor *s, uint32_t gpu)
{
    return gpu < s->gpu_count && s->gpus[gpu].hidden;
}

/* Adds the GPUs that the sampler in this slot found, if it is the newest sampler. */
void supervisor_gpus_add_found(Supervisor *s, uint32_t slot)
{
    const BoardSampler *board = &s->board->samplers[slot];
    uint32_t sequence = atomic_load(&board->found_sequence);
    BoardFound found;

    if (sequence == s->slots[slot].found_sequence || s->slots[slot].order < s->found_order ||
        !board_copy_found(board, &found))
        return;
    s->slots[slot].found_sequence = sequence;
    s->found_order = s->slots[slot].order;
    s->view.found = found.count;
    for (uint32_t i = 0; i < found.len; i++)
        if (found.gpus[i].device <= 31 && found.gpus[i].function <= 7 && find_gpu(s, found.gpus[i]) == NO_GPU)
            add_gpu(s, found.gpus[i]);
}

/* ---- states ---- */

static GpuState state_of_outcome(const Gpu *g, uint32_t outcome)
{
    switch (outcome) {
    case BOARD_NOT_TRIED: /* by this sampler: the state stays, but it is no longer hung */
        return g->state == GPU_HUNG || g->state == GPU_RELEASED || g->state == GPU_NO_DRIVER || g->state == GPU_FAILED
                   ? GPU_STARTING
                   : g->state;
    case BOARD_FINE:
        return GPU_UP;
    case BOARD_LOST:
    case BOARD_RESET_REQUIRED:
        return GPU_LOST;
    case BOARD_NOT_FOUND:
        return g->on_bus ? GPU_MISSING : GPU_GONE;
    default:
        return GPU_FAILED;
    }
}

static bool driver_is_bad(const Supervisor *s, uint32_t slot)
{
    uint32_t driver = atomic_load(&s->board->samplers[slot].driver);

    return driver == BOARD_DRIVER_NO_LIBRARY || driver == BOARD_DRIVER_INIT_FAILED;
}

/* Whether nothing was heard of a GPU for so long that it is not up, whatever its sampler still waits for: two periods
 * without a sampler that has read it, three with one, and of a slow one (then all its values are stale). */
static bool is_silent(const Supervisor *s, uint32_t gpu, uint32_t outcome)
{
    const Gpu *g = &s->gpus[gpu];
    const double speed = s->board->clock.speed;
    const uint64_t now_ns = board_at(s->board, s->now_ns),
                   shortest_ns = (uint64_t)(2.0 * (double)s->limits.call_ns * speed);
    uint64_t period_ns = s->board->plan.period_ns[METRIC_PACE_NORMAL];
    uint64_t since_ns = atomic_load(&s->board->gpus[gpu].last_sample_ns);

    if (s->resumed_ns && board_at(s->board, s->resumed_ns) > since_ns)
        since_ns = board_at(s->board, s->resumed_ns);
    if (period_ns < shortest_ns)
        period_ns = shortest_ns;
    const bool read = outcome == BOARD_FINE && g->slot != NO_SLOT && !g->apart, slow = g->isolated && g->slow_ns;
    return now_ns > since_ns && now_ns - since_ns > period_ns * (read || slow ? 3 : 2);
}

static GpuState gpu_state_of(const Supervisor *s, const Gpu *g, uint32_t outcome)
{
    if (g->gone)
        return GPU_GONE;
    if (g->hung)
        return GPU_HUNG;
    if (s->released)
        return GPU_RELEASED;
    if (g->slot == NO_SLOT) {
        bool waits = g->isolated ? g->retry_ns > s->now_ns : s->shared == NO_SLOT && s->shared_ns > s->now_ns;

        return waits && g->state != GPU_NO_DRIVER ? GPU_FAILED : g->state;
    }
    if (driver_is_bad(s, g->slot))
        return GPU_NO_DRIVER;
    return state_of_outcome(g, outcome);
}

void supervisor_gpus_update_states(Supervisor *s)
{
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        Gpu *g = &s->gpus[i];
        uint32_t outcome = atomic_load(&s->board->gpus[i].outcome);
        bool alive = g->slot != NO_SLOT && slot_alive(&s->slots[g->slot]);

        if (alive && (outcome != BOARD_NOT_TRIED || driver_is_bad(s, g->slot))) {
            g->hung = false;
            if (g->isolated && g->good_ns == 0)
                g->good_ns = s->now_ns;
        }
        if (outcome == BOARD_LOST || outcome == BOARD_RESET_REQUIRED) /* a new sampler has tried nothing yet */
            g->for_reset = outcome == BOARD_RESET_REQUIRED;
        const GpuState state = gpu_state_of(s, g, outcome);
        set_state(s, i, state == GPU_UP && is_silent(s, i, outcome) ? GPU_STARTING : state);
        if (g->state == GPU_NO_DRIVER)
            atomic_store(&s->board->gpus[i].outcome, BOARD_NOT_TRIED);
    }
}
