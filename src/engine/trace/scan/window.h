/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which times are kept. */

#include "engine/trace/scan/inside.h"

#define DURATION_MAX (INT64_C(86400) * 1000000000 * SCAN_DURATION_DAYS)

/* [start, start + duration) touches the window; an instant lies in it. */
static inline bool window_touches(const TraceScanOptions *options, int64_t start, int64_t duration)
{
    if (options->from == 0 && options->to == 0)
        return true;
    return start < options->to && (start >= options->from || start + duration > options->from);
}
