/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The list of metrics to export: dcgm-exporter's counters CSV, its DCGM_EXP_ rows and label rows included. Read as that
 * exporter reads it (Go's encoding/csv with comment '#'), with two differences: a row that cannot be understood is
 * left out with a warning instead of ending the program, and a trailing or wrong field count costs that row alone.
 * `strict` gives the exporter's own behaviour. Owned by the caller: counters_init ... counters_done.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "model/metric.h"

enum { COUNTERS_WARNINGS_MAX = 1000 }; /* more are not kept */

#define COUNTER_TYPE_TABLE(WORD)                                                                                       \
    WORD(COUNTER_GAUGE, "gauge")                                                                                       \
    WORD(COUNTER_COUNTER, "counter")                                                                                   \
    WORD(COUNTER_HISTOGRAM, "histogram")                                                                               \
    WORD(COUNTER_SUMMARY, "summary")                                                                                   \
    WORD(COUNTER_LABEL, "label")

typedef enum CounterType { COUNTER_TYPE_TABLE(WORD_ID) COUNTER_TYPE_END } CounterType;

typedef struct CounterRow {
    MetricName name;  /* metric, unit and factor of the name that was written; text is in the arena, as written */
    CounterType type; /* as written; histograms and summaries, which no metric is, are printed as untyped */
    const char *help;
    unsigned line; /* of the file, from 1; 0: built in */
} CounterRow;

typedef struct CounterWarning {
    unsigned line;
    const char *text; /* the problem and its consequence */
} CounterWarning;

typedef struct Counters {
    Arena arena;
    VEC(CounterRow) rows;
    VEC(CounterWarning) warnings;
} Counters;

void counters_init(Counters *counters);
void counters_done(Counters *counters);

/* The 26 rows that dcgm-exporter has on by default, its driver version label among them, with its types and in the
 * order of the catalogue. */
void counters_default(Counters *counters);

/* Reads a CSV text; `file` is for messages. Adds rows and warnings. Errors (strict, or a file that has rows of which
 * none could be used): -EINVAL "FILE:LINE: ...", with no row added. A name written twice: the later row is left out
 * with a warning; strict, it is an error. A file without rows is fine: only our own series are exported then. */
int counters_read(Counters *counters, const char *text, size_t len, const char *file, bool strict, Err *err);
