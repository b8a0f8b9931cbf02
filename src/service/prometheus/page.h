/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of the exporter: families, a page while it is written, and its lines. A family's head is written with its
 * first line, so that a family without a series is not mentioned. What does not fit is left out by whole lines. One
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "service/prometheus/counts.h"
#include "service/prometheus/exporter.h"
#include "service/prometheus/labels.h"

/* ---- families ---- */

typedef struct Page Page;
typedef struct Family Family;
typedef void FamilyWrite(Page *page, const Family *family);
typedef void FamilyWriteGpu(Page *page, const Family *family, const Target *target, const NodeGpu *gpu);

/* One of our own: a row of a const table. */
typedef struct OwnFamily {
    const char *name;
    CounterType type;
    const char *help;
    FamilyWrite *write;        /* its series; or */
    FamilyWriteGpu *write_gpu; /* those of one GPU */
    size_t at, size;           /* the field that the function reads */
    double scale;              /* what it is divided by; 0: nothing */
    bool skip_zero;            /* a 0 means that it is not known */
    MetricId metric;           /* of a family of mig_totals */
} OwnFamily;

#define OWN_FIELD(type, field) .at = offsetof(type, field), .size = sizeof(((type *)NULL)->field)

extern const OwnFamily own_families[]; /* own.c: of the node and this program, then of each GPU */
extern const size_t own_family_count;
extern const OwnFamily own_incident_families[]; /* incidents.c */
extern const size_t own_incident_family_count;
extern const OwnFamily own_owner_families[]; /* owners.c: who holds each device, where owners are asked for */
extern const size_t own_owner_family_count;
extern const OwnFamily own_total_families[]; /* own.c: sums that count nothing twice, with mig_totals */
extern const size_t own_total_family_count;

struct Family {
    const char *name;
    size_t name_len;
    CounterType type;
    const char *help;
    FamilyWrite *write;
    LabelView view;
    bool fixed;       /* numbers as 4.8.2 prints them */
    bool from_metric; /* `metric` defines the values */
    MetricName metric;
    const OwnFamily *own; /* else this does */
    struct {
        const char *text; /* the lines HELP and TYPE */
        size_t len;
    } head[2]; /* by ExporterFormat */
};

/* A family with its heads; name and help are borrowed, the heads lie in `arena`. */
Family family_make(const char *name, CounterType type, const char *help, Arena *arena);

/* ---- opened incidents and events, counted ---- */

enum { INCIDENT_SERIES_MAX = 128, INCIDENT_COUNTS_MAX = 256 };

/* Opened and cleared incidents of one kind. */
typedef struct IncidentCount {
    char class[INCIDENT_CLASS_CAP];
    FaultCause cause;
    FaultSeverity severity;
    uint64_t opened, cleared;
} IncidentCount;

typedef struct IncidentCounts {
    VEC(IncidentCount) at;
    uint64_t events[EVENT_KIND_END][EVENT_ORIGIN_END];
    const Catalogue *expected; /* whose classes are among `at`; to be compared alone */
} IncidentCounts;

/* Gives `keep` the new value of a counter, by this key; `keep->put` may be NULL. */
void exporter_keep_count(const CountKeep *keep, uint64_t value, const char *fmt, ...) PRINTF_LIKE(3, 4);

void incident_counts_change(IncidentCounts *counts, const Incident *incident, IncidentChange change,
                            const CountKeep *keep);
/* A value of before the start; `rest` is its key behind the first word, and is changed. */
void incident_counts_restore(IncidentCounts *counts, bool opened, char *rest, uint64_t value);
/* What may come of each class begins with 0. */
void incident_counts_expect(IncidentCounts *counts, const Catalogue *catalogue);

/* ---- the page ---- */

struct Page {
    const ExporterConfig *config;
    const ExporterInput *input;
    const Node *node; /* of the input */
    const Targets *targets;
    const Family *families;
    size_t family_count;
    const Counts *counts;
    const IncidentCounts *incident_counts;
    const uint64_t *fresh_ns; /* by pace: how old a value may be */
    ExporterFormat format;
    Str *out;
    const Family *open; /* the family whose head was written last */
};

/* A line of a target in the family's view; NULL: without labels. */
void page_value(Page *page, const Family *family, const Target *target, double value);
void page_int64(Page *page, const Family *family, const Target *target, int64_t value);

/* A number as dcgm-exporter up to 4.8.2 prints it, by %f: six decimals; NaN, +Inf and -Inf. Later ones print it as
 * number_write_go does. No NUL is written; returns the length. */
enum { VALUE_TEXT_MAX = 320 }; /* bytes of the longest double without an exponent */
size_t value_write_fixed(char out[VALUE_TEXT_MAX], double value);

/* Further labels of a line, with the texts of their numbers. Begins as {.len = 0}. */
enum { LINE_LABELS_MAX = 12, LINE_NUMBERS_MAX = 4, LINE_NUMBER_CAP = 24 };

typedef struct Line {
    size_t len, numbers;
    Label at[LINE_LABELS_MAX]; /* by name */
    char number[LINE_NUMBERS_MAX][LINE_NUMBER_CAP];
} Line;

/* Adds a label; none for an empty value. */
void line_add(Line *line, const char *name, const char *value);
void line_add_number(Line *line, const char *name, uint64_t number);

/* The same with the labels of `line`. */
void page_line(Page *page, const Family *family, const Target *target, const Line *line, double value);

/* The same with the field of the family's row in the struct `of`, unless it is to be left out; `line` NULL: no further
 * labels. */
void page_field(Page *page, const Family *family, const Target *target, const Line *line, const void *of);

/* Whether a value is there and fresh enough to be shown. */
bool page_fresh(const Page *page, const Sample *sample, MetricPace pace);

/* The GPU of a target. */
const NodeGpu *page_gpu(const Page *page, const Target *target);

/* value times factor; where the factor is one part of a whole number (0.01) divided by that, which loses no digit. */
double page_scaled(double value, double factor);

/* ---- series of the catalogue's metrics (series.c) ---- */

/* The function that writes the family of a metric. */
FamilyWrite *series_writer(MetricId id);

/* The sample of a metric, computed into *room where it is derived from others; NULL where it cannot be. */
const Sample *series_sample(const Reading *reading, MetricId id, Sample *room);

/* Sets the bits of a metric and of those it is derived from. */
void series_want(MetricId id, uint64_t wanted[METRIC_SET_WORDS]);

/* ---- DCGM_EXP_GPU_HEALTH_STATUS: the open incidents of a GPU in DCGM's words (series.c) ---- */

/* In DCGM's order. */
#define HEALTH_TABLE(WORD)                                                                                             \
    WORD(HEALTH_PCIE, "PCIE")                                                                                          \
    WORD(HEALTH_NVLINK, "NVLINK")                                                                                      \
    WORD(HEALTH_PMU, "PMU")                                                                                            \
    WORD(HEALTH_MCU, "MCU")                                                                                            \
    WORD(HEALTH_MEM, "MEM")                                                                                            \
    WORD(HEALTH_SM, "SM")                                                                                              \
    WORD(HEALTH_INFOROM, "INFOROM")                                                                                    \
    WORD(HEALTH_THERMAL, "THERMAL")                                                                                    \
    WORD(HEALTH_POWER, "POWER")                                                                                        \
    WORD(HEALTH_DRIVER, "DRIVER")                                                                                      \
    WORD(HEALTH_ALL, "ALL")

typedef enum HealthWatch { HEALTH_TABLE(WORD_ID) HEALTH_END } HealthWatch;

typedef enum HealthResult { HEALTH_PASS = 0, HEALTH_WARN = 10, HEALTH_FAIL = 20 } HealthResult;

typedef struct Health {
    bool known;
    HealthResult result;
    const char *code; /* DCGM's name of the worst finding, "" where it is a pass */
} Health;

/* By subsystem: one of which nothing is read is unknown, not healthy. ALL is the worst of the known ones. */
void health_of_gpu(const NodeGpu *gpu, const Incident *const *incidents, size_t count, Health health[HEALTH_END]);

/* ---- what the fast metrics did since a scraper's last scrape (series.c) ---- */

/* Families of the fast metrics, three each, made once. */
typedef struct ScrapeFamilies {
    Arena arena;
    Family at[READING_FAST_CAP][3]; /* _max, _mean, _min; name NULL where there is none */
    Family window;
} ScrapeFamilies;

void scrape_make(ScrapeFamilies *families);
void scrape_write(Page *page, const ScrapeFamilies *families, const WindowGpu *windows, size_t count, uint64_t span_ns);

/* "stoker_power_watts": what a fast metric is called here; NULL for those that have no mean. */
const char *scrape_base_name(MetricId id);
