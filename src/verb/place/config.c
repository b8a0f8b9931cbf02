/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place config`: what kube-scheduler needs to ask `stoker place serve`. */
#include <stdio.h>

#include "base/cleanup.h"
#include "verb/place/place.h"

typedef struct ConfigOptions {
    const char *url, *resource;
} ConfigOptions;

static const OptSpec config_opts[] = {
    OPT_ROW("url", OPT_STRING, ConfigOptions, url, .metavar = "URL", .def = "http://127.0.0.1:" PLACE_EXTENDER_PORT,
            .help = "where kube-scheduler reaches 'stoker place serve'"),
    OPT_ROW("resource", OPT_STRING, ConfigOptions, resource, .metavar = "NAME", .def = PLACE_RESOURCE,
            .help = "pods that ask for it are asked about"),
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
    "    nodeCacheCapable: true\n"
    "    ignorable: true # without the extender, kube-scheduler decides alone\n"
    "    managedResources:\n"
    "      - name: \"%s\"\n"
    "        ignoredByScheduler: false\n";

static int config_run(VerbCall *call, const void *options)
{
    const ConfigOptions *o = options;
    const char *const values[] = {o->url, o->resource};

    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        for (const char *at = values[i]; *at; at++)
            if (*at <= ' ' || *at == '"' || *at == '\\' || (unsigned char)*at >= 0x7f)
                return verb_failf(call, EXIT_USAGE, "--%s: '%s' has a character that is in no URL or resource's name",
                                  config_opts[i].key, values[i]);
    printf(text, o->url, o->resource);
    return EXIT_FINE;
}

const Verb verb_place_config = {
    .name = "config",
    .summary = "print the configuration of kube-scheduler for 'place serve'",
    .usage = "[--url URL] [--resource NAME]",
    .description = "Prints a KubeSchedulerConfiguration for kube-scheduler --config, or the stanza to add to one. Pods "
                   "that ask for no GPU are not affected. Where 'stoker place serve' does not answer, kube-scheduler "
                   "decides alone, as it did before.",
    .examples = "stoker place config > scheduler.yaml\n"
                "stoker place config --url http://stoker-place.kube-system.svc:" PLACE_EXTENDER_PORT,
    VERB_OPTS(config_opts, ConfigOptions),
    .no_args = "",
    .run = config_run,
};
