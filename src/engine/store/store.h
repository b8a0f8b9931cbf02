/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The history: for each series (a device and a metric) ten minutes of seconds and a day of minutes, in packed rings of
 * fixed length (ring.h). A second holds a value or the reason why there is none; a minute holds minimum, mean and
 * maximum over the valid readings in it (of fast metrics: over all fast readings) and how many seconds were valid; of a
 * counter: its last value and its increase, in which a reset does not count backwards. The axis is the agent's
 * monotonic clock, so a step of the wall clock moves no point; callers add the current offset. Pure: time is an
 * argument, no I/O, nothing is allocated after store_new. One thread.
 *
 * Seconds are doubles: integers are exact up to 2^53. In a minute of a gauge minimum and maximum are floats (7 digits,
 * integers exact up to 16,777,216) and the mean is off by at most 0.05 % of maximum - minimum; values and increases of
 * counters are doubles (ring.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/device.h"
#include "model/metric.h"
#include "model/node.h"
#include "model/reading.h"

enum { STORE_SECONDS = 600, STORE_MINUTES = 1440 };

typedef struct Store Store;
typedef int32_t StoreSeries; /* handle of a series; below 0: none */

enum { STORE_NOT_KEPT = -1, STORE_NO_ROOM = -2, STORE_SERIES_MAX = 1 << 18, STORE_DEVICES_MAX = 1088 };

typedef struct StoreSecond {
    uint64_t time_ns; /* start of the second */
    double value;     /* only where valid */
    bool valid;
    Absence why; /* where not */
} StoreSecond;

typedef struct StoreMinute {
    uint64_t time_ns;      /* start of the minute */
    uint8_t valid_seconds; /* 0: nothing was known; the other members are 0 then */
    double min, mean, max; /* of a gauge; of a counter all three are its last value */
    double increase; /* of a counter: how much it grew in this minute, since its last value before however long ago;
                        of a gauge 0 */
} StoreMinute;

/* Room for `series_max` series (1..STORE_SERIES_MAX) of at most STORE_DEVICES_MAX devices. Memory is taken from the
 * system as values need it; what they need no longer goes to other series, not back to the system. A full series takes
 * 1.1 kB where nothing changes, 5 kB of whole percents, 16 kB to 18 kB of arbitrary fractions, and 23.4 kB if every bit
 * changed that can; the room is enough for that. */
Store *store_new(size_t series_max);
void store_free(Store *store);

typedef struct StoreMemory {
    size_t taken; /* from the system so far, but for the rest of a page here and there; at most the room */
    size_t cells; /* of that: values that differ from their neighbours */
} StoreMemory;

StoreMemory store_memory(const Store *store);
size_t store_series_count(const Store *store);
uint64_t store_refused(const Store *store); /* how often store_open had no room */

/* The series of (device, metric); made if missing and if the metric is kept (Metric.history). STORE_NO_ROOM (counted)
 * or STORE_NOT_KEPT where there is none. A series to which nothing was added for a day, not even a reason, gives its
 * room to a new one; its handle is then that of no series: adding to it does nothing and reading it finds nothing. The
 * key is under DEVICE_KEY_CAP bytes. */
StoreSeries store_open(Store *store, const char *device_key, MetricId metric, uint64_t now_ns);
/* Like store_open, but makes none: STORE_NOT_KEPT where it is missing. Any text may be looked up. */
StoreSeries store_find(const Store *store, const char *device_key, MetricId metric);

/* Add a sample as of instant now_ns (not before the one added last; an earlier one is dropped). A second in which
 * several are added keeps the last, its minute folds all that are valid; seconds without any are ABSENCE_NOT_YET. A
 * value of a counter below the last one means that it began anew at 0. */
void store_add(Store *store, StoreSeries series, uint64_t now_ns, const Sample *sample);
/* Add one fast reading's value of a gauge: it goes into the minimum, mean and maximum of its minute, which then come
 * from fast readings alone. In any order; dropped where its minute is before the last one but one. A second with a fast
 * reading counts as valid. */
void store_add_fast(Store *store, StoreSeries series, uint64_t time_ns, double value);
/* Set a whole minute of a gauge as another store gave it (store_minutes), in place of what was added in it so far. In
 * ascending order; dropped where its minute is before the last one but one. */
void store_add_minute(Store *store, StoreSeries series, const StoreMinute *minute);

/* Adds all readings of a node as of its instant: those of GPUs and instances, and the fast ones. */
void store_add_node(Store *store, const Node *node);

/* Copy the seconds (minutes) that overlap [from_ns, to_ns], oldest first, at most the `cap` oldest, into out; returns
 * how many. Times without data (seconds in which nothing was added, minutes without a valid second) are left out only
 * at the ends; a gap inside is given as not valid. The running minute is included. */
size_t store_seconds(const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns, StoreSecond *out,
                     size_t cap);
size_t store_minutes(const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns, StoreMinute *out,
                     size_t cap);

/* Calls fn for each series in use, by device key, then metric; fn must not open any. */
void store_each(const Store *store, void (*fn)(void *self, StoreSeries series, const char *device_key, MetricId metric),
                void *self);
