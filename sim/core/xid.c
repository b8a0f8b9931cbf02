/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an XID brings with it. Each row names the surfaces that change together with the log line; the ops that follow
 * are added beside the XID's own, a few milliseconds later, as drivers do. Sources: NVIDIA's XID catalogue as far as
 * docs/scenarios.md states it.
 */
#include "sim/core/control.h"
#include "sim/core/plan.h"

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

static void follow(Tail *tail, SimOp op, uint32_t after_steps)
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
    int once = xid->times <= 1; /* a storm kills nobody twice */
    if (row->kill == KILL_NAMED && xid->a[3] >= 0 && once)
        follow(tail, (SimOp){.type = SIM_OP_WORK_STOP, .a = {xid->a[3]}}, 1);
    for (uint32_t w = 0; row->kill == KILL_ALL && once && w < image->work_count; w++)
        if (image->works[w].gpu == xid->gpu)
            follow(tail, (SimOp){.type = SIM_OP_WORK_STOP, .a = {(int32_t)w}}, 1);
}

static void follow_memory(Tail *tail, const XidRow *row)
{
    const SimBoard *board = &tail->image->boards[tail->image->gpus[tail->xid->gpu].board];
    if (row->ecc)
        follow(tail, (SimOp){.type = SIM_OP_ECC, .a = {row->ecc - 1, 1, 1}}, 0);
    if (row->remap && board->has_remap)
        follow(tail, (SimOp){.type = SIM_OP_REMAP, .a = {1, 1, row->remap == 2}}, 1);
    else if (row->remap && board->has_retired_pages)
        follow(tail, (SimOp){.type = SIM_OP_RETIRE, .a = {1, 1}}, 1);
}

static void follow_state(Tail *tail, const XidRow *row)
{
    if (row->link_down)
        follow(tail, (SimOp){.type = SIM_OP_LINK, .a = {(int32_t)(tail->xid->u & 0xff), SIM_LINK_DOWN}}, 0);
    if (row->action)
        follow(tail, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_RECOVERY_ACTION}, .u = row->action}, 1);
    if (row->reset)
        follow(tail, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_RESET_REQUIRED}, .u = 1}, 1);
    if (row->lost)
        follow(tail, (SimOp){.type = SIM_OP_LOST}, 0);
}

static void follow_lines(Tail *tail, const XidRow *row)
{
    const SimImage *image = tail->image;
    const SimOp *xid = tail->xid;
    uint32_t step = 1;
    for (uint32_t i = 0; i < 3 && row->then[i]; i++) {
        if (row->then[i] == 63 && !image->boards[image->gpus[xid->gpu].board].has_remap)
            continue;
        follow(tail, (SimOp){.type = SIM_OP_XID, .a = {row->then[i], xid->a[1], xid->a[2], xid->a[3]}}, ++step);
    }
    if (row->action && image->generation >= RECOVERY_KEY_SINCE)
        follow(tail, (SimOp){.type = SIM_OP_XID, .a = {154, SIM_NONE, SIM_NONE, SIM_NONE}, .u = row->action}, ++step);
}

int xid_consequences(SimImage *image, const SimOp *xid, uint32_t *n)
{
    Tail tail = {.image = image, .xid = xid, .n = n, .fits = 1};
    if (xid->gpu < 0 || (uint32_t)xid->gpu >= image->gpu_count)
        return 1;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].xid != (uint32_t)xid->a[0])
            continue;
        follow_kills(&tail, &rows[i]);
        follow_memory(&tail, &rows[i]);
        follow_state(&tail, &rows[i]);
        follow_lines(&tail, &rows[i]);
    }
    return tail.fits;
}
