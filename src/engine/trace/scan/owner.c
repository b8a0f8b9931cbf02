/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of merged ranks. */
#include "engine/trace/scan/owner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/owner.h"
#include "engine/trace/scan/thread.h"

enum { MARKED_MAX = KNOWN_OWNERS_MAX + 1, RANK_DIGITS = 9, PID_TEXT_MAX = 4 << 10 };

const char *owner_mark_of(const char *text, size_t len, size_t *ret_len)
{
    const char *end = len > 2 && text[0] == '[' ? memchr(text, ']', len) : NULL;

    if (!end || end == text + 1)
        return NULL;
    *ret_len = (size_t)(end - text - 1);
    return text + 1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool owner_of_name(const char *name, size_t len, char ret[OWNER_NAME_MAX])
{
    static const char word[] = "rank";
    const char *p = name, *end = name + len;
    int64_t rank = 0;
    int digits = 0;

    p += p < end && *p == '[';
    if ((size_t)(end - p) < sizeof word - 1 || strncasecmp(p, word, sizeof word - 1) != 0)
        return false;
    p += sizeof word - 1;
    p += p < end && strchr(" _:#-", *p) && *p;
    for (; p < end && is_digit(*p) && digits < RANK_DIGITS; p++, digits++)
        rank = rank * 10 + (*p - '0');
    if (digits == 0 || (p < end && (is_digit(*p) || is_letter(*p) || *p == '.')))
        return false;
    snprintf(ret, OWNER_NAME_MAX, "rank %" PRId64, rank);
    return true;
}

bool owner_number(const char *mark, size_t len, int64_t *ret)
{
    int digits = 0;
    bool ended = false;

    *ret = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(mark[i])) {
            ended |= digits > 0;
            continue;
        }
        if (ended || digits++ == RANK_DIGITS)
            return false;
        *ret = *ret * 10 + (mark[i] - '0');
    }
    return digits > 0;
}

static bool same_mark(const Profile *profile, uint32_t a, uint32_t b)
{
    size_t a_len, b_len, a_mark = 0, b_mark = 0;
    const char *x = profile_text(profile, a, &a_len), *y = profile_text(profile, b, &b_len);

    x = owner_mark_of(x, a_len, &a_mark);
    y = owner_mark_of(y, b_len, &b_mark);
    return x && y && a_mark == b_mark && memcmp(x, y, a_mark) == 0;
}

void owner_mark(TraceScan *scan, uint32_t name)
{
    if (scan->marked.len == MARKED_MAX) /* too many to be ranks */
        return;
    for (size_t i = scan->marked.len; i-- > 0;)
        if (scan->marked.at[i] == name || same_mark(scan->profile, scan->marked.at[i], name))
            return;
    vec_push(&scan->marked, name);
}

uint32_t owner_at(TraceScan *scan)
{
    const TraceKnown *known = scan->options.known;
    const Slice *pid = slice_of(scan, SLOT_PID);
    char text[PID_TEXT_MAX + 8];
    const char *mark;
    int64_t number;
    size_t len;

    if (known->owners.len == 0 || !has(scan, SLOT_PID))
        return 0;
    if (value_integer(pid, &number))
        return known_process(known, number, NULL);
    if (pid->kind > SLICE_ESCAPED || pid->len > PID_TEXT_MAX)
        return 0;
    len = value_unescape(pid, text, PID_TEXT_MAX);
    text[len] = '\0';
    mark = known->processes.len ? NULL : owner_mark_of(text, len, &len);
    return mark ? known_owner(known, mark, len) : known_process(known, 0, text);
}

/* All processes have one and the same mark, with a number, and the text tells no rank. */
static void tell_rank(TraceScan *scan)
{
    size_t len;

    if (scan->profile->rank >= 0 || scan->marked.len != 1)
        return;
    const char *text = profile_text(scan->profile, scan->marked.at[0], &len);
    const char *mark = owner_mark_of(text, len, &len);

    if (mark && !owner_number(mark, len, &scan->profile->rank))
        scan->profile->rank = -1;
}

/* Counts of what stands in the text belong to the first owner, and only those of events to the others. */
void owner_settle(TraceScan *scan)
{
    static const ProfileLossReason of_text[] = {PROFILE_LOSS_SYNTAX,   PROFILE_LOSS_TRUNCATED, PROFILE_LOSS_COMPRESSION,
                                                PROFILE_LOSS_REPAIRED, PROFILE_LOSS_TOO_LONG,  PROFILE_LOSS_PROFILER};
    Profile *profile = scan->profile;
    size_t kept = 0;

    if (!scan->options.owner) {
        tell_rank(scan);
        return;
    }
    profile->bytes = scan->own_bytes;
    profile->rank = trace_known_rank(scan->options.known, scan->options.owner);
    if (scan->options.owner == 1)
        return;
    for (size_t i = 0; i < ARRAY_LEN(of_text); i++)
        profile->lost_by_reason[of_text[i]] = 0;
    for (size_t i = 0; i < scan->losses.len; i++)
        if (profile->lost_by_reason[scan->losses.at[i].reason])
            scan->losses.at[kept++] = scan->losses.at[i];
    scan->losses.len = kept;
}
