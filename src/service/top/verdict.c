/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all is well: what the GPUs do together, or what is wrong with what, and what to do; what is in maintenance.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/human.h"
#include "service/top/inside.h"
#include "service/top/value.h"

enum { TROUBLES_MAX = 4, THINGS_MAX = 6 };

typedef struct Sums {
    size_t busy, waiting, held, free, unknown;
    double power, limit, used, total, margin;
    const NodeGpu *hottest;
} Sums;

static void add(double *sum, double value)
{
    if (isfinite(value))
        *sum += value;
}

static Sums sum_up(const Node *node)
{
    Sums sums = {.margin = (double)INFINITY};

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        const GpuUse use = value_use(gpu);
        const double margin = value_margin(&gpu->reading);

        sums.busy += use == USE_BUSY;
        sums.waiting += use == USE_WAITING;
        sums.held += use == USE_HELD;
        sums.free += use == USE_FREE;
        sums.unknown += use == USE_UNKNOWN;
        add(&sums.power, value_raw(&gpu->reading, METRIC_POWER_USAGE));
        add(&sums.limit, value_raw(&gpu->reading, METRIC_ENFORCED_POWER_LIMIT));
        add(&sums.used, value_base(&gpu->reading, METRIC_FB_USED));
        add(&sums.total, value_base(&gpu->reading, METRIC_FB_TOTAL));
        if (margin < sums.margin) {
            sums.margin = margin;
            sums.hottest = gpu;
        }
    }
    return sums;
}

/* "5 at work, 1 only held, 2 free · 4.9 of 5.6 kW · 412 of 640 GiB · ..." */
static void draw_sums(const Sums *sums, Grid *grid, Area row, int x)
{
    const Sums s = *sums;
    const char *dot = text_dot(grid);
    char used[HUMAN_MAX], total[HUMAN_MAX], hottest[TOP_TEXT_CAP];

    x = grid_textf(grid, row, x, 0, INK_PLAIN, "%zu at work", s.busy);
    if (s.waiting > 0)
        x = grid_textf(grid, row, x, 0, INK_WARN, ", %zu occupied with little work", s.waiting);
    if (s.held > 0)
        x = grid_textf(grid, row, x, 0, INK_WARN, ", %zu only held", s.held);
    if (s.free > 0)
        x = grid_textf(grid, row, x, 0, INK_PLAIN, ", %zu free", s.free);
    if (s.unknown > 0)
        x = grid_textf(grid, row, x, 0, INK_DIM, ", %zu not known", s.unknown);
    if (s.limit > 0)
        x = grid_textf(grid, row, x, 0, INK_PLAIN, "%s%.2f of %.2f kW", dot, s.power / 1000, s.limit / 1000);
    if (s.total > 0)
        x = grid_textf(grid, row, x, 0, INK_PLAIN, "%s%s of %s", dot, human_bytes(used, s.used),
                       human_bytes(total, s.total));
    if (!s.hottest || s.margin <= 0)
        return;
    snprintf(hottest, sizeof hottest, "%sGPU %" PRIu32 " is the hottest, %.0f C below its slowdown", dot,
             s.hottest->reading.device.index, s.margin);
    if (x + grid_text_width(hottest) <= row.width)
        grid_text(grid, row, x, 0, INK_PLAIN, hottest);
}

/* What a program did wrong is no fault of its GPU. */
static void thing_name(const TroubleRow *row, char out[TOP_TEXT_CAP])
{
    char where[TOP_TEXT_CAP];

    trouble_where(row, where);
    if (!row->incident || row->incident->cause != CAUSE_APPLICATION)
        memcpy(out, where, sizeof where);
    else if (strcmp(where, "node") == 0)
        snprintf(out, TOP_TEXT_CAP, "a program");
    else
        snprintf(out, TOP_TEXT_CAP, "a program on %.60s", where);
}

/* Things that are wrong, each once. */
static void draw_things(const Top *top, Grid *grid, Area row, int x)
{
    char names[THINGS_MAX][TOP_TEXT_CAP], name[TOP_TEXT_CAP];
    size_t named = 0, more = 0;

    for (size_t i = 0; i < top->troubles.len && top->troubles.at[i].wrong; i++) {
        bool known = false;

        thing_name(&top->troubles.at[i], name);
        for (size_t k = 0; k < named; k++)
            known |= strcmp(names[k], name) == 0;
        if (known)
            continue;
        if (named == THINGS_MAX || x + (int)strlen(name) + 12 > row.width) {
            more++;
            continue;
        }
        x = grid_textf(grid, row, x, 0, INK_STRONG, "%s%s", named ? ", " : "", name);
        memcpy(names[named++], name, sizeof name);
    }
    if (more > 0)
        grid_textf(grid, row, x, 0, INK_STRONG, " and more");
}

static size_t wrong_count(const Top *top)
{
    size_t count = 0;

    while (count < top->troubles.len && top->troubles.at[count].wrong)
        count++;
    return count;
}

/* "GPU 3 (0000:61:00.0) has ..." without the address, which small screens have no room for. */
static const char *without_address(const char *title, char out[INCIDENT_TEXT_CAP])
{
    const char *open = strstr(title, " ("), *close = open ? strchr(open, ')') : NULL;

    if (!close || !strchr(open, ':') || strchr(open, ':') > close)
        return title;
    snprintf(out, INCIDENT_TEXT_CAP, "%.*s%s", (int)(open - title), title, close + 1);
    return out;
}

/* The title in at most two lines; returns how many. */
static int draw_title(Grid *grid, Area place, const char *title)
{
    char brief[INCIDENT_TEXT_CAP];

    if (grid_text_width(title) > place.width)
        title = without_address(title, brief);
    place.height = place.height > 2 ? 2 : place.height;
    return text_wrap(grid, place, 0, 0, INK_PLAIN, title);
}

void trouble_draw(Top *top, Grid *grid, Area *area, const TroubleRow *trouble)
{
    const char *title = trouble_title(trouble), *action = trouble_action(trouble);
    const bool one = area->width > 16 + grid_text_width(title) + grid_text_width(action);
    Area place = *area;

    grid_text(grid, area_left(&place, 8), 0, 0, severity_ink(trouble->severity),
              fault_severities[trouble->severity].key);
    const int lines = draw_title(grid, place, title);
    Area row = area_row(place, one ? 0 : lines);
    int x = one ? grid_text_width(title) + 1 : 0;
    x = grid_text(grid, row, x, 0, INK_KEY, grid->utf8 ? "\xe2\x86\x92 DO " : "-> DO ");
    grid_text(grid, row, x, 0, INK_STRONG, action);
    top_zone(top, area_top(area, one ? 1 : lines + 1), ZONE_KEY, '4');
}

/* How many of the troubles the view itself tells. */
static size_t told_below(const Top *top, size_t wrong)
{
    const GpuRow *row = top->view == VIEW_GPU ? top_followed(top) : NULL;
    size_t told = top->view == VIEW_INCIDENTS ? wrong : 0;

    for (size_t i = 0; row && i < wrong; i++)
        told += trouble_about(&top->troubles.at[i], row->gpu);
    return told;
}

/* Small screens show the worst alone. */
static size_t shown_troubles(const Area *area, size_t wrong)
{
    const size_t room = area->height < 20 ? 1 : area->height < 40 ? 2 : TROUBLES_MAX;

    return wrong < room ? wrong : room;
}

static void draw_wrong(Top *top, Grid *grid, Area *area)
{
    const size_t wrong = wrong_count(top), told = told_below(top, wrong);
    const size_t shown = told > 0 ? 0 : shown_troubles(area, wrong);
    const bool bad = top->troubles.at[0].severity > SEVERITY_WARNING;
    const Area row = area_top(area, 1);
    const Area word = {.x = row.x, .y = row.y, .width = 7, .height = row.height};
    char more[64];

    grid_text(grid, row, 0, 0, bad ? INK_BAD : INK_WARN, " WRONG ");
    grid_reverse(grid, word);
    draw_things(top, grid, row, 8);
    if (wrong > shown + told) {
        snprintf(more, sizeof more, "%zu in all: 4", wrong);
        grid_right(grid, row, row.width, 0, INK_KEY, more);
    }
    top_zone(top, row, ZONE_KEY, '4');
    for (size_t i = 0; i < shown; i++)
        trouble_draw(top, grid, area, &top->troubles.at[i]);
}

static void draw_maintenance(const Top *top, Grid *grid, Area *area)
{
    const Maintenance *maintenance = top->snapshot->maintenance;

    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);
        char until[CLOCK_TEXT_MAX];

        if (!window->active)
            continue;
        const Area row = area_top(area, 1);
        clock_format(until, window->until_real_ns);
        int x = grid_text(grid, row, 0, 0, INK_WARN, "maintenance");
        x = grid_text(grid, row, x + 1, 0, INK_PLAIN, window->gpus || window->uuids[0][0] ? "of GPU" : "of the node");
        const char *between = " ";
        for (int gpu = 0; gpu < 64; gpu++)
            if (window->gpus >> gpu & 1) {
                x = grid_textf(grid, row, x, 0, INK_PLAIN, "%s%d", between, gpu);
                between = ",";
            }
        for (size_t k = 0; !window->gpus && k < MAINTENANCE_UUIDS && window->uuids[k][0]; k++)
            x = grid_textf(grid, row, x, 0, INK_PLAIN, "%s%s", k ? "," : " ", window->uuids[k]);
        grid_textf(grid, row, x, 0, INK_PLAIN, " until %.10s %.5sZ: %s (%s)", until, until + 11, window->reason,
                   window->who);
    }
}

void verdict_draw(Top *top, Grid *grid, Area *area)
{
    if (wrong_count(top) > 0) {
        draw_wrong(top, grid, area);
        draw_maintenance(top, grid, area);
        return;
    }
    const Area row = area_top(area, 1);
    const bool known = status_code(top->snapshot) == 0, old = top->feed->trouble[0];
    const Sums sums = sum_up(top->snapshot->node);
    const char *word = !known                          ? " NOTHING SAMPLED YET "
                       : old                           ? " WAS WELL "
                       : sums.waiting + sums.held == 0 ? " ALL WELL "
                                                       : " NO FAULT ";
    int x = grid_text(grid, row, 0, 0, known && !old ? INK_GOOD : INK_WARN, word);

    grid_reverse(grid, (Area){.x = row.x, .y = row.y, .width = x < row.width ? x : row.width, .height = row.height});
    draw_sums(&sums, grid, row, x + 1);
    draw_maintenance(top, grid, area);
}
