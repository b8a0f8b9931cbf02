/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kmsg/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "source/kmsg/line_inside.h"

LineReader *line_reader_new(const char *const *patterns, size_t count)
{
    LineReader *reader = xcalloc(1, sizeof *reader);

    reader->patterns = xcalloc(count + 1, sizeof *reader->patterns);
    for (size_t i = 0; i < count; i++)
        if (patterns[i][0])
            reader->patterns[reader->pattern_count++] = xmemdup0(patterns[i], strlen(patterns[i]));
    return reader;
}

void line_reader_free(LineReader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < reader->pattern_count; i++)
        free(reader->patterns[i]);
    free(reader->patterns);
    free(reader);
}

/* A number up to `stop`, stepping over it. */
static int field(Cursor *c, const char *stops, uint64_t *ret)
{
    uint64_t value = 0;
    const char *from = c->at;

    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        const uint64_t digit = (uint64_t)(*c->at++ - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -EBADMSG;
        value = value * 10 + digit;
    }
    if (c->at == from || c->at == c->end || !strchr(stops, *c->at))
        return -EBADMSG;
    *ret = value;
    return 0;
}

int kmsg_record(const char *bytes, size_t len, KmsgRecord *ret)
{
    Cursor c = {bytes, bytes + len};
    uint64_t priority, sequence, usec;
    const char *end, *newline;

    if (field(&c, ",", &priority) < 0 || c.at++ == c.end || field(&c, ",", &sequence) < 0 || c.at++ == c.end ||
        field(&c, ",;", &usec) < 0)
        return -EBADMSG;
    c.at = memchr(c.at, ';', (size_t)(c.end - c.at));
    if (!c.at)
        return -EBADMSG;
    c.at++;
    newline = memchr(c.at, '\n', (size_t)(c.end - c.at));
    end = newline ? newline : c.end;
    *ret = (KmsgRecord){.facility = (unsigned int)(priority >> 3 & 0xff),
                        .level = (unsigned int)(priority & 7),
                        .sequence = sequence,
                        .usec = usec,
                        .text = c.at,
                        .len = (size_t)(end - c.at)};
    return 0;
}

static bool matches(const LineReader *reader, Cursor c, Event *event)
{
    for (size_t i = 0; i < reader->pattern_count; i++) {
        if (!cursor_has(c, reader->patterns[i]))
            continue;
        event_init(event, EVENT_LINE, EVENT_FROM_KMSG);
        cursor_show(c.at, (size_t)(c.end - c.at), event->text, sizeof event->text);
        return true;
    }
    return false;
}

bool line_read(LineReader *reader, const char *text, size_t len, Event *ret_event)
{
    const Cursor c = {text, text + len};
    Cursor in = c;
    Event event;
    bool found;

    if (cursor_find(&in, "NVRM: Xid ("))
        found = line_xid(reader, in, &event);
    else if (cursor_find(&in, "SXid ("))
        found = line_sxid(in, &event);
    else if (cursor_find(&in, "NVRM: "))
        found = line_driver(reader, in, &event);
    else
        found = line_kernel(c, &event);
    if (!found && !matches(reader, c, &event))
        return false;
    *ret_event = event;
    return true;
}

/* "[Jul 23 2024 07:53:55] " as UTC: the fabric manager writes local time and does not say which. */
static uint64_t read_time(Cursor *c)
{
    struct tm tm = {0};
    char text[32];
    Cursor in = *c;

    if (!cursor_skip(&in, "[") || !cursor_until(&in, "]", false, text, sizeof text))
        return 0;
    const char *end = strptime(text, "%b %d %Y %H:%M:%S", &tm);
    if (!end || *end)
        return 0;
    *c = in;
    tm.tm_isdst = -1;
    const time_t at = mktime(&tm);
    return at < 0 ? 0 : (uint64_t)at * 1000000000;
}

/* "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33" */
static bool read_switch_error(Cursor c, Event *event)
{
    uint32_t code;

    if (!cursor_find(&c, "detected NVSwitch "))
        return false;
    const bool fatal = !cursor_skip(&c, "non-fatal ") && cursor_skip(&c, "fatal ");
    if (!cursor_skip(&c, "error ") || !cursor_number(&c, &code))
        return false;
    event->kind = EVENT_SXID;
    event->code = (int32_t)code;
    event->word = fatal ? EVENT_FATAL : EVENT_NONFATAL;
    Cursor in = c;
    if (cursor_find(&in, "pci bus id "))
        event->has_pci = cursor_pci(&in, &event->pci);
    if (cursor_find(&c, " port ") && !cursor_number(&c, &event->link))
        event->link = DEVICE_NO_NUMBER;
    return true;
}

bool line_read_fabric(const char *text, size_t len, Event *ret_event, uint64_t *ret_real_ns)
{
    Cursor c = {text, text + len};
    const uint64_t real_ns = read_time(&c);
    Event event;

    cursor_blanks(&c);
    if (!cursor_skip(&c, "[ERROR]"))
        return false;
    cursor_blanks(&c);
    if (cursor_skip(&c, "[tid "))
        cursor_find(&c, "]");
    cursor_blanks(&c);
    event_init(&event, EVENT_FABRIC_LOG, EVENT_FROM_FABRIC_LOG);
    read_switch_error(c, &event);
    cursor_show(c.at, (size_t)(c.end - c.at), event.text, sizeof event.text);
    *ret_event = event;
    *ret_real_ns = real_ns;
    return true;
}
