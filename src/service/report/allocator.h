/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An AllocatorReport (engine/allocator) as text and JSON, as report.h does it for profiles. */

#include "engine/allocator/allocator.h"
#include "service/report/field.h"
#include "service/report/out.h"

int allocator_text(const AllocatorReport *report, const ReportOptions *options, ReportSink sink, Err *err);
int allocator_json(const AllocatorReport *report, ReportSink sink, Err *err);

/* Members of what it is made of, lists at the end. */
extern const Field allocator_device_fields[], allocator_site_fields[], allocator_point_fields[], allocator_oom_fields[],
    allocator_finding_fields[];
