/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* HTA's numbers (engine/trace/hta/hta.h) for people and programs. `differences` are listed behind them. As in report.h:
 * written piece by piece, returns 0 or the sink's negative errno. */

#include "engine/trace/hta/differ.h"
#include "service/report/report.h"

int hta_text(const HtaReport *report, const HtaDifferences *differences, const ReportOptions *options, ReportSink sink,
             Err *err);

/* Times are integer nanoseconds, keys those of HTA's columns where it has one; null where HTA has no number. */
int hta_json(const HtaReport *report, const HtaDifferences *differences, ReportSink sink, Err *err);
