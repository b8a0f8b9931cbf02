/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stoker-bench process as its parent sees it: started for one GPU or for all links, its records passed on as they
 * come, stopped within a bounded time whatever the driver does. On a uv loop; one thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/arena.h"
#include "base/subproc.h"
#include "model/bench.h"

typedef struct BenchWorker BenchWorker;

typedef struct BenchWorkerSpec {
    const char *program;        /* stoker-bench */
    bool links;                 /* what several GPUs do together; else one GPU alone */
    bool waits;                 /* after its start, for bench_worker_go */
    const char *const *options; /* KEY=VALUE, NULL-ended: source/cuda/worker.h */
    const char *devices;        /* UUIDs with commas between, in the order of its records */
    const char *library;        /* of libcuda; NULL: as the linker finds it */
    /* A record, or the process has ended (record NULL). */
    void (*give)(void *self, BenchWorker *worker, const BenchRecord *record);
    void *self;
    uint32_t tag; /* the caller's */
} BenchWorkerSpec;

struct BenchWorker {
    BenchWorkerSpec spec;
    Subproc child;
    pid_t pid; /* of the child, also after its end */
    uv_poll_t poll;
    bool open;               /* its pipe is */
    BenchStage stage;        /* that it said last; BENCH_STAGE_START until it says */
    uint64_t stage_since_ns; /* monotonic */
    bool heard;              /* a record has come */
    bool waits;              /* until bench_worker_go */
    uint32_t ended_stages;   /* bits of those before it, which ended well */
    bool ended, stuck;       /* stuck: it does not end even on SIGKILL */
    SubprocEnd end;          /* where it ended */
    uint64_t kill_at_ns;     /* SIGTERM was sent, and SIGKILL is due then; 0: not */
    bool killed;
    size_t have; /* bytes of the next record */
    union {
        BenchRecord record;
        char bytes[sizeof(BenchRecord)];
    } next;
};

/* -errno. The spec's texts are borrowed for as long as the worker. */
int bench_worker_start(BenchWorker *worker, uv_loop_t *loop, const BenchWorkerSpec *spec, Err *err);
/* One that waits goes on, once it has been heard. */
void bench_worker_go(BenchWorker *worker);
enum { BENCH_WORKER_GRACE_MS = 1000 };
/* Asks it to end: SIGTERM now, SIGKILL by bench_worker_check later. Of several calls the shortest time counts. */
void bench_worker_stop(BenchWorker *worker, uint32_t grace_ms);
/* Looks whether it has ended, kills it where it was asked to end and has not. True: it ended or is abandoned. Call it
 * now and then; `give` is called once with NULL when it becomes true. */
bool bench_worker_check(BenchWorker *worker);
/* It said that it has done everything, and its end was as it should be. */
bool bench_worker_ended_well(const BenchWorker *worker);
/* Frees when the loop has closed its handle; a process that is left is abandoned. */
void bench_worker_close(BenchWorker *worker);
