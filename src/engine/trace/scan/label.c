/* SPDX-License-Identifier: Apache-2.0 */
/* Names and orders of threads and streams, from metadata events, which may stand anywhere: the last one counts. Lanes
 * that nothing happened on get none. */
#include <stdlib.h>

#include "engine/trace/scan/inside.h"
#include "engine/trace/scan/thread.h"

static int by_thread(const void *a, const void *b)
{
    const Label *x = a, *y = b;

#define ORDER(field)                                                                                                   \
    if (x->thread.field != y->thread.field)                                                                            \
        return x->thread.field < y->thread.field ? -1 : 1;
    ORDER(pid)
    ORDER(tid)
    ORDER(pid_name)
    ORDER(tid_name)
#undef ORDER
    return (x->order > y->order) - (x->order < y->order);
}

/* The first label of a thread, or the place where it would be. */
static size_t first_of(const Labels *labels, const Label *key)
{
    size_t low = 0, high = labels->len;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (by_thread(&labels->at[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool same_thread(const ThreadKey *x, const ThreadKey *y)
{
    return x->pid == y->pid && x->tid == y->tid && x->pid_name == y->pid_name && x->tid_name == y->tid_name;
}

static void put_labels(const Labels *labels, ThreadKey thread, ProfileLane *lane)
{
    const Label key = {.thread = thread, .order = 0};

    for (size_t i = first_of(labels, &key); i < labels->len; i++) {
        const Label *label = &labels->at[i];

        if (!same_thread(&label->thread, &thread))
            break;
        if (label->kind == LABEL_SORT)
            lane->sort = label->sort;
        else if (label->kind == LABEL_THREAD)
            lane->label = label->text;
    }
}

/* Streams by their number alone: "stream 7" of the first traces is 7 of the later ones. */
static void put_streams(const Labels *labels, Profile *profile)
{
    Labels streams = {0};

    for (size_t i = 0; i < labels->len; i++) {
        Label label = labels->at[i];

        if (label.thread.pid_name != PROFILE_NONE || label.kind == LABEL_PROCESS)
            continue;
        if (label.thread.tid_name != PROFILE_NONE) {
            size_t len;
            const char *text = profile_text(profile, label.thread.tid_name, &len);

            if (!number_behind(text, len, &label.thread.tid))
                continue;
            label.thread.tid_name = PROFILE_NONE;
        }
        vec_push(&streams, label);
    }
    if (streams.len)
        qsort(streams.at, streams.len, sizeof streams.at[0], by_thread);
    for (size_t i = 0; i < profile->lanes.len; i++) {
        ProfileLane *lane = &profile->lanes.at[i];

        if (lane->gpu)
            put_labels(&streams, (ThreadKey){lane->device, lane->tid, PROFILE_NONE, PROFILE_NONE}, lane);
    }
    vec_done(&streams);
}

bool label_counts(const Labels *labels, const Label *label, LabelKind kind)
{
    const Label *end = labels->at + labels->len;

    if (label->kind != kind)
        return false;
    for (const Label *next = label + 1; next < end && same_thread(&next->thread, &label->thread); next++)
        if (next->kind == kind)
            return false;
    return true;
}

void labels_settle(Labels *labels, Profile *profile)
{
    if (labels->len == 0)
        return;
    for (size_t i = 0; i < labels->len; i++)
        labels->at[i].order = i + 1;
    put_streams(labels, profile);
    qsort(labels->at, labels->len, sizeof labels->at[0], by_thread);
    for (size_t i = 0; i < profile->lanes.len; i++) {
        ProfileLane *lane = &profile->lanes.at[i];

        if (!lane->gpu)
            put_labels(labels, (ThreadKey){lane->pid, lane->tid, lane->pid_name, lane->tid_name}, lane);
    }
}
