/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in: the catalogue, incidents from the journal, the node, events, conditions, time; and the list. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "engine/health/incidents_entry.h"

enum { XID_RECOVERY = 154 };

#define LINE_TIME_NS NS_PER_S /* a line's own time is so much before the agent read it, or cut to the second */

Incidents *incidents_new(const Catalogue *catalogue, const Maintenance *maintenance, IncidentChanged changed,
                         void *self)
{
    Incidents *incidents = xcalloc(1, sizeof *incidents);

    incidents->catalogue = catalogue;
    incidents->maintenance = maintenance;
    incidents->changed = changed;
    incidents->self = self;
    incidents->tick = 1;
    return incidents;
}

void incidents_free(Incidents *incidents)
{
    if (!incidents)
        return;
    for (size_t i = 0; i < incidents->count; i++)
        free(incidents->entries[i]);
    vec_done(&incidents->followers);
    free(incidents->gpus);
    free(incidents);
}

void incidents_set_owners(Incidents *incidents, IncidentOwnersOf owners_of, void *self)
{
    incidents->owners_of = owners_of;
    incidents->owners_self = self;
}

static const FaultClass *find_enabled_class(const Catalogue *catalogue, const char *id)
{
    const FaultClass *class = catalogue_class(catalogue, id);

    return class && class->enabled ? class : NULL;
}

void incidents_set_catalogue(Incidents *incidents, const Catalogue *catalogue)
{
    incidents->catalogue = catalogue;
    for (size_t i = incidents->followers.len; i-- > 0;) {
        IncidentKey *key = &incidents->followers.at[i].key;

        key->class = find_enabled_class(catalogue, key->class->id);
        if (!key->class)
            vec_remove(&incidents->followers, i);
    }
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];

        entry->key.class = find_enabled_class(catalogue, entry->it.class);
        if (!entry->key.class && entry->it.state != INCIDENT_CLEARED)
            incidents_close(incidents, entry, INCIDENT_END_HAND);
    }
    incidents_sort(incidents);
}

/* --- restoring --- */

static bool is_whole(const Device *device)
{
    return device->kind == DEVICE_GPU || device->kind == DEVICE_SWITCH || device->kind == DEVICE_NODE;
}

/* The wall clock of the last evidence of its own or (with `echoes`) of any. Monotonic times within an incident are of
 * one clock, so their differences hold whatever the wall clock did in between. */
static uint64_t find_last_real_ns(const Incident *it, bool echoes)
{
    uint64_t last = it->first_real_ns;

    if (it->first_ns > 0 && it->last_evidence_ns >= it->first_ns)
        last += it->last_evidence_ns - it->first_ns;
    for (uint32_t i = 0; i < it->first_len + it->last_len; i++) {
        const IncidentEvidence *evidence = i < it->first_len ? &it->first[i] : &it->last[i - it->first_len];

        if (evidence->echo ? echoes : it->first_ns == 0)
            last = number_max_u64(last, evidence->real_ns);
    }
    return last;
}

/* A time of the wall clock on the monotonic clock; 0 if it is older than that. */
static uint64_t to_monotonic_ns(uint64_t then_real, uint64_t now_ns, uint64_t real_ns)
{
    uint64_t ago = real_ns > then_real ? real_ns - then_real : 0;

    return now_ns > ago ? now_ns - ago : 0;
}

static void restore_times(IncidentEntry *entry, uint64_t now_ns, uint64_t real_ns)
{
    Incident *it = &entry->it;

    uint64_t near_real_ns = find_last_real_ns(it, true);

    entry->last_real_ns = find_last_real_ns(it, false);
    it->first_ns = to_monotonic_ns(it->first_real_ns, now_ns, real_ns);
    it->opened_ns = to_monotonic_ns(it->opened_real_ns, now_ns, real_ns);
    it->updated_ns = to_monotonic_ns(it->updated_real_ns, now_ns, real_ns);
    it->last_evidence_ns = to_monotonic_ns(entry->last_real_ns, now_ns, real_ns);
    entry->onset_ns = it->first_ns;
    entry->near_ns = to_monotonic_ns(near_real_ns, now_ns, real_ns);
    entry->cleared_ns = to_monotonic_ns(it->cleared_real_ns, now_ns, real_ns);
}

static void restore_incident(Incidents *incidents, const Incident *kept, uint64_t now_ns, uint64_t real_ns)
{
    const FaultClass *class = find_enabled_class(incidents->catalogue, kept->class);
    IncidentEntry *entry;

    if (!class || kept->state == INCIDENT_PENDING || incidents_find(incidents, kept->id))
        return;
    entry = xcalloc(1, sizeof *entry);
    entry->it = *kept;
    entry->key =
        incident_key(class, &kept->device, kept->code, kept->process, kept->owner_count > 0 ? &kept->owners[0] : NULL);
    entry->stage = STAGE_HOLDS;
    entry->restored = true;
    entry->keep_ns = class->keep_ns;
    entry->grace_ns = now_ns + number_max_u64(class->keep_ns, INCIDENTS_GRACE_NS);
    entry->decided = incident_has_code(kept, XID_RECOVERY);
    restore_times(entry, now_ns, real_ns);
    /* Of two open ones with one key (a foreign journal) the first is kept. */
    if ((kept->state == INCIDENT_OPEN && incidents_find_live(incidents, &entry->key)) ||
        !incidents_insert(incidents, entry))
        free(entry);
}

void incidents_restore(Incidents *incidents, const Incident *kept, size_t count, uint64_t now_ns, uint64_t real_ns)
{
    incidents->now_ns = number_max_u64(incidents->now_ns, now_ns);
    incidents->real_ns = real_ns;
    for (size_t i = 0; i < count; i++)
        incidents->last_id = number_max_u64(incidents->last_id, incident_id_number(kept[i].id));
    for (int pass = 0; pass < 2; pass++) /* open ones first: there may not be room for all */
        for (size_t i = 0; i < count; i++)
            if ((kept[i].state == INCIDENT_OPEN) == (pass == 0))
                restore_incident(incidents, &kept[i], now_ns, real_ns);
    incidents_sort(incidents);
}

/* --- the node --- */

static bool is_known_different(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0;
}

static bool is_other_board(const Device *a, const Device *b)
{
    return a->uuid[0] != '\0' && b->uuid[0] != '\0' ? strcmp(a->uuid, b->uuid) != 0
                                                    : is_known_different(a->serial, b->serial);
}

/* Finds or adds a GPU; NULL: there are too many. */
static IncidentGpu *add_gpu(Incidents *incidents, const Device *device)
{
    IncidentGpu *gpu = incidents_find_gpu(incidents, incident_place(device));

    if (gpu)
        return gpu;
    if (incidents->gpu_count == NODE_GPUS_MAX)
        return NULL;
    incidents->gpus = xrealloc(incidents->gpus, incidents->gpu_count + 1, sizeof *incidents->gpus);
    incidents->gpus[incidents->gpu_count] = (IncidentGpu){0};
    device_init(&incidents->gpus[incidents->gpu_count].device, DEVICE_GPU);
    return &incidents->gpus[incidents->gpu_count++];
}

static const char *board_uuid(const Device *device)
{
    return device->kind == DEVICE_GPU ? device->uuid : device->parent_uuid;
}

/* A board that moved to another slot takes its incidents with it; another board in a slot ends those of the old. */
static void update_board(Incidents *incidents, const Node *node, IncidentEntry *entry)
{
    const char *uuid = board_uuid(&entry->it.device);

    for (size_t i = 0; uuid[0] != '\0' && i < node->gpu_count; i++) {
        const Device *gpu = &node->gpus[i].reading.device;

        if (!gpu->has_pci || strcmp(gpu->uuid, uuid) != 0)
            continue;
        if (pci_compare(gpu->pci, entry->it.device.pci) != 0) {
            IncidentKey key = entry->key;

            key.place = incident_place(gpu);
            if (!incidents_find_live(incidents, &key)) {
                entry->it.device.pci = gpu->pci;
                entry->it.device.index = gpu->index;
                entry->key = key;
            }
        }
        return;
    }
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *gpu = &node->gpus[i].reading.device;

        if (gpu->has_pci && incident_place(gpu) == entry->key.place &&
            (is_known_different(uuid, gpu->uuid) || (uuid[0] == '\0' && is_whole(&entry->it.device) &&
                                                     is_known_different(entry->it.device.serial, gpu->serial)))) {
            incidents_close(incidents, entry, INCIDENT_END_REPLACED);
            return;
        }
    }
}

static void update_boards(Incidents *incidents, const Node *node)
{
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state != INCIDENT_CLEARED && entry->key.place != 0 && entry->it.device.has_pci)
            update_board(incidents, node, entry);
    }
}

/* Adds the identity of a GPU that became known only after its incident began. */
static void name_devices(Incidents *incidents, const IncidentGpu *gpu, uint64_t place)
{
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];
        Device *device = &entry->it.device;

        if (entry->it.state == INCIDENT_CLEARED || entry->key.place != place || board_uuid(device)[0] != '\0' ||
            incident_is_wide(&entry->key))
            continue;
        incidents_complete_device(incidents, entry->it.scope, device);
        if (device->kind == DEVICE_GPU)
            memcpy(device->uuid, gpu->device.uuid, sizeof device->uuid);
    }
}

static bool was_lost(GpuState state)
{
    return state == GPU_LOST || state == GPU_GONE || state == GPU_MISSING;
}

/* It answered some time after the last evidence that it is lost: the reset fell between two samples. */
static bool has_answered_since(const NodeGpu *now, const IncidentEntry *entry)
{
    return now->last_sample_ns > entry->it.last_evidence_ns + 10 * NS_PER_S;
}

/* The driver never recovers a lost GPU by itself: one that answers again was reset. So was one that answers while the
 * journal has it as lost. */
static bool is_back(const Incidents *incidents, const IncidentGpu *gpu, const NodeGpu *now, uint64_t place)
{
    if (gpu->lost)
        return true;
    for (size_t i = 0; i < incidents->count; i++) {
        const IncidentEntry *entry = incidents->entries[i];

        if ((entry->restored || has_answered_since(now, entry)) && entry->it.state == INCIDENT_OPEN &&
            entry->key.place == place && strcmp(entry->it.class, INCIDENTS_LOST_CLASS) == 0)
            return true;
    }
    return false;
}

/* Whatever ends the class of a lost GPU: it is not lost any more. */
static void close_lost(Incidents *incidents, const Node *node, uint64_t place)
{
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state != INCIDENT_CLEARED && entry->key.place == place &&
            strcmp(entry->it.class, INCIDENTS_LOST_CLASS) == 0)
            incidents_close(incidents, entry, INCIDENT_END_RESET);
    }
    incidents_close_by(incidents, EVENT_RESET, place, node->time_ns, node->real_ns);
}

static void update_gpu(Incidents *incidents, const Node *node, const NodeGpu *now, bool *ret_changed)
{
    const Device *device = &now->reading.device;
    IncidentGpu *gpu = device->has_pci ? add_gpu(incidents, device) : NULL;
    uint64_t place = incident_place(device);
    bool known, changed;

    if (!gpu)
        return;
    known = gpu->device.has_pci;
    if (known && is_other_board(&gpu->device, device)) {
        incidents_close_by(incidents, EVENT_REPLACED, place, node->time_ns, node->real_ns);
        gpu->lost = false;
        known = false;
    }
    changed = !known || (gpu->device.uuid[0] == '\0' && device->uuid[0] != '\0') || gpu->device.index != device->index;
    if (changed && (!known || device->uuid[0] != '\0' || gpu->device.uuid[0] == '\0'))
        gpu->device = *device; /* a lost GPU keeps its identity */
    if (changed) {
        name_devices(incidents, gpu, place);
        *ret_changed = true;
    }
    incidents_note_readings(gpu, now);
    gpu->let_go = now->drained || node->release_until_ns > node->time_ns;
    if (was_lost(now->state)) {
        gpu->lost = true;
    } else if (now->state == GPU_UP && is_back(incidents, gpu, now, place)) {
        gpu->lost = false;
        close_lost(incidents, node, place);
    }
}

/* Another driver version was loaded: now, or while the agent was not running. */
static void update_driver(Incidents *incidents, const Node *node)
{
    bool reloaded = is_known_different(incidents->driver_version, node->driver_version);

    if (node->driver_version[0] == '\0' || strcmp(incidents->driver_version, node->driver_version) == 0)
        return;
    memcpy(incidents->driver_version, node->driver_version, sizeof incidents->driver_version);
    incidents->driver_major = (uint32_t)strtoul(node->driver_version, NULL, 10);
    if (reloaded)
        incidents_close_by(incidents, EVENT_MODULE_LOADED, 0, node->time_ns, node->real_ns);
    for (size_t i = 0; i < incidents->count; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state == INCIDENT_OPEN && entry->restored && entry->key.class &&
            (entry->key.class->clear == CLEAR_RESET || entry->key.class->clear == CLEAR_DRIVER) &&
            is_known_different(entry->it.driver_version, node->driver_version))
            incidents_close(incidents, entry, INCIDENT_END_DRIVER_RELOAD);
    }
}

void incidents_set_node(Incidents *incidents, const Node *node)
{
    bool changed = false;

    incidents->now_ns = number_max_u64(incidents->now_ns, node->time_ns);
    incidents->real_ns = node->real_ns;
    incidents->has_node = true;
    incidents->began_ns = incidents->began_ns ? incidents->began_ns : node->time_ns;
    incidents->tick++;
    update_driver(incidents, node);
    for (size_t i = 0; i < node->gpu_count; i++)
        update_gpu(incidents, node, &node->gpus[i], &changed);
    if (changed)
        update_boards(incidents, node);
    incidents_sort(incidents);
}

void incidents_set_host(Incidents *incidents, const PlaceList *places, uint64_t boot_real_ns)
{
    incidents->boot_real_ns = boot_real_ns;
    for (size_t i = 0; i < incidents->gpu_count; i++) {
        const Place *place = place_list_gpu(places, incidents->gpus[i].device.pci);

        if (place)
            memcpy(incidents->gpus[i].path, place->path, sizeof place->path);
    }
}

/* --- events within a time ----------------------------------------------------------------------------------------- */

/* The tally of a key, or the one that was used longest ago, begun anew. */
static IncidentTally *find_tally(Incidents *incidents, uint64_t key)
{
    IncidentTally *oldest = &incidents->tallies[0];

    for (size_t i = 0; i < INCIDENTS_TALLIES; i++) {
        if (incidents->tallies[i].key == key)
            return &incidents->tallies[i];
        if (incidents->tallies[i].last_real_ns < oldest->last_real_ns)
            oldest = &incidents->tallies[i];
    }
    *oldest = (IncidentTally){.key = key};
    return oldest;
}

/* Parts that have passed are empty again. */
static void move_tally(IncidentTally *tally, uint64_t part)
{
    for (size_t i = 0; i < TALLY_PARTS && tally->part + i < part; i++)
        tally->counts[(tally->part + 1 + i) % TALLY_PARTS] = 0;
    tally->part = part;
}

/* Counts an event for a rule that wants many of it. True when they have become so many; *ret_count: within its time. */
static bool count_event(Incidents *incidents, const FaultRule *rule, uint64_t place, const Event *event,
                        uint64_t *ret_count)
{
    IncidentTally *tally = find_tally(incidents, incident_hash(rule->id) ^ place);
    const uint64_t part = event->real_ns / (rule->within_ns / TALLY_PARTS);
    if (tally->older && !event->older) /* how long after the old ones it came is not known */
        *tally = (IncidentTally){.key = tally->key};
    tally->older = event->older;

    const bool was_many = tally->many;
    if (part > tally->part)
        move_tally(tally, part);
    if (tally->part - part < TALLY_PARTS)
        tally->counts[part % TALLY_PARTS] += event->count;
    tally->last_real_ns = number_max_u64(tally->last_real_ns, event->real_ns);
    *ret_count = 0;
    for (size_t i = 0; i < TALLY_PARTS; i++)
        *ret_count += tally->counts[i];
    tally->many = *ret_count >= rule->many;
    return tally->many && !was_many;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static Device make_device(const Event *event)
{
    bool on_switch = event->kind == EVENT_SXID || event->kind == EVENT_FABRIC_LOG;
    Device device;

    device_init(&device, !event->has_pci && event->uuid[0] == '\0' ? DEVICE_NODE
                         : on_switch                               ? DEVICE_SWITCH
                                                                   : DEVICE_GPU);
    device.vendor = DEVICE_NVIDIA;
    device.has_pci = event->has_pci;
    device.pci = event->pci;
    device.gpu_instance = event->gpu_instance;
    device.compute_instance = event->compute_instance;
    device.link = event->link;
    if (!on_switch)
        memcpy(device.uuid, event->uuid, sizeof device.uuid);
    return device;
}

/* Whether the journal has this evidence already: in the same incident or in one above it. */
static bool is_in_journal(const Incidents *incidents, const Evidence *in)
{
    const uint64_t at_ns = in->real_ns / NS_PER_MS * NS_PER_MS; /* as exact as the journal's times */

    for (size_t i = 0; i < incidents->count; i++) {
        const IncidentEntry *entry = incidents->entries[i];
        const Incident *it = &entry->it;
        uint64_t until = number_max_u64(entry->last_real_ns, it->cleared_real_ns), window = 0;
        bool peer;

        if (it->state == INCIDENT_PENDING || !entry->key.class)
            continue;
        /* whose a process was that a line from before names is not known */
        const IncidentKey key = incident_key(entry->key.class, &it->device, it->code, it->process, NULL);

        if (!incident_key_equal(&key, &in->key)) {
            if (!incidents_related(&entry->key, &in->key, &peer) ||
                !incidents_is_ancestor(entry->key.class, in->key.class))
                continue;
            window = in->key.class->parent_ns;
        }
        if (in->real_ns + window + LINE_TIME_NS >= it->first_real_ns && at_ns <= until + window)
            return true;
    }
    return false;
}

/* XID 154: its action is the driver's own word, ACTION_NONE where it asks for nothing any more. */
static void set_recovery(const Incidents *incidents, const Event *event, Evidence *in)
{
    const FaultClass *class = catalogue_class(incidents->catalogue, INCIDENTS_RESET_CLASS);

    if (event->recovery_action < 0 || event->recovery_action >= FAULT_RECOVERIES || !class)
        return;
    if (in->verdict.fault != class)
        in->verdict = fault_verdict_of_class(in->verdict.rule, class);
    in->verdict.action = fault_recoveries[event->recovery_action].action;
    in->verdict.silent = false;
    in->decides = true;
}

static void set_key(const Incidents *incidents, Evidence *in)
{
    Owner owners[INCIDENT_OWNERS];
    uint32_t count;

    incidents_complete_device(incidents, in->verdict.scope, &in->device);
    count = in->verdict.fault->by_process || in->owner ? incidents_find_owners(incidents, in, owners) : 0;
    in->key = incident_key(in->verdict.fault, &in->device, in->code, in->verdict.silent ? "" : in->process,
                           count > 0 ? owners : NULL);
}

/* False: the event is no evidence of anything. */
static bool make_evidence(const Incidents *incidents, const Event *event, Evidence *ret)
{
    Evidence in = {.origin = event->origin,
                   .before = event->before,
                   .time_ns = event->time_ns,
                   .real_ns = event->real_ns,
                   .device = make_device(event),
                   .code = event->code,
                   .pid = event->pid,
                   .caused_by = event->caused_by};
    const IncidentGpu *gpu = incidents_find_gpu(incidents, incident_place(&in.device));

    if (!catalogue_match(incidents->catalogue, event, incidents->driver_major, gpu ? gpu->device.arch : 0,
                         &in.verdict) ||
        !in.verdict.fault || !incidents_find_reporter(incidents, event, &in.device))
        return false;
    memcpy(in.process, event->process, sizeof in.process);
    memcpy(in.text, event->text, sizeof in.text);
    if (event->kind == EVENT_XID && event->code == XID_RECOVERY)
        set_recovery(incidents, event, &in);
    if (device_is_switch(&in.device) && in.verdict.scope == SCOPE_FABRIC)
        in.part = (IncidentPart){.known = true, .pci = event->pci, .link = event->link};
    if (in.device.kind == DEVICE_NODE && in.verdict.scope == SCOPE_GPU)
        incidents_find_unnamed(incidents, in.verdict.fault, &in.device);
    set_key(incidents, &in);
    *ret = in;
    return in.verdict.fault->enabled;
}

static void close_recovered(Incidents *incidents, const Evidence *in)
{
    IncidentEntry *entry = incidents_find_live(incidents, &in->key);

    if (entry)
        incidents_close(incidents, entry, INCIDENT_END_GONE);
}

/* Counts the event for rules that want many of it, beside the rule that it has by itself. Lines of an old file that
 * have no times may be of one minute or of a year: they are evidence one by one, and never many within a time. */
static void check_counts(Incidents *incidents, const Event *event, const Evidence *of)
{
    const IncidentGpu *gpu = incidents_find_gpu(incidents, of->key.place);
    const FaultRule *rule = NULL;

    while ((rule = catalogue_next_counted(incidents->catalogue, event, incidents->driver_major,
                                          gpu ? gpu->device.arch : 0, rule))) {
        char within[DURATION_TEXT_MAX];
        Evidence in = *of;
        uint64_t count;

        if (!rule->fault || !rule->fault->enabled)
            continue;
        in.verdict = fault_verdict(rule);
        set_key(incidents, &in);
        if (!count_event(incidents, rule, in.key.place, event, &count))
            continue;
        duration_format(within, rule->within_ns);
        snprintf(in.text, sizeof in.text, "%llu within %s, at last: %.150s", (unsigned long long)count, within,
                 event->text);
        incidents_assign(incidents, &in);
    }
}

/* Where a program fails may make the GPU itself suspect, beside the evidence against the program. */
static void check_locality(Incidents *incidents, const Event *event, const Evidence *of)
{
    static const FaultRule rule = {.id = INCIDENTS_SUSPECT_CLASS};
    const FaultClass *class = find_enabled_class(incidents->catalogue, INCIDENTS_SUSPECT_CLASS);
    Owner owners[INCIDENT_OWNERS];
    Evidence in = *of;

    if (in.verdict.cause != CAUSE_APPLICATION)
        return;
    const bool known =
        event->pid >= 0 && incidents_find_owners(incidents, of, owners) > 0 && owners[0].pid == event->pid;
    if (!locality_note(&incidents->locality, event, in.key.place, known ? owners : NULL, in.text) || !class)
        return;
    in.verdict = fault_verdict_of_class(&rule, class);
    in.caused_by = 0;
    in.pid = -1;
    in.process[0] = '\0';
    set_key(incidents, &in);
    incidents_assign(incidents, &in);
}

void incidents_add_event(Incidents *incidents, const Event *event)
{
    Device device = make_device(event);
    Evidence in;

    if (event->before) {
        incidents->replaying = true;
        incidents->replay_ns = 0; /* of the next incidents_advance */
    } else {
        incidents->now_ns = number_max_u64(incidents->now_ns, event->time_ns);
        incidents->real_ns = event->real_ns;
    }
    incidents_close_by(incidents, event->kind, event->has_pci ? incident_place(&device) : 0, event->time_ns,
                       event->real_ns);
    if (make_evidence(incidents, event, &in)) {
        if (in.decides && in.verdict.action == ACTION_NONE)
            close_recovered(incidents, &in);
        else if (!incidents_is_said_twice(incidents, &in) && (!event->before || !is_in_journal(incidents, &in))) {
            incidents_assign(incidents, &in);
            if (!event->undated)
                check_counts(incidents, event, &in);
        }
        check_locality(incidents, event, &in);
    }
    incidents_sort(incidents);
}

/* A count as it is first seen, without what it was before, is no news where the journal has it already: in an incident
 * that lasts, or that was cleared by hand. */
static bool is_known_count(const Incidents *incidents, const Evidence *in)
{
    for (size_t i = 0; !in->holds && in->counter_count > 0 && i < incidents->count; i++) {
        const IncidentEntry *entry = incidents->entries[i];
        const Incident *it = &entry->it;

        if (!entry->restored || !incident_key_equal(&entry->key, &in->key) ||
            (it->state != INCIDENT_OPEN && it->end != INCIDENT_END_HAND))
            continue;
        for (uint32_t k = 0; k < it->counter_len; k++)
            if (strcmp(it->counters[k].name, in->counters[0].name) == 0)
                return isnan(in->counters[0].before) && it->counters[k].after == in->counters[0].after;
    }
    return false;
}

void incidents_add_evidence(Incidents *incidents, const Evidence *evidence)
{
    Evidence in = *evidence;
    const IncidentEntry *explanation;

    if (!in.verdict.fault || !in.verdict.fault->enabled)
        return;
    incidents->now_ns = number_max_u64(incidents->now_ns, in.time_ns);
    incidents->real_ns = in.real_ns;
    in.origin = EVENT_FROM_AGENT;
    in.decides = strcmp(in.verdict.fault->id, INCIDENTS_RESET_CLASS) == 0 && in.verdict.action != ACTION_NONE;
    set_key(incidents, &in);
    if (is_known_count(incidents, &in))
        return;
    explanation = incidents_find_explanation(incidents, &in, in.verdict.rule->explained_by);
    if (explanation) { /* it makes nothing worse */
        in.verdict.silent = true;
        in.caused_by = explanation->it.code;
    }
    incidents_assign(incidents, &in);
    incidents_sort(incidents);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

size_t incidents_count(const Incidents *incidents)
{
    return incidents->count;
}

const Incident *incidents_at(const Incidents *incidents, size_t i)
{
    return &incidents->entries[incidents->count - 1 - i]->it;
}

size_t incidents_list_open(const Incidents *incidents, const Incident *out[INCIDENTS_MAX])
{
    size_t count = 0;

    for (size_t i = incidents->count; i-- > 0;)
        if (incidents->entries[i]->it.state == INCIDENT_OPEN)
            out[count++] = &incidents->entries[i]->it;
    return count;
}

static IncidentEntry *find_entry(const Incidents *incidents, const char *id)
{
    for (size_t i = 0; id[0] != '\0' && i < incidents->count; i++)
        if (strcmp(incidents->entries[i]->it.id, id) == 0)
            return incidents->entries[i];
    return NULL;
}

const Incident *incidents_find(const Incidents *incidents, const char *id)
{
    const IncidentEntry *entry = find_entry(incidents, id);

    return entry ? &entry->it : NULL;
}

int incidents_clear(Incidents *incidents, const char *id, const char *who, uint64_t now_ns, uint64_t real_ns, Err *err)
{
    IncidentEntry *entry = find_entry(incidents, id);
    Evidence in = {.origin = EVENT_FROM_AGENT, .time_ns = now_ns, .real_ns = real_ns};

    if (!entry)
        return err_set(err, -ENOENT, "there is no incident '%.20s'", id);
    if (entry->it.state == INCIDENT_CLEARED)
        return err_set(err, -EALREADY, "incident %s is over already", id);
    incidents->now_ns = number_max_u64(incidents->now_ns, now_ns);
    incidents->real_ns = real_ns;
    snprintf(in.text, sizeof in.text, "cleared by hand by %.60s", who[0] != '\0' ? who : "somebody");
    incident_note(&entry->it, &in, true);
    incidents_close(incidents, entry, INCIDENT_END_HAND);
    return 0;
}

/* What a person does about a program, or about nothing. */
static bool is_about_program(FaultAction action)
{
    return action == ACTION_NONE || action == ACTION_WATCH || action == ACTION_CHECK_APP ||
           action == ACTION_RESTART_APP || action == ACTION_CHECK_MONITOR;
}

bool incident_is_problem(const Incident *incident)
{
    return incident->state == INCIDENT_OPEN && incident->severity >= SEVERITY_WARNING;
}

IncidentUse incident_use(const Incident *incident)
{
    if (incident->state != INCIDENT_OPEN || incident->cause == CAUSE_APPLICATION)
        return INCIDENT_USE_GOES_ON;
    if (incident->severity == SEVERITY_FATAL)
        return INCIDENT_USE_NONE;
    return incident->severity == SEVERITY_ERROR && !is_about_program(incident->action) ? INCIDENT_USE_NO_NEW_WORK
                                                                                       : INCIDENT_USE_GOES_ON;
}

bool incident_hits(const Incident *incident, const Device *gpu)
{
    if (incident->device.kind == DEVICE_NODE || incident->scope == SCOPE_FABRIC)
        return true;
    return incident->device.has_pci && gpu->has_pci && pci_compare(incident->device.pci, gpu->pci) == 0;
}

bool incident_hits_instance(const Incident *incident, const Device *gpu, uint32_t gpu_instance)
{
    const bool elsewhere = gpu_instance != DEVICE_NO_NUMBER && incident->device.gpu_instance != DEVICE_NO_NUMBER &&
                           incident->device.gpu_instance != gpu_instance;

    return incident_hits(incident, gpu) && !elsewhere;
}
