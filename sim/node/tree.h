/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files of a simulated node: what a Linux machine with these GPUs would show below /proc, /sys and /dev, as plain
 * files and links below a folder. They follow from the image and the virtual time: driver loaded or not, GPUs present
 * or lost, MIG layout, link speed, AER counters. For clients that can be told another root, and for node_enter
 * (enter.h), which makes it the root's own. The caller owns the NodeTree; one thread at a time, one tree per folder.
 *
 * Written: proc/driver/nvidia, nvidia-caps, nvidia-nvlink, nvidia-nvswitch; proc/modules, proc/devices;
 * sys/devices/pciDDDD:BB/... with GPUs, network adapters, NVSwitches and the ports above them; sys/bus/pci;
 * sys/class/infiniband; sys/class/dmi/id/product_name; sys/module/nvidia*; dev/nvidia*; proc/PID of the processes on
 * GPUs with etc/passwd and var/log/pods, from which it follows whose they are; usr/lib64 if asked. A lost GPU's config
 * reads as all ones. InfiniBand ports are up and count what the image says that each carries.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sim/core/image.h"
#include "sim/node/pci.h"

enum {
    NODE_TREE_DEVICES = 1,  /* character devices in dev/, where we may make them; otherwise plain empty files */
    NODE_TREE_BOOT_NOW = 2, /* boot time by the real clock, so that process ages are right */
    NODE_TREE_CI_MAX = 8,   /* compute instances of a GPU instance that have a device */
    NODE_TREE_ROOT_MAX = 256,
};

/* What the files of one GPU follow from. */
typedef struct NodeTreeGpu {
    bool present, lost, driver, asleep;
    uint32_t pcie_gen, pcie_width;
    uint64_t aer[3][16], port_aer[3][16];
    uint32_t slot_gen, slot_width;
    uint32_t gi_count, gi[SIM_GI_MAX];    /* ids */
    uint32_t ci_count, ci[SIM_CI_MAX][2]; /* ids: GPU instance, compute instance */
} NodeTreeGpu;

/* A process on a GPU. */
typedef struct NodeTreeProcess {
    uint32_t pid;
    int32_t work;
    uint64_t started_ns;
} NodeTreeProcess;

typedef struct NodeTreeProcesses {
    uint32_t count;
    NodeTreeProcess at[SIM_WORK_MAX];
} NodeTreeProcesses;

typedef struct NodeTree {
    SimImage *image; /* borrowed */
    char root[NODE_TREE_ROOT_MAX];
    uint32_t flags;
    PciLayout layout;
    uint32_t driver; /* SimDriver */
    uint32_t fabric_manager, persistenced, stuck;
    bool stale; /* an update failed half-way */
    NodeTreeGpu gpus[SIM_GPU_MAX];
    NodeTreeProcesses processes;
    uint32_t named;      /* works whose users are in etc/passwd */
    uint64_t counted_ns; /* when what processes have used was written */
    uint64_t carried_ns; /* when what network adapters have carried was written */
} NodeTree;

/* Writes the whole tree for virtual time t_ns into folder `root`: new, empty, or one that this function has written
 * before, whose content is then replaced. -EEXIST for any other. Fills *ret for updates. */
int node_tree_write(SimImage *image, const char *root, uint64_t t_ns, uint32_t flags, NodeTree *ret, Err *err);

/* Adds the driver's libraries to usr/lib64, where nvidia-ctk and device plugins look below a root: a copy of the file
 * `library` as libnvidia-ml.so.VERSION, and libcuda.so.VERSION, which is empty: nothing computes on these GPUs. */
int node_tree_add_libraries(const NodeTree *tree, const char *library, Err *err);

enum { NODE_TREE_CHANGED = 1 };
/* Brings the tree to virtual time t_ns; what processes have used and adapters have
 * carried may lag by a quarter of a second. 0 when nothing had
 * to be written (costs one look at each GPU's state), NODE_TREE_CHANGED, or -errno; after an error the next call tries
 * again. */
int node_tree_update(NodeTree *tree, uint64_t t_ns, Err *err);

/* The minor number below /dev/nvidia-caps of GPU instance `gi` of the GPU with this minor, or of a compute instance of
 * it (SIM_NONE: none). 0 where the driver has no number for it. Source: the driver's mig-minors. */
uint32_t node_mig_minor(uint32_t gpu_minor, uint32_t gi, int32_t ci);
