/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that took long because something was used for the first time. A driver loads a kernel's code at its first
 * launch, and makes a context, a stream or a library's workspace at the first call that needs it: such a call takes
 * milliseconds to seconds once, and says nothing of the loop that is profiled.
 */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

enum {
    LOADING_NS = 1000000,       /* a launch takes microseconds; one that waits for a full queue finds the GPU at work */
    INITIALISING_NS = 10000000, /* a call that allocates or makes a stream takes up to a few milliseconds */
    ALIKE = 10,
    ALIKE_CALLS = 3, /* no more calls of one name than this may take a tenth as long */
};

/* The first launch of each kernel's name: where it took long, it loaded the kernel's code. */
static void mark_loading(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu, *host = &index->profile->host;
    CLEANUP_FREE uint32_t *first = xmalloc((profile_name_count(index->profile) + 1) * sizeof(*first));

    for (size_t name = 0; name < profile_name_count(index->profile); name++)
        first[name] = PROFILE_NONE;
    for (size_t row = 0; row < gpu->len; row++) {
        const uint32_t call = index->launch[row];
        uint32_t *best = &first[gpu->name[row]];

        if (gpu->kind[row] == PROFILE_KERNEL && call != PROFILE_NONE && index->host_class[call] == TRACE_HOST_LAUNCH &&
            !index->graph_name[host->name[call]] && (*best == PROFILE_NONE || host->start[call] < host->start[*best]))
            *best = call;
    }
    for (size_t name = 0; name < profile_name_count(index->profile); name++)
        if (first[name] != PROFILE_NONE && host->duration[first[name]] >= LOADING_NS)
            index->host_inside[first[name]] = TRACE_HOST_LOADING;
}

typedef struct LongCall {
    uint32_t row, name;
    int64_t duration;
} LongCall;

static int by_name_and_time(const void *a, const void *b)
{
    const LongCall *x = a, *y = b;
    const int64_t keys[][2] = {{x->name, y->name}, {y->duration, x->duration}, {x->row, y->row}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* How many steps have begun: windows of steps adjoin. */
static size_t step_of(const TraceIndex *index, int64_t time)
{
    const TraceStep *steps = index->steps.at;

    return index->steps.len ? trace_find_after(&steps->start, sizeof(*steps), 0, index->steps.len, time) : 0;
}

/* Whether calls like this one are few, and all in one step: what is repeated from step to step is no beginning. */
static bool happened_once(const TraceIndex *index, const LongCall *call, const LongCall *end)
{
    const ProfileEvents *host = &index->profile->host;
    const size_t step = step_of(index, host->start[call->row]);

    for (const LongCall *other = call; other < end && other->name == call->name; other++) {
        if (other->duration < call->duration / ALIKE)
            return true;
        if (other - call == ALIKE_CALLS || step_of(index, host->start[other->row]) != step)
            return false;
    }
    return true;
}

/* Calls of the runtime, the allocator's with them, that are far longer than all others of their name. */
static void mark_initialising(TraceIndex *index)
{
    const ProfileEvents *host = &index->profile->host;
    VEC(LongCall) calls = {0};

    for (uint32_t row = 0; row < host->len; row++)
        if ((index->host_class[row] == TRACE_HOST_RUNTIME || index->host_class[row] == TRACE_HOST_ALLOCATOR) &&
            index->host_inside[row] == index->host_class[row] && host->duration[row] >= INITIALISING_NS / ALIKE)
            vec_push(&calls, ((LongCall){row, host->name[row], host->duration[row]}));
    vec_sort(&calls, by_name_and_time);
    for (size_t i = 0; i < calls.len; i++) {
        const LongCall *call = &calls.at[i];
        const bool begins = i == 0 || calls.at[i - 1].name != call->name;

        if (!begins && index->host_inside[calls.at[i - 1].row] != TRACE_HOST_INITIALISING)
            continue; /* a longer one of the name was no beginning: this one neither */
        if (call->duration >= INITIALISING_NS && happened_once(index, call, calls.at + calls.len))
            index->host_inside[call->row] = TRACE_HOST_INITIALISING;
    }
    vec_done(&calls);
}

void trace_index_first(TraceIndex *index)
{
    mark_loading(index);
    mark_initialising(index);
}
