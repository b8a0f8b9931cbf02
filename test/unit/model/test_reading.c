/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of one device (model/reading.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "model/reading.h"

/* Every label metric has a text of its own, no other metric has one, and no text is without a metric. */
static void texts_are_the_label_metrics(void **state)
{
    MetricId of[READING_TEXT_END];
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < READING_TEXT_END; i++)
        of[i] = METRIC_END;
    for (MetricId id = 0; id < METRIC_END; id++) {
        ReadingText text = reading_text_of(id);

        assert_int_equal(text != READING_TEXT_END, metric_get(id)->type == METRIC_LABEL);
        if (text == READING_TEXT_END)
            continue;
        assert_int_equal(of[text], METRIC_END);
        of[text] = id;
        seen++;
    }
    assert_int_equal(seen, READING_TEXT_END);
    assert_string_equal(metric_get(of[READING_SERIAL])->name, "DCGM_FI_DEV_SERIAL");
    assert_string_equal(metric_get(of[READING_VBIOS_VERSION])->name, "DCGM_FI_DEV_VBIOS_VERSION");
    assert_string_equal(metric_get(of[READING_DRIVER_VERSION])->name, "DCGM_FI_DRIVER_VERSION");
}

static void a_new_reading_knows_nothing(void **state)
{
    static Reading reading;

    (void)state;
    memset(&reading, 0x5a, sizeof reading);
    reading_init(&reading, DEVICE_COMPUTE_INSTANCE);
    assert_int_equal(reading.device.kind, DEVICE_COMPUTE_INSTANCE);
    assert_int_equal(reading.device.minor, DEVICE_NO_NUMBER);
    assert_false(reading.mig || reading.instance_head);
    assert_string_equal(reading.profile, "");
    for (size_t i = 0; i < READING_TEXT_END; i++)
        assert_string_equal(reading.text[i], "");
    for (MetricId id = 0; id < METRIC_END; id++) {
        assert_false(reading.sample[id].valid);
        assert_int_equal(reading.sample[id].absence, ABSENCE_NOT_YET);
        assert_int_equal(reading.sample[id].time_ns, 0);
    }
}

static void a_lost_reading_keeps_who_it_is(void **state)
{
    static Reading reading;

    (void)state;
    reading_init(&reading, DEVICE_GPU);
    snprintf(reading.device.uuid, sizeof reading.device.uuid, "GPU-1");
    snprintf(reading.text[READING_SERIAL], READING_TEXT_CAP, "132");
    reading.mig = true;
    for (MetricId id = 0; id < METRIC_END; id++)
        sample_set_int64(&reading.sample[id], 5, 42);
    reading_lose(&reading, 77, ABSENCE_GPU_LOST);
    for (MetricId id = 0; id < METRIC_END; id++) {
        int64_t value = 9;

        assert_false(sample_int64(&reading.sample[id], &value));
        assert_int_equal(reading.sample[id].absence, ABSENCE_GPU_LOST);
        assert_int_equal(reading.sample[id].time_ns, 77);
    }
    assert_string_equal(reading.device.uuid, "GPU-1");
    assert_string_equal(reading.text[READING_SERIAL], "132");
    assert_true(reading.mig);
}

static void values_age_with_their_pace(void **state)
{
    (void)state;
    assert_int_equal(reading_fresh_ns(METRIC_PACE_FAST, 100 * NS_PER_MS), 3 * NS_PER_S);
    assert_int_equal(reading_fresh_ns(METRIC_PACE_NORMAL, NS_PER_S), 3 * NS_PER_S);
    assert_int_equal(reading_fresh_ns(METRIC_PACE_NORMAL, 5 * NS_PER_S), 15 * NS_PER_S);
    assert_int_equal(reading_fresh_ns(METRIC_PACE_SLOW, 10 * NS_PER_S), 30 * NS_PER_S);
    assert_int_equal(reading_fresh_ns(METRIC_PACE_BLOCKING, 999 * NS_PER_MS), 3 * NS_PER_S);
    assert_true(reading_fresh_ns(METRIC_PACE_ONCE, NS_PER_S) == UINT64_MAX);
    assert_true(reading_fresh_ns(METRIC_PACE_EVENTS, NS_PER_S) == UINT64_MAX);
}

static void a_mig_device_is_a_share_of_its_board(void **state)
{
    static const struct {
        const char *board, *profile;
        double share;
    } cases[] = {
        {"NVIDIA H100 80GB HBM3", "3g.40gb", 3.0 / 7},
        {"NVIDIA H100 80GB HBM3", "1c.3g.40gb", 1.0 / 7},
        {"NVIDIA H100 80GB HBM3", "", 1.0 / 7},
        {"NVIDIA A30", "2g.12gb+me", 2.0 / 4},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb", 1.0 / 4},
        {"NVIDIA RTX PRO 5000 Blackwell", "1g.24gb", 1.0 / 2},
        {"NVIDIA RTX PRO 4500 Blackwell Server Edition", "2g.32gb", 1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Reading gpu = {.profile = ""}, instance = {.profile = ""};

        snprintf(gpu.device.name, sizeof gpu.device.name, "%s", cases[i].board);
        snprintf(instance.profile, sizeof instance.profile, "%s", cases[i].profile);
        assert_true(fabs(reading_mig_share(&gpu, &instance) - cases[i].share) < 1e-12);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_the_label_metrics),
        cmocka_unit_test(a_new_reading_knows_nothing),
        cmocka_unit_test(a_lost_reading_keeps_who_it_is),
        cmocka_unit_test(values_age_with_their_pace),
        cmocka_unit_test(a_mig_device_is_a_share_of_its_board),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
