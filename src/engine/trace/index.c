/* SPDX-License-Identifier: Apache-2.0 */

/* The index: classes by name, nesting by a stack per lane, rows by stream; links and steps are other files. What the
 * host did, what the GPU did and the table of calls are worked out beside each other, then what joins them. */

#include "engine/trace/index.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/owner.h"
#include "engine/trace/index_inside.h"
#include "engine/trace/tasks.h"

/* The index while it is made. */
typedef struct Making {
    TraceIndex *index;
    TraceRows step_rows; /* host rows named as steps */
    LinkTable calls;
} Making;

/* What is known of a name; kinds but the first that came with it are classified anew each time (rare). */
typedef struct NameNote {
    uint8_t kind; /* + 1; 0: not seen */
    uint8_t class;
    bool is_step;
} NameNote;

static uint8_t new_class(const Profile *profile, NameNote *note, ProfileKind kind, uint32_t name)
{
    const char *text;
    uint8_t class;
    size_t len;

    text = profile_text(profile, name, &len);
    class = (uint8_t)(kind <= PROFILE_SET ? (int)trace_classify(kind, text, len)
                                          : (int)trace_classify_host(kind, text, len));
    if (!note->kind)
        *note = (NameNote){(uint8_t)(kind + 1), class, trace_is_step_name(text, len)};
    return class;
}

static inline uint8_t class_of(const Profile *profile, NameNote *notes, ProfileKind kind, uint32_t name)
{
    NameNote *note = &notes[name];

    return note->kind == kind + 1 ? note->class : new_class(profile, note, kind, name);
}

static void classify_gpu(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(index->profile) + 1, sizeof(*notes));

    for (size_t row = 0; row < gpu->len; row++)
        index->gpu_class[row] = class_of(index->profile, notes, gpu->kind[row], gpu->name[row]);
}

static void classify_host(TraceIndex *index, TraceRows *step_rows)
{
    const ProfileEvents *host = &index->profile->host;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(index->profile) + 1, sizeof(*notes));
    size_t ops = 0;

    for (size_t row = 0; row < host->len; row++) {
        index->host_class[row] = class_of(index->profile, notes, host->kind[row], host->name[row]);
        ops += host->kind[row] == PROFILE_OP;
        if (notes[host->name[row]].is_step)
            vec_push(step_rows, (uint32_t)row);
    }
    index->op_count = ops;
}

static void find_lanes(TraceIndex *index)
{
    const ProfileEvents *host = &index->profile->host;
    size_t lane = 0, count = index->profile->lanes.len;

    for (size_t row = 0; row < host->len; row++)
        while (lane <= host->lane[row])
            index->lane_first[lane++] = row;
    while (lane <= count)
        index->lane_first[lane++] = host->len;
}

static void find_devices(TraceIndex *index)
{
    const Profile *profile = index->profile;
    const uint32_t *lane = profile->gpu.lane;

    for (size_t row = 0; row < profile->gpu.len; row++) {
        int32_t device = profile->lanes.at[lane[row]].device;

        if (index->devices.len && index->devices.at[index->devices.len - 1] == device)
            continue;
        vec_push(&index->devices, device);
        vec_push(&index->device_first, row);
    }
    vec_push(&index->device_first, profile->gpu.len);
}

static void sort_by_stream(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    size_t lanes = index->profile->lanes.len, *first = xcalloc(lanes + 2, sizeof(*first));

    for (size_t row = 0; row < gpu->len; row++)
        first[gpu->lane[row] + 2]++;
    for (size_t i = 2; i < lanes + 2; i++)
        first[i] += first[i - 1];
    for (size_t row = 0; row < gpu->len; row++)
        index->stream_rows[first[gpu->lane[row] + 1]++] = (uint32_t)row;
    index->stream_first = first;
}

/* ---- nesting ---- */

typedef struct Open { /* an event that has begun */
    int64_t end;
    uint32_t row, op; /* op: number of the innermost operator that it is or lies in */
    uint8_t inside;
} Open;

typedef VEC(Open) OpenStack;

static bool holds_range(const Open *outer, int64_t start, int64_t end)
{
    if (start >= outer->end)
        return false;
    return end <= outer->end || (end - outer->end <= TRACE_JITTER_NS && outer->end - start >= end - outer->end);
}

static bool marks_what_is_inside(uint8_t class)
{
    return class == TRACE_HOST_DATA || class == TRACE_HOST_COLLECTIVE || class == TRACE_HOST_COMPILE;
}

static void push_open(OpenStack *open, Open now)
{
    if (open->len == open->cap) /* rare: no call for each event */
        vec_reserve(open, open->len + 1);
    open->at[open->len++] = now;
}

/* *ops counts the operators so far. */
static void nest_lane(TraceIndex *index, size_t first, size_t last, OpenStack *open, uint32_t *ops)
{
    const ProfileEvents *host = &index->profile->host;

    vec_clear(open);
    for (size_t row = first; row < last; row++) {
        int64_t start = host->start[row], end = start + host->duration[row];
        uint8_t class = index->host_class[row];
        Open now = {.end = end, .row = (uint32_t)row, .op = PROFILE_NONE, .inside = class};
        const Open *outer = NULL;

        while (open->len && !holds_range(&open->at[open->len - 1], start, end))
            open->len--;
        if (open->len) {
            outer = &open->at[open->len - 1];
            now.op = outer->op;
            if (!marks_what_is_inside(class) && marks_what_is_inside(outer->inside))
                now.inside = outer->inside;
        }
        if (host->kind[row] == PROFILE_OP) {
            now.op = (*ops)++;
            index->op_rows[now.op] = (uint32_t)row;
        }
        index->parent[row] = outer ? outer->row : PROFILE_NONE;
        index->host_inside[row] = now.inside;
        index->op_at[row] = now.op;
        push_open(open, now);
    }
}

static void nest_rows(TraceIndex *index)
{
    OpenStack open = {0};
    uint32_t ops = 0;

    index->op_rows = xmalloc_large((index->op_count + 1) * sizeof(*index->op_rows));
    for (size_t lane = 0; lane < index->profile->lanes.len; lane++)
        nest_lane(index, index->lane_first[lane], index->lane_first[lane + 1], &open, &ops);
    vec_done(&open);
}

/* ---- all of it ---- */

static void make_host(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    Making *making = making_;

    classify_host(making->index, &making->step_rows);
    find_lanes(making->index);
    nest_rows(making->index);
}

static void make_gpu(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    const Making *making = making_;

    classify_gpu(making->index);
    find_devices(making->index);
    sort_by_stream(making->index);
}

static void make_calls(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    Making *making = making_;

    trace_link_init(&making->calls, &making->index->profile->host, PROFILE_CALL, NULL);
}

static void make_links(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    const Making *making = making_;

    trace_index_link(making->index, &making->calls);
    trace_index_steps(making->index, &making->step_rows);
}

enum { MAKE_HOST = 1 << 0, MAKE_CALLS = 1 << 1, MAKE_GPU = 1 << 2 };

static const TraceTask tasks[] = {
    {.run = make_host},
    {.run = make_calls},
    {.run = make_gpu},
    {.run = make_links, .after = MAKE_HOST | MAKE_CALLS | MAKE_GPU},
};

void trace_index_init(TraceIndex *index, const Profile *profile, unsigned int threads)
{
    size_t host = profile->host.len, gpu = profile->gpu.len;
    Making making = {.index = index};

    *index = (TraceIndex){.profile = profile};
    index->launch = xmalloc_large((gpu + 1) * sizeof(*index->launch));
    index->op = xmalloc_large((gpu + 1) * sizeof(*index->op));
    index->stream_rows = xmalloc_large((gpu + 1) * sizeof(*index->stream_rows));
    index->gpu_class = xmalloc_large(gpu + 1);
    index->parent = xmalloc_large((host + 1) * sizeof(*index->parent));
    index->op_at = xmalloc_large((host + 1) * sizeof(*index->op_at));
    index->host_class = xmalloc_large(host + 1);
    index->host_inside = xmalloc_large(host + 1);
    index->lane_first = xmalloc((profile->lanes.len + 1) * sizeof(*index->lane_first));
    trace_tasks_run(tasks, ARRAY_LEN(tasks), &making, threads, SIZE_MAX);
    trace_link_done(&making.calls);
    vec_done(&making.step_rows);
}

void trace_index_done(TraceIndex *index)
{
    free(index->launch);
    free(index->op);
    free(index->parent);
    free(index->gpu_class);
    free(index->host_class);
    free(index->host_inside);
    free(index->lane_first);
    free(index->op_at);
    free(index->op_rows);
    free(index->stream_rows);
    free(index->stream_first);
    vec_done(&index->steps);
    vec_done(&index->devices);
    vec_done(&index->device_first);
    *index = (TraceIndex){0};
}

size_t trace_index_bytes(const TraceIndex *index)
{
    const size_t host_row =
        sizeof(*index->parent) + sizeof(*index->op_at) + sizeof(*index->host_class) + sizeof(*index->host_inside);
    const size_t gpu_row =
        sizeof(*index->launch) + sizeof(*index->op) + sizeof(*index->stream_rows) + sizeof(*index->gpu_class);

    return index->profile->host.len * host_row + index->profile->gpu.len * gpu_row +
           index->op_count * sizeof(*index->op_rows);
}
