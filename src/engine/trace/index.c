/* SPDX-License-Identifier: Apache-2.0 */

/* The index: classes by name, nesting by a stack per lane; links and steps are other files. */

#include "engine/trace/index.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/index_inside.h"

/* What is known of a name; kinds but the first that came with it are classified anew each time (rare). */
typedef struct NameNote {
    uint8_t kind; /* + 1; 0: not seen */
    uint8_t class;
    bool is_step;
} NameNote;

static uint8_t class_of(const Profile *profile, NameNote *notes, ProfileKind kind, uint32_t name)
{
    NameNote *note = &notes[name];
    const char *text;
    uint8_t class;
    size_t len;

    if (note->kind == kind + 1)
        return note->class;
    text = profile_text(profile, name, &len);
    class = (uint8_t)(kind <= PROFILE_SET ? (int)trace_classify(kind, text, len)
                                          : (int)trace_classify_host(kind, text, len));
    if (!note->kind)
        *note = (NameNote){(uint8_t)(kind + 1), class, trace_is_step_name(text, len)};
    return class;
}

static void classify_rows(TraceIndex *index, TraceRows *step_rows)
{
    const Profile *profile = index->profile;
    const ProfileEvents *host = &profile->host, *gpu = &profile->gpu;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(profile) + 1, sizeof(*notes));

    for (size_t row = 0; row < gpu->len; row++)
        index->gpu_class[row] = class_of(profile, notes, gpu->kind[row], gpu->name[row]);
    for (size_t row = 0; row < host->len; row++) {
        index->host_class[row] = class_of(profile, notes, host->kind[row], host->name[row]);
        if (notes[host->name[row]].is_step)
            vec_push(step_rows, (uint32_t)row);
    }
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

/* ---- nesting ---- */

typedef struct Open { /* an event that has begun */
    int64_t end;
    uint32_t row, op; /* op: the innermost operator that it is or lies in */
    uint8_t inside;
} Open;

typedef VEC(Open) OpenStack;

static bool holds(const Open *outer, int64_t start, int64_t end)
{
    if (start >= outer->end)
        return false;
    return end <= outer->end || (end - outer->end <= TRACE_JITTER_NS && outer->end - start >= end - outer->end);
}

static bool marks_what_is_inside(uint8_t class)
{
    return class == TRACE_HOST_DATA || class == TRACE_HOST_COLLECTIVE || class == TRACE_HOST_COMPILE;
}

static void nest_lane(TraceIndex *index, size_t first, size_t last, OpenStack *open, uint32_t *op_around)
{
    const ProfileEvents *host = &index->profile->host;

    vec_clear(open);
    for (size_t row = first; row < last; row++) {
        int64_t start = host->start[row], end = start + host->duration[row];
        uint8_t class = index->host_class[row];
        Open now = {.end = end, .row = (uint32_t)row, .op = PROFILE_NONE, .inside = class};
        const Open *outer = NULL;

        while (open->len && !holds(&open->at[open->len - 1], start, end))
            open->len--;
        if (open->len) {
            outer = &open->at[open->len - 1];
            now.op = outer->op;
            if (!marks_what_is_inside(class) && marks_what_is_inside(outer->inside))
                now.inside = outer->inside;
        }
        if (host->kind[row] == PROFILE_OP)
            now.op = (uint32_t)row;
        index->parent[row] = outer ? outer->row : PROFILE_NONE;
        index->host_inside[row] = now.inside;
        op_around[row] = now.op;
        vec_push(open, now);
    }
}

static void nest_rows(TraceIndex *index, uint32_t *op_around)
{
    OpenStack open = {0};

    for (size_t lane = 0; lane < index->profile->lanes.len; lane++)
        nest_lane(index, index->lane_first[lane], index->lane_first[lane + 1], &open, op_around);
    vec_done(&open);
}

void trace_index_init(TraceIndex *index, const Profile *profile)
{
    size_t host = profile->host.len, gpu = profile->gpu.len;
    CLEANUP_FREE uint32_t *op_around = xmalloc((host + 1) * sizeof(*op_around));
    TraceRows step_rows = {0};

    *index = (TraceIndex){.profile = profile};
    index->launch = xmalloc((gpu + 1) * sizeof(*index->launch));
    index->op = xmalloc((gpu + 1) * sizeof(*index->op));
    index->gpu_class = xmalloc(gpu + 1);
    index->parent = xmalloc((host + 1) * sizeof(*index->parent));
    index->host_class = xmalloc(host + 1);
    index->host_inside = xmalloc(host + 1);
    index->lane_first = xmalloc((profile->lanes.len + 1) * sizeof(*index->lane_first));
    classify_rows(index, &step_rows);
    find_lanes(index);
    find_devices(index);
    nest_rows(index, op_around);
    trace_index_link(index, op_around);
    trace_index_steps(index, &step_rows);
    vec_done(&step_rows);
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
    vec_done(&index->steps);
    vec_done(&index->devices);
    vec_done(&index->device_first);
    *index = (TraceIndex){0};
}
