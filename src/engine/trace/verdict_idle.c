/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about idle time. Each cause is the cost of one rule at a time, so that all together cost no more than the idle.
 */
#include <string.h>

#include "engine/trace/verdict.h"

/* Writes the cost of idle causes and where the host was. */
static bool find_idle(const VerdictFacts *facts, VerdictFinding *finding, TraceCause cause, const char *what)
{
    finding->cost_ns = facts->idle_by_cause[cause];
    if (finding->cost_ns <= 0)
        return false;
    str_addf(&finding->evidence, "GPU idle %s: ", what);
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    verdict_add_gaps(&finding->evidence, facts, cause);
    return true;
}

/* Whether a judged call of the class has `name` in its name, and in an operator around it `operator_part` (NULL: there
 * is no operator around it; "": no matter). */
static bool call_has(const VerdictFacts *facts, TraceHostClass class, const char *name, const char *operator_part)
{
    for (size_t i = 0; i < facts->rank->calls.len; i++) {
        const TraceCall *call = &facts->rank->calls.at[i];

        if (call->class != class || (facts->steps > 0 && call->step_count == 0) || !strstr(call->name, name))
            continue;
        if (operator_part ? strstr(call->inner, operator_part) || strstr(call->outer, operator_part) : !*call->inner)
            return true;
    }
    return false;
}

static bool memory_has_room(const TraceRank *rank)
{
    bool known = false;

    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &rank->memory.at[i];
        int64_t peak = memory->peak_reserved >= 0 ? memory->peak_reserved : memory->peak_allocated;

        if (memory->device < 0 || memory->capacity_bytes <= 0 || !memory->totals)
            continue;
        if ((double)peak > verdict_limit(VERDICT_LIMIT_MEMORY_ROOM) * (double)memory->capacity_bytes)
            return false;
        known = true;
    }
    return known;
}

/* Whether an optimizer step launches tensor by tensor. */
static bool optimizer_is_slow(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->annotations.len; i++) {
        const TraceAnnotation *row = &rank->annotations.at[i];

        if (!row->on_gpu && row->count > 0 && strncmp(row->name, "Optimizer.step", strlen("Optimizer.step")) == 0 &&
            (double)row->operation_count > verdict_limit(VERDICT_LIMIT_OPTIMIZER_OPERATIONS) * (double)row->count)
            return true;
    }
    return false;
}

static bool pageable_to_device(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->copies.len; i++)
        if (strcmp(rank->copies.at[i].kind, "HtoD") == 0 && strcmp(rank->copies.at[i].source, "pageable") == 0 &&
            rank->copies.at[i].count > rank->copies.at[i].small_count)
            return true;
    return false;
}

bool rule_data_loading(const VerdictFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_DATA_LOADING, "while input is loaded"))
        return false;
    if (verdict_has_name(facts->rank, "_SingleProcessDataLoaderIter"))
        verdict_hint(finding, VERDICT_HINT_LOADER_SINGLE);
    else if (verdict_has_name(facts->rank, "_MultiProcessingDataLoaderIter"))
        verdict_hint(finding, VERDICT_HINT_LOADER_WORKERS);
    else
        verdict_hint(finding, VERDICT_HINT_LOADER_ANY);
    if (pageable_to_device(facts->rank))
        verdict_hint(finding, VERDICT_HINT_LOADER_PIN);
    return true;
}

static int64_t short_count(const TraceRank *rank, int64_t *ret_all)
{
    int64_t count = 0;

    *ret_all = 0;
    for (size_t i = 0; i < rank->kernels.len; i++) {
        count += rank->kernels.at[i].short_count;
        *ret_all += rank->kernels.at[i].count;
    }
    return count;
}

static bool mostly_short(const TraceRank *rank)
{
    int64_t all, count = short_count(rank, &all);

    return all > 0 && (double)count > verdict_limit(VERDICT_LIMIT_SHORT_SHARE) * (double)all;
}

/* Whether what waits in the queue waits for no more than the launches themselves. */
static bool queue_moves(const VerdictFacts *facts)
{
    return facts->idle_by_cause[TRACE_CAUSE_QUEUED] <= verdict_limit(VERDICT_LIMIT_LAUNCH_GAP_NS) * facts->queued_gaps;
}

static void add_short(Str *out, const TraceRank *rank)
{
    int64_t all, count = short_count(rank, &all);

    str_addf(out, "; %lld of %lld kernels (", (long long)count, (long long)all);
    verdict_add_percent(out, (double)count, (double)all);
    str_add(out, ") are short");
}

static void hint_launches(const VerdictFacts *facts, VerdictFinding *finding)
{
    verdict_hint(finding, facts->rank->launch.graph_launches > 0 ? VERDICT_HINT_GRAPHS_MORE : VERDICT_HINT_GRAPHS);
    if (optimizer_is_slow(facts->rank))
        verdict_hint(finding, VERDICT_HINT_FOREACH);
    if (memory_has_room(facts->rank))
        verdict_hint(finding, VERDICT_HINT_BATCH_ROOM);
}

static bool is_compiled(const TraceRank *rank)
{
    return verdict_has_name(rank, "CompiledFunction") || verdict_has_name(rank, "CompiledFxGraph") ||
           verdict_has_name(rank, "Torch-Compiled Region");
}

bool rule_launch_bound(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceLaunch *launch = &facts->rank->launch;

    if (!find_idle(facts, finding, TRACE_CAUSE_HOST_BOUND, "while the host prepares and launches work"))
        return false;
    str_addf(&finding->evidence, "; %.0f GPU operations %s", facts->operations,
             facts->steps > 0 ? "per step" : "in all");
    if (launch->call_count > 0) {
        str_add(&finding->evidence, ", a launch call takes ");
        verdict_add_time(&finding->evidence, (double)launch->call_median_ns);
    }
    if (facts->operations > 0) {
        str_add(&finding->evidence, ", the GPU works ");
        verdict_add_time(&finding->evidence, facts->busy_ns / facts->operations);
        str_add(&finding->evidence, " per operation");
    }
    if (mostly_short(facts->rank)) {
        add_short(&finding->evidence, facts->rank);
        if (!is_compiled(facts->rank))
            verdict_hint(finding, VERDICT_HINT_COMPILE);
    }
    hint_launches(facts, finding);
    return true;
}

bool rule_short_kernels(const VerdictFacts *facts, VerdictFinding *finding)
{
    finding->cost_ns = facts->idle_by_cause[TRACE_CAUSE_SHORT];
    if (queue_moves(facts))
        finding->cost_ns += facts->idle_by_cause[TRACE_CAUSE_QUEUED];
    if (finding->cost_ns <= 0 || !mostly_short(facts->rank))
        return false;
    str_add(&finding->evidence, "GPU idle between operations that were launched in time: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    add_short(&finding->evidence, facts->rank);
    str_addf(&finding->evidence, "; %.0f GPU operations %s", facts->operations,
             facts->steps > 0 ? "per step" : "in all");
    hint_launches(facts, finding);
    return true;
}

/* Whether there is another stream to wait for, here or on another device. */
static bool has_streams(const TraceRank *rank)
{
    int64_t streams = 0;

    for (size_t i = 0; i < rank->devices.len; i++)
        streams += rank->devices.at[i].stream_count;
    return streams > 1;
}

bool rule_queued(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceGap *longest = NULL;

    finding->cost_ns = facts->idle_by_cause[TRACE_CAUSE_QUEUED];
    if (finding->cost_ns <= 0 || (mostly_short(facts->rank) && queue_moves(facts)))
        return false;
    str_add(&finding->evidence, "GPU idle with work launched and not started: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    for (size_t i = 0; i < facts->rank->gaps.len && !longest; i++)
        if (facts->rank->gaps.at[i].cause == TRACE_CAUSE_QUEUED)
            longest = &facts->rank->gaps.at[i];
    if (longest) {
        str_add(&finding->evidence, "; the longest gap, ");
        verdict_add_time(&finding->evidence, (double)(longest->end - longest->start));
        str_add(&finding->evidence, ", before ");
        verdict_add_name(&finding->evidence, longest->after);
    }
    verdict_hint(finding, has_streams(facts->rank) ? VERDICT_HINT_QUEUED_STREAMS : VERDICT_HINT_QUEUED_ALONE);
    return true;
}

bool rule_synchronisation(const VerdictFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_SYNCHRONISATION, "after the host waited for it"))
        return false;
    verdict_add_calls(&finding->evidence, facts, TRACE_HOST_SYNC);
    if (call_has(facts, TRACE_HOST_SYNC, "", "item") || call_has(facts, TRACE_HOST_SYNC, "", "_local_scalar_dense"))
        verdict_hint(finding, VERDICT_HINT_SYNC_ITEM);
    if (call_has(facts, TRACE_HOST_SYNC, "", "nonzero") || call_has(facts, TRACE_HOST_SYNC, "", "unique") ||
        call_has(facts, TRACE_HOST_SYNC, "", "masked_select"))
        verdict_hint(finding, VERDICT_HINT_SYNC_NONZERO);
    if (call_has(facts, TRACE_HOST_SYNC, "", "copy_"))
        verdict_hint(finding, VERDICT_HINT_SYNC_COPY);
    if (call_has(facts, TRACE_HOST_SYNC, "DeviceSynchronize", NULL))
        verdict_hint(finding, VERDICT_HINT_SYNC_EXPLICIT);
    return true;
}

bool rule_allocator(const VerdictFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_ALLOCATOR, "while memory is allocated or freed"))
        return false;
    verdict_add_calls(&finding->evidence, facts, TRACE_HOST_ALLOCATOR);
    if (call_has(facts, TRACE_HOST_ALLOCATOR, "Free", ""))
        verdict_hint(finding, VERDICT_HINT_ALLOC_FREE);
    if (call_has(facts, TRACE_HOST_ALLOCATOR, "HostAlloc", "") ||
        call_has(facts, TRACE_HOST_ALLOCATOR, "HostMalloc", ""))
        verdict_hint(finding, VERDICT_HINT_ALLOC_HOST);
    return true;
}

static bool goes_over_gloo(const TraceRank *rank)
{
    return rank->devices.len > 0 && verdict_has_name(rank, "gloo:");
}

bool rule_collective_wait(const VerdictFacts *facts, VerdictFinding *finding)
{
    return !goes_over_gloo(facts->rank) &&
           find_idle(facts, finding, TRACE_CAUSE_COLLECTIVE_WAIT, "while the host waits for other ranks");
}

bool rule_gloo(const VerdictFacts *facts, VerdictFinding *finding)
{
    return goes_over_gloo(facts->rank) &&
           find_idle(facts, finding, TRACE_CAUSE_COLLECTIVE_WAIT, "while gloo communicates on the host");
}

bool rule_compile(const VerdictFacts *facts, VerdictFinding *finding)
{
    return find_idle(facts, finding, TRACE_CAUSE_COMPILE, "while code is compiled or loaded");
}

bool rule_python(const VerdictFacts *facts, VerdictFinding *finding)
{
    return find_idle(facts, finding, TRACE_CAUSE_PYTHON, "while Python runs");
}

bool rule_idle_unknown(const VerdictFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_UNKNOWN, "for a reason that the profile does not hold"))
        return false;
    if (facts->rank->with_stack || facts->rank->operators.len + facts->rank->calls.len == 0)
        verdict_hint(finding, VERDICT_HINT_RECORD_CPU);
    else
        verdict_hint(finding, VERDICT_HINT_RECORD_STACK);
    return true;
}

bool rule_idle_spread(const VerdictFacts *facts, VerdictFinding *finding)
{
    const char *separator = "; of it ";

    finding->cost_ns = facts->idle_ns;
    str_add(&finding->evidence, "GPU idle: ");
    verdict_add_cost(&finding->evidence, facts, facts->idle_ns);
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++) {
        if (facts->idle_by_cause[i] <= 0)
            continue;
        str_add(&finding->evidence, separator);
        str_addf(&finding->evidence, "%s ", trace_cause_words[i]);
        verdict_add_time(&finding->evidence, facts->idle_by_cause[i]);
        separator = ", ";
    }
    return facts->idle_ns > 0;
}

/* ---- verdicts without a cost ---- */

/* Rules without a cost of their own: what to know, and what to do about it. */

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
