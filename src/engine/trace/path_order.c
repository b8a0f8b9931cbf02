/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/path_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"

/* ---- operations by stream and end ---- */

static int by_end(const void *a, const void *b, void *context)
{
    const ProfileEvents *gpu = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t x_end = profile_end(gpu, x), y_end = profile_end(gpu, y);
    if (x_end != y_end)
        return x_end < y_end ? -1 : 1;
    return (x > y) - (x < y);
}

static bool is_sorted(const ProfileEvents *gpu, const uint32_t *rows, size_t len)
{
    for (size_t i = 1; i < len; i++)
        if (profile_end(gpu, rows[i - 1]) > profile_end(gpu, rows[i]))
            return false;
    return true;
}

static size_t stream_len(const PathOrder *order, uint32_t lane)
{
    return order->stream_first[lane + 1] - order->stream_first[lane];
}

static int by_length(const void *a, const void *b, void *context)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    size_t x_len = stream_len(context, x), y_len = stream_len(context, y);
    if (x_len != y_len)
        return x_len > y_len ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort_stream(PathOrder *order, uint32_t lane)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    const size_t first = order->stream_first[lane], len = stream_len(order, lane);
    if (is_sorted(gpu, order->rows + first, len))
        return;
    if (!order->own_rows) { /* operations of one stream that overlap: rare */
        order->own_rows = xmalloc(gpu->len * sizeof(*order->own_rows));
        memcpy(order->own_rows, order->rows, gpu->len * sizeof(*order->own_rows));
        order->rows = order->own_rows;
    }
    qsort_r(order->own_rows + first, len, sizeof(*order->own_rows), by_end, (void *)(uintptr_t)gpu);
}

static void order_streams(PathOrder *order)
{
    size_t lanes = order->profile->lanes.len;
    order->rows = order->index->stream_rows;
    order->stream_first = order->index->stream_first;
    order->stream_next = xcalloc(lanes + 1, sizeof(*order->stream_next));
    for (uint32_t lane = 0; lane < lanes; lane++) {
        order->stream_next[lane] = order->stream_first[lane + 1];
        sort_stream(order, lane);
        if (stream_len(order, lane) > 0)
            vec_push(&order->streams, lane);
    }
    if (order->streams.len > PATH_STREAMS_MAX) {
        qsort_r(order->streams.at, order->streams.len, sizeof(*order->streams.at), by_length, order);
        order->streams.len = PATH_STREAMS_MAX;
    }
}

/* ---- host threads ---- */

static int by_launches(const void *a, const void *b)
{
    const PathThread *x = a, *y = b;
    if (x->launches != y->launches)
        return x->launches > y->launches ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

static void find_threads(PathOrder *order)
{
    const Profile *profile = order->profile;
    size_t lanes = profile->lanes.len;
    CLEANUP_FREE uint64_t *count = xcalloc(lanes + 1, sizeof(*count));
    bool any = false;
    for (size_t i = 0; i < profile->gpu.len; i++) {
        if (order->index->launch[i] != PROFILE_NONE) {
            count[profile->host.lane[order->index->launch[i]]]++;
            any = true;
        }
    }
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint64_t rows = order->index->lane_first[lane + 1] - order->index->lane_first[lane];
        if (any ? count[lane] > 0 : rows > 0)
            vec_push(&order->threads, ((PathThread){.lane = lane, .launches = any ? count[lane] : rows}));
    }
    if (order->threads.len > 1)
        qsort(order->threads.at, order->threads.len, sizeof(*order->threads.at), by_launches);
    size_t most = any ? PATH_THREADS_MAX : 1;
    if (order->threads.len > most)
        order->threads.len = most;
}

static void find_busy(const PathOrder *order, PathThread *thread)
{
    const ProfileEvents *host = &order->profile->host;
    const size_t *first = &order->index->lane_first[thread->lane];
    for (size_t i = first[0]; i < first[1]; i++) {
        if (host->kind[i] == PROFILE_PYTHON || order->index->host_class[i] == TRACE_HOST_MARK || host->duration[i] == 0)
            continue;
        int64_t end = profile_end(host, i);
        PathSpan *last = thread->busy.len > 0 ? &thread->busy.at[thread->busy.len - 1] : NULL;
        if (!last || host->start[i] > last->end)
            vec_push(&thread->busy, ((PathSpan){.start = host->start[i], .end = end}));
        else if (end > last->end)
            last->end = end;
    }
    thread->cursor = thread->busy.len;
}

static void find_data(PathOrder *order)
{
    const TraceIndex *index = order->index;
    size_t len = order->profile->host.len;
    if (!memchr(index->host_class, TRACE_HOST_DATA, len))
        return;
    order->in_data = xcalloc(len / 8 + 1, 1);
    for (size_t i = 0; i < len; i++) {
        uint32_t parent = index->parent[i];
        if (index->host_class[i] == TRACE_HOST_DATA ||
            (parent != PROFILE_NONE && (order->in_data[parent / 8] >> parent % 8 & 1)))
            order->in_data[i / 8] |= (uint8_t)(1U << i % 8);
    }
}

/* ---- recorded waits ---- */

static uint32_t find_stream(const PathOrder *order, int32_t device, int64_t stream)
{
    for (size_t i = 0; i < order->streams.len; i++) {
        const ProfileLane *lane = &order->profile->lanes.at[order->streams.at[i]];
        if (lane->tid == stream && (lane->device == device || device < 0))
            return order->streams.at[i];
    }
    return PROFILE_NONE;
}

static int by_wait(const void *a, const void *b)
{
    const PathWait *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

static void find_waits(PathOrder *order)
{
    const Profile *profile = order->profile;
    uint32_t name = profile_name_find(profile, "Stream Wait Event");
    for (size_t i = 0; i < profile->syncs.len && name != PROFILE_NONE; i++) {
        const ProfileSync *sync = &profile->syncs.at[i];
        if (sync->name != name || sync->stream < 0 || sync->wait_stream < 0)
            continue;
        PathWait wait = {.lane = find_stream(order, sync->device, sync->stream),
                         .other = find_stream(order, sync->device, sync->wait_stream),
                         .start = sync->start};
        if (wait.lane != PROFILE_NONE && wait.other != PROFILE_NONE && wait.lane != wait.other)
            vec_push(&order->waits, wait);
    }
    if (order->waits.len > 1)
        qsort(order->waits.at, order->waits.len, sizeof(*order->waits.at), by_wait);
}

void path_order_init(PathOrder *order, const TraceIndex *index)
{
    *order = (PathOrder){.index = index, .profile = index->profile};
    size_t lanes = order->profile->lanes.len;
    order_streams(order);
    order->host_next = xcalloc(lanes + 1, sizeof(*order->host_next));
    for (size_t lane = 0; lane < lanes; lane++)
        order->host_next[lane] = index->lane_first[lane + 1];
    find_threads(order);
    for (size_t i = 0; i < order->threads.len; i++)
        find_busy(order, &order->threads.at[i]);
    find_data(order);
    find_waits(order);
}

void path_order_done(PathOrder *order)
{
    for (size_t i = 0; i < order->threads.len; i++)
        vec_done(&order->threads.at[i].busy);
    vec_done(&order->threads);
    vec_done(&order->streams);
    vec_done(&order->waits);
    free(order->own_rows);
    free(order->stream_next);
    free(order->host_next);
    free(order->in_data);
    *order = (PathOrder){0};
}

/* ---- look-ups ---- */

static void seek_stream(PathOrder *order, uint32_t stream, int64_t time)
{
    size_t first = order->stream_first[stream], next = order->stream_next[stream];
    while (next > first && profile_end(&order->profile->gpu, order->rows[next - 1]) > time)
        next--;
    order->stream_next[stream] = next;
}

uint32_t path_order_last(PathOrder *order, uint32_t stream, int64_t time)
{
    seek_stream(order, stream, time);
    size_t next = order->stream_next[stream];
    return next > order->stream_first[stream] ? order->rows[next - 1] : PROFILE_NONE;
}

uint32_t path_order_last_of_device(PathOrder *order, int64_t device, int64_t time)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (size_t i = 0; i < order->streams.len; i++) {
        uint32_t lane = order->streams.at[i];
        if (device >= 0 && order->profile->lanes.at[lane].device != device)
            continue;
        uint32_t row = path_order_last(order, lane, time);
        if (row != PROFILE_NONE && (best == PROFILE_NONE || profile_end(gpu, row) > profile_end(gpu, best) ||
                                    (profile_end(gpu, row) == profile_end(gpu, best) && row > best)))
            best = row;
    }
    return best;
}

static bool runs_rather(const PathOrder *order, uint32_t row, uint32_t best)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    if (best == PROFILE_NONE)
        return true;
    if (order->index->gpu_class[row] != order->index->gpu_class[best])
        return order->index->gpu_class[row] < order->index->gpu_class[best];
    if (gpu->start[row] != gpu->start[best])
        return gpu->start[row] > gpu->start[best];
    return row < best;
}

uint32_t path_order_running(PathOrder *order, int64_t time)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (size_t i = 0; i < order->streams.len; i++) {
        uint32_t lane = order->streams.at[i];
        size_t first = order->stream_first[lane], next = order->stream_next[lane];
        while (next > first && profile_end(gpu, order->rows[next - 1]) >= time)
            next--;
        bool runs = next < order->stream_next[lane] && gpu->start[order->rows[next]] < time;
        order->stream_next[lane] = next + runs; /* what is behind is of no use for earlier times */
        if (runs && runs_rather(order, order->rows[next], best))
            best = order->rows[next];
    }
    return best;
}

void path_order_use(PathOrder *order, uint32_t row)
{
    uint32_t lane = order->profile->gpu.lane[row];
    size_t first = order->stream_first[lane];
    while (order->stream_next[lane] > first && order->rows[--order->stream_next[lane]] != row)
        ;
}

uint32_t path_order_host(PathOrder *order, uint32_t lane, int64_t time)
{
    const int64_t *start = order->profile->host.start;
    size_t low = order->index->lane_first[lane], high = order->host_next[lane];
    if (high > low && start[high - 1] < time) /* as a rule it is the next one */
        low = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (start[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    order->host_next[lane] = low;
    return low > order->index->lane_first[lane] ? (uint32_t)(low - 1) : PROFILE_NONE;
}

void path_order_host_use(PathOrder *order, uint32_t lane, uint32_t row)
{
    order->host_next[lane] = row;
}

int64_t path_order_busy(PathThread *thread, int64_t time)
{
    while (thread->cursor > 0 && thread->busy.at[thread->cursor - 1].start >= time)
        thread->cursor--;
    if (thread->cursor == 0)
        return INT64_MIN;
    int64_t end = thread->busy.at[thread->cursor - 1].end;
    return end < time ? end : time;
}

uint32_t path_order_wait(const PathOrder *order, uint32_t stream, int64_t after, int64_t before)
{
    size_t low = 0, high = order->waits.len;
    while (low < high) { /* the first one behind (stream, before] */
        size_t middle = low + (high - low) / 2;
        const PathWait *wait = &order->waits.at[middle];
        if (wait->lane < stream || (wait->lane == stream && wait->start <= before))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || order->waits.at[low - 1].lane != stream || order->waits.at[low - 1].start <= after)
        return PROFILE_NONE;
    return order->waits.at[low - 1].other;
}
