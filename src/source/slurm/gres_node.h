/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What gres.conf needs of a node beside its driver: the device minors of MIG instances, the cores near each GPU, and
 * whether Slurm's NVML plugin is installed. Files below `root` ("": the machine's). Any thread.
 */

#include "base/err.h"
#include "model/gres.h"

/* Fills gi_minor and ci_minor of the instances, cores, core_count and plugin. Cores that the kernel does not tell stay
 * unknown. -errno: there is an instance, and the driver's list of minors cannot be read or lacks it. */
int gres_node_complete(const char *root, GresNode *node, Err *err);
