/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside sim/node: the parts of the tree. Each writes its files for the conditions in tree->gpus and tree->driver. */
#include "sim/core/state.h"
#include "sim/node/put.h"
#include "sim/node/tree.h"

enum { BOOT_S = 100 }; /* the machine had been up for so long when the scenario began */

/* Device numbers. 195 is the driver's own; the kernel hands the others out at load, we take ones it hardly reaches. */
enum {
    DEV_MAJOR = 195,
    DEV_MINOR_CTL = 255,
    DEV_MINOR_MODESET = 254,
    DEV_MAJOR_UVM = 402,
    DEV_MAJOR_CAPS = 403,
    DEV_MAJOR_NVSWITCH = 404,
};

/* Modes of devices (DeviceFileMode of the driver's params and of its capabilities). */
enum { DEV_MODE = 0666, DEV_MODE_ADMIN = 0400, DEV_MODE_INSTANCE = 0444 };

/* sysfs of one function. `what` says which files: all, or those that follow a condition. */
enum { FN_LINK = 1, FN_AER = 2, FN_DRIVER = 4, FN_ALL = 0xff };
void tree_pci_fn(const NodeTree *tree, Put *put, int fn, uint32_t what);
/* Everything of one GPU in sysfs appears or goes. */
void tree_pci_gpu_gone(const NodeTree *tree, Put *put, uint32_t gpu);
/* The folders of drivers in sys/bus/pci/drivers; nvidia's only while it is loaded. */
void tree_pci_drivers(const NodeTree *tree, Put *put);

/* The driver as a whole: proc/driver, proc/modules, proc/devices, sys/module. */
void tree_driver(const NodeTree *tree, Put *put);
/* proc/driver/nvidia/gpus/<bdf> */
void tree_driver_gpu(const NodeTree *tree, Put *put, uint32_t gpu);

/* capabilities/gpuN and nvidia-caps devices of one GPU; `old` names the previous entries, NULL: none. */
void tree_mig_gpu(const NodeTree *tree, Put *put, uint32_t gpu, const NodeTreeGpu *old);
void tree_mig_minors(Put *put);
void tree_capability(Put *put, uint32_t minor_number, uint32_t mode);

void tree_infiniband(const NodeTree *tree, Put *put);
/* What the adapters have carried until tree->carried_ns. */
void tree_traffic(const NodeTree *tree, Put *put);

/* proc/<pid> of the driver's services and of tasks that hang in it, and what /proc says of the machine's start. Pids
 * are beyond those that a kernel hands out. `old_stuck` tasks were there before. */
void tree_boot(const NodeTree *tree, Put *put, uint64_t t_ns);
void tree_tasks(const NodeTree *tree, Put *put, uint32_t old_stuck);

/* Adds the processes of one GPU. */
void tree_processes_look(const SimImage *image, const SimNow *now, NodeTreeProcesses *into);
/* Whether there are others than before, or their counters are old. */
bool tree_processes_due(const NodeTree *tree, const NodeTreeProcesses *old, uint64_t t_ns);
/* Writes tree->processes; `old` has the previous ones, NULL: none. */
void tree_processes(NodeTree *tree, Put *put, const NodeTreeProcesses *old, uint64_t t_ns);
