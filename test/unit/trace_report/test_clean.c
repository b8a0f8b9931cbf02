/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of profiles as characters and as columns (service/report/pen.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/utf8.h"
#include "service/report/table.h"

static const char *cleaned(const char *text, bool utf8)
{
    static Str str;

    str_done(&str);
    str_init(&str, 4096);
    clean_add(&str, text, utf8);
    return str.text;
}

static void characters_are_read(void **state)
{
    static const struct {
        const char *text;
        uint32_t c;
        size_t len;
    } rows[] = {{"a", 'a', 1},
                {"\xc2\xb5", 0xb5, 2},
                {"\xe2\x96\x88", 0x2588, 3},
                {"\xf0\x9f\x98\x80", 0x1f600, 4},
                {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
                /* not UTF-8: a tail, overlong forms, a surrogate, over the end, cut */
                {"\x80", CLEAN_BAD, 1},
                {"\xc0\xaf", CLEAN_BAD, 1},
                {"\xe0\x9f\xbf", CLEAN_BAD, 1},
                {"\xf0\x8f\xbf\xbf", CLEAN_BAD, 1},
                {"\xed\xa0\x80", CLEAN_BAD, 1},
                {"\xf4\x90\x80\x80", CLEAN_BAD, 1},
                {"\xe2\x96", CLEAN_BAD, 1},
                {"\xff", CLEAN_BAD, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t c;

        assert_int_equal(clean_next(rows[i].text, strlen(rows[i].text), &c), rows[i].len);
        assert_int_equal(c, rows[i].c);
    }
}

static void columns_are_those_of_a_terminal(void **state)
{
    (void)state;
    assert_int_equal(clean_width("abc"), 3);
    assert_int_equal(clean_width("\xc2\xb5s"), 2);
    assert_int_equal(clean_width("\xe4\xb8\xad\xe6\x96\x87"), 4); /* two ideographs */
    assert_int_equal(clean_width("e\xcc\x81"), 1);                /* e and a combining acute */
    assert_int_equal(clean_width("\xf0\x9f\x98\x80"), 2);
    assert_int_equal(clean_width("\xff"), 1);
    assert_int_equal(clean_width(""), 0);
}

static void nothing_leads_a_terminal_astray(void **state)
{
    (void)state;
    assert_string_equal(cleaned("a\x1b[31mb", true), "a" UTF8_REPLACEMENT "[31mb");
    assert_string_equal(cleaned("a\nb\tc", true), "a b c");
    assert_string_equal(cleaned("\x7f\xc2\x9b", true), UTF8_REPLACEMENT UTF8_REPLACEMENT); /* DEL, CSI */
    assert_string_equal(cleaned("\xe2\x80\xaex\xe2\x81\xa6", true), UTF8_REPLACEMENT "x" UTF8_REPLACEMENT); /* RLO */
    assert_string_equal(cleaned("\xe4\xb8\xad \xff", true), "\xe4\xb8\xad " UTF8_REPLACEMENT);
    assert_string_equal(cleaned("\xe4\xb8\xad \xff \x01 x", false), "? ? ? x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(characters_are_read),
                                       cmocka_unit_test(columns_are_those_of_a_terminal),
                                       cmocka_unit_test(nothing_leads_a_terminal_astray)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
