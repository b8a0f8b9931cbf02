/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker sim clock`: the virtual clock of a running simulated node. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "verb/sim_place.h"
#include "verb/verb.h"

typedef struct ClockOptions {
    const char *image;
    bool json;
} ClockOptions;

static const OptSpec clock_opts[] = {
    OPT_ROW("image", OPT_STRING, ClockOptions, image, .metavar = "FILE",
            .help = "the node's image; default: $STOKER_SIM or the only node that runs"),
    OPT_ROW("json", OPT_BOOL, ClockOptions, json, .help = "as JSON"),
};

static void print_clock(SimImage *image, bool json)
{
    uint64_t now = sim_clock_now(image);
    double speed = sim_clock_speed(image);
    if (json)
        printf("{\"virtual_ns\": %llu, \"speed\": %g, \"wall_us\": %llu}\n", (unsigned long long)now, speed,
               (unsigned long long)sim_clock_wall_us(image, now));
    else if (speed > 0)
        printf("%.3f s since the start, running at %gx\n", (double)now / 1e9, speed);
    else
        printf("%.3f s since the start, paused\n", (double)now / 1e9);
}

/* step DURATION: forward only, as virtual time never goes back. */
static int step_clock(VerbCall *call, SimImage *image, const char *text)
{
    uint64_t by;
    if (duration_parse(text, &by, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (sim_clock_advance(image, by) < 0)
        return verb_failf(call, EXIT_USAGE, "a step of %s leads beyond the clock's range", text);
    return EXIT_FINE;
}

static int set_speed(VerbCall *call, SimImage *image, const char *text)
{
    double n;
    if (number_parse_double(text, 0, 1e6, &n, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    sim_clock_set_speed(image, n);
    return EXIT_FINE;
}

static int change_clock(VerbCall *call, SimImage *image)
{
    const char *what = call->args.items[0];
    if (call->args.len == 1 && strcmp(what, "pause") == 0)
        return set_speed(call, image, "0");
    if (call->args.len == 1 && strcmp(what, "resume") == 0)
        return set_speed(call, image, "1");
    if (call->args.len == 2 && strcmp(what, "speed") == 0)
        return set_speed(call, image, call->args.items[1]);
    if (call->args.len == 2 && strcmp(what, "step") == 0)
        return step_clock(call, image, call->args.items[1]);
    return verb_failf(call, EXIT_USAGE,
                      "cannot do '%s' with %zu argument(s); allowed: pause, resume, speed N, step DURATION", what,
                      call->args.len - 1);
}

static int clock_run(VerbCall *call, const void *options)
{
    const ClockOptions *o = options;
    SimImage *image;
    const char *path;
    if (sim_place_open(call->arena, o->image, &image, &path, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = call->args.len > 0 ? change_clock(call, image) : EXIT_FINE;
    if (code == EXIT_FINE)
        print_clock(image, o->json);
    sim_image_close(image);
    return code;
}

const Verb verb_sim_clock = {
    .name = "clock",
    .summary = "show or change the virtual clock",
    .usage = "[--image FILE] [--json] [pause | resume | speed N | step DURATION]",
    .examples = "stoker sim clock                # where it stands\n"
                "stoker sim clock speed 60       # a minute per second\n"
                "stoker sim clock step 1h        # an hour later at once",
    VERB_OPTS(clock_opts, ClockOptions),
    .run = clock_run,
};
