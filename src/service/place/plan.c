/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/opt.h"
#include "base/str.h"
#include "engine/mig/mig.h"

/* --- one mapping of options ------------------------------------------------------------------------------------- */

static int read_map(const YamlNode *node, const char *what, const OptSpec *opts, size_t count, void *into, Arena *arena,
                    Err *err)
{
    const OptSet set = {.opts = opts, .count = count, .into = into, .arena = arena};

    TRY(opt_defaults(&set, err));
    if (yaml_is_null(node))
        return 0;
    TRY(yaml_want(node, YAML_MAP, what, err));
    return opt_yaml(&set, node, err);
}

#define READ_MAP(node, what, opts, into, arena, err) read_map(node, what, opts, ARRAY_LEN(opts), into, arena, err)

static const char *const tier_names[] = {"nvlink", "rack", "block", "anywhere", NULL};

static uint32_t mib_of(uint64_t bytes)
{
    return (uint32_t)(bytes >> 20 < UINT32_MAX ? bytes >> 20 : UINT32_MAX);
}

/* --- MIG -------------------------------------------------------------------------------------------------------- */

/* The profiles of boards, read when the first nodes need them, and the names that requests may have, by number less 1.
 */
typedef struct PlanMig {
    const char *file;
    const MigTable *tables;
    size_t table_count, name_count;
    const char *names[CLUSTER_MIG_NAMES_MAX];
} PlanMig;

/* Not those of which placements are not known. */
static bool has_placements(const MigBoard *board)
{
    bool fits = board->grid > 0 && board->grid <= CLUSTER_MIG_SLICES_MAX;

    for (unsigned e = 0; e < MIG_ENGINE_END; e++)
        fits &= board->engines[e] <= CLUSTER_MIG_ENGINES_MAX;
    return fits;
}

static int find_board(PlanMig *mig, const YamlNode *node, const char *model, Arena *arena, const MigBoard **ret,
                      Err *err)
{
    char room[ERR_TEXT_MAX / 2];
    const YamlNode *root;
    Str names;

    if (!mig->tables) {
        TRY(yaml_load_file(mig->file, arena, &root, err));
        TRY(mig_tables_read(root, arena, &mig->tables, &mig->table_count, err));
    }
    str_init_room(&names, room, sizeof room);
    for (size_t i = 0; i < mig->table_count; i++) {
        const MigBoard *board = &mig->tables[i].board;

        if (!has_placements(board))
            continue;
        str_addf(&names, "%s%s", names.len ? ", " : "", board->name);
        if (strcasecmp(board->name, model) == 0) {
            *ret = board;
            return 0;
        }
    }
    return yaml_fail(node, err, "mig: the placements of GPU model '%s' are not known; they are of %s", model,
                     names.text);
}

/* 0: there are too many names. */
static uint8_t number_name(PlanMig *mig, const char *name)
{
    for (size_t i = 0; i < mig->name_count; i++)
        if (strcmp(mig->names[i], name) == 0)
            return (uint8_t)(i + 1);
    if (mig->name_count == CLUSTER_MIG_NAMES_MAX)
        return 0;
    mig->names[mig->name_count++] = name;
    return (uint8_t)mig->name_count;
}

/* All GPUs of nodes with a model, in MIG mode. */
static int read_mig(PlanMig *mig, const YamlNode *node, const char *model, Arena *arena, const ClusterMig **ret,
                    Err *err)
{
    ClusterMig *made = arena_calloc(arena, 1, sizeof *made);

    TRY(find_board(mig, node, model, arena, &made->board, err));
    made->gpus = UINT16_MAX;
    for (size_t i = 0; i < made->board->profile_count; i++) {
        const uint8_t number = number_name(mig, made->board->profiles[i].name);

        if (number == 0)
            return yaml_fail(node, err, "mig: more than %d names of profiles", CLUSTER_MIG_NAMES_MAX);
        made->profiles[number] = (uint8_t)(i + 1);
    }
    *ret = made;
    return 0;
}

static const MigProfile *find_profile(const MigBoard *board, const char *name)
{
    for (size_t i = 0; i < board->profile_count; i++)
        if (strcmp(board->profiles[i].name, name) == 0)
            return &board->profiles[i];
    return NULL;
}

/* What boards have, as "A30-24GB has 1g.6gb, 2g.12gb". */
static void list_profiles(const PlanList *nodes, Str *to)
{
    const MigBoard *last = NULL;

    for (size_t k = 0; k < nodes->len; k++) {
        const MigBoard *board = nodes->at[k].node.mig ? nodes->at[k].node.mig->board : NULL;

        if (!board || board == last)
            continue;
        last = board;
        str_addf(to, "%s%s has", to->len ? "; " : "", board->name);
        for (size_t i = 0; i < board->profile_count; i++)
            str_addf(to, "%s %s", i ? "," : "", board->profiles[i].name);
    }
}

/* An instance of a profile that at least one node's board has. Its share of a GPU is that of the first. */
static int read_instance(PlanMig *mig, const YamlNode *value, const char *name, const PlanList *nodes,
                         ClusterRequest *ret, Err *err)
{
    char room[ERR_TEXT_MAX - 128];
    Str profiles;

    for (size_t i = 0; i < nodes->len; i++) {
        const MigBoard *board = nodes->at[i].node.mig ? nodes->at[i].node.mig->board : NULL;
        const MigProfile *p = board ? find_profile(board, name) : NULL;

        if (!p)
            continue;
        ret->mig = number_name(mig, name);
        ret->gpu_count = 1;
        ret->gpu_milli = (uint16_t)(p->size * CLUSTER_GPU / board->grid);
        return 0;
    }
    str_init_room(&profiles, room, sizeof room);
    list_profiles(nodes, &profiles);
    if (profiles.len == 0)
        return yaml_fail(value, err, "mig: the plan has no nodes with 'mig: true'");
    return yaml_fail(value, err, "mig: no profile '%.40s'; %s", name, profiles.text);
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

typedef struct NodeRow {
    const char *name, *model;
    uint64_t count, gpus, memory, per_rack, per_block;
    double cpus, price, idle_w, full_w;
    bool spot, mig;
} NodeRow;

static const OptSpec node_opts[] = {
    OPT_ROW("name", OPT_STRING, NodeRow, name, .help = "of this kind of node"),
    OPT_ROW("count", OPT_UINT, NodeRow, count, .def = "1", .min = 1, .max = PLAN_NODES_MAX, .help = "nodes"),
    OPT_ROW("model", OPT_STRING, NodeRow, model, .help = "of its GPUs"),
    OPT_ROW("gpus", OPT_UINT, NodeRow, gpus, .def = "8", .max = CLUSTER_GPUS_MAX, .help = "of a node"),
    OPT_ROW("cpus", OPT_DOUBLE, NodeRow, cpus, .def = "96", .max = 4096, .help = "of a node"),
    OPT_ROW("memory", OPT_SIZE, NodeRow, memory, .def = "1TiB", .help = "of a node"),
    OPT_ROW("price", OPT_DOUBLE, NodeRow, price, .max = 1e6, .help = "of a node, for an hour"),
    OPT_ROW("idle_w", OPT_DOUBLE, NodeRow, idle_w, .def = "70", .max = 1e5, .help = "of a GPU without work"),
    OPT_ROW("full_w", OPT_DOUBLE, NodeRow, full_w, .def = "700", .max = 1e5, .help = "of a GPU with work"),
    OPT_ROW("spot", OPT_BOOL, NodeRow, spot, .help = "can be taken away"),
    OPT_ROW("mig", OPT_BOOL, NodeRow, mig, .help = "its GPUs are in MIG mode: for sizes with 'mig' alone"),
    OPT_ROW("rack", OPT_UINT, NodeRow, per_rack, .help = "nodes in a rack"),
    OPT_ROW("block", OPT_UINT, NodeRow, per_block, .help = "nodes in a block"),
};

static int read_nodes(const YamlNode *node, PlanMig *mig, Arena *arena, PlanNodes *ret, Err *err)
{
    NodeRow row = {0};

    TRY(READ_MAP(node, "an entry of nodes", node_opts, &row, arena, err));
    if (!row.model)
        return yaml_fail(node, err, "nodes need a 'model' of their GPUs");
    *ret = (PlanNodes){.name = row.name ? row.name : row.model,
                       .model = row.model,
                       .count = row.count,
                       .per_rack = row.per_rack,
                       .per_block = row.per_block,
                       .node = {.cpu_milli = (uint32_t)(row.cpus * 1000),
                                .memory_mib = mib_of(row.memory),
                                .gpu_count = (uint8_t)row.gpus,
                                .spot = row.spot,
                                .price = row.price,
                                .gpu_idle_w = row.idle_w,
                                .gpu_full_w = row.full_w}};
    return row.mig ? read_mig(mig, yaml_get(node, "model"), row.model, arena, &ret->node.mig, err) : 0;
}

static int read_node_list(const YamlNode *list, const char *what, size_t max, PlanMig *mig, Arena *arena, PlanList *ret,
                          Err *err)
{
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, what, err));
    if (list->len > max)
        return yaml_fail(list, err, "more than %zu entries of %s", max, what);
    ret->at = arena_calloc(arena, list->len, sizeof *ret->at);
    for (size_t i = 0; i < list->len; i++)
        TRY(read_nodes(list->items[i], mig, arena, &ret->at[i], err));
    ret->len = list->len;
    return 0;
}

static int find_model(const char *const *models, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(models[i], name) == 0)
            return (int)i;
    return -1;
}

/* Racks and blocks are filled one after the other; each entry begins new ones. */
static void fill_domains(const PlanNodes *kind, uint64_t i, size_t counts[CLUSTER_TIER_END], ClusterNode *node)
{
    const uint64_t sizes[CLUSTER_TIER_END] = {[CLUSTER_RACK] = kind->per_rack, [CLUSTER_BLOCK] = kind->per_block};

    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++) {
        if (sizes[tier] == 0)
            continue;
        counts[tier] += i % sizes[tier] == 0;
        node->domain[tier] = (uint32_t)counts[tier];
    }
}

int plan_build(const Plan *plan, const Cluster *before, Arena *arena, Cluster *ret, Err *err)
{
    size_t count = before->node_count;
    Cluster cluster = *before;

    for (size_t i = 0; i < plan->nodes.len; i++)
        count += plan->nodes.at[i].count;
    if (count == 0 || count > PLAN_NODES_MAX)
        return err_set(err, -EINVAL, "%zu nodes; a plan has 1 to %d", count, PLAN_NODES_MAX);
    ClusterNode *nodes = arena_calloc(arena, count, sizeof *nodes);
    const char **models = arena_calloc(arena, CLUSTER_MODELS_MAX, sizeof *models);
    if (before->node_count > 0)
        memcpy(nodes, before->nodes, before->node_count * sizeof *nodes);
    if (before->model_count > 0)
        memcpy(models, before->models, before->model_count * sizeof *models);
    for (size_t i = 0, at = before->node_count; i < plan->nodes.len; i++) {
        const PlanNodes *kind = &plan->nodes.at[i];
        int model = find_model(models, cluster.model_count, kind->model);

        if (model < 0 && cluster.model_count == CLUSTER_MODELS_MAX)
            return err_set(err, -EINVAL, "more than %d GPU models", CLUSTER_MODELS_MAX);
        if (model < 0) {
            model = (int)cluster.model_count++;
            models[model] = kind->model;
        }
        for (uint64_t k = 0; k < kind->count; k++, at++) {
            nodes[at] = kind->node;
            nodes[at].name = arena_printf(arena, "%s-%llu", kind->name, (unsigned long long)k);
            nodes[at].model = (uint8_t)model;
            fill_domains(kind, k, cluster.domain_counts, &nodes[at]);
        }
    }
    cluster.nodes = nodes;
    cluster.node_count = count;
    cluster.models = models;
    cluster.queues = plan->queues;
    cluster.queue_count = plan->queue_count;
    *ret = cluster;
    return 0;
}

PlanNodes *plan_append(Plan *plan, const PlanNodes *like, uint64_t count, Arena *arena)
{
    PlanNodes *nodes = arena_calloc(arena, plan->nodes.len + 1, sizeof *nodes);

    if (plan->nodes.len > 0)
        memcpy(nodes, plan->nodes.at, plan->nodes.len * sizeof *nodes);
    nodes[plan->nodes.len] = *like;
    nodes[plan->nodes.len].count = count;
    plan->nodes = (PlanList){nodes, plan->nodes.len + 1};
    return &nodes[plan->nodes.len - 1];
}

int plan_add_nodes(Plan *plan, const char *text, Arena *arena, Err *err)
{
    const char *model = strchr(text, 'x'), *gpus = strrchr(text, 'x');
    uint64_t count, each;
    Err why;

    if (!model || gpus == model ||
        number_parsen_u64(text, (size_t)(model - text), 1, PLAN_NODES_MAX, &count, &why) < 0 ||
        number_parsen_u64(gpus + 1, strlen(gpus + 1), 1, CLUSTER_GPUS_MAX, &each, &why) < 0)
        return err_set(err, -EINVAL, "'%s' is not of the form NODESxMODELxGPUS, such as 16xH100x8", text);
    const char *name = arena_strndup(arena, model + 1, (size_t)(gpus - model - 1));
    const PlanNodes *like = NULL;
    for (size_t i = 0; i < plan->offers.len + plan->nodes.len; i++) {
        const PlanNodes *kind = i < plan->offers.len ? &plan->offers.at[i] : &plan->nodes.at[i - plan->offers.len];

        like = strcmp(kind->model, name) == 0 ? kind : like;
    }
    if (!like)
        return err_set(err, -EINVAL, "'%s': neither nodes nor offers of the plan have GPU model '%s'", text, name);
    plan_append(plan, like, count, arena)->node.gpu_count = (uint8_t)each;
    return 0;
}

/* Of nodes outside MIG mode; `len` bytes of its name. */
static PlanNodes *find_entry(const Plan *plan, const char *name, size_t len)
{
    for (size_t i = 0; i < plan->nodes.len; i++)
        if (!plan->nodes.at[i].node.mig && strlen(plan->nodes.at[i].name) == len &&
            memcmp(plan->nodes.at[i].name, name, len) == 0)
            return &plan->nodes.at[i];
    return NULL;
}

int plan_set_mig(Plan *plan, const char *text, Arena *arena, Err *err)
{
    const char *equals = strrchr(text, '=');
    uint64_t count;
    Err why;

    if (!equals || number_parsen_u64(equals + 1, strlen(equals + 1), 1, PLAN_NODES_MAX, &count, &why) < 0)
        return err_set(err, -EINVAL, "'%s' is not of the form NAME=NODES", text);
    const PlanNodes *from = find_entry(plan, text, (size_t)(equals - text));
    if (!from || from->count < count)
        return err_set(err, -EINVAL, "'%s': the plan has not so many nodes of this name outside MIG mode", text);
    const ClusterMig *mig = NULL;
    for (size_t i = 0; i < plan->nodes.len; i++)
        if (plan->nodes.at[i].node.mig && strcmp(plan->nodes.at[i].model, from->model) == 0)
            mig = plan->nodes.at[i].node.mig;
    if (!mig)
        return err_set(err, -EINVAL, "'%s': the plan has no nodes of GPU model '%s' with 'mig: true'", text,
                       from->model);
    plan_append(plan, from, count, arena)->node.mig = mig;
    find_entry(plan, text, (size_t)(equals - text))->count -= count;
    return 0;
}

/* --- queues ----------------------------------------------------------------------------------------------------- */

typedef struct QueueRow {
    const char *name, *parent;
    double gpus, borrow, lend, weight;
} QueueRow;

static const OptSpec queue_opts[] = {
    OPT_ROW("name", OPT_STRING, QueueRow, name, .help = "of the queue"),
    OPT_ROW("parent", OPT_STRING, QueueRow, parent, .help = "its cohort"),
    OPT_ROW("gpus", OPT_DOUBLE, QueueRow, gpus, .max = 1e6, .help = "its nominal quota"),
    OPT_ROW("borrow", OPT_DOUBLE, QueueRow, borrow, .def = "-1", .min = -1, .max = 1e6,
            .help = "GPUs that it may use beyond; -1: no limit"),
    OPT_ROW("lend", OPT_DOUBLE, QueueRow, lend, .def = "-1", .min = -1, .max = 1e6,
            .help = "GPUs of its own that others may use; -1: no limit"),
    OPT_ROW("weight", OPT_DOUBLE, QueueRow, weight, .def = "1", .max = 1e6,
            .help = "its part of what is beyond all quotas"),
};

static uint64_t milli_of(double gpus)
{
    return gpus < 0 ? UINT64_MAX : (uint64_t)(gpus * CLUSTER_GPU + 0.5);
}

static int read_queues(const YamlNode *list, Arena *arena, Plan *plan, Err *err)
{
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "queues", err));
    plan->queues = arena_calloc(arena, list->len + 1, sizeof *plan->queues);
    for (size_t i = 0; i < list->len; i++) {
        QueueRow row = {0};

        TRY(READ_MAP(list->items[i], "an entry of queues", queue_opts, &row, arena, err));
        if (!row.name)
            return yaml_fail(list->items[i], err, "a queue needs a 'name'");
        plan->queues[i] = (ClusterQueue){.name = row.name,
                                         .parent = row.parent,
                                         .nominal = milli_of(row.gpus),
                                         .borrowing_limit = milli_of(row.borrow),
                                         .lending_limit = milli_of(row.lend),
                                         .weight = row.weight};
    }
    plan->queue_count = list->len;
    return 0;
}

int plan_set_quota(Plan *plan, const char *text, Err *err)
{
    const char *equals = strchr(text, '=');
    double gpus;
    Err why;

    if (!equals || number_parsen_double(equals + 1, strlen(equals + 1), 0, 1e6, &gpus, &why) < 0)
        return err_set(err, -EINVAL, "'%s' is not of the form QUEUE=GPUS", text);
    for (size_t i = 0; i < plan->queue_count; i++)
        if (strlen(plan->queues[i].name) == (size_t)(equals - text) &&
            memcmp(plan->queues[i].name, text, (size_t)(equals - text)) == 0) {
            plan->queues[i].nominal = milli_of(gpus);
            return 0;
        }
    return err_set(err, -EINVAL, "the plan has no queue '%.*s'", (int)(equals - text), text);
}

/* --- jobs ------------------------------------------------------------------------------------------------------- */

typedef struct ShapeRow {
    const char *mig;
    double gpus, cpus, weight;
    uint64_t pods, memory;
} ShapeRow;

static const OptSpec shape_opts[] = {
    OPT_ROW("gpus", OPT_DOUBLE, ShapeRow, gpus, .def = "1", .max = CLUSTER_GPUS_MAX,
            .help = "of a pod; a part below 1"),
    OPT_ROW("mig", OPT_STRING, ShapeRow, mig, .help = "instead of gpus: one MIG instance of this profile"),
    OPT_ROW("pods", OPT_UINT, ShapeRow, pods, .def = "1", .min = 1, .max = 10000, .help = "that run together"),
    OPT_ROW("cpus", OPT_DOUBLE, ShapeRow, cpus, .def = "-1", .min = -1, .max = 4096,
            .help = "of a pod; without: 8 for each GPU"),
    OPT_ROW("memory", OPT_SIZE, ShapeRow, memory, .help = "of a pod; without: 32GiB for each GPU"),
    OPT_ROW("weight", OPT_DOUBLE, ShapeRow, weight, .def = "1", .max = 1e9, .help = "how often it comes"),
};

static int read_shape(const YamlNode *node, PlanMig *mig, const PlanList *nodes, Arena *arena, GenerateShape *ret,
                      Err *err)
{
    ClusterRequest instance = {0};
    ShapeRow row = {0};

    TRY(READ_MAP(node, "an entry of sizes", shape_opts, &row, arena, err));
    if (row.mig && yaml_get(node, "gpus"))
        return yaml_fail(yaml_get(node, "gpus"), err, "either 'gpus' or 'mig', not both");
    if (row.mig) {
        TRY(read_instance(mig, yaml_get(node, "mig"), row.mig, nodes, &instance, err));
        row.gpus = (double)instance.gpu_milli / CLUSTER_GPU;
    }
    if (row.gpus > 1 && row.gpus != floor(row.gpus))
        return yaml_fail(node, err, "gpus: %g: more than one GPU can only be asked for whole", row.gpus);
    const double each = fmax(row.gpus, row.gpus > 0 ? 0.125 : 1);
    *ret =
        (GenerateShape){.pods = (uint32_t)row.pods,
                        .weight = row.weight,
                        .request = {.mig = instance.mig,
                                    .gpu_count = (uint8_t)ceil(row.gpus),
                                    .gpu_milli = (uint16_t)(row.gpus >= 1 ? CLUSTER_GPU : row.gpus * CLUSTER_GPU + 0.5),
                                    .cpu_milli = (uint32_t)(1000 * (row.cpus < 0 ? 8 * each : row.cpus)),
                                    .memory_mib = row.memory ? mib_of(row.memory) : (uint32_t)(32768 * each)}};
    if (ret->request.gpu_count > 0 && ret->request.gpu_milli == 0)
        return yaml_fail(node, err, "gpus: %g: less than a thousandth of a GPU", row.gpus);
    return 0;
}

typedef struct ClassRow {
    const char *name, *queue;
    double weight;
    int64_t priority;
    bool preemptible, required, spot;
    uint64_t checkpoint_ns, checkpoint_cost_ns, restart_ns, deadline_ns;
    int within;
} ClassRow;

static const OptSpec class_opts[] = {
    OPT_ROW("name", OPT_STRING, ClassRow, name, .def = "job", .help = "of this kind of job"),
    OPT_ROW("queue", OPT_STRING, ClassRow, queue, .help = "whose quota counts"),
    OPT_ROW("weight", OPT_DOUBLE, ClassRow, weight, .def = "1", .max = 1e9, .help = "how often it comes"),
    OPT_ROW("priority", OPT_INT, ClassRow, priority, .min = INT32_MIN, .max = INT32_MAX, .help = "larger goes first"),
    OPT_ROW("preemptible", OPT_BOOL, ClassRow, preemptible, .help = "may be stopped for others"),
    OPT_ROW("spot", OPT_BOOL, ClassRow, spot, .def = "true", .help = "may run on spot nodes"),
    OPT_ROW("checkpoint", OPT_DURATION, ClassRow, checkpoint_ns, .help = "between checkpoints; without: none"),
    OPT_ROW("checkpoint_cost", OPT_DURATION, ClassRow, checkpoint_cost_ns,
            .help = "that one takes; without 'checkpoint' they are as often as loses least (Young, Daly)"),
    OPT_ROW("restart", OPT_DURATION, ClassRow, restart_ns, .help = "until a stopped job is where it was"),
    OPT_ROW("deadline", OPT_DURATION, ClassRow, deadline_ns,
            .help = "after it was sent; those that are late are counted, no job goes first for it"),
    OPT_ROW("within", OPT_ENUM, ClassRow, within, .def = "anywhere", .names = tier_names,
            .help = "where its pods are to be together"),
    OPT_ROW("required", OPT_BOOL, ClassRow, required, .help = "else it does not run"),
};

static int read_class(const YamlNode *node, Arena *arena, GenerateClass *ret, Err *err)
{
    ClassRow row = {0};

    TRY(READ_MAP(node, "an entry of users", class_opts, &row, arena, err));
    *ret = (GenerateClass){.name = row.name,
                           .queue = row.queue,
                           .weight = row.weight,
                           .priority = row.priority,
                           .preemptible = row.preemptible,
                           .no_spot = !row.spot,
                           .checkpoint_s = row.checkpoint_ns / NS_PER_S,
                           .checkpoint_cost_s = (double)row.checkpoint_cost_ns / NS_PER_S,
                           .restart_s = row.restart_ns / NS_PER_S,
                           .deadline_s = row.deadline_ns / NS_PER_S,
                           .tier = row.within,
                           .tier_required = row.required};
    return 0;
}

static const char *const format_names[] = {"openb", "sacct", NULL};

typedef struct JobsRow {
    const char *file;
    int format;
    uint64_t count, seed, median_ns, p90_ns;
    double load;
    const YamlNode *sizes, *users;
} JobsRow;

static const OptSpec jobs_opts[] = {
    OPT_ROW("file", OPT_STRING, JobsRow, file, .help = "whose jobs are played"),
    OPT_ROW("format", OPT_ENUM, JobsRow, format, .def = "openb", .names = format_names,
            .help = "of the file: CSV with openb's columns, or what 'sacct -P' printed"),
    OPT_ROW("count", OPT_UINT, JobsRow, count, .def = "2000", .min = 1, .max = PLAN_JOBS_MAX, .help = "jobs"),
    OPT_ROW("seed", OPT_UINT, JobsRow, seed, .def = "1", .help = "of everything that is by chance"),
    OPT_ROW("load", OPT_DOUBLE, JobsRow, load, .max = 100,
            .help = "GPU time asked for, beside what there is; without a file 0.9"),
    OPT_ROW("run_time.median", OPT_DURATION, JobsRow, median_ns, .def = "20m", .min = (double)NS_PER_S, .max = -1,
            .help = "half of the jobs are at most so long"),
    OPT_ROW("run_time.p90", OPT_DURATION, JobsRow, p90_ns, .def = "6h", .min = (double)NS_PER_S, .max = -1,
            .help = "nine tenths are"),
    OPT_ROW("sizes", OPT_NODE, JobsRow, sizes, .help = "what jobs ask for"),
    OPT_ROW("users", OPT_NODE, JobsRow, users, .help = "who sends them"),
};

/* Without sizes in the plan: one in two jobs wants one GPU, one in a hundred 32. */
static const struct {
    double gpus;
    uint32_t pods;
    double weight;
} usual_sizes[] = {{0.5, 1, 10}, {1, 1, 50}, {2, 1, 10}, {4, 1, 10}, {8, 1, 15}, {8, 2, 4}, {8, 4, 1}};

static void set_usual_sizes(Arena *arena, GenerateOptions *ret)
{
    GenerateShape *shapes = arena_calloc(arena, ARRAY_LEN(usual_sizes), sizeof *shapes);

    for (size_t i = 0; i < ARRAY_LEN(usual_sizes); i++)
        shapes[i] = (GenerateShape){.pods = usual_sizes[i].pods,
                                    .weight = usual_sizes[i].weight,
                                    .request = {.gpu_count = (uint8_t)ceil(usual_sizes[i].gpus),
                                                .gpu_milli = (uint16_t)(fmin(usual_sizes[i].gpus, 1) * CLUSTER_GPU),
                                                .cpu_milli = (uint32_t)(8000 * usual_sizes[i].gpus),
                                                .memory_mib = (uint32_t)(32768 * usual_sizes[i].gpus)}};
    ret->shapes = shapes;
    ret->shape_count = ARRAY_LEN(usual_sizes);
}

static int read_shapes(const YamlNode *list, PlanMig *mig, const PlanList *nodes, Arena *arena, GenerateOptions *ret,
                       Err *err)
{
    if (yaml_is_null(list)) {
        set_usual_sizes(arena, ret);
        return 0;
    }
    TRY(yaml_want(list, YAML_SEQ, "sizes", err));
    GenerateShape *shapes = arena_calloc(arena, list->len + 1, sizeof *shapes);
    for (size_t i = 0; i < list->len; i++)
        TRY(read_shape(list->items[i], mig, nodes, arena, &shapes[i], err));
    ret->shapes = shapes;
    ret->shape_count = list->len;
    return list->len ? 0 : yaml_fail(list, err, "sizes: at least one is needed");
}

static int read_classes(const YamlNode *list, Arena *arena, GenerateOptions *ret, Err *err)
{
    static const GenerateClass one = {.name = "job", .weight = 1, .tier = CLUSTER_TIER_END};

    ret->classes = &one;
    ret->class_count = 1;
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "users", err));
    GenerateClass *classes = arena_calloc(arena, list->len + 1, sizeof *classes);
    for (size_t i = 0; i < list->len; i++)
        TRY(read_class(list->items[i], arena, &classes[i], err));
    ret->classes = classes;
    ret->class_count = list->len;
    return list->len ? 0 : yaml_fail(list, err, "users: at least one is needed");
}

static int read_jobs(const YamlNode *node, PlanMig *mig, Arena *arena, Plan *plan, Err *err)
{
    JobsRow row = {0};

    TRY(READ_MAP(node, "jobs", jobs_opts, &row, arena, err));
    if (row.p90_ns <= row.median_ns)
        return yaml_fail(node, err, "run_time: p90 must be longer than the median");
    plan->jobs_file = row.file;
    plan->sacct = row.format == 1;
    plan->generate = (GenerateOptions){.jobs = row.count,
                                       .seed = row.seed,
                                       .load = row.load > 0 || row.file ? row.load : 0.9,
                                       .median_s = (double)row.median_ns / NS_PER_S,
                                       .p90_s = (double)row.p90_ns / NS_PER_S};
    plan->simulate.seed = row.seed;
    TRY(read_shapes(row.sizes, mig, &plan->nodes, arena, &plan->generate, err));
    TRY(read_classes(row.users, arena, &plan->generate, err));
    for (size_t i = 0; i < plan->generate.class_count; i++) {
        const char *queue = plan->generate.classes[i].queue;
        bool found = !queue;

        for (size_t k = 0; k < plan->queue_count; k++)
            found |= queue && strcmp(plan->queues[k].name, queue) == 0;
        if (!found)
            return yaml_fail(row.users, err, "the plan has no queue '%s'", queue);
    }
    return 0;
}

/* --- how -------------------------------------------------------------------------------------------------------- */

int plan_read_weights(const YamlNode *map, const PlacementMode *base, Arena *arena, const PlacementMode **ret, Err *err)
{
    const double *of_base = placement_mode_weights(base);
    double weights[PLACEMENT_TERM_END];
    Err why;

    TRY(yaml_want(map, YAML_MAP, "weights", err));
    if (!of_base)
        return yaml_fail(map, err, "weights: mode '%s' is a published policy, which has none",
                         placement_mode_name(base));
    memcpy(weights, of_base, sizeof weights);
    for (size_t i = 0; i < map->len; i++) {
        const YamlNode *value = map->pairs[i].value;
        const int term = word_find(placement_terms, PLACEMENT_TERM_END, map->pairs[i].key->text);

        if (term < 0)
            return yaml_fail(map->pairs[i].key, err, "weights: no term '%s'; 'stoker place modes' lists them",
                             map->pairs[i].key->text);
        if (!yaml_text(value) || number_parsen_double(value->text, value->len, 0, 1e6, &weights[term], &why) < 0)
            return yaml_fail(value, err, "weights: '%s' must be a number from 0 on", placement_terms[term].key);
    }
    *ret = placement_mode_new(arena_printf(arena, "%s with weights", placement_mode_name(base)), weights, arena);
    return 0;
}

typedef struct HowRow {
    const char *mode;
    const YamlNode *weights;
    bool backfill, preempt;
    int victims, domains;
    uint64_t half_life_ns;
    double past_weight;
} HowRow;

static const char *const victim_names[] = {"least-lost-work", "youngest", NULL};

static const char *const domain_names[] = {"fullest", "emptiest", "nearest", "ignored", NULL}; /* as GangDomains */

static const OptSpec how_opts[] = {
    OPT_ROW("mode", OPT_STRING, HowRow, mode, .def = "churn", .help = "where jobs go"),
    OPT_ROW("weights", OPT_NODE, HowRow, weights, .help = "other weights of the mode's terms"),
    OPT_ROW("backfill", OPT_BOOL, HowRow, backfill, .def = "true", .help = "later jobs may go first"),
    OPT_ROW("preempt", OPT_BOOL, HowRow, preempt, .def = "true", .help = "running jobs may be stopped for others"),
    OPT_ROW("victims", OPT_ENUM, HowRow, victims, .def = "least-lost-work", .names = victim_names,
            .help = "which are stopped first"),
    OPT_ROW("domains", OPT_ENUM, HowRow, domains, .def = "fullest", .names = domain_names,
            .help = "which rack or block a gang gets, of those that have room"),
    OPT_ROW("half_life", OPT_DURATION, HowRow, half_life_ns,
            .help = "of past use in fair shares; without: none counts"),
    OPT_ROW("past_weight", OPT_DOUBLE, HowRow, past_weight, .def = "1", .max = 1e6, .help = "for how much it counts"),
};

static int read_how(const YamlNode *node, Arena *arena, Plan *plan, Err *err)
{
    HowRow row = {0};

    TRY(READ_MAP(node, "schedule", how_opts, &row, arena, err));
    plan->mode = placement_mode_find(row.mode);
    if (!plan->mode)
        return yaml_fail(node, err, "schedule: no mode '%s'; 'stoker place modes' lists them", row.mode);
    if (!yaml_is_null(row.weights))
        TRY(plan_read_weights(row.weights, plan->mode, arena, &plan->mode, err));
    plan->simulate.schedule = (ScheduleOptions){.backfill = row.backfill,
                                                .preempt = row.preempt,
                                                .by_age = row.victims == 1,
                                                .domains = (GangDomains)row.domains,
                                                .half_life_s = (double)row.half_life_ns / NS_PER_S,
                                                .past_weight = row.past_weight};
    return 0;
}

typedef struct FailureRow {
    uint64_t node_mtbf_ns, node_repair_ns, spot_mtbf_ns, spot_return_ns;
} FailureRow;

static const OptSpec failure_opts[] = {
    OPT_ROW("node_mtbf", OPT_DURATION, FailureRow, node_mtbf_ns, .help = "mean time between failures of a node"),
    OPT_ROW("node_repair", OPT_DURATION, FailureRow, node_repair_ns, .def = "4h", .help = "until it is back"),
    OPT_ROW("spot_mtbf", OPT_DURATION, FailureRow, spot_mtbf_ns, .help = "until a spot node is taken away"),
    OPT_ROW("spot_return", OPT_DURATION, FailureRow, spot_return_ns, .def = "1h", .help = "until there is another"),
};

static int read_failures(const YamlNode *node, Arena *arena, Plan *plan, Err *err)
{
    FailureRow row = {0};

    TRY(READ_MAP(node, "failures", failure_opts, &row, arena, err));
    plan->simulate.node_mtbf_s = (double)row.node_mtbf_ns / NS_PER_S;
    plan->simulate.node_repair_s = (double)row.node_repair_ns / NS_PER_S;
    plan->simulate.spot_mtbf_s = (double)row.spot_mtbf_ns / NS_PER_S;
    plan->simulate.spot_return_s = (double)row.spot_return_ns / NS_PER_S;
    plan->generate.mtbf_s = plan->simulate.node_mtbf_s;
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

typedef struct PlanRow {
    const YamlNode *nodes, *queues, *jobs, *failures, *schedule, *offers;
} PlanRow;

static const OptSpec plan_opts[] = {
    OPT_ROW("nodes", OPT_NODE, PlanRow, nodes, .help = "a list, or a CSV file with openb's columns"),
    OPT_ROW("queues", OPT_NODE, PlanRow, queues, .help = "quotas"),
    OPT_ROW("jobs", OPT_NODE, PlanRow, jobs, .help = "what comes"),
    OPT_ROW("failures", OPT_NODE, PlanRow, failures, .help = "of nodes"),
    OPT_ROW("schedule", OPT_NODE, PlanRow, schedule, .help = "how jobs are scheduled"),
    OPT_ROW("offers", OPT_NODE, PlanRow, offers, .help = "nodes that could be bought, for --advise"),
};

/* Beside the plan, where it is relative. */
static const char *find_beside(const char *plan, const char *file, Arena *arena)
{
    const char *slash = strrchr(plan, '/');

    return !file || file[0] == '/' || !slash ? file : arena_printf(arena, "%.*s/%s", (int)(slash - plan), plan, file);
}

int plan_read(const char *path, const YamlNode *root, const char *boards, Arena *arena, Plan *ret, Err *err)
{
    PlanRow row = {0};
    PlanMig mig = {.file = boards};
    Plan plan = {0};

    if (yaml_is_null(root))
        return err_set(err, -EINVAL, "%s: the file is empty", path);
    TRY(READ_MAP(root, "a plan", plan_opts, &row, arena, err));
    if (yaml_is_null(row.nodes))
        return yaml_fail(root, err, "a plan needs 'nodes'");
    if (row.nodes->kind == YAML_SCALAR)
        plan.nodes_file = find_beside(path, row.nodes->text, arena);
    else
        TRY(read_node_list(row.nodes, "nodes", PLAN_NODES_MAX, &mig, arena, &plan.nodes, err));
    TRY(read_queues(row.queues, arena, &plan, err));
    TRY(read_jobs(row.jobs, &mig, arena, &plan, err));
    TRY(read_failures(row.failures, arena, &plan, err));
    TRY(read_how(row.schedule, arena, &plan, err));
    TRY(read_node_list(row.offers, "offers", PLAN_OFFERS_MAX, &mig, arena, &plan.offers, err));
    plan.jobs_file = find_beside(path, plan.jobs_file, arena);
    *ret = plan;
    return 0;
}

const char plan_example[] =
    "# A plan for 'stoker place simulate'. Every key may be left out but nodes.\n"
    "nodes:\n"
    "  - {count: 16, model: H100, gpus: 8, cpus: 96, memory: 1TiB, price: 30, rack: 4, block: 16}\n"
    "  - {count: 8, model: L40S, gpus: 4, cpus: 64, memory: 512GiB, price: 7, idle_w: 35, full_w: 350, spot: true}\n"
    "queues: # GPUs; what nobody uses can be borrowed\n"
    "  - {name: everybody}\n"
    "  - {name: research, parent: everybody, gpus: 96, weight: 2}\n"
    "  - {name: product, parent: everybody, gpus: 64, lend: 32}\n"
    "jobs: # by chance; 'file: jobs.csv' has them from a file\n"
    "  count: 3000\n"
    "  load: 0.8 # of the GPU time that there is\n"
    "  run_time: {median: 20m, p90: 6h}\n"
    "  sizes:\n"
    "    - {gpus: 0.5, weight: 20}\n"
    "    - {gpus: 1, weight: 40}\n"
    "    - {gpus: 4, weight: 15}\n"
    "    - {gpus: 8, weight: 20}\n"
    "    - {gpus: 8, pods: 4, weight: 5}\n"
    "  users:\n"
    "    - {name: train, queue: research, weight: 3, preemptible: true, checkpoint_cost: 60s, restart: 5m, within: "
    "rack}\n"
    "    - {name: serve, queue: product, weight: 1, priority: 10, spot: false}\n"
    "failures: {node_mtbf: 60d, node_repair: 4h, spot_mtbf: 12h, spot_return: 1h}\n"
    "schedule: {mode: churn, backfill: true, preempt: true, victims: least-lost-work}\n"
    "offers: # compared by --advise\n"
    "  - {name: H100 reserved, model: H100, price: 22}\n"
    "  - {name: L40S on demand, model: L40S, gpus: 4, cpus: 64, memory: 512GiB, price: 9, idle_w: 35, full_w: 350}\n";
