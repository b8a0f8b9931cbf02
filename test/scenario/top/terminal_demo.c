/* SPDX-License-Identifier: Apache-2.0 */
/* Shows on a terminal what comes from it, and does what it is told by keys, for test_terminal.py:
 * src/verb/top/terminal.h without anything that looks at GPUs.
 *
 * usage: terminal_demo FILE     FILE gets a line for each event */
#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "service/screen/grid.h"
#include "verb/top/terminal.h"

static FILE *events;
static char last[100] = "nothing";
static unsigned ticks;

static const char *const INKS[] = {
    "PLAIN",    "DIM",      "STRONG", "TITLE", "FRAME", "GOOD", "WARN",  "BAD",   "KEY",   "BAR",
    "SERIES_A", "SERIES_B", "BAND",   "TRACK", "MARK",  "FILL", "FILL1", "FILL2", "FILL3",
};

static void draw(Grid *grid)
{
    grid_clear(grid);
    Area inside = grid_box(grid, grid_area(grid), INK_TITLE, "demo");
    grid_textf(grid, inside, 0, 0, INK_PLAIN, "%dx%d %s", grid->width, grid->height, grid->utf8 ? "utf8" : "ascii");
    grid_textf(grid, inside, 0, 1, INK_STRONG, "last: %s", last);
    for (int ink = 0; ink < INK_END; ink++)
        grid_textf(grid, inside, ink % 4 * 14, 2 + ink / 4, (Ink)ink, "ink %s", INKS[ink]);
    grid_text(grid, inside, 0, 7, INK_PLAIN, "wide 漢字 é e\xcc\x81 end");
    plot_bar(grid, (Area){.x = inside.x, .y = inside.y + 8, .width = 20, .height = 1}, INK_BAR, 0.5F, NAN);
    grid_textf(grid, inside, 0, 9, INK_PLAIN, "tick %u", ticks);
    grid_text(grid, inside, 0, 10, INK_PLAIN, "selected");
    grid_reverse(grid, (Area){.x = inside.x, .y = inside.y + 10, .width = 8, .height = 1});
    grid_right(grid, grid_area(grid), grid->width, grid->height - 1, INK_PLAIN, "corner");
}

static void note(const TerminalNews *news, const Grid *grid)
{
    static const char *const WORDS[] = {"timeout", "ready", "key", "mouse", "resize", "end"};
    static const char *const MICE[] = {"click", "up", "down"};
    if (news->what == TERMINAL_TIMEOUT)
        return;
    if (news->what == TERMINAL_KEY)
        snprintf(last, sizeof last, "key %x", news->key);
    else if (news->what == TERMINAL_MOUSE)
        snprintf(last, sizeof last, "mouse %s %d %d", MICE[news->mouse], news->x, news->y);
    else if (news->what == TERMINAL_RESIZE)
        snprintf(last, sizeof last, "resize %d %d", grid->width, grid->height);
    else
        snprintf(last, sizeof last, "%s %d", WORDS[news->what], news->signal);
    fprintf(events, "%s\n", last);
    fflush(events);
}

/* What the keys of this program do; false ends it. */
static bool obey(uint32_t key)
{
    switch (key) {
    case 'q':
        return false;
    case 'A':
        assert(key != 'A');
        break;
    case 'B':
        raise(SIGSEGV);
        break;
    case 'X':
        exit(7);
    case 'E':
        fprintf(stderr, "said on stderr\n");
        break;
    case 'H': /* busy, and deaf to all but signals */
        fprintf(events, "deaf\n");
        fflush(events);
        for (;;)
            pause();
    default:
        break;
    }
    return true;
}

static bool step(Terminal *terminal, Grid *grid, TerminalNews *news)
{
    draw(grid);
    terminal_show(terminal, grid);
    terminal_wait(terminal, clock_monotonic(clock_kernel()) + 200 * (uint64_t)1000000, -1, news);
    if (news->what == TERMINAL_RESIZE)
        terminal_fit(terminal, grid);
    note(news, grid);
    if (news->what == TERMINAL_TIMEOUT)
        ticks++;
    return news->what != TERMINAL_END && !(news->what == TERMINAL_KEY && !obey(news->key));
}

int main(int argc, char **argv)
{
    Terminal *terminal = NULL;
    TerminalNews news = {.what = TERMINAL_TIMEOUT};
    Grid grid = {0};
    Err err = {0};
    events = argc > 1 ? fopen(argv[1], "ae") : NULL;
    if (!events)
        return 2;
    const TerminalOptions options = {.colourless = getenv("NO_COLOR") && *getenv("NO_COLOR")};
    if (terminal_open(&options, &terminal, &err) < 0) {
        fprintf(stderr, "demo: %s\n", err.text);
        return 2;
    }
    terminal_fit(terminal, &grid);
    fprintf(events, "open %d %d\n", grid.width, grid.height);
    fflush(events);
    while (step(terminal, &grid, &news))
        ;
    terminal_close(terminal);
    grid_done(&grid);
    fclose(events);
    return news.what == TERMINAL_END ? 3 : 0;
}
