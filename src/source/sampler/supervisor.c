/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass of the supervisor: check every sampler (supervisor_slot.c), set the state of each GPU (supervisor_gpu.c),
 * then give every GPU that may be sampled to a sampler; and what a view of the node says of it. A GPU's sampler is
 * changed in one place and one at a time, and only to a sampler that is alive, so that no two ever sample the same
 * GPU.
 */
#include "source/sampler/supervisor.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "source/sampler/supervisor_inside.h"

enum { SPAN_CAP = 16 };

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

/* ---- placing ---- */

static bool need_shared(const Supervisor *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->gpu_count; i++) {
        if (!s->gpus[i].gone && !s->gpus[i].isolated)
            return true;
        any |= !s->gpus[i].gone;
    }
    return !any; /* it finds GPUs that are not on the bus, and the driver's condition */
}

static void place_shared(Supervisor *s)
{
    if (s->shared != NO_SLOT || s->now_ns < s->shared_ns || !need_shared(s))
        return;
    if (supervisor_count_abandoned(s, NO_GPU) >= STUCK_MAX) {
        snprintf(s->start_why, sizeof(s->start_why), "%d samplers hang and do not end", STUCK_MAX);
        s->shared_ns = s->now_ns + FIRST_DELAY_NS;
        return;
    }
    s->shared = supervisor_slot_start(s, NO_GPU);
    if (s->shared == NO_SLOT) {
        supervisor_log(s, LOG_LEVEL_ERROR, "%s.", s->start_why);
        s->fails += s->fails == 0;
        supervisor_delay_shared(s, 0, false);
    }
}

static void place_alone(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];
    uint32_t slot;

    if (s->now_ns < g->retry_ns || supervisor_count_abandoned(s, gpu) >= STUCK_MAX)
        return;
    slot = supervisor_slot_start(s, gpu);
    if (slot == NO_SLOT)
        supervisor_gpu_delay_retry(s, gpu);
    else
        supervisor_gpu_assign(s, gpu, slot);
}

/* An isolated GPU that has been fine for long goes back to the others. */
static void rejoin_gpu(Supervisor *s, uint32_t gpu)
{
    Gpu *g = &s->gpus[gpu];
    uint32_t alone = g->slot;

    const uint64_t calm_ns = g->apart ? s->limits.attach_ns : s->limits.rejoin_ns;

    if (g->good_ns == 0 || s->now_ns - g->good_ns < calm_ns || !slot_alive(&s->slots[alone]))
        return;
    if (s->shared == NO_SLOT ? need_shared(s) : s->slots[s->shared].state != SAMPLER_RUNNING)
        return; /* no shared sampler runs now */
    g->isolated = false;
    g->good_ns = 0;
    supervisor_forgive_abandoned(s, gpu);
    if (s->shared == NO_SLOT) { /* all others are isolated */
        s->slots[alone].solo = NO_GPU;
        s->shared = alone;
        return;
    }
    supervisor_gpu_assign(s, gpu, s->shared);
    supervisor_slot_end(s, alone);
}

static void place_gpus(Supervisor *s)
{
    place_shared(s);
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const Gpu *g = &s->gpus[i];

        if (g->gone)
            continue;
        if (g->isolated && g->slot == NO_SLOT)
            place_alone(s, i);
        else if (g->isolated)
            rejoin_gpu(s, i);
        else if (g->slot == NO_SLOT && s->shared != NO_SLOT && slot_alive(&s->slots[s->shared]))
            supervisor_gpu_assign(s, i, s->shared);
    }
}

/* ---- release ---- */

void supervisor_release(Supervisor *s, uint64_t until_ns)
{
    s->release_until_ns = until_ns;
    atomic_store(&s->board->release_until_ns, until_ns);
}

static void forget_passes(Supervisor *s)
{
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (!s->gpus[i].hung && !s->gpus[i].gone)
            atomic_store(&s->board->gpus[i].outcome, BOARD_NOT_TRIED);
}

static void check_release(Supervisor *s)
{
    bool released = board_at(s->board, s->now_ns) < s->release_until_ns;

    if (!released && s->release_until_ns)
        supervisor_release(s, 0);
    if (s->released && !released)
        forget_passes(s);
    if (s->released != released)
        supervisor_log(s, LOG_LEVEL_INFO, released ? "The driver is let go." : "The driver is taken up again.");
    s->released = released;
}

/* ---- why ---- */

/* "600 ms", "3 s", "12 min" */
static const char *format_span(uint64_t ns, char text[SPAN_CAP])
{
    if (ns < NS_PER_S)
        snprintf(text, SPAN_CAP, "%u ms", (unsigned)(ns / NS_PER_MS));
    else if (ns < 10 * NS_PER_MIN)
        snprintf(text, SPAN_CAP, "%u s", (unsigned)(ns / NS_PER_S));
    else
        snprintf(text, SPAN_CAP, "%u min", (unsigned)(ns / NS_PER_MIN % 100000000));
    return text;
}

/* Cuts at the cap rather than dropping what does not fit. */
static void __attribute__((format(printf, 2, 3))) add(char why[NODE_WHY_CAP], const char *fmt, ...)
{
    size_t len = strlen(why);
    va_list args;

    va_start(args, fmt);
    vsnprintf(why + len, NODE_WHY_CAP - len, fmt, args);
    va_end(args);
}

static bool is_in_late_call(const Slot *slot)
{
    return slot->state == SAMPLER_STUCK || slot->state == SAMPLER_KILLED || slot->state == SAMPLER_ABANDONED;
}

/* The sampler that is in this call still, or NULL. */
static const Slot *find_stuck_slot(const Supervisor *s, const Miss *miss)
{
    const Slot *slot = &s->slots[miss->slot];

    return is_in_late_call(slot) && slot->order == miss->order ? slot : NULL;
}

static void add_miss(const Supervisor *s, const Miss *miss, char why[NODE_WHY_CAP])
{
    const Slot *slot = find_stuck_slot(s, miss);
    char time[SPAN_CAP];

    if (!slot) {
        add(why, "%s did not return in time", supervisor_function_text(miss->function));
        return;
    }
    add(why, "%s has not returned for %s", supervisor_function_text(miss->function),
        format_span(s->now_ns - miss->start_ns, time));
    if (slot->state == SAMPLER_ABANDONED)
        add(why, "; sampler %d does not end on SIGKILL%s%s", (int)slot->pid, slot->wchan[0] ? ", it waits in " : "",
            slot->wchan);
}

/* The next step for a GPU without a sampler. */
static void add_next(const Supervisor *s, uint32_t gpu, char why[NODE_WHY_CAP])
{
    const Gpu *g = &s->gpus[gpu];
    uint64_t at_ns = g->isolated ? g->retry_ns : s->shared_ns;
    char time[SPAN_CAP];

    if (g->isolated && supervisor_count_abandoned(s, gpu) >= STUCK_MAX)
        add(why, "; not tried again until one of its %d stuck samplers ends", STUCK_MAX);
    else if (s->released)
        add(why, "; not tried again before the driver is taken up again");
    else
        add(why, "; next try in %s", format_span(at_ns > s->now_ns ? at_ns - s->now_ns : 0, time));
}

static void write_hung_why(const Supervisor *s, uint32_t gpu, char why[NODE_WHY_CAP])
{
    const Gpu *g = &s->gpus[gpu];
    const Slot *slot = find_stuck_slot(s, &g->miss);

    add_miss(s, &g->miss, why);
    if (g->slot == NO_SLOT)
        add_next(s, gpu, why);
    else if (!slot || g->miss.slot != g->slot)
        add(why, "; it is being tried again");
}

static void write_failed_why(const Supervisor *s, uint32_t gpu, char why[NODE_WHY_CAP])
{
    const Gpu *g = &s->gpus[gpu];

    if (g->slot != NO_SLOT) {
        add(why, "the driver refuses it with NVML error %d", (int)atomic_load(&s->board->gpus[gpu].code));
        return;
    }
    if (s->start_why[0])
        add(why, "%s", s->start_why);
    else if (g->isolated)
        add(why, "its own sampler ended");
    else
        add(why, "the sampler ended %u times in a row", (unsigned)s->fails);
    add_next(s, gpu, why);
}

/* "not sampled yet", or for how long not, and the call that its sampler is in. */
static void write_starting_why(const Supervisor *s, uint32_t gpu, char why[NODE_WHY_CAP])
{
    const Gpu *g = &s->gpus[gpu];
    const uint64_t last_ns = atomic_load(&s->board->gpus[gpu].last_sample_ns), now_ns = board_at(s->board, s->now_ns);
    const BoardSampler *board = g->slot == NO_SLOT ? NULL : &s->board->samplers[g->slot];
    const uint64_t start_ns = board ? atomic_load(&board->call_start_ns) : 0;
    char time[SPAN_CAP];

    if (last_ns == 0)
        add(why, "%s", gpu_states[GPU_STARTING].text);
    else
        add(why, "no sample for %s", format_span(now_ns > last_ns ? now_ns - last_ns : 0, time));
    if (start_ns && atomic_load(&board->call_gpu) == gpu && s->now_ns > start_ns + s->limits.call_ns / 2)
        add(why, "; %s has not returned for %s", supervisor_function_text(atomic_load(&board->call_function)),
            format_span(s->now_ns - start_ns, time));
}

static void write_released_why(const Supervisor *s, const Gpu *g, char why[NODE_WHY_CAP])
{
    uint64_t now_ns = board_at(s->board, s->now_ns);
    bool held = g->slot != NO_SLOT && atomic_load(&s->board->samplers[g->slot].driver) == BOARD_DRIVER_FINE;
    char time[SPAN_CAP];

    if (held)
        add(why, "the driver is being let go");
    else
        add(why, "the driver is let go for another %s",
            format_span(s->release_until_ns > now_ns ? s->release_until_ns - now_ns : 0, time));
}

static void write_gpu_why(const Supervisor *s, uint32_t gpu, char why[NODE_WHY_CAP])
{
    const Gpu *g = &s->gpus[gpu];
    char time[SPAN_CAP];

    why[0] = '\0';
    switch (g->state) {
    case GPU_UP:
        if (g->isolated && g->slow_ns)
            add(why, "%s took as long as %s", supervisor_function_text(g->slow_function),
                format_span(g->slow_ns, time));
        break;
    case GPU_STARTING:
        write_starting_why(s, gpu, why);
        break;
    case GPU_HUNG:
        write_hung_why(s, gpu, why);
        break;
    case GPU_LOST:
        add(why, "%s",
            g->for_reset ? "the driver says that it needs a reset"
                         : "the driver says that it is lost, it fell off the bus");
        break;
    case GPU_RELEASED:
        write_released_why(s, g, why);
        break;
    case GPU_NO_DRIVER:
        add(why, "%s", s->view.driver_why[0] ? s->view.driver_why : gpu_states[g->state].text);
        break;
    case GPU_FAILED:
        write_failed_why(s, gpu, why);
        break;
    default:
        add(why, "%s", gpu_states[g->state].text);
    }
}

/* ---- the driver ---- */

static uint32_t newest_slot(const Supervisor *s)
{
    uint32_t newest = NO_SLOT;

    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        bool known = slot_alive(&s->slots[i]) && !s->slots[i].probe &&
                     atomic_load(&s->board->samplers[i].driver) != BOARD_DRIVER_UNKNOWN;

        if (known && (newest == NO_SLOT || s->slots[i].order > s->slots[newest].order))
            newest = i;
    }
    return newest;
}

static void write_driver_why(Supervisor *s)
{
    uint32_t slot =
        s->shared != NO_SLOT && atomic_load(&s->board->samplers[s->shared].driver) ? s->shared : newest_slot(s);
    uint32_t driver = slot == NO_SLOT ? BOARD_DRIVER_UNKNOWN : atomic_load(&s->board->samplers[slot].driver);

    s->view.driver_why[0] = '\0';
    s->view.driver = NODE_DRIVER_FINE;
    s->view.driver_code = 0;
    if (s->driver_hung) {
        s->view.driver = NODE_DRIVER_HANGS;
        add_miss(s, &s->driver_miss, s->view.driver_why);
    } else if (driver == BOARD_DRIVER_NO_LIBRARY || driver == BOARD_DRIVER_INIT_FAILED) {
        s->view.driver = driver == BOARD_DRIVER_NO_LIBRARY ? NODE_DRIVER_NO_LIBRARY
                                                           : board_driver_trouble(&s->board->samplers[slot]);
        s->view.driver_code = atomic_load(&s->board->samplers[slot].code);
        board_copy_why(&s->board->samplers[slot], s->view.driver_why);
        if (!s->view.driver_why[0])
            add(s->view.driver_why, "%s",
                driver == BOARD_DRIVER_NO_LIBRARY ? "the driver's library cannot be loaded"
                                                  : "the driver cannot be initialised");
    } else if (s->shared == NO_SLOT && s->start_why[0]) {
        s->view.driver = NODE_DRIVER_NO_SAMPLER;
        add(s->view.driver_why, "%s", s->start_why);
    }
}

/* ---- views ---- */

/* The cause behind the state of a GPU that is not served. */
static GpuTrouble trouble_of(const Supervisor *s, uint32_t gpu)
{
    const Gpu *g = &s->gpus[gpu];

    if (g->state == GPU_LOST)
        return g->for_reset ? GPU_TROUBLE_RESET : GPU_TROUBLE_FELL_OFF;
    if (g->state == GPU_FAILED)
        return g->slot == NO_SLOT ? GPU_TROUBLE_NO_SAMPLER : GPU_TROUBLE_REFUSED;
    return GPU_TROUBLE_NONE;
}

void supervisor_view_gpu(const Supervisor *s, uint32_t i, NodeGpu *ret)
{
    if (i >= s->gpu_count)
        return;
    const Gpu *g = &s->gpus[i];

    ret->state = g->state;
    ret->state_since_ns = board_at(s->board, g->since_ns);
    ret->missed_calls = g->missed_calls;
    ret->own_sampler = g->isolated;
    ret->trouble = trouble_of(s, i);
    ret->code = ret->trouble == GPU_TROUBLE_NONE || ret->trouble == GPU_TROUBLE_NO_SAMPLER
                    ? 0
                    : atomic_load(&s->board->gpus[i].code);
    write_gpu_why(s, i, ret->why);
}

static void view_slot(const Supervisor *s, uint32_t at, NodeSampler *ret)
{
    const Slot *slot = &s->slots[at];
    bool in_call = is_in_late_call(slot);

    *ret = (NodeSampler){.state = slot->state, .pid = slot->pid, .since_ns = board_at(s->board, slot->since_ns)};
    for (uint32_t i = 0; i < s->gpu_count; i++)
        ret->gpu_count += s->gpus[i].slot == at;
    if (in_call && slot->miss_gpu != NO_GPU)
        pci_format(s->gpus[slot->miss_gpu].pci, PCI_FORM_NVML, ret->gpu);
    if (in_call && slot->miss.order)
        snprintf(ret->function, sizeof(ret->function), "%s", supervisor_function_text(slot->miss.function));
    memcpy(ret->wchan, slot->wchan, sizeof(ret->wchan));
}

size_t supervisor_view_samplers(const Supervisor *s, NodeSampler samplers[NODE_SAMPLERS_MAX])
{
    size_t count = 0;

    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        if (s->slots[i].state != SAMPLER_FREE)
            view_slot(s, i, &samplers[count++]);
    return count;
}

const SupervisorView *supervisor_view(const Supervisor *s)
{
    return &s->view;
}

/* ---- passes ---- */

static void check_samplers(Supervisor *s)
{
    uint64_t now = s->ops->now_ns(s->self);

    if (s->checked_ns && now - s->checked_ns > s->limits.beat_ns)
        s->resumed_ns = now;
    s->checked_ns = s->now_ns = now;
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        supervisor_slot_check(s, i);
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        if (s->slots[i].state == SAMPLER_RUNNING && slot_alive(&s->slots[i]) && !s->slots[i].probe)
            supervisor_gpus_add_found(s, i);
}

void supervisor_pass(Supervisor *s)
{
    check_samplers(s);
    if (s->stopping)
        return;
    if (s->shared != NO_SLOT && s->slots[s->shared].state == SAMPLER_RUNNING)
        s->driver_hung = false;
    check_release(s);
    supervisor_gpus_update_states(s);
    if (!s->released)
        place_gpus(s);
    supervisor_probe_send(s);
    write_driver_why(s);
}

bool supervisor_stop(Supervisor *s)
{
    bool any = false;

    check_samplers(s);
    if (!s->stopping)
        for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
            if (s->slots[i].state == SAMPLER_STUCK || slot_alive(&s->slots[i]))
                supervisor_slot_end(s, i);
    s->stopping = true;
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        any |= s->slots[i].state != SAMPLER_FREE && s->slots[i].state != SAMPLER_ABANDONED;
    return !any;
}

void supervisor_set_pid(Supervisor *s, uint32_t slot, pid_t pid)
{
    assert(slot < NODE_SAMPLERS_MAX);
    if (s->slots[slot].state != SAMPLER_FREE && pid > 0)
        s->slots[slot].pid = pid;
}

void supervisor_note_close(Supervisor *s, uint32_t slot)
{
    assert(slot < NODE_SAMPLERS_MAX);
    s->slots[slot].closed = true;
}
