/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/writer_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/owner.h"

enum { RETRY_FIRST_MS = 500, RETRY_MAX_MS = 10000, PRUNE_MS = 10 * 60 * 1000, GATHER_MS = 1000, SOON_MS = 5 };

uint64_t writer_now_ns(void)
{
    return clock_monotonic(clock_kernel());
}

uint64_t writer_real_now_ns(void)
{
    return clock_real(clock_kernel());
}

/* --- condition, under the lock ------------------------------------------------------------------------------------ */

static void set_health(WriterShared *s, JournalHealth health, const char *why)
{
    if (s->state.health != health)
        s->state.since_real_ns = writer_real_now_ns();
    s->state.health = health;
    snprintf(s->state.why, sizeof s->state.why, "%.190s", why);
}

void writer_in_memory(WriterShared *s, const char *why)
{
    set_health(s, JOURNAL_MEMORY, why);
    s->given_up = s->put_to;
    s->state.failures++;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int take_lock(WriterShared *s, Err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[WRITER_PATH_CAP + 8];

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
    char path[WRITER_PATH_CAP];

    memcpy(path, s->path, sizeof path);
    return file_make_dirs(dirname(path), 0750, err);
}

static int open_file(WriterShared *s, Err *err)
{
    char aside[256] = "";
    Err before = {0};

    TRY(make_folder(s, err));
    TRY(take_lock(s, err));
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

static int write_jobs(WriterShared *s, const Job *jobs, size_t count, Err *err)
{
    int rc = db_begin(s->db, err);

    for (; rc == 0 && count > 0; count--, jobs = jobs->next) {
        rc = write_job(s->db, jobs, err);
        if (jobs->real_ns > s->newest_real_ns)
            s->newest_real_ns = jobs->real_ns;
    }
    if (rc == 0)
        rc = db_commit(s->db, err);
    if (rc < 0)
        db_rollback(s->db);
    return rc;
}

/* The first `count` are on disk. Under the lock. */
static void written(WriterShared *s, size_t count, uint64_t to, uint64_t took_ns)
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

static void failed(WriterShared *s, int rc, const Err *err)
{
    for (Job *job = s->queue; job; job = job->next)
        job->taken = false;
    writer_in_memory(s, err->text);
    s->urgent = true;
    s->retry_ms = s->retry_ms == 0 ? RETRY_FIRST_MS : s->retry_ms * 2 < RETRY_MAX_MS ? s->retry_ms * 2 : RETRY_MAX_MS;
    if (rc == DB_DAMAGED)
        s->retry_ms = 1; /* set aside and begun anew at once */
    s->retry_at_ns = writer_now_ns() + s->retry_ms * NS_PER_MS;
}

/* One turn: all that is queued now. Called and left with the lock held. */
static void turn(WriterShared *s)
{
    const size_t count = s->queued;
    const uint64_t to = s->put_to, began = writer_now_ns();
    Job *jobs = s->queue;
    Err err = {0};
    int rc = 0;

    for (Job *job = jobs; job; job = job->next)
        job->taken = true;
    if (!s->urgent && count > 0) {
        s->lone_ns[s->lone_at] = began;
        s->lone_at = (s->lone_at + 1) % WRITER_LONE_COMMITS;
    }
    s->urgent = false;
    s->gather_ns = 0;
    pthread_mutex_unlock(&s->lock);
    if (!s->db)
        rc = open_file(s, &err);
    if (rc == 0 && count > 0)
        rc = write_jobs(s, jobs, count, &err);
    if (rc < 0)
        shut_file(s);
    pthread_mutex_lock(&s->lock);
    if (rc == -EBUSY && s->lock_fd < 0 && !s->opened) {
        s->busy = rc;
        s->busy_err = err;
    }
    if (rc < 0)
        failed(s, rc, &err);
    else
        written(s, count, to, writer_now_ns() - began);
    s->opened = true;
    pthread_cond_broadcast(&s->news);
    if (!s->abandoned)
        s->wake(s->self);
}

static void prune(WriterShared *s)
{
    const uint64_t keep = s->config.keep_ns, newest = s->newest_real_ns;
    uint64_t bytes = 0, incidents = 0, events = 0;
    Err err;

    pthread_mutex_unlock(&s->lock);
    int rc = db_prune(s->db, newest, keep, s->config.max_bytes, &bytes, &err);
    if (rc == 0)
        rc = db_count(s->db, "incidents", &incidents, &err);
    if (rc == 0)
        rc = db_count(s->db, "events", &events, &err);
    if (rc < 0)
        shut_file(s); /* the next turn opens it again, or says what is wrong */
    pthread_mutex_lock(&s->lock);
    s->state.file_bytes = bytes;
    s->state.rows_incidents = incidents;
    s->state.rows_events = events;
    s->prune_at_ns = writer_now_ns() + PRUNE_MS * NS_PER_MS;
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

static void answer(WriterShared *s)
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
        shut_file(s); /* the next turn sets it aside */
    pthread_mutex_lock(&s->lock);
    s->kept = kept;
    s->outbox = outbox;
    s->ask_rc = rc;
    s->ask_err = err;
    s->ask = ASK_NOTHING;
    pthread_cond_broadcast(&s->news);
}

struct timespec writer_in_ms(uint64_t ms)
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

/* How long events wait for others to share their commit: hardly at all, until there were WRITER_LONE_COMMITS of such
 * commits within a second, as in a storm. */
static uint64_t gather_for_ns(const WriterShared *s)
{
    const uint64_t patience = s->config.patience_ns / 4, most = GATHER_MS * NS_PER_MS;

    if (s->lone_ns[s->lone_at] + most <= writer_now_ns())
        return SOON_MS * NS_PER_MS;
    return patience < most ? patience : most;
}

/* When what is queued is written: at once where somebody waits for it. Events, of which a storm brings many thousands,
 * share a commit; what has not been read of the logs is read again after a kill. */
static uint64_t due_ns(const WriterShared *s)
{

    if (s->retry_ms || !s->db)
        return s->retry_at_ns;
    if (!s->queue)
        return UINT64_MAX;
    if (s->urgent || s->stop || s->queued >= WRITER_GATHER_MAX)
        return 0;
    return s->gather_ns + gather_for_ns(s);
}

static void rest(WriterShared *s)
{
    const uint64_t now = writer_now_ns(), due = due_ns(s), until = due < s->prune_at_ns ? due : s->prune_at_ns;
    const struct timespec at = writer_in_ms(until > now ? (until - now) / NS_PER_MS + 1 : 1);

    pthread_cond_timedwait(&s->work, &s->lock, &at);
}

void writer_shared_free(WriterShared *s)
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

void *writer_run(void *context)
{
    WriterShared *s = context;

    pthread_mutex_lock(&s->lock);
    turn(s); /* opens */
    while (!s->stop || (s->queue && !s->retry_ms)) {
        if (s->ask)
            answer(s);
        else if ((s->queue || !s->db) && writer_now_ns() >= due_ns(s))
            turn(s);
        else if (s->db && writer_now_ns() >= s->prune_at_ns)
            prune(s);
        else
            rest(s);
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
        writer_shared_free(s);
    return NULL;
}
