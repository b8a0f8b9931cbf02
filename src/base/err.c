/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: text in a fixed buffer, cut where it does not fit. */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Formats into a buffer of its own first, since the values may point into err->text. */
static void set_text(Err *err, const char *fmt, va_list args) PRINTF_LIKE(2, 0);
static void set_text(Err *err, const char *fmt, va_list args)
{
    char text[ERR_TEXT_MAX];

    if (vsnprintf(text, sizeof(text), fmt, args) < 0)
        text[0] = '\0';
    memcpy(err->text, text, strlen(text) + 1);
}

static void append_text(Err *err, const char *text)
{
    size_t len = strlen(err->text);
    size_t more = strnlen(text, sizeof(err->text) - 1 - len);

    memcpy(err->text + len, text, more);
    err->text[len + more] = '\0';
}

int err_setv(Err *err, int code, const char *fmt, va_list args)
{
    if (!err)
        return code;
    set_text(err, fmt, args);
    err->code = code;
    return code;
}

int err_set(Err *err, int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)err_setv(err, code, fmt, args);
    va_end(args);
    return code;
}

int err_errno(Err *err, const char *fmt, ...)
{
    int number = errno ? errno : EIO;
    char text[128];
    va_list args;

    if (!err)
        return -number;
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    append_text(err, ": ");
    append_text(err, strerror_r(number, text, sizeof(text)));
    err->code = -number;
    return -number;
}

int err_add(Err *err, const char *fmt, ...)
{
    char old[ERR_TEXT_MAX];
    va_list args;

    if (!err)
        return -EIO;
    memcpy(old, err->text, sizeof(old));
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    if (old[0]) {
        append_text(err, ": ");
        append_text(err, old);
    }
    if (!err->code)
        err->code = -EIO;
    return err->code;
}
