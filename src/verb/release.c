/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker release`: the agent lets go of the driver for a while. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "verb/agent/control.h"
#include "verb/verb.h"

enum { ASK_MS = 5000, POLL_MS = 100 };

typedef struct ReleaseOptions {
    const char *control;
    uint64_t for_ns, wait_ns;
    bool end;
} ReleaseOptions;

static const OptSpec release_opts[] = {
    {.key = "for",
     .flags = OPT_CLI_ONLY,
     .type = OPT_DURATION,
     .off = offsetof(ReleaseOptions, for_ns),
     .def = "10m",
     .min = 1e9,
     .max = 86400e9,
     .help = "how long; then the driver is taken up again by itself"},
    {.key = "end",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(ReleaseOptions, end),
     .help = "take the driver up again now"},
    {.key = "wait",
     .flags = OPT_CLI_ONLY,
     .type = OPT_DURATION,
     .off = offsetof(ReleaseOptions, wait_ns),
     .def = "30s",
     .max = 3600e9,
     .help = "how long to wait until nothing of Stoker's holds the driver"},
    {.key = "control",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(ReleaseOptions, control),
     .metavar = "FILE",
     .help = "the agent's control socket"},
};

static int ask_agent(VerbCall *call, const char *path, const char *line, Str *out)
{
    int code;

    str_clear(out);
    if (control_ask(path, line, ASK_MS, out, &code, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (code != EXIT_FINE)
        fprintf(stderr, "%s: %s", call->path, out->text);
    return code;
}

static int wait_released(VerbCall *call, const char *path, uint64_t wait_ns, Str *out)
{
    Clock *clock = clock_kernel();
    uint64_t until = clock_monotonic(clock) + wait_ns;

    for (;;) {
        int code = ask_agent(call, path, "released", out);
        if (code != EXIT_FINE)
            return code;
        if (strcmp(out->text, "0\n") == 0)
            return EXIT_FINE;
        if (clock_monotonic(clock) >= until)
            return verb_failf(call, EXIT_FINDING, "samplers still hold the driver: %s", out->text);
        clock_sleep(clock, POLL_MS * NS_PER_MS);
    }
}

static int release_run(VerbCall *call, const void *options)
{
    const ReleaseOptions *o = options;
    const char *path = o->control ? o->control : control_default_path(call->arena);
    char line[64], span[DURATION_TEXT_MAX];
    CLEANUP(str_done) Str out = {0};

    if (call->args.len > 0)
        return verb_failf(call, EXIT_USAGE, "takes no argument, got '%s'", call->args.items[0]);
    str_init(&out, CONTROL_REPLY_MAX);
    snprintf(line, sizeof line, "release %" PRIu64, o->end ? 0 : o->for_ns / NS_PER_S);
    int code = ask_agent(call, path, line, &out);
    if (code == EXIT_FINE && !o->end)
        code = wait_released(call, path, o->wait_ns, &out);
    if (code != EXIT_FINE)
        return code;
    duration_format(span, o->for_ns);
    if (o->end)
        puts("the driver is taken up again");
    else
        printf("the driver is let go for %s; 'stoker release --end' takes it up again before that\n", span);
    return EXIT_FINE;
}

const Verb verb_release = {
    .name = "release",
    .summary = "let go of the driver for a while",
    .usage = "[--for 10m] [--end]",
    .description =
        "Makes the running agent drop every handle on the driver, so that a GPU can be reset, MIG be changed, a driver "
        "be replaced or a GPU be given to a virtual machine. Returns once nothing of Stoker's holds it any "
        "more. The agent goes on serving and says that the GPUs are released; it takes the driver up again "
        "by itself when the time is over.",
    .examples = "stoker release --for 5m    # then nvidia-smi --gpu-reset -i 0\n"
                "stoker release --end       # done earlier",
    .opts = release_opts,
    .opt_count = ARRAY_LEN(release_opts),
    .opt_size = sizeof(ReleaseOptions),
    .run = release_run,
};
