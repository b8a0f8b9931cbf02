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

static int choose_theme(Top *top, const TopOptions *options, Err *err)
{
    if (!options->theme)
        return 0;
    for (top->theme = 0; top->theme < THEME_END; top->theme++)
        if (strcmp(theme_names[top->theme], options->theme) == 0)
            return 0;
    return err_set(err, -EINVAL, "no theme '%s'; there are auto, dark, light, colour-blind", options->theme);
}

static int choose_places(Top *top, const TopOptions *options, Err *err)
{
    const char *view = options->view ? options->view : options->gpu ? "gpu" : "gpus";
    const TopSettings *settings = options->settings ? options->settings : &top_settings_usual;
    const char *sort = options->sort ? options->sort : settings->sort;
    char all[TOP_TEXT_CAP * 2] = "";
    Str names;

    str_init_room(&names, all, sizeof all);
    while (top->view < VIEW_END && strcmp(top_views[top->view].name, view) != 0)
        top->view++;
    if (top->view == VIEW_END)
        return err_set(err, -EINVAL, "no view '%s'; there are gpus, gpu, processes, incidents, topology", view);
    for (; top->sort < process_column_count; top->sort++) {
        const char *key = process_columns[top->sort].column.key;

        if (strcmp(key, sort) == 0)
            return 0;
        str_addf(&names, "%s%s", top->sort ? ", " : "", key);
    }
    return err_set(err, -EINVAL, "no column '%s' to sort by; there are %s", sort, all);
}

int top_new(const TopOptions *options, History *history, Top **ret, Err *err)
{
    CLEANUP(top_free_at) Top *top = xcalloc(1, sizeof *top);

    top_apply_settings(top, options->settings ? options->settings : &top_settings_usual);
    TRY(choose_theme(top, options, err));
    TRY(choose_places(top, options, err));
    top->snapshot = &no_snapshot;
    top->feed = &no_feed;
    top->history = history;
    top->read_only = options->read_only;
    str_init(&top->sheet, TOP_SHEET_MAX);
    snprintf(top->filter, sizeof top->filter, "%s", options->filter ? options->filter : "");
    snprintf(top->wanted, sizeof top->wanted, "%s", options->gpu ? options->gpu : "");
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
    vec_done(&top->jobs);
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

void top_see(Top *top, const Snapshot *snapshot, const FeedState *feed)
{
    FaultSeverity worst = SEVERITY_INFO;

    processes_cpu(top, snapshot);
    top->snapshot = snapshot;
    top->feed = feed;
    top->real_ns = snapshot->node ? snapshot->node->real_ns : 0;
    processes_see(top);
    incidents_see(top);
    gpus_see(top);
    top_find_things(top);
    for (size_t i = 0; i < top->gpus.len && !top->touched; i++) /* the worst problem, until the user has chosen */
        if (top->gpus.at[i].severity > worst) {
            worst = top->gpus.at[i].severity;
            top->gpu_list.selected = i;
        }
    resolve_wanted(top);
    if (top->said_left > 0)
        top->said_left--;
}

/* --- keys and the mouse ------------------------------------------------------------------------------------------- */

/* The keys of vi for those that move. */
static uint32_t translate_vi_key(uint32_t key)
{
    static const char letters[] = "hjklgG";
    static const uint32_t moves[] = {TOP_KEY_LEFT, TOP_KEY_DOWN, TOP_KEY_UP, TOP_KEY_RIGHT, TOP_KEY_HOME, TOP_KEY_END};
    const char *at = key > 0 && key < 0x80 ? strchr(letters, (int)key) : NULL;

    return at ? moves[at - letters] : key;
}

TopWish top_key(Top *top, uint32_t key)
{
    List *list = top_list(top);

    top->wish = TOP_WISH_NONE;
    top->said_left = 0;
    top->touched = true;
    key = top->prompt ? key : translate_vi_key(key);
    if (key == 3) { /* Control-C always quits */
        top->wish = TOP_WISH_QUIT;
    } else if (top->overlay != OVERLAY_NONE) {
        overlay_key(top, key);
    } else if (top->prompt) {
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

/* A click chooses a row; one on the chosen row opens it. */
static void click_row(Top *top, size_t row)
{
    List *list = top->overlay != OVERLAY_NONE ? &top->overlay_list : top_list(top);
    const bool again = list->selected == row;

    if (row >= list->count)
        return;
    list->selected = row;
    if (top->overlay == OVERLAY_NONE)
        top_moved(top, top->view);
    if (top->overlay == OVERLAY_SETUP || again)
        (void)top_key(top, TOP_KEY_ENTER);
}

static void handle_click(Top *top, int x, int y)
{
    const Zone *zone = NULL;

    for (size_t i = top->zone_count; i-- > 0 && !zone;) {
        const Area *a = &top->zones[i].area;

        if (x >= a->x && x < a->x + a->width && y >= a->y && y < a->y + a->height)
            zone = &top->zones[i];
    }
    if (!zone)
        return;
    if (zone->kind == ZONE_KEY) {
        top->prompt = false; /* the key is not typed into the filter */
        (void)top_key(top, zone->value);
    } else if (zone->kind == ZONE_ROW) {
        click_row(top, zone->value);
    } else {
        top->reverse = zone->value == top->sort && !top->reverse;
        top->sort = zone->value;
        top_order(top);
    }
}

TopWish top_mouse(Top *top, TopMouse what, int x, int y)
{
    const long by = what == TOP_MOUSE_UP ? -3 : 3;

    top->wish = TOP_WISH_NONE;
    top->touched = true;
    if (what == TOP_MOUSE_CLICK) {
        handle_click(top, x, y);
    } else if (top->overlay == OVERLAY_NONE) {
        list_move(top_list(top), by);
        top_moved(top, top->view);
    } else if (top->overlay != OVERLAY_CONFIRM) {
        list_move(&top->overlay_list, by);
    }
    return top->wish;
}

/* --- the screen --------------------------------------------------------------------------------------------------- */

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
    for (int i = area.y * grid->width; seen && top->feed->trouble[0] && i < foot.y * grid->width; i++)
        grid->cells[i].ink = INK_DIM; /* old values */
    foot_draw(top, grid, foot);
    if (top->overlay != OVERLAY_NONE && (seen || top->overlay == OVERLAY_HELP))
        overlay_draw(top, grid);
}

/* --- wishes ------------------------------------------------------------------------------------------------------- */

TopSignal top_signal(const Top *top)
{
    return top->signal;
}

Theme top_theme(const Top *top)
{
    return top->theme;
}

double top_amount(const Top *top)
{
    return top->amount;
}
