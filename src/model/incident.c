/* SPDX-License-Identifier: Apache-2.0 */
#include "model/incident.h"

#include <string.h>

static const char *const states[] = {
#define STATE(id, key) key,
    INCIDENT_STATE_TABLE(STATE)
#undef STATE
};

static const char *const changes[] = {
#define CHANGE(id, key) key,
    INCIDENT_CHANGE_TABLE(CHANGE)
#undef CHANGE
};

static const struct {
    const char *key, *text;
} ends[] = {
#define WHY(id, key, text) {key, text},
    INCIDENT_END_TABLE(WHY)
#undef WHY
};

const char *incident_state_key(IncidentState state)
{
    return states[state];
}

bool incident_state_find(const char *key, IncidentState *ret_state)
{
    for (int i = 0; i < INCIDENT_STATE_END; i++) {
        if (strcmp(states[i], key) == 0) {
            *ret_state = (IncidentState)i;
            return true;
        }
    }
    return false;
}

const char *incident_end_key(IncidentEnd end)
{
    return ends[end].key;
}

const char *incident_end_text(IncidentEnd end)
{
    return ends[end].text;
}

const char *incident_change_key(IncidentChange change)
{
    return changes[change];
}
