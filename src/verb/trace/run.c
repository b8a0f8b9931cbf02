/* SPDX-License-Identifier: Apache-2.0 */
/* Workers take files in order; the main thread draws the progress and joins. */
#include "verb/trace/run.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "verb/trace/one.h"
#include "verb/trace/progress.h"

enum { WORKERS_MAX = 256, DRAW_NS = 100000000, STOP_DRAWS = 10, LIMIT_TEXT_MAX = 64 };

typedef struct Job {
    TraceOne one;
    TraceRank rank;
    Err err;
    int rc;
} Job;

typedef struct Pool {
    pthread_mutex_t lock;
    Job *jobs;
    size_t count, next, active;
    unsigned int threads, workers;
    const bool *stop;
} Pool;

uint64_t trace_run_memory(void)
{
    CLEANUP(str_done) Str text = {0};
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    str_init(&text, LIMIT_TEXT_MAX);
    if (file_read("/sys/fs/cgroup/memory.max", LIMIT_TEXT_MAX, &text, NULL) == 0) {
        uint64_t limit = strtoull(text.text, NULL, 10);
        bytes = limit && limit < bytes ? limit : bytes;
    }
    return bytes / 2;
}

/* Files that are still to do share the threads. */
static unsigned int share_threads(const Pool *pool)
{
    size_t open = pool->count - pool->next + pool->active;

    return open >= pool->threads ? 1 : pool->threads / (unsigned int)open;
}

static void *run_jobs(void *context)
{
    Pool *pool = context;

    pthread_mutex_lock(&pool->lock);
    while (pool->next < pool->count && !*pool->stop) {
        Job *job = &pool->jobs[pool->next];
        pool->active++;
        pool->next++;
        job->one.threads = share_threads(pool);
        pthread_mutex_unlock(&pool->lock);
        job->rc = trace_one(&job->one, &job->rank, &job->err);
        pthread_mutex_lock(&pool->lock);
        pool->active--;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void join_workers(const Pool *pool, const pthread_t *threads, size_t count, Progress *progress)
{
    struct timespec until;
    int waited = 0;

    for (size_t i = 0; i < count;) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += DRAW_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(threads[i], NULL, &until) != ETIMEDOUT) {
            i++;
            continue;
        }
        progress_draw(progress);
        if (__atomic_load_n(pool->stop, __ATOMIC_RELAXED) && waited++ == STOP_DRAWS) {
            progress_end(progress); /* an analysis checks no flag, and no file has been begun yet */
            stop_obey();
        }
    }
}

static void run_pool(Pool *pool, Progress *progress)
{
    pthread_t threads[WORKERS_MAX];
    size_t started = 0;

    while (started < pool->workers && pthread_create(&threads[started], NULL, run_jobs, pool) == 0)
        started++;
    if (started == 0) /* no thread to be had: here, then */
        run_jobs(pool);
    join_workers(pool, threads, started, progress);
}

static uint64_t total_bytes(const ProfilePaths *files)
{
    uint64_t total = 0;
    struct stat st;

    for (size_t i = 0; i < files->files.len; i++) {
        if (stat(files->files.at[i], &st) < 0 || !S_ISREG(st.st_mode))
            return 0;
        total += (uint64_t)st.st_size;
    }
    return total;
}

static void collect_ranks(const TraceRun *run, Pool *pool, TraceResult *ret)
{
    TraceReport *report = &ret->report;
    bool other = false;

    for (size_t i = 0; i < pool->count; i++) {
        Job *job = &pool->jobs[i];
        if (job->rc < 0) {
            if (!ret->stopped)
                fprintf(stderr, "%s: %s\n", run->path, job->err.text);
            ret->failed++;
            continue;
        }
        other |= job->rc == TRACE_ONE_OTHER_RANK;
        if (job->rc == 0) {
            vec_push(&report->ranks, job->rank);
            ret->analysed++;
        }
    }
    if (ret->analysed == 0 && other && !ret->stopped)
        fprintf(stderr, "%s: no file is of a rank that --rank asks for\n", run->path);
    if (ret->stopped || ret->analysed == 0)
        return;
    trace_report_drop_copies(report, pool->jobs[0].one.arena);
    trace_across(report);
    for (size_t i = 0; i < run->files->notes.len; i++)
        vec_push(&report->notes, run->files->notes.at[i]);
    for (size_t i = 0; i < pool->count; i++)
        if (pool->jobs[i].rc == 0 && pool->jobs[i].one.note)
            vec_push(&report->notes, pool->jobs[i].one.note);
    trace_verdicts(report);
}

void trace_run(const TraceRun *run, TraceResult *ret)
{
    const size_t count = run->files->files.len;
    uint64_t began = clock_monotonic(clock_kernel());
    Progress progress;
    Pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
                 .jobs = xcalloc(count, sizeof(Job)),
                 .count = count,
                 .threads = run->threads ? run->threads : uv_available_parallelism(),
                 .stop = stop_catch()};

    *ret = (TraceResult){.arenas_len = count * pool.threads};
    ret->arenas = xcalloc(ret->arenas_len, sizeof *ret->arenas);
    trace_report_init(&ret->report);
    pool.workers = pool.threads < count ? pool.threads : (unsigned int)count;
    pool.workers = pool.workers < WORKERS_MAX ? pool.workers : WORKERS_MAX;
    progress_begin(&progress, run->progress, total_bytes(run->files));
    for (size_t i = 0; i < count; i++)
        pool.jobs[i].one = (TraceOne){.path = run->files->files.at[i],
                                      .number = (int64_t)i,
                                      .memory = (run->memory ? run->memory : trace_run_memory()) / pool.workers,
                                      .ask = run->ask,
                                      .config = run->config,
                                      .arena = &ret->arenas[i * pool.threads],
                                      .read_bytes = &progress.bytes,
                                      .stop = pool.stop};
    run_pool(&pool, &progress);
    progress_end(&progress);
    ret->stopped = *pool.stop;
    collect_ranks(run, &pool, ret);
    ret->report.seconds = (double)(clock_monotonic(clock_kernel()) - began) / 1e9;
    free(pool.jobs);
}

void trace_result_done(TraceResult *result)
{
    trace_report_done(&result->report);
    for (size_t i = 0; i < result->arenas_len; i++)
        arena_done(&result->arenas[i]);
    free(result->arenas);
    *result = (TraceResult){0};
}

/* ---- options ---- */

/* Parses the options that choose events. */

int trace_ask_parse(const TraceAskOptions *options, TraceAsk *ret, Err *err)
{
    TraceAsk ask = {.step = options->step, .no_host = !options->cpu, .no_python = !options->python};

    TRY(trace_moment_parse(options->from, "--from", &ask.from, err));
    TRY(trace_moment_parse(options->to, "--to", &ask.to, err));
    TRY(trace_numbers_parse(options->rank, "--rank", &ask.ranks, err));
    TRY(trace_numbers_parse(options->stream, "--stream", &ask.streams, err));
    TRY(trace_numbers_parse(options->device, "--device", &ask.devices, err));
    if (ask.from.given && ask.to.given && ask.from.relative == ask.to.relative && ask.from.ns >= ask.to.ns)
        return err_set(err, -EINVAL, "--from %s is not before --to %s", options->from, options->to);
    *ret = ask;
    return 0;
}
