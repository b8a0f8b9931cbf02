/* SPDX-License-Identifier: Apache-2.0 */
/* Critical paths of the steps, or of everything where there are none: ranges, and what the walk hands out summed by
 * kind and name. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/analyse.h"
#include "engine/trace/path_walk.h"

enum { NAMES_KEPT = 100 /* per path */ };

const char *const trace_path_words[TRACE_PATH_KIND_COUNT] = {
    [TRACE_PATH_HOST] = "host",       [TRACE_PATH_DATA] = "data_loading",
    [TRACE_PATH_COMPUTE] = "compute", [TRACE_PATH_COMMUNICATION] = "communication",
    [TRACE_PATH_COPY] = "copy",       [TRACE_PATH_LAUNCH] = "launch",
    [TRACE_PATH_QUEUE] = "queue",
};

typedef struct PathSum {
    uint32_t key; /* name * kinds + kind */
    int64_t count, total_ns;
} PathSum;

typedef struct Sums {
    uint32_t *slot; /* key -> 1 + index in rows, 0 none */
    uint32_t names; /* how many the profile has: the name of what has none */
    VEC(PathSum) rows;
    TracePath *path;
} Sums;

static void add_path_time(void *context, TracePathKind kind, uint32_t name, int64_t ns)
{
    Sums *sums = context;
    uint32_t key = (name == PROFILE_NONE ? sums->names : name) * (uint32_t)TRACE_PATH_KIND_COUNT + (uint32_t)kind;
    if (sums->slot[key] == 0) {
        vec_push(&sums->rows, ((PathSum){.key = key}));
        sums->slot[key] = (uint32_t)sums->rows.len;
    }
    PathSum *row = &sums->rows.at[sums->slot[key] - 1];
    row->count++;
    row->total_ns += ns;
    sums->path->by_kind_ns[kind] += ns;
}

static int by_time(const void *a, const void *b)
{
    const PathSum *x = a, *y = b;
    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Moves the rows to the path, and clears the sums. */
static void finish_path(Sums *sums, const Profile *profile, Arena *arena)
{
    if (sums->rows.len > 1)
        qsort(sums->rows.at, sums->rows.len, sizeof(*sums->rows.at), by_time);
    for (size_t i = 0; i < sums->rows.len; i++) {
        const PathSum *row = &sums->rows.at[i];
        uint32_t name = row->key / (uint32_t)TRACE_PATH_KIND_COUNT;
        sums->slot[row->key] = 0;
        if (i >= NAMES_KEPT)
            continue;
        const char *text = name == sums->names ? "(no event)" : profile_text(profile, name, NULL);
        vec_push(&sums->path->names,
                 ((TracePathName){.name = arena_strdup(arena, text),
                                  .kind = (TracePathKind)(row->key % (uint32_t)TRACE_PATH_KIND_COUNT),
                                  .count = row->count,
                                  .total_ns = row->total_ns}));
    }
    vec_clear(&sums->rows);
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct Range {
    const char *what;
    int64_t from, to;
} Range;
typedef VEC(Range) RangeVec;

/* From the first to the last work of the GPU and of the threads that launch; empty (from > to) where there is none. */
static Range whole_range(const PathOrder *order)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    Range all = {.what = "all", .from = INT64_MAX, .to = INT64_MIN};
    for (size_t i = 0; i < gpu->len; i++) {
        all.from = at_most(all.from, gpu->start[i]);
        all.to = at_least(all.to, profile_end(gpu, i));
    }
    for (size_t i = 0; i < order->threads.len; i++) {
        const PathThread *thread = &order->threads.at[i];
        if (thread->busy.len == 0)
            continue;
        all.from = at_most(all.from, thread->busy.at[0].start);
        all.to = at_least(all.to, thread->busy.at[thread->busy.len - 1].end);
    }
    return all;
}

static void find_ranges(const TraceJob *job, const PathOrder *order, RangeVec *ranges)
{
    const TraceIndex *index = job->index;
    for (size_t i = 0; i < index->steps.len; i++) {
        const TraceStep *step = &index->steps.at[i];
        vec_push(ranges, ((Range){.what = step->name, .from = step->start, .to = step->to}));
    }
    if (index->steps.len == 0) {
        Range all = whole_range(order);
        vec_push(ranges, all);
    }
    size_t kept = 0;
    for (size_t i = 0; i < ranges->len; i++) {
        Range range = ranges->at[i];
        if (i + 1 < ranges->len)
            range.to = at_most(range.to, ranges->at[i + 1].from);
        if (range.from < range.to)
            ranges->at[kept++] = range;
    }
    ranges->len = kept;
}

void trace_paths(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    CLEANUP(path_order_done) PathOrder order = {0};
    path_order_init(&order, job->index);
    RangeVec ranges = {0};
    find_ranges(job, &order, &ranges);
    size_t first = rank->paths.len;
    Sums sums = {.names = (uint32_t)profile_name_count(profile)};
    sums.slot = xcalloc(((size_t)sums.names + 1) * TRACE_PATH_KIND_COUNT, sizeof(*sums.slot));
    for (size_t i = 0; i < ranges.len; i++) {
        const Range *range = &ranges.at[i];
        vec_push(&rank->paths,
                 ((TracePath){.what = arena_strdup(job->arena, range->what), .total_ns = range->to - range->from}));
    }
    for (size_t i = ranges.len; i-- > 0;) {
        sums.path = &rank->paths.at[first + i];
        path_walk(&order, ranges.at[i].from, ranges.at[i].to, add_path_time, &sums);
        finish_path(&sums, profile, job->arena);
    }
    vec_done(&sums.rows);
    free(sums.slot);
    vec_done(&ranges);
}
