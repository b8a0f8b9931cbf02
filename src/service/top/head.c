/* SPDX-License-Identifier: Apache-2.0 */
/* The first lines of every view: which node at what time, whether it is current, whether all is healthy. */
#include "service/top/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/cleanup.h"

enum { WIDE = 96 };

/* --- tabs --------------------------------------------------------------------------------------------------------- */

/* "1GPUs 2GPU ...": the number is the key. From the right; returns the column where they begin. */
static int draw_tabs(Top *top, Grid *grid, Area row)
{
    int x = row.width + 1;

    for (size_t i = VIEW_END; i-- > 0;) {
        const char *title = row.width >= WIDE ? top_views[i].title : top_views[i].brief;
        const int width = 1 + (int)strlen(title);
        const bool wrong = i == VIEW_INCIDENTS && incidents_wrong(top) > 0;

        x -= width + 2;
        if (x < 0)
            continue;
        const Area tab = {.x = row.x + x, .y = row.y, .width = width, .height = 1};
        grid_textf(grid, row, x, 0, INK_KEY, "%zu", i + 1);
        grid_text(grid, row, x + 1, 0, wrong ? severity_ink(top->incidents.at[0]->severity) : INK_PLAIN, title);
        if (i == top->view)
            grid_reverse(grid, tab);
        top_zone(top, tab, ZONE_KEY, '1' + (uint32_t)i);
    }
    return x;
}

static void draw_first(Top *top, Grid *grid, Area row)
{
    const Node *node = top->snapshot->node;
    const int tabs = draw_tabs(top, grid, row);
    Area left = row;
    char now[CLOCK_TEXT_MAX];
    size_t up = 0;

    left.width = tabs > 1 ? tabs - 1 : 0;
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

/* A whole line in reverse, so that old values are not taken for new ones. */
static void draw_stale(const Top *top, Grid *grid, Area *area)
{
    const FeedState *feed = top->feed;
    char age[HUMAN_MAX];

    if (!feed->trouble[0])
        return;
    const Area row = area_top(area, 1);
    grid_fill(grid, row, INK_BAD, " ");
    if (top->snapshot->node)
        grid_textf(grid, row, 1, 0, INK_BAD, "STALE: all values are %s old. %s", human_age(age, feed->age_ns),
                   feed->trouble);
    else
        grid_textf(grid, row, 1, 0, INK_BAD, "No data yet. %s", feed->trouble);
    grid_reverse(grid, row);
}

static void draw_replay(const Top *top, Grid *grid, Area *area)
{
    const FeedState *feed = top->feed;
    char at[CLOCK_TEXT_MAX];

    if (!feed->play.paused && feed->play.to_ns <= feed->play.from_ns)
        return;
    const Area row = area_top(area, 1);
    clock_format(at, top->real_ns);
    int x = text_badge(grid, row, INK_WARN, feed->play.paused ? " PAUSED " : " REPLAY ");
    x = grid_textf(grid, row, x + 1, 0, INK_STRONG, "%.10s %.8sZ", at, at + 11);
    if (feed->play.to_ns <= feed->play.from_ns) {
        grid_text(grid, row, x + 2, 0, INK_DIM, "Space goes on");
        return;
    }
    x = grid_textf(grid, row, x + 1, 0, INK_PLAIN, "x%.4g", feed->play.speed);
    const double passed = (double)top->real_ns - (double)feed->play.from_ns;
    Area bar = row;
    area_left(&bar, x + 2);
    if (bar.width > 4)
        plot_bar(grid, bar, INK_SERIES_A, (float)(passed / (double)(feed->play.to_ns - feed->play.from_ns)),
                 (float)NAN);
}

/* --- health ------------------------------------------------------------------------------------------------------- */

enum { TROUBLES_MAX = 4 };

static void add_finite(double *sum, double value)
{
    if (isfinite(value))
        *sum += value;
}

/* What has no room is left out: a number is never cut. */
static int draw_whole(Grid *grid, Area row, int x, const char *text)
{
    return x + grid_text_width(text) <= row.width ? grid_text(grid, row, x, 0, INK_PLAIN, text) : x;
}

/* "5 working, 1 idle held, 2 free · 4.9 of 5.6 kW · 412 of 640 GiB · ..." */
static void draw_sums(const Node *node, Grid *grid, Area row, int x)
{
    static const ActivityWord order[] = {ACTIVITY_WORKING, ACTIVITY_WAITING,  ACTIVITY_IDLE_HELD,
                                         ACTIVITY_FREE,    ACTIVITY_UNUSABLE, ACTIVITY_UNKNOWN};
    const char *between = "";
    char one[HUMAN_MAX], all[HUMAN_MAX], text[TOP_TEXT_CAP], hottest[TOP_TEXT_CAP] = "";
    double power = 0, limit = 0, used = 0, total = 0, least = (double)INFINITY;
    size_t by_word[ACTIVITY_END] = {0};

    for (const NodeGpu *gpu = node->gpus; gpu < node->gpus + node->gpu_count; gpu++) {
        const double margin = value_margin(&gpu->reading);

        by_word[gpu->activity.word]++;
        add_finite(&power, reading_value(&gpu->reading, METRIC_POWER_USAGE));
        add_finite(&limit, reading_value(&gpu->reading, METRIC_ENFORCED_POWER_LIMIT));
        add_finite(&used, value_base(&gpu->reading, METRIC_FB_USED));
        add_finite(&total, value_base(&gpu->reading, METRIC_FB_TOTAL));
        if (margin < least)
            snprintf(hottest, sizeof hottest, " · GPU %" PRIu32 " is the hottest, %.0f °C below slowdown",
                     gpu->reading.device.index, margin);
        least = fmin(least, margin);
    }
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (by_word[order[i]] > 0) {
            x = grid_textf(grid, row, x, 0, activity_ink(order[i]), "%s%zu %s", between, by_word[order[i]],
                           activity_words[order[i]].key);
            between = ", ";
        }
    snprintf(text, sizeof text, " · %.2f of %.2f kW", power / 1000, limit / 1000);
    x = draw_whole(grid, row, x, limit > 0 ? text : "");
    snprintf(text, sizeof text, " · %s of %s", human_bytes(one, used), human_bytes(all, total));
    x = draw_whole(grid, row, x, total > 0 ? text : "");
    draw_whole(grid, row, x, least > 0 ? hottest : "");
}

/* Their names, and those that the view below does not show itself; small screens show only the worst. */
static void draw_problems(Top *top, Grid *grid, Area *area)
{
    const GpuRow *row = top->view == VIEW_GPU ? top_followed(top) : NULL;
    const size_t wrong = incidents_wrong(top), room = area->height < 20 ? 1 : area->height < 40 ? 2 : TROUBLES_MAX;
    const StatusNames names = status_name_problems(top->incidents.at, wrong);
    const bool bad = top->incidents.at[0]->severity > SEVERITY_WARNING;
    const Area line = area_top(area, 1);
    size_t below = top->view == VIEW_INCIDENTS ? wrong : 0, i = 0;
    char more[64];

    for (size_t k = 0; row && k < wrong; k++)
        below += status_incident_on(top->incidents.at[k], row->gpu);
    const size_t shown = below > 0 ? 0 : wrong < room ? wrong : room;
    int x = text_badge(grid, line, bad ? INK_BAD : INK_WARN, " Problem: ");
    for (; i < names.len && x + (int)strlen(names.at[i]) + 12 <= line.width; i++)
        x = grid_textf(grid, line, x, 0, INK_STRONG, "%s%s", i ? ", " : "", names.at[i]);
    if (i < names.all)
        grid_textf(grid, line, x, 0, INK_STRONG, " and more");
    if (wrong > shown + below) {
        snprintf(more, sizeof more, "%zu in all: 4", wrong);
        grid_right(grid, line, line.width, 0, INK_KEY, more);
    }
    top_zone(top, line, ZONE_KEY, '4');
    for (i = 0; i < shown; i++)
        incident_draw(top, grid, area, top->incidents.at[i]);
}

static void draw_maintenance(const Top *top, Grid *grid, Area *area)
{
    const Maintenance *maintenance = top->snapshot->maintenance;

    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);
        char until[CLOCK_TEXT_MAX], scope[MAINTENANCE_UUIDS * DEVICE_UUID_CAP];
        Str text;

        if (!window->active)
            continue;
        const Area row = area_top(area, 1);
        clock_format(until, window->until_real_ns);
        str_init_room(&text, scope, sizeof scope);
        status_add_scope(window, &text);
        const int x = grid_text(grid, row, 0, 0, INK_WARN, "maintenance");
        grid_textf(grid, row, x + 1, 0, INK_PLAIN, "%s until %.10s %.5sZ: %s (%s)", scope, until, until + 11,
                   window->reason, window->who);
    }
}

void head_draw(Top *top, Grid *grid, Area *area)
{
    draw_first(top, grid, area_top(area, 1));
    draw_stale(top, grid, area);
    draw_replay(top, grid, area);
    if (!top->snapshot->node)
        return;
    const bool known = status_code(top->snapshot) == 0, old = top->feed->trouble[0];
    const char *none = status_no_driver(top->snapshot->node);
    if (none) {
        area_top(area, text_wrap(grid, *area, 0, INK_WARN, none));
    } else if (incidents_wrong(top) > 0) {
        draw_problems(top, grid, area);
    } else {
        const Area row = area_top(area, 1);
        const int x = text_badge(grid, row, known && !old ? INK_GOOD : INK_WARN,
                                 !known ? " Nothing sampled yet "
                                 : old  ? " Was healthy "
                                        : " All healthy ");
        draw_sums(top->snapshot->node, grid, row, x + 1);
    }
    draw_maintenance(top, grid, area);
}
