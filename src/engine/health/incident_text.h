/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The sentences of an incident: its title and its verdict. Pure, any thread. */

#include "engine/health/catalogue.h"
#include "model/incident.h"

/* Writes title and verdict from the class (NULL: gone from the catalogue, the texts stay) and what the incident has. */
void incident_text(Incident *incident, const FaultClass *class);
/* "GPU 3 (0000:4e:00.0)", "link 4 of GPU 3 (0000:4e:00.0)", "the node". */
void incident_text_thing(const Incident *incident, char *out, size_t size);
