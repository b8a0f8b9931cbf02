/* SPDX-License-Identifier: Apache-2.0 */
/* The report's tables as CSV (RFC 4180): a header row, lines ended with CR LF, unknown values empty. A table of ranks
 * begins with the rank's number. */
#include <errno.h>
#include <string.h>

#include "service/report/out.h"
#include "service/report/field.h"

typedef struct CsvTable CsvTable;

struct CsvTable {
    const Field *fields;
    const char *before; /* columns that stand before the fields, as text */
    size_t vec, size;   /* rows of the struct: where their VEC is, size of a row */
    void (*rows)(Out *out, const CsvTable *table, const TraceReport *report); /* NULL: the VEC of each rank */
};

/* What every VEC looks like. */
typedef VEC(char) AnyVec;

static void line_end(Out *out)
{
    out_addn(out, "\r\n", 2);
}

static void write_fields(Out *out, const Field *fields, const void *row, bool comma)
{
    for (const Field *field = fields; field->name; field++) {
        if (comma)
            out_addc(out, ',');
        comma = true;
        field_cell(out, field, row);
    }
}

static void header_fields(Out *out, const Field *fields, bool comma)
{
    for (const Field *field = fields; field->name; field++) {
        if (comma)
            out_addc(out, ',');
        comma = true;
        out_add(out, field->name);
    }
}

static void header_causes(Out *out, const char *prefix)
{
    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++)
        out_addf(out, ",%s%s_ns", prefix, trace_cause_words[i]);
}

static void write_row(Out *out, int64_t rank, const Field *fields, const void *row)
{
    out_i64(out, rank);
    write_fields(out, fields, row, true);
    line_end(out);
}

static void rows_of(Out *out, const CsvTable *table, const void *owner, void (*before)(Out *, const void *),
                    const void *context)
{
    AnyVec vec;

    memcpy(&vec, (const char *)owner + table->vec, sizeof(vec));
    for (size_t i = 0; i < vec.len; i++) {
        if (before)
            before(out, context);
        write_fields(out, table->fields, vec.at + i * table->size, before != NULL);
        line_end(out);
    }
}

static void before_rank(Out *out, const void *context)
{
    out_i64(out, ((const TraceRank *)context)->rank);
}

static void rows_by_rank(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        rows_of(out, table, &report->ranks.at[i], before_rank, &report->ranks.at[i]);
}

static void rows_of_report(Out *out, const CsvTable *table, const TraceReport *report)
{
    rows_of(out, table, report, NULL, NULL);
}

static void rows_of_ranks(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++) {
        write_fields(out, table->fields, &report->ranks.at[i], false);
        line_end(out);
    }
}

static void rows_of_launches(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        write_row(out, report->ranks.at[i].rank, table->fields, &report->ranks.at[i].launch);
}

static void rows_of_straggler(Out *out, const CsvTable *table, const TraceReport *report)
{
    write_fields(out, table->fields, &report->straggler, false);
    line_end(out);
}

static void rows_of_notes(Out *out, const CsvTable *table, const TraceReport *report)
{
    (void)table;
    for (size_t i = 0; i < report->notes.len; i++) {
        cell_text(out, report->notes.at[i]);
        line_end(out);
    }
}

static void rows_of_steps(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].steps.len; j++) {
            const TraceStepRow *step = &report->ranks.at[i].steps.at[j];

            for (size_t k = 0; k < step->devices.len; k++) {
                out_i64(out, report->ranks.at[i].rank);
                write_fields(out, table->fields, step, true);
                write_fields(out, field_step_device, &step->devices.at[k], true);
                for (unsigned cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
                    out_addc(out, ',');
                    out_i64(out, step->devices.at[k].idle_by_cause[cause].total_ns);
                }
                line_end(out);
            }
        }
}

static void rows_of_gaps(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].gaps.len; j++) {
            const TraceGap *gap = &report->ranks.at[i].gaps.at[j];

            out_i64(out, report->ranks.at[i].rank);
            write_fields(out, table->fields, gap, true);
            for (unsigned cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
                out_addc(out, ',');
                out_i64(out, gap->slice_ns[cause]);
            }
            line_end(out);
        }
}

static void write_causes(Out *out, const int64_t *rank, const TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++) {
        if (rank)
            out_i64(out, *rank);
        out_addf(out, ",%s", trace_cause_words[i]);
        write_fields(out, field_cause_sum, &sums[i], true);
        line_end(out);
    }
}

/* All ranks first, without a rank. */
static void rows_of_causes(Out *out, const CsvTable *table, const TraceReport *report)
{
    (void)table;
    write_causes(out, NULL, report->gaps_by_cause);
    for (size_t i = 0; i < report->ranks.len; i++)
        write_causes(out, &report->ranks.at[i].rank, report->ranks.at[i].idle_by_cause);
}

static void rows_of_paths(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].paths.len; j++) {
            const TracePath *path = &report->ranks.at[i].paths.at[j];

            out_i64(out, report->ranks.at[i].rank);
            write_fields(out, table->fields, path, true);
            for (unsigned kind = 0; kind < TRACE_PATH_KIND_COUNT; kind++) {
                out_addc(out, ',');
                out_i64(out, path->by_kind_ns[kind]);
            }
            line_end(out);
        }
}

static void rows_of_path_names(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].paths.len; j++) {
            const TracePath *path = &report->ranks.at[i].paths.at[j];

            for (size_t k = 0; k < path->names.len; k++) {
                out_i64(out, report->ranks.at[i].rank);
                out_addc(out, ',');
                cell_text(out, path->what);
                write_fields(out, table->fields, &path->names.at[k], true);
                line_end(out);
            }
        }
}

static void rows_of_memory_points(Out *out, const CsvTable *table, const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].memory.len; j++) {
            const TraceMemoryDevice *device = &report->ranks.at[i].memory.at[j];

            for (size_t k = 0; k < device->points.len; k++) {
                out_i64(out, report->ranks.at[i].rank);
                out_addc(out, ',');
                if (device->device >= 0)
                    out_i64(out, device->device);
                write_fields(out, table->fields, &device->points.at[k], true);
                line_end(out);
            }
        }
}

#define OF_RANK(member) offsetof(TraceRank, member), sizeof(*((TraceRank *)0)->member.at)
#define OF_REPORT(member) offsetof(TraceReport, member), sizeof(*((TraceReport *)0)->member.at)

const char *const trace_csv_tables[] = {"verdicts",   "ranks",         "devices",     "steps",
                                        "causes",     "gaps",          "kernels",     "copies",
                                        "operators",  "calls",         "annotations", "launches",
                                        "queues",     "queue_points",  "collectives", "collective_operations",
                                        "rank_times", "straggler",     "path",        "path_names",
                                        "memory",     "memory_points", "losses",      "notes",
                                        NULL};

/* In the order of the names above. */
static const CsvTable tables[] = {
    {field_verdict, "", OF_REPORT(verdicts), rows_of_report},
    {field_rank, "", 0, 0, rows_of_ranks},
    {field_device, "rank,", OF_RANK(devices), NULL},
    {field_step, "rank,", 0, 0, rows_of_steps},
    {field_cause_sum, "rank,cause,", 0, 0, rows_of_causes},
    {field_gap, "rank,", 0, 0, rows_of_gaps},
    {field_kernel, "rank,", OF_RANK(kernels), NULL},
    {field_copy, "rank,", OF_RANK(copies), NULL},
    {field_operator, "rank,", OF_RANK(operators), NULL},
    {field_call, "rank,", OF_RANK(calls), NULL},
    {field_annotation, "rank,", OF_RANK(annotations), NULL},
    {field_launch, "rank,", 0, 0, rows_of_launches},
    {field_queue, "rank,", OF_RANK(queues), NULL},
    {field_queue_point, "rank,", OF_RANK(queue_points), NULL},
    {field_collective_sum, "", OF_REPORT(collectives), rows_of_report},
    {field_collective, "rank,", OF_RANK(collectives), NULL},
    {field_rank_time, "", OF_REPORT(rank_times), rows_of_report},
    {field_straggler, "", 0, 0, rows_of_straggler},
    {field_path, "rank,", 0, 0, rows_of_paths},
    {field_path_name, "rank,path,", 0, 0, rows_of_path_names},
    {field_memory, "rank,", OF_RANK(memory), NULL},
    {field_memory_point, "rank,device,", 0, 0, rows_of_memory_points},
    {field_loss, "rank,", OF_RANK(losses), NULL},
    {NULL, "note", 0, 0, rows_of_notes},
};
_Static_assert(sizeof(tables) / sizeof(tables[0]) + 1 == sizeof(trace_csv_tables) / sizeof(trace_csv_tables[0]),
               "one name per table");

static void write_header(Out *out, const CsvTable *table)
{
    out_add(out, table->before);
    if (table->fields)
        header_fields(out, table->fields, false);
    if (table->fields == field_step) {
        out_addc(out, ',');
        header_fields(out, field_step_device, false);
        header_causes(out, "idle_");
    } else if (table->fields == field_gap) {
        header_causes(out, "slice_");
    } else if (table->fields == field_path) {
        for (unsigned i = 0; i < TRACE_PATH_KIND_COUNT; i++)
            out_addf(out, ",%s_ns", trace_path_words[i]);
    }
    line_end(out);
}

/* The index of `name` in a NULL-ended list, or an error that names the list. */
static int find_table(const char *const *names, const char *name, Err *err)
{
    char text[ERR_TEXT_MAX];
    Str list;

    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return i;
    str_init_room(&list, text, sizeof(text));
    for (int i = 0; names[i]; i++)
        str_addf(&list, "%s%s", i ? ", " : "", names[i]);
    return err_set(err, -EINVAL, "no table '%.40s': one of %s", name, list.text);
}

int trace_csv(const TraceReport *report, const char *name, ReportSink sink, Err *err)
{
    int index = find_table(trace_csv_tables, name, err);
    const CsvTable *table;
    Out out;

    TRY(index);
    table = &tables[index];
    out_init(&out, sink, err);
    write_header(&out, table);
    (table->rows ? table->rows : rows_by_rank)(&out, table, report);
    return out_done(&out);
}

const char *const trace_diff_csv_tables[] = {"summary", "kernels", "operators", NULL};

int trace_diff_csv(const TraceDiff *diff, const char *name, ReportSink sink, Err *err)
{
    static const CsvTable parts[] = {
        {.fields = field_diff},
        {.fields = field_diff_row, .vec = offsetof(TraceDiff, kernels), .size = sizeof(TraceDiffRow)},
        {.fields = field_diff_row, .vec = offsetof(TraceDiff, operators), .size = sizeof(TraceDiffRow)}};
    int index = find_table(trace_diff_csv_tables, name, err);
    Out out;

    TRY(index);
    out_init(&out, sink, err);
    header_fields(&out, parts[index].fields, false);
    line_end(&out);
    if (index == 0) {
        write_fields(&out, field_diff, diff, false);
        line_end(&out);
    } else {
        rows_of(&out, &parts[index], diff, NULL, NULL);
    }
    return out_done(&out);
}
