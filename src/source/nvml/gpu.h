/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One GPU as its sampler holds it: the handle, what was read of it, its MIG devices, its event set and GPM buffers. The
 * readings here are the sampler's own; they go to the board at the end of a pass, if the GPU is still ours then. Made
 * when the GPU is given to this sampler, freed when it is taken away. One thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "source/board/board.h"
#include "source/nvml/convert.h"
#include "source/nvml/library.h"
#include "source/nvml/plan.h"

typedef struct NvmlCounters NvmlCounters;
typedef struct NvmlCounter NvmlCounter;

/* What all GPUs of a sampler share. */
typedef struct NvmlReader {
    Board *board;
    NvmlLibrary library;
    NvmlPlan plan;
    NvmlCounters *counters;  /* for GPUs without GPM; NULL: not wanted */
    bool peers_anew;         /* a GPU was attached: the others' status of it is outdated */
    uint32_t peers_next;     /* the GPU whose peers are read next */
    nvmlGpmMetricsGet_t gpm; /* for one call at a time */
    nvmlFieldValue_t fields[NVML_FIELDS_MAX];
} NvmlReader;

/* Two buffers of the driver: the older sample in the one, the newer goes into the other. */
typedef struct NvmlGpm {
    nvmlGpmSample_t sample[2];
    bool allocated, seeded;
    uint8_t older;        /* which of them */
    uint64_t older_ns;    /* kernel time of that sample */
    uint64_t good_ns;     /* kernel time of the last metrics that were had */
    uint32_t instance;    /* GPU instance, or DEVICE_NO_NUMBER for the whole GPU */
    NvmlCounter *counter; /* what stands in where there is no GPM; NULL: not yet */
} NvmlGpm;

typedef struct NvmlInstance {
    nvmlDevice_t handle;
    NvmlGpm gpm; /* of the first of a GPU instance */
    Reading reading;
} NvmlInstance;

/* Both generations of MIG devices: `now` of them is in use, the other is filled at a change. */
typedef struct NvmlInstances {
    uint32_t count;
    uint8_t now;
    NvmlInstance pool[2][NODE_INSTANCES_MAX];
} NvmlInstances;

/* The GPU's NVLinks to the others, as Board.gpus has them. */
typedef struct NvmlPeers {
    Sample status[NODE_GPUS_MAX];
    uint32_t left; /* entries still to be read in this round, from the last on */
    bool changed;  /* since the last publication */
} NvmlPeers;

/* Its own NVLinks. */
typedef struct NvmlLinks {
    BoardLinkList list;
    bool by_function; /* their state is not in a field */
    bool changed;     /* since the last publication */
} NvmlLinks;

/* What runs on it. */
typedef struct NvmlProcesses {
    BoardProcessList list;
    uint64_t since_us; /* the driver's time from which on shares are asked for */
    uint64_t next_us;  /* what since_us becomes a second after next_ns; 0: nothing read yet */
    uint64_t next_ns;
    uint32_t slow_reads; /* of the lists, in a row until now */
    bool changed;
} NvmlProcesses;

typedef struct NvmlGpu {
    NvmlReader *reader;
    BoardGpu *row; /* on the board */
    NvmlTarget target;
    nvmlDevice_t handle; /* NULL: not attached */
    Reading reading;
    uint32_t plan_number; /* of the plan that the reading follows; 0: none */
    uint32_t links;       /* NVLinks */
    bool no_mig;          /* known to have no MIG */
    uint32_t gpm_support; /* as BoardGpu.gpm */
    nvmlEventSet_t events;
    NvmlGpm gpm;
    NvmlInstances mig;
    NvmlPeers peers;
    NvmlLinks nvlinks;
    NvmlProcesses processes;
    struct {
        uint64_t asked_ns; /* 0: not yet */
        nvmlReturn_t answer;
    } inforom;
    NvmlRate rates[METRIC_END];
    uint64_t retry_ns; /* kernel time at which attaching is tried again */
    struct {
        uint32_t good, failed;
        nvmlReturn_t code; /* of the last that failed */
    } pass;
} NvmlGpu;

NvmlGpu *nvml_gpu_new(NvmlReader *reader, uint32_t index);
/* Releases all of the driver's objects, if the driver is up, and frees the GPU. */
void nvml_gpu_free(NvmlGpu *gpu);
/* Releases the handle and what depends on it; the readings stay. */
void nvml_gpu_detach(NvmlGpu *gpu);

/* One pass over the paces whose bits (1 << METRIC_PACE_...) are set, plus what a new plan or a new handle needs;
 * publishes the result if the GPU is still ours. False where the driver went away. */
bool nvml_gpu_pass(NvmlGpu *gpu, uint32_t paces);
/* Between two passes: hands on the events that have come. */
void nvml_gpu_read_events(NvmlGpu *gpu);
/* Whether it waits for its first pass, or for one after a change of plan. */
bool nvml_gpu_is_new(const NvmlGpu *gpu);
/* The calls of pace BLOCKING: their number, and one of them. False where it is not wanted or not possible. */
uint32_t nvml_blocking_rows(void);
bool nvml_gpu_read_blocking(NvmlGpu *gpu, uint32_t which);
/* Makes all values absent because of the driver as a whole, and publishes that. */
void nvml_gpu_set_absent(NvmlGpu *gpu, Absence why);
