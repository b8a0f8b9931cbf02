/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where GPUs and network adapters are in a node, as the kernel tells it without any driver call: the PCIe bridges above
 * each, the CPUs and the memory near it. Plain values; filled by source/host/host.h; a text that is not known is "".
 */

#include <stddef.h>
#include <stdint.h>

#include "model/pci.h"
#include "model/word.h"

enum { PLACE_NAME_CAP = 32, PLACE_CPUS_CAP = 128, PLACE_PATH_CAP = 256, PLACE_ADAPTERS_MAX = 64 };

typedef struct Place {
    PciAddress pci;
    char adapter[PLACE_NAME_CAP]; /* the kernel's name of a network adapter for RDMA, "mlx5_0"; "": a GPU */
    int32_t numa_node;            /* of memory; below 0: the kernel does not tell */
    char cpus[PLACE_CPUS_CAP];    /* near it, the kernel's list: "0-31,64-95" */
    char path[PLACE_PATH_CAP];    /* from its host bridge to it: "pci0000:17/0000:17:01.0/.../0000:1b:00.0" */
} Place;

/* Borrowed. GPUs, then adapters by name. */
typedef struct PlaceList {
    const Place *at;
    size_t len;
} PlaceList;

/* The part of `target`, where a link of sysfs leads ("../../devices/platform/x/pci0000:17/.../infiniband/mlx5_0"), that
 * is a path of PCI functions. False, with path "" and pci untouched, where none is in it or it does not fit. */
bool place_set_path(Place *place, const char *target);

/* The GPU at an address; NULL if it is not known. */
const Place *place_list_gpu(const PlaceList *list, PciAddress pci);

/*
 * What two of them have to go through to reach each other over PCIe, in nvidia-smi's words: PIX is one switch or bridge
 * at most. SELF for one and the same function. Two host bridges of which the kernel tells no NUMA node count as being
 * of one node.
 */
/* From near to far, in the words of nvidia-smi's matrix. */
#define TOPOLOGY_PATH_TABLE(WORD)                                                                                      \
    WORD(TOPOLOGY_SELF, "X")                                                                                           \
    WORD(TOPOLOGY_PIX, "PIX")   /* at most one PCIe bridge, or on one board */                                         \
    WORD(TOPOLOGY_PXB, "PXB")   /* several PCIe bridges, no host bridge */                                             \
    WORD(TOPOLOGY_PHB, "PHB")   /* a host bridge */                                                                    \
    WORD(TOPOLOGY_NODE, "NODE") /* several host bridges of one NUMA node */                                            \
    WORD(TOPOLOGY_SYS, "SYS")   /* the link between NUMA nodes */                                                      \
    WORD(TOPOLOGY_UNKNOWN, "?")

typedef enum TopologyPath { TOPOLOGY_PATH_TABLE(WORD_ID) TOPOLOGY_PATH_END } TopologyPath;
extern const WordRow topology_paths[TOPOLOGY_PATH_END];

TopologyPath place_between(const Place *a, const Place *b);
