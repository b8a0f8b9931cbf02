/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How verdicts are found: facts measured in a rank's measured steps (verdict.c), and the rules of verdict.def over them
 * (verdict_idle.c, verdict_compute.c, verdict_transfer.c, verdict_profile.c). Inside the engine; others call
 * trace_verdicts. */

#include "base/human.h"
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

/* Whose profile it is: what can be advised depends on it. */
typedef enum VerdictPlatform { PLATFORM_TORCH, PLATFORM_ROCM, PLATFORM_XLA, PLATFORM_PLAIN } VerdictPlatform;

VerdictPlatform verdict_platform(const TraceRank *rank);
/* The rule's advice, or what stands in for it on that platform. */
const char *verdict_advice(VerdictId id, VerdictPlatform platform);

/* What a rule found. */
typedef struct VerdictFinding {
    double cost_ns;   /* per step */
    double gain;      /* share of the cost, at most the rule's own */
    int64_t rank;     /* -1, or the rank that a rule over all ranks names */
    bool once;        /* most of the cost is one idle time */
    TraceCause cause; /* of idle time that it is about; TRACE_CAUSE_COUNT: another matter */
    VerdictPlatform platform;
    Str evidence;
    Str hints;       /* behind the rule's advice */
    bool hints_only; /* in place of it */
} VerdictFinding;

/* Fills cost_ns, evidence and hints, and returns true where the data shows it, whatever the threshold. `facts` is one
 * rank's; rules over all ranks (straggler, bus bandwidth) get the first of as many as the report has ranks, and
 * `straggler` the group that it is about. */
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

/* --- verdict_parts.c: which idle time belongs to which rule ---------------------------------------------------------
 */

/* Takes the idle time between decode steps, and before operations of the optimizer, from its causes, where it is worth
 * a verdict; and divides gaps of several causes. */
void verdict_part_idle(TraceFacts *facts);
/* The gap's time that has that cause for the rules: of a step that they look at, and no part of those above. */
int64_t verdict_gap_ns(const TraceFacts *facts, const TraceGap *gap, TraceCause cause);
/* Whether the rule looks at that step; -1: none. */
bool verdict_measures_step(const TraceFacts *facts, int32_t step);
/* Steps that are looked at times devices: what sums are divided by. */
double verdict_count_windows(const TraceFacts *facts);
/* What a kernel costs at least, whatever it does; ns. */
double verdict_find_shortest_kernel(const TraceRank *rank);

/* --- verdict_text.c: what the rules have in common ------------------------------------------------------------------
 */

enum { VERDICT_NAME_BYTES = 80, VERDICT_NAME_ROOM = VERDICT_NAME_BYTES + sizeof "..." };

/* Texts that live as long as the block they stand in: "12.3 ms", "4.50 GiB", and a name, shortened. */
#define TIME_TEXT(ns) human_ns((char[HUMAN_MAX]){0}, (double)(ns))
#define BYTES_TEXT(bytes) human_bytes((char[HUMAN_MAX]){0}, (double)(bytes))
#define NAME_TEXT(name) verdict_shorten_name((char[VERDICT_NAME_ROOM]){0}, (name))
const char *verdict_shorten_name(char out[VERDICT_NAME_ROOM], const char *name);

/* A word of a table as text: "host_bound" is "host bound". */
#define WORD_TEXT(word) verdict_spell_word((char[VERDICT_NAME_ROOM]){0}, (word))
const char *verdict_spell_word(char out[VERDICT_NAME_ROOM], const char *word);

/* 0 of nothing. */
double verdict_percent(double part, double whole);
/* A hint goes to the advice where it fits the platform. */
void verdict_add_hint(VerdictFinding *finding, VerdictHint hint);
/* `what` and "69.3 ms of a step of 188 ms (36.9 %)". */
void verdict_add_time(const TraceFacts *facts, VerdictFinding *finding, const char *what, double ns);
void verdict_add_cost(const TraceFacts *facts, VerdictFinding *finding, const char *what);
/* Begins the next name of a list, the first with `first`. False: there are enough. */
bool verdict_begin_name(Str *out, size_t *said, const char *first);
/* Where the host was in the gaps of that cause in measured steps; nothing where no gap has a name. */
void verdict_add_gaps(Str *out, const TraceFacts *facts, TraceCause cause);
/* The peak of a device whose own totals and capacity are recorded, -1 otherwise. */
int64_t verdict_memory_peak(const TraceMemoryDevice *memory);
