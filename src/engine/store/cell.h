/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a second and a minute are told: in 8 bytes and in 10 bytes. Neighbours share what they have in common (block.h).
 * Pure, any thread.
 *
 * A second is the double itself, so integers up to 2^53 keep every digit (an energy counter of 5e10 mJ among them); a
 * reason why there is none is a NaN with the reason in its payload.
 * A minute of a counter is its last value as a double; what it grew by follows from the minute before (series.c).
 * A minute of a gauge is minimum and maximum as floats (24 bits: 7 digits, integers up to 16,777,216 exactly) and the
 * place of the mean between them in 1023 steps: off by at most 0.05 % of maximum - minimum.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/sample.h"

/* A second in which nothing was added; read as ABSENCE_NOT_YET. */
#define CELL_SECOND_GAP UINT64_C(0x7ff8000000000100)

uint64_t cell_second_value(double value);
uint64_t cell_second_absence(Absence why);
/* True with the value, or false with the reason. */
bool cell_second_read(uint64_t cell, double *ret_value, Absence *ret_why);

/* The 16 bits beside the 8 bytes of a minute: valid seconds (0..60), and 10 bits of another thing. */
typedef struct CellMinute {
    uint64_t data;
    uint16_t bits;
} CellMinute;

static inline unsigned cell_valid_seconds(uint16_t bits)
{
    return bits & 63u;
}

typedef struct CellGauge {
    double min, mean, max;
} CellGauge;

CellMinute cell_gauge(const CellGauge *gauge, unsigned valid_seconds);
CellGauge cell_gauge_read(CellMinute cell);

/* `jumped`: the increase cannot be had from the minute before. */
CellMinute cell_counter(double last, bool jumped, unsigned valid_seconds);
double cell_counter_read(CellMinute cell, bool *ret_jumped);
