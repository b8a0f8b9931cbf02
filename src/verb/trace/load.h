/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From an input to a profile: the reader is chosen by the file's first bytes. */

#include "engine/trace/scan/scan.h"
#include "model/profile.h"
#include "verb/trace/input.h"

/* Fills `into` (initialised, not sealed). What the compression lost is among the profile's losses. Errors as
 * trace_scan_parallel's; -EOPNOTSUPP where options->raw is set and the file is not trace JSON. */
int trace_load(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into, Err *err);

/* The rank that the beginning of a trace names, -1 where it does not. */
int64_t trace_load_rank(TraceInput *input);
