/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the devices of a node are joined: for every pair the nearest common point on PCIe and the number of NVLinks, and
 * for every device the CPUs and memory near it. One writer; the owner calls topology_done.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/cpulist.h"

/* From near to far. The words are those of nvidia-smi's matrix. */
typedef enum TopologyPath {
    TOPOLOGY_SELF,    /* X */
    TOPOLOGY_PIX,     /* at most one PCIe bridge, or on one board */
    TOPOLOGY_PXB,     /* several PCIe bridges, no host bridge */
    TOPOLOGY_PHB,     /* a host bridge */
    TOPOLOGY_NODE,    /* several host bridges of one NUMA node */
    TOPOLOGY_SYS,     /* the link between NUMA nodes */
    TOPOLOGY_UNKNOWN, /* nobody said */
    TOPOLOGY_PATH_END,
} TopologyPath;

typedef struct TopologyLink {
    uint8_t path;    /* TopologyPath */
    uint8_t nvlinks; /* active NVLinks between the two, directly or through switches; 0 for none */
} TopologyLink;

/* Devices in one matrix: GPUs, switches and NICs of a node. */
#define TOPOLOGY_DEVICES_MAX 256
/* Room for any link's text and its end. */
#define TOPOLOGY_TEXT_CAP 8

typedef struct TopologyAffinity {
    Cpulist cpus;
    Cpulist memory; /* NUMA nodes */
} TopologyAffinity;

typedef struct Topology {
    uint32_t count;
    TopologyLink *links;          /* count * count */
    TopologyAffinity *affinities; /* count */
} Topology;

/* A matrix of `count` devices (at most TOPOLOGY_DEVICES_MAX), all UNKNOWN but for the diagonal. 0, or -E2BIG. */
int topology_init(Topology *topology, uint32_t count);
void topology_done(Topology *topology);

/* Set both directions. The two must differ and be below count. */
void topology_set(Topology *topology, uint32_t a, uint32_t b, TopologyLink link);

/* X for a == b. */
TopologyLink topology_get(const Topology *topology, uint32_t a, uint32_t b);

/* The affinity of a device, to read or fill; empty sets until filled. */
TopologyAffinity *topology_affinity(Topology *topology, uint32_t device);

/* The path for NVML's nvmlGpuTopologyLevel_t (0, 10, 20, 30, 40, 50); UNKNOWN for other numbers. */
TopologyPath topology_from_nvml(uint32_t level);

/*
 * Below 0 if a is nearer than b: itself, then more NVLinks before fewer, then the PCIe path. 0 if neither is.
 */
int topology_nearer(TopologyLink a, TopologyLink b);

/* "X", "NV18", "PIX", ... "?"; NVLinks hide the path. Returns text. */
const char *topology_format(TopologyLink link, char text[TOPOLOGY_TEXT_CAP]);

/* The reverse; the path beside NV# is UNKNOWN. 0, or -EINVAL with ret_link untouched. */
int topology_parse(const char *text, TopologyLink *ret_link);
