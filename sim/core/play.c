/* SPDX-License-Identifier: Apache-2.0 */
/* What happens: ops on the node and its GPUs, what follows by itself, and the events that tell of it. */
#include <stdatomic.h>
#include <string.h>

#include "sim/core/course.h"
#include "sim/core/seq.h"

/* ---- events ---- */

enum {
    EVENT_SBE = 0x1,
    EVENT_DBE = 0x2,
    EVENT_XID = 0x8,
    EVENT_MIG = 0x100,
    EVENT_UNAVAILABLE = 0x4000,
    EVENT_RECOVERY = 0x8000,
};

static void event_put(SimImage *image, const SimEvent *event)
{
    if (image->event_count == SIM_EVENT_MAX) {
        image->events_dropped++;
        return;
    }
    seq_store(&image->events[image->event_count], event, sizeof *event);
    seq_put(image->event_count, image->event_count + 1);
}

static void event_of_op(SimImage *image, const SimOp *op, uint64_t t_ns)
{
    SimEvent e = {.t_ns = t_ns,
                  .gpu = op->gpu,
                  .gi = SIM_NONE,
                  .ci = SIM_NONE,
                  .work = SIM_NONE,
                  .text = op->text,
                  .extra = op->u,
                  .origin = op->origin};
    switch (op->type) {
    case SIM_OP_XID:
        e.type = EVENT_XID;
        e.data = (uint64_t)op->a[0];
        e.gi = op->a[1];
        e.ci = op->a[2];
        e.work = op->a[3];
        break;
    case SIM_OP_EVENT:
        e.type = op->u;
        e.data = (uint64_t)op->a[0];
        break;
    case SIM_OP_ECC:
        if (op->a[2] <= 0)
            return;
        e.type = op->a[1] ? EVENT_DBE : EVENT_SBE;
        e.data = (uint64_t)op->a[2];
        break;
    case SIM_OP_LOST:
        e.type = EVENT_UNAVAILABLE;
        break;
    case SIM_OP_SET:
        if (op->a[0] != SIM_KEY_RECOVERY_ACTION)
            return;
        e.type = EVENT_RECOVERY;
        e.data = op->u;
        break;
    case SIM_OP_MIG_MODE:
    case SIM_OP_GI_CREATE:
    case SIM_OP_GI_DESTROY:
    case SIM_OP_CI_CREATE:
    case SIM_OP_CI_DESTROY:
        e.type = EVENT_MIG;
        break;
    case SIM_OP_KMSG:
        e.extra = op->u; /* records that were overwritten before it */
        break;
    default:
        return;
    }
    event_put(image, &e);
}

/* ---- the node ---- */

void node_publish(Plan *p, uint64_t t_ns)
{
    SimImage *image = p->image;
    uint32_t n = image->node_seg_count;
    p->node.t_ns = t_ns;
    if (n > 0 && (image->node_segs[n - 1].t_ns == t_ns || n == SIM_NODE_SEG_MAX)) {
        image->segs_dropped += image->node_segs[n - 1].t_ns != t_ns;
        n--;
    }
    seq_store(&image->node_segs[n], &p->node, sizeof p->node);
    seq_put(image->node_seg_count, n + 1);
}

int driver_up(const Plan *p)
{
    return p->node.key[SIM_NODE_DRIVER] != SIM_DRIVER_UNLOADED;
}

static void open_one(Plan *p, uint32_t gpu, uint64_t t_ns)
{
    gpu_open(p->image, &p->gpu[gpu], t_ns);
    gpus_open_jobs(p->image, p->gpu, t_ns);
}

static void driver_change(Plan *p, uint64_t t_ns, uint32_t from, uint32_t to)
{
    if ((from == SIM_DRIVER_UNLOADED) == (to == SIM_DRIVER_UNLOADED))
        return;
    for (uint32_t g = 0; g < p->image->gpu_count; g++) {
        open_one(p, g, t_ns);
        gpu_work_stop(&p->gpu[g], SIM_NONE, SIM_NONE);
        if (to == SIM_DRIVER_LOADED) {
            cond_reset(&p->gpu[g].seg.cond, &p->image->boards[p->image->gpus[g].board], t_ns);
            p->gpu[g].energy_j = 0;
        }
    }
}

static void node_op(Plan *p, const SimOp *op, uint64_t t_ns)
{
    if (op->type == SIM_OP_HANG) {
        uint32_t slot = (uint32_t)op->a[0] % SIM_HANG_MAX;
        int is_new = op >= &p->image->ops[p->first_new];
        if (is_new && (!p->node.hang[slot].used || t_ns == p->from_ns)) /* a new rule counts anew */
            atomic_store(&p->image->hang_calls[slot], 0);
        p->node.hang[slot] = (SimHang){.used = op->a[3] != 0,
                                       .gpu = op->gpu,
                                       .fn = op->a[1],
                                       .after = op->a[2] > 0 ? (uint32_t)op->a[2] : 0,
                                       .delay_ns = op->u};
        atomic_store(&p->image->hang_any, 1);
    } else if ((uint32_t)op->a[0] < SIM_NODE_KEY_COUNT) {
        uint32_t from = p->node.key[op->a[0]];
        p->node.key[op->a[0]] = (uint32_t)op->u;
        if (op->a[0] == SIM_NODE_DRIVER)
            driver_change(p, t_ns, from, (uint32_t)op->u);
    }
    node_publish(p, t_ns);
}

/* ---- ops on a GPU ---- */

static void work_op(Plan *p, const SimOp *op, uint64_t t_ns)
{
    SimImage *image = p->image;
    if (op->a[0] < 0 || (uint32_t)op->a[0] >= image->work_count)
        return;
    int32_t gpu = image->works[op->a[0]].gpu;
    if (gpu < 0 || (uint32_t)gpu >= image->gpu_count)
        return;
    open_one(p, (uint32_t)gpu, t_ns);
    if (op->type == SIM_OP_WORK_START && driver_up(p))
        gpu_work_start(image, (uint32_t)gpu, &p->gpu[gpu], op->a[0]);
    else if (op->type == SIM_OP_WORK_STOP)
        gpu_work_stop(&p->gpu[gpu], op->a[0], SIM_NONE);
    gpus_open_jobs(image, p->gpu, t_ns);
}

/* Works do not outlive what they run on. */
static void works_of_op(Plan *p, const SimOp *op)
{
    PlanGpu *g = &p->gpu[op->gpu];
    int whole = op->type == SIM_OP_LOST || op->type == SIM_OP_RESET || op->type == SIM_OP_MIG_MODE ||
                (op->type == SIM_OP_PLUG && !op->a[0]);
    if (whole)
        gpu_work_stop(g, SIM_NONE, SIM_NONE);
    else if (op->type == SIM_OP_GI_DESTROY)
        gpu_work_stop(g, SIM_NONE, op->a[0]);
    else if (op->type == SIM_OP_CI_DESTROY)
        for (uint32_t i = g->seg.slot_count; i-- > 0;)
            if (g->seg.slots[i].gi == op->a[0] && g->seg.slots[i].ci == op->a[1])
                gpu_work_stop(g, g->seg.slots[i].work, SIM_NONE);
}

/* Integrals of a new instance start at nothing. */
static void instance_integrals(SimSeg *seg, const SimGi before[SIM_GI_MAX])
{
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (seg->cond.gi[i].used && !before[i].used)
            memset(seg->gi_gone[i], 0, sizeof seg->gi_gone[i]);
}

static int log_only(const SimOp *op)
{
    return op->type == SIM_OP_XID || op->type == SIM_OP_EVENT || op->type == SIM_OP_KMSG;
}

void op_play(Plan *p, const SimOp *op, uint64_t t_ns)
{
    if (op->type == SIM_OP_WORK_START || op->type == SIM_OP_WORK_STOP) {
        work_op(p, op, t_ns);
    } else if (op->type == SIM_OP_NODE || op->type == SIM_OP_HANG) {
        node_op(p, op, t_ns);
    } else if (!log_only(op) && op->gpu >= 0 && (uint32_t)op->gpu < p->image->gpu_count) {
        SimSeg *seg = &p->gpu[op->gpu].seg;
        open_one(p, (uint32_t)op->gpu, t_ns);
        works_of_op(p, op);
        SimGi before[SIM_GI_MAX];
        memcpy(before, seg->cond.gi, sizeof before);
        cond_apply(&seg->cond, &p->image->boards[p->image->gpus[op->gpu].board], op, t_ns);
        instance_integrals(seg, before);
        if (op->type == SIM_OP_RESET)
            p->gpu[op->gpu].energy_j = 0;
        if (op->type == SIM_OP_ECC && !seg->cond.ecc_mode)
            return; /* nobody looks */
    }
    event_of_op(p->image, op, t_ns);
}

/* ---- what happens by itself ---- */

/* Ends the process that asked for memory there was no more of: the largest leak where memory is full first. */
static void leaker_stop(Plan *p, uint32_t gpu)
{
    PlanGpu *g = &p->gpu[gpu];
    const SimBoard *board = &p->image->boards[p->image->gpus[gpu].board];
    int32_t biggest = SIM_NONE;
    double soonest = SIM_NEVER_S, most = -1;
    for (uint32_t i = 0; i < g->seg.slot_count; i++) {
        const SimSlot *slot = &g->seg.slots[i];
        double full_s = slot_full_s(board, &g->seg, i);
        if (slot->mem_rate <= 0 || full_s > soonest || (full_s == soonest && slot->mem_mib <= most))
            continue;
        soonest = full_s;
        most = slot->mem_mib;
        biggest = slot->work;
    }
    if (biggest != SIM_NONE)
        gpu_work_stop(g, biggest, SIM_NONE);
}

void dyn_play(Plan *p, uint32_t gpu, uint64_t t_ns)
{
    uint32_t what = p->gpu[gpu].seg.dyn_what;
    open_one(p, gpu, t_ns);
    if (what == SIM_DYN_HEAT) {
        p->gpu[gpu].hot = p->gpu[gpu].seg.level + 1;
    } else if (what == SIM_DYN_MEMORY) {
        leaker_stop(p, gpu);
    } else if (what == SIM_DYN_SHUTDOWN) {
        SimOp lost = {.type = SIM_OP_LOST, .gpu = (int32_t)gpu, .origin = SIM_FROM_PLAN};
        op_play(p, &lost, t_ns);
        SimOp xid = {
            .type = SIM_OP_XID, .gpu = (int32_t)gpu, .a = {79, SIM_NONE, SIM_NONE, SIM_NONE}, .origin = SIM_FROM_PLAN};
        event_of_op(p->image, &xid, t_ns);
    }
}
