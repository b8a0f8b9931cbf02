/* SPDX-License-Identifier: Apache-2.0 */
/* The temporal breakdown, the overlap of communication and computation, and the time of each combination of classes.
 * All streams and devices of a rank are one. */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdlib.h>

#include "base/owner.h"

static int by_start(const void *a, const void *b)
{
    const HtaInterval *left = a, *right = b;

    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

static void join(HtaIntervals *all)
{
    size_t last = 0;
    int64_t reached = all->at[0].end;

    for (size_t i = 1; i < all->len; i++) {
        HtaInterval *open = &all->at[last], next = all->at[i];

        if (next.start > reached)
            all->at[++last] = next;
        else
            open->end = next.end > open->end ? next.end : open->end;
        reached = next.end > reached ? next.end : reached;
    }
    all->len = last + 1;
}

void hta_merge(const HtaFrame *frame, int type, HtaIntervals *ret)
{
    *ret = (HtaIntervals){0};
    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);

        if (type < 0 || frame->rows->names.at[row->name].type == (HtaType)type)
            vec_push(ret, ((HtaInterval){row->start, hta_end(row)}));
    }
    if (ret->len == 0)
        return;
    qsort(ret->at, ret->len, sizeof *ret->at, by_start);
    join(ret);
}

int64_t hta_length(const HtaIntervals *merged)
{
    int64_t sum = 0;

    for (size_t i = 0; i < merged->len; i++)
        sum = hta_sum(sum, merged->at[i].end - merged->at[i].start);
    return sum;
}

static int64_t common(const HtaIntervals *a, const HtaIntervals *b)
{
    int64_t sum = 0;

    for (size_t i = 0, k = 0; i < a->len && k < b->len;) {
        int64_t start = a->at[i].start > b->at[k].start ? a->at[i].start : b->at[k].start;
        int64_t end = a->at[i].end < b->at[k].end ? a->at[i].end : b->at[k].end;

        sum = hta_sum(sum, end > start ? end - start : 0);
        if (a->at[i].end < b->at[k].end)
            i++;
        else
            k++;
    }
    return sum;
}

static double percent(int64_t part, int64_t whole)
{
    return whole == 0 ? NAN : hta_round(100 * ((double)part / (double)whole), 2);
}

void hta_temporal(const HtaFrame *frame, HtaRank *rank)
{
    HtaTemporal *out = &rank->temporal;
    HtaIntervals all, compute, communication;

    hta_merge(frame, -1, &all);
    hta_merge(frame, HTA_COMPUTATION, &compute);
    hta_merge(frame, HTA_COMMUNICATION, &communication);
    rank->has_gpu = all.len > 0;
    if (rank->has_gpu) {
        out->kernel_ns = all.at[all.len - 1].end - all.at[0].start;
        out->idle_ns = hta_sum(out->kernel_ns, -hta_length(&all));
        out->compute_ns = hta_length(&compute);
        out->non_compute_ns = hta_sum(out->kernel_ns, -hta_sum(out->compute_ns, out->idle_ns));
    }
    out->idle_pctg = percent(out->idle_ns, out->kernel_ns);
    out->compute_pctg = percent(out->compute_ns, out->kernel_ns);
    out->non_compute_pctg = percent(out->non_compute_ns, out->kernel_ns);
    rank->overlap_pctg = percent(common(&communication, &compute), hta_length(&communication));
    vec_done(&all);
    vec_done(&compute);
    vec_done(&communication);
}

/* ---- combinations: bit 0 computation, 1 communication, 2 memory ---- */

enum { COMBINATIONS = 8, CLASSES = 3 };

static const char *const combination_words[COMBINATIONS] = {
    "",
    "COMPUTATION",
    "COMMUNICATION",
    "COMPUTATION overlapping COMMUNICATION",
    "MEMORY",
    "COMPUTATION overlapping MEMORY",
    "COMMUNICATION overlapping MEMORY",
    "COMPUTATION overlapping COMMUNICATION overlapping MEMORY",
};

typedef struct Edge {
    int64_t time;
    int change;
} Edge;

static int by_time(const void *a, const void *b)
{
    const Edge *left = a, *right = b;

    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    return left->change < right->change ? -1 : left->change > right->change;
}

static void add_times(const HtaFrame *frame, int64_t times[COMBINATIONS])
{
    VEC(Edge) edges = {0};
    int running = 0;

    for (int class = 0; class < CLASSES; class ++) {
        HtaIntervals merged;

        hta_merge(frame, class, &merged);
        for (size_t i = 0; i < merged.len; i++) {
            vec_push(&edges, ((Edge){merged.at[i].start, 1 << class}));
            vec_push(&edges, ((Edge){merged.at[i].end, -(1 << class)}));
        }
        vec_done(&merged);
    }
    if (edges.len)
        qsort(edges.at, edges.len, sizeof *edges.at, by_time);
    for (size_t i = 0; i + 1 < edges.len; i++) {
        running += edges.at[i].change;
        if (running > 0 && running < COMBINATIONS)
            times[running] = hta_sum(times[running], edges.at[i + 1].time - edges.at[i].time);
    }
    vec_done(&edges);
}

static int by_sum(const void *a, const void *b)
{
    const HtaTypeRow *left = a, *right = b;

    if (left->sum_ns != right->sum_ns)
        return left->sum_ns > right->sum_ns ? -1 : 1;
    return left->type < right->type ? -1 : left->type > right->type;
}

void hta_types(const HtaFrame *frames, size_t count, HtaReport *report)
{
    int64_t times[COMBINATIONS] = {0}, all = 0;

    for (size_t i = 0; i < count; i++)
        add_times(&frames[i], times);
    for (int i = 1; i < COMBINATIONS; i++)
        all = hta_sum(all, times[i]);
    for (int i = 1; i < COMBINATIONS; i++)
        if (times[i] != 0)
            vec_push(&report->types, ((HtaTypeRow){combination_words[i], times[i],
                                                   hta_round((double)times[i] / (double)all * 100, 1)}));
    if (report->types.len)
        qsort(report->types.at, report->types.len, sizeof *report->types.at, by_sum);
}
