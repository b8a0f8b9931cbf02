/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/trace/twice.h"

#include <inttypes.h>
#include <string.h>

static bool same_device(const TraceDevice *a, const TraceDevice *b)
{
    return a->device == b->device && a->first == b->first && a->last == b->last && a->busy_ns == b->busy_ns &&
           a->compute_ns == b->compute_ns && a->operation_count == b->operation_count && a->gap_count == b->gap_count &&
           a->stream_count == b->stream_count;
}

/* Equal to the nanosecond in all that tells recordings apart. */
static bool same_profile(const TraceRank *a, const TraceRank *b)
{
    if (a->rank != b->rank || a->base_ns != b->base_ns || a->events != b->events || a->ignored != b->ignored ||
        a->devices.len != b->devices.len || a->kernels.len != b->kernels.len || a->operators.len != b->operators.len ||
        a->calls.len != b->calls.len || a->steps.len != b->steps.len)
        return false;
    for (size_t i = 0; i < a->devices.len; i++)
        if (!same_device(&a->devices.at[i], &b->devices.at[i]))
            return false;
    for (size_t i = 0; i < a->operators.len; i++)
        if (strcmp(a->operators.at[i].name, b->operators.at[i].name) != 0 ||
            a->operators.at[i].host_ns != b->operators.at[i].host_ns)
            return false;
    for (size_t i = 0; i < a->calls.len; i++)
        if (strcmp(a->calls.at[i].name, b->calls.at[i].name) != 0 || a->calls.at[i].total_ns != b->calls.at[i].total_ns)
            return false;
    /* without any of these there is nothing to tell by */
    return a->devices.len + a->operators.len + a->calls.len > 0;
}

static const TraceRank *earlier(const TraceReport *report, size_t len, const TraceRank *rank)
{
    for (size_t i = 0; i < len; i++)
        if (same_profile(&report->ranks.at[i], rank))
            return &report->ranks.at[i];
    return NULL;
}

void trace_twice(TraceReport *report, Arena *arena)
{
    size_t kept = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        TraceRank *rank = &report->ranks.at[i];
        const TraceRank *same = earlier(report, kept, rank);

        if (!same) {
            report->ranks.at[kept++] = *rank;
            continue;
        }
        vec_push(&report->notes, arena_printf(arena,
                                              "%.300s is the profile of rank %" PRId64 " that %.300s is, too: "
                                              "it is left out",
                                              rank->file, rank->rank, same->file));
        trace_rank_done(rank);
    }
    report->ranks.len = kept;
}
