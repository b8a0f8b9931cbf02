/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Making a node tree (tree.h) the real one for one command and what it starts: a private mount namespace in which
 * /proc, /sys and /dev show the tree's files among the machine's own. Changes of the tree are seen inside at once, in
 * /dev within NODE_LAG_MS; nothing is seen outside. Needs root (CAP_SYS_ADMIN). Call from a process without other
 * threads.
 *
 * What is replaced: /proc/driver, /proc/modules, /proc/devices, /sys/bus/pci and /sys/class/infiniband as a whole (the
 * machine's own PCI devices are not shown); added: /sys/devices/pciDDDD:BB, /sys/module/nvidia*, /dev/nvidia* (device
 * nodes with the modes of the tree's), which a helper process keeps like the tree's.
 *
 * A kernel without loadable modules has no /proc/modules, and a file cannot be added to procfs. /proc is then a folder
 * of links to it, and the helper keeps up with new processes (every NODE_LAG_MS, a thousand ahead): a list of /proc has
 * entries of processes that do not exist yet, and the file system's type reads as tmpfs.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { NODE_LAG_MS = 50 };

typedef enum NodeProc {
    NODE_PROC_AUTO, /* as it is where the kernel has /proc/modules, else rebuilt */
    NODE_PROC_KEEP, /* as it is: entries without a file there are not shown */
    NODE_PROC_REBUILD,
} NodeProc;

typedef struct NodeCommand {
    const char *root;        /* of the tree; not below /proc or /sys */
    bool enter;              /* without, the command sees the machine's own files */
    const char *const *argv; /* NULL-ended; argv[0] is searched in PATH */
    const char *const *env;  /* "NAME=value" set for it, NULL-ended; or NULL */
    const sigset_t *mask;    /* of signals that it begins with; NULL: ours */
    NodeProc proc;
} NodeCommand;

/* Starts the command; the caller waits for *ret_pid. It shares our terminal and files, and gets SIGTERM when the
 * calling thread ends. -errno, that of the
 * mounts and of exec too, and then nothing is left; -EPERM where we are not root. */
int node_spawn(const NodeCommand *command, pid_t *ret_pid, Err *err);

/* The same for the calling process itself, which stays inside. On an error it may be half inside: it should end. */
int node_enter(const char *root, NodeProc proc, Err *err);
