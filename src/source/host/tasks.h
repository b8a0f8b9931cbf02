/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processes of the node as /proc has them: those that hang in the driver, and its services. One file of each is
 * read (its first thread's), and more only of those that sleep uninterruptibly; none of these files takes a lock that a
 * hanging process could hold. Any thread.
 */

#include <stdint.h>

#include "model/facts.h"

enum { HOST_TASKS_MAX = 65536, HOST_FDS_MAX = 1024 };

typedef struct HostTasks {
    bool known; /* there is a /proc */
    bool persistenced, fabric_manager;
    size_t stuck_count, stuck_len;
    FactsTask stuck[FACTS_STUCK_MAX]; /* since_ns and ours are not filled */
    uint64_t start[FACTS_STUCK_MAX];  /* clock ticks after boot at which each began: with its pid, who it is */
} HostTasks;

void host_tasks_look(const char *root, HostTasks *ret);
