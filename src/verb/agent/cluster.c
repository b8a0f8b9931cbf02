/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent asks the cluster's API server, where options want it: labels of pods, the devices of DRA, the
 * ConfigMap of counters. Nobody waits for it: series are without these labels, and the metrics those of before, until
 * it has answered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "verb/agent/agent.h"

enum { AGAIN = 12, TIMEOUT_S = 10 };
#define PLACED_NS NS_PER_MIN /* `stoker kubelet` asks three times as often */

/* -- pods and devices ------------------------------------------------------------------------------------------------
 */

void cluster_want_pods(void *self)
{
    Agent *agent = self;
    Cluster *cluster = &agent->cluster;

    if (cluster->pods && kube_pods_want(cluster->pods, podresources_table(agent->pods)))
        kube_api_ask(cluster->api, cluster->pods_read);
}

void cluster_label_row(void *self, Allocation *row)
{
    const KubePods *pods = ((const Agent *)self)->cluster.pods;

    if (pods)
        kube_pods_label(pods, row);
}

bool cluster_find_device(void *self, const AllocationClaim *claim, AllocationDevice *ret, const char **ret_profile)
{
    const KubeSlices *slices = ((const Agent *)self)->cluster.slices;

    return slices && kube_slices_find(slices, claim->driver, claim->pool, claim->device, ret, ret_profile);
}

static void labels_changed(void *self)
{
    Agent *agent = self;

    if (agent->pods)
        podresources_label_again(agent->pods);
}

static void devices_changed(void *self)
{
    Agent *agent = self;

    if (agent->pods)
        podresources_ask_again(agent->pods);
}

/* -- the ConfigMap ---------------------------------------------------------------------------------------------------
 */

/* A text that was refused is not tried again before it changes. */
static int take_configmap(void *self, const json_t *object, Err *err)
{
    Agent *agent = self;
    const char *text = json_string_value(json_object_get(json_object_get(object, "data"), "metrics"));

    if (!text)
        return err_set(err, -ENODATA, "it has no key 'metrics'");
    const uint64_t sum = map_hash(text, strlen(text), 1);
    if (sum != agent->cluster.counters_sum) {
        agent->cluster.counters_sum = sum;
        agent->cluster.use_counters(agent, text);
    }
    return 0;
}

static KubeRead read_configmap(Agent *agent)
{
    const char *name = agent_configmap(&agent->config->o);
    const int len = (int)strcspn(name, ":");

    return (KubeRead){
        .what = "configmap",
        .path = arena_printf(&agent->cluster.arena, "/api/v1/namespaces/%.*s/configmaps/%s", len, name, name + len + 1),
        .add = take_configmap,
        .self = agent};
}

void cluster_fill_self(const Agent *agent, ExporterSelf *self)
{
    const Cluster *cluster = &agent->cluster;

    for (size_t i = 0; cluster->api && i < cluster->count; i++) {
        self->api_reads[i].read = cluster->reads[i].what;
        self->api_reads[i].state = kube_states[kube_api_state(cluster->api, i)].key;
    }
    self->api_read_count = cluster->api ? cluster->count : 0;
    if (agent->placed.told_ns == 0 || agent->last_tick_ns - agent->placed.told_ns > PLACED_NS)
        return;
    self->api_reads[self->api_read_count].read = KUBELET_PODS_READ;
    self->api_reads[self->api_read_count++].state = agent->placed.state;
    for (size_t i = 0; i < CHOSEN_OUTCOME_END; i++) {
        self->placed[i].outcome = chosen_outcomes[i].key;
        self->placed[i].count = agent->placed.counts[i];
    }
    self->placed_count = CHOSEN_OUTCOME_END;
}

/* -- starting and stopping -------------------------------------------------------------------------------------------
 */

void cluster_close(Agent *agent)
{
    Cluster *cluster = &agent->cluster;

    kube_api_close(cluster->api);
    kube_pods_free(cluster->pods);
    kube_slices_free(cluster->slices);
    arena_done(&cluster->arena);
    *cluster = (Cluster){.api = NULL};
}

static int open_pods(Agent *agent, const char *node, Err *err)
{
    Cluster *cluster = &agent->cluster;
    const OptList *patterns = &agent->config->o.pod_label_regex;
    const char *path = kube_node_path(&cluster->arena, "/api/v1/pods", "spec.nodeName", node);

    TRY(kube_pods_new(patterns->items, patterns->len, &cluster->pods, err));
    cluster->pods_read = cluster->count;
    cluster->reads[cluster->count++] = kube_pods_read(cluster->pods, path, labels_changed, agent);
    return 0;
}

static void open_slices(Agent *agent, const char *node)
{
    static const char *const collections[] = {"/apis/resource.k8s.io/v1/resourceslices",
                                              "/apis/resource.k8s.io/v1beta1/resourceslices"};
    Cluster *cluster = &agent->cluster;
    const char *paths[ARRAY_LEN(collections)];

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        paths[i] = kube_node_path(&cluster->arena, collections[i], "spec.nodeName", node);
    cluster->slices = kube_slices_new();
    cluster->reads[cluster->count++] = kube_slices_read(cluster->slices, paths[0], paths[1], devices_changed, agent);
}

int cluster_open(Agent *agent, void (*use_counters)(Agent *agent, const char *text), Err *err)
{
    const AgentOptions *o = &agent->config->o;
    const char *node = board_reader_node(agent->sampling.reader)->hostname;
    Cluster *cluster = &agent->cluster;
    const KubeApiConfig config = {.account = o->account,
                                  .kubeconfig = o->kubeconfig,
                                  .soon_ns = o->pods_period_ns,
                                  .again_ns = AGAIN * o->pods_period_ns,
                                  .timeout_ns = TIMEOUT_S * NS_PER_S,
                                  .log = &agent->log};

    cluster->use_counters = use_counters;
    if (o->kubernetes && o->pod_labels)
        TRY(open_pods(agent, node, err));
    if (o->kubernetes && o->dra)
        open_slices(agent, node);
    if (agent_configmap(o))
        cluster->reads[cluster->count++] = read_configmap(agent);
    return cluster->count ? kube_api_new(&agent->loop, &config, cluster->reads, cluster->count, &cluster->api, err) : 0;
}
