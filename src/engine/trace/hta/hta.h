/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The numbers of Holistic Trace Analysis (HTA 0.6.1, its nanosecond rounding switched off) under its own definitions,
 * oddities included; docs/trace.md lists them. Times are nanoseconds where HTA's tables have microseconds (whatever
 * their headings say). Numbers that HTA does not give are NaN, or the part's `why` says why it stops there. Pure; the
 * same events in the same order give the same report.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "engine/trace/hta/rows.h"

typedef struct HtaOptions {
    int64_t kernel_delay_ns;   /* consecutive_kernel_delay: shorter idle times are "kernel_wait". 30 us */
    bool last_step;            /* include_last_profiler_step */
    double duration_ratio;     /* of the kernel table: 0.8 */
    size_t kernel_count;       /* num_kernels: 10 */
    int64_t queue_length;      /* of a full queue: 1024 */
    int64_t runtime_cutoff_ns; /* of launch statistics: 50 us */
    int64_t delay_cutoff_ns;   /* 100 us */
    size_t straggler_count;    /* num_candidates: 2 */
} HtaOptions;

extern const HtaOptions hta_options_default;

/* As pandas describes numbers: sample deviation, quantiles by linear interpolation. Without numbers all are NaN. */
typedef struct HtaDescribe {
    int64_t count;
    double mean, std, min, p25, p50, p75, max;
} HtaDescribe;

typedef struct HtaTemporal {
    int64_t idle_ns, compute_ns, non_compute_ns, kernel_ns;
    double idle_pctg, compute_pctg, non_compute_pctg; /* 2 decimals */
} HtaTemporal;

typedef struct HtaIdleRow {
    int64_t stream;
    const char *category; /* "host_wait", "kernel_wait", "other" */
    int64_t idle_ns;
    double ratio;          /* of the stream's, 2 decimals */
    HtaDescribe intervals; /* ns */
} HtaIdleRow;

typedef struct HtaKernelRow {
    const char *type, *name; /* "others": joined by HTA, and then each number is of the sums */
    int64_t rank;
    int64_t sum_ns, max_ns, min_ns;
    double mean_ns, std_ns;
} HtaKernelRow;

typedef struct HtaTypeRow {
    const char *type; /* "COMPUTATION overlapping MEMORY" */
    int64_t sum_ns;
    double percentage; /* 1 decimal */
} HtaTypeRow;

typedef struct HtaQueueRow {
    int64_t stream;
    HtaDescribe length;
    int64_t full_ns;
    double full_share; /* of the trace's duration; NaN */
} HtaQueueRow;

typedef struct HtaPoint {
    int64_t start;
    double gbs;
} HtaPoint;

typedef struct HtaBandwidthRow {
    const char *name;
    HtaDescribe gbs;
    VEC(HtaPoint) points;
} HtaBandwidthRow;

typedef struct HtaLaunches {
    HtaDescribe cpu_ns, gpu_ns, delay_ns;
    int64_t short_kernels, runtime_outliers, delay_outliers;
} HtaLaunches;

/* What HTA has in its table for a rank, and what it left out: for those who wonder about a number. */
typedef struct HtaCounts {
    int64_t gpu_rows;         /* rows with a stream, after its filter */
    int64_t dropped;          /* kernels, copies, sets that its filter dropped */
    int64_t repeated;         /* rows that its join put in again */
    int64_t sync_rows;        /* of gpu_rows: synchronisations */
    int64_t host_rows;        /* of gpu_rows: rows of the host that carry a stream */
    int64_t negative;         /* of gpu_rows: with a duration below 0 */
    int64_t unknown_count;    /* of gpu_rows: communication to us and not to HTA */
    const char *unknown_name; /* the one that takes longest, "" none */
    int64_t misnamed_count;   /* of gpu_rows: kernels, copies and sets that compute to one of us and not to the other */
    const char *misnamed_name; /* likewise */
} HtaCounts;

typedef struct HtaRank {
    int64_t rank;
    const char *file;
    HtaCounts counts;
    bool has_gpu; /* false: HTA stops with an error at the temporal breakdown */
    HtaTemporal temporal;
    double overlap_pctg; /* 2 decimals, NaN without communication */
    VEC(HtaIdleRow) idle;
    VEC(HtaQueueRow) queues;
    const char *queue_why; /* "" fine */
    VEC(HtaBandwidthRow) bandwidth;
    HtaLaunches launches;
} HtaRank;

typedef struct HtaStraggler {
    int64_t rank, count;
} HtaStraggler;

typedef struct HtaReport {
    Arena arena;
    HtaOptions options;
    bool filtered;      /* the last step, and what was not launched before it, were dropped */
    int64_t step_names; /* different names of steps over all ranks */
    bool ns;
    VEC(HtaRank) ranks;
    VEC(HtaTypeRow) types;
    VEC(HtaKernelRow) kernels;
    VEC(HtaStraggler) straggler_counts; /* by rank */
    VEC(int64_t) stragglers;            /* ranks, as HTA answers */
    const char *straggler_why;          /* "" fine */
} HtaReport;

/* Reads `rows` of all ranks, each a rank of its own. `rows` may go afterwards. `options` NULL: the defaults. */
void hta_report_init(HtaReport *report, const HtaRows *const *rows, size_t count, const HtaOptions *options);
void hta_report_done(HtaReport *report); /* accepts a zeroed one */
