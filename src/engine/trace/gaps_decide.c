/* SPDX-License-Identifier: Apache-2.0 */

/* From what the host did during a gap to the gap's one cause. */

#include "engine/trace/gaps_host.h"

const char *const trace_cause_words[TRACE_CAUSE_COUNT] = {
    [TRACE_CAUSE_DATA_LOADING] = "data_loading",
    [TRACE_CAUSE_HOST_BOUND] = "host_bound",
    [TRACE_CAUSE_SYNCHRONISATION] = "synchronisation",
    [TRACE_CAUSE_COPY] = "copy",
    [TRACE_CAUSE_ALLOCATOR] = "allocator",
    [TRACE_CAUSE_COLLECTIVE_WAIT] = "collective_wait",
    [TRACE_CAUSE_PYTHON] = "python",
    [TRACE_CAUSE_COMPILE] = "compile",
    [TRACE_CAUSE_QUEUED] = "queued",
    [TRACE_CAUSE_UNKNOWN] = "unknown",
    [TRACE_CAUSE_SHORT] = "short",
};

/* Causes that say what to change, and so come before a synchronisation that led into them. */
static bool is_telling(TraceCause cause)
{
    return cause == TRACE_CAUSE_DATA_LOADING || cause == TRACE_CAUSE_ALLOCATOR || cause == TRACE_CAUSE_COMPILE ||
           cause == TRACE_CAUSE_COPY || cause == TRACE_CAUSE_COLLECTIVE_WAIT;
}

TraceCause trace_gap_decide(const int64_t slice_ns[TRACE_CAUSE_COUNT], bool synced)
{
    TraceCause telling = TRACE_CAUSE_COUNT, best = TRACE_CAUSE_COUNT;
    int64_t total = 0, most = 0, queued = slice_ns[TRACE_CAUSE_QUEUED];

    for (TraceCause cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        total += slice_ns[cause];
        if (is_telling(cause) && slice_ns[cause] > (telling == TRACE_CAUSE_COUNT ? 0 : slice_ns[telling]))
            telling = cause;
    }
    if (queued == total)
        return TRACE_CAUSE_QUEUED;
    if (telling != TRACE_CAUSE_COUNT && slice_ns[telling] >= total - slice_ns[telling])
        return telling;
    if (synced)
        return TRACE_CAUSE_SYNCHRONISATION;
    for (TraceCause cause = 0; cause < TRACE_CAUSE_SHORT; cause++) {
        int64_t time = slice_ns[cause];

        if (cause == TRACE_CAUSE_QUEUED) /* the launch came after the gap began */
            time = queued > TRACE_LAUNCH_LATENCY_NS ? queued - TRACE_LAUNCH_LATENCY_NS : 0;
        if (time > most) {
            most = time;
            best = cause;
        }
    }
    return best == TRACE_CAUSE_COUNT ? TRACE_CAUSE_SHORT : best;
}
