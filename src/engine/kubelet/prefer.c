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

/* By PCIe and NUMA, which is also where they are in the chassis, as far as the kernel knows. */
static unsigned score_path(const Snapshot *snapshot, size_t a, size_t b)
{
    static const unsigned paths[TOPOLOGY_PATH_END] = {
        [TOPOLOGY_SELF] = 60, [TOPOLOGY_PIX] = 50,  [TOPOLOGY_PXB] = 40,
        [TOPOLOGY_PHB] = 30,  [TOPOLOGY_NODE] = 20, [TOPOLOGY_SYS] = 10,
    };
    const Place *from = place_list_gpu(&snapshot->places, snapshot->node->gpus[a].reading.device.pci),
                *to = place_list_gpu(&snapshot->places, snapshot->node->gpus[b].reading.device.pci);

    return from && to ? paths[place_between(from, to)] : 0;
}

/* NVLinks between them, those by switches included. */
static unsigned count_nvlinks(const Snapshot *snapshot, size_t a, size_t b)
{
    const NodeGpu *left = &snapshot->node->gpus[a], *right = &snapshot->node->gpus[b];
    const Device *l = &left->reading.device, *r = &right->reading.device;
    const unsigned direct = count_links(snapshot->node, left, &r->pci),
                   back = count_links(snapshot->node, right, &l->pci);
    const unsigned out = count_links(snapshot->node, left, NULL), in = count_links(snapshot->node, right, NULL);

    return (direct < back ? direct : back) + (out < in ? out : in);
}

unsigned offer_link_score(const Snapshot *snapshot, size_t a, size_t b)
{
    return LINK_SCORE * count_nvlinks(snapshot, a, b) + score_path(snapshot, a, b);
}

/* --- whole GPUs --------------------------------------------------------------------------------------------------- */

typedef struct Choice {
    const Snapshot *snapshot;
    const OfferUnits *units;
    const bool *open; /* the free ones */
    bool apart;
} Choice;

/* How fast two units reach each other. Where they are to be apart, the PCIe path does not count between GPUs that have
 * NVLink. */
static unsigned rate_links(const Choice *c, size_t i, size_t k)
{
    const size_t a = c->units->at[i].gpu, b = c->units->at[k].gpu;
    const unsigned links = c->apart ? count_nvlinks(c->snapshot, a, b) : 0;

    return links ? LINK_SCORE * links : offer_link_score(c->snapshot, a, b);
}

/* How much two units heat each other, as far as their places tell; 0 where that does not count. */
static unsigned rate_near(const Choice *c, size_t i, size_t k)
{
    return c->apart ? score_path(c->snapshot, c->units->at[i].gpu, c->units->at[k].gpu) : 0;
}

static unsigned sum_near_in_use(const Choice *c, size_t i)
{
    unsigned sum = 0;

    for (size_t k = 0; k < c->units->len; k++)
        sum += !c->open[k] && c->units->at[k].healthy ? rate_near(c, i, k) : 0;
    return sum;
}

typedef struct Search {
    size_t count;                                     /* free GPUs */
    unsigned score[OFFER_EXACT_MAX][OFFER_EXACT_MAX]; /* of each pair */
    bool apart;
    unsigned near[OFFER_EXACT_MAX][OFFER_EXACT_MAX]; /* where they are to be apart; [i][i]: to all GPUs in use */
    uint32_t must;
    uint32_t best;
    uint64_t best_worth;
} Search;

static unsigned sum_pairs(size_t count, unsigned pairs[OFFER_EXACT_MAX][OFFER_EXACT_MAX], uint32_t set)
{
    unsigned sum = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = i; k < count && set >> i & 1; k++)
            sum += set >> k & 1 ? pairs[i][k] : 0;
    return sum;
}

/* The set itself counts first, then what it leaves or how it lies. */
static uint64_t rate_set(Search *search, uint32_t set, unsigned in)
{
    const uint32_t others = ((UINT32_C(1) << search->count) - 1) & ~set;

    return (uint64_t)in << 32 | (search->apart ? UINT32_MAX - sum_pairs(search->count, search->near, set)
                                               : sum_pairs(search->count, search->score, others));
}

/* All sets that hold those chosen and `size` in all: GPUs from `from` on are open; `in` is the score of those chosen.
 */
static void search_sets(Search *search, uint32_t chosen, size_t from, size_t missing, unsigned in)
{
    if (missing == 0) {
        if ((chosen & search->must) != search->must || (search->best && in < search->best_worth >> 32))
            return;
        const uint64_t worth = rate_set(search, chosen, in);
        if (!search->best || worth > search->best_worth) {
            search->best = chosen;
            search->best_worth = worth;
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
static void choose_greedily(const Choice *c, bool *chosen, size_t missing)
{
    for (; missing > 0; missing--) {
        size_t best = SIZE_MAX;
        uint64_t best_worth = 0;

        for (size_t i = 0; i < c->units->len; i++) {
            unsigned fast = 1;

            if (!c->open[i] || chosen[i])
                continue;
            for (size_t k = 0; k < c->units->len; k++)
                fast += chosen[k] ? rate_links(c, i, k) : 0;
            const uint64_t worth = (uint64_t)fast << 32 | (UINT32_MAX - sum_near_in_use(c, i));
            if (worth > best_worth) {
                best = i;
                best_worth = worth;
            }
        }
        chosen[best] = true;
    }
}

static void choose_gpus(const Choice *c, bool *chosen, size_t size)
{
    size_t at[OFFER_EXACT_MAX], count = 0, taken = 0;
    Search search = {.apart = c->apart};

    for (size_t i = 0; i < c->units->len; i++) {
        taken += chosen[i];
        if (!c->open[i])
            continue;
        if (count < OFFER_EXACT_MAX) {
            at[count] = i;
            search.must |= (uint32_t)chosen[i] << count;
        }
        count++;
    }
    if (count > OFFER_EXACT_MAX) {
        choose_greedily(c, chosen, size - taken);
        return;
    }
    search.count = count;
    for (size_t i = 0; i < count; i++) {
        search.near[i][i] = sum_near_in_use(c, at[i]);
        for (size_t k = 0; k < i; k++) {
            search.score[i][k] = search.score[k][i] = rate_links(c, at[i], at[k]);
            search.near[i][k] = search.near[k][i] = rate_near(c, at[i], at[k]);
        }
    }
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
        done += ret[done] != NULL; /* an id that is named twice is free once */
        open[unit]--;
    }
    return done;
}

static size_t choose_whole(const OfferResource *resource, const Snapshot *snapshot, bool apart, const char *const *ids,
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
    choose_gpus(&(Choice){snapshot, &resource->units, open, apart}, chosen, size);
    done = 0;
    for (size_t i = 0; i < resource->units.len; i++)
        if (chosen[i])
            ret[done++] = take_id(ids, units, count, i, NULL, 0);
    return done;
}

int offer_prefer(const OfferResource *resource, const Snapshot *snapshot, OfferPolicy policy,
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
        if (!is_in(must[i], available, available_count) || is_in(must[i], must, i))
            return err_set(err, -EINVAL, "device '%.100s' must be given and is not free", must[i]);
        ret[i] = must[i];
    }
    const size_t done =
        whole ? choose_whole(resource, snapshot, policy.apart, available, units, available_count, ret, must_count, size)
              : choose_parts(resource, policy.spread, available, units, available_count, ret, must_count, size);
    return done == size ? 0 : err_set(err, -EINVAL, "only %zu of %zu devices can be given", done, size);
}
