/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for src/base/worker.c: each job is run at once, in the caller's thread. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/worker.h"

struct Worker {
    void (*run)(void *job);
    void (*free_job)(void *job);
    void *job;
};

int worker_new(void (*run)(void *job), void (*free_job)(void *job), void *job, Worker **ret, Err *err)
{
    Worker *worker = xcalloc(1, sizeof *worker);

    (void)err;
    *worker = (Worker){run, free_job, job};
    *ret = worker;
    return 0;
}

void worker_start(Worker *worker)
{
    worker->run(worker->job);
}

bool worker_is_busy(Worker *worker)
{
    (void)worker;
    return false;
}

void worker_free(Worker *worker)
{
    if (!worker)
        return;
    worker->free_job(worker->job);
    free(worker);
}
