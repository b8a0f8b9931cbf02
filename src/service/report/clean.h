/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts of profiles are bytes that anyone may have chosen: reading them as UTF-8, and as columns of a terminal. Pure.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define CLEAN_BAD UINT32_MAX /* no character of UTF-8 */

/* The character at `text`, of `len` >= 1 bytes, and how many bytes it takes; CLEAN_BAD takes one. */
size_t clean_next(const char *text, size_t len, uint32_t *ret);

/* Columns of a terminal that a character takes: 0 (marks that combine), 1 or 2. */
unsigned clean_columns(uint32_t c);
/* Columns of a text that clean_add wrote. */
size_t clean_width(const char *text);

/* Appends `text` so that a terminal cannot be led astray by it: control characters and those that turn the direction
 * of writing become a replacement character; without `utf8` so does all that is not ASCII ('?'). */
void clean_add(Str *str, const char *text, bool utf8);
