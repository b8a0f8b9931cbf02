/* SPDX-License-Identifier: Apache-2.0 */

/* Every idle time of every device: between operations (gaps), and before the first and after the last as far as steps
 * reach. */

#include "engine/trace/gaps_host.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/select.h"
#include "engine/trace/analyse.h"

OWNER_POINTER(TraceHost, trace_host_free);

typedef struct Gathering {
    const TraceJob *job;
    TraceRank *rank;
    TraceHost *host;
    const char **texts; /* name -> its copy, NULL not yet */
    int64_t cut;        /* gaps over this length are kept, */
    size_t ties;        /* and so many of this length */
    /* of the device at hand */
    size_t nth;
    const TraceDevice *device;
    size_t step; /* cursor */
} Gathering;

/* ---- texts ---- */

static const char *text_of(Gathering *g, uint32_t name)
{
    if (name == PROFILE_NONE)
        return "";
    if (!g->texts[name])
        g->texts[name] = arena_strdup(g->job->arena, profile_text(g->job->index->profile, name, NULL));
    return g->texts[name];
}

static const char *gpu_text(Gathering *g, uint32_t row)
{
    return row == PROFILE_NONE ? "" : text_of(g, g->job->index->profile->gpu.name[row]);
}

static const char *thread_text(Gathering *g, uint32_t lane)
{
    const ProfileLane *thread;

    if (lane == PROFILE_NONE)
        return "";
    thread = &g->job->index->profile->lanes.at[lane];
    if (thread->label != PROFILE_NONE)
        return text_of(g, thread->label);
    if (thread->tid_name != PROFILE_NONE)
        return text_of(g, thread->tid_name);
    return arena_printf(g->job->arena, "%lld", (long long)thread->tid);
}

/* ---- one idle time ---- */

static bool is_short(const Gathering *g, const TraceIdle *idle)
{
    return (uint64_t)(idle->end - idle->start) < g->job->config->gap_threshold_ns;
}

static void find_blame(Gathering *g, const TraceIdle *idle, bool name, TraceBlame *ret)
{
    if (!is_short(g, idle)) {
        trace_host_blame(g->host, idle, name, ret);
        return;
    }
    *ret = (TraceBlame){.cause = TRACE_CAUSE_SHORT, .lane = PROFILE_NONE, .host_row = PROFILE_NONE};
    ret->slice_ns[TRACE_CAUSE_SHORT] = idle->end - idle->start;
}

static TraceGap gap_of(Gathering *g, const TraceIdle *idle, const TraceBlame *found)
{
    TraceGap gap = {.device = g->job->index->devices.at[g->nth],
                    .start = idle->start,
                    .end = idle->end,
                    .cause = found->cause,
                    .synced = found->synced,
                    .before = gpu_text(g, idle->before),
                    .after = gpu_text(g, idle->after),
                    .host = "",
                    .host_ns = found->host_ns,
                    .thread = thread_text(g, found->lane),
                    .step = trace_step_at(g->rank, idle->start)};

    memcpy(gap.slice_ns, found->slice_ns, sizeof(gap.slice_ns));
    if (found->host_row != PROFILE_NONE)
        gap.host = text_of(g, g->job->index->profile->host.name[found->host_row]);
    return gap;
}

/* Whether the gap is among the longest; of equals the first ones. */
static bool is_kept(Gathering *g, int64_t length)
{
    if (length != g->cut)
        return length > g->cut;
    if (!g->ties)
        return false;
    g->ties--;
    return true;
}

static bool is_gap(const Gathering *g, const TraceIdle *idle)
{
    return idle->start >= g->device->first && idle->end <= g->device->last;
}

static void take_idle(Gathering *g, const TraceIdle *idle)
{
    const bool gap = is_gap(g, idle), kept = gap && is_kept(g, idle->end - idle->start);
    TraceBlame found;

    find_blame(g, idle, kept, &found);
    trace_steps_add_idle(g->rank, g->nth, &g->step, idle->start, idle->end, found.cause);
    if (gap)
        trace_cause_add(g->rank->idle_by_cause, found.cause, idle->end - idle->start);
    if (kept)
        vec_push(&g->rank->gaps, gap_of(g, idle, &found));
}

/* ---- all of a device ---- */

typedef void (*IdleTaker)(Gathering *g, const TraceIdle *idle);

/* The first of those that start with `row` whose launch is known, else `row`. */
static uint32_t with_launch(const TraceIndex *index, size_t row, size_t last)
{
    const int64_t *start = index->profile->gpu.start;

    for (size_t i = row; i < last && start[i] == start[row]; i++)
        if (index->launch[i] != PROFILE_NONE)
            return (uint32_t)i;
    return (uint32_t)row;
}

static void each_gap(Gathering *g, IdleTaker taker, TraceIdle *ret_last)
{
    const TraceIndex *index = g->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;
    size_t first = index->device_first.at[g->nth], last = index->device_first.at[g->nth + 1];
    TraceIdle idle = {.start = profile_end(gpu, first), .before = (uint32_t)first};

    for (size_t row = first + 1; row < last; row++) {
        if (gpu->start[row] > idle.start) {
            idle.end = gpu->start[row];
            idle.after = with_launch(index, row, last);
            taker(g, &idle);
        }
        if (profile_end(gpu, row) > idle.start) {
            idle.start = profile_end(gpu, row);
            idle.before = (uint32_t)row;
        }
    }
    *ret_last = idle;
}

/* Idle time in front of the first operation, as far as steps reach. */
static void take_head(Gathering *g)
{
    const TraceIndex *index = g->job->index;
    size_t first = index->device_first.at[g->nth];
    TraceIdle idle = {.end = index->profile->gpu.start[first], .before = PROFILE_NONE};

    if (!index->steps.len || index->steps.at[0].start >= idle.end)
        return;
    idle.start = index->steps.at[0].start;
    idle.after = with_launch(index, first, index->device_first.at[g->nth + 1]);
    take_idle(g, &idle);
}

/* The same behind the last one, where `idle` starts. */
static void take_tail(Gathering *g, TraceIdle idle)
{
    const TraceIndex *index = g->job->index;
    const TraceStep *step = index->steps.len ? &index->steps.at[index->steps.len - 1] : NULL;

    if (!step || step->to <= idle.start)
        return;
    idle.end = step->to;
    idle.after = PROFILE_NONE;
    take_idle(g, &idle);
}

/* trace_devices has a row for each device of the index, in its order. */
static void begin_device(Gathering *g, size_t nth)
{
    g->nth = nth;
    g->device = &g->rank->devices.at[nth];
    g->step = 0;
    trace_host_device(g->host, nth);
}

/* ---- which to keep ---- */

typedef struct Lengths {
    Gathering base; /* first: what IdleTaker gets */
    int64_t *at;    /* all that `histogram` is of; one for each operation at most */
    TraceHistogram *histogram;
} Lengths;

static void note_length(Gathering *g, const TraceIdle *idle)
{
    Lengths *lengths = (Lengths *)g;

    if (!is_gap(g, idle))
        return;
    lengths->at[lengths->histogram->total] = idle->end - idle->start;
    trace_histogram_add(lengths->histogram, idle->end - idle->start);
}

/* The length over which gaps are kept, so that there are not more than asked for. */
static void find_cut(Gathering *g)
{
    const TraceIndex *index = g->job->index;
    CLEANUP_FREE int64_t *at = xmalloc((index->profile->gpu.len + 1) * sizeof(*at));
    CLEANUP_FREE TraceHistogram *histogram = xcalloc(1, sizeof(*histogram));
    size_t kept = g->job->config->gaps_kept, over = 0;
    Lengths lengths = {.base = *g, .at = at, .histogram = histogram};
    TraceIdle last;

    for (size_t nth = 0; nth < index->devices.len; nth++) {
        lengths.base.nth = nth;
        lengths.base.device = &g->rank->devices.at[nth];
        each_gap(&lengths.base, note_length, &last);
    }
    g->cut = kept ? 0 : INT64_MAX;
    if (kept && histogram->total > kept) {
        g->cut = trace_select_of(histogram, at, histogram->total - kept);
        for (size_t i = 0; i < histogram->total; i++)
            over += at[i] > g->cut;
        g->ties = kept - over;
    }
}

static int by_length(const void *a_, const void *b_)
{
    const TraceGap *a = a_, *b = b_;
    int64_t a_length = a->end - a->start, b_length = b->end - b->start;

    if (a_length != b_length)
        return a_length > b_length ? -1 : 1;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

void trace_gaps(const TraceJob *job, TraceRank *rank)
{
    CLEANUP(trace_host_free_at) TraceHost *host = trace_host_new(job);
    CLEANUP_FREE const char **texts = xcalloc(profile_name_count(job->index->profile) + 1, sizeof(*texts));
    Gathering g = {.job = job, .rank = rank, .host = host, .texts = texts};
    TraceIdle last;

    trace_steps_prepare(job, rank);
    find_cut(&g);
    for (size_t nth = 0; nth < job->index->devices.len; nth++) {
        begin_device(&g, nth);
        take_head(&g);
        each_gap(&g, take_idle, &last);
        take_tail(&g, last);
    }
    if (rank->gaps.len)
        qsort(rank->gaps.at, rank->gaps.len, sizeof(*rank->gaps.at), by_length);
}
