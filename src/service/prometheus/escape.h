/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts for the exposition formats: escaped, and UTF-8 whatever came in. Pure, any thread. */

#include "base/str.h"

typedef enum EscapeKind {
    ESCAPE_VALUE,     /* of a label: \\ \" \n */
    ESCAPE_HELP,      /* of the text format: \\ \n */
    ESCAPE_OPEN_HELP, /* of OpenMetrics: as a label's value */
} EscapeKind;

/* Appends `text`; bytes that are not UTF-8 become U+FFFD each, CR and NUL have no escape and stay or end the text. */
void escape_add(Str *out, const char *text, EscapeKind kind);
