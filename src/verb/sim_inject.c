/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that change a running simulated node: `stoker sim inject` makes something happen on it now, `stoker sim clock`
 * shows or changes its virtual clock. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "sim/core/control.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/step.h"
#include "verb/sim_place.h"
#include "verb/verb.h"

enum { INJECT_OPS_MAX = 256, INJECT_WORKS_MAX = 64 };

typedef struct ChangeOptions {
    const char *image;
    bool list, json;
} ChangeOptions;

static const OptSpec inject_opts[] = {
    SIM_IMAGE_OPT(ChangeOptions),
    OPT_ROW("list", OPT_BOOL, ChangeOptions, list, .help = "list what can be injected"),
};

static const OptSpec clock_opts[] = {
    SIM_IMAGE_OPT(ChangeOptions),
    OPT_ROW("json", OPT_BOOL, ChangeOptions, json, .help = "as JSON"),
};

static int report_refusal(VerbCall *call, SimOutcome out)
{
    const char *why = out == SIM_NO_ROOM         ? "there is no room for it on this GPU"
                      : out == SIM_NOT_FOUND     ? "there is no such instance"
                      : out == SIM_NOT_SUPPORTED ? "this GPU cannot, or MIG is off"
                      : out == SIM_FULL          ? "the node's list of events is full"
                                                 : "the node refused it";
    return verb_failf(call, EXIT_FINDING, "%s (code %d)", why, (int)out);
}

static int apply_ops(VerbCall *call, SimImage *image, ScenarioOp *ops, size_t count)
{
    uint64_t now = sim_clock_now(image);
    for (size_t i = 0; i < count; i++) {
        int later = ops[i].op.t_ns > 0;
        ops[i].op.t_ns += now;
        ops[i].op.origin = SIM_FROM_INJECT;
        SimOutcome out = sim_op_apply(image, &ops[i].op, ops[i].text, later, NULL);
        if (out != SIM_OK)
            return report_refusal(call, out);
    }
    return EXIT_FINE;
}

static int inject_work(VerbCall *call, SimImage *image)
{
    static SimWork works[INJECT_WORKS_MAX];
    size_t count;
    uint64_t runs_ns;
    if (scenario_work_parse(image, (int)call->args.len - 1, call->args.items + 1, works, INJECT_WORKS_MAX, &count,
                            &runs_ns, call->arena, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    for (size_t i = 0; i < count; i++) {
        int32_t at = sim_work_add(image, &works[i]);
        if (at == SIM_NONE)
            return report_refusal(call, SIM_FULL);
        ScenarioOp ops[2] = {{.op = {.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {at}}},
                             {.op = {.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {at}, .t_ns = runs_ns}}};
        int code = apply_ops(call, image, ops, runs_ns == SIM_FOREVER ? 1 : 2);
        if (code != EXIT_FINE)
            return code;
    }
    return EXIT_FINE;
}

static int inject_words(VerbCall *call, SimImage *image)
{
    static ScenarioOp ops[INJECT_OPS_MAX];
    size_t count;
    if (strcmp(call->args.items[0], "work") == 0)
        return inject_work(call, image);
    if (scenario_step_parse(image, (int)call->args.len, call->args.items, ops, INJECT_OPS_MAX, &count, call->arena,
                            &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    return apply_ops(call, image, ops, count);
}

static int inject_run(VerbCall *call, const void *options)
{
    const ChangeOptions *o = options;
    if (o->list) {
        const Step *step;
        for (size_t i = 0; (step = step_at(i)); i++)
            printf("%-16s %s\n%-16s   %s\n", step->name, step->help, "", step->example ? step->example : "");
        printf("%-16s %s\n%-16s   %s\n", "work", "start processes of a kind on GPUs", "",
               "work train gpus=0-3 memory=40GiB");
        return EXIT_FINE;
    }
    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "what should happen? e.g. 'xid 79 gpu=3'; --list lists all");
    SimImage *image;
    if (sim_place_open(call->arena, o->image, &image, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = inject_words(call, image);
    sim_image_close(image);
    return code;
}

const Verb verb_sim_inject = {
    .name = "inject",
    .summary = "make something happen on a running node, now",
    .usage = "[--image FILE] STEP [NAME=VALUE...]",
    .description = "The steps and their arguments are those of a scenario's timeline; --list lists them, "
                   "docs/appendix/scenarios.md explains them.",
    .examples = "stoker sim inject xid 79 gpu=3             # falls off the bus\n"
                "stoker sim inject hang gpu=2               # calls for GPU 2 hang from now on\n"
                "stoker sim inject hang clear=on            # and go on\n"
                "stoker sim inject work decode gpus=0-3     # start four processes",
    VERB_OPTS(inject_opts, ChangeOptions),
    .run = inject_run,
};

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static void print_clock(SimImage *image, bool json)
{
    uint64_t now = sim_clock_now(image);
    double speed = sim_clock_speed(image);
    if (json) {
        CLEANUP(str_done) Str out = str_limited(256);
        json_open(&out, NULL, '{');
        json_add_u64(&out, "virtual_ns", now);
        json_add_double(&out, "speed", speed);
        json_add_u64(&out, "wall_us", sim_clock_wall_us(image, now));
        json_close(&out, '}');
        puts(out.text);
    } else if (speed > 0)
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
    const ChangeOptions *o = options;
    SimImage *image;
    if (sim_place_open(call->arena, o->image, &image, &call->err) < 0)
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
    VERB_OPTS(clock_opts, ChangeOptions),
    .run = clock_run,
};
