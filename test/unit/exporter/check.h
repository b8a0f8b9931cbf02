/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A strict reader of both exposition formats, for tests: what Prometheus would refuse, and what it only puts up with.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/*
 * Whether `page` is fine: names and labels well formed, label names unique within a series, series unique, families
 * with one HELP and one TYPE before their first line and all lines together, no family without lines, texts UTF-8 and
 * escaped, values that are numbers, counters not negative, every line ended by LF. OpenMetrics besides: counters end in
 * _total and their family does not, "# EOF" is last. Otherwise false, with the reason in `why`.
 */
bool check_page(const char *page, bool openmetrics, Str *why);
