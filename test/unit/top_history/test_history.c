/* SPDX-License-Identifier: Apache-2.0 */
/* service/top/history.c: against a model that remembers every snapshot, and the rules that the model does not have. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/duration.h"
#include "random.h"
#include "service/top/history.h"

#define JUMP_NS (10 * NS_PER_DAY)
#define START_NS (1767614400 * NS_PER_S) /* 2026-01-05T12:00:00Z, a whole minute */

enum { GPUS = 3, LOOKS_MAX = 4000, COLUMNS_MAX = 700 };

typedef struct World {
    Node node;
    NodeGpu gpus[GPUS];
    Reading instances[2];
    History *history;
    uint64_t pace_ns;
} World;

static int set_up(void **state)
{
    World *w = calloc(1, sizeof *w);

    w->node = (Node){.gpus = w->gpus, .gpu_count = GPUS};
    for (uint32_t i = 0; i < GPUS; i++) {
        reading_init(&w->gpus[i].reading, DEVICE_GPU);
        Device *d = &w->gpus[i].reading.device;
        d->index = i;
        d->has_pci = true;
        d->pci = (PciAddress){.bus = (uint8_t)(0x10 + i)};
        snprintf(d->uuid, sizeof d->uuid, "GPU-%u", i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        reading_init(&w->instances[i], DEVICE_COMPUTE_INSTANCE);
        Device *d = &w->instances[i].device;
        d->has_pci = true;
        d->pci = w->gpus[1].reading.device.pci;
        d->gpu_instance = 7 + i;
        d->compute_instance = 0;
        snprintf(d->uuid, sizeof d->uuid, "MIG-%u", i);
        snprintf(d->parent_uuid, sizeof d->parent_uuid, "GPU-1");
    }
    w->gpus[1].instances = w->instances;
    w->gpus[1].instance_count = 2;
    w->history = history_new(true);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    World *w = *state;

    history_free(w->history);
    free(w);
    return 0;
}

static Device *gpu(World *w, size_t i)
{
    return &w->gpus[i].reading.device;
}

/* NAN: absent. */
static void look(World *w, uint64_t real_ns, double value)
{
    Sample *sample = &w->gpus[0].reading.sample[METRIC_POWER_USAGE];

    if (isnan(value))
        sample_set_absent(sample, 1, ABSENCE_GPU_LOST);
    else
        sample_set_double(sample, 1, value);
    w->node.real_ns = real_ns;
    history_add(w->history, &w->node, w->pace_ns, JUMP_NS);
}

static PlotPoint last_of(World *w, const Device *device, MetricId metric, uint64_t to_ns, uint64_t width_ns)
{
    PlotPoint point;

    history_read_points(w->history, device, metric, to_ns, width_ns, &point, 1);
    return point;
}

/* Answers all wants with an empty past. */
static void end_wants(World *w)
{
    HistoryWant want;

    while (history_next_wanted(w->history, &want))
        history_end_fill(w->history, &want);
}

static PlotPoint power_at(World *w, uint64_t real_ns)
{
    return last_of(w, gpu(w, 0), METRIC_POWER_USAGE, real_ns, NS_PER_S);
}

static void want_power(World *w, uint64_t real_ns)
{
    (void)power_at(w, real_ns);
    end_wants(w);
}

static void assert_point(PlotPoint got, double min, double mean, double max)
{
    if (isnan(mean)) {
        assert_true(isnan(got.mean));
        return;
    }
    assert_true(fabs((double)got.min - min) <= 1e-3);
    assert_true(fabs((double)got.mean - mean) <= 1e-3);
    assert_true(fabs((double)got.max - max) <= 1e-3);
}

/* --- a model that remembers everything -----------------------------------------------------------------------------
 */

typedef struct Model {
    size_t count;
    uint64_t pace_ns;
    struct {
        uint64_t real_ns;
        double value;
    } looks[LOOKS_MAX];
} Model;

typedef struct Sum {
    double min, max, sum;
    size_t count;
} Sum;

static void put(Sum *sum, double value)
{
    sum->min = sum->count ? fmin(sum->min, value) : value;
    sum->max = sum->count ? fmax(sum->max, value) : value;
    sum->sum += value;
    sum->count++;
}

/* One second: the last snapshot in it, or what the one before says where the next one comes soon enough. NAN: none. */
static double model_second(const Model *m, uint64_t second)
{
    size_t next = 0;
    double value = (double)NAN;

    while (next < m->count && m->looks[next].real_ns / NS_PER_S < second)
        next++;
    const bool seen = next < m->count && m->looks[next].real_ns / NS_PER_S == second;
    for (size_t i = next; seen && i < m->count && m->looks[i].real_ns / NS_PER_S == second; i++)
        if (!isnan(m->looks[i].value))
            value = m->looks[i].value;
    if (seen || next == 0 || next == m->count)
        return value;
    const uint64_t most = (m->pace_ns > NS_PER_S ? m->pace_ns : NS_PER_S) / 2 * 5;
    return m->looks[next].real_ns - m->looks[next - 1].real_ns <= most ? m->looks[next - 1].value : (double)NAN;
}

/* Seconds that begin in the column, else the one that it lies in; the mean of their means. */
static PlotPoint model_column(const Model *m, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t first = (from_ns + NS_PER_S - 1) / NS_PER_S, last = (to_ns - 1) / NS_PER_S;
    const uint64_t newest = m->looks[m->count - 1].real_ns / NS_PER_S;
    Sum all = {0};

    if (first > last)
        first = last;
    for (uint64_t n = first; n <= last; n++) {
        const double value = n + HISTORY_SECONDS > newest ? model_second(m, n) : (double)NAN;

        if (!isnan(value))
            put(&all, value);
    }
    if (all.count == 0)
        return (PlotPoint){NAN, NAN, NAN};
    return (PlotPoint){(float)all.min, (float)(all.sum / (double)all.count), (float)all.max};
}

static void compare(World *w, const Model *m, uint64_t to_ns, uint64_t span_ns, size_t columns)
{
    static PlotPoint points[COLUMNS_MAX];
    const uint64_t step = span_ns / columns, end = (to_ns / step + 1) * step;

    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, to_ns, span_ns, points, columns);
    for (size_t i = 0; i < columns; i++) {
        const uint64_t from = end - (columns - i) * step;
        const PlotPoint wanted = model_column(m, from, from + step);

        if (isnan(wanted.mean) && !isnan(points[i].mean))
            continue; /* minutes stand in where there are no seconds */
        assert_point(points[i], (double)wanted.min, (double)wanted.mean, (double)wanted.max);
    }
}

static void test_seconds_are_those_of_the_model(void **state)
{
    World *w = *state;

    for (uint64_t seed = 1; seed <= 12; seed++) {
        Model *m = calloc(1, sizeof *m);
        Random random = {seed};
        const uint64_t pace = (1 + random_below(&random, 40)) * 100 * NS_PER_MS;
        uint64_t now = START_NS + random_below(&random, NS_PER_DAY);

        history_free(w->history);
        w->history = history_new(true);
        w->pace_ns = pace;
        m->pace_ns = pace;
        want_power(w, now);
        for (size_t i = 0; i < 1500; i++) {
            const double value = random_once(&random, 9) ? (double)NAN : (double)random_below(&random, 1000);

            now += random_once(&random, 40) ? random_below(&random, 90 * NS_PER_S)
                                            : pace / 2 + random_below(&random, pace);
            look(w, now, value);
            m->looks[m->count].real_ns = now;
            m->looks[m->count++].value = value;
            if (random_once(&random, 25)) {
                const size_t columns = 1 + random_below(&random, 300);
                const uint64_t span = (1 + random_below(&random, 600)) * NS_PER_S;

                compare(w, m, now - random_below(&random, 30 * NS_PER_S), span, columns);
            }
        }
        free(m);
    }
}

/* --- rules ----------------------------------------------------------------------------------------------------------
 */

static void test_a_series_is_empty_until_it_is_asked_for(void **state)
{
    World *w = *state;

    look(w, START_NS, 100);
    assert_int_equal(history_count_open(w->history), 0);
    assert_true(isnan(power_at(w, START_NS).mean));
    assert_int_equal(history_count_open(w->history), 1);
    look(w, START_NS, 150); /* its past has not come yet */
    assert_true(isnan(power_at(w, START_NS).mean));
    end_wants(w);
    look(w, START_NS + NS_PER_S, 200);
    assert_point(power_at(w, START_NS + NS_PER_S), 200, 200, 200);
    assert_true(isnan(power_at(w, START_NS).mean));
}

static void test_absent_is_not_zero(void **state)
{
    World *w = *state;

    want_power(w, START_NS);
    look(w, START_NS, 50);
    look(w, START_NS + NS_PER_S, NAN);
    look(w, START_NS + 2 * NS_PER_S, 0);
    assert_point(power_at(w, START_NS), 50, 50, 50);
    assert_true(isnan(power_at(w, START_NS + NS_PER_S).mean));
    assert_point(power_at(w, START_NS + 2 * NS_PER_S), 0, 0, 0);
}

static void test_minutes_stand_in_for_old_seconds(void **state)
{
    World *w = *state;
    PlotPoint points[120];
    size_t known = 0;

    want_power(w, START_NS);
    for (uint64_t s = 0; s < 3600; s++)
        look(w, START_NS + s * NS_PER_S, (double)(s / 60));
    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, START_NS + 3599 * NS_PER_S, 3600 * NS_PER_S, points,
                        60);
    for (size_t i = 0; i < 60; i++)
        assert_point(points[i], (double)i, (double)i, (double)i);
    /* half a minute a column: the older ones are drawn from minutes, twice each */
    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, START_NS + 3599 * NS_PER_S, 3600 * NS_PER_S, points,
                        120);
    for (size_t i = 0; i < 120; i++) {
        assert_point(points[i], (double)(i / 2), (double)(i / 2), (double)(i / 2));
        known += isnan(points[i].mean) ? 0 : 1;
    }
    assert_int_equal(known, 120);
}

static void test_a_day_is_kept(void **state)
{
    World *w = *state;
    const uint64_t day = HISTORY_MINUTES * NS_PER_MIN, end = START_NS + 3 * day;

    want_power(w, START_NS);
    w->pace_ns = NS_PER_MIN;
    for (uint64_t at = START_NS; at < end; at += NS_PER_MIN)
        look(w, at, (double)((at - START_NS) / NS_PER_MIN));
    const PlotPoint oldest = last_of(w, gpu(w, 0), METRIC_POWER_USAGE, end - day, NS_PER_MIN);
    assert_point(oldest, 2880, 2880, 2880);
    assert_true(isnan(last_of(w, gpu(w, 0), METRIC_POWER_USAGE, end - day - NS_PER_MIN, NS_PER_MIN).mean));
}

static void test_devices_are_told_apart(void **state)
{
    World *w = *state;

    for (size_t i = 0; i < 2; i++)
        last_of(w, &w->instances[i].device, METRIC_FB_USED, START_NS, NS_PER_S);
    last_of(w, gpu(w, 1), METRIC_FB_USED, START_NS, NS_PER_S);
    last_of(w, gpu(w, 1), METRIC_FB_FREE, START_NS, NS_PER_S);
    assert_int_equal(history_count_open(w->history), 4);
    end_wants(w);
    sample_set_int64(&w->instances[0].sample[METRIC_FB_USED], 1, 11);
    sample_set_int64(&w->instances[1].sample[METRIC_FB_USED], 1, 12);
    sample_set_int64(&w->gpus[1].reading.sample[METRIC_FB_USED], 1, 13);
    sample_set_int64(&w->gpus[1].reading.sample[METRIC_FB_FREE], 1, 14);
    w->node.real_ns = START_NS;
    history_add(w->history, &w->node, w->pace_ns, JUMP_NS);
    /* another order of GPUs and instances in the next look */
    NodeGpu moved = w->gpus[1];
    w->gpus[1] = w->gpus[0];
    w->gpus[0] = moved;
    Reading first = w->instances[0];
    w->instances[0] = w->instances[1];
    w->instances[1] = first;
    w->node.real_ns = START_NS + NS_PER_S;
    history_add(w->history, &w->node, w->pace_ns, JUMP_NS);
    for (uint64_t s = 0; s < 2; s++) {
        const uint64_t at = START_NS + s * NS_PER_S;

        assert_point(last_of(w, &w->instances[1].device, METRIC_FB_USED, at, NS_PER_S), 11, 11, 11);
        assert_point(last_of(w, &w->instances[0].device, METRIC_FB_USED, at, NS_PER_S), 12, 12, 12);
        assert_point(last_of(w, gpu(w, 0), METRIC_FB_USED, at, NS_PER_S), 13, 13, 13);
        assert_point(last_of(w, gpu(w, 0), METRIC_FB_FREE, at, NS_PER_S), 14, 14, 14);
    }
}

static void test_the_past_is_filled_in(void **state)
{
    World *w = *state;
    HistoryWant want, again;
    PlotPoint points[60];

    assert_false(history_next_wanted(w->history, &want));
    power_at(w, START_NS);
    assert_true(history_next_wanted(w->history, &want));
    assert_int_equal(want.metric, METRIC_POWER_USAGE);
    assert_true(device_equal(&want.device, gpu(w, 0)));
    assert_false(history_next_wanted(w->history, &again)); /* each is asked for once */
    for (uint64_t m = 59; m > 0; m--) {
        const uint64_t at = START_NS - m * NS_PER_MIN;
        history_fill(w->history, &want, at, at + NS_PER_MIN, (PlotPoint){4, 5, 6});
    }
    for (uint64_t s = 30; s > 0; s--)
        history_fill(w->history, &want, START_NS - s * NS_PER_S, START_NS - (s - 1) * NS_PER_S, (PlotPoint){2, 2, 2});
    history_end_fill(w->history, &want);
    look(w, START_NS, 7);
    assert_point(power_at(w, START_NS), 7, 7, 7);
    assert_point(power_at(w, START_NS - 30 * NS_PER_S), 2, 2, 2);
    assert_true(isnan(power_at(w, START_NS - 31 * NS_PER_S).mean));
    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, START_NS - NS_PER_MIN, 3600 * NS_PER_S, points, 60);
    assert_point(points[0], NAN, NAN, NAN);
    for (size_t i = 1; i < 59; i++)
        assert_point(points[i], 4, 5, 6);
    assert_point(points[59], 2, 2, 2); /* seconds where there are some */
}

/* A value that was read once stands for all seconds of its stretch, and a stretch of minutes for its minutes. */
static void test_a_stretch_is_filled(void **state)
{
    World *w = *state;
    HistoryWant want;

    power_at(w, START_NS);
    assert_true(history_next_wanted(w->history, &want));
    history_fill(w->history, &want, START_NS - 15 * NS_PER_MIN, START_NS - 13 * NS_PER_MIN, (PlotPoint){1, 1, 1});
    history_fill(w->history, &want, START_NS - 20 * NS_PER_S, START_NS - 15 * NS_PER_S, (PlotPoint){3, 3, 3});
    history_end_fill(w->history, &want);
    look(w, START_NS, 7);
    for (uint64_t s = 16; s <= 20; s++)
        assert_point(power_at(w, START_NS - s * NS_PER_S), 3, 3, 3);
    assert_true(isnan(power_at(w, START_NS - 15 * NS_PER_S).mean));
    assert_point(last_of(w, gpu(w, 0), METRIC_POWER_USAGE, START_NS - 14 * NS_PER_MIN, NS_PER_MIN), 1, 1, 1);
    assert_true(isnan(last_of(w, gpu(w, 0), METRIC_POWER_USAGE, START_NS - 13 * NS_PER_MIN, NS_PER_MIN).mean));
}

/* One past comes while another is asked for: as many are open as before. */
static void test_a_want_and_a_past_hide_no_other(void **state)
{
    World *w = *state;
    HistoryWant want;

    power_at(w, START_NS);
    assert_true(history_next_wanted(w->history, &want));
    assert_int_equal(history_count_open(w->history), 1);
    last_of(w, gpu(w, 0), METRIC_GPU_TEMP, START_NS, NS_PER_S);
    history_end_fill(w->history, &want);
    assert_int_equal(history_count_open(w->history), 1);
}

/* Back, or too far on: the past is wanted again. */
static void test_a_jump_empties_it(void **state)
{
    World *w = *state;
    HistoryWant before, after;

    power_at(w, START_NS);
    assert_true(history_next_wanted(w->history, &before));
    history_end_fill(w->history, &before);
    for (uint64_t s = 0; s < 100; s++)
        look(w, START_NS + s * NS_PER_S, 1);
    assert_false(history_next_wanted(w->history, &after));
    look(w, START_NS + 50 * NS_PER_S, 2);
    assert_true(isnan(power_at(w, START_NS + 40 * NS_PER_S).mean));
    assert_true(history_next_wanted(w->history, &after));
    look(w, START_NS + 51 * NS_PER_S, 2);
    assert_true(isnan(power_at(w, START_NS).mean));
    assert_true(isnan(power_at(w, START_NS + 51 * NS_PER_S).mean)); /* its past has not come yet */
    history_end_fill(w->history, &after);
    look(w, START_NS + 52 * NS_PER_S, 2);
    assert_point(power_at(w, START_NS + 52 * NS_PER_S), 2, 2, 2);
    look(w, START_NS + 53 * NS_PER_S + JUMP_NS, 3);
    assert_true(history_next_wanted(w->history, &after));
}

static void test_there_is_an_end(void **state)
{
    World *w = *state;
    Device device = *gpu(w, 0);

    for (uint32_t i = 0; i < HISTORY_SERIES_MAX + 10; i++) {
        device.pci.domain = i;
        snprintf(device.uuid, sizeof device.uuid, "GPU-X%u", i);
        assert_true(isnan(last_of(w, &device, METRIC_GPU_TEMP, START_NS, NS_PER_S).mean));
    }
    assert_int_equal(history_count_open(w->history), HISTORY_SERIES_MAX);
    device_init(&device, DEVICE_GPU); /* says nothing of itself */
    assert_true(isnan(last_of(w, &device, METRIC_GPU_TEMP, START_NS, NS_PER_S).mean));
}

static void test_columns_stand_still(void **state)
{
    World *w = *state;
    PlotPoint before[40], after[40];

    want_power(w, START_NS);
    for (uint64_t s = 0; s < 600; s++)
        look(w, START_NS + s * NS_PER_S, (double)(s * 37 % 101));
    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, START_NS + 590 * NS_PER_S, 400 * NS_PER_S, before,
                        40);
    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, START_NS + 597 * NS_PER_S, 400 * NS_PER_S, after,
                        40);
    assert_memory_equal(before, after, sizeof before);
    history_read_points(w->history, gpu(w, 0), METRIC_POWER_USAGE, START_NS + 600 * NS_PER_S, 400 * NS_PER_S, after,
                        40);
    assert_memory_equal(before + 1, after, sizeof before - sizeof before[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_seconds_are_those_of_the_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_series_is_empty_until_it_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_absent_is_not_zero, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_minutes_stand_in_for_old_seconds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_day_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_devices_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_past_is_filled_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_stretch_is_filled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_want_and_a_past_hide_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_jump_empties_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_there_is_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_columns_stand_still, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
