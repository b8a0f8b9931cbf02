/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a run of active tests says of each GPU: fit, not fit, or could not tell, and what is slow or wrong. Pure; one
 * thread.
 *
 * A value is compared with, in this order: the GPU's own earlier runs (three or more), the other GPUs of its model in
 * the run (three or more), its model on other nodes (three or more), published measurements of its board, and what its
 * clocks and widths allow. The first one that says the worst is named. Of the last two only much says anything, and
 * never that it is a fault. Work per clock and the clock under load are judged apart: the first is a constant of the
 * silicon, the second follows power and heat.
 *
 * Nothing is fit by default: every stage that was asked for has to have ended with its values.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "engine/bench/fleet.h"
#include "model/bench.h"

/* WORD(id, key, text) */
#define BENCH_VERDICT_TABLE(WORD)                                                                                      \
    WORD(BENCH_UNKNOWN, "unknown", "could not tell")                                                                   \
    WORD(BENCH_FIT, "fit", "fit")                                                                                      \
    WORD(BENCH_NOT_FIT, "not-fit", "not fit")

typedef enum BenchVerdict { BENCH_VERDICT_TABLE(WORD_ID) BENCH_VERDICT_END } BenchVerdict;

/* From the least to the worst. */
#define BENCH_SEVERITY_TABLE(WORD)                                                                                     \
    WORD(BENCH_NOTICE, "notice", "to note")                                                                            \
    WORD(BENCH_UNTESTED, "untested", "not tested")                                                                     \
    WORD(BENCH_DEGRADED, "degraded", "slower than it should be")                                                       \
    WORD(BENCH_FAULT, "fault", "wrong")

typedef enum BenchSeverity { BENCH_SEVERITY_TABLE(WORD_ID) BENCH_SEVERITY_END } BenchSeverity;

/* WORD(id, key, text): what a value was compared with. */
#define BENCH_BASIS_TABLE(WORD)                                                                                        \
    WORD(BENCH_BY_NOTHING, "none", "nothing")                                                                          \
    WORD(BENCH_BY_HISTORY, "history", "its own earlier runs")                                                          \
    WORD(BENCH_BY_PEERS, "peers", "the other GPUs of its model in this node")                                          \
    WORD(BENCH_BY_FLEET, "fleet", "its model in other nodes")                                                          \
    WORD(BENCH_BY_PUBLISHED, "published", "what was published of its board")                                           \
    WORD(BENCH_BY_PEAK, "peak", "what its clocks and widths allow")                                                    \
    WORD(BENCH_BY_ITSELF, "itself", "its own other parts")

typedef enum BenchBasis { BENCH_BASIS_TABLE(WORD_ID) BENCH_BASIS_END } BenchBasis;

/* WORD(id, key, text): what was found. */
#define BENCH_SYMPTOM_TABLE(WORD)                                                                                      \
    WORD(BENCH_SLOW, "slow", "slow")                                                                                   \
    WORD(BENCH_LOW_CLOCK, "low-clock", "low clock under load")                                                         \
    WORD(BENCH_SLOW_SM, "slow-sm", "slow SM")                                                                          \
    WORD(BENCH_MISSING_SM, "missing-sm", "missing SM")                                                                 \
    WORD(BENCH_WRONG_VALUES, "wrong-values", "wrong values")                                                           \
    WORD(BENCH_CORRUPTS, "corrupts", "copies are corrupted")                                                           \
    WORD(BENCH_NO_ACCESS, "no-access", "no access to another GPU")                                                     \
    WORD(BENCH_STAGED, "staged", "copies go through the host")                                                         \
    WORD(BENCH_LINKS_DOWN, "links-down", "NVLinks down")                                                               \
    WORD(BENCH_LINK_ERRORS, "link-errors", "errors of a link")                                                         \
    WORD(BENCH_MEMORY_ERROR, "memory-error", "uncorrectable memory error")                                             \
    WORD(BENCH_ECC_ERRORS, "corrected-ecc", "corrected memory errors")                                                 \
    WORD(BENCH_XID, "xid", "XID")                                                                                      \
    WORD(BENCH_BESIDE_OTHERS, "beside-others", "other work ran beside it")                                             \
    WORD(BENCH_HELD_MEMORY, "held-memory", "memory held by nobody")                                                    \
    WORD(BENCH_OLDER_TEXT, "older-kernels", "older kernels")                                                           \
    WORD(BENCH_HOT, "hot", "stopped for heat")                                                                         \
    WORD(BENCH_CALL_FAILED, "call-failed", "a call of CUDA failed")                                                    \
    WORD(BENCH_HUNG, "hung", "no answer")                                                                              \
    WORD(BENCH_PROCESS_ENDED, "process-ended", "the test's process ended")                                             \
    WORD(BENCH_STOPPED, "stopped", "stopped before its end")                                                           \
    WORD(BENCH_NO_RESULT, "no-result", "no result")

typedef enum BenchSymptom { BENCH_SYMPTOM_TABLE(WORD_ID) BENCH_SYMPTOM_END } BenchSymptom;

/* WORD(id, key, text): why, as far as the driver says. */
#define BENCH_REASON_TABLE(WORD)                                                                                       \
    WORD(BENCH_NO_REASON, "none", "no reason given")                                                                   \
    WORD(BENCH_REASON_CAP, "power-cap", "it is at its power limit")                                                    \
    WORD(BENCH_REASON_HEAT, "heat", "it slows down for heat")                                                          \
    WORD(BENCH_REASON_BRAKE, "power-brake", "the server brakes its power")                                             \
    WORD(BENCH_REASON_SLOWDOWN, "slowdown", "the hardware slows it down")                                              \
    WORD(BENCH_REASON_SETTING, "setting", "a setting, not a fault")                                                    \
    WORD(BENCH_REASON_PCIE, "pcie", "its PCIe link runs below what it can")                                            \
    WORD(BENCH_REASON_NVLINKS, "nvlinks", "NVLinks are down")

typedef enum BenchReason { BENCH_REASON_TABLE(WORD_ID) BENCH_REASON_END } BenchReason;

extern const WordRow bench_verdicts[BENCH_VERDICT_END], bench_severities[BENCH_SEVERITY_END],
    bench_bases[BENCH_BASIS_END], bench_symptoms[BENCH_SYMPTOM_END], bench_reasons[BENCH_REASON_END];

enum { BENCH_FINDING_CAP = 400 };

typedef struct BenchFinding {
    BenchSeverity severity;
    BenchSymptom symptom;
    BenchPart part;
    uint64_t gpus;          /* bits of the GPUs that it is about, by place in the run; 0: the node */
    uint32_t gpu, peer, sm; /* the one GPU, pair or SM; BENCH_NONE: none, or several */
    BenchMeasureId measure; /* BENCH_MEASURE_END: none */
    BenchErrorKind error;   /* BENCH_ERROR_END: none */
    int32_t code;           /* CUresult or XID; 0: none */
    BenchBasis basis;
    uint32_t count; /* of what it was compared with: runs, GPUs, nodes, SMs */
    /* In the measure's unit; where it is judged per clock, operations per clock and SM, or bytes per clock. NAN: none
     */
    double value, reference, spread_percent; /* spread: median distance from the median */
    double behind_percent;
    BenchReason reason;
    bool repeats, silent;         /* wrong values: the same each time; and the driver reported nothing */
    char text[BENCH_FINDING_CAP]; /* a sentence that names the GPU */
} BenchFinding;

typedef struct BenchJudgement {
    BenchVerdict verdict; /* of all GPUs: the worst, not fit before unknown */
    BenchVerdict gpus[BENCH_GPUS_MAX];
    VEC(BenchFinding) findings; /* the worst first */
} BenchJudgement;

enum { BENCH_HISTORY_MIN = 3, BENCH_HISTORY_MAX = 10, BENCH_PEERS_MIN = 3, BENCH_NODES_MIN = 3 };

typedef struct BenchReferences {
    const BenchRun *const *history; /* earlier runs of this node, the newest first; those without the GPU do no harm */
    size_t history_count;
    const BenchFleet *fleet; /* of other nodes; this one may be among them. NULL: none */
} BenchReferences;

/* `references` NULL: none. GPUs beyond BENCH_GPUS_MAX are not judged. */
void bench_judge(const BenchRun *run, const BenchReferences *references, BenchJudgement *ret);
void bench_judgement_done(BenchJudgement *judgement);
/* Whether values came out wrong; else what was found is slow, or could not be tested. */
bool bench_is_wrong(const BenchFinding *finding);
/* Whether the driver reports it too: an XID, ECC errors. */
bool bench_is_reported(const BenchFinding *finding);
/* The worst of what was found of this GPU; false: nothing. */
bool bench_worst(const BenchJudgement *judgement, uint32_t gpu, BenchSeverity *ret);
