/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a sign is: its own incident's, a parent's, a new one's; and opening, with what that takes under it. */
#include "engine/health/incidents_inside.h"

#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static bool ancestor(const Incidents *incidents, const FaultClass *child, const char *id, int depth)
{
    for (size_t i = 0; i < child->parent_count; i++)
        if (strcmp(child->parents[i], id) == 0)
            return true;
    for (size_t i = 0; depth < INCIDENTS_DEPTH && i < child->parent_count; i++) {
        const FaultClass *next = catalogue_class(incidents->catalogue, child->parents[i]);

        if (next && ancestor(incidents, next, id, depth + 1))
            return true;
    }
    return false;
}

bool incidents_ancestor(const Incidents *incidents, const FaultClass *child, const char *id, uint64_t *ret_window_ns)
{
    *ret_window_ns = child->parent_ns;
    return strcmp(child->id, id) != 0 && ancestor(incidents, child, id, 0);
}

/* As good as open: it opens at the next turn. */
static bool stands(const IncidentEntry *entry)
{
    return entry->it.state == INCIDENT_OPEN || (entry->it.state == INCIDENT_PENDING && entry->due);
}

static bool has_code(const Incident *it, int32_t code)
{
    for (uint32_t i = 0; i < it->code_count; i++)
        if (it->codes[i] == code)
            return true;
    return false;
}

/* Whether what began at `from` happened while `parent` was seen, or within `window` before or after. */
static bool is_near(const IncidentEntry *parent, uint64_t from, bool peer, uint64_t window)
{
    if (peer)
        return parent->it.severity == SEVERITY_FATAL && apart(parent->onset_ns, from) <= window;
    if (from < parent->onset_ns)
        return parent->onset_ns - from <= window;
    return from <= parent->near_ns || from - parent->near_ns <= window;
}

static bool is_hardware(const IncidentEntry *entry)
{
    return entry->it.cause != CAUSE_APPLICATION && entry->it.cause != CAUSE_OPERATOR &&
           entry->it.cause != CAUSE_CONFIGURATION && entry->key.place != 0;
}

/* By its own words: what it follows, or what the driver asks for. */
static bool named(const IncidentEntry *entry, const IncidentInput *in, bool peer)
{
    if (peer || entry->key.kind == DEVICE_NODE)
        return false;
    if (in->caused_by != 0 && has_code(&entry->it, in->caused_by) &&
        is_near(entry, in->time_ns, false, INCIDENTS_QUIET_NS))
        return true;
    return in->decides && is_hardware(entry) && in->key.place == entry->key.place &&
           is_near(entry, in->time_ns, false, INCIDENTS_DECIDE_NS);
}

static bool takes(const Incidents *incidents, const IncidentEntry *entry, const IncidentInput *in, uint64_t from)
{
    uint64_t window;
    bool peer;

    if (!entry->class || entry->class->observe || entry->key.class == in->key.class ||
        !incidents_related(&entry->key, &in->key, &peer))
        return false;
    return named(entry, in, peer) ||
           (incidents_ancestor(incidents, in->class, entry->class->id, &window) && is_near(entry, from, peer, window));
}

const IncidentEntry *incidents_explains(const Incidents *incidents, const IncidentInput *in, const char *class)
{
    for (size_t i = 0; i < incidents->order_count; i++) {
        const IncidentEntry *entry = incidents->order[i];
        bool peer;

        if (entry->class && stands(entry) && strcmp(entry->class->id, class) == 0 &&
            incidents_related(&entry->key, &in->key, &peer) && !peer &&
            is_near(entry, in->time_ns, false, in->class->parent_ns))
            return entry;
    }
    return NULL;
}

/* Of several: the one it names, then the nearest thing, then the worst, then the latest. */
static bool better(const IncidentEntry *a, const IncidentEntry *b, const IncidentInput *in)
{
    bool a_named = in->caused_by != 0 && has_code(&a->it, in->caused_by);
    bool b_named = in->caused_by != 0 && has_code(&b->it, in->caused_by);
    bool a_same = a->key.place == in->key.place, b_same = b->key.place == in->key.place;

    if (a_named != b_named)
        return a_named;
    if (a_same != b_same)
        return a_same;
    if (a->it.severity != b->it.severity)
        return a->it.severity > b->it.severity;
    return a->near_ns > b->near_ns;
}

/* `pending`: what there is of it already, NULL. */
static IncidentEntry *find_parent(const Incidents *incidents, const IncidentInput *in, const IncidentEntry *pending)
{
    uint64_t from = pending && !pending->silent ? pending->onset_ns : in->time_ns;
    IncidentEntry *best = NULL;

    for (size_t i = 0; i < incidents->order_count; i++) {
        IncidentEntry *entry = incidents->order[i];

        if (stands(entry) && takes(incidents, entry, in, from) && (!best || better(entry, best, in)))
            best = entry;
    }
    return best;
}

IncidentEntry *incidents_taker(const Incidents *incidents, const IncidentInput *in)
{
    IncidentEntry *own = incidents_live(incidents, &in->key), *parent;

    if (own && stands(own))
        return own;
    parent = find_parent(incidents, in, own);
    return parent ? parent : own;
}

static IncidentFollower *find_follower(const Incidents *incidents, const IncidentKey *key)
{
    for (size_t i = 0; incidents->followers && i < INCIDENTS_FOLLOWERS; i++)
        if (incidents->followers[i].parent && incidents_key_equal(&incidents->followers[i].key, key))
            return &incidents->followers[i];
    return NULL;
}

static void follow(Incidents *incidents, const IncidentKey *key, IncidentEntry *parent, uint64_t time_ns)
{
    IncidentFollower *best = NULL;

    if (!incidents->followers)
        incidents->followers = xcalloc(INCIDENTS_FOLLOWERS, sizeof *incidents->followers);
    for (size_t i = 0; i < INCIDENTS_FOLLOWERS; i++) {
        IncidentFollower *one = &incidents->followers[i];

        if (!best || (best->parent && (!one->parent || one->last_ns < best->last_ns)))
            best = one;
    }
    *best = (IncidentFollower){.key = *key, .parent = parent, .last_ns = time_ns};
}

/* A condition that is an echo already goes on as one, for as long as its parent is open. */
static IncidentEntry *followed(Incidents *incidents, const IncidentInput *in)
{
    IncidentFollower *follower = in->holds ? find_follower(incidents, &in->key) : NULL;

    if (!follower)
        return NULL;
    if (!stands(follower->parent)) {
        follower->parent = NULL;
        return NULL;
    }
    follower->last_ns = in->time_ns;
    incidents_echo(incidents, follower->parent, in, false);
    return follower->parent;
}

static IncidentEntry *give_to(Incidents *incidents, IncidentEntry *parent, IncidentEntry *pending,
                              const IncidentInput *in)
{
    if (pending) {
        incidents_absorb(incidents, parent, pending, true);
        incidents_release(incidents, pending);
    }
    if (in->holds)
        follow(incidents, &in->key, parent, in->time_ns);
    incidents_echo(incidents, parent, in, true);
    return parent;
}

static IncidentEntry *find_cleared(const Incidents *incidents, const IncidentKey *key)
{
    IncidentEntry *best = NULL;

    for (size_t i = 0; i < incidents->order_count; i++) {
        IncidentEntry *entry = incidents->order[i];

        if (entry->it.state == INCIDENT_CLEARED && entry->it.end != INCIDENT_END_MERGED &&
            entry->it.end != INCIDENT_END_REPLACED && incidents_key_equal(&entry->key, key) &&
            (!best || entry->cleared_ns > best->cleared_ns))
            best = entry;
    }
    return best;
}

/* Just after a reset the readings may still be those of before. */
static bool settles(const Incidents *incidents, const IncidentInput *in)
{
    const IncidentEntry *old = in->holds ? find_cleared(incidents, &in->key) : NULL;

    return old && (old->it.end == INCIDENT_END_RESET || old->it.end == INCIDENT_END_DRIVER_RELOAD) &&
           in->time_ns < old->cleared_ns + INCIDENTS_SETTLE_NS;
}

IncidentEntry *incidents_take(Incidents *incidents, const IncidentInput *in, bool *ret_echo)
{
    IncidentEntry *entry = incidents_live(incidents, &in->key), *parent;

    *ret_echo = false;
    if (!entry || !stands(entry)) {
        *ret_echo = true;
        parent = followed(incidents, in);
        if (parent)
            return parent;
        parent = find_parent(incidents, in, entry);
        if (parent)
            return give_to(incidents, parent, entry, in);
        *ret_echo = false;
        if (!entry && settles(incidents, in))
            return NULL;
    }
    if (!entry)
        entry = incidents_make(incidents, in);
    if (!entry)
        return NULL;
    incidents_own(incidents, entry, in);
    entry->due = entry->due || (!in->silent && !in->holds);
    return entry;
}

bool incidents_due(const Incidents *incidents, const IncidentEntry *entry)
{
    if (entry->it.state != INCIDENT_PENDING || entry->due)
        return entry->it.state == INCIDENT_PENDING && !(entry->it.before && incidents->replaying);
    for (size_t i = 0; i < entry->hold_count; i++) {
        const IncidentHold *hold = &entry->holds[i];

        if (!entry->silent && hold->tick == incidents->tick &&
            incidents->now_ns >= number_min_u64(hold->since_ns, UINT64_MAX - hold->for_ns) + hold->for_ns)
            return true;
    }
    return false;
}

/* Whether `child` came of what `parent` is, by class, thing and time. */
static bool consequence(const Incidents *incidents, const IncidentEntry *parent, const IncidentEntry *child)
{
    uint64_t window, from = child->silent ? child->near_ns : child->onset_ns;
    bool peer;

    if (child == parent || !child->class || !parent->class || parent->class->observe ||
        child->it.state == INCIDENT_CLEARED || !incidents_related(&parent->key, &child->key, &peer))
        return false;
    if (child->caused_by != 0 && !peer && has_code(&parent->it, child->caused_by))
        return is_near(parent, from, false, INCIDENTS_QUIET_NS);
    if (incidents_ancestor(incidents, child->class, parent->class->id, &window))
        return is_near(parent, from, peer, window);
    return strcmp(child->class->id, INCIDENTS_RESET_CLASS) == 0 && child->key.place == parent->key.place &&
           is_hardware(parent) && is_near(parent, from, false, INCIDENTS_DECIDE_NS);
}

static bool told_as_worse(const IncidentEntry *parent, const IncidentEntry *child)
{
    return child->it.state == INCIDENT_OPEN &&
           (child->it.severity > parent->it.severity || child->it.route > parent->it.route);
}

bool incidents_waits(const Incidents *incidents, const IncidentEntry *entry)
{
    for (size_t i = 0; i < incidents->order_count; i++)
        if (incidents->order[i]->it.state == INCIDENT_PENDING && incidents_due(incidents, incidents->order[i]) &&
            consequence(incidents, incidents->order[i], entry))
            return true;
    return false;
}

/* What came before its parent goes under it. Those that were told are returned, to be told off after it. */
static size_t gather(Incidents *incidents, IncidentEntry *parent, IncidentEntry *ret_told[INCIDENTS_MAX])
{
    size_t told = 0;

    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *child = incidents->entries[i];

        if (!child || !consequence(incidents, parent, child) || told_as_worse(parent, child))
            continue;
        incidents_absorb(incidents, parent, child, true);
        if (child->hold_count > 0)
            follow(incidents, &child->key, parent, child->near_ns);
        if (child->it.state == INCIDENT_OPEN)
            ret_told[told++] = child;
        else
            incidents_release(incidents, child);
    }
    return told;
}

/* A fault that came back so soon goes on where it was: the old one takes over what the new one has seen. */
static IncidentEntry *take_up(Incidents *incidents, IncidentEntry *entry)
{
    IncidentEntry *old = find_cleared(incidents, &entry->key);
    if (!old || apart(entry->onset_ns, old->cleared_ns) > entry->class->reopen_ns)
        return NULL;
    old->class = entry->class;
    old->it.state = INCIDENT_PENDING; /* nothing of this is told by itself */
    incidents_absorb(incidents, old, entry, false);
    old->it.reopened++;
    old->it.cleared_real_ns = 0;
    old->it.end = INCIDENT_END_NOT_ENDED;
    old->it.last_sign_ns = entry->it.last_sign_ns;
    old->it.before = entry->it.before;
    old->onset_ns = entry->onset_ns;
    old->near_ns = entry->near_ns;
    old->last_real_ns = entry->last_real_ns;
    old->decided = entry->decided;
    old->fed = entry->fed;
    old->restored = old->silent = old->due = false;
    old->keep_ns = entry->keep_ns;
    old->grace_ns = 0;
    old->hold_count = entry->hold_count;
    memcpy(old->holds, entry->holds, sizeof old->holds);
    incidents_release(incidents, entry);
    incidents->disordered = true;
    return old;
}

void incidents_open(Incidents *incidents, IncidentEntry *entry)
{
    IncidentEntry *old = take_up(incidents, entry), *told[INCIDENTS_MAX];
    const MaintenanceWindow *window;
    Incident *it;
    size_t count;

    entry = old ? old : entry;
    it = &entry->it;
    if (!old) {
        incidents->last_id = incident_id_next(incidents->last_id, incidents->real_ns, it->id);
        it->opened_ns = incidents->now_ns;
        it->opened_real_ns = incidents->real_ns;
    }
    count = gather(incidents, entry, told);
    it->state = INCIDENT_OPEN;
    incidents->disordered = true;
    entry->due = false;
    window = incidents->maintenance ? maintenance_covers(incidents->maintenance, &it->device) : NULL;
    it->silenced = window != NULL;
    memset(it->window, 0, sizeof it->window);
    if (window)
        memcpy(it->window, window->id, sizeof it->window);
    if (old)
        incidents->counts.reopened++;
    else
        incidents->counts.opened++;
    incidents_tell(incidents, entry, old ? INCIDENT_CHANGE_REOPENED : INCIDENT_CHANGE_OPENED);
    for (size_t i = 0; i < count; i++)
        incidents_close(incidents, told[i], INCIDENT_END_MERGED);
}
