/* SPDX-License-Identifier: Apache-2.0 */
/* Runs all analyses of one rank, several at a time, and copies what its file says about itself. */
#include "engine/trace/analyse.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

static void copy_losses(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;

    rank->lost = profile_lost(profile);
    memcpy(rank->lost_by_reason, profile->lost_by_reason, sizeof rank->lost_by_reason);
    for (size_t i = 0; i < profile->losses.len; i++) {
        const ProfileLoss *loss = &profile->losses.at[i];

        vec_push(&rank->losses, ((TraceLossRow){.reason = profile_loss_words[loss->reason],
                                                .excerpt = arena_strdup(job->arena, loss->excerpt),
                                                .byte = loss->byte,
                                                .event = loss->event}));
    }
}

static void copy_file_words(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *rank)
{
    const Profile *profile = job->index->profile;

    rank->rank_known = profile->rank >= 0;
    rank->rank = rank->rank_known ? profile->rank : rank_if_unknown;
    rank->file = arena_strdup(job->arena, file ? file : "");
    rank->world_size = profile->world_size > 0 ? profile->world_size : -1;
    rank->framework = trace_copy_text(job, profile->framework);
    rank->backend = trace_copy_text(job, profile->backend);
    rank->host = trace_copy_text(job, profile->host_name);
    rank->bytes = profile->bytes;
    rank->events = profile->events;
    rank->ignored = profile->ignored;
    rank->counter_ranges = profile->counter_ranges;
    rank->with_stack = profile->with_stack;
    rank->with_shapes = profile->with_shapes;
    rank->with_memory = profile->with_memory;
    rank->rocm = profile->rocm;
    rank->microseconds = profile->microseconds;
    rank->base_ns = profile->base_ns;
    rank->memory_bytes = profile_bytes(profile);
}

/* ---- the analyses ---- */

typedef struct Analysis {
    void (*run)(const TraceJob *job, TraceRank *rank);
    uint8_t host_bytes, gpu_bytes; /* memory for each event and operation */
} Analysis;

/* The longest first. */
static const Analysis analyses[] = {
    {.run = trace_devices},
    {.run = trace_timeline, .host_bytes = 16, .gpu_bytes = 16},
    {.run = trace_gaps, .gpu_bytes = 8},
    {.run = trace_operators, .host_bytes = 9},
    {.run = trace_paths, .host_bytes = 17, .gpu_bytes = 4},
    {.run = trace_modules, .host_bytes = 12},
    {.run = trace_shapes, .host_bytes = 10},
    {.run = trace_kernels},
    {.run = trace_queues, .gpu_bytes = 16},
    {.run = trace_launches, .host_bytes = 8, .gpu_bytes = 8},
    {.run = trace_steps},
    {.run = trace_calls, .host_bytes = 4},
    {.run = trace_collectives, .gpu_bytes = 48},
    {.run = trace_annotations, .host_bytes = 24, .gpu_bytes = 4},
    {.run = trace_memory, .host_bytes = 40},
    {.run = trace_copies},
};

_Static_assert(ARRAY_LEN(analyses) <= TRACE_TASKS_MAX, "a task each");

typedef struct Analysing {
    const TraceJob *job;
    TraceRank *rank;
} Analysing;

static void run_analysis(void *analysing_, size_t place, unsigned int thread)
{
    const Analysing *analysing = analysing_;
    TraceJob job = *analysing->job;

    job.arena += thread;
    analyses[place].run(&job, analysing->rank);
}

static void run_analyses(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    Analysing analysing = {.job = job, .rank = rank};
    TraceTask tasks[ARRAY_LEN(analyses)];

    for (size_t i = 0; i < ARRAY_LEN(analyses); i++)
        tasks[i] =
            (TraceTask){.run = run_analysis,
                        .bytes = analyses[i].host_bytes * profile->host.len + analyses[i].gpu_bytes * profile->gpu.len};
    trace_tasks_run(tasks, ARRAY_LEN(tasks), &analysing, job->threads, job->memory);
}

void trace_analyse(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *ret)
{
    memset(ret, 0, sizeof *ret);
    copy_file_words(job, file, rank_if_unknown, ret);
    copy_losses(job, ret);
    trace_steps_prepare(job, ret);
    run_analyses(job, ret);
    trace_name_launchers(ret);
    trace_inference(job, ret);
    trace_optimizer(job, ret);
}

/* ---- tasks on several threads ---- */

/* Threads take tasks under one lock, and wait on one condition for tasks that others have to end first. */

typedef struct Pool {
    const TraceTask *tasks;
    size_t count;
    void *context;
    size_t memory, held;  /* bytes: of all that may run at a time, of those that run */
    uint32_t open, done;  /* bits of the tasks not yet begun, and of those that ended */
    unsigned int threads; /* that have begun */
    pthread_mutex_t lock;
    pthread_cond_t ended;
} Pool;

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
    Pool *pool = context;
    unsigned int thread;

    pthread_mutex_lock(&pool->lock);
    thread = pool->threads++;
    while (pool->open) {
        const size_t i = next_task(pool);

        if (i < pool->count)
            run_task(pool, i, thread);
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
    pthread_t helpers[TRACE_TASK_THREADS_MAX];
    size_t started = 0;

    assert(count <= TRACE_TASKS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(tasks[i].after < UINT32_C(1) << i);
        pool.open |= UINT32_C(1) << i;
    }
    while (started + 1 < threads && started + 1 < count &&
           pthread_create(&helpers[started], NULL, run_tasks, &pool) == 0)
        started++;
    run_tasks(&pool);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}

const TraceConfig trace_config_default = {
    .gap_threshold_ns = 1000,
    .short_kernel_ns = 10000,
    .gaps_kept = 20000,
    .timeline = false,
    .timeline_slices = 20000,
};
