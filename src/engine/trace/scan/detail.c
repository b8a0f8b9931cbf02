/* SPDX-License-Identifier: Apache-2.0 */
/* Details from args. Kernels are launched in the same few ways and operators called with the same few shapes: both
 * are recognised by their texts before any number is read. */
#include "engine/trace/scan/detail.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/owner.h"
#include "engine/trace/scan/thread.h"

/* What decides a launch, beside its being in a graph. */
static const uint8_t launch_slots[] = {SLOT_GRID,      SLOT_BLOCK,         SLOT_REGISTERS,   SLOT_SHARED,
                                       SLOT_OCCUPANCY, SLOT_BLOCKS_PER_SM, SLOT_WARPS_PER_SM};

enum { LAUNCH_VALUE = 32, LAUNCH_ROOM = ARRAY_LEN(launch_slots) * (1 + LAUNCH_VALUE) + 1 + sizeof(uint64_t) };

static uint32_t collective(TraceScan *scan)
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

/* The values as they stand there, each behind its length and kind, in room that is filled up with zeros. 0: they are
 * longer than values of launches are. */
static size_t launch_text(const TraceScan *scan, bool in_graph, char room[LAUNCH_ROOM])
{
    static_assert((int)LAUNCH_VALUE <= (int)SCAN_PAD, "a value's room is copied whole");
    char *out = room;

    for (size_t i = 0; i < ARRAY_LEN(launch_slots); i++) {
        const Slice *slice = slice_of(scan, launch_slots[i]);

        if (!has(scan, launch_slots[i])) {
            *out++ = 0;
            continue;
        }
        if (slice->len >= LAUNCH_VALUE)
            return 0;
        *out++ = (char)(1 + slice->len * 4 + slice->kind);
        memcpy(out, slice->at, LAUNCH_VALUE);
        out += slice->len;
    }
    *out++ = in_graph;
    memset(out, 0, sizeof(uint64_t));
    return (size_t)(out - room);
}

static LaunchEntry *launch_entry(TraceScan *scan, const char *text, size_t len)
{
    uint64_t h = len;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t v;

        memcpy(&v, text + i, sizeof v);
        h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return &scan->caches->launch[h % LAUNCH_CACHE];
}

static bool any_launch(const TraceScan *scan)
{
    uint64_t slots = SLOT_BIT(SLOT_GRAPH) | SLOT_BIT(SLOT_GRAPH_NODE);

    for (size_t i = 0; i < ARRAY_LEN(launch_slots); i++)
        slots |= SLOT_BIT(launch_slots[i]);
    return scan->walk->present & slots;
}

uint32_t detail_launch(TraceScan *scan)
{
    ProfileLaunch launch = {.collective = collective(scan)};
    char text[LAUNCH_ROOM];

    if (!any_launch(scan) && launch.collective == PROFILE_NONE)
        return PROFILE_NONE;
    launch.in_graph = number_of(scan, SLOT_GRAPH, 0) > 0 || number_of(scan, SLOT_GRAPH_NODE, 0) > 0;
    const size_t len = launch.collective == PROFILE_NONE ? launch_text(scan, launch.in_graph, text) : 0;
    LaunchEntry *entry = len && len <= LAUNCH_BYTES ? launch_entry(scan, text, len) : NULL;

    if (entry && entry->len == len && memcmp(entry->text, text, len) == 0)
        return entry->launch;
    read_launch(scan, &launch);
    const uint32_t index = profile_launch(scan->profile, &launch);

    if (entry) {
        entry->launch = index;
        entry->len = (uint8_t)len;
        memcpy(entry->text, text, len);
    }
    return index;
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
    ProfileOp op = {.collective = collective(scan), .sequence = -1};

    if (op.collective == PROFILE_NONE && !has(scan, SLOT_DIMS) && !has(scan, SLOT_TYPES))
        return PROFILE_NONE;
    op.dims = name_of(scan, SLOT_DIMS);
    op.types = name_of(scan, SLOT_TYPES);
    scan->profile->with_shapes = true;
    if (op.collective != PROFILE_NONE) {
        op.sequence = number_of(scan, SLOT_AUTOGRAD, -1);
        return profile_op(scan->profile, &op);
    }
    OpEntry *entry = &scan->caches->op[(op.dims * 31 + op.types) % OP_CACHE];

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
