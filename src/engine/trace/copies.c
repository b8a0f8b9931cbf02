/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sets by direction and by the memory at both ends. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/trace/cover.h"
#include "engine/trace/analyse.h"

enum { SMALL_COPY_BYTES = 64 * 1024 };

static const char *const kind_words[PROFILE_COPY_KIND_COUNT] = {
    [PROFILE_COPY_UNKNOWN] = "unknown", [PROFILE_COPY_HTOD] = "HtoD", [PROFILE_COPY_DTOH] = "DtoH",
    [PROFILE_COPY_DTOD] = "DtoD",       [PROFILE_COPY_PTOP] = "PtoP", [PROFILE_COPY_HTOH] = "HtoH",
    [PROFILE_COPY_SET] = "set"};
static const char *const memory_words[PROFILE_MEMORY_KIND_COUNT] = {
    [PROFILE_MEMORY_UNKNOWN] = "",      [PROFILE_MEMORY_PAGEABLE] = "pageable", [PROFILE_MEMORY_PINNED] = "pinned",
    [PROFILE_MEMORY_DEVICE] = "device", [PROFILE_MEMORY_ARRAY] = "array",       [PROFILE_MEMORY_MANAGED] = "managed"};

/* A copy that has not ended yet. */
typedef struct Open {
    int64_t end, covered; /* covered: as it began */
    uint32_t row;
} Open;

typedef struct Copies {
    const TraceJob *job;
    uint32_t row[PROFILE_COPY_KIND_COUNT][PROFILE_MEMORY_KIND_COUNT][PROFILE_MEMORY_KIND_COUNT]; /* number + 1 */
    VEC(TraceCopy) rows;
    TraceCover cover; /* of what is no copy, on one device */
    VEC(Open) open;   /* a heap, the first to end on top */
} Copies;

static ProfileCopy copy_detail(const Profile *profile, size_t gpu_row)
{
    uint32_t extra = profile->gpu.extra[gpu_row];
    ProfileCopy copy = {.bytes = -1};

    if (extra < profile->copies.len)
        copy = profile->copies.at[extra];
    if (profile->gpu.kind[gpu_row] == PROFILE_SET)
        copy.kind = PROFILE_COPY_SET;
    if (copy.kind >= PROFILE_COPY_KIND_COUNT)
        copy.kind = PROFILE_COPY_UNKNOWN;
    if (copy.source >= PROFILE_MEMORY_KIND_COUNT)
        copy.source = PROFILE_MEMORY_UNKNOWN;
    if (copy.target >= PROFILE_MEMORY_KIND_COUNT)
        copy.target = PROFILE_MEMORY_UNKNOWN;
    return copy;
}

static uint32_t row_of(Copies *copies, const ProfileCopy *copy)
{
    uint32_t *row = &copies->row[copy->kind][copy->source][copy->target];

    if (*row == 0) {
        vec_push(&copies->rows, ((TraceCopy){.kind = kind_words[copy->kind],
                                             .source = memory_words[copy->source],
                                             .target = memory_words[copy->target],
                                             .min_ns = INT64_MAX,
                                             .bandwidth_gbs = NAN}));
        *row = (uint32_t)copies->rows.len;
    }
    assert(copies->rows.at);
    return *row - 1;
}

static void add_copy(TraceCopy *row, const ProfileCopy *copy, int64_t duration)
{
    row->count++;
    row->total_ns = trace_sum(row->total_ns, duration);
    row->min_ns = duration < row->min_ns ? duration : row->min_ns;
    row->max_ns = duration > row->max_ns ? duration : row->max_ns;
    if (copy->bytes < 0)
        return;
    row->bytes = trace_sum(row->bytes, copy->bytes);
    if (copy->bytes < SMALL_COPY_BYTES) {
        row->small_count++;
        row->small_ns = trace_sum(row->small_ns, duration);
    }
    if (duration > 0) {
        row->sized_bytes = trace_sum(row->sized_bytes, copy->bytes);
        row->sized_ns = trace_sum(row->sized_ns, duration);
    }
}

static void heap_push(Copies *copies, Open open)
{
    size_t i = copies->open.len;

    vec_push(&copies->open, open);
    for (; i > 0 && copies->open.at[(i - 1) / 2].end > open.end; i = (i - 1) / 2)
        copies->open.at[i] = copies->open.at[(i - 1) / 2];
    copies->open.at[i] = open;
}

static Open heap_pop(Copies *copies)
{
    Open top = copies->open.at[0], last = copies->open.at[--copies->open.len];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < copies->open.len) {
        if (child + 1 < copies->open.len && copies->open.at[child + 1].end < copies->open.at[child].end)
            child++;
        if (copies->open.at[child].end >= last.end)
            break;
        copies->open.at[i] = copies->open.at[child];
        i = child;
    }
    if (copies->open.len > 0)
        copies->open.at[i] = last;
    return top;
}

/* Settles the copies that end at or before `time`: everything that covers them has come. */
static void close_until(Copies *copies, int64_t time)
{
    while (copies->open.len > 0 && copies->open.at[0].end <= time) {
        Open open = heap_pop(copies);
        int64_t covered = trace_cover_until(&copies->cover, open.end) - open.covered;
        TraceCopy *row = &copies->rows.at[open.row];

        row->exposed_ns = trace_sum(row->exposed_ns, -covered);
    }
}

/* Starts to watch how much of the copy's time is covered. */
static void open_copy(Copies *copies, uint32_t row, int64_t start, int64_t end)
{
    if (end <= start)
        return;
    copies->rows.at[row].exposed_ns = trace_sum(copies->rows.at[row].exposed_ns, end - start);
    heap_push(copies, (Open){.end = end, .covered = trace_cover_until(&copies->cover, start), .row = row});
}

static void add_row(Copies *copies, size_t gpu_row)
{
    const Profile *profile = copies->job->index->profile;
    int64_t start = profile->gpu.start[gpu_row], end = profile_end(&profile->gpu, gpu_row);
    uint8_t kind = profile->gpu.kind[gpu_row];

    close_until(copies, start);
    if (trace_gpu_class(copies->job->index, gpu_row) != TRACE_COPY) {
        trace_cover_add(&copies->cover, start, end);
    } else if (kind == PROFILE_COPY || kind == PROFILE_SET) {
        ProfileCopy copy = copy_detail(profile, gpu_row);
        const uint32_t row = row_of(copies, &copy);

        add_copy(&copies->rows.at[row], &copy, end - start);
        open_copy(copies, row, start, end);
    }
}

static int compare_copies(const void *left, const void *right)
{
    const TraceCopy *a = left, *b = right;
    int order;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    order = strcmp(a->kind, b->kind);
    if (order == 0)
        order = strcmp(a->source, b->source);
    return order ? order : strcmp(a->target, b->target);
}

static void finish_copies(TraceRank *rank)
{
    for (size_t i = 0; i < rank->copies.len; i++) {
        TraceCopy *row = &rank->copies.at[i];

        row->bandwidth_gbs = row->sized_ns > 0 ? (double)row->sized_bytes / (double)row->sized_ns : NAN;
    }
    if (rank->copies.len > 1)
        qsort(rank->copies.at, rank->copies.len, sizeof *rank->copies.at, compare_copies);
}

void trace_copies(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    Copies copies = {.job = job};

    for (size_t device = 0; device < index->devices.len; device++) {
        copies.cover = (TraceCover){0};
        for (size_t i = index->device_first.at[device]; i < index->device_first.at[device + 1]; i++)
            add_row(&copies, i);
        close_until(&copies, INT64_MAX);
    }
    for (size_t i = 0; i < copies.rows.len; i++)
        vec_push(&rank->copies, copies.rows.at[i]);
    finish_copies(rank);
    vec_done(&copies.rows);
    vec_done(&copies.open);
}
