/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of a page that depends on who asks: what the fast metrics did since that scraper's last visit. */

#include "service/prometheus/page.h"

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
