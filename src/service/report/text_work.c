/* SPDX-License-Identifier: Apache-2.0 */
/* What ran on a rank: kernels, operators, copies, launches, memory, annotations. */
#include <inttypes.h>
#include <math.h>

#include "base/owner.h"
#include "service/report/text.h"

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
