/* SPDX-License-Identifier: Apache-2.0 */
/* A series: the rings move on with the axis, closed minutes are packed into their cells. An open minute is read through
 * the cell that it would get, so that closing it changes no answer. */
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "engine/store/series.h"

static CellMinute series_fold_cell(const SeriesFold *fold)
{
    CellGauge gauge = {.min = fold->min, .max = fold->max};

    if (fold->count == 0)
        return (CellMinute){.bits = 0};
    gauge.mean = fold->sum / fold->count;
    return cell_gauge(&gauge, (unsigned)__builtin_popcountll(fold->seconds));
}

static CellMinute series_count_cell(const SeriesCounter *count)
{
    if (count->seconds == 0)
        return (CellMinute){.bits = 0};
    return cell_counter(count->last, count->jumped, (unsigned)__builtin_popcountll(count->seconds));
}

static Cells seconds_of(const Series *series)
{
    return (Cells){.blocks = series->rings->seconds, .count = SERIES_SECOND_BLOCKS, .slab = series->slab};
}

static Cells minutes_of(const Series *series)
{
    return (Cells){.blocks = series->rings->minutes, .count = SERIES_MINUTE_BLOCKS, .slab = series->slab};
}

static void put_second(const Series *series, uint64_t second, uint64_t cell)
{
    cells_put(seconds_of(series), series->first_second, second, (CellMinute){.data = cell});
}

static void put_minute(const Series *series, uint64_t minute, CellMinute cell)
{
    cells_put(minutes_of(series), series->first_minute, minute, cell);
}

/* Makes `second` the newest one. What was skipped becomes a gap; a gap as long as the ring leaves nothing before it. */
static void advance_seconds(Series *series, uint64_t second)
{
    if (!series->has_seconds || second - series->last_second >= STORE_SECONDS) {
        series->first_second = second;
        cells_clear(seconds_of(series));
    } else {
        for (uint64_t s = series->last_second + 1; s < second; s++)
            put_second(series, s, CELL_SECOND_GAP);
    }
    series->has_seconds = true;
    series->last_second = second;
}

/* Minute `next` begins: the one two before it is closed. */
static void close_gauge_minute(Series *series, uint64_t next)
{
    SeriesFold *fold = &series->open.fold[next & 1];

    if (next >= series->first_minute + 2)
        put_minute(series, next - 2, series_fold_cell(fold));
    *fold = (SeriesFold){.count = 0};
}

/* Minute `next` begins: the one before it is packed, and the one a day before that leaves the ring: its value becomes
 * the base. */
static void close_counter_minute(Series *series, uint64_t next)
{
    SeriesCounter *count = &series->open.count;
    uint64_t done = next - 1;

    if (done >= series->first_minute + STORE_MINUTES) {
        CellsReader reader;
        CellMinute old;
        bool jumped;

        cells_reader_init(&reader, minutes_of(series));
        old = cells_read(&reader, done - STORE_MINUTES);
        if (cell_valid_seconds(old.bits) > 0)
            count->base = cell_counter_read(old, &jumped);
    }
    put_minute(series, done, series_count_cell(count));
    if (count->jumped)
        count->jumps[count->jump_count++ % SERIES_JUMPS] = (SeriesJump){.minute = done, .increase = count->increase};
    count->increase = 0;
    count->seconds = 0;
    count->jumped = false;
}

/* No minute before this one is left. */
static void restart_minutes(Series *series, uint64_t minute)
{
    SeriesCounter *count = &series->open.count;

    cells_clear(minutes_of(series));
    series->first_minute = minute;
    series->last_minute = minute;
    series->has_minutes = true;
    if (!series->counter) {
        memset(series->open.fold, 0, sizeof series->open.fold);
        return;
    }
    count->base = count->last;
    count->increase = 0;
    count->seconds = 0;
    count->jumped = false;
}

static void advance_minutes(Series *series, uint64_t minute)
{
    if (!series->has_minutes || (minute > series->last_minute && minute - series->last_minute >= STORE_MINUTES)) {
        restart_minutes(series, minute);
        return;
    }
    while (series->last_minute < minute) {
        uint64_t next = series->last_minute + 1;

        if (series->counter)
            close_counter_minute(series, next);
        else
            close_gauge_minute(series, next);
        series->last_minute = next;
    }
}

/* Fast readings of a minute replace the slow ones, whose values they repeat. */
static void fold_in(SeriesFold *fold, uint64_t time_ns, double value, bool fast)
{
    fold->seconds |= UINT64_C(1) << time_ns / NS_PER_S % 60;
    if (fold->fast && !fast)
        return;
    if (fold->count == 0 || fold->fast != fast) {
        *fold = (SeriesFold){.min = value, .max = value, .seconds = fold->seconds, .fast = fast};
    } else {
        fold->min = value < fold->min ? value : fold->min;
        fold->max = value > fold->max ? value : fold->max;
    }
    fold->sum += value;
    fold->count++;
}

static void add_to_gauge(Series *series, uint64_t time_ns, double value, bool fast)
{
    uint64_t minute = time_ns / NS_PER_MIN;

    if (minute >= series->first_minute && minute + 1 >= series->last_minute)
        fold_in(&series->open.fold[minute & 1], time_ns, value, fast);
}

/* Its samples come in order, so the minute is the running one. */
static void add_to_counter(SeriesCounter *count, uint64_t time_ns, double value)
{
    if (!count->known) {
        count->known = true;
        count->base = value;
    } else if (value < count->last) {
        count->jumped = true;
        count->increase += value;
    } else {
        count->increase += value - count->last;
    }
    count->last = value;
    count->seconds |= UINT64_C(1) << time_ns / NS_PER_S % 60;
}

void series_add(Series *series, uint64_t now_ns, const Sample *sample)
{
    uint64_t second = now_ns / NS_PER_S;
    double value;
    bool valid = sample_double(sample, &value);

    if (series->has_seconds && now_ns < series->added_ns)
        return;
    series->added_ns = now_ns;
    advance_seconds(series, second);
    put_second(series, second, valid ? cell_second_value(value) : cell_second_absence(sample->absence));
    advance_minutes(series, now_ns / NS_PER_MIN);
    if (!valid || isnan(value))
        return;
    if (series->counter)
        add_to_counter(&series->open.count, now_ns, value);
    else
        add_to_gauge(series, now_ns, value, false);
}

void series_add_fast(Series *series, uint64_t time_ns, double value)
{
    if (series->counter || isnan(value))
        return;
    advance_minutes(series, time_ns / NS_PER_MIN);
    add_to_gauge(series, time_ns, value, true);
}

void series_add_minute(Series *series, const StoreMinute *minute)
{
    const uint64_t number = minute->time_ns / NS_PER_MIN;

    if (series->counter || minute->valid_seconds == 0)
        return;
    advance_minutes(series, number);
    if (number < series->first_minute || number + 1 < series->last_minute)
        return;
    series->open.fold[number & 1] = (SeriesFold){.min = minute->min,
                                                 .max = minute->max,
                                                 .sum = minute->mean * minute->valid_seconds,
                                                 .count = minute->valid_seconds,
                                                 .seconds = (UINT64_C(1) << minute->valid_seconds) - 1};
}

void series_done(const Series *series)
{
    cells_clear(seconds_of(series));
    cells_clear(minutes_of(series));
}

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

size_t series_seconds(const Series *series, uint64_t from_ns, uint64_t to_ns, StoreSecond *out, size_t cap)
{
    size_t count = 0, kept = 0;
    CellsReader reader;
    Range range;

    if (!series->has_seconds || from_ns > to_ns)
        return 0;
    cells_reader_init(&reader, seconds_of(series));
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

size_t series_minutes(const Series *series, uint64_t from_ns, uint64_t to_ns, StoreMinute *out, size_t cap)
{
    size_t count = 0, kept = 0;
    double before = 0;
    CellsReader reader;
    Range range;

    if (!series->has_minutes || from_ns > to_ns)
        return 0;
    cells_reader_init(&reader, minutes_of(series));
    range = range_of(from_ns / NS_PER_MIN, to_ns / NS_PER_MIN,
                     oldest_kept(series->first_minute, series->last_minute, STORE_MINUTES), series->last_minute);
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
