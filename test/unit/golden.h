/* SPDX-License-Identifier: Apache-2.0 */
/* Texts compared whole with files of the tree. With STOKER_UPDATE=1 in the environment these files are written instead;
 * read what has changed. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { GOLDEN_MAX = 1 << 20 };

/* Names the first line that differs. */
static inline void fail_golden(const char *path, const char *is, const char *should)
{
    size_t line = 1, begin = 0;

    for (size_t i = 0; is[i] == should[i]; i++)
        if (is[i] == '\n') {
            line++;
            begin = i + 1;
        }
    fail_msg("%s:%zu\n  is        %.*s\n  should be %.*s", path, line, (int)strcspn(is + begin, "\n"), is + begin,
             (int)strcspn(should + begin, "\n"), should + begin);
}

static inline void assert_golden(const char *path, const Str *is)
{
    CLEANUP(str_done) Str should = str_limited(GOLDEN_MAX);

    assert_false(is->overflow);
    if (getenv("STOKER_UPDATE"))
        assert_int_equal(file_write(path, is->text, is->len, 0644, NULL), 0);
    assert_int_equal(file_read(path, GOLDEN_MAX, &should, NULL), 0);
    if (strcmp(is->text, should.text) != 0)
        fail_golden(path, is->text, should.text);
}
