/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where HTA's numbers are other than our own of the same file, and why. Pure. */

#include "engine/trace/hta/hta.h"
#include "engine/trace/report.h"

typedef struct HtaDifference {
    int64_t rank;     /* -1: of all */
    const char *what; /* "idle", "compute", "overlap", "launches", "steps", "straggler" */
    double hta,
        own; /* ns; "overlap" percent, "launches", "steps" counts, "straggler" a rank, -1 none; NaN: no number */
    const char *why; /* one line */
} HtaDifference;

typedef VEC(HtaDifference) HtaDifferences;

/* Texts lie in `arena`. Ranks are matched by their file. */
void hta_differ(const HtaReport *hta, const TraceReport *own, Arena *arena, HtaDifferences *ret);
