/* SPDX-License-Identifier: Apache-2.0 */
/* Begins and ends of ranges ("B", "E"), paired when all of them are known: they may stand in any order, and those of
 * one time count in the order of the file. */
#include <stdlib.h>

#include "engine/trace/scan/inside.h"
#include "engine/trace/scan/thread.h"
#include "engine/trace/scan/window.h"

enum { MATCH_DEPTH = 64 }; /* how far an end looks for a begin of its name */

static int by_thread(const void *a, const void *b)
{
    const Half *x = a, *y = b;

#define ORDER(left, right)                                                                                             \
    if ((left) != (right))                                                                                             \
        return (left) < (right) ? -1 : 1;
    ORDER(x->thread.pid, y->thread.pid)
    ORDER(x->thread.tid, y->thread.tid)
    ORDER(x->thread.pid_name, y->thread.pid_name)
    ORDER(x->thread.tid_name, y->thread.tid_name)
    ORDER(x->time, y->time)
    ORDER(x->byte, y->byte)
#undef ORDER
    return 0;
}

static bool same_thread(const Half *x, const Half *y)
{
    return x->thread.pid == y->thread.pid && x->thread.tid == y->thread.tid &&
           x->thread.pid_name == y->thread.pid_name && x->thread.tid_name == y->thread.tid_name;
}

static void unpaired(TraceScan *scan, const Half *half)
{
    size_t len = 0;
    const char *text = profile_text(scan->profile, half->event.name, &len);

    scan_lose(scan, PROFILE_LOSS_UNPAIRED, half->byte, text, len);
}

static void add_pair(TraceScan *scan, const Half *begin, const Half *end)
{
    ProfileEvent event = begin->event;

    event.start = begin->time;
    event.duration = end->time - begin->time;
    if (event.duration > DURATION_MAX) {
        scan_lose(scan, PROFILE_LOSS_NO_TIME, begin->byte, NULL, 0);
        return;
    }
    if (!begin->wanted || !window_touches(&scan->options, event.start, event.duration))
        return;
    if (!begin->on_gpu)
        event.lane = thread_lane(scan, &begin->thread);
    profile_add(scan->profile, &event);
}

typedef VEC(const Half *) Open;

/* The begin that an end of this name belongs to: the last open one of that name, else (for an end without a name) the
 * last one. open->len: none. */
static size_t matching(const Open *open, const Half *end)
{
    if (open->len == 0)
        return open->len;
    if (end->event.name == PROFILE_NONE)
        return open->len - 1;
    for (size_t i = 0; i < open->len && i < MATCH_DEPTH; i++)
        if (open->at[open->len - 1 - i]->event.name == end->event.name)
            return open->len - 1 - i;
    return open->len;
}

static void pair(TraceScan *scan, Open *open, const Half *half)
{
    if (half->begin) {
        vec_push(open, half);
        return;
    }
    const size_t at = matching(open, half);

    if (at == open->len) {
        unpaired(scan, half);
        return;
    }
    for (size_t i = at + 1; i < open->len; i++)
        unpaired(scan, open->at[i]);
    add_pair(scan, open->at[at], half);
    open->len = at;
}

void halves_settle(TraceScan *scan)
{
    Halves *halves = &scan->halves;
    Open open = {0};

    if (halves->len == 0)
        return;
    qsort(halves->at, halves->len, sizeof halves->at[0], by_thread);
    for (size_t i = 0; i < halves->len; i++) {
        pair(scan, &open, &halves->at[i]);
        if (i + 1 < halves->len && same_thread(&halves->at[i], &halves->at[i + 1]))
            continue;
        for (size_t k = 0; k < open.len; k++)
            unpaired(scan, open.at[k]);
        vec_clear(&open);
    }
    vec_done(&open);
    vec_done(halves);
}
