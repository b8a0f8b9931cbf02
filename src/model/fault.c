/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fault.h"

#include <string.h>

#define WORD(id, key, text) {key, text},
#define SCOPE(id, key) {key, NULL},
const FaultWord fault_causes[] = {FAULT_CAUSE_TABLE(WORD)};
const FaultWord fault_severities[] = {FAULT_SEVERITY_TABLE(WORD)};
const FaultWord fault_actions[] = {FAULT_ACTION_TABLE(WORD)};
const FaultWord fault_routes[] = {FAULT_ROUTE_TABLE(WORD)};
const FaultWord fault_scopes[] = {FAULT_SCOPE_TABLE(SCOPE)};
const FaultWord fault_clears[] = {FAULT_CLEAR_TABLE(WORD)};

const struct FaultRecovery fault_recoveries[FAULT_RECOVERIES] = {
    {"nothing", ACTION_NONE},
    {"a reset of the GPU", ACTION_RESET_GPU},
    {"a reboot of the node", ACTION_REBOOT_NODE},
    {"an end of what uses peer to peer", ACTION_RESTART_APP},
    {"an end of the work and a reset", ACTION_DRAIN_AND_RESET},
    {"recovery of its IMEX domain", ACTION_RESTART_FABRIC},
};

int fault_word_find(const FaultWord *words, int count, const char *key)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i].key, key) == 0)
            return i;
    return -1;
}
