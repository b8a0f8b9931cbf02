/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text: which sections, of which ranks, in which order. What a person acts on comes first. */
#include "service/report/text.h"

#include <inttypes.h>
#include <math.h>

RankSum rank_sum(const TraceRank *rank)
{
    RankSum sum = {0};

    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *device = &rank->devices.at[i];

        sum.span_ns += device->span_ns;
        sum.busy_ns += device->busy_ns;
        sum.idle_ns += device->idle_ns;
        sum.compute_ns += device->compute_ns;
        sum.exposed_communication_ns += device->exposed_communication_ns;
        sum.exposed_copy_ns += device->exposed_copy_ns;
        sum.compute_tensor_ns += device->tensor_core_ns;
        sum.communication_ns += device->communication_ns;
        sum.overlapped_ns += device->communication_overlapped_ns;
    }
    return sum;
}

bool rank_steps(const TraceRank *rank, double *ret_mean, double *ret_sd)
{
    double mean = 0, m2 = 0;

    for (size_t i = 0; i < rank->steps.len; i++) {
        double value = (double)rank->steps.at[i].duration_ns, from = value - mean;

        mean += from / (double)(i + 1);
        m2 += from * (value - mean);
    }
    *ret_mean = mean;
    *ret_sd = rank->steps.len > 1 ? sqrt(m2 / (double)(rank->steps.len - 1)) : 0;
    return rank->steps.len;
}

const char *pen_words(Pen *pen, const char *word)
{
    char *text = arena_strdup(&pen->arena, word);

    for (char *c = text; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return text;
}

const char *pen_of(Pen *pen, size_t shown, size_t all, const char *what)
{
    if (shown == all)
        return what;
    return arena_printf(&pen->arena, "%zu of %zu%s%s", shown, all, what[0] ? pen_dot(pen) : "", what);
}

void pen_split(Pen *pen, const RankSum *sum, size_t columns)
{
    const BarPart parts[] = {{(double)sum->compute_ns, STYLE_GOOD, '#', "\xe2\x96\x88"},
                             {(double)sum->exposed_communication_ns, STYLE_COMMUNICATION, '=', "\xe2\x96\x93"},
                             {(double)sum->exposed_copy_ns, STYLE_COPY, '~', "\xe2\x96\x92"},
                             {(double)sum->idle_ns, STYLE_IDLE, '.', "\xe2\x96\x91"}};

    pen_bar(pen, parts, 4, (double)sum->span_ns, columns);
}

/* Whose tables are shown where not all ranks' are: the straggler's, else the first's. */
static const TraceRank *shown_rank(const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        if (report->straggler.rank >= 0 && report->ranks.at[i].rank == report->straggler.rank)
            return &report->ranks.at[i];
    return report->ranks.len ? &report->ranks.at[0] : NULL;
}

static void write_details(Pen *pen, const TraceRank *rank, bool one_of_many)
{
    const char *title;

    if (one_of_many) {
        title = arena_printf(&pen->arena, "Rank %" PRId64, rank->rank);
        pen_section(pen, title,
                    pen->options.verbose
                        ? rank->file
                        : arena_printf(&pen->arena, "%s%sthe others' tables: --rank", rank->file, pen_dot(pen)));
    }
    text_time(pen, rank);
    text_gaps(pen, rank);
    text_steps(pen, rank);
    text_path(pen, rank);
    text_kernels(pen, rank);
    text_operators(pen, rank);
    text_copies(pen, rank);
    text_launches(pen, rank);
    text_calls(pen, rank);
    text_memory(pen, rank);
    if (pen->options.verbose)
        text_annotations(pen, rank);
}

static void write_notes(Pen *pen, const TraceReport *report)
{
    if (!report->notes.len)
        return;
    pen_section(pen, "Notes", "");
    for (size_t i = 0; i < report->notes.len; i++) {
        out_add(&pen->out, "  - ");
        pen_wrap(pen, STYLE_PLAIN, 4, report->notes.at[i]);
    }
}

int trace_text(const TraceReport *report, const ReportOptions *options, ReportSink sink, Err *err)
{
    const TraceRank *shown = shown_rank(report);
    Pen pen;

    pen_init(&pen, options, sink, err);
    text_title(&pen, report);
    if (report->ranks.len == 1)
        text_headline(&pen, shown);
    for (size_t i = 0; i < report->ranks.len; i++)
        text_losses(&pen, &report->ranks.at[i]);
    text_verdicts(&pen, report);
    text_ranks(&pen, report);
    for (size_t i = 0; i < report->ranks.len; i++)
        if (options->verbose || &report->ranks.at[i] == shown)
            write_details(&pen, &report->ranks.at[i], report->ranks.len > 1);
    text_collectives(&pen, report);
    write_notes(&pen, report);
    return pen_done(&pen);
}
