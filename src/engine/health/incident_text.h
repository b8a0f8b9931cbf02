/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The texts of an incident: its id, title and verdict. Ids (of maintenance windows too) are the wall clock's
 * milliseconds in base 32 (digits and lower case letters without i, l, o and u), at least nine of them, so that they
 * sort by time as texts. Each is larger than the one before it, even if the clock goes back. Pure, any thread.
 */

#include "engine/health/catalogue.h"
#include "model/incident.h"

/* Writes the next id after `last` (0: none yet) at this instant, and returns its number. */
uint64_t incident_id_next(uint64_t last, uint64_t real_ns, char out[INCIDENT_ID_CAP]);
/* The number of an id; 0 where the text is none. */
uint64_t incident_id_number(const char *id);

/* Writes title and verdict from the class (NULL: it is gone from the catalogue, the texts stay). */
void incident_text(Incident *incident, const FaultClass *class);
