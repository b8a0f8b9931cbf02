/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks against each other, and what they do together. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/owner.h"
#include "service/report/text.h"

enum { BEFORE_SPLIT = 27 };

static const TraceRank *rank_of(const TraceReport *report, int64_t number)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        if (report->ranks.at[i].rank == number)
            return &report->ranks.at[i];
    return NULL;
}

static void write_straggler(Pen *pen, const TraceReport *report)
{
    const TraceStraggler *found = &report->straggler;
    static const char *const causes[][2] = {{"computes_late", "it computes longer"},
                                            {"host_late", "its host or its data come late"},
                                            {"copies_late", "its copies take longer"},
                                            {"unknown", "why, the profile does not show"}};
    const char *why = "", *others;

    if (found->rank < 0) {
        pen_text(pen, STYLE_DIM, "  No straggler: no rank is late again and again.\n");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (!strcmp(found->cause, causes[i][0]))
            why = causes[i][1];
    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_BAD, 2, "Straggler: rank %" PRId64 "%s%s", found->rank, why[0] ? ", " : "", why);
    out_add(&pen->out, "  ");
    others = found->percent_of_step > 0 ? arena_printf(&pen->arena, "%sthe others wait %s of the step", pen_dot(pen),
                                                       pen_percent(pen, found->percent_of_step))
                                        : "";
    pen_wrapf(pen, STYLE_DIM, 2, "%s late per collective%slast in %s of %s%sconfidence %s%s",
              pen_ns(pen, found->late_ns), pen_dot(pen), pen_percent(pen, 100 * found->share),
              pen_count(pen, found->matched), pen_dot(pen), pen_percent(pen, 100 * found->confidence), others);
}

static void print_split(Pen *pen, const TraceReport *report)
{
    size_t shown = pen->options.verbose ? report->ranks.len : pen->options.top < 16 ? 16 : pen->options.top;
    size_t columns = pen->options.width - BEFORE_SPLIT;

    shown = shown < report->ranks.len ? shown : report->ranks.len;
    pen_section(pen, "Ranks", pen_of(pen, shown, report->ranks.len, ""));
    pen_text(pen, STYLE_DIM, "   rank     busy     idle");
    out_add(&pen->out, "\n");
    for (size_t i = 0; i < shown; i++) {
        const TraceRank *rank = &report->ranks.at[i];
        RankSum sum = rank_sum(rank);

        pen_textf(pen, rank->rank == report->straggler.rank ? STYLE_BAD : STYLE_PLAIN, "%7" PRId64, rank->rank);
        pen_textf(pen, STYLE_PLAIN, "%9s%9s  ", pen_share(pen, (double)sum.busy_ns, (double)sum.span_ns),
                  pen_share(pen, (double)sum.idle_ns, (double)sum.span_ns));
        pen_split(pen, &sum, columns);
        out_add(&pen->out, "\n");
    }
    out_add(&pen->out, "  ");
    if (pen->options.utf8)
        pen_text(pen, STYLE_DIM,
                 "\xe2\x96\x88 compute  \xe2\x96\x93 communication  \xe2\x96\x92 copy  \xe2\x96\x91 idle\n");
    else
        pen_text(pen, STYLE_DIM, "# compute  = communication  ~ copy  . idle\n");
    arena_reset(&pen->arena);
}

static void print_times(Pen *pen, const TraceReport *report)
{
    static const Column columns[] = {{"rank", COLUMN_RIGHT, 0},    {"step", COLUMN_RIGHT, 0},
                                     {"compute", COLUMN_RIGHT, 2}, {"communication", COLUMN_RIGHT, 6},
                                     {"exposed", COLUMN_RIGHT, 3}, {"idle", COLUMN_RIGHT, 1},
                                     {"late", COLUMN_RIGHT, 0},    {"last", COLUMN_RIGHT, 0},
                                     {"slowest", COLUMN_RIGHT, 5}, {"GPU", COLUMN_LEFT, 8},
                                     {"host", COLUMN_NAME, 9}};
    size_t shown = pen->options.verbose ? report->rank_times.len : pen->options.top < 16 ? 16 : pen->options.top;
    Table table;

    shown = shown < report->rank_times.len ? shown : report->rank_times.len;
    if (!shown)
        return;
    pen_section(pen, "Across ranks",
                pen_of(pen, shown, report->rank_times.len, "per step; late and last: start of matched collectives"));
    write_straggler(pen, report);
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceRankTime *time = &report->rank_times.at[i];
        const TraceRank *rank = rank_of(report, time->rank);
        TableCell *cell = table_row(&table);

        cell[0].text = arena_printf(&pen->arena, "%" PRId64, time->rank);
        cell[0].style = time->rank == report->straggler.rank ? STYLE_BAD : STYLE_PLAIN;
        cell[1].text = pen_ns(pen, time->step_ns);
        cell[2].text = pen_ns(pen, time->compute_ns);
        cell[3].text = pen_ns(pen, time->communication_ns);
        cell[4].text = pen_ns(pen, time->exposed_communication_ns);
        cell[5].text = pen_ns(pen, time->idle_ns);
        cell[6].text = pen_ns(pen, time->late_ns);
        cell[7].text = pen_percent(pen, 100 * time->last_share);
        cell[8].text = pen_percent(pen, 100 * time->slowest_share);
        if (rank && rank->devices.len == 1 && rank->devices.at[0].device >= 0)
            cell[9].text = arena_printf(&pen->arena, "%" PRId32, rank->devices.at[0].device);
        cell[10].text = rank && rank->host[0] ? rank->host : NULL;
    }
    table_print(&table);
}

void text_ranks(Pen *pen, const TraceReport *report)
{
    if (report->ranks.len < 2)
        return;
    print_split(pen, report);
    print_times(pen, report);
}

void text_collectives(Pen *pen, const TraceReport *report)
{
    static const Column columns[] = {
        {"time", COLUMN_RIGHT, 0},      {"count", COLUMN_RIGHT, 2},    {"size", COLUMN_RIGHT, 0},
        {"ranks", COLUMN_RIGHT, 3},     {"best", COLUMN_RIGHT, 4},     {"bus", COLUMN_RIGHT, 1},
        {"skew", COLUMN_RIGHT, 5},      {"max skew", COLUMN_RIGHT, 6}, {"waited", COLUMN_RIGHT, 5},
        {"collective", COLUMN_NAME, 0}, {"group", COLUMN_NAME, 7}};
    size_t shown = report->collectives.len < pen->options.top ? report->collectives.len : pen->options.top;
    Table table;

    if (!shown)
        return;
    pen_section(pen, "Collectives",
                pen_of(pen, shown, report->collectives.len, "bus bandwidth from the shortest duration over ranks"));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceCollectiveSum *sum = &report->collectives.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = pen_ns(pen, (double)sum->total_ns);
        cell[1].text = pen_count(pen, sum->count);
        cell[2].text = sum->bytes >= 0 ? pen_bytes(pen, (double)sum->bytes) : "-";
        cell[3].text = pen_count(pen, sum->group_size);
        cell[4].text = pen_ns(pen, (double)sum->best_ns);
        cell[5].text = pen_rate(pen, sum->bus_gbs);
        if (sum->skew_median_ns >= 0) {
            cell[6].text = pen_ns(pen, (double)sum->skew_median_ns);
            cell[7].text = pen_ns(pen, (double)sum->skew_max_ns);
            cell[8].text = pen_ns(pen, (double)sum->wait_ns);
        }
        cell[9].text = sum->name;
        cell[10].text = sum->group[0] ? sum->group : NULL;
        cell[10].style = STYLE_DIM;
    }
    table_print(&table);
}
