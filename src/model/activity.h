/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a GPU or MIG instance is doing, in one word with its reason and numbers. Decided by engine/activity alone and
 * kept in the Node; every output shows it as it is. Plain data, any thread.
 */

#include <stdbool.h>
#include <stdint.h>

/* ACTIVITY(id, key) */
#define ACTIVITY_TABLE(ACTIVITY)                                                                                       \
    ACTIVITY(UNKNOWN, "unknown")     /* not known what it does */                                                      \
    ACTIVITY(WORKING, "working")     /* its multiprocessors work */                                                    \
    ACTIVITY(WAITING, "waiting")     /* a program runs on it, and the GPU mostly waits */                              \
    ACTIVITY(IDLE_HELD, "idle held") /* a program holds it and nothing runs */                                         \
    ACTIVITY(FREE, "free")           /* no program holds it */                                                         \
    ACTIVITY(UNUSABLE, "unusable")   /* an open incident says that it cannot be used */

typedef enum ActivityWord {
#define ACTIVITY(id, key) ACTIVITY_##id,
    ACTIVITY_TABLE(ACTIVITY)
#undef ACTIVITY
        ACTIVITY_END,
} ActivityWord;

/* CAUSE(id, key): what a waiting GPU waits for. */
#define ACTIVITY_CAUSE_TABLE(CAUSE)                                                                                    \
    CAUSE(NONE, "")                 /* the counters do not tell */                                                     \
    CAUSE(INPUT, "input")           /* no kernel runs most of the time: data, requests or the host program are late */ \
    CAUSE(LAUNCHES, "launches")     /* kernels run and fill few multiprocessors: small kernels, one after another */   \
    CAUSE(COLLECTIVE, "collective") /* a kernel spins without any work or traffic */                                   \
    CAUSE(OTHER_RANK, "other rank") /* the same, and another GPU of the job does not take part */

typedef enum ActivityCause {
#define CAUSE(id, key) ACTIVITY_CAUSE_##id,
    ACTIVITY_CAUSE_TABLE(CAUSE)
#undef CAUSE
        ACTIVITY_CAUSE_END,
} ActivityCause;

/* BASIS(id, key): what the word was decided by. */
#define ACTIVITY_BASIS_TABLE(BASIS)                                                                                    \
    BASIS(NONE, "none")                                                                                                \
    BASIS(SM_ACTIVE, "sm_active")                                                                                      \
    BASIS(UTILIZATION, "utilization") /* and power and clocks: SM activity is not reported by this GPU */              \
    BASIS(INSTANCES, "instances")     /* what the MIG instances of the GPU do */                                       \
    BASIS(INCIDENT, "incident")

typedef enum ActivityBasis {
#define BASIS(id, key) ACTIVITY_BASIS_##id,
    ACTIVITY_BASIS_TABLE(BASIS)
#undef BASIS
        ACTIVITY_BASIS_END,
} ActivityBasis;

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
    uint32_t day_s[ACTIVITY_END];         /* seconds of each word in the last 24 h, or since the start */
    char incident[ACTIVITY_INCIDENT_CAP]; /* of UNUSABLE: its id */
    char text[ACTIVITY_TEXT_CAP];         /* the reason, for a person */
} Activity;

const char *activity_key(ActivityWord word);
bool activity_find(const char *key, ActivityWord *ret_word);
const char *activity_cause_key(ActivityCause cause);
bool activity_cause_find(const char *key, ActivityCause *ret_cause);
const char *activity_basis_key(ActivityBasis basis);
bool activity_basis_find(const char *key, ActivityBasis *ret_basis);
