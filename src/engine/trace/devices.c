/* SPDX-License-Identifier: Apache-2.0 */

/* Each device's time: its span, busy and idle, the classes and their overlap, from one sweep over its operations. */

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/analyse.h"
#include "engine/trace/sweep.h"

enum { COMPUTES = 1 << TRACE_COMPUTE, COMMUNICATES = 1 << TRACE_COMMUNICATION, COPIES = 1 << TRACE_COPY };

/* ---- time ---- */

static void add_times(TraceDevice *device, const int64_t by_mask[TRACE_SWEEP_MASKS])
{
    for (unsigned int mask = 1; mask < TRACE_SWEEP_MASKS; mask++) {
        int64_t time = by_mask[mask];
        bool compute = mask & COMPUTES, communication = mask & COMMUNICATES, copy = mask & COPIES;

        device->busy_ns += time;
        device->compute_ns += compute ? time : 0;
        device->communication_ns += communication ? time : 0;
        device->copy_ns += copy ? time : 0;
        device->communication_overlapped_ns += communication && compute ? time : 0;
        device->exposed_communication_ns += communication && !compute ? time : 0;
        device->exposed_copy_ns += copy && !compute && !communication ? time : 0;
    }
    device->idle_ns = by_mask[0];
}

static void sweep_device(const TraceJob *job, size_t nth, TraceDevice *device)
{
    int64_t by_mask[TRACE_SWEEP_MASKS] = {0};
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
    add_times(device, by_mask);
}

/* ---- counts ---- */

typedef struct Counting {
    const TraceJob *job;
    uint8_t *tensor;             /* name -> 0 not asked, 1 no, 2 yes */
    bool *lane_seen;             /* streams that something ran on */
    double sm, occupancy;        /* value x time */
    int64_t sm_ns, occupancy_ns; /* time of the kernels behind the two */
} Counting;

static bool on_tensor_core(Counting *counting, uint32_t name)
{
    size_t len;
    const char *text;

    if (!counting->tensor[name]) {
        text = profile_text(counting->job->index->profile, name, &len);
        counting->tensor[name] = trace_is_tensor_core(text, len) ? 2 : 1;
    }
    return counting->tensor[name] == 2;
}

static void count_kernel(Counting *counting, TraceDevice *device, size_t row, int64_t time)
{
    const Profile *profile = counting->job->index->profile;
    uint32_t detail = profile->gpu.extra[row];
    const ProfileLaunch *launch = detail == PROFILE_NONE ? NULL : &profile->launches.at[detail];

    device->kernel_sum_ns = trace_sum(device->kernel_sum_ns, time);
    if (on_tensor_core(counting, profile->gpu.name[row]))
        device->tensor_core_ns = trace_sum(device->tensor_core_ns, time);
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
        if (known->sm_count)
            device->sm_count = known->sm_count;
        if (known->memory_bytes && known->memory_bytes <= INT64_MAX)
            device->memory_bytes = (int64_t)known->memory_bytes;
        return;
    }
}

static void counting_done(Counting *counting)
{
    free(counting->tensor);
    free(counting->lane_seen);
}

void trace_devices(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    CLEANUP(counting_done) Counting counting = {.job = job};

    counting.tensor = xcalloc(profile_name_count(index->profile) + 1, sizeof(*counting.tensor));
    counting.lane_seen = xcalloc(index->profile->lanes.len + 1, sizeof(*counting.lane_seen));
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
}
