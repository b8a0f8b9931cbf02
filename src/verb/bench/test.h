/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One active test of GPUs: refuses where they are in use, takes their locks, runs the processes that test, watches
 * temperature, power, clocks, XIDs and newcomers meanwhile, and gives what was measured. It changes no setting. Blocks,
 * with a deadline. One thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "model/bench.h"
#include "verb/agent/local_node.h"
#include "verb/bench/worker.h"

typedef struct BenchTest BenchTest;

/* A test with a course of its own instead of stages (verb/bench/mig.c). */
typedef struct BenchCourse {
    /* The GPUs or MIG devices, by UUID; texts may lie in the node. An outcome of bench_test_run or -errno. */
    int (*choose)(void *self, const Node *node, OptList *ret, Err *err);
    int (*run)(void *self, BenchTest *test, Err *err);
    void *self;
} BenchCourse;

/* What a test does. */
typedef struct BenchPlan {
    const char *rung;                 /* "ready", ... */
    uint32_t gpu_stages, link_stages; /* bits of BenchStage: of each GPU by itself; of all together */
    uint64_t burn_ns;                 /* of the stage burn */
    uint64_t limit_ns;                /* all is stopped then */
    uint64_t usual_limit_ns;          /* what that is when nobody says otherwise */
    uint32_t windows, memory_percent; /* of each rate; of the free memory */
    const char *probes, *shape;       /* measures with commas between; "8192x8192x8192"; NULL: the usual ones */
    OptList gpus;                     /* none: all */
    const BenchCourse *course;        /* NULL: the stages above */
    void (*after)(BenchTest *test);   /* what comes after the test and changes nothing of it; NULL: nothing */
    bool in_use;                      /* also where something runs */
    const char *mps;                  /* pipe directory of an MPS daemon, whose server is no newcomer; NULL: none */
    const char *cuda_library;         /* NULL: as the linker finds it */
    const LookOptions *look;
    void (*progress)(void *self, const char *text); /* a line for a terminal; NULL: none */
    void *self;
} BenchPlan;

/* Outcomes > 0 of bench_test_run. */
enum {
    BENCH_REFUSED = 1, /* nothing was touched; the error says why */
    BENCH_NO_GPU = 2,  /* there is none, or the driver does not work; the error says why */
};

/* Catches SIGINT and SIGTERM, which end the test. Fills `ret`, which the caller frees (bench_run_done), also where a
 * part failed or was stopped: the run says so. 0, an outcome, or -errno. */
int bench_test_run(const BenchPlan *plan, Arena *arena, BenchRun *ret, Err *err);

/* --- for a course, or after the test ------------------------------------------------------------------------------ */

/* A process for the GPU at a place of the run. */
typedef struct BenchTask {
    uint32_t gpu, stages;
    const char *more; /* KEY=VALUE besides; NULL: none */
    /* As in BenchWorkerSpec; bench_test_record keeps what the course has no use for itself. */
    void (*give)(void *self, BenchWorker *worker, const BenchRecord *record);
    void *self;
} BenchTask;

int bench_test_start(BenchTest *test, const BenchTask *task, BenchWorker **ret, Err *err);
/* One turn: records come, GPUs are watched. False: every process that was started has ended. */
bool bench_test_turn(BenchTest *test);
/* The test is to end: interrupted, out of time, a newcomer, heat. Its processes were told. */
bool bench_test_is_over(const BenchTest *test);
BenchRun *bench_test_result(BenchTest *test);
/* The process that tested the GPU by itself did all that it was told to. */
bool bench_test_ended_well(const BenchTest *test, uint32_t gpu);
void bench_test_record(void *test, BenchWorker *worker, const BenchRecord *record);
