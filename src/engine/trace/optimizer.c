/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's steps: how many GPU operations they launch, and which idle times end with one of these. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/* Per host row: whether it is a step of the optimizer or lies in one. */
static bool *find_inside(const TraceIndex *index, TraceOptimizer *optimizer)
{
    const ProfileEvents *host = &index->profile->host;
    bool *inside = xcalloc(host->len + 1, sizeof(*inside));

    for (uint32_t row = 0; row < host->len; row++) {
        const uint32_t parent = index->parent[row];

        inside[row] = parent != PROFILE_NONE && inside[parent];
        if (inside[row] || !trace_host_begins(index, row, "Optimizer.step"))
            continue;
        inside[row] = true;
        optimizer->steps++;
    }
    return inside;
}

/* Whether an operation of the device that starts as the gap ends was launched by the optimizer. */
static bool ends_inside(const TraceIndex *index, const bool *inside, const TraceGap *gap)
{
    const int64_t *start = index->profile->gpu.start;
    size_t nth = 0;

    while (nth < index->devices.len && index->devices.at[nth] != gap->device)
        nth++;
    if (nth == index->devices.len)
        return false;
    const size_t last = index->device_first.at[nth + 1];
    size_t row = trace_find_after(start, sizeof(*start), index->device_first.at[nth], last, gap->end - 1);

    for (; row < last && start[row] == gap->end; row++)
        if (index->launch[row] != PROFILE_NONE)
            return inside[index->launch[row]];
    return false;
}

void trace_optimizer(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    CLEANUP_FREE bool *inside = find_inside(index, &rank->optimizer);

    if (rank->optimizer.steps == 0)
        return;
    for (size_t row = 0; row < index->profile->gpu.len; row++)
        rank->optimizer.operations += index->launch[row] != PROFILE_NONE && inside[index->launch[row]];
    for (size_t i = 0; i < rank->gaps.len; i++)
        rank->gaps.at[i].optimizer = ends_inside(index, inside, &rank->gaps.at[i]);
}
