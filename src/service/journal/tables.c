/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/tables.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "base/cleanup.h"

/* --- rows of any table -------------------------------------------------------------------------------------------- */

void row_create(const RowTable *table, Str *sql)
{
    str_addf(sql, "CREATE TABLE %s(", table->name);
    for (size_t i = 0; i < table->count; i++) {
        const RowColumn *c = &table->columns[i];

        str_addf(sql, "%s%s %s %s", i ? ", " : "", c->name,
                 c->type == ROW_TEXT || c->type == ROW_WORD ? "TEXT" : "INTEGER", c->more ? c->more : "");
    }
    str_addf(sql, "%s) STRICT;", table->more);
}

void row_names(const RowTable *table, Str *sql)
{
    for (size_t i = 0; i < table->count; i++)
        str_addf(sql, "%s%s", i ? ", " : "", table->columns[i].name);
}

void row_insert(const RowTable *table, const char *names, int extra, Str *sql)
{
    str_addf(sql, "INSERT OR REPLACE INTO %s(", table->name);
    row_names(table, sql);
    str_addf(sql, "%s) VALUES(", names);
    for (size_t i = 1; i <= table->count + (size_t)extra; i++)
        str_addf(sql, "%s?%zu", i > 1 ? ", " : "", i);
    str_add(sql, ")");
}

static void bind_u32(sqlite3_stmt *statement, int at, uint32_t value)
{
    if (value == UINT32_MAX)
        sqlite3_bind_null(statement, at);
    else
        sqlite3_bind_int64(statement, at, value);
}

static int word_of(const void *member)
{
    int word;

    memcpy(&word, member, sizeof word);
    return word;
}

static void bind_one(const RowColumn *c, sqlite3_stmt *statement, int at, const char *member)
{
    uint64_t u64;
    uint32_t u32;
    int32_t i32;

    switch (c->type) {
    case ROW_TEXT:
        sqlite3_bind_text(statement, at, member, (int)strnlen(member, c->size), SQLITE_STATIC);
        break;
    case ROW_WORD:
        sqlite3_bind_text(statement, at, c->key(word_of(member)), -1, SQLITE_STATIC);
        break;
    case ROW_U64:
        memcpy(&u64, member, sizeof u64);
        sqlite3_bind_int64(statement, at, (sqlite3_int64)u64);
        break;
    case ROW_U32:
        memcpy(&u32, member, sizeof u32);
        bind_u32(statement, at, u32);
        break;
    case ROW_I32:
        memcpy(&i32, member, sizeof i32);
        sqlite3_bind_int64(statement, at, i32);
        break;
    case ROW_BOOL:
        sqlite3_bind_int64(statement, at, *member != 0);
        break;
    }
}

void row_bind(const RowTable *table, sqlite3_stmt *statement, const void *row)
{
    for (size_t i = 0; i < table->count; i++)
        bind_one(&table->columns[i], statement, (int)i + 1, (const char *)row + table->columns[i].off);
}

static void read_word(const RowColumn *c, const char *text, char *member)
{
    for (int i = 0; text && i < c->count; i++)
        if (strcmp(c->key(i), text) == 0)
            memcpy(member, &i, sizeof i);
}

static void read_one(const RowColumn *c, sqlite3_stmt *statement, int at, char *member)
{
    const char *text = (const char *)sqlite3_column_text(statement, at);
    const sqlite3_int64 number = sqlite3_column_int64(statement, at);
    const uint64_t u64 = (uint64_t)number;
    const uint32_t u32 = text ? (uint32_t)number : UINT32_MAX;
    const int32_t i32 = (int32_t)number;

    switch (c->type) {
    case ROW_TEXT:
        snprintf(member, c->size, "%s", text ? text : "");
        break;
    case ROW_WORD:
        read_word(c, text, member);
        break;
    case ROW_U64:
        memcpy(member, &u64, sizeof u64);
        break;
    case ROW_U32:
        memcpy(member, &u32, sizeof u32);
        break;
    case ROW_I32:
        memcpy(member, &i32, sizeof i32);
        break;
    case ROW_BOOL:
        *(bool *)member = number != 0;
        break;
    }
}

void row_read(const RowTable *table, sqlite3_stmt *statement, void *row)
{
    for (size_t i = 0; i < table->count; i++)
        read_one(&table->columns[i], statement, (int)i, (char *)row + table->columns[i].off);
}

/* --- the tables --------------------------------------------------------------------------------------------------- */

static const char *cause_key(int i)
{
    return fault_causes[i].key;
}
static const char *severity_key(int i)
{
    return fault_severities[i].key;
}
static const char *action_key(int i)
{
    return fault_actions[i].key;
}
static const char *route_key(int i)
{
    return fault_routes[i].key;
}
static const char *scope_key(int i)
{
    return fault_scopes[i].key;
}
static const char *state_key(int i)
{
    return incident_state_key((IncidentState)i);
}
static const char *end_key(int i)
{
    return incident_end_key((IncidentEnd)i);
}
static const char *device_key_of(int i)
{
    return device_kind_text((DeviceKind)i);
}
static const char *kind_key(int i)
{
    return event_kind_key((EventKind)i);
}
static const char *origin_key(int i)
{
    return event_origin_key((EventOrigin)i);
}
static const char *word_key(int i)
{
    static const char *const keys[] = {"", "correctable", "nonfatal", "fatal"};

    return keys[i];
}

#define SIZE(owner, member) sizeof(((owner *)0)->member)
#define COLUMN(owner, column, how, member)                                                                             \
    {                                                                                                                  \
        .name = column, .type = how, .off = offsetof(owner, member), .size = SIZE(owner, member)                       \
    }
#define WORD(owner, column, member, key_of, end)                                                                       \
    {                                                                                                                  \
        .name = column, .type = ROW_WORD, .off = offsetof(owner, member), .size = SIZE(owner, member), .key = key_of,  \
        .count = end                                                                                                   \
    }

#define I(column, how, member) COLUMN(Incident, column, how, member)
static const RowColumn incident_columns[] = {
    {.name = "id", .type = ROW_TEXT, .off = offsetof(Incident, id), .size = SIZE(Incident, id), .more = "PRIMARY KEY"},
    I("revision", ROW_U64, revision),
    WORD(Incident, "state", state, state_key, INCIDENT_STATE_END),
    WORD(Incident, "device_kind", device.kind, device_key_of, DEVICE_KIND_END),
    I("device_arch", ROW_U32, device.arch),
    I("device_index", ROW_U32, device.index),
    I("device_minor", ROW_U32, device.minor),
    I("gpu_instance", ROW_U32, device.gpu_instance),
    I("compute_instance", ROW_U32, device.compute_instance),
    I("link", ROW_U32, device.link),
    I("has_pci", ROW_BOOL, device.has_pci),
    I("uuid", ROW_TEXT, device.uuid),
    I("parent_uuid", ROW_TEXT, device.parent_uuid),
    I("model", ROW_TEXT, device.name),
    I("board", ROW_TEXT, device.board),
    I("serial", ROW_TEXT, device.serial),
    I("driver_version", ROW_TEXT, driver_version),
    I("process", ROW_TEXT, process),
    I("pid", ROW_I32, pid),
    I("job", ROW_TEXT, job),
    I("class", ROW_TEXT, class),
    I("rule", ROW_TEXT, rule),
    I("code", ROW_I32, code),
    WORD(Incident, "cause", cause, cause_key, CAUSE_END),
    WORD(Incident, "severity", severity, severity_key, SEVERITY_END),
    WORD(Incident, "scope", scope, scope_key, SCOPE_END),
    WORD(Incident, "action", action, action_key, ACTION_END),
    WORD(Incident, "route", route, route_key, ROUTE_END),
    I("title", ROW_TEXT, title),
    I("verdict", ROW_TEXT, verdict),
    I("runbook", ROW_TEXT, runbook),
    I("first_ns", ROW_U64, first_real_ns),
    I("opened_ns", ROW_U64, opened_real_ns),
    I("updated_ns", ROW_U64, updated_real_ns),
    I("cleared_ns", ROW_U64, cleared_real_ns),
    WORD(Incident, "ended_by", end, end_key, INCIDENT_END_END),
    I("count", ROW_U64, count),
    I("echo_count", ROW_U64, echo_count),
    I("escalations", ROW_U32, escalations),
    I("reopened", ROW_U32, reopened),
    I("before", ROW_BOOL, before),
    I("silenced", ROW_BOOL, silenced),
    I("maintenance", ROW_TEXT, window),
};
#undef I
const RowTable table_incidents = {"incidents", incident_columns, ARRAY_LEN(incident_columns),
                                  ", pci TEXT, device TEXT, evidence TEXT"};

#define E(column, how, member) COLUMN(Event, column, how, member)
static const RowColumn event_columns[] = {
    WORD(Event, "kind", kind, kind_key, EVENT_KIND_END),
    WORD(Event, "origin", origin, origin_key, EVENT_ORIGIN_END),
    WORD(Event, "word", word, word_key, 4),
    E("before", ROW_BOOL, before),
    E("real_ns", ROW_U64, real_ns),
    E("sequence", ROW_U64, sequence),
    E("gpu_instance", ROW_U32, gpu_instance),
    E("compute_instance", ROW_U32, compute_instance),
    E("link", ROW_U32, link),
    E("code", ROW_I32, code),
    E("caused_by", ROW_I32, caused_by),
    E("recovery_action", ROW_I32, recovery_action),
    E("unit", ROW_TEXT, unit),
    E("pid", ROW_I32, pid),
    E("process", ROW_TEXT, process),
    E("uuid", ROW_TEXT, uuid),
    E("text", ROW_TEXT, text),
};
#undef E
const RowTable table_events = {"events", event_columns, ARRAY_LEN(event_columns),
                               ", pci TEXT, incident TEXT, seq INTEGER PRIMARY KEY AUTOINCREMENT"};

#define W(column, how, member) COLUMN(MaintenanceWindow, column, how, member)
static const RowColumn window_columns[] = {
    {.name = "id",
     .type = ROW_TEXT,
     .off = offsetof(MaintenanceWindow, id),
     .size = SIZE(MaintenanceWindow, id),
     .more = "PRIMARY KEY"},
    W("reason", ROW_TEXT, reason),
    W("who", ROW_TEXT, who),
    W("gpus", ROW_U64, gpus),
    W("from_ns", ROW_U64, from_real_ns),
    W("until_ns", ROW_U64, until_real_ns),
};
#undef W
const RowTable table_windows = {"windows", window_columns, ARRAY_LEN(window_columns), ", uuids TEXT"};

#define G(column, how, member) COLUMN(JournalGpu, column, how, member)
static const RowColumn gpu_columns[] = {
    {.name = "uuid",
     .type = ROW_TEXT,
     .off = offsetof(JournalGpu, device.uuid),
     .size = SIZE(JournalGpu, device.uuid),
     .more = "PRIMARY KEY"},
    G("serial", ROW_TEXT, device.serial),
    G("name", ROW_TEXT, device.name),
    G("first_real_ns", ROW_U64, first_real_ns),
    G("last_real_ns", ROW_U64, last_real_ns),
    G("drained", ROW_BOOL, drained),
};
#undef G
const RowTable table_gpus = {"gpu_seen", gpu_columns, ARRAY_LEN(gpu_columns), ", pci TEXT"};

const char tables_rest[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) STRICT;"
    "CREATE TABLE bundles(incident TEXT PRIMARY KEY, real_ns INTEGER, gz BLOB) STRICT;"
    "CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT, key TEXT, text TEXT,"
    " UNIQUE(receiver, key)) STRICT;"
    "CREATE INDEX incidents_state ON incidents(state);"
    "CREATE INDEX incidents_updated ON incidents(updated_ns);"
    "CREATE INDEX events_time ON events(real_ns);"
    "CREATE INDEX events_incident ON events(incident);";

void table_incident_init(Incident *incident)
{
    *incident = (Incident){.pid = -1};
    device_init(&incident->device, DEVICE_NODE);
}

/* --- evidence as JSON --------------------------------------------------------------------------------------------- */

static void write_signs(const char *name, const IncidentSign *signs, uint32_t count, Str *out)
{
    json_open(out, name, '[');
    for (uint32_t i = 0; i < count; i++) {
        json_open(out, NULL, '{');
        json_add_u64(out, "at", signs[i].real_ns);
        json_add_text(out, "origin", event_origin_key(signs[i].origin));
        json_add_bool(out, "echo", signs[i].echo);
        json_add_i64(out, "code", signs[i].code);
        json_add_text(out, "text", signs[i].text);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void table_evidence_write(const Incident *incident, Str *out)
{
    json_open(out, NULL, '{');
    write_signs("first", incident->first, incident->first_len, out);
    write_signs("last", incident->last, incident->last_len, out);
    json_open(out, "counters", '[');
    for (uint32_t i = 0; i < incident->counter_len; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "name", incident->counters[i].name);
        json_add_double(out, "before", incident->counters[i].before);
        json_add_double(out, "after", incident->counters[i].after);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_open(out, "codes", '[');
    for (uint32_t i = 0; i < incident->code_count; i++)
        json_add_i64(out, NULL, incident->codes[i]);
    json_close(out, ']');
    json_close(out, '}');
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static uint32_t read_signs(const json_t *list, IncidentSign *signs, size_t cap)
{
    size_t count = json_array_size(list) < cap ? json_array_size(list) : cap;

    for (size_t i = 0; i < count; i++) {
        const json_t *sign = json_array_get(list, i);

        signs[i] = (IncidentSign){.real_ns = (uint64_t)json_integer_value(json_object_get(sign, "at")),
                                  .echo = json_is_true(json_object_get(sign, "echo")),
                                  .code = (int32_t)json_integer_value(json_object_get(sign, "code"))};
        for (int k = 0; k < EVENT_ORIGIN_END; k++)
            if (strcmp(event_origin_key((EventOrigin)k), text_at(sign, "origin")) == 0)
                signs[i].origin = (EventOrigin)k;
        snprintf(signs[i].text, sizeof signs[i].text, "%s", text_at(sign, "text"));
    }
    return (uint32_t)count;
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

void table_evidence_read(const char *json, size_t len, Incident *incident)
{
    json_t *root = json_loadb(json, len, 0, NULL);
    const json_t *counters = json_object_get(root, "counters"), *codes = json_object_get(root, "codes");

    incident->first_len = read_signs(json_object_get(root, "first"), incident->first, INCIDENT_FIRST);
    incident->last_len = read_signs(json_object_get(root, "last"), incident->last, INCIDENT_LAST);
    for (size_t i = 0; i < json_array_size(counters) && i < INCIDENT_COUNTERS; i++) {
        const json_t *counter = json_array_get(counters, i);
        IncidentCounter *into = &incident->counters[incident->counter_len++];

        snprintf(into->name, sizeof into->name, "%s", text_at(counter, "name"));
        into->before = number_at(counter, "before");
        into->after = number_at(counter, "after");
    }
    for (size_t i = 0; i < json_array_size(codes) && i < INCIDENT_CODES; i++)
        incident->codes[incident->code_count++] = (int32_t)json_integer_value(json_array_get(codes, i));
    json_decref(root);
}
