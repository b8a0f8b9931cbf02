/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker top`: the GPUs in the terminal, live, recorded or of yesterday. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "verb/past.h"
#include "verb/agent/local_node.h"
#include "verb/top/feed.h"
#include "verb/top/processes.h"
#include "verb/top/terminal.h"
#include "verb/verb.h"

enum { OUT_MAX = 64 << 20, STORE_SPEED = 60 };
enum { SILENT_MS = 5000, REFRESH_MS = 1000, POLL_MS = 500 };
enum { FIRST_SNAPSHOT_MS = 20000, PAST_MS = 3000 };

typedef struct TopVerbOptions {
    LookOptions look;
    const char *view, *gpu, *sort, *theme, *filter, *size, *keys, *replay, *from, *to, *record, *journal;
    bool read_only, once, json, ascii, no_mouse, paused;
    int colour;
    double speed;
    uint64_t interval_ns, for_ns;
} TopVerbOptions;

static const char *const view_names[] = {"gpus", "gpu", "processes", "incidents", "topology", NULL};

static const OptSpec top_opts[] = {
    OPT_ROW("interval", OPT_DURATION, TopVerbOptions, interval_ns, .short_flag = 'i', .def = "1s", .min = 100e6,
            .max = 3600e9, .help = "time between two snapshots"),
    OPT_ROW("view", OPT_STRING, TopVerbOptions, view, .metavar = "NAME", .names = view_names,
            .help = "the first view: gpus, gpu, processes, incidents, topology"),
    OPT_ROW("gpu", OPT_STRING, TopVerbOptions, gpu, .short_flag = 'g', .metavar = "ID",
            .help = "follow this GPU: index, UUID or PCI address"),
    OPT_ROW("sort", OPT_STRING, TopVerbOptions, sort, .metavar = "COLUMN",
            .help = "column that processes are sorted by"),
    OPT_ROW("filter", OPT_STRING, TopVerbOptions, filter, .metavar = "TEXT",
            .help = "show only processes whose line contains this"),
    OPT_ROW("read-only", OPT_BOOL, TopVerbOptions, read_only, .help = "read only: send no signals to processes"),
    OPT_ROW("once", OPT_BOOL, TopVerbOptions, once, .short_flag = '1', .help = "print one screen to standard output"),
    OPT_ROW("json", OPT_BOOL, TopVerbOptions, json, .help = "print one snapshot to standard output, as JSON"),
    OPT_ROW("size", OPT_STRING, TopVerbOptions, size, .metavar = "WxH",
            .help = "with --once: columns and lines of the screen; without: the terminal's, else 80x24"),
    OPT_ROW("keys", OPT_STRING, TopVerbOptions, keys, .metavar = "KEYS",
            .help = "with --once: keys to press first, for scripts and tests: \"j enter F6\""),
    OPT_ROW("record", OPT_STRING, TopVerbOptions, record, .short_flag = 'r', .metavar = "FILE",
            .help = "write every snapshot to this file (.gz: compressed); without a terminal nothing is shown"),
    OPT_ROW("for", OPT_DURATION, TopVerbOptions, for_ns, .max = 366 * 86400e9, .help = "end after this time"),
    OPT_ROW("replay", OPT_STRING, TopVerbOptions, replay, .short_flag = 'p', .metavar = "FILE",
            .help = "play a recording; -: from standard input"),
    OPT_ROW("from", OPT_STRING, TopVerbOptions, from, .metavar = "TIME",
            .help = "from this time on: 1d ago, or 2026-01-05T08:00:00Z; without --replay of the agent's history"),
    OPT_ROW("to", OPT_STRING, TopVerbOptions, to, .metavar = "TIME", .help = "end of the time"),
    OPT_ROW("speed", OPT_DOUBLE, TopVerbOptions, speed, .min = 0, .max = PLAY_SPEED_MAX, .metavar = "FACTOR",
            .help = "speed of the replay; without: 1, for the agent's history 60"),
    OPT_ROW("paused", OPT_BOOL, TopVerbOptions, paused, .help = "start a replay paused"),
    OPT_ROW("colour", OPT_ENUM, TopVerbOptions, colour, .def = "auto", .names = verb_colour_names, .metavar = "WHEN",
            .help = "colours"),
    OPT_ROW("theme", OPT_STRING, TopVerbOptions, theme, .metavar = "NAME", .names = theme_names,
            .help = "colours of a terminal with 256: auto, dark, light, colour-blind; F2 changes them"),
    OPT_ROW("ascii", OPT_BOOL, TopVerbOptions, ascii, .help = "use only ASCII characters"),
    OPT_ROW("no-mouse", OPT_BOOL, TopVerbOptions, no_mouse, .help = "do not use the mouse"),
    OPT_ROW("journal", OPT_STRING, TopVerbOptions, journal, .env = "STOKER_JOURNAL", .metavar = "FILE",
            .help = "with --from: the agent's journal, for the incidents of that time"),
    LOOK_OPTS(TopVerbOptions),
};

/* --- what was asked for ------------------------------------------------------------------------------------------- */

static bool is_replay(const TopVerbOptions *o)
{
    return o->replay || o->from || o->to;
}

static int check_pairs(VerbCall *call, const TopVerbOptions *o)
{
    const struct {
        bool wrong;
        const char *text;
    } rules[] = {
        {call->args.len > 0, "takes no argument; --replay FILE shows a recording"},
        {(o->keys || o->size) && !o->once, "--keys and --size are for --once"},
        {o->json && o->keys, "--keys has no meaning with --json"},
        {o->record && is_replay(o), "--record has no meaning with a replay"},
        {o->record && (o->once || o->json), "--record needs more than one snapshot; --for 10s ends it"},
        {is_replay(o) && o->look.alone, "--alone has no meaning with a replay"},
        {(o->speed > 0 || o->paused) && !is_replay(o), "--speed and --paused are for a replay"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (rules[i].wrong)
            return err_set(&call->err, -EINVAL, "%s", rules[i].text);
    return 0;
}

static int read_span(VerbCall *call, const TopVerbOptions *o, ReplayOptions *ret)
{
    const uint64_t now = clock_real(clock_kernel());
    const bool store = !o->replay;

    *ret = (ReplayOptions){.speed = o->speed > 0 ? o->speed
                                    : store      ? STORE_SPEED
                                                 : 1,
                           .paused = o->paused || o->once || o->json,
                           .at_end = (o->once || o->json) && !o->from};
    if (o->from && past_since(o->from, now, &ret->from_ns, &call->err) < 0)
        return err_add(&call->err, "--from");
    if (o->to && past_since(o->to, now, &ret->to_ns, &call->err) < 0)
        return err_add(&call->err, "--to");
    if (ret->to_ns && ret->from_ns > ret->to_ns)
        return err_set(&call->err, -EINVAL, "--from is after --to");
    return 0;
}

/* "100x30" */
static int read_size(VerbCall *call, const TopVerbOptions *o, int *ret_width, int *ret_height)
{
    const char *cross = o->size ? strchr(o->size, 'x') : NULL, *lines = getenv("LINES");
    uint64_t width = number_min_u64(verb_width(), GRID_WIDTH_MAX), height = 24;
    struct winsize ws;

    if (lines && atoi(lines) > 0)
        height = number_min_u64((uint64_t)atoi(lines), GRID_HEIGHT_MAX);
    else if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_row > 1)
        height = ws.ws_row - 1U; /* the prompt comes below it */
    if (o->size &&
        (!cross || number_parsen_u64(o->size, (size_t)(cross - o->size), 1, GRID_WIDTH_MAX, &width, NULL) < 0 ||
         number_parse_u64(cross + 1, 1, GRID_HEIGHT_MAX, &height, NULL) < 0))
        return err_set(&call->err, -EINVAL, "--size: '%s' is no size; 100x30 is one, %dx%d the largest", o->size,
                       GRID_WIDTH_MAX, GRID_HEIGHT_MAX);
    *ret_width = (int)width;
    *ret_height = (int)height;
    return 0;
}

/* --- the feed --------------------------------------------------------------------------------------------------- */

/* An agent that does not answer is shown as that, unless it was named: then it is an error. */
static int make_feed(VerbCall *call, const TopVerbOptions *o, Feed **ret)
{
    const char *journal = is_replay(o) ? o->journal : NULL;
    const PastOptions options = {.control = o->look.control, .journal = journal, .root = o->look.root};
    IncidentList incidents = {0};
    IncidentsHead head;
    ReplayOptions replay;
    Past past = {.agent = false};

    if (is_replay(o))
        TRY(read_span(call, o, &replay));
    if (o->replay) {
        *ret = feed_recording_new(o->replay, &replay);
        return 0;
    }
    const int rc = o->look.alone ? 0 : past_open(call, &options, &past);
    if (rc < 0 && (o->look.control || is_replay(o)))
        return rc;
    if (!is_replay(o)) {
        *ret = past.agent || rc < 0 ? feed_agent_new(past.control, o->interval_ns)
                                    : feed_local_new(o->look.library, o->look.root, o->interval_ns);
        return 0;
    }
    if (!past.agent)
        return err_set(&call->err, -ENOENT,
                       "no agent runs at '%s', whose history could be shown; --replay FILE shows "
                       "a recording",
                       past.control);
    if (past_incidents(&past, true, replay.from_ns, &incidents, &head) < 0)
        vec_clear(&incidents); /* the numbers are worth showing without */
    *ret = feed_history_new(past.control, &replay, &incidents);
    return 0;
}

/* --- a session ---------------------------------------------------------------------------------------------------- */

typedef struct Session {
    VerbCall *call;
    const TopVerbOptions *o;
    Feed *feed;
    Recorder *recorder; /* NULL none */
    Top *top;
    History *history;              /* the feed's */
    CommandLines *commands;        /* NULL: nobody sees them */
    SnapshotBuffer *shown, *spare; /* shown: what the screen was drawn from, until the next one is shown */
    FeedState state;               /* as it is shown: with the trouble of a feed that is silent */
    int width, height;             /* of --once */
    KeyList keys;                  /* the same */
    const char *settings;          /* the file that keeps the settings, NULL: none is kept */
    Str kept;                      /* what it has, or would have had at the start */
    bool record_trouble_told, over;
} Session;

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

static bool is_live(const Session *s)
{
    return s->state.kind == FEED_AGENT || s->state.kind == FEED_LOCAL;
}

/* A live feed that gives nothing and reports no trouble hangs. */
static void read_state(Session *s)
{
    const uint64_t most = number_max_u64(4 * s->o->interval_ns, SILENT_MS * NS_PER_MS);

    feed_state(s->feed, &s->state);
    if (is_live(s) && !s->state.trouble[0] && s->state.snapshots > 0 && s->state.age_ns > most)
        snprintf(s->state.trouble, sizeof s->state.trouble, "the %s does not answer",
                 s->state.kind == FEED_AGENT ? "agent" : "driver");
    if (!s->state.trouble[0])
        s->state.age_ns = 0;
}

/* Takes what the feed has. */
static void take_news(Session *s)
{
    const bool came = feed_take(s->feed, &s->spare); /* first: what comes from here on signals again */
    SnapshotBuffer *fresh = s->spare;

    read_state(s);
    if (came && is_live(s) && s->commands)
        command_lines_fill(s->commands, fresh->boot_id, fresh->processes.at, fresh->processes.len);
    if (came) {
        s->spare = s->shown;
        s->shown = fresh;
        top_see(s->top, &fresh->snapshot, &s->state);
    }
    if (s->state.record_trouble[0] && !s->record_trouble_told) {
        s->record_trouble_told = true;
        top_say(s->top, INK_BAD, s->state.record_trouble);
    }
}

/* Draws, and asks for the past of what is drawn. */
static void draw_screen(Session *s, Grid *grid)
{
    top_draw(s->top, grid);
    if (history_count_open(s->history) > 0)
        feed_steer(s->feed, TOP_WISH_NONE, 0);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void send_signal(Session *s)
{
    const TopSignal signal = top_signal(s->top);
    char text[ERR_TEXT_MAX];
    Err err;

    if (!is_live(s)) {
        top_say(s->top, INK_BAD, "this is a replay: no signal was sent");
        return;
    }
    if (process_signal(&signal, s->shown->snapshot.boot_id, &err) < 0) {
        top_say(s->top, INK_BAD, err.text);
        return;
    }
    snprintf(text, sizeof text, "%s was sent to process %d", signal.name, (int)signal.pid);
    top_say(s->top, INK_GOOD, text);
}

static void obey_wish(Session *s, TopWish wish)
{
    s->over |= wish == TOP_WISH_QUIT;
    if (wish == TOP_WISH_NONE || wish == TOP_WISH_QUIT)
        return;
    if (wish == TOP_WISH_SIGNAL)
        send_signal(s);
    else
        feed_steer(s->feed, wish, top_amount(s->top));
    take_news(s);
}

/* --- on a terminal ------------------------------------------------------------------------------------------------ */

/* There is no snapshot. An unreadable file is a usage error; that nothing is known of the GPUs is not. */
static int fail_feed(Session *s)
{
    return verb_failf(s->call, s->state.failed && s->o->replay ? EXIT_USAGE : EXIT_UNKNOWN, "%s",
                      s->state.trouble[0] ? s->state.trouble : "no sample came");
}

static int watch_screen(Session *s)
{
    const TopVerbOptions *o = s->o;
    const TerminalOptions options = {.theme = top_theme(s->top),
                                     .colourless = !verb_coloured(o->colour, true),
                                     .ascii = o->ascii,
                                     .no_mouse = o->no_mouse};
    const uint64_t end_ns = o->for_ns ? clock_monotonic(clock_kernel()) + o->for_ns : UINT64_MAX;
    CLEANUP(grid_done) Grid grid = {0};
    Terminal *terminal;
    TerminalNews news = {.what = TERMINAL_TIMEOUT};

    if (terminal_open(&options, &terminal, &s->call->err) < 0)
        return verb_fail(s->call, EXIT_UNKNOWN);
    terminal_fit(terminal, &grid);
    take_news(s);
    for (uint64_t now = 0; !s->over && now < end_ns && !(s->state.failed && s->state.snapshots == 0);) {
        draw_screen(s, &grid);
        terminal_show(terminal, &grid);
        now = clock_monotonic(clock_kernel());
        terminal_wait(terminal, number_min_u64(now + REFRESH_MS * NS_PER_MS, end_ns), s->feed->fd, &news);
        take_news(s);
        if (news.what == TERMINAL_KEY)
            obey_wish(s, top_key(s->top, news.key));
        else if (news.what == TERMINAL_MOUSE)
            obey_wish(s, top_mouse(s->top, news.mouse, news.x, news.y));
        else if (news.what == TERMINAL_RESIZE)
            terminal_fit(terminal, &grid);
        s->over |= news.what == TERMINAL_END;
        terminal_set_theme(terminal, top_theme(s->top));
    }
    terminal_close(terminal);
    if (s->state.failed && s->state.snapshots == 0)
        return fail_feed(s);
    if (s->state.record_trouble[0])
        return verb_failf(s->call, EXIT_UNKNOWN, "%s", s->state.record_trouble);
    return news.what == TERMINAL_END && news.signal > 0 ? 128 + news.signal : EXIT_FINE;
}

/* --- without a terminal ------------------------------------------------------------------------------------------- */

/* Waits a while for news of the feed; false where the deadline has passed. */
static bool wait_for_feed(Session *s, uint64_t deadline_ns)
{
    struct pollfd fd = {.fd = s->feed->fd, .events = POLLIN};
    const uint64_t now = clock_monotonic(clock_kernel());
    const uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / NS_PER_MS + 1 : 0;

    (void)poll(&fd, 1, (int)number_min_u64(left_ms, POLL_MS));
    take_news(s);
    return now < deadline_ns;
}

/* Waits for the first snapshot. An agent that does not answer is asked once. */
static bool wait_for_first(Session *s)
{
    const uint64_t deadline = clock_monotonic(clock_kernel()) + FIRST_SNAPSHOT_MS * NS_PER_MS;

    while (!s->shown->snapshot.node)
        if (s->state.failed || (s->state.kind == FEED_AGENT && s->state.trouble[0]) || !wait_for_feed(s, deadline))
            return false;
    return true;
}

static int print_text(Session *s, const Str *out)
{
    fwrite(out->text, 1, out->len, stdout);
    return verb_end(s->call, status_code(&s->shown->snapshot));
}

static int print_json(Session *s)
{
    CLEANUP(str_done) Str out = {0};

    if (!wait_for_first(s))
        return fail_feed(s);
    str_init(&out, OUT_MAX);
    if (s->shown->text.len > 0)
        str_addn(&out, s->shown->text.text, s->shown->text.len);
    else
        status_json(&s->shown->snapshot, &out);
    if (out.len > 0 && out.text[out.len - 1] != '\n')
        str_addc(&out, '\n');
    return print_text(s, &out);
}

static int print_screen(Session *s)
{
    CLEANUP(str_done) Str out = {0};
    CLEANUP(grid_done) Grid grid = {0};

    if (!wait_for_first(s))
        return fail_feed(s);
    str_init(&out, OUT_MAX);
    grid_init(&grid, s->width, s->height, verb_utf8() && !s->o->ascii);
    draw_screen(s, &grid);
    for (size_t i = 0; i < s->keys.len; i++) {
        const TopWish wish = top_key(s->top, s->keys.at[i]);

        if (wish == TOP_WISH_SIGNAL)
            top_say(s->top, INK_BAD, "one screen for a pipe sends no signals");
        else if (wish != TOP_WISH_QUIT)
            obey_wish(s, wish);
        draw_screen(s, &grid);
    }
    const uint64_t deadline = clock_monotonic(clock_kernel()) + PAST_MS * NS_PER_MS;
    while (history_count_open(s->history) > 0 && wait_for_feed(s, deadline))
        ;
    draw_screen(s, &grid);
    grid_print(&grid, verb_coloured(s->o->colour, true), &out);
    return print_text(s, &out);
}

static volatile sig_atomic_t end_signal;

static void note_end(int number UNUSED)
{
    end_signal = 1;
}

static int record_only(Session *s)
{
    const struct sigaction action = {.sa_handler = note_end, .sa_flags = (int)SA_RESETHAND};
    const uint64_t end_ns = s->o->for_ns ? clock_monotonic(clock_kernel()) + s->o->for_ns : UINT64_MAX;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    while (!end_signal && !s->state.failed && !s->state.record_trouble[0] && wait_for_feed(s, end_ns))
        ;
    if (s->state.record_trouble[0])
        return verb_failf(s->call, EXIT_UNKNOWN, "%s", s->state.record_trouble);
    return s->state.snapshots == 0 ? fail_feed(s) : EXIT_FINE;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

enum { SETTINGS_MAX = 4096 };

/* $XDG_CONFIG_HOME/stoker/top.yaml, or that in ~/.config; NULL: neither is set. */
static const char *find_settings(Arena *arena)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config && config[0] == '/')
        return arena_printf(arena, "%s/stoker/top.yaml", config);
    return home && home[0] == '/' ? arena_printf(arena, "%s/.config/stoker/top.yaml", home) : NULL;
}

/* Those of the user; the usual ones where there are none. Returns false, with the reason, where they cannot be used:
 * the file then stays as it is. */
static bool read_settings(Session *s, TopSettings *ret, Err *err)
{
    const char *path = find_settings(s->call->arena);

    *ret = top_settings_usual;
    const int rc = path ? top_settings_read(path, s->call->arena, ret, err) : -ENOENT;
    s->settings = rc == 0 || rc == -ENOENT ? path : NULL;
    return rc == 0 || rc == -ENOENT;
}

/* Writes what the user has changed. */
static void keep_settings(Session *s)
{
    CLEANUP(str_done) Str now = str_limited(SETTINGS_MAX);
    Err err;

    if (!s->settings || !s->top)
        return;
    top_settings_write(s->top, &now);
    if (strcmp(now.text, s->kept.text) == 0)
        return;
    const char *folder = arena_strndup(s->call->arena, s->settings, (size_t)(strrchr(s->settings, '/') - s->settings));
    if (file_make_dirs(folder, 0700, &err) < 0 || file_write(s->settings, now.text, now.len, 0600, &err) < 0)
        fprintf(stderr, "settings are not kept: %s\n", err.text);
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static int open_session(Session *s)
{
    const TopVerbOptions *o = s->o;
    const bool shown = !o->once && !o->json && isatty(STDOUT_FILENO);
    TopSettings settings = top_settings_usual;
    Err *err = &s->call->err, trouble = {0};
    const bool usable = !shown || read_settings(s, &settings, &trouble);
    const TopOptions options = {.view = o->view,
                                .gpu = o->gpu,
                                .sort = o->sort,
                                .theme = o->theme,
                                .filter = o->filter,
                                .settings = &settings,
                                .read_only = o->read_only};

    s->history = s->feed->history;
    if (o->once || shown)
        s->commands = command_lines_new(o->look.root);
    s->shown = snapshot_buffer_new();
    s->spare = snapshot_buffer_new();
    TRY(top_new(&options, s->history, &s->top, err));
    s->kept = str_limited(SETTINGS_MAX);
    top_settings_write(s->top, &s->kept);
    if (!usable)
        top_say(s->top, INK_WARN, trouble.text);
    top_see(s->top, &s->shown->snapshot, &s->state);
    if (o->once)
        TRY(read_size(s->call, o, &s->width, &s->height));
    if (o->keys)
        TRY(keys_parse(o->keys, &s->keys, err));
    if (o->record)
        TRY(recorder_open(o->record, o->interval_ns, &s->recorder, err));
    feed_start(s->feed, s->recorder);
    return 0;
}

/* Ends all; what a thread that hangs uses is left behind. Returns `code`, or that of a recording that is incomplete. */
static int close_session(Session *s, bool silent, int code)
{
    const bool ended = feed_free(s->feed);

    keep_settings(s);
    str_done(&s->kept);
    top_free(s->top);
    command_lines_free(s->commands);
    snapshot_buffer_free(s->shown);
    snapshot_buffer_free(s->spare);
    vec_done(&s->keys);
    if (!ended || !s->recorder)
        return code;
    if (!silent && code == EXIT_FINE)
        fprintf(stderr, "%s: %llu snapshots, %llu bytes\n", s->o->record, (unsigned long long)s->recorder->snapshots,
                (unsigned long long)s->recorder->bytes);
    return recorder_close(s->recorder, &s->call->err) < 0 ? verb_fail(s->call, EXIT_UNKNOWN) : code;
}

static int top_run(VerbCall *call, const void *options)
{
    const TopVerbOptions *o = options;
    const bool silent = !o->record || isatty(STDOUT_FILENO);
    Session s = {.call = call, .o = o};

    if (check_pairs(call, o) < 0)
        return verb_fail(call, EXIT_USAGE);
    const int rc = make_feed(call, o, &s.feed);
    if (rc < 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    if (open_session(&s) < 0)
        return close_session(&s, true, verb_fail(call, EXIT_USAGE));
    const int code = o->json   ? print_json(&s)
                     : o->once ? print_screen(&s)
                     : silent  ? watch_screen(&s)
                               : record_only(&s);
    return close_session(&s, silent, code);
}

const Verb verb_top = {
    .name = "top",
    .summary = "watch the GPUs in the terminal, live or as they were",
    .usage = "[--once | --json] [--record FILE] [--replay FILE | --from TIME]",
    .description =
        "Shows what each GPU does, who uses it, which problems there are and what to do about them. F1 or ? lists "
        "the keys. Asks the running agent, whose history fills the plots. Without an agent it samples the GPUs "
        "itself. If the agent goes away or the driver hangs, the screen says so and continues.\n"
        "\n"
        "--record writes every snapshot as a line of JSON, in the format of 'stoker status --json'. --replay plays "
        "such a file: space pauses, ',' and '.' go ten seconds back and forward, '[' and ']' change the speed. "
        "--from without a file plays the history of the agent, at most the last day.",
    .examples = "stoker top\n"
                "stoker top --view processes --sort memory\n"
                "stoker top --once --size 120x40 | less -R\n"
                "stoker top --record night.gz --for 8h > /dev/null\n"
                "stoker top --replay night.gz --speed 10\n"
                "stoker top --from 6h --to 4h    # what the agent saw then",
    .exit_codes = "0  fine; of --once and --json: nothing is wrong\n"
                  "1  with --once and --json: there is a problem\n"
                  "2  the command line or a recording is wrong\n"
                  "3  unknown: neither an agent nor the driver answers, or there is no terminal",
    VERB_OPTS(top_opts, TopVerbOptions),
    .run = top_run,
};
