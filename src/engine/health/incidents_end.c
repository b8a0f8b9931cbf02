/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: what has held opens, what is over ends, maintenance begins and ends. */
#include "engine/health/incidents_inside.h"

#include <string.h>

#include "base/number.h"

static uint64_t since(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

void incidents_close(Incidents *incidents, IncidentEntry *entry, IncidentEnd end)
{
    incidents_forward(incidents, entry, NULL, true);
    if (entry->it.state == INCIDENT_PENDING) {
        incidents_release(incidents, entry);
        return;
    }
    entry->it.state = INCIDENT_CLEARED;
    entry->it.end = end;
    entry->it.cleared_real_ns = incidents->real_ns;
    entry->cleared_ns = incidents->now_ns;
    entry->hold_count = 0;
    entry->fed = false;
    incidents->counts.cleared++;
    incidents_tell(incidents, entry, INCIDENT_CHANGE_CLEARED);
}

/* --- events that end --- */

static bool ended_by(FaultClear clear, EventKind kind)
{
    switch (kind) {
    case EVENT_RESET:
        return clear == CLEAR_RESET;
    case EVENT_MODULE_LOADED:
        return clear == CLEAR_RESET || clear == CLEAR_DRIVER;
    case EVENT_REBOOT:
        return clear == CLEAR_RESET || clear == CLEAR_DRIVER || clear == CLEAR_REBOOT;
    case EVENT_REPLACED:
        return true;
    default:
        return false;
    }
}

static IncidentEnd end_of(EventKind kind)
{
    return kind == EVENT_RESET           ? INCIDENT_END_RESET
           : kind == EVENT_MODULE_LOADED ? INCIDENT_END_DRIVER_RELOAD
           : kind == EVENT_REBOOT        ? INCIDENT_END_REBOOT
                                         : INCIDENT_END_REPLACED;
}

/* A fault of the fabric or the node is over when every GPU was reset after it. */
static bool all_reset(const Incidents *incidents, const IncidentEntry *entry)
{
    for (size_t i = 0; i < incidents->gpu_count; i++)
        if (incidents->gpus[i].reset_ns < entry->it.last_sign_ns || incidents->gpus[i].reset_ns == 0)
            return false;
    return incidents->gpu_count > 0;
}

static bool reaches(const Incidents *incidents, const IncidentEntry *entry, EventKind kind, uint64_t place)
{
    bool wide =
        entry->key.kind == DEVICE_NODE || entry->key.kind == DEVICE_SWITCH || entry->key.kind == DEVICE_SWITCH_LINK;

    if (place == 0 || entry->key.place == place)
        return true;
    return kind == EVENT_RESET && wide && all_reset(incidents, entry);
}

/* A boot is dated by the wall clock, as what is from before it comes from the journal; so is what the log says of the
 * time before the agent's. */
static bool lies_before(const IncidentEntry *entry, EventKind kind, uint64_t time_ns, uint64_t real_ns)
{
    if (kind == EVENT_REBOOT || time_ns == 0)
        return entry->last_real_ns <= real_ns;
    return entry->it.last_sign_ns <= time_ns;
}

void incidents_end_by(Incidents *incidents, EventKind kind, uint64_t place, uint64_t time_ns, uint64_t real_ns)
{
    for (size_t i = 0; kind == EVENT_RESET && i < incidents->gpu_count; i++)
        if (place == 0 || incidents_place(&incidents->gpus[i].device) == place)
            incidents->gpus[i].reset_ns = time_ns;
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry && entry->it.state != INCIDENT_CLEARED && entry->class && ended_by(entry->class->clear, kind) &&
            reaches(incidents, entry, kind, place) && lies_before(entry, kind, time_ns, real_ns))
            incidents_close(incidents, entry, end_of(kind));
    }
}

/* --- turns --- */

static bool still_holds(const Incidents *incidents, const IncidentEntry *entry)
{
    for (size_t i = 0; i < entry->hold_count; i++)
        if (entry->holds[i].tick == incidents->tick)
            return true;
    return false;
}

static bool quiet_for(const Incidents *incidents, const IncidentEntry *entry, uint64_t quiet_ns)
{
    return !still_holds(incidents, entry) && since(incidents->now_ns, entry->it.last_sign_ns) >= quiet_ns;
}

static IncidentEnd open_ends(const Incidents *incidents, const IncidentEntry *entry)
{
    const FaultClass *class = entry->class;
    uint64_t quiet_ns = class->quiet_ns > 0 ? class->quiet_ns : INCIDENTS_QUIET_NS;

    switch (class->clear) {
    case CLEAR_GONE:
        if (!entry->fed) /* no condition has ever held: it came of events alone */
            return quiet_for(incidents, entry, number_max_u64(quiet_ns, class->keep_ns)) ? INCIDENT_END_QUIET
                                                                                         : INCIDENT_END_NOT_ENDED;
        return incidents->now_ns >= entry->grace_ns && quiet_for(incidents, entry, entry->keep_ns)
                   ? INCIDENT_END_GONE
                   : INCIDENT_END_NOT_ENDED;
    case CLEAR_QUIET:
        return quiet_for(incidents, entry, quiet_ns) ? INCIDENT_END_QUIET : INCIDENT_END_NOT_ENDED;
    case CLEAR_RESET:
    case CLEAR_DRIVER:
    case CLEAR_REBOOT:
    case CLEAR_REPLACED:
        return class->quiet_ns > 0 && quiet_for(incidents, entry, quiet_ns) ? INCIDENT_END_QUIET
                                                                            : INCIDENT_END_NOT_ENDED;
    default:
        return INCIDENT_END_NOT_ENDED;
    }
}

/* What waits for its `for` goes at the first tick without its condition; silent signs when no parent can come. */
static bool pending_ends(const Incidents *incidents, const IncidentEntry *entry)
{
    const FaultClass *class = entry->class;
    uint64_t window = class->parent_ns > 0 ? class->parent_ns : INCIDENTS_DECIDE_NS;

    if (entry->due) /* from before the start, and held back: what came to an end since is not told at all */
        return class->clear != CLEAR_HAND && class->clear != CLEAR_REPLACED && entry->it.before &&
               open_ends(incidents, entry) != INCIDENT_END_NOT_ENDED;
    if (entry->silent)
        return !still_holds(incidents, entry) && since(incidents->now_ns, entry->near_ns) > window;
    return !still_holds(incidents, entry);
}

static void end_those_over(Incidents *incidents)
{
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];
        IncidentEnd end = INCIDENT_END_NOT_ENDED;

        if (!entry)
            continue;
        if (entry->it.state == INCIDENT_OPEN)
            end = entry->class ? open_ends(incidents, entry) : INCIDENT_END_HAND;
        else if (entry->it.state == INCIDENT_PENDING && pending_ends(incidents, entry))
            end = INCIDENT_END_QUIET;
        else if (entry->it.state == INCIDENT_CLEARED && since(incidents->now_ns, entry->cleared_ns) > INCIDENTS_KEPT_NS)
            incidents_release(incidents, entry);
        if (end != INCIDENT_END_NOT_ENDED)
            incidents_close(incidents, entry, end);
    }
}

/* Parents first, so that what is under them is never told. */
static void open_those_due(Incidents *incidents)
{
    bool more = true;

    for (int pass = 0; more && pass <= INCIDENTS_DEPTH; pass++) {
        more = false;
        for (size_t i = 0; i < INCIDENTS_MAX; i++) {
            IncidentEntry *entry = incidents->entries[i];

            if (!entry || !incidents_due(incidents, entry))
                continue;
            if (pass < INCIDENTS_DEPTH && incidents_waits(incidents, entry))
                more = true;
            else
                incidents_open(incidents, entry);
        }
    }
}

static void silence(Incidents *incidents, IncidentEntry *entry)
{
    const MaintenanceWindow *window =
        incidents->maintenance ? maintenance_covers(incidents->maintenance, &entry->it.device) : NULL;
    const char *id = window ? window->id : "";

    if (strcmp(entry->it.window, id) == 0 && entry->it.silenced == (window != NULL))
        return;
    entry->it.silenced = window != NULL;
    memset(entry->it.window, 0, sizeof entry->it.window);
    memcpy(entry->it.window, id, strlen(id));
    incidents_tell(incidents, entry, INCIDENT_CHANGE_SILENCED);
}

static void tell_news(Incidents *incidents)
{
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (!entry || entry->it.state != INCIDENT_OPEN)
            continue;
        silence(incidents, entry);
        if (entry->dirty && since(incidents->now_ns, entry->it.updated_ns) >= INCIDENT_UPDATE_NS)
            incidents_tell(incidents, entry, INCIDENT_CHANGE_UPDATED);
    }
}

static void forget_followers(Incidents *incidents)
{
    for (size_t i = 0; incidents->followers && i < INCIDENTS_FOLLOWERS; i++) {
        IncidentFollower *one = &incidents->followers[i];

        if (one->parent && since(incidents->now_ns, one->last_ns) > INCIDENTS_GRACE_NS)
            one->parent = NULL;
    }
}

void incidents_turn(Incidents *incidents, uint64_t now_ns, uint64_t real_ns)
{
    incidents->now_ns = number_max_u64(incidents->now_ns, now_ns);
    incidents->real_ns = real_ns;
    if (incidents->replaying && incidents->replay_ns == 0)
        incidents->replay_ns = number_max_u64(incidents->now_ns, 1);
    if (incidents->replaying && since(incidents->now_ns, incidents->replay_ns) >= INCIDENTS_REPLAY_NS)
        incidents->replaying = false;
    end_those_over(incidents);
    open_those_due(incidents);
    tell_news(incidents);
    forget_followers(incidents);
    if (!incidents->looked)
        incidents->tick++;
    incidents_arrange(incidents);
}
