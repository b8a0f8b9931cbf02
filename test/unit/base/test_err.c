/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/err.c. */
#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_set(void **state)
{
    Err err = {0};

    (void)state;
    assert_int_equal(err_set(&err, -EINVAL, "gpu %d: %s", 3, "no"), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, "gpu 3: no");
    assert_int_equal(err_set(NULL, -E2BIG, "dropped"), -E2BIG);
}

static void test_set_from_own_text(void **state)
{
    Err err = {0};

    (void)state;
    err_set(&err, -EINVAL, "inner");
    err_set(&err, -EIO, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
    assert_int_equal(err.code, -EIO);
}

static void test_errno(void **state)
{
    Err err = {0};

    (void)state;
    errno = ENOENT;
    assert_int_equal(err_errno(&err, "open '%s'", "x"), -ENOENT);
    assert_string_equal(err.text, "open 'x': No such file or directory");
    errno = EACCES;
    assert_int_equal(err_errno(NULL, "dropped"), -EACCES);
    errno = 0;
    assert_int_equal(err_errno(&err, "no errno"), -EIO);
}

static void test_context(void **state)
{
    Err err = {0};

    (void)state;
    err_set(&err, -ENODEV, "gone");
    assert_int_equal(err_add(&err, "gpu %d", 1), -ENODEV);
    assert_int_equal(err_add(&err, "node"), -ENODEV);
    assert_string_equal(err.text, "node: gpu 1: gone");
    err = (Err){0};
    assert_int_equal(err_add(&err, "alone"), -EIO);
    assert_string_equal(err.text, "alone");
    assert_int_equal(err_add(NULL, "dropped"), -EIO);
}

/* Whatever the lengths, the text stays NUL-terminated and keeps its beginning. */
static void test_long_texts(void **state)
{
    char text[2 * ERR_TEXT_MAX];

    (void)state;
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        struct {
            Err err;
            char guard;
        } box = {.guard = 'g'};

        memset(text, 'a', len);
        text[len] = '\0';
        err_set(&box.err, -1, "%s", text);
        assert_int_equal(strlen(box.err.text), len < ERR_TEXT_MAX ? len : ERR_TEXT_MAX - 1);
        err_add(&box.err, "context");
        assert_memory_equal(box.err.text, "context", 7);
        assert_true(strlen(box.err.text) < ERR_TEXT_MAX);
        errno = EINVAL;
        err_errno(&box.err, "%s", text);
        assert_true(strlen(box.err.text) < ERR_TEXT_MAX);
        assert_int_equal(box.guard, 'g');
    }
}

static int forward(int code)
{
    TRY(code);
    return 7;
}

static void test_try(void **state)
{
    (void)state;
    assert_int_equal(forward(-EPERM), -EPERM);
    assert_int_equal(forward(0), 7);
    assert_int_equal(forward(2), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),     cmocka_unit_test(test_set_from_own_text), cmocka_unit_test(test_errno),
        cmocka_unit_test(test_context), cmocka_unit_test(test_long_texts),        cmocka_unit_test(test_try),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
