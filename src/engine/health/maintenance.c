/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows started by hand, and windows of the configuration that recur. The days and times of a node's own zone are
 * converted by the C library (localtime_r, mktime): the one place where the engine depends on the machine. A time of
 * day that the change to summer time leaves out begins an hour later, one that comes twice begins once; the length is
 * always that of the configuration.
 */
#include "engine/health/maintenance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/opt.h"
#include "engine/health/incidents.h"

enum { DAYS = 7, EVERY_DAY = 0x7f };

static const char *const day_words[DAYS] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

/* A window of the configuration: on these days of the week from this time of day on. */
typedef struct Recurrence {
    uint8_t days; /* bit per day, Sunday is 0 */
    bool utc;     /* else the node's own time zone */
    int hour, minute;
    uint64_t duration_ns;
    uint64_t skip_until_ns; /* those that begin before are left out */
} Recurrence;

/* Recurring windows first, then those started by hand, in the order of their start. */
struct Maintenance {
    size_t count, recurring;
    uint64_t last_id;
    uint64_t real_ns; /* of the last maintenance_advance: when the clock goes back, occurrences are found anew */
    MaintenanceWindow windows[MAINTENANCE_MAX];
    Recurrence recurrences[MAINTENANCE_MAX];
};

/* --- reading --- */

/* A window as the configuration says it. */
typedef struct Written {
    OptList days, gpus;
    const char *from, *reason;
    uint64_t for_ns;
    int zone;
} Written;

enum { ZONE_LOCAL, ZONE_UTC };
static const char *const zones[] = {[ZONE_LOCAL] = "local", [ZONE_UTC] = "utc", NULL};

static const OptSpec window_opts[] = {
    OPT_ROW("days", OPT_LIST, Written, days, .help = "days of the week, or daily"),
    OPT_ROW("from", OPT_STRING, Written, from, .help = "time of day"),
    OPT_ROW("for", OPT_DURATION, Written, for_ns, .min = 6e10, .max = 6048e11, .help = "its length"),
    OPT_ROW("gpus", OPT_LIST, Written, gpus, .help = "indices and UUIDs, or all"),
    OPT_ROW("reason", OPT_STRING, Written, reason, .help = "why"),
    OPT_ROW("zone", OPT_ENUM, Written, zone, .names = zones, .help = "whose days and times"),
};

static int read_days(const OptSet *set, const OptList *days, const YamlNode *node, uint8_t *ret_days, Err *err)
{
    if (!node)
        return 0;
    *ret_days = 0;
    for (size_t i = 0; i < days->len; i++) {
        uint8_t bits = strcmp(days->items[i], "daily") == 0 ? EVERY_DAY : 0;

        for (int day = 0; day < DAYS; day++)
            bits |= (uint8_t)((strcmp(days->items[i], day_words[day]) == 0) << day);
        if (bits == 0)
            return opt_fail(set, "days", i, err, "'%.20s' is no day; use mon, tue, wed, thu, fri, sat, sun, or daily",
                            days->items[i]);
        *ret_days |= bits;
    }
    return *ret_days ? 0 : yaml_fail(node, err, "'days' names no day");
}

static int read_time(const char *text, const YamlNode *node, Recurrence *recurrence, Err *err)
{
    const char *colon = strchr(text, ':');
    uint64_t hour = 0, minute = 0;

    if (!colon || colon == text || colon - text > 2 || strlen(colon + 1) != 2 ||
        number_parsen_u64(text, (size_t)(colon - text), 0, 23, &hour, NULL) < 0 ||
        number_parse_u64(colon + 1, 0, 59, &minute, NULL) < 0)
        return yaml_fail(node, err, "'from' must be a time of day such as \"02:30\"");
    recurrence->hour = (int)hour;
    recurrence->minute = (int)minute;
    return 0;
}

static int read_gpus(const OptList *gpus, const YamlNode *node, MaintenanceWindow *window, Err *err)
{
    size_t uuids = 0;

    if (!node || (gpus->len == 1 && strcmp(gpus->items[0], "all") == 0))
        return 0;
    for (size_t i = 0; i < gpus->len; i++) {
        const char *text = gpus->items[i];
        uint64_t index = 0;

        if (strncmp(text, "GPU-", 4) == 0) {
            if (uuids == MAINTENANCE_UUIDS || strlen(text) >= DEVICE_UUID_CAP)
                return yaml_fail(node, err, "at most %d GPUs can be named by UUID", MAINTENANCE_UUIDS);
            memcpy(window->uuids[uuids++], text, strlen(text));
        } else if (number_parse_u64(text, 0, 63, &index, NULL) < 0) {
            return yaml_fail(node, err, "'gpus' must be all, or a list of numbers from 0 to 63 and of UUIDs");
        } else {
            window->gpus |= UINT64_C(1) << index;
        }
    }
    return gpus->len ? 0 : yaml_fail(node, err, "'gpus' names no GPU; use all for the whole node");
}

static int read_window(const YamlNode *entry, Arena *arena, Recurrence *ret, MaintenanceWindow *ret_window, Err *err)
{
    Written in = {0};
    OptPlace places[ARRAY_LEN(window_opts)] = {0};
    const OptSet set = {.opts = window_opts, .count = ARRAY_LEN(window_opts), .into = &in, .arena = arena, .places = places};
    Recurrence recurrence = {.days = EVERY_DAY};
    MaintenanceWindow window = {.recurring = true, .who = "configuration"};

    TRY(yaml_want(entry, YAML_MAP, "maintenance", err));
    TRY(opt_yaml(&set, entry, err));
    if (!in.from)
        return yaml_fail(entry, err, "a window needs 'from', its time of day");
    if (in.for_ns == 0)
        return yaml_fail(entry, err, "a window needs 'for', its length");
    if (in.reason && strlen(in.reason) >= MAINTENANCE_REASON_CAP)
        return yaml_fail(yaml_get(entry, "reason"), err, "'reason' must be a text of less than %d bytes",
                         MAINTENANCE_REASON_CAP);
    TRY(read_days(&set, &in.days, yaml_get(entry, "days"), &recurrence.days, err));
    TRY(read_time(in.from, yaml_get(entry, "from"), &recurrence, err));
    TRY(read_gpus(&in.gpus, yaml_get(entry, "gpus"), &window, err));
    recurrence.utc = in.zone == ZONE_UTC;
    recurrence.duration_ns = in.for_ns;
    snprintf(window.reason, sizeof window.reason, "%s", in.reason ? in.reason : "");
    *ret = recurrence;
    *ret_window = window;
    return 0;
}

static bool is_same_recurrence(const Recurrence *a, const Recurrence *b)
{
    return a->days == b->days && a->utc == b->utc && a->hour == b->hour && a->minute == b->minute &&
           a->duration_ns == b->duration_ns;
}

/* --- occurrences --- */

/* The begin of the occurrence on the day `offset` days from `today`; false: none that day. */
static bool find_begin(const Recurrence *recurrence, const struct tm *today, int offset, uint64_t *ret_ns)
{
    struct tm day = {.tm_year = today->tm_year,
                     .tm_mon = today->tm_mon,
                     .tm_mday = today->tm_mday + offset,
                     .tm_hour = recurrence->hour,
                     .tm_min = recurrence->minute,
                     .tm_isdst = -1};
    struct tm noon = {.tm_year = day.tm_year, .tm_mon = day.tm_mon, .tm_mday = day.tm_mday, .tm_hour = 12};
    time_t from;

    if (timegm(&noon) == (time_t)-1 || !(recurrence->days & 1u << noon.tm_wday))
        return false;
    from = recurrence->utc ? timegm(&day) : mktime(&day);
    if (from < 0)
        return false;
    *ret_ns = (uint64_t)from * NS_PER_S;
    return true;
}

/* Its present occurrence, the one that ends last where several overlap, or the next one. False: none within a fortnight
 * (the wall clock is out of bounds). */
static bool find_next_occurrence(const Recurrence *recurrence, uint64_t real_ns, uint64_t *ret_from_ns,
                                 uint64_t *ret_until_ns)
{
    time_t now = (time_t)(real_ns / NS_PER_S);
    struct tm today;
    bool found = false, active = false;

    if (real_ns > UINT64_MAX - 4 * NS_PER_WEEK ||
        !(recurrence->utc ? gmtime_r(&now, &today) : localtime_r(&now, &today)))
        return false;
    /* One may have begun as long ago as it lasts; the one after those that are skipped may be two weeks ahead. */
    for (int offset = -DAYS - 1; offset <= 3 * DAYS + 1; offset++) {
        uint64_t from, until;

        if (!find_begin(recurrence, &today, offset, &from) || from < recurrence->skip_until_ns)
            continue;
        until = from + recurrence->duration_ns;
        if (until <= real_ns || (found && !(active && from <= real_ns)))
            continue; /* over; or later than the one that was found */
        found = true;
        active = from <= real_ns;
        *ret_from_ns = from;
        *ret_until_ns = until;
    }
    return found;
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

Maintenance *maintenance_new(void)
{
    return xcalloc(1, sizeof(Maintenance));
}

void maintenance_free(Maintenance *maintenance)
{
    free(maintenance);
}

static bool is_same_window(const MaintenanceWindow *a, const MaintenanceWindow *b)
{
    return a->gpus == b->gpus && strcmp(a->reason, b->reason) == 0 && memcmp(a->uuids, b->uuids, sizeof a->uuids) == 0;
}

/* A skipped occurrence stays skipped if its window is still configured. */
static void keep_skips(const Maintenance *old, Recurrence *recurrence, const MaintenanceWindow *window)
{
    for (size_t i = 0; i < old->recurring; i++)
        if (is_same_recurrence(&old->recurrences[i], recurrence) && is_same_window(&old->windows[i], window))
            recurrence->skip_until_ns = old->recurrences[i].skip_until_ns;
}

static int read_list(const Maintenance *old, const YamlNode *list, Arena *arena, Maintenance *next, Err *err)
{
    size_t by_hand = old->count - old->recurring;

    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "maintenance", err));
    for (size_t i = 0; i < list->len; i++) {
        MaintenanceWindow *window = &next->windows[next->recurring];

        if (next->recurring + by_hand == MAINTENANCE_MAX)
            return yaml_fail(list->items[i], err, "more than %d maintenance windows", MAINTENANCE_MAX);
        TRY(read_window(list->items[i], arena, &next->recurrences[next->recurring], window, err));
        keep_skips(old, &next->recurrences[next->recurring], window);
        snprintf(window->id, sizeof window->id, "cfg-%u", (unsigned)(i + 1));
        next->recurring++;
    }
    return 0;
}

int maintenance_configure(Maintenance *maintenance, const YamlNode *list, Err *err)
{
    Maintenance *next = xcalloc(1, sizeof *next);
    Arena arena = {0};
    int rc = read_list(maintenance, list, &arena, next, err);
    arena_done(&arena);

    if (rc == 0) {
        next->count = next->recurring + maintenance->count - maintenance->recurring;
        next->last_id = maintenance->last_id;
        memcpy(next->windows + next->recurring, maintenance->windows + maintenance->recurring,
               (maintenance->count - maintenance->recurring) * sizeof next->windows[0]);
        *maintenance = *next; /* updated by the next maintenance_advance */
    }
    free(next);
    return rc;
}

static MaintenanceWindow *find_window(Maintenance *maintenance, const char *id)
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
    if (window->id[0] != '\0' && find_window(maintenance, window->id))
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

int maintenance_add(Maintenance *maintenance, const MaintenanceWindow *window, Err *err)
{
    if (maintenance->count == MAINTENANCE_MAX)
        return err_set(err, -ENOSPC, "there are %d maintenance windows already", MAINTENANCE_MAX);
    maintenance->windows[maintenance->count++] = *window;
    return 0;
}

static void remove_window(Maintenance *maintenance, size_t at)
{
    memmove(maintenance->windows + at, maintenance->windows + at + 1,
            (maintenance->count - at - 1) * sizeof maintenance->windows[0]);
    maintenance->count--;
}

static void update_recurring(Maintenance *maintenance, size_t at, uint64_t real_ns, bool seek)
{
    MaintenanceWindow *window = &maintenance->windows[at];

    if ((seek || real_ns >= window->until_real_ns) &&
        !find_next_occurrence(&maintenance->recurrences[at], real_ns, &window->from_real_ns, &window->until_real_ns))
        window->from_real_ns = window->until_real_ns = 0;
    window->active = window->from_real_ns <= real_ns && real_ns < window->until_real_ns;
}

int maintenance_stop(Maintenance *maintenance, const char *id, uint64_t real_ns, Err *err)
{
    MaintenanceWindow *window = find_window(maintenance, id);
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
        remove_window(maintenance, at);
        return 0;
    }
    update_recurring(maintenance, at, real_ns, true);
    maintenance->recurrences[at].skip_until_ns = window->until_real_ns;
    update_recurring(maintenance, at, real_ns, true);
    return 0;
}

void maintenance_advance(Maintenance *maintenance, uint64_t real_ns)
{
    const bool seek = real_ns < maintenance->real_ns || maintenance->real_ns == 0;

    maintenance->real_ns = real_ns;
    for (size_t i = 0; i < maintenance->recurring; i++)
        update_recurring(maintenance, i, real_ns, seek);
    for (size_t i = maintenance->count; i-- > maintenance->recurring;) {
        maintenance->windows[i].active = maintenance->windows[i].from_real_ns <= real_ns;
        if (real_ns >= maintenance->windows[i].until_real_ns)
            remove_window(maintenance, i);
    }
}

size_t maintenance_count(const Maintenance *maintenance)
{
    return maintenance->count;
}

const MaintenanceWindow *maintenance_at(const Maintenance *maintenance, size_t i)
{
    return &maintenance->windows[i];
}

static bool covers_device(const MaintenanceWindow *window, const Device *device)
{
    const char *uuid = device_whole_uuid(device);
    size_t named = 0;

    if (window->gpus == 0 && window->uuids[0][0] == '\0')
        return true;
    if (device->kind == DEVICE_NODE || device_is_switch(device))
        return false;
    for (; named < MAINTENANCE_UUIDS && window->uuids[named][0] != '\0'; named++)
        if (strcmp(window->uuids[named], uuid) == 0)
            return true;
    /* By its index only if the window does not know the UUIDs of its GPUs. */
    return device->index < 64 && (window->gpus >> device->index & 1) != 0 &&
           (uuid[0] == '\0' || named < (size_t)__builtin_popcountll(window->gpus));
}

const MaintenanceWindow *maintenance_covers(const Maintenance *maintenance, const Device *device)
{
    const MaintenanceWindow *best = NULL;

    for (size_t i = 0; i < maintenance->count; i++) {
        const MaintenanceWindow *window = &maintenance->windows[i];

        if (window->active && covers_device(window, device) && (!best || window->until_real_ns > best->until_real_ns))
            best = window;
    }
    return best;
}
