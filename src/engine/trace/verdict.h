/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How verdicts are found: facts measured in a rank's judged steps (verdict.c), and the rules of verdict.def over them
 * (verdict_rules.c). Inside the engine; others call trace_verdicts. */

#include "base/str.h"
#include "engine/trace/analyse.h"

#define VERDICT(NAME, ...) VERDICT_##NAME,
typedef enum VerdictId {
#include "engine/trace/verdict.def"
    VERDICT_COUNT
} VerdictId;

#define LIMIT(NAME, ...) double NAME;
typedef struct VerdictLimits {
#include "engine/trace/verdict.def"
} VerdictLimits;

#define HINT(NAME, ...) VERDICT_HINT_##NAME,
typedef enum VerdictHint {
#include "engine/trace/verdict.def"
    VERDICT_HINT_COUNT
} VerdictHint;

/* What a rule found. */
typedef struct VerdictFinding {
    double cost_ns; /* per step */
    double gain;    /* share of the cost, at most the rule's own */
    int64_t rank;   /* -1, or the rank that a rule over all ranks names */
    Str evidence, advice;
} VerdictFinding;

/* Fills cost_ns, evidence and hints, and returns true where the data shows it, whatever the threshold. `facts` is one
 * rank's; rules over all ranks (straggler, bus bandwidth) get the first of as many as the report has ranks. */
typedef bool (*VerdictRuleFn)(const TraceFacts *facts, VerdictFinding *finding);

typedef struct VerdictRule {
    const char *id, *advice, *reason;
    VerdictRuleFn find;
    double threshold_percent, gain;
} VerdictRule;

extern const VerdictRule verdict_rules[VERDICT_COUNT];
extern const VerdictLimits verdict_limits;

#define VERDICT(NAME, id, rule, ...) bool rule_##rule(const TraceFacts *facts, VerdictFinding *finding);
#include "engine/trace/verdict.def"
