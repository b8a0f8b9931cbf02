/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Job reports: what each job of a workload manager, pod and container did with the GPUs of this node, from the first
 * tick in which it held one to the last. Made from the holdings (engine/owner), the readings (engine/usage), the
 * verdicts (engine/why) and what the ledger charged (engine/ledger); decides nothing about these. Bounded:
 * JOBS_OPEN_MAX works at a time, JOBS_DEVICES_MAX devices in all of them together, what is beyond is counted. Pure:
 * time is that of the node, what must survive goes to a callback. One thread.
 */

#include "base/vec.h"
#include "engine/ledger/ledger.h"
#include "engine/usage/usage.h"
#include "model/why.h"

/* Nothing of it was seen for so long: it has ended. A job may work on the processor for a while between two steps. */
#define JOB_LEFT_NS UINT64_C(60000000000)
#define JOB_LEFT_MANAGER_NS UINT64_C(300000000000)
#define JOB_SAVE_NS UINT64_C(60000000000) /* between two saves of one that runs, at most */
#define JOB_SLICE_S 10.0                  /* the first length of a slice; doubled whenever there are too many */

enum {
    JOBS_OPEN_MAX = 64,
    JOBS_DEVICES_MAX = 128,
    JOB_SLICES = 48,
    JOB_PROBLEMS_MAX = 16,
    JOB_ID_CAP = 24,
};

/* WORD(id, key): what kind of work it is. */
#define JOB_KIND_TABLE(WORD)                                                                                           \
    WORD(JOB_OF_MANAGER, "job") /* of a workload manager */                                                            \
    WORD(JOB_POD, "pod")                                                                                               \
    WORD(JOB_CONTAINER, "container") /* outside of pods and jobs */

typedef enum JobKind { JOB_KIND_TABLE(WORD_ID) JOB_KIND_END } JobKind;

/* WORD(id, key, text): how its end is known. */
#define JOB_ENDING_TABLE(WORD)                                                                                         \
    WORD(JOB_RUNS, "", "runs")                                                                                         \
    WORD(JOB_LEFT, "left", "ended")                                                                                    \
    WORD(JOB_MISSED, "no_agent", "ended while no agent ran")

typedef enum JobEnding { JOB_ENDING_TABLE(WORD_ID) JOB_ENDING_END } JobEnding;

/* A part of its time: device seconds. */
typedef struct JobSlice {
    float held, known, busy; /* held; of these with a reading; that times SM activity, else utilisation */
    float why[WHY_END];      /* by the first verdict */
} JobSlice;

/* An incident that was open on a device while it held that. */
typedef struct JobProblem {
    char id[INCIDENT_ID_CAP], class[INCIDENT_CLASS_CAP], title[INCIDENT_TEXT_CAP];
    FaultSeverity severity;
    uint32_t gpu;           /* DEVICE_NO_NUMBER: the node, or not of one GPU */
    uint64_t first_real_ns; /* of the incident */
} JobProblem;

/* What a job of a workload manager used of this host; NaN: not known. */
typedef struct JobHost {
    double cpu_s, cpus;
    double memory_peak_bytes; /* the most that was seen at once, without the page cache */
    double memory_limit_bytes;
} JobHost;

typedef struct JobReport {
    char id[JOB_ID_CAP]; /* unique on this node, sorts by time */
    JobKind kind;
    JobEnding ending;
    Owner owner;       /* its first process alone is kept */
    Workload workload; /* of a pod: what made it; name "": not known */
    JobInfo info;      /* of the workload manager, where it was told */
    char node[256], driver[READING_TEXT_CAP];
    uint64_t seen_real_ns, last_real_ns; /* the first and the last tick that saw it, wall clock */
    uint64_t process_real_ns;            /* start of its first process that was seen; 0: not known */
    double elapsed_s;                    /* between those two, unseen time too */
    double away_s;                       /* of it: nothing of it was seen */
    double unseen_s;                     /* of it: no agent ran, or ran late */
    uint32_t restarts;                   /* of the agent meanwhile */
    VEC(UsageDevice) devices;            /* those that it held */
    bool devices_lost;                   /* there were more */
    double memory_peak_bytes;            /* on all of them at one instant; NaN: not known */
    JobHost host;                        /* as of the last reading */
    double gpu_hours;                    /* GPU time that the ledger charged */
    double cost, priced_s;               /* of the time with a price, and device seconds with one */
    char currency[PRICE_CURRENCY_CAP];   /* of the cost; "?" where prices were in several */
    VEC(JobProblem) problems;
    uint32_t problems_lost;
    double slice_s; /* length of a slice */
    JobSlice slices[JOB_SLICES];
} JobReport;

extern const WordRow job_kinds[JOB_KIND_END], job_endings[JOB_ENDING_END];

void job_report_init(JobReport *report);
void job_report_done(JobReport *report); /* accepts a zeroed one */

/* Slices of which something may be known. */
uint32_t job_slice_count(const JobReport *report);
/* Joules of all its devices; NaN where none has any. */
double job_energy_j(const JobReport *report);
/* Mean of the group's part in all its devices, weighted by time; NaN: not known. */
double job_mean(const JobReport *report, UsageMean mean);
/* Whether a name that a person typed means this one: its id, number, pod ("ns/pod" too) or container. */
bool job_is_named(const JobReport *report, const char *name);
/* "4711", "serving/chat-0", the first 12 digits of a container. */
void job_add_name(const JobReport *report, Str *out);
/* "GPU 3", "GPU 3 instance 1/0". */
void job_add_device(const UsageDevice *device, Str *out);
/* ", 1.25 EUR": this share of its cost; nothing where it has none or is in several currencies. */
void job_add_cost(const JobReport *report, double share, Str *out);
/* Device seconds of each verdict in the slices [from, to). Returns the device seconds that it held there. */
double job_sum_causes(const JobReport *report, size_t from, size_t to, double causes[WHY_END]);
/* The verdict with the most seconds. */
size_t job_find_most(const double causes[WHY_END]);

/* --- job_notes.c: what a report's numbers advise ------------------------------------------------------------------ */

/* A sentence or two each; the first matters most. */
typedef struct JobNotes {
    size_t count;
    char at[12][512];
} JobNotes;
void job_find_notes(const JobReport *report, JobNotes *ret);

/* --- those that run ----------------------------------------------------------------------------------------------- */

typedef struct Jobs Jobs;

/* A report is to be kept: a new one, one that runs and is due, or one that has ended and goes away then. */
typedef void (*JobsPut)(void *self, const JobReport *report);

Jobs *jobs_new(void);
void jobs_free(Jobs *jobs); /* accepts NULL */

/* One that ran when it was kept last; before the first update. Its content is taken. */
void jobs_restore(Jobs *jobs, JobReport *report);

/* The metrics that this needs: a bit per MetricId, added to `wanted`. */
void jobs_add_wanted(uint64_t wanted[METRIC_SET_WORDS]);

/* One tick, after activities, holdings and verdicts were decided. `charges`: of the snapshot's holdings, in their
 * order. `prices` NULL: none. */
void jobs_update(Jobs *jobs, const Snapshot *snapshot, const LedgerCharge *charges, const Prices *prices, JobsPut put,
                 void *self);

/* Puts all that run as they are now: the agent ends. */
void jobs_save(Jobs *jobs, JobsPut put, void *self);

size_t jobs_count(const Jobs *jobs);
const JobReport *jobs_at(const Jobs *jobs, size_t i);
/* Works that could not be followed since the start, as JOBS_OPEN_MAX others ran. */
uint64_t jobs_lost(const Jobs *jobs);
