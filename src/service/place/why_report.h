/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why a job waits, as text and JSON. Pure. */

#include "base/str.h"
#include "engine/place/explain.h"

typedef struct WhyReport {
    const Cluster *cluster; /* that was explained */
    const Explanation *explanation;
    uint64_t now_s; /* seconds since 1970 */
} WhyReport;

void why_report_text(const WhyReport *report, Str *out);
/* One object. Amounts are in cores, GiB, GPUs and pods. */
void why_report_json(const WhyReport *report, Str *out);
