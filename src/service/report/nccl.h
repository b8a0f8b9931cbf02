/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A NcclReport for people and programs: one screen of text, JSON (docs/nccl.md), CSV of nccl-tests' tables. The report
 * is read only; its texts are clean already. Pure. */

#include "base/str.h"
#include "engine/nccl/nccl.h"

typedef struct NcclStyle {
    size_t width; /* columns; at least 60 are used */
    bool colour, utf8, verbose;
} NcclStyle;

void nccl_report_text(const NcclReport *report, const NcclStyle *style, Str *out);
void nccl_report_json(const NcclReport *report, Str *out); /* ended by a newline */
/* One line per row and kind of figure (out-of-place, in-place). */
void nccl_report_csv(const NcclReport *report, Str *out);
