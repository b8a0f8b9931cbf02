/* SPDX-License-Identifier: Apache-2.0 */
/* A node is kept while it is listed or while a pod names it. What is typical is measured by the pods with GPUs that the
 * cluster has, with cores rounded up, so that there are few kinds. */
#include "service/place/live.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/map.h"
#include "base/number.h"
#include "base/quantity.h"
#include "base/vec.h"
#include "engine/place/gpu_links.h"
#include "service/place/node_devices.h"

enum { TYPICAL_MAX = 10000, TYPICAL_CPU = 4000, BROKEN_CAP = 256 };
#define NO_INDEX UINT32_MAX
#define TYPICAL_NS (60 * NS_PER_S)
#define MODEL_LABEL "nvidia.com/gpu.product"
#define EXTENDED_KEY "resource.kubernetes.io/extended-resource-claim"
#define HEALTH_CONDITION "GPUsHealthy" /* of `stoker kubelet --update-node` */

struct LiveNode {
    char *name;
    bool listed;
    uint32_t round; /* of the list that it was in last */
    uint32_t index; /* in the placement; NO_INDEX: not in it */
    uint64_t pods;  /* that name it */
    uint64_t cpu_all, cpu_taken;
    uint64_t capacity, allocatable; /* of the resource */
    char *model_label;              /* NULL: none */
    NodeDevices by_slices;
    bool nameless;                   /* its GPUs are those of slices */
    uint64_t devices, usable, taken; /* GPUs: there are, can be given out, pods have */
    uint64_t holders[CLUSTER_GPUS_MAX];
    uint16_t gpus_broken;    /* as its annotation says */
    GpuLinks *links;         /* the same; owned; NULL: it says nothing */
    char broken[BROKEN_CAP]; /* what is broken, as its condition says */
    uint8_t model;
};

typedef struct LivePod {
    LiveNode *node;
    ClusterRequest request;
    uint16_t gpus;     /* 0: which ones is not known */
    uint32_t round;    /* of the list that it was in last */
    uint64_t until_ns; /* reserved until then; 0: it was seen on its node */
} LivePod;

/* A slice or claim, which its node has. */
typedef struct LiveObject {
    LiveNode *node;
    uint32_t round; /* of the list that it was in last */
} LiveObject;

struct Live {
    char *resource;
    const PlacementMode *mode;
    Map nodes, pods; /* by name, by UID */
    uint32_t node_round, pod_round;
    bool nodes_read, pods_read;
    uint64_t reserved;
    Map slices, claims; /* by name, by UID -> LiveObject */
    uint32_t slice_round, claim_round;
    VEC(char *) models;
    Placement *placement; /* NULL: has to be made */
    size_t gpu_nodes;
    uint64_t typical_ns; /* when what is typical is measured again */
};

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static const json_t *find_member(const json_t *object, const char *outer, const char *inner)
{
    return json_object_get(json_object_get(object, outer), inner);
}

static const char *read_text(const json_t *object, const char *outer, const char *inner)
{
    return json_string_value(find_member(object, outer, inner));
}

/* A quantity in thousandths, at most UINT32_MAX whole ones; 0 where it is none. */
static uint64_t read_milli(const json_t *quantity)
{
    const char *text = json_string_value(quantity);
    double value = json_is_number(quantity) ? json_number_value(quantity) : 0;

    if (text && quantity_parse(text, &value, NULL) < 0)
        return 0;
    return value > 0 ? (uint64_t)(fmin(value, UINT32_MAX) * 1000 + 0.5) : 0;
}

static uint64_t read_container(const json_t *container, const char *resource)
{
    const json_t *resources = json_object_get(container, "resources");
    const json_t *asked = find_member(resources, "requests", resource);

    return read_milli(asked ? asked : find_member(resources, "limits", resource));
}

/* Containers run together, with those that started before them and stay; others before them one after the other. */
static uint64_t read_asked(const json_t *pod, const char *resource)
{
    const json_t *spec = json_object_get(pod, "spec");
    const json_t *first = json_object_get(spec, "initContainers"), *containers = json_object_get(spec, "containers");
    uint64_t sum = 0, most = 0;

    for (size_t i = 0; i < json_array_size(first); i++) {
        const json_t *one = json_array_get(first, i);
        const char *policy = json_string_value(json_object_get(one, "restartPolicy"));
        const uint64_t asked = read_container(one, resource);

        most = number_max_u64(most, sum + asked);
        sum += policy && strcmp(policy, "Always") == 0 ? asked : 0;
    }
    for (size_t i = 0; i < json_array_size(containers); i++)
        sum += read_container(json_array_get(containers, i), resource);
    return number_max_u64(sum, most) + read_milli(find_member(spec, "overhead", resource));
}

ClusterRequest live_read_request(const Live *live, const json_t *pod)
{
    const uint64_t cpu = read_asked(pod, "cpu");
    const uint64_t gpus = read_asked(pod, live->resource) / 1000;

    return (ClusterRequest){.cpu_milli = (uint32_t)number_min_u64(cpu, UINT32_MAX),
                            .gpu_milli = CLUSTER_GPU,
                            .gpu_count = gpus <= CLUSTER_GPUS_MAX ? (uint8_t)gpus : 0};
}

/* A pod's GPUs; 0 where its annotation names none, or not as many as it asks for. */
static uint16_t read_gpus(const char *text, unsigned count)
{
    uint16_t gpus = 0;

    return text && cluster_read_gpus(text, &gpus) && (unsigned)__builtin_popcount(gpus) == count ? gpus : 0;
}

/* --- what is left of a node --------------------------------------------------------------------------------------- */

static bool is_decided(const LiveNode *node)
{
    return node->listed && node->devices > 0 && node->devices <= CLUSTER_GPUS_MAX;
}

static uint64_t count_free(const LiveNode *node)
{
    const uint64_t taken = node->taken + node->by_slices.claimed;

    return node->usable > taken ? node->usable - taken : 0;
}

static uint32_t count_cpu(const LiveNode *node)
{
    return node->cpu_all > node->cpu_taken ? (uint32_t)(node->cpu_all - node->cpu_taken) : 0;
}

/* GPUs that nobody has by name and that are not known to be broken: the first of them, as many as are free. */
static void update_left(Live *live, const LiveNode *node)
{
    PlacementLeft left = {.cpu_milli = count_cpu(node)};
    uint64_t free_gpus = count_free(node);

    if (!live->placement || node->index == NO_INDEX)
        return;
    for (unsigned i = 0; i < node->devices && free_gpus > 0; i++)
        if (node->holders[i] == 0 && !(node->gpus_broken >> i & 1)) {
            left.gpu_milli[i] = CLUSTER_GPU;
            free_gpus--;
        }
    placement_set_left(live->placement, node->index, &left);
}

static void drop_placement(Live *live)
{
    placement_free(TAKE(live->placement));
}

static int compare_names(const void *a, const void *b)
{
    const LiveNode *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static void set_typical(Live *live)
{
    CLEANUP_VEC VEC(ClusterRequest) typical = {0};
    const MapEntry *entry;

    for (size_t at = 0; typical.len < TYPICAL_MAX && (entry = map_next(&live->pods, &at));) {
        ClusterRequest request = ((const LivePod *)entry->value)->request;

        if (request.gpu_count == 0)
            continue;
        request.cpu_milli = (request.cpu_milli + TYPICAL_CPU - 1) / TYPICAL_CPU * TYPICAL_CPU;
        vec_push(&typical, request);
    }
    if (typical.len)
        placement_set_typical(live->placement, typical.at, typical.len);
}

/* The nodes with GPUs, by name, so that it decides alike after a restart. */
static void make_placement(Live *live)
{
    CLEANUP_VEC VEC(LiveNode *) nodes = {0};
    CLEANUP_VEC VEC(ClusterNode) rows = {0};
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&live->nodes, &at));) {
        LiveNode *node = entry->value;

        node->index = NO_INDEX;
        if (is_decided(node))
            vec_push(&nodes, node);
    }
    vec_sort(&nodes, compare_names);
    for (size_t i = 0; i < nodes.len; i++) {
        nodes.at[i]->index = (uint32_t)i;
        vec_push(&rows, ((ClusterNode){.name = nodes.at[i]->name,
                                       .cpu_milli = (uint32_t)nodes.at[i]->cpu_all,
                                       .gpu_count = (uint8_t)nodes.at[i]->devices,
                                       .model = nodes.at[i]->model}));
    }
    live->placement = placement_new(rows.at, rows.len, NULL, live->mode);
    live->gpu_nodes = nodes.len;
    set_typical(live);
    for (size_t i = 0; i < nodes.len; i++)
        update_left(live, nodes.at[i]);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void free_node(LiveNode *node)
{
    node_devices_done(&node->by_slices);
    free(node->model_label);
    free(node->name);
    free(node->links);
    free(node);
}

static void drop_unused(Live *live, LiveNode *node)
{
    if (node->listed || node->pods > 0 || !node_devices_empty(&node->by_slices))
        return;
    (void)map_del(&live->nodes, node->name);
    free_node(node);
}

/* NULL: there are too many. */
static LiveNode *find_node(Live *live, const char *name)
{
    LiveNode *node = map_get(&live->nodes, name);

    if (node || live->nodes.len == LIVE_NODES_MAX)
        return node;
    node = xcalloc(1, sizeof *node);
    node->name = xstrdup(name);
    node->index = NO_INDEX;
    map_put(&live->nodes, name, node);
    return node;
}

/* By the label of a node, or the node selector of a pod. */
static uint8_t find_model(Live *live, const char *name)
{
    for (size_t i = 0; i < live->models.len; i++)
        if (strcmp(live->models.at[i], name) == 0)
            return (uint8_t)i;
    if (live->models.len == CLUSTER_MODELS_MAX)
        return CLUSTER_MODELS_MAX - 1;
    vec_push(&live->models, xstrdup(name));
    return (uint8_t)(live->models.len - 1);
}

/* Which GPUs are unhealthy, and for people what is wrong with them. */
static void read_health(LiveNode *node, const json_t *object)
{
    const json_t *annotations = find_member(object, "metadata", "annotations");
    const json_t *conditions = find_member(object, "status", "conditions");
    const char *gpus = json_string_value(json_object_get(annotations, CLUSTER_UNHEALTHY_KEY));

    node->broken[0] = '\0';
    node->gpus_broken = 0;
    if (gpus)
        (void)cluster_read_gpus(gpus, &node->gpus_broken);
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *one = json_array_get(conditions, i);
        const char *type = json_string_value(json_object_get(one, "type"));
        const char *status = json_string_value(json_object_get(one, "status"));
        const char *message = json_string_value(json_object_get(one, "message"));

        if (type && status && message && strcmp(type, HEALTH_CONDITION) == 0 && strcmp(status, "False") == 0)
            snprintf(node->broken, sizeof node->broken, "%s", message);
    }
}

static void read_links(LiveNode *node, const json_t *object)
{
    const char *text =
        json_string_value(find_member(json_object_get(object, "metadata"), "annotations", CLUSTER_LINKS_KEY));
    GpuLinks links;

    free(TAKE(node->links));
    if (text && gpu_links_read(text, &links)) {
        node->links = xmalloc(sizeof links);
        *node->links = links;
    }
}

/* Less those that are unhealthy, of which the kubelet may not have been told yet. */
static uint64_t limit_usable(const LiveNode *node)
{
    uint64_t fine = node->devices;

    for (unsigned i = 0; i < CLUSTER_GPUS_MAX && i < node->devices; i++)
        fine -= node->gpus_broken >> i & 1;
    return number_min_u64(node->usable, fine);
}

/* After its own object or its slices and claims have changed. */
static void apply_facts(Live *live, LiveNode *node, const LiveNode *before)
{
    const NodeDevices *d = &node->by_slices;
    const char *model = node->model_label ? node->model_label : d->product;

    node->nameless = node->capacity == 0 && d->gpus > 0;
    node->devices = node->nameless ? d->gpus : node->capacity;
    node->usable = node->nameless ? d->usable : node->allocatable;
    node->usable = limit_usable(node);
    node->model = model ? find_model(live, model) : 0;
    if (is_decided(node) != is_decided(before) || node->devices != before->devices || node->model != before->model)
        drop_placement(live);
    update_left(live, node);
}

static void drop_node(Live *live, LiveNode *node)
{
    node->listed = false;
    drop_placement(live);
    drop_unused(live, node);
}

int live_change_node(void *self, const json_t *object, bool gone, Err *err)
{
    Live *live = self;
    const char *name = read_text(object, "metadata", "name");
    const char *model = json_string_value(find_member(json_object_get(object, "metadata"), "labels", MODEL_LABEL));
    const json_t *status = json_object_get(object, "status");

    if (!name)
        return err_set(err, -EBADMSG, "a node has no name");
    LiveNode *node = gone ? map_get(&live->nodes, name) : find_node(live, name);
    if (gone && node)
        drop_node(live, node);
    if (gone)
        return 0;
    if (!node)
        return err_set(err, -E2BIG, "there are more than %d nodes", LIVE_NODES_MAX);
    const LiveNode before = *node;
    node->listed = true;
    node->round = live->node_round;
    node->cpu_all = number_min_u64(read_milli(find_member(status, "allocatable", "cpu")), UINT32_MAX);
    node->allocatable = read_milli(find_member(status, "allocatable", live->resource)) / 1000;
    node->capacity =
        number_max_u64(read_milli(find_member(status, "capacity", live->resource)) / 1000, node->allocatable);
    free(node->model_label);
    node->model_label = model ? xstrdup(model) : NULL;
    read_health(node, object);
    read_links(node, object);
    apply_facts(live, node, &before);
    return 0;
}

int live_add_node(void *self, const json_t *object, Err *err)
{
    return live_change_node(self, object, false, err);
}

void live_begin_nodes(void *self)
{
    ((Live *)self)->node_round++;
}

bool live_end_nodes(void *self)
{
    Live *live = self;
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&live->nodes, &at));) {
        LiveNode *node = entry->value;

        if (node->listed && node->round != live->node_round)
            drop_node(live, node);
    }
    return live->nodes_read = true;
}

/* --- slices and claims -------------------------------------------------------------------------------------------- */

typedef void (*PutObject)(NodeDevices *devices, const char *key, const json_t *object);

static void drop_object(Live *live, Map *objects, const char *key, PutObject put)
{
    const LiveObject *known = map_get(objects, key);

    if (!known)
        return;
    LiveNode *node = known->node;
    const LiveNode before = *node;
    put(&node->by_slices, key, NULL);
    free(map_del(objects, key)); /* which may own `key` */
    apply_facts(live, node, &before);
    drop_unused(live, node);
}

/* `node_name` NULL: it is of no node. */
static int put_object(Live *live, Map *objects, const char *key, const char *node_name, uint32_t round,
                      const json_t *object, PutObject put, Err *err)
{
    const LiveObject *known = map_get(objects, key);

    if (known && (!node_name || strcmp(known->node->name, node_name) != 0))
        drop_object(live, objects, key, put);
    if (!node_name)
        return 0;
    LiveNode *node = find_node(live, node_name);
    LiveObject *one = map_get(objects, key);
    if (!node || (!one && objects->len == LIVE_OBJECTS_MAX))
        return err_set(err, -E2BIG, "there are more than %d nodes, or %d objects of a kind", LIVE_NODES_MAX,
                       LIVE_OBJECTS_MAX);
    if (!one) {
        one = xcalloc(1, sizeof *one);
        map_put(objects, key, one);
    }
    *one = (LiveObject){node, round};
    const LiveNode before = *node;
    put(&node->by_slices, key, object);
    apply_facts(live, node, &before);
    return 0;
}

static void end_objects(Live *live, Map *objects, uint32_t round, PutObject put)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(objects, &at));)
        if (((const LiveObject *)entry->value)->round != round)
            drop_object(live, objects, entry->key, put);
}

int live_change_slice(void *self, const json_t *object, bool gone, Err *err)
{
    Live *live = self;
    const char *name = read_text(object, "metadata", "name"), *node = read_text(object, "spec", "nodeName");

    if (!name)
        return err_set(err, -EBADMSG, "a resource slice has no name");
    return put_object(live, &live->slices, name, gone ? NULL : node, live->slice_round, object, node_devices_put_slice,
                      err);
}

int live_add_slice(void *self, const json_t *object, Err *err)
{
    return live_change_slice(self, object, false, err);
}

void live_begin_slices(void *self)
{
    ((Live *)self)->slice_round++;
}

bool live_end_slices(void *self)
{
    Live *live = self;

    end_objects(live, &live->slices, live->slice_round, node_devices_put_slice);
    return true;
}

/* Where the devices of a claim are: one node, as the scheduler writes it, else the name of their pool. */
static const char *find_claim_node(const json_t *claim)
{
    const json_t *allocation = find_member(claim, "status", "allocation");
    const json_t *term = json_array_get(find_member(allocation, "nodeSelector", "nodeSelectorTerms"), 0);
    const json_t *field = json_array_get(json_object_get(term, "matchFields"), 0);
    const char *key = json_string_value(json_object_get(field, "key"));
    const char *node = json_string_value(json_array_get(json_object_get(field, "values"), 0));
    const json_t *first = json_array_get(find_member(allocation, "devices", "results"), 0);

    return key && node && strcmp(key, "metadata.name") == 0 ? node : json_string_value(json_object_get(first, "pool"));
}

/* What the scheduler made for a pod that asks for the resource is counted with the pod. */
int live_change_claim(void *self, const json_t *object, bool gone, Err *err)
{
    Live *live = self;
    const char *uid = read_text(object, "metadata", "uid");
    const json_t *annotations = find_member(object, "metadata", "annotations");

    if (!uid || strlen(uid) > LIVE_UID_MAX)
        return err_set(err, -EBADMSG, "a resource claim has no UID, or one that is too long");
    gone = gone || json_object_get(annotations, EXTENDED_KEY);
    return put_object(live, &live->claims, uid, gone ? NULL : find_claim_node(object), live->claim_round, object,
                      node_devices_put_claim, err);
}

int live_add_claim(void *self, const json_t *object, Err *err)
{
    return live_change_claim(self, object, false, err);
}

void live_begin_claims(void *self)
{
    ((Live *)self)->claim_round++;
}

bool live_end_claims(void *self)
{
    Live *live = self;

    end_objects(live, &live->claims, live->claim_round, node_devices_put_claim);
    return true;
}

/* --- pods --------------------------------------------------------------------------------------------------------- */

/* Puts a pod on its node (1) or takes it away (-1, which is modulo 2^n here). */
static void count_pod(Live *live, const LivePod *pod, uint64_t by)
{
    LiveNode *node = pod->node;

    node->pods += by;
    node->cpu_taken += by * pod->request.cpu_milli;
    node->taken += by * pod->request.gpu_count;
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
        node->holders[i] += pod->gpus >> i & 1 ? by : 0;
    live->reserved += pod->until_ns ? by : 0;
    update_left(live, node);
}

static void drop_pod(Live *live, const char *uid)
{
    LivePod *pod = map_del(&live->pods, uid);

    if (!pod)
        return;
    count_pod(live, pod, UINT64_MAX);
    drop_unused(live, pod->node);
    free(pod);
}

static int put_pod(Live *live, const char *uid, const char *node_name, const LivePod *row, Err *err)
{
    LivePod *pod = map_get(&live->pods, uid);
    LiveNode *node = find_node(live, node_name);

    if (!node || (!pod && live->pods.len == LIVE_PODS_MAX))
        return err_set(err, -E2BIG, "there are more than %d nodes or %d pods", LIVE_NODES_MAX, LIVE_PODS_MAX);
    if (pod && pod->node == node && pod->gpus == row->gpus && pod->until_ns == row->until_ns &&
        pod->request.cpu_milli == row->request.cpu_milli && pod->request.gpu_count == row->request.gpu_count) {
        pod->round = row->round;
        return 0; /* most changes of a pod */
    }
    node->pods++; /* so that it stays while the pod is moved */
    drop_pod(live, uid);
    node->pods--;
    pod = xcalloc(1, sizeof *pod);
    *pod = *row;
    pod->node = node;
    map_put(&live->pods, uid, pod);
    count_pod(live, pod, 1);
    return 0;
}

int live_change_pod(void *self, const json_t *object, bool gone, Err *err)
{
    Live *live = self;
    const char *uid = read_text(object, "metadata", "uid"), *node = read_text(object, "spec", "nodeName");
    const char *phase = read_text(object, "status", "phase");
    const char *held =
        json_string_value(find_member(json_object_get(object, "metadata"), "annotations", CLUSTER_GPUS_KEY));
    const char *model = json_string_value(find_member(json_object_get(object, "spec"), "nodeSelector", MODEL_LABEL));
    const LivePod *known = uid ? map_get(&live->pods, uid) : NULL;
    LivePod row = {.request = live_read_request(live, object), .round = live->pod_round};

    if (!uid || strlen(uid) > LIVE_UID_MAX)
        return err_set(err, -EBADMSG, "a pod has no UID, or one that is too long");
    gone = gone || (phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0));
    if (gone || (!node && known && !known->until_ns))
        drop_pod(live, uid);
    if (gone || !node)
        return 0; /* one that is reserved may be told once more without its node */
    row.gpus = read_gpus(held, row.request.gpu_count);
    if (model) {
        row.request.models_written = find_model(live, model);
        row.request.models = UINT64_C(1) << row.request.models_written++;
    }
    return put_pod(live, uid, node, &row, err);
}

int live_add_pod(void *self, const json_t *object, Err *err)
{
    return live_change_pod(self, object, false, err);
}

void live_begin_pods(void *self)
{
    ((Live *)self)->pod_round++;
}

bool live_end_pods(void *self)
{
    Live *live = self;
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&live->pods, &at));) {
        const LivePod *pod = entry->value;

        if (!pod->until_ns && pod->round != live->pod_round)
            drop_pod(live, entry->key);
    }
    return live->pods_read = true;
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

/* Cores beyond what is left count as those: kube-scheduler has checked them, and may know more. */
static bool score_node(Live *live, const ClusterRequest *request, const LiveNode *node, double *ret_score,
                       uint16_t *ret_gpus)
{
    ClusterRequest r = *request;

    r.cpu_milli = (uint32_t)number_min_u64(r.cpu_milli, count_cpu(node));
    return placement_score(live->placement, &r, node->index, ret_score, ret_gpus);
}

/* Of a node that fits: the GPUs that its device plugin would choose, of as many free ones; without knowledge of its
 * links those that the score was of. */
static uint16_t choose_gpus(const Live *live, const ClusterRequest *request, const LiveNode *node, uint16_t scored)
{
    const PlacementLeft left = placement_left(live->placement, node->index);
    uint16_t open = 0;

    if (!node->links || node->links->count < node->devices)
        return scored;
    for (unsigned i = 0; i < node->devices; i++)
        open |= (uint16_t)((left.gpu_milli[i] == CLUSTER_GPU) << i);
    return gpu_links_choose(node->links, NULL, open, 0, request->gpu_count);
}

const LiveNode *live_find(const Live *live, const char *name, size_t len)
{
    return map_getn(&live->nodes, name, len);
}

LiveFit live_judge(Live *live, const ClusterRequest *request, const LiveNode *node, double *ret_score)
{
    uint16_t gpus;

    if (!node || !is_decided(node))
        return LIVE_UNKNOWN;
    if (!live->placement)
        make_placement(live);
    if (score_node(live, request, node, ret_score, &gpus))
        return LIVE_FITS;
    return request->gpu_count > node->usable ? LIVE_TOO_SMALL : LIVE_FULL;
}

void live_explain(const LiveNode *node, const ClusterRequest *request, Str *out)
{
    if (request->gpu_count > node->usable)
        str_addf(out, "%u of %u GPUs can be used, %u wanted", (unsigned)node->usable, (unsigned)node->devices,
                 (unsigned)request->gpu_count);
    else
        str_addf(out, "%u of %u GPUs free, %u wanted", (unsigned)count_free(node), (unsigned)node->devices,
                 (unsigned)request->gpu_count);
    if (node->broken[0])
        str_addf(out, "; %s", node->broken);
}

int live_reserve(Live *live, const char *uid, const ClusterRequest *request, const char *name, uint64_t until_ns,
                 uint16_t *ret_gpus, Err *err)
{
    CLEANUP(str_done) Str why = str_limited(2 * BROKEN_CAP);
    LivePod row = {.request = *request, .until_ns = until_ns};
    LivePod *known = map_get(&live->pods, uid);
    double score;

    if (known && strcmp(known->node->name, name) == 0 && (known->gpus || known->node->nameless)) {
        known->until_ns = known->until_ns ? until_ns : 0;
        *ret_gpus = known->gpus;
        return 0;
    }
    live_release(live, uid);
    const LiveNode *node = map_get(&live->nodes, name);
    const LiveFit fit = live_judge(live, request, node, &score);
    if (fit == LIVE_UNKNOWN) {
        *ret_gpus = 0;
        return 0;
    }
    if (fit != LIVE_FITS) {
        live_explain(node, request, &why);
        return err_set(err, -EBUSY, "node %s: %s", name, why.text);
    }
    (void)score_node(live, request, node, &score, &row.gpus);
    row.gpus = node->nameless ? 0 : choose_gpus(live, request, node, row.gpus);
    TRY(put_pod(live, uid, name, &row, err));
    *ret_gpus = row.gpus;
    return 0;
}

void live_release(Live *live, const char *uid)
{
    const LivePod *pod = map_get(&live->pods, uid);

    if (pod && pod->until_ns)
        drop_pod(live, uid);
}

void live_tick(Live *live, uint64_t now_ns)
{
    const MapEntry *entry;

    for (size_t at = 0; live->reserved > 0 && (entry = map_next(&live->pods, &at));) {
        const LivePod *pod = entry->value;

        if (pod->until_ns && pod->until_ns <= now_ns)
            drop_pod(live, entry->key);
    }
    if (now_ns >= live->typical_ns) {
        live->typical_ns = now_ns + TYPICAL_NS;
        drop_placement(live);
    }
    if (!live->placement) /* not while somebody waits */
        make_placement(live);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

LiveCounts live_counts(const Live *live)
{
    return (LiveCounts){.known = live->nodes_read && live->pods_read,
                        .nodes = live->nodes.len,
                        .gpu_nodes = live->gpu_nodes,
                        .pods = live->pods.len,
                        .reserved = live->reserved};
}

Live *live_new(const char *resource, const PlacementMode *mode)
{
    Live *live = xcalloc(1, sizeof *live);

    live->resource = xstrdup(resource);
    live->mode = mode;
    map_init(&live->nodes);
    map_init(&live->pods);
    map_init(&live->slices);
    map_init(&live->claims);
    return live;
}

void live_free(Live *live)
{
    const MapEntry *entry;

    if (!live)
        return;
    for (size_t at = 0; (entry = map_next(&live->pods, &at));)
        free(entry->value);
    for (size_t at = 0; (entry = map_next(&live->slices, &at));)
        free(entry->value);
    for (size_t at = 0; (entry = map_next(&live->claims, &at));)
        free(entry->value);
    for (size_t at = 0; (entry = map_next(&live->nodes, &at));)
        free_node(entry->value);
    map_done(&live->slices);
    map_done(&live->claims);
    map_done(&live->pods);
    map_done(&live->nodes);
    for (size_t i = 0; i < live->models.len; i++)
        free(live->models.at[i]);
    vec_done(&live->models);
    drop_placement(live);
    free(live->resource);
    free(live);
}
