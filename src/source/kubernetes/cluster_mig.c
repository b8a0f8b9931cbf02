/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster_mig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define MIG_PREFIX "nvidia.com/mig-"

void kube_mig_init(KubeMig *mig, Arena *arena)
{
    *mig = (KubeMig){.arena = arena};
    map_init(&mig->layouts);
}

void kube_mig_done(KubeMig *mig)
{
    vec_done(&mig->names);
    map_done(&mig->layouts);
}

/* 0: there are too many. */
static uint8_t number_profile(KubeMig *mig, const char *name)
{
    for (size_t i = 0; i < mig->names.len; i++)
        if (strcmp(mig->names.at[i], name) == 0)
            return (uint8_t)(i + 1);
    if (mig->names.len == CLUSTER_MIG_NAMES_MAX || strlen(name) >= MIG_NAME_SIZE)
        return 0;
    vec_push(&mig->names, arena_strdup(mig->arena, name));
    return (uint8_t)mig->names.len;
}

/* NULL: there is no room. */
static double *find_count(KubeInstances *instances, uint8_t profile)
{
    for (size_t i = 0; i < instances->len; i++)
        if (instances->at[i].profile == profile)
            return &instances->at[i].count;
    if (instances->len == ARRAY_LEN(instances->at))
        return NULL;
    instances->at[instances->len].profile = profile;
    instances->at[instances->len].count = 0;
    return &instances->at[instances->len++].count;
}

int kube_mig_read(KubeMig *mig, const KubeField *resources, KubeInstances *ret, bool *ret_complete, Err *err)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)resources->json, name, value)
    {
        if (strncmp(name, MIG_PREFIX, strlen(MIG_PREFIX)) != 0)
            continue;
        const uint8_t profile = number_profile(mig, name + strlen(MIG_PREFIX));
        double *count = profile ? find_count(ret, profile) : NULL, ignored = 0;

        *ret_complete &= count != NULL;
        TRY(kube_field_quantity(resources, name, count ? count : &ignored, err));
    }
    return 0;
}

void kube_instances_add(KubeInstances *to, const KubeInstances *more)
{
    for (size_t i = 0; i < more->len; i++) {
        double *count = find_count(to, more->at[i].profile);

        if (count)
            *count += more->at[i].count;
    }
}

void kube_instances_max(KubeInstances *to, const KubeInstances *other)
{
    for (size_t i = 0; i < other->len; i++) {
        double *count = find_count(to, other->at[i].profile);

        if (count)
            *count = fmax(*count, other->at[i].count);
    }
}

double kube_instances_sum(const KubeInstances *instances)
{
    double sum = 0;

    for (size_t i = 0; i < instances->len; i++)
        sum += instances->at[i].count;
    return sum;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* One slice for each instance. */
static void add_profile(KubeMig *mig, uint8_t profile, double count, unsigned first_gpu, MigBoard *board,
                        ClusterInstance *instances, ClusterMig *made)
{
    const size_t room = (size_t)(CLUSTER_GPUS_MAX - first_gpu) * CLUSTER_MIG_SLICES_MAX;
    MigProfile *p = &board->profiles[board->profile_count];

    snprintf(p->name, sizeof p->name, "%s", mig->names.at[profile - 1]);
    p->size = 1;
    p->starts = (UINT32_C(1) << CLUSTER_MIG_SLICES_MAX) - 1;
    for (double i = 0; i < floor(count) && made->instance_count < room; i++) {
        const size_t at = made->instance_count++;
        const unsigned gpu = first_gpu + (unsigned)at / CLUSTER_MIG_SLICES_MAX;

        instances[at] = (ClusterInstance){
            .gpu = (uint8_t)gpu, .profile = (uint8_t)board->profile_count, .start = at % CLUSTER_MIG_SLICES_MAX};
        made->gpus = (uint16_t)(made->gpus | 1u << gpu);
    }
    made->profiles[profile] = (uint8_t)++board->profile_count;
}

static const ClusterMig *make_layout(KubeMig *mig, const KubeInstances *instances, unsigned first_gpu)
{
    ClusterMig *made = arena_calloc(mig->arena, 1, sizeof *made);
    MigBoard *board = arena_calloc(mig->arena, 1, sizeof *board);
    ClusterInstance all[CLUSTER_GPUS_MAX * CLUSTER_MIG_SLICES_MAX];

    board->grid = CLUSTER_MIG_SLICES_MAX;
    made->board = board;
    made->fixed = true;
    for (size_t i = 0; i < instances->len; i++)
        if (instances->at[i].count >= 1)
            add_profile(mig, instances->at[i].profile, instances->at[i].count, first_gpu, board, all, made);
    made->instances = arena_memdup(mig->arena, all, made->instance_count * sizeof *all);
    return made;
}

void kube_mig_give(KubeMig *mig, const KubeInstances *instances, ClusterNode *node)
{
    CLEANUP(str_done) Str key = str_limited(4096);

    if (kube_instances_sum(instances) < 1 || node->gpu_count == CLUSTER_GPUS_MAX)
        return;
    str_addf(&key, "%d", node->gpu_count);
    for (size_t i = 0; i < instances->len; i++)
        str_addf(&key, " %d=%.0f", instances->at[i].profile, floor(instances->at[i].count));
    node->mig = map_get(&mig->layouts, key.text);
    if (!node->mig) {
        node->mig = make_layout(mig, instances, node->gpu_count);
        map_put(&mig->layouts, key.text, (void *)(uintptr_t)node->mig);
    }
    node->gpu_count = (uint8_t)(node->gpu_count + __builtin_popcount(node->mig->gpus));
}
