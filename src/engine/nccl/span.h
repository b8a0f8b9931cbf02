/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A piece of borrowed text, read from the left. Functions that take a Span * consume what they match and nothing else.
 * Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAN_NOWHERE SIZE_MAX

typedef struct Span {
    const char *at;
    size_t len;
} Span;

Span span_of(const char *text);
Span span_from(Span s, size_t begin);
Span span_cut(Span s, size_t begin, size_t end);
bool span_starts(Span s, const char *literal);
bool span_starts_any(Span s, const char *const *literals, size_t count);
bool span_is(Span s, const char *literal);
/* Where `literal` stands first or last, SPAN_NOWHERE. */
size_t span_find(Span s, const char *literal);
size_t span_find_last(Span s, const char *literal);
bool span_has(Span s, const char *literal);

void span_blanks(Span *s);
bool span_skip(Span *s, const char *literal);
/* As span_skip, with blanks before it. */
bool span_next(Span *s, const char *literal);
/* Goes behind the first `literal`; false leaves `s` alone. */
bool span_after(Span *s, const char *literal);
bool span_u64(Span *s, uint64_t *ret);
bool span_i64(Span *s, int64_t *ret);
/* The number behind the first `literal`; *ret is left alone where there is none. */
void span_i64_after(Span s, const char *literal, int64_t *ret);
bool span_int(Span *s, int *ret);       /* i64 within int */
bool span_hex(Span *s, uint64_t *ret);  /* with or without 0x */
bool span_double(Span *s, double *ret); /* decimal notation */
/* Blanks, then all up to the next blank; empty at the end. */
Span span_word(Span *s);
/* All before `c` (which goes too), or all. */
Span span_until(Span *s, char c);
Span span_trim(Span s);
