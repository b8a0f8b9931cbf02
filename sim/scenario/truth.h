/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a right monitor concludes: the labels of the scenario corpus. The words are data; tests of the agent compare
 * incidents with them.
 */
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
    const char *note;           /* NULL */
} ScenarioTruth;

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
