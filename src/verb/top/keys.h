/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Keys by their names, for scripts and tests: "j enter F6 /". Pure. */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

typedef VEC(uint32_t) KeyList;

/* Words with blanks between: a single character is itself, "space" a blank, others are names (any case). -EINVAL names
 * the word and lists the names. */
int keys_parse(const char *text, KeyList *ret, Err *err);
