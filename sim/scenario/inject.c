/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and works for a node that runs: the StepNode is filled from the image as it is now. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/kinds.h"
#include "sim/core/num.h"
#include "sim/core/state.h"
#include "sim/scenario/parse.h"

/* When the work runs, seen from now: 0 to forever while it does, else over (or not begun). */
static void work_now(SimImage *image, const SimWork *work, int32_t index, StepWork *out)
{
    const SimNow *now = sim_state_now(image, (uint32_t)work->gpu);
    out->start_ns = SIM_FOREVER;
    out->stop_ns = SIM_FOREVER;
    for (uint32_t i = 0; i < now->proc_count; i++)
        if (now->proc[i].work == index)
            out->start_ns = 0;
}

static void works_from(SimImage *image, StepNode *node, Arena *arena)
{
    for (uint32_t i = 0; i < image->work_count; i++) {
        const SimWork *w = &image->works[i];
        StepWork step = {.name = arena_strdup(arena, w->entry),
                         .process = arena_strdup(arena, w->name),
                         .index = (int32_t)i,
                         .gpu = w->gpu,
                         .mig = w->mig,
                         .rank = w->rank,
                         .pid = sim_work_pid(image, (int32_t)i),
                         .first = 1};
        if (w->gpu < 0 || (uint32_t)w->gpu >= image->gpu_count)
            continue;
        work_now(image, w, (int32_t)i, &step);
        vec_push(&node->works, step);
    }
}

static void node_from(SimImage *image, StepNode *node, Arena *arena)
{
    const SimBoard *boards[SIM_GPU_MAX] = {0};
    SimNodeSeg seg;
    for (uint32_t i = 0; i < image->gpu_count; i++)
        boards[i] = &image->boards[image->gpus[i].board];
    step_node_init(node, image->gpu_count, boards);
    node->driver = image->driver;
    node->cgroups = image->cgroups;
    for (uint32_t i = 0; i < image->gpu_count; i++)
        node->conds[i] = sim_state_now(image, i)->cond;
    sim_node_at(image, sim_clock_now(image), &seg);
    for (uint32_t i = 0; i < SIM_HANG_MAX; i++) {
        node->hang_used[i] = seg.hang[i].used != 0;
        node->hang_key[i] = ((uint64_t)(uint32_t)seg.hang[i].fn << 32) | (uint32_t)seg.hang[i].gpu;
    }
    works_from(image, node, arena);
}

static int step_ops(StepNode *node, int argc, const char *const *argv, StepOps *ops, Arena *arena, Err *err)
{
    const Step *step = NULL;
    StepArgs args;
    TRY(step_read_words(argc, argv, node, arena, &step, &args, err));
    TRY(step_make(step, &args, node, 0, 0, arena, ops, err));
    return args.for_ns ? step_make(step, &args, node, args.for_ns, 1, arena, ops, err) : 0;
}

int scenario_step_parse(SimImage *image, int argc, const char *const *argv, ScenarioOp *ops, size_t max,
                        size_t *ret_count, Arena *arena, Err *err)
{
    CLEANUP(step_node_done) StepNode node = {0};
    StepOps made = {0};
    node_from(image, &node, arena);
    int rc = step_ops(&node, argc, argv, &made, arena, err);
    if (rc == 0 && made.len > max)
        rc = err_set(err, -E2BIG, "%s: it takes %zu ops, more than %zu", argv[0], made.len, max);
    for (size_t i = 0; rc == 0 && i < made.len; i++) {
        ops[i] = made.at[i];
        ops[i].op.origin = SIM_FROM_INJECT;
    }
    if (rc == 0)
        *ret_count = made.len;
    vec_done(&made);
    return rc;
}

static int works_copy(SimImage *image, const Parse *parse, SimWork *works, size_t max, Err *err)
{
    if (parse->works.len > max)
        return err_set(err, -E2BIG, "the work has %zu processes, more than %zu", parse->works.len, max);
    for (size_t i = 0; i < parse->works.len; i++) {
        const ScenarioWork *w = &parse->works.at[i];
        const SimBoard *board = parse->node.boards[w->gpu];
        TRY(scenario_work_fill(&works[i], w, board, image->seed, err));
    }
    return 0;
}

int scenario_work_parse(SimImage *image, int argc, const char *const *argv, SimWork *works, size_t max,
                        size_t *ret_count, uint64_t *ret_stop_ns, Arena *arena, Err *err)
{
    Scenario scratch = {.node.seed = image->seed};
    Parse parse = {.arena = arena, .out = &scratch};
    node_from(image, &parse.node, arena);
    int rc = parse_work_words(&parse, argc, argv, err);
    if (rc == 0)
        rc = works_copy(image, &parse, works, max, err);
    if (rc == 0) {
        *ret_count = parse.works.len;
        *ret_stop_ns = parse.works.at[0].stop_ns;
    }
    step_node_done(&parse.node);
    vec_done(&parse.ops);
    vec_done(&parse.works);
    return rc;
}
