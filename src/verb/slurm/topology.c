/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker slurm topology`: prints a topology.conf, and weights of nodes, from where the nodes are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/vec.h"
#include "source/slurm/hostlist.h"
#include "source/slurm/places.h"
#include "verb/slurm/input.h"
#include "verb/slurm/slurm_verbs.h"

enum { REPORT_MAX = 64 << 20, WEIGHT_STEP = 10 };

typedef struct TopologyOptions {
    SlurmInput input;
    const char *places;
    bool block;
} TopologyOptions;

static const OptSpec topology_opts[] = {
    OPT_ROW("places", OPT_STRING, TopologyOptions, places, .metavar = "CSV",
            .help = "where each node is: node,nvlink,rack,block"),
    OPT_ROW("nodes", OPT_STRING, TopologyOptions, input.nodes, .metavar = "FILE",
            .help = "output of 'scontrol show node --oneliner'; '-' is stdin (without: scontrol is run)"),
    OPT_ROW("block", OPT_BOOL, TopologyOptions, block,
            .help = "for the plugin topology/block: an NVLink domain is a block (without: for topology/tree)"),
    SLURM_INPUT_TIMEOUT(TopologyOptions, input),
};

typedef VEC(const char *) NameVec;

/* --- switches and blocks ------------------------------------------------------------------------------------------ */

static void find_members(const Cluster *c, ClusterTier tier, uint32_t number, NameVec *out)
{
    vec_clear(out);
    for (size_t i = 0; i < c->node_count; i++)
        if (c->nodes[i].domain[tier] == number)
            vec_push(out, c->nodes[i].name);
}

static void add_line(Str *out, const char *key, const char *name, const char *list, const NameVec *members)
{
    str_addf(out, "%s=%s %s=", key, name, list);
    hostlist_add(members->at, members->len, out);
    str_addc(out, '\n');
}

/* The block of each leaf, 0 for none; EXIT_USAGE where its nodes are in two. */
static int find_blocks(VerbCall *call, const Cluster *c, ClusterTier leaf, uint32_t *blocks)
{
    bool *seen = arena_calloc(call->arena, c->domain_counts[leaf] + 1, sizeof *seen);

    for (size_t i = 0; i < c->node_count; i++) {
        const uint32_t number = c->nodes[i].domain[leaf], block = c->nodes[i].domain[CLUSTER_BLOCK];

        if (number && seen[number] && blocks[number] != block)
            return verb_failf(call, EXIT_USAGE, "%s %s is in two blocks: node %s differs from those before it",
                              cluster_tiers[leaf].key, c->domains[leaf][number - 1], c->nodes[i].name);
        blocks[number] = block;
        seen[number] = true;
    }
    return EXIT_FINE;
}

/* Slurm has one space of names for switches. */
static int check_names(VerbCall *call, const Cluster *c, ClusterTier leaf)
{
    for (size_t i = 0; i < c->domain_counts[leaf]; i++)
        for (size_t k = 0; k < c->domain_counts[CLUSTER_BLOCK]; k++)
            if (strcmp(c->domains[leaf][i], c->domains[CLUSTER_BLOCK][k]) == 0)
                return verb_failf(call, EXIT_USAGE, "%s is the name of a %s and of a block: rename one",
                                  c->domains[leaf][i], cluster_tiers[leaf].key);
    return EXIT_FINE;
}

/* Without a switch above all others no job could have nodes below two of them. */
static int print_tree(VerbCall *call, const Cluster *c, Str *out)
{
    const ClusterTier leaf = c->domain_counts[CLUSTER_RACK] ? CLUSTER_RACK : CLUSTER_NVLINK;
    uint32_t *blocks = arena_calloc(call->arena, c->domain_counts[leaf] + 1, sizeof *blocks);
    CLEANUP_VEC NameVec members = {0}, tops = {0};
    int code = check_names(call, c, leaf);

    if (code == EXIT_FINE)
        code = find_blocks(call, c, leaf, blocks);
    for (uint32_t i = 1; i <= c->domain_counts[leaf]; i++) {
        find_members(c, leaf, i, &members);
        add_line(out, "SwitchName", c->domains[leaf][i - 1], "Nodes", &members);
        if (!blocks[i])
            vec_push(&tops, c->domains[leaf][i - 1]);
    }
    find_members(c, leaf, 0, &members);
    if (members.len) {
        add_line(out, "SwitchName", "unplaced", "Nodes", &members);
        vec_push(&tops, "unplaced");
    }
    for (uint32_t b = 1; b <= c->domain_counts[CLUSTER_BLOCK]; b++) {
        vec_clear(&members);
        for (uint32_t i = 1; i <= c->domain_counts[leaf]; i++)
            if (blocks[i] == b)
                vec_push(&members, c->domains[leaf][i - 1]);
        if (!members.len)
            continue;
        add_line(out, "SwitchName", c->domains[CLUSTER_BLOCK][b - 1], "Switches", &members);
        vec_push(&tops, c->domains[CLUSTER_BLOCK][b - 1]);
    }
    if (tops.len > 1)
        add_line(out, "SwitchName", "top", "Switches", &tops);
    return code;
}

static int print_blocks(VerbCall *call, const Cluster *c, Str *out)
{
    const ClusterTier tier = c->domain_counts[CLUSTER_NVLINK] ? CLUSTER_NVLINK : CLUSTER_RACK;
    CLEANUP_VEC NameVec members = {0};
    size_t smallest = c->node_count;

    if (!c->domain_counts[tier])
        return verb_failf(call, EXIT_USAGE, "--block needs the column nvlink or rack");
    for (uint32_t i = 1; i <= c->domain_counts[tier]; i++) {
        find_members(c, tier, i, &members);
        smallest = members.len < smallest ? members.len : smallest;
        add_line(out, "BlockName", c->domains[tier][i - 1], "Nodes", &members);
    }
    str_addf(out, "BlockSizes=%zu\n", smallest);
    find_members(c, tier, 0, &members);
    if (members.len) {
        str_add(out, "# in no block: ");
        hostlist_add(members.at, members.len, out);
        str_addc(out, '\n');
    }
    return EXIT_FINE;
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

typedef struct NodeKind {
    bool whole; /* no MIG instances, by the name of their type */
    unsigned gpus, model;
    uint64_t of_model; /* GPUs in the cluster */
} NodeKind;

typedef VEC(NodeKind) KindVec;

/* "a100_1g.5gb" */
static bool is_mig(const char *type)
{
    const char *slice = strstr(type, "g.");

    return slice && slice > type && slice[-1] >= '1' && slice[-1] <= '9';
}

/* The lightest first. */
static int compare_kinds(const void *a, const void *b)
{
    const NodeKind *x = a, *y = b;

    if (x->whole != y->whole)
        return x->whole ? 1 : -1;
    if (x->gpus != y->gpus)
        return x->gpus < y->gpus ? -1 : 1;
    if (x->of_model != y->of_model)
        return x->of_model > y->of_model ? -1 : 1;
    return (x->model > y->model) - (x->model < y->model);
}

static void find_kinds(const Cluster *c, KindVec *out)
{
    uint64_t totals[CLUSTER_MODELS_MAX] = {0};

    for (size_t i = 0; i < c->node_count; i++)
        totals[c->nodes[i].model] += c->nodes[i].gpu_count;
    for (size_t i = 0; i < c->node_count; i++) {
        const ClusterNode *n = &c->nodes[i];
        const bool some = n->gpu_count > 0;
        const NodeKind kind = {some && !is_mig(c->models[n->model]), n->gpu_count, some ? n->model : 0,
                               some ? totals[n->model] : 0};
        size_t k = 0;

        while (k < out->len && compare_kinds(&out->at[k], &kind) != 0)
            k++;
        if (k == out->len)
            vec_push(out, kind);
    }
    vec_sort(out, compare_kinds);
}

static void print_weights(const Cluster *c, Str *out)
{
    CLEANUP_VEC KindVec kinds = {0};
    CLEANUP_VEC NameVec members = {0};

    find_kinds(c, &kinds);
    str_add(out, "# Weights for the lines of these nodes in slurm.conf; Slurm takes the lowest first.\n");
    for (size_t k = 0; k < kinds.len; k++) {
        vec_clear(&members);
        for (size_t i = 0; i < c->node_count; i++)
            if (c->nodes[i].gpu_count == kinds.at[k].gpus &&
                (!kinds.at[k].gpus || c->nodes[i].model == kinds.at[k].model))
                vec_push(&members, c->nodes[i].name);
        str_add(out, "# NodeName=");
        hostlist_add(members.at, members.len, out);
        str_addf(out, " Weight=%zu", WEIGHT_STEP * (k + 1));
        if (kinds.at[k].gpus)
            str_addf(out, " # %u %s", kinds.at[k].gpus, c->models[kinds.at[k].model]);
        str_addc(out, '\n');
    }
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static int topology_run(VerbCall *call, const void *options)
{
    const TopologyOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    SlurmCluster *read = arena_calloc(call->arena, 1, sizeof *read);
    SlurmText places;

    if (!o->places)
        return verb_failf(call, EXIT_USAGE, "needs --places CSV");
    int code = slurm_input_read(call, &o->input, false, read);
    if (code != EXIT_FINE)
        return code;
    if (slurm_input_file(call, o->places, &places) < 0 ||
        slurm_places_read(&places, call->arena, &read->cluster, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    str_addf(&out, "# topology.conf by 'stoker slurm topology', for TopologyPlugin=topology/%s\n",
             o->block ? "block" : "tree");
    code = (o->block ? print_blocks : print_tree)(call, &read->cluster, &out);
    if (code != EXIT_FINE)
        return code;
    print_weights(&read->cluster, &out);
    for (size_t i = 0; i < read->note_count; i++)
        str_addf(&out, "# %s\n", read->notes[i]);
    if (str_check(&out, "the topology", &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

const Verb verb_slurm_topology = {
    .name = "topology",
    .summary = "print a topology.conf and weights of nodes",
    .usage = "--places CSV [--nodes FILE] [--block]",
    .description =
        "Prints a topology.conf for jobs of several nodes: a rack is a leaf switch (without racks an NVLink domain), "
        "a block the switch above. With --block an NVLink domain (without those a rack) is a block, and BlockSizes is "
        "the smallest of them. Nodes that the CSV lacks come under a switch of their own.\n\n"
        "The CSV has a line per node or range of nodes: gpu[01-18],nvl1,rack1,block1. Cells may be empty, and columns "
        "missing. The NVLink domain of a node is what the label nvidia.com/gpu.clique says in Kubernetes, and "
        "ClusterUUID and CliqueId of 'nvidia-smi -q'.\n\n"
        "Comments have weights, so that small jobs do not fill scarce or large nodes: each kind of node weighs 10 "
        "more than the one before, first nodes without GPUs, then those with MIG instances, then those with fewer "
        "GPUs, "
        "of equal ones those whose type of GPU the cluster has more of. It changes nothing.",
    .examples = "stoker slurm topology --places places.csv > /etc/slurm/topology.conf\n"
                "scontrol show node --oneliner | stoker slurm topology --nodes - --places places.csv --block",
    .exit_codes = "0  printed\n"
                  "2  the command line is wrong, or a file cannot be read\n"
                  "3  Slurm does not answer",
    VERB_OPTS(topology_opts, TopologyOptions),
    .no_args = "",
    .run = topology_run,
};
