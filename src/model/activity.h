/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a GPU or MIG instance is doing, in one word with its reason and numbers. Decided by engine/activity alone and
 * kept in the Node; every output shows it as it is. Plain data, any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/word.h"

/* WORD(id, key) */
#define ACTIVITY_TABLE(WORD)                                                                                           \
    WORD(ACTIVITY_UNKNOWN, "unknown")     /* not known what it does */                                                 \
    WORD(ACTIVITY_WORKING, "working")     /* its multiprocessors work */                                               \
    WORD(ACTIVITY_WAITING, "waiting")     /* a program runs on it, and the GPU mostly waits */                         \
    WORD(ACTIVITY_IDLE_HELD, "idle held") /* a program holds it and nothing runs */                                    \
    WORD(ACTIVITY_FREE, "free")           /* no program holds it */                                                    \
    WORD(ACTIVITY_UNUSABLE, "unusable")   /* an open incident says that it cannot be used */

typedef enum ActivityWord { ACTIVITY_TABLE(WORD_ID) ACTIVITY_END } ActivityWord;

/* WORD(id, key): what a waiting GPU waits for. */
#define ACTIVITY_CAUSE_TABLE(WORD)                                                                                     \
    WORD(ACTIVITY_CAUSE_NONE, "")                 /* the counters do not tell */                                       \
    WORD(ACTIVITY_CAUSE_INPUT, "input")           /* mostly no kernel runs: data, requests or the program are late */  \
    WORD(ACTIVITY_CAUSE_LAUNCHES, "launches")     /* kernels fill few multiprocessors: small, one after another */     \
    WORD(ACTIVITY_CAUSE_COLLECTIVE, "collective") /* a kernel spins without any work or traffic */                     \
    WORD(ACTIVITY_CAUSE_OTHER_RANK, "other rank") /* the same, and another GPU of the job does not take part */

typedef enum ActivityCause { ACTIVITY_CAUSE_TABLE(WORD_ID) ACTIVITY_CAUSE_END } ActivityCause;

/* WORD(id, key): what the word was decided by. */
#define ACTIVITY_BASIS_TABLE(WORD)                                                                                     \
    WORD(ACTIVITY_BASIS_NONE, "none")                                                                                  \
    WORD(ACTIVITY_BASIS_SM_ACTIVE, "sm_active")                                                                        \
    WORD(ACTIVITY_BASIS_UTILIZATION, "utilization") /* and power and clocks: no SM activity is reported */             \
    WORD(ACTIVITY_BASIS_INSTANCES, "instances")     /* what the MIG instances of the GPU do */                         \
    WORD(ACTIVITY_BASIS_INCIDENT, "incident")

typedef enum ActivityBasis { ACTIVITY_BASIS_TABLE(WORD_ID) ACTIVITY_BASIS_END } ActivityBasis;

enum { ACTIVITY_TEXT_CAP = 256, ACTIVITY_INCIDENT_CAP = 16 };

/* Shares are 0 to 1 and means over the window; NaN where not known. All zero is UNKNOWN without a reason. */
typedef struct Activity {
    ActivityWord word;
    ActivityCause cause; /* of WAITING */
    ActivityBasis basis;
    bool held;         /* a process, a pod or memory in use */
    uint32_t window_s; /* seconds with readings that were used */
    uint64_t since_ns; /* of the word, monotonic */
    double sm_active, utilization, power_share, clock_share, tensor, dram;
    uint32_t waiters;                     /* GPUs of its job that wait for it */
    double waiters_speed;                 /* of the speed that they would have; NaN: they stand still, or none waits */
    uint32_t day_s[ACTIVITY_END];         /* seconds of each word in the last 24 h, or since the start */
    char incident[ACTIVITY_INCIDENT_CAP]; /* of UNUSABLE: its id */
    char text[ACTIVITY_TEXT_CAP];         /* the reason, for a person */
} Activity;

extern const WordRow activity_words[ACTIVITY_END], activity_causes[ACTIVITY_CAUSE_END],
    activity_bases[ACTIVITY_BASIS_END];
