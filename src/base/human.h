/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers as people read them: three digits and a unit. Pure; each writes a NUL-terminated text into `out` and returns
 * it. Unknown numbers (below 0 if that cannot be, NaN) are "-". */

#include <stdbool.h>
#include <stdint.h>

enum { HUMAN_MAX = 32 };

char *human_ns(char out[HUMAN_MAX], double ns);                    /* "845 ns", "1.23 ms", "-4.10 us" */
char *human_age(char out[HUMAN_MAX], uint64_t ns);                 /* "119 s", "4 min", "3 h", "5 d" */
char *human_bytes(char out[HUMAN_MAX], double bytes);              /* "512 B", "1.50 GiB" */
char *human_count(char out[HUMAN_MAX], int64_t count);             /* "4,093,241" */
char *human_rate(char out[HUMAN_MAX], double gbs);                 /* "52.1 GB/s" */
char *human_percent(char out[HUMAN_MAX], double percent);          /* "12.3 %" */
const char *human_plural(uint64_t count);                          /* the end of a noun: "" for 1, else "s" */
char *human_share(char out[HUMAN_MAX], double part, double whole); /* percent of a whole; "-" where that is 0 */
