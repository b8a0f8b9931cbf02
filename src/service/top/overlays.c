/* SPDX-License-Identifier: Apache-2.0 */
/* What lies over a view, as a table; and the help, which is made from the tables of views and keys. */
#include <stdio.h>
#include <string.h>

#include "service/top/view.h"

const Overlay top_overlays[OVERLAY_END] = {
    [OVERLAY_HELP] = {overlay_help_draw, overlay_scroll_key, "help", 0, 0},
    [OVERLAY_SETUP] = {overlay_setup_draw, overlay_setup_key, "setup", 54, 18},
    [OVERLAY_SORT] = {overlay_sort_draw, overlay_sort_key, "sort processes by", 30, 12},
    [OVERLAY_SIGNAL] = {overlay_signal_draw, overlay_signal_key, "send a signal", 70, 16},
    [OVERLAY_PROCESS] = {overlay_process_draw, overlay_scroll_key, "process", 110, 16},
    [OVERLAY_INCIDENT] = {overlay_incident_draw, overlay_scroll_key, "incident", 0, 0},
};

void top_open(Top *top, OverlayId overlay)
{
    top->overlay = overlay;
    top->confirming = false;
    top->overlay_list = (List){.page = 1};
    if (overlay == OVERLAY_SORT)
        top->overlay_list.selected = top->sort;
}

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
        if (top_keys[i].help) /* else told by the row before */
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
