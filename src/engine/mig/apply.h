/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Carries out a change of MIG layouts so that a node is never left with a third one: what is changed is remembered
 * before the first step; after a step that fails or does not return, what stood before is put back; a change that was
 * cut off (kill -9, a power failure) is finished or undone by mig_change_resume. The driver and the disk are reached
 * through a table of functions. One thread.
 */

#include "engine/mig/mig.h"

/* One GPU of a change: what stood before, with its places, and what is to stand. */
typedef struct MigChangeGpu {
    unsigned index;
    char uuid[DEVICE_UUID_CAP];
    MigLayout before, after;
} MigChangeGpu;

typedef struct MigChange {
    size_t count;
    MigChangeGpu gpus[MIG_GPUS_MAX];
} MigChange;

typedef enum MigEnd {
    MIG_END_DONE,     /* the new layout stands, and was read back */
    MIG_END_RESTORED, /* it could not be had; the layout of before stands, and was read back */
    MIG_END_PARTIAL,  /* neither; what is remembered stays, and `resume` tries again */
    MIG_END_NOT_BEGUN /* nothing was touched: what is to be changed could not be remembered */
} MigEnd;

/* `at` is handed to each. As the functions of source/mig/mig_driver.h; after -ETIMEDOUT `reopen` is called before any
 * other. */
typedef struct MigOps {
    int (*read)(void *at, const MigNode **ret, Err *err);
    int (*set_mode)(void *at, unsigned gpu, bool on, Err *err); /* 1: it is so after a reset */
    int (*reset)(void *at, unsigned gpu, Err *err);             /* 0: the mode is in force now */
    int (*destroy)(void *at, unsigned gpu, uint32_t instance_id, Err *err);
    int (*create)(void *at, unsigned gpu, const MigInstance *instance, Err *err);
    int (*recompute)(void *at, unsigned gpu, uint32_t instance_id, const MigInstance *instance, Err *err);
    int (*reopen)(void *at, Err *err);
    int (*remember)(void *at, const MigChange *change, Err *err); /* on the disk when it returns */
    void (*forget)(void *at, MigEnd end);                         /* not called for PARTIAL and NOT_BEGUN */
    bool mode_later; /* a mode that needs a reset is set and left pending: somebody else resets the GPU */
} MigOps;

/* Carries out the change. *err says why it is not DONE: what failed, and for PARTIAL what could not be put back. */
MigEnd mig_change_apply(const MigOps *ops, void *at, const MigChange *change, Err *err);

/* Ends a change that was remembered and not forgotten: DONE where its last step had been made, else what stood before
 * is put back. GPUs are found by UUID. */
MigEnd mig_change_resume(const MigOps *ops, void *at, const MigChange *change, Err *err);
