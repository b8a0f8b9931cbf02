/* SPDX-License-Identifier: Apache-2.0 */
/* The processes on all GPUs: rows (filtered, sorted, as a tree), their table, the view and the sheet of one. */
#include "service/top/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/human.h"
#include "base/number.h"
#include "base/cleanup.h"

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

const char *owner_command(const ProcessOwner *owner)
{
    return owner->command[0] ? owner->command : owner->name;
}

/* How long it has been running; false if unknown. */
static bool read_age(const Top *top, const ProcessOwner *owner, uint64_t *ret_ns)
{
    const uint64_t boot = top->snapshot->boot_real_ns, now = top->real_ns;

    if (!owner || boot == 0 || owner->start_ns == 0 || boot + owner->start_ns > now)
        return false;
    *ret_ns = now - boot - owner->start_ns;
    return true;
}

/* --- CPU ---------------------------------------------------------------------------------------------------------- */

/* Share of one CPU since the snapshot before, of each process of the next one. */
void processes_cpu(Top *top, const Snapshot *next)
{
    const Snapshot *before = top->snapshot;
    const double elapsed = next->node && before->node ? (double)next->node->real_ns - (double)top->real_ns : 0;

    if (next == before)
        return;
    vec_clear(&top->cpu);
    for (size_t i = 0; i < next->processes.len; i++) {
        const ProcessOwner *owner = &next->processes.at[i], *old = process_list_find(&before->processes, owner->pid);
        const bool known = old && old->start_ns == owner->start_ns && elapsed > 0 && owner->cpu_ns >= old->cpu_ns;

        vec_push(&top->cpu, known ? 100 * (double)(owner->cpu_ns - old->cpu_ns) / elapsed : (double)NAN);
    }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static ProcessRow make_row(const Top *top, const NodeGpu *gpu, const NodeProcess *process)
{
    ProcessRow row = {.gpu = gpu,
                      .process = process,
                      .cpu_percent = (double)NAN,
                      .util_percent = (double)NAN,
                      .used_bytes = (double)NAN};

    row.owner = process_list_find(&top->snapshot->processes, process->pid);
    if (row.owner)
        row.cpu_percent = top->cpu.at[row.owner - top->snapshot->processes.at];
    if (process->sm_percent != UINT8_MAX)
        row.util_percent = process->sm_percent;
    if (process->used_bytes != UINT64_MAX)
        row.used_bytes = (double)process->used_bytes;
    return row;
}

static bool process_row_has(const ProcessRow *row, const char *word)
{
    const ProcessOwner *owner = row->owner;
    char text[TOP_TEXT_CAP];

    if (!word[0] || strcasestr(row->label, word))
        return true;
    if (row->group)
        return false;
    snprintf(text, sizeof text, "%" PRIu32 "\nGPU %" PRIu32, row->process->pid, row->gpu->reading.device.index);
    return strcasestr(text, word) ||
           (owner && (strcasestr(owner->name, word) || strcasestr(owner->user, word) ||
                      strcasestr(owner->command, word) || strcasestr(owner_label(owner, text), word) ||
                      strcasestr(owner->container, word) || strcasestr(owner->namespace, word)));
}

static void add_process(Top *top, const NodeGpu *gpu, const NodeProcess *process)
{
    ProcessRow row = make_row(top, gpu, process);

    if (top->tree && !owner_label(row.owner, row.label)[0])
        snprintf(row.label, sizeof row.label, row.owner && row.owner->user[0] ? "user %s" : "no owner known",
                 row.owner ? row.owner->user : "");
    if (process_row_has(&row, top->filter))
        vec_push(&top->spare, row);
}

static int compare_rows(const void *left, const void *right, void *context)
{
    const Top *top = context;
    const ProcessRow *a = left, *b = right;
    const int gpus = number_compare_u64((uintptr_t)a->gpu, (uintptr_t)b->gpu);
    int order = strcmp(a->label, b->label);

    if (order == 0) {
        order = process_column_compare(top->sort, a, b);
        if (process_columns[top->sort].down != top->reverse)
            order = -order;
    }
    if (order == 0)
        order = number_compare_u64(a->process->pid, b->process->pid);
    return order ? order : gpus;
}

static double add_known(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

/* Puts a head before the rows of each group. */
static void add_sorted(Top *top)
{
    ProcessRow head = {.group = true};
    size_t group = SIZE_MAX;

    for (size_t i = 0; i < top->spare.len; i++) {
        const ProcessRow *row = &top->spare.at[i], *next = i + 1 < top->spare.len ? row + 1 : NULL;

        if (top->tree && (group == SIZE_MAX || strcmp(head.label, row->label) != 0)) {
            head = (ProcessRow){.group = true, .gpu = row->gpu, .util_percent = (double)NAN, .used_bytes = (double)NAN};
            memcpy(head.label, row->label, sizeof head.label);
            group = top->processes.len;
            vec_push(&top->processes, head);
        }
        vec_push(&top->processes, *row);
        top->processes.at[top->processes.len - 1].last = !next || strcmp(next->label, row->label) != 0;
        if (group == SIZE_MAX)
            continue;
        ProcessRow *of = &top->processes.at[group];
        of->members++;
        of->used_bytes = add_known(of->used_bytes, row->used_bytes);
        of->util_percent = add_known(of->util_percent, row->util_percent);
    }
}

void processes_see(Top *top)
{
    const Node *node = top->snapshot->node;

    vec_clear(&top->processes);
    vec_clear(&top->spare);
    for (size_t i = 0; node && i < node->gpu_count; i++)
        for (size_t k = 0; k < node->gpus[i].process_count; k++)
            add_process(top, &node->gpus[i], &node->gpus[i].processes[k]);
    if (top->spare.len > 0)
        qsort_r(top->spare.at, top->spare.len, sizeof *top->spare.at, compare_rows, top);
    add_sorted(top);
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

const ProcessRow *top_process(const Top *top)
{
    const bool below = top->view == VIEW_GPUS; /* the devices come first */
    const size_t row = below ? top->gpu_list.selected - top->gpus.len : top->process_list.selected;

    if ((!below && top->view != VIEW_PROCESSES) || row >= top->processes.len || top->processes.at[row].group)
        return NULL;
    return &top->processes.at[row];
}

/* --- table -------------------------------------------------------------------------------------------------------- */

enum { CELL_CAP = PROCESS_COMMAND_CAP + TOP_TEXT_CAP };

enum {
    COLUMN_PID,
    COLUMN_USER,
    COLUMN_GPU,
    COLUMN_TYPE,
    COLUMN_UTIL,
    COLUMN_MEMORY,
    COLUMN_CPU,
    COLUMN_RSS,
    COLUMN_AGE,
    COLUMN_OWNER,
    COLUMN_COMMAND
};

const ProcessColumn process_columns[] = {
    [COLUMN_PID] = {{"pid", "PID", 7, 0, 0, true}, 'N', false, CELL_WHOLE},
    [COLUMN_USER] = {{"user", "USER", 8, 12, 2, false}, 'U', false, CELL_TEXT},
    [COLUMN_GPU] = {{"gpu", "GPU", 6, 0, 0, true}, 0, false, CELL_TEXT},
    [COLUMN_TYPE] = {{"type", "T", 1, 0, 8, false}, 0, false, CELL_TEXT},
    [COLUMN_UTIL] = {{"util", "UTIL", 5, 0, 1, true}, 'P', true, CELL_PERCENT},
    [COLUMN_MEMORY] = {{"memory", "GPU MEM", 8, 0, 1, true}, 'M', true, CELL_BYTES},
    [COLUMN_CPU] = {{"cpu", "CPU", 5, 0, 5, true}, 'C', true, CELL_PERCENT},
    [COLUMN_RSS] = {{"rss", "HOST MEM", 8, 0, 6, true}, 0, true, CELL_BYTES},
    [COLUMN_AGE] = {{"age", "AGE", 7, 0, 4, true}, 'T', true, CELL_TEXT},
    [COLUMN_OWNER] = {{"owner", "JOB, POD, CONTAINER", 19, 44, 3, false}, 0, false, CELL_TEXT},
    [COLUMN_COMMAND] = {{"command", "COMMAND", 20, 400, 0, false}, 0, false, CELL_TEXT},
};
const size_t process_column_count = ARRAY_LEN(process_columns);

/* What a column is sorted by, NAN where it is not known; the texts of the others are. */
static double read_number(size_t column, const ProcessRow *row)
{
    switch (column) {
    case COLUMN_PID:
        return row->process->pid;
    case COLUMN_GPU: /* then by GPU instance */
        return (double)row->gpu->reading.device.index * 1e10 + row->process->gpu_instance;
    case COLUMN_UTIL:
        return row->util_percent;
    case COLUMN_MEMORY:
        return row->used_bytes;
    case COLUMN_CPU:
        return row->cpu_percent;
    case COLUMN_RSS:
        return row->owner && row->owner->rss_bytes ? (double)row->owner->rss_bytes : (double)NAN;
    case COLUMN_AGE: /* the start counts from the boot, unknown ones are the oldest */
        return row->owner ? -(double)row->owner->start_ns : 0;
    default:
        return (double)NAN;
    }
}

/* "" where it is not known. `top` NULL: not of an age. */
static const char *write_text(const Top *top, size_t column, const ProcessRow *row, char out[CELL_CAP])
{
    const NodeProcess *p = row->process;
    const uint32_t index = row->gpu->reading.device.index;
    uint64_t age_ns;

    switch (column) {
    case COLUMN_USER:
        return row->owner ? row->owner->user : "";
    case COLUMN_GPU:
        snprintf(out, CELL_CAP, index == DEVICE_NO_NUMBER ? "?" : "%" PRIu32, index);
        if (index != DEVICE_NO_NUMBER && p->gpu_instance != DEVICE_NO_NUMBER && p->compute_instance != DEVICE_NO_NUMBER)
            snprintf(out, CELL_CAP, "%" PRIu32 ":%" PRIu32 "/%" PRIu32, index, p->gpu_instance, p->compute_instance);
        return out;
    case COLUMN_TYPE:
        return p->graphics ? "G" : "C";
    case COLUMN_AGE:
        return read_age(top, row->owner, &age_ns) ? human_age(out, age_ns) : "";
    case COLUMN_OWNER:
        return owner_label(row->owner, out);
    default:
        return row->owner ? owner_command(row->owner) : "";
    }
}

int process_column_compare(size_t i, const ProcessRow *a, const ProcessRow *b)
{
    char left[CELL_CAP], right[CELL_CAP];
    const double first = read_number(i, a), second = read_number(i, b);

    if (process_columns[i].format == CELL_TEXT && i != COLUMN_GPU && i != COLUMN_AGE)
        return strcmp(write_text(NULL, i, a, left), write_text(NULL, i, b, right));
    if (isnan(first) || isnan(second))
        return isnan(second) - isnan(first);
    return (first > second) - (first < second);
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static void draw_cell(Top *top, Grid *grid, Area cell, size_t column, const void *context)
{
    const CellFormat format = process_columns[column].format;
    const ProcessRow *row = context;
    const double number = format == CELL_TEXT ? (double)NAN : read_number(column, row);
    char room[CELL_CAP] = "";
    const char *text = format == CELL_TEXT ? write_text(top, column, row, room) : room;

    if (!isnan(number) && format == CELL_BYTES)
        human_bytes(room, number);
    else if (!isnan(number))
        snprintf(room, sizeof room, format == CELL_PERCENT ? "%.0f%%" : "%.0f", number);
    const Ink ink = text[0] && column != COLUMN_TYPE ? INK_PLAIN : INK_DIM;
    if (column == COLUMN_COMMAND && row->label[0])
        area_left(&cell, grid_text(grid, cell, 0, 0, INK_DIM, text_branch(row->last)) + 1);
    if (!text[0])
        text = column == COLUMN_COMMAND ? "not visible here" : "-";
    column_text(grid, cell, process_columns[column].column.right, ink, text);
}

static const Table table = {process_columns, sizeof process_columns[0], ARRAY_LEN(process_columns), draw_cell};

static void draw_row(Top *top, Grid *grid, Area line, size_t i, const void *layout)
{
    const ProcessRow *row = &top->processes.at[i];
    char memory[HUMAN_MAX];

    if (!row->group) {
        columns_row(&table, layout, top, grid, line, row);
        return;
    }
    int x = grid_text(grid, line, 0, 0, INK_STRONG, row->label);
    x = grid_textf(grid, line, x, 0, INK_DIM, "  %zu process%s", row->members, row->members == 1 ? "" : "es");
    if (!isnan(row->used_bytes))
        x = grid_textf(grid, line, x, 0, INK_PLAIN, "  %s", human_bytes(memory, row->used_bytes));
    if (!isnan(row->util_percent))
        grid_textf(grid, line, x, 0, INK_PLAIN, "  UTIL %.0f%%", row->util_percent);
}

/* Why there is none on `count` GPUs: no process, the filter, or no process list. */
static void draw_empty(Grid *grid, Area area, const NodeGpu *gpus, size_t count, const char *filter)
{
    size_t i = 0;

    while (i < count && gpus[i].process_list.valid)
        i++;
    if (filter[0])
        grid_textf(grid, area, 1, 0, INK_DIM, "no process on a GPU matches '%s'", filter);
    else if (i < count)
        grid_textf(grid, area, 1, 0, INK_DIM, "processes are not known: %s",
                   absences[gpus[i].process_list.absence].text);
    else
        grid_text(grid, area, 1, 0, INK_DIM, count == 1 ? "no process on it" : "no process on any GPU");
}

/* Whether a process of its GPU is on the row's device. */
static bool runs_on(const GpuRow *row, const NodeProcess *process)
{
    return !row->instance || (process->gpu_instance == row->reading->device.gpu_instance &&
                              process->compute_instance == row->reading->device.compute_instance);
}

void process_lines_draw(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    const NodeGpu *gpu = row->gpu;
    Layout layout;

    if (gpu->process_count == 0) {
        draw_empty(grid, area, gpu, 1, "");
        return;
    }
    const Area head = area_top(&area, 1);
    columns_fit(&table, head.width, (Fit){0}, &layout);
    columns_head(&table, &layout, grid, head);
    top_zone(top, head, ZONE_KEY, '3');
    for (size_t i = 0; i < gpu->process_count && area.height > 0; i++) {
        const ProcessRow process = make_row(top, gpu, &gpu->processes[i]);

        if (runs_on(row, process.process))
            columns_row(&table, &layout, top, grid, area_top(&area, 1), &process);
    }
}

void process_table_draw(Top *top, Grid *grid, Area area, List *list, size_t offset)
{
    const Area head = area_top(&area, 1);
    const ProcessColumn *column = &process_columns[top->sort];
    char text[TOP_TEXT_CAP];
    Layout layout;

    if (head.height == 0)
        return;
    columns_fit(&table, area.width, (Fit){0}, &layout);
    columns_head(&table, &layout, grid, head);
    const Area sorted = layout_cell(&layout, head, top->sort);
    grid_fill(grid, sorted, INK_TITLE, " ");
    snprintf(text, sizeof text, "%s%s", column->column.title, column->down != top->reverse ? "▾" : "▴");
    column_text(grid, sorted, column->column.right, INK_STRONG, text);
    for (size_t i = 0; i < ARRAY_LEN(process_columns); i++)
        top_zone(top, layout_cell(&layout, head, i), ZONE_SORT, (uint32_t)i);
    if (top->processes.len == 0)
        draw_empty(grid, area, top->snapshot->node->gpus, top->snapshot->node->gpu_count, top->filter);
    list_draw(top, list, grid, area, offset, 0, draw_row, &layout);
    list_mark(list, grid, head);
}

/* Above the table the filter and the tree, so that a part is not taken for the whole. */
void view_processes_draw(Top *top, Grid *grid, Area area)
{
    const Area line = area_top(&area, top->filter[0] || top->tree);
    int x = 0;

    if (top->filter[0])
        x = grid_textf(grid, line, x, 0, INK_WARN, "only those with '%s' (Escape shows all)  ", top->filter);
    grid_text(grid, line, x, 0, INK_DIM, top->tree ? "tree by job, pod, container and user" : "");
    process_table_draw(top, grid, area, &top->process_list, 0);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

/* Removed from the area; nothing where there is no text. */
static void draw_field(Grid *grid, Area *area, const char *name, const char *text)
{
    Area rest = *area;

    if (!text[0] || area->height == 0)
        return;
    grid_text(grid, *area, 0, 0, INK_DIM, name);
    area_left(&rest, 14);
    area_top(area, text_wrap(grid, rest, 0, INK_PLAIN, text));
}

/* The GPUs that it runs on. */
static void draw_places(const Top *top, Grid *grid, Area *area)
{
    char name[32], memory[HUMAN_MAX], text[TOP_TEXT_CAP];
    bool found = false;

    for (size_t i = 0; i < top->gpus.len; i++) {
        const GpuRow *row = &top->gpus.at[i];

        for (size_t k = 0; !row->instance && k < row->gpu->process_count; k++) {
            const NodeProcess *p = &row->gpu->processes[k];
            Str out;

            if (p->pid != top->target.pid)
                continue;
            str_init_room(&out, text, sizeof text);
            str_addf(&out, "%s, %s",
                     p->used_bytes != UINT64_MAX ? human_bytes(memory, (double)p->used_bytes) : "memory not reported",
                     p->graphics ? "graphics" : "compute");
            if (p->sm_percent != UINT8_MAX)
                str_addf(&out, ", utilisation %u %%", p->sm_percent);
            if (p->gpu_instance != DEVICE_NO_NUMBER)
                str_addf(&out, ", MIG %" PRIu32 "/%" PRIu32, p->gpu_instance, p->compute_instance);
            snprintf(name, sizeof name, "on GPU %" PRIu32, row->gpu->reading.device.index);
            draw_field(grid, area, name, text);
            found = true;
        }
    }
    if (!found)
        grid_text(grid, area_top(area, 1), 0, 0, INK_WARN,
                  "it is on no GPU any more; what follows is what was last seen");
}

void overlay_process_draw(Top *top, Grid *grid, Area area)
{
    const ProcessOwner *now = process_list_find(&top->snapshot->processes, top->target.pid);
    const ProcessOwner *owner = &top->target_owner;
    char text[TOP_TEXT_CAP * 2], label[TOP_TEXT_CAP], rss[HUMAN_MAX], age[HUMAN_MAX];
    uint64_t age_ns;

    if (now && now->start_ns == top->target.start_ns)
        top->target_owner = *now;
    snprintf(text, sizeof text, "%" PRIu32 " %s", top->target.pid, owner->name);
    draw_field(grid, &area, "process", text);
    draw_places(top, grid, &area);
    draw_field(grid, &area, "user", owner->user[0] ? owner->user : "-");
    draw_field(grid, &area, "owner", owner_label(owner, label)[0] ? label : "-");
    draw_field(grid, &area, "pod UID", owner->pod_uid);
    draw_field(grid, &area, "container", owner->container);
    draw_field(grid, &area, "runs for", read_age(top, owner, &age_ns) ? human_age(age, age_ns) : "");
    draw_field(grid, &area, "host memory", owner->rss_bytes ? human_bytes(rss, (double)owner->rss_bytes) : "");
    draw_field(grid, &area, "command", owner_command(owner)[0] ? owner_command(owner) : "-");
    grid_text(grid, area, 0, 1, INK_DIM, "Escape goes back");
}
