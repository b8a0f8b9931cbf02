/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/replay.h"

#include <math.h>

const WordRow replay_classes[REPLAY_CLASS_END] = {REPLAY_CLASS_TABLE(WORD_ROW)};

static ReplayClass class_of(const ClusterRequest *r)
{
    return r->gpu_count == 0            ? REPLAY_CPU_ONLY
           : r->gpu_count > 1           ? REPLAY_MANY
           : r->gpu_milli < CLUSTER_GPU ? REPLAY_SHARED
                                        : REPLAY_ONE;
}

static double percent_of(double part, uint64_t whole)
{
    return whole ? 100 * part / (double)whole : 0;
}

/* The study rounds shares to two digits before it takes means. */
static double round_percent(double percent)
{
    return rint(percent * 100) / 100;
}

static void add_to_bin(const Placement *placement, Replay *replay)
{
    const double arrived = rint(percent_of((double)replay->gpu_milli_asked, replay->gpu_milli));

    if (!(arrived < REPLAY_BINS))
        return;
    ReplayBin *bin = &replay->bins[(size_t)arrived];
    bin->pods++;
    bin->alloc_percent +=
        round_percent(percent_of((double)placement_gpu_milli_allocated(placement), replay->gpu_milli));
    bin->fragmented_percent += percent_of(placement_fragmentation(placement), replay->gpu_milli);
    bin->power_w += placement_power_w(placement);
}

void replay_run(Placement *placement, const ClusterRequest *requests, const uint32_t *order, size_t count, Replay *ret)
{
    *ret = (Replay){.pods = count, .gpu_milli = placement_gpu_milli(placement)};
    for (size_t i = 0; i < count; i++) {
        const ClusterRequest *r = &requests[order[i]];
        const uint32_t kind = placement_add_kind(placement, r);
        PlacementChoice choice;

        ret->gpu_milli_asked += cluster_request_milli(r);
        if (placement_decide(placement, kind, &choice)) {
            placement_bind(placement, kind, choice);
            ret->placed++;
        } else {
            ret->failed[class_of(r)]++;
        }
        add_to_bin(placement, ret);
    }
    ret->gpu_milli_allocated = placement_gpu_milli_allocated(placement);
    for (ReplayBin *bin = ret->bins; bin < ret->bins + REPLAY_BINS; bin++)
        if (bin->pods > 0) {
            bin->alloc_percent /= bin->pods;
            bin->fragmented_percent /= bin->pods;
            bin->power_w /= bin->pods;
        }
}
