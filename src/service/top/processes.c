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
static bool read_age(const Top *top, uint64_t start_ns, uint64_t *ret_ns)
{
    const uint64_t boot = top->snapshot->boot_real_ns, now = top->real_ns;

    if (boot == 0 || start_ns == 0 || boot + start_ns > now)
        return false;
    *ret_ns = now - boot - start_ns;
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
                      .used_bytes = (double)NAN,
                      .rss_bytes = (double)NAN,
                      .gpus = UINT64_C(1) << (gpu - top->snapshot->node->gpus)};

    row.owner = process_list_find(&top->snapshot->processes, process->pid);
    if (row.owner) {
        row.cpu_percent = top->cpu.at[row.owner - top->snapshot->processes.at];
        row.rss_bytes = row.owner->rss_bytes ? (double)row.owner->rss_bytes : (double)NAN;
        row.start_ns = row.owner->start_ns;
    }
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

/* By the chosen column; what is alike in it by pid and GPU. */
static int compare_rows(const void *left, const void *right, void *context)
{
    const Top *top = context;
    const ProcessRow *a = left, *b = right;
    int order = process_column_compare(top->sort, a, b);

    if (process_columns[top->sort].down != top->reverse)
        order = -order;
    if (order == 0)
        order = number_compare_u64(a->process->pid, b->process->pid);
    return order ? order : number_compare_u64((uintptr_t)a->gpu, (uintptr_t)b->gpu);
}

/* Those of a group together. */
static int compare_members(const void *left, const void *right, void *context)
{
    const ProcessRow *a = left, *b = right;
    const int order = strcmp(a->label, b->label);

    return order ? order : compare_rows(left, right, context);
}

static void sort_rows(Top *top, ProcessRows *rows, int (*compare)(const void *, const void *, void *))
{
    if (rows->len > 0)
        qsort_r(rows->at, rows->len, sizeof *rows->at, compare, top);
}

static double add_known(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

/* The head of the group whose rows begin at `first` of the sorted ones. */
static ProcessRow make_group(const Top *top, size_t first)
{
    const ProcessRows *rows = &top->spare;
    ProcessRow head = rows->at[first];
    size_t i = first + 1;

    for (; i < rows->len && strcmp(rows->at[i].label, head.label) == 0; i++) {
        const ProcessRow *row = &rows->at[i];

        head.used_bytes = add_known(head.used_bytes, row->used_bytes);
        head.util_percent = add_known(head.util_percent, row->util_percent);
        head.cpu_percent = add_known(head.cpu_percent, row->cpu_percent);
        head.rss_bytes = add_known(head.rss_bytes, row->rss_bytes);
        head.start_ns = head.start_ns && row->start_ns > head.start_ns ? head.start_ns : row->start_ns;
        head.gpus |= row->gpus;
    }
    head.util_percent /= __builtin_popcountll(head.gpus);
    head.group = true;
    head.first = first;
    head.members = i - first;
    return head;
}

/* Groups sorted as processes are, in `jobs`; each with its processes behind it in `processes`. A group of one is its
 * process. */
static void group_rows(Top *top)
{
    vec_clear(&top->jobs);
    sort_rows(top, &top->spare, compare_members);
    for (size_t i = 0; i < top->spare.len; i += top->jobs.at[top->jobs.len - 1].members)
        vec_push(&top->jobs, make_group(top, i));
    sort_rows(top, &top->jobs, compare_rows);
    for (size_t i = 0; i < top->jobs.len; i++) {
        ProcessRow *job = &top->jobs.at[i];

        if (job->members == 1) {
            *job = top->spare.at[job->first];
            job->label[0] = '\0';
        }
        vec_push(&top->processes, *job);
        for (size_t k = 0; k < job->members; k++) {
            vec_push(&top->processes, top->spare.at[job->first + k]);
            top->processes.at[top->processes.len - 1].last = k + 1 == job->members;
        }
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
    if (top->tree) {
        group_rows(top);
        return;
    }
    sort_rows(top, &top->spare, compare_rows);
    for (size_t i = 0; i < top->spare.len; i++)
        vec_push(&top->processes, top->spare.at[i]);
}

const ProcessRows *top_processes(const Top *top, ViewId view)
{
    return view == VIEW_GPUS && top->tree ? &top->jobs : &top->processes;
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
    const ProcessRows *rows = top_processes(top, top->view);

    if ((!below && top->view != VIEW_PROCESSES) || row >= rows->len || rows->at[row].group)
        return NULL;
    return &rows->at[row];
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
        return row->group ? (double)NAN : row->process->pid;
    case COLUMN_GPU: /* then by GPU instance */
        return (double)row->gpu->reading.device.index * 1e10 + row->process->gpu_instance;
    case COLUMN_UTIL:
        return row->util_percent;
    case COLUMN_MEMORY:
        return row->used_bytes;
    case COLUMN_CPU:
        return row->cpu_percent;
    case COLUMN_RSS:
        return row->rss_bytes;
    case COLUMN_AGE: /* the start counts from the boot, unknown ones are the oldest */
        return -(double)row->start_ns;
    default:
        return (double)NAN;
    }
}

/* "0-7", "0,2", or "5 GPUs" where that is too long. */
static const char *write_gpus(const Top *top, uint64_t gpus, char out[CELL_CAP])
{
    const NodeGpu *all = top->snapshot->node->gpus;
    const int first = __builtin_ctzll(gpus), count = __builtin_popcountll(gpus), last = 63 - __builtin_clzll(gpus);
    int len = snprintf(out, CELL_CAP, "%" PRIu32, all[first].reading.device.index);

    if (count > 2 && last - first + 1 == count)
        snprintf(out + len, (size_t)(CELL_CAP - len), "-%" PRIu32, all[last].reading.device.index);
    for (int i = first + 1; i <= last && last - first + 1 != count && len < CELL_CAP; i++)
        if (gpus >> i & 1)
            len += snprintf(out + len, (size_t)(CELL_CAP - len), ",%" PRIu32, all[i].reading.device.index);
    if (strlen(out) > (size_t)process_columns[COLUMN_GPU].column.width)
        snprintf(out, CELL_CAP, "%d GPUs", count);
    return out;
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
        if (row->group && top)
            return write_gpus(top, row->gpus, out);
        snprintf(out, CELL_CAP, index == DEVICE_NO_NUMBER ? "?" : "%" PRIu32, index);
        if (index != DEVICE_NO_NUMBER && p->gpu_instance != DEVICE_NO_NUMBER && p->compute_instance != DEVICE_NO_NUMBER)
            snprintf(out, CELL_CAP, "%" PRIu32 ":%" PRIu32 "/%" PRIu32, index, p->gpu_instance, p->compute_instance);
        return out;
    case COLUMN_TYPE:
        return p->graphics ? "G" : "C";
    case COLUMN_AGE:
        return read_age(top, row->start_ns, &age_ns) ? human_age(out, age_ns) : "";
    case COLUMN_OWNER:
        return row->group ? row->label : owner_label(row->owner, out);
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

    if (column == COLUMN_PID && row->group)
        snprintf(room, sizeof room, "%zu proc", row->members);
    else if (!isnan(number) && format == CELL_BYTES)
        human_bytes(room, number);
    else if (!isnan(number))
        snprintf(room, sizeof room, format == CELL_PERCENT ? "%.0f%%" : "%.0f", number);
    const bool dim = !text[0] || column == COLUMN_TYPE || (row->group && column == COLUMN_COMMAND);
    const Ink ink = dim ? INK_DIM : row->group && column == COLUMN_OWNER ? INK_STRONG : INK_PLAIN;
    if (column == COLUMN_COMMAND && row->group && !top->labels_shown)
        area_left(&cell, grid_text(grid, cell, 0, 0, INK_STRONG, row->label) + 1);
    else if (column == COLUMN_COMMAND && !row->group && row->label[0])
        area_left(&cell, grid_text(grid, cell, 0, 0, INK_DIM, text_branch(row->last)) + 1);
    if (!text[0])
        text = column == COLUMN_COMMAND ? "not visible here" : "-";
    column_text(grid, cell, process_columns[column].column.right, ink, text);
}

static const Table table = {process_columns, sizeof process_columns[0], ARRAY_LEN(process_columns), draw_cell};

typedef struct ProcessLines {
    const ProcessRows *rows;
    Layout layout;
} ProcessLines;

static void draw_row(Top *top, Grid *grid, Area line, size_t i, const void *context)
{
    const ProcessLines *lines = context;

    columns_row(&table, &lines->layout, top, grid, line, &lines->rows->at[i]);
}

static void draw_head(Top *top, Grid *grid, Area line, Layout *ret)
{
    columns_fit(&table, line.width, (Fit){0}, ret);
    columns_head(&table, ret, grid, line);
    top->labels_shown = ret->width[COLUMN_OWNER] > 0;
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
    draw_head(top, grid, head, &layout);
    top_zone(top, head, ZONE_KEY, '3');
    for (size_t i = 0; i < gpu->process_count && area.height > 0; i++) {
        const ProcessRow process = make_row(top, gpu, &gpu->processes[i]);

        if (runs_on(row, process.process))
            columns_row(&table, &layout, top, grid, area_top(&area, 1), &process);
    }
}

void process_table_draw(Top *top, Grid *grid, Area area, List *list, size_t offset, const ProcessRows *rows)
{
    const Area head = area_top(&area, 1);
    const ProcessColumn *column = &process_columns[top->sort];
    char text[TOP_TEXT_CAP];
    ProcessLines lines = {.rows = rows};

    if (head.height == 0)
        return;
    draw_head(top, grid, head, &lines.layout);
    const Area sorted = layout_cell(&lines.layout, head, top->sort);
    grid_fill(grid, sorted, INK_TITLE, " ");
    snprintf(text, sizeof text, "%s%s", column->column.title, column->down != top->reverse ? "▾" : "▴");
    column_text(grid, sorted, column->column.right, INK_STRONG, text);
    for (size_t i = 0; i < ARRAY_LEN(process_columns); i++)
        top_zone(top, layout_cell(&lines.layout, head, i), ZONE_SORT, (uint32_t)i);
    if (rows->len == 0)
        draw_empty(grid, area, top->snapshot->node->gpus, top->snapshot->node->gpu_count, top->filter);
    list_draw(top, list, grid, area, offset, 0, draw_row, &lines);
    list_mark(list, grid, head);
}

/* Above the table the filter, so that a part is not taken for the whole. */
void view_processes_draw(Top *top, Grid *grid, Area area)
{
    if (panel_fits(grid, area, PANEL_MANY / 2))
        area = panel_open(grid, area, "Processes");
    const Area line = area_top(&area, top->filter[0] != '\0');
    if (top->filter[0])
        grid_textf(grid, line, 0, 0, INK_WARN, "only those with '%s' (Escape shows all)", top->filter);
    process_table_draw(top, grid, area, &top->process_list, 0, &top->processes);
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
    draw_field(grid, &area, "runs for", read_age(top, owner->start_ns, &age_ns) ? human_age(age, age_ns) : "");
    draw_field(grid, &area, "host memory", owner->rss_bytes ? human_bytes(rss, (double)owner->rss_bytes) : "");
    draw_field(grid, &area, "command", owner_command(owner)[0] ? owner_command(owner) : "-");
    grid_text(grid, area, 0, 1, INK_DIM, "Escape goes back");
}
