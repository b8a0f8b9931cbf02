/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of the journal, which queues and acknowledges, and the thread that writes what is queued in one
 * transaction. When the disk refuses, the changes stay queued and are tried again. A thread that hangs in the disk at
 * the end is left behind, with what both share. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/journal/db.h"

enum {
    PATH_CAP = 4096,
    CHECK_MS = 100,
    JSON_MAX = 1 << 20,
    OUTBOX_MAX = 1 << 20,
    BUNDLE_MAX = 16 << 20,
    GATHER_MAX = 2048, /* changes that share a commit at most before it is made */
    GATHER_MS = 1000,
    SOON_MS = 5,
    LONE_COMMITS = 5,
    PRUNE_MS = 10 * 60 * 1000,
};

/* Changes in the order in which they were put, and the key of each in a list of its own: with a disk that hangs there
 * are thousands, and each put looks through them. */
typedef struct Changes {
    VEC(DbChange) list;
    VEC(uint64_t) keys;
} Changes;

/* Shared by the thread and the loop; freed by the last of them. */
typedef struct Shared {
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* signalled to the thread; signalled by it */
    char path[PATH_CAP];
    JournalConfig config;
    /* under the lock */
    uv_async_t *wake; /* of the loop; NULL: it is gone */
    Changes queue;
    size_t queued;              /* with those that are being written */
    uint64_t put_to;            /* newest ticket in the queue */
    bool urgent;                /* a caller waits for a queued change; else changes may gather for a while */
    uint64_t gather_ns;         /* since when they do; 0: nothing is queued */
    uint64_t on_disk, given_up; /* all tickets up to these */
    JournalState state;
    bool opened; /* the first try is over */
    int open_rc; /* what came of it */
    Err open_err;
    JournalKept kept; /* what it read; the thread's own until `opened` */
    bool stop, ended;
    /* the thread's own */
    Db *db;
    int lock_fd;
    uint64_t retry_ms, retry_at_ns; /* 0: nothing failed */
    uint64_t prune_at_ns;
    DbClock clock;                  /* when the file was pruned last; real_ns 0: it was not yet */
    uint64_t lone_ns[LONE_COMMITS]; /* ring: times of the last commits that no caller waited for */
    size_t lone_at;                 /* how many there were: the oldest is at its remainder */
} Shared;

struct Journal {
    Shared *shared; /* NULL: no file */
    uv_async_t async;
    uv_timer_t timer; /* runs while something is not acknowledged */
    int handles;
    JournalAcked acked;
    void *self;
    uint64_t last, acknowledged; /* tickets: given out, acknowledged */
    uint64_t waiting_since;      /* uv_now at which the oldest change that is not acknowledged began to wait */
};

static uint64_t now_ns(void)
{
    return clock_monotonic(clock_kernel());
}

static void free_changes(Changes *changes)
{
    for (size_t i = 0; i < changes->list.len; i++)
        db_change_done(&changes->list.at[i]);
    vec_done(&changes->list);
    vec_done(&changes->keys);
}

/* Replaces an older change of the same row; false: there is none. */
static bool replace_change(Changes *changes, const DbChange *change)
{
    const uint64_t key = db_change_key(change);

    for (size_t i = 0; key && i < changes->keys.len; i++)
        if (changes->keys.at[i] == key && db_change_replaces(change, &changes->list.at[i])) {
            db_change_done(&changes->list.at[i]);
            changes->list.at[i] = *change;
            return true;
        }
    return false;
}

static void push_change(Changes *changes, const DbChange *change)
{
    vec_push(&changes->list, *change);
    vec_push(&changes->keys, db_change_key(change));
}

/* --- health, under the lock --------------------------------------------------------------------------------------- */

static void wake_loop(Shared *s)
{
    if (s->wake)
        uv_async_send(s->wake);
}

static void set_health(Shared *s, JournalHealth health, const char *why)
{
    s->state.health = health;
    snprintf(s->state.why, sizeof s->state.why, "%.190s", why);
}

/* Acknowledges all queued changes as kept in memory; they stay queued. */
static void keep_in_memory(Shared *s, int error, const char *why)
{
    set_health(s, JOURNAL_MEMORY, why);
    s->state.error = error;
    s->given_up = s->put_to;
    s->state.failures++;
}

static void note_hanging_disk(Shared *s)
{
    char why[160];

    snprintf(why, sizeof why, "the disk of '%.100s' does not answer", s->path);
    keep_in_memory(s, -ETIMEDOUT, why);
}

/* --- the thread: the file ----------------------------------------------------------------------------------------- */

static int lock_file(Shared *s, Err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_CAP + 8];

    if (s->lock_fd >= 0)
        return 0;
    snprintf(path, sizeof path, "%s.lock", s->path);
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
        return errno == EAGAIN || errno == EACCES
                   ? err_set(err, -EBUSY, "another process has the journal '%s'", s->path)
                   : err_errno(err, "lock '%s'", path);
    s->lock_fd = fd_take(&fd);
    return 0;
}

/* Opens the file, or a new one in place of a damaged one. */
static int open_file(Shared *s, Err *err)
{
    char aside[256] = "", path[PATH_CAP];
    Err before;

    memcpy(path, s->path, sizeof path);
    TRY(file_make_dirs(dirname(path), 0750, err));
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

/* --- the thread: the queue, under the lock ------------------------------------------------------------------------ */

static void note_written(Shared *s, size_t count, uint64_t to, uint64_t took_ns)
{
    s->on_disk = to;
    s->queued -= count;
    s->state.written += count;
    s->state.commits++;
    s->state.last_commit_ns = took_ns;
    if (s->state.health != JOURNAL_FINE)
        set_health(s, JOURNAL_FINE, s->state.set_aside[0] ? s->state.why : "");
    s->retry_ms = s->retry_at_ns = 0;
}

static void note_failure(Shared *s, int rc, const Err *err)
{
    keep_in_memory(s, rc, err->text);
    s->urgent = true;
    s->retry_ms = rc == DB_DAMAGED ? 1 /* set aside and begun anew at once */ : db_next_retry_ms(s->retry_ms);
    s->retry_at_ns = now_ns() + s->retry_ms * NS_PER_MS;
}

/* Puts changes that could not be written back before those that came meanwhile, which replace them where they are about
 * the same. */
static void put_back(Shared *s, Changes *changes)
{
    for (size_t i = 0; i < s->queue.list.len; i++)
        if (replace_change(changes, &s->queue.list.at[i]))
            s->queued--;
        else
            push_change(changes, &s->queue.list.at[i]);
    vec_done(&s->queue.list);
    vec_done(&s->queue.keys);
    s->queue = *changes;
}

/* Opens the file where it is not, reads it the first time, and writes all that is queued now; for that the lock is
 * given up. */
static void write_queue(Shared *s)
{
    const size_t count = s->queued;
    const uint64_t to = s->put_to, began = now_ns();
    Changes changes = s->queue;
    Err err = {0};

    s->queue = (Changes){0};
    if (!s->urgent && count > 0)
        s->lone_ns[s->lone_at++ % LONE_COMMITS] = began;
    s->urgent = false;
    s->gather_ns = 0;
    pthread_mutex_unlock(&s->lock);
    int rc = s->db ? 0 : open_file(s, &err);
    if (rc == 0 && !s->opened)
        rc = db_read_kept(s->db, &s->kept, &err);
    if (rc == 0 && changes.list.len)
        rc = db_write(s->db, changes.list.at, changes.list.len, &err);
    if (rc < 0)
        db_close(TAKE(s->db));
    pthread_mutex_lock(&s->lock);
    if (rc < 0) {
        put_back(s, &changes);
        note_failure(s, rc, &err);
    } else {
        free_changes(&changes);
        note_written(s, count, to, now_ns() - began);
    }
    if (!s->opened) {
        s->opened = true;
        s->open_rc = rc;
        s->open_err = err;
    }
    pthread_cond_broadcast(&s->news);
    wake_loop(s);
}

static void read_clock(DbClock *ret)
{
    CLEANUP(str_done) Str text = str_limited(LEDGER_BOOT_CAP);

    *ret = (DbClock){.mono_ns = now_ns(), .real_ns = clock_real(clock_kernel())};
    if (file_read("/proc/sys/kernel/random/boot_id", LEDGER_BOOT_CAP, &text, NULL) == 0)
        snprintf(ret->boot_id, sizeof ret->boot_id, "%.*s", (int)strspn(text.text, "0123456789abcdef-"), text.text);
}

static int note_and_prune(Shared *s, uint64_t *ret_bytes)
{
    const DbClock before = s->clock;

    read_clock(&s->clock);
    TRY(db_note_clock(s->db, before.real_ns ? &before : NULL, &s->clock, NULL));
    return db_prune(s->db, &s->config, ret_bytes, NULL);
}

static void prune_file(Shared *s)
{
    uint64_t bytes = 0;

    pthread_mutex_unlock(&s->lock);
    if (note_and_prune(s, &bytes) < 0)
        db_close(TAKE(s->db)); /* the next write opens it again, or reports the error */
    pthread_mutex_lock(&s->lock);
    s->state.file_bytes = bytes;
    s->prune_at_ns = now_ns() + PRUNE_MS * NS_PER_MS;
}

static struct timespec after_ms(uint64_t ms)
{
    const uint64_t at = now_ns() + ms * NS_PER_MS;

    return (struct timespec){.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)};
}

/* How long events wait for others to share their commit: SOON_MS, and longer in a storm (LONE_COMMITS such commits
 * within a second). */
static uint64_t find_gather_ns(const Shared *s)
{
    const uint64_t patience = s->config.patience_ns / 4, most = GATHER_MS * NS_PER_MS;

    if (s->lone_ns[s->lone_at % LONE_COMMITS] + most <= now_ns())
        return SOON_MS * NS_PER_MS;
    return patience < most ? patience : most;
}

/* When the queue is written: immediately if a caller waits. Events share a commit; those lost in a kill are read again
 * from the logs. */
static uint64_t find_due_ns(const Shared *s)
{
    if (s->retry_ms || !s->db)
        return s->retry_at_ns;
    if (s->queue.list.len == 0)
        return UINT64_MAX;
    if (s->urgent || s->stop || s->queued >= GATHER_MAX)
        return 0;
    return s->gather_ns + find_gather_ns(s);
}

static void wait_for_work(Shared *s)
{
    const uint64_t now = now_ns(), due = find_due_ns(s), until = due < s->prune_at_ns ? due : s->prune_at_ns;
    const struct timespec at = after_ms(until > now ? (until - now) / NS_PER_MS + 1 : 1);

    pthread_cond_timedwait(&s->work, &s->lock, &at);
}

static void free_shared(Shared *s)
{
    free_changes(&s->queue);
    journal_kept_done(&s->kept);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->news);
    free(s);
}

static void *run_writer(void *context)
{
    Shared *s = context;

    pthread_mutex_lock(&s->lock);
    write_queue(s); /* opens */
    while (!s->stop || (s->queue.list.len > 0 && !s->retry_ms)) {
        if ((s->queue.list.len > 0 || !s->db) && now_ns() >= find_due_ns(s))
            write_queue(s);
        else if (s->db && now_ns() >= s->prune_at_ns)
            prune_file(s);
        else
            wait_for_work(s);
    }
    pthread_mutex_unlock(&s->lock);
    db_close(TAKE(s->db));
    fd_close(&s->lock_fd);
    pthread_mutex_lock(&s->lock);
    const bool alone = !s->wake;
    s->ended = true;
    pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->lock);
    if (alone)
        free_shared(s);
    return NULL;
}

/* --- the loop: start and end -------------------------------------------------------------------------------------- */

static Shared *make_shared(const JournalConfig *config, uv_async_t *wake)
{
    Shared *s = xcalloc(1, sizeof *s);
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
    s->lock_fd = -1;
    s->state.health = JOURNAL_FINE;
    return s;
}

/* Waits until the thread sets `flag`, at most for the patience; under the lock. */
static bool wait_for_flag(Shared *s, const bool *flag)
{
    const struct timespec at = after_ms(s->config.patience_ns / NS_PER_MS);

    while (!*flag)
        if (pthread_cond_timedwait(&s->news, &s->lock, &at) == ETIMEDOUT)
            break;
    return *flag;
}

static int start_thread(Journal *j, const JournalConfig *config, Err *err)
{
    Shared *s = make_shared(config, &j->async);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_writer, s);

    if (rc != 0) {
        free_shared(s);
        return err_set(err, -rc, "start the journal's thread: %s", strerror(rc));
    }
    pthread_detach(thread);
    j->shared = s;
    pthread_mutex_lock(&s->lock);
    if (!wait_for_flag(s, &s->opened))
        note_hanging_disk(s);
    else if (s->open_rc == -EBUSY && s->lock_fd < 0)
        rc = err_set(err, s->open_rc, "%s", s->open_err.text);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void acknowledge_progress(uv_async_t *async)
{
    Journal *j = async->data;
    uint64_t to = j->last;

    if (j->shared) {
        pthread_mutex_lock(&j->shared->lock);
        to = number_max_u64(j->shared->on_disk, j->shared->given_up);
        pthread_mutex_unlock(&j->shared->lock);
    }
    if (to <= j->acknowledged)
        return;
    j->acknowledged = to;
    j->waiting_since = uv_now(j->async.loop);
    if (to == j->last)
        uv_timer_stop(&j->timer);
    j->acked(j->self, to); /* may put more */
}

/* Lets the thread write what is queued, acknowledges all, and parts from the thread. */
static void stop_thread(Journal *j)
{
    Shared *s = j->shared;

    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    (void)wait_for_flag(s, &s->ended);
    s->given_up = s->put_to;
    pthread_mutex_unlock(&s->lock);
    acknowledge_progress(&j->async);
    pthread_mutex_lock(&s->lock);
    const bool alone = s->ended;
    s->wake = NULL;
    pthread_mutex_unlock(&s->lock);
    if (alone)
        free_shared(s);
}

static void check_patience(uv_timer_t *timer)
{
    Journal *j = timer->data;

    if (j->shared && uv_now(timer->loop) - j->waiting_since >= j->shared->config.patience_ns / NS_PER_MS) {
        pthread_mutex_lock(&j->shared->lock);
        note_hanging_disk(j->shared);
        pthread_mutex_unlock(&j->shared->lock);
    }
    acknowledge_progress(&j->async);
}

static void free_when_closed(uv_handle_t *handle)
{
    Journal *j = handle->data;

    if (--j->handles == 0)
        free(j);
}

void journal_close(Journal *j)
{
    if (!j)
        return;
    if (j->shared)
        stop_thread(j);
    j->handles = 2;
    uv_close((uv_handle_t *)&j->async, free_when_closed);
    uv_close((uv_handle_t *)&j->timer, free_when_closed);
}

int journal_open(uv_loop_t *loop, const JournalConfig *config, JournalAcked acked, void *self, Journal **ret, Err *err)
{
    Journal *j = xcalloc(1, sizeof *j);

    j->acked = acked;
    j->self = self;
    uv_async_init(loop, &j->async, acknowledge_progress);
    uv_timer_init(loop, &j->timer);
    j->async.data = j->timer.data = j;
    uv_unref((uv_handle_t *)&j->async);
    const int rc = config->path[0] ? start_thread(j, config, err) : 0;
    if (rc < 0) {
        journal_close(j);
        return rc;
    }
    *ret = j;
    return 0;
}

int journal_kept(Journal *j, JournalKept *ret, Err *err)
{
    Shared *s = j->shared;
    int rc = 0;

    *ret = (JournalKept){0};
    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    if (!s->opened) {
        rc = err_set(err, -ETIMEDOUT, "the disk of '%s' does not answer", s->path);
    } else if (s->open_rc < 0) {
        rc = err_set(err, s->open_rc, "%s", s->open_err.text);
    } else {
        *ret = s->kept;
        s->kept = (JournalKept){0};
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void journal_state(const Journal *j, JournalState *ret)
{
    *ret = (JournalState){.health = JOURNAL_OFF};
    if (!j->shared)
        return;
    pthread_mutex_lock(&j->shared->lock);
    *ret = j->shared->state;
    ret->queued = j->shared->queued;
    ret->on_disk = j->shared->on_disk;
    pthread_mutex_unlock(&j->shared->lock);
}

/* --- the loop: putting -------------------------------------------------------------------------------------------- */

/* When the backlog is full, drops the oldest event that is not being written; returns false if the new change has to be
 * dropped: a row of the ledger always, as there is a new one for each owner and hour. */
static bool make_room(Shared *s, const DbChange *change)
{
    const bool is_row = change->statement == DB_PUT_LEDGER;

    if (s->queued < JOURNAL_BACKLOG)
        return true;
    for (size_t i = 0; !is_row && i < s->queue.list.len; i++)
        if (s->queue.list.at[i].statement == DB_PUT_EVENT) {
            db_change_done(&s->queue.list.at[i]);
            vec_remove(&s->queue.list, i);
            vec_remove(&s->queue.keys, i);
            s->queued--;
            s->state.dropped++;
            return true;
        }
    if (!is_row && change->statement != DB_PUT_EVENT && s->queued < (size_t)2 * JOURNAL_BACKLOG)
        return true;
    s->state.dropped++;
    return false;
}

/* False: there was no room. */
static bool queue_change(Shared *s, DbChange *change)
{
    if (replace_change(&s->queue, change))
        return true;
    if (!make_room(s, change)) {
        db_change_done(change);
        return false;
    }
    push_change(&s->queue, change);
    s->queued++;
    return true;
}

/* Holds the change from now on; returns its ticket, which is acknowledged in any case, or 0: there was no room. */
static uint64_t put_change(Journal *j, DbChange change)
{
    const bool gathers = change.statement == DB_PUT_EVENT || change.statement == DB_PUT_POSITION ||
                         change.statement == DB_PUT_COUNT || change.statement == DB_PUT_LEDGER ||
                         change.statement == DB_PUT_JOB;
    Shared *s = j->shared;

    j->last++;
    if (!uv_is_active((uv_handle_t *)&j->timer)) {
        j->waiting_since = uv_now(j->async.loop);
        uv_timer_start(&j->timer, check_patience, CHECK_MS, CHECK_MS);
    }
    if (!s) {
        db_change_done(&change);
        uv_async_send(&j->async);
        return j->last;
    }
    pthread_mutex_lock(&s->lock);
    s->put_to = j->last;
    const bool accepted = queue_change(s, &change);
    if (s->state.health == JOURNAL_MEMORY) {
        s->given_up = s->put_to;
        wake_loop(s);
    }
    if (!gathers || s->gather_ns == 0 || s->queued == GATHER_MAX)
        pthread_cond_signal(&s->work);
    s->urgent = s->urgent || !gathers;
    if (s->gather_ns == 0)
        s->gather_ns = now_ns();
    pthread_mutex_unlock(&s->lock);
    return accepted ? j->last : 0;
}

uint64_t journal_put_incident(Journal *j, const Incident *incident)
{
    CLEANUP(str_done) Str json = {0};

    str_init(&json, JSON_MAX);
    incident_json(incident, &json);
    return put_change(j, (DbChange){DB_PUT_INCIDENT,
                                    {db_text(incident->id), db_text(incident_states[incident->state].key),
                                     db_number(incident->opened_real_ns), db_number(incident->updated_real_ns),
                                     db_number(incident->cleared_real_ns), db_text(json.text)}});
}

uint64_t journal_put_event(Journal *j, const Event *event, const char *incident_id, const Node *node)
{
    CLEANUP(str_done) Str json = {0};

    str_init(&json, JSON_MAX);
    event_json(event, incident_id, node, &json);
    return put_change(
        j, (DbChange){DB_PUT_EVENT, {db_number(event->real_ns), db_number(event->sequence), db_text(json.text)}});
}

uint64_t journal_put_bundle(Journal *j, const char *incident_id, const char *json, size_t len)
{
    CLEANUP(str_done) Str gz = {0};

    str_init(&gz, BUNDLE_MAX);
    if (gzip_pack(json, len, &gz, NULL) < 0)
        str_clear(&gz); /* larger than any that we make: keep an empty one */
    return put_change(j, (DbChange){DB_PUT_BUNDLE, {db_text(incident_id), db_bytes(gz.text, gz.len)}});
}

uint64_t journal_put_window(Journal *j, const MaintenanceWindow *window, bool ended)
{
    char uuids[sizeof window->uuids] = "";
    Str list;

    if (ended)
        return put_change(j, (DbChange){DB_END_WINDOW, {db_text(window->id)}});
    str_init_room(&list, uuids, sizeof uuids);
    for (size_t i = 0; i < ARRAY_LEN(window->uuids) && window->uuids[i][0]; i++)
        str_addf(&list, "%s%s", i ? " " : "", window->uuids[i]);
    return put_change(
        j, (DbChange){DB_PUT_WINDOW,
                      {db_text(window->id), db_text(window->reason), db_text(window->who), db_number(window->gpus),
                       db_number(window->from_real_ns), db_number(window->until_real_ns), db_text(uuids)}});
}

uint64_t journal_put_gpu(Journal *j, const JournalGpu *gpu, bool forgotten)
{
    const Device *device = &gpu->device;
    char pci[PCI_TEXT_CAP];

    if (forgotten)
        return put_change(j, (DbChange){DB_END_GPU, {db_text(device->uuid)}});
    return put_change(j,
                      (DbChange){DB_PUT_GPU,
                                 {db_text(device->uuid), db_text(device->serial), db_text(device->name),
                                  db_number(gpu->first_real_ns), db_number(gpu->last_real_ns), db_number(gpu->drained),
                                  db_text(device->has_pci ? pci_format(device->pci, PCI_FORM_SYSFS, pci) : ""),
                                  db_number(gpu->energy_mj), db_number(device->index), db_number(device->minor),
                                  db_number(gpu->idle_mw), db_number(gpu->idle_held), db_text(gpu->mig_layout),
                                  db_text(gpu->mig_changed), db_text(gpu->mig_change)}});
}

uint64_t journal_put_count(Journal *j, const char *key, uint64_t value, uint64_t real_ns)
{
    return put_change(j, (DbChange){DB_PUT_COUNT, {db_text(key), db_number(value), db_number(real_ns)}});
}

/* The file has the last record that was processed: -1 is the one before the first, "" that there was no log to read. */
uint64_t journal_put_position(Journal *j, const LogPosition *position)
{
    return put_change(
        j, (DbChange){DB_PUT_POSITION,
                      {db_text(position->boot_id), position->read ? db_number(position->next - 1) : db_text(""),
                       db_number(position->fabric_offset), db_number(position->fabric_inode)}});
}

uint64_t journal_put_outbox(Journal *j, const char *receiver, const char *key, const char *text, size_t len)
{
    if (len == 0 || len > OUTBOX_MAX)
        return put_change(j, (DbChange){DB_END_OUTBOX, {db_text(receiver), db_text(key)}});
    return put_change(j, (DbChange){DB_PUT_OUTBOX, {db_text(receiver), db_text(key), db_bytes(text, len)}});
}

uint64_t journal_put_ledger(Journal *j, const LedgerRow *row)
{
    return put_change(j, db_ledger_change(row));
}

uint64_t journal_put_job(Journal *j, const JournalJob *job)
{
    return put_change(j, db_job_change(job));
}

uint64_t journal_put_bench(Journal *j, uint64_t real_ns, const char *rung, const char *json, size_t len)
{
    CLEANUP(str_done) Str gz = str_limited(DB_BENCH_MAX);

    if (gzip_pack(json, len, &gz, NULL) < 0)
        return 0;
    return put_change(j, (DbChange){DB_PUT_BENCH, {db_number(real_ns), db_text(rung), db_bytes(gz.text, gz.len)}});
}
