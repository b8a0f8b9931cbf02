/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Quantities as the Kubernetes API writes them: "500m", "4", "16Gi", "1e3". Any thread. */

#include "base/err.h"

/* Decimal, with an exponent or one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, from 0 up to 1e18. -EINVAL. */
int quantity_parse(const char *text, double *ret, Err *err);
