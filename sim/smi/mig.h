/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The verb `mig`. mig.c reads its arguments and creates and destroys, mig_list.c prints the tables, mig_find.c walks
 * profiles and instances.
 */
#include <stdbool.h>

#include "sim/smi/gpu.h"

enum { MIG_PROFILES_MAX = 32, MIG_INSTANCES_MAX = 64, MIG_CI_PROFILES = 9 };

/* argv[0] is the verb; the result is the exit code. */
int mig_main(int argc, char **argv);

/* What the arguments choose. */
typedef struct MigChoice {
    GpuSet *set;        /* GPUs with MIG enabled */
    const char *gi_ids; /* -gi, NULL: all */
    const char *ci_ids; /* -ci, NULL: all */
    const char *value;  /* of the command: "19,14" */
    bool with_compute;  /* -C */
} MigChoice;

/* mig_find.c: profiles in the order of the table, instances by id. They return how many there are. */
unsigned int mig_profiles(const Gpu *gpu, nvmlGpuInstanceProfileInfo_v2_t *out);
typedef struct MigInstance {
    nvmlGpuInstance_t handle;
    nvmlGpuInstanceInfo_t info;
    nvmlGpuInstanceProfileInfo_v2_t profile;
} MigInstance;
unsigned int mig_instances(const Gpu *gpu, const char *only_ids, MigInstance *out);
unsigned int mig_compute_profiles(const MigInstance *gi, nvmlComputeInstanceProfileInfo_v2_t *out);
typedef struct MigCompute {
    nvmlComputeInstance_t handle;
    nvmlComputeInstanceInfo_t info;
    nvmlComputeInstanceProfileInfo_v2_t profile;
} MigCompute;
unsigned int mig_computes(const MigInstance *gi, const char *only_ids, MigCompute *out);
/* "MIG 1g.10gb" -> "1g.10gb" */
const char *mig_bare_name(const char *name);

/* mig_list.c: the tables; 0 or an error after its message. */
nvmlReturn_t mig_list_profiles(const MigChoice *choice);
nvmlReturn_t mig_list_placements(const MigChoice *choice);
nvmlReturn_t mig_list_instances(const MigChoice *choice);
nvmlReturn_t mig_list_compute_profiles(const MigChoice *choice);
nvmlReturn_t mig_list_computes(const MigChoice *choice);
