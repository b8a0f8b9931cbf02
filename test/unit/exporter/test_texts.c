/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, escapes and device selectors (page.c, labels.c). */

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
#include "base/number.h"
#include "service/prometheus/page.h"

static const struct {
    double value;
    const char *go, *fixed;
} numbers[] = {
    {0, "0", "0.000000"},
    {1, "1", "1.000000"},
    {-1, "-1", "-1.000000"},
    {30.982, "30.982", "30.982000"},
    {999999, "999999", "999999.000000"},
    {1e6, "1e+06", "1000000.000000"},
    {-1e6, "-1e+06", "-1000000.000000"},
    {1234567, "1.234567e+06", "1234567.000000"},
    {1234567.5, "1.2345675e+06", "1234567.500000"},
    {123456789, "1.23456789e+08", "123456789.000000"},
    {129931554972, "1.29931554972e+11", "129931554972.000000"},
    {55491669881, "5.5491669881e+10", "55491669881.000000"},
    {9007199254740992, "9.007199254740992e+15", "9007199254740992.000000"},
    {9223372036854775807.0, "9.223372036854776e+18", "9223372036854775808.000000"},
    {1e21, "1e+21", "1000000000000000000000.000000"},
    {1e100, "1e+100", NULL},
    {0.0001, "0.0001", "0.000100"},
    {0.00001, "1e-05", "0.000010"},
    {0.3, "0.3", "0.300000"},
    {0.1 + 0.2, "0.30000000000000004", "0.300000"},
    {2.0 / 3, "0.6666666666666666", "0.666667"},
    {0.0000005, "5e-07", "0.000000"},
    {999999999.9999996, "9.999999999999996e+08", "1000000000.000000"},
    {5e-324, "5e-324", "0.000000"},
    {INFINITY, "+Inf", "+Inf"},
    {-INFINITY, "-Inf", "-Inf"},
    {NAN, "NaN", "NaN"},
};

static void numbers_as_upstream(void **state)
{
    char text[VALUE_TEXT_MAX + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        text[number_write_go(text, numbers[i].value)] = '\0';
        assert_string_equal(text, numbers[i].go);
        text[value_write_fixed(text, numbers[i].value)] = '\0';
        if (numbers[i].fixed)
            assert_string_equal(text, numbers[i].fixed);
    }
    text[number_write_go(text, -0.0)] = '\0';
    assert_string_equal(text, "0");
}

/* Fixed notation is what printf makes; the other one reads back and has an exponent just where it should. */
static void any_number(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[VALUE_TEXT_MAX + 1], expected[400];
        double value;

        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        value = (double)(int64_t)(seed >> (seed % 40)) / (double[]){1, 8, 10, 1000, 1e6, 1e12}[i % 6];
        text[value_write_fixed(text, value)] = '\0';
        snprintf(expected, sizeof expected, "%f", value);
        assert_string_equal(text, expected);
        text[number_write_go(text, value)] = '\0';
        assert_true(strtod(text, NULL) == value);
        if (value != 0)
            assert_int_equal(strchr(text, 'e') != NULL, fabs(value) < 1e-4 || fabs(value) >= 1e6);
    }
}

static void escapes(void **state)
{
    static const struct {
        const char *in, *value, *help;
    } texts[] = {
        {"plain", "plain", "plain"},
        {"a\"b\\c\nd", "a\\\"b\\\\c\\nd", "a\"b\\\\c\\nd"},
        {"Gr\xc3\xbc\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x9a\x82",
         "Gr\xc3\xbc\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x9a\x82",
         "Gr\xc3\xbc\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x9a\x82"},
        {"\xff"
         "a\xc3",
         "\xef\xbf\xbd"
         "a\xef\xbf\xbd",
         "\xef\xbf\xbd"
         "a\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x82\"", "\xef\xbf\xbd\xef\xbf\xbd\\\"", "\xef\xbf\xbd\xef\xbf\xbd\""},
        {"", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        Str out;

        str_init(&out, 1000);
        escape_add(&out, texts[i].in, ESCAPE_VALUE);
        assert_string_equal(out.text, texts[i].value);
        str_clear(&out);
        escape_add(&out, texts[i].in, ESCAPE_HELP);
        assert_string_equal(out.text, texts[i].help);
        str_done(&out);
    }
}

static void selectors(void **state)
{
    static const char *const wrong[] = {"",     "x",     "f:0",  "g:", "g:a",   "g:1-", "g:2-1",   "g:64",
                                        "g:0,", "g+g",   "g+i+", "g+", "g:0.1", "i:.1", "i:0.1.2", "i:1.-2",
                                        "gi",   "i:999", " g",   "g ", "f+g",   "g:-1", "i:0-99"};
    ExporterDevices devices = {0};
    Err err = {0};

    (void)state;
    assert_int_equal(exporter_devices_parse("f", &devices, &err), 0);
    assert_true(devices.flex && !devices.gpus && !devices.instances);
    assert_int_equal(exporter_devices_parse("g", &devices, &err), 0);
    assert_true(!devices.flex && devices.gpus && !devices.instances && !devices.gpu_ids);
    assert_int_equal(exporter_devices_parse("g:0,2-4,63", &devices, &err), 0);
    assert_true(devices.gpu_ids == (UINT64_C(1) << 63 | 0x1d));
    assert_int_equal(exporter_devices_parse("i", &devices, &err), 0);
    assert_true(devices.instances && !devices.gpus && !devices.instance_id_count);
    assert_int_equal(exporter_devices_parse("i:7,0.9-10+g:1", &devices, &err), 0);
    assert_true(devices.instances && devices.gpus && devices.gpu_ids == 2 && devices.instance_id_count == 3);
    assert_true(devices.instance_ids[0].gpu == DEVICE_NO_NUMBER && devices.instance_ids[0].instance == 7);
    assert_true(devices.instance_ids[2].gpu == 0 && devices.instance_ids[2].instance == 10);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        ExporterDevices before = devices;

        assert_int_equal(exporter_devices_parse(wrong[i], &devices, &err), -22);
        assert_non_null(strstr(err.text, "use f, g, i"));
        assert_memory_equal(&before, &devices, sizeof before);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_as_upstream),
        cmocka_unit_test(any_number),
        cmocka_unit_test(escapes),
        cmocka_unit_test(selectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
