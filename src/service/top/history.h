/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The past of some metrics of some devices, for plots: filled from every look, and once from the agent's store with
 * what was before the first look. A series is kept from the moment a view asks for its points, as what
 * nobody plots costs nothing. Seconds for ten minutes, minutes for a day. Pure; one thread.
 *
 * Of a counter the points are its growth per second. A look stands for the time until the next one, as far as that is
 * not longer than two and a half times the pace at which looks come; what is absent in a look stands for nothing.
 * A series costs 25 kB once; asking for points and adding a look allocates nothing else.
 */

#include "model/device.h"
#include "model/metric.h"
#include "service/screen/plot.h"
#include "service/top/seen.h"

enum { TOP_HISTORY_SECONDS = 600, TOP_HISTORY_MINUTES = 1440, TOP_HISTORY_SERIES_MAX = 2048 };

typedef struct TopHistory TopHistory;

TopHistory *top_history_new(void);
void top_history_free(TopHistory *history); /* accepts NULL */
/* How often looks come: a second where nothing else is said. */
void top_history_pace(TopHistory *history, uint64_t interval_ns);

/* `columns` points of the time from to_ns - span_ns to to_ns (wall clock), the oldest first; NAN where nothing is
 * known. A series that was not asked for before is asked for by this, and empty until it is filled. Beyond
 * TOP_HISTORY_SERIES_MAX series, and of a device that says too little of itself, all is NAN. Columns begin at whole
 * multiples of their width since 1970, so that a plot moves by whole columns; the last one holds to_ns. */
void top_history_points(TopHistory *history, const Device *device, MetricId metric, uint64_t to_ns, uint64_t span_ns,
                        PlotPoint *out, size_t columns);

/* Takes what a look says of all series that are wanted. Looks may come in any order within ten minutes; one that is
 * older than that begins the seconds anew, as a replay that was turned back does. */
void top_history_add(TopHistory *history, const TopSeen *seen);

/* The next series whose past nobody has filled in yet; false: none. The caller fills it with what it can get and says
 * so with top_history_filled, whatever came. */
bool top_history_missing(TopHistory *history, const Device **ret_device, MetricId *ret_metric);
/* `length_ns`: a second, or a minute (a minute or more). What was seen in a look stays. */
void top_history_fill(TopHistory *history, const Device *device, MetricId metric, uint64_t real_ns, uint64_t length_ns,
                      PlotPoint point);
void top_history_filled(TopHistory *history, const Device *device, MetricId metric);
/* Nothing is filled any more: the caller has gone elsewhere in time and will fill all series again. */
void top_history_unfilled(TopHistory *history);

size_t top_history_series(const TopHistory *history);
