/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations by name: of the host, with what was launched from inside them on their thread; of the GPU, with what ran
 * on their stream while they lasted. What lies in two ranges of one name counts once.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/trace/cover.h"
#include "engine/trace/named.h"
#include "engine/trace/nest.h"
#include "engine/trace/analyse.h"

typedef struct Annotations {
    const TraceJob *job;
    TraceNamed host, gpu; /* numbers in the tables below */
    VEC(TraceAnnotation) host_rows, gpu_rows;
} Annotations;

static TraceAnnotation new_annotation(const TraceJob *job, uint32_t name, bool on_gpu)
{
    size_t len;
    const char *text = profile_text(job->index->profile, name, &len);

    return (TraceAnnotation){.name = arena_strndup(job->arena, text, len),
                             .on_gpu = on_gpu,
                             .min_ns = INT64_MAX,
                             .busy_ns = on_gpu ? 0 : -1};
}

static void add_range(TraceAnnotation *row, int64_t duration)
{
    row->count++;
    row->total_ns = trace_sum(row->total_ns, duration);
    row->min_ns = duration < row->min_ns ? duration : row->min_ns;
    row->max_ns = duration > row->max_ns ? duration : row->max_ns;
}

static TraceAnnotation *host_row(Annotations *annotations, uint32_t name)
{
    uint32_t number = trace_named_row(&annotations->host, name);

    if (number == annotations->host_rows.len)
        vec_push(&annotations->host_rows, new_annotation(annotations->job, name, false));
    assert(annotations->host_rows.at);
    return &annotations->host_rows.at[number];
}

static void add_host(Annotations *annotations)
{
    const TraceIndex *index = annotations->job->index;
    const ProfileEvents *host = &index->profile->host, *gpu = &index->profile->gpu;
    int64_t *device_ns, *operations;
    TraceNest nest;

    trace_nest_init(&nest, index, PROFILE_ANNOTATION);
    device_ns = xcalloc(nest.len + 1, sizeof *device_ns);
    operations = xcalloc(nest.len + 1, sizeof *operations);
    for (size_t i = 0; i < gpu->len; i++) {
        uint32_t row = index->launch[i] != PROFILE_NONE ? index->launch[i] : index->op[i];
        uint32_t member = row == PROFILE_NONE ? PROFILE_NONE : nest.at[row];

        if (member == PROFILE_NONE)
            continue;
        device_ns[member] = trace_sum(device_ns[member], gpu->duration[i]);
        operations[member]++;
    }
    trace_nest_gather(&nest, device_ns);
    trace_nest_gather(&nest, operations);
    for (uint32_t member = 0; member < nest.len; member++) {
        size_t at = nest.rows[member];
        TraceAnnotation *row = host_row(annotations, host->name[at]);

        add_range(row, host->duration[at]);
        if (trace_nest_is_outer(&nest, member)) {
            row->device_ns = trace_sum(row->device_ns, device_ns[member]);
            row->operation_count += operations[member];
        }
    }
    trace_nest_done(&nest);
    free(device_ns);
    free(operations);
}

/* A part of a stream's time whose GPU work belongs to a row: parts of one name do not overlap. */
typedef struct Part {
    int64_t start, end;
    uint32_t row;
} Part;

/* What had happened on the stream up to one end of a part. */
typedef struct Mark {
    int64_t time;
    size_t part;
    bool is_end;
} Mark;

typedef struct Lane {
    VEC(Part) parts;
    VEC(Mark) marks;
} Lane;

static int compare_marks(const void *left, const void *right)
{
    const Mark *a = left, *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

/* The lane's ranges as parts; the table's rows first..end-1 are the lane's, by start. */
static void collect_parts(Annotations *annotations, size_t first, size_t end, Lane *lane)
{
    const ProfileEvents *mark = &annotations->job->index->profile->mark;
    VEC(int64_t) until = {0}; /* row -> where its last part on this lane ends */

    vec_clear(&lane->parts);
    vec_clear(&lane->marks);
    for (size_t i = first; i < end; i++) {
        uint32_t number = trace_named_row(&annotations->gpu, mark->name[i]);
        Part part = {.start = mark->start[i], .end = profile_end(mark, i), .row = number};

        if (number == annotations->gpu_rows.len)
            vec_push(&annotations->gpu_rows, new_annotation(annotations->job, mark->name[i], true));
        assert(annotations->gpu_rows.at);
        while (until.len <= number)
            vec_push(&until, INT64_MIN);
        add_range(&annotations->gpu_rows.at[number], mark->duration[i]);
        if (part.start < until.at[number])
            part.start = until.at[number];
        if (part.end <= part.start)
            continue;
        until.at[number] = part.end;
        vec_push(&lane->marks, ((Mark){.time = part.start, .part = lane->parts.len}));
        vec_push(&lane->marks, ((Mark){.time = part.end, .part = lane->parts.len, .is_end = true}));
        vec_push(&lane->parts, part);
    }
    vec_done(&until);
    if (lane->marks.len > 1)
        qsort(lane->marks.at, lane->marks.len, sizeof *lane->marks.at, compare_marks);
}

typedef struct Stream {
    TraceCover cover;
    int64_t total, count; /* of the operations that have come */
} Stream;

/* At the start of a part what came before it is taken away, at its end what came until then is added. */
static void apply_mark(Annotations *annotations, const Lane *lane, const Mark *mark, const Stream *stream)
{
    TraceAnnotation *row = &annotations->gpu_rows.at[lane->parts.at[mark->part].row];
    int64_t sign = mark->is_end ? 1 : -1;

    row->busy_ns = trace_sum(row->busy_ns, sign * trace_cover_until(&stream->cover, mark->time));
    row->device_ns = trace_sum(row->device_ns, sign * stream->total);
    row->operation_count += sign * stream->count;
}

static void add_operation(const ProfileEvents *gpu, Stream *stream, size_t row)
{
    stream->total = trace_sum(stream->total, gpu->duration[row]);
    stream->count++;
    trace_cover_add(&stream->cover, gpu->start[row], profile_end(gpu, row));
}

/* The lane's operations (rows[0..count-1] of the GPU table, by start) against its ranges. */
static void add_lane(Annotations *annotations, const Lane *lane, const uint32_t *rows, size_t count)
{
    const ProfileEvents *gpu = &annotations->job->index->profile->gpu;
    Stream stream = {0};
    size_t next = 0;

    for (size_t i = 0; i < lane->marks.len; i++) {
        for (; next < count && gpu->start[rows[next]] < lane->marks.at[i].time; next++)
            add_operation(gpu, &stream, rows[next]);
        apply_mark(annotations, lane, &lane->marks.at[i], &stream);
    }
}

static void add_gpu(Annotations *annotations)
{
    const Profile *profile = annotations->job->index->profile;
    const size_t *first = annotations->job->index->stream_first;
    Lane lane = {0};

    for (size_t i = 0, end; i < profile->mark.len; i = end) {
        uint32_t number = profile->mark.lane[i];

        for (end = i; end < profile->mark.len && profile->mark.lane[end] == number; end++)
            ;
        collect_parts(annotations, i, end, &lane);
        add_lane(annotations, &lane, annotations->job->index->stream_rows + first[number],
                 first[number + 1] - first[number]);
    }
    vec_done(&lane.parts);
    vec_done(&lane.marks);
}

static int compare_annotations(const void *left, const void *right)
{
    const TraceAnnotation *a = left, *b = right;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    if (a->on_gpu != b->on_gpu)
        return a->on_gpu ? 1 : -1;
    return strcmp(a->name, b->name);
}

static void sort_annotations(TraceRank *rank)
{
    if (rank->annotations.len > 1)
        qsort(rank->annotations.at, rank->annotations.len, sizeof *rank->annotations.at, compare_annotations);
}

void trace_annotations(const TraceJob *job, TraceRank *rank)
{
    Annotations annotations = {.job = job};

    trace_named_init(&annotations.host, job->index->profile);
    trace_named_init(&annotations.gpu, job->index->profile);
    add_host(&annotations);
    add_gpu(&annotations);
    for (size_t i = 0; i < annotations.host_rows.len; i++)
        vec_push(&rank->annotations, annotations.host_rows.at[i]);
    for (size_t i = 0; i < annotations.gpu_rows.len; i++)
        vec_push(&rank->annotations, annotations.gpu_rows.at[i]);
    sort_annotations(rank);
    trace_named_done(&annotations.host);
    trace_named_done(&annotations.gpu);
    vec_done(&annotations.host_rows);
    vec_done(&annotations.gpu_rows);
}
