/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * MIG instances behind their handles. A handle is an address in a table by GPU and id: the same as long as the instance
 * lives, and never read, so that whatever a client passes is refused and not followed. Any thread may call.
 */
#include "sim/nvml/lib.h"

/* A call on a GPU instance: its GPU, the instance and its profile (in the board's list). */
typedef struct InstanceCall {
    NvmlCall on;
    SimGi gi;
    const SimProfile *profile;
} InstanceCall;

/* Like nvml_enter_device, for a GPU instance: INVALID_ARGUMENT for what is no handle and for one whose instance is
 * gone. */
nvmlReturn_t instance_enter(NvmlFn fn, nvmlGpuInstance_t handle, InstanceCall *ret);

/* The handle of an instance, NULL when the id is out of range. */
nvmlGpuInstance_t instance_handle(uint32_t gpu, uint32_t gi_id);

/* The live instance with that id, NULL when there is none. */
const SimGi *instance_find(const SimCond *cond, uint32_t gi_id);
