/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Plans of MIG layouts for a whole node, as people and scripts read them; layouts as files: a configuration in
 * mig-parted's format v1, and a state with places (mig-parted's checkpoint), in which a change under way is remembered
 * too. Decides nothing: engine/mig does. Pure, one thread.
 */

#include "engine/mig/apply.h"
#include "model/process.h"

enum { MIG_NEAREST_SHOWN = 3, MIG_BLOCKERS_MAX = 32 };

/* A process that a change would hit. */
typedef struct MigBlocker {
    uint32_t pid;
    int instance; /* position in the GPU's layout of now; -1: on the whole GPU */
    ProcessOwner owner;
} MigBlocker;

typedef struct MigGpuPlan {
    const MigGpu *gpu;
    bool asked; /* something is wanted of it; without, nothing below is set */
    MigLayout wanted;
    MigPlan plan;
    size_t nearest_count; /* layouts that can be had, where the wanted one cannot */
    MigLayout nearest[MIG_NEAREST_SHOWN];
    size_t blocker_count;
    MigBlocker blockers[MIG_BLOCKERS_MAX];
} MigGpuPlan;

typedef struct MigNodePlan {
    const MigTable *table; /* planned without a GPU, by this table; NULL: by a driver */
    size_t count;
    MigGpuPlan *gpus; /* borrowed */
} MigNodePlan;

/* Whether a plan changes anything of its GPU. */
bool mig_plan_changes(const MigPlan *plan);
/* The first GPU whose layout cannot be had, NULL: there is none. */
const MigGpuPlan *mig_find_impossible(const MigNodePlan *plan);

void mig_plan_text(const MigNodePlan *plan, Str *to);
void mig_gpu_plan_text(const MigGpuPlan *one, Str *to);
/* "vllm (pid 4711, pod serving/chat-1, user root)" */
void mig_blocker_text(const MigBlocker *blocker, Str *to);
/* {"possible":..., "reason":..., "gpus":[...]}, ended by a newline: docs/mig.schema.json. */
void mig_plan_json(const MigNodePlan *plan, Str *to);

/* How each GPU is split now: "GPU 0: 3g.40gb at 4-7, ...". */
void mig_node_text(const MigNode *node, Str *to);

/* The layouts of now as a configuration named `label`, in mig-parted's format v1: equal GPUs together, with a device
 * filter where there are boards of several kinds. GPUs without MIG are left out. */
void mig_export_yaml(const MigNode *node, const char *label, Str *to);
void mig_export_json(const MigNode *node, const char *label, Str *to);

/* --- mig_state.c -------------------------------------------------------------------------------------------------- */

/* The layouts of now, with places, as mig-parted's checkpoint; ended by a newline. */
void mig_state_write(const MigNode *node, Str *to);
/* The layouts of such a text, for the GPUs of the node by UUID: wanted[i] and asked[i] are of node->gpus[i]; of one
 * that could not be read (`why`) asked[i] alone is set. -EINVAL: no such text; -ENOENT: a GPU or a profile that the
 * node does not have. */
int mig_state_read(const char *text, size_t len, const MigNode *node, MigLayout wanted[MIG_GPUS_MAX],
                   bool asked[MIG_GPUS_MAX], Err *err);

/* A change under way: {"version":1,"before":...,"after":...}, both as above. */
void mig_change_write(const MigChange *change, const MigNode *node, Str *to);
/* -ENODEV beside the above: one of its GPUs cannot be read now. */
int mig_change_read(const char *text, size_t len, const MigNode *node, MigChange *ret, Err *err);
