/* SPDX-License-Identifier: Apache-2.0 */

/* Each step's window on each device. Windows adjoin, so a device's time is walked once along with them. */

#include "engine/trace/steps.h"

#include "engine/trace/gaps.h"
#include "engine/trace/gaps_host.h"
#include "engine/trace/sweep.h"

static size_t row_count(const TraceIndex *index)
{
    return index->devices.len < TRACE_GAP_DEVICES ? index->devices.len : TRACE_GAP_DEVICES;
}

void trace_steps_prepare(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;

    if (rank->steps.len)
        return;
    for (size_t i = 0; i < index->steps.len; i++) {
        const TraceStep *step = &index->steps.at[i];
        TraceStepRow row = {
            .number = step->number, .start = step->start, .duration_ns = step->end - step->start, .to = step->to};

        if (step->start > step->to)
            continue;
        row.name = arena_strdup(job->arena, step->name);
        for (size_t nth = 0; nth < row_count(index); nth++)
            vec_push(&row.devices,
                     ((TraceStepDevice){.device = index->devices.at[nth], .window_ns = step->to - step->start}));
        vec_push(&rank->steps, row);
    }
}

void trace_steps_add_idle(TraceRank *rank, size_t nth, size_t *cursor, int64_t start, int64_t end, TraceCause cause)
{
    while (*cursor < rank->steps.len && rank->steps.at[*cursor].to <= start)
        ++*cursor;
    for (size_t i = *cursor; i < rank->steps.len && rank->steps.at[i].start < end; i++) {
        TraceStepRow *step = &rank->steps.at[i];
        int64_t from = start > step->start ? start : step->start, to = end < step->to ? end : step->to;

        if (nth < step->devices.len && to > from)
            trace_cause_add(step->devices.at[nth].idle_by_cause, cause, to - from);
    }
}

int32_t trace_step_at(const TraceRank *rank, int64_t time)
{
    size_t from = 0, to = rank->steps.len;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (rank->steps.at[middle].to <= time)
            from = middle + 1;
        else
            to = middle;
    }
    return from < rank->steps.len && rank->steps.at[from].start <= time ? (int32_t)from : -1;
}

static void add_time(TraceStepDevice *device, unsigned int mask, int64_t time)
{
    bool compute = mask >> TRACE_COMPUTE & 1, communication = mask >> TRACE_COMMUNICATION & 1,
         copy = mask >> TRACE_COPY & 1;

    device->busy_ns += mask ? time : 0;
    device->compute_ns += compute ? time : 0;
    device->communication_ns += communication ? time : 0;
    device->copy_ns += copy ? time : 0;
    device->exposed_communication_ns += communication && !compute ? time : 0;
    device->exposed_copy_ns += copy && !compute && !communication ? time : 0;
}

static void sweep_steps(const TraceJob *job, TraceRank *rank, size_t nth)
{
    TraceSweep sweep;
    TraceSegment part;
    size_t first = 0;

    trace_sweep_init(&sweep, job->index, nth);
    while (trace_sweep_next(&sweep, &part)) {
        while (first < rank->steps.len && rank->steps.at[first].to <= part.start)
            first++;
        for (size_t i = first; i < rank->steps.len && rank->steps.at[i].start < part.end; i++) {
            const TraceStepRow *step = &rank->steps.at[i];
            int64_t from = part.start > step->start ? part.start : step->start;
            int64_t to = part.end < step->to ? part.end : step->to;

            if (to > from)
                add_time(&step->devices.at[nth], part.mask, to - from);
        }
    }
}

static void count_operations(const TraceJob *job, TraceRank *rank, size_t nth)
{
    const TraceIndex *index = job->index;
    const int64_t *start = index->profile->gpu.start;
    size_t step = 0;

    for (size_t row = index->device_first.at[nth]; row < index->device_first.at[nth + 1]; row++) {
        while (step < rank->steps.len && rank->steps.at[step].to <= start[row])
            step++;
        if (step < rank->steps.len && rank->steps.at[step].start <= start[row])
            rank->steps.at[step].devices.at[nth].operation_count++;
    }
}

void trace_steps(const TraceJob *job, TraceRank *rank)
{
    trace_steps_prepare(job, rank);
    if (!rank->steps.len)
        return;
    for (size_t nth = 0; nth < row_count(job->index); nth++) {
        sweep_steps(job, rank, nth);
        count_operations(job, rank, nth);
    }
    for (size_t i = 0; i < rank->steps.len; i++)
        for (size_t nth = 0; nth < rank->steps.at[i].devices.len; nth++) {
            TraceStepDevice *device = &rank->steps.at[i].devices.at[nth];

            device->idle_ns = device->window_ns - device->busy_ns;
        }
}
