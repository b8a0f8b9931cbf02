/* SPDX-License-Identifier: Apache-2.0 */
/* The way back is the way forward: the steps from what the driver reports now to a layout with places. */
#include "engine/mig/apply.h"

#include <errno.h>
#include <string.h>

typedef enum Side { SIDE_BEFORE, SIDE_AFTER } Side;

typedef struct Work {
    const MigOps *ops;
    void *at;
    bool lost; /* a call did not return: the driver has to be opened anew */
} Work;

static const MigLayout *side_of(const MigChangeGpu *one, Side side)
{
    return side == SIDE_AFTER ? &one->after : &one->before;
}

static int note_lost(Work *work, int rc)
{
    work->lost |= rc == -ETIMEDOUT;
    return rc;
}

/* --- one GPU ------------------------------------------------------------------------------------------------------ */

static int change_mode(Work *work, const MigGpu *gpu, bool on, Err *err)
{
    int rc = note_lost(work, work->ops->set_mode(work->at, gpu->index, on, err));
    if (rc == 1 && (work->ops->mode_later || gpu->now.enabled == on))
        return 0;
    return rc == 1 ? note_lost(work, work->ops->reset(work->at, gpu->index, err)) : rc;
}

/* The driver calls of a plan, in its order. */
static int make_steps(Work *work, const MigGpu *gpu, const MigPlan *plan, bool enabled, Err *err)
{
    const MigInstance *now = gpu->now.instances;
    if (plan->mode_change && enabled)
        TRY(change_mode(work, gpu, true, err));
    for (size_t i = 0; i < plan->destroy_count; i++)
        TRY(note_lost(work, work->ops->destroy(work->at, gpu->index, now[plan->destroy[i]].id, err)));
    for (size_t i = 0; i < plan->create_count; i++)
        TRY(note_lost(work, work->ops->create(work->at, gpu->index, &plan->create[i], err)));
    for (size_t i = 0; i < MIG_INSTANCE_MAX; i++)
        if (plan->recompute >> i & 1)
            TRY(note_lost(work, work->ops->recompute(work->at, gpu->index, now[i].id, &plan->after[i], err)));
    if (plan->mode_change && !enabled)
        TRY(change_mode(work, gpu, false, err));
    return 0;
}

static const MigGpu *find_gpu(const MigNode *node, const MigChangeGpu *one)
{
    for (size_t i = 0; i < node->count; i++)
        if (strcmp(node->gpus[i].uuid, one->uuid) == 0)
            return &node->gpus[i];
    return NULL;
}

/* The GPU as the driver has it now; NULL with a reason. */
static const MigGpu *read_gpu(Work *work, const MigChangeGpu *one, Err *err)
{
    const MigNode *node;
    if (note_lost(work, work->ops->read(work->at, &node, err)) < 0)
        return NULL;
    const MigGpu *gpu = find_gpu(node, one);
    if (gpu && !gpu->why[0])
        return gpu;
    err_set(err, -ENODEV, "%s", gpu ? gpu->why : "it is not there any more");
    return NULL;
}

static int bring_gpu(Work *work, const MigChangeGpu *one, Side side, Err *err)
{
    const MigLayout *wanted = side_of(one, side);
    const MigGpu *gpu = read_gpu(work, one, err);
    MigPlan plan;
    if (!gpu)
        return err->code;
    mig_plan_gpu(gpu, wanted, &plan);
    if (plan.outcome != MIG_POSSIBLE)
        return err_set(err, -ENOSPC, "%s", plan.reason);
    const MigGpu copy = *gpu; /* what the driver reports may be written over by a step */
    return make_steps(work, &copy, &plan, wanted->enabled, err);
}

static int check_gpu(Work *work, const MigChangeGpu *one, Side side, Err *err)
{
    const MigLayout *wanted = side_of(one, side);
    const MigGpu *gpu = read_gpu(work, one, err);
    if (!gpu)
        return err->code;
    MigLayout now = gpu->now;
    if (work->ops->mode_later)
        now.enabled = gpu->pending;
    if (gpu->pending != wanted->enabled || !mig_layout_equal(&now, wanted, true))
        return err_set(err, -EIO, "the driver reports another layout than was made");
    return 0;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* Brings the GPUs to a side of the change and reads them back. Goes on behind a GPU that fails where `all`. */
static int bring_all(Work *work, const MigChange *change, Side side, bool all, Err *err)
{
    int rc = 0;
    for (size_t i = 0; i < change->count && (all || rc == 0); i++) {
        Err one = {0};
        int failed = work->lost ? work->ops->reopen(work->at, &one) : 0;
        work->lost = failed < 0;
        if (failed == 0)
            failed = bring_gpu(work, &change->gpus[i], side, &one);
        if (failed == 0)
            failed = check_gpu(work, &change->gpus[i], side, &one);
        if (failed < 0 && rc == 0)
            rc = err_set(err, failed, "GPU %u: %s", change->gpus[i].index, one.text);
    }
    return rc;
}

static MigEnd put_back(Work *work, const MigChange *change, Err *err)
{
    Err back = {0};
    if (bring_all(work, change, SIDE_BEFORE, true, &back) == 0)
        return MIG_END_RESTORED;
    err_set(err, err->code ? err->code : back.code, "%s; what stood before could not be put back: %s", err->text,
            back.text);
    return MIG_END_PARTIAL;
}

MigEnd mig_change_apply(const MigOps *ops, void *at, const MigChange *change, Err *err)
{
    Work work = {.ops = ops, .at = at};
    if (ops->remember(at, change, err) < 0)
        return MIG_END_NOT_BEGUN;
    MigEnd end = MIG_END_DONE;
    if (bring_all(&work, change, SIDE_AFTER, false, err) < 0)
        end = put_back(&work, change, err);
    if (end != MIG_END_PARTIAL)
        ops->forget(at, end);
    return end;
}

MigEnd mig_change_resume(const MigOps *ops, void *at, const MigChange *change, Err *err)
{
    Work work = {.ops = ops, .at = at};
    bool done = true;
    for (size_t i = 0; i < change->count && done; i++)
        done = check_gpu(&work, &change->gpus[i], SIDE_AFTER, err) == 0;
    if (done) {
        ops->forget(at, MIG_END_DONE);
        return MIG_END_DONE;
    }
    err_set(err, -EINTR, "a change of MIG layouts was cut off");
    MigEnd end = put_back(&work, change, err);
    if (end != MIG_END_PARTIAL)
        ops->forget(at, end);
    return end;
}
