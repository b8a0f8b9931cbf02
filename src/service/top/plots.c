/* SPDX-License-Identifier: Apache-2.0 */
/* Plots of one device: the table of plots, their axes and their layout. */
#include "service/top/inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"

enum { GUTTER = 11, HEIGHT_LEAST = 4, HEIGHT_WISHED = 6, HEIGHT_MOST = 14, WIDTH_LEAST = 48, REASON_LEAST = 12 };

const TopPlot top_plots[] = {
    {"busy", {"SM", "util"}, {METRIC_PROF_SM_ACTIVE, METRIC_GPU_UTIL}, EDGE_WHOLE, METRIC_END},
    {"memory", {"used", ""}, {METRIC_FB_USED, METRIC_END}, EDGE_LIMIT, METRIC_FB_TOTAL},
    {"power", {"board", ""}, {METRIC_POWER_USAGE, METRIC_END}, EDGE_LIMIT, METRIC_ENFORCED_POWER_LIMIT},
    {"temperature", {"GPU", "memory"}, {METRIC_GPU_TEMP, METRIC_MEMORY_TEMP}, EDGE_LIMIT, METRIC_SLOWDOWN_TEMP},
    {"tensor cores and DRAM",
     {"tensor", "DRAM"},
     {METRIC_PROF_PIPE_TENSOR_ACTIVE, METRIC_PROF_DRAM_ACTIVE},
     EDGE_WHOLE,
     METRIC_END},
    {"occupancy", {"SM", ""}, {METRIC_PROF_SM_OCCUPANCY, METRIC_END}, EDGE_WHOLE, METRIC_END},
    {"clocks", {"SM", "memory"}, {METRIC_SM_CLOCK, METRIC_MEM_CLOCK}, EDGE_HIGHEST, METRIC_END},
    {"PCIe", {"in", "out"}, {METRIC_PROF_PCIE_RX_BYTES, METRIC_PROF_PCIE_TX_BYTES}, EDGE_HIGHEST, METRIC_END},
    {"NVLink", {"both ways", ""}, {METRIC_NVLINK_BANDWIDTH_TOTAL, METRIC_END}, EDGE_HIGHEST, METRIC_END},
    {"encoder and decoder", {"enc", "dec"}, {METRIC_ENC_UTIL, METRIC_DEC_UTIL}, EDGE_WHOLE, METRIC_END},
};
const size_t top_plot_count = ARRAY_LEN(top_plots);

static const Ink inks[PLOT_SERIES_MAX] = {INK_SERIES_A, INK_SERIES_B};

static const struct {
    uint64_t ns;
    const char *text;
} spans[SPAN_END] = {{NS_PER_MIN, "1 min"}, {10 * NS_PER_MIN, "10 min"}, {NS_PER_H, "1 h"}, {24 * NS_PER_H, "24 h"}};

/* Points in the metric's base unit, so that two of a plot have one axis; returns the highest. */
static double load_points(Top *top, const Device *device, MetricId id, PlotPoint *points, size_t count)
{
    const float factor = (float)metric_units[metric_get(id)->unit].factor;
    double highest = (double)NAN;

    history_read_points(top->history, device, id, top->real_ns, spans[top->span].ns, points, count);
    for (size_t i = 0; i < count; i++) {
        points[i].min *= factor;
        points[i].mean *= factor;
        points[i].max *= factor;
        if (isfinite(points[i].mean))
            highest = fmax(isnan(highest) ? 0 : highest, (double)points[i].max);
    }
    return highest;
}

/* A number of the axis, in the unit of the plot's metric. */
static const char *axis_text(char out[VALUE_CAP], MetricId id, double base)
{
    Sample sample = {0};

    sample_set_double(&sample, 1, base / metric_units[metric_get(id)->unit].factor);
    return value_text(out, id, &sample);
}

static bool is_series(const TopPlot *plot, size_t i)
{
    return i < PLOT_SERIES_MAX && plot->ids[i] != METRIC_END;
}

/* What a series is now, "643 W"; "-" where there is no value. */
static const char *now_text(const TopPlot *plot, const Reading *reading, size_t i, char out[VALUE_CAP])
{
    const Sample *sample = &reading->sample[plot->ids[i]];

    return sample->valid ? value_text(out, plot->ids[i], sample) : strcpy(out, "-");
}

/* The next series from this one on that the device has. */
static size_t next_series(const TopPlot *plot, const Reading *reading, size_t i)
{
    while (is_series(plot, i) && !value_is_supported(reading, plot->ids[i]))
        i++;
    return i;
}

/* Of the series from this one on, without reasons. */
static int legend_width(const TopPlot *plot, const Reading *reading, size_t i)
{
    char text[VALUE_CAP];
    int width = 1;

    for (i = next_series(plot, reading, i); is_series(plot, i); i = next_series(plot, reading, i + 1))
        width += 3 + grid_text_width(plot->names[i]) + grid_text_width(now_text(plot, reading, i, text));
    return width;
}

/* "power board 643 W", each in the ink of its line, or the reason of an absent value. Numbers are never cut: what does
 * not fit is left out. */
static void draw_legend(Grid *grid, Area line, const TopPlot *plot, const Reading *reading)
{
    int x = grid_textf(grid, line, 0, 0, INK_TITLE, " %s", plot->title);
    char text[VALUE_CAP];

    for (size_t i = next_series(plot, reading, 0);
         is_series(plot, i) && x + legend_width(plot, reading, i) <= line.width;
         i = next_series(plot, reading, i + 1)) {
        const Sample *sample = &reading->sample[plot->ids[i]];

        x = grid_textf(grid, line, x, 0, inks[i], "  %s ", plot->names[i]);
        x = grid_text(grid, line, x, 0, sample->valid ? INK_STRONG : INK_DIM, now_text(plot, reading, i, text));
        const int room = line.width - x - legend_width(plot, reading, i + 1);
        if (!sample->valid && room > REASON_LEAST) {
            const Area reason = {.x = line.x + x, .y = line.y, .width = room, .height = 1};

            x += grid_textf(grid, reason, 0, 0, INK_DIM, " (%s)", absences[sample->absence].text);
        }
    }
    grid_text(grid, line, x, 0, INK_TITLE, " ");
}

/* Within its frame, which has the legend above and the time below. */
static void draw_plot(Top *top, Grid *grid, Area area, const TopPlot *plot, const Reading *reading)
{
    Area body = grid_box(grid, area, INK_FRAME, NULL), time = area;
    const Area legend = {area.x + 2, area.y, area.width > 4 ? area.width - 4 : 0, 1};
    Area labels = area_left(&body, GUTTER - 1);
    const PlotStyle style = top->dots ? PLOT_BRAILLE : PLOT_BLOCK;
    PlotSeries series[PLOT_SERIES_MAX];
    size_t count = 0, columns = plot_columns(grid, body, style);
    double highest = (double)NAN;
    char text[VALUE_CAP];

    time = area_bottom(&time, 1);
    draw_legend(grid, legend, plot, reading);
    columns = columns < TOP_POINTS_MAX ? columns : TOP_POINTS_MAX;
    for (size_t i = next_series(plot, reading, 0); is_series(plot, i) && body.width > 0 && body.height > 0;
         i = next_series(plot, reading, i + 1)) {
        const double most = load_points(top, &reading->device, plot->ids[i], top->points[count], columns);
        highest = fmax(highest, most); /* NAN where both are */
        series[count] = (PlotSeries){.points = top->points[count], .ink = inks[i], .filled = i == 0};
        count++;
    }
    const double limit = plot->edge == EDGE_LIMIT ? value_base(reading, plot->limit) : (double)NAN;
    const double edge = plot->edge == EDGE_WHOLE        ? 1
                        : limit > 0                     ? fmax(limit, highest)
                        : isnan(highest) || highest > 0 ? highest * 1.1 /* NAN: there is no scale */
                                                        : 1;
    labels.width--;
    if (!isnan(edge))
        grid_right(grid, labels, labels.width, 0, INK_DIM, axis_text(text, plot->ids[0], edge));
    if (!isnan(edge) && labels.height > 1)
        grid_right(grid, labels, labels.width, labels.height - 1, INK_DIM, axis_text(text, plot->ids[0], 0));
    if (count > 0)
        plot_draw(grid, body, style, series, count, 0, (float)edge);
    grid_textf(grid, time, GUTTER - 1, 0, INK_DIM, " %s ago ", spans[top->span].text);
    grid_right(grid, time, time.width - 1, 0, INK_DIM, " now ");
}

/* Chosen by the user and supported by the device. */
static bool is_wanted(const Top *top, size_t i, const Reading *reading)
{
    bool there = false;

    for (size_t k = 0; is_series(&top_plots[i], k); k++)
        there |= value_is_supported(reading, top_plots[i].ids[k]);
    return top->plotted[i] && there;
}

bool plots_there(const Top *top, const GpuRow *row)
{
    return top->history && row->gpu->last_sample_ns > 0;
}

/* Draws as many of the chosen plots as are legible, side by side if wide. */
void plots_draw(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    size_t chosen = 0, at = 0;

    for (size_t i = 0; i < top_plot_count; i++)
        chosen += is_wanted(top, i, row->reading);
    if (!plots_there(top, row) || chosen == 0 || area.height < HEIGHT_LEAST || area.width < GUTTER + 8)
        return;
    size_t across = (size_t)(area.width / WIDTH_LEAST);
    across = across < 1 ? 1 : across > 4 ? 4 : across;
    size_t lines = (size_t)area.height / HEIGHT_WISHED;
    lines = lines < 1 ? 1 : lines;
    if (chosen < across)
        across = chosen;
    while (across > 2 && (size_t)area.height / ((chosen + across - 1) / across) > HEIGHT_MOST)
        across--; /* wide rather than high */
    if (lines > (chosen + across - 1) / across)
        lines = (chosen + across - 1) / across;
    for (size_t i = 0; i < top_plot_count && at < lines * across; i++) {
        if (!is_wanted(top, i, row->reading))
            continue;
        const int width = area.width / (int)across, height = area.height / (int)lines;
        const Area place = {.x = area.x + (int)(at % across) * width,
                            .y = area.y + (int)(at / across) * height,
                            .width = at % across + 1 < across ? width : area.width - (int)(at % across) * width,
                            .height = height};
        draw_plot(top, grid, place, &top_plots[i], row->reading);
        at++;
    }
}

void plot_spark_of(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    const Reading *reading = row->reading;
    const bool busy = reading->sample[METRIC_PROF_SM_ACTIVE].valid;
    const MetricId id = busy ? METRIC_PROF_SM_ACTIVE : METRIC_GPU_UTIL;
    const size_t columns = area.width < 0 ? 0 : (size_t)area.width;

    if (!top->history || columns == 0 || area.height <= 0 || columns > TOP_POINTS_MAX)
        return;
    history_read_points(top->history, &reading->device, id, top->real_ns, 10 * NS_PER_MIN, top->points[0], columns);
    plot_spark(grid, area, INK_SERIES_A, top->points[0], columns, 0, busy ? 1 : 100);
}
