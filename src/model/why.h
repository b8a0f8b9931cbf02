/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a GPU or MIG instance is as fast as it is: verdicts from counters alone, made by engine/why and shown as they
 * are. Plain data, any thread.
 */

#include <stdint.h>

#include "model/roof.h"
#include "model/word.h"

typedef enum WhyCause {
#define WHY(id, ...) WHY_##id,
#include "model/why.def"
#undef WHY
    WHY_END,
} WhyCause;

extern const struct WhyRow {
    const char *key, *title, *advice, *next;
} why_causes[WHY_END];

/* The cause with this key; -1. */
int why_find(const char *key);

/* WORD(id, key) */
#define WHY_CONFIDENCE_TABLE(WORD)                                                                                     \
    WORD(WHY_LOW, "low")       /* a guess among several; the verdict says which */                                     \
    WORD(WHY_MEDIUM, "medium") /* the counters fit, and something else fits less well */                               \
    WORD(WHY_HIGH, "high")     /* the counters fit nothing else */

typedef enum WhyConfidence { WHY_CONFIDENCE_TABLE(WORD_ID) WHY_CONFIDENCE_END } WhyConfidence;
extern const WordRow why_confidences[WHY_CONFIDENCE_END];

/* WORD(id, key): what an evidence's value is in. */
#define WHY_UNIT_TABLE(WORD)                                                                                           \
    WORD(WHY_UNIT_RATIO, "ratio")                                                                                      \
    WORD(WHY_UNIT_BYTES_PER_SECOND, "bytes/s")                                                                         \
    WORD(WHY_UNIT_BYTES, "bytes")                                                                                      \
    WORD(WHY_UNIT_CORES, "cores")                                                                                      \
    WORD(WHY_UNIT_SECONDS, "s")                                                                                        \
    WORD(WHY_UNIT_COUNT, "count")

typedef enum WhyUnit { WHY_UNIT_TABLE(WORD_ID) WHY_UNIT_END } WhyUnit;
extern const WordRow why_units[WHY_UNIT_END];

enum {
    WHY_VERDICTS_MAX = 4,
    WHY_EVIDENCE_MAX = 8,
    WHY_BETWEEN_MAX = 4,
    WHY_TEXT_CAP = 256,
    WHY_NAMES_MAX = 3,
    WHY_NAME_MAX = 48,
};

/* A number that a verdict is made from: a mean over the window. */
typedef struct WhyEvidence {
    const char *counter; /* a metric's classic name, or the file it is read from: "/proc/PID/stat"; constant */
    const char *label;   /* for people: "SM active"; constant */
    WhyUnit unit;
    double value;
    uint8_t name; /* whose number it is: the verdict's name with this number, from 1 on; 0: the device's own */
} WhyEvidence;

typedef struct WhyVerdict {
    WhyCause cause;
    WhyConfidence confidence;
    double share; /* of the window, 0 to 1; NaN: not a part of the time */
    uint32_t evidence_count, between_count;
    WhyEvidence evidence[WHY_EVIDENCE_MAX];
    WhyCause between[WHY_BETWEEN_MAX]; /* of UNCLEAR: what the counters cannot tell apart; else: what it may be too */
    char names[WHY_NAMES_MAX][WHY_NAME_MAX]; /* owners that the evidence is of */
    char text[WHY_TEXT_CAP];                 /* with its numbers, for a person */
} WhyVerdict;

/* All zero is nothing: no verdict. */
typedef struct Why {
    uint32_t window_s; /* seconds with readings that were used */
    uint32_t count;
    WhyVerdict verdicts[WHY_VERDICTS_MAX]; /* the first is the answer; the others are true beside it */
    Roof roof;                             /* figures alone; no verdict goes by it */
} Why;

/* The part of the time that counts for the first verdict; the rest counts for the second one. Of a checkpoint its share
 * of the window, where the second verdict says what the GPU does between two of them; of all others 1. */
static inline double why_first_part(const Why *why)
{
    const double share = why->verdicts[0].share;

    return why->count > 1 && why->verdicts[0].cause == WHY_CHECKPOINT && share < 1 ? share : 1;
}
