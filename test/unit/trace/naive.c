/* SPDX-License-Identifier: Apache-2.0 */

#include "naive.h"

#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/analyse.h"

typedef struct Span {
    int64_t start, end;
} Span;

static size_t first_row(const Build *b, size_t nth)
{
    return b->index.device_first.at[nth];
}

static size_t last_row(const Build *b, size_t nth)
{
    return b->index.device_first.at[nth + 1];
}

static Span gpu_span(const Build *b, size_t row)
{
    return (Span){b->profile.gpu.start[row], b->profile.gpu.start[row] + b->profile.gpu.duration[row]};
}

static Span host_span(const Build *b, size_t row)
{
    return (Span){b->profile.host.start[row], b->profile.host.start[row] + b->profile.host.duration[row]};
}

/* Bits of the classes that run on the device in [time, time + unit). */
static unsigned int running(const Build *b, size_t nth, int64_t time)
{
    unsigned int mask = 0;

    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++) {
        Span span = gpu_span(b, row);

        if (span.start <= time && time < span.end)
            mask |= 1U << b->index.gpu_class[row];
    }
    return mask;
}

void naive_device(const Build *b, int64_t unit, size_t nth, TraceDevice *ret)
{
    int64_t first = INT64_MAX, last = INT64_MIN, gap = 0;

    memset(ret, 0, sizeof(*ret));
    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++) {
        Span span = gpu_span(b, row);

        first = span.start < first ? span.start : first;
        last = span.end > last ? span.end : last;
        ret->operation_count++;
        ret->zero_count += span.start == span.end;
        ret->kernel_count += b->profile.gpu.kind[row] == PROFILE_KERNEL;
        if (b->profile.gpu.kind[row] == PROFILE_KERNEL)
            ret->kernel_sum_ns += span.end - span.start;
    }
    ret->first = first;
    ret->last = last;
    ret->span_ns = last - first;
    for (int64_t time = first; time < last; time += unit) {
        unsigned int mask = running(b, nth, time);
        bool compute = mask >> TRACE_COMPUTE & 1, communication = mask >> TRACE_COMMUNICATION & 1,
             copy = mask >> TRACE_COPY & 1;

        ret->compute_ns += compute ? unit : 0;
        ret->communication_ns += communication ? unit : 0;
        ret->copy_ns += copy ? unit : 0;
        ret->communication_overlapped_ns += communication && compute ? unit : 0;
        ret->exposed_communication_ns += communication && !compute ? unit : 0;
        ret->exposed_copy_ns += copy && !communication && !compute ? unit : 0;
        if (mask) {
            ret->busy_ns += unit;
            gap = 0;
            continue;
        }
        ret->idle_ns += unit;
        for (size_t row = first_row(b, nth); row < last_row(b, nth); row++)
            if (b->profile.gpu.start[row] == time)
                gap = 0; /* one without duration ends a gap */
        ret->gap_count += gap == 0;
        gap += unit;
        ret->max_gap_ns = gap > ret->max_gap_ns ? gap : ret->max_gap_ns;
    }
}

/* ---- blame ---- */

static uint32_t innermost(const Build *b, uint32_t lane, int64_t time)
{
    uint32_t found = PROFILE_NONE;

    for (size_t row = 0; row < b->profile.host.len; row++)
        if (b->profile.host.lane[row] == lane && host_span(b, row).start <= time && time < host_span(b, row).end)
            found = (uint32_t)row; /* rows that begin later are further in */
    return found;
}

/* The class of the row, or of the innermost telling range around it: all rows of the lane are looked at. */
static TraceHostClass class_inside(const Build *b, uint32_t row)
{
    const ProfileEvents *host = &b->profile.host;
    TraceHostClass class = b->index.host_class[row];

    for (size_t outer = row + 1; outer-- > 0;) {
        TraceHostClass telling = b->index.host_class[outer];

        if (host->lane[outer] == host->lane[row] && host_span(b, outer).end >= host_span(b, row).end &&
            (outer == row || host_span(b, outer).end > host_span(b, row).start) && telling >= TRACE_HOST_DATA &&
            telling <= TRACE_HOST_LOGGING)
            return telling;
    }
    return class;
}

static bool lane_has(const Build *b, uint32_t lane, ProfileKind kind, const char *prefix)
{
    for (size_t row = 0; row < b->profile.host.len; row++)
        if (b->profile.host.lane[row] == lane && b->profile.host.kind[row] == kind &&
            strncmp(profile_text(&b->profile, b->profile.host.name[row], NULL), prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static TraceCause silent_cause(const Build *b, uint32_t lane, int64_t time)
{
    bool before = false, behind = false;

    for (size_t row = 0; row < b->profile.host.len; row++) {
        before |= b->profile.host.lane[row] == lane && host_span(b, row).start <= time;
        behind |= b->profile.host.lane[row] == lane && host_span(b, row).end > time;
    }
    if (!before || !behind)
        return TRACE_CAUSE_UNKNOWN;
    if (lane_has(b, lane, PROFILE_PYTHON, ""))
        return TRACE_CAUSE_PYTHON;
    if (lane_has(b, lane, PROFILE_OP, "autograd::engine"))
        return TRACE_CAUSE_HOST_BOUND;
    return lane_has(b, lane, PROFILE_OP, "") ? TRACE_CAUSE_PYTHON : TRACE_CAUSE_UNKNOWN;
}

static TraceCause row_cause(const Build *b, uint32_t row)
{
    uint32_t lane = b->profile.host.lane[row];

    switch (class_inside(b, row)) {
    case TRACE_HOST_SYNC:
        return TRACE_CAUSE_SYNCHRONISATION;
    case TRACE_HOST_COPY:
        return TRACE_CAUSE_COPY;
    case TRACE_HOST_ALLOCATOR:
        return TRACE_CAUSE_ALLOCATOR;
    case TRACE_HOST_DATA:
        return TRACE_CAUSE_DATA_LOADING;
    case TRACE_HOST_COLLECTIVE:
        return TRACE_CAUSE_COLLECTIVE_WAIT;
    case TRACE_HOST_COMPILE:
        return TRACE_CAUSE_COMPILE;
    case TRACE_HOST_LOADING:
        return TRACE_CAUSE_LOADING;
    case TRACE_HOST_PYTHON:
        return TRACE_CAUSE_PYTHON;
    case TRACE_HOST_MARK:
        return lane_has(b, lane, PROFILE_OP, "") || lane_has(b, lane, PROFILE_PYTHON, "") ? TRACE_CAUSE_PYTHON
                                                                                          : TRACE_CAUSE_HOST_BOUND;
    default:
        return TRACE_CAUSE_HOST_BOUND;
    }
}

static uint32_t most_launching(const Build *b, size_t nth)
{
    uint32_t best = PROFILE_NONE;
    size_t most = 0;

    for (uint32_t lane = 0; lane < b->profile.lanes.len; lane++) {
        size_t count = 0;

        for (size_t row = first_row(b, nth); row < last_row(b, nth); row++)
            count += b->index.launch[row] != PROFILE_NONE && b->profile.host.lane[b->index.launch[row]] == lane;
        if (count > most) {
            most = count;
            best = lane;
        }
    }
    return best;
}

/* Used where a device has no linked operation at all. */
static uint32_t most_calling(const Build *b)
{
    uint32_t best = PROFILE_NONE;
    size_t most = 0;

    for (uint32_t lane = 0; lane < b->profile.lanes.len; lane++) {
        size_t count = 0;

        for (size_t row = 0; row < b->profile.host.len; row++)
            count += b->profile.host.lane[row] == lane && b->index.host_class[row] == TRACE_HOST_LAUNCH;
        if (count > most) {
            most = count;
            best = lane;
        }
    }
    return best;
}

static uint32_t launch_of(const Build *b, uint32_t row)
{
    return row == PROFILE_NONE ? PROFILE_NONE : b->index.launch[row];
}

static uint32_t lane_of(const Build *b, uint32_t call)
{
    return call == PROFILE_NONE ? PROFILE_NONE : b->profile.host.lane[call];
}

/* The call that waits for the device, of those the last begun by `time`. */
static bool synced(const Build *b, uint32_t lane, int64_t time, uint32_t before, uint32_t after)
{
    uint32_t last = PROFILE_NONE, launch = launch_of(b, before);

    for (uint32_t row = 0; row < b->profile.host.len; row++)
        if (lane_of(b, row) == lane && b->profile.host.kind[row] == PROFILE_CALL && host_span(b, row).start <= time &&
            (b->index.host_class[row] == TRACE_HOST_SYNC || b->index.host_class[row] == TRACE_HOST_COPY))
            last = row;
    if (last == PROFILE_NONE || before == PROFILE_NONE || last == launch_of(b, after) ||
        host_span(b, last).start == time)
        return false;
    if (host_span(b, last).end >= time)
        return true;
    return host_span(b, last).end >= time - TRACE_SYNC_SLACK_NS && launch != PROFILE_NONE &&
           host_span(b, launch).start <= host_span(b, last).start;
}

static TraceCause decide(const int64_t slice[TRACE_CAUSE_COUNT], bool was_synced)
{
    static const TraceCause telling[] = {TRACE_CAUSE_DATA_LOADING,    TRACE_CAUSE_COPY,    TRACE_CAUSE_ALLOCATOR,
                                         TRACE_CAUSE_COLLECTIVE_WAIT, TRACE_CAUSE_COMPILE, TRACE_CAUSE_LOADING};
    int64_t total = 0, best = 0;
    TraceCause cause = TRACE_CAUSE_UNKNOWN;

    for (int i = 0; i < TRACE_CAUSE_COUNT; i++)
        total += slice[i];
    if (slice[TRACE_CAUSE_QUEUED] == total)
        return TRACE_CAUSE_QUEUED;
    if (slice[TRACE_CAUSE_BEFORE_PROFILE] == total)
        return TRACE_CAUSE_BEFORE_PROFILE;
    for (size_t i = 0; i < ARRAY_LEN(telling); i++)
        if (slice[telling[i]] > best) {
            best = slice[telling[i]];
            cause = telling[i];
        }
    if (2 * best >= total)
        return cause;
    if (was_synced)
        return TRACE_CAUSE_SYNCHRONISATION;
    best = 0;
    for (TraceCause i = 0; i < TRACE_CAUSE_SHORT; i++) {
        int64_t time = slice[i] - (i == TRACE_CAUSE_QUEUED ? TRACE_LAUNCH_LATENCY_NS : 0);

        if (time > best) {
            best = time;
            cause = i;
        }
    }
    return cause;
}

/* Whether nothing that ran before has a known launch, and something of the device has. */
static bool before_profile(const Build *b, size_t nth, uint32_t before)
{
    bool some = false, earlier = false;

    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++) {
        some |= b->index.launch[row] != PROFILE_NONE;
        earlier |= b->index.launch[row] != PROFILE_NONE && before != PROFILE_NONE && row <= before;
    }
    return some && !earlier;
}

static NaiveGap blame(const Build *b, int64_t unit, size_t nth, Span span, uint32_t before, uint32_t after)
{
    NaiveGap gap = {.start = span.start, .end = span.end};
    uint32_t launch = launch_of(b, after), other = lane_of(b, launch_of(b, before)), lane = lane_of(b, launch);

    const bool early = before_profile(b, nth, before);
    int64_t frames = 0;

    lane = lane == PROFILE_NONE ? other : lane;
    lane = lane == PROFILE_NONE ? most_launching(b, nth) : lane;
    lane = lane == PROFILE_NONE ? most_calling(b) : lane;
    for (int64_t time = span.start; time < span.end; time += unit) {
        TraceCause cause = TRACE_CAUSE_UNKNOWN;
        uint32_t row;

        if (lane == PROFILE_NONE) {
            gap.slice_ns[cause] += unit;
            continue;
        }
        row = innermost(b, lane, time);
        if (row == PROFILE_NONE && other != PROFILE_NONE)
            row = innermost(b, other, time);
        if (early && before != PROFILE_NONE && launch == PROFILE_NONE)
            cause = TRACE_CAUSE_BEFORE_PROFILE;
        else if (launch != PROFILE_NONE && time >= host_span(b, launch).end)
            cause =
                early && span.end - (host_span(b, launch).end > span.start ? host_span(b, launch).end : span.start) >
                             TRACE_LAUNCH_LATENCY_NS
                    ? TRACE_CAUSE_BEFORE_PROFILE
                    : TRACE_CAUSE_QUEUED;
        else if (row != PROFILE_NONE) {
            cause = row_cause(b, row);
            frames += class_inside(b, row) == TRACE_HOST_PYTHON ? unit : 0;
        } else
            cause = silent_cause(b, other != PROFILE_NONE ? other : lane, time);
        gap.slice_ns[cause] += unit;
    }
    gap.synced = lane != PROFILE_NONE && synced(b, lane, span.start, before, after);
    gap.cause = lane == PROFILE_NONE ? TRACE_CAUSE_UNKNOWN : decide(gap.slice_ns, gap.synced);
    if (frames >= TRACE_LONG_PYTHON_NS && 2 * frames >= span.end - span.start)
        gap.cause = TRACE_CAUSE_PYTHON;
    return gap;
}

/* The operation that ended last of those that start before `time`, the first of equals; PROFILE_NONE. */
static uint32_t ended_last(const Build *b, size_t nth, int64_t time)
{
    uint32_t found = PROFILE_NONE;

    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++)
        if (gpu_span(b, row).start < time && (found == PROFILE_NONE || gpu_span(b, row).end > gpu_span(b, found).end))
            found = (uint32_t)row;
    return found;
}

static uint32_t starts_at(const Build *b, size_t nth, int64_t time)
{
    uint32_t found = PROFILE_NONE;

    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++)
        if (b->profile.gpu.start[row] == time &&
            (found == PROFILE_NONE || (b->index.launch[found] == PROFILE_NONE && b->index.launch[row] != PROFILE_NONE)))
            found = (uint32_t)row;
    return found;
}

void naive_gaps(const Build *b, int64_t unit, size_t nth, NaiveGaps *ret)
{
    int64_t seen = INT64_MIN;

    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++) {
        int64_t start = b->profile.gpu.start[row];
        uint32_t before = ended_last(b, nth, start);

        if (start == seen || before == PROFILE_NONE || gpu_span(b, before).end >= start)
            continue;
        seen = start;
        vec_push(ret, blame(b, unit, nth, (Span){gpu_span(b, before).end, start}, before, starts_at(b, nth, start)));
    }
}

/* All idle times that a step can see: gaps, and those in front and behind. */
static void all_idle(const Build *b, int64_t unit, size_t nth, NaiveGaps *ret)
{
    const TraceStep *steps = b->index.steps.at;
    int64_t first = b->profile.gpu.start[first_row(b, nth)], from = steps[0].start;
    uint32_t last = ended_last(b, nth, INT64_MAX);
    int64_t end = gpu_span(b, last).end, to = steps[b->index.steps.len - 1].to;

    naive_gaps(b, unit, nth, ret);
    if (from < first)
        vec_push(ret, blame(b, unit, nth, (Span){from, first}, PROFILE_NONE, starts_at(b, nth, first)));
    if (end < to)
        vec_push(ret, blame(b, unit, nth, (Span){end, to}, last, PROFILE_NONE));
}

void naive_step(const Build *b, int64_t unit, size_t step, size_t nth, NaiveStep *ret)
{
    const TraceStep *window = &b->index.steps.at[step];
    NaiveGaps idle = {0};

    memset(ret, 0, sizeof(*ret));
    ret->window_ns = window->to - window->start;
    for (int64_t time = window->start; time < window->to; time += unit) {
        unsigned int mask = running(b, nth, time);
        bool compute = mask >> TRACE_COMPUTE & 1, communication = mask >> TRACE_COMMUNICATION & 1,
             copy = mask >> TRACE_COPY & 1;

        ret->busy_ns += mask ? unit : 0;
        ret->idle_ns += mask ? 0 : unit;
        ret->compute_ns += compute ? unit : 0;
        ret->communication_ns += communication ? unit : 0;
        ret->copy_ns += copy ? unit : 0;
        ret->exposed_communication_ns += communication && !compute ? unit : 0;
        ret->exposed_copy_ns += copy && !communication && !compute ? unit : 0;
    }
    for (size_t row = first_row(b, nth); row < last_row(b, nth); row++)
        ret->operation_count += b->profile.gpu.start[row] >= window->start && b->profile.gpu.start[row] < window->to;
    all_idle(b, unit, nth, &idle);
    for (size_t i = 0; i < idle.len; i++) {
        int64_t from = idle.at[i].start > window->start ? idle.at[i].start : window->start;
        int64_t to = idle.at[i].end < window->to ? idle.at[i].end : window->to;

        ret->idle_by_cause[idle.at[i].cause] += to > from ? to - from : 0;
    }
    vec_done(&idle);
}

/* ---- queues ---- */

static bool on_stream(const Build *b, size_t row, int32_t device, int64_t stream)
{
    const ProfileLane *lane = &b->profile.lanes.at[b->profile.gpu.lane[row]];

    return lane->device == device && lane->tid == stream;
}

/* Operations of the stream launched at or before `at_launch` minus those started at or before `at_start`. */
static int64_t length_at(const Build *b, int32_t device, int64_t stream, int64_t at_launch, int64_t at_start)
{
    int64_t length = 0;

    for (size_t row = 0; row < b->profile.gpu.len; row++) {
        uint32_t call = b->index.launch[row];
        int64_t start = b->profile.gpu.start[row], launch;

        if (call == PROFILE_NONE || !on_stream(b, row, device, stream))
            continue;
        launch = b->profile.host.start[call] < start ? b->profile.host.start[call] : start;
        length += (launch <= at_launch) - (start <= at_start);
    }
    return length;
}

void naive_queue(const Build *b, int64_t unit, int32_t device, int64_t stream, TraceQueue *ret)
{
    int64_t first = INT64_MAX, last = INT64_MIN, sum = 0, low = INT64_MAX, high = INT64_MIN;

    *ret = (TraceQueue){.device = device, .stream = stream};
    for (size_t row = 0; row < b->profile.gpu.len; row++) {
        uint32_t call = b->index.launch[row];
        Span span = gpu_span(b, row);
        int64_t launch;

        if (!on_stream(b, row, device, stream))
            continue;
        ret->operation_count++;
        low = span.start < low ? span.start : low;
        high = span.end > high ? span.end : high;
        if (call == PROFILE_NONE)
            continue;
        launch = b->profile.host.start[call] < span.start ? b->profile.host.start[call] : span.start;
        first = launch < first ? launch : first;
        last = span.start > last ? span.start : last;
    }
    for (int64_t time = low; time < high; time += unit)
        for (size_t row = 0; row < b->profile.gpu.len; row++)
            if (on_stream(b, row, device, stream) && gpu_span(b, row).start <= time && time < gpu_span(b, row).end) {
                ret->busy_ns += unit;
                break;
            }
    for (int64_t time = first; first <= last && time <= last; time += unit) {
        int64_t length = length_at(b, device, stream, time, time);
        bool launched = length_at(b, device, stream, time, time - 1) > length_at(b, device, stream, time - 1, time - 1);
        bool runs = false;

        if (time < last) {
            sum += length * unit;
            ret->max_length = length > ret->max_length ? length : ret->max_length;
        }
        for (size_t row = 0; row < b->profile.gpu.len; row++)
            runs |= on_stream(b, row, device, stream) && gpu_span(b, row).start < time && gpu_span(b, row).end > time;
        ret->empty_launches += launched && !runs && length_at(b, device, stream, time - 1, time - 1) == 0;
    }
    ret->mean_length = last > first ? (double)sum / (double)(last - first) : 0;
}
