/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The GPUs and MIG devices of a node as Slurm counts them (gres.conf(5)): device files, near cores, NVLinks. Plain
 * data.
 *
 * Cores have Slurm's numbers: the position of a core among all cores of the node by socket, as hwloc's logical index.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/mig.h"

enum { GRES_GPUS_MAX = MIG_GPUS_MAX, GRES_INSTANCES_MAX = 16, GRES_CORES_MAX = 4096, GRES_NAME_MAX = 96 };

typedef struct CoreSet {
    uint64_t bits[GRES_CORES_MAX / 64];
} CoreSet;

static inline bool core_set_has(const CoreSet *set, unsigned core)
{
    return set->bits[core / 64] >> (core % 64) & 1;
}

static inline void core_set_add(CoreSet *set, unsigned core)
{
    set->bits[core / 64] |= UINT64_C(1) << (core % 64);
}

/* A MIG device: a compute instance and its GPU instance. */
typedef struct GresInstance {
    uint32_t gpu_instance, compute_instance; /* the driver's ids */
    uint32_t gi_minor, ci_minor;             /* of /dev/nvidia-caps/nvidia-capN; 0: not known */
    char profile[MIG_NAME_SIZE];             /* "1g.10gb", "1c.3g.40gb" */
} GresInstance;

typedef struct GresGpu {
    unsigned index; /* NVML's: by PCI bus id, as CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID */
    uint32_t minor; /* of /dev/nvidiaN */
    char name[GRES_NAME_MAX], pci[24];
    bool mig; /* MIG mode is on */
    size_t instance_count;
    GresInstance instances[GRES_INSTANCES_MAX];
    uint16_t links[GRES_GPUS_MAX]; /* active NVLinks that lead to each other GPU, by index; not read with MIG */
    bool cores_known;
    CoreSet cores;          /* near the GPU */
    char why[MIG_WHY_SIZE]; /* why it could not be read; "" where it was */
} GresGpu;

/* Whether the slurmd of this machine can detect GPUs with AutoDetect=nvml. */
typedef enum GresPlugin { GRES_PLUGIN_NOT_KNOWN, GRES_PLUGIN_MISSING, GRES_PLUGIN_THERE } GresPlugin;

typedef struct GresNode {
    size_t count;
    GresGpu gpus[GRES_GPUS_MAX];
    unsigned core_count; /* 0: not known */
    GresPlugin plugin;
} GresNode;
