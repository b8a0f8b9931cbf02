/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/node.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "model/cluster.h"
#include "service/kubelet/mps.h"
#include "source/kubernetes/kubernetes.h"
#include "verb/kubelet/events.h"

enum { LABELS_MAX_BYTES = 256 << 10, PATCH_MAX = 512 << 10, MESSAGE_CAP = 1024, TIMEOUT_S = 10 };
#define ANNOTATION "stoker.dev/labels"
#define TIMESTAMP "nvidia.com/gfd.timestamp"
#define CONDITION "GPUsHealthy"

enum { READ_LABELS, READ_STATUS, READ_COUNT };

struct NodeKeeper {
    NodeKeeperConfig config;
    Arena arena;
    char *label; /* its value as it was told; NULL: not yet */
    KubeApi *api;
    NodeEvents *events;
    Str labels;       /* wanted; lines */
    bool labels_told; /* they are known */
    json_t *metadata; /* of the node, as it was read or written last */
    Str label_patch, keys;
    /* the condition that is wanted, and the one that the node has */
    bool health_told, healthy;
    char reason[NODE_REASON_CAP], message[MESSAGE_CAP];
    char unhealthy[CLUSTER_GPUS_CAP]; /* GPUs, as an annotation has them */
    char links[GPU_LINKS_TEXT_CAP];   /* the same */
    json_t *condition;
    Str status_patch;
};

/* --- labels ------------------------------------------------------------------------------------------------------- */

/* Calls `each` for every wanted label. */
static void for_each_label(NodeKeeper *keeper, void (*each)(NodeKeeper *keeper, const char *key, const char *value))
{
    CLEANUP_FREE char *text = xstrdup(keeper->labels.text);
    char *rest = text, *line;

    while ((line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');

        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(line, TIMESTAMP) != 0)
            each(keeper, line, value);
    }
}

static const char *read_label(const NodeKeeper *keeper, const char *key)
{
    return json_string_value(json_object_get(json_object_get(keeper->metadata, "labels"), key));
}

static void add_changed(NodeKeeper *keeper, const char *key, const char *value)
{
    const char *now = read_label(keeper, key);

    if (!now || strcmp(now, value) != 0)
        json_add_text(&keeper->label_patch, key, value);
}

static bool is_wanted(const NodeKeeper *keeper, const char *key)
{
    const size_t len = strlen(key);

    for (const char *line = keeper->labels.text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == '=')
            return true;
    }
    return false;
}

static bool is_ours(const char *key)
{
    return strncmp(key, "nvidia.com/", strlen("nvidia.com/")) == 0 ||
           strncmp(key, "stoker.dev/", strlen("stoker.dev/")) == 0;
}

static const char *read_annotation(const NodeKeeper *keeper, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(keeper->metadata, "annotations"), key));

    return text ? text : "";
}

static void add_removed(NodeKeeper *keeper)
{
    CLEANUP_FREE char *text = xstrdup(read_annotation(keeper, ANNOTATION));
    char *rest = text, *key;

    while ((key = strsep(&rest, ",")))
        if (is_ours(key) && !is_wanted(keeper, key) && read_label(keeper, key))
            json_add_null(&keeper->label_patch, key);
}

static void list_key(NodeKeeper *keeper, const char *key, const char *value UNUSED)
{
    str_addf(&keeper->keys, "%s%s", keeper->keys.len ? "," : "", key);
}

static void add_labels(NodeKeeper *keeper)
{
    for_each_label(keeper, add_changed);
    add_removed(keeper);
}

/* An absent annotation is as an empty one. */
static void add_annotation(NodeKeeper *keeper, const char *key, const char *value)
{
    if (strcmp(value, read_annotation(keeper, key)) == 0)
        return;
    if (value[0])
        json_add_text(&keeper->label_patch, key, value);
    else
        json_add_null(&keeper->label_patch, key);
}

static void add_annotations(NodeKeeper *keeper)
{
    if (keeper->labels_told) {
        str_clear(&keeper->keys);
        for_each_label(keeper, list_key);
        add_annotation(keeper, ANNOTATION, keeper->keys.text);
    }
    if (keeper->health_told) {
        add_annotation(keeper, CLUSTER_UNHEALTHY_KEY, keeper->unhealthy);
        add_annotation(keeper, CLUSTER_LINKS_KEY, keeper->links);
    }
}

/* KubeRead.patch: NULL where the node has what it is to have. */
static const char *patch_labels(void *self)
{
    NodeKeeper *keeper = self;
    Str *patch = &keeper->label_patch;
    const char *version = json_string_value(json_object_get(keeper->metadata, "resourceVersion"));

    if (!keeper->metadata)
        return NULL;
    str_clear(patch);
    json_open(patch, NULL, '{');
    json_open(patch, "metadata", '{');
    json_add_text(patch, "resourceVersion", version);
    json_open(patch, "labels", '{');
    size_t before = patch->len;
    if (keeper->labels_told)
        add_labels(keeper);
    bool changes = patch->len > before;
    json_close(patch, '}');
    json_open(patch, "annotations", '{');
    before = patch->len;
    add_annotations(keeper);
    changes |= patch->len > before;
    json_close(patch, '}');
    json_close(patch, '}');
    json_close(patch, '}');
    return changes ? patch->text : NULL;
}

static void tell_label(NodeKeeper *keeper)
{
    const char *value = read_label(keeper, keeper->config.label);

    value = value ? value : "";
    if (keeper->label && strcmp(keeper->label, value) == 0)
        return;
    free(keeper->label);
    keeper->label = xstrdup(value);
    keeper->config.labelled(keeper->config.self, keeper->label);
}

static int add_metadata(void *self, const json_t *object, Err *err)
{
    NodeKeeper *keeper = self;
    json_t *metadata = json_object_get(object, "metadata");

    if (!json_is_object(metadata))
        return err_set(err, -EBADMSG, "the answer is no node: it has no metadata");
    json_decref(keeper->metadata);
    keeper->metadata = json_incref(metadata);
    tell_label(keeper);
    return 0;
}

/* True where nothing is left to be written. */
static bool end_labels(void *self)
{
    return patch_labels(self) == NULL;
}

/* --- the condition ------------------------------------------------------------------------------------------------ */

static const char *read_condition(const NodeKeeper *keeper, const char *member)
{
    const char *text = json_string_value(json_object_get(keeper->condition, member));

    return text ? text : "";
}

static const char *patch_status(void *self)
{
    NodeKeeper *keeper = self;
    Str *patch = &keeper->status_patch;
    const char *status = keeper->healthy ? "True" : "False";
    const bool same_status = strcmp(read_condition(keeper, "status"), status) == 0;
    char now[CLOCK_TEXT_MAX];

    if (!keeper->health_told || (same_status && strcmp(read_condition(keeper, "reason"), keeper->reason) == 0 &&
                                 strcmp(read_condition(keeper, "message"), keeper->message) == 0))
        return NULL;
    clock_format(now, clock_real(clock_kernel()));
    str_clear(patch);
    json_open(patch, NULL, '{');
    json_open(patch, "status", '{');
    json_open(patch, "conditions", '[');
    json_open(patch, NULL, '{');
    json_add_text(patch, "type", CONDITION);
    json_add_text(patch, "status", status);
    json_add_text(patch, "reason", keeper->reason);
    json_add_text(patch, "message", keeper->message);
    json_add_text(patch, "lastHeartbeatTime", now);
    json_add_text(patch, "lastTransitionTime", same_status ? read_condition(keeper, "lastTransitionTime") : now);
    json_close(patch, '}');
    json_close(patch, ']');
    json_close(patch, '}');
    json_close(patch, '}');
    return patch->text;
}

static int add_status(void *self, const json_t *object, Err *err)
{
    NodeKeeper *keeper = self;
    const json_t *conditions = json_object_get(json_object_get(object, "status"), "conditions");
    json_t *found = NULL;

    if (!json_is_object(json_object_get(object, "metadata")))
        return err_set(err, -EBADMSG, "the answer is no node: it has no metadata");
    for (size_t i = 0; i < json_array_size(conditions) && !found; i++) {
        json_t *one = json_array_get(conditions, i);
        const char *type = json_string_value(json_object_get(one, "type"));

        found = type && strcmp(type, CONDITION) == 0 ? one : NULL;
    }
    json_decref(keeper->condition);
    keeper->condition = json_incref(found);
    return 0;
}

static bool end_status(void *self)
{
    return patch_status(self) == NULL;
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

static const char *find_class(const Snapshot *snapshot, const char *incident)
{
    for (size_t i = 0; i < snapshot->incident_count; i++)
        if (strcmp(snapshot->incidents[i]->id, incident) == 0)
            return snapshot->incidents[i]->class;
    return "unhealthy";
}

/* A daemon that starts, or is taken over, is no fault of the node. */
static bool is_at_fault(const OfferResource *resource, const OfferUnit *unit)
{
    return !unit->healthy && !(unit->unserved && resource->daemon == mps_states[MPS_STARTING].key);
}

/* The first that is at fault, or NULL, and which GPUs that are offered whole are. */
static const OfferUnit *find_fault(const Offer *offer, uint16_t *ret_gpus)
{
    const OfferUnit *first = NULL;

    *ret_gpus = 0;
    for (size_t i = 0; i < offer->resources.len; i++) {
        const OfferResource *resource = &offer->resources.at[i];

        for (size_t k = 0; k < resource->units.len; k++) {
            const OfferUnit *unit = &resource->units.at[k];

            if (!is_at_fault(resource, unit))
                continue;
            first = first ? first : unit;
            if (!unit->profile[0] && unit->gpu_index < CLUSTER_GPUS_MAX)
                *ret_gpus = (uint16_t)(*ret_gpus | 1u << unit->gpu_index);
        }
    }
    return first;
}

void node_keeper_set_health(NodeKeeper *keeper, const Offer *offer, const Snapshot *snapshot)
{
    GpuLinks links;
    uint16_t gpus;
    const OfferUnit *first = find_fault(offer, &gpus);
    size_t healthy;
    const size_t all = offer_count(offer, &healthy);

    if (!keeper->config.write)
        return;
    keeper->health_told = true;
    keeper->healthy = !first;
    if (first) {
        node_reason(find_class(snapshot, first->incident), keeper->reason);
        snprintf(keeper->message, sizeof keeper->message, "%zu of %zu devices unhealthy: %s", all - healthy, all,
                 first->why);
    } else {
        snprintf(keeper->reason, sizeof keeper->reason, "AllHealthy");
        snprintf(keeper->message, sizeof keeper->message, "%zu devices", all);
    }
    cluster_write_gpus(gpus, keeper->unhealthy);
    offer_links(snapshot, &links);
    gpu_links_write(&links, keeper->links);
    kube_api_ask(keeper->api, READ_STATUS);
    if (patch_labels(keeper))
        kube_api_ask(keeper->api, READ_LABELS);
    node_events_set(keeper->events, snapshot);
}

void node_keeper_set_labels(NodeKeeper *keeper, const Str *labels)
{
    str_clear(&keeper->labels);
    str_addn(&keeper->labels, labels->text, labels->len);
    keeper->labels_told = keeper->config.write;
    kube_api_ask(keeper->api, READ_LABELS);
}

int node_keeper_new(uv_loop_t *loop, const NodeKeeperConfig *config, NodeKeeper **ret, Err *err)
{
    NodeKeeper *keeper = xcalloc(1, sizeof *keeper);
    const KubeApiConfig api = {.account = config->account,
                               .kubeconfig = config->kubeconfig,
                               .soon_ns = NS_PER_S,
                               .again_ns = config->period_ns,
                               .timeout_ns = TIMEOUT_S * NS_PER_S,
                               .log = config->log};
    const KubeRead reads[READ_COUNT] = {
        [READ_LABELS] = {.what = "the node's labels",
                         .path = arena_printf(&keeper->arena, "/api/v1/nodes/%s", config->node),
                         .metadata_alone = true,
                         .patch = patch_labels,
                         .add = add_metadata,
                         .end = end_labels,
                         .self = keeper},
        [READ_STATUS] = {.what = "the node's conditions",
                         .path = arena_printf(&keeper->arena, "/api/v1/nodes/%s/status", config->node),
                         .strategic = true,
                         .patch = patch_status,
                         .add = add_status,
                         .end = end_status,
                         .self = keeper},
    };

    keeper->config = *config;
    str_init(&keeper->labels, LABELS_MAX_BYTES);
    str_init(&keeper->label_patch, PATCH_MAX);
    str_init(&keeper->keys, PATCH_MAX);
    str_init(&keeper->status_patch, PATCH_MAX);
    const int rc = kube_api_new(loop, &api, reads, config->write ? READ_COUNT : READ_STATUS, &keeper->api, err);
    if (rc < 0) {
        node_keeper_close(keeper);
        return rc;
    }
    keeper->events = node_events_new(loop, keeper->api, keeper->config.node, config->log);
    *ret = keeper;
    return 0;
}

void node_keeper_close(NodeKeeper *keeper)
{
    if (!keeper)
        return;
    node_events_close(keeper->events);
    kube_api_close(keeper->api);
    json_decref(keeper->metadata);
    json_decref(keeper->condition);
    free(keeper->label);
    str_done(&keeper->labels);
    str_done(&keeper->label_patch);
    str_done(&keeper->keys);
    str_done(&keeper->status_patch);
    arena_done(&keeper->arena);
    free(keeper);
}
