/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The verbs that speak of a whole Slurm cluster, for the tables of `stoker slurm` and `stoker place`. */

#include "verb/verb.h"

extern const Verb verb_slurm_topology, verb_place_slurm;
