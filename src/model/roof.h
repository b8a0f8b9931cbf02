/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the work of a GPU or MIG instance lies under its roofs: operations and bytes per second, estimated from the
 * activity of its pipes and of its memory by engine/why, and shown as they are. Plain data, any thread.
 */

#include <stdint.h>

#include "model/word.h"

/* WORD(id, key): the roof that is nearest: of its peak the larger share is reached. */
#define ROOF_TABLE(WORD)                                                                                               \
    WORD(ROOF_UNKNOWN, "unknown")                                                                                      \
    WORD(ROOF_MEMORY, "memory")   /* the bandwidth of its memory */                                                    \
    WORD(ROOF_COMPUTE, "compute") /* the rate of its busiest pipe */                                                   \
    WORD(ROOF_BOTH, "both")       /* about as near to both */                                                          \
    WORD(ROOF_NEITHER, "neither") /* far below both */

typedef enum RoofKind { ROOF_TABLE(WORD_ID) ROOF_END } RoofKind;
extern const WordRow roof_kinds[ROOF_END];

enum { ROOF_TYPE_CAP = 16, ROOF_WHY_CAP = 160, ROOF_TEXT_CAP = 512 };

/* Means over the window of the verdicts; a number that is not known is NaN, and `absent` has the reason. All zero is
 * nothing: not decided, or no work runs. */
typedef struct Roof {
    RoofKind nearest;
    uint32_t window_s;
    double flops;                 /* operations per second, of tensor cores in the type that is named */
    double flops_low, flops_high; /* what it is in the other types that the counters do not tell from it */
    double flops_peak;            /* of the busiest pipe, in the type that is named */
    double flops_share;           /* of the peak of the busiest pipe; the same in each type */
    double bytes;                 /* of the GPU's memory, per second */
    double bytes_share;           /* of what the memory moves at its clock */
    double intensity;             /* flops / bytes */
    double position;              /* of the nearest roof: the larger share */
    char type[ROOF_TYPE_CAP];     /* of the busiest pipe: "fp16"; "" not known */
    char absent[ROOF_WHY_CAP];    /* why a number is not known; "" all are */
    char text[ROOF_TEXT_CAP];     /* for a person; "" nothing */
} Roof;
