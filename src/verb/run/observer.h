/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The observer of `stoker run`: a child process that reads the driver through samplers while the command runs, and
 * keeps what it counts in shared memory. A driver that hangs can hang the observer, never its parent: the parent takes
 * the numbers as they were last. One thread.
 */

#include "base/err.h"
#include "base/opt.h"
#include "engine/usage/usage.h"
#include "verb/agent/local_node.h"
#include "verb/run/mlflow.h"

/* What each process of the command has in its environment, so that those are found that are no descendants: tasks
 * that slurmd starts for srun. */
#define OBSERVER_MARK "STOKER_RUN_ID"
enum { OBSERVER_MARK_CAP = 64, OBSERVER_LEFT_MAX = 4 };

typedef struct ObserverSpec {
    const LookOptions *look;
    OptList gpus;                     /* report these instead of those that the command's processes use */
    const char *mark;                 /* the value of OBSERVER_MARK */
    uint64_t start_ns, start_real_ns; /* of the command, the clock's monotonic and real time */
    int series_fd;                    /* a line of JSON per interval goes there; -1: none */
    uint64_t interval_ns;
    const char *mlflow, *command; /* tracking server, NULL: none; name of the run that is made there */
    const Prices *prices;         /* NULL: those of a running agent */
    Arena *arena;
} ObserverSpec;

/* What was seen until now. */
typedef struct Observed {
    bool strangers;                   /* pids are of another namespace than the driver's: all GPUs are counted */
    bool ended;                       /* it saw the end of the command */
    int series_errno;                 /* a line could not be written; 0: all were */
    char why[ERR_TEXT_MAX];           /* nothing can be measured, because; "" */
    char mlflow_why[MLFLOW_WHY_CAP];  /* not all was logged, because; "" */
    uint32_t left_count;              /* processes of the command that are on a GPU after its end */
    uint32_t left[OBSERVER_LEFT_MAX]; /* the first of them */
    Usage usage;                      /* last: only the devices that are there are copied */
} Observed;

typedef struct Observer Observer;

/* Forks it. Its processes' ancestor is the caller; no descriptor of the caller stays open in it. */
int observer_start(const ObserverSpec *spec, Observer **ret, Err *err);

/* The caller reaped this child of its own: where it was the observer, its pid may be another's now. Accepts NULL. */
void observer_note_end(Observer *observer, pid_t pid);

/* The command ended so. Waits for the observer's last reading, and for the tracking server, for at most limit_ms and
 * ends it. What it saw lies in shared memory until observer_free. */
const Observed *observer_end(Observer *observer, int exit_status, int signal, int limit_ms);
void observer_free(Observer *observer); /* accepts NULL */
