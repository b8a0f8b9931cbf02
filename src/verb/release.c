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
#include "verb/past.h"

enum { POLL_MS = 100 };

typedef struct ReleaseOptions {
    const char *control;
    uint64_t for_ns, wait_ns;
    bool end;
} ReleaseOptions;

static const OptSpec release_opts[] = {
    OPT_ROW("for", OPT_DURATION, ReleaseOptions, for_ns, .def = "10m", .min = 1e9, .max = 86400e9,
            .help = "how long; then the agent opens the driver again"),
    OPT_ROW("end", OPT_BOOL, ReleaseOptions, end, .help = "open the driver again now"),
    OPT_ROW("wait", OPT_DURATION, ReleaseOptions, wait_ns, .def = "30s", .max = 3600e9,
            .help = "how long to wait until no process of Stoker holds the driver"),
    OPT_ROW("control", OPT_STRING, ReleaseOptions, control, .metavar = "FILE", .help = "the agent's control socket"),
};

static int wait_released(VerbCall *call, const char *control, uint64_t wait_ns, Str *out)
{
    Clock *clock = clock_kernel();
    uint64_t until = clock_monotonic(clock) + wait_ns;

    for (;;) {
        int code = past_order(call, control, "released", out);
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
    char line[64], span[DURATION_TEXT_MAX];
    CLEANUP(str_done) Str out = {0};

    str_init(&out, CONTROL_REPLY_MAX);
    snprintf(line, sizeof line, "release %" PRIu64, o->end ? 0 : o->for_ns / NS_PER_S);
    int code = past_order(call, o->control, line, &out);
    if (code == EXIT_FINE && !o->end)
        code = wait_released(call, o->control, o->wait_ns, &out);
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
    .summary = "make the agent close the driver for a while",
    .usage = "[--for 10m] [--end]",
    .description =
        "Makes the running agent close every handle of the driver, so that a GPU can be reset, MIG can be changed, "
        "the driver can be replaced, or a GPU can be given to a virtual machine. Returns as soon as no process of "
        "Stoker holds the driver. The agent continues to serve and reports that the GPUs are released. It opens the "
        "driver again by itself when the time is over.",
    .examples = "stoker release --for 5m    # then nvidia-smi --gpu-reset -i 0\n"
                "stoker release --end       # done earlier",
    VERB_OPTS(release_opts, ReleaseOptions),
    .no_args = "",
    .run = release_run,
};
