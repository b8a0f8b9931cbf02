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

int fault_word_find(const FaultWord *words, int count, const char *key)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i].key, key) == 0)
            return i;
    return -1;
}
