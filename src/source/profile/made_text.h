/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Trace JSON that a reader of another format makes in parts, given out as read(2) gives bytes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct MadeText {
    Str text;    /* made and not yet given */
    size_t sent; /* of it */
    uint64_t given;
    bool ended; /* nothing is made any more */
} MadeText;

/* Up to `len` bytes. `write_part` adds the next part to the text, which may be empty, and sets `ended` with the last.
 */
size_t made_text_read(MadeText *made, void (*write_part)(void *of), void *of, void *buffer, size_t len);
