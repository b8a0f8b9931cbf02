/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside engine/bench: one judgement under way. */

#include "base/attribute.h"
#include "engine/bench/judge.h"

typedef struct Judge {
    const BenchRun *run;
    const BenchReferences *refs; /* may be all empty */
    BenchJudgement *out;
    uint32_t gpu_count;  /* that are judged */
    BenchTable values;   /* of the run */
    BenchTable *history; /* of each run of it */
} Judge;

/* --- finding.c ---------------------------------------------------------------------------------------------------- */

/* A finding about a GPU (BENCH_NONE: the node). Valid until the next one. */
BenchFinding *judge_add(Judge *judge, BenchSeverity severity, BenchSymptom symptom, BenchPart part, uint32_t gpu);
/* Appends to its sentence; "GPU 3: " is put before it in the end (judge_end), unless the finding is about a pair. */
void judge_say(BenchFinding *finding, const char *fmt, ...) PRINTF_LIKE(2, 3);
const BenchFinding *judge_find(const Judge *judge, uint32_t gpu, BenchSymptom symptom);
/* Whether the part of a GPU (BENCH_NONE: any) was found degraded or worse. */
bool judge_is_bad(const Judge *judge, uint32_t gpu, BenchPart part);
/* Puts findings that all GPUs share into one, names the GPUs, and sorts. */
void judge_end(Judge *judge);

/* The number that people know the GPU by. */
uint32_t judge_index(const Judge *judge, uint32_t gpu);
uint64_t judge_all(const Judge *judge); /* bits of all GPUs */
bool judge_has_nvlinks(const Judge *judge);
bool judge_same_model(const Judge *judge, uint32_t a, uint32_t b);
const BenchWatch *judge_watch(const BenchGpu *gpu, BenchStage stage);
/* Why its clock was low in a stage, by the driver's clocks event reasons. */
BenchReason judge_reason(const BenchGpu *gpu, BenchStage stage);

/* --- compare.c ---------------------------------------------------------------------------------------------------- */

/* A value with one reference. */
typedef struct BenchComparison {
    BenchBasis basis;
    uint32_t count;
    double value, reference, spread_percent, behind_percent;
} BenchComparison;

/* All references of a GPU's value in their order, the closest first. Returns how many; 0: there is none. */
size_t compare_all(const Judge *judge, uint32_t column, uint32_t gpu, BenchComparison ret[BENCH_BASIS_END]);
/* Published of a board in the unit of the measure; NAN: nothing is. */
double compare_published(const char *gpu_name, BenchMeasureId id);
/* Power limits that are the same. */
bool compare_limits(double a_w, double b_w);
/* Whether what is set on two GPUs lets them have the same value. */
bool compare_settings(uint32_t column, const BenchGpu *a, const BenchGpu *b);

/* Whether a comparison is beyond a limit. Where there is a `closer` reference, only much of the board's counts; values
 * that differ widely among themselves say less. */
bool compare_limit(uint32_t column, const BenchComparison *comparison, bool closer, BenchSeverity *ret);
/* The reference, the first in their order, that says the worst. False: none says anything. */
bool compare_worst(const Judge *judge, uint32_t column, uint32_t gpu, BenchComparison *ret,
                   BenchSeverity *ret_severity);
void compare_set(BenchFinding *finding, const BenchComparison *comparison);
/* "6.0 % behind the 7 other H100 of this node (median 3,205, MAD 0.05 %)" */
void compare_say(const Judge *judge, BenchFinding *finding, uint32_t gpu, const BenchComparison *comparison,
                 const char *unit);

/* --- the parts ---------------------------------------------------------------------------------------------------- */

void judge_errors(Judge *judge);   /* judge_errors.c: calls, wrong values, GPUs that do not answer */
void judge_counters(Judge *judge); /* judge_counters.c: ECC, links, XIDs */
void judge_clocks(Judge *judge);   /* judge_rates.c */
void judge_rates(Judge *judge);    /* judge_rates.c: values of each GPU, and its SMs */
void judge_links(Judge *judge);    /* judge_links.c: pairs of GPUs */
void judge_together(Judge *judge); /* judge_rates.c: all GPUs at once */
void judge_missing(Judge *judge);  /* judge_missing.c: what was asked for and did not come */
