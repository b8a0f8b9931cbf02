/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was declared: who a device was given to, as the kubelet says (pod, namespace, container) or a workload manager's
 * files (job). A table is filled by its source, read by the outputs and replaced as a whole; texts lie in the table's
 * arena. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/process.h"
#include "model/reading.h"

/* Which device an id means. The forms are those of the device plugins; see allocation_device_parse. */
typedef struct AllocationDevice {
    char uuid[DEVICE_UUID_CAP];              /* of a GPU or MIG device, "" where the id has a number instead */
    uint32_t minor;                          /* N of nvidiaN, else DEVICE_NO_NUMBER */
    uint32_t gpu_instance, compute_instance; /* with a GPU's uuid or minor: a MIG device of it; else DEVICE_NO_NUMBER */
    char replica[16];                        /* of a time-sliced or MPS device, "" for the whole one */
} AllocationDevice;

/* How a device was given by dynamic resource allocation; texts, "" where there is none. */
typedef struct AllocationClaim {
    const char *name, *namespace, *driver, *pool, *device;
    const char *profile; /* of a MIG device */
} AllocationClaim;

/* A label of a pod, under the name that it has in metrics. */
typedef struct AllocationLabel {
    const char *name, *value;
} AllocationLabel;

typedef struct Allocation {
    AllocationDevice device;
    const char *pod, *namespace, *container;
    const char *pod_uid;                 /* "" where unknown */
    const char *owner_kind, *owner_name; /* of the pod, as the API server says: "Job", "train"; "" unknown */
    AllocationClaim claim;               /* all "" for a device of a device plugin */
    const AllocationLabel *labels;
    size_t label_count;
} Allocation;

/* A GPU, or a MIG GPU instance on it, that was given to a batch job. */
typedef struct JobAllocation {
    uint32_t gpu;          /* NVML's index */
    uint32_t gpu_instance; /* DEVICE_NO_NUMBER: the whole GPU */
    const char *job;
} JobAllocation;

/* The same, by the environment of the job's tasks; a row for each task that names it. */
typedef struct JobDevice {
    char job[PROCESS_JOB_CAP];
    AllocationDevice device;
    uint32_t pid; /* of the task */
} JobDevice;

/* A job that is over, whatever files still say. */
typedef struct EndedJob {
    char job[PROCESS_JOB_CAP];
} EndedJob;

typedef struct AllocationTable {
    Arena arena;
    Allocation *at;
    size_t len, cap;
} AllocationTable;

/*
 * Parse a device id: "GPU-<uuid>", "GPU-<uuid>::N", "MIG-<uuid>[::N]", "MIG-GPU-<uuid>/gi/ci[::N]", and GKE's
 * "nvidiaN", "nvidiaN/giM", "nvidiaN/vgpuK", "nvidiaN/giM/vgpuK". -EINVAL for anything else, with *ret untouched.
 * A uuid is any letters, digits and dashes; numbers are decimal. K and the N behind "::" are the replica.
 */
int allocation_device_parse(const char *id, AllocationDevice *ret);

/* Whether `device` means this MIG device (instance not NULL) or this whole GPU (instance NULL). A GPU instance without
 * the number of a compute instance ("nvidiaN/giM") means each MIG device in it. */
bool allocation_device_is(const AllocationDevice *device, const Reading *gpu, const Reading *instance);

/* The pod with this UID or, where no row has it, the only pod without one that was given the GPU; NULL: not known, and
 * for "". Accepts a NULL table. */
const Allocation *allocation_find_pod(const AllocationTable *table, const char *uid, const Reading *gpu);

void allocation_table_init(AllocationTable *table);
void allocation_table_done(AllocationTable *table);
/* Empties it; the memory stays. */
void allocation_table_clear(AllocationTable *table);
/* Adds a row; texts are copied, NULL becomes "". */
void allocation_table_add(AllocationTable *table, const Allocation *row);
