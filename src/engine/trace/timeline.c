/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of bounded size of what streams and threads did: per lane the share of each of at most BUCKETS_MAX equal
 * times that was busy, and the longest events. Buckets are a power of two long and begin at a multiple of that. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/select.h"
#include "engine/trace/tables.h"

enum {
    BUCKETS_MAX = 8192,
    LANES_MAX = 64, /* of streams, and as many of threads: those with most events */
    CLASSES = 3,
    DEPTH_MAX = 255,
};

/* ---- buckets ---- */

/* Times of one lane, to become shares. */
typedef struct Fill {
    int64_t first, bucket; /* 1 << shift */
    int shift;
    size_t count;
    int64_t *ns;          /* count * CLASSES */
    int64_t end[CLASSES]; /* up to where the class is filled: what overlaps counts once */
    size_t used;          /* buckets that hold anything, from the first */
} Fill;

static void fill_add(Fill *fill, size_t class, int64_t start, int64_t end)
{
    start = start > fill->end[class] ? start : fill->end[class];
    if (end <= start) /* within what is filled */
        return;
    fill->end[class] = end;
    size_t at = (size_t)(start - fill->first) >> fill->shift;
    size_t last = (size_t)(end - 1 - fill->first) >> fill->shift;
    fill->used = last + 1 > fill->used ? last + 1 : fill->used;
    for (; at <= last; at++) {
        int64_t next = fill->first + ((int64_t)at + 1) * fill->bucket;
        int64_t until = end < next ? end : next;
        fill->ns[at * CLASSES + class] += until - start;
        start = until;
    }
}

/* A share of 0 means nothing at all. */
static uint8_t bucket_share(int64_t ns, int64_t bucket)
{
    double part = (double)ns / (double)bucket * 255;
    return ns == 0 ? 0 : part < 1 ? 1 : part > 255 ? 255 : (uint8_t)lrint(part);
}

static void fill_finish(Fill *fill, TraceTimelineLane *lane)
{
    lane->first = fill->first;
    lane->bucket_ns = fill->bucket;
    vec_reserve(&lane->busy, fill->used * CLASSES);
    lane->busy.len = fill->used * CLASSES;
    for (size_t i = 0; i < lane->busy.len; i++)
        lane->busy.at[i] = bucket_share(fill->ns[i], fill->bucket);
    memset(fill->ns, 0, fill->used * CLASSES * sizeof(*fill->ns));
    fill->used = 0;
    for (size_t i = 0; i < CLASSES; i++)
        fill->end[i] = fill->first;
}

/* ---- one lane ---- */

typedef struct Painter {
    const TraceJob *job;
    const TraceIndex *index;
    const Profile *profile;
    TraceTimeline *timeline;
    TraceNamed texts; /* of timeline->texts */
    Fill fill;
    int64_t *durations; /* of the lane in hand */
} Painter;

static uint32_t paint_text(Painter *painter, uint32_t name)
{
    const uint32_t row = trace_named_row(&painter->texts, name);
    if (row == painter->timeline->texts.len)
        vec_push(&painter->timeline->texts, trace_copy_text(painter->job, name));
    return row;
}

static uint8_t depth_of(const uint32_t *parent, uint32_t row)
{
    int depth = 0;
    for (uint32_t above = parent[row]; above != PROFILE_NONE && depth < DEPTH_MAX; above = parent[above])
        depth++;
    return (uint8_t)depth;
}

static size_t host_fill_class(const ProfileEvents *host, size_t row)
{
    return host->kind[row] == PROFILE_OP ? 0 : host->kind[row] == PROFILE_CALL ? 1 : 2;
}

static void paint_busy(Painter *painter, const ProfileEvents *table, bool gpu, uint32_t row)
{
    if (!gpu && painter->index->host_class[row] == TRACE_HOST_MARK)
        return; /* a name for a time, not something that was done */
    size_t class = gpu ? (size_t)trace_gpu_class(painter->index, row) : host_fill_class(table, row);
    fill_add(&painter->fill, class, table->start[row], profile_end(table, row));
}

/* Paints the lane's rows: rows[i], or first + i where `rows` is NULL. */
static void paint_lane(Painter *painter, TraceTimelineLane *lane, const uint32_t *rows, size_t first, size_t len)
{
    const ProfileEvents *table = lane->gpu ? &painter->profile->gpu : &painter->profile->host;
    size_t keep = painter->job->config->timeline_slices, count = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t row = rows ? rows[i] : (uint32_t)(first + i);
        paint_busy(painter, table, lane->gpu, row);
        painter->durations[count++] = table->duration[row];
    }
    fill_finish(&painter->fill, lane);
    TraceLongest longest = trace_find_longest(painter->durations, count, keep);
    lane->slices_left_out = count > keep ? count - keep : 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t row = rows ? rows[i] : (uint32_t)(first + i);
        if (!trace_is_longest(&longest, table->duration[row]))
            continue;
        TraceSlice slice = {.start = table->start[row],
                            .end = profile_end(table, row),
                            .text = paint_text(painter, table->name[row]),
                            .kind = lane->gpu ? painter->index->gpu_class[row] : painter->index->host_class[row],
                            .depth = lane->gpu ? 0 : depth_of(painter->index->parent, row)};
        vec_push(&lane->slices, slice);
    }
}

/* ---- choice of lanes ---- */

static const char *lane_name(const Painter *painter, const ProfileLane *lane)
{
    Arena *arena = painter->job->arena;
    const char *label = profile_text(painter->profile, lane->label, NULL);
    const char *word = lane->gpu ? "stream" : "thread";
    bool text = lane->tid_name != PROFILE_NONE;
    const char *name = text ? arena_strdup(arena, profile_text(painter->profile, lane->tid_name, NULL))
                            : arena_printf(arena, "%s %lld", word, (long long)lane->tid);
    size_t len = strlen(name), label_len = strlen(label);
    while (label_len > 0 && label[label_len - 1] == ' ')
        label_len--;
    if (label_len == 0)
        return name;
    if (strncmp(label, name, len) == 0)
        return arena_strndup(arena, label, label_len);
    return arena_printf(arena, "%s (%.*s)", name, (int)label_len, label);
}

/* Paints those streams, or threads, that have most rows. */
static void paint_lanes(Painter *painter, bool gpu)
{
    const size_t *first = gpu ? painter->index->stream_first : painter->index->lane_first;
    const uint32_t *rows = gpu ? painter->index->stream_rows : NULL;
    const size_t lanes = painter->profile->lanes.len;
    CLEANUP_FREE int64_t *sizes = xcalloc(lanes + 1, sizeof(*sizes));
    size_t used = 0;
    for (size_t i = 0; i < lanes; i++) {
        if (first[i + 1] > first[i])
            sizes[used++] = (int64_t)(first[i + 1] - first[i]);
    }
    TraceLongest most = trace_find_longest(sizes, used, LANES_MAX);
    for (size_t i = 0; i < lanes; i++) {
        const size_t len = first[i + 1] - first[i];
        const ProfileLane *lane = &painter->profile->lanes.at[i];
        if (len == 0 || !trace_is_longest(&most, (int64_t)len))
            continue;
        TraceTimelineLane picture = {.gpu = gpu, .device = lane->device, .name = lane_name(painter, lane)};
        paint_lane(painter, &picture, rows ? rows + first[i] : NULL, first[i], len);
        vec_push(&painter->timeline->lanes, picture);
    }
}

/* ---- all lanes ---- */

void trace_timeline(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    int64_t from = INT64_MAX, to = INT64_MIN;
    if (!job->config->timeline)
        return;
    trace_widen(&profile->gpu, &from, &to);
    trace_widen(&profile->host, &from, &to);
    if (from > to)
        return;
    Painter painter = {.job = job, .index = job->index, .profile = profile, .timeline = &rank->timeline};
    size_t most = profile->gpu.len > profile->host.len ? profile->gpu.len : profile->host.len;
    trace_named_init(&painter.texts, profile);
    painter.durations = xcalloc(most, sizeof(*painter.durations));
    while ((to >> painter.fill.shift) - (from >> painter.fill.shift) >= BUCKETS_MAX)
        painter.fill.shift++;
    painter.fill.bucket = INT64_C(1) << painter.fill.shift;
    painter.fill.first = from & ~(painter.fill.bucket - 1); /* holds for negative times too */
    painter.fill.count = (size_t)((to - painter.fill.first) >> painter.fill.shift) + 1;
    painter.fill.ns = xcalloc(painter.fill.count * CLASSES, sizeof(*painter.fill.ns));
    for (size_t i = 0; i < CLASSES; i++)
        painter.fill.end[i] = painter.fill.first;
    paint_lanes(&painter, true);
    paint_lanes(&painter, false);
    trace_named_done(&painter.texts);
    free(painter.durations);
    free(painter.fill.ns);
}
