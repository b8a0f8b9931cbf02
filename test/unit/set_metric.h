/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A reading's value of a metric, as its type wants it. */

#include "model/metric.h"
#include "model/reading.h"

static inline void set_metric(Reading *reading, MetricId id, uint64_t time_ns, double value)
{
    if (metric_get(id)->value == METRIC_INT64)
        sample_set_int64(&reading->sample[id], time_ns, (int64_t)value);
    else
        sample_set_double(&reading->sample[id], time_ns, value);
}
