/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Facts of the node that need no driver: the PCI functions of its GPUs with their links and AER counts, the kernel
 * module's version, tasks that hang in it, services. Files of /proc and /sys can be slow, so the looks are made by a
 * thread of our own: one that does not come back holds up nothing (not the loop, nor its worker pool, nor the end of
 * the program), it is told, and no second one is started. All functions are called by one thread.
 *
 * No file of the driver's devices is opened, since that can wait for ever in the driver. Whether a device cgroup keeps
 * us out is asked with access(2), for which the kernel asks the cgroup and not the driver.
 */

#include "base/err.h"
#include "model/facts.h"
#include "model/place.h"
#include "model/process.h"

typedef struct Host Host;

typedef struct HostConfig {
    const char *root;   /* before /proc, /sys and /dev, ""; copied */
    uint64_t period_ns; /* between looks, agent's clock */
} HostConfig;

int host_open(const HostConfig *config, Host **ret, Err *err);
/* Frees at once, or leaves a look under way to itself: it frees what it uses when it comes back. Accepts NULL. */
void host_close(Host *host);

/* Call at every tick: takes what a look has found and starts one where it is due. Pids of our own samplers are marked
 * in what is found. */
void host_tick(Host *host, uint64_t now_ns, const pid_t *samplers, size_t sampler_count);
/* The last look, time_ns 0 before the first. Its members about logs are the caller's to fill, and stay. */
Facts *host_facts(Host *host);

/* The processes on GPUs that the next looks shall find out about, by the driver's pids, in any order and each as often
 * as it likes; at most HOST_PROCESSES_MAX. New ones bring the next look forward. */
enum { HOST_PROCESSES_MAX = 1024 };
void host_set_processes(Host *host, const uint32_t *pids, size_t count);
/* Those of the last look, until the next turn. */
ProcessList host_processes(const Host *host);
/* Where GPUs and network adapters are, by the last look that could read the PCI bus; until the next turn. */
PlaceList host_places(const Host *host);
/* How long the look under way has been at it; 0: none is, or it is in time. */
uint64_t host_late_ns(const Host *host, uint64_t now_ns);

/* Version of the kernel module by /proc/driver/nvidia/version, "" where it is not loaded. Returns whether it is. */
bool host_module(const char *root, char ret_version[READING_TEXT_CAP]);

/* Which start of the machine this is: another id, another kernel, and pids and times after boot mean nothing to it. */
typedef struct HostBoot {
    char id[40];      /* "" where it cannot be known */
    uint64_t real_ns; /* wall clock; 0: not known */
} HostBoot;
void host_boot(const char *root, HostBoot *ret);

/* One look now, in the calling thread: for verbs without an agent. Fills what can be read; -errno for the PCI bus, of
 * which nothing is told then. */
int host_scan(const char *root, Facts *ret, Err *err);
