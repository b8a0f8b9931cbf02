/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts and numbers of the exposition formats. Texts are escaped, and UTF-8 whatever came in. Pure, any thread. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef enum EscapeKind {
    ESCAPE_VALUE, /* of a label, and the help of OpenMetrics: \\ \" \n */
    ESCAPE_HELP,  /* of the text format: \\ \n */
} EscapeKind;

/* Appends `text`; bytes that are not UTF-8 become U+FFFD each, CR and NUL have no escape and stay or end the text. */
void escape_add(Str *out, const char *text, EscapeKind kind);

/* Numbers as dcgm-exporter prints them. No NUL is written; the length is returned. */
enum { VALUE_TEXT_MAX = 320 }; /* bytes of the longest double without an exponent */

/* As Go's strconv prints 'g' with precision -1, which is what Prometheus' libraries write: the shortest digits that
 * read back as the value, with an exponent below 1e-4 and from 1e6 on ("1e+06", "1.29931554972e+11"), NaN, +Inf, -Inf,
 * and 0 for both zeroes. */
size_t value_write_go(char out[VALUE_TEXT_MAX], double value);

/* As C and Go print %f: six decimals. NaN, +Inf and -Inf as above. */
size_t value_write_fixed(char out[VALUE_TEXT_MAX], double value);
