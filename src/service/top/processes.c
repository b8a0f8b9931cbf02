/* SPDX-License-Identifier: Apache-2.0 */
/* The processes on all GPUs: rows (filtered, sorted, as a tree), their table, the view and the sheet of one. */
#include "service/top/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/human.h"
#include "base/cleanup.h"
#include "service/top/value.h"

const char *owner_label(const ProcessOwner *owner, char out[TOP_TEXT_CAP])
{
    out[0] = '\0';
    if (!owner)
        return out;
    if (owner->job[0])
        snprintf(out, TOP_TEXT_CAP, "job %s", owner->job);
    else if (owner->pod[0])
        snprintf(out, TOP_TEXT_CAP, "pod %.*s/%.*s", 40, owner->namespace, 48, owner->pod);
    else if (owner->pod_uid[0])
        snprintf(out, TOP_TEXT_CAP, "pod %s", owner->pod_uid);
    else if (owner->container[0])
        snprintf(out, TOP_TEXT_CAP, "%s %.12s", owner->runtime[0] ? owner->runtime : "container", owner->container);
    return out;
}

/* How long it has been running; false if unknown. */
static bool top_age(const Top *top, const ProcessOwner *owner, uint64_t *ret_ns)
{
    const uint64_t boot = top->snapshot->boot_real_ns, now = top->real_ns;

    if (!owner || boot == 0 || owner->start_ns == 0 || boot + owner->start_ns > now)
        return false;
    *ret_ns = now - boot - owner->start_ns;
    return true;
}

/* --- CPU ---------------------------------------------------------------------------------------------------------- */

static const CpuSeen *cpu_find(const CpuSeens *list, uint32_t pid)
{
    size_t low = 0, high = list->len;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (list->at[middle].pid == pid)
            return &list->at[middle];
        if (list->at[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Share of one CPU between the last two snapshots; owners are sorted by pid. */
void processes_cpu(Top *top)
{
    const CpuSeens before = top->cpu;
    const double elapsed = (double)top->real_ns - (double)top->cpu_real_ns;

    top->cpu = top->cpu_before;
    top->cpu_before = before;
    vec_clear(&top->cpu);
    for (size_t i = 0; i < top->snapshot->processes.len; i++) {
        const ProcessOwner *owner = &top->snapshot->processes.at[i];
        const CpuSeen *old = cpu_find(&before, owner->pid);
        CpuSeen cpu = {.pid = owner->pid, .start_ns = owner->start_ns, .cpu_ns = owner->cpu_ns, .percent = (double)NAN};

        if (old && old->start_ns == owner->start_ns && elapsed == 0)
            cpu.percent = old->percent;
        else if (old && old->start_ns == owner->start_ns && elapsed > 0 && owner->cpu_ns >= old->cpu_ns)
            cpu.percent = 100 * (double)(owner->cpu_ns - old->cpu_ns) / elapsed;
        vec_push(&top->cpu, cpu);
    }
    top->cpu_real_ns = top->real_ns;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void group_of(const Top *top, const NodeGpu *gpu, const ProcessOwner *owner, char out[TOP_TEXT_CAP])
{
    if (top->tree == TREE_GPU && gpu->reading.device.index != DEVICE_NO_NUMBER)
        snprintf(out, TOP_TEXT_CAP, "GPU %" PRIu32, gpu->reading.device.index);
    else if (top->tree == TREE_GPU)
        snprintf(out, TOP_TEXT_CAP, "GPU without a number");
    else if (!owner_label(owner, out)[0] && owner && owner->user[0])
        snprintf(out, TOP_TEXT_CAP, "user %s", owner->user);
    else if (!out[0])
        snprintf(out, TOP_TEXT_CAP, "no owner known");
}

static void add_process(Top *top, const NodeGpu *gpu, const NodeProcess *process)
{
    ProcessRow row = {.gpu = gpu,
                      .process = process,
                      .cpu_percent = (double)NAN,
                      .sm_percent = (double)NAN,
                      .used_bytes = (double)NAN};
    const CpuSeen *cpu = cpu_find(&top->cpu, process->pid);

    row.owner = process_list_find(&top->snapshot->processes, process->pid);
    if (cpu)
        row.cpu_percent = cpu->percent;
    if (process->sm_percent != UINT8_MAX)
        row.sm_percent = process->sm_percent;
    if (process->used_bytes != UINT64_MAX)
        row.used_bytes = (double)process->used_bytes;
    if (top->tree != TREE_NONE)
        group_of(top, gpu, row.owner, row.label);
    if (process_row_has(&row, top->filter))
        vec_push(&top->spare, row);
}

static int compare_rows(const Top *top, uint32_t left, uint32_t right)
{
    const ProcessRow *a = &top->spare.at[left], *b = &top->spare.at[right];
    int order = strcmp(a->label, b->label);

    if (top->tree == TREE_GPU && a->gpu != b->gpu)
        order = a->gpu < b->gpu ? -1 : 1;
    if (order == 0) {
        order = process_column_compare(top->sort, a, b);
        if (process_column_down(top->sort) != top->reverse)
            order = -order;
    }
    if (order == 0)
        order = (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
    return order ? order : (a->gpu > b->gpu) - (a->gpu < b->gpu);
}

/* Merges the sorted runs from..middle and middle..end. */
static void merge_runs(Top *top, size_t from, size_t middle, size_t end)
{
    uint32_t *at = top->order.at, *spare = top->order_spare.at;
    size_t left = from, right = middle;

    for (size_t i = from; i < end; i++)
        spare[i] =
            left < middle && (right >= end || compare_rows(top, at[left], at[right]) <= 0) ? at[left++] : at[right++];
    memcpy(at + from, spare + from, (end - from) * sizeof *at);
}

/* A merge sort of our own: qsort may allocate. */
static void sort_rows(Top *top)
{
    const size_t count = top->spare.len;

    vec_reserve(&top->order, count);
    vec_reserve(&top->order_spare, count);
    for (size_t i = 0; i < count; i++)
        top->order.at[i] = (uint32_t)i;
    for (size_t width = 1; width < count; width *= 2)
        for (size_t from = 0; from + width < count; from += 2 * width)
            merge_runs(top, from, from + width, from + 2 * width < count ? from + 2 * width : count);
}

static double add_known(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

static void add_sorted(Top *top)
{
    size_t group = SIZE_MAX;

    for (size_t i = 0; i < top->spare.len; i++) {
        ProcessRow row = top->spare.at[top->order.at[i]];

        if (top->tree != TREE_NONE && (group == SIZE_MAX || strcmp(top->processes.at[group].label, row.label) != 0)) {
            ProcessRow head = {.group = true,
                               .gpu = row.gpu,
                               .cpu_percent = (double)NAN,
                               .sm_percent = (double)NAN,
                               .used_bytes = (double)NAN};
            if (group != SIZE_MAX)
                top->processes.at[top->processes.len - 1].last = true;
            group = top->processes.len;
            memcpy(head.label, row.label, sizeof head.label);
            vec_push(&top->processes, head);
        }
        row.depth = top->tree != TREE_NONE;
        if (group != SIZE_MAX) {
            ProcessRow *head = &top->processes.at[group];
            head->members++;
            head->used_bytes = add_known(head->used_bytes, row.used_bytes);
            head->sm_percent = add_known(head->sm_percent, row.sm_percent);
        }
        vec_push(&top->processes, row);
    }
    if (top->processes.len > 0)
        top->processes.at[top->processes.len - 1].last = true;
}

static void find_cursor(Top *top)
{
    top->process_list.count = top->processes.len;
    if (top->process_thing.kind == THING_NONE)
        top->process_list.selected = 0;
    for (size_t i = 0; i < top->processes.len; i++) {
        const Thing thing = process_row_thing(&top->processes.at[i]);

        if (thing_equal(&thing, &top->process_thing)) {
            top->process_list.selected = i;
            return;
        }
    }
    list_move(&top->process_list, 0);
}

void processes_see(Top *top)
{
    const Node *node = top->snapshot->node;

    vec_clear(&top->processes);
    vec_clear(&top->spare);
    for (size_t i = 0; node && i < node->gpu_count; i++)
        for (size_t k = 0; k < node->gpus[i].process_count; k++)
            add_process(top, &node->gpus[i], &node->gpus[i].processes[k]);
    sort_rows(top);
    add_sorted(top);
    find_cursor(top);
}

Thing process_row_thing(const ProcessRow *row)
{
    Thing thing = {.kind = row->group ? THING_GROUP : THING_PROCESS};

    if (row->group) {
        memcpy(thing.text, row->label, sizeof thing.text);
        return thing;
    }
    thing.device = row->gpu->reading.device;
    thing.pid = row->process->pid;
    thing.start_ns = row->owner ? row->owner->start_ns : 0;
    thing.gpu_instance = row->process->gpu_instance;
    thing.compute_instance = row->process->compute_instance;
    return thing;
}

bool process_row_has(const ProcessRow *row, const char *word)
{
    const ProcessOwner *owner = row->owner;
    char text[TOP_TEXT_CAP];

    if (!word[0] || text_has(row->label, word))
        return true;
    if (row->group)
        return false;
    snprintf(text, sizeof text, "%" PRIu32, row->process->pid);
    if (text_has(text, word))
        return true;
    snprintf(text, sizeof text, "GPU %" PRIu32, row->gpu->reading.device.index);
    if (text_has(text, word))
        return true;
    return owner && (text_has(owner->name, word) || text_has(owner->user, word) || text_has(owner->command, word) ||
                     text_has(owner_label(owner, text), word) || text_has(owner->container, word) ||
                     text_has(owner->namespace, word));
}

const ProcessRow *top_process(const Top *top)
{
    const ProcessRow *row = NULL;

    if (top->view == VIEW_PROCESSES && top->process_list.selected < top->processes.len)
        row = &top->processes.at[top->process_list.selected];
    else if (top->view == VIEW_GPUS && top->gpu_list.selected >= top->gpus.len &&
             top->gpu_list.selected - top->gpus.len < top->processes.len)
        row = &top->processes.at[top->gpu_list.selected - top->gpus.len];
    return row && !row->group ? row : NULL;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */

enum { CELL_CAP = PROCESS_COMMAND_CAP + TOP_TEXT_CAP };

typedef enum CellFormat { CELL_WHOLE, CELL_PERCENT, CELL_BYTES } CellFormat;

/* A column has a number, a text or both: it is sorted by the number if there is one, and shows the text if there is
 * one. */
typedef struct ProcessColumn {
    Column column;
    bool down; /* from large to small */
    double (*number)(const ProcessRow *row);
    CellFormat format; /* of the number */
    const char *(*text)(const Top *top, const ProcessRow *row, char out[CELL_CAP]);
    const char *empty; /* instead of "" */
} ProcessColumn;

static double pid_of(const ProcessRow *row)
{
    return row->process->pid;
}

static double sm_of(const ProcessRow *row)
{
    return row->sm_percent;
}

static double memory_of(const ProcessRow *row)
{
    return row->used_bytes;
}

static double cpu_of(const ProcessRow *row)
{
    return row->cpu_percent;
}

static double rss_of(const ProcessRow *row)
{
    return row->owner && row->owner->rss_bytes ? (double)row->owner->rss_bytes : (double)NAN;
}

/* Orders by age: the start counts from the boot, unknown ones are the oldest. */
static double age_of(const ProcessRow *row)
{
    return row->owner ? -(double)row->owner->start_ns : 0;
}

/* Orders by GPU, then by GPU instance. */
static double gpu_of(const ProcessRow *row)
{
    return (double)row->gpu->reading.device.index * 1e10 + row->process->gpu_instance;
}

static const char *user_text(const Top *top UNUSED, const ProcessRow *row, char out[CELL_CAP] UNUSED)
{
    return row->owner ? row->owner->user : "";
}

static const char *gpu_text(const Top *top UNUSED, const ProcessRow *row, char out[CELL_CAP])
{
    const NodeProcess *p = row->process;
    const uint32_t index = row->gpu->reading.device.index;

    if (index == DEVICE_NO_NUMBER)
        return "?";
    if (p->gpu_instance != DEVICE_NO_NUMBER && p->compute_instance != DEVICE_NO_NUMBER)
        snprintf(out, CELL_CAP, "%" PRIu32 ":%" PRIu32 "/%" PRIu32, index, p->gpu_instance, p->compute_instance);
    else
        snprintf(out, CELL_CAP, "%" PRIu32, index);
    return out;
}

static const char *kind_text(const Top *top UNUSED, const ProcessRow *row, char out[CELL_CAP] UNUSED)
{
    return row->process->graphics ? "G" : "C";
}

static const char *age_text(const Top *top, const ProcessRow *row, char out[CELL_CAP])
{
    uint64_t age_ns;

    return top_age(top, row->owner, &age_ns) ? text_age(age_ns, out) : "";
}

static const char *owner_text(const Top *top UNUSED, const ProcessRow *row, char out[CELL_CAP])
{
    return owner_label(row->owner, out);
}

static const char *command_text(const Top *top UNUSED, const ProcessRow *row, char out[CELL_CAP] UNUSED)
{
    return !row->owner ? "" : row->owner->command[0] ? row->owner->command : row->owner->name;
}

static const ProcessColumn columns[] = {
    {{"pid", "PID", 7, 0, 0, true}, false, pid_of, CELL_WHOLE, NULL, "-"},
    {{"user", "USER", 8, 12, 2, false}, false, NULL, CELL_WHOLE, user_text, "-"},
    {{"gpu", "GPU", 6, 0, 0, true}, false, gpu_of, CELL_WHOLE, gpu_text, "-"},
    {{"type", "T", 1, 0, 8, false}, false, NULL, CELL_WHOLE, kind_text, "-"},
    {{"sm", "SM", 4, 0, 1, true}, true, sm_of, CELL_PERCENT, NULL, "-"},
    {{"memory", "GPU MEM", 8, 0, 1, true}, true, memory_of, CELL_BYTES, NULL, "-"},
    {{"cpu", "CPU", 5, 0, 5, true}, true, cpu_of, CELL_PERCENT, NULL, "-"},
    {{"rss", "HOST MEM", 8, 0, 6, true}, true, rss_of, CELL_BYTES, NULL, "-"},
    {{"age", "AGE", 7, 0, 4, true}, true, age_of, CELL_WHOLE, age_text, "-"},
    {{"owner", "JOB, POD, CONTAINER", 19, 44, 3, false}, false, NULL, CELL_WHOLE, owner_text, "-"},
    {{"command", "COMMAND", 20, 400, 0, false}, false, NULL, CELL_WHOLE, command_text, "not visible here"},
};

static const char *write_cell(const Top *top, const ProcessColumn *column, const ProcessRow *row, char out[CELL_CAP])
{
    const double number = column->number && !column->text ? column->number(row) : (double)NAN;

    if (column->text)
        return column->text(top, row, out);
    if (isnan(number))
        return "";
    if (column->format == CELL_BYTES)
        return human_bytes(out, number);
    snprintf(out, CELL_CAP, column->format == CELL_PERCENT ? "%.0f%%" : "%.0f", number);
    return out;
}

static int compare_double(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(b) - isnan(a);
    return (a > b) - (a < b);
}

size_t process_column_count(void)
{
    return ARRAY_LEN(columns);
}

const char *process_column_key(size_t i)
{
    return columns[i].column.key;
}

bool process_column_down(size_t i)
{
    return columns[i].down;
}

int process_column_compare(size_t i, const ProcessRow *a, const ProcessRow *b)
{
    const ProcessColumn *column = &columns[i];
    char left[CELL_CAP], right[CELL_CAP];

    if (column->number)
        return compare_double(column->number(a), column->number(b));
    return strcmp(column->text(NULL, a, left), column->text(NULL, b, right));
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
        char room[CELL_CAP];

        if (cell.width == 0)
            continue;
        const char *text = write_cell(top, &columns[i], row, room);
        const Ink ink = text[0] && columns[i].text != kind_text ? INK_PLAIN : INK_DIM;
        text = text[0] ? text : columns[i].empty;
        if (i == ARRAY_LEN(columns) - 1 && row->depth > 0) {
            const int x = grid_text(grid, cell, 0, 0, INK_DIM, text_branch(grid, row->last));
            grid_text(grid, cell, x + 1, 0, ink, text);
        } else {
            column_text(grid, cell, columns[i].column.right, ink, text);
        }
    }
}

/* Why the table is empty: no process, the filter, or no process list. */
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

/* Shows the filter and the tree, so that a part is not taken for the whole. */
static void draw_state(const Top *top, Grid *grid, Area *area)
{
    static const char *const trees[TREE_END] = {"", "by job, pod, container and user", "by GPU"};

    if (!top->filter[0] && top->tree == TREE_NONE)
        return;
    const Area line = area_top(area, 1);
    int x = 0;
    if (top->filter[0])
        x = grid_textf(grid, line, x, 0, INK_WARN, "only those with '%s' (Escape shows all)  ", top->filter);
    if (top->tree != TREE_NONE)
        grid_textf(grid, line, x, 0, INK_DIM, "tree %s", trees[top->tree]);
}

void view_processes_draw(Top *top, Grid *grid, Area area)
{
    draw_state(top, grid, &area);
    list_settle(&top->process_list, area.height > 1 ? (size_t)area.height - 1 : 1);
    process_table_draw(top, grid, area, &top->process_list, 0);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

static int draw_field(Grid *grid, Area area, int y, const char *name, const char *text)
{
    Area rest = area;

    if (y >= area.height)
        return y;
    grid_text(grid, area, 0, y, INK_DIM, name);
    area_left(&rest, 14);
    const int next = text_wrap(grid, rest, y, 0, text[0] ? INK_PLAIN : INK_DIM, text[0] ? text : "-");
    return next;
}

/* The GPUs that it runs on. */
static int draw_places(const Top *top, Grid *grid, Area area, int y)
{
    size_t found = 0;

    for (size_t i = 0; i < top->gpus.len; i++) {
        const GpuRow *row = &top->gpus.at[i];

        for (size_t k = 0; !row->instance && k < row->gpu->process_count; k++) {
            const NodeProcess *p = &row->gpu->processes[k];
            char memory[HUMAN_MAX] = "memory not reported", text[TOP_TEXT_CAP];

            if (p->pid != top->target.pid)
                continue;
            if (p->used_bytes != UINT64_MAX)
                human_bytes(memory, (double)p->used_bytes);
            int len = snprintf(text, sizeof text, "%s, %s", memory, p->graphics ? "graphics" : "compute");
            if (p->sm_percent != UINT8_MAX)
                len += snprintf(text + len, sizeof text - (size_t)len, ", SM %u %%", p->sm_percent);
            if (p->gpu_instance != DEVICE_NO_NUMBER)
                snprintf(text + len, sizeof text - (size_t)len, ", MIG %" PRIu32 "/%" PRIu32, p->gpu_instance,
                         p->compute_instance);
            char name[32];
            snprintf(name, sizeof name, "on GPU %" PRIu32, row->gpu->reading.device.index);
            y = draw_field(grid, area, y, name, text);
            found++;
        }
    }
    if (found == 0 && y < area.height)
        grid_text(grid, area, 0, y++, INK_WARN, "it is on no GPU any more; what follows is what was last seen");
    return y;
}

void overlay_process_draw(Top *top, Grid *grid, Area area)
{
    const ProcessOwner *now = process_list_find(&top->snapshot->processes, top->target.pid);
    const ProcessOwner *owner;
    uint64_t age_ns;
    char text[TOP_TEXT_CAP * 2], label[TOP_TEXT_CAP], rss[HUMAN_MAX], age[32];

    if (now && now->start_ns == top->target.start_ns)
        top->target_owner = *now;
    owner = &top->target_owner;
    snprintf(text, sizeof text, "%" PRIu32 " %s", top->target.pid, owner->name);
    int y = draw_field(grid, area, 0, "process", text);
    y = draw_places(top, grid, area, y);
    y = draw_field(grid, area, y, "user", owner->user);
    y = draw_field(grid, area, y, "owner", owner_label(owner, label));
    if (owner->pod_uid[0])
        y = draw_field(grid, area, y, "pod UID", owner->pod_uid);
    if (owner->container[0])
        y = draw_field(grid, area, y, "container", owner->container);
    if (top_age(top, owner, &age_ns))
        y = draw_field(grid, area, y, "runs for", text_age(age_ns, age));
    if (owner->rss_bytes > 0)
        y = draw_field(grid, area, y, "host memory", human_bytes(rss, (double)owner->rss_bytes));
    y = draw_field(grid, area, y, "command", owner->command[0] ? owner->command : owner->name);
    if (y + 1 < area.height)
        grid_text(grid, area, 0, y + 1, INK_DIM, "Escape goes back");
}
