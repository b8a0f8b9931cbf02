/* SPDX-License-Identifier: Apache-2.0 */
/* All GPUs, in lines or in blocks, and the view of them with the processes below. */
#include "service/top/inside.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/top/value.h"

/* " 3" or ">3" where something is wrong, with its ink. */
static void gpu_number(Grid *grid, Area cell, const GpuRow *row)
{
    const uint32_t index = row->gpu->reading.device.index;
    const bool wrong = row->wrong && row->severity > SEVERITY_INFO;
    char text[16] = "?";

    if (index != DEVICE_NO_NUMBER)
        snprintf(text, sizeof text, "%" PRIu32, index);
    const Ink ink = wrong ? severity_ink(row->severity) : row->gpu->state == GPU_UP ? INK_STRONG : INK_WARN;
    if (wrong)
        grid_text(grid, cell, 0, 0, ink, ">");
    grid_right(grid, cell, cell.width, 0, ink, text);
}

const char *gpu_down(const Top *top, const NodeGpu *gpu, char out[TOP_TEXT_CAP * 2])
{
    const uint64_t now = top->snapshot->node->time_ns;
    char age[32], word[32];
    size_t i = 0;

    for (const char *key = gpu_state_key(gpu->state); key[i] && i + 1 < sizeof word; i++)
        word[i] = key[i] == '_' ? ' ' : (char)toupper((unsigned char)key[i]);
    word[i] = '\0';
    if (gpu->state_since_ns > 0 && now > gpu->state_since_ns)
        snprintf(out, TOP_TEXT_CAP * 2, "%s for %s", word, text_age(now - gpu->state_since_ns, age));
    else
        snprintf(out, TOP_TEXT_CAP * 2, "%s", word);
    return out;
}

static bool in_maintenance(const Top *top, const GpuRow *row)
{
    const Maintenance *maintenance = top->snapshot->maintenance;

    return maintenance && maintenance_covers(maintenance, &row->gpu->reading.device);
}

/* The note of a GPU without a problem. */
static const char *quiet_note(const Top *top, const GpuRow *row, Ink *ret_ink)
{
    const char *throttle = value_throttle(row->reading, ret_ink);

    if (in_maintenance(top, row)) {
        *ret_ink = INK_WARN;
        return "maintenance";
    }
    if (row->gpu->drained) {
        *ret_ink = INK_WARN;
        return "drained";
    }
    if (*ret_ink == INK_BAD || (row->activity->word == ACTIVITY_WORKING && throttle[0]))
        return throttle;
    *ret_ink = row->activity->word == ACTIVITY_WORKING ? INK_DIM : activity_ink(row->activity->word);
    return activity_key(row->activity->word);
}

/* A short note: the problem and its action, the reason of low clocks, or the activity; "" none. */
static const char *gpu_note(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP * 2], Ink *ret_ink)
{
    out[0] = '\0';
    *ret_ink = INK_DIM;
    if (row->instance) {
        gpu_owner(top, row, out);
    } else if (row->incident) {
        *ret_ink = severity_ink(row->incident->severity);
        snprintf(out, TOP_TEXT_CAP * 2, "%s: %s", row->incident->class, fault_actions[row->incident->action].key);
    } else if (row->wrong) {
        const char *text = strstr(row->wrong, ": ");
        *ret_ink = severity_ink(row->severity);
        snprintf(out, TOP_TEXT_CAP * 2, "%s", text ? text + 2 : row->wrong);
    } else {
        const char *cause = activity_cause_key(row->activity->cause), *note = quiet_note(top, row, ret_ink);
        const bool why = cause[0] && strcmp(note, activity_key(row->activity->word)) == 0;
        snprintf(out, TOP_TEXT_CAP * 2, "%s%s%s", note, why ? ": " : "", why ? cause : "");
    }
    return out;
}

const char *gpu_owner(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP])
{
    const OwnerTable *owners = top->snapshot->owners;
    size_t count = 0;

    out[0] = '\0';
    for (size_t i = 0; owners && i < owners->len; i++)
        if (owner_device_is(&owners->at[i].device, &row->gpu->reading, row->instance ? row->reading : NULL) &&
            count++ == 0)
            snprintf(out, TOP_TEXT_CAP, "%.40s/%.50s", owners->at[i].namespace, owners->at[i].pod);
    if (count > 1)
        snprintf(out + strlen(out), TOP_TEXT_CAP - strlen(out), " +%zu", count - 1);
    for (size_t i = 0; !out[0] && i < row->gpu->process_count; i++) {
        const NodeProcess *p = &row->gpu->processes[i];

        if (row->instance && (p->gpu_instance != row->reading->device.gpu_instance ||
                              p->compute_instance != row->reading->device.compute_instance))
            continue;
        owner_label(process_list_find(&top->snapshot->processes, p->pid), out);
    }
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

/* --- lines ---------------------------------------------------------------------------------------------------------
 */

/* A column draws itself, or shows a text, or a share. */
typedef struct GpuColumn {
    Column column;
    void (*draw)(Top *top, Grid *grid, Area cell, const GpuRow *row);
    char *(*text)(char out[VALUE_CAP], const Reading *reading); /* of a GPU, not of an instance */
    MetricId share;
} GpuColumn;

static void draw_right(Grid *grid, Area cell, Ink ink, const char *text)
{
    column_text(grid, cell, true, text[0] == '-' && !text[1] ? INK_DIM : ink, text);
}

static char *clock_text(char out[VALUE_CAP], const Reading *reading)
{
    const double mhz = value_raw(reading, METRIC_SM_CLOCK);

    snprintf(out, VALUE_CAP, isfinite(mhz) ? "%.0f" : "-", mhz);
    return out;
}

static char *pcie_text(char out[VALUE_CAP], const Reading *reading)
{
    const double received = value_pcie(reading, false), sent = value_pcie(reading, true);
    char in[VALUE_CAP], other[VALUE_CAP];

    value_gbs(in, received);
    value_gbs(other, sent);
    snprintf(out, VALUE_CAP, isfinite(received) || isfinite(sent) ? "%.30s/%.30s" : "-", in, other);
    return out;
}

static char *nvlink_text(char out[VALUE_CAP], const Reading *reading)
{
    return value_gbs(out, value_nvlink_all(reading));
}

static void draw_number(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    if (row->instance)
        grid_right(grid, cell, cell.width, 0, INK_DIM, text_branch(grid, row->last));
    else
        gpu_number(grid, cell, row);
}

static void draw_model(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    const Device *device = &row->gpu->reading.device;
    char text[TOP_TEXT_CAP];

    if (row->instance)
        grid_text(grid, cell, 0, 0, INK_PLAIN, instance_name(row->reading, text));
    else if (!device->name[0] && device->has_pci)
        grid_text(grid, cell, 0, 0, INK_PLAIN, pci_format(device->pci, PCI_FORM_SYSFS, text));
    else
        grid_text(grid, cell, 0, 0, INK_PLAIN, value_model(device));
}

static void draw_busy(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    draw_right(grid, cell, activity_ink(row->activity->word), value_percent(text, value_busy(row->reading)));
}

static void draw_busy_bar(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    plot_bar(grid, cell, INK_BAR, (float)value_busy(row->reading), (float)value_util(row->reading));
}

static void draw_memory(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    draw_right(grid, cell, INK_PLAIN, value_memory(text, row->reading));
}

static void draw_memory_bar(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    plot_bar(grid, cell, INK_SERIES_B, (float)value_memory_share(row->reading), (float)NAN);
}

static void draw_temp(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    if (!row->instance)
        draw_right(grid, cell, value_temp_ink(row->reading), value_temp(text, row->reading));
}

static void draw_ecc(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];
    Ink ink;

    if (!row->instance)
        grid_text(grid, cell, 0, 0, (value_ecc(text, row->reading, &ink), ink), text);
}

static void draw_spark(Top *top, Grid *grid, Area cell, const GpuRow *row)
{
    plot_spark_of(top, grid, cell, row->reading);
}

static void draw_note(Top *top, Grid *grid, Area cell, const GpuRow *row)
{
    char text[TOP_TEXT_CAP * 2];
    Ink ink;

    gpu_note(top, row, text, &ink);
    if (!row->wrong && !row->instance && row->activity->cause != ACTIVITY_CAUSE_NONE &&
        grid_text_width(text) > cell.width)
        text[strcspn(text, ":")] = '\0'; /* the word without its cause */
    grid_text(grid, cell, 0, 0, ink, text);
}

enum { COLUMN_NUMBER, COLUMN_MODEL, COLUMN_BUSY };

static const GpuColumn columns[] = {
    {{"gpu", "GPU", 3, 0, 0, true}, draw_number, NULL, METRIC_END},
    {{"model", "MODEL", 12, 22, 6, false}, draw_model, NULL, METRIC_END},
    {{"sm", "SM", 4, 0, 0, true}, draw_busy, NULL, METRIC_END},
    {{"sm-bar", "", 6, 16, 3, false}, draw_busy_bar, NULL, METRIC_END},
    {{"util", "UTIL", 4, 0, 0, true}, NULL, NULL, METRIC_GPU_UTIL},
    {{"tensor", "TENS", 4, 0, 4, true}, NULL, NULL, METRIC_PROF_PIPE_TENSOR_ACTIVE},
    {{"dram", "DRAM", 4, 0, 4, true}, NULL, NULL, METRIC_PROF_DRAM_ACTIVE},
    {{"occupancy", "OCC", 4, 0, 8, true}, NULL, NULL, METRIC_PROF_SM_OCCUPANCY},
    {{"memory", "MEMORY", 11, 0, 0, true}, draw_memory, NULL, METRIC_END},
    {{"memory-bar", "", 6, 14, 3, false}, draw_memory_bar, NULL, METRIC_END},
    {{"power", "POWER", 9, 0, 1, true}, NULL, value_power, METRIC_END},
    {{"temp", "TEMP", 7, 0, 1, true}, draw_temp, NULL, METRIC_END},
    {{"clock", "MHz", 4, 0, 5, true}, NULL, clock_text, METRIC_END},
    {{"pcie", "PCIe GB/s", 9, 0, 7, true}, NULL, pcie_text, METRIC_END},
    {{"nvlink", "NVLink", 6, 0, 7, true}, NULL, nvlink_text, METRIC_END},
    {{"ecc", "ECC", 12, 14, 9, false}, draw_ecc, NULL, METRIC_END},
    {{"spark", "SM, 10 MIN", 12, 24, 10, false}, draw_spark, NULL, METRIC_END},
    {{"note", "STATE", 11, 200, 2, false}, draw_note, NULL, METRIC_END},
};

static void draw_cell(Top *top, Grid *grid, Area cell, const GpuColumn *column, const GpuRow *row)
{
    char text[VALUE_CAP];

    if (column->draw)
        column->draw(top, grid, cell, row);
    else if (column->share != METRIC_END)
        draw_right(grid, cell, INK_PLAIN, value_percent(text, value_base(row->reading, column->share)));
    else if (!row->instance)
        draw_right(grid, cell, INK_PLAIN, column->text(text, row->reading));
}

static void fit_columns(int width, Layout *layout)
{
    layout_fit(columns, sizeof columns[0], ARRAY_LEN(columns), width, layout);
}

static void gpu_lines_head(Top *top UNUSED, Grid *grid, Area area)
{
    Layout layout;

    fit_columns(area.width, &layout);
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        column_text(grid, layout_cell(&layout, area, i), columns[i].column.right, INK_TITLE, columns[i].column.title);
}

/* A GPU that is not up has no values: draws its state, since when, the action and the reason. */
static void draw_down(Top *top, Grid *grid, Area area, const Layout *layout, const GpuRow *row)
{
    const bool bad = row->gpu->state != GPU_STARTING && row->gpu->state != GPU_RELEASED;
    Area rest = area;
    char text[TOP_TEXT_CAP * 2];
    Ink ink;

    draw_number(top, grid, layout_cell(layout, area, COLUMN_NUMBER), row);
    draw_model(top, grid, layout_cell(layout, area, COLUMN_MODEL), row);
    area_left(&rest, layout->x[COLUMN_BUSY]);
    int x = grid_text(grid, rest, 0, 0, bad ? INK_BAD : INK_WARN, gpu_down(top, row->gpu, text));
    if (row->incident) {
        gpu_note(top, row, text, &ink);
        x = grid_text(grid, rest, x + 2, 0, ink, text);
    }
    grid_text(grid, rest, x + 2, 0, INK_DIM, row->gpu->why[0] ? row->gpu->why : gpu_state_text(row->gpu->state));
}

static void gpu_line(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    Layout layout;

    fit_columns(area.width, &layout);
    if (row->gpu->state != GPU_UP && !row->instance) {
        draw_down(top, grid, area, &layout, row);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const Area cell = layout_cell(&layout, area, i);

        if (cell.width > 0 && cell.height > 0)
            draw_cell(top, grid, cell, &columns[i], row);
    }
    if (row->instance &&
        layout.width[COLUMN_MODEL] == 0) { /* no room for its name: draw it over columns without values */
        char text[TOP_TEXT_CAP];
        const Area cell = layout_cell(&layout, area, 10);
        grid_text(grid, (Area){cell.x, cell.y, cell.width + 8, cell.height}, 0, 0, INK_DIM,
                  instance_name(row->reading, text));
    }
}

/* --- blocks --------------------------------------------------------------------------------------------------------
 */

enum { QUARTERS = 4, LABEL_WIDTH = 7, VALUE_WIDTH = 10 };

static int gpu_block_height(const GpuRow *row)
{
    if (row->instance)
        return 1;
    return (row->gpu->state == GPU_UP ? 3 : 2) + (row->wrong != NULL);
}

static Area quarter_of(Area line, int which)
{
    const int width = line.width / QUARTERS;

    return (Area){.x = line.x + which * width, .y = line.y, .width = width - 2, .height = line.height};
}

/* "power   643/700 W ######----" */
static void draw_gauge(Grid *grid, Area cell, const char *label, const char *value, Ink ink, Ink bar, double share,
                       double mark)
{
    Area rest = cell;
    const Area front = area_left(&rest, LABEL_WIDTH), number = area_left(&rest, VALUE_WIDTH);

    grid_text(grid, front, 0, 0, INK_DIM, label);
    grid_right(grid, number, number.width, 0, ink, value);
    area_left(&rest, 1);
    if (rest.width > 2 && rest.height > 0)
        plot_bar(grid, rest, bar, (float)share, (float)mark);
}

static void draw_share_gauge(Grid *grid, Area cell, const char *label, const Reading *reading, MetricId id)
{
    char text[VALUE_CAP];
    const double share = value_base(reading, id);

    draw_gauge(grid, cell, label, value_percent(text, share), isfinite(share) ? INK_PLAIN : INK_DIM, INK_BAR, share,
               (double)NAN);
}

static void draw_first_line(Top *top, Grid *grid, Area line, const GpuRow *row)
{
    const Reading *reading = &row->gpu->reading;
    const char *dot = text_dot(grid);
    char pci[PCI_TEXT_CAP], text[TOP_TEXT_CAP * 2], value[VALUE_CAP];
    Area room = line;
    Ink ink;

    room.width -= 2 * line.width / QUARTERS / 2 + 1; /* the plot has the last quarter */
    int x = grid_text(grid, room, 0, 0, INK_STRONG, value_model(&reading->device));
    x = grid_textf(grid, room, x, 0, INK_DIM, "  %s", pci_format(reading->device.pci, PCI_FORM_SYSFS, pci));
    if (row->gpu->state != GPU_UP) {
        const bool bad = row->gpu->state != GPU_STARTING && row->gpu->state != GPU_RELEASED;
        grid_text(grid, room, x + 2, 0, bad ? INK_BAD : INK_WARN, gpu_down(top, row->gpu, text));
        return;
    }
    x = grid_textf(grid, room, x, 0, INK_PLAIN, "  %s",
                   value_text(value, METRIC_SM_CLOCK, &reading->sample[METRIC_SM_CLOCK]));
    if (value_raw(reading, METRIC_MAX_SM_CLOCK) > 0)
        x = grid_textf(grid, room, x, 0, INK_DIM, " of %.0f", value_raw(reading, METRIC_MAX_SM_CLOCK));
    const char *throttle = value_throttle(reading, &ink);
    if (throttle[0])
        x = grid_textf(grid, room, x, 0, ink, ", %s", throttle);
    value_ecc(value, reading, &ink);
    x = grid_textf(grid, room, x, 0, ink, "%sECC %s", dot, value);
    if (!row->wrong && gpu_note(top, row, text, &ink)[0] && ink == INK_WARN)
        x = grid_textf(grid, room, x, 0, ink, "%s%s", dot, text);
    gpu_owner(top, row, text);
    if (text[0])
        grid_textf(grid, room, x, 0, INK_DIM, "%s%s", dot, text);
    plot_spark_of(top, grid, quarter_of(line, QUARTERS - 1), reading);
}

static void draw_busy_line(Grid *grid, Area line, const GpuRow *row)
{
    const Reading *reading = row->reading;
    char text[VALUE_CAP], other[VALUE_CAP];
    const Area last = quarter_of(line, 3);
    const double util = value_util(reading);

    draw_gauge(grid, quarter_of(line, 0), "SM", value_percent(text, value_busy(reading)),
               activity_ink(row->activity->word), INK_BAR, value_busy(reading), util);
    draw_share_gauge(grid, quarter_of(line, 1), "tensor", reading, METRIC_PROF_PIPE_TENSOR_ACTIVE);
    draw_share_gauge(grid, quarter_of(line, 2), "DRAM", reading, METRIC_PROF_DRAM_ACTIVE);
    int x = grid_text(grid, last, 0, 0, INK_DIM, "util ");
    x = grid_textf(grid, last, x, 0, INK_PLAIN, "%-5s", value_percent(text, util));
    x = grid_text(grid, last, x, 0, INK_DIM, " occupancy ");
    grid_text(grid, last, x, 0, INK_PLAIN, value_percent(other, value_base(reading, METRIC_PROF_SM_OCCUPANCY)));
}

static void draw_limits_line(Grid *grid, Area line, const Reading *reading)
{
    char text[VALUE_CAP], in[VALUE_CAP], out[VALUE_CAP];
    const Area last = quarter_of(line, 3);

    draw_gauge(grid, quarter_of(line, 0), "mem", value_memory(text, reading), INK_PLAIN, INK_SERIES_B,
               value_memory_share(reading), (double)NAN);
    draw_gauge(grid, quarter_of(line, 1), "power", value_power(text, reading), INK_PLAIN, INK_SERIES_C,
               value_power_share(reading), (double)NAN);
    const Ink heat = value_temp_ink(reading);
    draw_gauge(grid, quarter_of(line, 2), "temp", value_temp(text, reading), heat,
               heat == INK_PLAIN ? INK_SERIES_D : heat, value_temp_share(reading), (double)NAN);
    int x = grid_text(grid, last, 0, 0, INK_DIM, "PCIe ");
    x = grid_textf(grid, last, x, 0, INK_PLAIN, "%s/%s", value_gbs(in, value_pcie(reading, false)),
                   value_gbs(out, value_pcie(reading, true)));
    x = grid_text(grid, last, x, 0, INK_DIM, " NVL ");
    x = grid_text(grid, last, x, 0, INK_PLAIN, value_gbs(in, value_nvlink_all(reading)));
    grid_text(grid, last, x, 0, INK_DIM, " GB/s");
}

static void draw_problem_line(Grid *grid, Area line, const GpuRow *row)
{
    int x = grid_text(grid, line, 0, 0, severity_ink(row->severity), row->wrong);

    if (row->incident)
        grid_textf(grid, line, x + 1, 0, INK_STRONG, "%s DO %s", text_arrow(grid),
                   fault_actions[row->incident->action].text);
}

static void draw_instance_block(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    char text[TOP_TEXT_CAP], value[VALUE_CAP];
    const Reading *r = row->reading;
    Area line = area;

    area_left(&line, 4);
    const Area first = quarter_of(line, 0);
    const int x = grid_text(grid, first, 0, 0, INK_DIM, text_branch(grid, row->last));
    grid_text(grid, first, x + 1, 0, INK_PLAIN, instance_name(r, text));
    draw_gauge(grid, quarter_of(line, 1), "SM", value_percent(value, value_busy(r)), activity_ink(row->activity->word),
               INK_BAR, value_busy(r), (double)NAN);
    draw_gauge(grid, quarter_of(line, 2), "mem", value_memory(value, r), INK_PLAIN, INK_SERIES_B, value_memory_share(r),
               (double)NAN);
    grid_text(grid, quarter_of(line, 3), 0, 0, INK_DIM, gpu_owner(top, row, text));
}

void gpu_block(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    Area number = area_row(area, 0);

    if (row->instance) {
        draw_instance_block(top, grid, area, row);
        return;
    }
    number.width = 3;
    gpu_number(grid, number, row);
    area_left(&area, 4);
    int y = 0;
    draw_first_line(top, grid, area_row(area, y++), row);
    if (row->gpu->state == GPU_UP) {
        draw_busy_line(grid, area_row(area, y++), row);
        draw_limits_line(grid, area_row(area, y++), row->reading);
    } else {
        grid_text(grid, area_row(area, y++), 0, 0, INK_DIM,
                  row->gpu->why[0] ? row->gpu->why : gpu_state_text(row->gpu->state));
    }
    if (row->wrong)
        draw_problem_line(grid, area_row(area, y), row);
}

/* --- the view ------------------------------------------------------------------------------------------------------
 */

enum { BLOCK_WIDTH = 120, PROCESSES_LEAST = 4, PLOTS_LEAST = 7, PLOTS_MOST = 30 };

/* Lines of all devices together. */
static int height_of(const Top *top, bool blocks)
{
    int height = blocks ? 0 : 1;

    for (size_t i = 0; i < top->gpus.len; i++)
        height += blocks ? gpu_block_height(&top->gpus.at[i]) : 1;
    return height;
}

typedef struct Plan {
    bool blocks;
    int gpus, plots, processes; /* lines of each */
} Plan;

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

/* Uses blocks if some processes still fit, and plots if more lines are left. */
static Plan plan_of(const Top *top, Area area)
{
    const int rows = (int)top->processes.len;
    const int wish = top->hide_processes ? 0 : 1 + (rows > 0 ? rows : 1);
    const int few = min_lines(wish, area.height / 4 > PROCESSES_LEAST ? area.height / 4 : PROCESSES_LEAST);
    Plan plan = {.blocks = !top->compact && area.width >= BLOCK_WIDTH && height_of(top, true) + few <= area.height};

    plan.gpus = min_lines(height_of(top, plan.blocks), area.height - few);
    plan.processes = min_lines(wish, area.height - plan.gpus);
    const int left = area.height - plan.gpus - plan.processes;
    if (left >= PLOTS_LEAST && top->history && top->gpus.len > 0 && find_plotted(top)->gpu->last_sample_ns > 0)
        plan.plots = min_lines(left, PLOTS_MOST);
    return plan;
}

/* The first row to draw, so that the cursor is visible; rows may have several lines. */
static size_t settle_rows(Top *top, bool blocks, int height)
{
    const size_t selected = top->gpu_list.selected < top->gpus.len ? top->gpu_list.selected : top->gpus.len - 1;
    size_t first = selected < top->gpu_list.first ? selected : top->gpu_list.first;
    int used = 0;

    for (size_t i = first; i <= selected; i++) {
        used += blocks ? gpu_block_height(&top->gpus.at[i]) : 1;
        while (used > height && first < selected) {
            used -= blocks ? gpu_block_height(&top->gpus.at[first]) : 1;
            first++;
        }
    }
    /* no empty lines at the end where there are rows above */
    used = 0;
    for (size_t i = first; i < top->gpus.len; i++)
        used += blocks ? gpu_block_height(&top->gpus.at[i]) : 1;
    while (first > 0 && used + (blocks ? gpu_block_height(&top->gpus.at[first - 1]) : 1) <= height)
        used += blocks ? gpu_block_height(&top->gpus.at[--first]) : (first--, 1);
    return first;
}

static void draw_gpus(Top *top, Grid *grid, Area area, bool blocks)
{
    Area head = {0};

    if (!blocks) {
        head = area_top(&area, 1);
        gpu_lines_head(top, grid, head);
    }
    if (top->gpus.len == 0) {
        grid_text(grid, area, 1, 0, INK_DIM, "no GPU is known on this node");
        return;
    }
    List *list = &top->gpu_list;
    size_t shown = 0;
    list->first = settle_rows(top, blocks, area.height);
    for (size_t i = list->first; i < top->gpus.len && area.height > 0; i++, shown++) {
        const GpuRow *row = &top->gpus.at[i];
        const Area place = area_top(&area, blocks ? gpu_block_height(row) : 1);

        if (blocks)
            gpu_block(top, grid, place, row);
        else
            gpu_line(top, grid, place, row);
        top_zone(top, place, ZONE_ROW, (uint32_t)i);
        if (i == list->selected)
            grid_reverse(grid, blocks ? (Area){place.x, place.y, 3, 1} : place);
    }
    const List all = {.count = top->gpus.len, .first = list->first, .page = shown};
    list->page = shown > 0 ? shown : 1;
    if (head.height > 0)
        list_mark(&all, grid, head, 0);
}

static void draw_processes(Top *top, Grid *grid, Area area)
{
    const size_t selected = top->gpu_list.selected, devices = top->gpus.len;
    List list = {.count = top->processes.len, .first = top->process_list.first};

    list.selected = selected >= devices ? selected - devices : 0;
    list_settle(&list, area.height > 1 ? (size_t)area.height - 1 : 1);
    top->process_list.first = list.first;
    process_table_draw(top, grid, area, &list, devices);
}

void view_gpus_draw(Top *top, Grid *grid, Area area)
{
    const Plan plan = plan_of(top, area);

    draw_gpus(top, grid, area_top(&area, plan.gpus), plan.blocks);
    if (plan.plots > 0)
        plots_draw(top, grid, area_top(&area, plan.plots), find_plotted(top));
    if (plan.processes > 0)
        draw_processes(top, grid, area_top(&area, plan.processes));
}
