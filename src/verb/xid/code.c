/* SPDX-License-Identifier: Apache-2.0 */
/* See code.h. */
#include "verb/xid/code.h"

#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "source/host/host.h"
#include "source/kmsg/line.h"

enum { SXID_FROM = 10000, CODE_MAX = 99999, WORDS_MAX = 64 * 1024, LINE_MAX_BYTES = 128 * 1024 };

CLEANUP_POINTER(LineReader, line_reader_free);

const char *xid_code_words(Arena *arena, const OptArgs *words)
{
    CLEANUP(str_done) Str text = {0};

    str_init(&text, WORDS_MAX);
    for (size_t i = 0; i < words->len; i++)
        str_addf(&text, "%s%s", i ? " " : "", words->items[i]);
    return arena_strdup(arena, text.text);
}

bool xid_driver_major(const char *version, uint32_t *ret)
{
    uint64_t major;

    if (number_parsen_u64(version, strcspn(version, "."), 1, 9999, &major, NULL) < 0)
        return false;
    *ret = (uint32_t)major;
    return true;
}

uint32_t xid_driver_here(const char *root)
{
    char version[READING_TEXT_CAP];
    uint32_t major = 0;

    host_module(root ? root : "", version);
    xid_driver_major(version, &major);
    return major;
}

static bool read_line(const char *text, Event *event)
{
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(NULL, 0);
    CLEANUP(str_done) Str line = {0};

    str_init(&line, LINE_MAX_BYTES);
    str_addf(&line, "%s%s", strncmp(text, "Xid (", 5) == 0 ? "NVRM: " : "", text);
    return line_read(reader, line.text, line.len, event) && (event->kind == EVENT_XID || event->kind == EVENT_SXID);
}

static bool read_number(const char *text, Event *event)
{
    bool sxid = strncasecmp(text, "sxid:", 5) == 0, xid = strncasecmp(text, "xid:", 4) == 0;
    uint64_t code;

    if (number_parse_u64(text + (sxid ? 5 : xid ? 4 : 0), 0, CODE_MAX, &code, NULL) < 0)
        return false;
    event_init(event, sxid || (!xid && code >= SXID_FROM) ? EVENT_SXID : EVENT_XID, EVENT_FROM_KMSG);
    event->code = (int32_t)code;
    return true;
}

bool xid_code_read(const char *text, Event *ret)
{
    return strstr(text, "Xid (") ? read_line(text, ret) : read_number(text, ret);
}
