/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner: plays the ops in order of time, with what follows by itself (too hot, out of memory) in between, and
 * writes segments and events. It runs when the image is built and again, from the present on, after each later op; what
 * lies in the past is never touched. The image's lock is held throughout.
 */
#include "sim/core/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/core/control.h"
#include "sim/core/course.h"
#include "sim/core/seq.h"

/* ---- the course of things ---- */

static const SimOp *op_at(const Plan *p, uint32_t i)
{
    return &p->image->ops[i];
}

/* The next op: one not begun yet or the next of a train; of one time, in the order in which they came. UINT32_MAX:
 * none.
 */
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

/* ---- beginning ---- */

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

void plan_from(SimImage *image, uint64_t t_ns, uint32_t first_new)
{
    Plan *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->image = image;
    p->first_new = first_new;
    p->from_ns = t_ns;
    seq_write_begin(image);
    if (t_ns == 0)
        start_new(p);
    else
        start_from(p, t_ns);
    plan_run(p);
    seq_write_end(image);
    free(p);
}

void sim_plan_build(SimImage *image)
{
    plan_from(image, 0, 0);
    image->magic = SIM_MAGIC;
}

/* ---- the lock ---- */

void plan_lock(SimImage *image)
{
    if (pthread_mutex_lock(&image->lock) != EOWNERDEAD)
        return;
    pthread_mutex_consistent(&image->lock);
    clock_mend(image);
    plan_from(image, 0, image->op_count); /* the ops are whole; whether they have been planned is not known */
}

void plan_unlock(SimImage *image)
{
    pthread_mutex_unlock(&image->lock);
}
