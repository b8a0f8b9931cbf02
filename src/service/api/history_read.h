/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The JSON that api_history wrote, read back, but for the reasons of what is missing: those stand beside the latest
 * values too. Pure. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "model/metric.h"

/* A second or a minute. Of a counter the three are how much it grew per second since it was read last; NAN: nothing was
 * known. */
typedef struct HistoryPoint {
    MetricId metric;
    uint64_t real_ns; /* its start, wall clock */
    float min, mean, max;
} HistoryPoint;

typedef VEC(HistoryPoint) HistoryPoints;

typedef struct HistoryHead {
    bool minutes;
    size_t series; /* how many were told, of metrics that are known here */
} HistoryHead;

/* Appends what the JSON holds, series by series. -EINVAL says what is wrong; the points are as before then. */
int history_read(const char *text, size_t len, HistoryPoints *points, HistoryHead *ret, Err *err);
