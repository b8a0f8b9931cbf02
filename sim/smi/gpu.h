/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The GPUs that a command works on, and the readings that several outputs need, each asked for once per round: two
 * numbers of one struct then belong together. One thread.
 */
#include <stdbool.h>

#include "sim/smi/nvml.h"

enum { GPU_MAX = 64, GPU_MIG_MAX = 64, GPU_PROC_MAX = 4096 };

typedef struct GpuRemap {
    unsigned int correctable, uncorrectable, pending, failure;
} GpuRemap;

typedef struct Gpu {
    nvmlDevice_t handle;
    unsigned int index;
    unsigned int total; /* GPUs of the node */
    char bus_id[32];    /* "00000000:3B:00.0" */
    struct GpuCache {
#define GPU_READING(type, name, call)                                                                                  \
    struct {                                                                                                           \
        bool known;                                                                                                    \
        nvmlReturn_t rc;                                                                                               \
        type value;                                                                                                    \
    } name;
#include "sim/smi/gpu_readings.def"
#undef GPU_READING
    } cache;
} Gpu;

typedef struct GpuSet {
    unsigned int count;
    Gpu gpus[GPU_MAX];
} GpuSet;

/* nvmlReturn_t gpu_memory(Gpu *, const nvmlMemory_v2_t **ret) and so on: *ret is set and valid until gpu_forget; its
 * contents are zeros where the call failed. */
#define GPU_READING(type, name, call) nvmlReturn_t gpu_##name(Gpu *gpu, const type **ret);
#include "sim/smi/gpu_readings.def"
#undef GPU_READING

/* Drops what was read: the next round asks anew. */
void gpu_forget(Gpu *gpu);

/* Finds the GPUs named in `ids` (indexes, UUIDs, bus ids, separated by commas; NULL: all). Prints what is wrong where
 * it fails: 6 when there is none, 15 when one of them is lost. */
nvmlReturn_t gpu_set_open(const char *ids, GpuSet *ret);

/* A MIG device of a GPU. */
typedef struct MigDevice {
    nvmlDevice_t handle;
    unsigned int index, gi, ci;
} MigDevice;

bool gpu_mig_enabled(Gpu *gpu);
/* Fills devices[GPU_MIG_MAX]; returns how many there are, in the library's order. */
unsigned int gpu_mig_devices(Gpu *gpu, MigDevice *devices);

/* A process with a context; gi and ci are GPU_NO_ID outside of MIG. */
#define GPU_NO_ID 0xFFFFFFFFu
typedef struct GpuProc {
    unsigned int pid, gi, ci;
    const char *type; /* "C", "G", "C+G", "M+C" */
    unsigned long long used_bytes;
    bool used_known;
} GpuProc;

/* Processes of the GPU, compute first; a process with both kinds of context comes once. An allocation for free();
 * *ret_count is always set. */
GpuProc *gpu_procs(Gpu *gpu, unsigned int *ret_count);

/* One field value; scope 0 where the id has none. */
nvmlReturn_t gpu_field(Gpu *gpu, unsigned int id, unsigned int scope, nvmlFieldValue_t *ret);
/* Its number, whatever the type. */
double gpu_field_number(const nvmlFieldValue_t *field);

/* The memory of a GPU or MIG device, from the newest form of the call that the library has. */
nvmlReturn_t gpu_memory_of(nvmlDevice_t handle, nvmlMemory_v2_t *ret);
