/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where GPUs are in the machine: CPUs and memory near them, what joins two of them, and whether they can talk directly.
 */
#include "sim/nvml/getter.h"

#include <stdlib.h>
#include <string.h>

enum { LONG_BITS = 8 * sizeof(unsigned long) };

/* ---- affinity ---- */

typedef struct CpuRange {
    unsigned long first, last;
} CpuRange;

/* The next range of "0-15,32-47"; NULL at the end or where the text is none. */
static const char *next_range(const char *p, CpuRange *ret)
{
    char *end;

    ret->first = ret->last = strtoul(p, &end, 10);
    if (end == p)
        return NULL;
    if (*end == '-') {
        p = end + 1;
        ret->last = strtoul(p, &end, 10);
        if (end == p)
            return NULL;
    }
    return *end == ',' ? end + 1 : end;
}

static void set_bits(unsigned long *words, unsigned int count, CpuRange range)
{
    const unsigned long end = (unsigned long)count * LONG_BITS; /* what does not fit is left out */

    for (unsigned long i = range.first; i <= range.last && i < end; i++)
        words[i / LONG_BITS] |= 1ul << i % LONG_BITS;
}

static void cpus_of(const SimGpuId *id, unsigned long *words, unsigned int count)
{
    CpuRange range;

    memset(words, 0, count * sizeof *words);
    for (const char *p = id->cpulist; p && (p = next_range(p, &range)) != NULL;)
        set_bits(words, count, range);
}

static int has_cpu(const SimGpuId *id, unsigned int cpu)
{
    CpuRange range;

    for (const char *p = id->cpulist; p && (p = next_range(p, &range)) != NULL;)
        if (cpu >= range.first && cpu <= range.last)
            return 1;
    return 0;
}

static nvmlReturn_t cpu_affinity(NvmlFn fn, nvmlDevice_t device, unsigned int words, unsigned long *cpu_set,
                                 nvmlAffinityScope_t scope)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!cpu_set || words == 0 || scope > NVML_AFFINITY_SCOPE_SOCKET)
        return NVML_ERROR_INVALID_ARGUMENT;
    cpus_of(c.id, cpu_set, words); /* a node of these machines is a socket */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *cpu_set)
{
    return cpu_affinity(NVML_FN_nvmlDeviceGetCpuAffinity, device, words, cpu_set, NVML_AFFINITY_SCOPE_NODE);
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words, unsigned long *cpu_set,
                                                 nvmlAffinityScope_t scope)
{
    return cpu_affinity(NVML_FN_nvmlDeviceGetCpuAffinityWithinScope, device, words, cpu_set, scope);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *node_set,
                                         nvmlAffinityScope_t scope)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetMemoryAffinity, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!node_set || words == 0 || scope > NVML_AFFINITY_SCOPE_SOCKET)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(node_set, 0, words * sizeof *node_set);
    set_bits(node_set, words, (CpuRange){c.id->numa_node, c.id->numa_node});
    return NVML_SUCCESS;
}

/* Only a GPU that is addressed through the host's page tables is a memory node; it comes behind those of the CPUs. */
NVML_GETTER(nvmlDeviceGetNumaNodeId, NVML_TAKES_GPU, unsigned int,
            c.board->addressing_mode == NVML_DEVICE_ADDRESSING_MODE_ATS, 2 + 8 * c.gpu)

/* ---- distance ---- */

static nvmlGpuTopologyLevel_t ancestor(const SimGpuId *a, const SimGpuId *b)
{
    if (a == b)
        return NVML_TOPOLOGY_INTERNAL;
    if (a->switch_group == b->switch_group && a->root == b->root && a->numa_node == b->numa_node)
        return NVML_TOPOLOGY_SINGLE;
    if (a->root == b->root && a->numa_node == b->numa_node)
        return NVML_TOPOLOGY_HOSTBRIDGE;
    return a->numa_node == b->numa_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

/* Enters a function about two GPUs. */
static nvmlReturn_t enter_pair(NvmlFn fn, nvmlDevice_t first, nvmlDevice_t second, NvmlCall *a, NvmlCall *b)
{
    const nvmlReturn_t r = nvml_enter_device(fn, first, NVML_TAKES_GPU, a);

    if (r != NVML_SUCCESS)
        return r;
    if (!nvml_handle_valid(second) || second->gi_id != SIM_NONE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *b = *a;
    b->gpu = second->gpu;
    b->now = sim_state_now(a->image, b->gpu);
    b->id = &a->image->gpus[b->gpu];
    b->board = &a->image->boards[b->id->board];
    if (b->now->cond.lost || !b->now->cond.present)
        return NVML_ERROR_GPU_IS_LOST;
    return b->now->cond.reset_required ? NVML_ERROR_RESET_REQUIRED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuTopologyLevel_t *level)
{
    NvmlCall a, b;
    const nvmlReturn_t r = enter_pair(NVML_FN_nvmlDeviceGetTopologyCommonAncestor, first, second, &a, &b);

    if (r != NVML_SUCCESS)
        return r;
    if (!level)
        return NVML_ERROR_INVALID_ARGUMENT;
    *level = ancestor(a.id, b.id);
    return NVML_SUCCESS;
}

/* A list of handles. Asked without an array it succeeds and says how many there are: clients take any other answer to
 * that question for a failure. Too little room says how much is needed. */
typedef struct HandleList {
    nvmlDevice_t devices[SIM_GPU_MAX];
    unsigned int count;
} HandleList;

static nvmlReturn_t give_list(const HandleList *list, unsigned int *count, nvmlDevice_t *devices)
{
    const unsigned int room = *count;

    *count = list->count;
    if (!devices)
        return NVML_SUCCESS;
    if (room < list->count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(devices, list->devices, list->count * sizeof *devices);
    return NVML_SUCCESS;
}

static int is_level(nvmlGpuTopologyLevel_t level)
{
    return level == NVML_TOPOLOGY_INTERNAL || level == NVML_TOPOLOGY_SINGLE || level == NVML_TOPOLOGY_MULTIPLE ||
           level == NVML_TOPOLOGY_HOSTBRIDGE || level == NVML_TOPOLOGY_NODE || level == NVML_TOPOLOGY_SYSTEM;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count,
                                              nvmlDevice_t *devices)
{
    NvmlCall c;
    HandleList list = {.count = 0};
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetTopologyNearestGpus, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!count || (!devices && *count > 0) || !is_level(level))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_visible_count(); i++) {
        const uint32_t gpu = nvml_visible_gpu(i);
        if (gpu != c.gpu && ancestor(c.id, &c.image->gpus[gpu]) == level)
            list.devices[list.count++] = nvml_handle_gpu(gpu);
    }
    return give_list(&list, count, devices);
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count, nvmlDevice_t *devices)
{
    SimImage *image;
    HandleList list = {.count = 0};
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlSystemGetTopologyGpuSet, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!count || (!devices && *count > 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_visible_count(); i++) {
        const uint32_t gpu = nvml_visible_gpu(i);
        if (has_cpu(&image->gpus[gpu], cpu))
            list.devices[list.count++] = nvml_handle_gpu(gpu);
    }
    return give_list(&list, count, devices);
}

/* ---- peer to peer ---- */

static int any_link_up(const NvmlCall *c)
{
    for (uint32_t i = 0; i < c->board->link_count && i < SIM_LINK_MAX; i++)
        if (c->now->cond.link[i].state != NVML_NVLINK_STATE_INACTIVE)
            return 1;
    return 0;
}

/* Switches join all GPUs of a kind, bridges two of them. */
static int linked(const NvmlCall *a, const NvmlCall *b)
{
    if (a->id->board != b->id->board || !any_link_up(a) || !any_link_up(b))
        return 0;
    return a->board->link_to_switch || nvml_bridged_gpu(a->image, a->gpu) == (int)b->gpu;
}

static nvmlGpuP2PStatus_t p2p_status(const NvmlCall *a, const NvmlCall *b, nvmlGpuP2PCapsIndex_t index)
{
    if (!a->board->has_ecc || !b->board->has_ecc || a->now->cond.mig_mode || b->now->cond.mig_mode)
        return NVML_P2P_STATUS_GPU_NOT_SUPPORTED; /* boards for the desk, and parts of a GPU */
    if (linked(a, b) && index != NVML_P2P_CAPS_INDEX_PCI)
        return NVML_P2P_STATUS_OK;
    if (index == NVML_P2P_CAPS_INDEX_NVLINK || index == NVML_P2P_CAPS_INDEX_ATOMICS)
        return NVML_P2P_STATUS_NOT_SUPPORTED;
    return ancestor(a->id, b->id) == NVML_TOPOLOGY_SYSTEM ? NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t *status)
{
    NvmlCall a, b;
    const nvmlReturn_t r = enter_pair(NVML_FN_nvmlDeviceGetP2PStatus, first, second, &a, &b);

    if (r != NVML_SUCCESS)
        return r;
    if (!status || (unsigned int)index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
        return NVML_ERROR_INVALID_ARGUMENT;
    *status = p2p_status(&a, &b, index);
    return NVML_SUCCESS;
}
