/* SPDX-License-Identifier: Apache-2.0 */
/* Reads by walking: members that are not wanted are stepped over. The scanner has seen the bytes before; this reader
 * only has to stay inside them. */
#include "engine/trace/hta/event.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

/* Ends of rows can then be subtracted from each other. */
#define TIME_LIMIT (INT64_C(1) << 61)
#define DURATION_LIMIT (INT64_C(1) << 60)

typedef struct Cursor {
    const char *at, *end;
    Str *room;
} Cursor;

typedef struct Value {
    const char *at; /* a text without its quotes */
    size_t len;
    bool text, escaped;
} Value;

static void blank(Cursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at))
        cursor->at++;
}

static bool take(Cursor *cursor, char c)
{
    blank(cursor);
    if (cursor->at >= cursor->end || *cursor->at != c)
        return false;
    cursor->at++;
    return true;
}

/* Behind the opening quote. */
static bool read_text(Cursor *cursor, Value *value)
{
    *value = (Value){.at = cursor->at, .text = true};
    for (; cursor->at < cursor->end; cursor->at++) {
        if (*cursor->at == '"') {
            value->len = (size_t)(cursor->at++ - value->at);
            return true;
        }
        if (*cursor->at == '\\') {
            value->escaped = true;
            cursor->at++;
        }
    }
    return false;
}

/* An object or a list, from its bracket to the one that closes it. */
static bool skip_nested(Cursor *cursor)
{
    size_t depth = 0;
    Value text;

    while (cursor->at < cursor->end) {
        char c = *cursor->at++;
        if (c == '"' && !read_text(cursor, &text))
            return false;
        depth += c == '{' || c == '[';
        if ((c == '}' || c == ']') && --depth == 0)
            return true;
    }
    return false;
}

static bool read_value(Cursor *cursor, Value *value)
{
    blank(cursor);
    *value = (Value){.at = cursor->at};
    if (cursor->at >= cursor->end)
        return false;
    if (take(cursor, '"'))
        return read_text(cursor, value);
    if (*cursor->at == '{' || *cursor->at == '[') {
        bool whole = skip_nested(cursor);
        value->len = (size_t)(cursor->at - value->at);
        return whole;
    }
    while (cursor->at < cursor->end && !strchr(",}] \t\r\n", *cursor->at))
        cursor->at++;
    value->len = (size_t)(cursor->at - value->at);
    return value->len > 0;
}

static unsigned hex4(const char *at)
{
    unsigned code = 0;

    for (size_t i = 0; i < 4; i++) {
        unsigned c = (unsigned char)at[i] | 0x20;
        code = code << 4 | (c >= 'a' ? c - 'a' + 10 : c - '0');
    }
    return code;
}

static void add_utf8(Str *room, unsigned code)
{
    char bytes[UTF8_MAX];

    str_addn(room, bytes, utf8_write(bytes, code));
}

/* The escape behind a backslash; returns the bytes it takes. */
static size_t add_escape(Str *room, const char *at, size_t len)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *plain = strchr(from, at[0]);
    unsigned code;

    if (at[0] != 'u' || len < 5) {
        str_addc(room, plain && *plain ? to[plain - from] : at[0]);
        return 1;
    }
    code = hex4(at + 1);
    if ((code & 0xfc00) == 0xd800 && len >= 11 && at[5] == '\\' && at[6] == 'u' && (hex4(at + 7) & 0xfc00) == 0xdc00) {
        add_utf8(room, 0x10000 + ((code & 0x3ff) << 10) + (hex4(at + 7) & 0x3ff));
        return 11;
    }
    add_utf8(room, code & 0xffff);
    return 5;
}

/* Appends to the room, which was made large enough before: what lies there does not move. */
static void unescape(Cursor *cursor, Value *value)
{
    size_t first = cursor->room->len;

    for (size_t i = 0; i < value->len; i++)
        if (value->at[i] == '\\' && i + 1 < value->len)
            i += add_escape(cursor->room, value->at + i + 1, value->len - i - 1);
        else
            str_addc(cursor->room, value->at[i]);
    value->at = cursor->room->text + first;
    value->len = cursor->room->len - first;
}

static bool is(const Value *key, const char *word)
{
    return key->len == strlen(word) && memcmp(key->at, word, key->len) == 0;
}

/* Digits behind the point, in thousandths, rounded. */
static int64_t read_fraction(const char **at, const char *end)
{
    int64_t thousandths = 0, unit = 100;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++, unit /= 10) {
        if (unit == 0 && **at >= '5')
            thousandths++;
        thousandths += (**at - '0') * unit;
        if (unit == 0)
            break;
    }
    while (*at < end && **at >= '0' && **at <= '9')
        (*at)++;
    return thousandths;
}

/* Microseconds in decimal to nanoseconds, exactly; what is below a nanosecond is rounded. */
static bool read_time(const Value *value, int64_t *ret)
{
    const char *at = value->at, *end = at + value->len;
    bool negative = at < end && *at == '-', any = false;
    int64_t ns = 0;
    double number;

    for (at += negative; at < end && *at >= '0' && *at <= '9' && ns < TIME_LIMIT / 10000; at++, any = true)
        ns = ns * 10 + (*at - '0');
    ns *= 1000;
    if (any && at < end && *at == '.') {
        at++;
        ns += read_fraction(&at, end);
    }
    if (any && at == end) {
        *ret = negative ? -ns : ns;
        return true;
    }
    if (number_parsen_double(value->at, value->len, -1e300, 1e300, &number, NULL) < 0)
        return false;
    *ret = llround(fmin(fmax(number * 1000, -(double)TIME_LIMIT), (double)TIME_LIMIT));
    return true;
}

/* As a table of numbers takes it: texts of digits count, "0x0" does not. */
static int64_t read_number(const Value *value, int64_t missing)
{
    uint64_t whole;
    double number;

    if (number_parsen_u64(value->at, value->len, 0, INT64_MAX, &whole, NULL) == 0)
        return (int64_t)whole;
    if (number_parsen_double(value->at, value->len, -9e18, 9e18, &number, NULL) < 0)
        return missing;
    return (int64_t)number;
}

static void take_arg(const Value *key, const Value *value, HtaEvent *event)
{
    if (is(key, "correlation"))
        event->correlation = read_number(value, -1);
    else if (is(key, "stream"))
        event->stream = read_number(value, -1);
    else if (is(key, "memory bandwidth (GB/s)") &&
             number_parsen_double(value->at, value->len, -1e300, 1e300, &event->bandwidth, NULL) < 0)
        event->bandwidth = 0;
}

static void take_text(Cursor *cursor, Value *value, const char **ret, size_t *ret_len)
{
    if (!value->text)
        return;
    if (value->escaped)
        unescape(cursor, value);
    *ret = value->at;
    *ret_len = value->len;
}

static void take_member(Cursor *cursor, const Value *key, Value *value, HtaEvent *event)
{
    if (is(key, "name"))
        take_text(cursor, value, &event->name, &event->name_len);
    else if (is(key, "cat"))
        take_text(cursor, value, &event->category, &event->category_len);
    else if (is(key, "ts"))
        event->has_start = read_time(value, &event->start);
    else if (is(key, "dur"))
        event->has_duration = read_time(value, &event->duration) && event->duration <= DURATION_LIMIT &&
                              event->duration >= -DURATION_LIMIT;
}

static bool read_key(Cursor *cursor, Value *key)
{
    return take(cursor, '"') && read_text(cursor, key) && take(cursor, ':');
}

static void read_args(Cursor *cursor, HtaEvent *event)
{
    Value key, value;

    if (!take(cursor, '{') || take(cursor, '}'))
        return;
    while (read_key(cursor, &key) && read_value(cursor, &value)) {
        take_arg(&key, &value, event);
        if (!take(cursor, ','))
            break;
    }
    take(cursor, '}');
}

bool hta_event_read(const char *bytes, size_t len, Str *room, HtaEvent *ret)
{
    Cursor cursor = {.at = bytes, .end = bytes + len, .room = room};
    Value key, value;

    *ret = (HtaEvent){.stream = -1, .correlation = -1};
    str_clear(room);
    str_reserve(room, 2 * len);
    if (!take(&cursor, '{'))
        return false;
    while (read_key(&cursor, &key)) {
        blank(&cursor);
        if (is(&key, "args") && cursor.at < cursor.end && *cursor.at == '{') {
            read_args(&cursor, ret);
        } else {
            if (!read_value(&cursor, &value))
                break;
            take_member(&cursor, &key, &value, ret);
        }
        if (!take(&cursor, ','))
            break;
    }
    return true;
}
