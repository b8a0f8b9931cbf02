/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/cleanup.h"

enum {
    PATH_CAP = 4096,
    GATHER_MAX = 2048, /* jobs that share a commit at most before it is made */
    GATHER_MS = 1000,
    SOON_MS = 5,
    LONE_COMMITS = 5,
    RETRY_FIRST_MS = 500,
    RETRY_MAX_MS = 10000,
    PRUNE_MS = 10 * 60 * 1000,
};

/* Questions of the loop at the start. */
typedef enum AskKind { ASK_NOTHING, ASK_KEPT, ASK_OUTBOX } AskKind;

/* Shared by the thread and the loop's side. */
typedef struct WriterShared {
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* signalled to the thread; signalled by it */
    char path[PATH_CAP];
    JournalConfig config;
    void (*wake)(void *self);
    void *self;
    /* under the lock */
    Job *queue, **queue_end;
    size_t queued;
    uint64_t put_to;    /* newest ticket in the queue */
    bool urgent;        /* a caller waits for a queued job; else jobs may gather for a while */
    uint64_t gather_ns; /* since when they do; 0: nothing is queued */
    uint64_t on_disk, given_up;
    JournalState state;
    AskKind ask;
    JournalKept kept;
    WriterOutbox outbox;
    int ask_rc;
    Err ask_err;
    bool opened; /* the first try is over */
    bool stop, ended, abandoned;
    int busy; /* -EBUSY: another process has the file */
    Err busy_err;
    /* the thread's own */
    Db *db;
    int lock_fd;
    uint64_t retry_ms, retry_at_ns; /* 0: nothing failed */
    uint64_t prune_at_ns;
    uint64_t lone_ns[LONE_COMMITS]; /* ring: times of the last commits that no caller waited for */
    size_t lone_at;                 /* the oldest of them */
} WriterShared;

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

static uint64_t now_ns(void)
{
    return clock_monotonic(clock_kernel());
}

static uint64_t real_now_ns(void)
{
    return clock_real(clock_kernel());
}

/* --- health, under the lock -------------------------------------------------------------------------------------- */

static void set_health(WriterShared *s, JournalHealth health, const char *why)
{
    if (s->state.health != health)
        s->state.since_real_ns = real_now_ns();
    s->state.health = health;
    snprintf(s->state.why, sizeof s->state.why, "%.190s", why);
}

/* Acknowledges all queued jobs as kept in memory; they stay queued. */
static void keep_in_memory(WriterShared *s, const char *why)
{
    set_health(s, JOURNAL_MEMORY, why);
    s->given_up = s->put_to;
    s->state.failures++;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int lock_file(WriterShared *s, Err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_CAP + 8];

    if (s->lock_fd >= 0)
        return 0;
    snprintf(path, sizeof path, "%s.lock", s->path);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        const int rc = errno == EAGAIN || errno == EACCES
                           ? err_set(err, -EBUSY, "another process has the journal '%s'", s->path)
                           : err_errno(err, "lock '%s'", path);
        close(fd);
        return rc;
    }
    s->lock_fd = fd;
    return 0;
}

static int make_folder(WriterShared *s, Err *err)
{
    char path[PATH_CAP];

    memcpy(path, s->path, sizeof path);
    return file_make_dirs(dirname(path), 0750, err);
}

static int open_file(WriterShared *s, Err *err)
{
    char aside[256] = "";
    Err before;

    TRY(make_folder(s, err));
    TRY(lock_file(s, err));
    int rc = db_open(s->path, false, &s->db, err);
    if (rc != DB_DAMAGED)
        return rc;
    before = *err;
    TRY(db_set_aside(s->path, aside, err));
    rc = db_open(s->path, false, &s->db, err);
    pthread_mutex_lock(&s->lock);
    snprintf(s->state.set_aside, sizeof s->state.set_aside, "%s", aside);
    snprintf(s->state.why, sizeof s->state.why, "%.190s", before.text);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void shut_file(WriterShared *s)
{
    db_close(TAKE(s->db));
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int write_position(Db *db, const JobPosition *position, Err *err)
{
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {{"sequence", position->sequence},
                {"fabric_offset", position->fabric_offset},
                {"fabric_inode", position->fabric_inode}};
    char value[24];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(value, sizeof value, "%llu", (unsigned long long)rows[i].value);
        TRY(db_meta(db, rows[i].key, value, err));
    }
    return db_meta(db, "boot_id", position->boot_id, err);
}

static int write_gpu(Db *db, const JobGpu *job, Err *err)
{
    return db_gpu(db, &job->gpu, job->forgotten, err);
}

static int write_job(Db *db, const Job *job, Err *err)
{
    const void *data = job->data;

    switch (job->kind) {
    case JOB_INCIDENT:
        return db_incident(db, data, err);
    case JOB_EVENT:
        return db_event(db, data, job->key, err);
    case JOB_BUNDLE:
        return db_bundle(db, job->key, job->real_ns, data, job->len, err);
    case JOB_WINDOW:
    case JOB_WINDOW_END:
        return db_window(db, data, job->kind == JOB_WINDOW_END, err);
    case JOB_GPU:
        return write_gpu(db, data, err);
    case JOB_POSITION:
        return write_position(db, data, err);
    case JOB_OUTBOX:
        return db_outbox(db, job->receiver, job->key, data, job->len, err);
    }
    return 0;
}

/* Writes the jobs from `first` to `last`, without the lock: they are marked as taken. The `next` of the last one is not
 * read, as the loop may link a new job behind it. */
static int write_jobs(WriterShared *s, const Job *first, const Job *last, Err *err)
{
    int rc = db_begin(s->db, err);

    if (rc == 0)
        rc = write_job(s->db, first, err);
    for (const Job *job = first; rc == 0 && job != last;) {
        job = job->next;
        rc = write_job(s->db, job, err);
    }
    if (rc == 0)
        rc = db_commit(s->db, err);
    if (rc < 0)
        db_rollback(s->db);
    return rc;
}

/* Drops the first `count` jobs, which are on disk. Under the lock. */
static void drop_written(WriterShared *s, size_t count, uint64_t to, uint64_t took_ns)
{
    s->on_disk = to;
    s->state.written += count;
    s->state.commits++;
    s->state.last_commit_ns = took_ns;
    s->queued -= count;
    for (; count > 0; count--) {
        Job *job = s->queue;

        s->queue = job->next;
        job_free(job);
    }
    if (!s->queue)
        s->queue_end = &s->queue;
    if (s->state.health != JOURNAL_FINE)
        set_health(s, JOURNAL_FINE, s->state.set_aside[0] ? s->state.why : "");
    s->retry_ms = s->retry_at_ns = 0;
}

uint64_t writer_next_retry_ms(uint64_t last_ms)
{
    if (last_ms < RETRY_FIRST_MS)
        return RETRY_FIRST_MS;
    return last_ms * 2 < RETRY_MAX_MS ? last_ms * 2 : RETRY_MAX_MS;
}

static void note_failure(WriterShared *s, int rc, const Err *err)
{
    for (Job *job = s->queue; job; job = job->next)
        job->taken = false;
    keep_in_memory(s, err->text);
    s->urgent = true;
    s->retry_ms = rc == DB_DAMAGED ? 1 /* set aside and begun anew at once */ : writer_next_retry_ms(s->retry_ms);
    s->retry_at_ns = now_ns() + s->retry_ms * NS_PER_MS;
}

/* Writes all that is queued now. Called and left with the lock held. */
static void write_queue(WriterShared *s)
{
    const size_t count = s->queued;
    const uint64_t to = s->put_to, began = now_ns();
    Job *first = s->queue, *last = NULL;
    Err err = {0};
    int rc = 0;

    for (Job *job = first; job; job = job->next) {
        job->taken = true;
        last = job;
    }
    if (!s->urgent && count > 0) {
        s->lone_ns[s->lone_at] = began;
        s->lone_at = (s->lone_at + 1) % LONE_COMMITS;
    }
    s->urgent = false;
    s->gather_ns = 0;
    pthread_mutex_unlock(&s->lock);
    if (!s->db)
        rc = open_file(s, &err);
    if (rc == 0 && last)
        rc = write_jobs(s, first, last, &err);
    if (rc < 0)
        shut_file(s);
    pthread_mutex_lock(&s->lock);
    if (rc == -EBUSY && s->lock_fd < 0 && !s->opened) {
        s->busy = rc;
        s->busy_err = err;
    }
    if (rc < 0)
        note_failure(s, rc, &err);
    else
        drop_written(s, count, to, now_ns() - began);
    s->opened = true;
    pthread_cond_broadcast(&s->news);
    if (!s->abandoned)
        s->wake(s->self);
}

static void prune_file(WriterShared *s)
{
    uint64_t bytes = 0, incidents = 0, events = 0;
    Err err;

    pthread_mutex_unlock(&s->lock);
    int rc = db_prune(s->db, s->config.keep_ns, s->config.max_bytes, &bytes, &err);
    if (rc == 0)
        rc = db_count(s->db, "incidents", &incidents, &err);
    if (rc == 0)
        rc = db_count(s->db, "events", &events, &err);
    if (rc < 0)
        shut_file(s); /* the next write opens it again, or reports the error */
    pthread_mutex_lock(&s->lock);
    s->state.file_bytes = bytes;
    s->state.rows_incidents = incidents;
    s->state.rows_events = events;
    s->prune_at_ns = now_ns() + PRUNE_MS * NS_PER_MS;
}

static void keep_outbox(void *self, const char *receiver, const char *key, const char *text, size_t len)
{
    WriterOutbox *outbox = self;
    Job *job = job_new(JOB_OUTBOX, len + 1);

    memcpy(job->data, text, len);
    job->len = len;
    snprintf(job->receiver, sizeof job->receiver, "%s", receiver);
    snprintf(job->key, sizeof job->key, "%s", key);
    vec_push(outbox, job);
}

static void answer_question(WriterShared *s)
{
    const AskKind ask = s->ask;
    JournalKept kept = {0};
    WriterOutbox outbox = {0};
    Err err = {0};
    int rc;

    pthread_mutex_unlock(&s->lock);
    if (!s->db)
        rc = err_set(&err, -EAGAIN, "the journal is not open");
    else
        rc = ask == ASK_KEPT ? db_kept(s->db, &kept, &err) : db_each_outbox(s->db, keep_outbox, &outbox, &err);
    if (rc == DB_DAMAGED)
        shut_file(s); /* the next write sets it aside */
    pthread_mutex_lock(&s->lock);
    s->kept = kept;
    s->outbox = outbox;
    s->ask_rc = rc;
    s->ask_err = err;
    s->ask = ASK_NOTHING;
    pthread_cond_broadcast(&s->news);
}

static struct timespec after_ms(uint64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

/* How long events wait for others to share their commit: SOON_MS, and longer in a storm (LONE_COMMITS such commits
 * within a second). */
static uint64_t find_gather_ns(const WriterShared *s)
{
    const uint64_t patience = s->config.patience_ns / 4, most = GATHER_MS * NS_PER_MS;

    if (s->lone_ns[s->lone_at] + most <= now_ns())
        return SOON_MS * NS_PER_MS;
    return patience < most ? patience : most;
}

/* When the queue is written: immediately if a caller waits. Events share a commit; those lost in a kill are read again
 * from the logs. */
static uint64_t find_due_ns(const WriterShared *s)
{
    if (s->retry_ms || !s->db)
        return s->retry_at_ns;
    if (!s->queue)
        return UINT64_MAX;
    if (s->urgent || s->stop || s->queued >= GATHER_MAX)
        return 0;
    return s->gather_ns + find_gather_ns(s);
}

static void wait_for_work(WriterShared *s)
{
    const uint64_t now = now_ns(), due = find_due_ns(s), until = due < s->prune_at_ns ? due : s->prune_at_ns;
    const struct timespec at = after_ms(until > now ? (until - now) / NS_PER_MS + 1 : 1);

    pthread_cond_timedwait(&s->work, &s->lock, &at);
}

static void free_shared(WriterShared *s)
{
    for (Job *job = s->queue; job;) {
        Job *next = job->next;

        job_free(job);
        job = next;
    }
    journal_kept_done(&s->kept);
    for (size_t i = 0; i < s->outbox.len; i++)
        job_free(s->outbox.at[i]);
    vec_done(&s->outbox);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->news);
    free(s);
}

static void *run_writer(void *context)
{
    WriterShared *s = context;

    pthread_mutex_lock(&s->lock);
    write_queue(s); /* opens */
    while (!s->stop || (s->queue && !s->retry_ms)) {
        if (s->ask)
            answer_question(s);
        else if ((s->queue || !s->db) && now_ns() >= find_due_ns(s))
            write_queue(s);
        else if (s->db && now_ns() >= s->prune_at_ns)
            prune_file(s);
        else
            wait_for_work(s);
    }
    pthread_mutex_unlock(&s->lock);
    shut_file(s);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_lock(&s->lock);
    const bool alone = s->abandoned;
    s->ended = true;
    pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->lock);
    if (alone)
        free_shared(s);
    return NULL;
}

/* --- the loop's side -----------------------------------------------------------------------------------------------
 */

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
    s->state.since_real_ns = real_now_ns();
    return s;
}

/* Waits for `done`, at most for the patience. Returns false if it did not come. Under the lock. */
static bool wait_until(WriterShared *s, bool (*done)(const WriterShared *s))
{
    const struct timespec at = after_ms(patience_ms(s));

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

static void note_hanging_disk(WriterShared *s)
{
    char why[160];

    snprintf(why, sizeof why, "the disk of '%.100s' does not answer", s->path);
    keep_in_memory(s, why);
}

int writer_start(Writer *writer, const JournalConfig *config, void (*wake)(void *self), void *self, Err *err)
{
    pthread_t thread;

    *writer = (Writer){.config = config};
    if (!config->path[0])
        return 0;
    WriterShared *s = shared_new(config, wake, self);
    const int rc = pthread_create(&thread, NULL, run_writer, s);
    if (rc != 0) {
        free_shared(s);
        return err_set(err, -rc, "start the journal's thread: %s", strerror(rc));
    }
    pthread_detach(thread);
    writer->shared = s;
    pthread_mutex_lock(&s->lock);
    if (!wait_until(s, is_open))
        note_hanging_disk(s);
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
    const bool ended = wait_until(s, is_ended);
    s->abandoned = !ended;
    writer->given_up = s->put_to;
    pthread_mutex_unlock(&s->lock);
    if (ended)
        free_shared(s);
}

/* Finds a queued job that `job` supersedes. */
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

/* When the backlog is full, drops the oldest event; returns false if the new job has to be dropped. */
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

static void append_job(WriterShared *s, Job *job)
{
    *s->queue_end = job;
    s->queue_end = &job->next;
    s->queued++;
}

/* Puts `job` in the place of `old` and frees that. */
static void replace_job(WriterShared *s, Job *old, Job *job)
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
        replace_job(s, old, job);
    else if (make_room(s, job))
        append_job(s, job);
    else
        job_free(job);
    if (s->state.health == JOURNAL_MEMORY) {
        s->given_up = s->put_to;
        s->wake(s->self);
    }
    if (!gathers || s->gather_ns == 0 || s->queued == GATHER_MAX)
        pthread_cond_signal(&s->work);
    s->urgent = s->urgent || !gathers;
    if (s->gather_ns == 0)
        s->gather_ns = now_ns();
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
    note_hanging_disk(s);
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

/* Puts a question to the thread. Returns 0 with the lock held. */
static int ask_thread(WriterShared *s, AskKind kind, Err *err)
{
    pthread_mutex_lock(&s->lock);
    s->ask = kind;
    pthread_cond_signal(&s->work);
    if (wait_until(s, is_answered))
        return 0;
    s->ask = ASK_NOTHING;
    note_hanging_disk(s);
    pthread_mutex_unlock(&s->lock);
    return err_set(err, -ETIMEDOUT, "the disk of '%s' does not answer", s->path);
}

int writer_kept(Writer *writer, JournalKept *ret, Err *err)
{
    WriterShared *s = writer->shared;

    TRY(ask_thread(s, ASK_KEPT, err));
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

    TRY(ask_thread(s, ASK_OUTBOX, err));
    *ret = s->outbox;
    s->outbox = (WriterOutbox){0};
    const int rc = s->ask_rc;
    if (err)
        *err = s->ask_err;
    pthread_mutex_unlock(&s->lock);
    return rc;
}
