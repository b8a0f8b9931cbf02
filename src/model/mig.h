/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * MIG: what a board can be split into, and how one GPU is split. Plain data.
 *
 * A placement is a range of memory slices, the axis on which the driver places GPU instances (8 slices on A100, H100,
 * H200 and B200, 4 on A30, 12 on RTX PRO 6000).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/device.h"

enum {
    MIG_PROFILE_MAX = 32,  /* profiles of a board; drivers know 18 */
    MIG_INSTANCE_MAX = 16, /* GPU instances on a GPU; boards have at most 7 */
    MIG_COMPUTE_MAX = 8,   /* compute instances in a GPU instance */
    MIG_GRID_MAX = 31,     /* memory slices of a board: placements are bit masks */
    MIG_NAME_SIZE = 32,
    MIG_LAYOUT_CAP = 128, /* a layout as a word */
    MIG_START_ANY = 0xff,
};

/* Engines of which a board has few: an instance owns its share of them. */
typedef enum MigEngine { MIG_DECODER, MIG_ENCODER, MIG_JPEG, MIG_OFA, MIG_ENGINE_END } MigEngine;

typedef struct MigProfile {
    char name[MIG_NAME_SIZE]; /* "1g.10gb", "1g.10gb+me" */
    uint32_t id;              /* the number that nvidia-smi shows and the driver's calls take */
    uint32_t index;           /* NVML's enumerator, which only nvmlDeviceGetGpuInstanceProfileInfo takes */
    uint8_t slices;           /* of compute: the 3 of 3g.40gb */
    uint8_t max;              /* instances of it on one GPU */
    uint8_t size;             /* memory slices of a placement */
    uint32_t starts;          /* bit s: a placement may begin at memory slice s; 0: not known */
    uint32_t memory_mib;      /* 0: not known */
    uint32_t sm_count;        /* 0: not known */
    uint8_t copy_engines;     /* 0: not known */
    uint8_t engines[MIG_ENGINE_END];
    uint32_t compute_slices; /* bit c: compute instances of c slices can be made in it */
} MigProfile;

typedef struct MigBoard {
    char name[96];
    uint8_t slices; /* of compute, in all */
    uint8_t grid;   /* memory slices */
    uint8_t engines[MIG_ENGINE_END];
    MigProfile profiles[MIG_PROFILE_MAX];
    size_t profile_count;
} MigBoard;

/* A GPU instance with its compute instances, wanted or there. */
typedef struct MigInstance {
    uint8_t profile; /* index into the board's profiles */
    uint8_t start;   /* memory slice, or MIG_START_ANY where it is only wanted */
    uint8_t compute_count;
    uint8_t compute[MIG_COMPUTE_MAX]; /* slices of each compute instance, the largest first */
    bool used;                        /* there: a process runs in it */
    uint32_t id;                      /* there: the driver's id of the GPU instance */
} MigInstance;

typedef struct MigLayout {
    bool enabled; /* MIG mode; instances only where it is */
    size_t count;
    MigInstance instances[MIG_INSTANCE_MAX];
} MigLayout;

/* Sets the totals of a board from its profiles: the largest has all of it. */
void mig_board_seal(MigBoard *board);

/* The sizes of compute instances that drivers offer in a GPU instance of so many slices, as MigProfile.compute_slices.
 */
uint32_t mig_compute_sizes(unsigned slices);

/* Adds a compute instance of so many slices, the largest first. There must be room: MIG_COMPUTE_MAX. */
void mig_add_compute(MigInstance *instance, uint8_t slices);

/* The layout of a GPU with these MIG devices as one word, which `stoker mig apply GPU=` takes: the largest first, equal
 * ones counted: "3g.40gb+2x1g.10gb", "3x1c.3g.40gb"; without any "none", with MIG disabled "off". Sorts `names`. */
void mig_layout_word(bool enabled, const char **names, size_t count, char to[MIG_LAYOUT_CAP]);

/* NVML's enumerators of compute instances, NVML_COMPUTE_INSTANCE_PROFILE_*, and their slices. 0 slices: no such number;
 * UINT32_MAX: no compute instance of so many slices. */
unsigned mig_compute_slices(unsigned index);
unsigned mig_compute_index(unsigned slices);

/* --- the GPUs of a node, as a driver reports them -------------------------------------------------------------------
 */

enum { MIG_GPUS_MAX = 64, MIG_PROCESSES_MAX = 64, MIG_WHY_SIZE = 160 };

typedef struct MigProcess {
    uint32_t pid, gpu_instance; /* DEVICE_NO_NUMBER: on the whole GPU */
} MigProcess;

typedef struct MigGpu {
    unsigned index;
    char uuid[DEVICE_UUID_CAP], pci[24];
    uint32_t device, subsystem; /* PCI ids, as 0x233010DE */
    bool capable;               /* the board has MIG */
    bool pending;               /* the mode that follows a reset; equal to now.enabled where none is needed */
    bool needs_reset;           /* a change of the mode takes a reset (Ampere) */
    char why[MIG_WHY_SIZE];     /* why it could not be read; "" where it was */
    MigBoard board;
    MigLayout now;
    size_t process_count; /* of those below; more are not kept */
    MigProcess processes[MIG_PROCESSES_MAX];
} MigGpu;

typedef struct MigNode {
    size_t count;
    MigGpu gpus[MIG_GPUS_MAX];
} MigNode;
