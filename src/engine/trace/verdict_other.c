/* SPDX-License-Identifier: Apache-2.0 */
/* Rules without a cost of their own: what to know, and what to do about it. */
#include <string.h>

#include "engine/trace/verdict.h"

bool rule_memory_full(const VerdictFacts *facts, VerdictFinding *finding)
{
    for (size_t i = 0; i < facts->rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &facts->rank->memory.at[i];
        bool reserved = memory->peak_reserved >= 0;
        int64_t peak = reserved ? memory->peak_reserved : memory->peak_allocated;

        if (memory->device < 0 || !memory->totals || memory->capacity_bytes <= 0 ||
            (double)peak < verdict_limit(VERDICT_LIMIT_MEMORY_FULL) * (double)memory->capacity_bytes)
            continue;
        str_addf(&finding->evidence, "device %d: peak ", memory->device);
        verdict_add_bytes(&finding->evidence, (double)peak);
        str_addf(&finding->evidence, " %s of ", reserved ? "reserved" : "allocated");
        verdict_add_bytes(&finding->evidence, (double)memory->capacity_bytes);
        str_add(&finding->evidence, " (");
        verdict_add_percent(&finding->evidence, (double)peak, (double)memory->capacity_bytes);
        str_addc(&finding->evidence, ')');
        if (*memory->peak_op) {
            str_add(&finding->evidence, " in ");
            verdict_add_name(&finding->evidence, memory->peak_op);
        }
        return true;
    }
    return false;
}

bool rule_data_parallel(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;

    for (size_t i = 0; i < rank->annotations.len + rank->operators.len; i++) {
        const char *name = i < rank->annotations.len ? rank->annotations.at[i].name
                                                     : rank->operators.at[i - rank->annotations.len].name;

        if (strcmp(name, "DataParallel.forward") != 0)
            continue;
        str_addf(&finding->evidence, "%s in a process with %zu GPU%s", name, rank->devices.len,
                 rank->devices.len == 1 ? "" : "s");
        return true;
    }
    return false;
}

bool rule_no_gpu(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;

    if (rank->devices.len > 0 || rank->events == 0)
        return false;
    str_addf(&finding->evidence, "%llu events, none of a GPU", (unsigned long long)rank->events);
    if (rank->operators.len > 0) {
        str_add(&finding->evidence, "; most host time in ");
        verdict_add_name(&finding->evidence, rank->operators.at[0].name);
        str_add(&finding->evidence, " (");
        verdict_add_time(&finding->evidence, (double)rank->operators.at[0].host_self_ns);
        str_addc(&finding->evidence, ')');
    }
    return true;
}

/* Damage that leaves a part of the recording out, however few events are known to be lost. */
static bool is_damage(ProfileLossReason reason)
{
    return reason == PROFILE_LOSS_PROFILER || reason == PROFILE_LOSS_TRUNCATED || reason == PROFILE_LOSS_COMPRESSION ||
           reason == PROFILE_LOSS_SYNTAX;
}

bool rule_lost_records(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;
    bool fires = (double)rank->lost > verdict_limit(VERDICT_LIMIT_LOST_SHARE) * (double)rank->events;
    const char *separator = "";

    for (int reason = 0; reason < PROFILE_LOSS_COUNT; reason++)
        fires |= rank->lost_by_reason[reason] > 0 && is_damage((ProfileLossReason)reason);
    if (!fires)
        return false;
    for (int reason = 0; reason < PROFILE_LOSS_COUNT; reason++) {
        if (rank->lost_by_reason[reason] == 0)
            continue;
        str_addf(&finding->evidence, "%s%s: %llu", separator, profile_loss_word((ProfileLossReason)reason),
                 (unsigned long long)rank->lost_by_reason[reason]);
        separator = ", ";
    }
    str_addf(&finding->evidence, "; %llu of %llu events not used", (unsigned long long)rank->lost,
             (unsigned long long)rank->events);
    return true;
}

bool rule_well_used(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;

    if (facts->step_ns <= 0 || facts->busy_ns < verdict_limit(VERDICT_LIMIT_WELL_USED) * facts->step_ns)
        return false;
    str_add(&finding->evidence, "GPU busy ");
    verdict_add_cost(&finding->evidence, facts, facts->busy_ns);
    str_add(&finding->evidence, ", computing ");
    verdict_add_percent(&finding->evidence, facts->compute_ns, facts->step_ns);
    for (size_t i = 0; i < rank->kernels.len && (double)i < verdict_limit(VERDICT_LIMIT_NAMED); i++) {
        str_add(&finding->evidence, i == 0 ? "; most in " : ", ");
        verdict_add_name(&finding->evidence, rank->kernels.at[i].name);
        str_add(&finding->evidence, " (");
        verdict_add_percent(&finding->evidence, (double)rank->kernels.at[i].total_ns, facts->whole_kernel_ns);
        str_add(&finding->evidence, " of kernel time)");
    }
    return true;
}
