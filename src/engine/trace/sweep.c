/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/trace/sweep.h"

static inline void load_operation(TraceSweep *sweep)
{
    const ProfileEvents *gpu = &sweep->index->profile->gpu;
    const bool more = sweep->row < sweep->last;

    sweep->next = more ? gpu->start[sweep->row] : INT64_MAX;
    sweep->next_end = more ? profile_end(gpu, sweep->row) : INT64_MAX;
}

void trace_sweep_init(TraceSweep *sweep, const TraceIndex *index, size_t device)
{
    *sweep =
        (TraceSweep){.index = index, .row = index->device_first.at[device], .last = index->device_first.at[device + 1]};
    for (size_t c = 0; c < TRACE_CLASS_COUNT; c++)
        sweep->end[c] = INT64_MIN;
    load_operation(sweep);
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
        load_operation(sweep);
    }
}
