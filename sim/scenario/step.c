/* SPDX-License-Identifier: Apache-2.0 */
/* Reading steps by their rows and running them over the GPUs they name. */
#include "sim/scenario/step.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "sim/core/plan.h" /* cond_init, cond_apply: the condition a planner would see */

#define AT(member) offsetof(StepArgs, member)
static const Field time_fields[] = {
    {"time", FIELD_DURATION, FIELD_NEEDED, AT(time_ns), 0, 0, 0, NULL, NULL, NULL, "when it happens"},
    {"do", FIELD_TEXT, FIELD_NEEDED, AT(what), 0, 0, 0, NULL, NULL, NULL, "the step, see below"},
    {"every", FIELD_DURATION, 0, AT(every_ns), 0, 0.001, 1e9, NULL, NULL, NULL, "repeats it at this distance"},
    {"times", FIELD_U32, 0, AT(times), 0, 1, 10000, NULL, "1", NULL, "how often in all"},
};
static const Field common_fields[] = {
    {"gpu", FIELD_INDEXES, 0, AT(gpus), 0, 0, SIM_GPU_MAX - 1, NULL, NULL, NULL, "the GPUs it happens to"},
    {"for", FIELD_DURATION, 0, AT(for_ns), 0, 0.001, 1e9, NULL, NULL, NULL, "undoes it after this time"},
};
enum { TIMES = ARRAY_LEN(time_fields), COMMON = ARRAY_LEN(common_fields) };

void step_node_init(StepNode *node, uint32_t gpu_count, const SimBoard *const *boards)
{
    memset(node, 0, sizeof *node);
    node->gpu_count = gpu_count;
    node->conds = xcalloc(gpu_count ? gpu_count : 1, sizeof *node->conds);
    for (uint32_t i = 0; i < gpu_count; i++) {
        node->boards[i] = boards[i];
        cond_init(&node->conds[i], boards[i]);
    }
}

void step_node_done(StepNode *node)
{
    free(node->conds);
    vec_done(&node->works);
    memset(node, 0, sizeof *node);
}

const Step *step_find(const char *name)
{
    for (size_t i = 0; step_at(i); i++)
        if (strcmp(step_at(i)->name, name) == 0)
            return step_at(i);
    return NULL;
}

static int step_unknown(const YamlNode *node, const char *name, Err *err)
{
    const char *names[64] = {0};
    for (size_t i = 0; step_at(i) && i < ARRAY_LEN(names) - 1; i++)
        names[i] = step_at(i)->name;
    return field_unknown(node, err, "step", name, names);
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */
typedef struct StepFields {
    Field fields[TIMES + COMMON + STEP_FIELDS_MAX];
    char what[48];
    FieldSet set;
    size_t own; /* position of the step's first own field */
} StepFields;

static void fields_join(StepFields *all, const Step *step, int timed)
{
    size_t n = 0;
    if (timed) {
        memcpy(all->fields, time_fields, sizeof time_fields);
        n += TIMES;
    }
    if (step->scope != STEP_NODE)
        all->fields[n++] = common_fields[0];
    if (step->flags & STEP_UNDO)
        all->fields[n++] = common_fields[1];
    all->own = n;
    assert(step->count <= STEP_FIELDS_MAX);
    if (step->count)
        memcpy(all->fields + n, step->fields, step->count * sizeof *step->fields);
    snprintf(all->what, sizeof all->what, "step '%s'", step->name);
    all->set = (FieldSet){all->fields, n + step->count, all->what};
}

static int args_check(const Step *step, const StepArgs *args, const StepNode *node, Err *err)
{
    const YamlNode *at = args->node ? yaml_get(args->node, "gpu") : NULL;
    if (step->scope == STEP_GPU && !args->gpus)
        return field_fail(args->node, err, "step '%s' needs 'gpu': the GPUs it happens to", step->name);
    if (args->gpus != FIELD_ALL && args->gpus >> node->gpu_count)
        return field_fail(at ? at : args->node, err, "there is no such GPU: the node has %u, 0 to %u", node->gpu_count,
                          node->gpu_count - 1);
    if (args->times > 1 && !args->every_ns)
        return field_fail(args->node, err, "step '%s': 'times' needs 'every'", step->name);
    return 0;
}

static void args_init(StepArgs *args)
{
    memset(args, 0, sizeof *args);
    args->link = args->mig = args->rank = args->start = args->gi = SIM_NONE;
    args->times = 1;
}

int step_read_map(const YamlNode *map, const StepNode *node, Arena *arena, const Step **ret_step, StepArgs *args,
                  Err *err)
{
    StepFields all;
    bool seen[FIELD_MAX];
    args_init(args);
    TRY(yaml_want(map, YAML_MAP, "a step", err));
    const YamlNode *name = yaml_get(map, "do");
    if (!yaml_text(name))
        return field_fail(name ? name : map, err, "a step needs 'do': its name");
    const Step *step = step_find(name->text);
    if (!step)
        return step_unknown(name, name->text, err);
    fields_join(&all, step, 1);
    TRY(field_defaults(&all.set, arena, args, err));
    TRY(field_read_map(&all.set, map, arena, args, seen, err));
    memcpy(args->given, seen + all.own, step->count);
    args->node = map;
    *ret_step = step;
    return args_check(step, args, node, err);
}

int step_read_words(int argc, const char *const *argv, const StepNode *node, Arena *arena, const Step **ret_step,
                    StepArgs *args, Err *err)
{
    StepFields all;
    bool seen[FIELD_MAX];
    args_init(args);
    if (argc < 1)
        return step_unknown(NULL, "", err);
    const Step *step = step_find(argv[0]);
    if (!step)
        return step_unknown(NULL, argv[0], err);
    fields_join(&all, step, 0);
    TRY(field_defaults(&all.set, arena, args, err));
    TRY(field_read_words(&all.set, argc - 1, argv + 1, arena, args, seen, err));
    memcpy(args->given, seen + all.own, step->count);
    *ret_step = step;
    return args_check(step, args, node, err);
}

/* ---- making -------------------------------------------------------------------------------------------------------
 */
/* The GPU's condition goes along, from op `from` on. */
static void conds_follow(StepNode *node, const StepOps *ops, size_t from)
{
    for (size_t i = from; i < ops->len; i++) {
        const SimOp *op = &ops->at[i].op;
        if (op->gpu >= 0)
            cond_apply(&node->conds[op->gpu], node->boards[op->gpu], op, op->t_ns);
    }
}

static int run_one(StepRun *run, Err *err)
{
    size_t from = run->ops->len;
    TRY(run->step->make(run, err));
    conds_follow(run->node, run->ops, from);
    return 0;
}

int step_make(const Step *step, const StepArgs *args, StepNode *node, uint64_t t_ns, int undo, Arena *arena,
              StepOps *ops, Err *err)
{
    StepRun run = {.node = node, .args = args, .step = step, .ops = ops, .arena = arena, .t_ns = t_ns, .undo = undo};
    if (step->scope == STEP_NODE || !args->gpus) {
        run.gpu = SIM_NONE;
        return run_one(&run, err);
    }
    for (uint32_t i = 0; i < node->gpu_count; i++) {
        if (!(args->gpus >> i & 1))
            continue;
        run.gpu = (int32_t)i;
        TRY(run_one(&run, err));
    }
    return 0;
}

static void one_page(const Step *step, Str *out)
{
    StepFields all;
    fields_join(&all, step, 0);
    str_addf(out, "\n#### `%s`\n\n%s.\n\n", step->name, step->help);
    str_addf(out, "    stoker sim inject %s\n\n", step->example);
    if (all.set.count == 0)
        return;
    fields_page(all.fields, all.set.count, out);
}

void step_page(Str *out)
{
    str_add(out, "Every step has these keys:\n\n");
    fields_page(time_fields, TIMES, out);
    str_add(out, "\nand its own:\n");
    for (size_t i = 0; step_at(i); i++)
        one_page(step_at(i), out);
}
