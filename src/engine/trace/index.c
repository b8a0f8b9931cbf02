/* SPDX-License-Identifier: Apache-2.0 */
/* The index: classes by name, nesting by a stack per lane, rows by stream; links and steps are other files. What the
 * host did, what the GPU did and the table of calls are worked out beside each other, then what joins them. */
#include "engine/trace/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/* Host rows behind their number (correlation or external id). */
typedef struct LinkTable {
    uint32_t *first; /* slot -> first entry of rows; slots + 1 */
    uint32_t *rows;  /* host rows, by slot */
    uint32_t *ids;   /* slot -> number, ascending, where numbers lie far apart; else NULL */
    uint32_t least;  /* the number of slot 0 */
    uint32_t slots;
} LinkTable;

/* ---- host rows by number ---- */

/*
 * Which call launched which GPU operation, and in which operator. Host rows are put behind their number (correlation or
 * external id) in one counting pass; numbers that lie far apart are ranked first.
 */

enum { SPREAD_MAX = 4, SPREAD_FREE = 65536, GROUP_SCAN_MAX = 8 };

static void link_done(LinkTable *table)
{
    free(table->first);
    free(table->rows);
    free(table->ids);
    *table = (LinkTable){0};
}

static int by_number(const void *a_, const void *b_)
{
    uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;

    return (a > b) - (a < b);
}

/* All numbers of the rows, once each. */
static void rank_numbers(LinkTable *table, const uint32_t *link, const TraceRows *rows)
{
    size_t kept = 0;

    table->ids = xmalloc_large((rows->len + 1) * sizeof(*table->ids));
    for (size_t i = 0; i < rows->len; i++)
        table->ids[i] = link[rows->at[i]];
    qsort(table->ids, rows->len, sizeof(*table->ids), by_number);
    for (size_t i = 0; i < rows->len; i++)
        if (!kept || table->ids[kept - 1] != table->ids[i])
            table->ids[kept++] = table->ids[i];
    table->slots = (uint32_t)kept;
}

/* The slot of a number, PROFILE_NONE for none. */
static uint32_t slot_of(const LinkTable *table, uint32_t number)
{
    uint32_t from = 0, to = table->slots;

    if (!table->ids)
        return number - table->least < table->slots ? number - table->least : PROFILE_NONE;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (table->ids[middle] < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from < table->slots && table->ids[from] == number ? from : PROFILE_NONE;
}

static int by_start(const void *a_, const void *b_, void *start_)
{
    uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    const int64_t *start = start_;

    if (start[a] != start[b])
        return start[a] < start[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Puts the rows behind their slots; they stay in their order there, but many of one number are sorted by start. */
static void table_fill(LinkTable *table, const ProfileEvents *host, const TraceRows *rows)
{
    for (size_t i = 0; i < rows->len; i++)
        table->first[slot_of(table, host->link[rows->at[i]]) + 1]++;
    for (size_t i = 0; i < table->slots; i++)
        table->first[i + 1] += table->first[i];
    for (size_t i = 0; i < rows->len; i++)
        table->rows[table->first[slot_of(table, host->link[rows->at[i]])]++] = rows->at[i];
    memmove(table->first + 1, table->first, table->slots * sizeof(*table->first)); /* each stands at the next's first */
    table->first[0] = 0;
    for (size_t i = 0; i < table->slots; i++)
        if (table->first[i + 1] - table->first[i] > GROUP_SCAN_MAX)
            qsort_r(table->rows + table->first[i], table->first[i + 1] - table->first[i], sizeof(*table->rows),
                    by_start, host->start);
}

/* The rows of the kind that have a number. */
static void find_rows(const ProfileEvents *host, ProfileKind kind, TraceRows *rows)
{
    vec_reserve(rows, host->len + 1);
    for (uint32_t row = 0; row < host->len; row++) {
        rows->at[rows->len] = row; /* kept or not: kinds come mixed, and a branch would be guessed wrong */
        rows->len += (size_t)(host->kind[row] == kind && host->link[row]);
    }
}

static void find_range(const uint32_t *link, const TraceRows *rows, uint32_t *ret_least, uint32_t *ret_most)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (size_t i = 0; i < rows->len; i++) {
        least = link[rows->at[i]] < least ? link[rows->at[i]] : least;
        most = link[rows->at[i]] > most ? link[rows->at[i]] : most;
    }
    *ret_least = least;
    *ret_most = most;
}

static void link_init(LinkTable *table, const ProfileEvents *host, ProfileKind kind)
{
    uint32_t least, most;
    TraceRows rows = {0};

    *table = (LinkTable){0};
    find_rows(host, kind, &rows);
    find_range(host->link, &rows, &least, &most);
    if (rows.len) {
        table->least = least;
        if (most - least <= SPREAD_MAX * rows.len + SPREAD_FREE && most - least < UINT32_MAX)
            table->slots = most - least + 1;
        else
            rank_numbers(table, host->link, &rows);
    }
    table->first = xcalloc((size_t)table->slots + 2, sizeof(*table->first));
    table->rows = xmalloc_large((rows.len + 1) * sizeof(*table->rows));
    table_fill(table, host, &rows);
    vec_done(&rows);
}

/* ---- one of several rows with a number ---- */

/* Many rows, by start: the last that starts at or before `time`, else the first. */
static uint32_t choose_sorted(const int64_t *start, const uint32_t *rows, size_t len, int64_t time)
{
    size_t from = 0, to = len;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (start[rows[middle]] <= time)
            from = middle + 1;
        else
            to = middle;
    }
    return rows[from ? from - 1 : 0];
}

static bool puts_work(const TraceIndex *index, uint32_t row)
{
    return index->host_class[row] != TRACE_HOST_SYNC && index->host_class[row] != TRACE_HOST_ALLOCATOR;
}

/* Whether row a is the better one for an operation that starts at `time`. */
static bool is_better(const TraceIndex *index, uint32_t a, uint32_t b, int64_t time)
{
    const int64_t *start = index->profile->host.start;
    bool a_began = start[a] <= time, b_began = start[b] <= time;

    if (puts_work(index, a) != puts_work(index, b))
        return puts_work(index, a);
    if (a_began != b_began)
        return a_began;
    if (start[a] != start[b])
        return a_began ? start[a] > start[b] : start[a] < start[b];
    return a > b; /* the inner one of two that start together */
}

static uint32_t choose_call(const TraceIndex *index, const LinkTable *table, uint32_t number, int64_t time)
{
    uint32_t slot = number ? slot_of(table, number) : PROFILE_NONE, best = PROFILE_NONE;
    const uint32_t *rows;
    size_t len;

    if (slot == PROFILE_NONE)
        return PROFILE_NONE;
    rows = table->rows + table->first[slot];
    len = table->first[slot + 1] - table->first[slot];
    if (len > GROUP_SCAN_MAX)
        return choose_sorted(index->profile->host.start, rows, len, time);
    for (size_t i = 0; i < len; i++)
        if (best == PROFILE_NONE || is_better(index, rows[i], best, time))
            best = rows[i];
    return best;
}

/* ---- links of GPU operations ---- */

/* A copy from or to pageable memory holds its caller up, however asynchronous its name (CUDA runtime API, "API
 * synchronization behavior"). */
static void mark_blocking_copy(TraceIndex *index, size_t row, uint32_t call)
{
    const Profile *profile = index->profile;
    uint32_t detail = profile->gpu.extra[row];
    const ProfileCopy *copy;

    if (profile->gpu.kind[row] != PROFILE_COPY || detail == PROFILE_NONE)
        return;
    copy = &profile->copies.at[detail];
    if (copy->source != PROFILE_MEMORY_PAGEABLE && copy->target != PROFILE_MEMORY_PAGEABLE)
        return;
    if (index->host_class[call] != TRACE_HOST_LAUNCH ||
        !strcasestr(profile_text(profile, profile->host.name[call], NULL), "memcpy"))
        return; /* a graph's copy */
    index->host_class[call] = TRACE_HOST_COPY;
    if (index->host_inside[call] == TRACE_HOST_LAUNCH)
        index->host_inside[call] = TRACE_HOST_COPY;
}

static void link_launches(TraceIndex *index, const LinkTable *calls)
{
    const ProfileEvents *gpu = &index->profile->gpu;

    for (size_t row = 0; row < gpu->len; row++) {
        uint32_t call = choose_call(index, calls, gpu->link[row], gpu->start[row]);
        uint32_t op = call == PROFILE_NONE ? PROFILE_NONE : index->op_at[call];

        index->launch[row] = call;
        index->op[row] = op == PROFILE_NONE ? PROFILE_NONE : index->op_rows[op];
        index->linked += call != PROFILE_NONE;
    }
    index->unlinked = gpu->len - index->linked;
    for (size_t row = 0; row < gpu->len; row++)
        if (index->launch[row] != PROFILE_NONE)
            mark_blocking_copy(index, row, index->launch[row]);
}

/* Operations whose call is unknown, by external id. */
static void link_external(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    CLEANUP(link_done) LinkTable ops = {0};
    size_t row = 0;

    while (row < gpu->len && (index->op[row] != PROFILE_NONE || !gpu->external[row]))
        row++;
    if (row == gpu->len)
        return;
    link_init(&ops, &index->profile->host, PROFILE_OP);
    for (; row < gpu->len; row++)
        if (index->op[row] == PROFILE_NONE && gpu->external[row])
            index->op[row] = choose_call(index, &ops, gpu->external[row], gpu->start[row]);
}

/* ---- classes ---- */

/* The index while it is made. */
typedef struct Making {
    TraceIndex *index;
    TraceRows step_rows; /* host rows named as steps */
    LinkTable calls;
} Making;

/* What is known of a name; other kinds than the first are classified anew each time (rare). */
typedef struct NameNote {
    uint8_t kind; /* + 1; 0: not seen */
    uint8_t class;
    bool is_step;
} NameNote;

static uint8_t new_class(const Profile *profile, NameNote *note, ProfileKind kind, uint32_t name)
{
    const char *text;
    uint8_t class;
    size_t len;

    text = profile_text(profile, name, &len);
    class = (uint8_t)(kind <= PROFILE_SET ? (int)trace_classify(kind, text, len)
                                          : (int)trace_classify_host(kind, text, len));
    if (!note->kind)
        *note = (NameNote){(uint8_t)(kind + 1), class, trace_is_step_name(text, len)};
    return class;
}

static inline uint8_t class_of(const Profile *profile, NameNote *notes, ProfileKind kind, uint32_t name)
{
    NameNote *note = &notes[name];

    return note->kind == kind + 1 ? note->class : new_class(profile, note, kind, name);
}

static void classify_gpu(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(index->profile) + 1, sizeof(*notes));

    for (size_t row = 0; row < gpu->len; row++)
        index->gpu_class[row] = class_of(index->profile, notes, gpu->kind[row], gpu->name[row]);
}

static void classify_host(TraceIndex *index, TraceRows *step_rows)
{
    const ProfileEvents *host = &index->profile->host;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(index->profile) + 1, sizeof(*notes));
    size_t ops = 0;

    for (size_t row = 0; row < host->len; row++) {
        index->host_class[row] = class_of(index->profile, notes, host->kind[row], host->name[row]);
        ops += host->kind[row] == PROFILE_OP;
        if (notes[host->name[row]].is_step)
            vec_push(step_rows, (uint32_t)row);
    }
    index->op_count = ops;
}

static void find_lanes(TraceIndex *index)
{
    const ProfileEvents *host = &index->profile->host;
    size_t lane = 0, count = index->profile->lanes.len;

    for (size_t row = 0; row < host->len; row++)
        while (lane <= host->lane[row])
            index->lane_first[lane++] = row;
    while (lane <= count)
        index->lane_first[lane++] = host->len;
}

static void find_devices(TraceIndex *index)
{
    const Profile *profile = index->profile;
    const uint32_t *lane = profile->gpu.lane;

    for (size_t row = 0; row < profile->gpu.len; row++) {
        int32_t device = profile->lanes.at[lane[row]].device;

        if (index->devices.len && index->devices.at[index->devices.len - 1] == device)
            continue;
        vec_push(&index->devices, device);
        vec_push(&index->device_first, row);
    }
    vec_push(&index->device_first, profile->gpu.len);
}

static void sort_by_stream(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    size_t lanes = index->profile->lanes.len, *first = xcalloc(lanes + 2, sizeof(*first));

    for (size_t row = 0; row < gpu->len; row++)
        first[gpu->lane[row] + 2]++;
    for (size_t i = 2; i < lanes + 2; i++)
        first[i] += first[i - 1];
    for (size_t row = 0; row < gpu->len; row++)
        index->stream_rows[first[gpu->lane[row] + 1]++] = (uint32_t)row;
    index->stream_first = first;
}

/* ---- nesting ---- */

typedef struct Open { /* an event that has begun */
    int64_t end;
    uint32_t row, op; /* op: number of the innermost operator that it is or lies in */
    uint8_t inside;
} Open;

typedef VEC(Open) OpenStack;

static bool holds_range(const Open *outer, int64_t start, int64_t end)
{
    if (start >= outer->end)
        return false;
    return end <= outer->end || (end - outer->end <= TRACE_JITTER_NS && outer->end - start >= end - outer->end);
}

static bool marks_what_is_inside(uint8_t class)
{
    return class == TRACE_HOST_DATA || class == TRACE_HOST_COLLECTIVE || class == TRACE_HOST_COMPILE;
}

static void push_open(OpenStack *open, Open now)
{
    if (open->len == open->cap) /* rare: no call for each event */
        vec_reserve(open, open->len + 1);
    open->at[open->len++] = now;
}

/* *ops counts the operators so far. */
static void nest_lane(TraceIndex *index, size_t first, size_t last, OpenStack *open, uint32_t *ops)
{
    const ProfileEvents *host = &index->profile->host;

    vec_clear(open);
    for (size_t row = first; row < last; row++) {
        int64_t start = host->start[row], end = start + host->duration[row];
        uint8_t class = index->host_class[row];
        Open now = {.end = end, .row = (uint32_t)row, .op = PROFILE_NONE, .inside = class};
        const Open *outer = NULL;

        while (open->len && !holds_range(&open->at[open->len - 1], start, end))
            open->len--;
        if (open->len) {
            outer = &open->at[open->len - 1];
            now.op = outer->op;
            if (!marks_what_is_inside(class) && marks_what_is_inside(outer->inside))
                now.inside = outer->inside;
        }
        if (host->kind[row] == PROFILE_OP) {
            now.op = (*ops)++;
            index->op_rows[now.op] = (uint32_t)row;
        }
        index->parent[row] = outer ? outer->row : PROFILE_NONE;
        index->host_inside[row] = now.inside;
        index->op_at[row] = now.op;
        push_open(open, now);
    }
}

static void nest_rows(TraceIndex *index)
{
    OpenStack open = {0};
    uint32_t ops = 0;

    index->op_rows = xmalloc_large((index->op_count + 1) * sizeof(*index->op_rows));
    for (size_t lane = 0; lane < index->profile->lanes.len; lane++)
        nest_lane(index, index->lane_first[lane], index->lane_first[lane + 1], &open, &ops);
    vec_done(&open);
}

/* ---- the whole index ---- */

static void make_host(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    Making *making = making_;

    classify_host(making->index, &making->step_rows);
    find_lanes(making->index);
    nest_rows(making->index);
}

static void make_gpu(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    const Making *making = making_;

    classify_gpu(making->index);
    find_devices(making->index);
    sort_by_stream(making->index);
}

static void make_calls(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    Making *making = making_;

    link_init(&making->calls, &making->index->profile->host, PROFILE_CALL);
}

static void make_links(void *making_, UNUSED size_t place, UNUSED unsigned int thread)
{
    const Making *making = making_;

    link_launches(making->index, &making->calls);
    link_external(making->index);
    trace_index_steps(making->index, &making->step_rows);
}

enum { MAKE_HOST = 1 << 0, MAKE_CALLS = 1 << 1, MAKE_GPU = 1 << 2 };

static const TraceTask tasks[] = {
    {.run = make_host},
    {.run = make_calls},
    {.run = make_gpu},
    {.run = make_links, .after = MAKE_HOST | MAKE_CALLS | MAKE_GPU},
};

void trace_index_init(TraceIndex *index, const Profile *profile, unsigned int threads)
{
    size_t host = profile->host.len, gpu = profile->gpu.len;
    Making making = {.index = index};

    *index = (TraceIndex){.profile = profile};
    index->launch = xmalloc_large((gpu + 1) * sizeof(*index->launch));
    index->op = xmalloc_large((gpu + 1) * sizeof(*index->op));
    index->stream_rows = xmalloc_large((gpu + 1) * sizeof(*index->stream_rows));
    index->gpu_class = xmalloc_large(gpu + 1);
    index->parent = xmalloc_large((host + 1) * sizeof(*index->parent));
    index->op_at = xmalloc_large((host + 1) * sizeof(*index->op_at));
    index->host_class = xmalloc_large(host + 1);
    index->host_inside = xmalloc_large(host + 1);
    index->lane_first = xmalloc((profile->lanes.len + 1) * sizeof(*index->lane_first));
    trace_tasks_run(tasks, ARRAY_LEN(tasks), &making, threads, SIZE_MAX);
    link_done(&making.calls);
    vec_done(&making.step_rows);
}

void trace_index_done(TraceIndex *index)
{
    free(index->launch);
    free(index->op);
    free(index->parent);
    free(index->gpu_class);
    free(index->host_class);
    free(index->host_inside);
    free(index->lane_first);
    free(index->op_at);
    free(index->op_rows);
    free(index->stream_rows);
    free(index->stream_first);
    vec_done(&index->steps);
    vec_done(&index->devices);
    vec_done(&index->device_first);
    *index = (TraceIndex){0};
}

size_t trace_index_bytes(const TraceIndex *index)
{
    const size_t host_row =
        sizeof(*index->parent) + sizeof(*index->op_at) + sizeof(*index->host_class) + sizeof(*index->host_inside);
    const size_t gpu_row =
        sizeof(*index->launch) + sizeof(*index->op) + sizeof(*index->stream_rows) + sizeof(*index->gpu_class);

    return index->profile->host.len * host_row + index->profile->gpu.len * gpu_row +
           index->op_count * sizeof(*index->op_rows);
}
