/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster_tier.h"

#include <string.h>

#include "base/cleanup.h"
#include "source/kubernetes/cluster_rules.h"

static const struct {
    const char *label;
    ClusterTier tier;
} tier_labels[] = {
    {"nvidia.com/gpu.clique", CLUSTER_NVLINK},
    {"network.topology.nvidia.com/accelerator", CLUSTER_NVLINK},
    {"cloud.provider.com/topology-rack", CLUSTER_RACK},
    {"topology.kubernetes.io/rack", CLUSTER_RACK},
    {"network.topology.nvidia.com/leaf", CLUSTER_RACK},
    {"cloud.provider.com/topology-block", CLUSTER_BLOCK},
    {"network.topology.nvidia.com/spine", CLUSTER_BLOCK},
};

static ClusterTier find_tier(const char *label)
{
    for (size_t i = 0; i < ARRAY_LEN(tier_labels); i++)
        if (strcmp(tier_labels[i].label, label) == 0)
            return tier_labels[i].tier;
    return CLUSTER_TIER_END;
}

const char *kube_tier_label(size_t i, ClusterTier *ret)
{
    if (i >= ARRAY_LEN(tier_labels))
        return NULL;
    *ret = tier_labels[i].tier;
    return tier_labels[i].label;
}

void kube_tier_set(ClusterJob *job, const char *label, bool required)
{
    const ClusterTier tier = label ? find_tier(label) : CLUSTER_TIER_END;

    if (tier == CLUSTER_TIER_END || job->tier != CLUSTER_TIER_END)
        return;
    job->tier = (uint8_t)tier;
    job->tier_required = required;
}

/* Whether affinity is to pods of the same job: by the pods' labels, or by the job's name, which its controller makes a
 * label of them. */
static int is_to_itself(const KubeField *term, const KubeField *meta, const ClusterJob *job, Err *err)
{
    KubeField selector, labels, wanted;
    const char *key;
    json_t *value;

    TRY(kube_field_get(term, "labelSelector", JSON_OBJECT, &selector, err));
    TRY(kube_field_get(meta, "labels", JSON_OBJECT, &labels, err));
    TRY(kube_field_get(&selector, "matchLabels", JSON_OBJECT, &wanted, err));
    json_object_foreach((json_t *)(uintptr_t)wanted.json, key, value)
    {
        const char *name = json_string_value(value);

        if (name && strcmp(strchr(job->name, '/') + 1, name) == 0)
            return 1;
    }
    return selector.json ? kube_selector_matches(&selector, labels.json, err) : 0;
}

/* The label whose values part the domains, by the first term of a list of affinity; NULL: none. */
static int read_affinity_label(const KubeField *list, const char *term_path, const KubeField *meta,
                               const ClusterJob *job, const char **ret, Err *err)
{
    KubeField item, term;

    *ret = NULL;
    TRY(kube_field_item(list, 0, JSON_OBJECT, &item, err));
    term = item;
    if (term_path)
        TRY(kube_field_get(&item, term_path, JSON_OBJECT, &term, err));
    const int itself = is_to_itself(&term, meta, job, err);
    TRY(itself);
    return itself ? kube_field_text(&term, "topologyKey", ret, err) : 0;
}

/* The domain that a template keeps its pods in: Kueue's annotations, or affinity between its pods. */
int kube_tier_read(const KubeField *meta, const KubeField *spec, ClusterJob *job, Err *err)
{
    const char *required = NULL, *preferred = NULL, *near, *rather;
    KubeField annotations, affinity, list;

    TRY(kube_field_get(meta, "annotations", JSON_OBJECT, &annotations, err));
    TRY(kube_field_text(&annotations, "kueue.x-k8s.io/podset-required-topology", &required, err));
    TRY(kube_field_text(&annotations, "kueue.x-k8s.io/podset-preferred-topology", &preferred, err));
    TRY(kube_field_get(spec, "affinity podAffinity", JSON_OBJECT, &affinity, err));
    TRY(kube_field_get(&affinity, "requiredDuringSchedulingIgnoredDuringExecution", JSON_ARRAY, &list, err));
    TRY(read_affinity_label(&list, NULL, meta, job, &near, err));
    TRY(kube_field_get(&affinity, "preferredDuringSchedulingIgnoredDuringExecution", JSON_ARRAY, &list, err));
    TRY(read_affinity_label(&list, "podAffinityTerm", meta, job, &rather, err));
    kube_tier_set(job, required, true);
    kube_tier_set(job, near, true);
    kube_tier_set(job, preferred, false);
    kube_tier_set(job, rather, false);
    return 0;
}
