/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/instance.h"

#include <assert.h>
#include <string.h>

#include "base/number.h"
#include "engine/mig/mig.h"

enum { ENGINE_BITS = 4, SLICES_MASK = (1 << CLUSTER_MIG_SLICES_MAX) - 1 };
static_assert(CLUSTER_MIG_ENGINES_MAX < 1 << ENGINE_BITS, "a count of engines has room in its bits");
static_assert(CLUSTER_MIG_SLICES_MAX + MIG_ENGINE_END * ENGINE_BITS <= 32, "all of a GPU has room in a word");

static uint32_t span_of(const MigProfile *p, unsigned start)
{
    return ((UINT32_C(1) << p->size) - 1) << start;
}

static uint32_t word_of(const MigProfile *p, unsigned start)
{
    uint32_t word = span_of(p, start);

    for (unsigned e = 0; e < MIG_ENGINE_END; e++)
        word |= (uint32_t)p->engines[e] << (CLUSTER_MIG_SLICES_MAX + e * ENGINE_BITS);
    return word;
}

/* How many more of a profile the engines are enough for. */
static unsigned count_by_engines(const MigBoard *board, const MigProfile *p, uint32_t used)
{
    unsigned count = CLUSTER_MIG_SLICES_MAX;

    for (unsigned e = 0; e < MIG_ENGINE_END; e++) {
        const unsigned busy = used >> (CLUSTER_MIG_SLICES_MAX + e * ENGINE_BITS) & CLUSTER_MIG_ENGINES_MAX;

        if (p->engines[e] > 0)
            count = (unsigned)number_min_u64(count, (board->engines[e] - busy) / p->engines[e]);
    }
    return count;
}

uint32_t instance_first_used(const ClusterNode *node, unsigned gpu)
{
    const ClusterMig *mig = node->mig;
    const uint32_t all = (UINT32_C(1) << mig->board->grid) - 1;
    uint32_t used = 0, unused = 0;

    for (size_t i = 0; i < mig->instance_count; i++) {
        const ClusterInstance *one = &mig->instances[i];

        if (one->gpu != gpu)
            continue;
        if (one->used)
            used += word_of(&mig->board->profiles[one->profile], one->start);
        else
            unused |= span_of(&mig->board->profiles[one->profile], one->start);
    }
    if (node->gpus_broken >> gpu & 1)
        return all;
    return mig->fixed ? used | (all & ~unused) : used;
}

uint32_t instance_left(const ClusterNode *node, const PlacementLeft *left, unsigned gpu)
{
    if (!instance_is_on(node, gpu))
        return left->gpu_milli[gpu];
    const unsigned grid = node->mig->board->grid;
    return CLUSTER_GPU * (grid - (unsigned)__builtin_popcount(left->mig_used[gpu] & SLICES_MASK)) / grid;
}

bool instance_fits(const ClusterNode *node, const ClusterRequest *r, const PlacementLeft *left, unsigned gpu)
{
    return instance_is_on(node, gpu) ? instance_starts(node, instance_profile(node, r), gpu, left->mig_used[gpu]) != 0
                                     : left->gpu_milli[gpu] >= r->gpu_milli;
}

/* Where the instances of a profile are. */
static uint32_t fixed_starts(const ClusterMig *mig, const MigProfile *p, unsigned gpu)
{
    uint32_t starts = 0;

    for (size_t i = 0; i < mig->instance_count; i++) {
        const ClusterInstance *one = &mig->instances[i];

        if (one->gpu == gpu && &mig->board->profiles[one->profile] == p)
            starts |= UINT32_C(1) << one->start;
    }
    return starts;
}

uint32_t instance_starts(const ClusterNode *node, const MigProfile *p, unsigned gpu, uint32_t used)
{
    if (!p || !instance_is_on(node, gpu) || count_by_engines(node->mig->board, p, used) == 0)
        return 0;
    uint32_t starts = node->mig->fixed ? fixed_starts(node->mig, p, gpu) : p->starts;
    for (unsigned i = 0; i < p->size; i++)
        starts &= ~((used & SLICES_MASK) >> i);
    return starts;
}

/* Equal ranges: as many as can be have room when each takes the lowest start that is free. */
uint32_t instance_room(const ClusterNode *node, const MigProfile *p, const PlacementLeft *left)
{
    uint32_t count = 0;

    for (unsigned gpu = 0; gpu < node->gpu_count; gpu++) {
        uint32_t starts = instance_starts(node, p, gpu, left->mig_used[gpu]);
        unsigned most = count_by_engines(node->mig->board, p, left->mig_used[gpu]);

        for (; starts && most > 0; most--, count++)
            starts &= ~span_of(p, (unsigned)__builtin_ctz(starts));
    }
    return count;
}

uint32_t instance_total(const ClusterNode *node, const MigProfile *p)
{
    PlacementLeft empty = {.pods = 0};

    for (unsigned gpu = 0; gpu < node->gpu_count; gpu++)
        empty.mig_used[gpu] = instance_is_on(node, gpu) ? instance_first_used(node, gpu) : 0;
    return p ? instance_room(node, p, &empty) : 0;
}

bool instance_choose(const ClusterNode *node, const MigProfile *p, const PlacementLeft *left, PlacementChoice *ret)
{
    uint8_t best[MIG_GRID_MAX + 1], loss[MIG_GRID_MAX + 1];
    bool found = false;

    for (unsigned gpu = 0; gpu < node->gpu_count; gpu++)
        for (uint32_t starts = instance_starts(node, p, gpu, left->mig_used[gpu]); starts; starts &= starts - 1) {
            const unsigned start = (unsigned)__builtin_ctz(starts);

            instance_loss(node->mig->board, left->mig_used[gpu], left->mig_used[gpu] | span_of(p, start), loss);
            if (found && memcmp(loss, best, sizeof loss) >= 0)
                continue;
            found = true;
            memcpy(best, loss, sizeof best);
            ret->gpus = (uint16_t)(1u << gpu);
            ret->start = (uint8_t)start;
        }
    return found;
}

int32_t instance_change(const ClusterNode *node, const MigProfile *p, PlacementLeft *left, unsigned gpu, unsigned start,
                        int sign)
{
    const uint32_t word = word_of(p, start), before = instance_left(node, left, gpu);

    left->mig_used[gpu] = sign < 0 ? left->mig_used[gpu] + word : left->mig_used[gpu] - word;
    return (int32_t)instance_left(node, left, gpu) - (int32_t)before;
}

void instance_loss(const MigBoard *board, uint32_t before, uint32_t after, uint8_t ret[MIG_GRID_MAX + 1])
{
    uint8_t kept[MIG_GRID_MAX + 1];

    mig_count_placements(board, before & SLICES_MASK, ret);
    mig_count_placements(board, after & SLICES_MASK, kept);
    for (size_t i = 0; i < sizeof kept; i++)
        ret[i] = (uint8_t)(ret[i] - kept[i]);
}
