/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for source/host/host.c: each look at the node is made at once, in the caller's thread. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "source/host/host.h"
#include "source/host/scan.h"

struct Host {
    char *root;
    uint64_t period_ns, due_ns;
    HostScan known, fresh;
    VEC(uint32_t) wanted;
};

int host_open(const HostConfig *config, Host **ret, Err *err)
{
    Host *host = xcalloc(1, sizeof *host);

    (void)err;
    host->root = xstrdup(config->root ? config->root : "");
    host->period_ns = config->period_ns;
    *ret = host;
    return 0;
}

void host_close(Host *host)
{
    if (!host)
        return;
    vec_done(&host->known.processes);
    vec_done(&host->known.places);
    vec_done(&host->fresh.processes);
    vec_done(&host->fresh.places);
    vec_done(&host->wanted);
    pod_names_free(host->fresh.pods);
    free(host->root);
    free(host);
}

void host_tick(Host *host, uint64_t now_ns, const pid_t *samplers, size_t sampler_count)
{
    (void)samplers;
    (void)sampler_count;
    if (now_ns < host->due_ns)
        return;
    host->due_ns = now_ns + host->period_ns;
    vec_clear(&host->fresh.processes);
    for (size_t i = 0; i < host->wanted.len; i++)
        process_owner_init(vec_add(&host->fresh.processes), host->wanted.at[i]);
    host_scan_read(host->root, &host->fresh);
    const HostProcesses before = host->known.processes;
    host_scan_merge(&host->known, &host->fresh, now_ns);
    host->known.processes = host->fresh.processes;
    host->fresh.processes = before;
    if (host->fresh.rc == 0)
        host_places_merge(&host->known.places, &host->fresh.places, &host->known.facts);
}

Facts *host_facts(Host *host)
{
    return &host->known.facts;
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

uint64_t host_late_ns(const Host *host, uint64_t now_ns)
{
    (void)host;
    (void)now_ns;
    return 0;
}
