/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Scenarios: YAML files that say what a simulated node is made of, what runs on it, what happens when, and what a right
 * monitor would conclude. Reading one (a plain Scenario, no file is made) and building its image are separate, so that
 * listing, checking and fuzzing cost nothing. docs/appendix/scenarios.md is the language for users; its tables are made from the
 * same rows that read the files.
 * One thread at a time. Everything read lies in the caller's arena and borrows boards from the caller's BoardSet.
 */
#include "base/arena.h"
#include "base/err.h"
#include "sim/core/image.h"
#include "sim/scenario/board.h"
#include "sim/scenario/library.h"
#include "sim/scenario/truth.h"

enum {
    SCENARIO_WORKS_MAX = 64,   /* entries of `work` */
    SCENARIO_THEN_MAX = 16,    /* changes of one work */
    SCENARIO_STEPS_MAX = 2048, /* entries of `at` */
    SCENARIO_TRUTHS_MAX = 64,
    SCENARIO_OWNERS_MAX = 256,            /* entries of `owners`, of `given` */
    SCENARIO_OPS_MAX = SIM_OP_MAX - 1024, /* what remains is for injections and clients */
};

/* An op and the text that belongs to it (NULL: none): the text becomes an offset only in an image. */
typedef struct ScenarioOp {
    SimOp op;
    const char *text;
} ScenarioOp;

typedef struct ScenarioNode {
    const char *hostname, *driver;
    uint32_t cuda_version; /* 13010 */
    uint32_t generation;   /* 535, 550, 590 or 610: the symbols the library exports */
    uint64_t seed;
    uint64_t start_us; /* microseconds since 1970; 0 = when the image is built */
    uint32_t cgroups;  /* SimCgroups */
    uint32_t pids;     /* SimPids */
    double network;    /* of each adapter's link, 0 to 1 */
} ScenarioNode;

typedef struct ScenarioGpu {
    const SimBoard *board;
    double ambient_k, leak, cooling; /* leak, cooling: 0 = by the seed */
} ScenarioGpu;

/* One process on one GPU or MIG device: becomes image->works[position]. */
typedef struct ScenarioWork {
    const char *name, *kind, *process;
    const char *user, *command, *cgroup, *pod; /* as in SimOwner */
    int32_t gpu, mig, job, before;
    uint32_t rank, ranks, uid, pid, mps;
    uint32_t live_pid; /* of an injected work: a living process of the machine; 0: none */
    uint32_t draw;     /* seed of its course */
    double memory_mib, leak_mib_per_s, writes_mib, slow, step_s, intensity, load, offset_s;
    uint64_t start_ns, stop_ns; /* SIM_FOREVER: runs on */
} ScenarioWork;

typedef struct Scenario {
    const char *name, *about;
    ScenarioNode node;
    uint32_t gpu_count;
    ScenarioGpu gpus[SIM_GPU_MAX];
    const ScenarioWork *works;
    size_t work_count;
    const ScenarioOp *ops; /* in time order, then in the order of application */
    size_t op_count;
    const ScenarioTruth *truths;
    size_t truth_count;
    const ScenarioOwner *owners, *given;
    size_t owner_count, given_count;
} Scenario;

/* Reads a scenario from `len` bytes; `file` is what errors call it, its last part without the ending is the name.
 * Errors read "file:line:column: what; allowed: ...", code -EINVAL (-E2BIG over a cap). */
int scenario_parse(const char *file, const char *text, size_t len, BoardSet *boards, Arena *arena, const Scenario **ret,
                   Err *err);

/* Finds a scenario by name in `dirs` (NULL-ended) or by path, and reads it. -ENOENT with the nearest name. */
int scenario_load(const char *const *dirs, const char *what, BoardSet *boards, Arena *arena, const Scenario **ret,
                  Err *err);

/* What the one who builds decides. All zero and NULL: as the scenario says. */
typedef struct ScenarioBuild {
    uint64_t now_us;        /* wall clock for `start: now`; 0: asks the system */
    uint64_t seed;          /* 0: the scenario's */
    uint32_t generation;    /* 0: by the driver version */
    const char *driver;     /* NULL: the scenario's */
    const char *kernel_log; /* where kernel lines go; NULL: nowhere */
    const char *root;       /* folder of /proc and /sys look-alikes; NULL: none */
} ScenarioBuild;

/* Creates the image at `path` (replacing an older one), fills it and plans it. The clock stands at 0, paused. Close
 * it with sim_image_close. The same scenario and options give the same bytes apart from lock and clock. */
int scenario_build(const Scenario *scenario, const ScenarioBuild *how, const char *path, SimImage **ret, Err *err);

/* scenario_load and scenario_build in one. Directories are NULL-ended lists. */
int scenario_compile(const char *const *scenario_dirs, const char *const *board_dirs, const char *what,
                     const ScenarioBuild *how, const char *path, SimImage **ret, Err *err);

/* One injected step, given as words: {"xid", "79", "gpu=3"}. Fills ops (at most `max`) for sim_op_apply, in order;
 * op.t_ns is relative to now (0: now; later ones come from `for=`). Texts lie in the arena. -EINVAL says what is
 * allowed; -E2BIG when `max` does not suffice. */
int scenario_step_parse(SimImage *image, int argc, const char *const *argv, ScenarioOp *ops, size_t max,
                        size_t *ret_count, Arena *arena, Err *err);

/* One injected work, given as words: {"train", "gpus=0-3", "memory=40GiB"}. Fills works (at most `max`) for
 * sim_work_add; the caller starts each by a SIM_OP_WORK_START. *ret_stop_ns is how long they run (SIM_FOREVER). */
int scenario_work_parse(SimImage *image, int argc, const char *const *argv, SimWork *works, size_t max,
                        size_t *ret_count, uint64_t *ret_stop_ns, Arena *arena, Err *err);
