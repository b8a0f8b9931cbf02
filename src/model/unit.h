/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The units that metrics are in, a const table. Any thread.
 */

#include <stdbool.h>

typedef enum Unit {
#define UNIT(id, symbol, base, factor) UNIT_##id,
#include "model/unit.def"
#undef UNIT
    UNIT_END,
} Unit;

/* The short text shown beside a value: "MHz", "%", "bytes/s". */
const char *unit_symbol(Unit unit);

/* The Prometheus base unit as a name's suffix spells it ("hertz", "bytes_per_second"); "" for things counted. */
const char *unit_suffix(Unit unit);

/* What a value is multiplied by to be in the base unit: MHz 1e6, mJ 1e-3, MiB 1048576. */
double unit_factor(Unit unit);
