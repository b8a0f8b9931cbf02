/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a NcclReport, and the tables of nccl-tests as CSV. What is unknown is null, or an empty cell. */
#include <math.h>

#include "base/json.h"
#include "service/report/field.h"
#include "service/report/nccl.h"

static const char *const scopes[] = {"", "within-node", "between-nodes"};
static const char *const ends[] = {"sender", "receiver"};

#include "service/report/nccl_fields.def"

int nccl_report_json(const NcclReport *report, ReportSink sink, Err *err)
{
    static const char *const results[] = {"fine", "finding", "", "unknown"};
    Out out;

    out_init(&out, sink, err);
    json_open(&out.room, NULL, '{');
    json_add_u64(&out.room, "version", 1);
    json_add_text(&out.room, "result", results[nccl_exit_code(report)]);
    field_json(&out, field_report, report, report);
    json_close(&out.room, '}');
    out_addc(&out, '\n');
    return out_done(&out);
}

static void write_figure(Out *out, const NcclReport *report, const NcclBench *bench, const NcclRow *row, bool in_place)
{
    const NcclFigure *figure = in_place ? &row->in : &row->out;
    CLEANUP(str_done) Str line = str_limited(4096);

    if (isnan(figure->time_us))
        return;
    csv_add_cells(&line, column_bench, bench, report);
    csv_add_cells(&line, column_row, row, report);
    csv_add_text(&line, in_place ? "in-place" : "out-of-place");
    csv_add_cells(&line, field_figure, figure, report);
    csv_end_line(out, &line, "\n");
}

int nccl_report_csv(const NcclReport *report, ReportSink sink, Err *err)
{
    Out out;

    out_init(&out, sink, err);
    out_add(&out, "file,test,ranks,nodes,size,count,type,redop,root,place,time_us,algbw_gbs,busbw_gbs,wrong\n");
    for (size_t i = 0; i < report->benches.len; i++)
        for (size_t k = 0; k < report->benches.at[i].rows.len; k++)
            for (int in_place = 0; in_place < 2; in_place++)
                write_figure(&out, report, &report->benches.at[i], &report->benches.at[i].rows.at[k], in_place);
    return out_done(&out);
}
