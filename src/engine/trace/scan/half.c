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

/* What cannot be used. Threads come in the order of their names' numbers, which is nobody's: losses are said in the
 * order of the file. */
typedef struct Lost {
    const Half *half;
    ProfileLossReason reason;
} Lost;

typedef struct Pairing {
    TraceScan *scan;
    VEC(const Half *) open;
    VEC(Lost) lost;
} Pairing;

static void lose_half(Pairing *pairing, const Half *half, ProfileLossReason reason)
{
    vec_push(&pairing->lost, ((Lost){half, reason}));
}

static int by_byte(const void *a, const void *b)
{
    const Lost *x = a, *y = b;

    return (x->half->byte > y->half->byte) - (x->half->byte < y->half->byte);
}

static void tell_lost(Pairing *pairing)
{
    if (pairing->lost.len)
        qsort(pairing->lost.at, pairing->lost.len, sizeof pairing->lost.at[0], by_byte);
    for (size_t i = 0; i < pairing->lost.len; i++) {
        const Half *half = pairing->lost.at[i].half;
        size_t len = 0;
        const char *text = profile_text(pairing->scan->profile, half->event.name, &len);

        scan_lose(pairing->scan, pairing->lost.at[i].reason, half->byte, text, len);
    }
}

/* The ids of the begin, or of the end where that one has none. */
static void put_ids(TraceScan *scan, ProfileEvent *event, const Half *begin, const Half *end)
{
    const int64_t link = begin->link ? begin->link : end->link;
    const int64_t external = begin->external ? begin->external : end->external;

    if (event->kind <= PROFILE_SET) {
        event->link = id_put(scan, link, WIDE_GPU_LINK, scan->profile->gpu.len);
        event->external = id_put(scan, external, WIDE_GPU_EXTERNAL, scan->profile->gpu.len);
    } else if (event->kind == PROFILE_CALL || event->kind == PROFILE_OTHER) {
        event->link = id_put(scan, link, WIDE_HOST_LINK, scan->profile->host.len);
        scan->bare_links |= event->kind == PROFILE_OTHER && link != 0;
    } else if (event->kind == PROFILE_OP) {
        event->link = id_put(scan, external, WIDE_HOST_LINK, scan->profile->host.len);
    }
}

static void add_pair(Pairing *pairing, const Half *begin, const Half *end)
{
    TraceScan *scan = pairing->scan;
    ProfileEvent event = begin->event;

    event.start = begin->time;
    event.duration = end->time - begin->time;
    if (event.duration > DURATION_MAX) {
        lose_half(pairing, begin, PROFILE_LOSS_NO_TIME);
        return;
    }
    if (!begin->wanted || !window_touches(&scan->options, event.start, event.duration))
        return;
    if (!begin->on_gpu)
        event.lane = thread_lane(scan, &begin->thread);
    put_ids(scan, &event, begin, end);
    profile_add(scan->profile, &event);
}

/* The begin that an end of this name belongs to: the last open one of that name, else (for an end without a name) the
 * last one. open.len: none. */
static size_t find_begin(const Pairing *pairing, const Half *end)
{
    const size_t len = pairing->open.len;

    if (len == 0)
        return len;
    if (end->event.name == PROFILE_NONE)
        return len - 1;
    for (size_t i = 0; i < len && i < MATCH_DEPTH; i++)
        if (pairing->open.at[len - 1 - i]->event.name == end->event.name)
            return len - 1 - i;
    return len;
}

/* All that are open from `first` on stay alone. */
static void leave_open(Pairing *pairing, size_t first)
{
    for (size_t i = first; i < pairing->open.len; i++)
        lose_half(pairing, pairing->open.at[i], PROFILE_LOSS_UNPAIRED);
    pairing->open.len = first;
}

static void pair_half(Pairing *pairing, const Half *half)
{
    if (half->begin) {
        vec_push(&pairing->open, half);
        return;
    }
    const size_t at = find_begin(pairing, half);

    if (at == pairing->open.len) {
        lose_half(pairing, half, PROFILE_LOSS_UNPAIRED);
        return;
    }
    leave_open(pairing, at + 1);
    add_pair(pairing, pairing->open.at[at], half);
    pairing->open.len = at;
}

void halves_settle(TraceScan *scan)
{
    Halves *halves = &scan->halves;
    Pairing pairing = {.scan = scan};

    if (halves->len == 0)
        return;
    qsort(halves->at, halves->len, sizeof halves->at[0], by_thread);
    for (size_t i = 0; i < halves->len; i++) {
        pair_half(&pairing, &halves->at[i]);
        if (i + 1 == halves->len || !same_thread(&halves->at[i], &halves->at[i + 1]))
            leave_open(&pairing, 0);
    }
    tell_lost(&pairing);
    vec_done(&pairing.open);
    vec_done(&pairing.lost);
    vec_done(halves);
}
