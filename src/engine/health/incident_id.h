/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ids of incidents and maintenance windows: the wall clock's milliseconds in base 32 (digits and lower case letters
 * without i, l, o and u), at least nine of them, so that they sort by time as texts. Each is larger than the one before
 * it, wherever the clock went. Pure, any thread.
 */

#include <stdint.h>

#include "model/incident.h"

/* Writes the next id after `last` (0: none yet) at this instant, and returns its number. */
uint64_t incident_id_next(uint64_t last, uint64_t real_ns, char out[INCIDENT_ID_CAP]);
/* The number of an id; 0 where the text is none. */
uint64_t incident_id_number(const char *id);
