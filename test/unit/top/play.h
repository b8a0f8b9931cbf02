/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker top` without a terminal: plays a recording and does what words say, in turn:
 *
 * WIDTHxHEIGHT resizes; `ascii`, `utf8` and `inks` choose how it is printed; `look` goes on to the next look, `last` to
 * the last one; `stale:SECONDS`, `past` (a replay), `paused`, `readonly` change what is seen; `text:WORDS` types,
 * `click:X,Y` and `wheel:X,Y` use the mouse; any other word is a key; `print` appends the screen below a line that says
 * what was done.
 */

#include "base/str.h"

/* Returns the word that is none; NULL: all were done. */
const char *play_words(const char *path, const char *const *words, size_t count, Str *out);
