/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which job has which GPU, as a workload manager's prolog writes it: a directory of files named after a GPU ("3") or a
 * MIG GPU instance of it ("3.7"), with a job id on each line. The owner embeds it; one thread. Reads files: not for a
 * directory on a network file system where the loop must not wait.
 */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/allocation.h"

enum {
    HPC_NAME_MAX = 23, /* bytes of two numbers and a dot */
    HPC_FILES_MAX = 1024,
    HPC_FILE_BYTES_MAX = 64 * 1024,
    HPC_JOBS_MAX = 256,      /* of one file */
    HPC_JOB_BYTES_MAX = 128, /* of one job id */
};

typedef struct HpcTable {
    JobAllocation *at; /* sorted by GPU, instance, job; no two alike */
    size_t len, cap;
    Arena arena; /* of the texts */
} HpcTable;

typedef struct Hpc {
    char *dir;
    HpcTable table, spare;
    size_t left_out; /* files and lines over a limit or of another form */
} Hpc;

void hpc_init(Hpc *hpc, const char *dir);
void hpc_done(Hpc *hpc); /* accepts a zeroed one */

/* Brings the table up to date. 1 where it changed (the texts of the old one are gone with the next call), 0 if it did
 * not. Where the directory cannot be read: -errno, and the table is empty. A file that cannot be read counts as empty
 * and left out. */
int hpc_update(Hpc *hpc, Err *err);
