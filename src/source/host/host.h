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

#include "base/err.h"
#include "model/facts.h"
#include "model/place.h"
#include "model/process.h"

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

/* Version of the kernel module by /proc/driver/nvidia/version, "" where it is not loaded. Returns whether it is. */
bool host_module(const char *root, char ret_version[READING_TEXT_CAP]);

/* Which start of the machine this is: another id, another kernel, and pids and times after boot mean nothing to it. */
typedef struct HostBoot {
    char id[40];      /* "" where it cannot be known */
    uint64_t real_ns; /* wall clock; 0: not known */
} HostBoot;
void host_boot(const char *root, HostBoot *ret);
