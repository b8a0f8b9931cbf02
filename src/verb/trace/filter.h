/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Leaves in a report's tables of names (kernels, operators, runtime calls, annotations, collectives) only the rows
 * whose name fits. Sums, gaps and verdicts stay those of the whole. */

#include <regex.h>

#include "engine/trace/report.h"

void trace_filter_report(TraceReport *report, const regex_t *names);
void trace_filter_diff(TraceDiff *diff, const regex_t *names);
