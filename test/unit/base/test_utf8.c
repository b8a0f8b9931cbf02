/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/utf8.c: every character goes there and back, and nothing else is one. */
#include "base/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_character_comes_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        const size_t expected = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        const bool surrogate = c >= 0xd800 && c <= 0xdfff;
        char bytes[UTF8_MAX];
        uint32_t back = UINT32_MAX;
        const size_t len = utf8_write(bytes, c);

        if (len != expected || utf8_read(bytes, len, &back) != (surrogate ? 0 : len) ||
            back != (surrogate ? UINT32_MAX : c))
            fail_msg("U+%04X", c);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(utf8_read(bytes, cut, &back), 0);
    }
}

/* All sequences of up to three bytes, against the table of the standard written out. */
static size_t by_the_table(const unsigned char *b)
{
    static const struct {
        unsigned char first, last, low, high, len;
    } rows[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (b[0] < rows[i].first || b[0] > rows[i].last)
            continue;
        if (rows[i].len > 1 && (b[1] < rows[i].low || b[1] > rows[i].high))
            return 0;
        for (size_t k = 2; k < rows[i].len; k++)
            if (b[k] < 0x80 || b[k] > 0xbf)
                return 0;
        return rows[i].len;
    }
    return 0;
}

static void nothing_else_is_one(void **state)
{
    static const unsigned char lasts[] = {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff};

    (void)state;
    for (unsigned int i = 0; i < 1U << 24; i++) {
        unsigned char bytes[UTF8_MAX] = {(unsigned char)(i >> 16), (unsigned char)(i >> 8), (unsigned char)i};
        uint32_t c;

        bytes[3] = lasts[i % sizeof lasts];
        if (utf8_read((const char *)bytes, sizeof bytes, &c) != by_the_table(bytes))
            fail_msg("%02x %02x %02x %02x", bytes[0], bytes[1], bytes[2], bytes[3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_comes_back),
        cmocka_unit_test(nothing_else_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
