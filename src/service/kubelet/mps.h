/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the control daemons of NVIDIA's Multi-Process Service (MPS) running that are wanted, and ends the others. A
 * daemon runs on its own: it outlives the keeper's process, and the next keeper of the same folder takes it over. On
 * the loop's thread; nothing blocks.
 *
 * Below the keeper's root, each daemon has the folder NAME with pipe/ and log/, which clients get, and daemon.json:
 * what was begun, with which settings.
 */

#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "model/make.h"

enum {
    MPS_NAME_CAP = 128,
    MPS_WHY_CAP = 512,
    MPS_CLIENTS_MAX = 48, /* of a GPU, from Volta on; before: MPS_CLIENTS_OLD */
    MPS_CLIENTS_OLD = 16,
};

#define MPS_LIMIT_UNKNOWN UINT64_MAX

typedef struct MpsDaemonConfig {
    const char *name; /* of its folder below the root, and in messages: "nvidia.com/gpu"; shorter than MPS_NAME_CAP */
    const char *const *uuids; /* GPUs; one that is not known to the driver is left out, the others are served */
    size_t uuid_count;
    const uint64_t *limit_bytes; /* of device memory that a client can allocate, for each UUID; 0: none;
                                    MPS_LIMIT_UNKNOWN: any is taken as the right one. NULL: none at all */
    unsigned thread_percent;     /* of a GPU's threads, for a client; 0: not set */
} MpsDaemonConfig;

#define MPS_STATE_TABLE(WORD)                                                                                          \
    WORD(MPS_ABSENT, "absent")     /* not wanted, and none runs */                                                     \
    WORD(MPS_STARTING, "starting") /* or waits for another one to end */                                               \
    WORD(MPS_READY, "ready")       /* it answers, and has its settings */                                              \
    WORD(MPS_FAILED, "failed")     /* tried again, after growing times */                                              \
    WORD(MPS_ENDING, "ending")     /* not wanted: it ends when its clients have ended */
typedef enum MpsState { MPS_STATE_TABLE(WORD_ID) MPS_STATE_END } MpsState;

extern const WordRow mps_states[MPS_STATE_END];

typedef struct MpsKeeperConfig {
    const char *root;        /* the keeper's folder; absolute. Texts are copied */
    const char *driver_root; /* where this process sees the root in which NVIDIA's programs lie; "": "/" */
    const char *cgroup_root; /* of cgroups 2: what is run is put into its cgroup stoker-mps, since that of a container
                                ends with it and has its limits */
    bool own_shm;            /* each daemon has a folder shm of its own; else all have ROOT/shm */
    uint64_t period_ns;      /* between two questions to a daemon that is ready */
    uint64_t retry_ns;       /* after a failure, then twice as long each time */
    uint64_t limit_ns;       /* a program of the driver that takes longer is killed */
    bool *changed;           /* set when a state is another one than before */
    const Log *log;
} MpsKeeperConfig;

typedef struct MpsKeeper MpsKeeper;

/* Does nothing before it is told what is wanted. */
MpsKeeper *mps_keeper_new(uv_loop_t *loop, const MpsKeeperConfig *config);
/* All that have to run from now on: starts those that do not, starts those again whose settings differ, ends the
 * others, also those of an earlier process. A daemon that serves more GPUs than it has to is let be. Copies. */
void mps_keeper_want(MpsKeeper *keeper, const MpsDaemonConfig *configs, size_t count);
/* How a daemon does for a GPU (`uuid` NULL: for any); where it is not ready, `why` is a text for a person. A ready one
 * that was started without this GPU counts as failed. */
MpsState mps_keeper_state(const MpsKeeper *keeper, const char *name, const char *uuid, char why[MPS_WHY_CAP]);
/* Lets the daemons run; frees when the loop has closed its handles. Accepts NULL. */
void mps_keeper_close(MpsKeeper *keeper);

/* The same for another process: what the keeper of this root has noted last. */
MpsState mps_read_state(const char *root, const char *name, const char *uuid, char why[MPS_WHY_CAP]);
