/* SPDX-License-Identifier: Apache-2.0 */
/* The incidents that are kept: making and giving up places, their order, looking them up. */
#include "engine/health/incidents_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

IncidentEntry *incidents_live(const Incidents *incidents, const IncidentKey *key)
{
    for (size_t i = 0; i < incidents->order_count; i++) {
        IncidentEntry *entry = incidents->order[i];

        if (entry->it.state != INCIDENT_CLEARED && incidents_key_equal(&entry->key, key))
            return entry;
    }
    return NULL;
}

static bool milder(const Incident *it, FaultSeverity severity, FaultRoute route)
{
    return it->severity < severity || (it->severity == severity && it->route < route);
}

/* The one whose place is given to another first: the oldest cleared one, then what nobody was told of, then the
 * mildest that is milder than `in`. */
static IncidentEntry *expendable(const Incidents *incidents, const IncidentInput *in)
{
    IncidentEntry *cleared = NULL, *pending = NULL, *mild = NULL;

    for (size_t i = 0; i < incidents->order_count; i++) {
        IncidentEntry *entry = incidents->order[i];

        if (entry->it.state == INCIDENT_CLEARED) {
            if (!cleared || entry->cleared_ns < cleared->cleared_ns)
                cleared = entry;
        } else if (entry->it.state == INCIDENT_PENDING && !entry->due) {
            if (!pending || entry->near_ns < pending->near_ns)
                pending = entry;
        } else if (milder(&entry->it, in->severity, in->route) &&
                   (!mild || milder(&entry->it, mild->it.severity, mild->it.route))) {
            mild = entry;
        }
    }
    return cleared ? cleared : pending ? pending : in->silent ? NULL : mild;
}

static IncidentEntry **free_place(Incidents *incidents)
{
    for (size_t i = 0; i < INCIDENTS_MAX; i++)
        if (!incidents->entries[i])
            return &incidents->entries[i];
    return NULL;
}

static void fill(IncidentEntry *entry, const IncidentInput *in)
{
    Incident *it = &entry->it;

    it->state = INCIDENT_PENDING;
    it->device = in->device;
    it->pid = in->pid;
    it->code = in->code;
    it->cause = in->cause;
    it->severity = in->severity;
    it->scope = in->scope;
    it->action = in->action;
    it->route = in->route;
    it->first_ns = in->time_ns;
    it->first_real_ns = in->real_ns;
    it->before = in->before;
    strncpy(it->process, in->process, sizeof it->process - 1);
    strncpy(it->class, in->class->id, sizeof it->class - 1);
    strncpy(it->rule, in->rule, sizeof it->rule - 1);
    strncpy(it->runbook, in->class->runbook, sizeof it->runbook - 1);
    entry->key = in->key;
    entry->class = in->class;
    entry->silent = true;
    entry->decided = in->decides;
    entry->caused_by = in->caused_by;
    entry->onset_ns = in->time_ns;
}

IncidentEntry *incidents_make(Incidents *incidents, const IncidentInput *in)
{
    IncidentEntry **place = free_place(incidents);

    if (!place) {
        IncidentEntry *old = expendable(incidents, in);

        incidents->counts.evicted++;
        if (!old)
            return NULL;
        if (old->it.state == INCIDENT_OPEN)
            incidents_close(incidents, old, INCIDENT_END_QUIET);
        incidents_release(incidents, old);
        place = free_place(incidents);
        if (!place)
            return NULL;
    }
    *place = xcalloc(1, sizeof **place);
    fill(*place, in);
    memcpy((*place)->it.driver_version, incidents->driver_version, sizeof incidents->driver_version);
    incidents->order[incidents->order_count++] = *place;
    incidents->disordered = true;
    return *place;
}

void incidents_forward(Incidents *incidents, const IncidentEntry *child, IncidentEntry *parent, bool echo)
{
    for (size_t i = 0; i < INCIDENTS_TWINS; i++) {
        if (incidents->twins[i].entry != child)
            continue;
        incidents->twins[i].entry = parent;
        incidents->twins[i].echo = incidents->twins[i].echo || echo;
    }
    for (size_t i = 0; incidents->followers && i < INCIDENTS_FOLLOWERS; i++)
        if (incidents->followers[i].parent == child)
            incidents->followers[i].parent = parent;
}

void incidents_release(Incidents *incidents, IncidentEntry *entry)
{
    size_t at = 0;

    incidents_forward(incidents, entry, NULL, true);
    while (at < incidents->order_count && incidents->order[at] != entry)
        at++;
    incidents->order_count--;
    memmove(incidents->order + at, incidents->order + at + 1,
            (incidents->order_count - at) * sizeof incidents->order[0]);
    for (size_t i = 0; i < INCIDENTS_MAX; i++)
        if (incidents->entries[i] == entry)
            incidents->entries[i] = NULL;
    free(entry);
}

static int compare(const void *a, const void *b)
{
    const Incident *left = &(*(IncidentEntry *const *)a)->it, *right = &(*(IncidentEntry *const *)b)->it;
    bool left_pending = left->state == INCIDENT_PENDING, right_pending = right->state == INCIDENT_PENDING;

    if (left_pending != right_pending)
        return left_pending - right_pending;
    if (left_pending) /* none has an id yet */
        return (left->first_ns < right->first_ns) - (left->first_ns > right->first_ns);
    return strcmp(right->id, left->id);
}

void incidents_arrange(Incidents *incidents)
{
    if (!incidents->disordered)
        return;
    incidents->disordered = false;
    qsort(incidents->order, incidents->order_count, sizeof incidents->order[0], compare);
}

size_t incidents_count(const Incidents *incidents)
{
    return incidents->order_count;
}

const Incident *incidents_at(const Incidents *incidents, size_t i)
{
    return &incidents->order[i]->it;
}

static IncidentEntry *find(const Incidents *incidents, const char *id)
{
    for (size_t i = 0; id[0] != '\0' && i < incidents->order_count; i++)
        if (strcmp(incidents->order[i]->it.id, id) == 0)
            return incidents->order[i];
    return NULL;
}

const Incident *incidents_find(const Incidents *incidents, const char *id)
{
    const IncidentEntry *entry = find(incidents, id);

    return entry ? &entry->it : NULL;
}

int incidents_clear(Incidents *incidents, const char *id, const char *who, uint64_t now_ns, uint64_t real_ns, Err *err)
{
    IncidentEntry *entry = find(incidents, id);
    IncidentInput in = {.origin = EVENT_FROM_AGENT, .time_ns = now_ns, .real_ns = real_ns};
    char text[EVENT_TEXT_CAP];

    if (!entry)
        return err_set(err, -ENOENT, "there is no incident '%.20s'", id);
    if (entry->it.state == INCIDENT_CLEARED)
        return err_set(err, -EALREADY, "incident %s is over already", id);
    incidents->now_ns = number_max_u64(incidents->now_ns, now_ns);
    incidents->real_ns = real_ns;
    snprintf(text, sizeof text, "cleared by hand by %.60s", who[0] != '\0' ? who : "somebody");
    in.text = text;
    incidents_note(&entry->it, &in, true);
    incidents_close(incidents, entry, INCIDENT_END_HAND);
    return 0;
}

void incidents_counts(const Incidents *incidents, IncidentsCounts *ret)
{
    *ret = incidents->counts;
}

bool incidents_worst(const Incidents *incidents, const PciAddress *gpu, bool all, const Incident **ret_worst)
{
    Device device;
    uint64_t place;

    device_init(&device, DEVICE_GPU);
    device.has_pci = gpu != NULL;
    if (gpu)
        device.pci = *gpu;
    place = incidents_place(&device);
    *ret_worst = NULL;
    for (size_t i = 0; i < incidents->order_count; i++) {
        const IncidentEntry *entry = incidents->order[i];
        bool on_gpu =
            entry->key.kind != DEVICE_NODE && entry->key.kind != DEVICE_SWITCH && entry->key.kind != DEVICE_SWITCH_LINK;

        if (entry->it.state != INCIDENT_OPEN || (entry->class && entry->class->observe) ||
            !(on_gpu ? !gpu || entry->key.place == place : all))
            continue;
        if (!*ret_worst || milder(*ret_worst, entry->it.severity, entry->it.route))
            *ret_worst = &entry->it;
    }
    return *ret_worst != NULL;
}

static bool takes_out_of_use(FaultAction action)
{
    switch (action) {
    case ACTION_RESET_GPU:
    case ACTION_DRAIN_AND_RESET:
    case ACTION_REBOOT_NODE:
    case ACTION_DRAIN_AND_REBOOT:
    case ACTION_DRAIN_AND_RMA:
    case ACTION_RESET_FABRIC:
    case ACTION_RESTART_FABRIC:
    case ACTION_FIX_DRIVER:
    case ACTION_UPDATE_DRIVER:
    case ACTION_RESTART_CONTAINER:
    case ACTION_RESTART_VM:
        return true;
    default:
        return false;
    }
}

IncidentUse incident_use(const Incident *incident)
{
    if (incident->state != INCIDENT_OPEN || incident->cause == CAUSE_APPLICATION)
        return INCIDENT_USE_GOES_ON;
    if (incident->severity == SEVERITY_FATAL)
        return INCIDENT_USE_NONE;
    return incident->severity == SEVERITY_ERROR && takes_out_of_use(incident->action) ? INCIDENT_USE_NO_NEW_WORK
                                                                                      : INCIDENT_USE_GOES_ON;
}

bool incident_hits(const Incident *incident, const Device *gpu)
{
    if (incident->device.kind == DEVICE_NODE || incident->scope == SCOPE_FABRIC)
        return true;
    return incident->device.has_pci && gpu->has_pci && pci_compare(incident->device.pci, gpu->pci) == 0;
}
