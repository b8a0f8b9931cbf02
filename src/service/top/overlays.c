/* SPDX-License-Identifier: Apache-2.0 */
/* Overlays: help, setup, sorting, signals. */
#include "service/top/inside.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

const Overlay top_overlays[OVERLAY_END] = {
    [OVERLAY_HELP] = {overlay_help_draw, overlay_scroll_key, "help", 0, 0},
    [OVERLAY_SETUP] = {overlay_setup_draw, overlay_setup_key, "setup", 54, 18},
    [OVERLAY_SORT] = {overlay_sort_draw, overlay_sort_key, "sort processes by", 30, 12},
    [OVERLAY_SIGNAL] = {overlay_signal_draw, overlay_signal_key, "send a signal", 70, 16},
    [OVERLAY_PROCESS] = {overlay_process_draw, overlay_scroll_key, "process", 110, 16},
    [OVERLAY_INCIDENT] = {overlay_incident_draw, overlay_scroll_key, "incident", 0, 0},
};

/* Text that is longer than its frame. */
TopWish overlay_scroll_key(Top *top, uint32_t key)
{
    if (!list_key(&top->overlay_list, key) && (key == 'q' || key == TOP_KEY_ENTER || key == ' '))
        top_open(top, OVERLAY_NONE);
    return TOP_WISH_NONE;
}

/* --- help --------------------------------------------------------------------------------------------------------- */

static const char *const notes[] = {
    "SM is the share of time in which the multiprocessors really worked; UTIL only says that some kernel ran. The mark "
    "in the bar of SM is UTIL: far apart means occupied and not busy.",
    "- is a value that is not there, never zero; the view of one GPU says why. Limits are the GPU's own: its slowdown "
    "temperature, its power limit.",
    "k signals a process, as in htop, so hjkl do not move. Signals are refused in read-only mode and of the past.",
};

typedef struct HelpPen {
    Grid *grid;
    Area area;
    size_t first, line; /* lines above `first` are scrolled away */
} HelpPen;

static int help_y(HelpPen *pen)
{
    const size_t line = pen->line++;

    return line >= pen->first && line - pen->first < (size_t)pen->area.height ? (int)(line - pen->first) : -1;
}

static void help_row(HelpPen *pen, const char *label, const char *text)
{
    const int y = help_y(pen);

    if (y < 0)
        return;
    grid_text(pen->grid, pen->area, 1, y, INK_KEY, label);
    grid_text(pen->grid, pen->area, 18, y, INK_PLAIN, text);
}

static void help_title(HelpPen *pen, const char *title)
{
    int y;

    if (pen->line > 0)
        help_y(pen);
    y = help_y(pen);
    if (y >= 0)
        grid_text(pen->grid, pen->area, 0, y, INK_TITLE, title);
}

/* Lines of a note are broken here, as it may begin above the frame. */
static void help_note(HelpPen *pen, const char *text)
{
    const size_t room = pen->area.width > 20 ? (size_t)pen->area.width - 2 : 18;
    char line[600];

    while (*text) {
        size_t len = strlen(text);

        if (len > room)
            for (len = room; len > 1 && text[len] != ' ';)
                len--;
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        const int y = help_y(pen);
        if (y >= 0)
            grid_text(pen->grid, pen->area, 1, y, INK_PLAIN, line);
        for (text += len; *text == ' ';)
            text++;
    }
}

void overlay_help_draw(Top *top, Grid *grid, Area area)
{
    List *list = &top->overlay_list;
    HelpPen pen = {.grid = grid, .area = area, .first = list->selected};
    char label[32];

    help_title(&pen, "Views");
    for (size_t i = 0; i < VIEW_END; i++) {
        snprintf(label, sizeof label, "%zu %s", i + 1, top_views[i].title);
        help_row(&pen, label, top_views[i].about);
    }
    help_title(&pen, "Keys");
    for (size_t i = 0; i < top_key_count; i++)
        if (top_keys[i].help) /* else described by the row before */
            help_row(&pen, top_keys[i].label, top_keys[i].help);
    help_row(&pen, "mouse", "a row selects, again opens; heads sort; the foot's keys and the views' names work");
    help_title(&pen, "To know");
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        help_note(&pen, notes[i]);
    const size_t page = area.height > 0 ? (size_t)area.height : 1;
    list->page = page;
    list->count = pen.line > page ? pen.line - page + 1 : 1;
    list_move(list, 0);
}

/* --- setup ---------------------------------------------------------------------------------------------------------
 */

/* Rows behind the plots. */
enum { SETUP_BRAILLE, SETUP_COMPACT, SETUP_PROCESSES, SETUP_TREE, SETUP_REVERSE, SETUP_END };

static const char *const names[SETUP_END] = {
    [SETUP_BRAILLE] = "plots as lines of dots (else blocks)",
    [SETUP_COMPACT] = "always one line for a GPU",
    [SETUP_PROCESSES] = "processes below the GPUs",
    [SETUP_TREE] = "processes as a tree by job, pod and container",
    [SETUP_REVERSE] = "processes in the reverse order",
};

static bool is_on(const Top *top, size_t option)
{
    switch (option) {
    case SETUP_BRAILLE:
        return top->plot_style == PLOT_BRAILLE;
    case SETUP_COMPACT:
        return top->compact;
    case SETUP_PROCESSES:
        return !top->hide_processes;
    case SETUP_TREE:
        return top->tree == TREE_OWNER;
    default:
        return top->reverse;
    }
}

static void toggle_option(Top *top, size_t row)
{
    if (row < plot_count()) {
        top->plotted[row] = !top->plotted[row];
        return;
    }
    switch (row - plot_count()) {
    case SETUP_BRAILLE:
        top->plot_style = top->plot_style == PLOT_BRAILLE ? PLOT_BLOCK : PLOT_BRAILLE;
        break;
    case SETUP_COMPACT:
        top->compact = !top->compact;
        break;
    case SETUP_PROCESSES:
        top->hide_processes = !top->hide_processes;
        break;
    case SETUP_TREE:
        top->tree = top->tree == TREE_OWNER ? TREE_NONE : TREE_OWNER;
        break;
    default:
        top->reverse = !top->reverse;
        break;
    }
}

static void draw_choice(Top *top, Grid *grid, Area area, size_t row, const char *mark, const char *text)
{
    List *list = &top->overlay_list;

    if (row < list->first || row - list->first >= (size_t)area.height)
        return;
    const Area line = area_row(area, (int)(row - list->first));
    const int x = grid_text(grid, line, 1, 0, INK_KEY, mark);
    grid_text(grid, line, x + 1, 0, INK_PLAIN, text);
    if (row == list->selected)
        grid_reverse(grid, line);
    top_zone(top, line, ZONE_OVERLAY, (uint32_t)row);
}

void overlay_setup_draw(Top *top, Grid *grid, Area area)
{
    const Area foot = area_bottom(&area, 1);
    char text[64];

    top->overlay_list.count = plot_count() + SETUP_END;
    list_settle(&top->overlay_list, area.height > 0 ? (size_t)area.height : 1);
    for (size_t i = 0; i < top->overlay_list.count; i++) {
        const bool plot = i < plot_count(), on = plot ? top->plotted[i] : is_on(top, i - plot_count());

        if (plot)
            snprintf(text, sizeof text, "plot %s", plot_title(i));
        draw_choice(top, grid, area, i, on ? "[x]" : "[ ]", plot ? text : names[i - plot_count()]);
    }
    grid_text(grid, foot, 1, 0, INK_DIM, "Space changes it, Escape closes");
}

TopWish overlay_setup_key(Top *top, uint32_t key)
{
    if (list_key(&top->overlay_list, key))
        return TOP_WISH_NONE;
    if (key == ' ' || key == TOP_KEY_ENTER) {
        toggle_option(top, top->overlay_list.selected);
        processes_see(top);
    }
    return TOP_WISH_NONE;
}

/* --- sort --------------------------------------------------------------------------------------------------------- */

void overlay_sort_draw(Top *top, Grid *grid, Area area)
{
    top->overlay_list.count = process_column_count();
    list_settle(&top->overlay_list, area.height > 0 ? (size_t)area.height : 1);
    for (size_t i = 0; i < process_column_count(); i++)
        draw_choice(top, grid, area, i, i == top->sort ? "*" : " ", process_column_key(i));
}

TopWish overlay_sort_key(Top *top, uint32_t key)
{
    if (list_key(&top->overlay_list, key))
        return TOP_WISH_NONE;
    if (key == ' ' || key == TOP_KEY_ENTER) {
        top->sort = top->overlay_list.selected;
        top->reverse = false;
        processes_see(top);
        top_open(top, OVERLAY_NONE);
    }
    return TOP_WISH_NONE;
}

/* --- signals -------------------------------------------------------------------------------------------------------
 */

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

static int draw_target(const Top *top, Grid *grid, Area area)
{
    const ProcessOwner *owner = &top->target_owner;
    char text[PROCESS_COMMAND_CAP + 128];
    int x = grid_text(grid, area, 0, 0, INK_DIM, "process ");

    x = grid_textf(grid, area, x, 0, INK_STRONG, "%" PRIu32, top->target.pid);
    x = grid_text(grid, area, x, 0, INK_DIM, " of ");
    grid_text(grid, area, x, 0, INK_STRONG, owner->user[0] ? owner->user : "an unknown user");
    snprintf(text, sizeof text, "%s", owner->command[0] ? owner->command : owner->name);
    if (area.height > 12) {
        Area two = area;
        two.height = 3;
        return text_wrap(grid, two, 1, 0, INK_PLAIN, text);
    }
    grid_text(grid, area, 0, 1, INK_PLAIN, text);
    return 2;
}

static void draw_question(const Top *top, Grid *grid, Area area, int y)
{
    const size_t chosen = top->overlay_list.selected;

    grid_textf(grid, area, 0, y, INK_WARN, "Send %s to it? It %s.", signals[chosen].name, signals[chosen].text);
    int x = grid_text(grid, area, 0, y + 2, INK_KEY, "y");
    x = grid_text(grid, area, x, y + 2, INK_PLAIN, " sends it   ");
    x = grid_text(grid, area, x, y + 2, INK_KEY, "n");
    grid_text(grid, area, x, y + 2, INK_PLAIN, " or Escape does not");
}

void overlay_signal_draw(Top *top, Grid *grid, Area area)
{
    List *list = &top->overlay_list;
    Area rows = area;

    list->count = ARRAY_LEN(signals);
    const int y = draw_target(top, grid, area) + (area.height > 8);
    if (top->confirming) {
        draw_question(top, grid, area, y);
        return;
    }
    area_top(&rows, y);
    list_settle(list, rows.height > 0 ? (size_t)rows.height : 1);
    for (size_t i = list->first; i < list->count && (int)(i - list->first) < rows.height; i++) {
        const Area line = area_row(rows, (int)(i - list->first));

        grid_textf(grid, line, 1, 0, INK_KEY, "%2d %s", signals[i].number, signals[i].name);
        grid_text(grid, line, 13, 0, INK_PLAIN, signals[i].text);
        if (i == list->selected)
            grid_reverse(grid, line);
        top_zone(top, line, ZONE_OVERLAY, (uint32_t)i);
    }
}

static TopWish choose_signal(Top *top)
{
    const size_t chosen = top->overlay_list.selected;

    top->signal = (TopSignal){.pid = (pid_t)top->target.pid,
                              .start_ns = top->target_owner.start_ns,
                              .number = signals[chosen].number,
                              .name = signals[chosen].name};
    top_open(top, OVERLAY_NONE);
    return TOP_WISH_SIGNAL;
}

TopWish overlay_signal_key(Top *top, uint32_t key)
{
    if (top->confirming) {
        if (key == 'y' || key == 'Y')
            return choose_signal(top);
        if (key == 'n' || key == 'N')
            top_open(top, OVERLAY_NONE);
        return TOP_WISH_NONE;
    }
    if (list_key(&top->overlay_list, key))
        return TOP_WISH_NONE;
    if (key == TOP_KEY_ENTER)
        top->confirming = true;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (key >= '1' && key <= '9' && signals[i].number == (int)(key - '0'))
            top->overlay_list.selected = i;
    return TOP_WISH_NONE;
}
