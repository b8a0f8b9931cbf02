/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One profile that was given twice (packed and not, or a copy). */

#include "engine/trace/analyse.h"

/* Drops each rank that says the same as an earlier one, and notes it. Other files of the same rank stay. */
void trace_twice(TraceReport *report, Arena *arena);
