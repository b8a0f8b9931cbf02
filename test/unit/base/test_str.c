/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/str.c. */
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void test_grows(void **state)
{
    CLEANUP(str_done) Str str;

    (void)state;
    str_init(&str, 100000);
    assert_string_equal(str.text, "");
    for (int i = 0; i < 5000; i++)
        str_addf(&str, "%d,", i % 10);
    assert_int_equal(str.len, 10000);
    assert_int_equal(strlen(str.text), 10000);
    assert_memory_equal(str.text + 9996, "8,9,", 5);
    assert_false(str.overflow);
    str_cut(&str, 2);
    str_addc(&str, 'x');
    assert_string_equal(str.text, "0,x");
    str_clear(&str);
    assert_string_equal(str.text, "");
}

/* For every ceiling: what fits stays, what does not is dropped whole, and the flag says so. */
static void test_ceiling(void **state)
{
    (void)state;
    for (size_t max = 0; max < 200; max++) {
        CLEANUP(str_done) Str str;
        Err err = {0};

        str_init(&str, max);
        for (size_t i = 0; i < 50; i++)
            str_add(&str, "abc");
        assert_int_equal(str.len, max / 3 < 50 ? max / 3 * 3 : 150);
        assert_int_equal(str.overflow, max < 150);
        assert_int_equal(strlen(str.text), str.len);
        assert_int_equal(str_check(&str, "the page", &err), max < 150 ? -EFBIG : 0);
        str_clear(&str);
        assert_false(str.overflow);
        str_addf(&str, "%0150d", 0);
        assert_int_equal(str.overflow, max < 150);
    }
}

static void test_room(void **state)
{
    char room[8] = "guarded";
    Str str;

    (void)state;
    str_init_room(&str, room, 5);
    for (int i = 0; i < 10; i++)
        str_addc(&str, 'x');
    assert_ptr_equal(str.text, room);
    assert_string_equal(room, "xxxx");
    assert_true(str.overflow);
    assert_memory_equal(room + 5, "ed", 3);
}

static void test_take_and_done(void **state)
{
    Str str, zero = {0};
    char *text;

    (void)state;
    str_init(&str, 10);
    text = str_take(&str);
    assert_string_equal(text, "");
    free(text);
    str_add(&str, "abc");
    text = str_take(&str);
    assert_string_equal(text, "abc");
    free(text);
    assert_int_equal(str.len, 0);
    str_add(&str, "again");
    assert_string_equal(str.text, "again");
    str_done(&str);
    str_done(&str);
    str_done(&zero);
}

static void test_json(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\n\t\r\b\f", "\"\\n\\t\\r\\b\\f\""},
        {"\x01\x0b\x1f", "\"\\u0001\\u000b\\u001f\""},
        {"\x7f", "\"\x7f\""},
        {"gr\xc3\xb6\xc3\x9f", "\"gr\xc3\xb6\xc3\x9f\""},
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},
        {"a\xc3", "\"a\xef\xbf\xbd\""},               /* cut short */
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* overlong */
        {"\xe0\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* surrogate */
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(str_done) Str str;

        str_init(&str, 100);
        str_add_json(&str, rows[i].in);
        assert_string_equal(str.text, rows[i].out);
    }
}

static void test_nul_bytes(void **state)
{
    CLEANUP(str_done) Str str;

    (void)state;
    str_init(&str, 100);
    str_addn(&str, "a\0b", 3);
    assert_int_equal(str.len, 3);
    str_clear(&str);
    str_addn_json(&str, "a\0b", 3);
    assert_string_equal(str.text, "\"a\\u0000b\"");
}

static void test_wrapped(void **state)
{
    static const struct {
        const char *text;
        size_t at, indent, width;
        const char *out;
    } rows[] = {
        {"", 0, 0, 10, "\n"},
        {"one two", 0, 0, 7, "one two\n"}, /* it just fits */
        {"one two", 0, 2, 6, "one\n  two\n"},
        {"one two", 1, 2, 7, "one\n  two\n"}, /* not behind what stands there */
        {"one  two\nsix", 0, 0, 80, "one two six\n"},
        {"\xc3\xa9\xc3\xa9\xc3\xa9 two", 0, 0, 7, "\xc3\xa9\xc3\xa9\xc3\xa9 two\n"}, /* columns, not bytes */
        {"toolong two", 4, 4, 6, "toolong\n    two\n"},
        {"it is 41 %, so", 0, 2, 9, "it is\n  41 %,\n  so\n"}, /* not between a number and its % */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CLEANUP(str_done) Str str;

        str_init(&str, 100);
        str_add_wrapped(&str, rows[i].text, rows[i].at, rows[i].indent, rows[i].width);
        assert_string_equal(str.text, rows[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows),         cmocka_unit_test(test_ceiling), cmocka_unit_test(test_room),
        cmocka_unit_test(test_take_and_done), cmocka_unit_test(test_json),    cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_wrapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
