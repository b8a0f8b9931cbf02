/* SPDX-License-Identifier: Apache-2.0 */
/* Scans by a worker: while it is busy the scan belongs to its thread. */

#include "source/host/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/worker.h"
#include "source/host/scan.h"

#define SOON_NS NS_PER_S /* between scans that new processes bring forward */

/* The worker's job. */
typedef struct Look {
    char *root;
    HostScan scan;
} Look;

struct Host {
    uint64_t period_ns;
    Worker *worker;
    Look *look;
    bool waiting; /* for a scan */
    uint64_t begun_ns, due_ns;
    HostScan known;
    VEC(uint32_t) wanted, asked; /* sorted pids: for the next scan, and of the last one */
};

static void run_look(void *job)
{
    Look *look = job;

    host_scan_read(look->root, &look->scan);
}

static void free_look(void *job)
{
    Look *look = job;

    free(look->root);
    vec_done(&look->scan.processes);
    vec_done(&look->scan.places);
    vec_done(&look->scan.pods);
    free(look);
}

int host_open(const HostConfig *config, Host **ret, Err *err)
{
    Look *look = xcalloc(1, sizeof(*look));
    Worker *worker;
    Host *host;

    look->root = xstrdup(config->root ? config->root : "");
    if (worker_new(run_look, free_look, look, &worker, err) < 0)
        return err_add(err, "look at the node");
    host = xcalloc(1, sizeof(*host));
    host->period_ns = config->period_ns;
    host->worker = worker;
    host->look = look;
    *ret = host;
    return 0;
}

void host_close(Host *host)
{
    if (!host)
        return;
    worker_free(host->worker);
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
    HostScan *fresh = &host->look->scan;
    const HostProcesses before = host->known.processes;

    if (worker_is_busy(host->worker))
        return false;
    host_scan_merge(&host->known, fresh, host->begun_ns);
    host->known.processes = fresh->processes;
    fresh->processes = before; /* its room is used again */
    return true;
}

/* The worker is not at it. */
static void start_scan(Host *host, uint64_t now_ns)
{
    HostProcesses *processes = &host->look->scan.processes;

    vec_clear(processes);
    vec_clear(&host->asked);
    for (size_t i = 0; i < host->wanted.len; i++) {
        process_owner_init(vec_add(processes), host->wanted.at[i]);
        vec_push(&host->asked, host->wanted.at[i]);
    }
    host->begun_ns = now_ns;
    host->due_ns = now_ns + host->period_ns;
    host->waiting = true;
    worker_start(host->worker);
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
