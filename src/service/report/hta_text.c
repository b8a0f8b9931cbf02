/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/hta.h"

#include <inttypes.h>
#include <math.h>

#include "base/owner.h"
#include "service/report/table.h"

static const char *number(Pen *pen, double value, int decimals)
{
    return isnan(value) ? "-" : arena_printf(&pen->arena, "%.*f", decimals, value);
}

static const char *integer(Pen *pen, int64_t value)
{
    return arena_printf(&pen->arena, "%" PRId64, value);
}

static void write_temporal(Pen *pen, const HtaReport *report)
{
    static const Column columns[] = {
        {"rank", COLUMN_RIGHT, 0},        {"kernel time", COLUMN_RIGHT, 0}, {"idle", COLUMN_RIGHT, 0},
        {"%", COLUMN_RIGHT, 0},           {"compute", COLUMN_RIGHT, 0},     {"%", COLUMN_RIGHT, 0},
        {"non compute", COLUMN_RIGHT, 0}, {"%", COLUMN_RIGHT, 0},           {"overlap %", COLUMN_RIGHT, 0}};
    Table table;

    pen_section(pen, "Temporal breakdown", "and communication that runs while something computes");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < report->ranks.len; i++) {
        const HtaRank *rank = &report->ranks.at[i];
        const HtaTemporal *temporal = &rank->temporal;
        TableCell *cell = table_row(&table);

        cell[0].text = integer(pen, rank->rank);
        cell[1].text = rank->has_gpu ? pen_ns(pen, (double)temporal->kernel_ns) : "-";
        cell[2].text = rank->has_gpu ? pen_ns(pen, (double)temporal->idle_ns) : "-";
        cell[3].text = number(pen, temporal->idle_pctg, 2);
        cell[4].text = rank->has_gpu ? pen_ns(pen, (double)temporal->compute_ns) : "-";
        cell[5].text = number(pen, temporal->compute_pctg, 2);
        cell[6].text = rank->has_gpu ? pen_ns(pen, (double)temporal->non_compute_ns) : "-";
        cell[7].text = number(pen, temporal->non_compute_pctg, 2);
        cell[8].text = number(pen, rank->overlap_pctg, 2);
    }
    table_print(&table);
}

static void write_idle(Pen *pen, const HtaRank *rank)
{
    static const Column columns[] = {{"stream", COLUMN_RIGHT, 0}, {"category", COLUMN_LEFT, 0},
                                     {"idle", COLUMN_RIGHT, 0},   {"ratio", COLUMN_RIGHT, 0},
                                     {"count", COLUMN_RIGHT, 0},  {"mean", COLUMN_RIGHT, 1},
                                     {"median", COLUMN_RIGHT, 2}, {"max", COLUMN_RIGHT, 3}};
    Table table;

    if (rank->idle.len == 0)
        return;
    pen_section(pen, arena_printf(&pen->arena, "Idle time breakdown, rank %" PRId64, rank->rank), "by stream");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < rank->idle.len; i++) {
        const HtaIdleRow *row = &rank->idle.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = integer(pen, row->stream);
        cell[1].text = row->category;
        cell[2].text = pen_ns(pen, (double)row->idle_ns);
        cell[3].text = number(pen, row->ratio, 2);
        cell[4].text = integer(pen, row->intervals.count);
        cell[5].text = pen_ns(pen, row->intervals.mean);
        cell[6].text = pen_ns(pen, row->intervals.p50);
        cell[7].text = pen_ns(pen, row->intervals.max);
    }
    table_print(&table);
}

static void write_types(Pen *pen, const HtaReport *report)
{
    static const Column columns[] = {{"type", COLUMN_LEFT, 0}, {"time", COLUMN_RIGHT, 0}, {"%", COLUMN_RIGHT, 0}};
    Table table;

    if (report->types.len == 0)
        return;
    pen_section(pen, "Kernel types", "all ranks");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < report->types.len; i++) {
        TableCell *cell = table_row(&table);

        cell[0].text = report->types.at[i].type;
        cell[1].text = pen_ns(pen, (double)report->types.at[i].sum_ns);
        cell[2].text = number(pen, report->types.at[i].percentage, 1);
    }
    table_print(&table);
}

static void write_kernels(Pen *pen, const HtaReport *report)
{
    static const Column columns[] = {{"rank", COLUMN_RIGHT, 0},   {"type", COLUMN_LEFT, 0}, {"sum", COLUMN_RIGHT, 0},
                                     {"max", COLUMN_RIGHT, 2},    {"min", COLUMN_RIGHT, 3}, {"mean", COLUMN_RIGHT, 1},
                                     {"stddev", COLUMN_RIGHT, 4}, {"name", COLUMN_NAME, 0}};
    Table table;

    if (report->kernels.len == 0)
        return;
    pen_section(pen, "Kernels", "where HTA joins small ones as \"others\", numbers are of the sums");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < report->kernels.len; i++) {
        const HtaKernelRow *row = &report->kernels.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = integer(pen, row->rank);
        cell[1].text = row->type;
        cell[2].text = pen_ns(pen, (double)row->sum_ns);
        cell[3].text = pen_ns(pen, (double)row->max_ns);
        cell[4].text = pen_ns(pen, (double)row->min_ns);
        cell[5].text = pen_ns(pen, row->mean_ns);
        cell[6].text = pen_ns(pen, row->std_ns);
        cell[7].text = row->name;
    }
    table_print(&table);
}

static void write_queues(Pen *pen, const HtaRank *rank)
{
    static const Column columns[] = {{"stream", COLUMN_RIGHT, 0}, {"points", COLUMN_RIGHT, 0},
                                     {"mean", COLUMN_RIGHT, 0},   {"std", COLUMN_RIGHT, 1},
                                     {"median", COLUMN_RIGHT, 0}, {"max", COLUMN_RIGHT, 0},
                                     {"full", COLUMN_RIGHT, 2},   {"share", COLUMN_RIGHT, 3}};
    Table table;

    if (rank->queues.len == 0 && !rank->queue_why[0])
        return;
    pen_section(pen, arena_printf(&pen->arena, "Queue length, rank %" PRId64, rank->rank), rank->queue_why);
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < rank->queues.len; i++) {
        const HtaQueueRow *row = &rank->queues.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = integer(pen, row->stream);
        cell[1].text = integer(pen, row->length.count);
        cell[2].text = number(pen, row->length.mean, 2);
        cell[3].text = number(pen, row->length.std, 2);
        cell[4].text = number(pen, row->length.p50, 1);
        cell[5].text = number(pen, row->length.max, 0);
        cell[6].text = pen_ns(pen, (double)row->full_ns);
        cell[7].text = number(pen, row->full_share, 4);
    }
    table_print(&table);
}

static void write_bandwidth(Pen *pen, const HtaRank *rank)
{
    static const Column columns[] = {{"kind", COLUMN_NAME, 0}, {"points", COLUMN_RIGHT, 0}, {"mean", COLUMN_RIGHT, 0},
                                     {"std", COLUMN_RIGHT, 1}, {"median", COLUMN_RIGHT, 0}, {"max", COLUMN_RIGHT, 0}};
    Table table;

    if (rank->bandwidth.len == 0)
        return;
    pen_section(pen, arena_printf(&pen->arena, "Memory bandwidth, rank %" PRId64, rank->rank), "GB/s");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < rank->bandwidth.len; i++) {
        const HtaBandwidthRow *row = &rank->bandwidth.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = row->name;
        cell[1].text = integer(pen, row->gbs.count);
        cell[2].text = number(pen, row->gbs.mean, 3);
        cell[3].text = number(pen, row->gbs.std, 3);
        cell[4].text = number(pen, row->gbs.p50, 3);
        cell[5].text = number(pen, row->gbs.max, 3);
    }
    table_print(&table);
}

static void write_launches(Pen *pen, const HtaReport *report)
{
    static const Column columns[] = {{"rank", COLUMN_RIGHT, 0},       {"launches", COLUMN_RIGHT, 0},
                                     {"call", COLUMN_RIGHT, 0},       {"kernel", COLUMN_RIGHT, 0},
                                     {"delay", COLUMN_RIGHT, 0},      {"short", COLUMN_RIGHT, 0},
                                     {"long calls", COLUMN_RIGHT, 0}, {"long delays", COLUMN_RIGHT, 0}};
    Table table;

    pen_section(pen, "Launch statistics", "means");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < report->ranks.len; i++) {
        const HtaLaunches *row = &report->ranks.at[i].launches;
        TableCell *cell = table_row(&table);

        cell[0].text = integer(pen, report->ranks.at[i].rank);
        cell[1].text = integer(pen, row->cpu_ns.count);
        cell[2].text = pen_ns(pen, row->cpu_ns.mean);
        cell[3].text = pen_ns(pen, row->gpu_ns.mean);
        cell[4].text = pen_ns(pen, row->delay_ns.mean);
        cell[5].text = integer(pen, row->short_kernels);
        cell[6].text = integer(pen, row->runtime_outliers);
        cell[7].text = integer(pen, row->delay_outliers);
    }
    table_print(&table);
}

static void write_stragglers(Pen *pen, const HtaReport *report)
{
    if (report->ranks.len < 2)
        return;
    pen_section(pen, "Potential stragglers", report->straggler_why);
    for (size_t i = 0; i < report->straggler_counts.len; i++) {
        const HtaStraggler *row = &report->straggler_counts.at[i];
        bool named = false;

        for (size_t k = 0; k < report->stragglers.len; k++)
            named |= report->stragglers.at[k] == row->rank;
        pen_textf(pen, named ? STYLE_BOLD : STYLE_PLAIN, "  rank %" PRId64 ": %" PRId64 "%s\n", row->rank, row->count,
                  named ? "  named" : "");
    }
}

static const char *value_of(Pen *pen, const HtaDifference *row, double value)
{
    bool count = row->what[0] == 'l' || row->what[0] == 's';

    if (isnan(value) || (count && value < 0))
        return "none";
    if (row->what[0] == 'o')
        return arena_printf(&pen->arena, "%.2f %%", value);
    return count ? arena_printf(&pen->arena, "%.0f", value) : pen_ns(pen, value);
}

static void write_differences(Pen *pen, const HtaDifferences *differences)
{
    pen_section(pen, "Our own numbers of the same profile", differences->len ? "" : "are the same");
    for (size_t i = 0; i < differences->len; i++) {
        const HtaDifference *row = &differences->at[i];

        out_add(&pen->out, "  ");
        if (row->rank >= 0)
            pen_textf(pen, STYLE_DIM, "rank %" PRId64 " ", row->rank);
        pen_textf(pen, STYLE_BOLD, "%s: HTA %s, ours %s", row->what, value_of(pen, row, row->hta),
                  value_of(pen, row, row->own));
        out_add(&pen->out, "\n    ");
        pen_wrap(pen, STYLE_PLAIN, 4, row->why);
    }
}

int hta_text(const HtaReport *report, const HtaDifferences *differences, const ReportOptions *options, ReportSink sink,
             Err *err)
{
    Pen pen;

    pen_init(&pen, options, sink, err);
    pen_text(&pen, STYLE_BOLD, "stoker trace --as hta");
    pen_textf(&pen, STYLE_DIM, "%sdefinitions of HTA 0.6.1, times not rounded%s\n", pen_dot(&pen),
              report->filtered ? report->options.last_step ? ", with the last step" : ", without the last step" : "");
    write_temporal(&pen, report);
    for (size_t i = 0; i < report->ranks.len; i++)
        write_idle(&pen, &report->ranks.at[i]);
    write_types(&pen, report);
    write_kernels(&pen, report);
    write_launches(&pen, report);
    for (size_t i = 0; i < report->ranks.len; i++) {
        write_queues(&pen, &report->ranks.at[i]);
        write_bandwidth(&pen, &report->ranks.at[i]);
    }
    write_stragglers(&pen, report);
    write_differences(&pen, differences);
    return pen_done(&pen);
}
