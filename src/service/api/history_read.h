/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the JSON of api_history: the gauges, without the reasons of what is missing. Pure. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "model/metric.h"

/* A second or a minute; NAN: nothing was known. */
typedef struct HistoryPoint {
    MetricId metric;
    uint64_t real_ns; /* its start, wall clock */
    float min, mean, max;
} HistoryPoint;

typedef VEC(HistoryPoint) HistoryPoints;

/* Appends what the JSON holds, series by series. -EINVAL says what is wrong; the points are as before then. */
int history_read(const char *text, size_t len, HistoryPoints *points, Err *err);
