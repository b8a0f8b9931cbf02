/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See poduid.h. A reading is a Job: a detached thread fills the job's own map and hands it back under the job's lock,
 * which is never held while the disk is asked. A job whose owner has gone is freed by its thread.
 */
#include "source/podresources/poduid.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"

enum { STACK_BYTES = 256 * 1024, PODS_MAX = 65536, LOG_BURST = 6 };
#define LOG_WINDOW_NS (10 * NS_PER_MIN)

typedef struct Job {
    pthread_mutex_t lock;
    uv_async_t *wake; /* NULL: nobody waits for it any more */
    bool done;
    /* the thread's alone until done */
    char *dir;
    int (*read)(const char *path, const Map *pods, Err *err);
    Map pods; /* key -> PodDir */
    int rc;
    Err err;
} Job;

struct PodUids {
    PodUidsConfig config;
    char *dir;
    uv_async_t wake;
    Map known; /* key -> PodDir, for every pod of interest */
    Job *job;  /* under way, or NULL */
    bool due;  /* the pods are others than those of the last reading */
    bool late; /* the one under way was said to be late */
    int rc;    /* of the last reading */
    LogLimit limit;
    uint64_t start_ns;
    void (*closed)(void *self);
    void *closed_self;
};

/* -- maps of pods -------------------------------------------------------------------------------------------------- */

static void pods_done(Map *pods)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(pods, &at));)
        free(entry->value);
    map_done(pods);
}

static void pods_add(Map *pods, const char *key, const PodDir *known)
{
    PodDir *pod;

    if (pods->len == PODS_MAX || map_get(pods, key))
        return;
    pod = xcalloc(1, sizeof(*pod));
    if (known)
        *pod = *known;
    map_put(pods, key, pod);
}

/* -- the thread ---------------------------------------------------------------------------------------------------- */

static void job_free(Job *job)
{
    if (!job)
        return;
    pods_done(&job->pods);
    pthread_mutex_destroy(&job->lock);
    free(job->dir);
    free(job);
}

static void *job_run(void *self)
{
    Job *job = self;
    bool alone;

    job->rc = job->read(job->dir, &job->pods, &job->err);
    pthread_mutex_lock(&job->lock);
    alone = !job->wake;
    job->done = true;
    if (job->wake)
        uv_async_send(job->wake);
    pthread_mutex_unlock(&job->lock);
    if (alone)
        job_free(job);
    return NULL;
}

/* The thread takes no signal: they are the loop's. Its rc is that of pthread_create. */
static int job_start(Job *job)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, job_run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

static Job *job_new(const PodUids *uids, uv_async_t *wake)
{
    Job *job = xcalloc(1, sizeof(*job));
    const MapEntry *entry;

    pthread_mutex_init(&job->lock, NULL);
    job->wake = wake;
    job->dir = xstrdup(uids->dir);
    job->read = uids->config.read ? uids->config.read : poddir_read;
    map_init(&job->pods);
    for (size_t at = 0; (entry = map_next(&uids->known, &at));)
        pods_add(&job->pods, entry->key, NULL);
    return job;
}

/* -- results ------------------------------------------------------------------------------------------------------- */

static bool may_say(PodUids *uids)
{
    uint64_t held;

    return log_limit(&uids->limit, uv_hrtime(), &held);
}

static void log_state(PodUids *uids, int rc, const char *why)
{
    bool changed = rc != uids->rc;

    uids->rc = rc;
    if (!changed || !may_say(uids))
        return;
    if (rc == 0)
        log_write(uids->config.log, LOG_LEVEL_INFO, "label pod_uid: '%s' can be read", uids->dir);
    else
        log_write(uids->config.log, LOG_LEVEL_WARN,
                  "label pod_uid: %s; it needs the kubelet's folder of pod logs, mounted read-only from the node's "
                  "/var/log/pods and named by --kubernetes-pod-logs",
                  why);
}

/* What the folder said of pods that are still of interest. True if that is something else than before. */
static bool take_result(PodUids *uids, const Map *found)
{
    const MapEntry *entry;
    bool changed = false;

    for (size_t at = 0; (entry = map_next(found, &at));) {
        PodDir *known = map_get(&uids->known, entry->key), *now = entry->value;

        if (!known)
            continue;
        changed |= strcmp(known->uid, now->uid) != 0;
        *known = *now;
    }
    return changed;
}

static void fail_to_start(PodUids *uids, int code)
{
    Err err = {0};

    (void)err_set(&err, -code, "no thread can be started: %s", strerror(code));
    log_state(uids, -code, err.text);
    job_free(TAKE(uids->job));
}

static void start_read(PodUids *uids)
{
    int code;

    uids->start_ns = uv_hrtime();
    uids->due = uids->late = false;
    uids->job = job_new(uids, &uids->wake);
    code = job_start(uids->job);
    if (code)
        fail_to_start(uids, code);
}

static bool job_is_done(Job *job)
{
    bool done;

    pthread_mutex_lock(&job->lock);
    done = job->done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

static void on_wake(uv_async_t *wake)
{
    PodUids *uids = wake->data;
    Job *job = uids->job;
    bool changed = false;

    if (!job || !job_is_done(job))
        return;
    uids->job = NULL;
    if (uids->late && may_say(uids))
        log_write(uids->config.log, LOG_LEVEL_INFO, "label pod_uid: '%s' answers again", uids->dir);
    log_state(uids, job->rc, job->err.text);
    if (job->rc == 0)
        changed = take_result(uids, &job->pods);
    job_free(job);
    if (uids->due)
        start_read(uids);
    if (changed)
        uids->config.on_change(uids->config.self);
}

/* -- the header's functions ---------------------------------------------------------------------------------------- */

PodUids *pod_uids_new(uv_loop_t *loop, const PodUidsConfig *config)
{
    PodUids *uids = xcalloc(1, sizeof(*uids));

    uids->config = *config;
    uids->dir = xstrdup(config->dir);
    uids->limit = (LogLimit){.window_ns = LOG_WINDOW_NS, .burst = LOG_BURST};
    map_init(&uids->known);
    uv_async_init(loop, &uids->wake, on_wake); /* cannot fail: a loop has the descriptor for it from its start */
    uids->wake.data = uids;
    return uids;
}

static void on_closed(uv_handle_t *handle)
{
    PodUids *uids = handle->data;
    void (*closed)(void *self) = uids->closed;
    void *self = uids->closed_self;

    pods_done(&uids->known);
    free(uids->dir);
    free(uids);
    closed(self);
}

/* Leaves the job to its thread, where that still reads. */
static void job_leave(Job *job)
{
    bool done;

    pthread_mutex_lock(&job->lock);
    done = job->done;
    job->wake = NULL;
    pthread_mutex_unlock(&job->lock);
    if (done)
        job_free(job);
}

void pod_uids_close(PodUids *uids, void (*closed)(void *self), void *self)
{
    if (uids->job)
        job_leave(TAKE(uids->job));
    uids->closed = closed;
    uids->closed_self = self;
    uv_close((uv_handle_t *)&uids->wake, on_closed);
}

void pod_uids_want(PodUids *uids, const OwnerTable *table)
{
    Map before = uids->known;
    char key[PODDIR_KEY_ROOM];

    map_init(&uids->known);
    for (size_t i = 0; i < table->len; i++) {
        if (poddir_make_key(table->at[i].namespace, table->at[i].pod, key))
            pods_add(&uids->known, key, map_get(&before, key));
    }
    pods_done(&before);
    uids->due = uids->known.len > 0;
    if (uids->due && !uids->job)
        start_read(uids);
}

void pod_uids_tick(PodUids *uids)
{
    uint64_t passed = uv_hrtime() - uids->start_ns;

    if (!uids->job && uids->known.len > 0 && passed >= uids->config.again_ns)
        start_read(uids);
    if (!uids->job || uids->late || passed < uids->config.late_ns)
        return;
    uids->late = true;
    if (may_say(uids))
        log_write(uids->config.log, LOG_LEVEL_WARN,
                  "label pod_uid: reading '%s' takes long; the UIDs that are known stay, pods that come have none",
                  uids->dir);
}

const char *pod_uids_get(const PodUids *uids, const char *namespace, const char *pod)
{
    char key[PODDIR_KEY_ROOM];
    const PodDir *known = poddir_make_key(namespace, pod, key) ? map_get(&uids->known, key) : NULL;

    return known ? known->uid : "";
}
