/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/gpu_links.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "model/cluster.h"

static_assert((int)GPU_LINKS_MAX == (int)CLUSTER_GPUS_MAX, "of a node's GPUs all are known");

enum { PAIR = 1024 }; /* a pair's weight: more than the network's scores of all GPUs together, up to 60 each */

/* The row of a GPU, at *text, which is moved behind it: its first score is its own. Returns the number behind the last
 * GPU; 0: it is no row. */
static unsigned read_row(const char **text, unsigned gpu, GpuLinks *links)
{
    for (unsigned i = gpu; i < GPU_LINKS_MAX; i++) {
        const size_t len = strcspn(*text, ",;");
        const char end = (*text)[len];
        uint64_t score;

        if (number_parsen_u64(*text, len, 0, GPU_LINKS_SCORE_MAX, &score, NULL) < 0)
            return 0;
        links->score[gpu][i] = links->score[i][gpu] = (uint16_t)score;
        *text += len + (end != '\0');
        if (end != ',')
            return (end == ';') == (i > gpu) ? i + 1 : 0; /* the last row, and it alone, has one score */
    }
    return 0;
}

bool gpu_links_read(const char *text, GpuLinks *ret)
{
    GpuLinks links = {0};

    links.count = read_row(&text, 0, &links);
    for (unsigned i = 1; i < links.count; i++)
        if (read_row(&text, i, &links) != links.count)
            return false;
    if (links.count == 0 || *text)
        return false;
    *ret = links;
    return true;
}

const char *gpu_links_write(const GpuLinks *links, char to[GPU_LINKS_TEXT_CAP])
{
    size_t len = 0;

    to[0] = '\0';
    for (unsigned i = 0; i < links->count; i++)
        for (unsigned k = i; k < links->count; k++)
            len += (size_t)snprintf(to + len, GPU_LINKS_TEXT_CAP - len, "%s%u",
                                    k > i   ? ","
                                    : i > 0 ? ";"
                                            : "",
                                    (unsigned)links->score[i][k]);
    return to;
}

/* --- the best set ------------------------------------------------------------------------------------------------- */

typedef struct Search {
    unsigned count; /* open GPUs; the others are not in it */
    unsigned size;
    uint32_t score[GPU_LINKS_MAX][GPU_LINKS_MAX], heat[GPU_LINKS_MAX][GPU_LINKS_MAX];
    bool by_heat;
    uint32_t must, best;
    uint64_t best_worth;
} Search;

static uint32_t sum_pairs(unsigned count, uint32_t pairs[GPU_LINKS_MAX][GPU_LINKS_MAX], uint32_t set)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < count; i++)
        for (unsigned k = i; k < count && set >> i & 1; k++)
            sum += set >> k & 1 ? pairs[i][k] : 0;
    return sum;
}

/* The set itself counts first, then what it leaves or how it lies. */
static uint64_t rate_set(Search *search, uint32_t set, uint32_t in)
{
    const uint32_t others = ((UINT32_C(1) << search->count) - 1) & ~set;

    return (uint64_t)in << 32 | (search->by_heat ? UINT32_MAX - sum_pairs(search->count, search->heat, set)
                                                 : sum_pairs(search->count, search->score, others));
}

/* All sets that hold those chosen: GPUs from `from` on are open; `in` is the score of those chosen. */
static void search_sets(Search *search, uint32_t chosen, unsigned from, unsigned missing, uint32_t in)
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
    for (unsigned i = from; i + missing <= search->count; i++) {
        uint32_t more = in + (search->size > 1 ? search->score[i][i] : 0);

        for (unsigned k = 0; k < i; k++)
            more += chosen >> k & 1 ? search->score[i][k] : 0;
        search_sets(search, chosen | UINT32_C(1) << i, i + 1, missing - 1, more);
    }
}

uint16_t gpu_links_choose(const GpuLinks *links, const GpuLinks *heat, uint16_t open, uint16_t must, unsigned size)
{
    Search search = {.size = size, .by_heat = heat};
    unsigned at[GPU_LINKS_MAX];
    uint16_t chosen = 0;

    for (unsigned i = 0; i < GPU_LINKS_MAX; i++)
        if (open >> i & 1) {
            search.must |= (uint32_t)(must >> i & 1) << search.count;
            at[search.count++] = i;
        }
    if (size == 0 || size > search.count)
        return 0;
    for (unsigned i = 0; i < search.count; i++)
        for (unsigned k = 0; k < search.count; k++) {
            search.score[i][k] = links->score[at[i]][at[k]] * (i == k ? 1U : PAIR);
            search.heat[i][k] = heat ? heat->score[at[i]][at[k]] : 0;
        }
    search_sets(&search, 0, 0, size, 0);
    for (unsigned i = 0; i < search.count; i++)
        chosen = (uint16_t)(chosen | (search.best >> i & 1) << at[i]);
    return chosen;
}
