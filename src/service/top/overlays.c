/* SPDX-License-Identifier: Apache-2.0 */
/* Overlays: help, setup, sorting, signals. */
#include "service/top/inside.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"

/* --- help --------------------------------------------------------------------------------------------------------- */

static const char *const notes[] = {
    "SM is the share of time in which the multiprocessors really worked; UTIL only says that some kernel ran. The mark "
    "in the bar of SM is UTIL: far apart means occupied and not busy.",
    "- is a value that is not there, never zero; the view of one GPU says why. Limits are the GPU's own: its slowdown "
    "temperature, its power limit.",
    "k signals a process, as in htop, so hjkl do not move. Signals are refused in read-only mode and of the past.",
};

static void draw_help_row(Pen *pen, Grid *grid, const char *label, const char *text)
{
    const Area line = pen_line(pen, false);

    grid_text(grid, line, 1, 0, INK_KEY, label);
    grid_text(grid, line, 18, 0, INK_PLAIN, text);
}

static void draw_help(Top *top, Grid *grid, Area area)
{
    Pen pen = pen_begin(&top->overlay_list, area, 1);
    char label[32];

    pen_title(&pen, grid, "Views");
    for (size_t i = 0; i < VIEW_END; i++) {
        snprintf(label, sizeof label, "%zu %s", i + 1, top_views[i].title);
        draw_help_row(&pen, grid, label, top_views[i].about);
    }
    pen_title(&pen, grid, "Keys");
    for (size_t i = 0; i < top_key_count; i++)
        if (top_keys[i].help) /* else described by the row before */
            draw_help_row(&pen, grid, top_keys[i].label, top_keys[i].help);
    draw_help_row(&pen, grid, "mouse",
                  "a row selects, again opens; heads sort; the foot's keys and the views' names work");
    pen_title(&pen, grid, "To know");
    for (size_t i = 0; i < ARRAY_LEN(notes); i++)
        for (const char *text = notes[i]; *text;) {
            const size_t len = text_fit(text, area.width > 20 ? area.width - 2 : 18);

            grid_textf(grid, pen_line(&pen, false), 1, 0, INK_PLAIN, "%.*s", (int)len, text);
            text += len + (text[len] == ' ');
        }
    pen_end(&pen, &top->overlay_list);
}

/* --- lists to choose from ----------------------------------------------------------------------------------------- */

/* Rows behind the plots: switches of Top, by their offsets. */
static const struct {
    const char *text;
    size_t offset; /* 0: the tree, which has three values */
} options[] = {
    {"plots as lines of dots (else blocks)", offsetof(Top, dots)},
    {"always one line for a GPU", offsetof(Top, compact)},
    {"processes below the GPUs", offsetof(Top, list_processes)},
    {"processes as a tree by job, pod and container", 0},
    {"processes in the reverse order", offsetof(Top, reverse)},
};

/* The switch of a row of the setup; NULL: the tree. */
static bool *find_switch(Top *top, size_t row)
{
    if (row < top_plot_count)
        return &top->plotted[row];
    const size_t offset = options[row - top_plot_count].offset;
    return offset ? (bool *)((char *)top + offset) : NULL;
}

static void draw_rows(Top *top, Grid *grid, Area area, size_t count, RowDraw *row)
{
    top->overlay_list.count = count;
    list_draw(top, &top->overlay_list, grid, area, 0, 0, row, NULL);
}

static void draw_setup_row(Top *top, Grid *grid, Area line, size_t row, const void *context UNUSED)
{
    const bool *is = find_switch(top, row);
    const int x = grid_text(grid, line, 1, 0, INK_KEY, (is ? *is : top->tree == TREE_OWNER) ? "[x]" : "[ ]");

    if (row < top_plot_count)
        grid_textf(grid, line, x + 1, 0, INK_PLAIN, "plot %s", top_plots[row].title);
    else
        grid_text(grid, line, x + 1, 0, INK_PLAIN, options[row - top_plot_count].text);
}

static void draw_setup(Top *top, Grid *grid, Area area)
{
    grid_text(grid, area_bottom(&area, 1), 1, 0, INK_DIM, "Space changes it, Escape closes");
    draw_rows(top, grid, area, top_plot_count + ARRAY_LEN(options), draw_setup_row);
}

static void choose_setup(Top *top)
{
    bool *is = find_switch(top, top->overlay_list.selected);

    if (is)
        *is = !*is;
    else
        top->tree = top->tree == TREE_OWNER ? TREE_NONE : TREE_OWNER;
    top_order(top);
}

static void draw_sort_row(Top *top, Grid *grid, Area line, size_t row, const void *context UNUSED)
{
    const int x = grid_text(grid, line, 1, 0, INK_KEY, row == top->sort ? "*" : " ");

    grid_text(grid, line, x + 1, 0, INK_PLAIN, process_columns[row].column.key);
}

static void draw_sort(Top *top, Grid *grid, Area area)
{
    draw_rows(top, grid, area, process_column_count, draw_sort_row);
}

static void choose_sort(Top *top)
{
    top->sort = top->overlay_list.selected;
    top->reverse = false;
    top_order(top);
    top_open(top, OVERLAY_NONE);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static const struct {
    int number;
    const char *name, *text;
} signals[] = {
    {SIGTERM, "SIGTERM", "asks it to end"},
    {SIGINT, "SIGINT", "as Control-C"},
    {SIGKILL, "SIGKILL", "ends it at once, nothing is saved"},
    {SIGHUP, "SIGHUP", "hang up; many programs read their settings again"},
    {SIGQUIT, "SIGQUIT", "ends it with a core dump"},
    {SIGABRT, "SIGABRT", "ends it with a core dump"},
    {SIGUSR1, "SIGUSR1", "as the program has it"},
    {SIGUSR2, "SIGUSR2", "as the program has it"},
    {SIGSTOP, "SIGSTOP", "stops it; it keeps its GPU memory"},
    {SIGCONT, "SIGCONT", "lets it go on"},
};

void overlay_signal_open(Top *top)
{
    const ProcessRow *row = top_process(top);

    if (top->read_only)
        top_say(top, INK_WARN, "read only: no signals are sent");
    else if (top->feed->kind == FEED_RECORDING || top->feed->kind == FEED_HISTORY)
        top_say(top, INK_WARN, "this is the past: its processes cannot be signalled");
    else if (!row)
        top_say(top, INK_WARN, "choose a process first: arrows, or 3 for all processes");
    else if (!row->owner || row->owner->start_ns == 0)
        top_say(top, INK_WARN, "this process is not seen here (another pid namespace, or it has ended)");
    else {
        top->target = process_row_thing(row);
        top->target_owner = *row->owner;
        top_open(top, OVERLAY_SIGNAL);
    }
}

/* Removes its rows and a blank one from the area. */
static void draw_target(const Top *top, Grid *grid, Area *area)
{
    const ProcessOwner *owner = &top->target_owner;
    const bool roomy = area->height > 8;
    int x = grid_text(grid, *area, 0, 0, INK_DIM, "process "), rows = 2;
    Area three = *area;

    x = grid_textf(grid, *area, x, 0, INK_STRONG, "%" PRIu32, top->target.pid);
    x = grid_text(grid, *area, x, 0, INK_DIM, " of ");
    grid_text(grid, *area, x, 0, INK_STRONG, owner->user[0] ? owner->user : "an unknown user");
    three.height = 3;
    if (area->height > 12)
        rows = text_wrap(grid, three, 1, INK_PLAIN, owner_command(owner));
    else
        grid_text(grid, *area, 0, 1, INK_PLAIN, owner_command(owner));
    area_top(area, rows + roomy);
}

static void draw_signal_row(Top *top UNUSED, Grid *grid, Area line, size_t i, const void *context UNUSED)
{
    grid_textf(grid, line, 1, 0, INK_KEY, "%2d %s", signals[i].number, signals[i].name);
    grid_text(grid, line, 13, 0, INK_PLAIN, signals[i].text);
}

static void draw_signals(Top *top, Grid *grid, Area area)
{
    draw_target(top, grid, &area);
    draw_rows(top, grid, area, ARRAY_LEN(signals), draw_signal_row);
}

static void choose_signal(Top *top)
{
    top_open(top, OVERLAY_CONFIRM);
}

static void draw_confirm(Top *top, Grid *grid, Area area)
{
    const size_t chosen = top->overlay_list.selected;

    draw_target(top, grid, &area);
    grid_textf(grid, area, 0, 0, INK_WARN, "Send %s to it? It %s.", signals[chosen].name, signals[chosen].text);
    int x = grid_text(grid, area, 0, 2, INK_KEY, "y");
    x = grid_text(grid, area, x, 2, INK_PLAIN, " sends it   ");
    x = grid_text(grid, area, x, 2, INK_KEY, "n");
    grid_text(grid, area, x, 2, INK_PLAIN, " or Escape does not");
}

static void answer_confirm(Top *top, uint32_t key)
{
    const size_t chosen = top->overlay_list.selected;
    const bool yes = key == 'y' || key == 'Y';

    if (!yes && key != 'n' && key != 'N')
        return;
    top_open(top, OVERLAY_NONE);
    if (!yes)
        return;
    top->signal = (TopSignal){.pid = (pid_t)top->target.pid,
                              .start_ns = top->target_owner.start_ns,
                              .number = signals[chosen].number,
                              .name = signals[chosen].name};
    top->wish = TOP_WISH_SIGNAL;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

typedef struct Overlay {
    void (*draw)(Top *top, Grid *grid, Area area); /* within a frame that is drawn already */
    void (*choose)(Top *top);                      /* Enter or Space; NULL: closes it */
    const char *title;
    int width, height; /* wanted inside; 0: all there is */
} Overlay;

static const Overlay overlays[OVERLAY_END] = {
    [OVERLAY_HELP] = {draw_help, NULL, "help", 0, 0},
    [OVERLAY_SETUP] = {draw_setup, choose_setup, "setup", 54, 18},
    [OVERLAY_SORT] = {draw_sort, choose_sort, "sort processes by", 30, 12},
    [OVERLAY_SIGNAL] = {draw_signals, choose_signal, "send a signal", 70, 16},
    [OVERLAY_CONFIRM] = {draw_confirm, NULL, "send a signal", 70, 16},
    [OVERLAY_PROCESS] = {overlay_process_draw, NULL, "process", 110, 16},
    [OVERLAY_INCIDENT] = {overlay_incident_draw, NULL, "incident", 0, 0},
};

void overlay_draw(Top *top, Grid *grid)
{
    const Overlay *overlay = &overlays[top->overlay];
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

static bool closes_overlay(const Top *top, uint32_t key)
{
    if (key == TOP_KEY_ESCAPE || key == TOP_KEY_F1 + 9 || key == 'q')
        return true;
    return top->overlay == OVERLAY_HELP && (key == TOP_KEY_F1 || key == '?' || key == 'h');
}

void overlay_key(Top *top, uint32_t key)
{
    const Overlay *overlay = &overlays[top->overlay];
    const bool enter = key == TOP_KEY_ENTER || (key == ' ' && top->overlay != OVERLAY_SIGNAL);

    if (closes_overlay(top, key))
        top_open(top, OVERLAY_NONE);
    else if (top->overlay == OVERLAY_CONFIRM)
        answer_confirm(top, key);
    else if (enter && overlay->choose)
        overlay->choose(top);
    else if (enter)
        top_open(top, OVERLAY_NONE);
    else if (top->overlay == OVERLAY_PROCESS && (key == 'k' || key == TOP_KEY_F1 + 8))
        overlay_signal_open(top);
    else if (!list_key(&top->overlay_list, key))
        for (size_t i = 0; i < ARRAY_LEN(signals) && top->overlay == OVERLAY_SIGNAL; i++)
            if (key >= '1' && key <= '9' && signals[i].number == (int)(key - '0'))
                top->overlay_list.selected = i;
}
