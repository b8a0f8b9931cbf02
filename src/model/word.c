/* SPDX-License-Identifier: Apache-2.0 */
/* The words of all tables, and what belongs to a fault's. */
#include "model/word.h"

#include <string.h>

#include "model/activity.h"
#include "model/bench.h"
#include "model/cluster.h"
#include "model/incident.h"
#include "model/node.h"
#include "model/owner.h"
#include "model/place.h"
#include "model/why.h"

const WordRow activity_words[] = {ACTIVITY_TABLE(WORD_ROW)};
const WordRow activity_causes[] = {ACTIVITY_CAUSE_TABLE(WORD_ROW)};
const WordRow activity_bases[] = {ACTIVITY_BASIS_TABLE(WORD_ROW)};
const WordRow owner_keys[] = {OWNER_KEY_TABLE(WORD_ROW, OWNER_BY_)};
const WordRow attributions[] = {ATTRIBUTION_TABLE(WORD_ROW)};
const WordRow holding_bases[] = {HOLDING_BASIS_TABLE(WORD_ROW)};
const WordRow holding_grants[] = {HOLDING_GRANT_TABLE(WORD_ROW)};
const WordRow why_confidences[] = {WHY_CONFIDENCE_TABLE(WORD_ROW)};
const WordRow why_units[] = {WHY_UNIT_TABLE(WORD_ROW)};
const WordRow roof_kinds[] = {ROOF_TABLE(WORD_ROW)};
const struct WhyRow why_causes[] = {
#define WHY(id, key, title, advice, next) [WHY_##id] = {key, title, advice, next},
#include "model/why.def"
#undef WHY
};
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
const WordRow holding_states[] = {HOLDING_STATE_TABLE(WORD_ROW)};
const WordRow gpu_states[] = {GPU_STATE_TABLE(WORD_ROW)};
const WordRow peer_statuses[] = {PEER_STATUS_TABLE(WORD_ROW)};
const WordRow node_link_errors[] = {NODE_LINK_ERROR_TABLE(WORD_ROW)};
const WordRow sampler_states[] = {SAMPLER_STATE_TABLE(WORD_ROW)};
const WordRow absences[] = {ABSENCE_TABLE(WORD_ROW)};
const WordRow cluster_tiers[CLUSTER_TIER_END] = {CLUSTER_TIER_TABLE(WORD_ROW)};
const WordRow topology_paths[] = {TOPOLOGY_PATH_TABLE(WORD_ROW)};
const WordRow bench_parts[] = {BENCH_PART_TABLE(WORD_ROW)};
const WordRow bench_stages[] = {BENCH_STAGE_TABLE(WORD_ROW)};
const WordRow bench_floods[] = {BENCH_FLOOD_TABLE(WORD_ROW)};
const WordRow bench_errors[] = {BENCH_ERROR_TABLE(WORD_ROW)};
const WordRow bench_counters[] = {BENCH_COUNTER_TABLE(WORD_ROW)};

const char *const fault_steps[ACTION_END] = {
    [ACTION_NONE] = "It is recorded, and asks for nothing.",
    [ACTION_WATCH] = "Work goes on. Look at it again if it comes back or does not end.",
    [ACTION_CHECK_APP] = "Look at the program, its input and its libraries first; the GPU is most likely fine.",
    [ACTION_RESTART_APP] = "End the programs that it hit and start them again; no reset is needed.",
    [ACTION_RESET_GPU] = "Let the work on it end, then reset it: stoker release, nvidia-smi --gpu-reset -i GPU, stoker "
                         "release --end.",
    [ACTION_DRAIN_AND_RESET] =
        "Let no new work start on it. When its work has ended, reset it: stoker release, "
        "nvidia-smi --gpu-reset -i GPU, stoker release --end. If the reset fails, reboot the node.",
    [ACTION_REBOOT_NODE] = "Let the work of the node end, then reboot it. A reset of the GPU is not enough.",
    [ACTION_DRAIN_AND_REBOOT] =
        "Let no new work start on the node. When its work has ended, reboot it; a reset of the GPU "
        "is not enough.",
    [ACTION_DRAIN_AND_INSPECT] =
        "Let no new work start on the node. The usual remedy was tried and did not last: run the "
        "vendor's diagnostics, and check seat, cables and power before it is used again.",
    [ACTION_DRAIN_AND_RMA] = "Let no new work start on it, run the vendor's diagnostics and replace it.",
    [ACTION_RESET_FABRIC] = "Drain the node, then reset all GPUs and switches together (nvidia-smi --gpu-reset without "
                            "-i), or reboot.",
    [ACTION_RESTART_FABRIC] =
        "Restart the services of the fabric (nvidia-fabricmanager, nvidia-imex) and read their logs.",
    [ACTION_UPDATE_DRIVER] = "Plan another driver version; until then the error may come back.",
    [ACTION_FIX_DRIVER] = "Load the module (modprobe nvidia), and read the kernel log if that fails.",
    [ACTION_INSPECT_LINK] = "Work goes on. Check seat, bridge and cable at both ends of the link soon.",
    [ACTION_RESEAT] = "Work goes on. Reseat card and riser soon, and check the slot's contacts.",
    [ACTION_CHECK_COOLING] = "Check fans, filters and the airflow of the node.",
    [ACTION_CHECK_POWER] = "Check the power supplies, their feeds and the cables to the GPU.",
    [ACTION_FIX_SETTING] = "Find who made the setting and why, then correct it.",
    [ACTION_RESTART_CONTAINER] = "The GPUs are fine; restart the container.",
    [ACTION_RESTART_VM] = "Restart the virtual machine.",
    [ACTION_CHECK_MONITOR] = "Nothing is known to be wrong with the GPUs; stoker status says which part gives no data.",
    [ACTION_REPORT_VENDOR] = "Keep the incident's bundle and give it to the vendor.",
};

const struct FaultRecovery fault_recoveries[FAULT_RECOVERIES] = {
    {"nothing", ACTION_NONE},
    {"a reset of the GPU", ACTION_RESET_GPU},
    {"a reboot of the node", ACTION_REBOOT_NODE},
    {"an end of what uses peer to peer", ACTION_RESTART_APP},
    {"an end of the work and a reset", ACTION_DRAIN_AND_RESET},
    {"recovery of its IMEX domain", ACTION_RESTART_FABRIC},
};

const char *incident_action(const Incident *incident)
{
    static const char *const unnamed[ACTION_END] = {
        [ACTION_RESET_GPU] = "Find the GPU that needs it, and reset it when it is idle",
        [ACTION_DRAIN_AND_RESET] = "Find the GPU that needs it, drain and reset it",
        [ACTION_DRAIN_AND_RMA] = "Find the GPU that failed, drain and replace it",
    };
    const char *text = incident->device.kind == DEVICE_NODE ? unnamed[incident->action] : NULL;

    return text ? text : fault_actions[incident->action].text;
}

int word_find(const WordRow *words, size_t count, const char *key)
{
    for (size_t i = 0; key && i < count; i++)
        if (words[i].key && strcmp(words[i].key, key) == 0)
            return (int)i;
    return -1;
}

int why_find(const char *key)
{
    for (int i = 0; key && i < WHY_END; i++)
        if (strcmp(why_causes[i].key, key) == 0)
            return i;
    return -1;
}
