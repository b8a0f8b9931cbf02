/* SPDX-License-Identifier: Apache-2.0 */
/* One error: a code and the text a user reads. The caller owns it, usually on its stack; nothing is allocated.
 * Functions that can fail return 0 for fine, a negative errno for an error and a positive number for a documented
 * outcome. Text is added on the way up: "gpu 3: open '/dev/nvidia3': No such file or directory".
 * Any thread, one Err at a time. Every function accepts err == NULL and then only passes the code on. */
#pragma once

#include <stdarg.h>

#include "base/attribute.h"

enum { ERR_TEXT_MAX = 512 };

typedef struct Err {
    int code;                /* negative errno, 0 when unset */
    char text[ERR_TEXT_MAX]; /* NUL-terminated, cut at the end where it would not fit */
} Err;

/* Sets code (negative errno) and text, replacing what was there. Returns code. `fmt` may use err->text as a value. */
int err_set(Err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

int err_setv(Err *err, int code, const char *fmt, va_list args) PRINTF_LIKE(3, 0);

/* As err_set with code -errno, and ": <strerror>" appended. Returns -errno, or -EIO where errno is 0. */
int err_errno(Err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts context before the text: "<context>: <old text>". Returns err->code, or -EIO for NULL or an unset error. */
int err_add(Err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Forwards a negative result to the caller; goes on for 0 and for outcomes > 0. */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        int try_rc_ = (expr);                                                                                          \
        if (try_rc_ < 0)                                                                                               \
            return try_rc_;                                                                                            \
    } while (0)
