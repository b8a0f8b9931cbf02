/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a running node: checking an op against the present, appending it, planning anew. */
#include "sim/core/control.h"

#include <errno.h>
#include <string.h>

#include "sim/core/plan.h"
#include "sim/core/seq.h"
#include "sim/core/state.h"

/* Writes an op at *n, beyond those that count yet; 0: no room. */
static int op_put(SimImage *image, uint32_t *n, const SimOp *op)
{
    if (*n == SIM_OP_MAX)
        return 0;
    image->ops[(*n)++] = *op;
    return 1;
}

/* --- consequences of an XID -------------------------------------------------------------------------------------- */

/* What an XID brings with it: each row names the surfaces that change together with the log line; the ops that follow
 * are added beside the XID's own, a few milliseconds later, as drivers do. Source: NVIDIA's XID catalogue as far as
 * docs/appendix/scenarios.md states it. */
enum { KILL_NONE, KILL_NAMED, KILL_ALL };
enum { ACTION_NONE, ACTION_RESET, ACTION_REBOOT, ACTION_DRAIN_P2P, ACTION_DRAIN_RESET };

typedef struct XidRow {
    uint32_t xid;
    uint8_t kill;
    uint8_t ecc;         /* 1 + SimEccLoc of an uncorrectable error, 0 none */
    uint8_t remap;       /* 1 a row (or page) is marked, 2 the remap fails */
    uint8_t lost, reset; /* falls off the bus; needs a reset */
    uint8_t link_down;   /* the link named by the op's u */
    uint8_t action;      /* recovery action that the driver announces (XID 154 from 565 on) */
    uint8_t then[3];     /* XIDs that follow */
} XidRow;

static const XidRow rows[] = {
    {13, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {31, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {32, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {43, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {45, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {68, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {69, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {109, KILL_NAMED, 0, 0, 0, 0, 0, 0, {0}},
    {48, KILL_NAMED, 1 + SIM_ECC_DRAM, 1, 0, 0, 0, ACTION_RESET, {63, 94, 0}},
    {62, KILL_ALL, 0, 0, 0, 1, 0, ACTION_RESET, {45, 0, 0}},
    {63, KILL_NONE, 0, 1, 0, 0, 0, ACTION_RESET, {0}},
    {64, KILL_NONE, 0, 2, 0, 0, 0, ACTION_RESET, {0}},
    {74, KILL_NAMED, 0, 0, 0, 0, 1, ACTION_RESET, {0}},
    {79, KILL_ALL, 0, 0, 1, 0, 0, ACTION_REBOOT, {0}},
    {94, KILL_NAMED, 1 + SIM_ECC_DRAM, 0, 0, 0, 0, ACTION_DRAIN_RESET, {0}},
    {95, KILL_ALL, 1 + SIM_ECC_SRAM, 0, 0, 1, 0, ACTION_RESET, {45, 0, 0}},
    {119, KILL_ALL, 0, 0, 0, 1, 0, ACTION_RESET, {0}},
    {120, KILL_ALL, 0, 0, 0, 1, 0, ACTION_RESET, {0}},
    {140, KILL_ALL, 1 + SIM_ECC_SRAM, 0, 0, 1, 0, ACTION_RESET, {0}},
    {145, KILL_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {149, KILL_NAMED, 0, 0, 0, 0, 1, ACTION_RESET, {45, 0, 0}},
};

enum { STEP_NS = 2000000, RECOVERY_KEY_SINCE = 565 };

/* Where the ops that follow go. */
typedef struct Tail {
    SimImage *image;
    const SimOp *xid;
    uint32_t *n;
    int fits;
} Tail;

static void add_consequence(Tail *tail, SimOp op, uint32_t after_steps)
{
    const SimOp *xid = tail->xid;
    op.t_ns = xid->t_ns + (uint64_t)after_steps * STEP_NS;
    op.gpu = op.type == SIM_OP_WORK_STOP ? SIM_NONE : xid->gpu;
    op.every_ns = xid->every_ns;
    op.times = xid->times;
    op.origin = SIM_FROM_PLAN;
    tail->fits &= op_put(tail->image, tail->n, &op);
}

static void follow_kills(Tail *tail, const XidRow *row)
{
    const SimImage *image = tail->image;
    const SimOp *xid = tail->xid;
    int once = xid->times <= 1; /* a repeated XID kills once */
    if (row->kill == KILL_NAMED && xid->a[3] >= 0 && once)
        add_consequence(tail, (SimOp){.type = SIM_OP_WORK_STOP, .a = {xid->a[3]}}, 1);
    for (uint32_t w = 0; row->kill == KILL_ALL && once && w < image->work_count; w++)
        if (image->works[w].gpu == xid->gpu)
            add_consequence(tail, (SimOp){.type = SIM_OP_WORK_STOP, .a = {(int32_t)w}}, 1);
}

static void follow_memory(Tail *tail, const XidRow *row)
{
    const SimBoard *board = &tail->image->boards[tail->image->gpus[tail->xid->gpu].board];
    if (row->remap && board->has_remap)
        add_consequence(tail, (SimOp){.type = SIM_OP_REMAP, .a = {1, 1, row->remap == 2}}, 1);
    else if (row->remap && board->has_retired_pages)
        add_consequence(tail, (SimOp){.type = SIM_OP_RETIRE, .a = {1, 1}}, 1);
}

static void follow_state(Tail *tail, const XidRow *row)
{
    if (row->link_down)
        add_consequence(tail, (SimOp){.type = SIM_OP_LINK, .a = {(int32_t)(tail->xid->u & 0xff), SIM_LINK_DOWN}}, 0);
    if (row->action)
        add_consequence(tail, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_RECOVERY_ACTION}, .u = row->action}, 1);
    if (row->reset)
        add_consequence(tail, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_RESET_REQUIRED}, .u = 1}, 1);
    if (row->lost)
        add_consequence(tail, (SimOp){.type = SIM_OP_LOST}, 0);
}

static void follow_lines(Tail *tail, const XidRow *row)
{
    const SimImage *image = tail->image;
    const SimOp *xid = tail->xid;
    uint32_t step = 1;
    for (uint32_t i = 0; i < 3 && row->then[i]; i++) {
        if (row->then[i] == 63 && !image->boards[image->gpus[xid->gpu].board].has_remap)
            continue;
        add_consequence(tail, (SimOp){.type = SIM_OP_XID, .a = {row->then[i], xid->a[1], xid->a[2], xid->a[3]}},
                        ++step);
    }
    if (row->action && image->generation >= RECOVERY_KEY_SINCE)
        add_consequence(tail, (SimOp){.type = SIM_OP_XID, .a = {154, SIM_NONE, SIM_NONE, SIM_NONE}, .u = row->action},
                        ++step);
}

/* The row of an XID that brings something with it; NULL for none. */
static const XidRow *find_row(const SimImage *image, const SimOp *op)
{
    if (op->type != SIM_OP_XID || op->origin == SIM_FROM_PLAN || op->gpu < 0 || (uint32_t)op->gpu >= image->gpu_count)
        return NULL;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].xid == (uint32_t)op->a[0])
            return &rows[i];
    return NULL;
}

/* --- adding ------------------------------------------------------------------------------------------------------ */

int sim_op_add(SimImage *image, const SimOp *op)
{
    uint32_t n = image->op_count;
    const XidRow *row = find_row(image, op);
    Tail tail = {.image = image, .xid = op, .n = &n, .fits = 1};
    if (row && row->ecc) /* a log in public has the ECC event before the XID: k8s-device-plugin, issue 1014 */
        add_consequence(&tail, (SimOp){.type = SIM_OP_ECC, .a = {row->ecc - 1, 1, 1}}, 0);
    tail.fits &= op_put(image, &n, op);
    if (row) {
        follow_kills(&tail, row);
        follow_memory(&tail, row);
        follow_state(&tail, row);
        follow_lines(&tail, row);
    }
    if (!tail.fits)
        return -ENOSPC;
    __atomic_store_n(&image->op_count, n, __ATOMIC_RELEASE); /* all of it at once: a writer that dies leaves no half */
    return 0;
}

/* --- what the driver refuses ------------------------------------------------------------------------------------- */

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
static SimOutcome check_op(SimImage *image, const SimOp *op, uint32_t *ret_id)
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
    SimOutcome out = check_op(image, op, &id);
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
