/* SPDX-License-Identifier: Apache-2.0 */
/* Queue lengths: one up where a call is made, one down where its operation starts; described over these points and not
 * over time, as HTA does. And the statistics of launches. */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdlib.h>

#include "base/owner.h"

typedef struct Key {
    int64_t correlation;
    uint32_t row;
} Key;

typedef VEC(Key) Keys;

typedef struct Point {
    int64_t stream, time;
    int change;
} Point;

typedef VEC(Point) Points;

static int by_correlation(const void *a, const void *b)
{
    const Key *left = a, *right = b;

    if (left->correlation != right->correlation)
        return left->correlation < right->correlation ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static void sort_keys(Keys *keys)
{
    if (keys->len)
        qsort(keys->at, keys->len, sizeof *keys->at, by_correlation);
}

static void gpu_keys(const HtaFrame *frame, Keys *ret)
{
    for (size_t i = 0; i < frame->gpu.len; i++)
        if (hta_gpu(frame, i)->correlation >= 0)
            vec_push(ret, ((Key){hta_gpu(frame, i)->correlation, frame->gpu.at[i]}));
    sort_keys(ret);
}

static size_t run_end(const Keys *keys, size_t first)
{
    size_t i = first;

    while (i < keys->len && keys->at[i].correlation == keys->at[first].correlation)
        i++;
    return i;
}

/* Calls and operations of one correlation. True where HTA's count of them comes out. */
typedef bool (*Pair)(void *context, const HtaRow *rows, const Key *calls, size_t call_count, const Key *operations,
                     size_t operation_count);

static bool pair_up(const HtaFrame *frame, const Keys *calls, const Keys *operations, Pair pair, void *context)
{
    bool whole = true;

    for (size_t c = 0, c_end, g = 0; c < calls->len; c = c_end) {
        int64_t correlation = calls->at[c].correlation;
        size_t end;

        c_end = run_end(calls, c);
        while (g < operations->len && operations->at[g].correlation < correlation)
            g++;
        end = g;
        while (end < operations->len && operations->at[end].correlation == correlation)
            end++;
        whole &= pair(context, frame->rows->rows.at, calls->at + c, c_end - c, operations->at + g, end - g);
        g = end;
    }
    return whole;
}

static bool add_points(void *context, const HtaRow *rows, const Key *calls, size_t call_count, const Key *operations,
                       size_t operation_count)
{
    Points *points = context;

    for (size_t i = 0; i < operation_count; i++) {
        const HtaRow *operation = &rows[operations[i].row];

        vec_push(points, ((Point){operation->stream, operation->start, -1}));
        for (size_t k = 0; k < call_count; k++)
            vec_push(points, ((Point){operation->stream, rows[calls[k].row].start, 1}));
    }
    return call_count == 1 && operation_count > 0;
}

static int by_time(const void *a, const void *b)
{
    const Point *left = a, *right = b;

    if (left->stream != right->stream)
        return left->stream < right->stream ? -1 : 1;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    return right->change - left->change;
}

static void add_stream(const HtaFrame *frame, const Point *points, size_t count, const HtaOptions *options,
                       HtaRank *rank)
{
    int64_t duration = frame->last_start - frame->first, length = 0;
    HtaQueueRow row = {.stream = points[0].stream, .full_share = NAN};
    HtaNumbers lengths = {0};

    for (size_t i = 0; i < count; i++) {
        length += points[i].change;
        vec_push(&lengths, (double)length);
        if (length >= options->queue_length && i + 1 < count)
            row.full_ns = hta_sum(row.full_ns, points[i + 1].time - points[i].time);
    }
    row.length = hta_describe(&lengths);
    row.full_share = duration ? (double)row.full_ns / (double)duration : NAN;
    vec_push(&rank->queues, row);
    vec_done(&lengths);
}

static bool is_host_left(const HtaFrame *frame, const HtaRow *row)
{
    return row->stream != -1 || hta_kept_host(frame, row);
}

void hta_queues(const HtaFrame *frame, const HtaOptions *options, HtaRank *rank)
{
    Keys calls = {0}, operations = {0};
    Points points = {0};
    bool whole;

    for (size_t i = 0; i < frame->rows->rows.len; i++) {
        const HtaRow *row = &frame->rows->rows.at[i];

        if (row->flags & HTA_QUEUE && is_host_left(frame, row) && hta_linked(frame, (uint32_t)i))
            vec_push(&calls, ((Key){row->correlation, (uint32_t)i}));
    }
    sort_keys(&calls);
    gpu_keys(frame, &operations);
    whole = pair_up(frame, &calls, &operations, add_points, &points);
    rank->queue_why = whole ? "" : "HTA stops with an AssertionError: several calls share a correlation";
    if (points.len && whole)
        qsort(points.at, points.len, sizeof *points.at, by_time);
    for (size_t first = 0, end; whole && first < points.len; first = end) {
        for (end = first; end < points.len && points.at[end].stream == points.at[first].stream;)
            end++;
        add_stream(frame, points.at + first, end - first, options, rank);
    }
    vec_done(&calls);
    vec_done(&operations);
    vec_done(&points);
}

/* ---- launch statistics ---- */

typedef struct Launches {
    const HtaOptions *options;
    HtaLaunches *out;
    HtaNumbers cpu, gpu, delay;
} Launches;

static void add_launch(Launches *launches, const HtaRow *call, const HtaRow *operation)
{
    const HtaOptions *options = launches->options;
    int64_t delay = operation->start - hta_end(call);

    delay = delay > 0 ? delay : 0;
    vec_push(&launches->cpu, (double)call->duration);
    vec_push(&launches->gpu, (double)operation->duration);
    vec_push(&launches->delay, (double)delay);
    launches->out->short_kernels +=
        operation->duration < call->duration && call->duration <= options->runtime_cutoff_ns;
    launches->out->runtime_outliers += call->duration > options->runtime_cutoff_ns;
    launches->out->delay_outliers += delay > options->delay_cutoff_ns;
}

/* Every row of the host with the correlation counts, where one of them is a call that HTA looks at. */
static bool add_pairs(void *context, const HtaRow *rows, const Key *calls, size_t call_count, const Key *operations,
                      size_t operation_count)
{
    Launches *launches = context;
    bool wanted = false;

    for (size_t k = 0; k < call_count; k++)
        wanted |= (rows[calls[k].row].flags & HTA_LAUNCH) != 0;
    for (size_t i = 0; i < operation_count && wanted; i++)
        for (size_t k = 0; k < call_count; k++)
            add_launch(launches, &rows[calls[k].row], &rows[operations[i].row]);
    return true;
}

void hta_launches(const HtaFrame *frame, const HtaOptions *options, HtaRank *rank)
{
    Launches launches = {.options = options, .out = &rank->launches};
    Keys calls = {0}, operations = {0};

    for (size_t i = 0; i < frame->rows->rows.len; i++) {
        const HtaRow *row = &frame->rows->rows.at[i];

        if (row->correlation != -1 && hta_kept_host(frame, row))
            vec_push(&calls, ((Key){row->correlation, (uint32_t)i}));
    }
    sort_keys(&calls);
    gpu_keys(frame, &operations);
    pair_up(frame, &calls, &operations, add_pairs, &launches);
    rank->launches.cpu_ns = hta_describe(&launches.cpu);
    rank->launches.gpu_ns = hta_describe(&launches.gpu);
    rank->launches.delay_ns = hta_describe(&launches.delay);
    vec_done(&calls);
    vec_done(&operations);
    vec_done(&launches.cpu);
    vec_done(&launches.gpu);
    vec_done(&launches.delay);
}
