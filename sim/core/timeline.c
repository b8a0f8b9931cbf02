/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what is not of one GPU: the node's condition, the list of events, the pids of works. */
#include "sim/core/plan.h"
#include "sim/core/seq.h"
#include "sim/core/state.h"

void sim_node_at(SimImage *image, uint64_t t_ns, SimNodeSeg *ret)
{
    uint32_t seq;
    do {
        seq = seq_begin(image);
        uint32_t n = seq_get(image->node_seg_count), i = 0;
        if (n > SIM_NODE_SEG_MAX)
            n = SIM_NODE_SEG_MAX;
        while (i + 1 < n && seq_get(image->node_segs[i + 1].t_ns) <= t_ns)
            i++;
        seq_load(ret, &image->node_segs[i], sizeof *ret);
    } while (seq_retry(image, seq));
}

static uint32_t event_count(const SimImage *image)
{
    uint32_t n = seq_get(image->event_count);
    return n < SIM_EVENT_MAX ? n : SIM_EVENT_MAX;
}

static uint32_t event_upper(const SimImage *image, uint64_t t_ns)
{
    uint32_t lo = 0, hi = event_count(image);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (seq_get(image->events[mid].t_ns) <= t_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint32_t sim_event_index_after(SimImage *image, uint64_t t_ns)
{
    uint32_t seq, at;
    do {
        seq = seq_begin(image);
        at = event_upper(image, t_ns);
    } while (seq_retry(image, seq));
    return at;
}

uint32_t sim_event_next(SimImage *image, uint32_t from, uint64_t until_ns, SimEvent *ret, uint64_t *ret_next_ns)
{
    uint32_t seq, found;
    uint64_t next;
    do {
        seq = seq_begin(image);
        uint32_t end = event_upper(image, until_ns);
        found = from < end ? from + 1 : 0;
        next = end < event_count(image) ? seq_get(image->events[end].t_ns) : SIM_FOREVER;
        if (found)
            seq_load(ret, &image->events[from], sizeof *ret);
    } while (seq_retry(image, seq));
    if (ret_next_ns)
        *ret_next_ns = next;
    return found;
}

uint32_t sim_work_pid(SimImage *image, int32_t work)
{
    if (work < 0 || work >= SIM_WORK_MAX)
        return 0;
    uint32_t live = atomic_load_explicit(&image->works[work].live_pid, memory_order_relaxed);
    return live ? live : image->works[work].fixed_pid;
}
