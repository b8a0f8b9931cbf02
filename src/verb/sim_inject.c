/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker sim inject`: makes something happen on a running simulated node, now. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/step.h"
#include "verb/sim_place.h"
#include "verb/verb.h"

enum { INJECT_OPS_MAX = 256, INJECT_WORKS_MAX = 64 };

typedef struct InjectOptions {
    const char *image;
    bool list;
} InjectOptions;

static const OptSpec inject_opts[] = {
    OPT_ROW("image", OPT_STRING, InjectOptions, image, .metavar = "FILE",
            .help = "the node's image; default: $STOKER_SIM or the only node that runs"),
    OPT_ROW("list", OPT_BOOL, InjectOptions, list, .help = "list what can be injected"),
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

static void list_steps(void)
{
    const Step *step;
    for (size_t i = 0; (step = step_at(i)); i++)
        printf("%-16s %s\n%-16s   %s\n", step->name, step->help, "", step->example ? step->example : "");
    printf("%-16s %s\n%-16s   %s\n", "work", "start processes of a kind on GPUs", "",
           "work train gpus=0-3 memory=40GiB");
}

static int inject_run(VerbCall *call, const void *options)
{
    const InjectOptions *o = options;
    if (o->list) {
        list_steps();
        return EXIT_FINE;
    }
    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "what should happen? e.g. 'xid 79 gpu=3'; --list lists all");
    SimImage *image;
    const char *path;
    if (sim_place_open(call->arena, o->image, &image, &path, &call->err) < 0)
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
                   "docs/scenarios.md explains them.",
    .examples = "stoker sim inject xid 79 gpu=3             # falls off the bus\n"
                "stoker sim inject hang gpu=2               # calls for GPU 2 hang from now on\n"
                "stoker sim inject hang clear=on            # and go on\n"
                "stoker sim inject work decode gpus=0-3     # start four processes",
    VERB_OPTS(inject_opts, InjectOptions),
    .run = inject_run,
};
