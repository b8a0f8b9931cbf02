/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files that several ranks' profiles were merged into: each rank is read by a pass of its own and analysed as if it had
 * a file of its own. */

#include "verb/trace/one.h"

/* Reads all of `input` (rewound before) and keeps nothing but what `known` learns. */
int trace_merged_look(TraceInput *input, unsigned int threads, TraceKnown *known, Err *err);

/* trace_load from the beginning again. */
int trace_merged_load(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into,
                      Err *err);

/* All ranks of a file that `known` says holds several; one->note tells of it. */
int trace_merged(TraceOne *one, TraceInput *input, const TraceKnown *known, TraceRanks *ret, Err *err);
