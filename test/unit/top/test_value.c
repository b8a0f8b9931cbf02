/* SPDX-License-Identifier: Apache-2.0 */
/* service/top/value.c: each value as the table and the sheet show it, on both sides of its limits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "service/status/status.h"
#include "service/top/inside.h"

/* A reading with up to four samples; METRIC_END ends them. */
typedef struct ValueCase {
    ValueText *value;
    struct {
        MetricId id;
        double value;
    } samples[4];
    const char *text;
} ValueCase;

static void make_reading(const ValueCase *c, Reading *reading)
{
    reading_init(reading, DEVICE_GPU);
    for (size_t i = 0; i < 4 && c->samples[i].id != METRIC_END; i++)
        if (metric_get(c->samples[i].id)->value == METRIC_INT64)
            sample_set_int64(&reading->sample[c->samples[i].id], 1, (int64_t)c->samples[i].value);
        else
            sample_set_double(&reading->sample[c->samples[i].id], 1, c->samples[i].value);
}

#define END METRIC_END
#define NONE                                                                                                           \
    {                                                                                                                  \
        {                                                                                                              \
            END, 0                                                                                                     \
        }                                                                                                              \
    }

static void values_are_short(void **state UNUSED)
{
    static const ValueCase cases[] = {
        {value_memory, NONE, "-"},
        {value_memory, {{METRIC_FB_USED, 10188}, {END, 0}}, "9.9 GiB"}, /* below 9.95 GiB */
        {value_memory, {{METRIC_FB_USED, 10189}, {END, 0}}, "10 GiB"},
        {value_memory, {{METRIC_FB_USED, 1536}, {METRIC_FB_TOTAL, 81559}, {END, 0}}, "1.5/80 GiB"},
        {value_memory, {{METRIC_FB_USED, 1536}, {METRIC_FB_TOTAL, 101887}, {END, 0}}, "1.5/99 GiB"},
        {value_memory, {{METRIC_FB_USED, 1536}, {METRIC_FB_TOTAL, 101888}, {END, 0}}, "2/100 GiB"}, /* from 99.5 on */
        {value_memory, {{METRIC_FB_USED, 40960}, {METRIC_FB_TOTAL, 81559}, {END, 0}}, "40/80 GiB"},
        {value_memory, {{METRIC_FB_TOTAL, 81559}, {END, 0}}, "-"},
        {value_power, {{METRIC_POWER_USAGE, 512.4}, {METRIC_ENFORCED_POWER_LIMIT, 700}, {END, 0}}, "512/700 W"},
        {value_power, {{METRIC_POWER_USAGE, 512.6}, {END, 0}}, "513 W"},
        {value_power, {{METRIC_ENFORCED_POWER_LIMIT, 700}, {END, 0}}, "-"},
        {value_temp, {{METRIC_GPU_TEMP, 61}, {METRIC_SLOWDOWN_TEMP, 87}, {END, 0}}, "61/87°C"},
        {value_clock, {{METRIC_SM_CLOCK, 1755}, {END, 0}}, "1755"},
        {value_clock, NONE, "-"},
        {value_pcie, NONE, "-"},
        {value_pcie, {{METRIC_PROF_PCIE_RX_BYTES, 9949e6}, {METRIC_PROF_PCIE_TX_BYTES, 9951e6}, {END, 0}}, "9.9/10"},
        {value_pcie, {{METRIC_PROF_PCIE_RX_BYTES, 1e9}, {METRIC_PCIE_RX_THROUGHPUT, 3e6}, {END, 0}}, "1.0/-"},
        {value_pcie, {{METRIC_PCIE_TX_THROUGHPUT, 3e6}, {END, 0}}, "-/3.0"},
        {value_pcie, {{METRIC_PROF_PCIE_TX_BYTES, -1e9}, {END, 0}}, "-/0.0"},
        {value_nvlink, NONE, "-"},
        {value_nvlink, {{METRIC_PROF_NVLINK_TX_BYTES, 3e9}, {METRIC_PROF_NVLINK_RX_BYTES, 4e9}, {END, 0}}, "7.0"},
        {value_nvlink,
         {{METRIC_PROF_NVLINK_TX_BYTES, 3e9}, {METRIC_NVLINK_BANDWIDTH_TOTAL, 20000}, {END, 0}},
         "20"}, /* one way alone is not known */
        {value_ecc, NONE, "-"},
        {value_ecc, {{METRIC_ECC_CURRENT, 0}, {END, 0}}, "off"},
        {value_ecc, {{METRIC_ECC_CURRENT, 1}, {END, 0}}, "-"},
        {value_ecc, {{METRIC_ECC_DBE_VOL_TOTAL, 0}, {END, 0}}, "ok"},
        {value_ecc, {{METRIC_ECC_SBE_VOL_TOTAL, 3}, {END, 0}}, "3 corrected"},
        {value_ecc, {{METRIC_ECC_SBE_VOL_TOTAL, 3}, {METRIC_ECC_DBE_VOL_TOTAL, 1}, {END, 0}}, "1 uncorrected"},
        {value_ecc, {{METRIC_ROW_REMAP_FAILURE, 1}, {METRIC_ECC_DBE_VOL_TOTAL, 1}, {END, 0}}, "remap failed"},
        {value_ecc, {{METRIC_ROW_REMAP_PENDING, 1}, {METRIC_ECC_CURRENT, 0}, {END, 0}}, "remap pending"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[VALUE_CAP];
        Reading reading;

        make_reading(&cases[i], &reading);
        if (strcmp(cases[i].value(text, &reading), cases[i].text) != 0)
            fail_msg("row %zu: '%s' is not '%s'", i, text, cases[i].text);
    }
}

static void a_share_has_a_width(void **state UNUSED)
{
    static const struct {
        double share;
        const char *text;
    } cases[] = {{NAN, "-"}, {-1, "0%"}, {0, "0%"}, {0.5, "50%"}, {1, "100%"}, {100, "9999%"}};
    char text[VALUE_CAP];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(value_percent(text, cases[i].share), cases[i].text);
}

/* The driver's own margin counts before that from the slowdown temperature. */
static void a_margin_is_told_or_computed(void **state UNUSED)
{
    static const ValueCase told = {
        NULL, {{METRIC_GPU_TEMP_LIMIT, 5}, {METRIC_SLOWDOWN_TEMP, 87}, {METRIC_GPU_TEMP, 61}, {END, 0}}, NULL};
    static const ValueCase computed = {NULL, {{METRIC_SLOWDOWN_TEMP, 87}, {METRIC_GPU_TEMP, 61}, {END, 0}}, NULL};
    Reading reading;

    make_reading(&told, &reading);
    assert_true(value_margin(&reading) == 5);
    make_reading(&computed, &reading);
    assert_true(value_margin(&reading) == 26);
}

/* Bits of nvmlClocksEventReasons; the one that takes the most is told. */
static void a_reason_to_be_slow_has_a_word(void **state UNUSED)
{
    static const struct {
        int64_t bits;
        const char *brief, *all;
    } cases[] = {
        {0, "", "none"},
        {0x01, "", "idle"}, /* which slows nothing down */
        {0x02, "clocks set", "clocks set by hand"},
        {0x04, "power limit", "power limit"},
        {0x05, "power limit", "power limit, idle"},
        {0x08, "hw slowdown", "hardware slowdown"},
        {0x10, "sync boost", "sync boost"},
        {0x60, "hot (hw)", "heat (hardware), heat (driver)"},
        {0x20, "hot", "heat (driver)"},
        {0x80, "power brake", "power brake"},
        {0x100, "display", "display clocks"},
        {0x800, "", "none"},
    };
    char text[VALUE_CAP];
    Reading reading;

    reading_init(&reading, DEVICE_GPU);
    assert_string_equal(status_throttle(&reading), "");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Sample *sample = &reading.sample[METRIC_CLOCKS_EVENT_REASONS];

        sample_set_int64(sample, 1, cases[i].bits);
        assert_string_equal(status_throttle(&reading), cases[i].brief);
        assert_string_equal(value_text(text, METRIC_CLOCKS_EVENT_REASONS, sample), cases[i].all);
    }
}

static void a_value_has_its_unit(void **state UNUSED)
{
    static const struct {
        MetricId id;
        double value;
        const char *text;
    } cases[] = {
        {METRIC_FB_USED, 1536, "1.50 GiB"},
        {METRIC_PROF_PCIE_RX_BYTES, 2.5e9, "2.50 GB/s"},
        {METRIC_PCIE_RX_THROUGHPUT, 1e6, "1.00 GB/s"},
        {METRIC_NVLINK_BANDWIDTH_TOTAL, 1000, "1.02 GB/s"},
        {METRIC_GPU_UTIL, 50, "50.0 %"},
        {METRIC_PROF_SM_ACTIVE, 0.255, "25.5 %"},
        {METRIC_ECC_SBE_VOL_TOTAL, 1234567, "1,234,567"},
        {METRIC_RETIRED_SBE, 3, "3"},
        {METRIC_ROW_REMAP_PENDING, 2, "yes"},
        {METRIC_ROW_REMAP_PENDING, 0, "no"},
        {METRIC_TOTAL_ENERGY_CONSUMPTION, 9e9, "2.50 kWh"},
        {METRIC_POWER_USAGE, 512.55, "512.5 W"},
        {METRIC_PSTATE, 2, "P2"},
        {METRIC_PCIE_LINK_WIDTH, 16, "x16"},
        {METRIC_GPU_TEMP, 61, "61 °C"},
        {METRIC_SM_CLOCK, 1755, "1755 MHz"},
        {METRIC_XID_ERRORS, 79, "79"},
        {METRIC_FABRIC_HEALTH_MASK, 31, "0x1f"},
    };
    char text[VALUE_CAP];
    Sample sample = {0};

    assert_string_equal(value_text(text, METRIC_GPU_TEMP, &sample), "-");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (metric_get(cases[i].id)->value == METRIC_INT64)
            sample_set_int64(&sample, 1, (int64_t)cases[i].value);
        else
            sample_set_double(&sample, 1, cases[i].value);
        if (strcmp(value_text(text, cases[i].id, &sample), cases[i].text) != 0)
            fail_msg("%s: '%s' is not '%s'", metric_get(cases[i].id)->name, text, cases[i].text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_short),
        cmocka_unit_test(a_share_has_a_width),
        cmocka_unit_test(a_margin_is_told_or_computed),
        cmocka_unit_test(a_reason_to_be_slow_has_a_word),
        cmocka_unit_test(a_value_has_its_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
