/* SPDX-License-Identifier: Apache-2.0 */
/* Entries begin, take evidence or give it to a parent, open and close, as time goes on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "engine/health/incidents_entry.h"

static uint64_t elapsed_ns(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

bool incidents_insert(Incidents *incidents, IncidentEntry *entry)
{
    if (incidents->count == INCIDENTS_MAX)
        return false;
    incidents->entries[incidents->count++] = entry;
    incidents->disordered = true;
    return true;
}

/* It stays in the list, which others may be going through, as one that nothing finds. */
static void release_entry(Incidents *incidents, IncidentEntry *entry)
{
    incidents_move_followers(incidents, entry, NULL);
    entry->it.state = INCIDENT_CLEARED;
    entry->it.end = INCIDENT_END_MERGED;
    entry->key.class = NULL;
    entry->gone = incidents->disordered = true;
}

static int compare_entries(const void *a, const void *b)
{
    const Incident *left = &(*(IncidentEntry *const *)a)->it, *right = &(*(IncidentEntry *const *)b)->it;
    bool left_pending = left->state == INCIDENT_PENDING, right_pending = right->state == INCIDENT_PENDING;

    if (left_pending != right_pending)
        return right_pending - left_pending;
    if (left_pending) /* none has an id yet */
        return (left->first_ns > right->first_ns) - (left->first_ns < right->first_ns);
    return strcmp(left->id, right->id);
}

void incidents_sort(Incidents *incidents)
{
    size_t kept = 0;

    if (!incidents->disordered)
        return;
    for (size_t i = 0; i < incidents->count; i++)
        if (incidents->entries[i]->gone)
            free(incidents->entries[i]);
        else
            incidents->entries[kept++] = incidents->entries[i];
    incidents->count = kept;
    incidents->disordered = false;
    qsort(incidents->entries, kept, sizeof incidents->entries[0], compare_entries);
}

static bool is_milder(const Incident *it, FaultSeverity severity, FaultRoute route)
{
    return it->severity < severity || (it->severity == severity && it->route < route);
}

/* The entry that is evicted first: the oldest cleared one, then a pending one, then the mildest that is milder than
 * `in`. NULL: every one is as bad as this. */
static IncidentEntry *find_expendable(const Incidents *incidents, const Evidence *in)
{
    IncidentEntry *cleared = NULL, *pending = NULL, *mild = NULL;

    for (size_t i = incidents->count; i-- > 0;) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state == INCIDENT_CLEARED) {
            if (!cleared || entry->cleared_ns < cleared->cleared_ns)
                cleared = entry;
        } else if (entry->it.state == INCIDENT_PENDING && entry->stage != STAGE_DUE) {
            if (!pending || entry->near_ns < pending->near_ns)
                pending = entry;
        } else if (is_milder(&entry->it, in->verdict.severity, in->verdict.route) &&
                   (!mild || is_milder(&entry->it, mild->it.severity, mild->it.route))) {
            mild = entry;
        }
    }
    return cleared ? cleared : pending ? pending : in->verdict.silent ? NULL : mild;
}

/* Of zeroed memory: it is pending, and nothing but silent evidence came. */
static void fill_entry(const Incidents *incidents, IncidentEntry *entry, const Evidence *in)
{
    Owner owners[INCIDENT_OWNERS];
    Incident *it = &entry->it;

    it->device = in->device;
    it->pid = in->pid;
    it->code = in->code;
    it->says = in->verdict.says;
    it->first_ns = in->time_ns;
    it->first_real_ns = in->real_ns;
    it->before = in->before;
    memcpy(it->process, in->process, sizeof it->process);
    strncpy(it->class, in->key.class->id, sizeof it->class - 1);
    strncpy(it->rule, in->verdict.rule->id, sizeof it->rule - 1);
    strncpy(it->runbook, in->key.class->runbook, sizeof it->runbook - 1);
    incident_set_owners(it, owners, incidents_find_owners(incidents, in, owners));
    entry->key = in->key;
    entry->decided = in->decides;
    entry->caused_by = in->caused_by;
    entry->onset_ns = in->time_ns;
}

/* Makes room for a new entry. */
static bool evict_entry(Incidents *incidents, const Evidence *in)
{
    IncidentEntry *old;

    incidents_sort(incidents);
    if (incidents->count < INCIDENTS_MAX)
        return true;
    old = find_expendable(incidents, in);
    if (!old)
        return false;
    if (old->it.state == INCIDENT_OPEN)
        incidents_close(incidents, old, INCIDENT_END_QUIET);
    release_entry(incidents, old);
    incidents_sort(incidents);
    return true;
}

/* NULL: the table is full of worse ones. */
static IncidentEntry *make_entry(Incidents *incidents, const Evidence *in)
{
    IncidentEntry *entry;

    if (incidents->count == INCIDENTS_MAX && !evict_entry(incidents, in))
        return NULL;
    entry = xcalloc(1, sizeof *entry);
    fill_entry(incidents, entry, in);
    memcpy(entry->it.driver_version, incidents->driver_version, sizeof incidents->driver_version);
    incidents_insert(incidents, entry);
    return entry;
}

/* --- what stands from before the start ---------------------------------------------------------------------------- */

/*
 * Whether a fault from before the agent's start still stands, by the readings of now. A reset of a GPU leaves no line
 * in the kernel log, so a line of this boot's log alone does not tell. It stands where a reading speaks for it, where
 * the GPU does not answer, and where nothing can be read that has to do with it.
 */

/* Above zero each speaks for a fault; the first for any of the hardware, the others for one of the memory. The driver
 * sets all of them back in a reset (the counts are those since the driver was loaded). */
static const MetricId tellings[INCIDENTS_TELLINGS] = {
    METRIC_GPU_RECOVERY_ACTION,
    METRIC_ECC_DBE_VOL_TOTAL,
    METRIC_ROW_REMAP_PENDING,
    METRIC_RETIRED_PENDING,
};

/* By the cause of a fault: whether the driver's recovery action has to do with it, and whether a GPU that answers
 * refutes it. */
static const struct {
    bool recovers, answers;
} causes[CAUSE_END] = {
    [CAUSE_MEMORY] = {true, false}, [CAUSE_LINK] = {true, false},  [CAUSE_FABRIC] = {true, false},
    [CAUSE_BUS] = {true, true},     [CAUSE_DRIVER] = {true, true}, [CAUSE_FIRMWARE] = {true, true},
};

void incidents_note_readings(IncidentGpu *gpu, const NodeGpu *now)
{
    gpu->state = now->state;
    gpu->sampled_ns = now->last_sample_ns;
    gpu->link_down = false;
    for (size_t i = 0; i < INCIDENTS_TELLINGS; i++)
        gpu->told[i] = now->reading.sample[tellings[i]];
    for (uint32_t i = 0; i < now->link_count; i++)
        gpu->link_down |= now->links[i].active.valid && now->links[i].active.value.i == 0;
}

/* What only a reset or more ends, takes the GPU out of use until then, or leaves its mark in counters until then. */
static bool lasts_until_reset(const IncidentEntry *entry)
{
    const FaultClear clear = entry->key.class->clear;

    if (clear == CLEAR_REPLACED || clear == CLEAR_HAND)
        return false;
    return (clear >= CLEAR_RESET && clear <= CLEAR_REBOOT) || entry->it.severity == SEVERITY_FATAL ||
           entry->it.cause == CAUSE_MEMORY || incidents_action_depth(entry->it.action) > 0;
}

static bool is_about(const IncidentEntry *entry, size_t telling)
{
    return telling == 0 ? causes[entry->it.cause].recovers || entry->decided : entry->it.cause == CAUSE_MEMORY;
}

/* Whether the reading spoke for the fault when that was seen. Of a line from before the start that is not known. */
static bool spoke_then(const IncidentEntry *entry, size_t telling)
{
    const Incident *it = &entry->it;
    const char *name = metric_get(tellings[telling])->name;

    if (!entry->restored || (telling == 0 && entry->decided))
        return true;
    for (uint32_t i = 0; i < it->counter_len; i++)
        if (strcmp(it->counters[i].name, name) == 0 && it->counters[i].after > 0)
            return true;
    return false;
}

/* By the readings of a GPU that is up, `since_ns` at least. */
static IncidentPast find_past_by_readings(const IncidentEntry *entry, const IncidentGpu *gpu, uint64_t since_ns)
{
    bool refuted = !entry->restored && causes[entry->it.cause].answers;
    bool waits = gpu->sampled_ns < since_ns;
    double value;

    for (size_t i = 0; i < INCIDENTS_TELLINGS; i++) {
        const Sample *sample = &gpu->told[i];

        if (!is_about(entry, i))
            continue;
        if (!sample_double(sample, &value)) {
            waits |= sample->absence == ABSENCE_NOT_YET;
            continue;
        }
        if (value > 0)
            return PAST_STANDS;
        waits |= sample->time_ns < since_ns;
        refuted |= spoke_then(entry, i);
    }
    return waits ? PAST_WAITS : refuted ? PAST_OVER : PAST_STANDS;
}

static IncidentPast find_past_of_gpu(const IncidentEntry *entry, const IncidentGpu *gpu)
{
    if (gpu->state == GPU_STARTING || gpu->state == GPU_NO_DRIVER || gpu->state == GPU_RELEASED)
        return PAST_WAITS;
    if (gpu->state != GPU_UP || gpu->sampled_ns == 0)
        return PAST_STANDS;
    if (gpu->link_down && (entry->it.cause == CAUSE_LINK || entry->it.cause == CAUSE_FABRIC))
        return PAST_STANDS;
    return find_past_by_readings(entry, gpu, entry->it.last_evidence_ns + INCIDENTS_SETTLE_NS);
}

/* A fault of the fabric is over where it is so on every GPU. */
static IncidentPast find_past_of_fabric(const Incidents *incidents, const IncidentEntry *entry)
{
    IncidentPast all = incidents->gpu_count > 0 ? PAST_OVER : PAST_STANDS;

    for (size_t i = 0; i < incidents->gpu_count && all != PAST_STANDS; i++) {
        const IncidentPast one = find_past_of_gpu(entry, &incidents->gpus[i]);

        all = one == PAST_OVER ? all : one;
    }
    return all;
}

/* Of an entry from a line before the start, or from the journal. */
static IncidentPast find_past(const Incidents *incidents, const IncidentEntry *entry)
{
    const IncidentGpu *gpu;
    IncidentPast word = PAST_STANDS;

    if (!entry->key.class || !lasts_until_reset(entry))
        return PAST_STANDS;
    if (entry->it.cause == CAUSE_FABRIC && incident_is_wide(&entry->key)) {
        word = find_past_of_fabric(incidents, entry);
    } else if (!incident_is_wide(&entry->key)) {
        gpu = incidents_find_gpu(incidents, entry->key.place);
        word = gpu ? find_past_of_gpu(entry, gpu) : PAST_WAITS;
    }
    return word == PAST_WAITS && incidents->now_ns >= incidents->began_ns + INCIDENTS_PAST_NS ? PAST_STANDS : word;
}

/* --- closing ------------------------------------------------------------------------------------------------------ */

void incidents_close(Incidents *incidents, IncidentEntry *entry, IncidentEnd end)
{
    incidents_move_followers(incidents, entry, NULL);
    if (entry->it.state == INCIDENT_PENDING) {
        release_entry(incidents, entry);
        return;
    }
    entry->it.state = INCIDENT_CLEARED;
    entry->it.end = end;
    entry->it.cleared_real_ns = incidents->real_ns;
    entry->cleared_ns = incidents->now_ns;
    entry->hold_count = 0;
    incidents_report(incidents, entry, INCIDENT_CHANGE_CLEARED);
}

/* How an event of this kind ends what ends so; NOT_ENDED: it does not. */
static IncidentEnd find_end(FaultClear clear, EventKind kind)
{
    switch (kind) {
    case EVENT_RESET:
        return clear == CLEAR_RESET ? INCIDENT_END_RESET : INCIDENT_END_NOT_ENDED;
    case EVENT_MODULE_LOADED:
        return clear >= CLEAR_RESET && clear <= CLEAR_DRIVER ? INCIDENT_END_DRIVER_RELOAD : INCIDENT_END_NOT_ENDED;
    case EVENT_REBOOT:
        return clear >= CLEAR_RESET && clear <= CLEAR_REBOOT ? INCIDENT_END_REBOOT : INCIDENT_END_NOT_ENDED;
    default:
        return kind == EVENT_REPLACED ? INCIDENT_END_REPLACED : INCIDENT_END_NOT_ENDED;
    }
}

/* A fault of the fabric or the node is over when every GPU was reset after it. */
static bool is_all_reset(const Incidents *incidents, const IncidentEntry *entry)
{
    for (size_t i = 0; i < incidents->gpu_count; i++)
        if (incidents->gpus[i].reset_ns < entry->it.last_evidence_ns || incidents->gpus[i].reset_ns == 0)
            return false;
    return incidents->gpu_count > 0;
}

static bool is_reached(const Incidents *incidents, const IncidentEntry *entry, EventKind kind, uint64_t place)
{
    if (place == 0 || entry->key.place == place)
        return true;
    return kind == EVENT_RESET && incident_is_wide(&entry->key) && is_all_reset(incidents, entry);
}

/* A boot is dated by the wall clock, since evidence from before it comes from the journal; so are log lines from before
 * the agent's start. */
static bool is_before(const IncidentEntry *entry, EventKind kind, uint64_t time_ns, uint64_t real_ns)
{
    if (kind == EVENT_REBOOT || time_ns == 0)
        return entry->last_real_ns <= real_ns;
    return entry->it.last_evidence_ns <= time_ns;
}

void incidents_close_by(Incidents *incidents, EventKind kind, uint64_t place, uint64_t time_ns, uint64_t real_ns)
{
    for (size_t i = 0; kind == EVENT_RESET && i < incidents->gpu_count; i++)
        if (place == 0 || incident_place(&incidents->gpus[i].device) == place)
            incidents->gpus[i].reset_ns = time_ns;
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];
        const IncidentEnd end = entry->key.class ? find_end(entry->key.class->clear, kind) : INCIDENT_END_NOT_ENDED;

        if (entry->it.state != INCIDENT_CLEARED && end != INCIDENT_END_NOT_ENDED &&
            is_reached(incidents, entry, kind, place) && is_before(entry, kind, time_ns, real_ns))
            incidents_close(incidents, entry, end);
    }
}

static bool holds_now(const Incidents *incidents, const IncidentEntry *entry)
{
    for (size_t i = 0; i < entry->hold_count; i++)
        if (entry->holds[i].tick == incidents->tick)
            return true;
    return false;
}

static bool is_quiet_for(const Incidents *incidents, const IncidentEntry *entry, uint64_t quiet_ns)
{
    return !holds_now(incidents, entry) && elapsed_ns(incidents->now_ns, entry->it.last_evidence_ns) >= quiet_ns;
}

static bool is_condition(const IncidentEvidence *evidence)
{
    return evidence->origin == EVENT_FROM_AGENT && !evidence->echo;
}

/* Whether a condition has held since it opened; of a restored one its evidence tells. */
static bool had_condition(const IncidentEntry *entry)
{
    const Incident *it = &entry->it;
    bool any = entry->hold_count > 0;

    for (uint32_t i = 0; entry->restored && i < it->first_len; i++)
        any |= is_condition(&it->first[i]);
    for (uint32_t i = 0; entry->restored && i < it->last_len; i++)
        any |= is_condition(&it->last[i]);
    return any;
}

static IncidentEnd find_open_end(const Incidents *incidents, const IncidentEntry *entry)
{
    const FaultClass *class = entry->key.class;
    uint64_t quiet_ns = class->quiet_ns > 0 ? class->quiet_ns : INCIDENTS_QUIET_NS;

    if (class->clear == CLEAR_GONE && had_condition(entry))
        return incidents->now_ns >= entry->grace_ns && is_quiet_for(incidents, entry, entry->keep_ns)
                   ? INCIDENT_END_GONE
                   : INCIDENT_END_NOT_ENDED;
    if (class->clear == CLEAR_GONE) /* of events alone */
        quiet_ns = number_max_u64(quiet_ns, class->keep_ns);
    else if (class->clear == CLEAR_HAND || (class->clear != CLEAR_QUIET && class->quiet_ns == 0))
        return INCIDENT_END_NOT_ENDED;
    return is_quiet_for(incidents, entry, quiet_ns) ? INCIDENT_END_QUIET : INCIDENT_END_NOT_ENDED;
}

/* An entry that waits for its `for` ends at the first tick without its condition; a silent one when no parent can come
 * any more. */
static bool is_pending_over(const Incidents *incidents, const IncidentEntry *entry)
{
    const FaultClass *class = entry->key.class;
    uint64_t window = class->parent_ns > 0 ? class->parent_ns : INCIDENTS_DECIDE_NS;

    if (entry->stage == STAGE_DUE) /* from before the start and held back: what has ended since is not reported */
        return class->clear != CLEAR_HAND && class->clear != CLEAR_REPLACED && entry->it.before &&
               (find_open_end(incidents, entry) != INCIDENT_END_NOT_ENDED ||
                (!incidents->replaying && find_past(incidents, entry) == PAST_OVER));
    if (entry->stage == STAGE_SILENT)
        return !holds_now(incidents, entry) && elapsed_ns(incidents->now_ns, entry->near_ns) > window;
    return !holds_now(incidents, entry);
}

static void close_ended(Incidents *incidents)
{
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];
        IncidentEnd end = INCIDENT_END_NOT_ENDED;

        if (entry->it.state == INCIDENT_OPEN && !entry->key.class)
            end = INCIDENT_END_HAND;
        else if (entry->it.state == INCIDENT_OPEN && entry->restored && find_past(incidents, entry) == PAST_OVER)
            end = INCIDENT_END_RESET; /* while the agent was not running */
        else if (entry->it.state == INCIDENT_OPEN)
            end = find_open_end(incidents, entry);
        else if (entry->it.state == INCIDENT_PENDING && is_pending_over(incidents, entry))
            end = INCIDENT_END_QUIET;
        else if (entry->it.state == INCIDENT_CLEARED &&
                 elapsed_ns(incidents->now_ns, entry->cleared_ns) >
                     (incidents_action_depth(entry->it.action) > 1 ? INCIDENTS_HISTORY_NS : INCIDENTS_KEPT_NS))
            release_entry(incidents, entry);
        if (end != INCIDENT_END_NOT_ENDED)
            incidents_close(incidents, entry, end);
    }
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static bool is_other_board(const Device *a, const Device *b)
{
    return a->uuid[0] && b->uuid[0] && strcmp(a->uuid, b->uuid) != 0;
}

/* Whether `old` was the same fault of the same thing, over since, in an earlier boot: its remedy, a reboot, was done.
 */
static bool was_remedied(const Incidents *incidents, const IncidentEntry *old, const IncidentEntry *now,
                         const FaultRule *rule)
{
    const IncidentEnd end = old->it.end;

    return old != now && old->it.state == INCIDENT_CLEARED && end != INCIDENT_END_MERGED &&
           end != INCIDENT_END_REPLACED && end != INCIDENT_END_HAND && incident_key_equal(&old->key, &now->key) &&
           !is_other_board(&old->it.device, &now->it.device) && rule->remedies >> old->it.action & 1 &&
           old->last_real_ns < incidents->boot_real_ns && now->it.first_real_ns >= incidents->boot_real_ns &&
           old->last_real_ns + rule->within_ns >= now->it.first_real_ns;
}

/* The rule by which an entry that opens is a fault that is back though its remedy was tried; NULL none. */
static const FaultRule *find_repeat(const Incidents *incidents, const IncidentEntry *entry)
{
    const FaultRule *rule = NULL;

    while (incidents->boot_real_ns > 0 &&
           (rule = catalogue_next_repeat(incidents->catalogue, entry->key.class, rule))) {
        uint64_t times = 1;

        for (size_t i = 0; i < incidents->count; i++)
            times += was_remedied(incidents, incidents->entries[i], entry, rule);
        if (times >= rule->many && rule->remedies >> entry->it.action & 1)
            return rule;
    }
    return NULL;
}

static void add_repeat(Incidents *incidents, IncidentEntry *entry, const FaultRule *rule)
{
    Evidence in = {.verdict = {.rule = rule, .fault = entry->key.class, .says = entry->it.says},
                   .origin = EVENT_FROM_AGENT,
                   .before = entry->it.before,
                   .time_ns = entry->it.last_evidence_ns,
                   .real_ns = entry->last_real_ns,
                   .pid = -1};
    char within[DURATION_TEXT_MAX];

    in.verdict.action = rule->action;
    in.verdict.severity = rule->severity > entry->it.severity ? rule->severity : entry->it.severity;
    in.verdict.route = rule->route > entry->it.route ? rule->route : entry->it.route;
    duration_format(within, rule->within_ns);
    snprintf(in.text, sizeof in.text, "the same as within the last %s, and the node was rebooted since", within);
    incidents_add_own(incidents, entry, &in);
}

static bool is_due(const Incidents *incidents, const IncidentEntry *entry)
{
    if (entry->it.state != INCIDENT_PENDING || entry->stage == STAGE_DUE)
        return entry->it.state == INCIDENT_PENDING &&
               !(entry->it.before && (incidents->replaying || find_past(incidents, entry) == PAST_WAITS));
    for (size_t i = 0; i < entry->hold_count; i++) {
        const IncidentHold *hold = &entry->holds[i];

        if (entry->stage != STAGE_SILENT && hold->tick == incidents->tick &&
            incidents->now_ns >= number_min_u64(hold->since_ns, UINT64_MAX - hold->for_ns) + hold->for_ns)
            return true;
    }
    return false;
}

static bool was_reported_worse(const IncidentEntry *parent, const IncidentEntry *child)
{
    return child->it.state == INCIDENT_OPEN &&
           (child->it.severity > parent->it.severity || child->it.route > parent->it.route);
}

/* Whether another entry that is due is above this one, and opens first. */
static bool waits_for_parent(const Incidents *incidents, const IncidentEntry *entry)
{
    for (size_t i = 0; i < incidents->count; i++)
        if (is_due(incidents, incidents->entries[i]) && incidents_is_consequence(incidents->entries[i], entry))
            return true;
    return false;
}

/* Moves entries that came before their parent into it. Open ones are returned: they close after it has opened. */
static size_t absorb_children(Incidents *incidents, IncidentEntry *parent, IncidentEntry *ret_open[INCIDENTS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *child = incidents->entries[i];

        if (!incidents_is_consequence(parent, child) || was_reported_worse(parent, child))
            continue;
        incidents_absorb(incidents, parent, child, true);
        if (child->hold_count > 0)
            incidents_follow(incidents, &child->key, parent, child->near_ns);
        if (child->it.state == INCIDENT_OPEN)
            ret_open[count++] = child;
        else
            release_entry(incidents, child);
    }
    return count;
}

/* A fault that came back soon after its end continues its old incident. */
static IncidentEntry *reopen_entry(Incidents *incidents, IncidentEntry *entry)
{
    IncidentEntry *old = incidents_find_cleared(incidents, &entry->key);
    if (!old || elapsed_ns(entry->onset_ns, old->cleared_ns) > entry->key.class->reopen_ns ||
        elapsed_ns(old->cleared_ns, entry->onset_ns) > entry->key.class->reopen_ns)
        return NULL;
    old->it.state = INCIDENT_PENDING; /* reported by the caller */
    incidents_absorb(incidents, old, entry, false);
    old->it.reopened++;
    old->it.cleared_real_ns = 0;
    old->it.end = INCIDENT_END_NOT_ENDED;
    old->it.last_evidence_ns = entry->it.last_evidence_ns;
    old->it.before = entry->it.before;
    old->onset_ns = entry->onset_ns;
    old->near_ns = entry->near_ns;
    old->last_real_ns = entry->last_real_ns;
    old->decided = entry->decided;
    old->stage = STAGE_HOLDS;
    old->restored = false;
    old->keep_ns = entry->keep_ns;
    old->grace_ns = 0;
    old->hold_count = entry->hold_count;
    memcpy(old->holds, entry->holds, sizeof old->holds);
    release_entry(incidents, entry);
    incidents->disordered = true;
    return old;
}

/* Marks the incident as silenced by the maintenance window that covers it now, or by none; true: that is new. */
static bool note_window(const Incidents *incidents, Incident *it)
{
    const MaintenanceWindow *window =
        incidents->maintenance ? maintenance_covers(incidents->maintenance, &it->device) : NULL;
    const bool silenced = window != NULL;

    if (it->silenced == silenced && strcmp(it->window, window ? window->id : "") == 0)
        return false;
    it->silenced = silenced;
    memset(it->window, 0, sizeof it->window);
    if (window)
        memcpy(it->window, window->id, sizeof it->window);
    return true;
}

static void open_entry(Incidents *incidents, IncidentEntry *entry)
{
    const FaultRule *repeat = find_repeat(incidents, entry);
    IncidentEntry *old = reopen_entry(incidents, entry), *children[INCIDENTS_MAX];
    Incident *it;
    size_t count;

    entry = old ? old : entry;
    it = &entry->it;
    if (repeat)
        add_repeat(incidents, entry, repeat);
    if (!old) {
        incidents->last_id = incident_id_next(incidents->last_id, incidents->real_ns, it->id);
        it->opened_ns = incidents->now_ns;
        it->opened_real_ns = incidents->real_ns;
    }
    count = absorb_children(incidents, entry, children);
    it->state = INCIDENT_OPEN;
    incidents->disordered = true;
    note_window(incidents, it);
    incidents_report(incidents, entry, old ? INCIDENT_CHANGE_REOPENED : INCIDENT_CHANGE_OPENED);
    for (size_t i = 0; i < count; i++)
        incidents_close(incidents, children[i], INCIDENT_END_MERGED);
}

/* A parent before its consequences, so that those are never reported; of a circle of them the first. NULL: none is due.
 */
static IncidentEntry *find_next_due(const Incidents *incidents)
{
    IncidentEntry *waiting = NULL;

    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (!is_due(incidents, entry))
            continue;
        if (!waits_for_parent(incidents, entry))
            return entry;
        waiting = waiting ? waiting : entry;
    }
    return waiting;
}

/* --- evidence ----------------------------------------------------------------------------------------------------- */

static void give_to_parent(Incidents *incidents, IncidentEntry *parent, IncidentEntry *pending, const Evidence *in)
{
    if (pending) {
        incidents_absorb(incidents, parent, pending, true);
        release_entry(incidents, pending);
    }
    if (in->holds)
        incidents_follow(incidents, &in->key, parent, in->time_ns);
    incidents_add_echo(incidents, parent, in, false);
}

/* Just after a reset a condition may come of readings from before it. */
static bool is_stale_condition(const Incidents *incidents, const Evidence *in)
{
    const IncidentEntry *old = in->holds ? incidents_find_cleared(incidents, &in->key) : NULL;

    return old && (old->it.end == INCIDENT_END_RESET || old->it.end == INCIDENT_END_DRIVER_RELOAD) &&
           in->time_ns < old->cleared_ns + INCIDENTS_SETTLE_NS;
}

void incidents_assign(Incidents *incidents, const Evidence *in)
{
    IncidentEntry *entry = incidents_find_live(incidents, &in->key), *parent;

    if (!entry || !incident_stands(entry)) {
        parent = incidents_find_followed(incidents, in);
        if (parent) {
            incidents_add_echo(incidents, parent, in, true);
            return;
        }
        parent = incidents_find_parent(incidents, in, entry);
        if (parent) {
            give_to_parent(incidents, parent, entry, in);
            return;
        }
        if (!entry && is_stale_condition(incidents, in))
            return;
    }
    if (!entry)
        entry = make_entry(incidents, in);
    if (!entry)
        return;
    incidents_add_own(incidents, entry, in);
    if (!in->verdict.silent && !in->holds)
        entry->stage = STAGE_DUE;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static void report_changes(Incidents *incidents)
{
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state != INCIDENT_OPEN)
            continue;
        if (note_window(incidents, &entry->it))
            incidents_report(incidents, entry, INCIDENT_CHANGE_SILENCED);
        if (entry->dirty && incidents->now_ns >= entry->it.updated_ns + INCIDENT_UPDATE_NS)
            incidents_report(incidents, entry, INCIDENT_CHANGE_UPDATED);
    }
}

static void drop_old_followers(Incidents *incidents)
{
    for (size_t i = incidents->followers.len; i-- > 0;)
        if (incidents->now_ns > incidents->followers.at[i].last_ns + INCIDENTS_GRACE_NS)
            vec_remove(&incidents->followers, i);
}

void incidents_advance(Incidents *incidents, uint64_t now_ns, uint64_t real_ns)
{
    IncidentEntry *due;

    incidents->now_ns = number_max_u64(incidents->now_ns, now_ns);
    incidents->real_ns = real_ns;
    if (incidents->replaying && incidents->replay_ns == 0)
        incidents->replay_ns = number_max_u64(incidents->now_ns, 1);
    if (incidents->replaying && incidents->now_ns >= incidents->replay_ns + INCIDENTS_REPLAY_NS)
        incidents->replaying = false;
    close_ended(incidents);
    while ((due = find_next_due(incidents)))
        open_entry(incidents, due);
    report_changes(incidents);
    drop_old_followers(incidents);
    if (!incidents->has_node)
        incidents->tick++;
    incidents_sort(incidents);
}
