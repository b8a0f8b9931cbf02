/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How verdicts are found: facts measured in a rank's judged steps, and the rules of verdict.def over them. Inside
 * the engine; others call trace_verdicts. */

#include "base/str.h"
#include "engine/trace/analyse.h"

#define VERDICT(NAME, ...) VERDICT_##NAME,
typedef enum VerdictId {
#include "engine/trace/verdict.def"
    VERDICT_COUNT
} VerdictId;

#define LIMIT(NAME, ...) VERDICT_LIMIT_##NAME,
typedef enum VerdictLimit {
#include "engine/trace/verdict.def"
    VERDICT_LIMIT_COUNT
} VerdictLimit;

#define HINT(NAME, ...) VERDICT_HINT_##NAME,
typedef enum VerdictHint {
#include "engine/trace/verdict.def"
    VERDICT_HINT_COUNT
} VerdictHint;

/* A rank's time per judged step, ns, of its devices in the mean. Without steps: of the devices' spans. */
typedef struct VerdictFacts {
    const TraceReport *report;
    const TraceRank *rank;
    size_t first_step, steps; /* judged ones; 0 steps: the whole span */
    double step_ns, busy_ns, idle_ns, compute_ns, communication_ns, exposed_communication_ns, exposed_copy_ns;
    double idle_by_cause[TRACE_CAUSE_COUNT];
    double queued_gaps;                       /* gaps of TRACE_CAUSE_QUEUED per step and device */
    double operations;                        /* GPU operations per step and device */
    double whole_compute_ns, whole_kernel_ns; /* of all of the rank's devices and time: what tables are shares of */
    double whole_communication_ns;
} VerdictFacts;

/* What a rule found. */
typedef struct VerdictFinding {
    double cost_ns; /* per step */
    double gain;    /* share of the cost, at most the rule's own */
    int64_t rank;   /* -1, or the rank that a rule over all ranks names */
    Str evidence, advice;
} VerdictFinding;

/* Fills cost_ns, evidence and hints, and returns true where the data shows it, whatever the threshold. `facts` is one
 * rank's; rules over all ranks (straggler, bus bandwidth) get the first of as many as the report has ranks. */
typedef bool (*VerdictRuleFn)(const VerdictFacts *facts, VerdictFinding *finding);

typedef struct VerdictRule {
    const char *id, *advice, *reason;
    VerdictRuleFn find;
    double threshold_percent, gain;
} VerdictRule;

extern const VerdictRule verdict_rules[VERDICT_COUNT];
extern const double verdict_limits[VERDICT_LIMIT_COUNT];

static inline double verdict_limit(VerdictLimit number)
{
    return verdict_limits[number];
}

/* Facts of a rank; `outlier`: its first step was left out as a warm-up. */
void verdict_facts(const TraceReport *report, const TraceRank *rank, VerdictFacts *ret, bool *ret_outlier);

/* Link speed of the rank's first device by name, GB/s; 0 unknown. */
double verdict_link_gbs(const TraceRank *rank);

/* Text: "12.3 ms", "4.50 GiB", "33.4 %", and a name, shortened. A hint goes to the advice. */
void verdict_add_time(Str *out, double ns);
void verdict_add_bytes(Str *out, double bytes);
void verdict_add_percent(Str *out, double part, double whole);
void verdict_add_name(Str *out, const char *name);
void verdict_hint(VerdictFinding *finding, VerdictHint hint);

/* "69.3 ms of a step of 188 ms (36.9 %)" */
void verdict_add_cost(Str *out, const VerdictFacts *facts, double ns);

/* "; longest gaps while NAME (12.3 ms), ..." after the gaps of that cause in judged steps; "" where none has a name. */
void verdict_add_gaps(Str *out, const VerdictFacts *facts, TraceCause cause);

/* "; NAME in OPERATOR: 12 calls, 3.4 ms" for the calls of a class that took longest. */
void verdict_add_calls(Str *out, const VerdictFacts *facts, TraceHostClass class);

/* Whether an operator, an annotation or the host event of a gap of the rank has this in its name. */
bool verdict_has_name(const TraceRank *rank, const char *part);

#define VERDICT(NAME, id, rule, ...) bool rule_##rule(const VerdictFacts *facts, VerdictFinding *finding);
#include "engine/trace/verdict.def"
