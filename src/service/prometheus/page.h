/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A page while it is written: what it is made from, and lines. A family's head is written with its first line, so that
 * a family without a series is not mentioned. What does not fit is left out by whole lines. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "service/prometheus/counts.h"
#include "service/prometheus/families.h"
#include "service/prometheus/incidents.h"

struct Page {
    const ExporterConfig *config;
    const Node *node;
    const ExporterSelf *self;
    const Targets *targets;
    const Families *families;
    const Counts *counts;
    const IncidentCounts *incident_counts;
    const ExporterFaults *faults; /* NULL: nothing is judged here */
    const uint64_t *fresh_ns;     /* by pace: how old a value may be */
    ExporterFormat format;
    Str *out;
    const Family *open; /* the family whose head was written last */
};

/* Fills the heads of a family whose name, type and help are set; the texts lie in `arena`. */
void page_make_head(Family *family, Arena *arena);

/* Lines: a family's name, `labels` as "{...} " or " ", a value. */
void page_int64(Page *page, const Family *family, const char *labels, size_t len, int64_t value);

/* A line without labels, and one with these, in the order they shall have, alone. */
void page_plain(Page *page, const Family *family, double value);
void page_labelled(Page *page, const Family *family, const Label *labels, size_t count, double value);

/* A line of a target, in the family's view, and the same with further labels. */
void page_target(Page *page, const Family *family, const Target *target, double value);
void page_extra(Page *page, const Family *family, const Target *target, const Label *extra, size_t count, double value);

/* Whether a value is there and fresh enough to be shown. */
bool page_fresh(const Page *page, const Sample *sample, MetricPace pace);

/* The GPU of a target. */
const NodeGpu *page_gpu(const Page *page, const Target *target);

/* value times factor; where the factor is one part of a whole number (0.01) divided by that, which loses no digit. */
double page_scaled(double value, double factor);

/* The wall clock at a monotonic instant, in seconds since 1970. */
double page_real_seconds(const Page *page, uint64_t time_ns);

/* ---- series of the catalogue's metrics (series.c) ---- */

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
