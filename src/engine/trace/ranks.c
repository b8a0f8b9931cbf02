/* SPDX-License-Identifier: Apache-2.0 */
/* Results over all ranks, in order: identity, clocks, matches, sums, times, the straggler. */
#include "base/cleanup.h"
#include "engine/trace/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/trace/tables.h"

/* ---- sums ---- */

/* Collectives by name, group size and size: how long they take once all ranks have arrived, the bandwidth of that, and
 * how long ranks waited for each other. */

/* A row of the report while it grows. Operations are its sets or, without any, the rows that no other rank has. */
typedef struct Sum {
    TraceCollectiveSum row;
    CollectiveKind kind;
    bool sets;
    VEC(int64_t) bytes, best, skew; /* per operation; of skews those that are known */
} Sum;

typedef struct Sums {
    const RankMatch *match;
    Map numbers; /* text -> 1 + index */
    VEC(Sum) sums;
    Arena keys;
} Sums;

/* 0 unknown or nothing, else 1 + floor of the logarithm. */
static int size_class(int64_t bytes)
{
    return bytes <= 0 ? 0 : 64 - __builtin_clzll((unsigned long long)bytes);
}

static Sum *sum_for(Sums *sums, const TraceCollective *row, CollectiveKind kind, int64_t group_size, int64_t bytes)
{
    const char *key = arena_printf(&sums->keys, "%s\x1f%lld\x1f%d", row->name, (long long)group_size,
                                   bytes < 0 ? -1 : size_class(bytes));
    const size_t number = trace_number_of(&sums->numbers, key);
    if (number == sums->sums.len)
        vec_push(&sums->sums, ((Sum){.kind = kind,
                                     .row = {.name = row->name,
                                             .group = row->group,
                                             .group_size = group_size,
                                             .skew_median_ns = -1,
                                             .skew_max_ns = -1}}));
    arena_reset(&sums->keys);
    Sum *sum = &sums->sums.at[number];
    if (strcmp(sum->row.group, row->group) != 0)
        sum->row.group = ""; /* several */
    return sum;
}

/* The group's size; if unknown, the job's, if all of it took part. */
static int64_t group_size_of(const RankMatch *match, const TraceCollective *row, size_t parts)
{
    const TraceReport *report = match->report;
    if (row->group_size > 0)
        return row->group_size;
    return report->ranks.len > 0 && report->ranks.at[0].world_size == (int64_t)parts ? (int64_t)parts : -1;
}

static int64_t bytes_of(CollectiveKind kind, const TraceCollective *row, int64_t group_size)
{
    return collective_bytes(kind, row->in_bytes, row->out_bytes, group_size);
}

static void add_set(Sums *sums, const RankSet *set)
{
    const RankMatch *match = sums->match;
    const RankPart *parts = &match->parts.at[set->first];
    const TraceCollective *row = rank_row(match, &parts[0]);
    const int64_t size = group_size_of(match, row, set->count);
    const bool known = set->clock || collective_joins_all(set->kind);
    int64_t bytes = -1, total = 0, wait = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        bytes = trace_larger(bytes, bytes_of(set->kind, rank_row(match, &parts[i]), size));
        total = trace_sum(total, parts[i].duration);
        wait = trace_sum(wait, known ? rank_minus(set->last_start, parts[i].start) : 0);
    }
    Sum *sum = sum_for(sums, row, set->kind, size, bytes);
    sum->sets = true;
    sum->row.count++;
    sum->row.matched += set->complete;
    sum->row.total_ns = trace_sum(sum->row.total_ns, total);
    sum->row.wait_ns = trace_sum(sum->row.wait_ns, wait);
    vec_push(&sum->bytes, bytes);
    vec_push(&sum->best, set->shortest);
    if (known)
        vec_push(&sum->skew, rank_minus(set->last_start, set->first_start));
}

/* After all sets. */
static void add_alone(Sums *sums, const TraceCollective *row)
{
    const CollectiveKind kind = collective_kind(row->name, strlen(row->name));
    const int64_t bytes = bytes_of(kind, row, row->group_size);
    Sum *sum = sum_for(sums, row, kind, row->group_size, bytes);
    sum->row.count++;
    sum->row.total_ns = trace_sum(sum->row.total_ns, row->end - row->start);
    if (sum->sets)
        return;
    vec_push(&sum->bytes, bytes);
    vec_push(&sum->best, row->end - row->start);
}

/* ---- into the report ---- */

static void finish_sum(Sum *sum, TraceReport *report)
{
    TraceCollectiveSum *row = &sum->row;
    row->bytes = trace_median(sum->bytes.at, sum->bytes.len);
    row->best_ns = trace_median(sum->best.at, sum->best.len);
    if (sum->skew.len > 0) {
        row->skew_median_ns = trace_median(sum->skew.at, sum->skew.len);
        row->skew_max_ns = trace_select(sum->skew.at, sum->skew.len, sum->skew.len - 1);
    }
    const bool timed = row->bytes > 0 && row->best_ns > 0;
    row->algorithm_gbs = timed ? (double)row->bytes / (double)row->best_ns : NAN;
    row->bus_gbs = row->algorithm_gbs * collective_bus_factor(sum->kind, row->group_size);
    vec_push(&report->collectives, *row);
    vec_done(&sum->bytes);
    vec_done(&sum->best);
    vec_done(&sum->skew);
}

static int by_total(const void *a, const void *b)
{
    const TraceCollectiveSum *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns},
                               {strcmp(x->name, y->name), 0},
                               {x->group_size, y->group_size},
                               {x->bytes, y->bytes}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void rank_sums(const RankMatch *match)
{
    TraceReport *report = match->report;
    Sums sums = {.match = match};
    map_init(&sums.numbers);
    for (size_t i = 0; i < match->sets.len; i++)
        add_set(&sums, &match->sets.at[i]);
    for (size_t i = 0; i < report->ranks.len; i++) {
        const TraceRank *rank = &report->ranks.at[i];
        for (size_t row = 0; row < rank->collectives.len; row++) {
            if (!rank->collectives.at[row].matched)
                add_alone(&sums, &rank->collectives.at[row]);
        }
    }
    for (size_t i = 0; i < sums.sums.len; i++)
        finish_sum(&sums.sums.at[i], report);
    vec_sort(&report->collectives, by_total);
    map_done(&sums.numbers);
    vec_done(&sums.sums);
    arena_done(&sums.keys);
}

/* ---- all ranks ---- */

#define BASE_MAX (INT64_C(1) << 61)

static int by_rank(const void *a, const void *b)
{
    const TraceRank *x = a, *y = b;
    const int64_t keys[][2] = {{x->rank, y->rank}, {strcmp(x->file ? x->file : "", y->file ? y->file : ""), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void sort_ranks(TraceReport *report)
{
    vec_sort(&report->ranks, by_rank);
    for (size_t i = 1; i < report->ranks.len; i++) {
        const TraceRank *last = &report->ranks.at[i - 1], *rank = &report->ranks.at[i];
        if (last->rank == rank->rank)
            rank_note(report, "two files of rank %lld: %s and %s; both are kept, as if they were two ranks",
                      (long long)rank->rank, last->file ? last->file : "", rank->file ? rank->file : "");
    }
}

static void sum_gaps(TraceReport *report)
{
    memset(report->gaps_by_cause, 0, sizeof(report->gaps_by_cause));
    for (size_t i = 0; i < report->ranks.len; i++) {
        for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
            TraceCauseSum *sum = &report->gaps_by_cause[cause];
            const TraceCauseSum *more = &report->ranks.at[i].idle_by_cause[cause];
            sum->count += more->count;
            sum->total_ns = trace_sum(sum->total_ns, more->total_ns);
            sum->max_ns = trace_larger(sum->max_ns, more->max_ns);
        }
    }
}

static void find_bases(RankMatch *match)
{
    const TraceReport *report = match->report;
    for (size_t i = 0; i < report->ranks.len; i++) {
        int64_t base;
        if (__builtin_sub_overflow(report->ranks.at[i].base_ns, report->ranks.at[0].base_ns, &base))
            base = 0;
        match->ranks[i].clock.base = base > BASE_MAX || base < -BASE_MAX ? 0 : base;
    }
}

static void note_clocks(const RankMatch *match)
{
    TraceReport *report = match->report;
    size_t aligned = 0, samples = 0;
    int64_t spread = 0;
    for (size_t i = 0; i < report->ranks.len; i++) {
        const RankClock *clock = &match->ranks[i].clock;
        TraceRank *rank = &report->ranks.at[i];
        rank->clock_aligned = clock->aligned;
        rank->clock_offset_ns = clock->aligned ? rank_plus(clock->base, clock->offset) : 0;
        if (!clock->aligned) {
            rank_note(report,
                      "the clock of rank %lld could not be aligned: too few operations that end together were "
                      "found on it and on others",
                      (long long)rank->rank);
            continue;
        }
        aligned++;
        samples += clock->samples;
        spread = clock->spread > spread ? clock->spread : spread;
        if (clock->drift * 1e6 > 1 || clock->drift * 1e6 < -1)
            rank_note(report, "the clock of rank %lld drifts by %.1f us per second; it was put right",
                      (long long)rank->rank, clock->drift * 1e6);
    }
    if (aligned > 1)
        rank_note(report,
                  "clocks of %zu ranks were aligned by %zu pairs of collectives that end together; ends agree "
                  "within %.1f us",
                  aligned, samples, (double)spread / 1e3);
}

static void note_missing(const RankMatch *match)
{
    for (size_t i = 0; i < match->report->ranks.len; i++) {
        const RankState *rank = &match->ranks[i];
        if (rank->found < rank->recorded)
            rank_note(match->report, "rank %lld: of %zu communication operations %zu were found on other ranks",
                      (long long)match->report->ranks.at[i].rank, rank->recorded, rank->found);
    }
}

void trace_across(TraceReport *report)
{
    RankMatch match = {.report = report};
    report->straggler = (TraceStraggler){.rank = -1, .group = "", .label = "", .cause = "", .host_cause = ""};
    sort_ranks(report);
    sum_gaps(report);
    match.ranks = xcalloc(report->ranks.len, sizeof(*match.ranks));
    find_bases(&match);
    if (report->ranks.len > 1) {
        rank_match(&match);
        note_clocks(&match);
        note_missing(&match);
    }
    rank_sums(&match);
    rank_times(&match);
    rank_straggler(&match);
    vec_done(&match.parts);
    vec_done(&match.sets);
    free(match.ranks);
}
