/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of a scan: around the list, from event to event, and over damaged text. Every decision depends
 * on bytes within a fixed distance; if they are not buffered yet, it returns and resumes later. So results do not
 * depend on how the text is split into pieces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

enum {
    BUFFER_ROOM = 4 << 10, /* a read is never smaller */
    LOST_WINDOW = 2 << 10, /* bytes searched at once behind a fault */
    LOST_OVERLAP = 256,    /* longer than any place searched for */
    LOST_LOOKBACK = 64,
    CREDIT_MIN = 8 << 10, /* an event of this length is followed in any case */
    CREDIT_BACK = 16,     /* for each byte of progress */
    BLANKS_MAX = 64,      /* between the parts of a place to go on */
};

typedef enum Went { WENT_ON, WENT_DRY } Went; /* DRY: needs more bytes, or is at the end */

/* --- what a scan works with --------------------------------------------------------------------------------------- */

ScanTools *scan_tools_new(void)
{
    ScanTools *tools = xcalloc(1, sizeof *tools);

    tools->walk = walk_new();
    caches_init(&tools->caches);
    return tools;
}

void scan_tools_free(ScanTools *tools)
{
    if (!tools)
        return;
    walk_free(tools->walk);
    caches_done(&tools->caches);
    free(tools);
}

static const Walker *find_walker(void)
{
    size_t i = 0;

    while (!walkers[i].usable())
        i++;
    return &walkers[i];
}

static TraceScan *scan_new(Profile *into, const TraceScanOptions *options, ScanTools *tools)
{
    TraceScan *scan = xcalloc(1, sizeof *scan);

    scan->profile = into;
    if (options)
        scan->options = *options;
    scan->walk_event = find_walker()->event;
    scan->walk = tools->walk;
    scan->caches = &tools->caches;
    scan->text.stop = scan->text.arrived = UINT64_MAX;
    scan->text.credit = TRACE_EVENT_BYTES_MAX;
    return scan;
}

TraceScan *scan_new_head(Profile *into, const TraceScanOptions *options, ScanTools *tools)
{
    ScanTools *own = tools ? NULL : scan_tools_new();
    TraceScan *scan = scan_new(into, options, own ? own : tools);

    scan->own = own;
    if (tools)
        caches_forget(&tools->caches);
    scan->text.cap = SCAN_BLOCK;
    scan->text.buffer = xmalloc(scan->text.cap + SCAN_PAD);
    return scan;
}

TraceScan *scan_new_part(Profile *into, const TraceScanOptions *options, uint64_t origin, ScanTools *tools)
{
    TraceScan *scan = scan_new(into, options, tools);

    caches_forget(&tools->caches);
    scan->text.origin = origin;
    scan->text.state = SCAN_LIST;
    scan->began = scan->listed = true;
    return scan;
}

void scan_free(TraceScan *scan)
{
    if (!scan)
        return;
    scan_tools_free(scan->own);
    vec_done(&scan->wides);
    vec_done(&scan->halves);
    vec_done(&scan->labels);
    vec_done(&scan->bares);
    free(scan->text.buffer);
    free(scan);
}

static inline const char *text_here(const TraceScan *scan)
{
    return scan->text.buffer + scan->text.at;
}

static inline const char *end_of(const TraceScan *scan)
{
    return scan->text.buffer + scan->text.len;
}

static inline void go_to(TraceScan *scan, const char *p)
{
    scan->text.at = (size_t)(p - scan->text.buffer);
}

/* The byte of the text that p points to. */
static inline uint64_t scan_offset(const TraceScan *scan, const char *p)
{
    return scan->text.origin + (uint64_t)(p - scan->text.buffer);
}

static void lose_text(TraceScan *scan, ProfileLossReason reason, const char *p, const char *end)
{
    profile_lose(scan->profile, reason, scan_offset(scan, p), p, (size_t)(end - p));
}

/* --- where to go on behind a fault -------------------------------------------------------------------------------- */

/* Skips blanks. False: the text ends first, or there are too many. */
static bool over_blanks(const char **p, const char *end)
{
    const char *from = *p;

    while (*p < end && walk_blank(**p) && *p - from <= BLANKS_MAX)
        ++*p;
    return *p < end && *p - from <= BLANKS_MAX;
}

/* `"key" :` at p, one of those that an event begins with and little else does. */
static bool is_event_key(const char *p, const char *end)
{
    static const char *const keys[] = {"\"ph\"",  "\"cat\"", "\"name\"", "\"pid\"",
                                       "\"tid\"", "\"ts\"",  "\"dur\"",  "\"args\""};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const size_t len = strlen(keys[i]);
        const char *behind = p + len;

        if ((size_t)(end - p) > len && memcmp(p, keys[i], len) == 0)
            return over_blanks(&behind, end) && *behind == ':';
    }
    return false;
}

/* The last byte before p that is no blank; 0: none near. */
static char byte_before(const char *p, const char *origin)
{
    const char *from = p;

    while (p > origin && walk_blank(p[-1]) && from - p <= BLANKS_MAX)
        p--;
    return p > origin ? p[-1] : 0;
}

static bool event_here(const char *p, const char *end, const char *origin)
{
    const char *q = p + 1;

    return byte_before(p, origin) != ':' && over_blanks(&q, end) && is_event_key(q, end);
}

/* "} ]" and then '}' or ', "' or nothing more. */
static bool end_here(const char *p, const char *end, const char *origin)
{
    const char *q = p + 1;

    if (byte_before(p, origin) != '}')
        return false;
    if (!over_blanks(&q, end))
        return q == end;
    if (*q != ',')
        return *q == '}';
    q++;
    return over_blanks(&q, end) && *q == '"';
}

const char *scan_find_event(const char *from, const char *end, const char *origin)
{
    for (const char *p = from; (p = memchr(p, '{', (size_t)(end - p))); p++)
        if (event_here(p, end, origin))
            return p;
    return NULL;
}

/* The next event or the list's end; unless the text ends at `end`, not so near it that bytes behind might decide. */
static const char *find_place(const char *from, const char *end, const char *origin, bool final)
{
    for (const char *p = from; end - p > (final ? 0 : LOST_OVERLAP); p++)
        if (*p == '{' ? event_here(p, end, origin) : *p == ']' && end_here(p, end, origin))
            return p;
    return NULL;
}

/* --- credit ------------------------------------------------------------------------------------------------------- */

static void count_progress(TraceScan *scan, const char *p)
{
    const uint64_t now = scan_offset(scan, p);
    const uint64_t progress = now - scan->text.credit_at;

    scan->text.credit_at = now;
    if (progress >= TRACE_EVENT_BYTES_MAX / CREDIT_BACK)
        scan->text.credit = TRACE_EVENT_BYTES_MAX;
    else
        scan->text.credit += (int64_t)progress * CREDIT_BACK;
    if (scan->text.credit > TRACE_EVENT_BYTES_MAX)
        scan->text.credit = TRACE_EVENT_BYTES_MAX;
}

/* How many bytes behind p may be looked at for one event. */
static ptrdiff_t credit_reach(TraceScan *scan, const char *p)
{
    if (scan->text.credit < TRACE_EVENT_BYTES_MAX)
        count_progress(scan, p);
    return scan->text.credit < CREDIT_MIN ? CREDIT_MIN : (ptrdiff_t)scan->text.credit;
}

static void pay_credit(TraceScan *scan, const char *p, const char *looked_at)
{
    count_progress(scan, p);
    scan->text.credit -= looked_at > p ? looked_at - p : 0;
    if (scan->text.credit < 0)
        scan->text.credit = 0;
}

/* --- in the list -------------------------------------------------------------------------------------------------- */

/* What begins at p cannot be read: it is lost up to where the next event begins. */
static Went lose_place(TraceScan *scan, ProfileLossReason reason, const char *p, const char *looked_at)
{
    if (end_of(scan) - p < PROFILE_EXCERPT_MAX && !scan->text.final)
        return WENT_DRY;
    pay_credit(scan, p, looked_at);
    lose_text(scan, reason, p, end_of(scan));
    go_to(scan, p + 1);
    scan->text.state = SCAN_LOST;
    scan->text.lost_skip = 0;
    return WENT_ON;
}

static Went lose_event(TraceScan *scan, ProfileLossReason reason, const char *p, const char *looked_at)
{
    const Went went = lose_place(scan, reason, p, looked_at);

    scan->profile->events += went == WENT_ON;
    return went;
}

static Went one_event(TraceScan *scan, const char *p)
{
    const char *end = end_of(scan);
    const ptrdiff_t most = credit_reach(scan, p);
    const char *limit = end - p > most ? p + most : end;

    switch (scan->walk_event(scan->walk, p, limit)) {
    case WALK_DONE:
        event_add(scan, p, (size_t)(scan->walk->after - p), scan_offset(scan, p));
        go_to(scan, scan->walk->after);
        return WENT_ON;
    case WALK_MORE:
        if (limit - p == most)
            return lose_event(scan, most == TRACE_EVENT_BYTES_MAX ? PROFILE_LOSS_TOO_LONG : PROFILE_LOSS_SYNTAX, p,
                              limit);
        /* Open at the end of the text: cut there, or damaged here, where events are to be seen within. */
        if (!scan->text.final || !find_place(p + 1, limit, p + 1, true))
            return WENT_DRY;
        return lose_event(scan, PROFILE_LOSS_SYNTAX, p, limit);
    case WALK_FAULT:
        break;
    }
    return lose_event(scan, PROFILE_LOSS_SYNTAX, p, scan->walk->after);
}

/* Whether the next part begins right here, which it did with full credit. */
static bool at_stop(TraceScan *scan, const char *p)
{
    if (scan_offset(scan, p) != scan->text.stop || credit_reach(scan, p) < TRACE_EVENT_BYTES_MAX)
        return false;
    scan->text.arrived = scan->text.stop;
    return true;
}

/* Skips blanks and commas. */
static const char *skip_gap(TraceScan *scan, const char *p, const char *end)
{
    const char *from = p;
    uint64_t eight;

    memcpy(&eight, p, sizeof eight);
    if (scan->gap_len && ((eight ^ scan->gap) & scan->gap_mask) == 0 && (size_t)(end - p) >= scan->gap_len)
        return p + scan->gap_len - 1;
    while (p < end && (walk_blank(*p) || *p == ','))
        p++;
    if (p < end && *p == '{' && p - from < (ptrdiff_t)sizeof eight) {
        scan->gap_len = (unsigned int)(p - from) + 1;
        scan->gap = eight;
        scan->gap_mask = 0;
        memset(&scan->gap_mask, 0xff, scan->gap_len);
    }
    return p;
}

static Went step_list(TraceScan *scan)
{
    const char *p = skip_gap(scan, text_here(scan), end_of(scan)), *end = end_of(scan);

    go_to(scan, p);
    if (p == end)
        return WENT_DRY;
    if (*p == '{') {
        if (at_stop(scan, p))
            return WENT_DRY;
        return one_event(scan, p);
    }
    if (*p == ']') {
        go_to(scan, p + 1);
        scan->text.state = SCAN_TOP;
        return WENT_ON;
    }
    return lose_place(scan, PROFILE_LOSS_SYNTAX, p, p);
}

static Went step_lost(TraceScan *scan)
{
    const char *p = text_here(scan), *end = end_of(scan);
    const bool whole = end - p >= LOST_WINDOW;
    const char *limit = whole ? p + LOST_WINDOW : end;

    if (end - p < (ptrdiff_t)scan->text.lost_skip + 1)
        return WENT_DRY;
    const char *place = find_place(p + scan->text.lost_skip, limit, p, scan->text.final && !whole);

    if (place) {
        go_to(scan, place);
        scan->text.state = SCAN_LIST;
        scan->listed = true;
        return WENT_ON;
    }
    if (whole) {
        go_to(scan, limit - LOST_OVERLAP);
        scan->text.lost_skip = LOST_LOOKBACK;
        return WENT_ON;
    }
    return WENT_DRY;
}

/* --- around it ---------------------------------------------------------------------------------------------------- */

static Went top_member(TraceScan *scan, const char *p)
{
    const char *end = end_of(scan);
    const ptrdiff_t most = credit_reach(scan, p);
    const char *limit = end - p > most ? p + most : end;
    const bool bounded = limit - p == most;
    Slice key, value;
    const char *fault;
    const char *q = walk_value(p, limit, &key, &fault);

    while (q && q < limit && walk_blank(*q))
        q++;
    if (q && q < limit) {
        fault = *q++ != ':' ? q : NULL;
        while (q < limit && walk_blank(*q))
            q++;
        if (!fault && q < limit && *q == '[' && slice_is(&key, "traceEvents")) {
            go_to(scan, q + 1);
            scan->text.state = SCAN_LIST;
            scan->listed = true;
            return WENT_ON;
        }
        if (!fault)
            q = walk_value(q, limit, &value, &fault);
        if (q && !fault) {
            scan->raw_byte = scan_offset(scan, p);
            about_read(scan, &key, &value);
            if (scan->options.member)
                scan->options.member(scan->options.context, p, (size_t)(q - p));
            go_to(scan, q);
            return WENT_ON;
        }
    }
    /* Open at the end of the text: cut there, or damaged here, where events are to be seen within. */
    if (!fault && !bounded && !(scan->text.final && find_place(p + 1, limit, p + 1, true)))
        return WENT_DRY;
    return lose_place(scan, PROFILE_LOSS_SYNTAX, p, fault ? fault : limit);
}

static Went step_top(TraceScan *scan)
{
    const char *p = text_here(scan), *end = end_of(scan);
    const char *event;

    while (p < end && (walk_blank(*p) || *p == ','))
        p++;
    go_to(scan, p);
    if (p == end)
        return WENT_DRY;
    switch (*p) {
    case '"':
        return top_member(scan, p);
    case '{':
        /* A list that was closed too early, or another text behind this one. */
        if (scan->listed && end - p < LOST_OVERLAP && !scan->text.final)
            return WENT_DRY;
        event = end - p > 0 ? scan_find_event(p, end - p < LOST_OVERLAP ? end : p + LOST_OVERLAP, p) : NULL;
        if (scan->listed && event == p) {
            lose_text(scan, PROFILE_LOSS_SYNTAX, p, end);
            scan->text.state = SCAN_LIST;
            return WENT_ON;
        }
        go_to(scan, p + 1);
        scan->object = scan->object_told = true;
        return WENT_ON;
    case '}':
        go_to(scan, p + 1);
        scan->object = false;
        scan->object_told = true;
        return WENT_ON;
    case '[':
        go_to(scan, p + 1);
        scan->text.state = SCAN_LIST;
        scan->bare = !scan->listed;
        scan->listed = true;
        return WENT_ON;
    default:
        return lose_place(scan, PROFILE_LOSS_SYNTAX, p, p);
    }
}

/* The first byte decides whether it can be a trace at all. */
static int begin_text(TraceScan *scan, Err *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    const char *p = text_here(scan), *end = end_of(scan);

    if (scan->text.origin == 0 && scan->text.at == 0 && end - p >= 3 && memcmp(p, mark, 3) == 0)
        p += 3;
    else if (scan->text.at == 0 && end - p < 3 && !scan->text.final && *p == mark[0])
        return 0;
    while (p < end && walk_blank(*p))
        p++;
    go_to(scan, p);
    if (p == end)
        return 0;
    scan->began = true;
    if (*p != '{' && *p != '[')
        return err_set(err, -EBADMSG, "not a trace: neither a JSON object nor an array");
    return 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

int scan_check_memory(const TraceScan *scan, Err *err)
{
    const size_t max = scan->options.memory_max;

    if (max && profile_bytes(scan->profile) > max)
        return err_set(err, -ENOSPC, "the profile needs more than %zu bytes", max);
    return 0;
}

static int check_limits(const TraceScan *scan, Err *err)
{
    TRY(scan_check_memory(scan, err));
    if (!scan->listed && scan_offset(scan, text_here(scan)) > SCAN_HEAD_MAX)
        return err_set(err, -EBADMSG, "not a trace: no event list within the first %d MiB", SCAN_HEAD_MAX >> 20);
    return 0;
}

int scan_run(TraceScan *scan, Err *err)
{
    static Went (*const ways[])(TraceScan *) = {
        [SCAN_TOP] = step_top, [SCAN_LIST] = step_list, [SCAN_LOST] = step_lost};

    if (!scan->text.final && scan->text.len - scan->text.at < scan->text.wait)
        return 0;
    memset(scan->text.buffer + scan->text.len, 0, SCAN_PAD);
    if (!scan->began && scan->text.at < scan->text.len)
        TRY(begin_text(scan, err));
    while (scan->began && scan->text.at < scan->text.len && ways[scan->text.state](scan) == WENT_ON)
        ;
    /* An event in pieces is begun anew when there is twice as much of it: the work stays linear. */
    const size_t rest = scan->text.len - scan->text.at;

    scan->text.wait = scan->began ? rest * 2 : 0;
    return check_limits(scan, err);
}

char *scan_room(TraceScan *scan, size_t *ret_len)
{
    const size_t rest = scan->text.len - scan->text.at;

    if (scan->text.at > 0) {
        memmove(scan->text.buffer, scan->text.buffer + scan->text.at, rest);
        scan->text.origin += scan->text.at;
        scan->text.at = 0;
        scan->text.len = rest;
    }
    if (scan->text.cap - rest < BUFFER_ROOM || (rest > scan->text.cap / 2 && rest < scan->text.wait)) {
        scan->text.cap = scan->text.cap ? scan->text.cap * 2 : SCAN_BLOCK;
        scan->text.buffer = xrealloc(scan->text.buffer, scan->text.cap + SCAN_PAD, 1);
    }
    *ret_len = scan->text.cap - rest;
    return scan->text.buffer + rest;
}

void scan_filled(TraceScan *scan, size_t len)
{
    scan->text.len += len;
    scan->profile->bytes += len;
}

void scan_give(TraceScan *scan, char *text, size_t len, size_t cap)
{
    free(scan->text.buffer);
    scan->text.buffer = text;
    scan->text.cap = cap;
    scan_filled(scan, len);
}

static void note_end(TraceScan *scan)
{
    const char *p = text_here(scan), *end = end_of(scan);
    const bool open = scan->text.state == SCAN_LIST || scan->object ||
                      (scan->text.at < scan->text.len && scan->text.state == SCAN_TOP);

    if (open)
        lose_text(scan, PROFILE_LOSS_TRUNCATED, p, end);
    if (scan->text.state == SCAN_LIST && scan->text.at < scan->text.len)
        scan->profile->events++;
}

static void resolve_devices(TraceScan *scan)
{
    TraceKnown *known = scan->options.learn ? scan->options.learn : trace_known_new();

    known_learn(known, scan);
    bares_resolve(scan, known);
    if (!scan->options.learn)
        trace_known_free(known);
}

int scan_finish(TraceScan *scan, Err *err)
{
    Profile *profile = scan->profile;

    scan->text.final = true;
    TRY(scan_run(scan, err));
    if (!scan->listed || (scan->bare && profile->events == 0 && profile->lost_by_reason[PROFILE_LOSS_SYNTAX] > 0))
        return err_set(err, -EBADMSG, "not a trace: no list of events");
    note_end(scan);
    halves_pair(scan);
    wides_number(&scan->wides, profile, scan->options.learn);
    labels_apply(&scan->labels, profile);
    resolve_devices(scan);
    profile->microseconds = scan->timed && !scan->fraction;
    return 0;
}
