/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of kernels in few columns: they differ mostly in their template arguments, which are also the longest part.
 * Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* Shortens names[0..count-1], in place, to at most `columns` (at least 8) each: what fits stays as it is; then return
 * type, argument list and name spaces go; then the middle. Names that differ stay different: where a cut made them
 * equal, what is kept moves to where they differ. New texts lie in the arena and are safe for a terminal. */
void shorten(const char **names, size_t count, size_t columns, bool utf8, Arena *arena);
