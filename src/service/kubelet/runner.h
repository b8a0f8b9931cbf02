/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs programs that change GPUs, one after the other in the order in which they were asked for. On the loop's thread;
 * nothing blocks.
 */

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"

typedef struct Runner Runner;

/* `out` is what the program printed, in one line, for the call's time; err NULL: it ended well. */
typedef void (*RunnerDone)(void *self, const char *out, const Err *err);

enum { RUNNER_ARGS_MAX = 12 };

typedef struct RunnerSpec {
    const char *what; /* for messages: "the time slice of GPU-... cannot be set" */
    bool of_driver;   /* a program of the driver, looked for in its root */
    const char *argv[RUNNER_ARGS_MAX];
    RunnerDone done; /* called once, later; NULL: of no interest */
    void *self;
} RunnerSpec;

/* `driver_root`: where this process sees the root in which NVIDIA's programs lie; "": "/". Borrowed. */
Runner *runner_new(uv_loop_t *loop, const char *driver_root);
/* All texts are copied. */
void runner_add(Runner *runner, const RunnerSpec *spec);
/* Calls nothing with this `self` any more; what was begun goes on. */
void runner_forget(Runner *runner, const void *self);
/* Frees when the loop has closed its handles. Accepts NULL. */
void runner_close(Runner *runner);
