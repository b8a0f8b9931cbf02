/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/terminal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "verb/top/terminal_guard.h"
#include "verb/top/terminal_keys.h"
#include "verb/top/terminal_palette.h"
#include "verb/top/terminal_type.h"

enum { OTHERS_MAX = 16, OWN_FDS = 3, EMPTY_READS_MAX = 3 };

struct Terminal {
    SCREEN *screen;
    FILE *in; /* stdin, or /dev/tty, which is closed at the end */
    int width, height, colours;
    bool utf8, own_in, mouse, gone;
    unsigned empty_reads; /* of the input, one after another */
    bool small;           /* what is shown is that it is too small */
    KeyReader keys;
    Cell *shown; /* the cells as ncurses has them; all zero: unknown */
    attr_t attributes[INK_END];
};

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* All cells are drawn by the next terminal_show. */
static void forget_shown(Terminal *terminal)
{
    size_t count = (size_t)terminal->width * (size_t)terminal->height;
    terminal->shown = xrealloc(terminal->shown, count, sizeof *terminal->shown);
    memset(terminal->shown, 0, count * sizeof *terminal->shown);
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */

/* Whether the locale is UTF-8. A locale that came with ssh and is not installed here still tells the terminal's
 * encoding. */
static bool take_locale(void)
{
    if (setlocale(LC_CTYPE, ""))
        return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *name = "";
    for (size_t i = 0; i < ARRAY_LEN(NAMES) && !*name; i++)
        name = is_set(NAMES[i]) ? getenv(NAMES[i]) : "";
    bool utf8 = strcasestr(name, ".UTF-8") || strcasestr(name, ".utf8");
    return utf8 && setlocale(LC_CTYPE, "C.UTF-8");
}

static int open_input(Terminal *terminal, Err *err)
{
    if (!isatty(STDOUT_FILENO))
        return err_set(err, -ENOTTY,
                       "stdout is no terminal: 'top --once' prints one look into a pipe, 'ssh -t' gives a terminal");
    terminal->in = stdin;
    if (isatty(STDIN_FILENO))
        return 0;
    terminal->in = fopen("/dev/tty", "r+e");
    if (!terminal->in)
        return err_errno(err, "stdin is no terminal; open '/dev/tty'");
    terminal->own_in = true;
    return 0;
}

static bool wants_colours(const TerminalOptions *options)
{
    if (options->colour == TERMINAL_COLOUR_AUTO && is_set("NO_COLOR"))
        return false;
    return options->colour != TERMINAL_COLOUR_NEVER && has_colors();
}

static void set_colours(Terminal *terminal, const TerminalOptions *options)
{
    int background = COLOR_BLACK, foreground = COLOR_WHITE;
    bool light = palette_is_light(getenv("COLORFGBG"));
    if (wants_colours(options) && start_color() == OK)
        terminal->colours = palette_colours(COLORS);
    if (terminal->colours && use_default_colors() == OK)
        background = foreground = -1;
    for (int ink = 0; ink < INK_END; ink++) {
        InkStyle style = palette_style((Ink)ink, terminal->colours, light);
        attr_t emphasis = (style.bold ? A_BOLD : 0) | (style.dim ? A_DIM : 0) | (style.underline ? A_UNDERLINE : 0);
        terminal->attributes[ink] = emphasis;
        if (terminal->colours)
            init_pair((short)(ink + 1), (short)(style.colour < 0 ? foreground : style.colour), (short)background);
    }
}

static void send_text(const char *bytes)
{
    ssize_t n = write(STDOUT_FILENO, bytes, strlen(bytes));
    (void)n; /* a terminal that is gone is seen by poll */
}

static void set_modes(void)
{
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    leaveok(stdscr, TRUE);
    idlok(stdscr, FALSE);
    typeahead(-1);
    curs_set(0);
    if (!is_set("ESCDELAY"))
        set_escdelay(KEY_ESCAPE_MS);
}

/* The terminal's size; a serial line reports none, then ncurses' guess. */
static void take_size(Terminal *terminal)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row) {
        size.ws_col = (unsigned short)COLS;
        size.ws_row = (unsigned short)LINES;
    }
    terminal->width = size.ws_col < GRID_WIDTH_MAX ? size.ws_col : GRID_WIDTH_MAX;
    terminal->height = size.ws_row < GRID_HEIGHT_MAX ? size.ws_row : GRID_HEIGHT_MAX;
    resize_term(size.ws_row, size.ws_col);
    clearok(curscr, TRUE); /* terminals rearrange their content differently */
    erase();
    forget_shown(terminal);
}

/* At the start and after the program was stopped; ncurses does its part with the next refresh. */
static void take_over(const Terminal *terminal)
{
    if (terminal->mouse)
        send_text(MOUSE_ON);
}

static void let_go(const Terminal *terminal)
{
    if (terminal->mouse)
        send_text(MOUSE_OFF);
    flushinp();
    endwin();
}

static int start_curses(Terminal *terminal, const TerminalOptions *options, Err *err)
{
    const char *type = NULL;
    TRY(type_find(STDOUT_FILENO, &type, err));
    TRY(guard_start(fileno(terminal->in), STDOUT_FILENO, err));
    terminal->screen = newterm(type, stdout, terminal->in);
    if (!terminal->screen)
        return err_set(err, -ENOTSUP, "terminal '%s': ncurses cannot use it", type);
    terminal->mouse = !options->no_mouse && type_has_mouse();
    type_prepare_restore(terminal->mouse);
    set_modes();
    keys_define();
    take_over(terminal);
    set_colours(terminal, options);
    take_size(terminal);
    return 0;
}

int terminal_open(const TerminalOptions *options, Terminal **ret, Err *err)
{
    static const TerminalOptions USUAL;
    options = options ? options : &USUAL;
    Terminal *terminal = xcalloc(1, sizeof *terminal);
    int rc = open_input(terminal, err);
    terminal->utf8 = take_locale() && !options->ascii;
    terminal->keys.ascii = !terminal->utf8;
    if (rc == 0)
        rc = start_curses(terminal, options, err);
    if (rc < 0) {
        terminal_close(terminal);
        return rc;
    }
    *ret = terminal;
    return 0;
}

void terminal_close(Terminal *terminal)
{
    if (!terminal)
        return;
    if (terminal->screen) {
        let_go(terminal);
        delscreen(terminal->screen);
    }
    guard_stop();
    if (terminal->own_in)
        fclose(terminal->in);
    free(terminal->shown);
    free(terminal);
}

int terminal_width(const Terminal *terminal)
{
    return terminal->width;
}

int terminal_height(const Terminal *terminal)
{
    return terminal->height;
}

bool terminal_utf8(const Terminal *terminal)
{
    return terminal->utf8;
}

int terminal_colours(const Terminal *terminal)
{
    return terminal->colours;
}

/* --- showing ------------------------------------------------------------------------------------------------------ */

/* The characters of a cell for ncurses; '?' where the C library has another width for it, which would misplace the
 * rest. */
static void to_wide(const Terminal *terminal, const char *text, int width, wchar_t out[CCHARW_MAX + 1])
{
    size_t len = strnlen(text, CELL_TEXT_CAP), count = 0, n;
    uint32_t c = 0;
    while (count < CCHARW_MAX && (n = utf8_read(text, len, &c)) > 0) {
        int columns = terminal->utf8 || c < 0x80 ? wcwidth((wchar_t)c) : -1;
        if (columns == (count ? 0 : width))
            out[count++] = (wchar_t)c;
        else if (count == 0)
            break;
        text += n;
        len -= n;
    }
    if (count == 0)
        out[count++] = L'?';
    out[count] = L'\0';
}

static void put_cell(const Terminal *terminal, int x, int y, const Cell *cell, int width)
{
    wchar_t wide[CCHARW_MAX + 1];
    cchar_t shown;
    short ink = cell->ink < INK_END ? cell->ink : INK_PLAIN;
    to_wide(terminal, cell->text, width, wide);
    attr_t attributes = terminal->attributes[ink] | (cell->reverse ? A_REVERSE : 0);
    setcchar(&shown, wide, attributes, terminal->colours ? (short)(ink + 1) : (short)0, NULL);
    mvadd_wch(y, x, &shown); /* of the last cell it says ERR, as the cursor cannot go on; the cell is set */
    if (width == 2 && wcwidth(wide[0]) == 1)
        mvadd_wch(y, x + 1, &shown);
}

static bool is_same(const Cell *a, const Cell *b)
{
    return a->ink == b->ink && a->reverse == b->reverse && memcmp(a->text, b->text, sizeof a->text) == 0;
}

static void show_row(Terminal *terminal, const Grid *grid, int y)
{
    int width = grid->width < terminal->width ? grid->width : terminal->width;
    const Cell *row = grid_at(grid, 0, y);
    Cell *shown = &terminal->shown[(size_t)y * (size_t)terminal->width];
    for (int x = 0; x < width; x++) {
        bool wide = x + 1 < width && !row[x + 1].text[0];
        bool changed = !is_same(&row[x], &shown[x]) || (wide && !is_same(&row[x + 1], &shown[x + 1]));
        if (changed && row[x].text[0])
            put_cell(terminal, x, y, &row[x], wide ? 2 : 1);
    }
    memcpy(shown, row, (size_t)width * sizeof *shown);
}

static void show_small(Terminal *terminal)
{
    static const Cell WORD = {.text = " "};
    char text[96];
    erase();
    snprintf(text, sizeof text, "%dx%d is too small: %dx%d", terminal->width, terminal->height, TERMINAL_WIDTH_MIN,
             TERMINAL_HEIGHT_MIN);
    for (int x = 0; text[x] && x < terminal->width; x++) {
        Cell cell = WORD;
        cell.text[0] = text[x];
        put_cell(terminal, x, terminal->height / 2, &cell, 1);
    }
    refresh();
}

void terminal_show(Terminal *terminal, const Grid *grid)
{
    if (terminal->gone)
        return;
    bool small = terminal->width < TERMINAL_WIDTH_MIN || terminal->height < TERMINAL_HEIGHT_MIN;
    if (small != terminal->small || small) {
        erase();
        forget_shown(terminal);
    }
    terminal->small = small;
    if (small) {
        show_small(terminal);
        return;
    }
    for (int y = 0; y < grid->height && y < terminal->height; y++)
        show_row(terminal, grid, y);
    refresh();
}

void terminal_redraw(Terminal *terminal)
{
    (void)terminal;
    clearok(curscr, TRUE);
}

/* --- waiting -------------------------------------------------------------------------------------------------------
 */

static void handle_resize(Terminal *terminal, TerminalNews *ret)
{
    take_size(terminal);
    *ret = (TerminalNews){.what = TERMINAL_RESIZE, .width = terminal->width, .height = terminal->height};
}

/* Draws at once, not with the next snapshot. */
static void draw_anew(void)
{
    clearok(curscr, TRUE);
    refresh();
}

static bool take_signals(Terminal *terminal, TerminalNews *ret)
{
    GuardSeen seen = guard_take();
    if (seen.end || terminal->gone) {
        *ret = (TerminalNews){.what = TERMINAL_END, .signal = seen.end};
        return true;
    }
    if (seen.stop || seen.resume) /* resume alone: after a SIGSTOP, which cannot be caught */
        let_go(terminal);
    if (seen.stop)
        guard_pause();
    if (seen.stop || seen.resume) {
        take_over(terminal);
        draw_anew();
    }
    if (seen.stop || seen.resume || seen.resize)
        handle_resize(terminal, ret);
    return seen.stop || seen.resume || seen.resize;
}

static bool take_key(Terminal *terminal, TerminalNews *ret)
{
    KeyPress press;
    while (keys_read(&terminal->keys, clock_monotonic(clock_kernel()), &press)) {
        if (press.key == KEY_CTRL_L) {
            draw_anew();
            continue;
        }
        *ret = (TerminalNews){.what = press.key ? TERMINAL_KEY : TERMINAL_MOUSE,
                              .key = press.key,
                              .mouse = press.mouse,
                              .x = press.x,
                              .y = press.y};
        return true;
    }
    return false;
}

static int ms_until(uint64_t deadline_ns)
{
    uint64_t now = clock_monotonic(clock_kernel());
    uint64_t ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;
    return ms < 60 * 1000 ? (int)ms : 60 * 1000;
}

/* The input has ended if it is readable several times without data; once may happen when a shell took the data while we
 * were stopped. */
static bool at_end(Terminal *terminal, int revents)
{
    int bytes = 0;
    bool empty = revents == POLLIN && ioctl(fileno(terminal->in), FIONREAD, &bytes) == 0 && bytes == 0;
    terminal->empty_reads = empty ? terminal->empty_reads + 1 : 0;
    return terminal->empty_reads > EMPTY_READS_MAX;
}

/* Polls the terminal's descriptors and the caller's; false after the deadline. */
static bool poll_all(Terminal *terminal, uint64_t deadline_ns, struct pollfd *others, size_t count, bool *ret_ready)
{
    struct pollfd fds[OWN_FDS + OTHERS_MAX] = {
        {.fd = fileno(terminal->in), .events = POLLIN}, {.fd = guard_fd(), .events = POLLIN}, {.fd = STDOUT_FILENO}};
    assert(count <= OTHERS_MAX);
    if (count)
        memcpy(fds + OWN_FDS, others, count * sizeof *others);
    int timeout = ms_until(deadline_ns);
    int rc = poll(fds, OWN_FDS + count, timeout);
    *ret_ready = false;
    for (size_t i = 0; i < count; i++) {
        others[i].revents = rc > 0 ? fds[OWN_FDS + i].revents : 0;
        *ret_ready |= others[i].revents != 0;
    }
    if (rc > 0 && at_end(terminal, fds[0].revents))
        terminal->gone = true;
    if (rc > 0 && ((fds[0].revents | fds[2].revents) & (POLLHUP | POLLERR | POLLNVAL)))
        terminal->gone = true;
    return rc != 0 || timeout > 0;
}

void terminal_wait(Terminal *terminal, uint64_t deadline_ns, struct pollfd *others, size_t count, TerminalNews *ret)
{
    *ret = (TerminalNews){.what = TERMINAL_TIMEOUT};
    for (bool more = true;;) {
        if (take_signals(terminal, ret) || take_key(terminal, ret))
            return;
        if (!more)
            return;
        bool ready;
        more = poll_all(terminal, deadline_ns, others, count, &ready);
        if (!ready)
            continue;
        if (!take_signals(terminal, ret) && !take_key(terminal, ret))
            *ret = (TerminalNews){.what = TERMINAL_READY};
        return;
    }
}
