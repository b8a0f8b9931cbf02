/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that runs one function on one job, on demand, for what may block for ever: files of /proc, a disk that
 * hangs. Nobody waits for it: not the caller, nor libuv's pool, nor the end of the program. One thread owns a worker.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

typedef struct Worker Worker;

/* `run` is called in the thread, `free_job` by whoever uses the job last. -errno where no thread can be started; the
 * job is freed then. */
int worker_new(void (*run)(void *job), void (*free_job)(void *job), void *job, Worker **ret, Err *err);

/* Runs the job once. It belongs to the thread until worker_is_busy says no. Not while it is busy. */
void worker_start(Worker *worker);
bool worker_is_busy(Worker *worker);

/* Ends the thread and frees worker and job: at once, or by the thread when the run that is under way returns. Accepts
 * NULL. */
void worker_free(Worker *worker);
