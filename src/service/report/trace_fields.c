/* SPDX-License-Identifier: Apache-2.0 */
/* What a TraceReport and a TraceDiff hold, in the order of JSON keys (docs/trace.schema.json) and CSV columns, and both
 * outputs. Units belong into names. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "service/report/report.h"
#include "service/report/trace_fields.h"

enum { JSON_VERSION = 1 };

#include "service/report/trace_fields.def"

TraceStepDevice trace_step_sum(const TraceStepRow *step)
{
    TraceStepDevice sum = {0};

    for (size_t i = 0; i < step->devices.len; i++) {
        const TraceStepDevice *device = &step->devices.at[i];

        sum.window_ns += device->window_ns;
        sum.busy_ns += device->busy_ns;
        sum.idle_ns += device->idle_ns;
        sum.compute_ns += device->compute_ns;
        sum.exposed_communication_ns += device->exposed_communication_ns;
        sum.exposed_copy_ns += device->exposed_copy_ns;
        sum.operation_count += device->operation_count;
        for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
            sum.idle_by_cause[cause].total_ns += device->idle_by_cause[cause].total_ns;
    }
    return sum;
}

static void begin_json(Out *out, ReportSink sink, Err *err)
{
    out_init(out, sink, err);
    json_open(&out->room, NULL, '{');
    json_add_i64(&out->room, "version", JSON_VERSION);
}

static int end_json(Out *out)
{
    json_close(&out->room, '}');
    out_addc(out, '\n');
    return out_done(out);
}

int trace_json(const TraceReport *report, ReportSink sink, Err *err)
{
    Out out;

    begin_json(&out, sink, err);
    field_json(&out, field_report, report, report);
    return end_json(&out);
}

int trace_diff_json(const TraceDiff *diff, ReportSink sink, Err *err)
{
    Out out;

    begin_json(&out, sink, err);
    json_open(&out.room, "diff", '{');
    field_json(&out, field_diff, diff, diff);
    json_close(&out.room, '}');
    return end_json(&out);
}

/* ---- CSV ---- */

#define AT(type, member) offsetof(type, member), sizeof(*((type *)0)->member.at)
#define IN(type, member) offsetof(type, member), 0
#define RANKS                                                                                                          \
    {                                                                                                                  \
        column_rank, AT(TraceReport, ranks)                                                                            \
    }

static const Field column_rank[] = {{.name = "rank", .type = FIELD_I64, .offset = offsetof(TraceRank, rank)}, END};
static const Field column_path[] = {{.name = "path", .type = FIELD_TEXT, .offset = offsetof(TracePath, what)}, END};
static const Field column_device[] = {
    {.name = "device", .type = FIELD_KNOWN32, .offset = offsetof(TraceMemoryDevice, device)}, END};
static const Field column_note[] = {{.name = "note", .type = FIELD_TEXT}, END};

const char *const trace_csv_tables[] = {"verdicts",
                                        "ranks",
                                        "devices",
                                        "steps",
                                        "causes",
                                        "gaps",
                                        "edges",
                                        "inference",
                                        "decode_gaps",
                                        "kernels",
                                        "copies",
                                        "operators",
                                        "roof",
                                        "shapes",
                                        "modules",
                                        "origins",
                                        "calls",
                                        "annotations",
                                        "launches",
                                        "queues",
                                        "queue_points",
                                        "collectives",
                                        "collective_operations",
                                        "rank_times",
                                        "straggler",
                                        "more_stragglers",
                                        "path",
                                        "path_names",
                                        "memory",
                                        "memory_points",
                                        "memory_holders",
                                        "losses",
                                        "notes",
                                        NULL};

/* In the order of the names above. */
static const CsvLevel tables[][CSV_LEVELS_MAX] = {
    {{field_verdict, AT(TraceReport, verdicts)}},
    {{field_rank, AT(TraceReport, ranks)}},
    {RANKS, {field_device, AT(TraceRank, devices)}},
    {RANKS, {field_step, AT(TraceRank, steps)}, {field_step_device, AT(TraceStepRow, devices)}},
    {{NULL, 0, 0}}, /* write_causes */
    {RANKS, {field_gap, AT(TraceRank, gaps)}},
    {RANKS, {field_gap, AT(TraceRank, edges)}},
    {RANKS, {field_inference, AT(TraceRank, inference)}},
    {RANKS, {field_decode_gap, AT(TraceRank, decode_gaps)}},
    {RANKS, {field_kernel, AT(TraceRank, kernels)}},
    {RANKS, {field_copy, AT(TraceRank, copies)}},
    {RANKS, {field_operator, AT(TraceRank, operators)}},
    {RANKS, {field_roof, IN(TraceRank, roof)}},
    {RANKS, {field_shape, AT(TraceRank, shapes)}},
    {RANKS, {field_module, AT(TraceRank, modules)}},
    {RANKS, {field_origin, AT(TraceRank, origins)}},
    {RANKS, {field_call, AT(TraceRank, calls)}},
    {RANKS, {field_annotation, AT(TraceRank, annotations)}},
    {RANKS, {field_launch, IN(TraceRank, launch)}},
    {RANKS, {field_queue, AT(TraceRank, queues)}},
    {RANKS, {field_queue_point, AT(TraceRank, queue_points)}},
    {{field_collective_sum, AT(TraceReport, collectives)}},
    {RANKS, {field_collective, AT(TraceRank, collectives)}},
    {{field_rank_time, AT(TraceReport, rank_times)}},
    {{field_straggler, IN(TraceReport, straggler)}},
    {{field_straggler, AT(TraceReport, more_stragglers)}},
    {RANKS, {field_path, AT(TraceRank, paths)}},
    {RANKS, {column_path, AT(TraceRank, paths)}, {field_path_name, AT(TracePath, names)}},
    {RANKS, {field_memory, AT(TraceRank, memory)}},
    {RANKS, {column_device, AT(TraceRank, memory)}, {field_memory_point, AT(TraceMemoryDevice, points)}},
    {RANKS, {column_device, AT(TraceRank, memory)}, {field_memory_holder, AT(TraceMemoryDevice, holders)}},
    {RANKS, {field_loss, AT(TraceRank, losses)}},
    {{column_note, AT(TraceReport, notes)}},
};
_Static_assert(ARRAY_LEN(tables) + 1 == ARRAY_LEN(trace_csv_tables), "one name per table");

const char *const trace_diff_csv_tables[] = {"summary", "kernels", "operators", "modules", NULL};

static const CsvLevel diff_tables[][CSV_LEVELS_MAX] = {
    {{field_diff, 0, 0}},
    {{field_diff_row, AT(TraceDiff, kernels)}},
    {{field_diff_row, AT(TraceDiff, operators)}},
    {{field_diff_row, AT(TraceDiff, modules)}},
};
_Static_assert(ARRAY_LEN(diff_tables) + 1 == ARRAY_LEN(trace_diff_csv_tables), "one name per table");

static void add_causes(Out *out, const TraceRank *rank, const TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    CLEANUP(str_done) Str line = str_limited(4096);

    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++) {
        str_clear(&line);
        csv_add_cells(&line, column_rank, rank, NULL);
        csv_add_text(&line, trace_cause_words[i]);
        csv_add_cells(&line, field_cause_sum, &sums[i], NULL);
        csv_end_line(out, &line, "\r\n");
    }
}

/* All ranks first, without a rank. */
static void write_causes(Out *out, const TraceReport *report)
{
    out_add(out, "rank,cause,count,total_ns,max_ns\r\n");
    add_causes(out, NULL, report->gaps_by_cause);
    for (size_t i = 0; i < report->ranks.len; i++)
        add_causes(out, &report->ranks.at[i], report->ranks.at[i].idle_by_cause);
}

static size_t find_table(const char *const *names, const char *name)
{
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return i;
    abort();
}

int trace_csv(const TraceReport *report, const char *name, ReportSink sink, Err *err)
{
    size_t index = find_table(trace_csv_tables, name);
    Out out;

    out_init(&out, sink, err);
    if (tables[index]->columns)
        csv_write(&out, tables[index], report);
    else
        write_causes(&out, report);
    return out_done(&out);
}

int trace_diff_csv(const TraceDiff *diff, const char *name, ReportSink sink, Err *err)
{
    Out out;

    out_init(&out, sink, err);
    csv_write(&out, diff_tables[find_table(trace_diff_csv_tables, name)], diff);
    return out_done(&out);
}
