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
static unsigned score_places(const Place *from, const Place *to)
{
    static const unsigned paths[TOPOLOGY_PATH_END] = {
        [TOPOLOGY_SELF] = 60, [TOPOLOGY_PIX] = 50,  [TOPOLOGY_PXB] = 40,
        [TOPOLOGY_PHB] = 30,  [TOPOLOGY_NODE] = 20, [TOPOLOGY_SYS] = 10,
    };

    return from && to ? paths[place_between(from, to)] : 0;
}

static const Place *find_place(const Snapshot *snapshot, size_t gpu)
{
    return place_list_gpu(&snapshot->places, snapshot->node->gpus[gpu].reading.device.pci);
}

static unsigned score_path(const Snapshot *snapshot, size_t a, size_t b)
{
    return score_places(find_place(snapshot, a), find_place(snapshot, b));
}

/* To the nearest network adapter. */
static unsigned score_network(const Snapshot *snapshot, size_t gpu)
{
    const Place *from = find_place(snapshot, gpu);
    unsigned best = 0;

    for (size_t i = 0; i < snapshot->places.len; i++) {
        const Place *to = &snapshot->places.at[i];
        const unsigned score = to->adapter[0] ? score_places(from, to) : 0;

        best = score > best ? score : best;
    }
    return best;
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

void offer_links(const Snapshot *snapshot, GpuLinks *ret)
{
    const Node *node = snapshot->node;
    GpuLinks links = {0};

    *ret = links;
    for (size_t a = 0; a < node->gpu_count; a++) {
        const uint32_t i = node->gpus[a].reading.device.index;

        if (i >= GPU_LINKS_MAX)
            return;
        links.count = i >= links.count ? i + 1 : links.count;
        for (size_t b = 0; b < a; b++) {
            const uint32_t k = node->gpus[b].reading.device.index;

            links.score[i][k] = links.score[k][i] = (uint16_t)offer_link_score(snapshot, a, b);
        }
        links.score[i][i] = (uint16_t)score_network(snapshot, a);
    }
    *ret = links;
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
    GpuLinks links = {0}, heat = {0};
    uint16_t must = 0;

    for (size_t i = 0; i < c->units->len; i++) {
        taken += chosen[i];
        if (!c->open[i])
            continue;
        if (count < OFFER_EXACT_MAX) {
            at[count] = i;
            must = (uint16_t)(must | (uint32_t)chosen[i] << count);
        }
        count++;
    }
    if (count > OFFER_EXACT_MAX) {
        choose_greedily(c, chosen, size - taken);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        links.score[i][i] = (uint16_t)score_network(c->snapshot, c->units->at[at[i]].gpu);
        heat.score[i][i] = (uint16_t)sum_near_in_use(c, at[i]);
        for (size_t k = 0; k < i; k++) {
            links.score[i][k] = links.score[k][i] = (uint16_t)rate_links(c, at[i], at[k]);
            heat.score[i][k] = heat.score[k][i] = (uint16_t)rate_near(c, at[i], at[k]);
        }
    }
    const uint16_t best =
        gpu_links_choose(&links, c->apart ? &heat : NULL, (uint16_t)((1U << count) - 1), must, (unsigned)size);
    for (size_t i = 0; i < count; i++)
        chosen[at[i]] = best >> i & 1;
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
