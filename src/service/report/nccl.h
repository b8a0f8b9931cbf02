/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A NcclReport for people and programs: one screen of text, JSON (docs/nccl.md), CSV of nccl-tests' tables. The report
 * is read only; its texts are clean already. All return 0 or the error of the sink. */

#include "engine/nccl/nccl.h"
#include "service/report/out.h"

int nccl_report_text(const NcclReport *report, const ReportOptions *options, ReportSink sink, Err *err);
int nccl_report_json(const NcclReport *report, ReportSink sink, Err *err); /* ended by a newline */
/* One line per row and kind of figure (out-of-place, in-place). */
int nccl_report_csv(const NcclReport *report, ReportSink sink, Err *err);
