/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What this process knows between nvmlInit and nvmlShutdown, and what lib.c has for the other files. Written under the
 * init lock before the image is published; read by any thread afterwards.
 */
#include "sim/nvml/generation.h"
#include "sim/nvml/lib.h"

enum { NVML_GI_IDS = 16, NVML_CI_IDS = 8 }; /* instance ids are below these on every board */

typedef struct NvmlProcess {
    uint32_t visible_count, visible_mask;
    uint32_t visible[SIM_GPU_MAX]; /* image's GPU number by NVML index, in order of bus address */
    char bus_id[SIM_GPU_MAX][32], bus_id_legacy[SIM_GPU_MAX][16];
    int no_block;   /* STOKER_SIM_NOBLOCK: calls that block on hardware return at once */
    int no_libcuda; /* STOKER_SIM_NO_LIBCUDA: the CUDA library is missing */
} NvmlProcess;
extern NvmlProcess nvml_process;

/* The image while initialised, else NULL. */
SimImage *nvml_image(void);

/* Init and shutdown proper; every nvmlInit* comes here. */
nvmlReturn_t nvml_init(NvmlFn fn, unsigned int flags);
nvmlReturn_t nvml_shutdown(void);
/* NVML's own version, from the image if there is one, also before init. */
void nvml_version_text(char *buf, size_t size);

/* Builds the handle tables and the lists of GPUs that this process sees. */
void nvml_handles_build(SimImage *image);
/* 1 when `device` is an address inside the handle tables that belongs to a GPU of this process. */
int nvml_handle_valid(nvmlDevice_t device);

/* Sleeps as the hang rules for exactly (fn, gpu) say; gpu SIM_NONE: the rules that name no GPU. */
void nvml_hang(SimImage *image, NvmlFn fn, int32_t gpu);
/* Sleeps `ns` of real time. */
void nvml_sleep(uint64_t ns);

/* 1 for a clock that the board's memory can have. */
int nvml_is_memory_clock(const SimBoard *board, unsigned int mhz);

/* 1 when strict mode is on. */
int nvml_strict_on(void);
/* Appends one line to the trace; see trampolines.py. `device` may be NULL or garbage. */
void nvml_trace(NvmlFn fn, const void *device, nvmlReturn_t result);
extern _Atomic int nvml_trace_fd; /* -1: no trace; -2: not looked at yet */

/* Number of event sets that were not freed. events.c defines it. */
unsigned int nvml_event_sets_open(void) __attribute__((weak));

/* A stable number made up from a seed and a position. */
static inline uint64_t nvml_made_up(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* --- changes of the node: one op at the present virtual time, by root only -----------------------------------------
 */

/* Applies `op` to the call's GPU. NO_PERMISSION without root, else the op's outcome; ret_id (may be NULL) gets a new
 * id. */
static inline nvmlReturn_t nvml_change(const NvmlCall *call, SimOp op, uint32_t *ret_id)
{
    nvmlReturn_t rc = nvml_need_root();
    if (rc != NVML_SUCCESS)
        return rc;
    op.gpu = (int32_t)call->gpu;
    op.origin = SIM_FROM_CLIENT;
    return (nvmlReturn_t)sim_op_apply(call->image, &op, NULL, 0, ret_id);
}

/* Sets one setting of the call's GPU. */
static inline nvmlReturn_t nvml_change_key(const NvmlCall *call, SimKey key, uint64_t value)
{
    return nvml_change(call, (SimOp){.type = SIM_OP_SET, .a = {(int32_t)key}, .u = value}, NULL);
}

/* --- mig.c: GPU instances behind their handles ---------------------------------------------------------------------
 */

/* A handle is an address in a table by GPU and id: the same as long as the instance lives, and never read, so that
 * whatever a client passes is refused and not followed. */

/* A call on a GPU instance: its GPU, the instance and its profile (in the board's list). */
typedef struct InstanceCall {
    NvmlCall on;
    SimGi gi;
    const SimProfile *profile;
} InstanceCall;

/* Like nvml_enter_device, for a GPU instance: INVALID_ARGUMENT for an invalid handle or a destroyed
 * instance. */
nvmlReturn_t instance_enter(NvmlFn fn, nvmlGpuInstance_t handle, InstanceCall *ret);

/* The handle of an instance, NULL when the id is out of range. */
nvmlGpuInstance_t instance_handle(uint32_t gpu, uint32_t gi_id);

/* The live instance with that id, NULL when there is none. */
const SimGi *instance_find(const SimCond *cond, uint32_t gi_id);
