/* SPDX-License-Identifier: Apache-2.0 */
#include "service/render/topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "service/render/quote.h"

enum { LABEL_VALUE_MAX = 63, NAMES_SHOWN = 8 };

/* --- what is known of nodes --------------------------------------------------------------------------------------- */

/* The number of a domain by its name, from 1; a new one is appended to `names`. */
static uint32_t find_domain(const char **names, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0)
            return (uint32_t)i + 1;
    names[(*count)++] = name;
    return (uint32_t)*count;
}

void topology_merge(const Cluster *from, Arena *arena, Cluster *to)
{
    ClusterNode *nodes = arena_memdup(arena, to->nodes, to->node_count * sizeof *nodes);

    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++) {
        const size_t before = to->domain_counts[tier];
        const char **names = arena_calloc(arena, before + from->domain_counts[tier] + 1, sizeof *names);

        for (size_t i = 0; i < before; i++)
            names[i] = to->domains[tier][i];
        for (size_t i = 0; i < to->node_count; i++)
            if (nodes[i].domain[tier] == 0 && from->nodes[i].domain[tier] > 0)
                nodes[i].domain[tier] =
                    find_domain(names, &to->domain_counts[tier], from->domains[tier][from->nodes[i].domain[tier] - 1]);
        to->domains[tier] = names;
    }
    to->nodes = nodes;
}

static const char *name_domain(const Cluster *c, size_t node, ClusterTier tier)
{
    const uint32_t domain = c->nodes[node].domain[tier];

    return domain ? c->domains[tier][domain - 1] : NULL;
}

static bool is_label_value(const char *text)
{
    const size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
            return false;
    return len > 0 && len <= LABEL_VALUE_MAX && isalnum((unsigned char)text[0]) &&
           isalnum((unsigned char)text[len - 1]);
}

static int check_names(const Cluster *c, Err *err)
{
    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++)
        for (size_t i = 0; i < c->domain_counts[tier]; i++)
            if (!is_label_value(c->domains[tier][i]))
                return err_set(err, -EINVAL,
                               "%s '%s': a label's value has at most %d letters, digits, '-', '_' and "
                               "'.', and begins and ends with a letter or digit",
                               cluster_tiers[tier].key, c->domains[tier][i], LABEL_VALUE_MAX);
    return 0;
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

static void add_labels_of(const Topology *t, ClusterTier tier, uint32_t domain, Str *to)
{
    const Cluster *c = t->cluster;
    bool any = false;

    for (size_t i = 0; i < c->node_count; i++)
        if (c->nodes[i].domain[tier] == domain && !t->set[i].tier[tier]) {
            str_addf(to, "%s %s", any ? "" : "# kubectl label node --overwrite", c->nodes[i].name);
            any = true;
        }
    if (any)
        str_addf(to, " %s=%s\n", t->labels[tier], c->domains[tier][domain - 1]);
}

/* A bit per tier that nodes of a model have domains of. */
static void find_tiers(const Cluster *c, unsigned tiers[CLUSTER_MODELS_MAX])
{
    for (size_t i = 0; i < c->node_count; i++)
        for (ClusterTier tier = 0; tier < CLUSTER_TIER_END && c->nodes[i].gpu_count > 0; tier++)
            tiers[c->nodes[i].model] |= c->nodes[i].domain[tier] ? 1u << tier : 0;
}

/* Nodes that are nowhere, while others of their model are in a domain of the tier. */
static void add_unknown(const Cluster *c, const unsigned tiers[CLUSTER_MODELS_MAX], ClusterTier tier, Str *to)
{
    size_t count = 0;

    for (size_t i = 0; i < c->node_count; i++) {
        const ClusterNode *node = &c->nodes[i];

        if (node->gpu_count == 0 || node->domain[tier] > 0 || !(tiers[node->model] >> tier & 1))
            continue;
        if (count == 0)
            str_addf(to, "# Not used where a %s counts, because theirs is not known:", cluster_tiers[tier].key);
        if (count++ < NAMES_SHOWN)
            str_addf(to, " %s", node->name);
    }
    if (count > NAMES_SHOWN)
        str_addf(to, " and %zu more", count - NAMES_SHOWN);
    if (count > 0)
        str_addc(to, '\n');
}

static void add_labels(const Topology *t, const unsigned tiers[CLUSTER_MODELS_MAX], Str *to)
{
    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++) {
        for (uint32_t i = 1; i <= t->cluster->domain_counts[tier]; i++)
            add_labels_of(t, tier, i, to);
        add_unknown(t->cluster, tiers, tier, to);
    }
}

/* A text as the name of an object: small letters, digits, '-' and '.'. */
static void add_name(const char *text, Str *to)
{
    for (; *text; text++)
        str_addc(to, isalnum((unsigned char)*text) || *text == '.' ? (char)tolower((unsigned char)*text) : '-');
}

/* Names that differ as they are written can be those of one object. */
static int check_objects(const char *const *names, size_t count, const char *what, Err *err)
{
    CLEANUP(map_done) Map seen;
    int rc = 0;

    map_init(&seen);
    for (size_t i = 0; i < count && rc == 0; i++) {
        CLEANUP(str_done) Str name = str_limited(ERR_TEXT_MAX);

        add_name(names[i], &name);
        const char *other = map_put(&seen, name.text, (void *)(uintptr_t)names[i]);
        if (other)
            rc = err_set(err, -EINVAL, "%s %s and %s would be one object, %s: rename one", what, other, names[i],
                         name.text);
    }
    return rc;
}

static void add_scalar(const char *key, const char *text, Str *to)
{
    str_addf(to, "%s: ", key);
    quote_yaml(text, to);
    str_addc(to, '\n');
}

/* --- Kueue -------------------------------------------------------------------------------------------------------- */

typedef struct Flavor {
    size_t model, nodes, gpus;
    unsigned tiers;
    double scarcity; /* GPUs that jobs ask for which name its model, for each that there is */
} Flavor;

/* Few GPUs for those that need them come last; a job that names no model then leaves them alone. */
static int compare_flavors(const void *a, const void *b)
{
    const Flavor *x = a, *y = b;

    if (x->scarcity != y->scarcity)
        return x->scarcity < y->scarcity ? -1 : 1;
    if (x->gpus != y->gpus)
        return x->gpus > y->gpus ? -1 : 1;
    return (x->model > y->model) - (x->model < y->model);
}

static void count_nodes(const Cluster *c, Flavor *flavors)
{
    for (size_t i = 0; i < c->node_count; i++) {
        const ClusterNode *node = &c->nodes[i];
        Flavor *flavor = &flavors[node->model];

        if (node->gpu_count == 0)
            continue;
        flavor->nodes++;
        flavor->gpus += node->gpu_count;
    }
}

/* A request whose rules allow some models and not others; between those it is divided by their GPUs. */
static void count_demand(const Cluster *c, const ClusterRole *role, Flavor *flavors)
{
    const double asked = (double)role->min * (double)cluster_request_milli(&role->request) / CLUSTER_GPU;
    size_t gpus[CLUSTER_MODELS_MAX] = {0}, sum = 0;
    bool every = true;

    for (size_t i = 0; i < c->node_count && asked > 0; i++)
        if (cluster_allows(&role->request, i)) {
            gpus[c->nodes[i].model] += c->nodes[i].gpu_count;
            sum += c->nodes[i].gpu_count;
        }
    for (size_t m = 0; m < c->model_count; m++)
        every = every && gpus[m] > 0;
    for (size_t m = 0; m < c->model_count && sum > 0 && !every; m++)
        flavors[m].scarcity += asked * (double)gpus[m] / (double)sum / (double)flavors[m].gpus;
}

/* "gpus", "gpus-block-rack" */
static void add_topology_name(unsigned tiers, Str *to)
{
    str_add(to, "gpus");
    for (int tier = CLUSTER_TIER_END - 1; tier >= 0; tier--)
        if (tiers >> tier & 1)
            str_addf(to, "-%s", cluster_tiers[tier].key);
}

static void add_topology(const Topology *t, unsigned tiers, Str *to)
{
    str_add(to, "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata:\n  name: ");
    add_topology_name(tiers, to);
    str_add(to, "\nspec:\n  levels:\n");
    for (int tier = CLUSTER_TIER_END - 1; tier >= 0; tier--)
        if (tiers >> tier & 1)
            str_addf(to, "    - nodeLabel: %s\n", t->labels[tier]);
    str_add(to, "    - nodeLabel: kubernetes.io/hostname\n---\n");
}

static void add_flavor(const Topology *t, const Flavor *flavor, Str *to)
{
    const char *model = t->cluster->models[flavor->model];

    str_addf(to, "# %zu nodes, %zu GPUs\n", flavor->nodes, flavor->gpus);
    str_add(to, "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata:\n  name: ");
    add_name(model, to);
    str_add(to, "\nspec:\n  nodeLabels:\n    ");
    add_scalar(t->model_labels[flavor->model], model, to);
    str_add(to, "  topologyName: ");
    add_topology_name(flavor->tiers, to);
    str_add(to, "\n---\n");
}

int topology_render_kueue(const Topology *t, Str *to, Err *err)
{
    const Cluster *c = t->cluster;
    Flavor flavors[CLUSTER_MODELS_MAX] = {0};
    unsigned tiers[CLUSTER_MODELS_MAX] = {0}, shown = 0; /* a bit per set of tiers */

    TRY(check_names(c, err));
    TRY(check_objects(c->models, c->model_count, "GPU models", err));
    str_add(to, "# For Kueue 0.15 or later, by 'stoker place config --for kueue'.\n");
    find_tiers(c, tiers);
    for (size_t m = 0; m < c->model_count; m++) {
        flavors[m].model = m;
        flavors[m].tiers = tiers[m];
    }
    count_nodes(c, flavors);
    for (size_t i = 0; i < c->job_count; i++)
        for (size_t k = 0; k < c->jobs[i].role_count; k++)
            count_demand(c, &c->jobs[i].roles[k], flavors);
    qsort(flavors, c->model_count, sizeof *flavors, compare_flavors);
    add_labels(t, tiers, to);
    for (size_t m = 0; m < c->model_count; m++)
        if (t->model_labels[flavors[m].model] && !(shown >> flavors[m].tiers & 1)) {
            shown |= 1u << flavors[m].tiers;
            add_topology(t, flavors[m].tiers, to);
        }
    str_add(to, "# A ClusterQueue tries its flavors in the order of its list: list them in this one. Models of which "
                "there are\n"
                "# few GPUs, for the jobs that name them, come last, so that jobs that name none leave them free.\n");
    for (size_t m = 0; m < c->model_count; m++)
        if (t->model_labels[flavors[m].model])
            add_flavor(t, &flavors[m], to);
        else
            str_addf(to, "# %zu nodes with %zu GPUs have no label of their model: no flavor\n", flavors[m].nodes,
                     flavors[m].gpus);
    return 0;
}

/* --- Volcano ------------------------------------------------------------------------------------------------------ */

/* "rack-r1": tiers share the names of one kind of object. */
static void add_domain_name(const Cluster *c, ClusterTier tier, uint32_t domain, Str *to)
{
    str_addf(to, "%s-", cluster_tiers[tier].key);
    add_name(c->domains[tier][domain - 1], to);
}

static void begin_hyper_node(const Cluster *c, ClusterTier tier, uint32_t domain, int number, Str *to)
{
    str_add(to, "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata:\n  name: ");
    add_domain_name(c, tier, domain, to);
    str_addf(to, "\nspec:\n  tier: %d\n  members:\n", number);
}

static void add_members_by_label(const Topology *t, ClusterTier tier, uint32_t domain, Str *to)
{
    str_addf(to, "    - type: Node\n      selector:\n        labelMatch:\n          matchLabels:\n            ");
    add_scalar(t->labels[tier], t->cluster->domains[tier][domain - 1], to);
}

/* The block of each domain of `leaf`, 0 for none. */
static int find_blocks(const Cluster *c, ClusterTier leaf, uint32_t *blocks, bool *seen, Err *err)
{
    for (size_t i = 0; i < c->node_count; i++) {
        const uint32_t domain = c->nodes[i].domain[leaf], block = c->nodes[i].domain[CLUSTER_BLOCK];

        if (domain && seen[domain] && blocks[domain] != block)
            return err_set(err, -EINVAL, "%s %s is in two blocks: node %s differs from those before it",
                           cluster_tiers[leaf].key, name_domain(c, i, leaf), c->nodes[i].name);
        blocks[domain] = block;
        seen[domain] = true;
    }
    return 0;
}

static void add_block(const Topology *t, ClusterTier leaf, const uint32_t *blocks, uint32_t block, Str *to)
{
    const Cluster *c = t->cluster;
    bool any = false;

    begin_hyper_node(c, CLUSTER_BLOCK, block, 2, to);
    for (uint32_t i = 1; i <= c->domain_counts[leaf]; i++)
        if (blocks[i] == block) {
            any = true;
            str_add(to, "    - type: HyperNode\n      selector:\n        exactMatch: {name: ");
            add_domain_name(c, leaf, i, to);
            str_add(to, "}\n");
        }
    if (!any)
        add_members_by_label(t, CLUSTER_BLOCK, block, to);
    str_add(to, "---\n");
}

int topology_render_volcano(const Topology *t, Arena *arena, Str *to, Err *err)
{
    const Cluster *c = t->cluster;
    const ClusterTier leaf = c->domain_counts[CLUSTER_RACK] ? CLUSTER_RACK : CLUSTER_NVLINK;
    uint32_t *blocks = arena_calloc(arena, c->domain_counts[leaf] + 1, sizeof *blocks);
    unsigned tiers[CLUSTER_MODELS_MAX] = {0};

    TRY(check_names(c, err));
    TRY(check_objects(c->domains[leaf], c->domain_counts[leaf], cluster_tiers[leaf].key, err));
    TRY(check_objects(c->domains[CLUSTER_BLOCK], c->domain_counts[CLUSTER_BLOCK], "block", err));
    TRY(find_blocks(c, leaf, blocks, arena_calloc(arena, c->domain_counts[leaf] + 1, sizeof(bool)), err));
    str_add(to, "# For Volcano 1.12 or later, by 'stoker place config --for volcano'.\n");
    find_tiers(c, tiers);
    add_labels(t, tiers, to);
    for (uint32_t i = 1; i <= c->domain_counts[leaf]; i++) {
        begin_hyper_node(c, leaf, i, 1, to);
        add_members_by_label(t, leaf, i, to);
        str_add(to, "---\n");
    }
    for (uint32_t i = 1; i <= c->domain_counts[CLUSTER_BLOCK]; i++)
        add_block(t, leaf, blocks, i, to);
    return 0;
}
