/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which MIG layouts would hold work that was observed, on the fewest GPUs. The work of equal boards may move between
 * them; a GPU whose work needs a whole one stays as it is. Pure: demands and a node go in, a layout per GPU comes out.
 * Any thread.
 */

#include "engine/mig/mig.h"
#include "model/word.h"

enum {
    MIG_MEMORY_MARGIN_PERCENT = 10, /* on the peak of memory, ... */
    MIG_SM_MARGIN_PERCENT = 10, /* ... and on the busiest minute; also covers the SMs that MIG does not use (A100) */
    MIG_TIGHT_PERCENT = 80,     /* of an instance: more is a risk */
    MIG_WHOLE_GPU = -1,
};

/* WORD(id, key, text): what may go wrong with a demand, or why it needs more than was seen. */
#define MIG_RISK_TABLE(WORD)                                                                                           \
    WORD(MIG_RISK_TIGHT_MEMORY, "tight_memory", "its memory came close to that of the instance")                       \
    WORD(MIG_RISK_TIGHT_SM, "tight_sm", "its busiest minute takes nearly all SMs of the instance")                     \
    WORD(MIG_RISK_SHORTAGE, "shortage", "an incident of memory shortage: it needs more than was seen")                 \
    WORD(MIG_RISK_SEVERAL, "several_gpus", "it held several GPUs at once, and MIG has no NVLink or peer access")       \
    WORD(MIG_RISK_MEDIA, "media", "its instance has media engines or graphics")                                        \
    WORD(MIG_RISK_SM_UNKNOWN, "sm_unknown", "SM activity is not known: all SMs of its device count as used")           \
    WORD(MIG_RISK_MEMORY_UNKNOWN, "memory_unknown", "its peak of memory was not kept: all of its device counts")       \
    WORD(MIG_RISK_UTIL, "utilization", "SM activity is not reported: the time in which any kernel ran counts")         \
    WORD(MIG_RISK_SHARED, "shared", "it shared its device: SM activity of all sharers counts for each")                \
    WORD(MIG_RISK_STARTED, "started", "it started in this time and still runs: it may need more later")

typedef enum MigRisk { MIG_RISK_TABLE(WORD_ID) MIG_RISK_END } MigRisk;

/* The work of one owner on one device. */
typedef struct MigDemand {
    const char *owner;          /* for people */
    size_t gpu;                 /* position in the node */
    int device;                 /* profile of the instance that it ran in, or MIG_WHOLE_GPU */
    uint32_t instance_id;       /* of that instance */
    uint64_t memory_peak_bytes; /* not with MEMORY_UNKNOWN */
    double sm_peak, sm_mean;    /* of its device's SMs, 0 to 1; not with SM_UNKNOWN */
    double idle;                /* share of its time in which nothing ran */
    uint32_t risks;             /* bit per MigRisk; mig_suggest adds TIGHT ones */
    /* set by mig_suggest */
    uint64_t held_ns;
    uint32_t need_mib, need_sms; /* with margins, at most those of its device but for SHORTAGE */
    int profile;                 /* the smallest that holds it; MIG_WHOLE_GPU */
} MigDemand;

/* A time in which a demand was there. */
typedef struct MigUse {
    size_t demand;
    uint64_t from_ns, until_ns;
} MigUse;

/* WORD(id, key, text) */
#define MIG_ADVICE_TABLE(WORD)                                                                                         \
    WORD(MIG_ADVICE_KEEP, "keep", "stays as it is")                                                                    \
    WORD(MIG_ADVICE_CHANGE, "change", "another layout")                                                                \
    WORD(MIG_ADVICE_FREE, "free", "its work fits on other GPUs")                                                       \
    WORD(MIG_ADVICE_UNUSED, "unused", "nobody held it in this time")                                                   \
    WORD(MIG_ADVICE_NONE, "none", "not considered")

typedef enum MigAdvice { MIG_ADVICE_TABLE(WORD_ID) MIG_ADVICE_END } MigAdvice;

typedef struct MigGpuSuggestion {
    MigAdvice advice;
    char why[200];    /* of KEEP and NONE */
    bool used;        /* somebody held it in this time */
    MigLayout wanted; /* of CHANGE, without places: what the work needs, and idle instances that fit beside */
    unsigned slices_before, slices_used; /* of compute, that the work had and would have */
    size_t idle_count;                   /* instances of now that nobody held, by position in `now` */
    uint8_t idle[MIG_INSTANCE_MAX];
} MigGpuSuggestion;

typedef struct MigSuggestion {
    MigGpuSuggestion gpus[MIG_GPUS_MAX]; /* as in the node */
    unsigned used, freed;                /* GPUs; freed: held before and not needed */
    bool larger_shared;                  /* smaller work uses instances of larger work at other times */
    bool unproven;                       /* the search was given up: fewer GPUs may do */
    unsigned at_once;                    /* demands, in the busiest moment */
    uint64_t busiest_ns;
} MigSuggestion;

extern const WordRow mig_risks[MIG_RISK_END], mig_advices[MIG_ADVICE_END];

/* The profiles that work is given, the smallest first: each has at least the memory and the SMs of the one before. No
 * media profiles, none of a whole board, none of which memory, SMs or placements are not known. Returns how many. */
size_t mig_suggest_chain(const MigBoard *board, uint8_t ret[MIG_PROFILE_MAX]);

/* Sorts `uses`. `asked[i]`: node->gpus[i] is considered; the work of others is not. */
void mig_suggest(const MigNode *node, const bool *asked, MigDemand *demands, size_t demand_count, MigUse *uses,
                 size_t use_count, Arena *arena, MigSuggestion *ret);
