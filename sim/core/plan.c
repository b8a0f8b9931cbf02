/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner: plays the ops in order of time, with their consequences (too hot, out of memory) in between, and
 * writes segments and events. It runs when the image is built and again, from the present on, after each later op; what
 * lies in the past is never touched. The image's lock is held throughout.
 */
#include "sim/core/plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/core/control.h"
#include "sim/core/seq.h"

enum { TRAIN_MAX = 256, DYN_MAX = 20000 };

typedef struct Train { /* an op with times > 1, somewhere in its course */
    uint32_t op;
    uint64_t next_ns;
    uint32_t left;
} Train;

typedef struct Plan {
    SimImage *image;
    PlanGpu gpu[SIM_GPU_MAX];
    SimNodeSeg node;
    uint32_t order[SIM_OP_MAX]; /* ops still to come, by time, then by arrival */
    uint32_t todo, next;
    uint64_t from_ns;   /* where this planning goes on */
    uint32_t first_new; /* ops from here on are played for the first time */
    Train trains[TRAIN_MAX];
    uint32_t train_count;
} Plan;

/* --- events ------------------------------------------------------------------------------------------------------ */

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
        e.type = op->a[1] ? EVENT_DBE : EVENT_SBE; /* nvml.h: only XIDs have data */
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

/* --- the node ---------------------------------------------------------------------------------------------------- */

static void node_publish(Plan *p, uint64_t t_ns)
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

static int driver_up(const Plan *p)
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

/* --- ops on a GPU ------------------------------------------------------------------------------------------------ */

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
        gpu_work_start(image, (uint32_t)gpu, &p->gpu[gpu], op->a[0], op->a[1] - 1);
    else if (op->type == SIM_OP_WORK_STOP)
        gpu_work_stop(&p->gpu[gpu], op->a[0], SIM_NONE);
    else if (op->type == SIM_OP_WORK_MEMORY)
        gpu_work_memory(&p->gpu[gpu], op->a[0], op->x);
    gpus_open_jobs(image, p->gpu, t_ns);
}

/* Works end with their device. */
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

static void op_play(Plan *p, const SimOp *op, uint64_t t_ns)
{
    if (op->type == SIM_OP_WORK_START || op->type == SIM_OP_WORK_STOP || op->type == SIM_OP_WORK_MEMORY) {
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
            return; /* ECC is off */
    }
    event_of_op(p->image, op, t_ns);
}

/* --- what happens by itself -------------------------------------------------------------------------------------- */

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

static void dyn_play(Plan *p, uint32_t gpu, uint64_t t_ns)
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

/* --- the course of things ---------------------------------------------------------------------------------------- */

static const SimOp *op_at(const Plan *p, uint32_t i)
{
    return &p->image->ops[i];
}

/* The next op by time, then by arrival: a new one or the next of a train. UINT32_MAX: none. */
static uint32_t op_next(const Plan *p, uint64_t *ret_t, uint32_t *ret_train)
{
    uint32_t op = UINT32_MAX;
    *ret_t = SIM_FOREVER;
    *ret_train = TRAIN_MAX;
    if (p->next < p->todo) {
        op = p->order[p->next];
        *ret_t = op_at(p, op)->t_ns;
    }
    for (uint32_t i = 0; i < p->train_count; i++) {
        if (p->trains[i].next_ns < *ret_t || (p->trains[i].next_ns == *ret_t && p->trains[i].op < op)) {
            op = p->trains[i].op;
            *ret_t = p->trains[i].next_ns;
            *ret_train = i;
        }
    }
    return op;
}

static void train_begin(Plan *p, uint32_t op, uint64_t next_ns, uint32_t left)
{
    if (left == 0 || p->train_count == TRAIN_MAX) {
        p->image->segs_dropped += left != 0;
        return;
    }
    p->trains[p->train_count++] = (Train){op, next_ns, left};
}

static void op_done(Plan *p, uint32_t op, uint32_t train)
{
    const SimOp *o = op_at(p, op);
    if (train == TRAIN_MAX) {
        p->next++;
        if (o->times > 1 && o->every_ns > 0)
            train_begin(p, op, o->t_ns + o->every_ns, o->times - 1);
        return;
    }
    p->trains[train].next_ns += o->every_ns;
    if (--p->trains[train].left == 0)
        p->trains[train] = p->trains[--p->train_count];
}

static uint32_t dyn_next(const Plan *p, uint64_t *ret_t)
{
    uint32_t gpu = SIM_GPU_MAX;
    *ret_t = SIM_FOREVER;
    for (uint32_t g = 0; g < p->image->gpu_count; g++) {
        if (p->gpu[g].seg.dyn_ns < *ret_t) {
            *ret_t = p->gpu[g].seg.dyn_ns;
            gpu = g;
        }
    }
    return gpu;
}

static void plan_run(Plan *p)
{
    for (uint32_t dyns = 0; dyns < DYN_MAX;) {
        uint64_t t_op, t_dyn;
        uint32_t train, op = op_next(p, &t_op, &train), gpu = dyn_next(p, &t_dyn);
        if (op == UINT32_MAX && gpu == SIM_GPU_MAX)
            return;
        if (gpu != SIM_GPU_MAX && t_dyn <= t_op) {
            dyn_play(p, gpu, t_dyn);
            dyns++;
        } else {
            for (uint64_t t = t_op; op != UINT32_MAX && t_op == t; op = op_next(p, &t_op, &train)) {
                op_play(p, op_at(p, op), t);
                op_done(p, op, train);
            }
        }
        gpus_close(p->image, p->gpu, driver_up(p));
    }
}

/* --- beginning --------------------------------------------------------------------------------------------------- */

static int op_before(const SimImage *image, uint32_t a, uint32_t b)
{
    uint64_t ta = image->ops[a].t_ns, tb = image->ops[b].t_ns;
    return ta != tb ? ta < tb : a < b;
}

/* Ops arrive nearly in order: insertion from the end is enough. */
static void order_insert(Plan *p, uint32_t op)
{
    uint32_t i = p->todo++;
    while (i > 0 && op_before(p->image, op, p->order[i - 1])) {
        p->order[i] = p->order[i - 1];
        i--;
    }
    p->order[i] = op;
}

static void start_new(Plan *p)
{
    SimImage *image = p->image;
    seq_put(image->pattern_count, 0);
    seq_put(image->node_seg_count, 0);
    seq_put(image->event_count, 0);
    image->events_dropped = image->segs_dropped = 0;
    p->node.key[SIM_NODE_FABRIC_MANAGER] = p->node.key[SIM_NODE_PERSISTENCED] = 1;
    node_publish(p, 0);
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        const SimBoard *board = &image->boards[image->gpus[g].board];
        SimSeg *seg = &p->gpu[g].seg;
        seq_put(image->seg_count[g], 0);
        cond_init(&seg->cond, board);
        seg->ambient_c = board->ambient_c + image->gpus[g].ambient_offset_c;
        seg->tau_s = board->tau_s;
        seg->base_heat = board->kelvin_per_watt * image->gpus[g].cool * board->idle_w;
        p->gpu[g].open = 1;
    }
    gpus_close(image, p->gpu, 1);
    for (uint32_t i = 0; i < image->op_count; i++)
        order_insert(p, i);
}

static void trim_gpu(Plan *p, uint32_t g, uint64_t t_ns, int32_t *last_pattern)
{
    SimImage *image = p->image;
    const SimSeg *table = seg_table(image, g);
    uint32_t n = image->seg_count[g];
    while (n > 1 && table[n - 1].t_ns >= t_ns)
        n--;
    seq_put(image->seg_count[g], n);
    p->gpu[g].seg = table[n - 1];
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i < table[s].slot_count; i++)
            if (table[s].slots[i].pattern > *last_pattern)
                *last_pattern = table[s].slots[i].pattern;
}

/* Goes on from just before t_ns > 0. */
static void start_from(Plan *p, uint64_t t_ns)
{
    SimImage *image = p->image;
    int32_t last_pattern = -1;
    for (uint32_t g = 0; g < image->gpu_count; g++)
        trim_gpu(p, g, t_ns, &last_pattern);
    seq_put(image->pattern_count, (uint32_t)(last_pattern + 1));
    uint32_t n = image->node_seg_count;
    while (n > 1 && image->node_segs[n - 1].t_ns >= t_ns)
        n--;
    seq_put(image->node_seg_count, n);
    p->node = image->node_segs[n - 1];
    n = image->event_count;
    while (n > 0 && image->events[n - 1].t_ns >= t_ns)
        n--;
    seq_put(image->event_count, n);
    for (uint32_t i = 0; i < image->op_count; i++) {
        const SimOp *op = &image->ops[i];
        if (op->t_ns >= t_ns) {
            order_insert(p, i);
        } else if (op->times > 1 && op->every_ns > 0) {
            uint64_t done = (t_ns - 1 - op->t_ns) / op->every_ns + 1;
            if (done < op->times)
                train_begin(p, i, op->t_ns + done * op->every_ns, op->times - (uint32_t)done);
        }
    }
}

static void begin_writing(SimImage *image)
{
    uint32_t seq = atomic_load_explicit(&image->plan_seq, memory_order_relaxed);
    atomic_store_explicit(&image->plan_seq, seq | 1, memory_order_relaxed); /* every store of the plan releases it */
}

static void end_writing(SimImage *image)
{
    uint32_t seq = atomic_load_explicit(&image->plan_seq, memory_order_relaxed);
    atomic_store_explicit(&image->plan_seq, (seq | 1) + 1, memory_order_release);
}

void plan_from(SimImage *image, uint64_t t_ns, uint32_t first_new)
{
    Plan *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->image = image;
    p->first_new = first_new;
    p->from_ns = t_ns;
    begin_writing(image);
    if (t_ns == 0)
        start_new(p);
    else
        start_from(p, t_ns);
    plan_run(p);
    end_writing(image);
    free(p);
}

void sim_plan_build(SimImage *image)
{
    plan_from(image, 0, 0);
    image->magic = SIM_MAGIC;
}
