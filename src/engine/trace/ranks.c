/* SPDX-License-Identifier: Apache-2.0 */
/* What is known from all ranks together, in order: who is who, clocks, matches, sums, times, the straggler. */
#include "engine/trace/ranks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BASE_MAX (INT64_C(1) << 61)

void rank_note(TraceReport *report, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    vec_push(&report->notes, (const char *)arena_strdup(&report->arena, text));
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t rank_median(int64_t *values, size_t len)
{
    if (len == 0)
        return 0;
    qsort(values, len, sizeof(*values), by_value);
    return values[len / 2];
}

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
