/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a right monitor concludes: the labels of the scenario corpus. The words are data; tests of the agent compare
 * incidents with them.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"

typedef struct ScenarioTruth {
    uint64_t gpus;    /* bit per GPU, 0 = the node */
    const char *work; /* name of a work, NULL */
    uint32_t fault;   /* see truth_class_name and so on */
    uint32_t cause, action, route;
    uint64_t from_ns, until_ns; /* when it holds; UINT64_MAX = to the end */
    uint32_t xid;               /* root XID, 0 = none */
    const char *severity;       /* what it comes to; NULL: any */
    const char *note;           /* NULL */
} ScenarioTruth;

/* Whose the time of a GPU or MIG device is, by the truth; or who is given it by a workload manager, for tests that stand
 * in for the kubelet or write job files. */
typedef struct ScenarioOwner {
    uint32_t gpu;
    int32_t mig;                            /* index of the MIG device; SIM_NONE: the whole GPU */
    const char *user, *job, *namespace, *pod; /* NULL: none; all NULL: whose is not known */
    const char *container;                  /* its name; NULL: none, or any */
    uint32_t how;                           /* see truth_how_name; 0 of who is given it */
    double share;                           /* of the device */
    uint64_t from_ns, until_ns;
} ScenarioOwner;

/* How a right monitor attributes the time: "exclusive", ...; NULL beyond the last. */
const char *truth_how_name(uint32_t i);

/* Reads one entry of `owners`, or of `given` (which says no `how` and no `share`). */
int truth_read_owner(const YamlNode *node, uint32_t gpu_count, bool given, Arena *arena, ScenarioOwner *ret, Err *err);

/* Names for the numbers above; NULL beyond the last. */
const char *truth_class_name(uint32_t i);
const char *truth_cause_name(uint32_t i);
const char *truth_action_name(uint32_t i);
const char *truth_route_name(uint32_t i);

/* Reads one entry of `truth` for a node of `gpu_count` GPUs. The work's name is not checked here. */
int truth_read(const YamlNode *node, uint32_t gpu_count, Arena *arena, ScenarioTruth *ret, Err *err);

/* The verdict in one line: "gpu 3: gpu-lost (bus) -> drain-and-reboot". */
void truth_write(const ScenarioTruth *truth, Str *out);

void truth_page(Str *out);
void truth_owners_page(Str *out);
