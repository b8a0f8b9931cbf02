/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What Nsight Systems exports, read into a Profile: the SQLite file of `nsys export --type sqlite` and the tables of
 * `nsys stats --format csv`. Tables and columns that a version of nsys does not have are done without; the exporter's
 * documentation names them. Times are nanoseconds from the start of the session. One thread per call.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/profile.h"

/* What of a launch nsys does not know. */
#define NSYS_LAUNCH_UNKNOWN .occupancy_percent = -1, .blocks_per_sm = -1, .warps_per_sm = -1, .collective = PROFILE_NONE

/* By a file's first bytes (16 are enough; of a CSV all its preamble): SQLite; one of the CSV tables below. */
bool nsys_is_sqlite(const char *bytes, size_t len);
bool nsys_is_csv(const char *bytes, size_t len);

/* Reads kernels, copies, sets, whole graphs, API calls, NVTX ranges, OS calls, synchronisation, memory, threads' names
 * and what the file says of its GPUs and host. `stop` (may be NULL) becomes true where the user interrupts: -EINTR.
 * -ENOSPC over memory_max bytes of profile (0: no limit); -EBADMSG where the file is no export of nsys. Not sealed. */
int nsys_read_sqlite(const char *path, size_t memory_max, const bool *stop, Profile *into, Err *err);

/* A row of a summary, which has no times of single events. */
typedef struct NsysSummaryRow {
    const char *name; /* in the arena */
    int64_t count, total_ns, min_ns, max_ns;
    double mean_ns, sd_ns; /* NaN where the table lacks them */
} NsysSummaryRow;

typedef enum NsysTable {
    NSYS_TABLE_TRACE,   /* cuda_gpu_trace: into the profile */
    NSYS_TABLE_KERNELS, /* cuda_gpu_kern_sum, gpukernsum */
    NSYS_TABLE_COPIES,  /* cuda_gpu_mem_time_sum */
    NSYS_TABLE_CALLS,   /* cuda_api_sum */
    NSYS_TABLE_RANGES,  /* nvtx_sum */
} NsysTable;

typedef struct NsysSummary {
    NsysTable table;
    VEC(NsysSummaryRow) rows; /* none for NSYS_TABLE_TRACE */
} NsysSummary;

/* Reads one CSV table, preamble and all. Rows that cannot be read are losses of `into`. -EBADMSG where no known header
 * is found. */
int nsys_read_csv(const char *text, size_t len, Profile *into, NsysSummary *ret, Arena *arena, Err *err);
void nsys_summary_done(NsysSummary *summary);
