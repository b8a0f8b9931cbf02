/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster as lines of text, for what is read to be compared whole. */
#pragma once

#include <inttypes.h>

#include "base/str.h"
#include "model/cluster.h"
#include "source/kubernetes/cluster.h"

/* " 1g.10gb=7": instances of a node by profile. */
static inline void add_mig_text(const ClusterMig *mig, Str *to)
{
    for (size_t p = 0; p < mig->board->profile_count; p++) {
        size_t count = 0;

        for (size_t i = 0; i < mig->instance_count; i++)
            count += mig->instances[i].profile == p;
        str_addf(to, " %s=%zu", mig->board->profiles[p].name, count);
    }
}

static inline void add_nodes_text(const Cluster *c, Str *to)
{
    for (size_t i = 0; i < c->node_count; i++) {
        const ClusterNode *n = &c->nodes[i];

        str_addf(to, "node %s cpu=%u memory=%u gpus=%d", n->name, n->cpu_milli, n->memory_mib, n->gpu_count);
        if (n->mig)
            add_mig_text(n->mig, to);
        if (n->gpu_count > 0)
            str_addf(to, " model=%s", c->models[n->model]);
        if (n->gpus_broken)
            str_addf(to, " broken=%x", n->gpus_broken);
        for (ClusterTier t = 0; t < CLUSTER_TIER_END; t++)
            if (n->domain[t] > 0)
                str_addf(to, " %s=%s", cluster_tiers[t].key, c->domains[t][n->domain[t] - 1]);
        str_addf(to, "%s%s\n", n->closed ? " closed" : "", n->spot ? " spot" : "");
    }
}

static inline void add_limit_text(const char *name, uint64_t limit, Str *to)
{
    if (limit != UINT64_MAX)
        str_addf(to, " %s=%" PRIu64, name, limit);
}

static inline void add_queues_text(const Cluster *c, Str *to)
{
    for (size_t i = 0; i < c->queue_count; i++) {
        const ClusterQueue *q = &c->queues[i];

        str_addf(to, "queue %s parent=%s nominal=%" PRIu64 " weight=%g", q->name, q->parent ? q->parent : "-",
                 q->nominal, q->weight);
        add_limit_text("borrowing", q->borrowing_limit, to);
        add_limit_text("lending", q->lending_limit, to);
        str_addc(to, '\n');
    }
}

static inline void add_role_text(const Cluster *c, const ClusterRole *role, Str *to)
{
    str_addf(to, "  role '%s' %u..%u cpu=%u memory=%u gpus=%d", role->name, role->min, role->max,
             role->request.cpu_milli, role->request.memory_mib, role->request.gpu_count);
    if (role->request.mig)
        str_addf(to, " mig=%s", c->profiles[role->request.mig - 1]);
    str_addc(to, '\n');
    for (uint8_t i = 0; i < role->request.rule_count; i++) {
        const ClusterRule *rule = &role->request.rules[i];

        str_addf(to, "    %s:", rule->text);
        for (size_t n = 0; n < c->node_count; n++)
            if (rule->nodes[n / 64] >> n % 64 & 1)
                str_addf(to, " %s", c->nodes[n].name);
        str_addc(to, '\n');
    }
}

static inline void add_job_text(const Cluster *c, const ClusterJob *j, Str *to)
{
    static const char *const names[] = {"submitted", "started", "duration", "checkpoint", "restart", "deadline"};
    const uint64_t times[] = {j->submitted_s,  j->started_s, j->duration_s,
                              j->checkpoint_s, j->restart_s, j->deadline_s};

    str_addf(to, "%s %s priority=%d%s", j->kind, j->name, j->priority, j->preemptible ? " preemptible" : "");
    if (j->queue)
        str_addf(to, " queue=%s", j->queue);
    if (j->tier != CLUSTER_TIER_END)
        str_addf(to, " within=%s%s", cluster_tiers[j->tier].key, j->tier_required ? "!" : "");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] > 0)
            str_addf(to, " %s=%" PRIu64, names[i], times[i]);
    str_addf(to, "%s%s\n", j->said ? " said: " : "", j->said ? j->said : "");
    for (uint8_t i = 0; i < j->role_count; i++)
        add_role_text(c, &j->roles[i], to);
    for (size_t i = 0; i < j->place_count; i++)
        str_addf(to, "  runs on %s gpus=%x role=%d\n", c->nodes[j->places[i].node].name, j->places[i].gpus,
                 j->places[i].role);
}

static inline void cluster_text(const Cluster *c, const KubeLeftOut *left_out, Str *to)
{
    add_nodes_text(c, to);
    add_queues_text(c, to);
    for (size_t i = 0; i < c->job_count; i++)
        add_job_text(c, &c->jobs[i], to);
    str_addf(to, "left out: %zu shared nodes, %zu pods, %zu gangs, %zu elsewhere, %zu roles\n", left_out->shared_nodes,
             left_out->pods, left_out->gangs, left_out->elsewhere, left_out->roles);
}
