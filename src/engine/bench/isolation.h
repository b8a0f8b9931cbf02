/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a neighbour costs: a victim alone, then beside a neighbour that loads one thing after the other, then alone
 * again; of each measure the loss, and whether it is isolated. Pure; one thread.
 *
 * MIG devices of different GPU instances share the board's power and the link to the host by design: those are named,
 * and are no broken isolation. Nothing is isolated by default: each measure needs its values of all rounds, and the two
 * rounds alone have to agree.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/bench.h"

/* WORD(id, key, text) */
#define ISOLATION_MEASURE_TABLE(WORD)                                                                                  \
    WORD(ISOLATION_READ, "memory.read", "memory, read")                                                                \
    WORD(ISOLATION_L2, "l2.read", "L2, read")                                                                          \
    WORD(ISOLATION_COMPUTE, "compute", "mma.sync")                                                                     \
    WORD(ISOLATION_CLOCK, "clock", "clock")                                                                            \
    WORD(ISOLATION_LAUNCH, "launch", "launch, median")                                                                 \
    WORD(ISOLATION_LAUNCH_P99, "launch.p99", "launch, 99 %")                                                           \
    WORD(ISOLATION_COPY, "host.to", "from host")

typedef enum IsolationMeasure { ISOLATION_MEASURE_TABLE(WORD_ID) ISOLATION_MEASURE_END } IsolationMeasure;

/* In their order. Between the first two alone: a round for each BenchFlood. */
#define ISOLATION_ROUND_TABLE(WORD)                                                                                    \
    WORD(ISOLATION_BEFORE, "before", "alone")                                                                          \
    WORD(ISOLATION_MEMORY, "memory", "memory flood")                                                                   \
    WORD(ISOLATION_L2_FLOOD, "l2", "L2 flood")                                                                         \
    WORD(ISOLATION_BURN, "compute", "mma burn")                                                                        \
    WORD(ISOLATION_COPIES, "copy", "host copies")                                                                      \
    WORD(ISOLATION_AFTER, "after", "alone again")                                                                      \
    WORD(ISOLATION_OTHER, "other", "the neighbour alone")

typedef enum IsolationRound { ISOLATION_ROUND_TABLE(WORD_ID) ISOLATION_ROUND_END } IsolationRound;

/* WORD(id, key, text): from the least to the worst. The link says nothing of the whole. */
#define ISOLATION_VERDICT_TABLE(WORD)                                                                                  \
    WORD(ISOLATION_UNKNOWN, "unknown", "could not tell")                                                               \
    WORD(ISOLATION_ISOLATED, "isolated", "isolated")                                                                   \
    WORD(ISOLATION_SHARES_LINK, "shares-link", "shares the host link")                                                 \
    WORD(ISOLATION_SHARES_POWER, "shares-power", "shares power")                                                       \
    WORD(ISOLATION_SHARES_SMS, "shares-sms", "shares SMs")                                                             \
    WORD(ISOLATION_SHARES_MEMORY, "shares-memory", "shares memory")                                                    \
    WORD(ISOLATION_TIME_SHARED, "time-shared", "time-shared")

typedef enum IsolationVerdict { ISOLATION_VERDICT_TABLE(WORD_ID) ISOLATION_VERDICT_END } IsolationVerdict;

/* WORD(id, key, text): how the two are set up. */
#define ISOLATION_SETUP_TABLE(WORD)                                                                                    \
    WORD(ISOLATION_TWO_INSTANCES, "mig", "on another GPU instance of the same GPU")                                    \
    WORD(ISOLATION_ONE_INSTANCE, "mig-one-instance", "on another compute instance of the same GPU instance")           \
    WORD(ISOLATION_ONE_DEVICE, "device", "on the same device")                                                         \
    WORD(ISOLATION_MPS, "mps", "on the same device, under MPS")

typedef enum IsolationSetup { ISOLATION_SETUP_TABLE(WORD_ID) ISOLATION_SETUP_END } IsolationSetup;

extern const WordRow isolation_measures[ISOLATION_MEASURE_END], isolation_rounds[ISOLATION_ROUND_END],
    isolation_verdicts[ISOLATION_VERDICT_END], isolation_setups[ISOLATION_SETUP_END];

typedef struct IsolationRun {
    IsolationSetup setup;
    bool twins; /* the neighbour is a device of the same size, so that OTHER is comparable */
    /* GB/s, TFLOP/s, MHz, us; NAN: not measured. */
    double value[ISOLATION_ROUND_END][ISOLATION_MEASURE_END];
    double l2_mhz[ISOLATION_ROUND_END];  /* the clock while L2 was read; that of compute is ISOLATION_CLOCK */
    double checked_bytes, foreign_words; /* of new memory, over all rounds: looked at, and holding the pattern */
} IsolationRun;

typedef struct IsolationFinding {
    IsolationVerdict verdict;
    double alone;                 /* mean of before and after; of L2 and compute too as measured */
    double cost[BENCH_FLOOD_END]; /* part that is lost, of latency what it grew by; L2 and compute per clock */
    BenchFlood flood;             /* that costs the most */
    double drift;                 /* between before and after */
    bool unsteady;                /* more than the limit, so that nothing can be said */
} IsolationFinding;

enum { ISOLATION_TEXT_CAP = 480 };

typedef struct IsolationJudgement {
    IsolationVerdict verdict;
    IsolationFinding measures[ISOLATION_MEASURE_END];
    bool leaks;                    /* the neighbour's data were seen */
    double slow;                   /* part by which the victim alone is behind the neighbour alone; 0: it is not */
    IsolationMeasure slow_measure; /* which */
    char text[ISOLATION_TEXT_CAP]; /* a sentence or more */
} IsolationJudgement;

void isolation_judge(const IsolationRun *run, IsolationJudgement *ret);
/* By how much of the value alone it changed under a flood, with its sign: -0.5 is half the bandwidth, or half the
 * latency. */
double isolation_change(const IsolationJudgement *judgement, IsolationMeasure measure, BenchFlood flood);
/* Whether this is what was to be expected of MIG: nothing to do. */
bool isolation_is_fine(const IsolationJudgement *judgement);
