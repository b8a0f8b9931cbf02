/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What `sim run` keeps up to date beside the image: the trees of /proc and /sys, the kernel log, living processes. */
#include "sim/node/node.h"
#include "verb/verb.h"

typedef struct BesideOptions {
    const char *tree, *kernel_log;
    int kernel_log_format; /* KernelLogFormat */
    bool enter, processes;
    bool boot_now; /* no start of the node was asked for: its processes are as old as they seem */
    bool no_tree;  /* but where one is named or entered */
} BesideOptions;

typedef struct Beside {
    SimImage *image;
    const char *tree_root; /* NULL: no tree */
    const char *tree_own;  /* the same when it is ours to remove, else NULL */
    const char *tree_dir;  /* folder that holds it then */
    NodeTree tree;
    KernelLog log;
    bool logs, lends;
    Lend lend;
} Beside;

/* Makes what the options ask for, at the node's present time. -errno; call beside_stop in any case. */
int beside_start(Beside *beside, const BesideOptions *options, SimImage *image, const char *image_path, Arena *arena,
                 Err *err);
/* Brings all of it up to now. -errno for the first that fails; the others are done all the same. */
int beside_tend(Beside *beside, Err *err);
void beside_stop(Beside *beside);
