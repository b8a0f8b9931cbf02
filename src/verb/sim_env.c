/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker sim env`: makes a node that lives without a process of ours and prints what a shell exports to use it. */
#include <stddef.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "verb/sim_place.h"

typedef struct EnvOptions {
    StartOptions start;
} EnvOptions;

static const OptSpec env_opts[] = {START_OPTS(EnvOptions, start)};

static int env_run(VerbCall *call, const void *options)
{
    const EnvOptions *o = options;
    SimPlace place;
    SimImage *image;
    const char *path;
    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "takes one scenario; 'stoker sim list' lists them");
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = sim_start(call, &o->start, call->args.items[0], false, &place, &image, &path);
    if (code)
        return code;
    sim_clock_set_speed(image, o->start.speed);
    sim_place_exports(call->arena, &place, image, &(SimClient){path, NULL, o->start.strict}, "");
    sim_image_close(image);
    return EXIT_FINE;
}

const Verb verb_sim_env = {
    .name = "env",
    .summary = "make a node and print the exports to use it from any shell",
    .usage = "[OPTION...] SCENARIO",
    .description = "The node is a file in memory that lives until it is removed; its time goes on by itself. Processes "
                   "on it have made-up ids: 'stoker sim run' lends living ones.",
    .examples = "eval \"$(stoker sim env default)\"\nnvidia-smi -L",
    VERB_OPTS(env_opts, EnvOptions),
    .run = env_run,
};
