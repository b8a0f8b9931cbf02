/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The plan of a simulation, a YAML file: nodes, queues, jobs (of a file, or by chance), failures, how jobs are
 * scheduled, and nodes that could be bought. Everything lies in the arena. Errors have file, line and column.
 */

#include "base/yaml.h"
#include "engine/place/generate.h"
#include "engine/place/simulate.h"

enum { PLAN_NODES_MAX = 200 * 1000, PLAN_JOBS_MAX = 1000 * 1000, PLAN_OFFERS_MAX = 32 };

/* Nodes of one kind. */
typedef struct PlanNodes {
    const char *name, *model; /* model as written: its number is given when all are known */
    ClusterNode node;
    uint64_t count, per_rack, per_block; /* 0: in none */
} PlanNodes;

typedef struct PlanList {
    PlanNodes *at;
    size_t len;
} PlanList;

typedef struct Plan {
    const char *nodes_file, *jobs_file; /* NULL: none */
    bool sacct;                         /* the jobs' file is of sacct, else of openb */
    PlanList nodes, offers;
    ClusterQueue *queues;
    size_t queue_count;
    GenerateOptions generate; /* load 0: the jobs of the file at their own times */
    const PlacementMode *mode;
    SimulateOptions simulate;
} Plan;

/* `root`: of the file `path`, beside which its files are looked for. `boards`: the file with the MIG profiles of GPU
 * models (mig/boards.yaml), which is read where nodes have `mig: true`. */
int plan_read(const char *path, const YamlNode *root, const char *boards, Arena *arena, Plan *ret, Err *err);
/* One more entry, behind the plan's own, of which other plans keep theirs. */
PlanNodes *plan_append(Plan *plan, const PlanNodes *like, uint64_t count, Arena *arena);
/* One more kind of node, as "16xH100x8": 16 nodes with 8 H100 each, with the cores, memory, price and watts of the
 * plan's nodes with this model. -EINVAL: not of this form, or no node of the plan has the model. */
int plan_add_nodes(Plan *plan, const char *text, Arena *arena, Err *err);
/* So many of the nodes of a name in MIG mode, as "NAME=NODES", like others of the plan with their model. */
int plan_set_mig(Plan *plan, const char *text, Arena *arena, Err *err);
/* The quota of a queue, as "NAME=GPUS". */
int plan_set_quota(Plan *plan, const char *text, Err *err);
/* The nodes of the plan, after `before` (of a file; their models first). */
int plan_build(const Plan *plan, const Cluster *before, Arena *arena, Cluster *ret, Err *err);

/* A mode with weights of its own, of a mapping of terms to numbers; a term that is not there weighs as in `base`. */
int plan_read_weights(const YamlNode *map, const PlacementMode *base, Arena *arena, const PlacementMode **ret,
                      Err *err);

extern const char plan_example[]; /* a plan to begin with, with comments */
