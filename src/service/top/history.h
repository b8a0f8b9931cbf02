/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The past of what is plotted, in a store of its own (engine/store): seconds for ten minutes, minutes for a day, on the
 * axis of the wall clock. A series (a gauge of a device) is kept from the moment its points are asked for. Where there
 * is a past, a feed fills in what was before (history_next_wanted, history_fill, history_end_fill); then every snapshot
 * adds to it.
 * Asking for points and adding a snapshot allocate nothing. Locks itself: one thread draws, that of the feed does all
 * else.
 *
 * A value stands until the next snapshot, if that comes within two and a half times the pace; an absent one stands for
 * nothing.
 */

#include "engine/store/store.h"
#include "model/node.h"
#include "service/screen/grid.h"

enum { HISTORY_SECONDS = STORE_SECONDS, HISTORY_MINUTES = STORE_MINUTES, HISTORY_SERIES_MAX = 2048 };

typedef struct History History;

History *history_new(bool has_past); /* has_past: a feed fills in what was before */
void history_free(History *history); /* accepts NULL */

/* `columns` points from to_ns - span_ns to to_ns (wall clock), oldest first; NAN where nothing is known. Makes the
 * series where it is missing. Beyond HISTORY_SERIES_MAX series, of a metric without history and of a device without
 * identity all points are NAN. Columns begin at whole multiples of their width since 1970, so that a plot moves by
 * whole columns; the last one holds to_ns. */
void history_read_points(History *history, const Device *device, MetricId metric, uint64_t to_ns, uint64_t span_ns,
                         PlotPoint *out, size_t columns);

/* Adds the snapshot's values to the series that are filled; `pace_ns`: between two snapshots, at least a second. One
 * that is older than the last, or that comes after a gap of more than `jump_ns`, empties the history, which is
 * returned: all series want their past again. */
bool history_add(History *history, const Node *node, uint64_t pace_ns, uint64_t jump_ns);
/* Of a GPU or an instance; NULL: it is not there. */
const Reading *history_find_reading(const Node *node, const Device *device);

/* A series whose past is wanted. */
typedef struct HistoryWant {
    Device device;
    MetricId metric;
} HistoryWant;

/* Takes the next one that was not taken yet; false: there is none. */
bool history_next_wanted(History *history, HistoryWant *ret);
/* `point` held from from_ns to until_ns. Minutes (of a span of a minute or more) before seconds, each in ascending
 * order. A series that nobody asked for is made. */
void history_fill(History *history, const HistoryWant *series, uint64_t from_ns, uint64_t until_ns, PlotPoint point);
/* All of its past has come, as far as there is one. */
void history_end_fill(History *history, const HistoryWant *series);
/* Series whose past is still to come. */
size_t history_count_open(History *history);
