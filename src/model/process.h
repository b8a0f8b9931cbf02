/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who a process on a GPU is: its program, its user and the container, pod or batch job that it runs in, as far as /proc
 * tells. Plain values without pointers. Filled by source/proc/who.h; a text that is not known is "".
 */

#include <stddef.h>
#include <stdint.h>

enum {
    PROCESS_NAME_CAP = 64,
    PROCESS_USER_CAP = 40,
    PROCESS_CONTAINER_CAP = 72, /* 64 hexadecimal digits */
    PROCESS_RUNTIME_CAP = 16,
    PROCESS_POD_UID_CAP = 40,
    PROCESS_JOB_CAP = 32,
    PROCESS_COMMAND_CAP = 512,
};

typedef struct ProcessOwner {
    uint32_t pid;
    uint64_t start_ns; /* after boot: with the pid it names one process for ever; 0: it was not found */
    uint32_t uid;      /* UINT32_MAX: not known */
    uint64_t rss_bytes, cpu_ns;
    uint64_t written_bytes;                /* to storage, since its start; UINT64_MAX: not known */
    uint32_t children;                     /* child processes that are on no GPU (loaders); 0 where not looked for */
    uint64_t child_cpu_ns;                 /* of these together */
    uint64_t open_gpus;                    /* bit N: it has /dev/nvidiaN open; only of holders (proc/unlisted.h) */
    char state;                            /* R, S, D, ... ; 0: not known */
    char name[PROCESS_NAME_CAP];           /* the kernel's short name of it */
    char user[PROCESS_USER_CAP];           /* of the node's own /etc/passwd, else the number */
    char runtime[PROCESS_RUNTIME_CAP];     /* "docker", "containerd", "cri-o", "podman", "lxc", ... */
    char container[PROCESS_CONTAINER_CAP]; /* its id */
    char container_name[PROCESS_NAME_CAP]; /* in its pod, by the links that the kubelet keeps to logs */
    char pod_uid[PROCESS_POD_UID_CAP];
    char pod[PROCESS_NAME_CAP * 4], namespace[PROCESS_NAME_CAP]; /* by the UID, where it is known whose that is */
    char job[PROCESS_JOB_CAP];         /* Slurm's number of it: "4711", with its step "4711.0" */
    char command[PROCESS_COMMAND_CAP]; /* with its arguments; only where it was asked for, as they may hold secrets */
} ProcessOwner;

/* By pid; borrowed. Processes that were not found are in it with start_ns 0, or not at all. */
typedef struct ProcessList {
    const ProcessOwner *at;
    size_t len;
    uint64_t time_ns; /* when they were read, the node's clock; 0: not known */
} ProcessList;

/* One of which nothing is known but its pid. */
void process_owner_init(ProcessOwner *owner, uint32_t pid);

/* Brings pids into order, each once; returns how many are left. */
size_t process_pids_settle(uint32_t *pids, size_t count);

/* The one with this pid; NULL if there is none. */
const ProcessOwner *process_list_find(const ProcessList *list, uint32_t pid);
