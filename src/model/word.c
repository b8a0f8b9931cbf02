/* SPDX-License-Identifier: Apache-2.0 */
/* The words of all tables, and what belongs to a fault's. */
#include "model/word.h"

#include <string.h>

#include "model/activity.h"
#include "model/incident.h"
#include "model/node.h"
#include "model/place.h"

const WordRow activity_words[] = {ACTIVITY_TABLE(WORD_ROW)};
const WordRow activity_causes[] = {ACTIVITY_CAUSE_TABLE(WORD_ROW)};
const WordRow activity_bases[] = {ACTIVITY_BASIS_TABLE(WORD_ROW)};
const WordRow device_kinds[] = {DEVICE_KIND_TABLE(WORD_ROW)};
const WordRow event_kinds[] = {EVENT_TABLE(WORD_ROW)};
const WordRow event_origins[] = {EVENT_ORIGIN_TABLE(WORD_ROW)};
const WordRow event_words[] = {EVENT_WORD_TABLE(WORD_ROW)};
const WordRow fault_causes[] = {FAULT_CAUSE_TABLE(WORD_ROW)};
const WordRow fault_severities[] = {FAULT_SEVERITY_TABLE(WORD_ROW)};
const WordRow fault_actions[] = {FAULT_ACTION_TABLE(WORD_ROW)};
const WordRow fault_routes[] = {FAULT_ROUTE_TABLE(WORD_ROW)};
const WordRow fault_scopes[] = {FAULT_SCOPE_TABLE(WORD_ROW)};
const WordRow fault_clears[] = {FAULT_CLEAR_TABLE(WORD_ROW)};
const WordRow incident_states[] = {INCIDENT_STATE_TABLE(WORD_ROW)};
const WordRow incident_ends[] = {INCIDENT_END_TABLE(WORD_ROW)};
const WordRow incident_changes[] = {INCIDENT_CHANGE_TABLE(WORD_ROW)};
const WordRow metric_types[] = {METRIC_TYPE_TABLE(WORD_ROW)};
const WordRow gpu_states[] = {GPU_STATE_TABLE(WORD_ROW)};
const WordRow peer_statuses[] = {PEER_STATUS_TABLE(WORD_ROW)};
const WordRow node_link_errors[] = {NODE_LINK_ERROR_TABLE(WORD_ROW)};
const WordRow sampler_states[] = {SAMPLER_STATE_TABLE(WORD_ROW)};
const WordRow absences[] = {ABSENCE_TABLE(WORD_ROW)};
const WordRow topology_paths[] = {TOPOLOGY_PATH_TABLE(WORD_ROW)};

const struct FaultRecovery fault_recoveries[FAULT_RECOVERIES] = {
    {"nothing", ACTION_NONE},
    {"a reset of the GPU", ACTION_RESET_GPU},
    {"a reboot of the node", ACTION_REBOOT_NODE},
    {"an end of what uses peer to peer", ACTION_RESTART_APP},
    {"an end of the work and a reset", ACTION_DRAIN_AND_RESET},
    {"recovery of its IMEX domain", ACTION_RESTART_FABRIC},
};

int word_find(const WordRow *words, size_t count, const char *key)
{
    for (size_t i = 0; key && i < count; i++)
        if (words[i].key && strcmp(words[i].key, key) == 0)
            return (int)i;
    return -1;
}
