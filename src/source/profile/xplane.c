/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format, and from a space of planes to events one by one. Names of events and of statistics stand
 * behind the lines that use them, so each plane is read twice. */
#include "source/profile/xplane.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "source/profile/made_text.h"

enum {
    FILE_MAX = INT32_MAX,
    EVENT_MAX = 16 << 20, /* bytes of text */
    BLOCK = 256 * 1024,
    NAME_HEAD = 64, /* bytes of a plane's name that are looked at */
    HOST_PID = 701, /* of "/host:CPU"; devices count from 1 (xplane_to_trace_events.cc) */
    FIRST_PID = 1,
};

/* ---- the wire format ---- */

typedef struct Wire {
    const uint8_t *at, *end;
    bool *cut; /* set where the bytes end too early or make no sense */
} Wire;

typedef struct Field {
    uint64_t number, value; /* of a varint, or the bits of a fixed number */
    Wire bytes;             /* of a text or message */
} Field;

static bool fail_field(Wire *wire)
{
    *wire->cut = true;
    wire->at = wire->end;
    return false;
}

static bool read_varint(Wire *wire, uint64_t *ret)
{
    *ret = 0;
    for (unsigned int shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        const uint8_t byte = *wire->at++;

        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return fail_field(wire);
}

static bool read_fixed(Wire *wire, size_t bytes, uint64_t *ret)
{
    if ((size_t)(wire->end - wire->at) < bytes)
        return fail_field(wire);
    *ret = 0;
    memcpy(ret, wire->at, bytes); /* little-endian, as the machines that Stoker runs on */
    wire->at += bytes;
    return true;
}

/* What is longer than the bytes that are left ends with them. */
static bool read_bytes(Wire *wire, Wire *ret)
{
    uint64_t len;

    if (!read_varint(wire, &len))
        return false;
    if (len > (size_t)(wire->end - wire->at)) {
        *wire->cut = true;
        len = (size_t)(wire->end - wire->at);
    }
    *ret = (Wire){wire->at, wire->at + len, wire->cut};
    wire->at += len;
    return true;
}

/* The next field; false at the end. */
static bool next_field(Wire *wire, Field *ret)
{
    uint64_t tag;

    *ret = (Field){0};
    if (wire->at == wire->end || !read_varint(wire, &tag))
        return false;
    ret->number = tag >> 3;
    switch (tag & 7) {
    case 0:
        return read_varint(wire, &ret->value);
    case 1:
        return read_fixed(wire, 8, &ret->value);
    case 2:
        return read_bytes(wire, &ret->bytes);
    case 5:
        return read_fixed(wire, 4, &ret->value);
    default:
        return fail_field(wire);
    }
}

/* The field with this number; of several the last. A zeroed one: there is none. */
static Field find_field(Wire message, uint64_t number)
{
    Field field, found = {0};

    while (next_field(&message, &field))
        if (field.number == number)
            found = field;
    return found;
}

static bool is_empty(const Wire *wire)
{
    return wire->at == wire->end;
}

bool xplane_is_xspace(const char *bytes, size_t len)
{
    bool cut = false;
    Wire space = {(const uint8_t *)bytes, (const uint8_t *)bytes + len, &cut};
    Field field;

    if (!next_field(&space, &field) || field.number != 1 || is_empty(&field.bytes))
        return false;
    Wire plane = field.bytes;

    if (!next_field(&plane, &field) || (field.number == 1 && !next_field(&plane, &field)))
        return false;
    if (field.number != 2 || is_empty(&field.bytes) || field.bytes.end - field.bytes.at > NAME_HEAD)
        return false;
    for (const uint8_t *at = field.bytes.at; at < field.bytes.end; at++)
        if (*at < ' ' || *at > '~')
            return false;
    return true;
}

/* ---- the space ---- */

/* Numbers of fields, as in xplane.proto. */
enum { SPACE_PLANE = 1 };
enum { PLANE_ID = 1, PLANE_NAME = 2, PLANE_LINE = 3, PLANE_EVENT_NAME = 4, PLANE_STAT_NAME = 5 };
enum { LINE_ID = 1, LINE_NAME = 2, LINE_START_NS = 3, LINE_EVENT = 4, LINE_DISPLAY_ID = 10, LINE_DISPLAY_NAME = 11 };
enum { EVENT_NAME_ID = 1, EVENT_OFFSET_PS = 2, EVENT_DURATION_PS = 3, EVENT_STAT = 4, EVENT_OCCURRENCES = 5 };
enum { STAT_NAME_ID = 1, STAT_DOUBLE = 2, STAT_UNSIGNED = 3, STAT_SIGNED = 4, STAT_TEXT = 5, STAT_REF = 7 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };                    /* of a map */
enum { NAMED_NAME = 2, NAMED_DISPLAY = 4, NAMED_STAT = 5 }; /* XEventMetadata; of XStatMetadata the name alone */

struct Xplane {
    InflatePull pull;
    void *context;
    Str file;
    MadeText made;
    bool begun, cut;
    Wire space, plane, line; /* what is left of each */
    Map names, stats;        /* of the plane: id to Wire, a metadata message; in the arena */
    Arena arena;
    uint64_t pid, tid;
    int64_t line_ns;
};

Xplane *xplane_new(InflatePull pull, void *context)
{
    Xplane *xplane = xcalloc(1, sizeof *xplane);

    xplane->pull = pull;
    xplane->context = context;
    str_init(&xplane->file, FILE_MAX);
    str_init(&xplane->made.text, EVENT_MAX);
    arena_init(&xplane->arena, 0);
    map_u64_init(&xplane->names);
    map_u64_init(&xplane->stats);
    return xplane;
}

void xplane_free(Xplane *xplane)
{
    if (!xplane)
        return;
    str_done(&xplane->file);
    str_done(&xplane->made.text);
    map_done(&xplane->names);
    map_done(&xplane->stats);
    arena_done(&xplane->arena);
    free(xplane);
}

uint64_t xplane_given(const Xplane *xplane)
{
    return xplane->made.given;
}

static int load_file(Xplane *xplane, Err *err)
{
    CLEANUP_FREE char *block = xmalloc(BLOCK);
    ssize_t n;

    while ((n = xplane->pull(xplane->context, block, BLOCK, err)) > 0) {
        str_addn(&xplane->file, block, (size_t)n);
        TRY(str_check(&xplane->file, "an xplane.pb", err));
    }
    TRY((int)n);
    const uint8_t *bytes = (const uint8_t *)xplane->file.text;

    xplane->space = (Wire){bytes, bytes + xplane->file.len, &xplane->cut};
    str_add(&xplane->made.text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    xplane->begun = true;
    return 0;
}

static void write_text(Xplane *xplane, Wire text)
{
    str_addn_json(&xplane->made.text, text.at ? (const char *)text.at : "", (size_t)(text.end - text.at));
}

static void write_label(Xplane *xplane, const char *what, Wire label)
{
    if (is_empty(&label))
        return;
    str_addf(&xplane->made.text,
             "{\"ph\":\"M\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"name\":\"%s\",\"args\":{\"name\":", xplane->pid,
             xplane->tid, what);
    write_text(xplane, label);
    str_add(&xplane->made.text, "}},\n");
}

/* ---- planes and lines ---- */

static void note_name(Xplane *xplane, Map *map, Wire entry)
{
    Wire *message = arena_alloc(&xplane->arena, sizeof *message);

    *message = find_field(entry, ENTRY_VALUE).bytes;
    if (message->at)
        map_u64_put(map, find_field(entry, ENTRY_KEY).value, message);
}

static void forget_names(Xplane *xplane)
{
    map_done(&xplane->names);
    map_done(&xplane->stats);
    map_u64_init(&xplane->names);
    map_u64_init(&xplane->stats);
    arena_reset(&xplane->arena);
}

static bool begins_with(Wire text, const char *word)
{
    const size_t len = strlen(word);

    return (size_t)(text.end - text.at) >= len && memcmp(text.at, word, len) == 0;
}

static bool is_word(Wire text, const char *word)
{
    return begins_with(text, word) && (size_t)(text.end - text.at) == strlen(word);
}

/* Threads of the host and devices; other planes describe the machine. */
static void begin_plane(Xplane *xplane, Wire plane)
{
    const Wire name = find_field(plane, PLANE_NAME).bytes;
    const bool host = is_word(name, "/host:CPU");
    Wire rest = plane;
    Field field;

    if (!host && !begins_with(name, "/device:"))
        return;
    forget_names(xplane);
    while (next_field(&rest, &field))
        if (field.number == PLANE_EVENT_NAME || field.number == PLANE_STAT_NAME)
            note_name(xplane, field.number == PLANE_STAT_NAME ? &xplane->stats : &xplane->names, field.bytes);
    xplane->plane = plane;
    xplane->pid = host ? HOST_PID : FIRST_PID + find_field(plane, PLANE_ID).value;
    xplane->tid = 0;
    write_label(xplane, "process_name", name);
}

static void begin_line(Xplane *xplane, Wire line)
{
    const Field shown = find_field(line, LINE_DISPLAY_ID), label = find_field(line, LINE_DISPLAY_NAME);

    xplane->line = line;
    xplane->tid = shown.value ? shown.value : find_field(line, LINE_ID).value;
    xplane->line_ns = (int64_t)find_field(line, LINE_START_NS).value;
    write_label(xplane, "thread_name", is_empty(&label.bytes) ? find_field(line, LINE_NAME).bytes : label.bytes);
}

/* ---- events ---- */

/* The name of a statistic, or what a reference means. */
static Wire stat_name(const Xplane *xplane, uint64_t id)
{
    const Wire *message = map_u64_get(&xplane->stats, id);

    return message ? find_field(*message, NAMED_NAME).bytes : (Wire){0};
}

static void write_value(Xplane *xplane, const Field *value)
{
    double number;

    switch (value->number) {
    case STAT_DOUBLE:
        memcpy(&number, &value->value, sizeof number);
        str_addf(&xplane->made.text, "\"%g\"", number);
        break;
    case STAT_UNSIGNED:
        str_addf(&xplane->made.text, "\"%" PRIu64 "\"", value->value);
        break;
    case STAT_SIGNED:
        str_addf(&xplane->made.text, "\"%" PRId64 "\"", (int64_t)value->value);
        break;
    default:
        write_text(xplane, value->number == STAT_REF ? stat_name(xplane, value->value) : value->bytes);
    }
}

static Field stat_value(Wire stat)
{
    Field field, value = {0};

    while (next_field(&stat, &field))
        if (field.number >= STAT_DOUBLE && field.number <= STAT_REF)
            value = field;
    return value;
}

/* Those of the event's name first, then the event's own: of two of one name the last counts. */
static void write_stats(Xplane *xplane, Wire message, uint64_t number)
{
    Field field;

    while (next_field(&message, &field)) {
        if (field.number != number)
            continue;
        const Field value = stat_value(field.bytes);
        const Wire name = stat_name(xplane, find_field(field.bytes, STAT_NAME_ID).value);

        if (is_empty(&name) || value.number == 0)
            continue;
        if (xplane->made.text.text[xplane->made.text.len - 1] != '{')
            str_addc(&xplane->made.text, ',');
        write_text(xplane, name);
        str_addc(&xplane->made.text, ':');
        write_value(xplane, &value);
    }
}

/* A statistic "step_name" is the event's name; else the one that is shown, else its own. */
static Wire event_name(const Xplane *xplane, Wire event, Wire named)
{
    const Wire shown = find_field(named, NAMED_DISPLAY).bytes;
    Field field;

    while (next_field(&event, &field))
        if (field.number == EVENT_STAT &&
            is_word(stat_name(xplane, find_field(field.bytes, STAT_NAME_ID).value), "step_name")) {
            const Field value = stat_value(field.bytes);

            return value.number == STAT_REF ? stat_name(xplane, value.value) : value.bytes;
        }
    return is_empty(&shown) ? find_field(named, NAMED_NAME).bytes : shown;
}

/* In microseconds; without one where it is not in the range of a profile's times. */
static void write_times(Xplane *xplane, Wire event)
{
    const uint64_t offset_ps = find_field(event, EVENT_OFFSET_PS).value;
    const uint64_t duration_ps = find_field(event, EVENT_DURATION_PS).value;
    int64_t start_ns;

    if (__builtin_add_overflow(xplane->line_ns, (int64_t)(offset_ps / 1000), &start_ns) || start_ns < 0 ||
        offset_ps > INT64_MAX || duration_ps > INT64_MAX)
        return;
    str_addf(&xplane->made.text, ",\"ts\":%" PRId64 ".%06" PRIu64 ",\"dur\":%" PRIu64 ".%06" PRIu64, start_ns / 1000,
             (uint64_t)(start_ns % 1000) * 1000 + offset_ps % 1000, duration_ps / 1000000, duration_ps % 1000000);
}

static void write_event(Xplane *xplane, Wire event)
{
    const Wire *known = map_u64_get(&xplane->names, find_field(event, EVENT_NAME_ID).value);
    const Wire named = known ? *known : (Wire){0};

    if (find_field(event, EVENT_OCCURRENCES).number) /* a sum, which has no time */
        return;
    str_addf(&xplane->made.text, "{\"ph\":\"X\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"name\":", xplane->pid,
             xplane->tid);
    write_text(xplane, event_name(xplane, event, named));
    write_times(xplane, event);
    str_add(&xplane->made.text, ",\"args\":{");
    write_stats(xplane, named, NAMED_STAT);
    write_stats(xplane, event, EVENT_STAT);
    str_add(&xplane->made.text, "}},\n");
}

/* The next part of the text: an event, the head of a line or of a plane, the end. */
static void write_part(void *of)
{
    Xplane *xplane = of;
    Field field;

    if (next_field(&xplane->line, &field)) {
        if (field.number == LINE_EVENT)
            write_event(xplane, field.bytes);
    } else if (next_field(&xplane->plane, &field)) {
        if (field.number == PLANE_LINE)
            begin_line(xplane, field.bytes);
    } else if (next_field(&xplane->space, &field)) {
        if (field.number == SPACE_PLANE)
            begin_plane(xplane, field.bytes);
    } else {
        xplane->made.ended = true;
        if (!xplane->cut)
            str_add(&xplane->made.text, "{\"ph\":\"M\"}]}\n");
    }
    if (xplane->made.text.overflow) /* of a damaged file */
        str_clear(&xplane->made.text);
}

ssize_t xplane_read(Xplane *xplane, void *buffer, size_t len, Err *err)
{
    if (!xplane->begun)
        TRY(load_file(xplane, err));
    return (ssize_t)made_text_read(&xplane->made, write_part, xplane, buffer, len);
}
