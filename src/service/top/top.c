/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the screen, snapshots, keys, the mouse. */
#include "service/top/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "service/top/inside.h"

/* Before the first snapshot. */
static const Snapshot no_snapshot;
static const FeedState no_feed = {.kind = FEED_RECORDING, .play.speed = 1};

CLEANUP_POINTER(Top, top_free);

static int choose_view(Top *top, const TopOptions *options, Err *err)
{
    top->view = options->gpu ? VIEW_GPU : VIEW_GPUS;
    if (!options->view)
        return 0;
    for (top->view = 0; top->view < VIEW_END; top->view++)
        if (strcmp(top_views[top->view].name, options->view) == 0)
            return 0;
    return err_set(err, -EINVAL, "no view '%s'; there are gpus, gpu, processes, incidents, topology", options->view);
}

static int choose_sort(Top *top, const char *name, Err *err)
{
    char all[TOP_TEXT_CAP * 2] = "";

    for (size_t i = 0; i < process_column_count; i++) {
        if (strcmp(process_columns[i].column.key, name) == 0) {
            top->sort = i;
            return 0;
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", process_columns[i].column.key);
    }
    return err_set(err, -EINVAL, "no column '%s' to sort by; there are %s", name, all);
}

int top_new(const TopOptions *options, History *history, Top **ret, Err *err)
{
    CLEANUP(top_free_at) Top *top = xcalloc(1, sizeof *top);

    TRY(choose_view(top, options, err));
    TRY(choose_sort(top, options->sort ? options->sort : "memory", err));
    top->snapshot = &no_snapshot;
    top->feed = &no_feed;
    top->history = history;
    top->read_only = options->read_only;
    top->span = SPAN_TEN;
    top->dots = top->list_processes = true;
    str_init(&top->sheet, TOP_SHEET_MAX);
    snprintf(top->filter, sizeof top->filter, "%s", options->filter ? options->filter : "");
    snprintf(top->wanted, sizeof top->wanted, "%s", options->gpu ? options->gpu : "");
    for (size_t i = 0; i < top_plot_count; i++)
        top->plotted[i] = top_plots[i].usual;
    *ret = TAKE(top);
    return 0;
}

void top_free(Top *top)
{
    if (!top)
        return;
    vec_done(&top->incidents);
    vec_done(&top->gpus);
    vec_done(&top->processes);
    vec_done(&top->spare);
    vec_done(&top->cpu);
    str_done(&top->sheet);
    free(top);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

/* Resolves --gpu with the first snapshot. */
static void resolve_wanted(Top *top)
{
    const Node *node = top->snapshot->node;
    char text[sizeof top->said];
    const NodeGpu *gpu;

    if (!top->wanted[0] || !node)
        return;
    const Reading *reading = api_find(node, top->wanted, &gpu);
    if (reading) {
        top_follow(top, &reading->device);
    } else {
        snprintf(text, sizeof text, "no GPU '%s' on this node", top->wanted);
        top_say(top, INK_WARN, text);
    }
    top->wanted[0] = '\0';
}

/* Puts the cursor on the GPU with the worst problem, until the user has chosen another. */
static void choose_worst(Top *top)
{
    FaultSeverity worst = SEVERITY_INFO;

    for (size_t i = 0; i < top->gpus.len; i++)
        if (top->gpus.at[i].severity > worst) {
            worst = top->gpus.at[i].severity;
            top->gpu_list.selected = i;
        }
}

void top_see(Top *top, const Snapshot *snapshot, const FeedState *feed)
{
    processes_cpu(top, snapshot);
    top->snapshot = snapshot;
    top->feed = feed;
    top->real_ns = snapshot->node ? snapshot->node->real_ns : 0;
    processes_see(top);
    incidents_see(top);
    gpus_see(top);
    top_find_things(top);
    if (!top->touched)
        choose_worst(top);
    resolve_wanted(top);
    if (top->said_left > 0)
        top->said_left--;
}

/* --- keys and the mouse ------------------------------------------------------------------------------------------- */

TopWish top_key(Top *top, uint32_t key)
{
    List *list = top_list(top);

    top->wish = TOP_WISH_NONE;
    top->said_left = 0;
    top->touched = true;
    if (key == 3) { /* Control-C always quits */
        top->wish = TOP_WISH_QUIT;
    } else if (top->overlay != OVERLAY_NONE) {
        overlay_key(top, key);
    } else if (top->prompt != PROMPT_NONE) {
        prompt_key(top, key);
    } else if (!list_key(list, key)) {
        keys_run(top, key);
    } else {
        top_moved(top, top->view);
        if (key == TOP_KEY_HOME) /* stay at the top */
            list->thing.kind = THING_NONE;
    }
    return top->wish;
}

static const Zone *zone_at(const Top *top, int x, int y)
{
    for (size_t i = top->zone_count; i-- > 0;) {
        const Area *a = &top->zones[i].area;

        if (x >= a->x && x < a->x + a->width && y >= a->y && y < a->y + a->height)
            return &top->zones[i];
    }
    return NULL;
}

/* A click chooses a row; one on the chosen row, or a double one, opens it. */
static void click_row(Top *top, size_t row, bool twice)
{
    List *list = top->overlay != OVERLAY_NONE ? &top->overlay_list : top_list(top);
    const bool again = list->selected == row;

    if (row >= list->count)
        return;
    list->selected = row;
    if (top->overlay == OVERLAY_NONE)
        top_moved(top, top->view);
    if (top->overlay == OVERLAY_SETUP || again || twice)
        (void)top_key(top, TOP_KEY_ENTER);
}

static void handle_click(Top *top, const Zone *zone, bool twice)
{
    switch (zone->kind) {
    case ZONE_KEY:
        (void)top_key(top, zone->value);
        break;
    case ZONE_VIEW:
        top_go(top, (ViewId)zone->value);
        break;
    case ZONE_ROW:
        click_row(top, zone->value, twice);
        break;
    case ZONE_SORT:
        top->reverse = zone->value == top->sort && !top->reverse;
        top->sort = zone->value;
        top_order(top);
        break;
    }
}

TopWish top_mouse(Top *top, TopMouse what, int x, int y)
{
    const Zone *zone = zone_at(top, x, y);
    const long by = what == TOP_MOUSE_UP ? -3 : 3;

    top->wish = TOP_WISH_NONE;
    top->touched = true;
    if (what == TOP_MOUSE_CLICK || what == TOP_MOUSE_DOUBLE) {
        if (zone)
            handle_click(top, zone, what == TOP_MOUSE_DOUBLE);
    } else if (top->overlay == OVERLAY_NONE) {
        list_move(top_list(top), by);
        top_moved(top, top->view);
    } else if (top->overlay != OVERLAY_CONFIRM) {
        list_move(&top->overlay_list, by);
    }
    return top->wish;
}

/* --- the screen --------------------------------------------------------------------------------------------------- */

/* Dims old values. */
static void fade_area(Grid *grid, Area area)
{
    for (int y = area.y; y < area.y + area.height; y++)
        for (int x = area.x; x < area.x + area.width; x++)
            grid->cells[y * grid->width + x].ink = INK_DIM;
}

void top_draw(Top *top, Grid *grid)
{
    Area area = grid_area(grid);
    const bool seen = top->snapshot->node != NULL;

    top->zone_count = 0;
    grid_clear(grid);
    const Area foot = area_bottom(&area, grid->height > 1);
    head_draw(top, grid, &area);
    if (seen)
        top_views[top->view].draw(top, grid, area);
    else
        grid_text(grid, area, 1, 1, INK_DIM, "waiting for the first sample");
    if (seen && top->feed->trouble[0])
        fade_area(grid, area);
    foot_draw(top, grid, foot);
    if (top->overlay != OVERLAY_NONE && (seen || top->overlay == OVERLAY_HELP))
        overlay_draw(top, grid);
}

/* --- wishes ------------------------------------------------------------------------------------------------------- */

TopSignal top_signal(const Top *top)
{
    return top->signal;
}

double top_amount(const Top *top)
{
    return top->amount;
}
