/* SPDX-License-Identifier: Apache-2.0 */
/* The table of units. Const data, any thread. */

#include "model/unit.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

typedef struct UnitRow {
    const char *symbol;
    const char *base;
    double factor;
} UnitRow;

static const UnitRow units[] = {
#define UNIT(id, symbol_text, base_text, to_base)                                                                      \
    [UNIT_##id] = {.symbol = symbol_text, .base = base_text, .factor = to_base},
#include "model/unit.def"
#undef UNIT
};

const char *unit_symbol(Unit unit)
{
    assert(unit < UNIT_END);
    return units[unit].symbol;
}

const char *unit_suffix(Unit unit)
{
    assert(unit < UNIT_END);
    return units[unit].base;
}

double unit_factor(Unit unit)
{
    assert(unit < UNIT_END);
    return units[unit].factor;
}
