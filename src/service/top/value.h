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
/* "71/80 GiB", "643/700 W", "63/87 C": value and limit; without an unknown limit. */
char *value_memory(char out[VALUE_CAP], const Reading *reading);
char *value_power(char out[VALUE_CAP], const Reading *reading);
char *value_temp(char out[VALUE_CAP], const Reading *reading);
/* "1.2", "-": GB/s without the unit. */
char *value_gbs(char out[VALUE_CAP], double bytes_per_second);
double value_memory_share(const Reading *reading);
double value_power_share(const Reading *reading);
double value_temp_share(const Reading *reading); /* of the temperature at which it slows down */
/* Degrees left before the hardware slows down, NAN where not known. */
double value_margin(const Reading *reading);
double value_busy(const Reading *reading); /* SM active, 0..1 */
double value_util(const Reading *reading); /* any kernel ran, 0..1 */
double value_pcie(const Reading *reading, bool sent);
double value_nvlink_all(const Reading *reading);

Ink value_temp_ink(const Reading *reading);
/* The worst reason of low clocks, a word or two; "" none or unknown. */
const char *value_throttle(const Reading *reading, Ink *ret_ink);
/* "ok", "2 uncorrected", "remap failed", "off"; "-" where nothing is known. */
char *value_ecc(char out[VALUE_CAP], const Reading *reading, Ink *ret_ink);
/* "H100 80GB HBM3" without the maker. */
const char *value_model(const Device *device);
