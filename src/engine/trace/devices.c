/* SPDX-License-Identifier: Apache-2.0 */

/* Each device's time: its span, busy and idle, the classes and their overlap, from one sweep over its operations. */

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/owner.h"
#include "engine/trace/sum.h"
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

    trace_sweep_init(&sweep, job->index, nth, job->scope);
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
    uint8_t *tensor;      /* name -> 0 not asked, 1 no, 2 yes */
    bool *lane_seen;      /* streams that something started on */
    double sm, occupancy; /* value x time */
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
        device->sm_known_ns = trace_sum(device->sm_known_ns, time);
    }
    if (launch && launch->occupancy_percent >= 0) {
        counting->occupancy += (double)launch->occupancy_percent / 100 * (double)time;
        device->occupancy_known_ns = trace_sum(device->occupancy_known_ns, time);
    }
}

/* False where nothing of the device is in the scope. */
static bool count_device(Counting *counting, size_t nth, TraceDevice *device)
{
    const TraceIndex *index = counting->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;
    bool any = false;

    for (size_t row = index->device_first.at[nth]; row < index->device_first.at[nth + 1]; row++) {
        int64_t start, end;
        bool kernel = gpu->kind[row] == PROFILE_KERNEL;

        if (!trace_clip(gpu, row, counting->job->scope, &start, &end))
            continue;
        device->first = any ? device->first : start; /* rows come by start */
        device->last = any && device->last > end ? device->last : end;
        any = true;
        if (kernel)
            count_kernel(counting, device, row, end - start);
        if (gpu->start[row] < counting->job->scope.from)
            continue;
        device->operation_count++;
        device->kernel_count += kernel;
        device->zero_count += gpu->duration[row] == 0;
        counting->lane_seen[gpu->lane[row]] = true;
    }
    return any;
}

static double share(double sum, int64_t time)
{
    return time > 0 ? sum / (double)time : NAN;
}

static int by_number(const void *a_, const void *b_)
{
    uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

    return (a > b) - (a < b);
}

/* Lanes from *lane on, which are ordered by device; GPU lanes come last. */
static void take_streams(Counting *counting, size_t *lane, TraceDevice *device)
{
    const Profile *profile = counting->job->index->profile;
    size_t count = 0, first, last;
    uint64_t *streams;

    while (*lane < profile->lanes.len &&
           (!profile->lanes.at[*lane].gpu || profile->lanes.at[*lane].device < device->device))
        ++*lane;
    first = *lane;
    while (*lane < profile->lanes.len && profile->lanes.at[*lane].device == device->device)
        ++*lane;
    last = *lane;
    streams = arena_calloc(counting->job->arena, last - first + 1, sizeof(*streams));
    for (size_t i = first; i < last; i++)
        if (counting->lane_seen[i])
            streams[count++] = (uint64_t)profile->lanes.at[i].tid;
    qsort(streams, count, sizeof(*streams), by_number);
    device->streams = (TraceSet){.at = streams, .len = count};
    device->stream_count = (int64_t)count;
}

static void describe(const TraceJob *job, TraceDevice *device)
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
    size_t lane = 0;

    counting.tensor = xcalloc(profile_name_count(index->profile) + 1, sizeof(*counting.tensor));
    counting.lane_seen = xcalloc(index->profile->lanes.len + 1, sizeof(*counting.lane_seen));
    for (size_t nth = 0; nth < index->devices.len; nth++) {
        TraceDevice device = {.device = index->devices.at[nth]};

        counting.sm = counting.occupancy = 0;
        if (!count_device(&counting, nth, &device))
            continue;
        describe(job, &device);
        device.span_ns = device.last - device.first;
        device.sm_efficiency = share(counting.sm, device.sm_known_ns);
        device.occupancy = share(counting.occupancy, device.occupancy_known_ns);
        sweep_device(job, nth, &device);
        take_streams(&counting, &lane, &device);
        vec_push(&rank->devices, device);
    }
}

/* ---- joining windows ---- */

static TraceSet join_sets(TraceSet a, TraceSet b, Arena *arena)
{
    uint64_t *at = arena_calloc(arena, a.len + b.len + 1, sizeof(*at));
    size_t len = 0;

    for (size_t i = 0, k = 0; i < a.len || k < b.len;) {
        bool from_a = k == b.len || (i < a.len && a.at[i] <= b.at[k]);

        k += i < a.len && k < b.len && a.at[i] == b.at[k];
        at[len++] = from_a ? a.at[i++] : b.at[k++];
    }
    return (TraceSet){.at = at, .len = len};
}

static void join_device(TraceDevice *a, const TraceDevice *b, Arena *arena)
{
    int64_t gap = b->first - a->last; /* nothing overlaps: both are clipped to windows that adjoin */

    if (gap > 0) {
        a->gap_count++;
        a->idle_ns += gap;
        a->max_gap_ns = gap > a->max_gap_ns ? gap : a->max_gap_ns;
    }
    if (!a->name[0])
        a->name = b->name;
    a->major = a->major < 0 ? b->major : a->major;
    a->minor = a->minor < 0 ? b->minor : a->minor;
    a->sm_count = a->sm_count < 0 ? b->sm_count : a->sm_count;
    a->memory_bytes = a->memory_bytes < 0 ? b->memory_bytes : a->memory_bytes;
    a->last = b->last;
    a->span_ns = a->last - a->first;
    a->busy_ns += b->busy_ns;
    a->idle_ns += b->idle_ns;
    a->compute_ns += b->compute_ns;
    a->communication_ns += b->communication_ns;
    a->copy_ns += b->copy_ns;
    a->communication_overlapped_ns += b->communication_overlapped_ns;
    a->exposed_communication_ns += b->exposed_communication_ns;
    a->exposed_copy_ns += b->exposed_copy_ns;
    a->tensor_core_ns = trace_sum(a->tensor_core_ns, b->tensor_core_ns);
    a->kernel_sum_ns = trace_sum(a->kernel_sum_ns, b->kernel_sum_ns);
    a->gap_count += b->gap_count;
    a->max_gap_ns = b->max_gap_ns > a->max_gap_ns ? b->max_gap_ns : a->max_gap_ns;
    a->operation_count += b->operation_count;
    a->kernel_count += b->kernel_count;
    a->zero_count += b->zero_count;
    a->sm_efficiency = trace_weighted(a->sm_efficiency, a->sm_known_ns, b->sm_efficiency, b->sm_known_ns);
    a->occupancy = trace_weighted(a->occupancy, a->occupancy_known_ns, b->occupancy, b->occupancy_known_ns);
    a->sm_known_ns = trace_sum(a->sm_known_ns, b->sm_known_ns);
    a->occupancy_known_ns = trace_sum(a->occupancy_known_ns, b->occupancy_known_ns);
    a->streams = join_sets(a->streams, b->streams, arena);
    a->stream_count = (int64_t)a->streams.len;
}

void trace_devices_merge(TraceRank *into, TraceRank *next, UNUSED const TraceConfig *config, Arena *arena)
{
    VEC(TraceDevice) all = {0};
    size_t k = 0;

    for (size_t i = 0; i < into->devices.len; i++) {
        for (; k < next->devices.len && next->devices.at[k].device < into->devices.at[i].device; k++)
            vec_push(&all, next->devices.at[k]);
        vec_push(&all, into->devices.at[i]);
        if (k < next->devices.len && next->devices.at[k].device == into->devices.at[i].device)
            join_device(&all.at[all.len - 1], &next->devices.at[k++], arena);
    }
    for (; k < next->devices.len; k++)
        vec_push(&all, next->devices.at[k]);
    vec_done(&into->devices);
    into->devices.at = all.at;
    into->devices.len = all.len;
    into->devices.cap = all.cap;
}
