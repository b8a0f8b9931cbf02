/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The devices that a process sees: those of the node by their bus address, or what CUDA_VISIBLE_DEVICES names. */
#include "sim/cuda/lib.h"

/* Fills cu_process.devices from its image. */
void cu_devices_find(void);
/* NULL: there is no such device. */
CuDevice *cu_device(CUdevice ordinal);
/* The device of a context; NULL: it is none, or released. */
CuDevice *cu_device_of(CUcontext context);
/* Facts that the node's boards do not have. */
uint32_t cu_device_l2_mib(const SimBoard *board);
typedef struct CuShared {
    int per_sm, optin; /* bytes of shared memory; of one block, asked for */
} CuShared;
CuShared cu_device_shared(const SimBoard *board);
/* "1g.10gb": the profile of a MIG device. */
const char *cu_device_profile(const CuDevice *device);
bool cu_device_is_geforce(const SimBoard *board);
/* The GPU that a bridge joins to this one, where links lead to peers; -1: none. */
int cu_device_bridged(const CuDevice *device);
