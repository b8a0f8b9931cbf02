/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8 (RFC 3629; Unicode 15, table 3-7). Pure; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { UTF8_MAX = 4 }; /* bytes of a character */

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD: stands for bytes that are no character */

/* Bytes of the character at `text` (at most `len` long), its number in *ret; 0, and *ret untouched, where there is
 * none: no overlong forms, no surrogates, nothing over U+10FFFF. */
size_t utf8_read(const char *text, size_t len, uint32_t *ret);

/* Writes the character, without a NUL, and returns its bytes. A surrogate is written as it is: the caller's choice. */
size_t utf8_write(char out[UTF8_MAX], uint32_t c);

/* Characters of a text, continuation bytes counted with what they continue. */
size_t utf8_count(const char *text, size_t len);
/* Columns of a character as the C library has them in C.UTF-8, whatever the locale: 0 for a combining one, -1 for one
 * that must not reach a terminal or that is not assigned. */
int utf8_columns(uint32_t c);
