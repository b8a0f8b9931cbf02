/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one sampler, from its start to the end of its process: whether it is alive, whether its call is within
 * the deadline, whether it ends when asked to. And probes: samplers that ask the driver as a new client does, and end.
 * The time between two probes is of the agent's clock.
 */

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "source/sampler/supervisor_inside.h"

#define ENDING_NS (500 * NS_PER_MS)
#define DCGM_PAUSE_NS (10 * NS_PER_MIN)
#define PAIRS_PAUSE_NS (10 * NS_PER_MIN)
#define PROBE_LIMIT_NS (10 * NS_PER_S)
#define PROBE_AGAIN_NS (10 * NS_PER_S)  /* after the first refusal */
#define PROBE_REFUSED_NS NS_PER_MIN     /* after any later one */
#define PROBE_MISSING_NS (5 * NS_PER_S) /* the first one for a GPU that the driver does not have */

/* The current call of a sampler. */
typedef struct Call {
    uint64_t start_ns; /* 0: none */
    uint64_t limit_ns;
    uint32_t gpu; /* NO_GPU where it is about none */
    uint32_t function;
} Call;

typedef enum CallKind {
    CALL_ORDINARY,
    CALL_INIT,
    CALL_ATTACH, /* the first one about a GPU */
    CALL_PAIR,   /* about two GPUs, announced as about none */
    CALL_DCGM,
    CALL_KIND_END,
} CallKind;

static CallKind find_call_kind(uint32_t function)
{
    static const char *const begins[CALL_KIND_END] = {[CALL_INIT] = "nvmlInit",
                                                      [CALL_ATTACH] = "nvmlDeviceGetHandle",
                                                      [CALL_PAIR] = "nvmlDeviceGetP2PStatus",
                                                      [CALL_DCGM] = "dcgm"};
    const char *name = sampler_function_name(function);

    for (CallKind kind = CALL_INIT; name && kind < CALL_KIND_END; kind++)
        if (strncmp(name, begins[kind], strlen(begins[kind])) == 0)
            return kind;
    return CALL_ORDINARY;
}

static void set_state(Supervisor *s, Slot *slot, SamplerState state)
{
    slot->state = state;
    slot->since_ns = s->now_ns;
}

/* Where in the kernel its process waits now. */
static void note_wchan(Supervisor *s, Slot *slot)
{
    s->ops->wchan(s->self, slot->pid, slot->wchan);
    slot->wchan[sizeof(slot->wchan) - 1] = '\0';
}

/* ---- start ---- */

/* The first free slot. Some are reserved for the shared sampler: every GPU that is not isolated yet may need a slot of
 * its own. */
static uint32_t find_free_slot(const Supervisor *s, bool shared)
{
    uint32_t found = NO_SLOT, count = 0, reserved = shared ? 0 : SLOTS_RESERVED;

    for (uint32_t i = NODE_SAMPLERS_MAX; i-- > 0;)
        if (s->slots[i].state == SAMPLER_FREE) {
            count++;
            found = i;
        }
    for (uint32_t i = 0; !shared && i < s->gpu_count; i++)
        reserved += !s->gpus[i].gone && !s->gpus[i].isolated;
    return count > reserved ? found : NO_SLOT;
}

/* Resets its part of the board; the count of events continues. */
static void clear_board(BoardSampler *sampler)
{
    atomic_store(&sampler->beat_ns, 0);
    atomic_store(&sampler->call_start_ns, 0);
    atomic_store(&sampler->call_gpu, UINT32_MAX);
    atomic_store(&sampler->call_function, 0);
    atomic_store(&sampler->call_limit_ms, 0);
    atomic_store(&sampler->driver, BOARD_DRIVER_UNKNOWN);
    atomic_store(&sampler->passes, 0);
    atomic_store(&sampler->found_sequence, 0);
    atomic_store(&sampler->trouble, NODE_DRIVER_FINE);
    atomic_store(&sampler->code, 0);
    board_set_why(sampler, "");
}

/* Makes the process that `hello` speaks to, in its slot. */
static int begin_process(Supervisor *s, SamplerHello *hello, uint32_t solo, Err *err)
{
    pid_t pid = 0;

    hello->protocol = SAMPLER_PROTOCOL;
    hello->board_version = BOARD_VERSION;
    memcpy(hello->library, s->library, sizeof(hello->library));
    clear_board(&s->board->samplers[hello->slot]);
    TRY(s->ops->start(s->self, hello, &pid, err));
    s->slots[hello->slot] = (Slot){.state = SAMPLER_STARTING,
                                   .since_ns = s->now_ns,
                                   .pid = pid,
                                   .order = ++s->orders,
                                   .started_ns = s->now_ns,
                                   .life_ns = s->now_ns,
                                   .solo = solo,
                                   .attaches = !hello->no_attach,
                                   .miss_gpu = NO_GPU};
    return 0;
}

uint32_t supervisor_slot_start(Supervisor *s, uint32_t solo)
{
    uint32_t at = find_free_slot(s, solo == NO_GPU);
    SamplerHello hello = {.slot = at};
    Err err = {0};

    if (at == NO_SLOT) {
        snprintf(s->start_why, sizeof(s->start_why), "no place for another sampler: too many of them do not end");
        return NO_SLOT;
    }
    hello.no_attach =
        solo != NO_GPU || s->attach_hung || s->now_ns < s->pairs_after_ns || supervisor_gpus_in_trouble(s);
    if (s->dcgm.library) {
        hello.dcgm = true;
        hello.dcgm_after_ns = s->dcgm_after_ns;
        memcpy(hello.dcgm_library, s->dcgm.library, strlen(s->dcgm.library));
        memcpy(hello.dcgm_address, s->dcgm.address, strlen(s->dcgm.address));
    }
    if (begin_process(s, &hello, solo, &err) < 0) {
        snprintf(s->start_why, sizeof(s->start_why), "a sampler could not be started: %.*s", 100, err.text);
        return NO_SLOT;
    }
    s->start_why[0] = '\0';
    s->view.started++;
    return at;
}

static uint32_t start_probe(Supervisor *s)
{
    uint32_t at = find_free_slot(s, false);
    SamplerHello hello = {.slot = at, .probe = 1};
    Err err = {0};

    if (at == NO_SLOT)
        return NO_SLOT;
    if (begin_process(s, &hello, NO_GPU, &err) < 0) {
        supervisor_log(s, LOG_LEVEL_DEBUG, "A probe of the driver could not be started: %s.", err.text);
        return NO_SLOT;
    }
    s->slots[at].probe = s->slots[at].forgiven = true; /* that it may never end does not count */
    return at;
}

/* ---- end ---- */

static void kill_process(Supervisor *s, uint32_t at)
{
    s->ops->kill(s->self, at, s->slots[at].pid);
    set_state(s, &s->slots[at], SAMPLER_KILLED);
}

static uint64_t agent_now(const Supervisor *s)
{
    return board_at(s->board, s->now_ns);
}

/* ---- answers of probes ---- */

static void forget_answer(Supervisor *s)
{
    s->view.probe = (NodeProbe){.driver = NODE_DRIVER_FINE};
}

static void note_refusal(Supervisor *s, NodeDriver driver, int32_t code)
{
    Probing *p = &s->probing;
    uint64_t pause_ns;

    s->view.probe.driver = driver;
    s->view.probe.code = code;
    s->view.probe.count++;
    pause_ns = s->view.probe.count < 2 ? PROBE_AGAIN_NS : PROBE_REFUSED_NS;
    p->due_ns = agent_now(s) + (pause_ns < s->limits.probe_ns ? pause_ns : s->limits.probe_ns);
    supervisor_log(s, s->view.probe.count == 2 ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "Probe of the driver: %s.",
                   s->view.probe.why);
}

/* The driver's library counts the GPUs as it is initialised. Where a new client is told of more, one was added or given
 * to the driver since, which the shared sampler cannot see: another takes its place. */
static void compare_counts(Supervisor *s, const BoardSampler *probe)
{
    const uint32_t at = s->shared;
    BoardFound found;

    if (at == NO_SLOT || !board_copy_found(probe, &found) || found.count <= s->view.found)
        return;
    supervisor_log(s, LOG_LEVEL_INFO, "The driver has %u GPUs for new clients, %u for sampler %d: another is started.",
                   (unsigned)found.count, (unsigned)s->view.found, (int)s->slots[at].pid);
    s->shared = NO_SLOT;
    supervisor_gpus_unassign(s, at, NO_GPU);
    supervisor_slot_end(s, at);
}

static void note_probe_answer(Supervisor *s, const BoardSampler *board)
{
    char why[NODE_WHY_CAP];

    switch (atomic_load(&board->driver)) {
    case BOARD_DRIVER_RELEASED:
        if (s->view.probe.count >= 2)
            supervisor_log(s, LOG_LEVEL_INFO, "The driver serves new clients again.");
        forget_answer(s);
        compare_counts(s, board);
        break;
    case BOARD_DRIVER_INIT_FAILED:
        board_copy_why(board, why);
        snprintf(s->view.probe.why, sizeof(s->view.probe.why), "new clients are refused: %.130s", why);
        note_refusal(s, board_driver_trouble(board), atomic_load(&board->code));
        break;
    default: /* the library is being replaced, or it crashed: no information about the driver */
        supervisor_log(s, LOG_LEVEL_DEBUG, "A probe of the driver ended without an answer.");
    }
}

/* A GPU's own sampler is lost: one that ended is replaced at once, a few times. */
static void retry_solo(Supervisor *s, uint32_t at, uint32_t gpu)
{
    const Slot *slot = &s->slots[at];
    Gpu *g = &s->gpus[gpu];

    if (s->now_ns - slot->started_ns >= STEADY_NS)
        g->ends = 0;
    if (slot->lost && !g->hung && g->ends++ < ENDS_AT_ONCE)
        g->retry_ns = s->now_ns;
    else
        supervisor_gpu_delay_retry(s, gpu);
}

/* Unassigns the GPUs of a sampler that is lost. `gpu` is the GPU of its last call, or NO_GPU. */
static void lose_gpus(Supervisor *s, uint32_t at, uint32_t gpu)
{
    const Slot *slot = &s->slots[at];
    uint32_t solo = slot->solo;

    supervisor_gpus_unassign(s, at, NO_GPU);
    if (solo != NO_GPU && s->gpus[solo].isolated && s->gpus[solo].slot == NO_SLOT)
        retry_solo(s, at, solo);
    if (s->shared != at)
        return;
    s->shared = NO_SLOT;
    if (gpu != NO_GPU && s->crash_gpu == gpu) { /* twice in a row in calls about the same one */
        s->crash_gpu = NO_GPU;
        supervisor_gpu_isolate(s, gpu);
        supervisor_gpu_delay_retry(s, gpu);
    } else {
        s->crash_gpu = gpu;
        supervisor_delay_shared(s, s->now_ns - slot->started_ns, slot->lost);
    }
}

static void pause_dcgm(Supervisor *s, const char *what)
{
    s->dcgm_after_ns = s->now_ns + DCGM_PAUSE_NS;
    supervisor_log(s, LOG_LEVEL_WARN, "%s; DCGM is left alone for %u minutes.", what,
                   (unsigned)(DCGM_PAUSE_NS / NS_PER_MIN));
}

static void pause_pairs(Supervisor *s, uint64_t until_ns)
{
    s->pairs_after_ns = until_ns;
    atomic_store(&s->board->pairs_after_ns, until_ns);
}

/* It ended, or closed its socket, without being asked to. */
static void note_unexpected_end(Supervisor *s, uint32_t at)
{
    const BoardSampler *board = &s->board->samplers[at];
    bool in_call = atomic_load(&board->call_start_ns);
    uint32_t function = in_call ? atomic_load(&board->call_function) : 0;
    uint32_t gpu = in_call ? atomic_load(&board->call_gpu) : NO_GPU;
    bool ours = gpu < s->gpu_count && s->gpus[gpu].slot == at;
    bool again = s->fails > 0 && s->now_ns - s->slots[at].started_ns < STEADY_NS;

    s->slots[at].lost = true;
    s->slots[at].lost_in = ours ? function : 0;
    if (s->dcgm.library && !s->stopping && (again || find_call_kind(function) == CALL_DCGM))
        pause_dcgm(s, "It may have been its engine");
    if (!s->stopping && find_call_kind(function) == CALL_PAIR)
        pause_pairs(s, s->now_ns + PAIRS_PAUSE_NS);
    lose_gpus(s, at, ours ? gpu : NO_GPU);
}

/* How it ended: the call that it was in is named where it may have been the reason. */
static void log_end(Supervisor *s, uint32_t at, const SubprocEnd *end)
{
    const Slot *slot = &s->slots[at];
    const bool known = end->exited || end->signal;
    const bool by_somebody = end->signal == SIGKILL || end->signal == SIGTERM || end->signal == SIGINT;
    char how[SUBPROC_TEXT_MAX] = "";

    if (known)
        subproc_describe(end, how);
    supervisor_log(s, s->stopping ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "Sampler %d ended unexpectedly%s%s%s%s.",
                   (int)slot->pid, known ? ": " : "", how, slot->lost_in && !by_somebody ? ", in " : "",
                   slot->lost_in && !by_somebody ? supervisor_function_text(slot->lost_in) : "");
}

static void slot_gone(Supervisor *s, uint32_t at, const SubprocEnd *end)
{
    Slot *slot = &s->slots[at];

    if (slot->state == SAMPLER_ABANDONED)
        supervisor_log(s, LOG_LEVEL_INFO, "The abandoned sampler %d has ended at last.", (int)slot->pid);
    else if (!slot->ending_ns && slot->state != SAMPLER_KILLED && !slot->probe)
        note_unexpected_end(s, at);
    if (slot->lost && slot->state != SAMPLER_KILLED)
        log_end(s, at, end);
    if (slot->state == SAMPLER_ABANDONED && find_call_kind(slot->miss.function) == CALL_PAIR)
        pause_pairs(s, s->now_ns + PAIRS_PAUSE_NS);
    if (slot->probe) {
        if (slot->state == SAMPLER_STARTING && slot->ending_ns == 0)
            note_probe_answer(s, &s->board->samplers[at]);
        atomic_store(&s->board->samplers[at].driver, BOARD_DRIVER_UNKNOWN); /* it holds nothing any more */
        s->probing.slot = NO_SLOT;
    }
    /* It may have been killed while it wrote a row. Rows of GPUs that have another sampler by now are repaired by that
     * one. */
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].last == at && (s->gpus[i].slot == NO_SLOT || s->gpus[i].slot == at))
            board_repair(&s->board->gpus[i]);
    supervisor_gpus_unassign(s, at, NO_GPU);
    s->ops->forget(s->self, at);
    *slot = (Slot){.state = SAMPLER_FREE, .since_ns = s->now_ns, .solo = NO_GPU, .miss_gpu = NO_GPU};
}

static void abandon_process(Supervisor *s, uint32_t at)
{
    Slot *slot = &s->slots[at];

    s->view.abandoned++;
    note_wchan(s, slot);
    set_state(s, slot, SAMPLER_ABANDONED);
    if (find_call_kind(slot->miss.function) == CALL_PAIR)
        pause_pairs(s, UINT64_MAX); /* until it ends: there shall be no second one */
    supervisor_log(s, LOG_LEVEL_WARN,
                   "Sampler %d does not end on SIGKILL and is abandoned; it waits in %s of the kernel.", (int)slot->pid,
                   slot->wchan[0] ? slot->wchan : "an unknown place");
}

/* ---- calls ---- */

/* The later of an instant and the last time at which the agent itself resumed after a long stop: a stopped machine or
 * container is no hang. */
static uint64_t no_earlier(const Supervisor *s, uint64_t instant_ns)
{
    return instant_ns > s->resumed_ns ? instant_ns : s->resumed_ns;
}

static bool has_passed(const Supervisor *s, uint64_t since_ns, uint64_t limit_ns)
{
    return s->now_ns >= since_ns && s->now_ns - since_ns >= limit_ns;
}

/* Whether an init may wake all GPUs up and none need it, since their addresses are known. */
static bool is_needless_attach(const Supervisor *s, uint32_t at)
{
    bool any = false;

    for (uint32_t i = 0; i < s->gpu_count; i++)
        any |= s->gpus[i].on_bus && !s->gpus[i].gone;
    return any && s->slots[at].attaches && s->shared == at && !s->attach_hung;
}

/* False where it is between two calls, so that nothing is known. */
static bool read_call(Supervisor *s, uint32_t at, Call *ret)
{
    const BoardSampler *board = &s->board->samplers[at];
    uint64_t start = atomic_load(&board->call_start_ns);

    *ret = (Call){.start_ns = start, .gpu = atomic_load(&board->call_gpu)};
    ret->function = atomic_load(&board->call_function);
    ret->limit_ns = atomic_load(&board->call_limit_ms) * NS_PER_MS;
    if (ret->limit_ns < s->limits.call_ns)
        ret->limit_ns = s->limits.call_ns;
    const CallKind kind = find_call_kind(ret->function);
    if (ret->gpu == UINT32_MAX && kind != CALL_DCGM && kind != CALL_PAIR) {
        const bool attaches = kind == CALL_INIT || kind == CALL_ATTACH; /* whatever it is given */

        if ((attaches || ret->limit_ns < s->limits.attach_ns) && is_needless_attach(s, at))
            ret->limit_ns = 2 * s->limits.call_ns;
        else if (ret->limit_ns < s->limits.attach_ns)
            ret->limit_ns = s->limits.attach_ns;
    }
    return atomic_load(&board->call_start_ns) == start;
}

/* Whether this is a late call of a slow GPU in its own sampler, which is waited for. Its waiting time before it rejoins
 * the others starts again. */
static bool is_slow(Supervisor *s, uint32_t at, const Call *call)
{
    Slot *slot = &s->slots[at];
    bool own = slot->solo != NO_GPU && call->gpu == slot->solo && s->gpus[slot->solo].slot == at;
    uint64_t limit = s->limits.call_ns + s->limits.kill_ns;
    Gpu *g = own ? &s->gpus[slot->solo] : NULL;

    if (!own || g->slow_ns == 0)
        return false;
    if (slot->late_ns != call->start_ns) { /* late again */
        g->missed_calls++;
        g->slow_function = call->function;
    }
    slot->late_ns = call->start_ns;
    g->good_ns = 0;
    if (2 * g->slow_ns < limit)
        limit = 2 * g->slow_ns;
    return !has_passed(s, no_earlier(s, call->start_ns), limit > call->limit_ns ? limit : call->limit_ns);
}

/* A call of libdcgm, which is not about one GPU, or one about two: blaming either could isolate it for the other's
 * hang, and the one that hangs soon misses a call of its own. No GPU of this sampler is blamed: they go to others, and
 * this sampler does not count if it never ends. */
static void note_hang_of_none(Supervisor *s, uint32_t at, bool pair)
{
    Slot *slot = &s->slots[at];
    char what[NODE_WHY_CAP];

    snprintf(what, sizeof(what), "%s of sampler %d does not return", supervisor_function_text(slot->miss.function),
             (int)slot->pid);
    if (pair) {
        supervisor_log(s, LOG_LEVEL_WARN,
                       "%s; it is about two GPUs, neither is blamed, and no pair is asked about for %u minutes.", what,
                       (unsigned)(PAIRS_PAUSE_NS / NS_PER_MIN));
        pause_pairs(s, s->now_ns + PAIRS_PAUSE_NS);
    } else {
        pause_dcgm(s, what);
    }
    slot->forgiven = true;
    s->shared = s->shared == at ? NO_SLOT : s->shared;
    supervisor_gpus_unassign(s, at, NO_GPU);
}

/* The call of slot `at` missed its deadline. */
static void miss_deadline(Supervisor *s, uint32_t at, const Call *call)
{
    Slot *slot = &s->slots[at];
    bool ours = call->gpu < s->gpu_count && s->gpus[call->gpu].slot == at;
    const CallKind kind = find_call_kind(call->function);

    slot->miss = (Miss){.slot = at, .order = slot->order, .start_ns = call->start_ns, .function = call->function};
    slot->miss_gpu = ours ? call->gpu : NO_GPU;
    set_state(s, slot, SAMPLER_STUCK);
    note_wchan(s, slot);
    if (kind == CALL_PAIR || kind == CALL_DCGM) {
        note_hang_of_none(s, at, kind == CALL_PAIR);
    } else if (ours) {
        supervisor_gpu_note_hang(s, call->gpu, &slot->miss);
        supervisor_gpus_unassign(s, at, call->gpu);
        slot->solo = call->gpu;
        s->shared = s->shared == at ? NO_SLOT : s->shared;
    } else if (call->gpu == UINT32_MAX && slot->attaches && s->shared == at && !s->attach_hung) {
        /* one bad GPU is enough for that: the others are tried without it, at once */
        s->attach_hung = true;
        s->shared = NO_SLOT;
        supervisor_gpus_unassign(s, at, NO_GPU);
        supervisor_log(s, LOG_LEVEL_WARN, "%s of sampler %d does not return; another is started that wakes no GPU.",
                       supervisor_function_text(call->function), (int)slot->pid);
    } else if (call->gpu == UINT32_MAX) {
        if (slot->solo == NO_GPU) {
            s->driver_hung = true;
            s->driver_miss = slot->miss;
            supervisor_log(s, LOG_LEVEL_WARN, "The driver as a whole hangs: %s does not return.",
                           supervisor_function_text(call->function));
        }
        for (uint32_t i = 0; i < s->gpu_count; i++)
            if (s->gpus[i].slot == at)
                supervisor_gpu_note_hang(s, i, &slot->miss);
    } else {
        lose_gpus(s, at, NO_GPU);
    }
}

/* A call keeps the shared sampler for long: the GPU keeps it, the others do not wait for that. Where this sampler has
 * not read them all yet, others may hang too: each gets a sampler of its own at once, so that all deadlines run beside
 * one another. Those that are well come together again soon. */
static void part_gpus(Supervisor *s, uint32_t at, const Call *call)
{
    bool each = find_call_kind(call->function) == CALL_ATTACH;
    uint32_t others = 0, slots = 0;

    if (s->shared != at || call->gpu >= s->gpu_count || s->gpus[call->gpu].slot != at)
        return;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const bool other = s->gpus[i].slot == at && i != call->gpu;

        others += other;
        each |= other && atomic_load(&s->board->gpus[i].outcome) == BOARD_NOT_TRIED;
    }
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        slots += s->slots[i].state == SAMPLER_FREE;
    each = each && slots > others + SLOTS_RESERVED;
    const uint64_t limit_ns =
        each && (s->attach_hung || supervisor_gpus_in_trouble(s)) ? s->limits.call_ns / 2 : s->limits.call_ns;

    if (others == 0 || !has_passed(s, no_earlier(s, call->start_ns), limit_ns))
        return;
    supervisor_log(s, LOG_LEVEL_DEBUG, "%s of sampler %d takes long; the other GPUs go on without it.",
                   supervisor_function_text(call->function), (int)s->slots[at].pid);
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].slot == at && (each || i == call->gpu)) {
            supervisor_gpu_isolate(s, i);
            s->gpus[i].apart = true; /* for a short while */
            s->gpus[i].retry_ns = s->now_ns;
        }
    supervisor_gpus_unassign(s, at, call->gpu);
    s->slots[at].solo = call->gpu;
    s->shared = NO_SLOT;
}

static void note_return(Supervisor *s, uint32_t at)
{
    Slot *slot = &s->slots[at];

    supervisor_log(s, LOG_LEVEL_DEBUG, "%s of sampler %d has returned.", supervisor_function_text(slot->miss.function),
                   (int)slot->pid);
    set_state(s, slot, SAMPLER_RUNNING);
    slot->life_ns = s->now_ns;
    slot->wchan[0] = '\0';
    if (slot->miss_gpu != NO_GPU && slot->miss_gpu == slot->solo)
        supervisor_gpu_note_slow_call(s, slot->solo, slot->miss.function, s->now_ns - slot->miss.start_ns);
    slot->miss_gpu = NO_GPU;
    if (s->shared != at && (slot->solo == NO_GPU || s->gpus[slot->solo].slot != at))
        supervisor_slot_end(s, at);
}

/* A stuck one is given up: its GPUs are tried again by others. */
static void kill_stuck_sampler(Supervisor *s, uint32_t at)
{
    supervisor_log(s, LOG_LEVEL_INFO, "Sampler %d is killed: %s does not return.", (int)s->slots[at].pid,
                   supervisor_function_text(s->slots[at].miss.function));
    if (s->slots[at].miss_gpu != NO_GPU)
        s->gpus[s->slots[at].miss_gpu].slow_ns = 0; /* it was no slow one */
    kill_process(s, at);
    lose_gpus(s, at, NO_GPU);
}

/* ---- looking ---- */

/* It is given one time for all that it does. */
static void check_probe(Supervisor *s, uint32_t at)
{
    Slot *slot = &s->slots[at];
    const BoardSampler *board = &s->board->samplers[at];

    if (!has_passed(s, no_earlier(s, slot->started_ns), PROBE_LIMIT_NS))
        return;
    slot->miss = (Miss){.slot = at,
                        .order = slot->order,
                        .start_ns = atomic_load(&board->call_start_ns),
                        .function = atomic_load(&board->call_function)};
    note_wchan(s, slot);
    if (slot->miss.start_ns == 0) { /* it was not the driver that kept it */
        supervisor_log(s, LOG_LEVEL_DEBUG, "A probe of the driver did not get along; it is killed.");
    } else {
        snprintf(s->view.probe.why, sizeof(s->view.probe.why), "a new client gets no answer: %s did not return in time",
                 supervisor_function_text(slot->miss.function));
        note_refusal(s, NODE_DRIVER_HANGS, 0);
    }
    kill_process(s, at);
}

static void check_beat(Supervisor *s, uint32_t at)
{
    Slot *slot = &s->slots[at];
    uint64_t beat = atomic_load(&s->board->samplers[at].beat_ns);
    uint64_t limit = s->limits.beat_ns + (slot->beat_ns || beat ? 0 : s->limits.attach_ns);

    if (beat != slot->beat_ns) {
        slot->beat_ns = beat;
        slot->life_ns = s->now_ns;
    }
    if (!has_passed(s, no_earlier(s, slot->life_ns), limit))
        return;
    supervisor_log(s, LOG_LEVEL_WARN, "Sampler %d gives no sign of life; it is killed and replaced.", (int)slot->pid);
    note_wchan(s, slot);
    kill_process(s, at);
    lose_gpus(s, at, NO_GPU);
}

static void check_alive(Supervisor *s, uint32_t at)
{
    Slot *slot = &s->slots[at];
    const BoardSampler *board = &s->board->samplers[at];
    Call call;

    if (slot->state == SAMPLER_STARTING && (atomic_load(&board->passes) || atomic_load(&board->driver)))
        set_state(s, slot, SAMPLER_RUNNING);
    if (!read_call(s, at, &call)) {
        slot->life_ns = s->now_ns;
    } else if (call.start_ns == 0 || call.start_ns > s->now_ns) {
        check_beat(s, at);
    } else {
        slot->life_ns = s->now_ns;
        if (has_passed(s, no_earlier(s, call.start_ns), call.limit_ns) && !is_slow(s, at, &call))
            miss_deadline(s, at, &call);
        else
            part_gpus(s, at, &call);
    }
}

void supervisor_slot_check(Supervisor *s, uint32_t at)
{
    Slot *slot = &s->slots[at];

    if (slot->state == SAMPLER_FREE)
        return;
    SubprocEnd end = {0};

    if (s->ops->gone(s->self, at, slot->pid, &end)) {
        slot_gone(s, at, &end);
    } else if (slot->state == SAMPLER_KILLED) {
        if (has_passed(s, slot->since_ns, s->limits.abandon_ns))
            abandon_process(s, at);
    } else if (slot->state == SAMPLER_ABANDONED) {
        return;
    } else if (slot->ending_ns) {
        if (!has_passed(s, slot->ending_ns, ENDING_NS))
            return;
        if (slot->lost)
            supervisor_log(s, LOG_LEVEL_WARN, "Sampler %d closed its socket and does not end; it is killed.",
                           (int)slot->pid);
        kill_process(s, at);
    } else if (slot->probe) {
        check_probe(s, at);
    } else if (slot->closed) { /* as good as ended; how it ends is seen in a moment */
        note_unexpected_end(s, at);
        supervisor_slot_end(s, at);
    } else if (slot->state == SAMPLER_STUCK) {
        if (atomic_load(&s->board->samplers[at].call_start_ns) != slot->miss.start_ns)
            note_return(s, at);
        else if (has_passed(s, no_earlier(s, slot->since_ns), s->limits.kill_ns))
            kill_stuck_sampler(s, at);
    } else {
        check_alive(s, at);
    }
}

/* ---- sending probes ---- */

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

/* Only beside a sampler that holds every GPU that the driver has, so that a probe wakes none up. */
static bool may_send_probe(const Supervisor *s)
{
    bool any = false;

    if (s->released || s->release_until_ns || s->shared == NO_SLOT || s->slots[s->shared].state != SAMPLER_RUNNING ||
        shared_driver(s) != BOARD_DRIVER_FINE || supervisor_gpus_in_trouble(s))
        return false;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const GpuState state = s->gpus[i].state;

        if (state != GPU_UP && state != GPU_MISSING && state != GPU_GONE)
            return false;
        any |= state != GPU_GONE;
    }
    return any;
}

/* For how long the last GPU has been missing that the bus has and the driver not; UINT64_MAX: there is none. */
static uint64_t missing_for(const Supervisor *s)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].state == GPU_MISSING)
            least = number_min_u64(least, agent_now(s) - board_at(s->board, s->gpus[i].since_ns));
    return least;
}

/* The time to the next probe: as long as a GPU has been missing, so that one which was added just now is seen soon. */
static uint64_t probe_pause(const Supervisor *s)
{
    const uint64_t missing = missing_for(s);

    return number_min_u64(s->limits.probe_ns, missing < PROBE_MISSING_NS ? PROBE_MISSING_NS - missing : missing);
}

void supervisor_probe_send(Supervisor *s)
{
    Probing *p = &s->probing;
    uint32_t driver = shared_driver(s);

    if (s->limits.probe_ns == 0)
        return;
    if (s->released || driver == BOARD_DRIVER_INIT_FAILED || driver == BOARD_DRIVER_NO_LIBRARY ||
        (s->view.probe.count && another_is_served(s)))
        forget_answer(s); /* reported by the samplers themselves, or no longer true */
    if (p->slot != NO_SLOT && s->slots[p->slot].state == SAMPLER_ABANDONED && s->view.probe.count == 1)
        s->view.probe.count = 2; /* none is sent while it is there: it is sure enough */
    if (!may_send_probe(s)) {
        if (p->slot != NO_SLOT && slot_alive(&s->slots[p->slot]))
            kill_process(s, p->slot);
        return;
    }
    if (p->due_ns == 0 || missing_for(s) < PROBE_MISSING_NS)
        p->due_ns = agent_now(s) + probe_pause(s);
    if (p->slot != NO_SLOT || agent_now(s) < p->due_ns)
        return;
    p->due_ns = agent_now(s) + probe_pause(s);
    p->slot = start_probe(s);
    if (p->slot != NO_SLOT)
        p->order = s->slots[p->slot].order;
}
