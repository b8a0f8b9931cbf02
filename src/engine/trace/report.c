/* SPDX-License-Identifier: Apache-2.0 */
/* Making a report empty, freeing it, copying texts into it, and leaving rows out. */
#include "engine/trace/report.h"

#include <inttypes.h>
#include <string.h>

#include "engine/trace/analyse.h"

void trace_report_init(TraceReport *report)
{
    memset(report, 0, sizeof *report);
    arena_init(&report->arena, 0);
    report->straggler = (TraceStraggler){.rank = -1, .cause = ""};
}

const char *trace_copy_text(const TraceJob *job, uint32_t name)
{
    size_t len;
    const char *text = profile_text(job->index->profile, name, &len);

    return len > 0 ? arena_strndup(job->arena, text, len) : "";
}

void trace_rank_done(TraceRank *rank)
{
    for (size_t i = 0; i < rank->steps.len; i++)
        vec_done(&rank->steps.at[i].devices);
    for (size_t i = 0; i < rank->paths.len; i++)
        vec_done(&rank->paths.at[i].names);
    for (size_t i = 0; i < rank->memory.len; i++) {
        vec_done(&rank->memory.at[i].points);
        vec_done(&rank->memory.at[i].holders);
    }
    for (size_t i = 0; i < rank->timeline.lanes.len; i++) {
        vec_done(&rank->timeline.lanes.at[i].busy);
        vec_done(&rank->timeline.lanes.at[i].slices);
    }
    vec_done(&rank->losses);
    vec_done(&rank->devices);
    vec_done(&rank->steps);
    vec_done(&rank->gaps);
    vec_done(&rank->edges);
    vec_done(&rank->inference);
    vec_done(&rank->decode_gaps);
    vec_done(&rank->kernels);
    vec_done(&rank->copies);
    vec_done(&rank->operators);
    vec_done(&rank->shapes);
    vec_done(&rank->modules);
    vec_done(&rank->origins);
    vec_done(&rank->calls);
    vec_done(&rank->annotations);
    vec_done(&rank->queues);
    vec_done(&rank->queue_points);
    vec_done(&rank->collectives);
    vec_done(&rank->paths);
    vec_done(&rank->memory);
    vec_done(&rank->timeline.lanes);
    vec_done(&rank->timeline.texts);
}

void trace_report_done(TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        trace_rank_done(&report->ranks.at[i]);
    vec_done(&report->ranks);
    vec_done(&report->collectives);
    vec_done(&report->rank_times);
    vec_done(&report->straggler.ranks);
    for (size_t i = 0; i < report->more_stragglers.len; i++)
        vec_done(&report->more_stragglers.at[i].ranks);
    vec_done(&report->more_stragglers);
    vec_done(&report->verdicts);
    vec_done(&report->notes);
    arena_done(&report->arena);
}

const TraceGap *trace_next_idle(const TraceRank *rank, TraceIdleCursor *cursor)
{
    const TraceGap *gap = cursor->gap < rank->gaps.len ? &rank->gaps.at[cursor->gap] : NULL;
    const TraceGap *edge = cursor->edge < rank->edges.len ? &rank->edges.at[cursor->edge] : NULL;

    if (edge && (!gap || edge->end - edge->start > gap->end - gap->start)) {
        cursor->edge++;
        return edge;
    }
    cursor->gap += gap != NULL;
    return gap;
}

TraceDevice trace_sum_devices(const TraceRank *rank)
{
    TraceDevice sum = {.name = ""};

    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *device = &rank->devices.at[i];

        sum.span_ns += device->span_ns;
        sum.busy_ns += device->busy_ns;
        sum.idle_ns += device->idle_ns;
        sum.compute_ns += device->compute_ns;
        sum.exposed_communication_ns += device->exposed_communication_ns;
        sum.exposed_copy_ns += device->exposed_copy_ns;
        sum.tensor_core_ns += device->tensor_core_ns;
        sum.tensor_unknown_ns += device->tensor_unknown_ns;
        sum.communication_ns += device->communication_ns;
        sum.communication_overlapped_ns += device->communication_overlapped_ns;
        sum.kernel_sum_ns += device->kernel_sum_ns;
        sum.operation_count += device->operation_count;
    }
    for (size_t i = 0; i < rank->edges.len && rank->steps.len == 0; i++) {
        const TraceGap *edge = &rank->edges.at[i];

        if (edge->cause == TRACE_CAUSE_BEFORE_PROFILE) /* not known to be idle */
            continue;
        sum.span_ns += edge->end - edge->start;
        sum.idle_ns += edge->end - edge->start;
    }
    return sum;
}

void trace_sum_causes(const TraceRank *rank, TraceCauseSum ret[TRACE_CAUSE_COUNT])
{
    memcpy(ret, rank->idle_by_cause, TRACE_CAUSE_COUNT * sizeof *ret);
    for (size_t i = 0; i < rank->edges.len && rank->steps.len == 0; i++) {
        const TraceGap *edge = &rank->edges.at[i];

        if (edge->cause != TRACE_CAUSE_BEFORE_PROFILE)
            trace_cause_add(ret, edge->cause, edge->end - edge->start);
    }
}

const TraceStraggler *trace_straggler_at(const TraceReport *report, size_t nth)
{
    if (nth == 0)
        return report->straggler.rank >= 0 ? &report->straggler : NULL;
    return nth <= report->more_stragglers.len ? &report->more_stragglers.at[nth - 1] : NULL;
}

const TraceStraggler *trace_straggler_of(const TraceReport *report, int64_t rank)
{
    const TraceStraggler *straggler;

    for (size_t nth = 0; (straggler = trace_straggler_at(report, nth)); nth++)
        for (size_t i = 0; i < straggler->ranks.len; i++)
            if (straggler->ranks.at[i] == rank)
                return straggler;
    return NULL;
}

bool trace_is_late(const TraceReport *report, int64_t rank)
{
    return trace_straggler_of(report, rank) != NULL;
}

/* ---- one profile given twice ---- */

static bool same_device(const TraceDevice *a, const TraceDevice *b)
{
    return a->device == b->device && a->first == b->first && a->last == b->last && a->busy_ns == b->busy_ns &&
           a->compute_ns == b->compute_ns && a->operation_count == b->operation_count && a->gap_count == b->gap_count &&
           a->stream_count == b->stream_count;
}

/* Equal to the nanosecond in everything that distinguishes recordings. */
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
    /* without any of these nothing distinguishes them */
    return a->devices.len + a->operators.len + a->calls.len > 0;
}

static const TraceRank *find_earlier(const TraceReport *report, size_t len, const TraceRank *rank)
{
    for (size_t i = 0; i < len; i++)
        if (same_profile(&report->ranks.at[i], rank))
            return &report->ranks.at[i];
    return NULL;
}

void trace_report_drop_copies(TraceReport *report, Arena *arena)
{
    size_t kept = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        TraceRank *rank = &report->ranks.at[i];
        const TraceRank *same = find_earlier(report, kept, rank);

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

/* ---- names that a pattern fits ---- */

#define KEEP(vec, field)                                                                                               \
    do {                                                                                                               \
        size_t kept_ = 0;                                                                                              \
        for (size_t i_ = 0; i_ < (vec)->len; i_++)                                                                     \
            if (regexec(names, (vec)->at[i_].field, 0, NULL, 0) == 0)                                                  \
                (vec)->at[kept_++] = (vec)->at[i_];                                                                    \
        (vec)->len = kept_;                                                                                            \
    } while (0)

void trace_report_filter(TraceReport *report, const regex_t *names)
{
    for (size_t r = 0; r < report->ranks.len; r++) {
        TraceRank *rank = &report->ranks.at[r];
        KEEP(&rank->kernels, name);
        KEEP(&rank->operators, name);
        KEEP(&rank->shapes, op);
        KEEP(&rank->modules, path);
        KEEP(&rank->origins, kernel);
        KEEP(&rank->calls, name);
        KEEP(&rank->annotations, name);
    }
    KEEP(&report->collectives, name);
}

void trace_diff_filter(TraceDiff *diff, const regex_t *names)
{
    KEEP(&diff->kernels, name);
    KEEP(&diff->operators, name);
    KEEP(&diff->modules, name);
}
