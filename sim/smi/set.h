/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Options that change a GPU: a row each, applied to every chosen GPU in turn. */
#include <stdbool.h>
#include <stddef.h>

#include "sim/smi/gpu.h"

typedef struct Change {
    const char *letter, *word; /* "-pl", "--power-limit" */
    enum { CHANGE_NO_VALUE, CHANGE_VALUE, CHANGE_MAYBE_VALUE } takes;
    nvmlReturn_t (*apply)(Gpu *gpu, const char *value);
    const char *about;
} Change;

extern const Change changes[];
extern const size_t change_count;

/* Applies one change to all GPUs; prints a line for each. 0 or the error; what a board lacks is a warning only. */
nvmlReturn_t change_apply(const Change *change, const char *value, GpuSet *set);
