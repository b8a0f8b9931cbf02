/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI address of a GPU, its link to the host, and its place in the machine. */
#include <stdlib.h>
#include <string.h>

#include "sim/nvml/getter.h"

/* --- address and link -------------------------------------------------------------------------------------------- */

enum { THROUGHPUT_WINDOW_NS = 20000000, BYTES_PER_KB = 1000 };

/* ---- address ---- */

/* The callers of the two older entry points own 36 bytes. */
static nvmlReturn_t short_pci_info(NvmlFn fn, nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    memcpy(pci->busId, nvml_process.bus_id_legacy[c.gpu], sizeof pci->busId);
    pci->domain = c.id->domain;
    pci->bus = c.id->bus;
    pci->device = c.id->device;
    pci->pciDeviceId = c.board->pci_device_id;
    pci->pciSubSystemId = c.board->pci_subsystem_id;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    return short_pci_info(NVML_FN_nvmlDeviceGetPciInfo, device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    return short_pci_info(NVML_FN_nvmlDeviceGetPciInfo_v2, device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetPciInfo_v3, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    *pci = (nvmlPciInfo_t){.domain = c.id->domain,
                           .bus = c.id->bus,
                           .device = c.id->device,
                           .pciDeviceId = c.board->pci_device_id,
                           .pciSubSystemId = c.board->pci_subsystem_id};
    memcpy(pci->busIdLegacy, nvml_process.bus_id_legacy[c.gpu], sizeof pci->busIdLegacy);
    memcpy(pci->busId, nvml_process.bus_id[c.gpu], sizeof pci->busId);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetPciInfoExt;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(fn, pci->version, nvmlPciInfoExt_v1);
    if (r != NVML_SUCCESS)
        return r;
    *pci = (nvmlPciInfoExt_t){.version = nvmlPciInfoExt_v1,
                              .domain = c.id->domain,
                              .bus = c.id->bus,
                              .device = c.id->device,
                              .pciDeviceId = c.board->pci_device_id,
                              .pciSubSystemId = c.board->pci_subsystem_id,
                              .baseClass = c.board->pci_class >> 16,
                              .subClass = c.board->pci_class >> 8 & 0xff};
    memcpy(pci->busId, nvml_process.bus_id[c.gpu], sizeof pci->busId);
    return NVML_SUCCESS;
}

NVML_GETTER(nvmlDeviceGetBusType, NVML_TAKES_GPU, nvmlBusType_t, 1, NVML_BUS_TYPE_PCIE)
NVML_GETTER(nvmlDeviceGetIrqNum, NVML_TAKES_GPU, unsigned int, 1, 96 + c.id->minor)
/* Bridges were on boards of the past that carried two GPUs. */
NVML_GETTER_STRUCT(nvmlDeviceGetBridgeChipInfo, NVML_TAKES_GPU, nvmlBridgeChipHierarchy_t, 0,
                   (nvmlBridgeChipHierarchy_t){.bridgeCount = 0})

/* ---- link ---- */

/* Megatransfers per second and lane of a PCIe generation; later generations count as the last of the table. */
static unsigned int link_speed(uint32_t gen)
{
    static const unsigned int speeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    const size_t last = sizeof speeds / sizeof *speeds - 1;
    return speeds[gen < last ? gen : last];
}

/* What the slot cannot do, card and slot together cannot. */
static uint32_t of_slot(const NvmlCall *c, SimKey key, uint32_t board)
{
    const uint32_t slot = c->now->cond.set[key];

    return slot && slot < board ? slot : board;
}

NVML_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, NVML_TAKES_GPU, unsigned int, 1, c.now->pcie_gen)
NVML_GETTER(nvmlDeviceGetCurrPcieLinkWidth, NVML_TAKES_GPU, unsigned int, 1, c.now->pcie_width)
NVML_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, NVML_TAKES_GPU, unsigned int, 1,
            of_slot(&c, SIM_KEY_SLOT_GEN, c.board->pcie_gen))
NVML_GETTER(nvmlDeviceGetMaxPcieLinkWidth, NVML_TAKES_GPU, unsigned int, 1,
            of_slot(&c, SIM_KEY_SLOT_WIDTH, c.board->pcie_width))
NVML_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, NVML_TAKES_GPU, unsigned int, 1, c.board->gpu_max_pcie_gen)
/* NVML_PCIE_LINK_MAX_SPEED_* counts as the generations do. */
NVML_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, NVML_TAKES_GPU, unsigned int, 1, c.board->pcie_gen)
NVML_GETTER(nvmlDeviceGetPcieSpeed, NVML_TAKES_GPU, unsigned int, 1, link_speed(c.now->pcie_gen))
NVML_GETTER(nvmlDeviceGetPcieReplayCounter, NVML_TAKES_GPU, unsigned int, 1, c.now->cond.replays)

/* The hardware counts for 20 ms in each call. A clock that stands, or that runs away, has nothing to wait for. */
static void wait_for_window(SimImage *image)
{
    const double speed = sim_clock_speed(image);

    if (!nvml_process.no_block && speed > 0 && speed <= 1)
        nvml_sleep(THROUGHPUT_WINDOW_NS);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *kb_per_s)
{
    NvmlCall c;
    double before[SIM_CH_COUNT], after[SIM_CH_COUNT];
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetPcieThroughput, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!kb_per_s || (unsigned int)counter >= NVML_PCIE_UTIL_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    wait_for_window(c.image);
    const uint64_t end = sim_clock_now(c.image);
    const uint64_t start = end > THROUGHPUT_WINDOW_NS ? end - THROUGHPUT_WINDOW_NS : 0;
    const SimChannel channel = counter == NVML_PCIE_UTIL_TX_BYTES ? SIM_CH_PCIE_TX : SIM_CH_PCIE_RX;
    sim_cum_at(c.image, c.gpu, start, before);
    sim_cum_at(c.image, c.gpu, end, after);
    const double seconds = (double)(end - start) / (double)SIM_NS;
    const double bytes = after[channel] - before[channel];
    *kb_per_s = seconds > 0 ? (unsigned int)nvml_round(bytes / seconds / BYTES_PER_KB) : 0;
    return NVML_SUCCESS;
}

/* --- topology ---------------------------------------------------------------------------------------------------- */

/*
 * Where GPUs are in the machine: CPUs and memory near them, what joins two of them, and whether they can talk directly.
 */

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

static nvmlGpuTopologyLevel_t common_ancestor(const SimGpuId *a, const SimGpuId *b)
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
    *level = common_ancestor(a.id, b.id);
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
        if (gpu != c.gpu && common_ancestor(c.id, &c.image->gpus[gpu]) == level)
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
static int are_linked(const NvmlCall *a, const NvmlCall *b)
{
    if (a->id->board != b->id->board || !any_link_up(a) || !any_link_up(b))
        return 0;
    return a->board->link_to_switch || nvml_bridged_gpu(a->image, a->gpu) == (int)b->gpu;
}

static nvmlGpuP2PStatus_t p2p_status(const NvmlCall *a, const NvmlCall *b, nvmlGpuP2PCapsIndex_t index)
{
    if (!a->board->has_ecc || !b->board->has_ecc || a->now->cond.mig_mode || b->now->cond.mig_mode)
        return NVML_P2P_STATUS_GPU_NOT_SUPPORTED; /* boards for the desk, and parts of a GPU */
    if (are_linked(a, b) && index != NVML_P2P_CAPS_INDEX_PCI)
        return NVML_P2P_STATUS_OK;
    if (index == NVML_P2P_CAPS_INDEX_NVLINK || index == NVML_P2P_CAPS_INDEX_ATOMICS)
        return NVML_P2P_STATUS_NOT_SUPPORTED;
    return common_ancestor(a->id, b->id) == NVML_TOPOLOGY_SYSTEM ? NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED
                                                                 : NVML_P2P_STATUS_OK;
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
