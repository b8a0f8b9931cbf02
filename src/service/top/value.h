/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Readings formatted for people: units, shares and words. Limits are the device's own. Absent is "-" and NAN, never 0.
 * Pure.
 */

#include "model/node.h"
#include "service/screen/grid.h"

enum { VALUE_CAP = 64 };

/* The value in its base unit (bytes, hertz, ratio, ...), NAN where absent. */
double value_base(const Reading *reading, MetricId id);
/* The value as it is, NAN where absent. */
double value_raw(const Reading *reading, MetricId id);
/* With its unit: "71.2 GiB", "97 %", "1980 MHz", "yes"; "-" where absent. */
char *value_text(char out[VALUE_CAP], MetricId id, const Sample *sample);
/* "97%", "-" */
char *value_percent(char out[VALUE_CAP], double share);
/* Of a column or a gauge; "-" where absent; sets *ret_ink where the value decides it. */
typedef char *ValueText(char out[VALUE_CAP], const Reading *reading, Ink *ret_ink);
/* "71/80 GiB", "643/700 W", "63/87 C": value and limit; without an unknown limit. */
ValueText value_memory, value_power, value_temp;
ValueText value_clock;              /* "1980": MHz of the SMs */
ValueText value_pcie, value_nvlink; /* "1.2/0.3", "210": GB/s received and sent, both ways */
/* "ok", "2 uncorrected", "remap failed", "off"; "-" where nothing is known. */
ValueText value_ecc;
/* Share of a limit, NAN where one is not known. */
double value_share(const Reading *reading, MetricId of, MetricId limit);
/* Degrees left before the hardware slows down, NAN where not known. */
double value_margin(const Reading *reading);

Ink value_temp_ink(const Reading *reading);
/* The worst reason of low clocks, a word or two; "" none or unknown. */
const char *value_throttle(const Reading *reading, Ink *ret_ink);
