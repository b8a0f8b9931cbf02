/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/writer_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"

Job *job_new(JobKind kind, size_t len)
{
    Job *job = xcalloc(1, sizeof *job + len);

    job->kind = kind;
    job->len = len;
    return job;
}

void job_free(Job *job)
{
    free(job);
}

static uint64_t patience_ms(const WriterShared *s)
{
    return s->config.patience_ns / 1000000 ? s->config.patience_ns / 1000000 : 1;
}

static WriterShared *shared_new(const JournalConfig *config, void (*wake)(void *self), void *self)
{
    WriterShared *s = xcalloc(1, sizeof *s);
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, &attr);
    pthread_cond_init(&s->news, &attr);
    pthread_condattr_destroy(&attr);
    snprintf(s->path, sizeof s->path, "%s", config->path);
    s->config = *config;
    s->wake = wake;
    s->self = self;
    s->queue_end = &s->queue;
    s->lock_fd = -1;
    s->state.health = JOURNAL_FINE;
    s->state.since_real_ns = writer_real_now_ns();
    return s;
}

/* Waits until `done` or the patience is over; false: it is over. Under the lock. */
static bool wait_for(WriterShared *s, bool (*done)(const WriterShared *s))
{
    const struct timespec at = writer_in_ms(patience_ms(s));

    while (!done(s))
        if (pthread_cond_timedwait(&s->news, &s->lock, &at) == ETIMEDOUT)
            return done(s);
    return true;
}

static bool is_open(const WriterShared *s)
{
    return s->opened;
}

static bool is_answered(const WriterShared *s)
{
    return s->ask == ASK_NOTHING;
}

static bool is_ended(const WriterShared *s)
{
    return s->ended;
}

static void say_late(WriterShared *s)
{
    char why[160];

    snprintf(why, sizeof why, "the disk of '%.100s' does not answer", s->path);
    writer_in_memory(s, why);
}

int writer_start(Writer *writer, const JournalConfig *config, void (*wake)(void *self), void *self, Err *err)
{
    pthread_t thread;

    *writer = (Writer){.config = config};
    if (!config->path[0])
        return 0;
    WriterShared *s = shared_new(config, wake, self);
    const int rc = pthread_create(&thread, NULL, writer_run, s);
    if (rc != 0) {
        writer_shared_free(s);
        return err_set(err, -rc, "start the journal's thread: %s", strerror(rc));
    }
    pthread_detach(thread);
    writer->shared = s;
    pthread_mutex_lock(&s->lock);
    if (!wait_for(s, is_open))
        say_late(s);
    const int busy = s->busy;
    const Err busy_err = s->busy_err;
    pthread_mutex_unlock(&s->lock);
    if (busy == 0)
        return 0;
    writer_stop(writer);
    return err_set(err, busy, "%s", busy_err.text);
}

void writer_stop(Writer *writer)
{
    WriterShared *s = TAKE(writer->shared);

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    const bool ended = wait_for(s, is_ended);
    s->abandoned = !ended;
    writer->given_up = s->put_to;
    pthread_mutex_unlock(&s->lock);
    if (ended)
        writer_shared_free(s);
}

/* A job of the same thing that is still waiting. */
static Job *find_waiting(WriterShared *s, const Job *job)
{
    if (job->kind == JOB_EVENT)
        return NULL;
    for (Job *at = s->queue; at; at = at->next)
        if (!at->taken && at->kind == job->kind && strcmp(at->key, job->key) == 0 &&
            strcmp(at->receiver, job->receiver) == 0)
            return at;
    return NULL;
}

/* The backlog is full: the oldest event goes, else the new one. */
static bool make_room(WriterShared *s, const Job *job)
{
    if (s->queued < JOURNAL_BACKLOG)
        return true;
    s->state.dropped++;
    for (Job **at = &s->queue; *at; at = &(*at)->next) {
        Job *old = *at;

        if (old->taken || old->kind != JOB_EVENT)
            continue;
        *at = old->next;
        if (s->queue_end == &old->next)
            s->queue_end = at;
        job_free(old);
        s->queued--;
        return true;
    }
    return job->kind != JOB_EVENT && s->queued < (size_t)2 * JOURNAL_BACKLOG;
}

static void append(WriterShared *s, Job *job)
{
    *s->queue_end = job;
    s->queue_end = &job->next;
    s->queued++;
}

/* In the place of the older one, which goes. */
static void replace(WriterShared *s, Job *old, Job *job)
{
    Job **at = &s->queue;

    while (*at != old)
        at = &(*at)->next;
    job->next = old->next;
    *at = job;
    if (s->queue_end == &old->next)
        s->queue_end = &job->next;
    job_free(old);
}

void writer_put(Writer *writer, Job *job)
{
    const bool gathers = job->kind == JOB_EVENT || job->kind == JOB_POSITION;
    WriterShared *s = writer->shared;

    pthread_mutex_lock(&s->lock);
    Job *old = find_waiting(s, job);

    s->put_to = job->ticket;
    if (old)
        replace(s, old, job);
    else if (make_room(s, job))
        append(s, job);
    else
        job_free(job);
    if (s->state.health == JOURNAL_MEMORY) {
        s->given_up = s->put_to;
        s->wake(s->self);
    }
    if (!gathers || s->gather_ns == 0 || s->queued == WRITER_GATHER_MAX)
        pthread_cond_signal(&s->work);
    s->urgent = s->urgent || !gathers;
    if (s->gather_ns == 0)
        s->gather_ns = writer_now_ns();
    pthread_mutex_unlock(&s->lock);
}

void writer_give_up(Writer *writer, uint64_t ticket)
{
    writer->given_up = ticket;
}

void writer_late(Writer *writer)
{
    WriterShared *s = writer->shared;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    say_late(s);
    pthread_mutex_unlock(&s->lock);
}

void writer_progress(Writer *writer, WriterProgress *ret)
{
    WriterShared *s = writer->shared;

    *ret = (WriterProgress){.given_up = writer->given_up};
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    *ret = (WriterProgress){.on_disk = s->on_disk, .given_up = s->given_up};
    pthread_mutex_unlock(&s->lock);
}

void writer_state(const Writer *writer, JournalState *ret)
{
    WriterShared *s = writer->shared;

    *ret = (JournalState){.health = JOURNAL_OFF};
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    *ret = s->state;
    ret->queued = s->queued;
    pthread_mutex_unlock(&s->lock);
}

/* Asks the thread; the lock is held when it comes back with 0. */
static int ask(WriterShared *s, AskKind kind, Err *err)
{
    pthread_mutex_lock(&s->lock);
    s->ask = kind;
    pthread_cond_signal(&s->work);
    if (wait_for(s, is_answered))
        return 0;
    s->ask = ASK_NOTHING;
    say_late(s);
    pthread_mutex_unlock(&s->lock);
    return err_set(err, -ETIMEDOUT, "the disk of '%s' does not answer", s->path);
}

int writer_kept(Writer *writer, JournalKept *ret, Err *err)
{
    WriterShared *s = writer->shared;

    TRY(ask(s, ASK_KEPT, err));
    *ret = s->kept;
    s->kept = (JournalKept){0};
    const int rc = s->ask_rc;
    if (err)
        *err = s->ask_err;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int writer_outbox(Writer *writer, WriterOutbox *ret, Err *err)
{
    WriterShared *s = writer->shared;

    TRY(ask(s, ASK_OUTBOX, err));
    *ret = s->outbox;
    s->outbox = (WriterOutbox){0};
    const int rc = s->ask_rc;
    if (err)
        *err = s->ask_err;
    pthread_mutex_unlock(&s->lock);
    return rc;
}
