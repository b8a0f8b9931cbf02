/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as lines of a table whose columns adapt to the width. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "service/top/gpus_row.h"
#include "service/top/table.h"
#include "service/top/value.h"

typedef struct GpuColumn {
    Column column;
    void (*draw)(Top *top, Grid *grid, Area cell, const GpuRow *row);
} GpuColumn;

static void right_text(Grid *grid, Area cell, Ink ink, const char *text)
{
    column_text(grid, cell, true, text[0] == '-' && !text[1] ? INK_DIM : ink, text);
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

    right_text(grid, cell, value_busy_ink(row->reading), value_percent(text, value_busy(row->reading)));
}

static void draw_busy_bar(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    plot_bar(grid, cell, INK_BAR, (float)value_busy(row->reading), (float)value_util(row->reading));
}

static void draw_util(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    right_text(grid, cell, INK_PLAIN, value_percent(text, value_util(row->reading)));
}

static void draw_ratio(Grid *grid, Area cell, const GpuRow *row, MetricId id)
{
    char text[VALUE_CAP];

    right_text(grid, cell, INK_PLAIN, value_percent(text, value_base(row->reading, id)));
}

static void draw_tensor(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    draw_ratio(grid, cell, row, METRIC_PROF_PIPE_TENSOR_ACTIVE);
}

static void draw_dram(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    draw_ratio(grid, cell, row, METRIC_PROF_DRAM_ACTIVE);
}

static void draw_occupancy(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    draw_ratio(grid, cell, row, METRIC_PROF_SM_OCCUPANCY);
}

static void draw_memory(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    right_text(grid, cell, INK_PLAIN, value_memory(text, row->reading));
}

static void draw_memory_bar(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    plot_bar(grid, cell, INK_SERIES_B, (float)value_memory_share(row->reading), (float)NAN);
}

static void draw_power(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    if (!row->instance)
        right_text(grid, cell, INK_PLAIN, value_power(text, row->reading));
}

static void draw_temp(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    if (!row->instance)
        right_text(grid, cell, value_temp_ink(row->reading), value_temp(text, row->reading));
}

static void draw_clock(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    const double mhz = value_raw(row->reading, METRIC_SM_CLOCK);
    char text[VALUE_CAP] = "-";

    if (isfinite(mhz))
        snprintf(text, sizeof text, "%.0f", mhz);
    if (!row->instance)
        right_text(grid, cell, INK_PLAIN, text);
}

static void draw_traffic(Grid *grid, Area cell, double received, double sent)
{
    char in[VALUE_CAP], out[VALUE_CAP], text[VALUE_CAP * 2 + 2];

    snprintf(text, sizeof text, "%s/%s", value_gbs(in, received), value_gbs(out, sent));
    right_text(grid, cell, INK_PLAIN, isfinite(received) || isfinite(sent) ? text : "-");
}

static void draw_pcie(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    if (!row->instance)
        draw_traffic(grid, cell, value_pcie(row->reading, false), value_pcie(row->reading, true));
}

static void draw_nvlink(Top *top UNUSED, Grid *grid, Area cell, const GpuRow *row)
{
    char text[VALUE_CAP];

    if (!row->instance)
        right_text(grid, cell, INK_PLAIN, value_gbs(text, value_nvlink_all(row->reading)));
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
    grid_text(grid, cell, 0, 0, ink, text);
}

enum { COLUMN_NUMBER, COLUMN_MODEL, COLUMN_BUSY };

static const GpuColumn columns[] = {
    {{"gpu", "GPU", 3, 0, 0, true}, draw_number},
    {{"model", "MODEL", 12, 22, 6, false}, draw_model},
    {{"sm", "SM", 4, 0, 0, true}, draw_busy},
    {{"sm-bar", "", 6, 16, 3, false}, draw_busy_bar},
    {{"util", "UTIL", 4, 0, 0, true}, draw_util},
    {{"tensor", "TENS", 4, 0, 4, true}, draw_tensor},
    {{"dram", "DRAM", 4, 0, 4, true}, draw_dram},
    {{"occupancy", "OCC", 4, 0, 8, true}, draw_occupancy},
    {{"memory", "MEMORY", 11, 0, 0, true}, draw_memory},
    {{"memory-bar", "", 6, 14, 3, false}, draw_memory_bar},
    {{"power", "POWER", 9, 0, 1, true}, draw_power},
    {{"temp", "TEMP", 7, 0, 1, true}, draw_temp},
    {{"clock", "MHz", 4, 0, 5, true}, draw_clock},
    {{"pcie", "PCIe GB/s", 9, 0, 7, true}, draw_pcie},
    {{"nvlink", "NVLink", 6, 0, 7, true}, draw_nvlink},
    {{"ecc", "ECC", 12, 14, 9, false}, draw_ecc},
    {{"spark", "SM, 10 MIN", 12, 24, 10, false}, draw_spark},
    {{"note", "STATE", 11, 200, 2, false}, draw_note},
};

static void fit(int width, Layout *layout)
{
    layout_fit(columns, sizeof columns[0], ARRAY_LEN(columns), width, layout);
}

void gpu_lines_head(Top *top UNUSED, Grid *grid, Area area)
{
    Layout layout;

    fit(area.width, &layout);
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        column_text(grid, layout_cell(&layout, area, i), columns[i].column.right, INK_TITLE, columns[i].column.title);
}

/* A GPU that is not up has no values: what it is and since when, what to do, and why it is thought so. */
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

void gpu_line(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    Layout layout;

    fit(area.width, &layout);
    if (row->gpu->state != GPU_UP && !row->instance) {
        draw_down(top, grid, area, &layout, row);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const Area cell = layout_cell(&layout, area, i);

        if (cell.width > 0 && cell.height > 0)
            columns[i].draw(top, grid, cell, row);
    }
    if (row->instance && layout.width[COLUMN_MODEL] == 0) { /* no room for its name: over what it has no values of */
        char text[TOP_TEXT_CAP];
        const Area cell = layout_cell(&layout, area, 10);
        grid_text(grid, (Area){cell.x, cell.y, cell.width + 8, cell.height}, 0, 0, INK_DIM,
                  instance_name(row->reading, text));
    }
}
