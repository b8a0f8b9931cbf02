/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded events of a device, played forward. Where they begin is found from their end, which is the snapshot: a
 * recording keeps the last events alone. What stood at the peak are the blocks that were allocated before it and not
 * yet freed; blocks of the snapshot that no event allocated were there all the time; the rest came before the first
 * event.
 */
#include <string.h>

#include "engine/allocator/inside.h"

typedef enum Action { ACTION_OTHER, ALLOC, FREE, RESERVE, RELEASE, OOM } Action;

typedef struct Live {
    const json_t *event; /* that allocated it */
    int64_t bytes;
} Live;

typedef struct Replay {
    const json_t *segments, *events;
    AllocatorNames *names;
    AllocatorDevice *device;
    int64_t allocated, reserved;
    VEC(Live) live; /* in the order of allocations; freed: no event */
    Map by_address; /* -> index in `live` + 1 */
} Replay;

static const struct {
    const char *word;
    Action action;
} actions[] = {{"alloc", ALLOC},
               {"free_completed", FREE},
               {"segment_alloc", RESERVE},
               {"segment_free", RELEASE},
               {"segment_map", RESERVE},
               {"segment_unmap", RELEASE},
               {"oom", OOM}};

static Action action_of(const json_t *event)
{
    const char *word = json_string_value(json_object_get(event, "action"));

    for (size_t i = 0; word && i < ARRAY_LEN(actions); i++)
        if (strcmp(word, actions[i].word) == 0)
            return actions[i].action;
    return ACTION_OTHER;
}

static int64_t time_of(const json_t *event)
{
    const json_t *time = json_object_get(event, "time_us");

    return json_is_integer(time) ? json_integer_value(time) : -1;
}

/* By how much an event changes the bytes, times `sign`. */
static void apply_event(Replay *replay, const json_t *event, int64_t sign)
{
    const Action action = action_of(event);
    const int64_t bytes = sign * allocator_bytes(event, "size", 0);

    replay->allocated += action == ALLOC ? bytes : action == FREE ? -bytes : 0;
    replay->reserved += action == RESERVE ? bytes : action == RELEASE ? -bytes : 0;
}

/* Bytes at the snapshot, as they were asked for. */
static void sum_blocks(Replay *replay)
{
    const json_t *segment, *block;
    size_t i, k;
    bool awaiting;

    json_array_foreach(replay->segments, i, segment)
    {
        if (allocator_bytes(segment, "device", 0) != replay->device->device)
            continue;
        replay->reserved += allocator_bytes(segment, "total_size", 0);
        json_array_foreach(json_object_get(segment, "blocks"), k, block) if (allocator_is_active(block, &awaiting))
            replay->allocated += allocator_bytes(block, "requested_size", allocator_bytes(block, "size", 0));
    }
}

static void add_point(Replay *replay, int64_t number, const json_t *event)
{
    AllocatorDevice *device = replay->device;
    const AllocatorPoint point = {
        .event = number, .time_us = time_of(event), .allocated = replay->allocated, .reserved = replay->reserved};
    AllocatorPoint *last = device->points.len ? &device->points.at[device->points.len - 1] : NULL;

    if (!last || last->event * ALLOCATOR_POINTS / device->events != number * ALLOCATOR_POINTS / device->events)
        vec_push(&device->points, point);
    else if (point.allocated > last->allocated)
        *last = point;
}

/* Finds the levels and the peak. Returns false where a level is below zero: the events are not those of the blocks. */
static bool play_levels(Replay *replay)
{
    AllocatorDevice *device = replay->device;
    const json_t *event;
    size_t i;

    for (i = json_array_size(replay->events); i-- > 0;)
        apply_event(replay, json_array_get(replay->events, i), -1);
    if (replay->allocated < 0 || replay->reserved < 0)
        return false;
    device->peak = device->largest_reserved = -1;
    json_array_foreach(replay->events, i, event)
    {
        apply_event(replay, event, 1);
        if (replay->allocated < 0 || replay->reserved < 0)
            return false;
        add_point(replay, (int64_t)i, event);
        device->largest_reserved =
            replay->reserved > device->largest_reserved ? replay->reserved : device->largest_reserved;
        if (replay->allocated <= device->peak)
            continue;
        device->peak = replay->allocated;
        device->peak_event = (int64_t)i;
        device->peak_time_us = time_of(event);
        device->peak_reserved = replay->reserved;
    }
    return true;
}

/* Keeps which blocks live after an event. */
static void follow_block(Replay *replay, const json_t *event)
{
    const Action action = action_of(event);
    const uint64_t address = allocator_address(event, "addr");
    const size_t at = action == FREE ? (size_t)(uintptr_t)map_u64_get(&replay->by_address, address) : 0;

    if (at)
        replay->live.at[at - 1].event = NULL;
    if (action != ALLOC)
        return;
    vec_push(&replay->live, ((Live){.event = event, .bytes = allocator_bytes(event, "size", 0)}));
    map_u64_put(&replay->by_address, address, (void *)(uintptr_t)replay->live.len);
}

/* Blocks of the snapshot that no event allocated. */
static void add_old_blocks(Replay *replay, Map *by_site)
{
    const json_t *segment, *block;
    size_t i, k;
    bool awaiting;

    json_array_foreach(replay->segments, i, segment)
    {
        uint64_t address = allocator_address(segment, "address"); /* older snapshots have none per block */
        if (allocator_bytes(segment, "device", 0) != replay->device->device)
            continue;
        json_array_foreach(json_object_get(segment, "blocks"), k, block)
        {
            const int64_t size = allocator_bytes(block, "size", 0);
            const size_t at = (size_t)(uintptr_t)map_u64_get(&replay->by_address, address);
            if (allocator_is_active(block, &awaiting) && (!at || !replay->live.at[at - 1].event))
                allocator_add_site(&replay->device->peak_sites, by_site, allocator_site(replay->names, block),
                                   allocator_bytes(block, "requested_size", size));
            address += (uint64_t)size;
        }
    }
}

static void list_peak(Replay *replay)
{
    AllocatorDevice *device = replay->device;
    const json_t *event;
    Map by_site;
    size_t i;

    map_u64_init(&by_site);
    json_array_foreach(replay->events, i, event)
    {
        follow_block(replay, event);
        for (size_t k = 0; (int64_t)i == device->peak_event && k < replay->live.len; k++)
            if (replay->live.at[k].event)
                allocator_add_site(&device->peak_sites, &by_site,
                                   allocator_site(replay->names, replay->live.at[k].event), replay->live.at[k].bytes);
    }
    add_old_blocks(replay, &by_site);
    map_done(&by_site);
    allocator_sort_sites(&device->peak_sites);
    device->before = device->peak;
    for (i = 0; i < device->peak_sites.len; i++)
        device->before -= device->peak_sites.at[i].bytes;
}

/* The last ones; levels are those of the replay, which stands behind the last event. */
static void list_ooms(Replay *replay)
{
    AllocatorDevice *device = replay->device;

    for (size_t i = json_array_size(replay->events); i-- > 0 && device->ooms.len < ALLOCATOR_OOMS_MAX;) {
        const json_t *event = json_array_get(replay->events, i);
        if (action_of(event) == OOM)
            vec_push(&device->ooms, ((AllocatorOom){.time_us = time_of(event),
                                                    .asked = allocator_bytes(event, "size", 0),
                                                    .device_free = allocator_bytes(event, "device_free", -1),
                                                    .allocated = device->timeline ? replay->allocated : -1,
                                                    .reserved = device->timeline ? replay->reserved : -1,
                                                    .site = allocator_site(replay->names, event)}));
        apply_event(replay, event, -1);
    }
}

static void forget_levels(AllocatorDevice *device)
{
    device->peak = device->peak_event = device->peak_time_us = device->peak_reserved = -1;
    device->largest_reserved = device->before = -1;
    vec_clear(&device->points);
}

void allocator_replay(const json_t *segments, const json_t *events, AllocatorNames *names, AllocatorDevice *device)
{
    Replay replay = {.segments = segments, .events = events, .names = names, .device = device};

    map_u64_init(&replay.by_address);
    sum_blocks(&replay);
    device->peak = -1;
    device->timeline = json_array_size(events) && play_levels(&replay);
    if (device->timeline)
        list_peak(&replay);
    else
        forget_levels(device);
    list_ooms(&replay);
    map_done(&replay.by_address);
    vec_done(&replay.live);
}
