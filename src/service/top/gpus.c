/* SPDX-License-Identifier: Apache-2.0 */
/* All GPUs, in lines or in blocks, and the view of them with the processes below. */
#include "service/top/inside.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "service/who/who.h"

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void find_severities(const Top *top, GpuRow *row)
{
    row->severity = status_severity(top->incidents.at, top->incidents.len, row->gpu);
    for (size_t i = 0; i < top->incidents.len; i++) {
        const Incident *incident = top->incidents.at[i];

        if (status_severity(&incident, 1, row->gpu) > row->by_cause[incident->cause])
            row->by_cause[incident->cause] = incident->severity;
    }
}

void gpus_see(Top *top)
{
    const Node *node = top->snapshot->node;

    vec_clear(&top->gpus);
    for (size_t i = 0; node && i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        GpuRow row = {.gpu = gpu, .reading = &gpu->reading, .activity = &gpu->activity};

        find_severities(top, &row);
        for (size_t k = 0; k < incidents_wrong(top) && !row.incident; k++) /* the most urgent first */
            if (status_incident_on(top->incidents.at[k], gpu))
                row.incident = top->incidents.at[k];
        vec_push(&top->gpus, row);
        for (size_t k = 0; k < gpu->instance_count; k++) {
            row = (GpuRow){.gpu = gpu,
                           .reading = &gpu->instances[k],
                           .activity = node_activity(gpu, &gpu->instances[k]),
                           .instance = true,
                           .last = k + 1 == gpu->instance_count};
            vec_push(&top->gpus, row);
        }
    }
}

Ink gpu_cause_ink(const GpuRow *row, FaultCause cause, Ink fine)
{
    return row->by_cause[cause] > SEVERITY_INFO ? severity_ink(row->by_cause[cause]) : fine;
}

const GpuRow *top_followed(const Top *top)
{
    for (size_t i = 0; i < top->gpus.len; i++)
        if (device_equal(&top->gpus.at[i].reading->device, &top->followed.device))
            return &top->gpus.at[i];
    return top->gpus.len && top->followed.kind == THING_NONE ? &top->gpus.at[0] : NULL;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* " 3", the branch of an instance, or ">3" where something is wrong, with its ink. */
static void draw_number(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    const uint32_t index = row->gpu->reading.device.index;
    const bool wrong = row->severity > SEVERITY_INFO;
    const Ink ink = wrong ? severity_ink(row->severity) : row->gpu->state == GPU_UP ? INK_STRONG : INK_WARN;
    char text[16] = "?";

    if (row->instance) {
        grid_right(grid, cell, cell.width, 0, INK_DIM, text_branch(row->last));
        return;
    }
    if (index != DEVICE_NO_NUMBER)
        snprintf(text, sizeof text, "%" PRIu32, index);
    if (wrong)
        grid_text(grid, cell, 0, 0, ink, ">");
    grid_right(grid, cell, cell.width, 0, ink, text);
}

int gpu_draw_down(const Top *top, Grid *grid, Area line, int x, const NodeGpu *gpu)
{
    const bool bad = gpu->state != GPU_STARTING && gpu->state != GPU_RELEASED;
    const uint64_t now = top->snapshot->node->time_ns;
    char age[HUMAN_MAX], word[32];

    snprintf(word, sizeof word, "%s", gpu_states[gpu->state].key);
    for (char *c = word; *c; c++)
        *c = *c == '_' ? ' ' : (char)toupper((unsigned char)*c);
    x = grid_text(grid, line, x, 0, bad ? INK_BAD : INK_WARN, word);
    if (gpu->state_since_ns > 0 && now > gpu->state_since_ns)
        x = grid_textf(grid, line, x, 0, bad ? INK_BAD : INK_WARN, " for %s",
                       human_age(age, now - gpu->state_since_ns));
    return x;
}

const char *gpu_why(const NodeGpu *gpu)
{
    return gpu->why[0] ? gpu->why : gpu_states[gpu->state].text;
}

/* A short note: the problem and its action, or the activity with its cause; of work the reason of low clocks. */
static Ink write_note(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP * 2])
{
    const Maintenance *maintenance = top->snapshot->maintenance;
    const char *cause = activity_causes[row->activity->cause].key, *throttle = status_throttle(row->reading);
    const bool works = row->activity->word == ACTIVITY_WORKING;

    if (row->incident) {
        snprintf(out, TOP_TEXT_CAP * 2, "%s: %s", row->incident->class, fault_actions[row->incident->action].key);
        return severity_ink(row->incident->severity);
    }
    const bool maintained = maintenance && maintenance_covers(maintenance, &row->gpu->reading.device);
    if (maintained || row->gpu->drained) {
        strcpy(out, maintained ? "maintenance" : "drained");
        return INK_WARN;
    }
    if (works && throttle[0])
        cause = throttle;
    snprintf(out, TOP_TEXT_CAP * 2, "%s%s%s", activity_words[row->activity->word].key, cause[0] ? ": " : "", cause);
    return works ? INK_DIM : activity_ink(row->activity->word);
}

/* Who holds it, in at most so many columns. */
static void write_owner(const Top *top, const GpuRow *row, size_t width, char out[TOP_TEXT_CAP])
{
    char room[TOP_TEXT_CAP * 8]; /* long names of several owners; what is longer is not wanted */
    size_t count;
    const Holding *list = who_list(top->snapshot, row->gpu, row->instance ? row->reading : NULL, &count);
    Str text;

    str_init_room(&text, room, sizeof room);
    who_add_holders(list, count, width < TOP_TEXT_CAP ? width : TOP_TEXT_CAP - 1, &text);
    snprintf(out, TOP_TEXT_CAP, "%s", text.text);
}

const char *gpu_owner(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP])
{
    write_owner(top, row, TOP_TEXT_CAP / 2, out);
    return out;
}

const char *instance_name(const Reading *reading, char out[TOP_TEXT_CAP])
{
    const Device *d = &reading->device;

    if (d->compute_instance != DEVICE_NO_NUMBER)
        snprintf(out, TOP_TEXT_CAP, "%s %" PRIu32 "/%" PRIu32, reading->profile, d->gpu_instance, d->compute_instance);
    else
        snprintf(out, TOP_TEXT_CAP, "%s", reading->profile);
    return out;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void draw_model(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    const Device *device = &row->gpu->reading.device;
    char text[TOP_TEXT_CAP];

    if (row->instance)
        grid_text(grid, cell, 0, 0, INK_PLAIN, instance_name(row->reading, text));
    else if (!device->name[0] && device->has_pci)
        grid_text(grid, cell, 0, 0, INK_PLAIN, pci_format(device->pci, PCI_FORM_SYSFS, text));
    else
        grid_text(grid, cell, 0, 0, INK_PLAIN, status_model(device));
}

static void draw_owner(Top *top, Grid *grid, Area cell, const GpuRow *row)
{
    char text[TOP_TEXT_CAP];

    write_owner(top, row, (size_t)cell.width, text);
    grid_text(grid, cell, 0, 0, INK_PLAIN, text);
}

static void draw_note(Top *top, Grid *grid, Area cell, const GpuRow *row)
{
    char text[TOP_TEXT_CAP * 2];
    const Ink ink = write_note(top, row, text);

    if (grid_text_width(text) > cell.width)
        text[strcspn(text, ":")] = '\0'; /* the word without its cause or action */
    grid_text(grid, cell, 0, 0, ink, text);
}

/* SM activity with a mark at the utilisation of a GPU, or the utilisation where SM activity is not reported. */
static void draw_busy_bar(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    const double util = row->instance ? (double)NAN : value_base(row->reading, METRIC_GPU_UTIL);
    const double sm = value_base(row->reading, METRIC_PROF_SM_ACTIVE);

    if (value_is_supported(row->reading, METRIC_PROF_SM_ACTIVE))
        plot_bar(grid, cell, INK_BAR, (float)sm, (float)util);
    else
        plot_bar(grid, cell, INK_SERIES_A, (float)util, (float)NAN);
}

static void draw_memory_bar(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    const double total = reading_value(row->reading, METRIC_FB_TOTAL),
                 used = reading_value(row->reading, METRIC_FB_USED);

    plot_bar(grid, cell, INK_SERIES_B, total > 0 ? (float)(used / total) : (float)NAN, (float)NAN);
}

enum {
    COLUMN_NUMBER,
    COLUMN_MODEL,
    COLUMN_BUSY,
    COLUMN_UTIL = 4,
    COLUMN_MEMORY = 8,
    COLUMN_POWER = 10,
    COLUMN_TEMP,
    COLUMN_ECC = 15,
    COLUMN_OWNER = 17,
    NOTE_WISH_MOST = 32, /* columns of the state that go before the model, the owner and the rest */
};

/* A drawing, a share or a text. */
typedef struct GpuColumn {
    Column column;
    void (*draw)(Top *top, Grid *grid, Area cell, const GpuRow *row);
    MetricId share;
    ValueText *text; /* of a GPU, not of an instance, but for the memory */
} GpuColumn;

static const GpuColumn columns[] = {
    [COLUMN_NUMBER] = {{"gpu", "GPU", 3, 0, 0, true}, draw_number, METRIC_END, NULL},
    [COLUMN_MODEL] = {{"model", "MODEL", 14, 22, 6, false}, draw_model, METRIC_END, NULL},
    [COLUMN_BUSY] = {{"sm", "SM", 4, 0, 0, true}, NULL, METRIC_PROF_SM_ACTIVE, NULL},
    {{"sm-bar", "", 6, 16, 3, false}, draw_busy_bar, METRIC_END, NULL},
    [COLUMN_UTIL] = {{"util", "UTIL", 4, 0, 0, true}, NULL, METRIC_GPU_UTIL, NULL},
    {{"tensor", "TENS", 4, 0, 4, true}, NULL, METRIC_PROF_PIPE_TENSOR_ACTIVE, NULL},
    {{"dram", "DRAM", 4, 0, 4, true}, NULL, METRIC_PROF_DRAM_ACTIVE, NULL},
    {{"occupancy", "OCC", 4, 0, 8, true}, NULL, METRIC_PROF_SM_OCCUPANCY, NULL},
    [COLUMN_MEMORY] = {{"memory", "MEMORY", 11, 0, 0, true}, NULL, METRIC_END, value_memory},
    {{"memory-bar", "", 6, 14, 3, false}, draw_memory_bar, METRIC_END, NULL},
    [COLUMN_POWER] = {{"power", "POWER", 9, 0, 1, true}, NULL, METRIC_END, value_power},
    [COLUMN_TEMP] = {{"temp", "TEMP", 7, 0, 1, true}, NULL, METRIC_END, value_temp},
    {{"clock", "MHz", 4, 0, 5, true}, NULL, METRIC_END, value_clock},
    {{"pcie", "PCIe GB/s", 9, 0, 7, true}, NULL, METRIC_END, value_pcie},
    {{"nvlink", "NVL GB/s", 8, 0, 7, true}, NULL, METRIC_END, value_nvlink},
    [COLUMN_ECC] = {{"ecc", "ECC", 12, 14, 9, false}, NULL, METRIC_END, value_ecc},
    {{"spark", "10 MIN", 12, 24, 10, false}, plot_spark_of, METRIC_END, NULL},
    [COLUMN_OWNER] = {{"owner", "OWNER", 12, 28, 6, false}, draw_owner, METRIC_END, NULL},
    {{"note", "STATE", 11, 200, 2, false}, draw_note, METRIC_END, NULL},
};

/* What engine/activity and engine/health say of it. */
static Ink find_cell_ink(const GpuRow *row, size_t column)
{
    switch (column) {
    case COLUMN_UTIL:
        if (value_is_supported(row->reading, METRIC_PROF_SM_ACTIVE))
            return INK_PLAIN;
        return activity_ink(row->activity->word);
    case COLUMN_BUSY:
        return activity_ink(row->activity->word);
    case COLUMN_TEMP:
        return gpu_cause_ink(row, CAUSE_THERMAL, INK_PLAIN);
    case COLUMN_ECC:
        return gpu_cause_ink(row, CAUSE_MEMORY, INK_DIM);
    default:
        return INK_PLAIN;
    }
}

static void draw_cell(Top *top, Grid *grid, Area cell, size_t column, const void *context)
{
    const GpuColumn *c = &columns[column];
    const GpuRow *row = context;
    const Ink ink = find_cell_ink(row, column);
    char text[VALUE_CAP] = "";

    if (c->draw)
        c->draw(top, grid, cell, row);
    else if (c->share != METRIC_END)
        value_percent(text, value_base(row->reading, c->share));
    else if (!row->instance || column == COLUMN_MEMORY)
        c->text(text, row->reading);
    column_text(grid, cell, c->column.right, strcmp(text, "-") == 0 ? INK_DIM : ink, text);
}

static const Table table = {columns, sizeof columns[0], ARRAY_LEN(columns), draw_cell};

/* A GPU that is not up has no values: its state, since when, the action and the reason. */
static void draw_row(Top *top, Grid *grid, Area area, size_t i, const void *context)
{
    const GpuRow *row = &top->gpus.at[i];
    const Layout *layout = context;
    char text[TOP_TEXT_CAP * 2], owner[TOP_TEXT_CAP];
    Area rest = area;

    if (row->instance || row->gpu->state == GPU_UP) {
        columns_row(&table, layout, top, grid, area, row);
        if (row->instance && !top->owners_shown) { /* no room: over the columns without values of its own */
            area_left(&area, layout->x[COLUMN_POWER]);
            grid_fill(grid, area, INK_DIM, " ");
            const char *name = layout->width[COLUMN_MODEL] > 0 ? "" : instance_name(row->reading, text);
            const int x = grid_textf(grid, area, 0, 0, INK_DIM, "%s ", name);
            area_left(&area, x);
            write_owner(top, row, (size_t)area.width, owner);
            grid_text(grid, area, 0, 0, INK_DIM, owner);
        }
        return;
    }
    draw_number(top, grid, layout_cell(layout, area, COLUMN_NUMBER), row);
    draw_model(top, grid, layout_cell(layout, area, COLUMN_MODEL), row);
    area_left(&rest, layout->x[COLUMN_BUSY]);
    int x = gpu_draw_down(top, grid, rest, 0, row->gpu);
    if (row->incident) {
        const Ink ink = write_note(top, row, text);
        x = grid_text(grid, rest, x + 2, 0, ink, text);
    }
    grid_text(grid, rest, x + 2, 0, INK_DIM, gpu_why(row->gpu));
}

/* Columns without a value on any device, and the longest state. */
static Fit find_fit(const Top *top)
{
    uint32_t wanted = 0;
    Fit fit = {0};

    for (size_t i = 0; i < top->gpus.len; i++) {
        const GpuRow *row = &top->gpus.at[i];
        char text[TOP_TEXT_CAP * 2];

        for (size_t k = 0; k < ARRAY_LEN(columns); k++)
            wanted |= (uint32_t)(columns[k].share == METRIC_END || value_is_supported(row->reading, columns[k].share))
                      << k;
        if (row->gpu->state != GPU_UP)
            continue;
        write_note(top, row, text);
        const int width = (int)strlen(text);
        fit.last = width > fit.last ? width : fit.last;
    }
    fit.last = fit.last < NOTE_WISH_MOST ? fit.last : NOTE_WISH_MOST;
    fit.hidden = top->gpus.len > 0 ? ~wanted : 0;
    return fit;
}

/* The columns for a width, and their heads. */
static void draw_head(Top *top, Grid *grid, Area line, Layout *ret_layout)
{
    columns_fit(&table, line.width, find_fit(top), ret_layout);
    columns_head(&table, ret_layout, grid, line);
    top->owners_shown = ret_layout->width[COLUMN_OWNER] > 0;
}

void gpu_draw_instances(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    Layout layout;

    draw_head(top, grid, area_top(&area, 1), &layout);
    for (size_t i = 0; i < top->gpus.len && area.height > 0; i++)
        if (top->gpus.at[i].instance && top->gpus.at[i].gpu == row->gpu)
            draw_row(top, grid, area_top(&area, 1), i, &layout);
}

/* --- the view ----------------------------------------------------------------------------------------------------- */

enum { PROCESSES_LEAST = 4, PLOTS_LEAST = 7, REMARK_LINES = 2, REMARK_LEAST = 8 };

static int min_lines(int a, int b)
{
    return a < b ? a : b;
}

/* The GPU under the cursor, whose plots fill empty lines. */
static const GpuRow *find_plotted(const Top *top)
{
    const size_t selected = top->gpu_list.selected;

    if (selected < top->gpus.len)
        return &top->gpus.at[selected];
    const ProcessRow *process = top_process(top);
    for (size_t i = 0; process && i < top->gpus.len; i++)
        if (top->gpus.at[i].gpu == process->gpu && !top->gpus.at[i].instance)
            return &top->gpus.at[i];
    return &top->gpus.at[0];
}

static void draw_gpus(Top *top, Grid *grid, Area area)
{
    const Area head = area_top(&area, 1);
    const size_t selected = top->gpu_list.selected, count = top->gpus.len;
    List list = {.count = count, .first = top->gpu_list.first, .selected = selected, .blurred = selected >= count};
    Layout layout;

    draw_head(top, grid, head, &layout);
    if (count == 0)
        grid_text(grid, area, 1, 0, INK_DIM, "no GPU is known on this node");
    list_draw(top, &list, grid, area, 0, 0, draw_row, &layout);
    list_mark(&list, grid, head);
    top->gpu_list.first = list.first;
    top->gpu_list.page = list.page;
}

static const WhyVerdict *find_notice(const GpuRow *row)
{
    const Reading *instance = row->instance ? row->reading : NULL;

    return !row->incident && row->gpu->state == GPU_UP && node_is_noticed(row->gpu, instance)
               ? node_notice(row->gpu, instance)
               : NULL;
}

/* What takes the time of the selected device, or of the first that is told of, and what to do; nothing where all work.
 */
static void draw_remark(const Top *top, Grid *grid, Area *area)
{
    const GpuRow *row = find_plotted(top);

    for (size_t i = 0; i < top->gpus.len && !find_notice(row); i++)
        row = &top->gpus.at[i];
    const WhyVerdict *verdict = find_notice(row);
    if (!verdict || area->height < REMARK_LEAST)
        return;
    const char *advice = why_causes[verdict->cause].advice;
    char name[TOP_TEXT_CAP] = "";
    Area rest = *area;
    rest.height = REMARK_LINES;
    area_left(&rest, grid_textf(grid, rest, 0, 0, activity_ink(row->activity->word),
                                "GPU %" PRIu32 "%s%s %s: ", row->gpu->reading.device.index, row->instance ? " " : "",
                                row->instance ? instance_name(row->reading, name) : "",
                                activity_words[row->activity->word].key));
    area_top(area, text_wrap(grid, rest, 0, INK_PLAIN, verdict->text));
    if (!advice[0])
        return;
    rest = *area;
    rest.height = REMARK_LINES;
    area_left(&rest, grid_text(grid, rest, 0, 0, INK_STRONG, "→ DO "));
    area_top(area, text_wrap(grid, rest, 0, INK_PLAIN, advice));
}

/* The lines that some processes and the devices leave are for the plots. */
void view_gpus_draw(Top *top, Grid *grid, Area area)
{
    const ProcessRows *processes = top_processes(top, VIEW_GPUS);
    const int rows = (int)processes->len, listed = top->list_processes ? 1 + (rows > 0 ? rows : 1) : 0;
    const size_t selected = top->gpu_list.selected, devices = top->gpus.len;
    const bool framed = panel_fits(grid, area, (int)devices + 1 + listed + 2 * PANEL_EDGES);
    const int edges = framed ? PANEL_EDGES : 0, wish = listed ? listed + edges : 0;
    const int few = min_lines(wish, area.height / 4 > PROCESSES_LEAST ? area.height / 4 : PROCESSES_LEAST);
    if (status_no_driver(top->snapshot->node)) /* which the head says */
        return;
    List list = {.count = processes->len, .first = top->jobs_first, .blurred = selected < devices};

    Area place = area_top(&area, min_lines((devices > 0 ? (int)devices : 1) + 1 + edges, area.height - few));
    draw_gpus(top, grid, framed ? panel_open(grid, place, "GPUs") : place);
    if (devices > 0)
        draw_remark(top, grid, &area);
    const int lines = min_lines(wish, area.height), left = area.height - lines;
    if (left >= PLOTS_LEAST && devices > 0 && plots_there(top, find_plotted(top)))
        plots_draw(top, grid, area_top(&area, left), find_plotted(top));
    if (lines == 0)
        return;
    list.selected = list.blurred ? 0 : selected - devices;
    place = area_top(&area, lines);
    if (framed)
        place = panel_open(grid, place, top->tree ? "Jobs" : "Processes");
    process_table_draw(top, grid, place, &list, devices, processes);
    top->jobs_first = list.first;
}
