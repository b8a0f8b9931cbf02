/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which job has which GPU, as a workload manager's prolog writes it: a directory of files named after a GPU ("3") or a
 * MIG GPU instance of it ("3.7"), with a job id on each line. The owner embeds it; one thread. Reads the directory: not
 * for one on a network file system where the loop must not wait.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    uint64_t stamp;  /* of the files as they were read last */
    bool settled;    /* none of them was young then: the same stamp means the same files */
    uint64_t reads;  /* times that the files were read */
} Hpc;

void hpc_init(Hpc *hpc, const char *dir);
void hpc_done(Hpc *hpc); /* accepts a zeroed one */

/* Brings the table up to date; files are read again only where one has come, gone or changed since, or was younger than
 * two seconds when they were read. 1 where the table changed (the texts of the old one are gone with the next call), 0
 * if it did not. Where the directory cannot be read: -errno, and the table is empty. A file that cannot be read counts
 * as empty and left out. */
int hpc_update(Hpc *hpc, Err *err);
