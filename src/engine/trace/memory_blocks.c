/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that stood at the peak of a device: who allocated them, and what they are by the passes in which they came and
 * went. The profiler records no category; what the passes do not tell is unknown.
 */
#include <string.h>

#include "base/map.h"
#include "engine/trace/analyse.h"

const char *const trace_memory_words[TRACE_MEMORY_CATEGORY_COUNT] = {
    [TRACE_MEMORY_BEFORE] = "before_profile", [TRACE_MEMORY_ACTIVATION] = "activation",
    [TRACE_MEMORY_GRADIENT] = "gradient",     [TRACE_MEMORY_OPTIMIZER] = "optimizer",
    [TRACE_MEMORY_TEMPORARY] = "temporary",   [TRACE_MEMORY_UNKNOWN] = "unknown",
};

typedef enum Pass { PASS_NONE, PASS_FORWARD, PASS_BACKWARD, PASS_OPTIMIZER } Pass;

typedef struct Block {
    size_t from, to; /* of the device's events; `to` SIZE_MAX: not released */
} Block;

typedef struct Place {
    uint32_t op;    /* host row of the innermost operator, PROFILE_NONE */
    uint32_t range; /* host row that tells the pass, PROFILE_NONE */
    Pass pass;
} Place;

typedef struct Blocks {
    const TraceJob *job;
    const uint32_t *events;
    size_t count;
    VEC(Block) all;
    Map standing;            /* address -> index in `all` + 1, of the last block there */
    VEC(int64_t) optimizers; /* starts of the optimizer's steps, ascending */
    Map holders;             /* operator's name and category -> index + 1 */
} Blocks;

/* The innermost event of a lane at a time, PROFILE_NONE. */
static uint32_t row_at(const TraceJob *job, uint32_t lane, int64_t time)
{
    const ProfileEvents *host = &job->index->profile->host;
    const size_t *first = &job->index->lane_first[lane];
    uint32_t row;

    if (lane >= job->index->profile->lanes.len)
        return PROFILE_NONE;
    const size_t behind = trace_find_after(host->start, sizeof(*host->start), first[0], first[1], time);

    row = behind > first[0] ? (uint32_t)behind - 1 : PROFILE_NONE;
    while (row != PROFILE_NONE && profile_end(host, row) < time)
        row = job->index->parent[row];
    return row;
}

static uint32_t op_around(const TraceJob *job, uint32_t row, int64_t time)
{
    const ProfileEvents *host = &job->index->profile->host;

    while (row != PROFILE_NONE && (host->kind[row] != PROFILE_OP || profile_end(host, row) < time))
        row = job->index->parent[row];
    return row;
}

const char *trace_op_at(const TraceJob *job, uint32_t lane, int64_t time)
{
    const uint32_t row = op_around(job, row_at(job, lane, time), time);

    return row == PROFILE_NONE ? "" : trace_copy_text(job, job->index->profile->host.name[row]);
}

static Place find_place(const TraceJob *job, const ProfileMemory *event)
{
    const uint32_t at = row_at(job, event->lane, event->start);
    Place place = {.op = op_around(job, at, event->start), .range = PROFILE_NONE};

    for (uint32_t row = at; row != PROFILE_NONE && place.pass == PASS_NONE; row = job->index->parent[row]) {
        if (trace_host_begins(job->index, row, "autograd::engine::evaluate_function"))
            place.pass = PASS_BACKWARD;
        else if (trace_host_begins(job->index, row, "Optimizer.step"))
            place.pass = PASS_OPTIMIZER;
        place.range = row;
    }
    if (place.pass == PASS_NONE && place.op != PROFILE_NONE)
        place.pass = PASS_FORWARD;
    return place;
}

/* False where addresses were not recorded: then nothing is known of blocks. */
static bool find_blocks(Blocks *blocks)
{
    const Profile *profile = blocks->job->index->profile;

    for (size_t i = 0; i < blocks->count; i++) {
        const ProfileMemory *event = &profile->memory.at[blocks->events[i]];
        const size_t at = (size_t)(uintptr_t)map_u64_get(&blocks->standing, event->address);

        if (event->address == 0 && event->bytes != 0)
            return false;
        if (at && blocks->all.at[at - 1].to == SIZE_MAX)
            blocks->all.at[at - 1].to = i;
        if (event->bytes <= 0)
            continue;
        vec_push(&blocks->all, ((Block){.from = i, .to = SIZE_MAX}));
        map_u64_put(&blocks->standing, event->address, (void *)(uintptr_t)blocks->all.len);
    }
    return true;
}

static int compare_times(const void *a_, const void *b_)
{
    const int64_t *a = a_, *b = b_;

    return (*a > *b) - (*a < *b);
}

static void find_optimizers(Blocks *blocks)
{
    const ProfileEvents *host = &blocks->job->index->profile->host;

    for (uint32_t row = 0; row < host->len; row++)
        if (trace_host_begins(blocks->job->index, row, "Optimizer.step"))
            vec_push(&blocks->optimizers, host->start[row]);
    vec_sort(&blocks->optimizers, compare_times);
}

/* Whether a step of the optimizer began in [from, to). */
static bool meets_optimizer(const Blocks *blocks, int64_t from, int64_t to)
{
    const size_t at = trace_find_after(blocks->optimizers.at, sizeof(int64_t), 0, blocks->optimizers.len, from);

    return at < blocks->optimizers.len && blocks->optimizers.at[at] < to;
}

static TraceMemoryCategory find_category(const Blocks *blocks, const Block *block, const Place *place)
{
    const Profile *profile = blocks->job->index->profile;
    const ProfileMemory *gone = block->to == SIZE_MAX ? NULL : &profile->memory.at[blocks->events[block->to]];
    const int64_t from = profile->memory.at[blocks->events[block->from]].start, to = gone ? gone->start : INT64_MAX;
    const Pass left = gone && gone->bytes < 0 ? find_place(blocks->job, gone).pass : PASS_NONE;

    if (place->op != PROFILE_NONE && to <= profile_end(&profile->host, place->op))
        return TRACE_MEMORY_TEMPORARY;
    if (place->pass == PASS_FORWARD)
        return left == PASS_BACKWARD ? TRACE_MEMORY_ACTIVATION : TRACE_MEMORY_UNKNOWN;
    if (place->pass == PASS_OPTIMIZER)
        return to > profile_end(&profile->host, place->range) ? TRACE_MEMORY_OPTIMIZER : TRACE_MEMORY_TEMPORARY;
    if (place->pass != PASS_BACKWARD)
        return TRACE_MEMORY_UNKNOWN;
    if (meets_optimizer(blocks, from, to))
        return TRACE_MEMORY_GRADIENT;
    return left == PASS_BACKWARD ? TRACE_MEMORY_TEMPORARY : TRACE_MEMORY_UNKNOWN;
}

static void add_holder(Blocks *blocks, const Block *block, TraceMemoryDevice *row)
{
    const Profile *profile = blocks->job->index->profile;
    const ProfileMemory *event = &profile->memory.at[blocks->events[block->from]];
    const Place place = find_place(blocks->job, event);
    const TraceMemoryCategory category = find_category(blocks, block, &place);
    const uint64_t name = place.op == PROFILE_NONE ? UINT32_MAX : profile->host.name[place.op];
    const uint64_t key = name * TRACE_MEMORY_CATEGORY_COUNT + category;
    size_t at = (size_t)(uintptr_t)map_u64_get(&blocks->holders, key);

    if (!at) {
        vec_push(
            &row->holders,
            ((TraceMemoryHolder){.name = place.op == PROFILE_NONE ? "" : trace_copy_text(blocks->job, (uint32_t)name),
                                 .category = category}));
        at = row->holders.len;
        map_u64_put(&blocks->holders, key, (void *)(uintptr_t)at);
    }
    row->holders.at[at - 1].bytes = trace_sum(row->holders.at[at - 1].bytes, event->bytes);
    row->holders.at[at - 1].blocks++;
    row->by_category[category] = trace_sum(row->by_category[category], event->bytes);
}

static int compare_holders(const void *a_, const void *b_)
{
    const TraceMemoryHolder *a = a_, *b = b_;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->category != b->category ? (int)a->category - (int)b->category : strcmp(a->name, b->name);
}

static void list_holders(Blocks *blocks, size_t peak, TraceMemoryDevice *row)
{
    int64_t known = 0;

    find_optimizers(blocks);
    for (size_t i = 0; i < blocks->all.len; i++)
        if (blocks->all.at[i].from <= peak && blocks->all.at[i].to > peak)
            add_holder(blocks, &blocks->all.at[i], row);
    vec_sort(&row->holders, compare_holders);
    for (size_t i = 0; i < row->holders.len; i++)
        known = trace_sum(known, row->holders.at[i].bytes);
    if (row->totals && known < row->peak_allocated)
        row->by_category[TRACE_MEMORY_BEFORE] = row->peak_allocated - known;
}

void trace_memory_blocks(const TraceJob *job, const uint32_t *events, size_t count, size_t peak, TraceMemoryDevice *row)
{
    Blocks blocks = {.job = job, .events = events, .count = count};

    map_u64_init(&blocks.standing);
    map_u64_init(&blocks.holders);
    if (find_blocks(&blocks))
        list_holders(&blocks, peak, row);
    else if (row->peak_allocated > 0)
        row->by_category[TRACE_MEMORY_UNKNOWN] = row->peak_allocated;
    map_done(&blocks.standing);
    map_done(&blocks.holders);
    vec_done(&blocks.all);
    vec_done(&blocks.optimizers);
}
