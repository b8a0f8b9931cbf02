/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A TraceReport (engine/trace/report.h) for people and programs: text for a terminal, JSON (docs/trace.schema.json),
 * CSV tables, and one HTML page that needs nothing else. Outputs are written piece by piece into a sink, so that large
 * ones need no large memory. Names come from profiles and are hostile: each output escapes them in its own way, and
 * nothing but UTF-8 leaves. The report is read only. One thread per call.
 *
 * All functions return 0, or the negative errno that the sink gave with its text in *err; what had been written then
 * stays written.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/allocator/allocator.h"
#include "engine/trace/report.h"
#include "service/report/out.h"

int trace_text(const TraceReport *report, const ReportOptions *options, ReportSink sink, Err *err);

/* The whole report but the timelines, each rank as it stands there. Keys never change their meaning. */
int trace_json(const TraceReport *report, ReportSink sink, Err *err);

/* One table with a header row, as RFC 4180 says. It must be one of trace_csv_tables, NULL-ended: "devices", ... */
extern const char *const trace_csv_tables[];
int trace_csv(const TraceReport *report, const char *table, ReportSink sink, Err *err);

/* One page with everything in it, timelines included (TraceConfig.timeline). `title` heads it, e.g. the file's name. */
int trace_html(const TraceReport *report, const char *title, ReportSink sink, Err *err);

/* The same for a difference. trace_diff_csv_tables: "summary", "kernels", "operators". */
int trace_diff_text(const TraceDiff *diff, const ReportOptions *options, ReportSink sink, Err *err);
int trace_diff_json(const TraceDiff *diff, ReportSink sink, Err *err);
extern const char *const trace_diff_csv_tables[];
int trace_diff_csv(const TraceDiff *diff, const char *table, ReportSink sink, Err *err);
int trace_diff_html(const TraceDiff *diff, const char *title, ReportSink sink, Err *err);

/* The same page for a memory snapshot; text and JSON of one: allocator.h. */
int trace_snapshot_html(const AllocatorReport *report, const char *title, ReportSink sink, Err *err);
