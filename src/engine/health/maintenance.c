/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/maintenance_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "engine/health/incident_id.h"

/* The recurring ones first, then those by hand in the order of their start. */
struct Maintenance {
    size_t count, recurring;
    uint64_t last_id;
    uint64_t real_ns; /* of the turn before: a clock that went back has the occurrences sought anew */
    MaintenanceWindow windows[MAINTENANCE_MAX];
    Recurrence recurrences[MAINTENANCE_MAX];
};

Maintenance *maintenance_new(void)
{
    return xcalloc(1, sizeof(Maintenance));
}

void maintenance_free(Maintenance *maintenance)
{
    free(maintenance);
}

static bool same_window(const MaintenanceWindow *a, const MaintenanceWindow *b)
{
    return a->gpus == b->gpus && strcmp(a->reason, b->reason) == 0 && memcmp(a->uuids, b->uuids, sizeof a->uuids) == 0;
}

/* What was skipped stays skipped where the window is still there. */
static void keep_skips(const Maintenance *old, Recurrence *recurrence, const MaintenanceWindow *window)
{
    for (size_t i = 0; i < old->recurring; i++)
        if (recurrence_equal(&old->recurrences[i], recurrence) && same_window(&old->windows[i], window))
            recurrence->skip_until_ns = old->recurrences[i].skip_until_ns;
}

static int read_list(const Maintenance *old, const YamlNode *list, Maintenance *next, Err *err)
{
    size_t by_hand = old->count - old->recurring;

    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "maintenance", err));
    for (size_t i = 0; i < list->len; i++) {
        MaintenanceWindow *window = &next->windows[next->recurring];

        if (next->recurring + by_hand == MAINTENANCE_MAX)
            return yaml_fail(list->items[i], err, "more than %d maintenance windows", MAINTENANCE_MAX);
        TRY(recurrence_read(list->items[i], &next->recurrences[next->recurring], window, err));
        keep_skips(old, &next->recurrences[next->recurring], window);
        snprintf(window->id, sizeof window->id, "cfg-%u", (unsigned)(i + 1));
        next->recurring++;
    }
    return 0;
}

int maintenance_configure(Maintenance *maintenance, const YamlNode *list, Err *err)
{
    Maintenance *next = xcalloc(1, sizeof *next);
    int rc = read_list(maintenance, list, next, err);

    if (rc == 0) {
        next->count = next->recurring + maintenance->count - maintenance->recurring;
        next->last_id = maintenance->last_id;
        memcpy(next->windows + next->recurring, maintenance->windows + maintenance->recurring,
               (maintenance->count - maintenance->recurring) * sizeof next->windows[0]);
        *maintenance = *next; /* settled at the next turn */
    }
    free(next);
    return rc;
}

static MaintenanceWindow *find(Maintenance *maintenance, const char *id)
{
    for (size_t i = 0; i < maintenance->count; i++)
        if (strcmp(maintenance->windows[i].id, id) == 0)
            return &maintenance->windows[i];
    return NULL;
}

int maintenance_start(Maintenance *maintenance, const MaintenanceWindow *window, uint64_t real_ns,
                      char ret_id[INCIDENT_ID_CAP], Err *err)
{
    uint64_t from = window->from_real_ns > 0 ? window->from_real_ns : real_ns;
    MaintenanceWindow *next;

    if (window->until_real_ns <= real_ns || window->until_real_ns <= from)
        return err_set(err, -EINVAL, "a maintenance window must end later than now and than it begins");
    if (window->id[0] != '\0' && find(maintenance, window->id))
        return err_set(err, -EEXIST, "there is a maintenance window '%.20s' already", window->id);
    if (maintenance->count == MAINTENANCE_MAX)
        return err_set(err, -ENOSPC, "there are %d maintenance windows already; stop one first", MAINTENANCE_MAX);
    next = &maintenance->windows[maintenance->count++];
    *next = *window;
    next->from_real_ns = from;
    next->recurring = false;
    next->active = from <= real_ns;
    if (window->id[0] == '\0')
        maintenance->last_id = incident_id_next(maintenance->last_id, real_ns, next->id);
    else
        maintenance->last_id = number_max_u64(maintenance->last_id, incident_id_number(next->id));
    memcpy(ret_id, next->id, INCIDENT_ID_CAP);
    return 0;
}

int maintenance_told(Maintenance *maintenance, const MaintenanceWindow *window, Err *err)
{
    if (maintenance->count == MAINTENANCE_MAX)
        return err_set(err, -ENOSPC, "there are %d maintenance windows already", MAINTENANCE_MAX);
    maintenance->windows[maintenance->count++] = *window;
    return 0;
}

static void forget(Maintenance *maintenance, size_t at)
{
    memmove(maintenance->windows + at, maintenance->windows + at + 1,
            (maintenance->count - at - 1) * sizeof maintenance->windows[0]);
    maintenance->count--;
}

static bool settle_recurring(Maintenance *maintenance, size_t at, uint64_t real_ns, bool seek)
{
    MaintenanceWindow *window = &maintenance->windows[at];
    MaintenanceWindow before = *window;

    if (seek || real_ns >= window->until_real_ns) {
        if (!recurrence_next(&maintenance->recurrences[at], real_ns, &window->from_real_ns, &window->until_real_ns))
            window->from_real_ns = window->until_real_ns = 0;
    }
    window->active = window->from_real_ns <= real_ns && real_ns < window->until_real_ns;
    return window->active != before.active || window->from_real_ns != before.from_real_ns;
}

int maintenance_stop(Maintenance *maintenance, const char *id, uint64_t real_ns, Err *err)
{
    MaintenanceWindow *window = find(maintenance, id);
    size_t at;

    if (strcmp(id, "all") == 0) {
        if (maintenance->count == maintenance->recurring)
            return err_set(err, -ENOENT, "there is no maintenance window that was started by hand");
        maintenance->count = maintenance->recurring;
        return 0;
    }
    if (!window)
        return err_set(err, -ENOENT, "there is no maintenance window '%.20s'", id);
    at = (size_t)(window - maintenance->windows);
    if (!window->recurring) {
        forget(maintenance, at);
        return 0;
    }
    settle_recurring(maintenance, at, real_ns, true);
    maintenance->recurrences[at].skip_until_ns = window->until_real_ns;
    settle_recurring(maintenance, at, real_ns, true);
    return 0;
}

bool maintenance_turn(Maintenance *maintenance, uint64_t real_ns)
{
    bool changed = false, seek = real_ns < maintenance->real_ns || maintenance->real_ns == 0;

    maintenance->real_ns = real_ns;
    for (size_t i = 0; i < maintenance->recurring; i++)
        changed = settle_recurring(maintenance, i, real_ns, seek) || changed;
    for (size_t i = maintenance->count; i-- > maintenance->recurring;) {
        MaintenanceWindow *window = &maintenance->windows[i];
        bool active = window->from_real_ns <= real_ns;

        if (real_ns < window->until_real_ns && active == window->active)
            continue;
        changed = true;
        window->active = active;
        if (real_ns >= window->until_real_ns)
            forget(maintenance, i);
    }
    return changed;
}

size_t maintenance_count(const Maintenance *maintenance)
{
    return maintenance->count;
}

const MaintenanceWindow *maintenance_at(const Maintenance *maintenance, size_t i)
{
    return &maintenance->windows[i];
}

static bool covers(const MaintenanceWindow *window, const Device *device)
{
    bool part = device->kind != DEVICE_GPU;
    const char *uuid = part ? device->parent_uuid : device->uuid;
    size_t named = 0;

    if (window->gpus == 0 && window->uuids[0][0] == '\0')
        return true;
    if (device->kind == DEVICE_NODE || device->kind == DEVICE_SWITCH || device->kind == DEVICE_SWITCH_LINK)
        return false;
    for (; named < MAINTENANCE_UUIDS && window->uuids[named][0] != '\0'; named++)
        if (strcmp(window->uuids[named], uuid) == 0)
            return true;
    /* By its number only where the window does not know its GPUs better. */
    return device->index < 64 && (window->gpus >> device->index & 1) != 0 &&
           (uuid[0] == '\0' || named < (size_t)__builtin_popcountll(window->gpus));
}

const MaintenanceWindow *maintenance_covers(const Maintenance *maintenance, const Device *device)
{
    const MaintenanceWindow *best = NULL;

    for (size_t i = 0; i < maintenance->count; i++) {
        const MaintenanceWindow *window = &maintenance->windows[i];

        if (window->active && covers(window, device) && (!best || window->until_real_ns > best->until_real_ns))
            best = window;
    }
    return best;
}
