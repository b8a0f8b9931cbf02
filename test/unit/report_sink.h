/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A report into a Str; -EFBIG over its ceiling. */

#include "base/str.h"
#include "service/report/out.h"

static inline int report_write_str(void *context, const char *text, size_t len, Err *err)
{
    Str *str = context;

    str_addn(str, text, len);
    return str_check(str, "the report", err);
}

static inline ReportSink report_sink_str(Str *str)
{
    return (ReportSink){.write = report_write_str, .context = str};
}
