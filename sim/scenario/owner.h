/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside the reading of a scenario: in whose name the processes of a work run. A user is known by number or by name;
 * a pod, a container or a batch job is a cgroup whose path is made as the kubelet, the runtimes and Slurm make it. One
 * thread at a time; texts lie in the arena.
 */
#include "sim/scenario/parse.h"

/* What an entry of `work` says of it. */
typedef struct OwnerArgs {
    const char *user, *command, *pod, *job; /* NULL: not given; user always is */
    uint32_t container;                     /* position in owner_runtimes */
} OwnerArgs;

extern const char *const owner_runtimes[]; /* NULL-ended; the first is none */

/* What the processes of one entry have in common. */
typedef struct Owner {
    uint32_t uid;
    const char *user, *command;
    const char *namespace, *pod, *job, *step; /* NULL: none */
    uint32_t container;
} Owner;

/* `work` gives name, kind and process. -EINVAL names the key and the error. */
int owner_read(const OwnerArgs *args, const ScenarioWork *work, const YamlNode *node, Arena *arena, Owner *ret,
               Err *err);

/* Owner of one process, which has its rank and job: `number` tells this entry from others, `alone` says that it shares
 * pod and container with none of the entry's. */
void owner_fill(const Owner *owner, const Parse *parse, uint32_t number, bool alone, ScenarioWork *work);

/* How much of a core a process takes that does such work. */
double owner_cores(const char *kind);
