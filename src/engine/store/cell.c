/* SPDX-License-Identifier: Apache-2.0 */
/* Packing seconds and minutes. */

#include "engine/store/cell.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { VALID_BITS = 6, PLACE_MAX = 1023 };

#define ABSENT_BITS UINT64_C(0x7ff8000000000000) /* a quiet NaN */
#define REASON_BITS UINT64_C(0xff)

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t cell_second_value(double value)
{
    return isnan(value) ? cell_second_absence(ABSENCE_NO_DATA) : bits_of(value);
}

uint64_t cell_second_absence(Absence why)
{
    return ABSENT_BITS | why;
}

bool cell_second_read(uint64_t cell, double *ret_value, Absence *ret_why)
{
    double value = double_of(cell);

    if (isnan(value)) {
        *ret_why = (Absence)(cell & REASON_BITS);
        return false;
    }
    *ret_value = value;
    return true;
}

/* The nearest float. A finite value stays finite. */
static float float_of(double value)
{
    if (isfinite(value) && fabs(value) > (double)FLT_MAX)
        return value < 0 ? -FLT_MAX : FLT_MAX;
    return (float)value;
}

/* Where the mean lies between low and high, in steps. Where one of them is infinite, only the ends can be told. */
static unsigned place_of(double mean, double low, double high)
{
    double span = high - low;

    if (!(span > 0) || !isfinite(span))
        return mean >= high ? PLACE_MAX : 0;
    if (mean <= low)
        return 0;
    if (mean >= high)
        return PLACE_MAX;
    return (unsigned)lround((mean - low) / span * PLACE_MAX);
}

static uint16_t minute_bits(unsigned extra, unsigned valid_seconds)
{
    assert(valid_seconds <= 60 && extra <= PLACE_MAX);
    return (uint16_t)(extra << VALID_BITS | valid_seconds);
}

CellMinute cell_gauge(const CellGauge *gauge, unsigned valid_seconds)
{
    float ends[2] = {float_of(gauge->min), float_of(gauge->max)};
    CellMinute cell;

    memcpy(&cell.data, ends, sizeof cell.data);
    cell.bits = minute_bits(place_of(gauge->mean, (double)ends[0], (double)ends[1]), valid_seconds);
    return cell;
}

CellGauge cell_gauge_read(CellMinute cell)
{
    unsigned place = cell.bits >> VALID_BITS;
    float ends[2];
    CellGauge gauge;

    memcpy(ends, &cell.data, sizeof ends);
    gauge = (CellGauge){.min = (double)ends[0], .max = (double)ends[1]};
    if (place == 0)
        gauge.mean = gauge.min;
    else if (place == PLACE_MAX)
        gauge.mean = gauge.max;
    else
        gauge.mean = gauge.min + (gauge.max - gauge.min) * place / PLACE_MAX;
    return gauge;
}

CellMinute cell_counter(double last, bool jumped, unsigned valid_seconds)
{
    return (CellMinute){.data = bits_of(last), .bits = minute_bits(jumped, valid_seconds)};
}

double cell_counter_read(CellMinute cell, bool *ret_jumped)
{
    *ret_jumped = cell.bits >> VALID_BITS != 0;
    return double_of(cell.data);
}
