/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A series that keeps everything it was ever given, as plainly as can be said, to hold the store against. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/store/store.h"

enum { NAIVE_SECONDS = 44 * 86400, NAIVE_MINUTES = NAIVE_SECONDS / 60, NAIVE_REMEMBERED = 8 };

typedef struct NaiveSecond {
    bool added, valid;
    double value;
    Absence why;
} NaiveSecond;

typedef struct NaiveFold {
    double min, max, sum;
    size_t count;
} NaiveFold;

typedef struct NaiveMinute {
    NaiveFold slow, fast;
    bool second[60];
    double last, increase;
    bool reset;
} NaiveMinute;

typedef struct Naive {
    bool counter, any, known, any_minute;
    uint64_t added_ns, newest_second, first_minute, newest_minute;
    double last;
    NaiveSecond *seconds;
    NaiveMinute *minutes;
} Naive;

void naive_init(Naive *naive, bool counter);
void naive_done(Naive *naive);
void naive_add(Naive *naive, uint64_t now_ns, const Sample *sample);
void naive_add_fast(Naive *naive, uint64_t time_ns, double value);

/* Asks the store for this range and fails the test where the answer is not what the naive series says. */
void naive_check_seconds(const Naive *naive, const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns,
                         size_t cap);
void naive_check_minutes(const Naive *naive, const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns,
                         size_t cap);
