/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks of ranks against each other. All parts of an all_reduce (and of the others that nobody can end before all have
 * begun) end within microseconds of each other, so the difference of ends is the difference of clocks. Each set gives
 * one difference per rank, against its first rank; per pair of ranks the median counts, with a straight line through
 * the thirds of the time where that explains more (drift). Pairs are joined to a tree, those with most samples first.
 */
#include "engine/trace/ranks.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/owner.h"

enum { SAMPLES_MIN = 3, DRIFT_SAMPLES_MIN = 9 };
#define SPREAD_MAX_NS INT64_C(500000) /* ends that agree no better than this align nothing */
#define DRIFT_TIME_MIN_NS INT64_C(200000000)
#define DRIFT_MAX 1e-3

typedef struct Sample {
    uint32_t hub, rank;
    int64_t time, difference; /* of the rank's end; hub's end - rank's end */
} Sample;
typedef VEC(Sample) SampleVec;

typedef struct Edge {
    uint32_t hub, rank;
    int64_t offset, pivot, spread;
    double drift;
    size_t samples;
} Edge;
typedef VEC(Edge) EdgeVec;

static int64_t round_ns(double ns)
{
    return fabs(ns) < 9e18 ? llrint(ns) : 0;
}

static int64_t end_on_base_clock(const RankMatch *match, const RankPart *part)
{
    return rank_plus(rank_row(match, part)->end, match->clocks[part->rank].base);
}

static void collect_samples(const RankMatch *match, SampleVec *samples)
{
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        const RankPart *parts = &match->parts.at[set->first];
        if (!collective_joins_all(set->kind))
            continue;
        for (uint32_t k = 1; k < set->count; k++) {
            int64_t time = end_on_base_clock(match, &parts[k]);
            vec_push(samples, ((Sample){.hub = parts[0].rank,
                                        .rank = parts[k].rank,
                                        .time = time,
                                        .difference = rank_minus(end_on_base_clock(match, &parts[0]), time)}));
        }
    }
}

static int by_pair(const void *a, const void *b)
{
    const Sample *x = a, *y = b;
    if (x->hub != y->hub)
        return x->hub < y->hub ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->difference > y->difference) - (x->difference < y->difference);
}

/* ---- one pair of ranks ---- */

static int64_t median_of(const Sample *samples, size_t len, int64_t *room)
{
    for (size_t i = 0; i < len; i++)
        room[i] = samples[i].difference;
    return rank_median(room, len);
}

static int64_t spread_of(const Sample *samples, size_t len, const Edge *edge, int64_t *room)
{
    for (size_t i = 0; i < len; i++) {
        double expected = (double)edge->offset + edge->drift * (double)rank_minus(samples[i].time, edge->pivot);
        room[i] = llabs(rank_minus(samples[i].difference, round_ns(expected)));
    }
    return rank_median(room, len);
}

static Edge fit_line(const Sample *samples, size_t len, int64_t *room)
{
    size_t third = len / 3;
    const Sample *late = samples + len - third;
    int64_t early_time = samples[third / 2].time, late_time = late[third / 2].time;
    int64_t early = median_of(samples, third, room), later = median_of(late, third, room);
    Edge edge = {.pivot = early_time, .offset = early};
    if (late_time > early_time)
        edge.drift = (double)rank_minus(later, early) / (double)rank_minus(late_time, early_time);
    int64_t pivot = samples[len / 2].time;
    edge.offset = rank_plus(edge.offset, round_ns(edge.drift * (double)rank_minus(pivot, edge.pivot)));
    edge.pivot = pivot;
    return edge;
}

static Edge edge_of(const Sample *samples, size_t len)
{
    CLEANUP_FREE int64_t *room = xcalloc(len, sizeof(*room));
    Edge edge = {.pivot = samples[len / 2].time, .offset = median_of(samples, len, room)};
    edge.spread = spread_of(samples, len, &edge, room);
    if (len >= DRIFT_SAMPLES_MIN && rank_minus(samples[len - 1].time, samples[0].time) >= DRIFT_TIME_MIN_NS) {
        Edge line = fit_line(samples, len, room);
        line.spread = spread_of(samples, len, &line, room);
        if (fabs(line.drift) < DRIFT_MAX && (double)line.spread < 0.8 * (double)edge.spread)
            edge = line;
    }
    edge.hub = samples[0].hub;
    edge.rank = samples[0].rank;
    edge.samples = len;
    return edge;
}

/* ---- the tree ---- */

static int by_weight(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    if (x->spread != y->spread)
        return x->spread < y->spread ? -1 : 1;
    if (x->hub != y->hub)
        return x->hub < y->hub ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static uint32_t find_root(uint32_t *up, uint32_t rank)
{
    while (up[rank] != rank)
        rank = up[rank] = up[up[rank]];
    return rank;
}

/* Keeps the edges that join what was not joined yet. */
static void keep_tree(EdgeVec *edges, size_t ranks)
{
    CLEANUP_FREE uint32_t *up = xcalloc(ranks, sizeof(*up));
    size_t kept = 0;
    for (uint32_t i = 0; i < ranks; i++)
        up[i] = i;
    if (edges->len > 1)
        qsort(edges->at, edges->len, sizeof(*edges->at), by_weight);
    for (size_t i = 0; i < edges->len; i++) {
        uint32_t hub = find_root(up, edges->at[i].hub), rank = find_root(up, edges->at[i].rank);
        if (hub == rank)
            continue;
        up[rank] = hub;
        edges->at[kept++] = edges->at[i];
    }
    edges->len = kept;
}

/* Sets the clock of the edge's side that is not known yet from the one that is. */
static void align_clock(RankClock *clocks, const Edge *edge)
{
    bool forward = clocks[edge->hub].aligned;
    const RankClock *known = &clocks[forward ? edge->hub : edge->rank];
    RankClock *fresh = &clocks[forward ? edge->rank : edge->hub];
    int64_t offset = forward ? edge->offset : -edge->offset;
    int64_t pivot = forward ? edge->pivot : rank_plus(edge->pivot, edge->offset); /* on the fresh one's own clock */
    double drift = forward ? edge->drift : -edge->drift;
    int64_t there = rank_plus(pivot, offset); /* the same moment on the known one's clock */
    fresh->offset =
        rank_plus(rank_plus(offset, known->offset), round_ns(known->drift * (double)rank_minus(there, known->pivot)));
    fresh->pivot = pivot;
    fresh->drift = drift + known->drift;
    fresh->spread = edge->spread;
    fresh->samples = edge->samples;
    fresh->aligned = true;
}

static void walk_tree(RankMatch *match, const EdgeVec *edges)
{
    bool changed = edges->len > 0;
    if (changed)
        match->clocks[0].aligned = true;
    while (changed) { /* as often as the tree is deep; ranks are few */
        changed = false;
        for (size_t i = 0; i < edges->len; i++) {
            const Edge *edge = &edges->at[i];
            if (match->clocks[edge->hub].aligned != match->clocks[edge->rank].aligned) {
                align_clock(match->clocks, edge);
                changed = true;
            }
        }
    }
}

void rank_clocks(RankMatch *match)
{
    SampleVec samples = {0};
    EdgeVec edges = {0};
    collect_samples(match, &samples);
    if (samples.len > 0)
        qsort(samples.at, samples.len, sizeof(*samples.at), by_pair);
    for (size_t i = 0; i < samples.len;) {
        size_t from = i;
        while (i < samples.len && samples.at[i].hub == samples.at[from].hub &&
               samples.at[i].rank == samples.at[from].rank)
            i++;
        if (i - from < SAMPLES_MIN)
            continue;
        Edge edge = edge_of(samples.at + from, i - from);
        if (edge.spread <= SPREAD_MAX_NS)
            vec_push(&edges, edge);
    }
    keep_tree(&edges, match->report->ranks.len);
    walk_tree(match, &edges);
    size_t aligned = 0;
    for (size_t i = 0; i < match->report->ranks.len; i++)
        aligned += match->clocks[i].aligned;
    if (aligned < 2)
        match->clocks[0].aligned = false;
    vec_done(&samples);
    vec_done(&edges);
}

int64_t rank_common(const RankClock *clock, int64_t time)
{
    int64_t based_time = rank_plus(time, clock->base);
    int64_t drifted = round_ns(clock->drift * (double)rank_minus(based_time, clock->pivot));
    return rank_plus(rank_plus(based_time, clock->offset), drifted);
}
