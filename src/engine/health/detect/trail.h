/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The recent past of one number in a few points: how far a counter rose within a window, what a gauge was on average.
 * A window is covered to a tenth of its length. A counter that falls began anew (driver reloaded, GPU reset): what it
 * rises from there counts, the fall does not. Embedded, zeroes are a valid empty one; nothing is allocated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRAIL_POINTS = 12 };

typedef struct Trail {
    uint64_t last_ns; /* of the newest value, 0: none */
    double last;      /* that value */
    double total;     /* what was added up since the first */
    uint8_t first, len;
    struct {
        uint64_t time_ns;
        double total;
    } at[TRAIL_POINTS];
} Trail;

void trail_forget(Trail *trail);

/* A counter's value as it was read at time_ns. One that was given before (same instant or older) changes nothing; after
 * a silence longer than the window the past is forgotten. */
void trail_count(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns);
/* A gauge's value, taken to have held since the one before. */
void trail_gauge(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns);

typedef struct TrailSpan {
    double sum;       /* rise of the counter, or integral of the gauge in value seconds */
    double seconds;   /* that it covers, at most about the window */
    unsigned rises;   /* in how many of its parts there was any */
    uint64_t from_ns; /* where it begins */
} TrailSpan;

/* Sums up the window before the newest value. False, with *ret untouched, if less than `part` of it is covered. */
bool trail_span(const Trail *trail, uint64_t window_ns, double part, TrailSpan *ret);
/* Per second: the rate of a counter, the mean of a gauge. */
bool trail_rate(const Trail *trail, uint64_t window_ns, double part, double *ret);
