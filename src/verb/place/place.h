/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Verbs below `stoker place` that are files of their own. */

#include "verb/verb.h"

#define PLACE_EXTENDER_PORT "9405"
#define PLACE_RESOURCE "nvidia.com/gpu"

extern const Verb verb_place_simulate, verb_place_serve, verb_place_config, verb_place_why, verb_place_defrag;
