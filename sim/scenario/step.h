/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Steps: what can happen to a node. One const row per step (name, arguments, how it becomes ops); the timeline of a
 * scenario and `sim inject` read the same rows. Nothing here looks at an image: a StepNode says what is there, filled
 * from a scenario or from a running node. One thread at a time.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "sim/core/image.h"
#include "sim/scenario/field.h"
#include "sim/scenario/scenario.h"

enum { STEP_FIELDS_MAX = 24 };

/* A process that steps can name. */
typedef struct StepWork {
    const char *name, *process;
    int32_t index, gpu, mig; /* index in the image's works */
    uint32_t rank, pid;
    uint64_t start_ns, stop_ns;
    int first; /* not a later stage of another */
} StepWork;
typedef VEC(StepWork) StepWorks;
typedef VEC(ScenarioOp) StepOps;

/* What the steps work on. conds follows the ops, so that a step that names MIG instances knows them. */
typedef struct StepNode {
    uint32_t gpu_count;
    const char *driver; /* version */
    uint32_t cgroups;   /* SimCgroups */
    const SimBoard *boards[SIM_GPU_MAX];
    SimCond *conds; /* gpu_count of them, owned */
    StepWorks works;
    uint64_t hang_key[SIM_HANG_MAX]; /* function << 32 | gpu of the rule in each slot */
    uint8_t hang_used[SIM_HANG_MAX];
} StepNode;
void step_node_init(StepNode *node, uint32_t gpu_count, const SimBoard *const *boards);
void step_node_done(StepNode *node);

/* The arguments of all steps; a row's fields say which a step takes. */
typedef struct StepArgs {
    /* common */
    const char *what; /* the step's name */
    uint64_t time_ns, every_ns, for_ns, gpus;
    uint32_t times;
    /* of single steps */
    const char *text, *work, *function, *profile;
    uint64_t address, data, delay_ns, compute;
    int32_t link, mig, rank, start, gi;
    uint32_t pick, location, counter, severity, mode, health;
    uint32_t code, corrected, uncorrected, gen, width, count, status, after, power_mw, percent, on, failed, clear, all;
    uint32_t clock_min, clock_max, switch_number, slot_gen, slot_width;
    double rate, corrected_rate, uncorrected_rate, ambient_k, cooling;
    uint32_t sm, missing_sm, wrong_sm, peer, repeats, nan;
    double memory_speed, sm_speed, wrong, room;
    const YamlNode *node;        /* where it stands, NULL: words */
    bool given[STEP_FIELDS_MAX]; /* by position in the row's own fields */
} StepArgs;

/* One application of a step to one GPU (or SIM_NONE). */
typedef struct StepRun {
    StepNode *node;
    const StepArgs *args;
    const struct Step *step;
    StepOps *ops;
    Arena *arena;
    uint64_t t_ns;
    int32_t gpu;
    int undo; /* the end of `for`: back to how a GPU comes up */
} StepRun;

typedef enum StepScope { STEP_GPU, STEP_GPU_OR_NODE, STEP_NODE } StepScope;
enum { STEP_UNDO = 1, STEP_STATE = 2 }; /* `for` is allowed; its ops depend on the state, so repeats are unrolled */
typedef struct Step {
    const char *name, *help;
    StepScope scope;
    unsigned int flags;
    const Field *fields;
    size_t count;
    int (*make)(StepRun *run, Err *err);
    const char *example; /* as words for `sim inject` */
} Step;

/* All steps in the order of the documentation; NULL after the last. */
const Step *step_at(size_t i);
const Step *step_find(const char *name);

/* Reads one entry of the timeline, or words without time. *ret_step and *args are checked against the node. */
int step_read_map(const YamlNode *map, const StepNode *node, Arena *arena, const Step **ret_step, StepArgs *args,
                  Err *err);
int step_read_words(int argc, const char *const *argv, const StepNode *node, Arena *arena, const Step **ret_step,
                    StepArgs *args, Err *err);

/* Makes the ops of one occurrence at t_ns on all its GPUs and lets node->conds follow them. */
int step_make(const Step *step, const StepArgs *args, StepNode *node, uint64_t t_ns, int undo, Arena *arena,
              StepOps *ops, Err *err);

void step_page(Str *out);
