/* SPDX-License-Identifier: Apache-2.0 */
/* What a node's state is worth: how much of its free GPUs typical requests cannot use, and what it draws. */
#include <math.h>

#include "engine/place/instance.h"
#include "engine/place/policy.h"

/* Classes of what of a node's free GPUs a typical request can use (FGD, ATC'23), in the order of their sums. */
enum { LACKS_BOTH, LACKS_GPU, LACKS_CPU, NO_GPU_ASKED, NO_GPU_ASKED_LACKS_CPU, OTHER_MODEL, CLASSES };

/* Adds what one typical request cannot use. */
static inline void add_unusable(const Typical *t, const ClusterNode *node, const PlacementState *s, Usable usable,
                                double sums[CLASSES])
{
    const ClusterRequest *r = &t->request;
    const bool has_cpu = s->left.cpu_milli >= r->cpu_milli;

    if (r->gpu_count == 0)
        sums[has_cpu ? NO_GPU_ASKED : NO_GPU_ASKED_LACKS_CPU] += t->share * s->gpu_sum;
    else if (r->models && !(r->models >> node->model & 1))
        sums[OTHER_MODEL] += t->share * s->gpu_sum;
    else if (usable.fit < r->gpu_count)
        sums[has_cpu ? LACKS_GPU : LACKS_BOTH] += t->share * s->gpu_sum;
    else if (has_cpu)
        sums[LACKS_GPU] += t->share * usable.rest;
    else
        sums[LACKS_CPU] += t->share * s->gpu_sum;
}

static void count_gpu(Usable *usable, const ClusterRequest *r, uint16_t left, int sign)
{
    const uint32_t fits = left >= r->gpu_milli; /* 0 or 1: a branch here would often be mispredicted */

    usable->fit += (uint32_t)sign * fits;
    usable->rest += (uint32_t)sign * ((fits - 1) & left);
}

/* The same of some GPUs of a node with GPUs in MIG mode. By value, as the address of a Usable would keep it out of
 * registers on all nodes. */
static Usable count_split(Usable usable, const ClusterNode *node, const ClusterRequest *r, const PlacementLeft *left,
                          unsigned gpus, int sign)
{
    for (; gpus; gpus &= gpus - 1) {
        const unsigned gpu = (unsigned)__builtin_ctz(gpus);

        if (instance_fits(node, r, left, gpu))
            usable.fit += (uint32_t)sign;
        else
            usable.rest += (uint32_t)sign * instance_left(node, left, gpu);
    }
    return usable;
}

static double add_classes(const double sums[CLASSES])
{
    double sum = 0;

    for (size_t i = 0; i < CLASSES; i++)
        sum += sums[i];
    return sum;
}

double fragment_measure_after(const PlacementCase *c)
{
    const bool split = c->node->mig;
    double sums[CLASSES] = {0};

    for (size_t i = 0; i < c->typical_count; i++) {
        const Typical *t = &c->typical[i];
        Usable usable = c->usable[i];

        if (split) {
            usable = count_split(usable, c->node, &t->request, &c->before->left, c->gpus, -1);
            usable = count_split(usable, c->node, &t->request, &c->after.left, c->gpus, 1);
        }
        for (unsigned gpus = split ? 0 : c->gpus; gpus; gpus &= gpus - 1) {
            const int k = __builtin_ctz(gpus);

            count_gpu(&usable, &t->request, c->before->left.gpu_milli[k], -1);
            count_gpu(&usable, &t->request, c->after.left.gpu_milli[k], 1);
        }
        add_unusable(t, c->node, &c->after, usable, sums);
    }
    return add_classes(sums);
}

double fragment_measure(const ClusterNode *node, const PlacementState *s, const Typical *typical, size_t count,
                        Usable *ret_usable)
{
    double sums[CLASSES] = {0};

    for (size_t i = 0; i < count; i++) {
        Usable usable = {0};

        if (node->mig)
            usable = count_split(usable, node, &typical[i].request, &s->left, (1u << node->gpu_count) - 1, 1);
        for (unsigned k = 0; k < node->gpu_count && !node->mig; k++)
            count_gpu(&usable, &typical[i].request, s->left.gpu_milli[k], 1);
        add_unusable(&typical[i], node, s, usable, sums);
        ret_usable[i] = usable;
    }
    return add_classes(sums);
}

static bool is_idle(const ClusterNode *node, const PlacementState *s, unsigned gpu)
{
    if (instance_is_on(node, gpu))
        return s->left.mig_used[gpu] == instance_first_used(node, gpu);
    return s->left.gpu_milli[gpu] == CLUSTER_GPU || node->gpus_broken >> gpu & 1;
}

/* A GPU draws its full power as soon as a part of it is used; a socket has 16 cores with two threads each and draws 120
 * W or, idle, 15 W (Xeon E5-2682 v4, as in PWR, CCGrid 2025). */
double fragment_power_w(const ClusterNode *node, const PlacementState *s)
{
    const double cores = ceil(node->cpu_milli / 2000.), idle_cores = floor(s->left.cpu_milli / 2000.);
    const double sockets = ceil(cores / 16), active = ceil((cores - idle_cores) / 16);
    double sum = active * 120 + (sockets - active) * 15;

    for (unsigned i = 0; i < node->gpu_count; i++)
        sum += is_idle(node, s, i) ? node->gpu_idle_w : node->gpu_full_w;
    return sum;
}
