/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which job has which GPU, as a workload manager's prolog writes it: a directory of files named after a GPU ("3") or a
 * MIG GPU instance of it ("3.7"), with a job id on each line. What has not changed is not read again: a call then costs
 * a stat of the directory and of each file. The owner embeds it; one thread. Reads files: not for a directory on a
 * network file system where the loop must not wait.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"

enum {
    HPC_NAME_CAP = 24, /* two numbers, a dot and the end */
    HPC_FILES_MAX = 1024,
    HPC_FILE_BYTES_MAX = 64 * 1024,
    HPC_JOBS_MAX = 256,      /* of one file */
    HPC_JOB_BYTES_MAX = 128, /* of one job id */
};

typedef struct HpcJob {
    uint32_t gpu;
    uint32_t gpu_instance; /* DEVICE_NO_NUMBER: the whole GPU */
    const char *job;
} HpcJob;

/* When a file or directory last changed, as far as its stat tells. */
typedef struct HpcStamp {
    uint64_t dev, ino, size;
    uint64_t changed_ns;  /* ctime, which a program cannot set */
    uint64_t modified_ns; /* mtime */
    uint64_t looked_ns;   /* when this was seen; a change so shortly before could be followed by one that looks alike */
} HpcStamp;

typedef struct HpcFile {
    char name[HPC_NAME_CAP];
    uint32_t gpu, gpu_instance;
    HpcStamp stamp;
    char *jobs; /* texts one behind the other, each with its NUL */
    size_t jobs_len;
    size_t left_out;
} HpcFile;

typedef VEC(HpcFile) HpcFiles;
typedef VEC(HpcJob) HpcJobs;

typedef struct Hpc {
    char *dir;
    HpcStamp stamp;
    HpcFiles files; /* sorted by name */
    HpcJobs table;  /* sorted by GPU, instance, job; no two alike */
    Arena arena;    /* of the table's texts */
    size_t names_left_out;
    size_t left_out; /* files and lines over a limit or of another form */
    uint64_t reads;  /* of files and of the directory, for tests */
} Hpc;

void hpc_init(Hpc *hpc, const char *dir);
void hpc_done(Hpc *hpc);

/* Brings the table up to date. 1 where it changed (texts of the old one are gone then), 0 if it did not. Where the
 * directory cannot be read: -errno, and the table is empty (so it did change where it had rows). A file that cannot be
 * read counts as empty and left out. */
int hpc_update(Hpc *hpc, Err *err);
