/* SPDX-License-Identifier: Apache-2.0 */
/* Texts compared whole with files of the tree. With STOKER_UPDATE=1 in the environment these files are written instead;
 * read what has changed. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { GOLDEN_MAX = 1 << 20 };

static inline void assert_golden(const char *path, const Str *is)
{
    CLEANUP(str_done) Str should = str_limited(GOLDEN_MAX);

    assert_false(is->overflow);
    if (getenv("STOKER_UPDATE"))
        assert_int_equal(file_write(path, is->text, is->len, 0644, NULL), 0);
    assert_int_equal(file_read(path, GOLDEN_MAX, &should, NULL), 0);
    assert_string_equal(is->text, should.text);
}
