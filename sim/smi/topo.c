/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi topo: how GPUs reach each other, and the CPUs near them. */
#include "sim/smi/smi.h"

#include <string.h>

#include "base/cleanup.h"

enum { LINK_MAX = 36, MASK_WORDS = 16 };

/* Links of `a` that are up and lead to `b`, over switches or directly. */
static unsigned int links_towards(const Gpu *a, const Gpu *b)
{
    unsigned int count = 0;

    for (unsigned int link = 0; link < LINK_MAX; link++) {
        nvmlEnableState_t active = NVML_FEATURE_DISABLED;
        nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
        nvmlPciInfo_t remote = {0};
        if (NV(DeviceGetNvLinkState, a->handle, link, &active) != NVML_SUCCESS)
            break;
        if (!active || NV(DeviceGetNvLinkRemoteDeviceType, a->handle, link, &type) != NVML_SUCCESS)
            continue;
        if (type == NVML_NVLINK_DEVICE_TYPE_SWITCH)
            count++;
        else if (NV(DeviceGetNvLinkRemotePciInfo_v2, a->handle, link, &remote) == NVML_SUCCESS)
            count += strcmp(remote.busId, b->bus_id) == 0;
    }
    return count;
}

/* Both ends count: a GPU behind the switch may have its own links down. */
static unsigned int links_between(const Gpu *a, const Gpu *b)
{
    unsigned int there = links_towards(a, b), back = links_towards(b, a);

    return there < back ? there : back;
}

static void write_path(const Gpu *a, const Gpu *b, char *out, size_t size)
{
    static const struct {
        nvmlGpuTopologyLevel_t level;
        const char *word;
    } levels[] = {{NVML_TOPOLOGY_INTERNAL, "PIX"},   {NVML_TOPOLOGY_SINGLE, "PIX"}, {NVML_TOPOLOGY_MULTIPLE, "PXB"},
                  {NVML_TOPOLOGY_HOSTBRIDGE, "PHB"}, {NVML_TOPOLOGY_NODE, "NODE"},  {NVML_TOPOLOGY_SYSTEM, "SYS"}};
    nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
    unsigned int links = links_between(a, b);

    snprintf(out, size, "N/A");
    if (links) {
        snprintf(out, size, "NV%u", links);
        return;
    }
    if (NV(DeviceGetTopologyCommonAncestor, a->handle, b->handle, &level) != NVML_SUCCESS)
        return;
    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        if (levels[i].level == level)
            snprintf(out, size, "%s", levels[i].word);
    }
}

/* "0-31,64-95" of a mask; "N/A" where it is empty. */
static void write_ranges(const unsigned long *mask, char *out, size_t size)
{
    const unsigned int bits = 8 * sizeof(*mask);
    size_t used = 0;
    unsigned int at = 0;

    snprintf(out, size, "N/A");
    while (at < MASK_WORDS * bits && used < size) {
        unsigned int first = at;
        while (at < MASK_WORDS * bits && mask[at / bits] >> (at % bits) & 1)
            at++;
        if (at > first + 1)
            used += (size_t)snprintf(out + used, size - used, "%s%u-%u", used ? "," : "", first, at - 1);
        else if (at > first)
            used += (size_t)snprintf(out + used, size - used, "%s%u", used ? "," : "", first);
        else
            at++;
    }
}

static void write_affinity(const Gpu *gpu)
{
    unsigned long cpus[MASK_WORDS] = {0}, nodes[MASK_WORDS] = {0};
    unsigned int numa = 0;
    char text[512];

    (void)NV(DeviceGetCpuAffinity, gpu->handle, MASK_WORDS, cpus);
    write_ranges(cpus, text, sizeof(text));
    printf("\t%s", text);
    (void)NV(DeviceGetMemoryAffinity, gpu->handle, MASK_WORDS, nodes, 0);
    write_ranges(nodes, text, sizeof(text));
    printf("\t%s", text);
    if (NV(DeviceGetNumaNodeId, gpu->handle, &numa) == NVML_SUCCESS)
        printf("\t\t%u\n", numa);
    else
        printf("\t\tN/A\n");
}

static void write_head(const GpuSet *set)
{
    for (unsigned int i = 0; i < set->count; i++)
        printf("\tGPU%u", set->gpus[i].index);
}

static int write_matrix(const GpuSet *set)
{
    char text[16];

    write_head(set);
    printf("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n");
    for (unsigned int i = 0; i < set->count; i++) {
        printf("GPU%u", set->gpus[i].index);
        for (unsigned int k = 0; k < set->count; k++) {
            if (i != k)
                write_path(&set->gpus[i], &set->gpus[k], text, sizeof(text));
            printf("\t%s", i == k ? " X " : text);
        }
        write_affinity(&set->gpus[i]);
    }
    puts("\nLegend:\n\n"
         "  X    = itself\n"
         "  SYS  = PCIe and the link between NUMA nodes\n"
         "  NODE = PCIe and the link between host bridges of one NUMA node\n"
         "  PHB  = PCIe and one host bridge\n"
         "  PXB  = several PCIe bridges, no host bridge\n"
         "  PIX  = one PCIe bridge at most\n"
         "  NV#  = # NVLinks");
    return 0;
}

static int write_p2p(const GpuSet *set, const char *what)
{
    static const char letters[] = "rwnap"; /* order of nvmlGpuP2PCapsIndex_t */
    static const char *const words[] = {"OK", "CNS", "GNS", "TNS", "DR", "NS", "U"};
    const char *letter = what && *what && !what[1] ? strchr(letters, *what) : NULL;

    if (!letter) {
        printf("-p2p wants one of r, w, n, a, p.\n");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    write_head(set);
    putchar('\n');
    for (unsigned int i = 0; i < set->count; i++) {
        printf("GPU%u", set->gpus[i].index);
        for (unsigned int k = 0; k < set->count; k++) {
            nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;
            (void)NV(DeviceGetP2PStatus, set->gpus[i].handle, set->gpus[k].handle,
                     (nvmlGpuP2PCapsIndex_t)(letter - letters), &status);
            printf("\t%s", i == k ? "X" : words[status < ARRAY_LEN(words) ? status : NVML_P2P_STATUS_UNKNOWN]);
        }
        putchar('\n');
    }
    puts("\nLegend:\n\n  X = itself, OK = supported, CNS = chipset, GNS = GPU, TNS = topology not supported,\n"
         "  DR = switched off, NS = not supported, U = unknown");
    return 0;
}

int topo_main(int argc, char **argv)
{
    static GpuSet set;
    nvmlReturn_t rc = gpu_set_open(NULL, &set);

    if (rc != NVML_SUCCESS)
        return nvml_exit_code(rc);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "--matrix") == 0)
            return write_matrix(&set);
        if (strcmp(argv[i], "-p2p") == 0 || strcmp(argv[i], "--p2p_capabilities") == 0)
            return write_p2p(&set, i + 1 < argc ? argv[i + 1] : NULL);
    }
    puts("nvidia-smi topo -m | -p2p r|w|n|a|p");
    return argc > 1 && strcmp(argv[1], "-h") == 0 ? 0 : NVML_ERROR_INVALID_ARGUMENT;
}
