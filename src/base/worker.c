/* SPDX-License-Identifier: Apache-2.0 */
/* All is under the lock, which is never held while the job runs. The last user frees the worker: worker_free, unless
 * the thread is running the job then. */
#include "base/worker.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { STACK_BYTES = 512 * 1024 };

struct Worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool busy;     /* a run was asked for and is not over */
    bool quit;     /* the thread is to end */
    bool orphaned; /* and frees this, as it was busy */
    void (*run)(void *job);
    void (*free_job)(void *job);
    void *job;
};

static void release_worker(Worker *worker)
{
    worker->free_job(worker->job);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

static void *run_thread(void *self)
{
    Worker *worker = self;
    bool orphaned;

    pthread_mutex_lock(&worker->lock);
    while (!worker->quit) {
        if (!worker->busy) {
            pthread_cond_wait(&worker->wake, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        worker->run(worker->job);
        pthread_mutex_lock(&worker->lock);
        worker->busy = false;
    }
    orphaned = worker->orphaned;
    pthread_mutex_unlock(&worker->lock);
    if (orphaned)
        release_worker(worker);
    return NULL;
}

/* The thread takes no signal: they are the loop's. */
static int start_thread(Worker *worker)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&worker->thread, &attr, run_thread, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

int worker_new(void (*run)(void *job), void (*free_job)(void *job), void *job, Worker **ret, Err *err)
{
    Worker *worker = xcalloc(1, sizeof(*worker));
    int rc;

    *worker = (Worker){.run = run, .free_job = free_job, .job = job};
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    rc = start_thread(worker);
    if (rc) {
        release_worker(worker);
        return err_set(err, -rc, "start a thread: %s", strerror(rc));
    }
    *ret = worker;
    return 0;
}

void worker_start(Worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    assert(!worker->busy);
    worker->busy = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

bool worker_is_busy(Worker *worker)
{
    bool busy;

    pthread_mutex_lock(&worker->lock);
    busy = worker->busy;
    pthread_mutex_unlock(&worker->lock);
    return busy;
}

void worker_free(Worker *worker)
{
    bool busy;

    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->quit = true;
    busy = worker->orphaned = worker->busy;
    pthread_cond_signal(&worker->wake);
    if (busy)
        pthread_detach(worker->thread);
    pthread_mutex_unlock(&worker->lock);
    if (busy)
        return;
    pthread_join(worker->thread, NULL);
    release_worker(worker);
}
