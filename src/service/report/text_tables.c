/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the text, and what they share. Each prints nothing where there is nothing to say. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/select.h"
#include "service/report/text.h"
#include "service/report/trace_fields.h"
#include "service/report/text_columns.def"

const char *pen_of(Pen *pen, size_t shown, size_t all, const char *what)
{
    if (shown == all)
        return what;
    return arena_printf(&pen->arena, "%zu of %zu%s%s", shown, all, what[0] ? pen_dot(pen) : "", what);
}

void rank_split(const TraceDevice *sum, BarPart parts[RANK_PARTS])
{
    const BarPart all[RANK_PARTS] = {
        {(double)sum->compute_ns, STYLE_GOOD, '#', "\xe2\x96\x88", "compute"},
        {(double)sum->exposed_communication_ns, STYLE_COMMUNICATION, '=', "\xe2\x96\x93", "exposed communication"},
        {(double)sum->exposed_copy_ns, STYLE_COPY, '~', "\xe2\x96\x92", "exposed copy"},
        {(double)sum->idle_ns, STYLE_IDLE, '.', "\xe2\x96\x91", "idle"}};

    memcpy(parts, all, sizeof all);
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

static TableCell *time_row(Table *table, const char *what, Style style, double ns, int64_t whole_ns)
{
    TableCell *cell = table_row(table);

    cell[0].text = what;
    cell[1].text = pen_ns(table->pen, ns);
    cell[2].text = pen_share(table->pen, ns, (double)whole_ns);
    cell[5].bar = whole_ns > 0 ? ns / (double)whole_ns : 0;
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

static void print_time(Pen *pen, const TraceRank *rank)
{
    TraceDevice sum = trace_sum_devices(rank);
    TraceCauseSum sums[TRACE_CAUSE_COUNT];
    unsigned order[TRACE_CAUSE_COUNT];
    BarPart parts[RANK_PARTS];
    Table table;

    if (!sum.span_ns)
        return;
    pen_section(pen, "Where the time went", rank->devices.len > 1 ? "all GPUs of the rank added" : "");
    table_init(&table, pen, time_columns, ARRAY_LEN(time_columns));
    rank_split(&sum, parts);
    for (size_t i = 0; i < RANK_PARTS - 1; i++) /* the last is idle, below by cause */
        if (i == 0 || parts[i].share != 0)
            time_row(&table, parts[i].word, parts[i].style, parts[i].share, sum.span_ns);
    trace_sum_causes(rank, sums);
    order_causes(sums, order);
    for (unsigned i = 0; i < TRACE_CAUSE_COUNT; i++) {
        const TraceCauseSum *cause = &sums[order[i]];
        TableCell *cell;

        if (!cause->total_ns && !cause->count)
            continue;
        cell = time_row(&table, arena_printf(&pen->arena, "idle: %s", pen_cause(pen, (TraceCause)order[i])),
                        cause_style((TraceCause)order[i]), (double)cause->total_ns, sum.span_ns);
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

static void print_gaps(Pen *pen, const TraceRank *rank)
{
    TraceIdleCursor cursor = {0};
    size_t shown = 0;
    Table table;

    table_init(&table, pen, gap_columns, ARRAY_LEN(gap_columns));
    for (const TraceGap *gap; shown < pen->options.top && (gap = trace_next_idle(rank, &cursor));) {
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
        cell[6].text = gap->after[0] ? gap->after : "(nothing)";
        cell[6].style = STYLE_DIM;
    }
    if (shown)
        pen_section(pen, "Longest idle times", "");
    table_print(&table);
}

/* ---- steps ---- */

static int64_t step_window(const TraceStepRow *step)
{
    return step->to - step->start;
}

/* Indices of the steps to show, in order of time: all where they fit, else the slowest. Returns how many. */
static size_t choose_steps(const Pen *pen, const TraceRank *rank, size_t *chosen)
{
    CLEANUP_FREE int64_t *durations = xcalloc(rank->steps.len + 1, sizeof(*durations));
    size_t count = 0;

    for (size_t i = 0; i < rank->steps.len; i++)
        durations[i] = step_window(&rank->steps.at[i]);
    TraceLongest slowest = trace_find_longest(durations, rank->steps.len, pen->options.top);
    for (size_t i = 0; i < rank->steps.len && count < pen->options.top; i++)
        if (wanted_step(pen, rank, (int32_t)i) &&
            (pen->options.one_step || trace_is_longest(&slowest, step_window(&rank->steps.at[i]))))
            chosen[count++] = i;
    return count;
}

/* "idle 25.5 %, most of it data loading" */
static const char *main_cause(Pen *pen, const TraceStepDevice *sum)
{
    unsigned order[TRACE_CAUSE_COUNT];

    order_causes(sum->idle_by_cause, order);
    return sum->idle_by_cause[order[0]].total_ns ? pen_cause(pen, (TraceCause)order[0]) : NULL;
}

/* Windows of all steps in eighths of a line, in at most `columns` characters (the longest of neighbours), where they
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
        int64_t own = step_window(&rank->steps.at[i]);

        most = own > most ? own : most;
        least = own < least ? own : least;
    }
    if (most - least < most / 10)
        return;
    out_add(&pen->out, "  ");
    for (size_t i = 0; i < cells; i++) {
        int64_t longest = 0;

        for (size_t j = i * count / cells; j < (i + 1) * count / cells; j++)
            longest = step_window(&rank->steps.at[j]) > longest ? step_window(&rank->steps.at[j]) : longest;
        out_add(&pen->out, levels[(size_t)((double)longest / (double)most * 7.999)]);
    }
    pen_textf(pen, STYLE_DIM, "  each step, the longest %s\n", pen_ns(pen, (double)most));
}

static void step_row(Table *table, const TraceStepRow *step)
{
    TraceStepDevice sum = trace_step_sum(step);
    TableCell *cell = table_fill(table, &sum);

    cell[0].text = step->name;
    cell[1].text = pen_ns(table->pen, (double)step_window(step));
    cell[7].text = main_cause(table->pen, &sum);
}

static void print_steps(Pen *pen, const TraceRank *rank)
{
    CLEANUP_FREE size_t *chosen =
        xcalloc((rank->steps.len < pen->options.top ? rank->steps.len : pen->options.top) + 1, sizeof(*chosen));
    size_t count = choose_steps(pen, rank, chosen);
    Table table;

    if (!count)
        return;
    pen_section(
        pen, "Steps",
        pen_of(pen, count, rank->steps.len, count < rank->steps.len && !pen->options.one_step ? "the slowest" : ""));
    write_sparkline(pen, rank, pen->options.width - 40);
    table_init(&table, pen, step_columns, ARRAY_LEN(step_columns));
    for (size_t i = 0; i < count; i++)
        step_row(&table, &rank->steps.at[chosen[i]]);
    table_print(&table);
}

/* ---- tables of a list ---- */

enum { SHOWN_FEW = 5, SHOWN_ALL = -1 };

/* A table whose rows are a VEC of `owner`, a TraceRank, TraceReport or TracePath. */
typedef struct ListTable {
    const char *title, *about; /* title NULL: there is one already */
    const Column *columns;
    size_t column_count, offset, size; /* of the VEC in the owner; of a row */
    int most;                          /* rows without --verbose, 0: ReportOptions.top */
    /* Cells that depend on more than a field; NULL: none. */
    void (*mend)(Pen *pen, const void *owner, const void *row, TableCell *cells);
} ListTable;

#define LIST_TABLE(type, member, list, ...)                                                                            \
    {                                                                                                                  \
        .columns = list, .column_count = ARRAY_LEN(list), .offset = offsetof(type, member),                            \
        .size = sizeof(*((type *)0)->member.at), __VA_ARGS__                                                           \
    }

static void print_list(Pen *pen, const ListTable *list, const void *owner, double whole)
{
    const FieldRows rows = field_rows(owner, list->offset);
    size_t shown = pen->options.top;
    Table table;

    if (list->most > 0 && !pen->options.verbose && shown > (size_t)list->most)
        shown = (size_t)list->most;
    if (shown > rows.len || list->most == SHOWN_ALL)
        shown = rows.len;
    if (!shown)
        return;
    if (list->title)
        pen_section(pen, list->title, pen_of(pen, shown, rows.len, list->about));
    table_init(&table, pen, list->columns, list->column_count);
    table.whole = whole;
    for (size_t i = 0; i < shown; i++) {
        TableCell *cells = table_fill(&table, rows.at + i * list->size);

        if (list->mend)
            list->mend(pen, owner, rows.at + i * list->size, cells);
    }
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

static const Style path_styles[TRACE_PATH_KIND_COUNT] = {STYLE_IDLE, STYLE_IDLE, STYLE_GOOD, STYLE_COMMUNICATION,
                                                         STYLE_COPY, STYLE_IDLE, STYLE_IDLE};

static void mend_path_name(Pen *pen UNUSED, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TracePathName *name = row;

    cells[3].style = path_styles[name->kind];
}

static void print_path(Pen *pen, const TraceRank *rank)
{
    static const ListTable names =
        LIST_TABLE(TracePath, names, path_columns, .most = SHOWN_FEW, .mend = mend_path_name);
    const TracePath *path = longest_path(pen, rank);
    size_t used = 0;

    if (!path)
        return;
    pen_section(pen, "Critical path", path->what);
    for (unsigned kind = 0; kind < TRACE_PATH_KIND_COUNT; kind++) {
        const char *word = pen_words(pen, trace_path_words[kind]);
        const char *share = pen_share(pen, (double)path->by_kind_ns[kind], (double)path->total_ns);

        if (!path->by_kind_ns[kind])
            continue;
        pen_piece(pen, &used, strlen(word) + 1 + strlen(share));
        pen_text(pen, path_styles[kind], word);
        pen_textf(pen, STYLE_PLAIN, " %s", share);
    }
    out_add(&pen->out, "\n");
    print_list(pen, &names, path, (double)path->total_ns);
}

/* ---- kernels, operators, calls, copies, launches, memory ---- */

static void mend_kernel(Pen *pen UNUSED, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceKernel *kernel = row;

    if (kernel->tensor_unknown)
        cells[9].text = "?";
    if (kernel->class != TRACE_COMPUTE)
        cells[10].style = kernel->class == TRACE_COMMUNICATION ? STYLE_COMMUNICATION : STYLE_COPY;
}

static void mend_operator(Pen *pen UNUSED, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceOperator *op = row;

    if (!op->matrix)
        cells[6].text = NULL;
}

enum { DIMS_SHOWN = 2 };

/* "[32,128] [128,64]" of "[[32,128],[128,64],[]]": the first ones. */
static const char *write_dims(Pen *pen, const char *dims)
{
    CLEANUP(str_done) Str line = str_limited((size_t)1 << 20);
    const char *start = dims;
    int depth = 0, shown = 0;

    for (const char *at = dims; *at && shown < DIMS_SHOWN; at++) {
        if (*at == '[' && ++depth == 2)
            start = at;
        if (*at == ']' && depth-- == 2 && at > start + 1)
            str_addf(&line, "%s%.*s", shown++ ? " " : "", (int)(at + 1 - start), start);
    }
    return line.len ? arena_strndup(&pen->arena, line.text, line.len) : NULL;
}

static void mend_shape(Pen *pen, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceShape *shape = row;

    if (!shape->helper_ns)
        cells[3].text = NULL;
    cells[4].text = isfinite(shape->tflops) ? arena_printf(&pen->arena, "%.1f", shape->tflops) : NULL;
    cells[7].text = isfinite(shape->intensity) ? arena_printf(&pen->arena, "%.0f", shape->intensity) : NULL;
    cells[11].text = write_dims(pen, shape->dims);
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

static void mend_copy(Pen *pen, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceCopy *copy = row;

    if (!copy->bytes)
        cells[2].text = "-";
    cells[7].text = from_to(pen, copy);
    cells[7].style = strncmp(copy->source, "pa", 2) == 0 ? STYLE_COPY : STYLE_DIM; /* pageable */
}

static void mend_queue(Pen *pen, const void *owner, const void *row, TableCell *cells)
{
    const TraceRank *rank = owner;
    const TraceQueue *queue = row;

    if (rank->devices.len <= 1)
        cells[0].text = NULL;
    cells[4].text = isfinite(queue->mean_length) ? arena_printf(&pen->arena, "%.1f", queue->mean_length) : "-";
    if (!queue->full_ns)
        cells[6].text = NULL;
}

static void mend_memory(Pen *pen, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceMemoryDevice *memory = row;

    cells[0].text = memory->device < 0 ? "host" : arena_printf(&pen->arena, "GPU %" PRId32, memory->device);
    if (memory->capacity_bytes <= 0 || memory->peak_reserved < 0)
        cells[3].text = NULL;
}

static void mend_holder(Pen *pen, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceMemoryHolder *holder = row;

    cells[3].text = pen_words(pen, trace_memory_words[holder->category]);
    cells[4].text = holder->name[0] ? holder->name : "(no operator)";
}

static const ListTable kernels = LIST_TABLE(TraceRank, kernels, kernel_columns, .title = "Kernels",
                                            .about = "share of all kernels' time", .mend = mend_kernel);
static const ListTable operators =
    LIST_TABLE(TraceRank, operators, operator_columns, .title = "Operators",
               .about = "by GPU time that they launch themselves", .mend = mend_operator);
static const ListTable shapes = LIST_TABLE(TraceRank, shapes, shape_columns, .mend = mend_shape);
static const ListTable calls = LIST_TABLE(TraceRank, calls, call_columns, .title = "Runtime calls",
                                          .about = "time of the host", .most = SHOWN_FEW);
static const ListTable annotations =
    LIST_TABLE(TraceRank, annotations, annotation_columns, .title = "Annotations", .about = "");
static const ListTable copies =
    LIST_TABLE(TraceRank, copies, copy_columns, .title = "Copies", .about = "", .mend = mend_copy);
static const ListTable queues = LIST_TABLE(TraceRank, queues, queue_columns, .mend = mend_queue);
static const ListTable memory = LIST_TABLE(TraceRank, memory, memory_columns, .title = "Memory", .about = "largest",
                                           .most = SHOWN_ALL, .mend = mend_memory);
static const ListTable holders =
    LIST_TABLE(TraceMemoryDevice, holders, holder_columns, .most = SHOWN_FEW, .mend = mend_holder);

/* What stood at a device's peak. */
static void print_peak(Pen *pen, const TraceMemoryDevice *device)
{
    CLEANUP(str_done) Str line = str_limited(4096);

    if (device->holders.len == 0 || device->peak_allocated <= 0)
        return;
    for (unsigned i = 0; i < TRACE_MEMORY_CATEGORY_COUNT; i++)
        if (device->by_category[i])
            str_addf(&line, "%s%s %s", line.len ? pen_dot(pen) : "", pen_words(pen, trace_memory_words[i]),
                     pen_bytes(pen, (double)device->by_category[i]));
    if (device->reserved_at_peak > device->peak_allocated)
        str_addf(&line, "%sreserved and not allocated %s (%s)", pen_dot(pen),
                 pen_bytes(pen, (double)(device->reserved_at_peak - device->peak_allocated)),
                 pen_share(pen, (double)(device->reserved_at_peak - device->peak_allocated),
                           (double)device->reserved_at_peak));
    pen_section(pen, "What stood at the peak",
                device->device < 0 ? "host" : arena_printf(&pen->arena, "GPU %" PRId32, device->device));
    out_add(&pen->out, "  ");
    pen_wrap(pen, STYLE_PLAIN, 2, line.text);
    print_list(pen, &holders, device, (double)device->peak_allocated);
}

static void print_memory(Pen *pen, const TraceRank *rank)
{
    print_list(pen, &memory, rank, 0);
    for (size_t i = 0; i < rank->memory.len; i++)
        if (rank->memory.at[i].device >= 0 || pen->options.verbose)
            print_peak(pen, &rank->memory.at[i]);
}

/* ---- inference ---- */

static void mend_inference(Pen *pen, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceInference *kind = row;

    cells[5].text = kind->sequences_min == kind->sequences_max
                        ? pen_count(pen, kind->sequences_min)
                        : arena_printf(&pen->arena, "%" PRId64 "-%" PRId64, kind->sequences_min, kind->sequences_max);
    cells[6].text = isfinite(kind->tokens_per_second) ? pen_count(pen, llround(kind->tokens_per_second)) : NULL;
    cells[7].text = isfinite(kind->token_ns) ? pen_ns(pen, kind->token_ns) : NULL;
    cells[2].text = kind->timed ? cells[2].text : NULL;
    cells[3].text = kind->timed ? cells[3].text : NULL;
    cells[4].text = kind->timed ? cells[4].text : NULL;
    cells[8].text = isfinite(kind->between_mean_ns) ? pen_ns(pen, kind->between_mean_ns) : NULL;
}

static const ListTable inference = LIST_TABLE(TraceRank, inference, inference_columns, .title = "Inference",
                                              .about = "steps by kind", .most = SHOWN_ALL, .mend = mend_inference);

static void print_inference(Pen *pen, const TraceRank *rank)
{
    enum { HOSTS_SHOWN = 3 };
    const TraceInference *decode = trace_find_decode(rank);
    CLEANUP(str_done) Str line = str_limited(4096);

    print_list(pen, &inference, rank, 0);
    for (size_t i = 0; i < rank->decode_gaps.len && i < HOSTS_SHOWN; i++) {
        const TraceDecodeGap *gap = &rank->decode_gaps.at[i];

        str_addf(&line, "%s%.80s (%s)", i ? ", " : "between decode steps the host was in ",
                 gap->name[0] ? gap->name : "nothing that was recorded", pen_ns(pen, (double)gap->total_ns));
    }
    if (decode && decode->eager_sequences[0])
        str_addf(&line, "%sdecode steps without a CUDA graph: of %s sequences", line.len ? pen_dot(pen) : "",
                 decode->eager_sequences);
    if (!line.len)
        return;
    out_add(&pen->out, "  ");
    pen_wrap(pen, STYLE_DIM, 2, line.text);
}

/* What there is to say of arithmetic before the table; "" nothing. */
static void write_arithmetic(Pen *pen, const TraceRank *rank, Str *line)
{
    const TraceRoof *roof = &rank->roof;
    const char *dot = pen_dot(pen);

    if (isfinite(roof->flops_per_step))
        str_addf(line, "%.3g TFLOP per %s%s", roof->flops_per_step / 1e12, rank->steps.len ? "step" : "GPU", dot);
    if (isfinite(roof->mfu_percent))
        str_addf(line, "MFU %s%s of %s (data sheet, dense; what clock and power limit allow is not in a profile)%s",
                 roof->known_ns < roof->matrix_ns ? "at least " : "", pen_percent(pen, roof->mfu_percent), roof->board,
                 dot);
    else if (!roof->board[0])
        str_addf(line, "no peak is known for %s%s",
                 rank->devices.len && rank->devices.at[0].name[0] ? rank->devices.at[0].name : "this GPU", dot);
    if (roof->matrix_ns)
        str_addf(line, "arithmetic known for %s of the time of matrix kernels",
                 pen_share(pen, (double)roof->known_ns, (double)roof->matrix_ns));
}

static void print_shapes(Pen *pen, const TraceRank *rank)
{
    CLEANUP(str_done) Str line = str_limited(4096);

    if (!rank->shapes.len && !rank->roof.matrix_ns)
        return;
    if (!rank->with_shapes) {
        out_add(&pen->out, "  ");
        pen_wrap(pen, STYLE_DIM, 2, "FLOPs are not known: shapes were not recorded (record_shapes=True)");
        return;
    }
    pen_section(pen, "Operators by shape",
                pen_of(pen, rank->shapes.len < pen->options.top ? rank->shapes.len : pen->options.top, rank->shapes.len,
                       "share of all kernels' time"));
    write_arithmetic(pen, rank, &line);
    if (line.len) {
        out_add(&pen->out, "  ");
        pen_wrap(pen, STYLE_PLAIN, 2, line.text);
    }
    print_list(pen, &shapes, rank, (double)trace_sum_devices(rank).kernel_sum_ns);
}

static int compare_totals(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (y > x) - (y < x);
}

/* The least time of the `top` largest. */
static int64_t least_shown(const TraceRank *rank, size_t top)
{
    VEC(int64_t) totals = {0};
    int64_t least = 1;

    for (size_t i = 0; i < rank->modules.len; i++)
        vec_push(&totals, rank->modules.at[i].total_ns);
    vec_sort(&totals, compare_totals);
    if (top > 0 && totals.len > top && totals.at[top - 1] > least)
        least = totals.at[top - 1];
    vec_done(&totals);
    return least;
}

/* How much of the time is in the tree; what the backward pass lacks to be in it. */
static void write_module_times(Pen *pen, const TraceOriginSum *sum)
{
    const char *dot = pen_dot(pen);

    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_PLAIN, 2, "%s of GPU time is in a module%s%s",
              pen_share(pen, (double)sum->module_ns, (double)sum->total_ns), dot,
              sum->backward_ns == 0 ? "no backward pass with sequence numbers was recorded"
                                    : arena_printf(&pen->arena, "%s of the backward pass joined with its forward pass",
                                                   pen_share(pen, (double)sum->joined_ns, (double)sum->backward_ns)));
}

/* The largest of the tree, each below the one that it is in. */
static void print_modules(Pen *pen, const TraceRank *rank)
{
    const int64_t least = least_shown(rank, pen->options.top);
    size_t shown = 0;
    Table table;

    for (size_t i = 0; i < rank->modules.len; i++)
        shown += rank->modules.at[i].total_ns >= least;
    if (!shown)
        return;
    shown = shown < pen->options.top ? shown : pen->options.top;
    pen_section(pen, "Modules", pen_of(pen, shown, rank->modules.len, "GPU time with the modules inside, both passes"));
    write_module_times(pen, &rank->origin_sum);
    table_init(&table, pen, module_columns, ARRAY_LEN(module_columns));
    table.whole = (double)rank->origin_sum.total_ns;
    for (size_t i = 0; i < rank->modules.len && shown > 0; i++) {
        const TraceModule *module = &rank->modules.at[i];

        if (module->total_ns < least)
            continue;
        TableCell *cells = table_fill(&table, module);

        cells[6].text = arena_printf(&pen->arena, "%*s%s", 2 * module->depth, "", module->name);
        if (!module->calls) /* not known */
            cells[5].text = "-";
        shown--;
    }
    table_print(&table);
}

static void print_launches(Pen *pen, const TraceRank *rank)
{
    const TraceLaunch *launch = &rank->launch;
    const char *dot = pen_dot(pen);
    CLEANUP(str_done) Str line = str_limited(4096);

    if (!launch->linked && !launch->unlinked && !launch->call_count)
        return;
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
    print_list(pen, &queues, rank, 0);
}

void text_details(Pen *pen, const TraceRank *rank)
{
    print_time(pen, rank);
    print_gaps(pen, rank);
    print_steps(pen, rank);
    print_inference(pen, rank);
    print_path(pen, rank);
    print_list(pen, &kernels, rank, (double)trace_sum_devices(rank).kernel_sum_ns);
    print_list(pen, &operators, rank, 0);
    print_shapes(pen, rank);
    print_modules(pen, rank);
    print_list(pen, &copies, rank, 0);
    print_launches(pen, rank);
    print_list(pen, &calls, rank, 0);
    print_memory(pen, rank);
    if (pen->options.verbose)
        print_list(pen, &annotations, rank, 0);
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

/* A cause of lateness in words: of one rank, of several, of a table; and the member that holds it. */
static const struct {
    const char *cause, *one, *several, *word;
    size_t member; /* of TraceRankTime */
} late_causes[] = {
    {"computes_late", "it computes longer", "they compute longer", "compute", offsetof(TraceRankTime, late_compute_ns)},
    {"host_late", "its host or its data come late", "their hosts or their data come late", "host",
     offsetof(TraceRankTime, late_idle_ns)},
    {"copies_late", "its copies take longer", "their copies take longer", "copies",
     offsetof(TraceRankTime, late_copy_ns)},
    {"transfers_late", "its transfers take longer", "transfers among them take longer", "transfers",
     offsetof(TraceRankTime, late_transfer_ns)}};

static void write_straggler(Pen *pen, const TraceStraggler *found, bool first)
{
    const bool several = found->ranks.len > 1;
    const char *why = strcmp(found->cause, "unknown") == 0 ? "why, the profile does not show" : "", *alone;

    for (size_t i = 0; i < ARRAY_LEN(late_causes); i++)
        if (!strcmp(found->cause, late_causes[i].cause))
            why = several ? late_causes[i].several : late_causes[i].one;
    out_add(&pen->out, "  ");
    pen_wrapf(pen, STYLE_BAD, 2, "Straggler%s: %s%s%s", several ? "s" : "", found->label, why[0] ? ", " : "", why);
    out_add(&pen->out, "  ");
    alone = several ? arena_printf(&pen->arena, ", rank %" PRId64 " alone %s", found->rank,
                                   pen_percent(pen, found->alone_percent))
                    : "";
    pen_wrapf(pen, STYLE_DIM, 2,
              "%s late per step%slast in %s of %s collectives%sconfidence %s%sif %s as the others%s, a step would take "
              "%s less%s",
              pen_ns(pen, found->late_step_ns), pen_dot(pen), pen_percent(pen, 100 * found->share),
              pen_count(pen, found->matched), pen_dot(pen), pen_percent(pen, 100 * found->confidence), pen_dot(pen),
              several ? "they were" : "it were", first ? "" : " too", pen_percent(pen, found->percent_of_step), alone);
}

static void write_stragglers(Pen *pen, const TraceReport *report)
{
    const TraceStraggler *found;
    size_t nth = 0;

    for (; (found = trace_straggler_at(report, nth)); nth++)
        write_straggler(pen, found, nth == 0);
    if (nth == 0)
        pen_text(pen, STYLE_DIM, "  No straggler: no rank is late again and again.\n");
}

/* A late rank, by how much, and by what. */
typedef struct LateRow {
    double late_ns;
    int64_t rank;
    const char *word, *host_cause;
} LateRow;

static int by_lateness(const void *a_, const void *b_)
{
    const LateRow *a = a_, *b = b_;

    if (a->late_ns != b->late_ns)
        return a->late_ns > b->late_ns ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static LateRow make_late_row(const TraceRankTime *time, const TraceStraggler *straggler)
{
    LateRow row = {.rank = time->rank, .word = "unknown", .host_cause = straggler->host_cause};

    for (size_t i = 0; i < ARRAY_LEN(late_causes); i++) {
        const double ns = *(const double *)(const void *)((const char *)time + late_causes[i].member);

        row.late_ns += ns;
        if (strcmp(straggler->cause, late_causes[i].cause) == 0)
            return (LateRow){
                .late_ns = ns, .rank = time->rank, .word = late_causes[i].word, .host_cause = straggler->host_cause};
    }
    return row;
}

/* The late ranks, the latest first. */
static void print_late_ranks(Pen *pen, const TraceReport *report, size_t limit)
{
    VEC(LateRow) rows = {0};
    Table table;

    for (size_t i = 0; i < report->rank_times.len; i++) {
        const TraceStraggler *straggler = trace_straggler_of(report, report->rank_times.at[i].rank);

        if (straggler)
            vec_push(&rows, make_late_row(&report->rank_times.at[i], straggler));
    }
    vec_sort(&rows, by_lateness);
    table_init(&table, pen, late_columns, ARRAY_LEN(late_columns));
    for (size_t i = 0; i < rows.len && i < limit; i++) {
        const LateRow *row = &rows.at[i];
        TableCell *cell = table_row(&table);

        cell[0].text = arena_printf(&pen->arena, "%" PRId64, row->rank);
        cell[1].text = pen_ns(pen, row->late_ns);
        cell[2].text = row->host_cause && row->host_cause[0]
                           ? arena_printf(&pen->arena, "%s: %s", row->word, pen_words(pen, row->host_cause))
                           : row->word;
    }
    table_print(&table);
    vec_done(&rows);
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
        TraceDevice sum = trace_sum_devices(rank);
        BarPart parts[RANK_PARTS];

        pen_textf(pen, trace_is_late(report, rank->rank) ? STYLE_BAD : STYLE_PLAIN, "%7" PRId64, rank->rank);
        pen_textf(pen, STYLE_PLAIN, "%9s%9s  ", pen_share(pen, (double)sum.busy_ns, (double)sum.span_ns),
                  pen_share(pen, (double)sum.idle_ns, (double)sum.span_ns));
        rank_split(&sum, parts);
        pen_bar(pen, parts, RANK_PARTS, (double)sum.span_ns, columns);
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
    size_t shown = pen->options.verbose ? report->rank_times.len : pen->options.top < 16 ? 16 : pen->options.top;
    Table table;

    shown = shown < report->rank_times.len ? shown : report->rank_times.len;
    if (!shown)
        return;
    pen_section(pen, "Across ranks",
                pen_of(pen, shown, report->rank_times.len, "per step; late and last: start of matched collectives"));
    write_stragglers(pen, report);
    print_late_ranks(pen, report, shown);
    table_init(&table, pen, time_of_rank_columns, ARRAY_LEN(time_of_rank_columns));
    for (size_t i = 0; i < shown; i++) {
        const TraceRankTime *time = &report->rank_times.at[i];
        const TraceRank *rank = rank_of(report, time->rank);
        TableCell *cell = table_fill(&table, time);

        cell[0].style = trace_is_late(report, time->rank) ? STYLE_BAD : STYLE_PLAIN;
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

static void mend_collective(Pen *pen UNUSED, const void *owner UNUSED, const void *row, TableCell *cells)
{
    const TraceCollectiveSum *sum = row;

    if (sum->skew_median_ns < 0)
        cells[6].text = cells[7].text = cells[8].text = NULL;
}

void text_collectives(Pen *pen, const TraceReport *report)
{
    static const ListTable collectives =
        LIST_TABLE(TraceReport, collectives, collective_columns, .title = "Collectives",
                   .about = "bus bandwidth from the shortest duration over ranks", .mend = mend_collective);

    print_list(pen, &collectives, report, 0);
}
