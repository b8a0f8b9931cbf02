/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/number.h"
#include "base/utf8.h"

/* Switch on reports of the mouse's buttons, in SGR form if supported (xterm's modes 1000 and 1006). */
#define MOUSE_ON "\033[?1000h\033[?1006h"
#define MOUSE_OFF "\033[?1006l\033[?1000l"

enum { KEY_CTRL_L = 0x0c, KEY_ESCAPE_MS = 50, WAIT_MS = 60 * 1000 };

struct Terminal {
    SCREEN *screen;
    FILE *in; /* stdin, or /dev/tty, which is closed at the end */
    int width, height, colours;
    bool utf8, own_in, mouse, gone;
    bool own_colours; /* the usual ones of the terminal can be had */
    Theme theme;
    attr_t attributes[INK_END];
};

CLEANUP_POINTER(Terminal, terminal_close);

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* --- the guard: the terminal is restored however the program ends --------------------------------------------------
 * State of the process, as signals are. The handlers call nothing but what signal-safety(7) names. */

enum { KEPT_MAX = 16 * 1024, COPY_SIZE = 1024, RESTORE_MAX = 512 };

typedef struct GuardSeen {
    int end;     /* SIGINT, SIGTERM or SIGHUP; 0 none */
    bool stop;   /* SIGTSTP */
    bool resume; /* SIGCONT */
    bool resize; /* SIGWINCH */
} GuardSeen;

static void on_end(int number);
static void on_note(int number);
static void on_crash(int number);

/* SIGQUIT too: dump core, but restore the terminal. */
static const struct {
    int number;
    void (*handler)(int);
} SIGNALS[] = {
    {SIGINT, on_end},    {SIGTERM, on_end},   {SIGHUP, on_end},    {SIGTSTP, on_note}, {SIGCONT, on_note},
    {SIGWINCH, on_note}, {SIGABRT, on_crash}, {SIGSEGV, on_crash}, {SIGBUS, on_crash}, {SIGFPE, on_crash},
    {SIGILL, on_crash},  {SIGSYS, on_crash},  {SIGQUIT, on_crash},
};

static struct Guard {
    volatile sig_atomic_t armed; /* the terminal has to be restored */
    volatile sig_atomic_t end;
    volatile sig_atomic_t noted[NSIG]; /* by signal: came since the last guard_take */
    pid_t owner;                       /* a forked child does not restore the terminal */
    int in, out, event;
    int kept, stderr_before; /* the kept stderr and the real one; -1: stderr is left alone */
    struct termios modes;
    char restore[RESTORE_MAX];
    size_t restore_len;
    struct sigaction before[ARRAY_LEN(SIGNALS)];
} guard = {.in = -1, .out = -1, .event = -1, .kept = -1, .stderr_before = -1};

/* ---- at the end ---- */

/* Restores stderr and writes out the end of what was kept. */
static void give_stderr_back(void)
{
    if (guard.kept < 0)
        return;
    char part[COPY_SIZE];
    off_t end = lseek(guard.kept, 0, SEEK_END), at = end > KEPT_MAX ? end - KEPT_MAX : 0;
    for (ssize_t n; (n = pread(guard.kept, part, sizeof part, at)) > 0; at += n)
        (void)file_write_all(guard.stderr_before, part, (size_t)n);
    dup2(guard.stderr_before, STDERR_FILENO);
    close(guard.stderr_before);
    close(guard.kept);
    guard.kept = guard.stderr_before = -1;
}

static void restore_now(void)
{
    struct pollfd out = {.fd = guard.out, .events = POLLOUT};

    if (!guard.armed || getpid() != guard.owner)
        return;
    guard.armed = 0;
    /* a blocked one (Ctrl-S, a dead connection) must not keep the program from ending */
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT))
        (void)file_write_all(guard.out, guard.restore, guard.restore_len);
    tcflush(guard.in, TCIFLUSH); /* reports of the mouse are not for the shell */
    tcsetattr(guard.in, TCSANOW, &guard.modes);
    give_stderr_back();
}

static void on_crash(int number)
{
    int before = errno;
    restore_now();
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        if (SIGNALS[i].number == number)
            sigaction(number, &guard.before[i], NULL);
    raise(number); /* comes when this handler is over */
    errno = before;
}

/* ---- signals that are noted ---- */

static void wake_loop(void)
{
    int before = errno;
    ssize_t n = write(guard.event, &(uint64_t){1}, sizeof(uint64_t));
    (void)n; /* full: it is readable already */
    errno = before;
}

static void on_end(int number)
{
    if (guard.end) {
        restore_now();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    guard.end = number;
    wake_loop();
}

static void on_note(int number)
{
    guard.noted[number] = 1;
    wake_loop();
}

static bool take_noted(int number)
{
    const bool was = guard.noted[number];

    if (was)
        guard.noted[number] = 0; /* one that comes before this line is told of by this call */
    return was;
}

/* What came since the last call; an end stays. */
static GuardSeen guard_take(void)
{
    eventfd_t count;
    (void)eventfd_read(guard.event, &count); /* nothing there is fine: the flags tell */
    return (GuardSeen){
        .end = guard.end, .stop = take_noted(SIGTSTP), .resume = take_noted(SIGCONT), .resize = take_noted(SIGWINCH)};
}

/* ---- start, stop, pause ---- */

static void keep_stderr(void)
{
    if (!isatty(STDERR_FILENO))
        return;
    int kept = memfd_create("stderr", MFD_CLOEXEC);
    int before = kept < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (before < 0 || dup2(kept, STDERR_FILENO) < 0) {
        fd_close(&kept);
        fd_close(&before);
        return;
    }
    guard.kept = kept;
    guard.stderr_before = before;
}

/* Remembers the terminal's modes, sets stderr aside where it is a terminal, takes the signals. */
static int guard_start(int in, int out, Err *err)
{
    static bool at_exit;
    if (tcgetattr(in, &guard.modes) < 0)
        return err_errno(err, "the terminal's modes");
    guard.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard.event < 0)
        return err_errno(err, "an event descriptor");
    guard.in = in;
    guard.out = out;
    guard.owner = getpid();
    guard.restore_len = 0;
    guard.end = guard.noted[SIGTSTP] = guard.noted[SIGCONT] = guard.noted[SIGWINCH] = 0;
    if (!at_exit)
        at_exit = atexit(restore_now) == 0;
    keep_stderr();
    guard.armed = 1;
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++) {
        const struct sigaction action = {.sa_handler = SIGNALS[i].handler, .sa_flags = SA_RESTART};
        const bool may_be_ignored = SIGNALS[i].handler == on_end || SIGNALS[i].number == SIGTSTP;

        sigaction(SIGNALS[i].number, &action, &guard.before[i]);
        if (may_be_ignored && guard.before[i].sa_handler == SIG_IGN) /* nohup, a shell without job control */
            sigaction(SIGNALS[i].number, &guard.before[i], NULL);
    }
    return 0;
}

/* Restores everything and writes out the kept stderr. */
static void guard_stop(void)
{
    if (guard.event < 0)
        return;
    tcsetattr(guard.in, TCSANOW, &guard.modes);
    guard.armed = 0;
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        sigaction(SIGNALS[i].number, &guard.before[i], NULL);
    give_stderr_back();
    fd_close(&guard.event);
}

/* Stops the program as Ctrl-Z does, with the terminal's modes given back; returns when it goes on. */
static void guard_pause(void)
{
    struct termios now;
    bool known = tcgetattr(guard.in, &now) == 0;
    tcsetattr(guard.in, TCSANOW, &guard.modes);
    struct sigaction usual = {.sa_handler = SIG_DFL}, noted;
    sigaction(SIGTSTP, &usual, &noted);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &noted, NULL);
    if (known)
        tcsetattr(guard.in, TCSANOW, &now);
    guard.noted[SIGCONT] = guard.noted[SIGTSTP] = 0;
}

/* --- keys and the mouse ------------------------------------------------------------------------------------------- */

enum { ESCAPE = 0x1b, BELL = 0x07, SEQUENCE_MAX = 4096 };

static const struct {
    int curses;
    uint32_t key;
} KEYS[] = {
    {KEY_UP, TOP_KEY_UP},         {KEY_DOWN, TOP_KEY_DOWN},     {KEY_LEFT, TOP_KEY_LEFT},
    {KEY_RIGHT, TOP_KEY_RIGHT},   {KEY_PPAGE, TOP_KEY_PAGE_UP}, {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
    {KEY_HOME, TOP_KEY_HOME},     {KEY_FIND, TOP_KEY_HOME},     {KEY_END, TOP_KEY_END},
    {KEY_SELECT, TOP_KEY_END},    {KEY_ENTER, TOP_KEY_ENTER},   {KEY_BACKSPACE, TOP_KEY_BACKSPACE},
    {KEY_BTAB, TOP_KEY_BACK_TAB}, {KEY_A1, TOP_KEY_HOME},       {KEY_A3, TOP_KEY_PAGE_UP},
    {KEY_C1, TOP_KEY_END},        {KEY_C3, TOP_KEY_PAGE_DOWN},  {KEY_CANCEL, TOP_KEY_ESCAPE},
};

/* The usual sequences of xterm, rxvt, screen and the VT220 (their terminfo entries). */
static const struct {
    const char *sequence;
    int curses;
} USUAL[] = {
    {"\033[A", KEY_UP},     {"\033OA", KEY_UP},      {"\033[B", KEY_DOWN},    {"\033OB", KEY_DOWN},
    {"\033[C", KEY_RIGHT},  {"\033OC", KEY_RIGHT},   {"\033[D", KEY_LEFT},    {"\033OD", KEY_LEFT},
    {"\033[H", KEY_HOME},   {"\033OH", KEY_HOME},    {"\033[1~", KEY_HOME},   {"\033[7~", KEY_HOME},
    {"\033[F", KEY_END},    {"\033OF", KEY_END},     {"\033[4~", KEY_END},    {"\033[8~", KEY_END},
    {"\033[Z", KEY_BTAB},   {"\033[5~", KEY_PPAGE},  {"\033[6~", KEY_NPAGE},  {"\033OM", KEY_ENTER},
    {"\033OP", KEY_F(1)},   {"\033OQ", KEY_F(2)},    {"\033OR", KEY_F(3)},    {"\033OS", KEY_F(4)},
    {"\033[11~", KEY_F(1)}, {"\033[12~", KEY_F(2)},  {"\033[13~", KEY_F(3)},  {"\033[14~", KEY_F(4)},
    {"\033[15~", KEY_F(5)}, {"\033[17~", KEY_F(6)},  {"\033[18~", KEY_F(7)},  {"\033[19~", KEY_F(8)},
    {"\033[20~", KEY_F(9)}, {"\033[21~", KEY_F(10)}, {"\033[23~", KEY_F(11)}, {"\033[24~", KEY_F(12)},
};

/* `rc` of get_wch: a key of the terminal or a character; 0: none that is known. */
static uint32_t find_key(const Terminal *terminal, int rc, wint_t c)
{
    for (size_t i = 0; rc == KEY_CODE_YES && i < ARRAY_LEN(KEYS); i++)
        if (KEYS[i].curses == (int)c)
            return KEYS[i].key;
    if (rc == KEY_CODE_YES)
        return c >= KEY_F(1) && c <= KEY_F(12) ? TOP_KEY_F1 + (uint32_t)(c - KEY_F(1)) : 0;
    switch (c) {
    case '\r':
    case '\n':
        return TOP_KEY_ENTER;
    case '\t':
        return TOP_KEY_TAB;
    case 0x08:
    case 0x7f:
        return TOP_KEY_BACKSPACE;
    default:
        return c < 0x80 || (terminal->utf8 && c < TOP_KEY_UP) ? (uint32_t)c : 0;
    }
}

static bool read_on(wint_t *ret)
{
    return get_wch(ret) == OK;
}

/* A click or a turn of the wheel; false for anything else. Bits of the button: ctlseqs of xterm, "Mouse Tracking".
 */
static bool take_button(unsigned button, int x, int y, TerminalNews *ret)
{
    enum { MODIFIERS = 4 | 8 | 16, WHEEL = 64 };
    button &= ~(unsigned)MODIFIERS;
    const TopMouse mouse = button == 0 ? TOP_MOUSE_CLICK : button == WHEEL ? TOP_MOUSE_UP : TOP_MOUSE_DOWN;
    *ret = (TerminalNews){.what = TERMINAL_MOUSE, .mouse = mouse, .x = x, .y = y};
    return x >= 0 && y >= 0 && (button == 0 || button == WHEEL || button == WHEEL + 1);
}

/* After ESC [ <: button ; column ; row M, or m where it is let go. */
static bool read_mouse(TerminalNews *ret)
{
    unsigned numbers[3] = {0};
    size_t i = 0;
    wint_t c = 0;
    while (read_on(&c) && ((c >= '0' && c <= '9') || c == ';')) {
        i += c == ';';
        if (i >= ARRAY_LEN(numbers) || numbers[i] > UINT16_MAX)
            return false;
        if (c != ';')
            numbers[i] = numbers[i] * 10 + (c - '0');
    }
    bool pressed = c == 'M' && i == 2;
    return pressed && take_button(numbers[0], (int)numbers[1] - 1, (int)numbers[2] - 1, ret);
}

/* After ESC [ M, of terminals without SGR mode: three characters. */
static bool read_old_mouse(TerminalNews *ret)
{
    wint_t button = 0, x = 0, y = 0;
    bool all = read_on(&button) && read_on(&x) && read_on(&y);
    return all && button >= 32 && take_button(button - 32, (int)x - 33, (int)y - 33, ret);
}

/* A key whose bytes came in pieces, so that ncurses gave them up one by one; false where there is none. */
static bool read_late_key(const Terminal *terminal, const char *sequence, TerminalNews *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(USUAL); i++)
        if (strcmp(USUAL[i].sequence, sequence) == 0) {
            *ret =
                (TerminalNews){.what = TERMINAL_KEY, .key = find_key(terminal, KEY_CODE_YES, (wint_t)USUAL[i].curses)};
            return true;
        }
    return false;
}

/* After ESC [: the mouse, a key, or an unknown sequence up to its final letter (ECMA-48 section 5.4), which is
 * skipped. */
static bool read_control(const Terminal *terminal, TerminalNews *ret)
{
    char sequence[8] = "\033[";
    size_t len = 2;
    wint_t c = 0;
    if (!read_on(&c))
        return false;
    if (c == '<')
        return read_mouse(ret);
    if (c == 'M')
        return read_old_mouse(ret);
    for (int i = 0; i < SEQUENCE_MAX && (c < 0x40 || c > 0x7e); i++) {
        if (len + 2 < sizeof sequence)
            sequence[len++] = (char)c;
        if (!read_on(&c))
            return false;
    }
    sequence[len] = (char)c;
    return read_late_key(terminal, sequence, ret);
}

/* Skips a terminal's report: ESC ] ... BELL or ESC \ and similar (ECMA-48 section 5.6). */
static void skip_text(void)
{
    wint_t c = 0, before = 0;
    for (int i = 0; i < SEQUENCE_MAX && read_on(&c); i++) {
        if (c == BELL || (before == ESCAPE && c == '\\'))
            return;
        before = c;
    }
}

/* After ESC: alone or twice it is the Escape key; with a character at once it is Alt and a key, the mouse, or unknown.
 */
static bool read_escape(const Terminal *terminal, TerminalNews *ret)
{
    wint_t c = 0;
    int rc = get_wch(&c);
    if (rc == ERR || (rc == OK && c == ESCAPE)) {
        *ret = (TerminalNews){.what = TERMINAL_KEY, .key = TOP_KEY_ESCAPE};
        return true;
    }
    if (rc == OK && c == '[')
        return read_control(terminal, ret);
    if (rc == OK && c == 'O' && read_on(&c))
        return read_late_key(terminal, (const char[]){ESCAPE, 'O', (char)c, '\0'}, ret);
    if (rc == OK && (c == ']' || c == 'P' || c == '^' || c == '_'))
        skip_text();
    return false;
}

/* Draws at once, not with the next snapshot. */
static void draw_anew(void)
{
    clearok(curscr, TRUE);
    refresh();
}

/* The next key or mouse event that is available; false: none. */
static bool read_key(const Terminal *terminal, TerminalNews *ret)
{
    wint_t c = 0;
    int rc;
    while ((rc = get_wch(&c)) != ERR) {
        if (rc == OK && c == ESCAPE) {
            if (read_escape(terminal, ret))
                return true;
            continue;
        }
        if (rc == OK && c == KEY_CTRL_L) {
            draw_anew();
            continue;
        }
        *ret = (TerminalNews){.what = TERMINAL_KEY, .key = find_key(terminal, rc, c)};
        if (ret->key)
            return true;
    }
    return false;
}

/* --- terminfo ----------------------------------------------------------------------------------------------------- */

/* The name, borrowed, of a terminal in terminfo: TERM's, else xterm-256color, which newer terminals emulate. */
static int find_type(int fd, const char **ret, Err *err)
{
    const char *names[] = {is_set("TERM") ? getenv("TERM") : "unknown", "xterm-256color", "xterm"};
    int known = 0;
    size_t i = 0;
    while (i < ARRAY_LEN(names) && setupterm(names[i], fd, &known) != OK)
        if (++i == 1 && !is_set("TERM"))
            return err_set(err, -ENOTSUP, "TERM is not set: try TERM=xterm-256color");
    if (i == ARRAY_LEN(names))
        return err_set(err, -ENOTSUP, "terminal '%s' is not in terminfo: install ncurses-base, or set TERM", names[0]);
    bool places = cursor_address != NULL;
    del_curterm(cur_term);
    if (!places)
        return err_set(err, -ENOTSUP, "terminal '%s' cannot place its cursor: 'top --once' prints one look", names[i]);
    *ret = names[i];
    return 0;
}

static int keep_byte(int c)
{
    if (guard.restore_len < sizeof guard.restore)
        guard.restore[guard.restore_len++] = (char)c;
    return c;
}

static void keep_sequence(const char *capability)
{
    if (capability)
        tputs(capability, 1, keep_byte);
}

/* The bytes that the guard writes if endwin cannot be called. */
static void prepare_restore(bool mouse)
{
    guard.restore_len = 0;
    if (mouse)
        keep_sequence(MOUSE_OFF);
    keep_sequence(exit_attribute_mode);
    keep_sequence(orig_pair);
    keep_sequence(cursor_normal);
    keep_sequence(keypad_local);
    keep_sequence(exit_ca_mode ? exit_ca_mode : "\r\n");
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

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

static void use_theme(Terminal *terminal, Theme theme)
{
    const bool light = palette_is_light(getenv("COLORFGBG"));
    const short foreground = terminal->own_colours ? -1 : COLOR_WHITE,
                background = terminal->own_colours ? -1 : COLOR_BLACK;

    for (int ink = 0; ink < INK_END; ink++) {
        InkStyle style = palette_style((Ink)ink, terminal->colours, light, theme);
        attr_t emphasis = (style.bold ? A_BOLD : 0) | (style.dim ? A_DIM : 0) | (style.underline ? A_UNDERLINE : 0);
        terminal->attributes[ink] = emphasis;
        if (terminal->colours)
            init_pair((short)(ink + 1), style.colour < 0 ? foreground : (short)style.colour, background);
    }
    terminal->theme = theme;
}

void terminal_set_theme(Terminal *terminal, Theme theme)
{
    if (theme != terminal->theme)
        use_theme(terminal, theme);
}

static void set_colours(Terminal *terminal, const TerminalOptions *options)
{
    if (!options->colourless && has_colors() && start_color() == OK)
        terminal->colours = palette_colours(COLORS);
    terminal->own_colours = terminal->colours && use_default_colors() == OK;
    use_theme(terminal, options->theme);
}

/* On at the start and after the program was stopped; ncurses does its part with the next refresh. */
static void report_mouse(const Terminal *terminal, const char *bytes)
{
    if (terminal->mouse)
        (void)!write(STDOUT_FILENO, bytes, strlen(bytes)); /* a terminal that is gone is seen by poll */
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
}

static void let_go(const Terminal *terminal)
{
    report_mouse(terminal, MOUSE_OFF);
    flushinp();
    endwin();
}

static int start_curses(Terminal *terminal, const TerminalOptions *options, Err *err)
{
    const char *type = NULL;
    TRY(find_type(STDOUT_FILENO, &type, err));
    TRY(guard_start(fileno(terminal->in), STDOUT_FILENO, err));
    terminal->screen = newterm(type, stdout, terminal->in);
    if (!terminal->screen)
        return err_set(err, -ENOTSUP, "terminal '%s': ncurses cannot use it", type);
    terminal->mouse = !options->no_mouse && key_mouse != NULL;
    prepare_restore(terminal->mouse);
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
    for (size_t i = 0; i < ARRAY_LEN(USUAL); i++) /* that the terminal's TERM does not define */
        if (key_defined(USUAL[i].sequence) == 0)
            define_key(USUAL[i].sequence, USUAL[i].curses);
    define_key(NULL, KEY_MOUSE); /* the mouse is read here: ncurses merges quick clicks */
    report_mouse(terminal, MOUSE_ON);
    set_colours(terminal, options);
    take_size(terminal);
    return 0;
}

int terminal_open(const TerminalOptions *options, Terminal **ret, Err *err)
{
    CLEANUP(terminal_close_at) Terminal *terminal = xcalloc(1, sizeof *terminal);
    if (!isatty(STDOUT_FILENO))
        return err_set(err, -ENOTTY,
                       "stdout is no terminal: 'top --once' prints one look into a pipe, 'ssh -t' gives a terminal");
    terminal->own_in = !isatty(STDIN_FILENO);
    terminal->in = terminal->own_in ? fopen("/dev/tty", "r+e") : stdin;
    if (!terminal->in)
        return err_errno(err, "stdin is no terminal; open '/dev/tty'");
    terminal->utf8 = take_locale() && !options->ascii;
    TRY(start_curses(terminal, options, err));
    *ret = TAKE(terminal);
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
    if (terminal->own_in && terminal->in)
        fclose(terminal->in);
    free(terminal);
}

void terminal_fit(const Terminal *terminal, Grid *grid)
{
    grid->utf8 = terminal->utf8;
    grid_resize(grid, terminal->width, terminal->height);
}

/* --- showing ------------------------------------------------------------------------------------------------------ */

/* The characters of a cell for ncurses; '?' where the C library has another width for it, which would misplace the
 * rest. */
static void to_wide(const Terminal *terminal, const char *text, int width, wchar_t out[CCHARW_MAX + 1])
{
    size_t len = strnlen(text, CELL_TEXT_CAP), count = 0, n;
    uint32_t c = 0;
    while (count < CCHARW_MAX && (n = utf8_read(text, len, &c)) > 0) {
        const int across = terminal->utf8 || c < 0x80 ? wcwidth((wchar_t)c) : -1; /* <term.h> has `columns` */
        if (across == (count ? 0 : width))
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

void terminal_show(Terminal *terminal, const Grid *grid)
{
    const int width = grid->width < terminal->width ? grid->width : terminal->width;
    char text[96];

    if (terminal->gone)
        return;
    if (terminal->width < TERMINAL_WIDTH_MIN || terminal->height < TERMINAL_HEIGHT_MIN) {
        snprintf(text, sizeof text, "%dx%d is too small: %dx%d", terminal->width, terminal->height, TERMINAL_WIDTH_MIN,
                 TERMINAL_HEIGHT_MIN);
        erase();
        mvaddnstr(terminal->height / 2, 0, text, terminal->width);
        refresh();
        return;
    }
    for (int y = 0; y < grid->height && y < terminal->height; y++)
        for (int x = 0; x < width; x++) {
            const Cell *cell = grid_at(grid, x, y);

            if (cell->text[0]) /* else the right half of a wide one */
                put_cell(terminal, x, y, cell, x + 1 < width && !cell[1].text[0] ? 2 : 1);
        }
    refresh();
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static bool take_signals(Terminal *terminal, TerminalNews *ret)
{
    GuardSeen seen = guard_take();
    if (seen.end || terminal->gone) {
        *ret = (TerminalNews){.what = TERMINAL_END, .signal = seen.end};
        return true;
    }
    const bool back = seen.stop || seen.resume; /* resume alone: after a SIGSTOP, which cannot be caught */
    if (!back && !seen.resize)
        return false;
    if (back) {
        let_go(terminal);
        if (seen.stop)
            guard_pause();
        report_mouse(terminal, MOUSE_ON);
        draw_anew();
    }
    take_size(terminal);
    *ret = (TerminalNews){.what = TERMINAL_RESIZE};
    return true;
}

/* Polls the terminal's descriptors and the caller's; false after the deadline. */
static bool poll_all(Terminal *terminal, uint64_t deadline_ns, int other, bool *ret_ready)
{
    struct pollfd fds[] = {{.fd = fileno(terminal->in), .events = POLLIN},
                           {.fd = guard.event, .events = POLLIN},
                           {.fd = STDOUT_FILENO},
                           {.fd = other, .events = POLLIN}};
    const uint64_t now = clock_monotonic(clock_kernel()), left = deadline_ns > now ? deadline_ns - now : 0;
    const int timeout = (int)number_min_u64((left + NS_PER_MS - 1) / NS_PER_MS, WAIT_MS),
              rc = poll(fds, ARRAY_LEN(fds), timeout);

    *ret_ready = rc > 0 && fds[3].revents != 0;
    if (rc > 0)
        terminal->gone |= ((fds[0].revents | fds[2].revents) & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    return rc != 0 || timeout > 0;
}

void terminal_wait(Terminal *terminal, uint64_t deadline_ns, int other, TerminalNews *ret)
{
    bool more = true, ready = false;

    while (!take_signals(terminal, ret) && !read_key(terminal, ret)) {
        *ret = (TerminalNews){.what = ready ? TERMINAL_READY : TERMINAL_TIMEOUT};
        if (ready || !more)
            return;
        more = poll_all(terminal, deadline_ns, other, &ready);
    }
}
