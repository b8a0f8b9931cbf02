/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes under the names this tree uses. Any thread. */
#pragma once

/* Argument `fmt` (1-based) is a printf format, its values start at argument `first`; 0 for a va_list. */
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* Switch case that goes on into the next one, or a parameter that a table's shape forces on a function. */
#define UNUSED __attribute__((unused))
