/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON, per docs/trace.schema.json. Plain fields come from field.c. */
#include "service/report/field.h"

enum { JSON_VERSION = 1 };

/* A list whose rows have plain fields only. */
#define LIST(out, key, fields, vec) write_list((out), (key), (fields), (vec).at, (vec).len, sizeof(*(vec).at))

static void write_list(Out *out, const char *key, const Field *fields, const void *rows, size_t len, size_t size)
{
    out_open(out, key, '[');
    for (size_t i = 0; i < len; i++) {
        out_open(out, NULL, '{');
        field_json(out, fields, (const char *)rows + i * size);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_causes(Out *out, const char *key, const TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    out_open(out, key, '[');
    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++) {
        out_open(out, NULL, '{');
        out_json_text(out, "cause", trace_cause_words[i]);
        field_json(out, field_cause_sum, &sums[i]);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_steps(Out *out, const TraceRank *rank)
{
    out_open(out, "steps", '[');
    for (size_t i = 0; i < rank->steps.len; i++) {
        const TraceStepRow *step = &rank->steps.at[i];

        out_open(out, NULL, '{');
        field_json(out, field_step, step);
        out_open(out, "devices", '[');
        for (size_t j = 0; j < step->devices.len; j++) {
            out_open(out, NULL, '{');
            field_json(out, field_step_device, &step->devices.at[j]);
            write_causes(out, "idle_by_cause", step->devices.at[j].idle_by_cause);
            out_close(out, '}');
        }
        out_close(out, ']');
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_gaps(Out *out, const TraceRank *rank)
{
    out_open(out, "gaps", '[');
    for (size_t i = 0; i < rank->gaps.len; i++) {
        const TraceGap *gap = &rank->gaps.at[i];

        out_open(out, NULL, '{');
        field_json(out, field_gap, gap);
        out_open(out, "slices_ns", '{');
        for (unsigned cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
            if (gap->slice_ns[cause])
                out_json_i64(out, trace_cause_words[cause], gap->slice_ns[cause]);
        out_close(out, '}');
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_paths(Out *out, const TraceRank *rank)
{
    out_open(out, "paths", '[');
    for (size_t i = 0; i < rank->paths.len; i++) {
        const TracePath *path = &rank->paths.at[i];

        out_open(out, NULL, '{');
        field_json(out, field_path, path);
        out_open(out, "by_kind_ns", '{');
        for (unsigned kind = 0; kind < TRACE_PATH_KIND_COUNT; kind++)
            out_json_i64(out, trace_path_words[kind], path->by_kind_ns[kind]);
        out_close(out, '}');
        LIST(out, "names", field_path_name, path->names);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_memory(Out *out, const TraceRank *rank)
{
    out_open(out, "memory", '[');
    for (size_t i = 0; i < rank->memory.len; i++) {
        out_open(out, NULL, '{');
        field_json(out, field_memory, &rank->memory.at[i]);
        LIST(out, "points", field_memory_point, rank->memory.at[i].points);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_lost(Out *out, const TraceRank *rank)
{
    out_open(out, "lost_by_reason", '{');
    for (unsigned i = 0; i < PROFILE_LOSS_COUNT; i++)
        if (rank->lost_by_reason[i])
            out_json_u64(out, profile_loss_word((ProfileLossReason)i), rank->lost_by_reason[i]);
    out_close(out, '}');
    LIST(out, "losses", field_loss, rank->losses);
}

static void write_rank(Out *out, const TraceRank *rank)
{
    out_open(out, NULL, '{');
    field_json(out, field_rank, rank);
    write_lost(out, rank);
    LIST(out, "devices", field_device, rank->devices);
    write_steps(out, rank);
    write_causes(out, "idle_by_cause", rank->idle_by_cause);
    write_gaps(out, rank);
    LIST(out, "kernels", field_kernel, rank->kernels);
    LIST(out, "copies", field_copy, rank->copies);
    LIST(out, "operators", field_operator, rank->operators);
    LIST(out, "calls", field_call, rank->calls);
    LIST(out, "annotations", field_annotation, rank->annotations);
    out_open(out, "launch", '{');
    field_json(out, field_launch, &rank->launch);
    out_close(out, '}');
    LIST(out, "queues", field_queue, rank->queues);
    LIST(out, "queue_points", field_queue_point, rank->queue_points);
    LIST(out, "collectives", field_collective, rank->collectives);
    write_paths(out, rank);
    write_memory(out, rank);
    out_close(out, '}');
}

int trace_json(const TraceReport *report, ReportSink sink, Err *err)
{
    Out out;

    out_init(&out, sink, err);
    out_open(&out, NULL, '{');
    out_json_i64(&out, "version", JSON_VERSION);
    out_json_double(&out, "step_ns", report->step_ns);
    out_json_double(&out, "seconds", report->seconds);
    out_open(&out, "notes", '[');
    for (size_t i = 0; i < report->notes.len; i++)
        out_json_text(&out, NULL, report->notes.at[i]);
    out_close(&out, ']');
    LIST(&out, "verdicts", field_verdict, report->verdicts);
    out_open(&out, "straggler", '{');
    field_json(&out, field_straggler, &report->straggler);
    out_close(&out, '}');
    write_causes(&out, "gaps_by_cause", report->gaps_by_cause);
    LIST(&out, "collectives", field_collective_sum, report->collectives);
    LIST(&out, "rank_times", field_rank_time, report->rank_times);
    out_open(&out, "ranks", '[');
    for (size_t i = 0; i < report->ranks.len; i++)
        write_rank(&out, &report->ranks.at[i]);
    out_close(&out, ']');
    out_close(&out, '}');
    out_addc(&out, '\n');
    return out_done(&out);
}

int trace_diff_json(const TraceDiff *diff, ReportSink sink, Err *err)
{
    Out out;

    out_init(&out, sink, err);
    out_open(&out, NULL, '{');
    out_json_i64(&out, "version", JSON_VERSION);
    out_open(&out, "diff", '{');
    field_json(&out, field_diff, diff);
    LIST(&out, "kernels", field_diff_row, diff->kernels);
    LIST(&out, "operators", field_diff_row, diff->operators);
    out_close(&out, '}');
    out_close(&out, '}');
    out_addc(&out, '\n');
    return out_done(&out);
}
