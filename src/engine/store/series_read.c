/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a series. An open minute is read through the cell that it would get, so that closing it changes no answer. */

#include "engine/store/series_ring.h"

#include "base/duration.h"

/* Numbers of seconds or minutes on the axis. */
typedef struct Range {
    uint64_t from, to; /* from > to: nothing */
} Range;

static uint64_t oldest_kept(uint64_t first, uint64_t last, uint64_t length)
{
    return last - first >= length ? last - length + 1 : first;
}

static Range range_of(uint64_t from, uint64_t to, uint64_t first, uint64_t last)
{
    return (Range){.from = from > first ? from : first, .to = to < last ? to : last};
}

size_t series_seconds(const Series *series, const SeriesRoom *room, uint64_t from_ns, uint64_t to_ns, StoreSecond *out,
                      size_t cap)
{
    size_t count = 0, kept = 0;
    CellsReader reader;
    Range range;

    if (!series->has_seconds || from_ns > to_ns)
        return 0;
    cells_reader_init(&reader, &room->seconds);
    range = range_of(from_ns / NS_PER_S, to_ns / NS_PER_S,
                     oldest_kept(series->first_second, series->last_second, STORE_SECONDS), series->last_second);
    for (uint64_t s = range.from; s <= range.to && count < cap; s++) {
        uint64_t cell = cells_read(&reader, s).data;
        StoreSecond second = {.time_ns = s * NS_PER_S};

        if (count == 0 && cell == CELL_SECOND_GAP)
            continue;
        second.valid = cell_second_read(cell, &second.value, &second.why);
        out[count++] = second;
        if (cell != CELL_SECOND_GAP)
            kept = count;
    }
    return kept;
}

static uint64_t oldest_minute(const Series *series)
{
    return oldest_kept(series->first_minute, series->last_minute, STORE_MINUTES);
}

/* Of a minute that the ring holds. */
static CellMinute minute_cell(const Series *series, CellsReader *reader, uint64_t minute)
{
    if (series->counter && minute == series->last_minute)
        return series_count_cell(&series->open.count);
    if (!series->counter && minute + 1 >= series->last_minute)
        return series_fold_cell(&series->open.fold[minute & 1]);
    return cells_read(reader, minute);
}

/* A counter's last valid value before this minute. As the running minute is not in the ring yet, the one a day before
 * it still is. */
static double value_before(const Series *series, CellsReader *reader, uint64_t minute)
{
    uint64_t oldest = oldest_kept(series->first_minute, series->last_minute, STORE_MINUTES + 1);
    bool jumped;

    while (minute > oldest) {
        CellMinute cell = minute_cell(series, reader, --minute);

        if (cell_valid_seconds(cell.bits) > 0)
            return cell_counter_read(cell, &jumped);
    }
    return series->open.count.base;
}

/* The increase in a minute with a reset. One that is no longer remembered grew by its last value at least. */
static double jump_of(const Series *series, uint64_t minute, double last)
{
    const SeriesCounter *count = &series->open.count;

    if (minute == series->last_minute)
        return count->increase;
    for (size_t i = 0; i < SERIES_JUMPS && i < count->jump_count; i++)
        if (count->jumps[i].minute == minute)
            return count->jumps[i].increase;
    return last;
}

/* `before` is the last valid value before this minute; it becomes the one of this minute. */
static void read_counter(const Series *series, CellMinute cell, uint64_t minute, double *before, StoreMinute *ret)
{
    bool jumped;
    double last = cell_counter_read(cell, &jumped);

    ret->min = ret->mean = ret->max = last;
    ret->increase = jumped ? jump_of(series, minute, last) : last - *before;
    *before = last;
}

static void read_gauge(CellMinute cell, StoreMinute *ret)
{
    CellGauge gauge = cell_gauge_read(cell);

    ret->min = gauge.min;
    ret->mean = gauge.mean;
    ret->max = gauge.max;
}

size_t series_minutes(const Series *series, const SeriesRoom *room, uint64_t from_ns, uint64_t to_ns, StoreMinute *out,
                      size_t cap)
{
    size_t count = 0, kept = 0;
    double before = 0;
    CellsReader reader;
    Range range;

    if (!series->has_minutes || from_ns > to_ns)
        return 0;
    cells_reader_init(&reader, &room->minutes);
    range = range_of(from_ns / NS_PER_MIN, to_ns / NS_PER_MIN, oldest_minute(series), series->last_minute);
    if (series->counter && range.from <= range.to)
        before = value_before(series, &reader, range.from);
    for (uint64_t m = range.from; m <= range.to && count < cap; m++) {
        CellMinute cell = minute_cell(series, &reader, m);
        StoreMinute minute = {.time_ns = m * NS_PER_MIN, .valid_seconds = (uint8_t)cell_valid_seconds(cell.bits)};

        if (minute.valid_seconds == 0 && count == 0)
            continue;
        if (minute.valid_seconds > 0 && series->counter)
            read_counter(series, cell, m, &before, &minute);
        else if (minute.valid_seconds > 0)
            read_gauge(cell, &minute);
        out[count++] = minute;
        if (minute.valid_seconds > 0)
            kept = count;
    }
    return kept;
}
