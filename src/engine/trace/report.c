/* SPDX-License-Identifier: Apache-2.0 */
/* A report's life. */
#include "engine/trace/report.h"

#include <string.h>

void trace_report_init(TraceReport *report)
{
    memset(report, 0, sizeof *report);
    arena_init(&report->arena, 0);
    report->straggler = (TraceStraggler){.rank = -1, .cause = ""};
}

void trace_rank_done(TraceRank *rank)
{
    for (size_t i = 0; i < rank->steps.len; i++)
        vec_done(&rank->steps.at[i].devices);
    for (size_t i = 0; i < rank->paths.len; i++)
        vec_done(&rank->paths.at[i].names);
    for (size_t i = 0; i < rank->memory.len; i++)
        vec_done(&rank->memory.at[i].points);
    for (size_t i = 0; i < rank->timeline.lanes.len; i++) {
        vec_done(&rank->timeline.lanes.at[i].busy);
        vec_done(&rank->timeline.lanes.at[i].slices);
    }
    vec_done(&rank->losses);
    vec_done(&rank->devices);
    vec_done(&rank->steps);
    vec_done(&rank->gaps);
    vec_done(&rank->kernels);
    vec_done(&rank->copies);
    vec_done(&rank->operators);
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
    vec_done(&report->verdicts);
    vec_done(&report->notes);
    arena_done(&report->arena);
}
