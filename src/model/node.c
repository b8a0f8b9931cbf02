/* SPDX-License-Identifier: Apache-2.0 */
/* The words for the states of GPUs, samplers and links. Const data, any thread. */

#include "model/node.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *key, *text;
} gpu_states[GPU_STATE_END] = {
#define GPU_STATE(id, key, text) [GPU_##id] = {key, text},
    GPU_STATE_TABLE(GPU_STATE)
#undef GPU_STATE
};

const char *gpu_state_key(GpuState state)
{
    assert((size_t)state < GPU_STATE_END);
    return gpu_states[state].key;
}

const char *gpu_state_text(GpuState state)
{
    assert((size_t)state < GPU_STATE_END);
    return gpu_states[state].text;
}

bool gpu_state_find(const char *key, GpuState *ret_state)
{
    for (GpuState s = 0; s < GPU_STATE_END; s++)
        if (strcmp(gpu_states[s].key, key) == 0) {
            *ret_state = s;
            return true;
        }
    return false;
}

const char *sampler_state_key(SamplerState state)
{
    static const char *const keys[SAMPLER_STATE_END] = {
#define SAMPLER_STATE(id, key) [SAMPLER_##id] = key,
        SAMPLER_STATE_TABLE(SAMPLER_STATE)
#undef SAMPLER_STATE
    };

    assert((size_t)state < SAMPLER_STATE_END);
    return keys[state];
}

static const struct {
    const char *key, *label;
} peer_statuses[PEER_STATUS_END] = {
#define PEER_STATUS(id, key, label) [PEER_##id] = {key, label},
    PEER_STATUS_TABLE(PEER_STATUS)
#undef PEER_STATUS
};

const char *peer_status_key(PeerStatus status)
{
    assert((size_t)status < PEER_STATUS_END);
    return peer_statuses[status].key;
}

const char *peer_status_label(PeerStatus status)
{
    assert((size_t)status < PEER_STATUS_END);
    return peer_statuses[status].label;
}

uint64_t node_real_ns(const Node *node, uint64_t time_ns)
{
    const uint64_t age = node->time_ns > time_ns ? node->time_ns - time_ns : 0;

    return node->real_ns > age ? node->real_ns - age : 0;
}

const char *const node_link_error_keys[NODE_LINK_ERROR_END] = {
#define NODE_LINK_ERROR(id, key) key,
    NODE_LINK_ERROR_TABLE(NODE_LINK_ERROR)
#undef NODE_LINK_ERROR
};

size_t node_pids(const Node *node, uint32_t *out, size_t cap)
{
    size_t count = 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        for (size_t k = 0; k < node->gpus[i].process_count && count < cap; k++)
            out[count++] = node->gpus[i].processes[k].pid;
    return count;
}

const NodeGpu *node_find_gpu(const Node *node, PciAddress pci)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci && pci_compare(node->gpus[i].reading.device.pci, pci) == 0)
            return &node->gpus[i];
    return NULL;
}
