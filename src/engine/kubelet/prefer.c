/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices of a resource a container should get. Scores follow the order of NVIDIA's allocator: any NVLink is
 * worth more than any path over PCIe, and more links more. */
#include "engine/kubelet/offer.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum { LINK_SCORE = 100, IDS_MAX = 65536 };

/* --- how near two GPUs are ---------------------------------------------------------------------------------------- */

/* Links of a GPU that are up and lead to that address, or, without one, to a switch, which all GPUs behind it share. */
static unsigned count_links(const Node *node, const NodeGpu *gpu, const PciAddress *to)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < gpu->link_count; i++) {
        int64_t up = 0, remote;
        PciAddress at;

        if (!sample_int64(&gpu->links[i].active, &up) || !up || !sample_int64(&gpu->links[i].remote, &remote) ||
            !pci_unpack(remote, &at))
            continue;
        count += to ? pci_compare(at, *to) == 0 : !node_find_gpu(node, at);
    }
    return count;
}

unsigned offer_link_score(const Snapshot *snapshot, size_t a, size_t b)
{
    static const unsigned paths[TOPOLOGY_PATH_END] = {
        [TOPOLOGY_SELF] = 60, [TOPOLOGY_PIX] = 50,  [TOPOLOGY_PXB] = 40,
        [TOPOLOGY_PHB] = 30,  [TOPOLOGY_NODE] = 20, [TOPOLOGY_SYS] = 10,
    };
    const NodeGpu *left = &snapshot->node->gpus[a], *right = &snapshot->node->gpus[b];
    const Device *l = &left->reading.device, *r = &right->reading.device;
    const Place *from = place_list_gpu(&snapshot->places, l->pci), *to = place_list_gpu(&snapshot->places, r->pci);
    const unsigned direct = count_links(snapshot->node, left, &r->pci),
                   back = count_links(snapshot->node, right, &l->pci);
    const unsigned out = count_links(snapshot->node, left, NULL), in = count_links(snapshot->node, right, NULL);

    return LINK_SCORE * ((direct < back ? direct : back) + (out < in ? out : in)) +
           (from && to ? paths[place_between(from, to)] : 0);
}

/* --- whole GPUs --------------------------------------------------------------------------------------------------- */

typedef struct Search {
    size_t count;                                     /* free GPUs */
    unsigned score[OFFER_EXACT_MAX][OFFER_EXACT_MAX]; /* of each pair */
    uint32_t must;
    uint32_t best;
    unsigned best_in, best_left;
} Search;

static unsigned sum_pairs(const Search *search, uint32_t set)
{
    unsigned sum = 0;

    for (size_t i = 0; i < search->count; i++)
        for (size_t k = i + 1; k < search->count && set >> i & 1; k++)
            sum += set >> k & 1 ? search->score[i][k] : 0;
    return sum;
}

/* All sets that hold those chosen and `size` in all: GPUs from `from` on are open; `in` is the score of those chosen.
 */
static void search_sets(Search *search, uint32_t chosen, size_t from, size_t missing, unsigned in)
{
    if (missing == 0) {
        const uint32_t all = (UINT32_C(1) << search->count) - 1;

        if ((chosen & search->must) != search->must || (search->best && in < search->best_in))
            return;
        const unsigned left = sum_pairs(search, all & ~chosen);
        if (!search->best || in > search->best_in || left > search->best_left) {
            search->best = chosen;
            search->best_in = in;
            search->best_left = left;
        }
        return;
    }
    for (size_t i = from; i + missing <= search->count; i++) {
        unsigned more = in;

        for (size_t k = 0; k < i; k++)
            more += chosen >> k & 1 ? search->score[i][k] : 0;
        search_sets(search, chosen | UINT32_C(1) << i, i + 1, missing - 1, more);
    }
}

/* Of more GPUs than can be searched: the one that goes best with those chosen, again and again. */
static void choose_greedily(const Snapshot *snapshot, const OfferResource *resource, const bool *free_units,
                            bool *chosen, size_t missing)
{
    for (; missing > 0; missing--) {
        size_t best = SIZE_MAX;
        unsigned best_score = 0;

        for (size_t i = 0; i < resource->units.len; i++) {
            unsigned score = 1;

            if (!free_units[i] || chosen[i])
                continue;
            for (size_t k = 0; k < resource->units.len; k++)
                score +=
                    chosen[k] ? offer_link_score(snapshot, resource->units.at[i].gpu, resource->units.at[k].gpu) : 0;
            if (score > best_score) {
                best = i;
                best_score = score;
            }
        }
        chosen[best] = true;
    }
}

static void choose_gpus(const Snapshot *snapshot, const OfferResource *resource, const bool *free_units, bool *chosen,
                        size_t size)
{
    size_t at[OFFER_EXACT_MAX], count = 0, taken = 0;
    Search search = {0};

    for (size_t i = 0; i < resource->units.len; i++) {
        taken += chosen[i];
        if (!free_units[i])
            continue;
        if (count < OFFER_EXACT_MAX) {
            at[count] = i;
            search.must |= (uint32_t)chosen[i] << count;
        }
        count++;
    }
    if (count > OFFER_EXACT_MAX) {
        choose_greedily(snapshot, resource, free_units, chosen, size - taken);
        return;
    }
    search.count = count;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            search.score[i][k] = search.score[k][i] =
                offer_link_score(snapshot, resource->units.at[at[i]].gpu, resource->units.at[at[k]].gpu);
    search_sets(&search, 0, 0, size, 0);
    for (size_t i = 0; i < count; i++)
        chosen[at[i]] = search.best >> i & 1;
}

/* --- parts of GPUs ------------------------------------------------------------------------------------------------ */

static size_t count_free(const OfferResource *resource, const size_t *open, size_t gpu)
{
    size_t count = 0;

    for (size_t i = 0; i < resource->units.len; i++)
        count += resource->units.at[i].gpu == gpu ? open[i] : 0;
    return count;
}

/* The unit from which the next one is taken; `open`: free replicas of each. SIZE_MAX: none is left. */
static size_t next_unit(const OfferResource *resource, OfferSpread spread, const size_t *open)
{
    const bool shared = resource->sharing != OFFER_SHARING_NONE;
    size_t best = SIZE_MAX, best_free = 0;

    for (size_t i = 0; i < resource->units.len; i++) {
        const size_t free_here = shared ? open[i] : count_free(resource, open, resource->units.at[i].gpu);
        const bool more = shared && spread == OFFER_SPREAD_DISTRIBUTED;

        if (open[i] == 0)
            continue;
        if (best == SIZE_MAX || (more ? free_here > best_free : free_here < best_free)) {
            best = i;
            best_free = free_here;
        }
    }
    return best;
}

/* --- ids ---------------------------------------------------------------------------------------------------------- */

static int find_units(const OfferResource *resource, const char *const *ids, size_t count, size_t *ret, Err *err)
{
    for (size_t i = 0; i < count; i++) {
        const OfferUnit *unit = offer_unit(resource, ids[i]);

        if (!unit)
            return err_set(err, -EINVAL, "%s has no device '%.100s'", resource->name, ids[i]);
        ret[i] = (size_t)(unit - resource->units.at);
    }
    return 0;
}

static bool is_in(const char *id, const char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

/* The first id of this unit that is not among those chosen. */
static const char *take_id(const char *const *ids, const size_t *units, size_t count, size_t unit,
                           const char *const *chosen, size_t chosen_count)
{
    for (size_t i = 0; i < count; i++)
        if (units[i] == unit && !is_in(ids[i], chosen, chosen_count))
            return ids[i];
    return NULL;
}

static size_t choose_parts(const OfferResource *resource, OfferSpread spread, const char *const *ids,
                           const size_t *units, size_t count, const char **ret, size_t done, size_t size)
{
    CLEANUP_FREE size_t *open = xcalloc(resource->units.len, sizeof *open);

    for (size_t i = 0; i < count; i++)
        open[units[i]] += !is_in(ids[i], ret, done);
    while (done < size) {
        const size_t unit = next_unit(resource, spread, open);

        if (unit == SIZE_MAX)
            break;
        ret[done] = take_id(ids, units, count, unit, ret, done);
        done++;
        open[unit]--;
    }
    return done;
}

static size_t choose_whole(const OfferResource *resource, const Snapshot *snapshot, const char *const *ids,
                           const size_t *units, size_t count, const char **ret, size_t done, size_t size)
{
    CLEANUP_FREE bool *open = xcalloc(resource->units.len, sizeof *open);
    CLEANUP_FREE bool *chosen = xcalloc(resource->units.len, sizeof *chosen);
    size_t free_count = 0;

    for (size_t i = 0; i < count; i++) {
        free_count += !open[units[i]];
        open[units[i]] = true;
        chosen[units[i]] |= is_in(ids[i], ret, done);
    }
    if (free_count < size)
        return free_count;
    choose_gpus(snapshot, resource, open, chosen, size);
    done = 0;
    for (size_t i = 0; i < resource->units.len; i++)
        if (chosen[i])
            ret[done++] = take_id(ids, units, count, i, NULL, 0);
    return done;
}

int offer_prefer(const OfferResource *resource, const Snapshot *snapshot, OfferSpread spread,
                 const char *const *available, size_t available_count, const char *const *must, size_t must_count,
                 size_t size, const char **ret, Err *err)
{
    const bool whole =
        resource->sharing == OFFER_SHARING_NONE && resource->units.len > 0 && !resource->units.at[0].profile[0];

    if (must_count > size || size > available_count || available_count > IDS_MAX)
        return err_set(err, -EINVAL, "%zu devices of %zu are asked for, %zu of them given", size, available_count,
                       must_count);
    CLEANUP_FREE size_t *units = xcalloc(available_count + 1, sizeof *units);
    TRY(find_units(resource, available, available_count, units, err));
    for (size_t i = 0; i < must_count; i++) {
        if (!is_in(must[i], available, available_count))
            return err_set(err, -EINVAL, "device '%.100s' must be given and is not free", must[i]);
        ret[i] = must[i];
    }
    const size_t done = whole
                            ? choose_whole(resource, snapshot, available, units, available_count, ret, must_count, size)
                            : choose_parts(resource, spread, available, units, available_count, ret, must_count, size);
    return done == size ? 0 : err_set(err, -EINVAL, "only %zu of %zu devices can be given", done, size);
}
