/* SPDX-License-Identifier: Apache-2.0 */
/* The table of processes: its columns with how each is shown and sorted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/human.h"
#include "base/owner.h"
#include "service/top/table.h"
#include "service/top/value.h"
#include "service/top/inside.h"

typedef struct Pen {
    const Top *top;
    const ProcessRow *row;
    char text[PROCESS_COMMAND_CAP + TOP_TEXT_CAP];
    Ink ink;
} Pen;

typedef struct ProcessColumn {
    Column column;
    bool down; /* from large to small */
    void (*write)(Pen *pen);
    int (*compare)(const ProcessRow *a, const ProcessRow *b);
} ProcessColumn;

static void dash(Pen *pen)
{
    snprintf(pen->text, sizeof pen->text, "-");
    pen->ink = INK_DIM;
}

static int compare_double(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(b) - isnan(a);
    return (a > b) - (a < b);
}

static void write_pid(Pen *pen)
{
    snprintf(pen->text, sizeof pen->text, "%" PRIu32, pen->row->process->pid);
}

static int by_pid(const ProcessRow *a, const ProcessRow *b)
{
    return (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
}

static const char *user_of(const ProcessRow *row)
{
    return row->owner ? row->owner->user : "";
}

static void write_user(Pen *pen)
{
    snprintf(pen->text, sizeof pen->text, "%s", user_of(pen->row));
    if (!pen->text[0])
        dash(pen);
}

static int by_user(const ProcessRow *a, const ProcessRow *b)
{
    return strcmp(user_of(a), user_of(b));
}

static void write_gpu(Pen *pen)
{
    const NodeProcess *p = pen->row->process;
    const uint32_t index = pen->row->gpu->reading.device.index;

    if (index == DEVICE_NO_NUMBER)
        snprintf(pen->text, sizeof pen->text, "?");
    else if (p->gpu_instance != DEVICE_NO_NUMBER && p->compute_instance != DEVICE_NO_NUMBER)
        snprintf(pen->text, sizeof pen->text, "%" PRIu32 ":%" PRIu32 "/%" PRIu32, index, p->gpu_instance,
                 p->compute_instance);
    else
        snprintf(pen->text, sizeof pen->text, "%" PRIu32, index);
}

static int by_gpu(const ProcessRow *a, const ProcessRow *b)
{
    if (a->gpu != b->gpu)
        return a->gpu < b->gpu ? -1 : 1;
    return (a->process->gpu_instance > b->process->gpu_instance) -
           (a->process->gpu_instance < b->process->gpu_instance);
}

static void write_kind(Pen *pen)
{
    snprintf(pen->text, sizeof pen->text, "%s", pen->row->process->graphics ? "G" : "C");
    pen->ink = INK_DIM;
}

static int by_kind(const ProcessRow *a, const ProcessRow *b)
{
    return a->process->graphics - b->process->graphics;
}

static void write_sm(Pen *pen)
{
    if (isnan(pen->row->sm_percent))
        dash(pen);
    else
        snprintf(pen->text, sizeof pen->text, "%.0f%%", pen->row->sm_percent);
}

static int by_sm(const ProcessRow *a, const ProcessRow *b)
{
    return compare_double(a->sm_percent, b->sm_percent);
}

static void write_memory(Pen *pen)
{
    if (isnan(pen->row->used_bytes))
        dash(pen);
    else
        human_bytes(pen->text, pen->row->used_bytes);
}

static int by_memory(const ProcessRow *a, const ProcessRow *b)
{
    return compare_double(a->used_bytes, b->used_bytes);
}

static void write_cpu(Pen *pen)
{
    if (isnan(pen->row->cpu_percent))
        dash(pen);
    else
        snprintf(pen->text, sizeof pen->text, "%.0f%%", pen->row->cpu_percent);
}

static int by_cpu(const ProcessRow *a, const ProcessRow *b)
{
    return compare_double(a->cpu_percent, b->cpu_percent);
}

static double rss_of(const ProcessRow *row)
{
    return row->owner && row->owner->rss_bytes ? (double)row->owner->rss_bytes : (double)NAN;
}

static void write_rss(Pen *pen)
{
    if (isnan(rss_of(pen->row)))
        dash(pen);
    else
        human_bytes(pen->text, rss_of(pen->row));
}

static int by_rss(const ProcessRow *a, const ProcessRow *b)
{
    return compare_double(rss_of(a), rss_of(b));
}

static uint64_t start_of(const ProcessRow *row)
{
    return row->owner ? row->owner->start_ns : 0;
}

static void write_age(Pen *pen)
{
    uint64_t age_ns;
    char age[32];

    if (top_age(pen->top, pen->row->owner, &age_ns))
        snprintf(pen->text, sizeof pen->text, "%s", text_age(age_ns, age));
    else
        dash(pen);
}

static int by_age(const ProcessRow *a, const ProcessRow *b)
{
    return (start_of(a) < start_of(b)) - (start_of(a) > start_of(b));
}

static void write_owner(Pen *pen)
{
    char label[TOP_TEXT_CAP];

    snprintf(pen->text, sizeof pen->text, "%s", owner_label(pen->row->owner, label));
    if (!pen->text[0])
        dash(pen);
}

static int by_owner(const ProcessRow *a, const ProcessRow *b)
{
    char left[TOP_TEXT_CAP], right[TOP_TEXT_CAP];

    return strcmp(owner_label(a->owner, left), owner_label(b->owner, right));
}

static const char *command_of(const ProcessRow *row)
{
    return !row->owner ? "" : row->owner->command[0] ? row->owner->command : row->owner->name;
}

static void write_command(Pen *pen)
{
    if (command_of(pen->row)[0]) {
        snprintf(pen->text, sizeof pen->text, "%s", command_of(pen->row));
    } else {
        snprintf(pen->text, sizeof pen->text, "not seen here");
        pen->ink = INK_DIM;
    }
}

static int by_command(const ProcessRow *a, const ProcessRow *b)
{
    return strcmp(command_of(a), command_of(b));
}

static const ProcessColumn columns[] = {
    {{"pid", "PID", 7, 0, 0, true}, false, write_pid, by_pid},
    {{"user", "USER", 8, 12, 2, false}, false, write_user, by_user},
    {{"gpu", "GPU", 6, 0, 0, true}, false, write_gpu, by_gpu},
    {{"type", "T", 1, 0, 8, false}, false, write_kind, by_kind},
    {{"sm", "SM", 4, 0, 1, true}, true, write_sm, by_sm},
    {{"memory", "GPU MEM", 8, 0, 1, true}, true, write_memory, by_memory},
    {{"cpu", "CPU", 5, 0, 5, true}, true, write_cpu, by_cpu},
    {{"rss", "HOST MEM", 8, 0, 6, true}, true, write_rss, by_rss},
    {{"age", "AGE", 7, 0, 4, true}, true, write_age, by_age},
    {{"owner", "JOB, POD, CONTAINER", 19, 44, 3, false}, false, write_owner, by_owner},
    {{"command", "COMMAND", 20, 400, 0, false}, false, write_command, by_command},
};

size_t process_column_count(void)
{
    return ARRAY_LEN(columns);
}

const char *process_column_key(size_t i)
{
    return columns[i].column.key;
}

const char *process_column_title(size_t i)
{
    return columns[i].column.title;
}

bool process_column_down(size_t i)
{
    return columns[i].down;
}

int process_column_compare(size_t i, const ProcessRow *a, const ProcessRow *b)
{
    return columns[i].compare(a, b);
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static void draw_head(Top *top, Grid *grid, Area area, const Layout *layout)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const Area cell = layout_cell(layout, area, i);
        char text[40];

        if (cell.width == 0)
            continue;
        const bool down = columns[i].down != top->reverse, sorted = i == top->sort;
        const char *mark = !sorted ? "" : grid->utf8 ? (down ? "\xe2\x96\xbe" : "\xe2\x96\xb4") : (down ? "v" : "^");
        snprintf(text, sizeof text, "%s%s", columns[i].column.title, mark);
        column_text(grid, cell, columns[i].column.right, sorted ? INK_STRONG : INK_TITLE, text);
        top_zone(top, cell, ZONE_SORT, (uint32_t)i);
    }
}

static void draw_group(Grid *grid, Area area, const ProcessRow *row)
{
    char memory[HUMAN_MAX];
    int x = grid_text(grid, area, 0, 0, INK_STRONG, row->label);

    x = grid_textf(grid, area, x, 0, INK_DIM, "  %zu process%s", row->members, row->members == 1 ? "" : "es");
    if (!isnan(row->used_bytes))
        x = grid_textf(grid, area, x, 0, INK_PLAIN, "  %s", human_bytes(memory, row->used_bytes));
    if (!isnan(row->sm_percent))
        grid_textf(grid, area, x, 0, INK_PLAIN, "  SM %.0f%%", row->sm_percent);
}

static void draw_row(const Top *top, Grid *grid, Area area, const Layout *layout, const ProcessRow *row)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const Area cell = layout_cell(layout, area, i);
        Pen pen = {.top = top, .row = row, .ink = INK_PLAIN};

        if (cell.width == 0)
            continue;
        columns[i].write(&pen);
        if (i == ARRAY_LEN(columns) - 1 && row->depth > 0) {
            const int x = grid_text(grid, cell, 0, 0, INK_DIM, text_branch(grid, row->last));
            grid_text(grid, cell, x + 1, 0, pen.ink, pen.text);
        } else {
            column_text(grid, cell, columns[i].column.right, pen.ink, pen.text);
        }
    }
}

/* Why there is no row: nobody, the filter, or lists that could not be had. */
static const char *why_empty(const Top *top, char out[TOP_TEXT_CAP * 2])
{
    const Node *node = top->snapshot->node;
    const char *absent = NULL;

    for (size_t i = 0; node && i < node->gpu_count && !absent; i++)
        if (!node->gpus[i].process_list.valid)
            absent = absence_text(node->gpus[i].process_list.absence);
    if (top->filter[0])
        snprintf(out, TOP_TEXT_CAP * 2, "no process on a GPU matches '%s'", top->filter);
    else if (absent)
        snprintf(out, TOP_TEXT_CAP * 2, "processes are not known: %s", absent);
    else
        snprintf(out, TOP_TEXT_CAP * 2, "no process on any GPU");
    return out;
}

void process_table_draw(Top *top, Grid *grid, Area area, List *list, size_t offset)
{
    const Area head = area_top(&area, 1);
    char why[TOP_TEXT_CAP * 2];
    Layout layout;

    if (head.height == 0)
        return;
    layout_fit(columns, sizeof columns[0], ARRAY_LEN(columns), area.width, &layout);
    draw_head(top, grid, head, &layout);
    if (top->processes.len == 0)
        grid_text(grid, area, 1, 0, INK_DIM, why_empty(top, why));
    for (size_t i = list->first; i < top->processes.len && (int)(i - list->first) < area.height; i++) {
        const Area line = area_row(area, (int)(i - list->first));
        const ProcessRow *row = &top->processes.at[i];

        if (row->group)
            draw_group(grid, line, row);
        else
            draw_row(top, grid, line, &layout, row);
        top_zone(top, line, ZONE_ROW, (uint32_t)(offset + i));
        if (offset + i == (offset ? top->gpu_list.selected : list->selected))
            grid_reverse(grid, line);
    }
    list_mark(list, grid, head, 0);
}
