/* SPDX-License-Identifier: Apache-2.0 */
/* The MPS daemons of what `stoker kubelet` offers. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "verb/kubelet/kubelet.h"

#define PERIOD_NS (5 * NS_PER_S)
#define RETRY_NS NS_PER_S
#define LIMIT_NS (10 * NS_PER_S)

MpsKeeper *kubelet_open_mps(uv_loop_t *loop, const KubeletOptions *o, const char *root, bool own_shm, bool *changed,
                            const Log *log)
{
    CLEANUP(arena_done) Arena arena = {0};

    return mps_keeper_new(loop, &(MpsKeeperConfig){.root = root,
                                                   .own_shm = own_shm,
                                                   .driver_root = kubelet_driver_root(o),
                                                   .cgroup_root = arena_printf(&arena, "%s/sys/fs/cgroup", o->root),
                                                   .period_ns = PERIOD_NS,
                                                   .retry_ns = RETRY_NS,
                                                   .limit_ns = LIMIT_NS,
                                                   .changed = changed,
                                                   .log = log});
}

static bool is_split(const Snapshot *snapshot, const OfferUnit *unit)
{
    return snapshot->node->gpus[unit->gpu].reading.mig;
}

/* A client's part of a GPU's memory, as the device plugin has it. False: the memory is not read yet. */
static bool find_limit(const Snapshot *snapshot, const OfferResource *resource, const OfferUnit *unit, uint64_t *ret)
{
    const Sample *total = &snapshot->node->gpus[unit->gpu].reading.sample[METRIC_FB_TOTAL];
    int64_t mebibytes;

    *ret = MPS_LIMIT_UNKNOWN;
    if (sample_int64(total, &mebibytes) && mebibytes > 0)
        *ret = (uint64_t)mebibytes / resource->replicas << 20;
    return *ret != MPS_LIMIT_UNKNOWN || total->absence != ABSENCE_NOT_YET || !unit->healthy;
}

/* False while it is not known what its daemon has to be. */
static bool describe_daemon(const Snapshot *snapshot, const OfferResource *resource, Arena *arena, MpsDaemonConfig *ret)
{
    const char **uuids = arena_calloc(arena, resource->units.len, sizeof *uuids);
    uint64_t *limits = arena_calloc(arena, resource->units.len, sizeof *limits);

    *ret = (MpsDaemonConfig){
        .name = resource->name, .uuids = uuids, .limit_bytes = limits, .thread_percent = 100 / resource->replicas};
    for (size_t i = 0; i < resource->units.len; i++) {
        const OfferUnit *unit = &resource->units.at[i];

        if (is_split(snapshot, unit))
            continue;
        if (!find_limit(snapshot, resource, unit, &limits[ret->uuid_count]))
            return false;
        uuids[ret->uuid_count++] = unit->device.uuid;
    }
    return ret->uuid_count > 0;
}

void kubelet_want_mps(MpsKeeper *keeper, const OfferConfig *config, const Offer *offer, const Snapshot *snapshot)
{
    CLEANUP(arena_done) Arena arena = {0};
    MpsDaemonConfig *daemons = arena_calloc(&arena, offer->resources.len + 1, sizeof *daemons);
    size_t count = 0;

    for (size_t i = 0; i < offer->resources.len; i++)
        if (offer->resources.at[i].sharing == OFFER_SHARING_MPS &&
            !describe_daemon(snapshot, &offer->resources.at[i], &arena, &daemons[count++]))
            return;
    /* an agent that lists no GPU for a while ends no daemon */
    if (count > 0 || config->sharing != OFFER_SHARING_MPS)
        mps_keeper_want(keeper, daemons, count);
}

static void judge_unit(const MpsKeeper *keeper, const char *root, const Snapshot *snapshot, OfferResource *resource,
                       OfferUnit *unit)
{
    char why[MPS_WHY_CAP], text[OFFER_WHY_CAP];
    const MpsState state = keeper ? mps_keeper_state(keeper, resource->name, unit->device.uuid, why)
                                  : mps_read_state(root, resource->name, unit->device.uuid, why);

    if (is_split(snapshot, unit)) {
        offer_unserve(unit, "it is in MIG mode and shared by MPS, which cannot be: turn MIG off, or do not share it");
    } else if (state != MPS_READY) {
        snprintf(text, sizeof text, "its MPS daemon is not ready (%s)%s%.400s", mps_states[state].key,
                 why[0] ? ": " : "", why);
        offer_unserve(unit, text);
    }
    if (unit->device.arch != DEVICE_ARCH_UNKNOWN && unit->device.arch < DEVICE_ARCH_VOLTA)
        resource->clients_max = MPS_CLIENTS_OLD;
}

void kubelet_judge_mps(const MpsKeeper *keeper, const char *root, const Snapshot *snapshot, Offer *offer)
{
    for (size_t i = 0; i < offer->resources.len; i++) {
        OfferResource *resource = &offer->resources.at[i];

        if (resource->sharing != OFFER_SHARING_MPS)
            continue;
        resource->clients_max = MPS_CLIENTS_MAX;
        const MpsState state = keeper ? mps_keeper_state(keeper, resource->name, NULL, resource->daemon_why)
                                      : mps_read_state(root, resource->name, NULL, resource->daemon_why);
        resource->daemon = mps_states[state].key;
        for (size_t k = 0; k < resource->units.len; k++)
            judge_unit(keeper, root, snapshot, resource, &resource->units.at[k]);
    }
}
