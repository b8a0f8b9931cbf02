/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where an output goes, piece by piece. */

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"

/* Takes the next `len` bytes; 0 or a negative errno, after which it is not called again. */
typedef int (*ReportWrite)(void *context, const char *text, size_t len, Err *err);

typedef struct ReportSink {
    ReportWrite write;
    void *context;
} ReportSink;

/* Into a stream (the caller opens, flushes and closes it), and into a Str (-EFBIG over its ceiling). */
ReportSink report_sink_file(FILE *file);
ReportSink report_sink_str(Str *str);
