/* SPDX-License-Identifier: Apache-2.0 */
/* Details from args. Kernels are launched in the same few ways and operators called with the same few shapes: both
 * are recognised by their texts before any number is read. */
#include "engine/trace/scan/detail.h"

#include <math.h>
#include <string.h>

#include "base/owner.h"
#include "engine/trace/scan/thread.h"

/* What decides a launch, beside its being in a graph. */
static const uint8_t launch_slots[] = {SLOT_GRID,      SLOT_BLOCK,         SLOT_REGISTERS,   SLOT_SHARED,
                                       SLOT_OCCUPANCY, SLOT_BLOCKS_PER_SM, SLOT_WARPS_PER_SM};

#define LAUNCH_SLOTS                                                                                                   \
    (SLOT_BIT(SLOT_GRID) | SLOT_BIT(SLOT_BLOCK) | SLOT_BIT(SLOT_REGISTERS) | SLOT_BIT(SLOT_SHARED) |                   \
     SLOT_BIT(SLOT_OCCUPANCY) | SLOT_BIT(SLOT_BLOCKS_PER_SM) | SLOT_BIT(SLOT_WARPS_PER_SM))
#define GRAPH_SLOTS (SLOT_BIT(SLOT_GRAPH) | SLOT_BIT(SLOT_GRAPH_NODE))

static uint32_t detail_collective(TraceScan *scan)
{
    if (!has(scan, SLOT_COLLECTIVE))
        return PROFILE_NONE;
    const ProfileCollective c = {
        .name = name_of(scan, SLOT_COLLECTIVE),
        .dtype = name_of(scan, SLOT_DTYPE),
        .group = name_of(scan, SLOT_GROUP),
        .group_label = name_of(scan, SLOT_GROUP_LABEL),
        .ranks = name_of(scan, SLOT_GROUP_RANKS),
        .in_elements = number_of(scan, SLOT_IN_ELEMENTS, -1),
        .out_elements = number_of(scan, SLOT_OUT_ELEMENTS, -1),
        .group_size = number_of(scan, SLOT_GROUP_SIZE, -1),
        .sequence = number_of(scan, SLOT_SEQUENCE, -1),
        .source = number_of(scan, SLOT_SOURCE_RANK, -1),
        .target = number_of(scan, SLOT_TARGET_RANK, -1),
    };

    return profile_collective(scan->profile, &c);
}

static uint32_t u32_of(const TraceScan *scan, Slot slot)
{
    const int64_t value = number_of(scan, slot, 0);

    return value <= 0 ? 0 : value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Not below 0; -1 where there is no such number. */
static float float_of(const TraceScan *scan, Slot slot)
{
    const double value = has(scan, slot) ? value_double(slice_of(scan, slot)) : NAN;

    return value >= 0 && value < 1e30 ? (float)value : -1;
}

static void read_launch(const TraceScan *scan, ProfileLaunch *launch)
{
    if (has(scan, SLOT_GRID))
        value_triple(slice_of(scan, SLOT_GRID), launch->grid);
    if (has(scan, SLOT_BLOCK))
        value_triple(slice_of(scan, SLOT_BLOCK), launch->block);
    launch->registers = u32_of(scan, SLOT_REGISTERS);
    launch->shared_bytes = u32_of(scan, SLOT_SHARED);
    launch->occupancy_percent = float_of(scan, SLOT_OCCUPANCY);
    launch->blocks_per_sm = float_of(scan, SLOT_BLOCKS_PER_SM);
    launch->warps_per_sm = float_of(scan, SLOT_WARPS_PER_SM);
}

/* From the first value of the launch to the end of the last one: these bytes say it all, beside which values are
 * there and of which kind. */
typedef struct LaunchText {
    const char *at;
    size_t len;
    uint32_t forms;
    uint64_t hash; /* of the values' first bytes */
} LaunchText;

static LaunchText launch_text(const TraceScan *scan)
{
    LaunchText text = {0};
    const char *end = NULL;

    for (size_t i = 0; i < ARRAY_LEN(launch_slots); i++) {
        const Slice *slice = slice_of(scan, launch_slots[i]);
        uint64_t eight;

        text.forms <<= 3;
        if (!has(scan, launch_slots[i]))
            continue;
        memcpy(&eight, slice->at, sizeof eight);
        text.hash = (text.hash ^ eight) * UINT64_C(0x9e3779b97f4a7c15);
        text.forms |= 4 | slice->kind;
        text.at = text.at && text.at < slice->at ? text.at : slice->at;
        end = end > slice->at + slice->len ? end : slice->at + slice->len;
    }
    text.len = (size_t)(end - text.at);
    return text;
}

static LaunchEntry *launch_entry(TraceScan *scan, const LaunchText *text)
{
    return &scan->caches->launch[(text->hash >> 32) % LAUNCH_CACHE];
}

static bool same_launch(const LaunchEntry *entry, uint32_t turn, const LaunchText *text, bool in_graph)
{
    return entry->turn == turn && entry->len == text->len && entry->forms == text->forms &&
           entry->in_graph == in_graph && memcmp(entry->text, text->at, text->len) == 0;
}

static uint32_t usual_launch(TraceScan *scan, ProfileLaunch *launch)
{
    const LaunchText text = launch_text(scan);
    LaunchEntry *entry = launch_entry(scan, &text);

    if (same_launch(entry, scan->caches->turn, &text, launch->in_graph))
        return entry->launch;
    read_launch(scan, launch);
    const uint32_t index = profile_launch(scan->profile, launch);

    if (text.len <= LAUNCH_BYTES) {
        entry->launch = index;
        entry->forms = text.forms;
        entry->turn = scan->caches->turn;
        entry->len = (uint16_t)text.len;
        entry->in_graph = launch->in_graph;
        memcpy(entry->text, text.at, text.len);
    }
    return index;
}

uint32_t detail_launch(TraceScan *scan)
{
    ProfileLaunch launch = {.collective = detail_collective(scan)};
    const uint64_t present = scan->walk->present;

    if (!(present & (LAUNCH_SLOTS | GRAPH_SLOTS)) && launch.collective == PROFILE_NONE)
        return PROFILE_NONE;
    launch.in_graph = number_of(scan, SLOT_GRAPH, 0) > 0 || number_of(scan, SLOT_GRAPH_NODE, 0) > 0;
    if (present & LAUNCH_SLOTS && launch.collective == PROFILE_NONE)
        return usual_launch(scan, &launch);
    read_launch(scan, &launch);
    return profile_launch(scan->profile, &launch);
}

/* Kind and memories from the name, which comes in few forms; ROCm says the kind in args. */
static void copy_words(TraceScan *scan, const ProfileEvent *event, ProfileCopy *copy)
{
    Caches *caches = scan->caches;

    if (event->name == PROFILE_NONE)
        return;
    if (caches->copy_name != event->name) {
        size_t len;
        const char *text = profile_text(scan->profile, event->name, &len);

        caches->copy = (ProfileCopy){0};
        profile_copy_words(text, len, &caches->copy);
        caches->copy_name = event->name;
    }
    copy->kind = caches->copy.kind;
    copy->source = caches->copy.source;
    copy->target = caches->copy.target;
}

uint32_t detail_copy(TraceScan *scan, const ProfileEvent *event)
{
    const Slice *kind = slice_of(scan, SLOT_COPY_KIND);
    ProfileCopy copy = {
        .bytes = number_of(scan, SLOT_BYTES, -1),
        .reported_gbs = has(scan, SLOT_BANDWIDTH) ? value_double(slice_of(scan, SLOT_BANDWIDTH)) : NAN,
    };

    copy_words(scan, event, &copy);
    if (copy.kind == PROFILE_COPY_UNKNOWN && has(scan, SLOT_COPY_KIND) && kind->kind <= SLICE_ESCAPED)
        profile_copy_words(kind->at, kind->len, &copy);
    if (event->kind == PROFILE_SET)
        copy.kind = PROFILE_COPY_SET;
    if (copy.bytes < 0)
        copy.bytes = -1;
    return profile_copy(scan->profile, &copy);
}

uint32_t detail_op(TraceScan *scan)
{
    ProfileOp op = {.collective = detail_collective(scan), .sequence = -1};

    if (op.collective == PROFILE_NONE && !has(scan, SLOT_DIMS) && !has(scan, SLOT_TYPES))
        return PROFILE_NONE;
    op.dims = name_of(scan, SLOT_DIMS);
    op.types = name_of(scan, SLOT_TYPES);
    scan->profile->with_shapes = true;
    if (op.collective != PROFILE_NONE) {
        op.sequence = number_of(scan, SLOT_AUTOGRAD, -1);
        return profile_op(scan->profile, &op);
    }
    OpEntry *entry = &scan->caches->own.op[(op.dims * 31 + op.types) % OP_CACHE];

    if (!entry->used || entry->dims != op.dims || entry->types != op.types)
        *entry = (OpEntry){.dims = op.dims, .types = op.types, .op = profile_op(scan->profile, &op), .used = true};
    return entry->op;
}

/* A stream where there is one: CUPTI writes 2^32-1 for none. */
static int64_t stream_of(const TraceScan *scan, Slot slot)
{
    const int64_t stream = number_of(scan, slot, -1);

    return stream >= 0 && stream != UINT32_MAX ? stream : -1;
}

void detail_sync(TraceScan *scan, int64_t start, int64_t duration)
{
    const size_t row = scan->profile->syncs.len;
    ProfileSync sync = {
        .start = start,
        .duration = duration,
        .name = name_of(scan, has(scan, SLOT_NAME) ? SLOT_NAME : SLOT_SYNC_KIND),
        .device = gpu_device(scan),
        .stream = stream_of(scan, SLOT_STREAM),
        .wait_stream = stream_of(scan, SLOT_WAIT_STREAM),
    };

    sync.link = id_of(scan, SLOT_CORRELATION, WIDE_SYNC_LINK, row);
    sync.wait_link = id_of(scan, SLOT_WAIT_LINK, WIDE_SYNC_WAIT, row);
    vec_push(&scan->profile->syncs, sync);
}

static int16_t i16_of(const TraceScan *scan, Slot slot, int16_t none)
{
    const int64_t value = number_of(scan, slot, none);

    return value >= INT16_MIN && value <= INT16_MAX ? (int16_t)value : none;
}

void detail_memory(TraceScan *scan, int64_t start)
{
    const ThreadKey key = thread_key(scan);
    const ProfileMemory memory = {
        .start = start,
        .bytes = number_of(scan, SLOT_MEMORY_BYTES, 0),
        .allocated = number_of(scan, SLOT_ALLOCATED, -1),
        .reserved = number_of(scan, SLOT_RESERVED, -1),
        .address = (uint64_t)number_of(scan, SLOT_ADDRESS, 0),
        .lane = thread_lane(scan, &key),
        .device = i16_of(scan, SLOT_DEVICE_ID, -1),
        .device_type = i16_of(scan, SLOT_DEVICE_TYPE, 0),
    };

    scan->profile->with_memory = true;
    vec_push(&scan->profile->memory, memory);
}
