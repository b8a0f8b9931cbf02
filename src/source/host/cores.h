/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The node's cores by Slurm's numbers, from /sys/devices/system/cpu below `root`: cores in the order of their package,
 * NUMA node, L3 cache and first processor, each of these ordered by its own first processor, as hwloc's logical index.
 * Any thread.
 */

#include "base/err.h"
#include "model/gres.h"

enum { CORES_CPUS_MAX = 8192 };

typedef struct CoreMap {
    unsigned core_count;
    int16_t core[CORES_CPUS_MAX]; /* of each processor; -1: it is not there or offline */
} CoreMap;

/* -ENOENT: the kernel does not tell; -E2BIG: more processors or cores than the caps. */
int cores_read(const char *root, CoreMap *ret, Err *err);

/* The cores that have a processor near the PCI function at `address` (as sysfs writes it). -errno: the kernel does not
 * tell. */
int cores_near(const char *root, const char *address, const CoreMap *map, CoreSet *ret);
