/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that was read in windows: each analysis joins its own part; here the words and the order. */
#include "engine/trace/analyse.h"
#include "engine/trace/windows.h"

/* The profiles of the windows hold different events of one file, so what they count is added up. */
static void merge_words(TraceRank *into, TraceRank *next)
{
    if (!into->rank_known && next->rank_known) {
        into->rank = next->rank;
        into->rank_known = true;
    }
    if (into->world_size < 0)
        into->world_size = next->world_size;
    if (!*into->framework)
        into->framework = next->framework;
    if (!*into->backend)
        into->backend = next->backend;
    if (!*into->host)
        into->host = next->host;
    if (into->base_ns == 0)
        into->base_ns = next->base_ns;
    into->bytes += next->bytes;
    into->events += next->events;
    into->ignored += next->ignored;
    into->lost += next->lost;
    for (int i = 0; i < PROFILE_LOSS_COUNT; i++)
        into->lost_by_reason[i] += next->lost_by_reason[i];
    for (size_t i = 0; i < next->losses.len && into->losses.len < PROFILE_LOSSES_KEPT; i++)
        vec_push(&into->losses, next->losses.at[i]);
    into->with_stack |= next->with_stack;
    into->with_shapes |= next->with_shapes;
    into->with_memory |= next->with_memory;
    into->rocm |= next->rocm;
    into->microseconds &= next->microseconds;
    into->windows += next->windows;
    if (next->memory_bytes > into->memory_bytes)
        into->memory_bytes = next->memory_bytes;
}

void trace_rank_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena)
{
    merge_words(into, next);
    trace_devices_merge(into, next, config, arena);
    trace_gaps_merge(into, next, config, arena);
    trace_steps_merge(into, next, config, arena);
    trace_launches_merge(into, next, config, arena);
    trace_queues_merge(into, next, config, arena);
    trace_kernels_merge(into, next, config, arena);
    trace_copies_merge(into, next, config, arena);
    trace_operators_merge(into, next, config, arena);
    trace_calls_merge(into, next, config, arena);
    trace_annotations_merge(into, next, config, arena);
    trace_memory_merge(into, next, config, arena);
    trace_collectives_merge(into, next);
    trace_paths_merge(into, next);
    trace_timeline_merge(into, next, config, arena);
    trace_rank_done(next);
    *next = (TraceRank){0};
}
