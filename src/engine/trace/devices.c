/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/*
 * A device's time as a row of segments in which the same classes run. Operations come by start, and a class runs as
 * long as any of its operations so far does, so three ends are all that is remembered: constant cost per operation
 * however many overlap. Between operations a segment with mask 0 is idle; each ends where an operation starts, one
 * without duration too.
 */

enum { TRACE_SWEEP_MASKS = 1 << TRACE_CLASS_COUNT };

typedef struct TraceSweep {
    const TraceIndex *index;
    size_t row, last;
    int64_t at;             /* everything before it was handed out */
    int64_t next, next_end; /* of the operation at `row`; INT64_MAX behind the last */
    int64_t end[TRACE_CLASS_COUNT];
} TraceSweep;

typedef struct TraceSegment {
    int64_t start, end;
    unsigned int mask; /* bits 1 << TraceClass */
} TraceSegment;

static inline void load_operation(TraceSweep *sweep)
{
    const ProfileEvents *gpu = &sweep->index->profile->gpu;
    const bool more = sweep->row < sweep->last;

    sweep->next = more ? gpu->start[sweep->row] : INT64_MAX;
    sweep->next_end = more ? profile_end(gpu, sweep->row) : INT64_MAX;
}

static void trace_sweep_init(TraceSweep *sweep, const TraceIndex *index, size_t device)
{
    *sweep =
        (TraceSweep){.index = index, .row = index->device_first.at[device], .last = index->device_first.at[device + 1]};
    for (size_t c = 0; c < TRACE_CLASS_COUNT; c++)
        sweep->end[c] = INT64_MIN;
    load_operation(sweep);
    sweep->at = sweep->next;
}

static bool trace_sweep_next(TraceSweep *sweep, TraceSegment *ret)
{
    for (;;) {
        int64_t until = sweep->next;
        unsigned int mask = 0;

        for (size_t c = 0; c < TRACE_CLASS_COUNT; c++) {
            if (sweep->end[c] <= sweep->at)
                continue;
            mask |= 1U << c;
            until = sweep->end[c] < until ? sweep->end[c] : until;
        }
        if (!mask && until == INT64_MAX)
            return false;
        if (until > sweep->at) {
            *ret = (TraceSegment){.start = sweep->at, .end = until, .mask = mask};
            sweep->at = until;
            return true;
        }
        size_t class = sweep->index->gpu_class[sweep->row];

        sweep->end[class] = sweep->next_end > sweep->end[class] ? sweep->next_end : sweep->end[class];
        sweep->row++;
        load_operation(sweep);
    }
}

/* ---- devices ---- */

/* Each device's time: its span, busy and idle, the classes and their overlap, from one sweep over its operations. */

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

static void sweep_device(const TraceJob *job, size_t nth, TraceDevice *device)
{
    int64_t by_mask[TRACE_SWEEP_MASKS] = {0};
    TraceStepDevice sum = {0};
    TraceSweep sweep;
    TraceSegment part;

    trace_sweep_init(&sweep, job->index, nth);
    while (trace_sweep_next(&sweep, &part)) {
        int64_t time = part.end - part.start;

        by_mask[part.mask] += time;
        if (part.mask)
            continue;
        device->gap_count++;
        device->max_gap_ns = time > device->max_gap_ns ? time : device->max_gap_ns;
    }
    for (unsigned int mask = 0; mask < TRACE_SWEEP_MASKS; mask++)
        add_time(&sum, mask, by_mask[mask]);
    device->busy_ns = sum.busy_ns;
    device->idle_ns = by_mask[0];
    device->compute_ns = sum.compute_ns;
    device->communication_ns = sum.communication_ns;
    device->copy_ns = sum.copy_ns;
    device->communication_overlapped_ns = sum.communication_ns - sum.exposed_communication_ns;
    device->exposed_communication_ns = sum.exposed_communication_ns;
    device->exposed_copy_ns = sum.exposed_copy_ns;
}

/* ---- counts ---- */

typedef struct Counting {
    const TraceJob *job;
    bool *lane_seen;             /* streams that something ran on */
    double sm, occupancy;        /* value x time */
    int64_t sm_ns, occupancy_ns; /* time of the kernels behind the two */
} Counting;

static void count_kernel(Counting *counting, TraceDevice *device, size_t row, int64_t time)
{
    const Profile *profile = counting->job->index->profile;
    uint32_t detail = profile->gpu.extra[row];
    const ProfileLaunch *launch = detail == PROFILE_NONE ? NULL : &profile->launches.at[detail];

    device->kernel_sum_ns = trace_sum(device->kernel_sum_ns, time);
    if (counting->job->index->kernel_name[profile->gpu.name[row]] & TRACE_KERNEL_TENSOR)
        device->tensor_core_ns = trace_sum(device->tensor_core_ns, time);
    if (counting->job->index->kernel_name[profile->gpu.name[row]] & TRACE_KERNEL_MAYBE)
        device->tensor_unknown_ns = trace_sum(device->tensor_unknown_ns, time);
    if (launch && launch->blocks_per_sm >= 0) {
        counting->sm += fmin((double)launch->blocks_per_sm, 1) * (double)time;
        counting->sm_ns = trace_sum(counting->sm_ns, time);
    }
    if (launch && launch->occupancy_percent >= 0) {
        counting->occupancy += (double)launch->occupancy_percent / 100 * (double)time;
        counting->occupancy_ns = trace_sum(counting->occupancy_ns, time);
    }
}

static void count_device(Counting *counting, size_t nth, TraceDevice *device)
{
    const TraceIndex *index = counting->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;

    device->first = gpu->start[index->device_first.at[nth]]; /* rows come by start */
    device->last = device->first;
    for (size_t row = index->device_first.at[nth]; row < index->device_first.at[nth + 1]; row++) {
        const int64_t end = profile_end(gpu, row);
        const bool kernel = gpu->kind[row] == PROFILE_KERNEL;

        device->last = device->last > end ? device->last : end;
        if (kernel)
            count_kernel(counting, device, row, gpu->duration[row]);
        device->operation_count++;
        device->kernel_count += kernel;
        device->zero_count += gpu->duration[row] == 0;
        device->stream_count += !counting->lane_seen[gpu->lane[row]];
        counting->lane_seen[gpu->lane[row]] = true;
    }
}

static double weighted_mean(double sum, int64_t time)
{
    return time > 0 ? sum / (double)time : NAN;
}

static void describe_device(const TraceJob *job, TraceDevice *device)
{
    const Profile *profile = job->index->profile;

    device->name = "";
    device->major = device->minor = -1;
    device->sm_count = device->memory_bytes = -1;
    for (size_t i = 0; i < profile->devices.len; i++) {
        const ProfileDevice *known = &profile->devices.at[i];

        if (known->id != device->device)
            continue;
        device->name = arena_strdup(job->arena, profile_text(profile, known->name, NULL));
        if (known->major > 0) {
            device->major = known->major;
            device->minor = known->minor;
        }
        if (known->sm_count > 0)
            device->sm_count = known->sm_count;
        if (known->memory_bytes > 0 && known->memory_bytes <= INT64_MAX)
            device->memory_bytes = (int64_t)known->memory_bytes;
        return;
    }
}

void trace_devices(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    Counting counting = {.job = job, .lane_seen = xcalloc(index->profile->lanes.len + 1, sizeof(bool))};

    for (size_t nth = 0; nth < index->devices.len; nth++) {
        TraceDevice device = {.device = index->devices.at[nth]};

        counting.sm = counting.occupancy = 0;
        counting.sm_ns = counting.occupancy_ns = 0;
        count_device(&counting, nth, &device);
        describe_device(job, &device);
        device.span_ns = device.last - device.first;
        device.sm_efficiency = weighted_mean(counting.sm, counting.sm_ns);
        device.occupancy = weighted_mean(counting.occupancy, counting.occupancy_ns);
        sweep_device(job, nth, &device);
        vec_push(&rank->devices, device);
    }
    free(counting.lane_seen);
}

/* ---- steps ---- */

/* Each step's window on each device. Windows adjoin, so a device's time is walked once along with them. */

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
            .number = step->number, .start = step->start, .duration_ns = step->end - step->start, .to = step->to, .batch = step->batch};

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
    const TraceStepRow *steps = rank->steps.at;
    const size_t at = rank->steps.len ? trace_find_after(&steps->to, sizeof(*steps), 0, rank->steps.len, time) : 0;

    return at < rank->steps.len && steps[at].start <= time ? (int32_t)at : -1;
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
