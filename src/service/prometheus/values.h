/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers as dcgm-exporter prints them. Pure, any thread. No NUL is written; the length is returned. */

#include <stddef.h>
#include <stdint.h>

enum { VALUE_TEXT_MAX = 320 }; /* bytes of the longest double without an exponent */

/* As Go's strconv prints 'g' with precision -1, which is what Prometheus' libraries write: the shortest digits that
 * read back as the value, with an exponent below 1e-4 and from 1e6 on ("1e+06", "1.29931554972e+11"), NaN, +Inf, -Inf,
 * and 0 for both zeroes. */
size_t value_write_go(char out[VALUE_TEXT_MAX], double value);

/* As C and Go print %f: six decimals. NaN, +Inf and -Inf as above. */
size_t value_write_fixed(char out[VALUE_TEXT_MAX], double value);
