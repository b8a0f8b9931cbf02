/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"
#include "source/kubernetes/cluster_jobs.h"
#include "source/kubernetes/cluster_request.h"
#include "source/kubernetes/cluster_tier.h"

enum { LIST_DEPTH_MAX = 4 };

typedef VEC(KubeObject) ObjectVec;

typedef struct Reader {
    Arena *arena, *scratch;
    KubeLeftOut *left_out;
    VEC(json_t *) documents;
    ObjectVec objects;
    Map seen; /* "group kind namespace/name" */
    VEC(ClusterNode) nodes;
    VEC(KubeRuleNode) rule_nodes;
    VEC(ClusterQueue) queues;
    Map queue_names;
    Map local_queues;
    VEC(const char *) models;
    KubeMig mig;
    KubeClaims claims;
    VEC(const char *) model_labels;
    VEC(KubeNodeLabels) labels;
    VEC(const char *) domains[CLUSTER_TIER_END];
    Map domain_names[CLUSTER_TIER_END]; /* name -> its number */
    bool *shared;
    Err *err;
} Reader;

/* --- objects ------------------------------------------------------------------------------------------------------ */

static int add_object(Reader *r, const char *input, const json_t *json, const char *kind, const char *version)
{
    KubeObject object = {.root = {.key = input, .json = json}, .kind = kind, .namespace = "", .name = ""};

    object.group = kube_api_group(r->scratch, version);
    TRY(kube_field_text(&object.root, "metadata name", &object.name, r->err));
    TRY(kube_field_text(&object.root, "metadata namespace", &object.namespace, r->err));
    object.root.key = arena_printf(r->scratch, "%s: %.60s %.200s%s%.200s", input, kind, object.namespace,
                                   *object.namespace ? "/" : "", object.name);
    if (!*object.name)
        return kube_field_fail(&(KubeField){.in = &object.root, .key = "metadata name"}, r->err, "is missing");
    const char *key = arena_printf(r->scratch, "%s %s %s/%s", object.group, kind, object.namespace, object.name);
    if (!map_put(&r->seen, key, r))
        vec_push(&r->objects, object);
    return 0;
}

/* A list's items may lack kind and version, which are then the list's: "PodList" -> "Pod". */
static int add_objects(Reader *r, const char *input, const json_t *json, const char *kind, const char *version,
                       int depth)
{
    const KubeField root = {.key = input, .json = json};
    KubeField items, item;

    TRY(kube_field_text(&root, "kind", &kind, r->err));
    TRY(kube_field_text(&root, "apiVersion", &version, r->err));
    TRY(kube_field_get(&root, "items", JSON_ARRAY, &items, r->err));
    if (!items.json && str_ends_with(kind, "List"))
        return 0; /* an empty one may have null */
    if (!items.json && !*kind)
        return err_set(r->err, -EINVAL, "%s: an object without kind: kubectl get nodes,pods -A -o json prints them",
                       input);
    if (!items.json)
        return add_object(r, input, json, kind, version);
    if (depth == LIST_DEPTH_MAX)
        return err_set(r->err, -EINVAL, "%s: lists of lists", input);
    const char *of_items = str_ends_with(kind, "List") ? arena_strndup(r->scratch, kind, strlen(kind) - 4) : "";
    for (size_t i = 0; i < kube_field_len(&items); i++) {
        TRY(kube_field_item(&items, i, JSON_OBJECT, &item, r->err));
        TRY(add_objects(r, input, item.json, of_items, version, depth + 1));
    }
    return 0;
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", text[i]) || !text[i])
            return false;
    return true;
}

/* Documents one behind the other. */
static int read_text(Reader *r, const KubeText *text)
{
    json_error_t why;
    size_t at = 0;

    if (text->len > KUBE_CLUSTER_BYTES_MAX)
        return err_set(r->err, -E2BIG, "%s: larger than 1 GiB", text->name);
    if (is_blank(text->text, text->len))
        return err_set(r->err, -EINVAL, "%s: is empty", text->name);
    while (!is_blank(text->text + at, text->len - at)) {
        json_t *document = json_loadb(text->text + at, text->len - at, JSON_DISABLE_EOF_CHECK, &why);

        if (!document)
            return err_set(r->err, -EINVAL, "%s:%d:%d: no JSON: %.100s", text->name, why.line, why.column, why.text);
        vec_push(&r->documents, document);
        if (!json_is_object(document))
            return err_set(r->err, -EINVAL, "%s: must be objects, not a list or a value", text->name);
        TRY(add_objects(r, text->name, document, "", "", 0));
        at += (size_t)why.position;
    }
    return 0;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static const char *const model_labels[] = {"nvidia.com/gpu.product", "amd.com/gpu.product-name",
                                           "cloud.google.com/gke-accelerator"};

static const struct {
    const char *label, *value;
} spot_labels[] = {
    {"karpenter.sh/capacity-type", "spot"},
    {"cloud.google.com/gke-spot", "true"},
    {"cloud.google.com/gke-preemptible", "true"},
    {"eks.amazonaws.com/capacityType", "SPOT"},
    {"kubernetes.azure.com/scalesetpriority", "spot"},
};

static int read_label(const Reader *r, const KubeField *labels, const char *name, const char **ret)
{
    *ret = NULL;
    return kube_field_text(labels, name, ret, r->err);
}

/* By its labels, else by its devices. */
static int read_model(Reader *r, const KubeField *labels, const KubeDeviceNode *devices, ClusterNode *node)
{
    const char *name = NULL, *label = NULL;
    size_t number = 0;

    for (size_t i = 0; i < ARRAY_LEN(model_labels) && !name; i++) {
        label = model_labels[i];
        TRY(read_label(r, labels, label, &name));
    }
    if (!name || !*name)
        label = NULL;
    if (!name && devices)
        name = devices->product;
    name = name && *name ? name : "unknown";
    while (number < r->models.len && strcmp(r->models.at[number], name) != 0)
        number++;
    if (number == CLUSTER_MODELS_MAX)
        return kube_field_fail(labels, r->err, "the cluster has more than %d GPU models", CLUSTER_MODELS_MAX);
    if (number == r->models.len) {
        vec_push(&r->models, arena_strdup(r->arena, name));
        vec_push(&r->model_labels, label);
    }
    node->model = (uint8_t)number;
    return 0;
}

static int read_domains(Reader *r, const KubeField *labels, ClusterNode *node)
{
    KubeNodeLabels found = {{NULL}};
    const char *label, *name;
    ClusterTier tier;

    for (size_t i = 0; (label = kube_tier_label(i, &tier)); i++) {
        TRY(read_label(r, labels, label, &name));
        if (!name || !*name || node->domain[tier] > 0)
            continue;
        size_t number = (size_t)(uintptr_t)map_get(&r->domain_names[tier], name);
        if (number == 0) {
            vec_push(&r->domains[tier], arena_strdup(r->arena, name));
            number = r->domains[tier].len;
            map_put(&r->domain_names[tier], name, (void *)(uintptr_t)number);
        }
        node->domain[tier] = (uint32_t)number;
        found.tier[tier] = label;
    }
    vec_push(&r->labels, found);
    return 0;
}

static int read_spot(const Reader *r, const KubeField *labels, bool *ret)
{
    const char *value;

    for (size_t i = 0; i < ARRAY_LEN(spot_labels); i++) {
        TRY(read_label(r, labels, spot_labels[i].label, &value));
        *ret |= value && strcmp(value, spot_labels[i].value) == 0;
    }
    return 0;
}

/* Whether its GPUs are handed out as parts or several times, as the labels of the device plug-in say. */
static int read_shared(const Reader *r, const KubeField *labels, bool *ret)
{
    const char *product, *replicas;

    TRY(read_label(r, labels, "nvidia.com/gpu.product", &product));
    TRY(read_label(r, labels, "nvidia.com/gpu.replicas", &replicas));
    *ret = (product && (str_ends_with(product, "-SHARED") || strstr(product, "-MIG-"))) ||
           (replicas && strcmp(replicas, "0") != 0 && strcmp(replicas, "1") != 0);
    return 0;
}

/* Cordoned, or not ready. */
static int read_closed(const Reader *r, const KubeObject *object, bool *ret)
{
    KubeField list, item;

    TRY(kube_field_bool(&object->root, "spec unschedulable", ret, r->err));
    TRY(kube_field_get(&object->root, "status conditions", JSON_ARRAY, &list, r->err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        const char *type = "", *status = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, r->err));
        TRY(kube_field_text(&item, "type", &type, r->err));
        TRY(kube_field_text(&item, "status", &status, r->err));
        *ret |= strcmp(type, "Ready") == 0 && strcmp(status, "True") != 0;
    }
    return 0;
}

/* Those that its annotation names. */
static int read_unhealthy(const Reader *r, const KubeObject *object, uint16_t *ret)
{
    KubeField annotations, field;

    TRY(kube_field_get(&object->root, "metadata annotations", JSON_OBJECT, &annotations, r->err));
    TRY(kube_field_get(&annotations, CLUSTER_UNHEALTHY_KEY, JSON_STRING, &field, r->err));
    if (field.json && !cluster_read_gpus(json_string_value(field.json), ret))
        return kube_field_fail(&field, r->err, "must be numbers of GPUs below %d such as \"0,3\"", CLUSTER_GPUS_MAX);
    return 0;
}

/* A GPU that the node has and does not give out is broken; which one, if no annotation says so: the last. A node
 * without GPUs as resources has those of its devices. */
static int read_node_gpus(const Reader *r, const KubeObject *object, KubeDeviceNode *devices, ClusterNode *node)
{
    KubeField capacity, allocatable;
    double all = 0, usable = 0;
    uint16_t unhealthy = 0;

    TRY(kube_field_get(&object->root, "status capacity", JSON_OBJECT, &capacity, r->err));
    TRY(kube_field_get(&object->root, "status allocatable", JSON_OBJECT, &allocatable, r->err));
    TRY(kube_read_gpus(&allocatable, &usable, r->err));
    all = usable;
    TRY(kube_read_gpus(&capacity, &all, r->err));
    all = fmax(all, usable);
    if (all <= 0 && devices) {
        all = usable = devices->count;
        devices->numbered = true;
        node->gpus_broken = devices->broken;
    }
    if (all > CLUSTER_GPUS_MAX)
        return kube_field_fail(&capacity, r->err, "%.0f GPUs, at most %d of a node are supported", all,
                               CLUSTER_GPUS_MAX);
    node->gpu_count = (uint8_t)all;
    TRY(read_unhealthy(r, object, &unhealthy));
    node->gpus_broken = (uint16_t)((node->gpus_broken | unhealthy) & ((1u << node->gpu_count) - 1));
    for (unsigned i = node->gpu_count; i-- > 0 && node->gpu_count - __builtin_popcount(node->gpus_broken) > usable;)
        node->gpus_broken = (uint16_t)(node->gpus_broken | 1u << i);
    return 0;
}

static int read_instances(Reader *r, const KubeField *allocatable, ClusterNode *node)
{
    KubeInstances instances = {.len = 0};
    bool complete = true;

    TRY(kube_mig_read(&r->mig, allocatable, &instances, &complete, r->err));
    kube_mig_give(&r->mig, &instances, node);
    return 0;
}

static uint32_t round_down(double value)
{
    return value >= UINT32_MAX ? UINT32_MAX : (uint32_t)floor(value + 1e-9);
}

static int read_node(Reader *r, const KubeObject *object)
{
    ClusterNode node = {.name = arena_strdup(r->arena, object->name)};
    KubeRuleNode facts = {.name = node.name};
    KubeDeviceNode *devices = kube_claims_node(&r->claims, object->name);
    KubeField labels, allocatable;
    double cpu = 0, memory = 0;
    bool shared;

    if (r->nodes.len == KUBE_CLUSTER_NODES_MAX)
        return kube_field_fail(&object->root, r->err, "more than %d nodes", KUBE_CLUSTER_NODES_MAX);
    TRY(kube_field_get(&object->root, "metadata labels", JSON_OBJECT, &labels, r->err));
    TRY(kube_field_get(&object->root, "status allocatable", JSON_OBJECT, &allocatable, r->err));
    TRY(kube_field_quantity(&allocatable, "cpu", &cpu, r->err));
    TRY(kube_field_quantity(&allocatable, "memory", &memory, r->err));
    node.cpu_milli = round_down(cpu * 1000);
    node.memory_mib = round_down(memory / 0x1p20);
    TRY(read_shared(r, &labels, &shared));
    if (!shared)
        TRY(read_node_gpus(r, object, devices, &node));
    TRY(read_instances(r, &allocatable, &node));
    if (node.gpu_count > 0)
        TRY(read_model(r, &labels, devices, &node));
    TRY(read_domains(r, &labels, &node));
    TRY(read_spot(r, &labels, &node.spot));
    TRY(read_closed(r, object, &node.closed));
    TRY(kube_field_get(&object->root, "spec taints", JSON_ARRAY, &facts.taints, r->err));
    facts.labels = labels.json;
    r->left_out->shared_nodes += shared;
    r->shared[r->nodes.len] = shared;
    vec_push(&r->nodes, node);
    vec_push(&r->rule_nodes, facts);
    return 0;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

static uint64_t to_milli(double gpus)
{
    return gpus >= 1e15 ? UINT64_MAX : (uint64_t)llround(gpus * CLUSTER_GPU);
}

static uint64_t add_limit(uint64_t sum, uint64_t more)
{
    return sum == UINT64_MAX || more == UINT64_MAX ? UINT64_MAX : sum + more;
}

/* What a flavor has of GPUs. A limit that is absent is none: INFINITY. */
static int read_flavor(const Reader *r, const KubeField *flavor, ClusterQueue *queue)
{
    KubeField list, item;

    TRY(kube_field_get(flavor, "resources", JSON_ARRAY, &list, r->err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        double nominal = 0, borrowing = INFINITY, lending = INFINITY;
        const char *name = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, r->err));
        TRY(kube_field_text(&item, "name", &name, r->err));
        if (strcmp(name, "nvidia.com/gpu") != 0 && strcmp(name, "amd.com/gpu") != 0)
            continue;
        TRY(kube_field_quantity(&item, "nominalQuota", &nominal, r->err));
        TRY(kube_field_quantity(&item, "borrowingLimit", &borrowing, r->err));
        TRY(kube_field_quantity(&item, "lendingLimit", &lending, r->err));
        queue->nominal = add_limit(queue->nominal, to_milli(nominal));
        queue->borrowing_limit = add_limit(queue->borrowing_limit, to_milli(borrowing));
        queue->lending_limit = add_limit(queue->lending_limit, to_milli(lending));
    }
    return 0;
}

static int read_quotas(const Reader *r, const KubeObject *object, ClusterQueue *queue)
{
    KubeField groups, group, flavors, flavor;

    TRY(kube_field_get(&object->root, "spec resourceGroups", JSON_ARRAY, &groups, r->err));
    for (size_t g = 0; g < kube_field_len(&groups); g++) {
        TRY(kube_field_item(&groups, g, JSON_OBJECT, &group, r->err));
        TRY(kube_field_get(&group, "flavors", JSON_ARRAY, &flavors, r->err));
        for (size_t f = 0; f < kube_field_len(&flavors); f++) {
            TRY(kube_field_item(&flavors, f, JSON_OBJECT, &flavor, r->err));
            TRY(read_flavor(r, &flavor, queue));
        }
    }
    return kube_field_quantity(&object->root, "spec fairSharing weight", &queue->weight, r->err);
}

/* Queue and cohort may have one name: a cohort is "cohort NAME". */
static const char *name_cohort(const Reader *r, const char *name)
{
    return name && *name ? arena_printf(r->arena, "cohort %s", name) : NULL;
}

static void add_queue(Reader *r, const ClusterQueue *queue)
{
    if (!map_put(&r->queue_names, queue->name, r))
        vec_push(&r->queues, *queue);
}

static int read_cluster_queue(Reader *r, const KubeObject *object)
{
    ClusterQueue queue = {.name = arena_strdup(r->arena, object->name), .weight = 1};
    const char *cohort = NULL;

    TRY(kube_field_text(&object->root, "spec cohort", &cohort, r->err));
    TRY(kube_field_text(&object->root, "spec cohortName", &cohort, r->err));
    TRY(read_quotas(r, object, &queue));
    queue.parent = name_cohort(r, cohort);
    add_queue(r, &queue);
    return 0;
}

static int read_cohort(Reader *r, const KubeObject *object)
{
    ClusterQueue queue = {.name = name_cohort(r, object->name), .weight = 1};
    const char *parent = NULL;

    TRY(kube_field_text(&object->root, "spec parentName", &parent, r->err));
    TRY(kube_field_text(&object->root, "spec parent", &parent, r->err));
    TRY(read_quotas(r, object, &queue));
    queue.parent = name_cohort(r, parent);
    if (!queue.parent) /* the root has nobody to borrow from or to lend to */
        queue.borrowing_limit = queue.lending_limit = UINT64_MAX;
    add_queue(r, &queue);
    return 0;
}

/* KAI: -1 is no limit. */
static int read_kai_gpus(const Reader *r, const KubeField *gpu, const char *path, double *ret)
{
    KubeField field;

    *ret = 0;
    if (kube_field_get(gpu, path, JSON_INTEGER, &field, NULL) == 0 && field.json &&
        json_integer_value(field.json) == -1) {
        *ret = INFINITY;
        return 0;
    }
    return kube_field_quantity(gpu, path, ret, r->err);
}

static int read_kai_queue(Reader *r, const KubeObject *object)
{
    ClusterQueue queue = {.name = arena_strdup(r->arena, object->name), .weight = 1, .lending_limit = UINT64_MAX};
    const char *parent = NULL;
    double quota, limit;
    KubeField gpu;

    TRY(kube_field_text(&object->root, "spec parentQueue", &parent, r->err));
    TRY(kube_field_get(&object->root, "spec resources gpu", JSON_OBJECT, &gpu, r->err));
    TRY(read_kai_gpus(r, &gpu, "quota", &quota));
    TRY(read_kai_gpus(r, &gpu, "limit", &limit));
    TRY(kube_field_quantity(&gpu, "overQuotaWeight", &queue.weight, r->err));
    queue.parent = parent && *parent ? arena_strdup(r->arena, parent) : NULL;
    queue.nominal = to_milli(quota);
    queue.borrowing_limit = isinf(limit) ? UINT64_MAX : isinf(quota) ? 0 : to_milli(fmax(limit - quota, 0));
    add_queue(r, &queue);
    return 0;
}

static int read_local_queue(Reader *r, const KubeObject *object)
{
    const char *of = "";

    TRY(kube_field_text(&object->root, "spec clusterQueue", &of, r->err));
    if (*of)
        map_put(&r->local_queues, arena_printf(r->scratch, "%s/%s", object->namespace, object->name),
                arena_strdup(r->scratch, of));
    return 0;
}

/* A cohort needs no object of its own. */
static void add_missing_cohorts(Reader *r)
{
    for (size_t i = 0; i < r->queues.len; i++) {
        const char *parent = r->queues.at[i].parent;

        if (parent && strncmp(parent, "cohort ", 7) == 0 && !map_get(&r->queue_names, parent))
            add_queue(r, &(ClusterQueue){
                             .name = parent, .borrowing_limit = UINT64_MAX, .lending_limit = UINT64_MAX, .weight = 1});
    }
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int read_object(Reader *r, const KubeObject *object)
{
    static const struct {
        const char *kind, *group;
        int (*read)(Reader *r, const KubeObject *object);
    } rows[] = {
        {"Node", "", read_node},
        {"ClusterQueue", "kueue.x-k8s.io", read_cluster_queue},
        {"Cohort", "kueue.x-k8s.io", read_cohort},
        {"LocalQueue", "kueue.x-k8s.io", read_local_queue},
        {"Queue", "scheduling.run.ai", read_kai_queue},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (kube_object_is(object, rows[i].kind, rows[i].group))
            return rows[i].read(r, object);
    return 0;
}

static int read_jobs(Reader *r, const Map *nodes, Cluster *ret)
{
    KubeRules rules;
    KubeJobs jobs = {.objects = r->objects.at,
                     .object_count = r->objects.len,
                     .nodes = nodes,
                     .local_queues = &r->local_queues,
                     .first_node = ret->nodes,
                     .shared_nodes = r->shared,
                     .rules = &rules,
                     .mig = &r->mig,
                     .claims = &r->claims,
                     .arena = r->arena,
                     .scratch = r->scratch,
                     .left_out = r->left_out};

    kube_rules_init(&rules, r->rule_nodes.at, r->rule_nodes.len, r->arena);
    const int rc = kube_jobs_read(&jobs, &ret->jobs, &ret->job_count, r->err);
    kube_rules_done(&rules);
    return rc;
}

/* Copies what was gathered of nodes and queues. */
static void fill_cluster(Reader *r, Cluster *ret)
{
    ret->nodes = arena_memdup(r->arena, r->nodes.at, r->nodes.len * sizeof *r->nodes.at);
    ret->node_count = r->nodes.len;
    ret->queues = arena_memdup(r->arena, r->queues.at, r->queues.len * sizeof *r->queues.at);
    ret->queue_count = r->queues.len;
    ret->models = arena_memdup(r->arena, r->models.at, r->models.len * sizeof *r->models.at);
    ret->model_count = r->models.len;
    for (ClusterTier t = 0; t < CLUSTER_TIER_END; t++) {
        ret->domains[t] = arena_memdup(r->arena, r->domains[t].at, r->domains[t].len * sizeof *r->domains[t].at);
        ret->domain_counts[t] = r->domains[t].len;
    }
    r->left_out->labels = arena_memdup(r->arena, r->labels.at, r->labels.len * sizeof *r->labels.at);
    r->left_out->model_labels =
        arena_memdup(r->arena, r->model_labels.at, r->model_labels.len * sizeof *r->model_labels.at);
}

static int read_cluster(Reader *r, const KubeText *texts, size_t count, Cluster *ret)
{
    CLEANUP(map_done) Map nodes;

    map_init(&nodes);
    for (size_t i = 0; i < count; i++)
        TRY(read_text(r, &texts[i]));
    r->shared = arena_calloc(r->scratch, number_min_u64(r->objects.len, KUBE_CLUSTER_NODES_MAX), sizeof *r->shared);
    TRY(kube_claims_read(&r->claims, r->objects.at, r->objects.len, r->err));
    for (size_t i = 0; i < r->objects.len; i++)
        TRY(read_object(r, &r->objects.at[i]));
    if (r->nodes.len == 0)
        return err_set(r->err, -EINVAL, "%s: no node; 'kubectl get nodes,pods -A -o json' prints both",
                       count > 0 ? texts[0].name : "input");
    add_missing_cohorts(r);
    fill_cluster(r, ret);
    for (size_t i = 0; i < ret->node_count; i++)
        map_put(&nodes, ret->nodes[i].name, (void *)(uintptr_t)&ret->nodes[i]);
    TRY(read_jobs(r, &nodes, ret));
    ret->profiles = arena_memdup(r->arena, r->mig.names.at, r->mig.names.len * sizeof *r->mig.names.at);
    ret->profile_count = r->mig.names.len;
    return 0;
}

static void reader_done(Reader *r)
{
    for (size_t i = 0; i < r->documents.len; i++)
        json_decref(r->documents.at[i]);
    for (ClusterTier t = 0; t < CLUSTER_TIER_END; t++) {
        vec_done(&r->domains[t]);
        map_done(&r->domain_names[t]);
    }
    vec_done(&r->documents);
    vec_done(&r->objects);
    vec_done(&r->nodes);
    vec_done(&r->rule_nodes);
    vec_done(&r->queues);
    vec_done(&r->models);
    kube_mig_done(&r->mig);
    kube_claims_done(&r->claims);
    vec_done(&r->model_labels);
    vec_done(&r->labels);
    map_done(&r->seen);
    map_done(&r->queue_names);
    map_done(&r->local_queues);
}

int kube_cluster_read(const KubeText *texts, size_t count, Arena *arena, Cluster *ret, KubeLeftOut *ret_left_out,
                      Err *err)
{
    CLEANUP(arena_done) Arena scratch = {0};
    KubeLeftOut left_out = {.pods = 0};
    CLEANUP(reader_done) Reader r = {.arena = arena, .scratch = &scratch, .left_out = &left_out, .err = err};
    Cluster cluster = {.node_count = 0};

    kube_mig_init(&r.mig, arena);
    kube_claims_init(&r.claims, &scratch);
    map_init(&r.seen);
    map_init(&r.queue_names);
    map_init(&r.local_queues);
    for (ClusterTier t = 0; t < CLUSTER_TIER_END; t++)
        map_init(&r.domain_names[t]);
    TRY(read_cluster(&r, texts, count, &cluster));
    *ret = cluster;
    *ret_left_out = left_out;
    return 0;
}
