/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker status`: the node on one screen, from the running agent or, without one, from samplers of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "service/status/status.h"
#include "verb/agent/control.h"
#include "verb/agent/local_node.h"
#include "verb/verb.h"

enum { ASK_MS = 3000 };

typedef struct StatusOptions {
    LookOptions look;
    bool json, brief, watch, all;
    uint64_t interval_ns;
} StatusOptions;

static const OptSpec status_opts[] = {
    OPT_ROW("json", OPT_BOOL, StatusOptions, json, .help = "print everything as JSON"),
    OPT_ROW("brief", OPT_BOOL, StatusOptions, brief,
            .help = "print one line: all healthy, or the worst problem and what to do"),
    OPT_ROW("watch", OPT_BOOL, StatusOptions, watch, .short_flag = 'w', .help = "repeat until interrupted"),
    OPT_ROW("interval", OPT_DURATION, StatusOptions, interval_ns, .short_flag = 'i', .def = "1s", .min = 100e6,
            .max = 3600e9, .help = "time between two samples with --watch"),
    OPT_ROW("all", OPT_BOOL, StatusOptions, all, .short_flag = 'a',
            .help = "show every GPU, MIG device and incident, even if the terminal has too few lines"),
    LOOK_OPTS(StatusOptions),
};

/* Lines of the terminal; 0 where there is none. */
static size_t height_of(const StatusOptions *o)
{
    struct winsize size;
    const char *lines = getenv("LINES");

    if (o->all)
        return 0;
    if (lines && atoi(lines) > 0)
        return (size_t)atoi(lines);
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/* One look, into `out`. Returns an exit code; below 0 -errno with call->err set. */
static int read_status(VerbCall *call, const StatusOptions *o, LocalNode **local, Str *out)
{
    const char *path = control_path(o->look.control, call->arena);
    StatusStyle style = {.width = verb_width(),
                         .height = height_of(o),
                         .colour = verb_coloured(VERB_COLOUR_AUTO, true),
                         .utf8 = verb_utf8()};
    char line[64];
    int code;

    if (!o->look.alone && !*local) {
        snprintf(line, sizeof line,
                 o->json    ? "status json"
                 : o->brief ? "status brief"
                            : "status text %zu %d %zu",
                 style.width, style.colour + 2 * style.utf8, style.height);
        int rc = control_ask(path, line, ASK_MS, out, &code, &call->err);
        if (rc == 0)
            return code;
        if (o->look.control || (rc != -ENOENT && rc != -ECONNREFUSED))
            return rc;
    }
    if (!*local)
        TRY(local_node_new(o->look.library, o->look.root, 0, local, &call->err));
    const Snapshot *snapshot = local_node_wait(*local);

    if (o->json)
        status_json(snapshot, out);
    else if (o->brief)
        status_brief(snapshot, out);
    else
        status_text(snapshot, &style, out);
    return status_code(snapshot);
}

static int status_run(VerbCall *call, const void *options)
{
    const StatusOptions *o = options;
    CLEANUP(str_done) Str out = {0};
    CLEANUP(local_node_free_at) LocalNode *local = NULL;

    if (o->json && o->brief)
        return verb_failf(call, EXIT_USAGE, "--json and --brief exclude each other");
    str_init(&out, CONTROL_REPLY_MAX);
    for (;;) {
        str_clear(&out);
        int code = read_status(call, o, &local, &out);
        if (code < 0)
            return verb_fail(call, EXIT_UNKNOWN);
        if (o->watch && !o->json && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        fwrite(out.text, 1, out.len, stdout);
        if (!o->watch || !verb_flush())
            return code;
        clock_sleep(clock_kernel(), o->interval_ns);
    }
}

const Verb verb_status = {
    .name = "status",
    .summary = "show problems, what to do, and what each GPU does, on one screen",
    .usage = "[--brief | --json] [--watch] [--all]",
    .description =
        "Shows whether there is a problem, then the open incidents, the most severe first, with what to do, then "
        "what each GPU does. If the terminal has too few lines, healthy GPUs and less severe incidents are left out; "
        "--all shows them. Asks the running agent. Without an agent it starts a sampler for a moment and reads the "
        "driver through it, so a driver that hangs does not hang the command.",
    .examples = "stoker status\n"
                "stoker status --watch -i 5s\n"
                "for n in node1 node2; do ssh $n stoker status --brief; done\n"
                "stoker status --json | jq '.incidents'",
    .exit_codes = "0  no problem\n"
                  "1  there is a problem; the screen shows it\n"
                  "2  the command line is wrong\n"
                  "3  unknown: neither an agent nor the driver answers",
    VERB_OPTS(status_opts, StatusOptions),
    .no_args = "",
    .run = status_run,
};
