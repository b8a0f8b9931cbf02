/* SPDX-License-Identifier: Apache-2.0 */
/* See podresources.h. A reading fills a map of its own, which belongs to the worker's thread meanwhile. */
#include "source/podresources/podresources.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/worker.h"

enum { PODS_MAX = 65536, LOG_BURST = 6 };
#define LOG_WINDOW_NS (10 * NS_PER_MIN)

/* The worker's job. */
typedef struct PodReading {
    char *dir;
    int (*read)(const char *path, const Map *pods, Err *err);
    Map pods; /* key -> PodDir */
    int rc;
    Err err;
} PodReading;

struct PodUids {
    PodUidsConfig config;
    Worker *worker;
    PodReading *reading;
    bool running; /* a reading is under way */
    bool due;     /* the pods are others than those of the last reading */
    bool late;    /* the one under way was said to be late */
    Map known;    /* key -> PodDir, for every pod of interest */
    int rc;       /* of the last reading */
    LogLimit limit;
    uint64_t start_ns;
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

/* -- a reading ----------------------------------------------------------------------------------------------------- */

static void run_reading(void *job)
{
    PodReading *reading = job;

    reading->rc = reading->read(reading->dir, &reading->pods, &reading->err);
}

static void free_reading(void *job)
{
    PodReading *reading = job;

    pods_done(&reading->pods);
    free(reading->dir);
    free(reading);
}

static void start_reading(PodUids *uids)
{
    const MapEntry *entry;

    pods_done(&uids->reading->pods);
    map_init(&uids->reading->pods);
    for (size_t at = 0; (entry = map_next(&uids->known, &at));)
        pods_add(&uids->reading->pods, entry->key, NULL);
    uids->start_ns = uv_hrtime();
    uids->due = uids->late = false;
    uids->running = true;
    worker_start(uids->worker);
}

static bool may_say(PodUids *uids)
{
    uint64_t held;

    return log_limit(&uids->limit, uv_hrtime(), &held);
}

/* What the folder said of pods that are still of interest. True if that is something else than before. */
static bool take_result(PodUids *uids)
{
    const PodReading *reading = uids->reading;
    const MapEntry *entry;
    bool changed = false;

    uids->running = false;
    if (uids->late && may_say(uids))
        log_write(uids->config.log, LOG_LEVEL_INFO, "label pod_uid: '%s' answers again", reading->dir);
    if (reading->rc != uids->rc && may_say(uids)) {
        if (reading->rc == 0)
            log_write(uids->config.log, LOG_LEVEL_INFO, "label pod_uid: '%s' can be read", reading->dir);
        else
            log_write(uids->config.log, LOG_LEVEL_WARN,
                      "label pod_uid: %s; it needs the kubelet's folder of pod logs, mounted read-only from the node's "
                      "/var/log/pods and named by --kubernetes-pod-logs",
                      reading->err.text);
    }
    uids->rc = reading->rc;
    for (size_t at = 0; reading->rc == 0 && (entry = map_next(&reading->pods, &at));) {
        PodDir *known = map_get(&uids->known, entry->key), *now = entry->value;

        if (!known)
            continue;
        changed |= strcmp(known->uid, now->uid) != 0;
        *known = *now;
    }
    return changed;
}

/* -- the header's functions ---------------------------------------------------------------------------------------- */

int pod_uids_new(const PodUidsConfig *config, PodUids **ret, Err *err)
{
    PodReading *reading = xcalloc(1, sizeof(*reading));
    Worker *worker;
    PodUids *uids;

    reading->dir = xstrdup(config->dir);
    reading->read = config->read ? config->read : poddir_read;
    TRY(worker_new(run_reading, free_reading, reading, &worker, err));
    uids = xcalloc(1, sizeof(*uids));
    uids->config = *config;
    uids->worker = worker;
    uids->reading = reading;
    uids->limit = (LogLimit){.window_ns = LOG_WINDOW_NS, .burst = LOG_BURST};
    map_init(&uids->known);
    *ret = uids;
    return 0;
}

void pod_uids_free(PodUids *uids)
{
    if (!uids)
        return;
    worker_free(uids->worker);
    pods_done(&uids->known);
    free(uids);
}

void pod_uids_want(PodUids *uids, const AllocationTable *table)
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
    if (uids->due && !uids->running)
        start_reading(uids);
}

bool pod_uids_tick(PodUids *uids)
{
    const bool changed = uids->running && !worker_is_busy(uids->worker) && take_result(uids);
    const uint64_t passed = uv_hrtime() - uids->start_ns;

    if (!uids->running && uids->known.len > 0 && (uids->due || passed >= uids->config.again_ns)) {
        start_reading(uids);
    } else if (uids->running && !uids->late && passed >= uids->config.late_ns) {
        uids->late = true;
        if (may_say(uids))
            log_write(uids->config.log, LOG_LEVEL_WARN,
                      "label pod_uid: reading '%s' takes long; the UIDs that are known stay, pods that come have none",
                      uids->reading->dir);
    }
    return changed;
}

const char *pod_uids_get(const PodUids *uids, const char *namespace, const char *pod)
{
    char key[PODDIR_KEY_ROOM];
    const PodDir *known = poddir_make_key(namespace, pod, key) ? map_get(&uids->known, key) : NULL;

    return known ? known->uid : "";
}
