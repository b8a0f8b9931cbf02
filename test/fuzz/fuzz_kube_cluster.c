/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the objects of a cluster. What is read of it refers only to what is there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/kubernetes/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_role(const Cluster *c, const ClusterRole *role, uint64_t *sum)
{
    const size_t words = (c->node_count + 63) / 64;

    require(role->request.mig <= c->profile_count && (!role->request.mig || role->request.gpu_count == 1));
    require(role->min <= role->max && role->name && role->request.gpu_count <= CLUSTER_GPUS_MAX);
    require(role->request.rule_count <= CLUSTER_RULES_MAX);
    for (uint8_t i = 0; i < role->request.rule_count; i++) {
        *sum += strlen(role->request.rules[i].text);
        for (size_t w = 0; w < words; w++)
            *sum += role->request.rules[i].nodes[w];
    }
}

static void check_cluster(const Cluster *c)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < c->node_count; i++) {
        const ClusterNode *n = &c->nodes[i];

        require(n->gpu_count <= CLUSTER_GPUS_MAX && (n->gpu_count == 0 || n->model < c->model_count));
        for (size_t k = 0; n->mig && k < n->mig->instance_count; k++)
            require(n->mig->gpus >> n->mig->instances[k].gpu & 1 && n->mig->instances[k].gpu < n->gpu_count &&
                    n->mig->instances[k].profile < n->mig->board->profile_count);
        for (ClusterTier t = 0; t < CLUSTER_TIER_END; t++)
            require(n->domain[t] <= c->domain_counts[t]);
    }
    for (size_t i = 0; i < c->job_count; i++) {
        const ClusterJob *j = &c->jobs[i];

        require(j->role_count > 0 && j->role_count <= CLUSTER_ROLES_MAX && j->tier <= CLUSTER_TIER_END);
        for (uint8_t k = 0; k < j->role_count; k++)
            check_role(c, &j->roles[k], &sum);
        for (size_t k = 0; k < j->place_count; k++)
            require(j->places[k].node < c->node_count && j->places[k].role < j->role_count);
    }
    require(sum != 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + !size);
    Arena arena = {0};
    KubeLeftOut left_out;
    Cluster cluster;
    Err err = {0};

    require(text != NULL);
    memcpy(text, data, size);
    if (kube_cluster_read(&(KubeText){"input", text, size}, 1, &arena, &cluster, &left_out, &err) == 0)
        check_cluster(&cluster);
    else
        require(err.text[0] != '\0');
    arena_done(&arena);
    free(text);
    return 0;
}
