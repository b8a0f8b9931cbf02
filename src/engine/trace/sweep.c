/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/trace/sweep.h"

/* Goes to the next operation with a part in the scope, this one included. */
static inline void find_next(TraceSweep *sweep)
{
    const ProfileEvents *gpu = &sweep->index->profile->gpu;

    for (; sweep->row < sweep->last; sweep->row++) {
        if (trace_clip(gpu, sweep->row, sweep->scope, &sweep->next, &sweep->next_end))
            return;
        if (gpu->start[sweep->row] >= sweep->scope.to)
            sweep->row = sweep->last - 1;
    }
    sweep->next = INT64_MAX;
}

void trace_sweep_init(TraceSweep *sweep, const TraceIndex *index, size_t device, TraceScope scope)
{
    *sweep = (TraceSweep){.index = index,
                          .scope = scope,
                          .row = index->device_first.at[device],
                          .last = index->device_first.at[device + 1]};
    for (size_t c = 0; c < TRACE_CLASS_COUNT; c++)
        sweep->end[c] = INT64_MIN;
    find_next(sweep);
    sweep->at = sweep->next;
}

bool trace_sweep_next(TraceSweep *sweep, TraceSegment *ret)
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
        find_next(sweep);
    }
}
