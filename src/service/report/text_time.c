/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank's time went: parts, gaps, steps, critical path. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "service/report/text.h"

static Style cause_style(TraceCause cause)
{
    return cause == TRACE_CAUSE_SHORT || cause == TRACE_CAUSE_UNKNOWN ? STYLE_DIM : STYLE_IDLE;
}

static const char *pen_cause(Pen *pen, TraceCause cause)
{
    return cause == TRACE_CAUSE_SHORT ? "short gaps" : pen_words(pen, trace_cause_words[cause]);
}

static TableCell *time_row(Table *table, const char *what, Style style, int64_t ns, int64_t whole_ns)
{
    TableCell *cell = table_row(table);

    cell[0].text = what;
    cell[1].text = pen_ns(table->pen, (double)ns);
    cell[2].text = pen_share(table->pen, (double)ns, (double)whole_ns);
    cell[5].bar = whole_ns > 0 ? (double)ns / (double)whole_ns : 0;
    cell[5].style = style;
    return cell;
}

/* Causes by time, largest first. */
static void order_causes(const TraceCauseSum sums[TRACE_CAUSE_COUNT], unsigned order[TRACE_CAUSE_COUNT])
{
    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++) {
        unsigned at = i;

        for (; at && sums[order[at - 1]].total_ns < sums[i].total_ns; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

void text_time(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"", COLUMN_LEFT, 0},         {"time", COLUMN_RIGHT, 0},
                                     {"share", COLUMN_RIGHT, 0},   {"count", COLUMN_RIGHT, 2},
                                     {"longest", COLUMN_RIGHT, 3}, {"", COLUMN_BAR, 4}};
    RankSum sum = rank_sum(rank);
    unsigned order[TRACE_CAUSE_COUNT];
    Table table;

    if (!sum.span_ns)
        return;
    pen_section(pen, "Where the time went", rank->devices.len > 1 ? "all GPUs of the rank added" : "");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    time_row(&table, "compute", STYLE_GOOD, sum.compute_ns, sum.span_ns);
    if (sum.exposed_communication_ns)
        time_row(&table, "exposed communication", STYLE_COMMUNICATION, sum.exposed_communication_ns, sum.span_ns);
    if (sum.exposed_copy_ns)
        time_row(&table, "exposed copy", STYLE_COPY, sum.exposed_copy_ns, sum.span_ns);
    order_causes(rank->idle_by_cause, order);
    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++) {
        const TraceCauseSum *cause = &rank->idle_by_cause[order[i]];
        TableCell *cell;

        if (!cause->total_ns && !cause->count)
            continue;
        cell = time_row(&table, arena_printf(&pen->arena, "idle: %s", pen_cause(pen, (TraceCause)order[i])),
                        cause_style((TraceCause)order[i]), cause->total_ns, sum.span_ns);
        cell[3].text = pen_count(pen, cause->count);
        cell[4].text = pen_ns(pen, (double)cause->max_ns);
    }
    table_print(&table);
}

static bool wanted_step(const Pen *pen, const TraceRank *rank, int32_t index)
{
    if (!pen->options.one_step)
        return true;
    return index >= 0 && (size_t)index < rank->steps.len && rank->steps.at[index].number == pen->options.step;
}

void text_gaps(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"idle", COLUMN_RIGHT, 0},   {"at", COLUMN_RIGHT, 3},
                                     {"step", COLUMN_RIGHT, 4},   {"GPU", COLUMN_RIGHT, 5},
                                     {"cause", COLUMN_LEFT, 0},   {"while the host was in", COLUMN_NAME, 0},
                                     {"then ran", COLUMN_NAME, 6}};
    size_t shown = 0;
    Table table;

    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < rank->gaps.len && shown < pen->options.top; i++) {
        const TraceGap *gap = &rank->gaps.at[i];
        TableCell *cell;

        if (gap->cause == TRACE_CAUSE_SHORT || !wanted_step(pen, rank, gap->step))
            continue;
        shown++;
        cell = table_row(&table);
        cell[0].text = pen_ns(pen, (double)(gap->end - gap->start));
        cell[1].text = pen_ns(pen, (double)gap->start - (double)(rank->devices.len ? rank->devices.at[0].first : 0));
        if (gap->step >= 0 && (size_t)gap->step < rank->steps.len && rank->steps.at[gap->step].number >= 0)
            cell[2].text = arena_printf(&pen->arena, "%" PRId64, rank->steps.at[gap->step].number);
        if (rank->devices.len > 1)
            cell[3].text = arena_printf(&pen->arena, "%" PRId32, gap->device);
        cell[4].text = pen_cause(pen, gap->cause);
        cell[4].style = cause_style(gap->cause);
        cell[5].text = gap->host[0] ? gap->host : NULL;
        cell[6].text = gap->after[0] ? gap->after : NULL;
        cell[6].style = STYLE_DIM;
    }
    if (shown)
        pen_section(pen, "Longest idle times", "");
    table_print(&table);
}

/* ---- steps ---- */

static int64_t slowest_first(const TraceRank *rank, size_t a, size_t b)
{
    return rank->steps.at[b].duration_ns - rank->steps.at[a].duration_ns;
}

/* Indices of the steps to show, in order of time: all where they fit, else the slowest. Returns how many. */
static size_t choose_steps(const Pen *pen, const TraceRank *rank, size_t *chosen)
{
    size_t count = 0;

    for (size_t i = 0; i < rank->steps.len; i++) {
        size_t at = count;

        if (!wanted_step(pen, rank, (int32_t)i))
            continue;
        while (at && slowest_first(rank, i, chosen[at - 1]) < 0)
            at--;
        if (at >= pen->options.top)
            continue;
        count += count < pen->options.top;
        memmove(&chosen[at + 1], &chosen[at], (count - at - 1) * sizeof(*chosen));
        chosen[at] = i;
    }
    return count;
}

static int by_index(const void *a, const void *b)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;

    return left < right ? -1 : left > right;
}

static TraceStepDevice step_sum(const TraceStepRow *step)
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
        for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
            sum.idle_by_cause[cause].total_ns += device->idle_by_cause[cause].total_ns;
    }
    return sum;
}

/* "idle 25.5 %, most of it data loading" */
static const char *main_cause(Pen *pen, const TraceStepDevice *sum)
{
    unsigned order[TRACE_CAUSE_COUNT];

    order_causes(sum->idle_by_cause, order);
    return sum->idle_by_cause[order[0]].total_ns ? pen_cause(pen, (TraceCause)order[0]) : NULL;
}

/* Durations of all steps in eighths of a line, in at most `columns` characters (the longest of neighbours), where they
 * differ enough to be seen. */
static void write_sparkline(Pen *pen, const TraceRank *rank, size_t columns)
{
    static const char *const levels[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
                                         "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88"};
    size_t count = rank->steps.len, cells = count < columns ? count : columns;
    int64_t most = 1, least = INT64_MAX;

    if (count < 3 || !pen->options.utf8)
        return;
    for (size_t i = 0; i < count; i++) {
        int64_t own = rank->steps.at[i].duration_ns;

        most = own > most ? own : most;
        least = own < least ? own : least;
    }
    if (most - least < most / 10)
        return;
    out_add(&pen->out, "  ");
    for (size_t i = 0; i < cells; i++) {
        int64_t longest = 0;

        for (size_t j = i * count / cells; j < (i + 1) * count / cells; j++)
            longest = rank->steps.at[j].duration_ns > longest ? rank->steps.at[j].duration_ns : longest;
        out_add(&pen->out, levels[(size_t)((double)longest / (double)most * 7.999)]);
    }
    pen_textf(pen, STYLE_DIM, "  each step, the longest %s\n", pen_ns(pen, (double)most));
}

static void step_row(Table *table, const TraceStepRow *step)
{
    Pen *pen = table->pen;
    TableCell *cell = table_row(table);
    TraceStepDevice sum = step_sum(step);
    double whole = (double)sum.window_ns;

    cell[0].text = step->name;
    cell[1].text = pen_ns(pen, (double)step->duration_ns);
    cell[2].text = pen_share(pen, (double)sum.busy_ns, whole);
    cell[3].text = pen_share(pen, (double)sum.compute_ns, whole);
    cell[4].text = pen_share(pen, (double)sum.exposed_communication_ns, whole);
    cell[5].text = pen_share(pen, (double)sum.exposed_copy_ns, whole);
    cell[6].text = pen_share(pen, (double)sum.idle_ns, whole);
    cell[7].text = main_cause(pen, &sum);
    cell[7].style = STYLE_DIM;
}

void text_steps(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"step", COLUMN_NAME, 0},           {"time", COLUMN_RIGHT, 0},
                                     {"busy", COLUMN_RIGHT, 4},          {"compute", COLUMN_RIGHT, 0},
                                     {"exposed comm.", COLUMN_RIGHT, 1}, {"exp. copy", COLUMN_RIGHT, 5},
                                     {"idle", COLUMN_RIGHT, 0},          {"idle mostly", COLUMN_LEFT, 2}};
    CLEANUP_FREE size_t *chosen =
        xcalloc((rank->steps.len < pen->options.top ? rank->steps.len : pen->options.top) + 1, sizeof(*chosen));
    size_t count = choose_steps(pen, rank, chosen);
    Table table;

    if (!count)
        return;
    qsort(chosen, count, sizeof(*chosen), by_index);
    pen_section(
        pen, "Steps",
        pen_of(pen, count, rank->steps.len, count < rank->steps.len && !pen->options.one_step ? "the slowest" : ""));
    write_sparkline(pen, rank, pen->options.width - 40);
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < count; i++)
        step_row(&table, &rank->steps.at[chosen[i]]);
    table_print(&table);
}

/* ---- critical path ---- */

/* The path to show: of the step asked for, else of the longest step. */
static const TracePath *longest_path(const Pen *pen, const TraceRank *rank)
{
    const TracePath *found = NULL;

    for (size_t i = 0; i < rank->paths.len; i++) {
        const TracePath *path = &rank->paths.at[i];

        if (!path->total_ns || (i < rank->steps.len && !wanted_step(pen, rank, (int32_t)i)))
            continue;
        if (!found || path->total_ns > found->total_ns)
            found = path;
    }
    return found;
}

void text_path(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"time", COLUMN_RIGHT, 0},
                                     {"share", COLUMN_RIGHT, 0},
                                     {"count", COLUMN_RIGHT, 1},
                                     {"kind", COLUMN_LEFT, 0},
                                     {"name", COLUMN_NAME, 0}};
    static const Style kinds[TRACE_PATH_KIND_COUNT] = {STYLE_IDLE, STYLE_IDLE, STYLE_GOOD, STYLE_COMMUNICATION,
                                                       STYLE_COPY, STYLE_IDLE, STYLE_IDLE};
    const TracePath *path = longest_path(pen, rank);
    size_t shown = pen->options.top < 5 || pen->options.verbose ? pen->options.top : 5;
    size_t used = 0;
    Table table;

    if (!path)
        return;
    pen_section(pen, "Critical path", path->what);
    for (unsigned kind = 0; kind < TRACE_PATH_KIND_COUNT; kind++) {
        const char *word = pen_words(pen, trace_path_words[kind]);
        const char *share = pen_share(pen, (double)path->by_kind_ns[kind], (double)path->total_ns);

        if (!path->by_kind_ns[kind])
            continue;
        pen_piece(pen, &used, strlen(word) + 1 + strlen(share));
        pen_text(pen, kinds[kind], word);
        pen_textf(pen, STYLE_PLAIN, " %s", share);
    }
    out_add(&pen->out, "\n");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < path->names.len && i < shown; i++) {
        const TracePathName *name = &path->names.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = pen_ns(pen, (double)name->total_ns);
        cell[1].text = pen_share(pen, (double)name->total_ns, (double)path->total_ns);
        cell[2].text = pen_count(pen, name->count);
        cell[3].text = pen_words(pen, trace_path_words[name->kind]);
        cell[3].style = kinds[name->kind];
        cell[4].text = name->name;
    }
    table_print(&table);
}
