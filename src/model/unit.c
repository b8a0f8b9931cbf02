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

bool unit_find(const char *symbol, Unit *ret_unit)
{
    for (size_t i = 0; i < UNIT_END; i++) {
        if (strcmp(units[i].symbol, symbol) == 0) {
            *ret_unit = (Unit)i;
            return true;
        }
    }
    return false;
}

bool unit_ratio(Unit from, Unit to, double *ret_ratio)
{
    assert(from < UNIT_END && to < UNIT_END);
    if (from != to && (units[from].base[0] == '\0' || strcmp(units[from].base, units[to].base) != 0))
        return false;
    *ret_ratio = units[from].factor / units[to].factor;
    return true;
}
