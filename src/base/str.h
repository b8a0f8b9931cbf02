/* SPDX-License-Identifier: Apache-2.0 */
/* A growable string with a ceiling. The owner embeds it: str_init ... str_done. `text` is always NUL-terminated and
 * never NULL after str_init. What would go over the ceiling is dropped whole and the `overflow` flag stays set until
 * str_clear, so that a writer checks once, at its end. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>

#include "base/attribute.h"
#include "base/err.h"

typedef struct Str {
    char *text;    /* len bytes and a NUL; do not keep it over the next str_add */
    size_t len;    /* bytes, without the NUL */
    size_t cap;    /* bytes allocated */
    size_t max;    /* ceiling of len */
    bool overflow; /* something was dropped; sticky */
} Str;

/* An empty string that may grow to `max_bytes` (the NUL not counted): as a member, and as a local of its own:
 *     CLEANUP(str_done) Str line = str_limited(4096);
 * Allocates nothing. */
void str_init(Str *str, size_t max_bytes);
Str str_limited(size_t max_bytes);

/* An empty string in `room`, of `size` bytes (at least 1), which it never leaves: nothing is allocated. It must not be
 * given to str_done or str_take. */
void str_init_room(Str *str, char *room, size_t size);

/* Frees; accepts a zeroed, an initialised and an already done Str. */
void str_done(Str *str);

/* Length 0 and no overflow; keeps the allocation. */
void str_clear(Str *str);

/* Whether `text` ends with `end`, in these very bytes. */
bool str_ends_with(const char *text, const char *end);

/* Makes room for `more` bytes beyond len. False, and overflow set, where that is over the ceiling. */
bool str_reserve(Str *str, size_t more);

/* Append: a NUL-terminated text, `len` bytes (NULs allowed), one byte, a printf format. */
void str_add(Str *str, const char *text);
void str_addn(Str *str, const char *text, size_t len);
void str_addc(Str *str, char c);
void str_addf(Str *str, const char *fmt, ...) PRINTF_LIKE(2, 3);
void str_addv(Str *str, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

/* Appends a text with escapes[c] in place of each ASCII character c that has one there. Bytes that are not UTF-8 become
 * U+FFFD each, so that the result is UTF-8 whatever comes in. `end` NULL: the text ends with its NUL; otherwise NULs
 * before it must have an escape. */
enum { STR_ESCAPES = 0x80 };
void str_add_escaped(Str *str, const char *text, const char *end, const char *const escapes[STR_ESCAPES]);

/* The same as what stands between tags of HTML; and between double quotes as a JSON string (RFC 8259 section 7). */
void str_add_html(Str *str, const char *text);
void str_add_json(Str *str, const char *text);
void str_addn_json(Str *str, const char *text, size_t len);

/* Appends the words of a text from column `at` on, broken before `width`; further lines begin at `indent`. Ends the
 * line.
 */
void str_add_wrapped(Str *str, const char *text, size_t at, size_t indent, size_t width);

/* Cuts to `len` bytes; len must not be over str->len. */
void str_cut(Str *str, size_t len);

/* Hands the text over as an allocation of its own, to free(); the Str is empty again. */
char *str_take(Str *str);

/* -EFBIG with "<what> is larger than <max> bytes" where something was dropped, otherwise 0. */
int str_check(const Str *str, const char *what, Err *err);
