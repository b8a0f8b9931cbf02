/* SPDX-License-Identifier: Apache-2.0 */
/* The first lines of every view: which node at what time, whether it can be believed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/top/view.h"

enum { WIDE = 96 };

/* --- tabs --------------------------------------------------------------------------------------------------------- */

static const char *tab_title(const View *view, int width)
{
    return width >= WIDE ? view->title : view->brief;
}

static int tabs_width(int width)
{
    int columns = 0;

    for (size_t i = 0; i < VIEW_END; i++)
        columns += 3 + (int)strlen(tab_title(&top_views[i], width));
    return columns;
}

/* "1GPUs 2GPU ...": the number is the key. */
static void draw_tabs(Top *top, Grid *grid, Area row)
{
    int x = row.width - tabs_width(row.width) + 1;

    for (size_t i = 0; i < VIEW_END; i++) {
        const char *title = tab_title(&top_views[i], row.width);
        const int width = 1 + (int)strlen(title);
        const Area tab = {.x = row.x + x, .y = row.y, .width = width, .height = 1};

        if (x >= 0) {
            const bool wrong = i == VIEW_INCIDENTS && top->troubles.len > 0 && top->troubles.at[0].wrong;
            grid_textf(grid, row, x, 0, INK_KEY, "%zu", i + 1);
            grid_text(grid, row, x + 1, 0, wrong ? severity_ink(top->troubles.at[0].severity) : INK_PLAIN, title);
            if (i == top->view)
                grid_reverse(grid, tab);
            top_zone(top, tab, ZONE_VIEW, (uint32_t)i);
        }
        x += width + 2;
    }
}

static void draw_first(Top *top, Grid *grid, Area row)
{
    const Node *node = top->snapshot->node;
    const int tabs = tabs_width(row.width);
    Area left = row;
    char now[CLOCK_TEXT_MAX];
    size_t up = 0;

    draw_tabs(top, grid, row);
    left.width = row.width > tabs ? row.width - tabs : 0;
    if (!node) {
        grid_text(grid, left, 0, 0, INK_STRONG, "stoker top");
        return;
    }
    for (size_t i = 0; i < node->gpu_count; i++)
        up += node->gpus[i].state == GPU_UP;
    clock_format(now, top->real_ns);
    int x = grid_text(grid, left, 0, 0, INK_STRONG, node->hostname);
    x = grid_textf(grid, left, x + 1, 0, INK_PLAIN, "%.8sZ", now + 11);
    if (left.width < x + 20)
        return;
    x = grid_textf(grid, left, x + 2, 0, up < node->gpus_expected ? INK_BAD : INK_PLAIN, "%zu of %" PRIu32 " GPUs up",
                   up, node->gpus_expected);
    if (node->driver_version[0] && left.width > x + 20)
        x = grid_textf(grid, left, x + 2, 0, INK_DIM, "driver %s", node->driver_version);
    if (left.width > x + 2 + grid_text_width(top->feed->where))
        grid_text(grid, left, x + 2, 0, INK_DIM, top->feed->where);
}

/* --- can it be believed ------------------------------------------------------------------------------------------- */

/* A whole line in reverse, as nobody may take old values for new ones. */
static void draw_stale(const Top *top, Grid *grid, Area *area)
{
    const FeedState *feed = top->feed;
    char age[32];

    if (!feed->trouble[0])
        return;
    const Area row = area_top(area, 1);
    if (row.height == 0)
        return;
    grid_fill(grid, row, INK_BAD, " ");
    if (top->snapshot->node)
        grid_textf(grid, row, 1, 0, INK_BAD, "STALE: all values are %s old. %s", text_age(feed->age_ns, age),
                   feed->trouble);
    else
        grid_textf(grid, row, 1, 0, INK_BAD, "NOTHING SEEN YET. %s", feed->trouble);
    grid_reverse(grid, row);
}

static void draw_replay(const Top *top, Grid *grid, Area *area)
{
    const FeedState *feed = top->feed;
    char at[CLOCK_TEXT_MAX];

    if (!feed->paused && feed->to_ns <= feed->from_ns)
        return;
    const Area row = area_top(area, 1);
    clock_format(at, top->real_ns);
    int x = grid_text(grid, row, 0, 0, INK_WARN, feed->paused ? " PAUSED " : " REPLAY ");
    grid_reverse(grid, (Area){.x = row.x, .y = row.y, .width = x < row.width ? x : row.width, .height = row.height});
    x = grid_textf(grid, row, x + 1, 0, INK_STRONG, "%.10s %.8sZ", at, at + 11);
    if (feed->to_ns <= feed->from_ns) {
        grid_text(grid, row, x + 2, 0, INK_DIM, "Space goes on");
        return;
    }
    x = grid_textf(grid, row, x + 1, 0, INK_PLAIN, "x%.4g", feed->speed);
    const Area bar = {.x = row.x + x + 2, .y = row.y, .width = row.width - x - 2, .height = row.height};
    if (bar.width > 4)
        plot_bar(
            grid, bar, INK_SERIES_A,
            (float)(((double)top->real_ns - (double)feed->from_ns) / ((double)feed->to_ns - (double)feed->from_ns)),
            (float)NAN);
}

void head_draw(Top *top, Grid *grid, Area *area)
{
    const Area row = area_top(area, 1);

    draw_first(top, grid, row);
    draw_stale(top, grid, area);
    draw_replay(top, grid, area);
    if (top->snapshot->node)
        verdict_draw(top, grid, area);
}
