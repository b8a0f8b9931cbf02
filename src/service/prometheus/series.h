/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The series of the catalogue's metrics: which function writes them, and where their values come from. */

#include "service/prometheus/page.h"

/* The function that writes the family of a metric. */
FamilyWrite *series_writer(MetricId id);

/* The sample of a metric, computed into *room where it is derived from others; NULL where it cannot be. */
const Sample *series_sample(const Reading *reading, MetricId id, Sample *room);

/* Sets the bits of a metric and of those it is derived from. */
void series_want(MetricId id, uint64_t wanted[(METRIC_END + 63) / 64]);

/* ---- what the fast metrics did since a scraper's last scrape ---- */

/* Families of the fast metrics, three each, made once; `page_name` of a metric is "" where it has none (bit masks). */
typedef struct ScrapeFamilies {
    Arena arena;
    Family at[READING_FAST_CAP][3]; /* _max, _mean, _min; name NULL where there is none */
    Family window;
} ScrapeFamilies;

void scrape_make(ScrapeFamilies *families);
void scrape_done(ScrapeFamilies *families);
void scrape_write(Page *page, const ScrapeFamilies *families, const WindowGpu *windows, size_t count, uint64_t span_ns);

/* "stoker_power_watts": what a fast metric is called here; NULL for those that have no mean. */
const char *scrape_base_name(MetricId id);
