/* SPDX-License-Identifier: Apache-2.0 */
/* One more piece of evidence in an entry: counts, evidence kept, verdict; and conditions that follow a parent. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/health/incidents_entry.h"

enum { EVIDENCE_MAX = INCIDENT_FIRST + INCIDENT_LAST };

/* --- conditions that follow a parent ------------------------------------------------------------------------------ */

void incidents_follow(Incidents *incidents, const IncidentKey *key, IncidentEntry *parent, uint64_t time_ns)
{
    size_t oldest = 0;

    for (size_t i = 0; i < incidents->followers.len; i++)
        if (incidents->followers.at[i].last_ns < incidents->followers.at[oldest].last_ns)
            oldest = i;
    if (incidents->followers.len == INCIDENTS_FOLLOWERS)
        vec_remove(&incidents->followers, oldest);
    vec_push(&incidents->followers, ((IncidentFollower){.key = *key, .parent = parent, .last_ns = time_ns}));
}

IncidentEntry *incidents_find_followed(Incidents *incidents, const Evidence *in)
{
    for (size_t i = 0; in->holds && i < incidents->followers.len; i++) {
        IncidentFollower *follower = &incidents->followers.at[i];

        if (!incident_key_equal(&follower->key, &in->key))
            continue;
        if (incident_stands(follower->parent)) {
            follower->last_ns = in->time_ns;
            return follower->parent;
        }
        vec_remove(&incidents->followers, i);
        break;
    }
    return NULL;
}

void incidents_move_followers(Incidents *incidents, const IncidentEntry *from, IncidentEntry *to)
{
    for (size_t i = incidents->followers.len; i-- > 0;) {
        if (incidents->followers.at[i].parent != from)
            continue;
        incidents->followers.at[i].parent = to;
        if (!to)
            vec_remove(&incidents->followers, i);
    }
}

/* --- evidence ----------------------------------------------------------------------------------------------------- */

/* How much an action asks of people and machine; of two the larger one is shown. And how deep it goes: 1 reset, 2
 * reboot, 3 inspection or replacement; 0 none of these. */
static const struct {
    uint8_t weight, depth;
} actions[ACTION_END] = {
    [ACTION_NONE] = {0, 0},
    [ACTION_WATCH] = {1, 0},
    [ACTION_CHECK_APP] = {2, 0},
    [ACTION_RESTART_APP] = {3, 0},
    [ACTION_FIX_SETTING] = {4, 0},
    [ACTION_REPORT_VENDOR] = {4, 0},
    [ACTION_CHECK_MONITOR] = {4, 0},
    [ACTION_UPDATE_DRIVER] = {5, 0},
    [ACTION_RESTART_CONTAINER] = {5, 0},
    [ACTION_FIX_DRIVER] = {6, 0},
    [ACTION_CHECK_COOLING] = {6, 0},
    [ACTION_CHECK_POWER] = {6, 0},
    [ACTION_INSPECT_LINK] = {6, 0},
    [ACTION_RESEAT] = {7, 0},
    [ACTION_RESTART_FABRIC] = {8, 0},
    [ACTION_RESTART_VM] = {8, 0},
    [ACTION_RESET_GPU] = {9, 1},
    [ACTION_DRAIN_AND_RESET] = {10, 1},
    [ACTION_RESET_FABRIC] = {11, 1},
    [ACTION_REBOOT_NODE] = {12, 2},
    [ACTION_DRAIN_AND_REBOOT] = {13, 2},
    [ACTION_DRAIN_AND_INSPECT] = {14, 3},
    [ACTION_DRAIN_AND_RMA] = {15, 3},
};

unsigned incidents_action_depth(FaultAction action)
{
    return actions[action].depth;
}

void incidents_report(Incidents *incidents, IncidentEntry *entry, IncidentChange change)
{
    entry->it.revision++;
    entry->it.updated_ns = incidents->now_ns;
    entry->it.updated_real_ns = incidents->real_ns;
    entry->dirty = false;
    incident_text(&entry->it, entry->key.class);
    if (incidents->changed)
        incidents->changed(incidents->self, &entry->it, change);
}

/* An echo that repeats the newest one replaces it, so that a flood leaves room for the rest. */
void incident_note(Incident *it, const Evidence *in, bool echo)
{
    IncidentEvidence *evidence = NULL;

    if (it->last_len == 0 && it->first_len < INCIDENT_FIRST) {
        const IncidentEvidence *newest = it->first_len > 0 ? &it->first[it->first_len - 1] : NULL;

        evidence = newest && echo && newest->echo && newest->code == in->code ? &it->last[it->last_len++]
                                                                              : &it->first[it->first_len++];
    } else if (it->last_len > 0 && echo && it->last[it->last_len - 1].echo &&
               it->last[it->last_len - 1].code == in->code) {
        evidence = &it->last[it->last_len - 1];
    } else {
        if (it->last_len == INCIDENT_LAST)
            memmove(it->last, it->last + 1, --it->last_len * sizeof it->last[0]);
        evidence = &it->last[it->last_len++];
    }
    *evidence = (IncidentEvidence){.real_ns = in->real_ns,
                                   .origin = in->origin,
                                   .echo = echo,
                                   .severity = in->verdict.silent ? SEVERITY_INFO : in->verdict.severity,
                                   .code = in->code};
    memcpy(evidence->text, in->text, sizeof evidence->text);
}

static void add_code(Incident *it, int32_t code)
{
    if (code != 0 && it->code_count < INCIDENT_CODES && !incident_has_code(it, code))
        it->codes[it->code_count++] = code;
}

static void add_counters(Incident *it, const IncidentCounter *counters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t at = 0;

        while (at < it->counter_len && strcmp(it->counters[at].name, counters[i].name) != 0)
            at++;
        if (at == INCIDENT_COUNTERS)
            continue;
        if (at == it->counter_len)
            it->counters[it->counter_len++] = counters[i];
        else if (!isnan(counters[i].after))
            it->counters[at].after = counters[i].after;
    }
}

/* The driver decides how deep it must go; draining first, or resetting the whole fabric, is the catalogue's choice. */
static FaultAction decided_action(FaultAction old, FaultAction said)
{
    const bool drain = old == ACTION_DRAIN_AND_RESET || old == ACTION_DRAIN_AND_REBOOT;

    if (actions[old].depth == 3 || (actions[said].depth > 0 && actions[said].depth == actions[old].depth))
        return old;
    if (drain && said == ACTION_RESET_GPU)
        return ACTION_DRAIN_AND_RESET;
    return drain && said == ACTION_REBOOT_NODE ? ACTION_DRAIN_AND_REBOOT : said;
}

static bool raise_action(IncidentEntry *entry, FaultAction action, bool decides)
{
    FaultAction old = entry->it.action;
    /* what one GPU needs is not enough for the node */
    const bool less = incident_is_wide(&entry->key) && actions[action].depth < actions[old].depth;

    if (decides && !less) {
        entry->decided = true;
        entry->it.action = decided_action(old, action);
    } else if ((!entry->decided || actions[action].depth == 3) && actions[action].weight > actions[old].weight) {
        entry->it.action = action;
    }
    return actions[entry->it.action].weight > actions[old].weight;
}

/* Raises severity, action and route where the evidence is worse. Silent evidence changes nothing but may carry the
 * action that the driver asks for. A rise of an open incident is reported. */
static void raise_verdict(Incidents *incidents, IncidentEntry *entry, const FaultVerdict *verdict, const char *rule,
                          bool decides)
{
    Incident *it = &entry->it;
    bool rose = (decides || !verdict->silent) && raise_action(entry, verdict->action, decides);

    if (!verdict->silent && verdict->severity > it->severity) {
        it->severity = verdict->severity;
        rose = true;
    }
    if (!verdict->silent && verdict->route > it->route && !entry->key.class->observe) {
        it->route = verdict->route;
        rose = true;
    }
    if (!rose)
        return;
    if (!verdict->silent && verdict->fault == entry->key.class) {
        it->cause = verdict->cause;
        strncpy(it->rule, rule, sizeof it->rule - 1);
    }
    if (it->state == INCIDENT_OPEN) {
        it->escalations++;
        incidents_report(incidents, entry, INCIDENT_CHANGE_ESCALATED);
    }
}

/* Notes that a condition holds; *ret_new: it did not at the tick before. */
static void note_hold(const Incidents *incidents, IncidentEntry *entry, const Evidence *in, bool *ret_new)
{
    uint64_t rule = incident_hash(in->verdict.rule->id);
    IncidentHold *found = NULL, *oldest = &entry->holds[0];

    for (size_t i = 0; i < entry->hold_count; i++) {
        if (entry->holds[i].rule == rule)
            found = &entry->holds[i];
        if (entry->holds[i].last_ns < oldest->last_ns)
            oldest = &entry->holds[i];
    }
    *ret_new = !entry->restored && (!found || found->tick + 1 < incidents->tick);
    if (!found) {
        found = entry->hold_count < INCIDENTS_HOLDS ? &entry->holds[entry->hold_count++] : oldest;
        *found = (IncidentHold){.rule = rule, .since_ns = in->time_ns, .for_ns = in->verdict.rule->for_ns};
    } else if (found->tick + 1 < incidents->tick) {
        found->since_ns = in->time_ns;
    }
    found->last_ns = number_max_u64(found->last_ns, in->time_ns);
    found->tick = incidents->tick;
    entry->restored = false;
    entry->keep_ns = number_max_u64(entry->keep_ns, in->verdict.rule->keep_ns);
}

static void add_condition(const Incidents *incidents, IncidentEntry *entry, const Evidence *in)
{
    bool began;

    note_hold(incidents, entry, in, &began);
    if (began) {
        entry->it.count++;
        entry->dirty = true;
    }
    /* Its numbers change all the time: they are written down once a minute. */
    if (began || in->time_ns >= entry->evidence_ns + INCIDENT_UPDATE_NS) {
        entry->evidence_ns = in->time_ns;
        incident_note(&entry->it, in, false);
    }
}

void incidents_add_own(Incidents *incidents, IncidentEntry *entry, const Evidence *in)
{
    entry->near_ns = number_max_u64(entry->near_ns, in->time_ns);
    if (entry->stage == STAGE_SILENT && !in->verdict.silent)
        entry->stage = STAGE_HOLDS;
    if (entry->it.process[0] == '\0')
        memcpy(entry->it.process, in->process, sizeof entry->it.process);
    if (entry->it.pid < 0)
        entry->it.pid = in->pid;
    if (entry->it.code == 0)
        entry->it.code = in->code;
    if (!entry->it.part.known)
        entry->it.part = in->part;
    add_code(&entry->it, in->code);
    add_counters(&entry->it, in->counters, in->counter_count);
    if (in->time_ns >= entry->it.last_evidence_ns)
        entry->last_real_ns = in->real_ns;
    entry->it.last_evidence_ns = number_max_u64(entry->it.last_evidence_ns, in->time_ns);
    entry->it.before = entry->it.before && in->before;
    if (entry->caused_by == 0)
        entry->caused_by = in->caused_by;
    if (in->holds) {
        add_condition(incidents, entry, in);
    } else {
        entry->it.count++;
        incident_note(&entry->it, in, false);
        entry->dirty = true;
    }
    raise_verdict(incidents, entry, &in->verdict, in->verdict.rule->id, in->decides);
}

void incidents_add_echo(Incidents *incidents, IncidentEntry *entry, const Evidence *in, bool repeated)
{
    entry->near_ns = number_max_u64(entry->near_ns, in->time_ns);
    add_code(&entry->it, in->code);
    add_counters(&entry->it, in->counters, in->counter_count);
    if (!repeated) {
        entry->it.echo_count++;
        incident_note(&entry->it, in, true);
        entry->dirty = true;
    }
    raise_verdict(incidents, entry, &in->verdict, in->verdict.rule->id, in->decides);
}

/* Merges evidence in the order of time; of too much, echoes in the middle are dropped first. */
static void merge_evidence(Incident *into, const Incident *from, bool echo)
{
    IncidentEvidence all[EVIDENCE_MAX + 2];
    uint32_t count = into->first_len + into->last_len, picks = from->last_len > 0 || from->first_len > 1 ? 2 : 1;

    memcpy(all, into->first, into->first_len * sizeof all[0]);
    memcpy(all + into->first_len, into->last, into->last_len * sizeof all[0]);
    for (uint32_t i = 0; from->first_len > 0 && i < picks; i++) { /* its first and its latest */
        const IncidentEvidence *pick = i == 0               ? &from->first[0]
                                       : from->last_len > 0 ? &from->last[from->last_len - 1]
                                                            : &from->first[from->first_len - 1];
        uint32_t at = count++;

        for (; at > 0 && all[at - 1].real_ns > pick->real_ns; at--)
            all[at] = all[at - 1];
        all[at] = *pick;
        all[at].echo = echo || pick->echo;
    }
    while (count > EVIDENCE_MAX) {
        uint32_t drop = count / 2;

        for (uint32_t i = 1; i + 1 < count; i++)
            if (all[i].echo)
                drop = i;
        count--;
        memmove(all + drop, all + drop + 1, (count - drop) * sizeof all[0]);
    }
    into->first_len = (uint32_t)number_min_u64(count, INCIDENT_FIRST);
    into->last_len = count - into->first_len;
    memcpy(into->first, all, into->first_len * sizeof all[0]);
    memcpy(into->last, all + into->first_len, into->last_len * sizeof all[0]);
}

void incidents_absorb(Incidents *incidents, IncidentEntry *into, IncidentEntry *from, bool echo)
{
    Incident *it = &into->it;

    if (echo) {
        it->echo_count += from->it.count + from->it.echo_count;
    } else {
        it->count += from->it.count;
        it->echo_count += from->it.echo_count;
    }
    if (from->it.owner_count > 0 && (it->owner_count == 0 || !echo)) /* one that comes back hits others */
        incident_set_owners(it, from->it.owners, from->it.owner_count);
    into->near_ns = number_max_u64(into->near_ns, from->near_ns);
    into->dirty = true;
    for (uint32_t i = 0; i < from->it.code_count; i++)
        add_code(it, from->it.codes[i]);
    add_counters(it, from->it.counters, from->it.counter_len);
    merge_evidence(it, &from->it, echo);
    incidents_move_followers(incidents, from, into);
    const FaultVerdict verdict = {
        .fault = from->key.class, .says = from->it.says, .silent = from->stage == STAGE_SILENT};
    raise_verdict(incidents, into, &verdict, from->it.rule, from->decided);
}
