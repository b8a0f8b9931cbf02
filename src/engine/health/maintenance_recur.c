/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows that recur. The days and times of a node's own zone are turned into instants by the C library (localtime_r,
 * mktime), the one place where the engine asks the machine for something: its zone. Where a time of day is left out
 * at the change to summer time the window begins an hour later, where it comes twice it begins once; its length is
 * always that of the configuration.
 */
#include "engine/health/maintenance_inside.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/number.h"

enum { DAYS = 7, EVERY_DAY = 0x7f };

static const char *const day_words[DAYS] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

/* --- reading --- */

static int read_day(const YamlNode *node, uint8_t *days, Err *err)
{
    const char *text = yaml_text(node);

    for (int i = 0; text && i < DAYS; i++) {
        if (strcmp(text, day_words[i]) == 0) {
            *days |= (uint8_t)(1u << i);
            return 0;
        }
    }
    return yaml_fail(node, err, "'%.20s' is no day; use mon, tue, wed, thu, fri, sat, sun, or daily",
                     text ? text : yaml_kind_name(node->kind));
}

static int read_days(const YamlNode *node, uint8_t *ret_days, Err *err)
{
    uint8_t days = 0;

    if (node->kind == YAML_SCALAR && strcmp(node->text, "daily") == 0) {
        *ret_days = EVERY_DAY;
        return 0;
    }
    if (node->kind == YAML_SCALAR) {
        TRY(read_day(node, &days, err));
    } else {
        TRY(yaml_want(node, YAML_SEQ, "days", err));
        for (size_t i = 0; i < node->len; i++)
            TRY(read_day(node->items[i], &days, err));
    }
    if (days == 0)
        return yaml_fail(node, err, "'days' names no day");
    *ret_days = days;
    return 0;
}

static int read_time(const YamlNode *node, Recurrence *recurrence, Err *err)
{
    const char *text = yaml_text(node), *colon = text ? strchr(text, ':') : NULL;
    uint64_t hour = 0, minute = 0;

    if (!colon || colon == text || colon - text > 2 || strlen(colon + 1) != 2 ||
        number_parsen_u64(text, (size_t)(colon - text), 0, 23, &hour, NULL) < 0 ||
        number_parse_u64(colon + 1, 0, 59, &minute, NULL) < 0)
        return yaml_fail(node, err, "'from' must be a time of day such as \"02:30\"");
    recurrence->hour = (int)hour;
    recurrence->minute = (int)minute;
    return 0;
}

static int read_for(const YamlNode *node, uint64_t *ret_ns, Err *err)
{
    const char *text = yaml_text(node);

    if (!text || duration_parse(text, ret_ns, NULL) < 0 || *ret_ns < NS_PER_MIN || *ret_ns > NS_PER_WEEK)
        return yaml_fail(node, err, "'for' must be a duration from 1m to 1w, such as 2h");
    return 0;
}

static int read_gpu(const YamlNode *node, MaintenanceWindow *window, size_t *uuids, Err *err)
{
    const char *text = yaml_text(node);
    uint64_t index;

    if (text && strncmp(text, "GPU-", 4) == 0) {
        size_t cap = sizeof window->uuids / sizeof window->uuids[0];

        if (*uuids == cap || strlen(text) >= DEVICE_UUID_CAP)
            return yaml_fail(node, err, "at most %zu GPUs can be named by UUID", cap);
        memcpy(window->uuids[(*uuids)++], text, strlen(text));
        return 0;
    }
    if (!text || number_parse_u64(text, 0, 63, &index, NULL) < 0)
        return yaml_fail(node, err, "'gpus' must be all, or a list of numbers from 0 to 63 and of UUIDs");
    window->gpus |= UINT64_C(1) << index;
    return 0;
}

static int read_gpus(const YamlNode *node, MaintenanceWindow *window, Err *err)
{
    size_t uuids = 0;

    if (node->kind == YAML_SCALAR && strcmp(node->text, "all") == 0)
        return 0;
    if (node->kind == YAML_SCALAR)
        return read_gpu(node, window, &uuids, err);
    TRY(yaml_want(node, YAML_SEQ, "gpus", err));
    if (node->len == 0)
        return yaml_fail(node, err, "'gpus' names no GPU; use all for the whole node");
    for (size_t i = 0; i < node->len; i++)
        TRY(read_gpu(node->items[i], window, &uuids, err));
    return 0;
}

static int read_key(const YamlPair *pair, Recurrence *recurrence, MaintenanceWindow *window, Err *err)
{
    const char *key = pair->key->text, *text = yaml_text(pair->value);

    if (strcmp(key, "days") == 0)
        return read_days(pair->value, &recurrence->days, err);
    if (strcmp(key, "from") == 0)
        return read_time(pair->value, recurrence, err);
    if (strcmp(key, "for") == 0)
        return read_for(pair->value, &recurrence->duration_ns, err);
    if (strcmp(key, "gpus") == 0)
        return read_gpus(pair->value, window, err);
    if (strcmp(key, "zone") == 0) {
        recurrence->utc = text && strcmp(text, "utc") == 0;
        return recurrence->utc || (text && strcmp(text, "local") == 0)
                   ? 0
                   : yaml_fail(pair->value, err, "'zone' must be utc or local");
    }
    if (strcmp(key, "reason") != 0)
        return yaml_fail(pair->key, err, "'%.40s' is unknown; known are days, from, for, gpus, reason, zone", key);
    if (!text || strlen(text) >= MAINTENANCE_REASON_CAP)
        return yaml_fail(pair->value, err, "'reason' must be a text of less than %d bytes", MAINTENANCE_REASON_CAP);
    memcpy(window->reason, text, strlen(text));
    return 0;
}

int recurrence_read(const YamlNode *entry, Recurrence *ret, MaintenanceWindow *ret_window, Err *err)
{
    Recurrence recurrence = {.days = EVERY_DAY, .hour = -1};
    MaintenanceWindow window = {.recurring = true, .who = "configuration"};

    TRY(yaml_want(entry, YAML_MAP, "maintenance", err));
    for (size_t i = 0; i < entry->len; i++)
        TRY(read_key(&entry->pairs[i], &recurrence, &window, err));
    if (recurrence.hour < 0)
        return yaml_fail(entry, err, "a window needs 'from', its time of day");
    if (recurrence.duration_ns == 0)
        return yaml_fail(entry, err, "a window needs 'for', its length");
    *ret = recurrence;
    *ret_window = window;
    return 0;
}

bool recurrence_equal(const Recurrence *a, const Recurrence *b)
{
    return a->days == b->days && a->utc == b->utc && a->hour == b->hour && a->minute == b->minute &&
           a->duration_ns == b->duration_ns;
}

/* --- occurrences --- */

/* Where the occurrence of the day `offset` days from the one of `today` begins; false where that day is none. */
static bool begins(const Recurrence *recurrence, const struct tm *today, int offset, uint64_t *ret_ns)
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

bool recurrence_next(const Recurrence *recurrence, uint64_t real_ns, uint64_t *ret_from_ns, uint64_t *ret_until_ns)
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

        if (!begins(recurrence, &today, offset, &from) || from < recurrence->skip_until_ns)
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
