/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text of JSON from a file that need not be JSON to text that every reader of JSON takes. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum { CLEAN_DEPTH_MAX = 64 };

/* Appends the one value that `bytes` hold. What is right stays as it is, byte by byte. Control characters and wrong
 * escapes in texts are escaped, bytes that are not UTF-8 become U+FFFD, bare words that are no JSON (NaN, inf, N/A,
 * 007) become texts, commas before a closing bracket go. False where that does not help or more than blanks follow;
 * then nothing is appended. */
bool clean_json(const char *bytes, size_t len, Str *out);
