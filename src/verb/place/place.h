/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs below `stoker place` that have files of their own. */

#include "verb/verb.h"

extern const Verb verb_place_simulate;
