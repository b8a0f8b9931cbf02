/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of nccl-tests as CSV. */
#include <math.h>

#include "base/number.h"
#include "service/report/out.h"
#include "service/report/nccl.h"

static void next_text(Out *out, const char *text)
{
    out_addc(out, ',');
    cell_text(out, text);
}

static void next_u64(Out *out, uint64_t value)
{
    char text[NUMBER_U64_MAX];

    out_addc(out, ',');
    out_addn(out, text, number_write_u64(text, value));
}

static void next_i64(Out *out, int64_t value)
{
    out_addc(out, ',');
    out_i64(out, value);
}

static void next_double(Out *out, double value)
{
    char text[NUMBER_DOUBLE_MAX];

    out_addc(out, ',');
    if (isfinite(value))
        out_addn(out, text, number_write_double(text, value));
}

static void add_row(const NcclReport *r, const NcclBench *b, const NcclRow *row, bool in_place, Out *out)
{
    const NcclFigure *f = in_place ? &row->in : &row->out;

    if (isnan(f->time_us))
        return;
    cell_text(out, r->inputs.at[b->input].name);
    next_text(out, b->name);
    next_i64(out, b->ranks);
    next_i64(out, b->nodes);
    next_u64(out, row->size);
    next_u64(out, row->count);
    next_text(out, row->type);
    next_text(out, row->redop);
    next_i64(out, row->root);
    next_text(out, in_place ? "in-place" : "out-of-place");
    next_double(out, f->time_us);
    next_double(out, f->alg_gbs);
    next_double(out, f->bus_gbs);
    if (f->wrong < 0)
        out_addc(out, ',');
    else
        next_i64(out, f->wrong);
    out_addc(out, '\n');
}

void nccl_report_csv(const NcclReport *report, Str *text)
{
    Out out;

    out_init(&out, report_sink_str(text), NULL);
    out_add(&out, "file,test,ranks,nodes,size,count,type,redop,root,place,time_us,algbw_gbs,busbw_gbs,wrong\n");
    for (size_t i = 0; i < report->benches.len; i++)
        for (size_t k = 0; k < report->benches.at[i].rows.len; k++)
            for (int in_place = 0; in_place < 2; in_place++)
                add_row(report, &report->benches.at[i], &report->benches.at[i].rows.at[k], in_place, &out);
    out_done(&out); /* what did not fit is marked in `text` */
}
