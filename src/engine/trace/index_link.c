/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which call launched which GPU operation, and in which operator. Host rows are put behind their number (correlation or
 * external id) in one counting pass; numbers that lie far apart are ranked first.
 */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/index_inside.h"

enum { SPREAD_MAX = 4, SPREAD_FREE = 65536, GROUP_SCAN_MAX = 8 };

static size_t bit_of(uint32_t number)
{
    return number * UINT32_C(0x9e3779b1) >> (32 - LINK_FILTER_BITS);
}

static void ask_for(LinkFilter *filter, uint32_t number)
{
    filter->words[bit_of(number) / 64] |= UINT64_C(1) << bit_of(number) % 64;
}

static bool passes_filter(const LinkFilter *filter, uint32_t number)
{
    return !filter || (filter->words[bit_of(number) / 64] >> bit_of(number) % 64 & 1);
}

void trace_link_done(LinkTable *table)
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

/* The slot of a number, PROFILE_NONE where nobody has it. */
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

/* The rows of the kind that have a number, of those that pass the filter. */
static void find_rows(const ProfileEvents *host, ProfileKind kind, const LinkFilter *filter, TraceRows *rows)
{
    vec_reserve(rows, host->len + 1);
    for (uint32_t row = 0; row < host->len; row++) {
        rows->at[rows->len] = row; /* kept or not: kinds come mixed, and a branch would be guessed wrong */
        rows->len += (size_t)(host->kind[row] == kind && host->link[row] && passes_filter(filter, host->link[row]));
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

void trace_link_init(LinkTable *table, const ProfileEvents *host, ProfileKind kind, const LinkFilter *filter)
{
    uint32_t least, most;
    TraceRows rows = {0};

    *table = (LinkTable){0};
    find_rows(host, kind, filter, &rows);
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

/* ---- choosing among the rows of a number ---- */

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

/* ---- what is filled ---- */

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

/* Those that no call says the operator of, by the external id. They are few as a rule, so a table of their numbers. */
static void link_external(TraceIndex *index)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    CLEANUP_FREE LinkFilter *filter = NULL;
    CLEANUP(trace_link_done) LinkTable ops = {0};

    for (size_t row = 0; row < gpu->len; row++) {
        if (index->op[row] != PROFILE_NONE || !gpu->external[row])
            continue;
        if (!filter)
            filter = xcalloc(1, sizeof(*filter));
        ask_for(filter, gpu->external[row]);
    }
    if (!filter)
        return;
    trace_link_init(&ops, &index->profile->host, PROFILE_OP, filter);
    for (size_t row = 0; row < gpu->len; row++)
        if (index->op[row] == PROFILE_NONE && gpu->external[row])
            index->op[row] = choose_call(index, &ops, gpu->external[row], gpu->start[row]);
}

void trace_index_link(TraceIndex *index, const LinkTable *calls)
{
    link_launches(index, calls);
    link_external(index);
}
