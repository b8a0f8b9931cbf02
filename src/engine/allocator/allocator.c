/* SPDX-License-Identifier: Apache-2.0 */
/* Segments and blocks at the snapshot, and what to change. */
#include "engine/allocator/allocator.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/human.h"
#include "engine/allocator/inside.h"
#include "engine/nccl/job.h"
#include "engine/nccl/pickle.h"

enum {
    DEVICES_MAX = 64,
    ENTRIES_MAX = 4 << 20, /* blocks and events: an entry may be shared, so the pickle's size does not bound them */
    SHARE_MIN = 10,        /* percent of what is reserved that is worth a finding */
};

/* ---- segments ---- */

static void add_block(AllocatorDevice *device, const json_t *block, AllocatorNames *names, Map *by_site)
{
    const int64_t size = allocator_bytes(block, "size", 0);
    bool awaiting;

    if (!allocator_is_active(block, &awaiting)) {
        device->inactive += size;
        device->largest_free = size > device->largest_free ? size : device->largest_free;
        return;
    }
    if (awaiting) {
        device->awaiting += size;
        return;
    }
    device->allocated += size;
    device->requested += allocator_bytes(block, "requested_size", size);
    allocator_add_site(&device->sites, by_site, allocator_site(names, block), size);
}

static void add_segment(AllocatorDevice *device, const json_t *segment, AllocatorNames *names, Map *by_site)
{
    const int64_t size = allocator_bytes(segment, "total_size", 0), used = device->allocated + device->awaiting;
    const bool expandable = json_is_true(json_object_get(segment, "is_expandable"));
    const json_t *block;
    size_t i;

    device->segments++;
    device->expandable_segments += expandable;
    device->reserved += size;
    json_array_foreach(json_object_get(segment, "blocks"), i, block) add_block(device, block, names, by_site);
    if (used == device->allocated + device->awaiting)
        device->releasable += size;
}

static void read_device(const json_t *segments, const json_t *events, int64_t number, AllocatorNames *names,
                        AllocatorDevice *device)
{
    const json_t *segment;
    Map by_site;
    size_t i;

    *device = (AllocatorDevice){.device = number, .events = (int64_t)json_array_size(events)};
    map_u64_init(&by_site);
    json_array_foreach(segments, i, segment) if (allocator_bytes(segment, "device", 0) == number)
        add_segment(device, segment, names, &by_site);
    map_done(&by_site);
    allocator_sort_sites(&device->sites);
    device->fragmentation =
        device->inactive ? 1 - (double)device->largest_free / (double)device->inactive : (double)NAN;
    allocator_replay(segments, events, names, device);
}

/* ---- findings ---- */

static void add_finding(AllocatorReport *report, const AllocatorFinding *finding)
{
    vec_push(&report->findings, *finding);
}

#define EXPANDABLE "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: free memory then is not cut into segments."

static void find_oom(AllocatorReport *report, const AllocatorDevice *device)
{
    const AllocatorOom *oom = &device->ooms.at[device->ooms.len - 1];
    const int64_t cached = oom->reserved < 0 ? -1 : oom->reserved - oom->allocated;
    const AllocatorSites *most = device->peak_sites.len ? &device->peak_sites : &device->sites;
    char asked[HUMAN_MAX], free_bytes[HUMAN_MAX], held[HUMAN_MAX];
    const char *known = cached < 0 ? "an unknown amount" : human_bytes(held, (double)cached);
    const char *advice = most->len ? arena_printf(&report->arena, "Most is held by %s: allocate less there.",
                                                  most->at[0].name[0] ? most->at[0].name : "code that was not recorded")
                                   : "Allocate less.";

    add_finding(
        report,
        &(AllocatorFinding){
            .id = "out-of-memory",
            .device = device->device,
            .bytes = oom->asked,
            .evidence = arena_printf(
                &report->arena,
                "%zu allocation%s failed; the last one asked for %s, the GPU had %s free, and the "
                "allocator held %s that was not in use",
                device->ooms.len, device->ooms.len == 1 ? "" : "s", human_bytes(asked, (double)oom->asked),
                oom->device_free < 0 ? "an unknown amount" : human_bytes(free_bytes, (double)oom->device_free), known),
            .advice = cached >= oom->asked && !device->expandable_segments ? EXPANDABLE : advice});
}

static bool is_much(int64_t part, int64_t whole)
{
    return part > 0 && part >= whole / 100 * SHARE_MIN;
}

static void find_device(AllocatorReport *report, const AllocatorDevice *device)
{
    const int64_t stuck = device->inactive - device->releasable;
    char bytes[HUMAN_MAX], all[HUMAN_MAX], largest[HUMAN_MAX];

    human_bytes(all, (double)device->reserved);
    if (device->ooms.len)
        find_oom(report, device);
    if (is_much(stuck, device->reserved) && !device->expandable_segments)
        add_finding(
            report,
            &(AllocatorFinding){
                .id = "fragmented",
                .device = device->device,
                .bytes = stuck,
                .evidence = arena_printf(
                    &report->arena, "%s of %s reserved are free between blocks in use; the largest free block is %s",
                    human_bytes(bytes, (double)stuck), all, human_bytes(largest, (double)device->largest_free)),
                .advice = EXPANDABLE});
    if (is_much(device->releasable, device->reserved))
        add_finding(report,
                    &(AllocatorFinding){.id = "cached",
                                        .device = device->device,
                                        .bytes = device->releasable,
                                        .evidence = arena_printf(&report->arena,
                                                                 "%s of %s reserved are in segments that hold nothing",
                                                                 human_bytes(bytes, (double)device->releasable), all),
                                        .advice = "torch.cuda.empty_cache() gives it back, if other processes or "
                                                  "libraries need it; the next allocations are slower then."});
}

/* ---- the whole ---- */

bool allocator_is_pickle(const char *head, size_t len)
{
    return len > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

/* Checks the shape, and how much there is to walk; highest device in *ret_devices. */
static int check_shape(const json_t *top, int64_t *ret_devices, Err *err)
{
    const json_t *segments = json_object_get(top, "segments"), *traces = json_object_get(top, "device_traces"), *part;
    size_t i, entries = 0;

    if (!json_is_array(segments))
        return err_set(err, -EBADMSG, "a Python pickle, but no memory snapshot: it has no list \"segments\"");
    *ret_devices = (int64_t)json_array_size(traces);
    json_array_foreach(segments, i, part)
    {
        const int64_t device = allocator_bytes(part, "device", 0);
        *ret_devices = device + 1 > *ret_devices ? device + 1 : *ret_devices;
        entries += 1 + json_array_size(json_object_get(part, "blocks"));
    }
    json_array_foreach(traces, i, part) entries += json_array_size(part);
    if (*ret_devices > DEVICES_MAX || entries > ENTRIES_MAX)
        return err_set(err, -EBADMSG, "a memory snapshot of more than %d devices, or %d blocks and events", DEVICES_MAX,
                       ENTRIES_MAX);
    return 0;
}

static int read_devices(const json_t *top, AllocatorReport *ret, Err *err)
{
    const json_t *segments = json_object_get(top, "segments"), *traces = json_object_get(top, "device_traces");
    AllocatorNames names = {.arena = &ret->arena};
    int64_t devices = 0;

    TRY(check_shape(top, &devices, err));
    map_u64_init(&names.by_frames);
    map_init(&names.by_text);
    for (int64_t i = 0; i < devices; i++) {
        AllocatorDevice *device = vec_add(&ret->devices);
        read_device(segments, json_array_get(traces, (size_t)i), i, &names, device);
        if (device->segments == 0 && device->events == 0)
            ret->devices.len--;
        else
            find_device(ret, device);
    }
    map_done(&names.by_frames);
    map_done(&names.by_text);
    return 0;
}

int allocator_read(Span bytes, AllocatorReport *ret, Err *err)
{
    static const PickleLimits limits = {.values = 32 << 20, .expanded = SIZE_MAX};
    const char *why;
    CLEANUP(json_decref_at) json_t *top = nccl_parse_pickle(bytes, &limits, &why);

    if (!top)
        return err_set(err, -EBADMSG, "a Python pickle that cannot be read: %s", why);
    *ret = (AllocatorReport){0};
    return read_devices(top, ret, err);
}

void allocator_done(AllocatorReport *report)
{
    for (size_t i = 0; i < report->devices.len; i++) {
        AllocatorDevice *device = &report->devices.at[i];
        vec_done(&device->sites);
        vec_done(&device->peak_sites);
        vec_done(&device->points);
        vec_done(&device->ooms);
    }
    vec_done(&report->devices);
    vec_done(&report->findings);
    arena_done(&report->arena);
}
