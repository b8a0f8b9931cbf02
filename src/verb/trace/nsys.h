/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What Nsight Systems exports, behind the same door as trace JSON. */

#include "source/nsys/nsys.h"
#include "verb/trace/one.h"

/* Fills `into` from an SQLite export: 0, or nsys_read_sqlite's errors. Standard input cannot be read so. */
int trace_nsys_sqlite(ProfileInput *input, size_t memory_max, const bool *stop, Profile *into, Err *err);
/* Fills `into`, or for a summary *ret, from a table of `nsys stats`; texts of rows lie in the arena. */
int trace_nsys_csv(ProfileInput *input, const bool *stop, Profile *into, NsysSummary *ret, Arena *arena, Err *err);

/* A rank that holds the rows of a summary: names, counts and times, and nothing that needs single events. */
void trace_nsys_rank(TraceOne *one, const Profile *profile, const NsysSummary *summary, TraceRank *ret);
