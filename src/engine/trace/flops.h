/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The arithmetic of one call of an operator, from the shapes and types of its inputs as the profile has them. Pure; any
 * thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/peak.h"

/* An operator that flops_count knows: 1 and up; 0: none. */
unsigned flops_rule(const char *op, size_t len);

typedef struct Flops {
    double flops; /* additions and multiplications of the products */
    double bytes; /* each input read once and the result written once; NaN unknown */
    PeakType type;
} Flops;

/* `dims`, `types`, `arguments`: "Input Dims", "Input type", "Concrete Inputs" as recorded; "" not recorded. False where
 * they do not say enough; *ret is then untouched. */
bool flops_count(unsigned rule, const char *dims, const char *types, const char *arguments, Flops *ret);
