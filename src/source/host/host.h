/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Facts of the node that need no driver: the PCI functions of its GPUs with their links and AER counts, the kernel
 * module's version, tasks that hang in it, services. Files of /proc and /sys can be slow, so a thread of this module
 * scans them: a scan that does not return blocks nothing (not the loop, nor its worker pool, nor the end of the
 * program), and no second one is started. All functions are called by one thread.
 *
 * No file of the driver's devices is opened, since that can wait forever in the driver. Whether a device cgroup denies
 * access is tested with access(2), for which the kernel asks the cgroup and not the driver.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "model/facts.h"
#include "model/place.h"
#include "model/process.h"
#include "source/proc/job_cgroup.h"
#include "source/proc/unlisted.h"
#include "source/proc/who.h"

typedef struct Host Host;

typedef struct HostConfig {
    const char *root;   /* before /proc, /sys and /dev, ""; copied */
    uint64_t period_ns; /* between scans, agent's clock */
} HostConfig;

int host_open(const HostConfig *config, Host **ret, Err *err);
/* Frees at once, or leaves a running scan to its thread, which frees its memory when it returns. Accepts NULL. */
void host_close(Host *host);

/* Call at every tick: merges a finished scan and starts one where it is due. Pids of our own samplers are marked in the
 * result. */
void host_tick(Host *host, uint64_t now_ns, const pid_t *samplers, size_t sampler_count);
/* The last scan, time_ns 0 before the first. The caller fills the members about logs, which stay. */
Facts *host_facts(Host *host);

/* The processes on GPUs to identify in the next scans, by the driver's pids, in any order and with repetitions; at most
 * HOST_PROCESSES_MAX. New ones bring the next scan forward. */
enum { HOST_PROCESSES_MAX = 1024 };
void host_set_processes(Host *host, const uint32_t *pids, size_t count);
/* Those of the last scan, valid until the next tick. */
ProcessList host_processes(const Host *host);
/* Where GPUs and network adapters are, by the last scan that could read the PCI bus; valid until the next tick. */
PlaceList host_places(const Host *host);

/* What Slurm's jobs on GPUs use of the host, as of the last scan; valid until the next tick. */
HostUsageList host_usages(const Host *host);

/* What other processes tell, as of the last scan; `holders` are looked for while it is asked for. Valid until the next
 * tick. */
typedef struct HostUnlisted {
    ProcessList holders;
    const char *holders_why; /* why not all could be looked for; "" */
    const JobDevice *devices;
    size_t device_count;
    const EndedJob *ended; /* as of this tick: whether a job's main task lives is read in each */
    size_t ended_count;
    bool steps_told;
} HostUnlisted;
void host_want_holders(Host *host, bool wanted);
/* A scan that begins at `since_ns` of the agent's clock or later is wanted at the next tick; 0: none is. */
void host_want_scan(Host *host, uint64_t since_ns);
HostUnlisted host_unlisted(const Host *host);

/* Version of the kernel module by /proc/driver/nvidia/version, "" where it is not loaded. Returns whether it is. */
bool host_module(const char *root, char ret_version[READING_TEXT_CAP]);

/* Which start of the machine this is: another id, another kernel, and pids and times after boot mean nothing to it. */
typedef struct HostBoot {
    char id[40];      /* "" where it cannot be known */
    uint64_t real_ns; /* wall clock; 0: not known */
} HostBoot;
void host_boot(const char *root, HostBoot *ret);

/* ---- one scan, and how it follows from the one before; any thread ---- */

/* Of each process one file is read (its first thread's), and more only of those that sleep uninterruptibly and those
 * on GPUs; none of
 * these files takes a lock that a hanging process could hold. No device is woken up. */

/* Processes that hang in the driver, and its services. */
enum { HOST_TASKS_MAX = 65536, HOST_FDS_MAX = 1024 };

/* Where the GPUs and the network adapters for RDMA are in the node, from sysfs. */
typedef VEC(Place) HostPlaces;

typedef VEC(ProcessOwner) HostProcesses;

typedef struct HostScan {
    int rc;                                   /* of the PCI bus: where it is below 0, facts has no GPUs */
    Err err;                                  /* then */
    Facts facts;                              /* since_ns and ours of tasks are not filled */
    uint64_t stuck_start_ns[FACTS_STUCK_MAX]; /* when each stuck task began: with its pid, who it is */
    HostProcesses processes;                  /* by pid */
    HostPlaces places; /* GPUs in the order of `facts`, then at most PLACE_ADAPTERS_MAX adapters by name */
    PodNames pods;     /* those that are known */
    Unlisted unlisted; /* kept from scan to scan */
    JobCgroups jobs;   /* as well */
} HostScan;

/* `processes` of *ret are those to be found out about: their pids are read, the rest is filled. The room of `places` is
 * used again. */
void host_scan_read(const char *root, HostScan *ret);
void host_scan_done(HostScan *scan); /* accepts a zeroed one */

/* Makes the facts those of `fresh`, of a scan begun at time_ns: GPUs that were there before stay as absent ones (all of
 * them as they were, where the bus could not be read), tasks keep since when they hang, the members about logs stay.
 * The places become those of `fresh`, whose room may be taken; GPUs that are no longer there stay where they were. */
void host_scan_merge(HostScan *known, HostScan *fresh, uint64_t time_ns);
