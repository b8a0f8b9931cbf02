/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* JSON read from left to right, a value at a time, for texts whose tree would be too large or too slow to build. */

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

typedef struct JsonWalk {
    const char *at, *end; /* what is left of it; borrowed */
    const char *what;     /* for errors: "the answer" */
} JsonWalk;

/* Takes `c` where it is the next byte behind blanks. */
bool json_walk_take(JsonWalk *walk, char c);
/* The next value, owned by the caller. NULL: there is none, and `err` (-EBADMSG) says why. */
json_t *json_walk_value(JsonWalk *walk, Err *err);
