/* SPDX-License-Identifier: Apache-2.0 */
/* Writing small JSON into a Str. A member or element puts a comma before itself if a value stands there; `name` NULL is
 * an element of an array, or a value alone. Names need no escaping. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

void json_add_key(Str *out, const char *name);
void json_open(Str *out, const char *name, char bracket); /* '{' or '[' */
void json_close(Str *out, char bracket);                  /* '}' or ']' */

void json_add_null(Str *out, const char *name);
void json_add_bool(Str *out, const char *name, bool value);
void json_add_text(Str *out, const char *name, const char *text); /* escaped; NULL: null */
void json_add_i64(Str *out, const char *name, int64_t value);
void json_add_u64(Str *out, const char *name, uint64_t value);
void json_add_double(Str *out, const char *name, double value);   /* null if it is not finite */
void json_add_time(Str *out, const char *name, uint64_t real_ns); /* RFC 3339; null for 0 */
void json_add_seconds(Str *out, const char *name, uint64_t ns);   /* with three places */
