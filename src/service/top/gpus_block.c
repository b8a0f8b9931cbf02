/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as blocks of three lines, where there is room: who and why slow; how busy; memory, power, heat. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "service/top/gpus_row.h"
#include "service/top/table.h"
#include "service/top/value.h"

enum { QUARTERS = 4, LABEL_WIDTH = 7, VALUE_WIDTH = 10 };

int gpu_block_height(const GpuRow *row)
{
    if (row->instance)
        return 1;
    return (row->gpu->state == GPU_UP ? 3 : 2) + (row->wrong != NULL);
}

static Area quarter(Area line, int which)
{
    const int width = line.width / QUARTERS;

    return (Area){.x = line.x + which * width, .y = line.y, .width = width - 2, .height = line.height};
}

/* "power   643/700 W ######----" */
static void gauge(Grid *grid, Area cell, const char *label, const char *value, Ink ink, Ink bar, double share,
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

static void share_gauge(Grid *grid, Area cell, const char *label, const Reading *reading, MetricId id)
{
    char text[VALUE_CAP];
    const double share = value_base(reading, id);

    gauge(grid, cell, label, value_percent(text, share), isfinite(share) ? INK_PLAIN : INK_DIM, INK_BAR, share,
          (double)NAN);
}

static void first_line(Top *top, Grid *grid, Area line, const GpuRow *row)
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
    plot_spark_of(top, grid, quarter(line, QUARTERS - 1), reading);
}

static void busy_line(Grid *grid, Area line, const Reading *reading)
{
    char text[VALUE_CAP], other[VALUE_CAP];
    const Area last = quarter(line, 3);
    const double util = value_util(reading);

    gauge(grid, quarter(line, 0), "SM", value_percent(text, value_busy(reading)), value_busy_ink(reading), INK_BAR,
          value_busy(reading), util);
    share_gauge(grid, quarter(line, 1), "tensor", reading, METRIC_PROF_PIPE_TENSOR_ACTIVE);
    share_gauge(grid, quarter(line, 2), "DRAM", reading, METRIC_PROF_DRAM_ACTIVE);
    int x = grid_text(grid, last, 0, 0, INK_DIM, "util ");
    x = grid_textf(grid, last, x, 0, INK_PLAIN, "%-5s", value_percent(text, util));
    x = grid_text(grid, last, x, 0, INK_DIM, " occupancy ");
    grid_text(grid, last, x, 0, INK_PLAIN, value_percent(other, value_base(reading, METRIC_PROF_SM_OCCUPANCY)));
}

static void limits_line(Grid *grid, Area line, const Reading *reading)
{
    char text[VALUE_CAP], in[VALUE_CAP], out[VALUE_CAP];
    const Area last = quarter(line, 3);

    gauge(grid, quarter(line, 0), "mem", value_memory(text, reading), INK_PLAIN, INK_SERIES_B,
          value_memory_share(reading), (double)NAN);
    gauge(grid, quarter(line, 1), "power", value_power(text, reading), INK_PLAIN, INK_SERIES_C,
          value_power_share(reading), (double)NAN);
    const Ink heat = value_temp_ink(reading);
    gauge(grid, quarter(line, 2), "temp", value_temp(text, reading), heat, heat == INK_PLAIN ? INK_SERIES_D : heat,
          value_temp_share(reading), (double)NAN);
    int x = grid_text(grid, last, 0, 0, INK_DIM, "PCIe ");
    x = grid_textf(grid, last, x, 0, INK_PLAIN, "%s/%s", value_gbs(in, value_pcie(reading, false)),
                   value_gbs(out, value_pcie(reading, true)));
    x = grid_text(grid, last, x, 0, INK_DIM, " NVL ");
    x = grid_text(grid, last, x, 0, INK_PLAIN, value_gbs(in, value_nvlink_all(reading)));
    grid_text(grid, last, x, 0, INK_DIM, " GB/s");
}

static void trouble_line(Grid *grid, Area line, const GpuRow *row)
{
    int x = grid_text(grid, line, 0, 0, severity_ink(row->severity), row->wrong);

    if (row->incident)
        grid_textf(grid, line, x + 1, 0, INK_STRONG, "%s DO %s", text_arrow(grid),
                   fault_actions[row->incident->action].text);
}

static void instance_block(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    char text[TOP_TEXT_CAP], value[VALUE_CAP];
    const Reading *r = row->reading;
    Area line = area;

    area_left(&line, 4);
    const Area first = quarter(line, 0);
    const int x = grid_text(grid, first, 0, 0, INK_DIM, text_branch(grid, row->last));
    grid_text(grid, first, x + 1, 0, INK_PLAIN, instance_name(r, text));
    gauge(grid, quarter(line, 1), "SM", value_percent(value, value_busy(r)), value_busy_ink(r), INK_BAR, value_busy(r),
          (double)NAN);
    gauge(grid, quarter(line, 2), "mem", value_memory(value, r), INK_PLAIN, INK_SERIES_B, value_memory_share(r),
          (double)NAN);
    grid_text(grid, quarter(line, 3), 0, 0, INK_DIM, gpu_owner(top, row, text));
}

void gpu_block(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    Area number = area_row(area, 0);

    if (row->instance) {
        instance_block(top, grid, area, row);
        return;
    }
    number.width = 3;
    gpu_number(grid, number, row);
    area_left(&area, 4);
    int y = 0;
    first_line(top, grid, area_row(area, y++), row);
    if (row->gpu->state == GPU_UP) {
        busy_line(grid, area_row(area, y++), row->reading);
        limits_line(grid, area_row(area, y++), row->reading);
    } else {
        grid_text(grid, area_row(area, y++), 0, 0, INK_DIM,
                  row->gpu->why[0] ? row->gpu->why : gpu_state_text(row->gpu->state));
    }
    if (row->wrong)
        trouble_line(grid, area_row(area, y), row);
}
