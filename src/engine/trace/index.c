/* SPDX-License-Identifier: Apache-2.0 */
/* The index: classes by name, nesting by lane, rows by stream, launches by number; steps are another file. What the
 * host did, what the GPU did and the table of calls are worked out beside each other, then what joins them. */
#include "engine/trace/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/* ---- host rows by number ---- */

/*
 * Which call launched which GPU operation, and in which operator. Host rows are put behind the low bits of their number
 * (correlation or external id) in one counting pass.
 */

enum { GROUP_SCAN_MAX = 8 };

typedef struct LinkTable {
    uint32_t *first; /* slot -> first entry of rows; slots + 1 */
    uint32_t *rows;  /* host rows by slot, in their order; more than GROUP_SCAN_MAX of a slot by number and start */
    uint32_t slots;  /* a power of two */
} LinkTable;

static void link_done(LinkTable *table)
{
    free(table->first);
    free(table->rows);
    *table = (LinkTable){0};
}

static int by_number(const void *a_, const void *b_, void *host_)
{
    const uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    const ProfileEvents *host = host_;
    const int64_t keys[][2] = {{host->link[a], host->link[b]}, {host->start[a], host->start[b]}, {a, b}};
    return trace_compare(keys, ARRAY_LEN(keys));
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

static void table_fill(LinkTable *table, const ProfileEvents *host, const TraceRows *rows)
{
    const uint32_t low = table->slots - 1;

    for (size_t i = 0; i < rows->len; i++)
        table->first[(host->link[rows->at[i]] & low) + 1]++;
    for (size_t i = 0; i < table->slots; i++)
        table->first[i + 1] += table->first[i];
    for (size_t i = 0; i < rows->len; i++)
        table->rows[table->first[host->link[rows->at[i]] & low]++] = rows->at[i];
    memmove(table->first + 1, table->first, table->slots * sizeof(*table->first)); /* each stands at the next's first */
    table->first[0] = 0;
    for (size_t i = 0; i < table->slots; i++)
        if (table->first[i + 1] - table->first[i] > GROUP_SCAN_MAX)
            qsort_r(table->rows + table->first[i], table->first[i + 1] - table->first[i], sizeof(*table->rows),
                    by_number, (void *)(uintptr_t)host);
}

static void link_init(LinkTable *table, const ProfileEvents *host, ProfileKind kind)
{
    TraceRows rows = {0};

    find_rows(host, kind, &rows);
    *table = (LinkTable){.slots = 1};
    while (table->slots < rows.len && table->slots <= UINT32_MAX / 2)
        table->slots *= 2;
    table->first = xcalloc((size_t)table->slots + 1, sizeof(*table->first));
    table->rows = xmalloc_large((rows.len + 1) * sizeof(*table->rows));
    table_fill(table, host, &rows);
    vec_done(&rows);
}

/* ---- one of several rows with a number ---- */

/* Of many rows, by number and start: how many have a lower number, or this one and start at or before `time`. */
static size_t count_rows(const ProfileEvents *host, const uint32_t *rows, size_t len, uint32_t number, int64_t time)
{
    size_t from = 0, to = len;

    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const uint32_t row = rows[middle];

        if (host->link[row] < number || (host->link[row] == number && host->start[row] <= time))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
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

/* Of many rows with the number the last that starts at or before `time`, else the first. */
static uint32_t choose_call(const TraceIndex *index, const LinkTable *table, uint32_t number, int64_t time)
{
    const ProfileEvents *host = &index->profile->host;
    const uint32_t slot = number & (table->slots - 1), *rows = table->rows + table->first[slot];
    size_t from = 0, to = number ? table->first[slot + 1] - table->first[slot] : 0;
    uint32_t best = PROFILE_NONE;

    if (to > GROUP_SCAN_MAX) {
        const size_t len = to, begun = count_rows(host, rows, len, number, time);

        from = count_rows(host, rows, len, number - 1, INT64_MAX);
        to = count_rows(host, rows, len, number, INT64_MAX);
        if (to - from > GROUP_SCAN_MAX)
            return rows[begun > from ? begun - 1 : from];
    }
    for (; from < to; from++)
        if (host->link[rows[from]] == number && (best == PROFILE_NONE || is_better(index, rows[from], best, time)))
            best = rows[from];
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

static uint8_t new_class(const TraceIndex *index, NameNote *note, ProfileKind kind, uint32_t name)
{
    size_t len;
    const char *text = profile_text(index->profile, name, &len);
    uint8_t class;

    if (kind == PROFILE_KERNEL)
        index->kernel_name[name] = (trace_is_tensor_core(text, len) ? TRACE_KERNEL_TENSOR : 0) |
                                   (trace_is_float_matrix(text, len) ? TRACE_KERNEL_FLOAT : 0) |
                                   (trace_is_aligned(text, len) ? TRACE_KERNEL_ALIGNED : 0) |
                                   (trace_may_be_tensor_core(text, len) ? TRACE_KERNEL_MAYBE : 0) |
                                   (trace_is_helper(text, len) ? TRACE_KERNEL_HELPER : 0);
    if (kind == PROFILE_CALL)
        index->graph_name[name] = strcasestr(text, "graphlaunch") != NULL;
    class = (uint8_t)(kind <= PROFILE_SET ? (int)trace_classify(kind, text, len)
                                          : (int)trace_classify_host(kind, text, len));
    if (!note->kind)
        *note = (NameNote){(uint8_t)(kind + 1), class, trace_is_step_name(text, len)};
    return class;
}

static inline uint8_t class_of(const TraceIndex *index, NameNote *notes, ProfileKind kind, uint32_t name)
{
    NameNote *note = &notes[name];

    return note->kind == kind + 1 ? note->class : new_class(index, note, kind, name);
}

static void classify_gpu(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(index->profile) + 1, sizeof(*notes));

    for (size_t row = 0; row < gpu->len; row++)
        index->gpu_class[row] = class_of(index, notes, gpu->kind[row], gpu->name[row]);
}

static void classify_host(TraceIndex *index, TraceRows *step_rows)
{
    const ProfileEvents *host = &index->profile->host;
    CLEANUP_FREE NameNote *notes = xcalloc(profile_name_count(index->profile) + 1, sizeof(*notes));
    size_t ops = 0;

    for (size_t row = 0; row < host->len; row++) {
        index->host_class[row] = class_of(index, notes, host->kind[row], host->name[row]);
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

static bool holds_range(int64_t outer_end, int64_t start, int64_t end)
{
    if (start >= outer_end)
        return false;
    return end <= outer_end || (end - outer_end <= TRACE_JITTER_NS && outer_end - start >= end - outer_end);
}

static bool marks_what_is_inside(uint8_t class)
{
    return class >= TRACE_HOST_DATA && class <= TRACE_HOST_LOGGING;
}

/* What is open as a row begins is the row before it and what lies around that. *ops counts the operators so far. */
static void nest_lane(TraceIndex *index, size_t first, size_t last, uint32_t *ops)
{
    const ProfileEvents *host = &index->profile->host;
    uint32_t outer = PROFILE_NONE;

    for (size_t row = first; row < last; outer = (uint32_t)row++) {
        const int64_t start = host->start[row], end = start + host->duration[row];
        uint8_t inside = index->host_class[row];
        uint32_t op = PROFILE_NONE;

        while (outer != PROFILE_NONE && !holds_range(profile_end(host, outer), start, end))
            outer = index->parent[outer];
        if (outer != PROFILE_NONE) {
            op = index->op_at[outer];
            if (!marks_what_is_inside(inside) && marks_what_is_inside(index->host_inside[outer]))
                inside = index->host_inside[outer];
        }
        if (host->kind[row] == PROFILE_OP) {
            op = (*ops)++;
            index->op_rows[op] = (uint32_t)row;
        }
        index->parent[row] = outer;
        index->host_inside[row] = inside;
        index->op_at[row] = op;
    }
}

static void nest_rows(TraceIndex *index)
{
    uint32_t ops = 0;

    index->op_rows = xmalloc_large((index->op_count + 1) * sizeof(*index->op_rows));
    for (size_t lane = 0; lane < index->profile->lanes.len; lane++)
        nest_lane(index, index->lane_first[lane], index->lane_first[lane + 1], &ops);
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
    trace_index_first(making->index);
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
    index->kernel_name = xcalloc(profile_name_count(profile) + 1, sizeof(*index->kernel_name));
    index->graph_name = xcalloc(profile_name_count(profile) + 1, sizeof(*index->graph_name));
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
    free(index->kernel_name);
    free(index->graph_name);
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
