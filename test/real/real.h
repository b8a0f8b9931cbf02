/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * stoker-real: one run on a machine with NVIDIA's driver. main.c runs the steps one after another, each in a process of
 * its own with a deadline, and keeps results.json up to date; the other files are what the steps do. Nothing here
 * changes a setting of the machine. JSON is jansson's, because results are read and added to. One thread.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/subproc.h"

enum {
    REAL_TEXT_MAX = 64 << 20, /* of what a command prints */
    REAL_ASK_MS = 10 * 1000,  /* for a command that usually takes less than one second */
};

/* How a step went. What it found out is in its result in every case. */
typedef enum StepEnd {
    STEP_OK,
    STEP_FINDING,    /* done, and something is not as it was meant */
    STEP_IMPOSSIBLE, /* this machine lacks what it needs; result.text says what */
    STEP_FAILED,     /* result.text says why */
} StepEnd;

typedef struct Real {
    const char *bin;     /* the folder of stoker, stoker-sampler, nvml-record and this program */
    const char *out;     /* the folder of results */
    const char *scratch; /* a folder for sockets, removed at the end */
    const char *library; /* of the driver */
    const char *control; /* the control socket of the run's own agent */
    const char *http;    /* and its HTTP socket */
    double pace;         /* 1: as long as a good measurement takes; less: shorter, for tests */
    json_t *root;        /* results so far: {..., "steps": [...]} */
} Real;

/* Milliseconds of a measurement that takes `ms` at full length; at least one second. */
uint64_t real_paced(const Real *real, uint64_t ms);

/* The result of an earlier step by name, borrowed; NULL if there is none. */
const json_t *real_result(const Real *real, const char *step);

/* Appends a line for the report, printf-like, to result.lines. */
void real_add_line(json_t *result, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Sets result.text: the step in one sentence. Returns `end`. */
StepEnd real_end(json_t *result, StepEnd end, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The outcome of two parts of a step: the worse one. */
StepEnd real_worse(StepEnd a, StepEnd b);

/* --- command.c: other programs ------------------------------------------------------------------------------------ */

/* Runs a program to its end or for timeout_ms; what it printed is appended to `out`. 0 and *ret_code (128 + signal
 * where it was killed), -ETIME where it did not end in time, or another -errno. */
int command_run(const char *const *argv, const char *const *env, uint64_t timeout_ms, Str *out, int *ret_code,
                Err *err);

/* The same for one of our own programs: its name below real->bin and its options, ended by NULL. */
int command_run_own(const Real *real, const char *const *argv, uint64_t timeout_ms, Str *out, int *ret_code, Err *err);

/* nvidia-smi with options ended by NULL; in the library path that this machine had before us. */
int command_run_smi(const char *const *options, Str *out, int *ret_code, Err *err);

/* What the run's agent knows now: the object of `stoker status --json`, to json_decref. NULL and err. */
json_t *command_ask_agent(const Real *real, Err *err);

/* The object of a GPU in that by its index; NULL: none. Borrowed. */
json_t *command_find_gpu(json_t *status, int index);

/* A reading of a GPU's object: a metric by its name, or NAN where it is absent or `gpu` is NULL. "activity.X" is X of
 * its activity; "power_share" power over its limit. */
double command_read_metric(const json_t *gpu, const char *metric);

/* Starts our agent with `options` (ended by NULL) after those that keep it to itself: no journal, sockets of its own.
 */
int command_start_agent(const Real *real, const char *const *options, Subproc *ret, Err *err);

/* Writes a text into the folder of results. */
int command_save(const Real *real, const char *name, const Str *text, Err *err);

/* GET of a path from a unix socket of HTTP; the whole answer with its head. -errno. */
int command_get_page(const char *socket_path, const char *path, Str *out, Err *err);

/* --- library.c: the driver's library ------------------------------------------------------------------------------ */

StepEnd library_read_machine(const Real *real, json_t *result, Err *err);  /* driver, GPUs, kernel */
StepEnd library_read_settings(const Real *real, json_t *result, Err *err); /* what must be the same at the end */
StepEnd library_compare_settings(const Real *real, json_t *result, Err *err);
StepEnd library_measure_calls(const Real *real, json_t *result, Err *err);

/* --- compare.c, judge.c: Stoker beside nvidia-smi ------------------------------------------------------------------
 */

typedef enum CompareVerdict {
    COMPARE_SAME,    /* within the limit */
    COMPARE_DIFFERS, /* and Stoker's two readings agree with each other */
    COMPARE_MOVING,  /* Stoker's readings before and after differ by more than the limit: nothing to judge */
    COMPARE_NEITHER, /* neither reports it */
    COMPARE_ONLY_STOKER,
    COMPARE_ONLY_SMI, /* a finding: Stoker lacks it */
    COMPARE_END
} CompareVerdict;

extern const char *const compare_words[COMPARE_END];

/* Verdict about nvidia-smi's value between two readings of Stoker, before and after; NAN: not reported. It may lie
 * outside their range by `limit`; `counter`: they must not fall either. *ret_difference: how far it is outside the
 * range, 0 inside; NAN where one is missing. */
CompareVerdict compare_judge(double before, double smi, double after, double limit, bool counter,
                             double *ret_difference);

/* The text of nvidia-smi's --format=csv,noheader,nounits as a number: "[N/A]" and the like are NAN, words (Enabled,
 * Default, P0, 0x0000000000000001) the number that NVML has for them. */
double compare_read_text(const char *text);

/* Rounds of comparisons of all GPUs; result.rows, one for each GPU and value. */
StepEnd compare_run(const Real *real, unsigned int rounds, json_t *result, Err *err);
StepEnd compare_read_idle(const Real *real, json_t *result, Err *err);

/* A counters CSV of all metrics that are compared, for the agent that is held beside nvidia-smi. */
void compare_add_counters(Str *csv);

/* GPM by nvidia-smi dmon and by NVML itself beside the agent's, of one GPU, now. */
StepEnd compare_read_gpm(const Real *real, int gpu, json_t *result, Err *err);
StepEnd compare_read_gpm_idle(const Real *real, json_t *result, Err *err);

/* GPM's value for each id between two samples `ms` apart, ratios as such and rates in bytes/s; NAN where refused. */
int library_read_gpm(const Real *real, int gpu, const unsigned int *ids, size_t count, uint64_t ms, double *ret,
                     Err *err);

/* --- cost.c ------------------------------------------------------------------------------------------------------- */

StepEnd cost_of_1hz(const Real *real, json_t *result, Err *err);
StepEnd cost_of_10hz(const Real *real, json_t *result, Err *err);
StepEnd cost_as_shipped(const Real *real, json_t *result, Err *err);

/* --- watch.c: what Stoker says about kernels that are known ---------------------------------------------------------
 */

StepEnd watch_spin(const Real *real, json_t *result, Err *err);
StepEnd watch_launch(const Real *real, json_t *result, Err *err);
StepEnd watch_copy(const Real *real, json_t *result, Err *err);
StepEnd watch_matmul(const Real *real, json_t *result, Err *err);
StepEnd watch_holder(const Real *real, json_t *result, Err *err);
/* `stoker bench`, whose results are bench-RUNG.json in the results' folder. */
StepEnd watch_bench(const Real *real, json_t *result, Err *err);

/* --- work.c: the kernels, in a process of their own ----------------------------------------------------------------
 */

/* Runs the kernel `kind` (spin, launch, copy, matmul, hold) for so many seconds on the GPU at this PCI address and
 * prints what it did as one line of JSON. Returns an exit code: 0 done, 3 no CUDA here, 1 anything else. */
int work_run(const char *kind, const char *pci, double seconds);
