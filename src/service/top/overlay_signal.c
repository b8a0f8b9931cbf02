/* SPDX-License-Identifier: Apache-2.0 */
/* A signal to a process: which one, then whether really. The process is fixed when the dialog opens, whatever the rows
 * do meanwhile; what is asked for names its start too, so that a pid that was used again is not hit. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "service/top/view.h"

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
    const FeedKind source = top->feed->kind;

    if (top->read_only)
        top_say(top, INK_WARN, "read only: no signals are sent");
    else if (source == FEED_RECORDING || source == FEED_HISTORY)
        top_say(top, INK_WARN, "this is the past: its processes cannot be signalled");
    else if (!row)
        top_say(top, INK_WARN, "choose a process first: arrows, or 3 for all processes");
    else if (!row->owner || row->owner->start_ns == 0)
        top_say(top, INK_WARN, "this process is not seen here (another pid namespace, or it has ended)");
    else {
        top->target = process_row_thing(row);
        top->target_owner = *row->owner;
        top->confirming = false;
        top_open(top, OVERLAY_SIGNAL);
    }
}

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

static TopWish send(Top *top)
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
            return send(top);
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
