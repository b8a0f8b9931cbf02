/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The series of the catalogue's metrics: which function writes them, and where their values come from. */

#include "service/prometheus/page.h"

/* The function that writes the family of a metric. */
FamilyWrite *series_writer(MetricId id);

/* The reading that has a metric's value for a target: of its instance, or of its GPU where the metric is the GPU's. */
const Reading *series_reading(const Page *page, const Target *target, MetricId id);

/* The sample of a metric, computed into *room where it is derived from others; NULL where it cannot be. */
const Sample *series_sample(const Reading *reading, MetricId id, Sample *room);

/* Sets the bits of a metric and of those it is derived from. */
void series_want(MetricId id, uint64_t wanted[(METRIC_END + 63) / 64]);

/* Writers of exp.c. */
FamilyWrite exp_xid_errors_count, exp_xid_errors_total, exp_clock_events_count, exp_clock_events_total,
    exp_gpu_health_status, exp_p2p_status;
