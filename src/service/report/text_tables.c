/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the text, and what they share. Each prints nothing where there is nothing to say. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "service/report/text.h"

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

/* ---- time and gaps ---- */

/* Where a rank's time went: parts, gaps, steps, critical path. */

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

/* The path to show: of the chosen step, else of the longest step. */
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

/* ---- kernels, operators, calls, copies, launches, memory ---- */

/* What ran on a rank: kernels, operators, copies, launches, memory, annotations. */

static size_t shown_of(const Pen *pen, size_t all)
{
    return all < pen->options.top ? all : pen->options.top;
}

static Style class_style(TraceClass class)
{
    return class == TRACE_COMPUTE ? STYLE_GOOD : class == TRACE_COMMUNICATION ? STYLE_COMMUNICATION : STYLE_COPY;
}

static const char *shape_text(Pen *pen, const uint32_t triple[3])
{
    if (!triple[0])
        return NULL;
    if (triple[1] <= 1 && triple[2] <= 1)
        return arena_printf(&pen->arena, "%" PRIu32, triple[0]);
    if (triple[2] <= 1)
        return arena_printf(&pen->arena, "%" PRIu32 "x%" PRIu32, triple[0], triple[1]);
    return arena_printf(&pen->arena, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, triple[0], triple[1], triple[2]);
}

static void kernel_row(Table *table, const TraceKernel *kernel, int64_t whole_ns)
{
    Pen *pen = table->pen;
    TableCell *cell = table_row(table);

    cell[0].text = pen_ns(pen, (double)kernel->total_ns);
    cell[1].text = pen_share(pen, (double)kernel->total_ns, (double)whole_ns);
    cell[2].text = pen_count(pen, kernel->count);
    cell[3].text = pen_ns(pen, kernel->mean_ns);
    cell[4].text = pen_share(pen, kernel->sd_ns, kernel->mean_ns);
    cell[5].text = pen_ns(pen, (double)kernel->max_ns);
    cell[6].text = shape_text(pen, kernel->grid);
    cell[7].text = shape_text(pen, kernel->block);
    cell[8].text = isfinite(kernel->occupancy_percent) ? pen_percent(pen, kernel->occupancy_percent) : NULL;
    cell[9].text = kernel->tensor_core ? "yes" : NULL;
    cell[9].style = STYLE_GOOD;
    cell[10].text = kernel->name;
    cell[10].style = kernel->class == TRACE_COMPUTE ? STYLE_PLAIN : class_style(kernel->class);
}

void text_kernels(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {
        {"time", COLUMN_RIGHT, 0},   {"share", COLUMN_RIGHT, 0}, {"count", COLUMN_RIGHT, 1}, {"mean", COLUMN_RIGHT, 2},
        {"spread", COLUMN_RIGHT, 6}, {"max", COLUMN_RIGHT, 7},   {"grid", COLUMN_RIGHT, 8},  {"block", COLUMN_RIGHT, 9},
        {"occup.", COLUMN_RIGHT, 5}, {"TC", COLUMN_LEFT, 3},     {"kernel", COLUMN_NAME, 0}};
    size_t shown = shown_of(pen, rank->kernels.len);
    int64_t whole_ns = 0;
    Table table;

    if (!shown)
        return;
    for (size_t i = 0; i < rank->devices.len; i++)
        whole_ns += rank->devices.at[i].kernel_sum_ns;
    pen_section(pen, "Kernels", pen_of(pen, shown, rank->kernels.len, "share of all kernels' time"));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++)
        kernel_row(&table, &rank->kernels.at[i], whole_ns);
    table_print(&table);
}

void text_operators(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {
        {"GPU self", COLUMN_RIGHT, 0}, {"GPU", COLUMN_RIGHT, 3},       {"host self", COLUMN_RIGHT, 1},
        {"host", COLUMN_RIGHT, 4},     {"count", COLUMN_RIGHT, 2},     {"kernels", COLUMN_RIGHT, 5},
        {"TC", COLUMN_RIGHT, 6},       {"unaligned", COLUMN_RIGHT, 7}, {"operator", COLUMN_NAME, 0}};
    size_t shown = shown_of(pen, rank->operators.len);
    Table table;

    if (!shown)
        return;
    pen_section(pen, "Operators", pen_of(pen, shown, rank->operators.len, "by GPU time that they launch themselves"));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceOperator *op = &rank->operators.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = pen_ns(pen, (double)op->device_self_ns);
        cell[1].text = pen_ns(pen, (double)op->device_ns);
        cell[2].text = pen_ns(pen, (double)op->host_self_ns);
        cell[3].text = pen_ns(pen, (double)op->host_ns);
        cell[4].text = pen_count(pen, op->count);
        cell[5].text = pen_count(pen, op->kernel_count);
        if (op->matrix)
            cell[6].text = pen_share(pen, (double)op->tensor_core_ns, (double)op->device_self_ns);
        if (op->misaligned_count > 0) {
            cell[7].text = pen_count(pen, op->misaligned_count);
            cell[7].style = STYLE_COPY;
        }
        cell[8].text = op->name;
    }
    table_print(&table);
}

void text_calls(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"time", COLUMN_RIGHT, 0},    {"count", COLUMN_RIGHT, 0},
                                     {"longest", COLUMN_RIGHT, 1}, {"kind", COLUMN_LEFT, 2},
                                     {"call", COLUMN_NAME, 0},     {"in", COLUMN_NAME, 3}};
    size_t shown = shown_of(pen, rank->calls.len);
    Table table;

    if (shown > 5 && !pen->options.verbose)
        shown = 5;
    if (!shown)
        return;
    pen_section(pen, "Runtime calls", pen_of(pen, shown, rank->calls.len, "time of the host"));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceCall *call = &rank->calls.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = pen_ns(pen, (double)call->total_ns);
        cell[1].text = pen_count(pen, call->count);
        cell[2].text = pen_ns(pen, (double)call->max_ns);
        cell[3].text = pen_words(pen, trace_host_words[call->class]);
        cell[3].style = STYLE_DIM;
        cell[4].text = call->name;
        cell[5].text = call->inner[0] ? call->inner : NULL;
        cell[5].style = STYLE_DIM;
    }
    table_print(&table);
}

void text_annotations(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"time", COLUMN_RIGHT, 0}, {"count", COLUMN_RIGHT, 1},
                                     {"max", COLUMN_RIGHT, 3},  {"GPU", COLUMN_RIGHT, 0},
                                     {"on", COLUMN_LEFT, 2},    {"annotation", COLUMN_NAME, 0}};
    size_t shown = shown_of(pen, rank->annotations.len);
    Table table;

    if (!shown)
        return;
    pen_section(pen, "Annotations", pen_of(pen, shown, rank->annotations.len, ""));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceAnnotation *note = &rank->annotations.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = pen_ns(pen, (double)note->total_ns);
        cell[1].text = pen_count(pen, note->count);
        cell[2].text = pen_ns(pen, (double)note->max_ns);
        cell[3].text = pen_ns(pen, (double)note->device_ns);
        cell[4].text = note->on_gpu ? "GPU" : "host";
        cell[4].style = STYLE_DIM;
        cell[5].text = note->name;
    }
    table_print(&table);
}

static const char *from_to(Pen *pen, const TraceCopy *copy)
{
    if (!copy->source[0] && !copy->target[0])
        return NULL;
    if (!copy->source[0])
        return copy->target;
    return arena_printf(&pen->arena, "%s %s %s", copy->source, pen->options.utf8 ? "\xe2\x86\x92" : "->",
                        copy->target[0] ? copy->target : "?");
}

void text_copies(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"time", COLUMN_RIGHT, 0},    {"count", COLUMN_RIGHT, 1},
                                     {"bytes", COLUMN_RIGHT, 0},   {"rate", COLUMN_RIGHT, 0},
                                     {"longest", COLUMN_RIGHT, 4}, {"< 64 KiB", COLUMN_RIGHT, 5},
                                     {"copy", COLUMN_NAME, 0},     {"memory", COLUMN_NAME, 3}};
    size_t shown = shown_of(pen, rank->copies.len);
    Table table;

    if (!shown)
        return;
    pen_section(pen, "Copies", pen_of(pen, shown, rank->copies.len, ""));
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceCopy *copy = &rank->copies.at[i];
        TableCell *cell = table_row(&table);
        bool pageable = copy->source[0] == 'p' && copy->source[1] == 'a';

        cell[0].text = pen_ns(pen, (double)copy->total_ns);
        cell[1].text = pen_count(pen, copy->count);
        cell[2].text = copy->bytes ? pen_bytes(pen, (double)copy->bytes) : "-";
        cell[3].text = pen_rate(pen, copy->bandwidth_gbs);
        cell[4].text = pen_ns(pen, (double)copy->max_ns);
        cell[5].text = copy->small_count ? pen_count(pen, copy->small_count) : NULL;
        cell[6].text = copy->kind;
        cell[7].text = from_to(pen, copy);
        cell[7].style = pageable ? STYLE_COPY : STYLE_DIM;
    }
    table_print(&table);
}

static void print_queues(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"GPU", COLUMN_RIGHT, 4},        {"stream", COLUMN_RIGHT, 0},
                                     {"operations", COLUMN_RIGHT, 1}, {"busy", COLUMN_RIGHT, 0},
                                     {"mean queue", COLUMN_RIGHT, 0}, {"longest", COLUMN_RIGHT, 0},
                                     {"full", COLUMN_RIGHT, 2},       {"into empty", COLUMN_RIGHT, 3}};
    size_t shown = shown_of(pen, rank->queues.len);
    Table table;

    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceQueue *queue = &rank->queues.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = rank->devices.len > 1 ? arena_printf(&pen->arena, "%" PRId32, queue->device) : NULL;
        cell[1].text = arena_printf(&pen->arena, "%" PRId64, queue->stream);
        cell[2].text = pen_count(pen, queue->operation_count);
        cell[3].text = pen_ns(pen, (double)queue->busy_ns);
        cell[4].text = isfinite(queue->mean_length) ? arena_printf(&pen->arena, "%.1f", queue->mean_length) : "-";
        cell[5].text = pen_count(pen, queue->max_length);
        cell[6].text = queue->full_ns ? pen_ns(pen, (double)queue->full_ns) : NULL;
        cell[7].text = pen_count(pen, queue->empty_launches);
    }
    table_print(&table);
}

void text_launches(Pen *pen, const TraceRank *rank)
{
    const TraceLaunch *launch = &rank->launch;
    const char *dot = pen_dot(pen);
    Str line;

    if (!launch->linked && !launch->unlinked && !launch->call_count)
        return;
    str_init(&line, 4096);
    pen_section(pen, "Launches and queues", "");
    if (launch->linked)
        str_addf(&line, "from call to start: median %s, 99 %% %s, longest %s%s", pen_ns(pen, (double)launch->median_ns),
                 pen_ns(pen, (double)launch->p99_ns), pen_ns(pen, (double)launch->max_ns), dot);
    if (launch->call_count)
        str_addf(&line, "%s calls take %s: median %s, longest %s%s", pen_count(pen, launch->call_count),
                 pen_ns(pen, (double)launch->call_ns), pen_ns(pen, (double)launch->call_median_ns),
                 pen_ns(pen, (double)launch->call_max_ns), dot);
    str_addf(&line, "%s short kernels take %s%s%s kernels shorter than their launch",
             pen_count(pen, launch->short_kernels), pen_ns(pen, (double)launch->short_kernel_ns), dot,
             pen_count(pen, launch->launch_bound_kernels));
    if (launch->graph_launches)
        str_addf(&line, "%s%s graph launches of %s operations", dot, pen_count(pen, launch->graph_launches),
                 pen_count(pen, launch->graph_operations));
    if (launch->unlinked)
        str_addf(&line, "%s%s operations without a recorded launch", dot, pen_count(pen, launch->unlinked));
    if (launch->negative)
        str_addf(&line, "%s%s start before their call (clock skew)", dot, pen_count(pen, launch->negative));
    out_add(&pen->out, "  ");
    pen_wrap(pen, STYLE_PLAIN, 2, line.text);
    str_done(&line);
    print_queues(pen, rank);
}

void text_memory(Pen *pen, const TraceRank *rank)
{
    static const Column columns[] = {{"", COLUMN_LEFT, 0},
                                     {"allocated", COLUMN_RIGHT, 0},
                                     {"reserved", COLUMN_RIGHT, 0},
                                     {"of device", COLUMN_RIGHT, 1},
                                     {"growth", COLUMN_RIGHT, 2},
                                     {"allocations", COLUMN_RIGHT, 3},
                                     {"at the peak in", COLUMN_NAME, 4}};
    Table table;

    if (!rank->memory.len)
        return;
    pen_section(pen, "Memory", "largest");
    table_init(&table, pen, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &rank->memory.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = memory->device < 0 ? "host" : arena_printf(&pen->arena, "GPU %" PRId32, memory->device);
        cell[1].text = memory->peak_allocated < 0 ? "-" : pen_bytes(pen, (double)memory->peak_allocated);
        cell[2].text = memory->peak_reserved < 0 ? "-" : pen_bytes(pen, (double)memory->peak_reserved);
        if (memory->capacity_bytes > 0 && memory->peak_reserved >= 0)
            cell[3].text = pen_share(pen, (double)memory->peak_reserved, (double)memory->capacity_bytes);
        cell[4].text = pen_bytes(pen, (double)memory->growth_bytes);
        cell[5].text = pen_count(pen, memory->allocations);
        cell[6].text = memory->peak_op[0] ? memory->peak_op : NULL;
    }
    table_print(&table);
}

/* ---- ranks and collectives ---- */

/* Ranks side by side, and their collectives. */

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
