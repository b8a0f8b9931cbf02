/* SPDX-License-Identifier: Apache-2.0 */
/* Rules without a cost of their own: what to know of the profile, and what to do about it. */
#include "engine/trace/verdict.h"

#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/tables.h"

bool rule_memory_full(const TraceFacts *facts, VerdictFinding *finding)
{
    for (size_t i = 0; i < facts->rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &facts->rank->memory.at[i];
        const double peak = (double)verdict_memory_peak(memory), capacity = (double)memory->capacity_bytes;

        if (peak < 0 || peak < verdict_limits.MEMORY_FULL * capacity)
            continue;
        str_addf(&finding->evidence, "device %d: peak %s %s of %s (%.1f %%)", memory->device, BYTES_TEXT(peak),
                 memory->peak_reserved >= 0 ? "reserved" : "allocated", BYTES_TEXT(capacity),
                 verdict_percent(peak, capacity));
        if (*memory->peak_op)
            str_addf(&finding->evidence, " in %s", NAME_TEXT(memory->peak_op));
        return true;
    }
    return false;
}

bool rule_data_parallel(const TraceFacts *facts, VerdictFinding *finding)
{
    static const char name[] = "DataParallel.forward";
    const TraceRank *rank = facts->rank;
    bool found = false;

    for (size_t i = 0; i < rank->annotations.len && !found; i++)
        found = strcmp(rank->annotations.at[i].name, name) == 0;
    for (size_t i = 0; i < rank->operators.len && !found; i++)
        found = strcmp(rank->operators.at[i].name, name) == 0;
    if (found)
        str_addf(&finding->evidence, "%s in a process with %zu GPU%s", name, rank->devices.len,
                 rank->devices.len == 1 ? "" : "s");
    return found;
}

bool rule_no_gpu(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;

    if (rank->devices.len > 0 || rank->events == 0)
        return false;
    str_addf(&finding->evidence, "%llu events, none of a GPU", (unsigned long long)rank->events);
    if (rank->counter_ranges)
        str_addf(&finding->evidence,
                 "; %llu kernels have counters of CUPTI's range profiler and no times: record without profiler_metrics",
                 (unsigned long long)rank->counter_ranges);
    if (rank->operators.len > 0)
        str_addf(&finding->evidence, "; most host time in %s (%s)", NAME_TEXT(rank->operators.at[0].name),
                 TIME_TEXT(rank->operators.at[0].host_self_ns));
    return true;
}

/* Damage that leaves a part of the recording out, however few events are known to be lost. */
static bool is_damage(ProfileLossReason reason)
{
    return reason == PROFILE_LOSS_PROFILER || reason == PROFILE_LOSS_TRUNCATED || reason == PROFILE_LOSS_COMPRESSION ||
           reason == PROFILE_LOSS_SYNTAX;
}

bool rule_lost_records(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;
    bool fires = (double)rank->lost > verdict_limits.LOST_SHARE * (double)rank->events;
    const char *separator = "";

    for (ProfileLossReason reason = 0; reason < PROFILE_LOSS_COUNT; reason++) {
        if (rank->lost_by_reason[reason] == 0)
            continue;
        fires |= is_damage(reason);
        str_addf(&finding->evidence, "%s%s: %llu", separator, WORD_TEXT(profile_loss_words[reason]),
                 (unsigned long long)rank->lost_by_reason[reason]);
        separator = ", ";
    }
    str_addf(&finding->evidence, "; %llu of %llu events not used", (unsigned long long)rank->lost,
             (unsigned long long)rank->events);
    return fires;
}

bool rule_well_used(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceRank *rank = facts->rank;
    size_t said = 0;

    if (facts->step_ns <= 0 || facts->busy_ns < verdict_limits.WELL_USED * facts->step_ns)
        return false;
    verdict_add_time(facts, finding, "GPU busy ", facts->busy_ns);
    str_addf(&finding->evidence, ", computing %.1f %%", verdict_percent(facts->compute_ns, facts->step_ns));
    for (size_t i = 0; i < rank->kernels.len && verdict_begin_name(&finding->evidence, &said, "; most in "); i++)
        str_addf(&finding->evidence, "%s (%.1f %% of kernel time)", NAME_TEXT(rank->kernels.at[i].name),
                 verdict_percent((double)rank->kernels.at[i].total_ns, facts->whole_kernel_ns));
    return true;
}
