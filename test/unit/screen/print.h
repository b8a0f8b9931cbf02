/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "service/screen/grid.h"

/* The screen as grid_print prints it; with `inks`, after each line that has other than plain ink a line of the inks'
 * letters below it (reverse in upper case or '#'). */
void print_inks(const Grid *grid, bool inks, Str *out);
