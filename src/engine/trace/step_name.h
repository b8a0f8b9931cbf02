/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of steps. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "ProfilerStep#5": what PyTorch's profiler writes. */
bool trace_is_step_name(const char *name, size_t len);

/* "step 5", "Iteration #5", "train_step_5", "iter5", "train 5": a word for a step and a number, and nothing behind it.
 * *ret_family: length of what stands before the number. */
bool trace_is_step_like(const char *name, size_t len, int64_t *ret_number, size_t *ret_family);
