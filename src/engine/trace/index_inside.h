/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parts of the making of a TraceIndex; for index*.c alone. */

#include "engine/trace/index.h"

typedef VEC(uint32_t) TraceRows;

/* index_link.c: fills launch, op, linked, unlinked and the class of pageable copies. `op_around` has for each host row
 * the innermost operator that it is or lies in. */
void trace_index_link(TraceIndex *index, const uint32_t *op_around);

/* index_steps.c: fills steps from the host rows named as steps, else from GPU annotations. Needs launch. */
void trace_index_steps(TraceIndex *index, const TraceRows *step_rows);

/* Whether a name is that of a profiler step. */
bool trace_is_step_name(const char *name, size_t len);
