/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanning thread. The Worker is shared, under its lock; while `busy` the scan belongs to the thread. The last user
 * of the Worker frees it: host_close, unless the thread is scanning then.
 */

#include "source/host/host.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "source/host/scan.h"

#define IN_TIME_NS (3 * NS_PER_S) /* kernel time */
#define SOON_NS NS_PER_S          /* between scans that new processes bring forward */

enum { STACK_BYTES = 512 * 1024 };

typedef struct Worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool busy;     /* a scan was requested and is not done */
    bool quit;     /* the thread is to end */
    bool orphaned; /* closed: the thread frees this */
    HostScan scan;
    char *root;
} Worker;

struct Host {
    HostConfig config;
    Worker *worker;
    pthread_t thread;
    bool waiting; /* for a scan */
    uint64_t begun_ns, begun_kernel_ns, due_ns;
    HostScan known;
    VEC(uint32_t) wanted, asked; /* sorted pids: for the next scan, and of the last one */
};

static uint64_t kernel_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* ---- the thread ---- */

static void worker_free(Worker *worker)
{
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker->root);
    vec_done(&worker->scan.processes);
    vec_done(&worker->scan.places);
    pod_names_free(worker->scan.pods);
    free(worker);
}

static void *run_worker(void *arg)
{
    Worker *worker = arg;
    bool orphaned;

    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->busy && !worker->quit)
            pthread_cond_wait(&worker->wake, &worker->lock);
        if (worker->quit)
            break;
        pthread_mutex_unlock(&worker->lock);
        host_scan_read(worker->root, &worker->scan);
        pthread_mutex_lock(&worker->lock);
        worker->busy = false;
    }
    orphaned = worker->orphaned;
    pthread_mutex_unlock(&worker->lock);
    if (orphaned)
        worker_free(worker);
    return NULL;
}

/* Signals are for the loop's thread. */
static int start_thread(Host *host, Err *err)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&host->thread, &attr, run_worker, host->worker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc ? err_set(err, -rc, "start a thread that looks at the node: %s", strerror(rc)) : 0;
}

/* ---- ours ---- */

int host_open(const HostConfig *config, Host **ret, Err *err)
{
    Host *host = xcalloc(1, sizeof(*host));

    host->config = *config;
    host->worker = xcalloc(1, sizeof(*host->worker));
    pthread_mutex_init(&host->worker->lock, NULL);
    pthread_cond_init(&host->worker->wake, NULL);
    host->worker->root = xstrdup(config->root ? config->root : "");
    host->config.root = host->worker->root;
    int rc = start_thread(host, err);
    if (rc < 0) {
        worker_free(host->worker);
        free(host);
        return rc;
    }
    *ret = host;
    return 0;
}

void host_close(Host *host)
{
    Worker *worker;
    bool busy;

    if (!host)
        return;
    worker = host->worker;
    pthread_mutex_lock(&worker->lock);
    worker->quit = true;
    busy = worker->orphaned = worker->busy;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    if (busy) {
        pthread_detach(host->thread);
    } else {
        pthread_join(host->thread, NULL);
        worker_free(worker);
    }
    vec_done(&host->known.processes);
    vec_done(&host->known.places);
    vec_done(&host->wanted);
    vec_done(&host->asked);
    free(host);
}

static void mark_ours(Facts *facts, const pid_t *samplers, size_t count)
{
    for (size_t i = 0; i < facts->stuck_len; i++) {
        facts->stuck[i].ours = false;
        for (size_t k = 0; k < count; k++)
            facts->stuck[i].ours |= samplers[k] == facts->stuck[i].pid;
    }
}

/* True where the running scan was finished and merged. */
static bool merge_scan(Host *host)
{
    bool over;

    pthread_mutex_lock(&host->worker->lock);
    over = !host->worker->busy;
    pthread_mutex_unlock(&host->worker->lock);
    if (over) {
        const HostProcesses before = host->known.processes;

        host_scan_merge(&host->known, &host->worker->scan, host->begun_ns);
        host->known.processes = host->worker->scan.processes;
        host->worker->scan.processes = before; /* its room is used again */
        if (host->worker->scan.rc == 0)
            host_places_merge(&host->known.places, &host->worker->scan.places, &host->known.facts);
    }
    return over;
}

/* The worker is not at it. */
static void ask_for_processes(Host *host)
{
    HostProcesses *processes = &host->worker->scan.processes;

    vec_clear(processes);
    vec_clear(&host->asked);
    for (size_t i = 0; i < host->wanted.len; i++) {
        process_owner_init(vec_add(processes), host->wanted.at[i]);
        vec_push(&host->asked, host->wanted.at[i]);
    }
}

static void start_scan(Host *host, uint64_t now_ns)
{
    ask_for_processes(host);
    host->begun_ns = now_ns;
    host->begun_kernel_ns = kernel_now();
    host->due_ns = now_ns + host->config.period_ns;
    host->waiting = true;
    pthread_mutex_lock(&host->worker->lock);
    host->worker->busy = true;
    pthread_cond_signal(&host->worker->wake);
    pthread_mutex_unlock(&host->worker->lock);
}

/* A new pid was requested: the others may be gone. */
static bool asks_for_others(const Host *host)
{
    size_t at = 0;

    for (size_t i = 0; i < host->wanted.len; i++) {
        while (at < host->asked.len && host->asked.at[at] < host->wanted.at[i])
            at++;
        if (at == host->asked.len || host->asked.at[at] != host->wanted.at[i])
            return true;
    }
    return false;
}

void host_set_processes(Host *host, const uint32_t *pids, size_t count)
{
    vec_clear(&host->wanted);
    for (size_t i = 0; i < count && i < HOST_PROCESSES_MAX; i++)
        vec_push(&host->wanted, pids[i]);
    host->wanted.len = process_pids_settle(host->wanted.at, host->wanted.len);
}

ProcessList host_processes(const Host *host)
{
    return (ProcessList){host->known.processes.at, host->known.processes.len};
}

PlaceList host_places(const Host *host)
{
    return (PlaceList){host->known.places.at, host->known.places.len};
}

void host_tick(Host *host, uint64_t now_ns, const pid_t *samplers, size_t sampler_count)
{
    if (host->waiting)
        host->waiting = !merge_scan(host);
    if (!host->waiting && (now_ns >= host->due_ns || (asks_for_others(host) && now_ns >= host->begun_ns + SOON_NS)))
        start_scan(host, now_ns);
    mark_ours(&host->known.facts, samplers, sampler_count);
}

Facts *host_facts(Host *host)
{
    return &host->known.facts;
}

uint64_t host_late_ns(const Host *host, uint64_t now_ns)
{
    if (!host->waiting || kernel_now() - host->begun_kernel_ns < IN_TIME_NS)
        return 0;
    return now_ns > host->begun_ns ? now_ns - host->begun_ns : 1;
}
