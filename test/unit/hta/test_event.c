/* SPDX-License-Identifier: Apache-2.0 */
/* hta/event.c: what of an event's text becomes a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/trace/hta/event.h"

static Str room;

/* The text lies in memory of its own length, so that reading beyond it shows. */
static bool read(const char *text, HtaEvent *ret)
{
    static char *own;
    size_t len = strlen(text);

    free(own);
    own = malloc(len ? len : 1);
    memcpy(own, text, len);
    return hta_event_read(own, len, &room, ret);
}

static void test_members(void **state)
{
    HtaEvent event;

    (void)state;
    assert_true(
        read("{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 12.345, \"dur\": 7, \"args\": {\"x\": "
             "{\"correlation\": 9, \"s\": \"}\"}, \"correlation\": 5, \"stream\": 7, \"memory bandwidth (GB/s)\": "
             "1.5}, \"tid\": [1, {\"name\": 2}]}",
             &event));
    assert_int_equal(event.start, 12345);
    assert_int_equal(event.duration, 7000);
    assert_int_equal(event.correlation, 5);
    assert_int_equal(event.stream, 7);
    assert_true(event.bandwidth == 1.5);
    assert_memory_equal(event.name, "k", event.name_len);
    assert_memory_equal(event.category, "kernel", event.category_len);
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        bool known;
        int64_t ns;
    } cases[] = {
        {"0", true, 0},
        {"0.001", true, 1},
        {"1.9996", true, 2000},
        {"1.0004999", true, 1000},
        {"-1.5", true, -1500},
        {"1700000000000000.123", true, INT64_C(1700000000000000123)},
        {"1e3", true, 1000000},
        {"1.5e-1", true, 150},
        {"null", false, 0},
        {"\"7\"", true, 7000},
        {"\"x\"", false, 0},
        {"-", false, 0},
        {"99999999999999999999999", true, INT64_C(1) << 61},
    };
    char text[128];
    HtaEvent event;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "{\"ts\":%s}", cases[i].text);
        assert_true(read(text, &event));
        assert_int_equal(event.has_start, cases[i].known);
        if (cases[i].known)
            assert_int_equal(event.start, cases[i].ns);
    }
}

static void test_streams(void **state)
{
    static const struct {
        const char *text;
        int64_t stream;
    } cases[] = {{"7", 7},   {"\"7\"", 7}, {"\"0x0\"", -1}, {"-1", -1},
                 {"7.0", 7}, {"null", -1}, {"[1]", -1},     {"true", -1}};
    char text[128];
    HtaEvent event;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "{\"args\":{\"stream\":%s}}", cases[i].text);
        assert_true(read(text, &event));
        assert_int_equal(event.stream, cases[i].stream);
    }
}

static void test_escapes(void **state)
{
    HtaEvent event;

    (void)state;
    assert_true(read("{\"name\":\"a\\\"b\\\\c\\n\\u00e9\\ud83d\\ude00\\u20ac\",\"cat\":\"\\u0041\"}", &event));
    assert_int_equal(event.name_len, strlen("a\"b\\c\n\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac"));
    assert_memory_equal(event.name, "a\"b\\c\n\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac", event.name_len);
    assert_memory_equal(event.category, "A", event.category_len);
}

static void test_every_cut_is_survived(void **state)
{
    const char *whole =
        "{\"name\":\"a\\ud83d\\ude00b\",\"args\":{\"correlation\":5,\"x\":[{\"y\":\"z\\\\\"}]},\"ts\":1.25,"
        "\"dur\":-2}";
    HtaEvent event;

    (void)state;
    for (size_t len = 0; len <= strlen(whole); len++) {
        char cut[256];
        memcpy(cut, whole, len);
        cut[len] = '\0';
        read(cut, &event);
        if (len == strlen(whole)) {
            assert_int_equal(event.duration, -2000);
            assert_int_equal(event.correlation, 5);
        }
    }
    assert_false(read("[1]", &event));
    assert_true(read("{}", &event));
    assert_int_equal(event.correlation, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_every_cut_is_survived),
    };
    int failed;

    str_init(&room, 1 << 20);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    str_done(&room);
    return failed;
}
