/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files to HTA's numbers: one file after the other, each read once on one thread. */

#include "engine/trace/hta/hta.h"
#include "verb/trace/files.h"

typedef struct TraceHta {
    const char *path; /* what errors on stderr begin with */
    const TraceFiles *files;
    const HtaOptions *options;
    uint64_t memory; /* bytes for all rows, 0: no limit */
    const bool *stop;
    size_t read, failed; /* out */
} TraceHta;

/* Says on stderr what is wrong with each file that could not be read. */
void trace_hta(TraceHta *hta, HtaReport *ret);
