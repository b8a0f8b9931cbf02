/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Joining the steps of adjoining windows. The step that the cut goes through is in both parts; its sums add up, and the
 * idle time on both sides of the cut becomes one, under the cause that the joined gap has.
 */

#include <string.h>

#include "base/attribute.h"
#include "engine/trace/gaps.h"
#include "engine/trace/steps.h"

static TraceStepDevice *device_of(TraceStepRow *step, int32_t device)
{
    for (size_t i = 0; i < step->devices.len; i++)
        if (step->devices.at[i].device == device)
            return &step->devices.at[i];
    return NULL;
}

/* Time of [start, end) in the step's window. */
static int64_t time_in(const TraceStepRow *step, int64_t start, int64_t end)
{
    int64_t from = start > step->start ? start : step->start, to = end < step->to ? end : step->to;

    return to > from ? to - from : 0;
}

static void move_time(TraceStepDevice *device, TraceCause from, TraceCause to, int64_t time)
{
    if (from == to || !time)
        return;
    device->idle_by_cause[from].count--;
    device->idle_by_cause[from].total_ns -= time;
    if (!device->idle_by_cause[from].count)
        device->idle_by_cause[from].max_ns = 0;
    trace_cause_add(device->idle_by_cause, to, time);
}

/* Brings the steps' sums of an idle time under another cause. */
static void change_cause(TraceRank *rank, const TraceGap *gap, TraceCause cause)
{
    for (size_t i = rank->steps.len; i-- > 0;) {
        TraceStepRow *step = &rank->steps.at[i];
        TraceStepDevice *device = device_of(step, gap->device);

        if (step->to <= gap->start)
            break;
        if (device)
            move_time(device, gap->cause, cause, time_in(step, gap->start, gap->end));
    }
}

static void change_causes(TraceRank *into, TraceRank *next, int32_t device)
{
    TraceGap before, after, joined;

    if (!trace_edge_meet(into, next, device, &before, &after, &joined))
        return;
    if (before.end > before.start && before.cause != joined.cause)
        change_cause(into, &before, joined.cause);
    if (after.end > after.start && after.cause != joined.cause)
        change_cause(next, &after, joined.cause);
}

static void add_sums(TraceStepDevice *a, const TraceStepDevice *b)
{
    a->window_ns += b->window_ns;
    a->busy_ns += b->busy_ns;
    a->idle_ns += b->idle_ns;
    a->compute_ns += b->compute_ns;
    a->communication_ns += b->communication_ns;
    a->copy_ns += b->copy_ns;
    a->exposed_communication_ns += b->exposed_communication_ns;
    a->exposed_copy_ns += b->exposed_copy_ns;
    a->operation_count += b->operation_count;
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++) {
        a->idle_by_cause[i].count += b->idle_by_cause[i].count;
        a->idle_by_cause[i].total_ns += b->idle_by_cause[i].total_ns;
        if (b->idle_by_cause[i].max_ns > a->idle_by_cause[i].max_ns)
            a->idle_by_cause[i].max_ns = b->idle_by_cause[i].max_ns;
    }
}

/* A device that a part knows nothing of, in that part's piece of the step's window; `cause` is that of the idle time
 * around the cut. */
static TraceStepDevice idle_in(const TraceStepRow *step, const TraceRank *rank, int32_t device, TraceCause cause)
{
    TraceStepDevice row = {.device = device};

    row.window_ns = row.idle_ns = time_in(step, rank->from, rank->to);
    if (row.idle_ns)
        trace_cause_add(row.idle_by_cause, cause, row.idle_ns);
    return row;
}

static TraceCause cause_at_cut(const TraceRank *into, const TraceRank *next, int32_t device)
{
    TraceGap before, after, joined;

    return trace_edge_meet(into, next, device, &before, &after, &joined) ? joined.cause : TRACE_CAUSE_UNKNOWN;
}

/* The idle times on both sides of the cut were counted as two. */
static void count_once(TraceStepRow *step, TraceStepDevice *device, const TraceRank *into, const TraceRank *next)
{
    TraceGap before, after, joined;
    TraceCauseSum *sum;
    int64_t left, right;

    if (!trace_edge_meet(into, next, device->device, &before, &after, &joined))
        return;
    left = time_in(step, before.start, before.end);
    right = time_in(step, after.start, after.end);
    if (!left || !right)
        return;
    sum = &device->idle_by_cause[joined.cause];
    sum->count--;
    sum->max_ns = left + right > sum->max_ns ? left + right : sum->max_ns;
}

static void join_step(TraceStepRow *a, TraceStepRow *b, const TraceRank *into, const TraceRank *next)
{
    VEC(TraceStepDevice) all = {0};

    a->to = b->to > a->to ? b->to : a->to;
    for (size_t i = 0, k = 0; i < a->devices.len || k < b->devices.len;) {
        bool in_a = i < a->devices.len && (k == b->devices.len || a->devices.at[i].device <= b->devices.at[k].device);
        bool in_b = k < b->devices.len && (i == a->devices.len || b->devices.at[k].device <= a->devices.at[i].device);
        int32_t device = in_a ? a->devices.at[i].device : b->devices.at[k].device;
        TraceStepDevice left = in_a ? a->devices.at[i] : idle_in(a, into, device, cause_at_cut(into, next, device));
        TraceStepDevice right = in_b ? b->devices.at[k] : idle_in(b, next, device, cause_at_cut(into, next, device));

        add_sums(&left, &right);
        count_once(a, &left, into, next);
        vec_push(&all, left);
        i += in_a;
        k += in_b;
    }
    vec_done(&a->devices);
    a->devices.at = all.at;
    a->devices.len = all.len;
    a->devices.cap = all.cap;
}

void trace_steps_merge(TraceRank *into, TraceRank *next, UNUSED const TraceConfig *config, Arena *arena)
{
    size_t shared = into->steps.len;

    for (size_t i = 0; i < next->edge_count; i++)
        change_causes(into, next, next->edges[i].device);
    for (size_t i = 0; i < next->steps.len; i++) {
        TraceStepRow *step = &next->steps.at[i];
        TraceStepRow *last = shared ? &into->steps.at[shared - 1] : NULL;

        if (last && last->start == step->start && strcmp(last->name, step->name) == 0) {
            join_step(last, step, into, next);
            continue;
        }
        vec_push(&into->steps, *step);
        step->devices.at = NULL;
        step->devices.len = step->devices.cap = 0;
    }
    for (size_t i = 0; i < into->gaps.len; i++)
        into->gaps.at[i].step = trace_step_at(into, into->gaps.at[i].start);
    trace_edges_merge(into, next, arena);
}
