/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lines that fit the screen, for the text of `stoker nccl`; not for others. A column is a character of UTF-8. Pure. */

#include "base/str.h"

/* The words of `text`, with one blank between them, and a line end. `used` columns of the first line are taken; at 0,
 * and at each further line, `indent` comes first. What is longer than a line is broken; at least 20 columns are used.
 */
void nccl_wrap(Str *out, size_t width, const char *text, const char *indent, size_t used);

/* The rest of a line of which `used` columns are written: as it is where it fits, else wrapped. */
void nccl_line_rest(Str *out, size_t width, const char *text, const char *indent, size_t used);

/* One line that begins with `indent` blanks: as it is where it fits, else wrapped, the rest two columns further in. */
void nccl_line_fit(Str *out, size_t width, size_t indent, const char *text);
