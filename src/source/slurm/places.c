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

/* Nodes that get domains. */
typedef struct Places {
    const char *text; /* its name */
    unsigned long line;
    ClusterNode *nodes;
    Map numbers; /* of nodes by name, from 1 */
    VEC(const char *) names[CLUSTER_TIER_END];
    uint32_t place[CLUSTER_TIER_END]; /* what the nodes of this line get; 0: what they have, where `keep` */
    bool keep;
    const char *stranger; /* a node that the cluster lacks */
    Arena *arena;
    Err *err;
} Places;

static void place_node(void *at, const char *name, size_t len)
{
    Places *p = at;
    const size_t number = (size_t)(uintptr_t)map_getn(&p->numbers, name, len);

    if (!number && !p->stranger)
        p->stranger = arena_strndup(p->arena, name, len);
    for (size_t tier = 0; tier < CLUSTER_TIER_END && number; tier++)
        if (p->place[tier] || !p->keep)
            p->nodes[number - 1].domain[tier] = p->place[tier];
}

static int place_nodes(Places *p, SlurmWord list)
{
    if (list.at && hostlist_expand(list.at, list.len, place_node, p, p->err) < 0)
        return err_add(p->err, "%s:%lu", p->text, p->line);
    return 0;
}

static void begin_places(const SlurmText *text, Arena *arena, const Cluster *c, Err *err, Places *ret)
{
    *ret = (Places){.text = text->name, .arena = arena, .err = err};
    ret->nodes = arena_memdup(arena, c->nodes, c->node_count * sizeof *c->nodes);
    map_init(&ret->numbers);
    for (size_t i = 0; i < c->node_count; i++) {
        memset(ret->nodes[i].domain, 0, sizeof ret->nodes[i].domain);
        map_put(&ret->numbers, ret->nodes[i].name, (void *)(uintptr_t)(i + 1));
    }
}

/* Gives the cluster what was read, where it was fine. */
static int end_places(Places *p, int rc, Cluster *c)
{
    if (rc == 0)
        c->nodes = p->nodes;
    for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++) {
        const size_t count = p->names[tier].len;

        if (rc == 0) {
            c->domain_counts[tier] = count;
            c->domains[tier] =
                count ? arena_memdup(p->arena, p->names[tier].at, count * sizeof *p->names[tier].at) : NULL;
        }
        vec_done(&p->names[tier]);
    }
    map_done(&p->numbers);
    return rc;
}

/* --- a CSV -------------------------------------------------------------------------------------------------------- */

typedef struct Table {
    Places to;
    SlurmWord rest;
    int column[CELLS]; /* of each tier and of the node; -1: none */
    SlurmWord cells[CELLS];
    Map domains[CLUSTER_TIER_END]; /* by name, from 1 */
} Table;

static const char *find_column(size_t i)
{
    return i == NODE ? "node" : cluster_tiers[i].key;
}

static bool next_row(Table *t)
{
    SlurmWord line, cell;

    if (!slurm_next_line(&t->rest, &t->to.line, &line))
        return false;
    memset(t->cells, 0, sizeof t->cells);
    for (int column = 0; column < COLUMNS_MAX && slurm_word_next(&line, ',', &cell); column++)
        for (size_t i = 0; i < CELLS; i++)
            if (t->to.line > 1 ? t->column[i] == column : slurm_word_is(cell, find_column(i))) {
                t->column[i] = column;
                t->cells[i] = cell;
            }
    return true;
}

static bool is_name(SlurmWord name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    for (size_t i = 0; i < name.len; i++)
        if (!memchr(allowed, name.at[i], sizeof allowed - 1))
            return false;
    return true;
}

/* The number of a domain, a new one at its first name; 0 for none. */
static int find_domain(Table *t, size_t tier)
{
    const SlurmWord name = t->cells[tier];
    size_t number = name.len ? (size_t)(uintptr_t)map_getn(&t->domains[tier], name.at, name.len) : 0;

    if (!is_name(name))
        return err_set(t->to.err, -EINVAL, "%s:%lu: %s '%.*s': names have letters, digits, '_', '-' and '.' alone",
                       t->to.text, t->to.line, cluster_tiers[tier].key, (int)number_min_u64(name.len, 60), name.at);
    if (name.len && !number) {
        vec_push(&t->to.names[tier], arena_strndup(t->to.arena, name.at, name.len));
        number = t->to.names[tier].len;
        map_putn(&t->domains[tier], name.at, name.len, (void *)(uintptr_t)number);
    }
    t->to.place[tier] = (uint32_t)number;
    return 0;
}

static int read_rows(Table *t)
{
    const int *column = t->column;

    for (size_t i = 0; i < CELLS; i++)
        t->column[i] = -1;
    if (!next_row(t) || column[NODE] < 0 ||
        (column[CLUSTER_NVLINK] < 0 && column[CLUSTER_RACK] < 0 && column[CLUSTER_BLOCK] < 0))
        return err_set(t->to.err, -EINVAL, "%s:1: its first line has to name the columns: node,nvlink,rack,block",
                       t->to.text);
    while (next_row(t)) {
        for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
            TRY(find_domain(t, tier));
        TRY(place_nodes(&t->to, t->cells[NODE]));
        if (t->to.stranger)
            return err_set(t->to.err, -EINVAL, "%s:%lu: the cluster has no node %s", t->to.text, t->to.line,
                           t->to.stranger);
    }
    return 0;
}

int slurm_places_read(const SlurmText *text, Arena *arena, Cluster *cluster, Err *err)
{
    Table t = {.rest = {text->text, text->len}};

    begin_places(text, arena, cluster, err, &t.to);
    for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
        map_init(&t.domains[tier]);
    const int rc = end_places(&t.to, read_rows(&t), cluster);
    for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
        map_done(&t.domains[tier]);
    return rc;
}

/* --- Slurm's topology --------------------------------------------------------------------------------------------- */

#define SWITCH_KEY_TABLE(KEY)                                                                                          \
    KEY(SWITCH_NAME, "SwitchName")                                                                                     \
    KEY(SWITCH_BLOCK, "BlockName")                                                                                     \
    KEY(SWITCH_NODES, "Nodes")                                                                                         \
    KEY(SWITCH_SWITCHES, "Switches")

enum SwitchKey { SWITCH_KEY_TABLE(SLURM_KEY_ID) SWITCH_KEYS };
static const char *const switch_keys[SWITCH_KEYS] = {SWITCH_KEY_TABLE(SLURM_KEY_TEXT)};

typedef struct Switch {
    SlurmWord name, nodes, switches;
    unsigned long line;
} Switch;

typedef struct Tree {
    Places to;
    VEC(Switch) switches;
    Map numbers;          /* of switches by name, from 1 */
    VEC(uint32_t) leaves; /* of the switch that is looked at: numbers of leaf switches below */
} Tree;

/* All nodes of a switch get a new domain; other tiers stay. */
static int add_domain(Places *p, ClusterTier tier, SlurmWord name, const SlurmWord *lists, size_t count)
{
    vec_push(&p->names[tier], arena_strndup(p->arena, name.at, name.len));
    memset(p->place, 0, sizeof p->place);
    p->place[tier] = (uint32_t)p->names[tier].len;
    for (size_t i = 0; i < count; i++)
        TRY(place_nodes(p, lists[i]));
    return 0;
}

static void note_leaf(void *at, const char *name, size_t len)
{
    Tree *tree = at;
    const size_t number = (size_t)(uintptr_t)map_getn(&tree->numbers, name, len);

    if (number && !tree->switches.at[number - 1].switches.at)
        vec_push(&tree->leaves, (uint32_t)number - 1);
}

/* A switch with leaf switches right below it is a block. */
static int add_block(Tree *tree, const Switch *s)
{
    vec_clear(&tree->leaves);
    if (hostlist_expand(s->switches.at, s->switches.len, note_leaf, tree, tree->to.err) < 0)
        return err_add(tree->to.err, "%s:%lu", tree->to.text, s->line);
    if (!tree->leaves.len)
        return 0;
    SlurmWord *lists = arena_calloc(tree->to.arena, tree->leaves.len, sizeof *lists);
    for (size_t i = 0; i < tree->leaves.len; i++)
        lists[i] = tree->switches.at[tree->leaves.at[i]].nodes;
    return add_domain(&tree->to, CLUSTER_BLOCK, s->name, lists, tree->leaves.len);
}

static int add_switches(Tree *tree)
{
    for (size_t i = 0; i < tree->switches.len; i++) {
        const Switch *s = &tree->switches.at[i];

        tree->to.line = s->line;
        map_putn(&tree->numbers, s->name.at, s->name.len, (void *)(uintptr_t)(i + 1));
        if (!s->switches.at)
            TRY(add_domain(&tree->to, CLUSTER_RACK, s->name, &s->nodes, 1));
    }
    for (size_t i = 0; i < tree->switches.len; i++)
        if (tree->switches.at[i].switches.at)
            TRY(add_block(tree, &tree->switches.at[i]));
    return 0;
}

static int read_switches(Tree *tree, const SlurmText *text)
{
    SlurmRecords records = slurm_records_of(text);
    SlurmWord record, f[SWITCH_KEYS];
    int rc;

    while ((rc = slurm_records_next(&records, &record, tree->to.err)) > 0) {
        const char *comment = memchr(record.at, '#', record.len);

        tree->to.line = records.line;
        record.len = comment ? (size_t)(comment - record.at) : record.len;
        slurm_record_fields(record, switch_keys, SWITCH_KEYS, false, f);
        if (tree->switches.len + tree->to.names[CLUSTER_NVLINK].len == SLURM_SWITCHES_MAX)
            return err_set(tree->to.err, -E2BIG, "%s:%lu: more than %d switches", text->name, records.line,
                           SLURM_SWITCHES_MAX);
        if (f[SWITCH_BLOCK].at)
            TRY(add_domain(&tree->to, CLUSTER_NVLINK, f[SWITCH_BLOCK], &f[SWITCH_NODES], 1));
        else if (f[SWITCH_NAME].at)
            vec_push(&tree->switches, ((Switch){f[SWITCH_NAME], f[SWITCH_NODES], f[SWITCH_SWITCHES], records.line}));
    }
    return rc < 0 ? rc : add_switches(tree);
}

int slurm_topology_read(const SlurmText *text, Arena *arena, Cluster *cluster, Err *err)
{
    Tree tree = {0};

    begin_places(text, arena, cluster, err, &tree.to);
    tree.to.keep = true;
    map_init(&tree.numbers);
    const int rc = end_places(&tree.to, read_switches(&tree, text), cluster);
    map_done(&tree.numbers);
    vec_done(&tree.switches);
    vec_done(&tree.leaves);
    return rc;
}
