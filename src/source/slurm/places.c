/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/places.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/number.h"
#include "base/vec.h"
#include "source/slurm/hostlist.h"

enum { COLUMNS_MAX = 64, NODE = CLUSTER_TIER_END, CELLS };

typedef struct Places {
    const SlurmText *text;
    SlurmWord rest;
    unsigned long line;
    int column[CELLS]; /* of each tier and of the node; -1: none */
    SlurmWord cells[CELLS];
    ClusterNode *nodes;
    Map numbers, domains[CLUSTER_TIER_END]; /* by name, from 1 */
    VEC(const char *) names[CLUSTER_TIER_END];
    uint32_t place[CLUSTER_TIER_END]; /* of this line */
    const char *stranger;             /* a node that the cluster lacks */
    Arena *arena;
    Err *err;
} Places;

static const char *find_column(size_t i)
{
    return i == NODE ? "node" : cluster_tiers[i].key;
}

static bool next_row(Places *p)
{
    SlurmWord line, cell;

    if (!slurm_next_line(&p->rest, &p->line, &line))
        return false;
    memset(p->cells, 0, sizeof p->cells);
    for (int column = 0; column < COLUMNS_MAX && slurm_word_next(&line, ',', &cell); column++)
        for (size_t i = 0; i < CELLS; i++)
            if (p->line > 1 ? p->column[i] == column : slurm_word_is(cell, find_column(i))) {
                p->column[i] = column;
                p->cells[i] = cell;
            }
    return true;
}

/* The number of a domain, a new one at its first name; 0 for none. */
static int find_domain(Places *p, size_t tier)
{
    const SlurmWord name = p->cells[tier];
    size_t number = 0;

    if (name.len > 0) {
        for (size_t i = 0; i < name.len; i++)
            if (!memchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", name.at[i], 65))
                return err_set(p->err, -EINVAL, "%s:%lu: %s '%.*s': names have letters, digits, '_', '-' and '.' alone",
                               p->text->name, p->line, cluster_tiers[tier].key, (int)number_min_u64(name.len, 60),
                               name.at);
        number = (size_t)(uintptr_t)map_getn(&p->domains[tier], name.at, name.len);
        if (!number) {
            vec_push(&p->names[tier], arena_strndup(p->arena, name.at, name.len));
            number = p->names[tier].len;
            map_putn(&p->domains[tier], name.at, name.len, (void *)(uintptr_t)number);
        }
    }
    p->place[tier] = (uint32_t)number;
    return 0;
}

static void place_node(void *at, const char *name, size_t len)
{
    Places *p = at;
    const size_t number = (size_t)(uintptr_t)map_getn(&p->numbers, name, len);

    if (number)
        memcpy(p->nodes[number - 1].domain, p->place, sizeof p->place);
    else if (!p->stranger)
        p->stranger = arena_strndup(p->arena, name, len);
}

static int read_lines(Places *p)
{
    for (size_t i = 0; i < CELLS; i++)
        p->column[i] = -1;
    if (!next_row(p) || p->column[NODE] < 0 ||
        (p->column[CLUSTER_NVLINK] < 0 && p->column[CLUSTER_RACK] < 0 && p->column[CLUSTER_BLOCK] < 0))
        return err_set(p->err, -EINVAL, "%s:1: its first line has to name the columns: node,nvlink,rack,block",
                       p->text->name);
    while (next_row(p)) {
        for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
            TRY(find_domain(p, tier));
        if (hostlist_expand(p->cells[NODE].at ? p->cells[NODE].at : "", p->cells[NODE].len, place_node, p, p->err) < 0)
            return err_add(p->err, "%s:%lu", p->text->name, p->line);
        if (p->stranger)
            return err_set(p->err, -EINVAL, "%s:%lu: Slurm has no node %s", p->text->name, p->line, p->stranger);
    }
    return 0;
}

static void hand_out(Places *p, Cluster *cluster)
{
    cluster->nodes = p->nodes;
    for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++) {
        cluster->domain_counts[tier] = p->names[tier].len;
        cluster->domains[tier] = p->names[tier].len ? arena_memdup(p->arena, p->names[tier].at,
                                                                   p->names[tier].len * sizeof *p->names[tier].at)
                                                    : NULL;
    }
}

int slurm_places_read(const SlurmText *text, Arena *arena, Cluster *cluster, Err *err)
{
    Places p = {.text = text, .rest = {text->text, text->len}, .arena = arena, .err = err};

    p.nodes = arena_memdup(arena, cluster->nodes, cluster->node_count * sizeof *cluster->nodes);
    map_init(&p.numbers);
    for (size_t i = 0; i < cluster->node_count; i++) {
        memset(p.nodes[i].domain, 0, sizeof p.nodes[i].domain);
        map_put(&p.numbers, p.nodes[i].name, (void *)(uintptr_t)(i + 1));
    }
    for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
        map_init(&p.domains[tier]);
    const int rc = read_lines(&p);
    if (rc == 0)
        hand_out(&p, cluster);
    map_done(&p.numbers);
    for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++) {
        map_done(&p.domains[tier]);
        vec_done(&p.names[tier]);
    }
    return rc;
}
