/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a running node: checking an op against the present, appending it, planning anew. */
#include "sim/core/control.h"

#include <errno.h>
#include <string.h>

#include "sim/core/plan.h"
#include "sim/core/seq.h"
#include "sim/core/state.h"

int op_put(SimImage *image, uint32_t *n, const SimOp *op)
{
    if (*n == SIM_OP_MAX)
        return 0;
    image->ops[(*n)++] = *op;
    return 1;
}

int sim_op_add(SimImage *image, const SimOp *op)
{
    uint32_t n = image->op_count;
    if (!op_put(image, &n, op) ||
        (op->type == SIM_OP_XID && op->origin != SIM_FROM_PLAN && !xid_consequences(image, op, &n)))
        return -ENOSPC;
    __atomic_store_n(&image->op_count, n, __ATOMIC_RELEASE); /* all of it at once: a writer that dies leaves no half */
    return 0;
}

/* ---- may it be done? ---- */

static int runs_in(const SimNow *now, int32_t gi, int32_t ci)
{
    for (uint32_t i = 0; i < now->proc_count; i++)
        if (now->proc[i].gi == gi && (ci == SIM_NONE || now->proc[i].ci == ci))
            return 1;
    return 0;
}

static const SimGi *gi_by_id(const SimCond *cond, int32_t id)
{
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && cond->gi[i].id == (uint32_t)id)
            return &cond->gi[i];
    return NULL;
}

static const SimCi *ci_by_id(const SimCond *cond, int32_t gi_id, int32_t id)
{
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == (uint32_t)gi_id && cond->ci[i].id == (uint32_t)id)
            return &cond->ci[i];
    return NULL;
}

static SimOutcome check_gi_create(const SimBoard *board, const SimNow *now, const SimOp *op, uint32_t *ret_id)
{
    if (!now->cond.mig_mode)
        return SIM_NOT_SUPPORTED;
    if (op->a[0] < 0 || (uint32_t)op->a[0] >= board->profile_count)
        return SIM_BAD_ARGUMENT;
    int start = sim_mig_place(board, &now->cond, (uint32_t)op->a[0], op->a[1]);
    if (start < 0)
        return SIM_NO_ROOM;
    *ret_id = sim_mig_gi_id(board, &now->cond, board->profiles[op->a[0]].place_size, (uint32_t)start);
    return SIM_OK;
}

static SimOutcome check_ci_create(const SimBoard *board, const SimNow *now, const SimOp *op, uint32_t *ret_id)
{
    const SimGi *gi = gi_by_id(&now->cond, op->a[0]);
    if (!gi)
        return SIM_NOT_FOUND;
    uint32_t slices = sim_ci_slices(&board->profiles[gi->profile], (uint32_t)op->a[1], NULL);
    if (!slices)
        return SIM_BAD_ARGUMENT;
    if (sim_ci_place(board, &now->cond, gi, slices, op->a[2]) < 0)
        return SIM_NO_ROOM;
    for (*ret_id = 0; ci_by_id(&now->cond, op->a[0], (int32_t)*ret_id); ++*ret_id)
        ;
    return SIM_OK;
}

static SimOutcome check_gi_destroy(const SimNow *now, const SimOp *op)
{
    if (!gi_by_id(&now->cond, op->a[0]))
        return SIM_NOT_FOUND;
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (now->cond.ci[i].used && now->cond.ci[i].gi_id == (uint32_t)op->a[0])
            return SIM_IN_USE;
    return SIM_OK;
}

/* What the driver refuses a client; injected faults are not asked. */
static SimOutcome check(SimImage *image, const SimOp *op, uint32_t *ret_id)
{
    if (op->gpu != SIM_NONE && (op->gpu < 0 || (uint32_t)op->gpu >= image->gpu_count))
        return SIM_BAD_ARGUMENT;
    if (op->gpu == SIM_NONE ||
        (op->origin != SIM_FROM_CLIENT && op->type != SIM_OP_GI_CREATE && op->type != SIM_OP_CI_CREATE))
        return SIM_OK;
    const SimBoard *board = &image->boards[image->gpus[op->gpu].board];
    SimNow now;
    sim_state_at(image, (uint32_t)op->gpu, sim_clock_now(image), &now);
    switch (op->type) {
    case SIM_OP_MIG_MODE:
        return !board->has_mig ? SIM_NOT_SUPPORTED : now.proc_count ? SIM_IN_USE : SIM_OK;
    case SIM_OP_GI_CREATE:
        return check_gi_create(board, &now, op, ret_id);
    case SIM_OP_CI_CREATE:
        return check_ci_create(board, &now, op, ret_id);
    case SIM_OP_GI_DESTROY:
        return check_gi_destroy(&now, op);
    case SIM_OP_CI_DESTROY:
        return !ci_by_id(&now.cond, op->a[0], op->a[1]) ? SIM_NOT_FOUND
               : runs_in(&now, op->a[0], op->a[1])      ? SIM_IN_USE
                                                        : SIM_OK;
    default:
        return SIM_OK;
    }
}

SimOutcome sim_op_apply(SimImage *image, SimOp *op, const char *text, int later, uint32_t *ret_id)
{
    uint32_t id = 0;
    plan_lock(image);
    uint64_t now = sim_clock_now(image);
    SimOutcome out = check(image, op, &id);
    uint32_t first_new = image->op_count;
    if (out == SIM_OK) {
        if (!later || op->t_ns < now)
            op->t_ns = now;
        if (text && *text)
            op->text = sim_text_add(image, text);
        out = sim_op_add(image, op) == 0 ? SIM_OK : SIM_FULL;
    }
    if (out == SIM_OK) {
        plan_from(image, now, first_new);
        if (ret_id)
            *ret_id = id;
    }
    plan_unlock(image);
    if (out == SIM_OK)
        clock_wake(image);
    return out;
}

int32_t sim_work_add(SimImage *image, const SimWork *work)
{
    plan_lock(image);
    int32_t at = SIM_NONE;
    if (image->work_count < SIM_WORK_MAX) {
        at = (int32_t)image->work_count;
        memcpy(&image->works[at], work, sizeof *work);
        __atomic_store_n(&image->work_count, (uint32_t)at + 1, __ATOMIC_RELEASE);
    }
    plan_unlock(image);
    return at;
}

void sim_work_lend_pid(SimImage *image, int32_t work, uint32_t pid)
{
    if (work >= 0 && work < SIM_WORK_MAX)
        atomic_store_explicit(&image->works[work].live_pid, pid, memory_order_relaxed);
}
