/* SPDX-License-Identifier: Apache-2.0 */
/* Threads take tasks under one lock, and wait on one condition for tasks that others have to end first. */
#include "engine/trace/tasks.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

typedef struct Pool {
    const TraceTask *tasks;
    size_t count;
    void *context;
    size_t memory, held; /* bytes: of all that may run at a time, of those that run */
    uint32_t open, done; /* bits of those that nobody has begun, and that have ended */
    pthread_mutex_t lock;
    pthread_cond_t ended;
} Pool;

typedef struct Worker {
    Pool *pool;
    unsigned int thread;
} Worker;

static bool may_run(const Pool *pool, size_t i)
{
    const TraceTask *task = &pool->tasks[i];

    if (!(pool->open >> i & 1) || (task->after & ~pool->done))
        return false;
    return pool->held == 0 || (pool->held <= pool->memory && task->bytes <= pool->memory - pool->held);
}

/* The first that may run; `count`: none. */
static size_t next_task(const Pool *pool)
{
    size_t i = 0;

    while (i < pool->count && !may_run(pool, i))
        i++;
    return i;
}

/* Called with the lock held, which is let go while the task runs. */
static void run_task(Pool *pool, size_t i, unsigned int thread)
{
    const TraceTask *task = &pool->tasks[i];
    const size_t held = task->bytes + 1; /* 0 means that none runs */

    pool->open &= ~(UINT32_C(1) << i);
    pool->held += held;
    pthread_mutex_unlock(&pool->lock);
    task->run(pool->context, i, thread);
    pthread_mutex_lock(&pool->lock);
    pool->held -= held;
    pool->done |= UINT32_C(1) << i;
    pthread_cond_broadcast(&pool->ended);
}

static void *run_tasks(void *context)
{
    const Worker *worker = context;
    Pool *pool = worker->pool;

    pthread_mutex_lock(&pool->lock);
    while (pool->open) {
        const size_t i = next_task(pool);

        if (i < pool->count)
            run_task(pool, i, worker->thread);
        else
            pthread_cond_wait(&pool->ended, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void trace_tasks_run(const TraceTask *tasks, size_t count, void *context, unsigned int threads, size_t memory)
{
    Pool pool = {.tasks = tasks,
                 .count = count,
                 .context = context,
                 .memory = memory,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .ended = PTHREAD_COND_INITIALIZER};
    Worker workers[TRACE_TASK_THREADS_MAX];
    pthread_t helpers[TRACE_TASK_THREADS_MAX];
    unsigned int started = 1; /* the caller */

    assert(count <= TRACE_TASKS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(tasks[i].after < UINT32_C(1) << i);
        pool.open |= UINT32_C(1) << i;
    }
    threads = threads < count ? threads : (unsigned int)count;
    for (; started < threads; started++) {
        workers[started] = (Worker){.pool = &pool, .thread = started};
        if (pthread_create(&helpers[started], NULL, run_tasks, &workers[started]) != 0)
            break;
    }
    workers[0] = (Worker){.pool = &pool};
    run_tasks(&workers[0]);
    for (unsigned int i = 1; i < started; i++)
        pthread_join(helpers[i], NULL);
}
