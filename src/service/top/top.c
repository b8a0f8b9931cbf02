/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "service/top/inside.h"

/* Before the first snapshot. */
static const Snapshot no_snapshot;
static const FeedState no_feed = {.kind = FEED_RECORDING, .speed = 1};

static int choose_view(Top *top, const TopOptions *options, Err *err)
{
    if (!options->view) {
        top->view = options->gpu ? VIEW_GPU : VIEW_GPUS;
        return 0;
    }
    for (size_t i = 0; i < VIEW_END; i++)
        if (strcmp(top_views[i].name, options->view) == 0) {
            top->view = (ViewId)i;
            return 0;
        }
    return err_set(err, -EINVAL, "no view '%s'; there are gpus, gpu, processes, incidents, topology", options->view);
}

static int choose_sort(Top *top, const char *name, Err *err)
{
    char all[TOP_TEXT_CAP * 2] = "";

    for (size_t i = 0; i < process_column_count(); i++) {
        if (strcmp(process_column_key(i), name) == 0) {
            top->sort = i;
            return 0;
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", process_column_key(i));
    }
    return err_set(err, -EINVAL, "no column '%s' to sort by; there are %s", name, all);
}

int top_new(const TopOptions *options, History *history, Top **ret, Err *err)
{
    Top *top = xcalloc(1, sizeof *top);
    int rc = choose_view(top, options, err);

    if (rc == 0)
        rc = choose_sort(top, options->sort ? options->sort : "memory", err);
    if (rc < 0) {
        free(top);
        return rc;
    }
    top->snapshot = &no_snapshot;
    top->feed = &no_feed;
    top->history = history;
    top->read_only = options->read_only;
    top->span = SPAN_TEN;
    top->speed = 1;
    str_init(&top->sheet, TOP_SHEET_MAX);
    snprintf(top->filter, sizeof top->filter, "%s", options->filter ? options->filter : "");
    snprintf(top->wanted, sizeof top->wanted, "%s", options->gpu ? options->gpu : "");
    for (size_t i = 0; i < plot_count(); i++)
        top->plotted[i] = plot_usual(i);
    *ret = top;
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
    vec_done(&top->order);
    vec_done(&top->order_spare);
    vec_done(&top->cpu);
    vec_done(&top->cpu_before);
    str_done(&top->sheet);
    free(top);
}

/* Resolves --gpu with the first snapshot. */
static void resolve_wanted(Top *top)
{
    const Node *node = top->snapshot->node;
    const NodeGpu *gpu;

    if (!top->wanted[0] || !node)
        return;
    const Reading *reading = api_find(node, top->wanted, &gpu);
    if (reading) {
        top_follow(top, &reading->device);
    } else {
        char text[sizeof top->said];
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
        if (top->gpus.at[i].wrong && top->gpus.at[i].severity > worst) {
            worst = top->gpus.at[i].severity;
            top->gpu_list.selected = i;
        }
}

void top_see(Top *top, const Snapshot *snapshot, const FeedState *feed)
{
    top->snapshot = snapshot;
    top->feed = feed;
    top->real_ns = snapshot->node ? snapshot->node->real_ns : 0;
    processes_cpu(top);
    processes_see(top);
    rows_see(top);
    if (!top->touched)
        choose_worst(top);
    resolve_wanted(top);
    if (top->said_left > 0)
        top->said_left--;
    if (top->gpu_thing.kind != THING_NONE) /* the selected object is gone: select what is under the cursor */
        top_views[VIEW_GPUS].moved(top);
    if (top->process_thing.kind != THING_NONE)
        top_views[VIEW_PROCESSES].moved(top);
    if (top->incident_selected.kind != THING_NONE)
        top_views[VIEW_INCIDENTS].moved(top);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static bool closes_overlay(const Top *top, uint32_t key)
{
    if (key == TOP_KEY_ESCAPE || key == TOP_KEY_F1 + 9 || key == 'q')
        return true;
    return top->overlay == OVERLAY_HELP && (key == TOP_KEY_F1 || key == '?' || key == 'h');
}

static TopWish overlay_key(Top *top, uint32_t key)
{
    if (closes_overlay(top, key)) {
        top_open(top, OVERLAY_NONE);
        return TOP_WISH_NONE;
    }
    if (top->overlay == OVERLAY_PROCESS && (key == 'k' || key == TOP_KEY_F1 + 8)) {
        overlay_signal_open(top);
        return TOP_WISH_NONE;
    }
    return top_overlays[top->overlay].key(top, key);
}

TopWish top_key(Top *top, uint32_t key)
{
    const View *view = &top_views[top->view];

    top->said_left = 0;
    top->touched = true;
    if (key == 3) /* Control-C always quits */
        return TOP_WISH_QUIT;
    if (top->overlay != OVERLAY_NONE)
        return overlay_key(top, key);
    if (top->prompt != PROMPT_NONE)
        return prompt_key(top, key);
    if (list_key(top_list(top), key)) {
        if (view->moved)
            view->moved(top);
        if (key == TOP_KEY_HOME) /* stay at the top */
            top->process_thing.kind = top->incident_selected.kind = THING_NONE;
        return TOP_WISH_NONE;
    }
    return keys_run(top, key);
}

/* --- the mouse ---------------------------------------------------------------------------------------------------- */

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
static TopWish click_row(Top *top, List *list, size_t row, bool twice)
{
    const View *view = &top_views[top->view];
    const bool again = list->selected == row;

    if (row >= list->count)
        return TOP_WISH_NONE;
    list->selected = row;
    if (top->overlay == OVERLAY_NONE && view->moved)
        view->moved(top);
    if (top->overlay == OVERLAY_SETUP || again || twice)
        return top_key(top, TOP_KEY_ENTER);
    return TOP_WISH_NONE;
}

static TopWish click_head(Top *top, size_t column)
{
    top->reverse = column == top->sort && !top->reverse;
    top->sort = column < process_column_count() ? column : top->sort;
    processes_see(top);
    return TOP_WISH_NONE;
}

static TopWish handle_click(Top *top, const Zone *zone, bool twice)
{
    switch (zone->kind) {
    case ZONE_KEY:
        return top_key(top, zone->value);
    case ZONE_VIEW:
        top_go(top, (ViewId)zone->value);
        return TOP_WISH_NONE;
    case ZONE_ROW:
        return click_row(top, top_list(top), zone->value, twice);
    case ZONE_SORT:
        return click_head(top, zone->value);
    default:
        return top->overlay != OVERLAY_NONE ? click_row(top, &top->overlay_list, zone->value, twice) : TOP_WISH_NONE;
    }
}

TopWish top_mouse(Top *top, TopMouse what, int x, int y)
{
    const View *view = &top_views[top->view];
    const Zone *zone = zone_at(top, x, y);

    top->touched = true;
    if (what == TOP_MOUSE_UP || what == TOP_MOUSE_DOWN) {
        List *list = top->overlay != OVERLAY_NONE ? &top->overlay_list : top_list(top);
        if (!top->confirming)
            list_move(list, what == TOP_MOUSE_UP ? -3 : 3);
        if (top->overlay == OVERLAY_NONE && view->moved)
            view->moved(top);
        return TOP_WISH_NONE;
    }
    return zone ? handle_click(top, zone, what == TOP_MOUSE_DOUBLE) : TOP_WISH_NONE;
}

/* --- the screen --------------------------------------------------------------------------------------------------- */

static void draw_overlay(Top *top, Grid *grid)
{
    const Overlay *overlay = &top_overlays[top->overlay];
    const Area all = grid_area(grid);
    const int width = overlay->width && overlay->width + 4 < all.width ? overlay->width + 4 : all.width;
    const int height = overlay->height && overlay->height + 2 < all.height ? overlay->height + 2 : all.height;
    const Area place = {.x = (all.width - width) / 2, .y = (all.height - height) / 2, .width = width, .height = height};

    top->zone_count = 0; /* the view below does not react */
    grid_fill(grid, place, INK_PLAIN, " ");
    Area inside = grid_box(grid, place, INK_TITLE, overlay->title);
    if (inside.width > 4) {
        inside.x++;
        inside.width -= 2;
    }
    overlay->draw(top, grid, inside);
}

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
        draw_overlay(top, grid);
}

/* --- wishes ------------------------------------------------------------------------------------------------------- */

TopSignal top_signal(const Top *top)
{
    return top->signal;
}

double top_seek(const Top *top)
{
    return top->seek_s;
}

double top_speed(const Top *top)
{
    return top->speed;
}
