/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A small catalogue in place of the real one: it answers catalogue.h's functions from tables of its own, so that tests
 * of the engine do not hang on data. `catalogue` is not looked at; any pointer will do. */

#include "engine/health/catalogue.h"

/* The rule of a condition: "cond-" and its class. Aborts where there is none. */
const FaultRule *double_condition(const char *class);
size_t double_classes(void);
const FaultClass *double_class_at(size_t i);
/* From here on a class is known or not (for reloads of the configuration); all are known at first. */
void double_hide(const char *class, bool hidden);
