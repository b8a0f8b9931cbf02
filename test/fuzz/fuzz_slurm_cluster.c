/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what Slurm's commands print. The first byte says which text the rest is; the others are small. What is
 * read holds what model/cluster.h says, and a list of the names in a node list expands to them. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "source/slurm/history.h"
#include "source/slurm/hostlist.h"
#include "source/slurm/places.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAMES_MAX = 256 };

static const char nodes_text[] = "NodeName=g1 CPUTot=8 RealMemory=64 Gres=gpu:h100:8 State=IDLE Partitions=p "
                                 "ActiveFeatures=a,b\nNodeName=g2 CPUTot=8 RealMemory=64 Gres=gpu:2 State=DOWN*\n"
                                 "NodeName=login1 CPUTot=1 Partitions=q\n";

static void check_job(const Cluster *c, const ClusterJob *job)
{
    assert(job->name && job->role_count <= CLUSTER_ROLES_MAX && job->tier <= CLUSTER_TIER_END);
    for (size_t i = 0; i < job->role_count; i++) {
        const ClusterRequest *r = &job->roles[i].request;

        assert(r->gpu_count <= CLUSTER_GPUS_MAX && r->rule_count <= CLUSTER_RULES_MAX);
        assert(job->roles[i].min <= job->roles[i].max && (r->gpu_milli == 0) == (r->gpu_count == 0));
        for (size_t k = 0; k < r->rule_count; k++)
            assert(r->rules[k].text && r->rules[k].nodes[0] >> c->node_count == 0);
    }
    for (size_t i = 0; i < job->place_count; i++) {
        assert(job->places[i].node < c->node_count && job->places[i].role < job->role_count);
        assert(job->places[i].gpus >> c->nodes[job->places[i].node].gpu_count == 0);
    }
}

static void check_cluster(const Cluster *c)
{
    for (size_t i = 0; i < c->node_count; i++) {
        assert(c->nodes[i].name[0] && c->nodes[i].gpu_count <= CLUSTER_GPUS_MAX);
        assert(!c->nodes[i].gpu_count || c->nodes[i].model < c->model_count);
        for (size_t tier = 0; tier < CLUSTER_TIER_END; tier++)
            assert(c->nodes[i].domain[tier] <= c->domain_counts[tier]);
    }
    for (size_t i = 0; c->node_count < 64 && i < c->job_count; i++)
        check_job(c, &c->jobs[i]);
}

typedef struct Names {
    char *at[NAMES_MAX];
    size_t count, checked;
    bool differ;
} Names;

static void keep_name(void *at, const char *name, size_t len)
{
    Names *names = at;

    if (names->count < NAMES_MAX)
        names->at[names->count++] = strndup(name, len);
}

static void check_name(void *at, const char *name, size_t len)
{
    Names *names = at;

    assert(strlen(names->at[names->checked]) == len && memcmp(names->at[names->checked], name, len) == 0);
    names->checked++;
}

static void check_list(const char *text, size_t len)
{
    CLEANUP(str_done) Str list = str_limited(1 << 20);
    Names names = {0};

    if (!memchr(text, '\0', len) && hostlist_expand(text, len, keep_name, &names, NULL) == 0 &&
        names.count < NAMES_MAX) {
        hostlist_add((const char *const *)names.at, names.count, &list);
        const int rc = hostlist_expand(list.len ? list.text : "", list.len, check_name, &names, NULL);

        assert(list.overflow || (rc == 0 && names.checked == names.count));
    }
    for (size_t i = 0; i < names.count; i++)
        free(names.at[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP_FREE char *text = malloc(size ? size - 1 : 1); /* exactly: without a NUL behind */
    SlurmCluster cluster = {0};
    SlurmHistory history;
    SlurmText texts[] = {{"nodes", nodes_text, sizeof nodes_text - 1}, {"jobs", NULL, 0}, {"topology", NULL, 0}};

    if (size == 0)
        return 0;
    memcpy(text, data + 1, size - 1);
    const SlurmText fuzzed = {"text", text, size - 1};
    const size_t which = data[0] % 6;
    if (which < 3)
        texts[which] = fuzzed;
    if (which == 5)
        check_list(text, size - 1);
    if (which != 5 && slurm_cluster_read(&texts[0], &texts[1], &texts[2], &arena, &cluster, NULL) == 0)
        check_cluster(&cluster.cluster);
    if (which == 3 && slurm_places_read(&fuzzed, &arena, &cluster.cluster, NULL) == 0)
        check_cluster(&cluster.cluster);
    if (which == 4 && slurm_history_read(&fuzzed, &cluster.cluster, &arena, &history, NULL) == 0)
        for (size_t i = 0; i < history.count; i++)
            check_job(&cluster.cluster, &history.jobs[i]);
    return 0;
}
