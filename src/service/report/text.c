/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text: headline, losses, verdicts, then the tables of a rank. What a person acts on comes first. */
#include "service/report/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"

static void text_title(Pen *pen, const TraceReport *report)
{
    uint64_t events = 0, bytes = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        events += report->ranks.at[i].events;
        bytes += report->ranks.at[i].bytes;
    }
    pen_text(pen, STYLE_BOLD, "stoker trace");
    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_DIM, 14, "%s%s%s events%s%s%s%s",
              report->ranks.len == 1 ? report->ranks.at[0].file
                                     : arena_printf(&pen->arena, "%zu ranks", report->ranks.len),
              pen_dot(pen), pen_count(pen, (int64_t)(events & INT64_MAX)), bytes > 0 ? pen_dot(pen) : "",
              bytes > 0 ? pen_bytes(pen, (double)bytes) : "", report->seconds > 0 ? pen_dot(pen) : "",
              report->seconds > 0 ? pen_ns(pen, report->seconds * 1e9) : "");
    if (pen->options.also[0])
        pen_wrap(pen, STYLE_PLAIN, 0, pen->options.also);
    arena_reset(&pen->arena);
}

/* "GPU 0 NVIDIA H100, rank 3 of 8 ranks, ..." */
static void write_devices(Pen *pen, const TraceRank *rank)
{
    const TraceDevice *first = &rank->devices.at[0];
    const char *about[] = {rank->host, rank->framework, rank->backend};
    CLEANUP(str_done) Str line = str_limited((size_t)1 << 20);

    if (rank->devices.len > 1)
        str_addf(&line, "%zu GPUs %s", rank->devices.len, first->name);
    else if (first->device >= 0)
        str_addf(&line, "GPU %" PRId32 " %s", first->device, first->name);
    else
        str_addf(&line, "GPU %s", first->name);
    if (rank->rank_known)
        str_addf(&line, "%srank %" PRId64, pen_dot(pen), rank->rank);
    if (rank->world_size > 1)
        str_addf(&line, " of %" PRId64 " ranks", rank->world_size);
    for (size_t i = 0; i < ARRAY_LEN(about); i++)
        if (about[i][0])
            str_addf(&line, "%s%s", pen_dot(pen), about[i]);
    pen_wrap(pen, STYLE_BOLD, 0, line.text);
}

static void write_bar(Pen *pen, const TraceDevice *sum)
{
    BarPart parts[RANK_PARTS];
    size_t used = 0;

    rank_split(sum, parts);
    out_add(&pen->out, "  ");
    pen_bar(pen, parts, RANK_PARTS, (double)sum->span_ns, pen->options.width - 2);
    out_add(&pen->out, "\n");
    for (size_t i = 0; i < RANK_PARTS; i++) {
        const char *share = pen_share(pen, parts[i].share, (double)sum->span_ns);

        pen_piece(pen, &used, strlen(parts[i].word) + strlen(share) + 3);
        pen_text(pen, parts[i].style, pen->options.utf8 ? parts[i].utf8 : (char[]){parts[i].ascii, '\0'});
        pen_textf(pen, STYLE_PLAIN, " %s %s", parts[i].word, share);
    }
    out_add(&pen->out, "\n");
}

/* Mean and sample deviation of the steps' windows, as the verdicts take them: without a warm-up. Returns how many. */
static size_t sum_up_steps(const TraceRank *rank, double *ret_mean, double *ret_sd)
{
    double mean = 0, m2 = 0;
    size_t count = 0;

    for (size_t i = rank->warm_up; i < rank->steps.len; i++) {
        const double value = (double)(rank->steps.at[i].to - rank->steps.at[i].start), from = value - mean;

        mean += from / (double)++count;
        m2 += from * (value - mean);
    }
    *ret_mean = mean;
    *ret_sd = count > 1 ? sqrt(m2 / (double)(count - 1)) : 0;
    return count;
}

/* Facts of the rank as one paragraph. */
static void write_facts(Pen *pen, const TraceRank *rank, const TraceDevice *sum)
{
    const char *dot = pen_dot(pen);
    double mean, sd;
    CLEANUP(str_done) Str line = str_limited(4096);

    const size_t steps = sum_up_steps(rank, &mean, &sd);

    if (steps)
        str_addf(&line, "step %s%s%s over %zu step%s%s", pen_ns(pen, mean), pen->options.utf8 ? " \xc2\xb1 " : " +- ",
                 pen_ns(pen, sd), steps, steps == 1 ? "" : "s", dot);
    str_addf(&line, "busy %s of %s", pen_ns(pen, (double)sum->busy_ns), pen_ns(pen, (double)sum->span_ns));
    if (sum->compute_ns)
        str_addf(&line, "%stensor cores %s of compute", dot,
                 pen_share(pen, (double)sum->tensor_core_ns, (double)sum->compute_ns));
    if (sum->tensor_unknown_ns)
        str_addf(&line, " (not known of %s)", pen_share(pen, (double)sum->tensor_unknown_ns, (double)sum->compute_ns));
    if (sum->communication_ns)
        str_addf(&line, "%s%s of communication overlapped", dot,
                 pen_share(pen, (double)sum->communication_overlapped_ns, (double)sum->communication_ns));
    if (rank->devices.at[0].sm_efficiency > 0)
        str_addf(&line, "%sSM efficiency %s", dot, pen_percent(pen, 100 * rank->devices.at[0].sm_efficiency));
    if (rank->devices.at[0].occupancy > 0)
        str_addf(&line, "%soccupancy %s", dot, pen_percent(pen, 100 * rank->devices.at[0].occupancy));
    out_add(&pen->out, "  ");
    pen_wrap(pen, STYLE_DIM, 2, line.text);
}

static void text_headline(Pen *pen, const TraceRank *rank)
{
    TraceDevice sum = trace_sum_devices(rank);

    out_add(&pen->out, "\n");
    if (!rank->devices.len) {
        pen_wrap(pen, STYLE_BOLD, 0,
                 pen->options.also[0] ? "No GPU operation in this part of the profile."
                 : strcmp(rank->framework, "rocprofv3") == 0
                     ? "No GPU operation in this profile. Was rocprofv3 run with --kernel-trace?"
                 : strcmp(rank->framework, "xla") == 0 || strcmp(rank->framework, "nsys") == 0
                     ? "No GPU operation in this profile."
                     : "No GPU operation in this profile. Was the profiler started with ProfilerActivity.CUDA?");
        return;
    }
    write_devices(pen, rank);
    if (sum.busy_ns > 0)
        write_bar(pen, &sum);
    write_facts(pen, rank, &sum);
    arena_reset(&pen->arena);
}

static void text_losses(Pen *pen, const TraceRank *rank)
{
    size_t shown = pen->options.verbose ? rank->losses.len : rank->losses.len < 2 ? rank->losses.len : 2;
    uint64_t all = 0;
    CLEANUP(str_done) Str line = str_limited((size_t)1 << 20);

    for (size_t i = 0; i < PROFILE_LOSS_COUNT; i++)
        all += rank->lost_by_reason[i];
    if (!all && !rank->lost)
        return;
    out_add(&pen->out, "\n");
    if (rank->lost)
        str_addf(&line, "%" PRIu64 " event%s lost of %s:", rank->lost, rank->lost == 1 ? "" : "s", rank->file);
    else
        str_addf(&line, "No event lost, but faults in %s:", rank->file);
    for (size_t i = 0, n = 0; i < PROFILE_LOSS_COUNT; i++)
        if (rank->lost_by_reason[i])
            str_addf(&line, "%s %" PRIu64 " %s", n++ ? "," : "", rank->lost_by_reason[i],
                     pen_words(pen, profile_loss_words[i]));
    pen_wrap(pen, STYLE_COPY, 2, line.text);
    for (size_t i = 0; i < shown; i++) {
        const TraceLossRow *row = &rank->losses.at[i];

        out_add(&pen->out, "  ");
        pen_wrapf(pen, STYLE_DIM, 4, "%s at byte %" PRIu64 ", event %" PRIu64 "%s%.60s", pen_words(pen, row->reason),
                  row->byte, row->event, row->excerpt[0] ? ": " : "", row->excerpt);
    }
    arena_reset(&pen->arena);
}

static Style weight_style(double percent)
{
    return percent >= 10 ? STYLE_BAD : percent >= 3 ? STYLE_COPY : STYLE_PLAIN;
}

/* "once, gain up to 12 %, rank 1" */
static const char *verdict_tail(Pen *pen, const TraceVerdict *verdict)
{
    const char *gain = "", *rank = "";

    if (verdict->gain_percent > 0)
        gain = arena_printf(&pen->arena, "%s%sgain up to %s", verdict->once ? "once" : "",
                            verdict->once ? pen_dot(pen) : "", pen_percent(pen, verdict->gain_percent));
    if (verdict->rank >= 0)
        rank = arena_printf(&pen->arena, "%srank %" PRId64, gain[0] ? pen_dot(pen) : "", verdict->rank);
    return arena_printf(&pen->arena, "%s%s", gain, rank);
}

static void write_verdict(Pen *pen, const TraceVerdict *verdict, size_t number)
{
    enum { INDENT = 14, ID = 24 };
    const char *tail = verdict_tail(pen, verdict);
    size_t id = clean_width(verdict->id), padded = id < ID ? ID : id;

    pen_textf(pen, STYLE_DIM, "%3zu  ", number);
    if (verdict->percent_of_step > 0)
        pen_textf(pen, weight_style(verdict->percent_of_step), "%7s", pen_percent(pen, verdict->percent_of_step));
    else
        pen_text(pen, STYLE_DIM, "   note");
    out_add(&pen->out, "  ");
    pen_foreign(pen, STYLE_BOLD, verdict->id);
    if (tail[0] && INDENT + padded + 2 + clean_width(tail) <= pen->options.width)
        out_addf(&pen->out, "%*s", (int)(padded - id + 2), "");
    else if (tail[0])
        out_addf(&pen->out, "\n%*s", INDENT, "");
    pen_text(pen, STYLE_DIM, tail);
    out_addf(&pen->out, "\n%*s", INDENT, "");
    pen_wrap(pen, STYLE_PLAIN, INDENT, verdict->evidence);
    pen_text(pen, STYLE_GOOD, pen->options.utf8 ? "            \xe2\x86\x92 " : "           -> ");
    pen_wrap(pen, STYLE_PLAIN, INDENT, verdict->advice);
}

static void text_verdicts(Pen *pen, const TraceReport *report)
{
    bool steps = report->ranks.len && report->ranks.at[0].steps.len;
    const char *of = report->measured_step_ns > 0
                         ? arena_printf(&pen->arena, "percent of the %s (%s)", steps ? "step" : "whole time",
                                        pen_ns(pen, report->measured_step_ns))
                         : "";

    if (!report->ranks.len)
        return;
    pen_section(pen, "Verdict", report->verdicts.len ? of : "");
    if (!report->verdicts.len)
        pen_text(pen, STYLE_PLAIN, "  Nothing stands out in this profile.\n");
    for (size_t i = 0; i < report->verdicts.len; i++)
        write_verdict(pen, &report->verdicts.at[i], i + 1);
    arena_reset(&pen->arena);
}

/* ---- the report ---- */

/* The report as text: which sections, of which ranks, in which order. What a person acts on comes first. */

/* The rank whose tables are shown if not all are: the straggler, else the first. */
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
    text_details(pen, rank);
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

/* ---- a difference ---- */

/* The difference of two profiles as text. */

static const char *signed_ns(Pen *pen, double ns)
{
    const char *text = pen_ns(pen, ns);

    return ns > 0 ? arena_printf(&pen->arena, "+%s", text) : text;
}

static const char *change_text(Pen *pen, double before, double after)
{
    if (!(before > 0))
        return after > 0 ? "new" : NULL;
    if (!(after > 0))
        return "gone";
    return arena_printf(&pen->arena, "%+.1f %%", fmin(100 * (after - before) / before, 1e9));
}

static Style change_style(double before, double after)
{
    return after > before * 1.01 ? STYLE_IDLE : after < before * 0.99 ? STYLE_GOOD : STYLE_PLAIN;
}

static void sum_row(Table *table, const char *what, double before, double after, bool less_is_better)
{
    TableCell *cell = table_row(table);

    if (!isfinite(before) || !isfinite(after))
        before = after = NAN;
    cell[0].text = what;
    cell[1].text = pen_ns(table->pen, before);
    cell[2].text = pen_ns(table->pen, after);
    cell[3].text = signed_ns(table->pen, after - before);
    cell[4].text = change_text(table->pen, before, after);
    cell[3].style = cell[4].style = less_is_better ? change_style(before, after) : STYLE_PLAIN;
}

static void print_rows(Pen *pen, const char *title, const TraceDiffRow *rows, size_t len, bool per_step)
{
    static const Column columns[] = {HEAD("difference", RIGHT, 0), HEAD("", RIGHT, 1),      HEAD("before", RIGHT, 2),
                                     HEAD("after", RIGHT, 0),      HEAD("count", RIGHT, 4), HEAD("then", RIGHT, 3),
                                     HEAD("name", NAME, 0),        HEAD("was", NAME, 0)};
    size_t shown = len < pen->options.top ? len : pen->options.top;
    Table table;

    if (!shown)
        return;
    pen_section(pen, title,
                pen_of(pen, shown, len, per_step ? "per step, what got slower first" : "what got slower first"));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        double before = per_step ? rows[i].per_step_before_ns : (double)rows[i].total_before_ns;
        double after = per_step ? rows[i].per_step_after_ns : (double)rows[i].total_after_ns;
        TableCell *cell = table_row(&table);

        cell[0].text = signed_ns(pen, after - before);
        cell[1].text = change_text(pen, before, after);
        cell[0].style = cell[1].style = change_style(before, after);
        cell[2].text = pen_ns(pen, before);
        cell[3].text = pen_ns(pen, after);
        cell[4].text = pen_count(pen, rows[i].count_before);
        cell[5].text = pen_count(pen, rows[i].count_after);
        cell[6].text = rows[i].name;
        cell[7].text = rows[i].was;
    }
    table_print(&table);
}

int trace_diff_text(const TraceDiff *diff, const ReportOptions *options, ReportSink sink, Err *err)
{
    static const Column columns[] = {HEAD("", LEFT, 0), HEAD("before", RIGHT, 0), HEAD("after", RIGHT, 0),
                                     HEAD("difference", RIGHT, 0), HEAD("", RIGHT, 0)};
    Table table;
    Pen pen;

    pen_init(&pen, options, sink, err);
    pen_text(&pen, STYLE_BOLD, "stoker trace");
    pen_text(&pen, STYLE_DIM, "  difference of two profiles\n");
    if (pen.options.also[0])
        pen_wrap(&pen, STYLE_PLAIN, 0, pen.options.also);
    out_add(&pen.out, "\n");
    table_init(&table, &pen, columns, ARRAY_LEN(columns));
    if (isfinite(diff->step_before_ns) && isfinite(diff->step_after_ns))
        sum_row(&table, "step", diff->step_before_ns, diff->step_after_ns, true);
    sum_row(&table, "GPU busy", (double)diff->busy_before_ns, (double)diff->busy_after_ns, !diff->per_step);
    sum_row(&table, "GPU idle", (double)diff->idle_before_ns, (double)diff->idle_after_ns, !diff->per_step);
    table_print(&table);
    print_rows(&pen, "Kernels", diff->kernels.at, diff->kernels.len, diff->per_step);
    print_rows(&pen, "Modules", diff->modules.at, diff->modules.len, diff->per_step);
    print_rows(&pen, "Operators", diff->operators.at, diff->operators.len, diff->per_step);
    return pen_done(&pen);
}
