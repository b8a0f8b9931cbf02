/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by device. Totals from the file are used as they are; without them sizes are summed from the first event
 * on, so peaks are relative to an unknown beginning. */
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/trace/analyse.h"

enum { MEMORY_POINTS = 512 };

typedef struct Memory {
    const TraceJob *job;
    TraceMemoryDevice row;
    int64_t sum;            /* of the sizes so far */
    size_t peak;            /* of `events`, SIZE_MAX none */
    int64_t first, last;    /* allocated, -1 not yet */
    int64_t from, to;       /* of the device's events */
    const uint32_t *events; /* the device's, by start */
    size_t count;
} Memory;

static int64_t device_capacity(const Profile *profile, int32_t device)
{
    for (size_t i = 0; i < profile->devices.len; i++)
        if (profile->devices.at[i].id == device && profile->devices.at[i].memory_bytes > 0 &&
            profile->devices.at[i].memory_bytes <= INT64_MAX)
            return (int64_t)profile->devices.at[i].memory_bytes;
    return -1;
}

/* Which of MEMORY_POINTS equal parts of from..to a time lies in. */
static size_t part_of(int64_t from, int64_t to, int64_t time)
{
    double part = ((double)time - (double)from) / ((double)to - (double)from + 1) * MEMORY_POINTS;

    return part >= MEMORY_POINTS - 1 ? MEMORY_POINTS - 1 : (size_t)part;
}

/* Appends a point of the time from..to, or puts it in the place of a smaller one of the same part. */
static void add_point(TraceMemoryDevice *row, int64_t from, int64_t to, TraceMemoryPoint point)
{
    TraceMemoryPoint *last = row->points.len > 0 ? &row->points.at[row->points.len - 1] : NULL;

    if (!last || part_of(from, to, last->start) != part_of(from, to, point.start))
        vec_push(&row->points, point);
    else if (point.allocated > last->allocated ||
             (point.allocated == last->allocated && point.reserved > last->reserved))
        *last = point;
}

static void add_totals(Memory *memory, size_t at, int64_t allocated, int64_t reserved)
{
    TraceMemoryDevice *row = &memory->row;
    int64_t start = memory->job->index->profile->memory.at[memory->events[at]].start;

    if (row->allocations + row->releases == 1 || (row->totals && memory->first < 0))
        memory->first = allocated;
    memory->last = allocated;
    if (reserved > row->peak_reserved)
        row->peak_reserved = reserved;
    if (memory->peak == SIZE_MAX || allocated > row->peak_allocated) {
        row->peak_allocated = allocated;
        row->peak_at = start;
        memory->peak = at;
    }
    add_point(row, memory->from, memory->to,
              (TraceMemoryPoint){.start = start, .allocated = allocated, .reserved = reserved});
}

static void add_event(Memory *memory, size_t at)
{
    const ProfileMemory *event = &memory->job->index->profile->memory.at[memory->events[at]];
    TraceMemoryDevice *row = &memory->row;

    if (event->bytes >= 0) {
        row->allocations++;
        row->allocated_bytes = trace_sum(row->allocated_bytes, event->bytes);
    } else {
        row->releases++;
    }
    memory->sum = trace_sum(memory->sum, event->bytes);
    if (!row->totals)
        add_totals(memory, at, memory->sum, -1);
    else if (event->allocated >= 0)
        add_totals(memory, at, event->allocated, event->reserved);
}

static void add_device(const TraceJob *job, const uint32_t *events, size_t count, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    int32_t device = profile->memory.at[events[0]].device;
    Memory memory = {.job = job,
                     .events = events,
                     .count = count,
                     .peak = SIZE_MAX,
                     .first = -1,
                     .last = -1,
                     .from = profile->memory.at[events[0]].start,
                     .to = profile->memory.at[events[count - 1]].start,
                     .row = {.device = device,
                             .peak_allocated = -1,
                             .peak_reserved = -1,
                             .peak_at = -1,
                             .reserved_at_peak = -1,
                             .peak_op = "",
                             .capacity_bytes = device < 0 ? -1 : device_capacity(profile, device)}};

    for (size_t i = 0; i < count; i++)
        memory.row.totals |= profile->memory.at[events[i]].allocated >= 0;
    for (size_t i = 0; i < count; i++)
        add_event(&memory, i);
    memory.row.growth_bytes = trace_sum(memory.last, -memory.first);
    if (memory.peak != SIZE_MAX) {
        const ProfileMemory *peak = &profile->memory.at[events[memory.peak]];
        memory.row.peak_op = trace_op_at(job, peak->lane, memory.row.peak_at);
        memory.row.reserved_at_peak = memory.row.totals ? peak->reserved : -1;
        trace_memory_blocks(job, events, count, memory.peak, &memory.row);
    }
    vec_push(&rank->memory, memory.row);
}

/* The devices that events are of: from `least` on, `count` numbers. */
typedef struct DeviceRange {
    int32_t least;
    size_t count;
} DeviceRange;

static DeviceRange find_devices(const Profile *profile)
{
    int32_t least = INT16_MAX, most = INT16_MIN;

    for (size_t i = 0; i < profile->memory.len; i++) {
        const int32_t device = profile->memory.at[i].device;

        least = device < least ? device : least;
        most = device > most ? device : most;
    }
    return (DeviceRange){.least = least, .count = (size_t)(most - least) + 1};
}

void trace_memory(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    size_t *first;
    uint32_t *events;

    if (profile->memory.len == 0)
        return;
    const DeviceRange devices = find_devices(profile);
    first = xcalloc(devices.count + 2, sizeof *first);
    events = xmalloc(profile->memory.len * sizeof *events);
    for (size_t i = 0; i < profile->memory.len; i++)
        first[profile->memory.at[i].device - devices.least + 2]++;
    for (size_t i = 2; i < devices.count + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < profile->memory.len; i++)
        events[first[profile->memory.at[i].device - devices.least + 1]++] = (uint32_t)i;
    for (size_t i = 0; i < devices.count; i++)
        if (first[i + 1] > first[i])
            add_device(job, events + first[i], first[i + 1] - first[i], rank);
    free(first);
    free(events);
}
