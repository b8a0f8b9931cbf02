/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One series: its two rings and the minutes that are still open. The rings and their slab are the store's; nothing is
 * allocated here. Pure, one thread.
 *
 * A gauge has two open minutes, the running one and the one before, since fast readings arrive up to a second late. A
 * counter's increase is the difference of the last values of two minutes, with `base` before the oldest; only a minute
 * with a reset ("jumped") stores its increase, for the last SERIES_JUMPS of them. The increase of an older one is taken
 * to be its last value.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/store/ring.h"
#include "engine/store/store.h"
#include "model/sample.h"

enum {
    SERIES_JUMPS = 8,
    SERIES_SECOND_BLOCKS = RING_BLOCKS(STORE_SECONDS),
    SERIES_MINUTE_BLOCKS = RING_BLOCKS(STORE_MINUTES),
    /* units of a slab that a series can need */
    SERIES_UNITS = SERIES_SECOND_BLOCKS * BLOCK_UNITS_WIDE + SERIES_MINUTE_BLOCKS * BLOCK_UNITS_WIDEST,
};

/* Its rings. Zeroed memory is two without cells. */
typedef struct SeriesRings {
    Block seconds[SERIES_SECOND_BLOCKS], minutes[SERIES_MINUTE_BLOCKS];
} SeriesRings;

/* An open minute of a gauge. */
typedef struct SeriesFold {
    double min, max, sum;
    uint64_t seconds; /* bit k: second k of the minute had a valid reading */
    uint32_t count;
    bool fast; /* the readings are fast ones; others are no longer folded in */
} SeriesFold;

typedef struct SeriesJump {
    uint64_t minute;
    double increase;
} SeriesJump;

typedef struct SeriesCounter {
    double last;      /* last valid value ever, where known */
    double base;      /* last valid value before those in the ring; the first value ever until then */
    double increase;  /* since the start of the running minute */
    uint64_t seconds; /* of the running minute, as in SeriesFold */
    bool known, jumped;
    uint32_t jump_count; /* ever */
    SeriesJump jumps[SERIES_JUMPS];
} SeriesCounter;

/* Zeroes with `rings`, `slab` and `counter` set are a series without samples. */
typedef struct Series {
    SeriesRings *rings;
    Slab *slab;
    bool counter, has_seconds, has_minutes;
    uint64_t added_ns;                  /* of the last series_add */
    uint64_t first_second, last_second; /* numbers on the axis, where has_seconds */
    uint64_t first_minute, last_minute;
    union {
        SeriesFold fold[2]; /* of a gauge: minute m is in fold[m & 1] */
        SeriesCounter count;
    } open;
} Series;

void series_add(Series *series, uint64_t now_ns, const Sample *sample);
void series_add_minute(Series *series, const StoreMinute *minute);
void series_add_fast(Series *series, uint64_t time_ns, double value);

/* Frees what the rings hold; nothing may be added or read after that. */
void series_done(const Series *series);

/* As store_seconds and store_minutes. */
size_t series_seconds(const Series *series, uint64_t from_ns, uint64_t to_ns, StoreSecond *out, size_t cap);
size_t series_minutes(const Series *series, uint64_t from_ns, uint64_t to_ns, StoreMinute *out, size_t cap);
