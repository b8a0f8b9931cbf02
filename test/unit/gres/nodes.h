/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes as a driver reports them: two sockets of 16 cores, the first half of the GPUs near the first. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/gres.h"

enum { NODE_CORES = 32 };

static void add_gpus(GresNode *node, const char *name, size_t count)
{
    node->core_count = NODE_CORES;
    for (size_t i = 0; i < count; i++) {
        GresGpu *gpu = &node->gpus[node->count];
        *gpu = (GresGpu){.index = (unsigned)node->count, .minor = (uint32_t)node->count, .cores_known = true};
        snprintf(gpu->name, sizeof gpu->name, "%s", name);
        for (unsigned core = 0; core < NODE_CORES / 2; core++)
            core_set_add(&gpu->cores, core + (i < (count + 1) / 2 ? 0 : NODE_CORES / 2));
        node->count++;
    }
}

/* The minors are 100 x GPU + 10 x GPU instance, and one more for the compute instance. */
static void split_gpu(GresNode *node, size_t index, const char *profiles)
{
    GresGpu *gpu = &node->gpus[index];
    gpu->mig = true;
    for (const char *at = profiles; *at; at += strcspn(at, " "), at += *at == ' ') {
        const uint32_t number = (uint32_t)gpu->instance_count + 1;
        GresInstance *one = &gpu->instances[gpu->instance_count++];
        *one = (GresInstance){.gpu_instance = number, .gi_minor = (uint32_t)(100 * (index + 1) + 10 * number)};
        one->ci_minor = one->gi_minor + 1;
        const size_t len = strcspn(at, " ");
        assert(len < sizeof one->profile);
        memcpy(one->profile, at, len);
    }
}
