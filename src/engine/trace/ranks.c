/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives by name, group size and size: how long they take once all ranks have arrived, the bandwidth of that,
 * and how long ranks waited for each other. */
#include "engine/trace/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/cleanup.h"

/* One operation: a set, or a row that no other rank has. */
typedef struct Operation {
    int64_t bytes, best, skew; /* skew -1: one rank alone */
} Operation;
typedef VEC(Operation) OperationVec;

/* A row of the report while it grows. */
typedef struct Sum {
    TraceCollectiveSum row;
    CollectiveKind kind;
    OperationVec matched, alone;
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
    uintptr_t number = (uintptr_t)map_get(&sums->numbers, key);
    if (number == 0) {
        vec_push(&sums->sums, ((Sum){.kind = kind,
                                     .row = {.name = row->name,
                                             .group = row->group,
                                             .group_size = group_size,
                                             .skew_median_ns = -1,
                                             .skew_max_ns = -1}}));
        number = sums->sums.len;
        map_put(&sums->numbers, key, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    arena_reset(&sums->keys);
    Sum *sum = &sums->sums.at[number - 1];
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

/* When a part began, against the others: on the common clock where all are aligned, else, for operations that end
 * together, before the end. */
static bool starts_known(const RankMatch *match, const RankSet *set, bool *ret_clock)
{
    bool clock = true;
    for (uint32_t i = 0; i < set->count; i++)
        clock = clock && match->clocks[match->parts.at[set->first + i].rank].aligned;
    *ret_clock = clock;
    return clock || collective_joins_all(set->kind);
}

static void add_set(Sums *sums, const RankSet *set)
{
    const RankMatch *match = sums->match;
    const RankPart *parts = &match->parts.at[set->first];
    const TraceCollective *row = rank_row(match, &parts[0]);
    int64_t size = group_size_of(match, row, set->count);
    bool clock, known = starts_known(match, set, &clock);
    Operation operation = {.bytes = -1, .best = INT64_MAX, .skew = -1};
    int64_t first = INT64_MAX, last = INT64_MIN, total = 0, wait = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const TraceCollective *part = rank_row(match, &parts[i]);
        int64_t duration = rank_duration(match, &parts[i]);
        int64_t start = clock ? rank_common(&match->clocks[parts[i].rank], part->start) : -duration;
        operation.bytes = trace_larger(operation.bytes, bytes_of(set->kind, part, size));
        operation.best = duration < operation.best ? duration : operation.best;
        total = trace_sum(total, duration);
        first = start < first ? start : first;
        last = trace_larger(last, start);
    }
    for (uint32_t i = 0; i < set->count && known; i++) {
        const TraceCollective *part = rank_row(match, &parts[i]);
        int64_t start =
            clock ? rank_common(&match->clocks[parts[i].rank], part->start) : -rank_duration(match, &parts[i]);
        wait = trace_sum(wait, rank_minus(last, start));
    }
    operation.skew = known ? rank_minus(last, first) : -1;
    Sum *sum = sum_for(sums, row, set->kind, size, operation.bytes);
    sum->row.count++;
    sum->row.matched += set->complete;
    sum->row.total_ns = trace_sum(sum->row.total_ns, total);
    sum->row.wait_ns = trace_sum(sum->row.wait_ns, wait);
    vec_push(&sum->matched, operation);
}

static void add_alone(Sums *sums, const TraceCollective *row)
{
    CollectiveKind kind = collective_kind(row->name, strlen(row->name));
    Operation operation = {.bytes = bytes_of(kind, row, row->group_size), .best = row->end - row->start, .skew = -1};
    Sum *sum = sum_for(sums, row, kind, row->group_size, operation.bytes);
    sum->row.count++;
    sum->row.total_ns = trace_sum(sum->row.total_ns, operation.best);
    vec_push(&sum->alone, operation);
}

/* ---- into the report ---- */

static int64_t median_bytes(const OperationVec *operations, int64_t *room)
{
    for (size_t i = 0; i < operations->len; i++)
        room[i] = operations->at[i].bytes;
    return rank_median(room, operations->len);
}

static void finish_sum(Sum *sum)
{
    const OperationVec *operations = sum->matched.len > 0 ? &sum->matched : &sum->alone;
    TraceCollectiveSum *row = &sum->row;
    CLEANUP_FREE int64_t *room = xcalloc(operations->len, sizeof(*room));
    row->bytes = median_bytes(operations, room);
    for (size_t i = 0; i < operations->len; i++)
        room[i] = operations->at[i].best;
    row->best_ns = rank_median(room, operations->len);
    size_t skews = 0;
    for (size_t i = 0; i < operations->len; i++) {
        if (operations->at[i].skew >= 0)
            room[skews++] = operations->at[i].skew;
    }
    if (skews > 0) {
        row->skew_median_ns = rank_median(room, skews);
        row->skew_max_ns = trace_select(room, skews, skews - 1);
    }
    bool timed = row->bytes > 0 && row->best_ns > 0;
    row->algorithm_gbs = timed ? (double)row->bytes / (double)row->best_ns : NAN;
    row->bus_gbs = row->algorithm_gbs * collective_bus_factor(sum->kind, row->group_size);
}

static int by_total(const void *a, const void *b)
{
    const TraceCollectiveSum *x = a, *y = b;
    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    int order = strcmp(x->name, y->name);
    if (order)
        return order;
    if (x->group_size != y->group_size)
        return x->group_size < y->group_size ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* ranks.c: report->collectives. */
static void rank_sums(const RankMatch *match)
{
    TraceReport *report = match->report;
    Sums sums = {.match = match};
    map_init(&sums.numbers);
    CLEANUP_FREE uint8_t **in_set = xcalloc(report->ranks.len, sizeof(*in_set));
    for (size_t i = 0; i < report->ranks.len; i++)
        in_set[i] = xcalloc(report->ranks.at[i].collectives.len, 1);
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        add_set(&sums, set);
        for (size_t k = set->first; k < set->first + set->count; k++)
            in_set[match->parts.at[k].rank][match->parts.at[k].row] = 1;
    }
    for (size_t i = 0; i < report->ranks.len; i++) {
        for (size_t row = 0; row < report->ranks.at[i].collectives.len; row++) {
            if (!in_set[i][row])
                add_alone(&sums, &report->ranks.at[i].collectives.at[row]);
        }
        free(in_set[i]);
    }
    for (size_t i = 0; i < sums.sums.len; i++) {
        finish_sum(&sums.sums.at[i]);
        vec_push(&report->collectives, sums.sums.at[i].row);
        vec_done(&sums.sums.at[i].matched);
        vec_done(&sums.sums.at[i].alone);
    }
    if (report->collectives.len > 1)
        qsort(report->collectives.at, report->collectives.len, sizeof(*report->collectives.at), by_total);
    map_done(&sums.numbers);
    vec_done(&sums.sums);
    arena_done(&sums.keys);
}

/* ---- all ranks ---- */

/* Results over all ranks, in order: identity, clocks, matches, sums, times, the straggler. */

#define BASE_MAX (INT64_C(1) << 61)

static int by_rank(const void *a, const void *b)
{
    const TraceRank *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->file ? x->file : "", y->file ? y->file : "");
}

static void sort_ranks(TraceReport *report)
{
    if (report->ranks.len > 1)
        qsort(report->ranks.at, report->ranks.len, sizeof(*report->ranks.at), by_rank);
    for (size_t i = 1; i < report->ranks.len; i++) {
        const TraceRank *last = &report->ranks.at[i - 1], *rank = &report->ranks.at[i];
        if (last->rank == rank->rank)
            rank_note(report, "two files of rank %lld: %s and %s; both are kept, as if they were two ranks",
                      (long long)rank->rank, last->file ? last->file : "", rank->file ? rank->file : "");
    }
}

static void sum_gaps(TraceReport *report)
{
    for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        TraceCauseSum *sum = &report->gaps_by_cause[cause];
        *sum = (TraceCauseSum){0};
        for (size_t i = 0; i < report->ranks.len; i++) {
            const TraceCauseSum *more = &report->ranks.at[i].idle_by_cause[cause];
            sum->count += more->count;
            if (__builtin_add_overflow(sum->total_ns, more->total_ns, &sum->total_ns))
                sum->total_ns = INT64_MAX;
            sum->max_ns = more->max_ns > sum->max_ns ? more->max_ns : sum->max_ns;
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
        match->clocks[i].base = base > BASE_MAX || base < -BASE_MAX ? 0 : base;
    }
}

static void note_clocks(const RankMatch *match)
{
    TraceReport *report = match->report;
    size_t aligned = 0, samples = 0;
    int64_t spread = 0;
    for (size_t i = 0; i < report->ranks.len; i++) {
        const RankClock *clock = &match->clocks[i];
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
        if (match->found[i] < match->recorded[i])
            rank_note(match->report, "rank %lld: of %zu communication operations %zu were found on other ranks",
                      (long long)match->report->ranks.at[i].rank, match->recorded[i], match->found[i]);
    }
}

void trace_across(TraceReport *report)
{
    RankMatch match = {.report = report};
    report->straggler = (TraceStraggler){.rank = -1, .cause = ""};
    sort_ranks(report);
    sum_gaps(report);
    match.clocks = xcalloc(report->ranks.len, sizeof(*match.clocks));
    match.recorded = xcalloc(report->ranks.len, sizeof(*match.recorded));
    match.found = xcalloc(report->ranks.len, sizeof(*match.found));
    find_bases(&match);
    if (report->ranks.len > 1) {
        rank_match(&match);
        rank_clocks(&match);
        note_clocks(&match);
        note_missing(&match);
    }
    rank_sums(&match);
    rank_times(&match);
    rank_straggler(&match);
    vec_done(&match.parts);
    vec_done(&match.sets);
    free(match.clocks);
    free(match.recorded);
    free(match.found);
}
