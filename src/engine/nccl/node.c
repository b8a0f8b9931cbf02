/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/nccl/node.h"

#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/owner.h"

enum { CLASS_3D = 0x0302, CLASS_DISPLAY = 0x0380, CLASS_ACCELERATOR = 0x1200, CLASS_NET = 0x02, LINKS_MAX = 4096 };

static uint32_t child_of(const NcclTopology *t, uint32_t node, NcclPart part)
{
    for (uint32_t c = t->nodes.at[node].child; c != NCCL_NO_INDEX; c = t->nodes.at[c].sibling)
        if (t->nodes.at[c].part == part)
            return c;
    return NCCL_NO_INDEX;
}

uint32_t nccl_node_gpu(const NcclTopology *t, uint32_t node)
{
    return child_of(t, node, NCCL_PART_GPU);
}

bool nccl_node_is_gpu(const NcclTopology *t, uint32_t node)
{
    const NcclNode *n = &t->nodes.at[node];
    uint32_t class = n->pci_class >> 8;

    if (n->part != NCCL_PART_PCI)
        return false;
    return class == CLASS_3D || class == CLASS_DISPLAY || class == CLASS_ACCELERATOR ||
           nccl_node_gpu(t, node) != NCCL_NO_INDEX;
}

bool nccl_node_is_nic(const NcclTopology *t, uint32_t node)
{
    const NcclNode *n = &t->nodes.at[node];

    return n->part == NCCL_PART_PCI &&
           (n->pci_class >> 16 == CLASS_NET || child_of(t, node, NCCL_PART_NIC) != NCCL_NO_INDEX);
}

uint32_t nccl_node_net(const NcclTopology *t, uint32_t node)
{
    uint32_t nic = t->nodes.at[node].part == NCCL_PART_NIC ? node : child_of(t, node, NCCL_PART_NIC);

    return nic == NCCL_NO_INDEX ? NCCL_NO_INDEX : child_of(t, nic, NCCL_PART_NET);
}

bool nccl_net_is_rdma(const NcclNode *net)
{
    static const char *const fronts[] = {"eth", "en", "ib", "bond", "docker", "lo", "veth", "br-", "em", "p1p", "p2p"};

    if (!net->name[0])
        return false;
    for (size_t i = 0; i < ARRAY_LEN(fronts); i++)
        if (strncmp(net->name, fronts[i], strlen(fronts[i])) == 0)
            return strncmp(net->name, "ibp", 3) == 0; /* ibp12s0: a port's name where adapters are renamed */
    return true;
}

uint32_t nccl_node_links(const NcclTopology *t, uint32_t node)
{
    uint32_t gpu = nccl_node_gpu(t, node), links = 0;

    if (gpu == NCCL_NO_INDEX)
        return 0;
    for (uint32_t c = t->nodes.at[gpu].child; c != NCCL_NO_INDEX; c = t->nodes.at[c].sibling) {
        const NcclNode *n = &t->nodes.at[c];
        if ((n->part == NCCL_PART_NVLINK || n->part == NCCL_PART_XGMI) && n->count > 0 && n->count < LINKS_MAX &&
            links < LINKS_MAX)
            links += (uint32_t)n->count;
    }
    return links;
}

uint32_t nccl_node_cpu(const NcclTopology *t, uint32_t node)
{
    while (node != NCCL_NO_INDEX && t->nodes.at[node].part != NCCL_PART_CPU)
        node = t->nodes.at[node].parent;
    return node;
}

bool nccl_bus_number(const char *bus_id, uint64_t *ret)
{
    char digits[NUMBER_HEX_MAX];
    size_t len = 0;

    for (; *bus_id; bus_id++) {
        if (*bus_id == ':' || *bus_id == '.')
            continue;
        if (len == sizeof digits)
            return false;
        digits[len++] = *bus_id;
    }
    return number_parsen_hex(digits, len, UINT64_MAX, ret, NULL) == 0;
}

static bool is_link(const NcclNode *n)
{
    return (n->part == NCCL_PART_NVLINK || n->part == NCCL_PART_XGMI) && n->count > 0;
}

static bool to_switch(const NcclNode *n)
{
    return n->part == NCCL_PART_NVLINK && strncmp(n->target, "fffffff", 7) == 0;
}

bool nccl_node_at_switch(const NcclTopology *t, uint32_t node)
{
    uint32_t gpu = nccl_node_gpu(t, node);

    for (uint32_t c = gpu == NCCL_NO_INDEX ? gpu : t->nodes.at[gpu].child; c != NCCL_NO_INDEX;
         c = t->nodes.at[c].sibling)
        if (to_switch(&t->nodes.at[c]))
            return true;
    return false;
}

static bool links_to(const NcclTopology *t, uint32_t a, uint32_t b)
{
    uint32_t gpu = nccl_node_gpu(t, a);

    for (uint32_t c = gpu == NCCL_NO_INDEX ? gpu : t->nodes.at[gpu].child; c != NCCL_NO_INDEX;
         c = t->nodes.at[c].sibling)
        if (is_link(&t->nodes.at[c]) && strcasecmp(t->nodes.at[c].target, t->nodes.at[b].bus_id) == 0)
            return true;
    return false;
}

bool nccl_node_linked(const NcclTopology *t, uint32_t a, uint32_t b)
{
    return (nccl_node_at_switch(t, a) && nccl_node_at_switch(t, b)) || links_to(t, a, b) || links_to(t, b, a);
}
