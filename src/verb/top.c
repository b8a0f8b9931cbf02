/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker top`: the GPUs in the terminal, live, recorded or of yesterday. */
#include <errno.h>
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
#include "verb/agent/control.h"
#include "verb/incident/past.h"
#include "verb/look.h"
#include "verb/top/keys.h"
#include "verb/top/session.h"
#include "verb/verb.h"

enum { ASK_MS = 3000, OUT_MAX = 64 << 20, STORE_SPEED = 60 };

typedef struct TopVerbOptions {
    LookOptions look;
    const char *view, *gpu, *sort, *filter, *size, *keys, *replay, *from, *to, *record, *journal;
    bool read_only, once, json, ascii, no_mouse, paused;
    int colour;
    double speed;
    uint64_t interval_ns, for_ns;
} TopVerbOptions;

static const OptSpec top_opts[] = {
    {.key = "interval",
     .flags = OPT_CLI_ONLY,
     .type = OPT_DURATION,
     .off = offsetof(TopVerbOptions, interval_ns),
     .help = "time between two snapshots",
     .short_flag = 'i',
     .def = "1s",
     .min = 100e6,
     .max = 3600e9},
    {.key = "view",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, view),
     .help = "what to begin with: gpus, gpu, processes, incidents, topology",
     .metavar = "NAME"},
    {.key = "gpu",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, gpu),
     .help = "follow this GPU: index, UUID or PCI address",
     .short_flag = 'g',
     .metavar = "ID"},
    {.key = "sort",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, sort),
     .help = "column that processes are sorted by",
     .metavar = "COLUMN"},
    {.key = "filter",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, filter),
     .help = "only processes with this in their line",
     .metavar = "TEXT"},
    {
        .key = "read-only",
        .flags = OPT_CLI_ONLY,
        .type = OPT_BOOL,
        .off = offsetof(TopVerbOptions, read_only),
        .help = "no signals to processes",
    },
    {.key = "once",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(TopVerbOptions, once),
     .help = "one screen to standard output",
     .short_flag = '1'},
    {
        .key = "json",
        .flags = OPT_CLI_ONLY,
        .type = OPT_BOOL,
        .off = offsetof(TopVerbOptions, json),
        .help = "one snapshot to standard output, as JSON",
    },
    {.key = "size",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, size),
     .help = "with --once: columns and lines of the screen; without: the terminal's, else 80x24",
     .metavar = "WxH"},
    {.key = "keys",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, keys),
     .help = "with --once: keys to press first, for scripts and tests: \"j enter F6\"",
     .metavar = "KEYS"},
    {.key = "record",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, record),
     .help = "write every snapshot to this file (.gz: packed); without a terminal it does only that",
     .short_flag = 'r',
     .metavar = "FILE"},
    {.key = "for",
     .flags = OPT_CLI_ONLY,
     .type = OPT_DURATION,
     .off = offsetof(TopVerbOptions, for_ns),
     .help = "end after this time",
     .max = 366 * 86400e9},
    {.key = "replay",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, replay),
     .help = "show a recording; -: from standard input",
     .short_flag = 'p',
     .metavar = "FILE"},
    {.key = "from",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, from),
     .help = "from this time on: 1d ago, or 2026-01-05T08:00:00Z; without --replay of the agent's history",
     .metavar = "TIME"},
    {.key = "to",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, to),
     .help = "up to this time",
     .metavar = "TIME"},
    {.key = "speed",
     .flags = OPT_CLI_ONLY,
     .type = OPT_DOUBLE,
     .off = offsetof(TopVerbOptions, speed),
     .help = "how fast to replay; without: 1, the agent's history 60",
     .min = 0,
     .max = PLAY_SPEED_MAX,
     .metavar = "FACTOR"},
    {
        .key = "paused",
        .flags = OPT_CLI_ONLY,
        .type = OPT_BOOL,
        .off = offsetof(TopVerbOptions, paused),
        .help = "a replay stands still at first",
    },
    {.key = "colour",
     .flags = OPT_CLI_ONLY,
     .type = OPT_ENUM,
     .off = offsetof(TopVerbOptions, colour),
     .help = "colours",
     .def = "auto",
     .names = verb_colour_names,
     .metavar = "WHEN"},
    {
        .key = "ascii",
        .flags = OPT_CLI_ONLY,
        .type = OPT_BOOL,
        .off = offsetof(TopVerbOptions, ascii),
        .help = "no characters beyond ASCII",
    },
    {
        .key = "no-mouse",
        .flags = OPT_CLI_ONLY,
        .type = OPT_BOOL,
        .off = offsetof(TopVerbOptions, no_mouse),
        .help = "leave the mouse to the terminal",
    },
    {.key = "journal",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(TopVerbOptions, journal),
     .help = "of a replay of the agent's history: its journal, for the incidents of that time",
     .env = "STOKER_JOURNAL",
     .metavar = "FILE"},
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
static int read_size(VerbCall *call, const TopVerbOptions *o, ScreenOptions *ret)
{
    const char *cross = o->size ? strchr(o->size, 'x') : NULL, *lines = getenv("LINES");
    struct winsize ws;
    uint64_t width, height;

    ret->width = (int)number_min_u64(verb_width(), GRID_WIDTH_MAX);
    ret->height = 24;
    if (lines && atoi(lines) > 0)
        ret->height = atoi(lines);
    else if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_row > 1)
        ret->height = ws.ws_row - 1; /* the prompt comes below it */
    if (!o->size)
        return 0;
    if (!cross || number_parsen_u64(o->size, (size_t)(cross - o->size), 1, GRID_WIDTH_MAX, &width, NULL) < 0 ||
        number_parse_u64(cross + 1, 1, GRID_HEIGHT_MAX, &height, NULL) < 0)
        return err_set(&call->err, -EINVAL, "--size: '%s' is no size; 100x30 is one, %dx%d the largest", o->size,
                       GRID_WIDTH_MAX, GRID_HEIGHT_MAX);
    ret->width = (int)width;
    ret->height = (int)height;
    return 0;
}

/* --- the feed --------------------------------------------------------------------------------------------------- */

static const char *control_of(const VerbCall *call, const TopVerbOptions *o)
{
    return o->look.control ? o->look.control : control_default_path(call->arena);
}

/* Whether an agent listens. One that was named and does not is an error. */
static int find_agent(VerbCall *call, const TopVerbOptions *o, bool *ret)
{
    CLEANUP(str_done) Str out = {0};
    int code;

    *ret = false;
    if (o->look.alone)
        return 0;
    str_init(&out, CONTROL_REPLY_MAX);
    const int rc = control_ask(control_of(call, o), "journal", ASK_MS, &out, &code, &call->err);
    *ret = rc == 0 || (rc != -ENOENT && rc != -ECONNREFUSED && !o->look.control);
    return *ret || !o->look.control ? 0 : rc;
}

static int make_history(VerbCall *call, const TopVerbOptions *o, const ReplayOptions *replay, Feed **ret)
{
    const PastOptions options = {.control = o->look.control, .journal = o->journal, .root = o->look.root};
    IncidentList incidents = {0};
    IncidentsHead head;
    Past past;

    TRY(past_open(call, &options, &past));
    if (!past.agent)
        return err_set(&call->err, -ENOENT,
                       "no agent runs at '%s', whose history could be shown; --replay FILE shows "
                       "a recording",
                       past.control);
    if (past_incidents(&past, true, replay->from_ns, &incidents, &head) < 0)
        vec_clear(&incidents); /* the numbers are worth showing without */
    *ret = feed_history_new(past.control, replay, &incidents);
    return 0;
}

static int make_feed(VerbCall *call, const TopVerbOptions *o, Feed **ret)
{
    ReplayOptions replay;
    bool agent;

    if (is_replay(o)) {
        TRY(read_span(call, o, &replay));
        if (!o->replay)
            return make_history(call, o, &replay, ret);
        *ret = feed_recording_new(o->replay, &replay);
        return 0;
    }
    TRY(find_agent(call, o, &agent));
    *ret = agent ? feed_agent_new(control_of(call, o), o->interval_ns)
                 : feed_local_new(o->look.library, o->look.root, o->interval_ns);
    return 0;
}

/* --- what is done with it ------------------------------------------------------------------------------------------
 */

static int print_text(VerbCall *call, const Str *out, int code)
{
    fwrite(out->text, 1, out->len, stdout);
    return verb_end(call, code);
}

/* An unreadable file is a usage error; that nothing is known of the GPUs is not. */
static int fail_feed(VerbCall *call, const TopVerbOptions *o, int rc)
{
    return verb_fail(call, rc == -EINVAL || (rc == -EIO && o->replay) ? EXIT_USAGE : EXIT_UNKNOWN);
}

static int print_json(VerbCall *call, const TopVerbOptions *o, Feed *feed)
{
    CLEANUP(str_done) Str out = {0};
    int code = EXIT_UNKNOWN;

    str_init(&out, OUT_MAX);
    feed_start(feed, NULL);
    const int rc = session_print_json(feed, &out, &code, &call->err);
    feed_free(feed);
    return rc < 0 ? fail_feed(call, o, rc) : print_text(call, &out, code);
}

static int print_screen(VerbCall *call, const TopVerbOptions *o, Session *session)
{
    CLEANUP(str_done) Str out = {0};
    ScreenOptions screen = {.utf8 = verb_utf8() && !o->ascii, .coloured = verb_coloured(o->colour, true)};
    KeyList keys = {0};

    str_init(&out, OUT_MAX);
    int rc = read_size(call, o, &screen);
    if (rc == 0 && o->keys)
        rc = keys_parse(o->keys, &keys, &call->err);
    screen.keys = keys.at;
    screen.key_count = keys.len;
    if (rc == 0) {
        feed_start(session->feed, NULL);
        rc = session_print(session, &screen, &out, &call->err);
    }
    vec_done(&keys);
    return rc < 0 ? fail_feed(call, o, rc) : print_text(call, &out, status_code(&session->shown->snapshot));
}

static int watch_screen(VerbCall *call, const TopVerbOptions *o, Session *session, Recorder *recorder)
{
    const TerminalOptions terminal = {.colour = (TerminalColour)o->colour, .ascii = o->ascii, .no_mouse = o->no_mouse};
    const FeedState *state = &session->state;
    int ended_by;

    feed_start(session->feed, recorder);
    if (session_run(session, &terminal, o->for_ns, &ended_by, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (state->failed && state->snapshots == 0) {
        verb_failf(call, 0, "%s", state->trouble);
        return o->replay ? EXIT_USAGE : EXIT_UNKNOWN;
    }
    if (state->record_trouble[0])
        return verb_failf(call, EXIT_UNKNOWN, "%s", state->record_trouble);
    return ended_by > 0 ? 128 + ended_by : EXIT_FINE;
}

static int record_only(VerbCall *call, const TopVerbOptions *o, Feed *feed, Recorder *recorder)
{
    feed_start(feed, recorder);
    const int rc = session_record(feed, o->for_ns, &call->err);
    const bool ended = feed_free(feed);

    if (rc == 0 && ended)
        fprintf(stderr, "%s: %llu snapshots, %llu bytes\n", o->record, (unsigned long long)recorder_snapshots(recorder),
                (unsigned long long)recorder_bytes(recorder));
    if (ended && recorder_close(recorder, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    return rc < 0 ? fail_feed(call, o, rc) : EXIT_FINE;
}

static int show_screens(VerbCall *call, const TopVerbOptions *o, Feed *feed, Recorder *recorder)
{
    const SessionOptions options = {
        .top = {.view = o->view, .gpu = o->gpu, .sort = o->sort, .filter = o->filter, .read_only = o->read_only},
        .interval_ns = o->interval_ns,
        .root = o->look.root};
    Session session;

    if (session_init(&session, feed, &options, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    int code = o->once ? print_screen(call, o, &session) : watch_screen(call, o, &session, recorder);
    if (session_done(&session) && recorder_close(recorder, &call->err) < 0)
        code = verb_fail(call, EXIT_UNKNOWN);
    return code;
}

static int top_run(VerbCall *call, const void *options)
{
    const TopVerbOptions *o = options;
    Recorder *recorder = NULL;
    Feed *feed = NULL;

    if (check_pairs(call, o) < 0)
        return verb_fail(call, EXIT_USAGE);
    const int rc = make_feed(call, o, &feed);
    if (rc < 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    if (o->json)
        return print_json(call, o, feed);
    if (o->record && recorder_open(o->record, o->interval_ns, &recorder, &call->err) < 0) {
        feed_free(feed);
        return verb_fail(call, EXIT_USAGE);
    }
    if (recorder && !isatty(STDOUT_FILENO))
        return record_only(call, o, feed, recorder);
    return show_screens(call, o, feed, recorder);
}

const Verb verb_top = {
    .name = "top",
    .summary = "watch the GPUs in the terminal, live or as they were",
    .usage = "[--once | --json] [--record FILE] [--replay FILE | --from TIME]",
    .description =
        "Shows what each GPU really does, who is on it, and what is wrong with what to do about it; F1 or ? lists the "
        "keys. Asks the running agent, whose history fills the plots with what was before. Where none runs it "
        "samples the GPUs itself. An agent that goes away, or a driver that hangs, is shown as that: the screen goes "
        "on.\n"
        "\n"
        "--record writes every snapshot as a line of JSON, each as 'stoker status --json' prints it. --replay "
        "plays such a file: space stops it, ',' and '.' go ten seconds back and on, '[' and ']' change the speed. With "
        "--from and no file the agent's own minutes are played, up to a day back.",
    .examples = "stoker top\n"
                "stoker top --view processes --sort memory\n"
                "stoker top --once --size 120x40 | less -R\n"
                "stoker top --record night.gz --for 8h > /dev/null\n"
                "stoker top --replay night.gz --speed 10\n"
                "stoker top --from 6h --to 4h    # what the agent saw then",
    .exit_codes = "0  fine; of --once and --json: nothing is wrong\n"
                  "1  of --once and --json: something is wrong\n"
                  "2  the command line or a recording is wrong\n"
                  "3  could not tell: neither an agent nor the driver answers, or there is no terminal",
    .opts = top_opts,
    .opt_count = ARRAY_LEN(top_opts),
    .opt_size = sizeof(TopVerbOptions),
    .run = top_run,
};
