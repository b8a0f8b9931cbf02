/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the GPUs and MIG devices of a node are made of, as labels of a node tell it. Plain data.
 */

#include "model/mig.h"

enum { MAKE_INSTANCES_MAX = 16, MAKE_FABRIC_CAP = 64, MAKE_VERSION_CAP = 80 };

/* Of a MIG device (nvmlDeviceAttributes_t). */
typedef struct MakeInstance {
    char uuid[DEVICE_UUID_CAP];
    uint32_t gpu_instance; /* the driver's id of the GPU instance; DEVICE_NO_NUMBER */
    uint32_t multiprocessors, gpu_slices, compute_slices, copy_engines, decoders, encoders, jpeg_engines, ofa_engines;
    uint64_t memory_mib;
} MakeInstance;

typedef struct MakeGpu {
    char uuid[DEVICE_UUID_CAP];
    int compute_major, compute_minor; /* compute capability; 0: not known */
    uint64_t memory_mib;
    uint32_t memory_bus_bits, memory_max_mhz; /* 0: not known */
    bool mig_capable;
    char fabric[MAKE_FABRIC_CAP]; /* "UUID.CLIQUE" of its NVLink fabric, once it is registered there; "" none */
    size_t instance_count;
    MakeInstance instances[MAKE_INSTANCES_MAX];
} MakeGpu;

typedef struct MakeNode {
    int cuda_version; /* of the driver: 13000; 0: not known */
    char driver_version[MAKE_VERSION_CAP];
    size_t count;
    MakeGpu gpus[MIG_GPUS_MAX];
} MakeNode;
