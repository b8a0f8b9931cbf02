/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which nodes a pod may use by its node selector, its required node affinity and the taints that it does not tolerate,
 * as rules of the cluster (model/cluster.h). Equal rules are evaluated once and equal lists of rules are one list.
 * Pure; one thread.
 */

#include "base/arena.h"
#include "base/map.h"
#include "model/cluster.h"
#include "source/kubernetes/field.h"

enum { KUBE_RULES_MAX = 16384 }; /* different ones of a cluster */

/* What rules look at of a node. */
typedef struct KubeRuleNode {
    const char *name;
    const json_t *labels; /* an object whose values are texts; NULL: none */
    KubeField taints;     /* a list */
} KubeRuleNode;

typedef struct KubeRules {
    const KubeRuleNode *nodes; /* borrowed */
    size_t node_count;
    Arena *arena; /* of the rules */
    Map rules;    /* what a rule was made from -> ClusterRule; `no_rule`: it forbids nothing */
    Map lists;    /* addresses of its rules -> the list */
} KubeRules;

void kube_rules_init(KubeRules *rules, const KubeRuleNode *nodes, size_t node_count, Arena *arena);
void kube_rules_done(KubeRules *rules);

/* The rules of a pod's spec. *ret NULL and *ret_count 0: it may use all nodes. */
int kube_rules_read(KubeRules *rules, const KubeField *spec, const ClusterRule **ret, uint8_t *ret_count, Err *err);

/* Whether a label selector (matchLabels, matchExpressions) selects an object with these labels: 1, 0. */
int kube_selector_matches(const KubeField *selector, const json_t *labels, Err *err);
