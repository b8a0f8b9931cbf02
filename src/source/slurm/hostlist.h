/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Slurm's lists of names: "gpu[01-04,07],rack[1-2]n[01-16],login1". A range keeps the width of its first number. Pure,
 * any thread.
 */

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { HOSTLIST_MAX = 65536, HOSTLIST_NAME_MAX = 255, HOSTLIST_BRACKETS_MAX = 8 };

/* Calls for each name, in the order of the list; `name` is NUL-ended and valid during the call. An empty list has none.
 * -EINVAL: it is no such list; -E2BIG: more than HOSTLIST_MAX names. Calls may have been made then. */
int hostlist_expand(const char *text, size_t len, void (*each)(void *at, const char *name, size_t len), void *at,
                    Err *err);

/* Appends the names as a list that expands to them, in their order. Neighbours that differ in their last number alone
 * share a bracket. */
void hostlist_add(const char *const *names, size_t count, Str *out);
