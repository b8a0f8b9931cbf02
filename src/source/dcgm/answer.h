/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the library's answers and blank numbers mean. Pure; any thread. */

#include <stdbool.h>
#include <stdint.h>

#include "model/sample.h"
#include "source/dcgm/abi.h"

/* The reason of an answer other than DCGM_OK. `permitted`: whether this process may read the counters at all; the
 * library has one answer for that and for "in use by another tool". */
Absence dcgm_answer_absence(int answer, bool permitted);

/* Our words for it. Constant text, never NULL. */
const char *dcgm_answer_words(int answer);

/* The errno (negative) for an answer that ends what was begun. */
int dcgm_answer_errno(int answer);

/* Whether such a refusal may be due to one field among several. */
bool dcgm_answer_is_about_fields(int answer);

/* Whether a number means "no value", and why. ret_why is untouched for a value. */
bool dcgm_blank_int64(int64_t value, Absence *ret_why);
bool dcgm_blank_double(double value, Absence *ret_why);
