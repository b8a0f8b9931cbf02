/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place config`: what kube-scheduler needs to ask `stoker place serve`, and where nodes are, for Kueue and
 * Volcano. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/render/topology.h"
#include "source/kubernetes/cluster_tier.h"
#include "source/slurm/places.h"
#include "verb/place/input.h"
#include "verb/place/place.h"

enum { PLACES_MAX = 16 << 20 };

typedef enum ConfigFor { CONFIG_FOR_SCHEDULER, CONFIG_FOR_KUEUE, CONFIG_FOR_VOLCANO } ConfigFor;
static const char *const targets[] = {"kube-scheduler", "kueue", "volcano", NULL}; /* as ConfigFor */

typedef struct ConfigOptions {
    const char *url, *resource, *places, *kubeconfig;
    OptList files;
    int target;
} ConfigOptions;

static const OptSpec config_opts[] = {
    OPT_ROW("url", OPT_STRING, ConfigOptions, url, .metavar = "URL", .def = "http://127.0.0.1:" PLACE_EXTENDER_PORT,
            .help = "where kube-scheduler reaches 'stoker place serve'"),
    OPT_ROW("resource", OPT_STRING, ConfigOptions, resource, .metavar = "NAME", .def = PLACE_RESOURCE,
            .help = "pods that ask for it are asked about"),
    OPT_ROW("for", OPT_ENUM, ConfigOptions, target, .names = targets, .def = "kube-scheduler",
            .help = "what is configured"),
    PLACE_CLUSTER_OPT(ConfigOptions),
    OPT_ROW("places", OPT_STRING, ConfigOptions, places, .metavar = "CSV",
            .help = "where nodes are, as for 'stoker slurm topology': node,nvlink,rack,block"),
};

/* A point of ours is worth 10 times the weight, and all default plugins of kube-scheduler give at most 1,500 together:
 * one point has to be more. Of 100 nodes and more it looks at a part only, unless it is told to look at all. */
static const char text[] =
    "apiVersion: kubescheduler.config.k8s.io/v1\n"
    "kind: KubeSchedulerConfiguration\n"
    "# clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf} # --config replaces --kubeconfig\n"
    "percentageOfNodesToScore: 100 # else the best node may be one that is not looked at\n"
    "extenders:\n"
    "  - urlPrefix: \"%s\"\n"
    "    filterVerb: filter\n"
    "    prioritizeVerb: prioritize\n"
    "    bindVerb: bind\n"
    "    weight: 200 # less than 150: kube-scheduler's own scores count too\n"
    "    httpTimeout: 10s\n"
    "    nodeCacheCapable: true\n%s"
    "    ignorable: true # without the extender, kube-scheduler decides alone\n"
    "    managedResources:\n"
    "      - name: \"%s\"\n"
    "        ignoredByScheduler: false\n";

/* By an address instead of a name, the certificate's name has to be given. */
static const char tls[] = "    enableHTTPS: true\n"
                          "    tlsConfig: # files on kube-scheduler's node\n"
                          "      caFile: /etc/kubernetes/stoker-place/ca.crt\n"
                          "      certFile: /etc/kubernetes/stoker-place/tls.crt\n"
                          "      keyFile: /etc/kubernetes/stoker-place/tls.key\n"
                          "      # serverName: stoker-place.stoker.svc # where the URL has an address\n";

static int print_scheduler(VerbCall *call, const ConfigOptions *o)
{
    const char *const values[] = {o->url, o->resource};

    if (o->files.len > 0 || o->places)
        return verb_failf(call, EXIT_USAGE, "--cluster and --places are for --for kueue and --for volcano");
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        for (const char *at = values[i]; *at; at++)
            if (*at <= ' ' || *at == '"' || *at == '\\' || (unsigned char)*at >= 0x7f)
                return verb_failf(call, EXIT_USAGE, "--%s: '%s' has a character that is in no URL or resource's name",
                                  config_opts[i].key, values[i]);
    printf(text, o->url, strncmp(o->url, "https://", 8) == 0 ? tls : "", o->resource);
    return EXIT_FINE;
}

/* --- where nodes are ---------------------------------------------------------------------------------------------- */

/* The CSV's places, and what labels say where it says nothing. */
static int read_places(VerbCall *call, const char *path, const Cluster *labelled, Cluster *ret)
{
    CLEANUP(str_done) Str csv = str_limited(PLACES_MAX);
    SlurmText named = {.name = path};

    *ret = *labelled;
    if (!path)
        return 0;
    TRY(verb_read_file(path, PLACES_MAX, &csv, &call->err));
    named.len = csv.len;
    named.text = arena_strndup(call->arena, csv.len ? csv.text : "", csv.len);
    TRY(slurm_places_read(&named, call->arena, ret, &call->err));
    topology_merge(labelled, call->arena, ret);
    return 0;
}

/* The label that names the domain of most nodes; where none has one, the best. */
static const char *find_label(const PlaceCluster *read, ClusterTier tier)
{
    const char *found = NULL, *label;
    size_t most = 0;
    ClusterTier of;

    for (size_t i = 0; (label = kube_tier_label(i, &of)); i++) {
        size_t count = 0;

        for (size_t k = 0; k < read->cluster.node_count; k++)
            count += read->labels[k].tier[tier] && strcmp(read->labels[k].tier[tier], label) == 0;
        if (of == tier && (!found || count > most)) {
            found = label;
            most = count;
        }
    }
    return found;
}

static void mark_labelled(const PlaceCluster *read, const Cluster *places, const char *label, ClusterTier tier,
                          TopologySet *set)
{
    for (size_t i = 0; i < places->node_count; i++) {
        const uint32_t was = read->cluster.nodes[i].domain[tier], is = places->nodes[i].domain[tier];

        set[i].tier[tier] = was && is && strcmp(read->labels[i].tier[tier], label) == 0 &&
                            strcmp(read->cluster.domains[tier][was - 1], places->domains[tier][is - 1]) == 0;
    }
}

static int print_topology(VerbCall *call, const ConfigOptions *o)
{
    CLEANUP(str_done) Str out = str_limited(TOPOLOGY_TEXT_MAX);
    PlaceCluster read = {.part_pods = 0};
    Cluster places;

    if (place_read_cluster(call, &o->files, o->kubeconfig, &read) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (!read.labels)
        return verb_failf(call, EXIT_USAGE, "needs nodes of Kubernetes; for Slurm there is 'stoker slurm topology'");
    if (read_places(call, o->places, &read.cluster, &places) < 0)
        return verb_fail(call, EXIT_USAGE);
    TopologySet *set = arena_calloc(call->arena, places.node_count + 1, sizeof *set);
    Topology topology = {.cluster = &places, .set = set, .model_labels = read.model_labels};
    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++) {
        topology.labels[tier] = find_label(&read, tier);
        mark_labelled(&read, &places, topology.labels[tier], tier, set);
    }
    if ((o->target == CONFIG_FOR_KUEUE ? topology_render_kueue(&topology, &out, &call->err)
                                       : topology_render_volcano(&topology, call->arena, &out, &call->err)) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (str_check(&out, "the topology", &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

static int config_run(VerbCall *call, const void *options)
{
    const ConfigOptions *o = options;

    return o->target == CONFIG_FOR_SCHEDULER ? print_scheduler(call, o) : print_topology(call, o);
}

const Verb verb_place_config = {
    .name = "config",
    .summary = "print configuration for kube-scheduler, Kueue or Volcano",
    .usage = "[--for kube-scheduler|kueue|volcano] [--url URL] [--resource NAME] [--cluster FILE | --kubeconfig FILE] "
             "[--places CSV]",
    .description =
        "Prints a KubeSchedulerConfiguration for kube-scheduler --config, or the stanza to add to one. Pods that ask "
        "for no GPU are not affected. Where 'stoker place serve' does not answer, kube-scheduler decides alone, as it "
        "did before.\n\n"
        "For Kueue it prints Topology objects and a ResourceFlavor for each GPU model, models that are scarce last, "
        "for Volcano HyperNodes: racks are of tier 1, blocks of tier 2. Where nodes are is known by their labels, as "
        "nvidia.com/gpu.clique, cloud.provider.com/topology-rack and network.topology.nvidia.com/leaf, and by a CSV, "
        "which counts before labels. Labels that nodes lack are comments with the command that sets them. Without "
        "--cluster the API server is asked. With pods in the cluster, how scarce a model is goes by how many GPUs jobs "
        "that name it ask for. It changes nothing.",
    .examples = "stoker place config > scheduler.yaml\n"
                "stoker place config --url http://stoker-place.kube-system.svc:" PLACE_EXTENDER_PORT "\n"
                "kubectl get nodes,pods -A -o json | stoker place config --for kueue --cluster - --places places.csv",
    .exit_codes = "0  printed\n"
                  "2  the command line is wrong, or a file cannot be read",
    VERB_OPTS(config_opts, ConfigOptions),
    .no_args = "",
    .run = config_run,
};
