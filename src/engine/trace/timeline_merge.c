/* SPDX-License-Identifier: Apache-2.0 */
/* Laying the picture of a window over that of the windows before it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/owner.h"
#include "engine/trace/windows.h"

enum { BUCKETS_MAX = 8192, CLASSES = 3 };

static int64_t lane_end(const TraceTimelineLane *lane)
{
    return lane->first + (int64_t)(lane->busy.len / CLASSES) * lane->bucket_ns;
}

static int64_t align_down(int64_t time, int64_t bucket)
{
    return time & ~(bucket - 1);
}

/* Adds the shares of `lane` to sums in buckets of `bucket` from `first` on. */
static void add_shares(const TraceTimelineLane *lane, int64_t first, int64_t bucket, double *sums)
{
    double part = (double)lane->bucket_ns / (double)bucket;
    for (size_t i = 0; i < lane->busy.len; i++) {
        int64_t time = lane->first + (int64_t)(i / CLASSES) * lane->bucket_ns;
        sums[(size_t)((time - first) / bucket) * CLASSES + i % CLASSES] += part * lane->busy.at[i];
    }
}

static void merge_busy(TraceTimelineLane *into, const TraceTimelineLane *next)
{
    int64_t bucket = into->bucket_ns > next->bucket_ns ? into->bucket_ns : next->bucket_ns;
    int64_t from = into->first < next->first ? into->first : next->first;
    int64_t to = lane_end(into) > lane_end(next) ? lane_end(into) : lane_end(next);
    while ((to - 1 - align_down(from, bucket)) / bucket >= BUCKETS_MAX)
        bucket *= 2;
    int64_t first = align_down(from, bucket);
    size_t count = to > first ? ((size_t)((to - 1 - first) / bucket) + 1) * CLASSES : 0;
    CLEANUP_FREE double *sums = xcalloc(count, sizeof(*sums));
    add_shares(into, first, bucket, sums);
    add_shares(next, first, bucket, sums);
    vec_reserve(&into->busy, count);
    into->busy.len = count;
    into->first = first;
    into->bucket_ns = bucket;
    for (size_t i = 0; i < count; i++)
        into->busy.at[i] = sums[i] <= 0 ? 0 : sums[i] < 1 ? 1 : sums[i] > 255 ? 255 : (uint8_t)lrint(sums[i]);
}

static int by_length(const void *a, const void *b)
{
    const TraceSlice *x = a, *y = b;
    int64_t x_ns = x->end - x->start, y_ns = y->end - y->start;
    if (x_ns != y_ns)
        return x_ns > y_ns ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (x->text > y->text) - (x->text < y->text);
}

static int by_start(const void *a, const void *b)
{
    const TraceSlice *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return by_length(a, b);
}

static void merge_slices(TraceTimelineLane *into, TraceTimelineLane *next, size_t keep, const uint32_t *text)
{
    into->slices_left_out += next->slices_left_out;
    for (size_t i = 0; i < next->slices.len; i++) {
        TraceSlice slice = next->slices.at[i];
        slice.text = text[slice.text];
        vec_push(&into->slices, slice);
    }
    if (into->slices.len <= keep)
        return;
    qsort(into->slices.at, into->slices.len, sizeof(*into->slices.at), by_length);
    into->slices_left_out += into->slices.len - keep;
    into->slices.len = keep;
    if (keep > 0)
        qsort(into->slices.at, keep, sizeof(*into->slices.at), by_start);
}

static TraceTimelineLane *find_lane(TraceTimeline *timeline, const TraceTimelineLane *like)
{
    for (size_t i = 0; i < timeline->lanes.len; i++) {
        TraceTimelineLane *lane = &timeline->lanes.at[i];
        if (lane->gpu == like->gpu && lane->device == like->device && strcmp(lane->name, like->name) == 0)
            return lane;
    }
    TraceTimelineLane fresh = {.gpu = like->gpu,
                               .device = like->device,
                               .name = like->name,
                               .first = like->first,
                               .bucket_ns = like->bucket_ns};
    vec_push(&timeline->lanes, fresh);
    return &timeline->lanes.at[timeline->lanes.len - 1];
}

static int by_place(const void *a, const void *b)
{
    const TraceTimelineLane *x = a, *y = b;
    if (x->gpu != y->gpu)
        return x->gpu ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return 0;
}

/* Streams before threads, as they came otherwise. */
static void order_lanes(TraceTimeline *timeline)
{
    for (size_t i = 1; i < timeline->lanes.len; i++) { /* few, nearly in order; keeps equals as they are */
        TraceTimelineLane lane = timeline->lanes.at[i];
        size_t at = i;
        for (; at > 0 && by_place(&timeline->lanes.at[at - 1], &lane) > 0; at--)
            timeline->lanes.at[at] = timeline->lanes.at[at - 1];
        timeline->lanes.at[at] = lane;
    }
}

void trace_timeline_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena)
{
    TraceTimeline *timeline = &into->timeline, *more = &next->timeline;
    CLEANUP(map_done) Map texts;
    map_init(&texts);
    CLEANUP_FREE uint32_t *text = xcalloc(more->texts.len + 1, sizeof(*text));
    for (size_t i = 0; i < timeline->texts.len; i++)
        map_put(&texts, timeline->texts.at[i], (void *)(uintptr_t)(i + 1)); /* NOLINT(performance-no-int-to-ptr) */
    for (size_t i = 0; i < more->texts.len; i++) {
        uintptr_t known = (uintptr_t)map_get(&texts, more->texts.at[i]);
        if (known == 0) {
            vec_push(&timeline->texts, (const char *)arena_strdup(arena, more->texts.at[i]));
            known = timeline->texts.len;
            map_put(&texts, more->texts.at[i], (void *)known); /* NOLINT(performance-no-int-to-ptr) */
        }
        text[i] = (uint32_t)known - 1;
    }
    for (size_t i = 0; i < more->lanes.len; i++) {
        TraceTimelineLane *from = &more->lanes.at[i];
        TraceTimelineLane *lane = find_lane(timeline, from);
        merge_busy(lane, from);
        merge_slices(lane, from, config->timeline_slices, text);
        vec_done(&from->busy);
        vec_done(&from->slices);
    }
    order_lanes(timeline);
    vec_done(&more->lanes);
    vec_done(&more->texts);
}
