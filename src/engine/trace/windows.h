/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How the parts of a rank that was read in windows come together, for trace_rank_merge: `next` is the window after all
 * of `into`. What moves is taken out of `next`; new texts go to `arena`. Pure, one thread at a time. */

#include "engine/trace/analyse.h"

/* Appends; ordinals go on where those of `into` end. */
void trace_collectives_merge(TraceRank *into, TraceRank *next);

/* Appends the steps' paths. A path over everything cannot be joined: it becomes one that is not done. */
void trace_paths_merge(TraceRank *into, TraceRank *next);

/* Joins lanes of the same name: the picture is brought to the coarser buckets of both, of the slices the longest are
 * kept (config->timeline_slices per lane). */
void trace_timeline_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
