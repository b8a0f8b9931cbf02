/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of links. The owner's thread. */

#include "model/topology.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const char *const paths[] = {
    [TOPOLOGY_SELF] = "X",    [TOPOLOGY_PIX] = "PIX", [TOPOLOGY_PXB] = "PXB",   [TOPOLOGY_PHB] = "PHB",
    [TOPOLOGY_NODE] = "NODE", [TOPOLOGY_SYS] = "SYS", [TOPOLOGY_UNKNOWN] = "?",
};

/* nvmlGpuTopologyLevel_t; INTERNAL is two GPUs on one board, which is at most one bridge apart */
static const struct {
    uint32_t level;
    TopologyPath path;
} nvml_levels[] = {
    {0, TOPOLOGY_PIX},  {10, TOPOLOGY_PIX},  {20, TOPOLOGY_PXB},
    {30, TOPOLOGY_PHB}, {40, TOPOLOGY_NODE}, {50, TOPOLOGY_SYS},
};

int topology_init(Topology *topology, uint32_t count)
{
    if (count > TOPOLOGY_DEVICES_MAX)
        return -E2BIG;
    *topology = (Topology){.count = count};
    if (count == 0)
        return 0;
    topology->links = xcalloc((size_t)count * count, sizeof topology->links[0]);
    topology->affinities = xcalloc(count, sizeof topology->affinities[0]);
    for (size_t i = 0; i < (size_t)count * count; i++)
        topology->links[i].path = i % (count + 1) == 0 ? TOPOLOGY_SELF : TOPOLOGY_UNKNOWN;
    return 0;
}

void topology_done(Topology *topology)
{
    free(topology->links);
    free(topology->affinities);
    *topology = (Topology){0};
}

void topology_set(Topology *topology, uint32_t a, uint32_t b, TopologyLink link)
{
    assert(a < topology->count && b < topology->count && a != b);
    assert(link.path > TOPOLOGY_SELF && link.path < TOPOLOGY_PATH_END);
    topology->links[(size_t)a * topology->count + b] = link;
    topology->links[(size_t)b * topology->count + a] = link;
}

TopologyLink topology_get(const Topology *topology, uint32_t a, uint32_t b)
{
    assert(a < topology->count && b < topology->count);
    return topology->links[(size_t)a * topology->count + b];
}

TopologyAffinity *topology_affinity(Topology *topology, uint32_t device)
{
    assert(device < topology->count);
    return &topology->affinities[device];
}

TopologyPath topology_from_nvml(uint32_t level)
{
    for (size_t i = 0; i < sizeof nvml_levels / sizeof nvml_levels[0]; i++) {
        if (nvml_levels[i].level == level)
            return nvml_levels[i].path;
    }
    return TOPOLOGY_UNKNOWN;
}

int topology_nearer(TopologyLink a, TopologyLink b)
{
    if ((a.path == TOPOLOGY_SELF) != (b.path == TOPOLOGY_SELF))
        return a.path == TOPOLOGY_SELF ? -1 : 1;
    if (a.nvlinks != b.nvlinks)
        return (int)b.nvlinks - (int)a.nvlinks;
    return (int)a.path - (int)b.path;
}

const char *topology_format(TopologyLink link, char text[TOPOLOGY_TEXT_CAP])
{
    assert(link.path < TOPOLOGY_PATH_END);
    if (link.nvlinks > 0 && link.path != TOPOLOGY_SELF)
        snprintf(text, TOPOLOGY_TEXT_CAP, "NV%u", (unsigned)link.nvlinks);
    else
        snprintf(text, TOPOLOGY_TEXT_CAP, "%s", paths[link.path]);
    return text;
}

/* 1..255 in plain digits, 0 for anything else */
static uint8_t link_count(const char *digits)
{
    uint32_t count = 0;

    if (digits[0] == '0')
        return 0;
    for (; *digits >= '0' && *digits <= '9' && count <= UINT8_MAX; digits++)
        count = count * 10 + (uint32_t)(*digits - '0');
    return *digits == '\0' && count <= UINT8_MAX ? (uint8_t)count : 0;
}

int topology_parse(const char *text, TopologyLink *ret_link)
{
    if (strncmp(text, "NV", 2) == 0) {
        uint8_t nvlinks = link_count(text + 2);

        if (nvlinks == 0)
            return -EINVAL;
        *ret_link = (TopologyLink){.path = TOPOLOGY_UNKNOWN, .nvlinks = nvlinks};
        return 0;
    }
    for (size_t i = 0; i < TOPOLOGY_PATH_END; i++) {
        if (strcmp(paths[i], text) == 0) {
            *ret_link = (TopologyLink){.path = (uint8_t)i};
            return 0;
        }
    }
    return -EINVAL;
}
