/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The reference part of docs/scenarios.md, written from the tables that read the files. A test compares the two.
 */
#include "base/str.h"

/* The marks between which the generated part of the document stands. */
#define PAGE_BEGIN "<!-- generated from the tables of sim/scenario: do not edit below -->\n"

void scenario_page(Str *out);
