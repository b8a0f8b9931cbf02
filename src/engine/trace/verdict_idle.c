/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of idle time. Each cause is the cost of one rule at a time, so that all together cost no more than the idle. */
#include "engine/trace/verdict.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/tables.h"

/* Says so where most of the cause's time is one idle time. */
static void find_once(const TraceFacts *facts, VerdictFinding *finding, TraceCause cause)
{
    TraceIdleCursor cursor = {0};
    const TraceGap *longest = NULL;
    int64_t most = 0;

    for (const TraceGap *gap; (gap = trace_next_idle(facts->rank, &cursor));) {
        const int64_t ns = verdict_gap_ns(facts, gap, cause);

        longest = ns > most ? gap : longest;
        most = ns > most ? ns : most;
    }
    if (!longest || (double)most < verdict_limits.ONCE_SHARE * finding->cost_ns * verdict_count_windows(facts))
        return;
    finding->once = true;
    str_addf(&finding->evidence, "; once: one idle time of %s, %s", TIME_TEXT(most),
             *longest->before && *longest->after ? "between two operations"
             : *longest->after                   ? "before the first operation"
                                                 : "behind the last operation");
    verdict_add_hint(finding, VERDICT_HINT_ONCE);
}

/* The cost of an idle cause and where the host was. */
static bool find_idle(const TraceFacts *facts, VerdictFinding *finding, TraceCause cause, const char *what)
{
    finding->cost_ns = facts->idle_by_cause[cause];
    finding->cause = cause;
    if (finding->cost_ns <= 0)
        return false;
    verdict_add_cost(facts, finding, what);
    verdict_add_gaps(&finding->evidence, facts, cause);
    find_once(facts, finding, cause);
    return true;
}

static int64_t count_measured_calls(const TraceFacts *facts, const TraceCall *call)
{
    return facts->steps > 0 ? call->step_count : call->count;
}

/* The calls of a class that took longest. */
static void add_calls(Str *out, const TraceFacts *facts, TraceHostClass class)
{
    size_t said = 0;

    for (size_t i = 0; i < facts->rank->calls.len; i++) {
        const TraceCall *call = &facts->rank->calls.at[i];
        const bool same = strcmp(call->inner, call->outer) == 0;

        if (call->class != class || count_measured_calls(facts, call) == 0)
            continue;
        if (!verdict_begin_name(out, &said, "; calls: "))
            return;
        str_addf(out, "%s%s%s%s%s (%lld, %s)", NAME_TEXT(call->name), *call->inner ? " in " : "",
                 NAME_TEXT(call->inner), same ? "" : " of ", same ? "" : NAME_TEXT(call->outer),
                 (long long)count_measured_calls(facts, call),
                 TIME_TEXT(facts->steps > 0 ? call->step_ns : call->total_ns));
    }
}

/* Whether a measured call of the class has `name` in its name, and in an operator around it `operator_part` (NULL:
 * there is no operator around it; "": no matter). */
static bool call_has(const TraceFacts *facts, TraceHostClass class, const char *name, const char *operator_part)
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

/* Whether an operator, an annotation or the host event of a gap of the rank has this in its name. */
static bool has_name(const TraceRank *rank, const char *part)
{
    enum { LOOKED = 64 };
    const char *looked[LOOKED] = {0}; /* many gaps have few hosts, whose texts have one address each */
    TraceIdleCursor cursor = {0};

    for (size_t i = 0; i < rank->operators.len; i++)
        if (strstr(rank->operators.at[i].name, part))
            return true;
    for (size_t i = 0; i < rank->annotations.len; i++)
        if (strstr(rank->annotations.at[i].name, part))
            return true;
    for (const TraceGap *gap; (gap = trace_next_idle(rank, &cursor));) {
        const char **place = &looked[(uintptr_t)gap->host / ARENA_ALIGN % LOOKED];

        if (*place == gap->host)
            continue;
        if (strstr(gap->host, part))
            return true;
        *place = gap->host;
    }
    return false;
}

static bool memory_has_room(const TraceRank *rank)
{
    bool known = false;

    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &rank->memory.at[i];

        if ((double)verdict_memory_peak(memory) > verdict_limits.MEMORY_ROOM * (double)memory->capacity_bytes)
            return false;
        known |= verdict_memory_peak(memory) >= 0;
    }
    return known;
}

static bool pageable_to_device(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->copies.len; i++)
        if (strcmp(rank->copies.at[i].kind, "HtoD") == 0 && strcmp(rank->copies.at[i].source, "pageable") == 0 &&
            rank->copies.at[i].count > rank->copies.at[i].small_count)
            return true;
    return false;
}

bool rule_data_loading(const TraceFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_DATA_LOADING, "GPU idle while input is loaded: "))
        return false;
    if (has_name(facts->rank, "_SingleProcessDataLoaderIter"))
        verdict_add_hint(finding, VERDICT_HINT_LOADER_SINGLE);
    else if (has_name(facts->rank, "_MultiProcessingDataLoaderIter"))
        verdict_add_hint(finding, VERDICT_HINT_LOADER_WORKERS);
    else
        verdict_add_hint(finding, VERDICT_HINT_LOADER_ANY);
    if (pageable_to_device(facts->rank))
        verdict_add_hint(finding, VERDICT_HINT_LOADER_PIN);
    return true;
}

typedef struct ShortKernels {
    int64_t count, all;
    bool most;
} ShortKernels;

static ShortKernels count_short(const TraceRank *rank)
{
    ShortKernels found = {0};

    for (size_t i = 0; i < rank->kernels.len; i++) {
        found.count += rank->kernels.at[i].short_count;
        found.all += rank->kernels.at[i].count;
    }
    found.most = found.all > 0 && (double)found.count > verdict_limits.SHORT_SHARE * (double)found.all;
    return found;
}

static void add_short(Str *out, const ShortKernels *found)
{
    str_addf(out, "; %lld of %lld kernels (%.1f %%) are short", (long long)found->count, (long long)found->all,
             verdict_percent((double)found->count, (double)found->all));
}

static void add_operations(Str *out, const TraceFacts *facts)
{
    str_addf(out, "; %.0f GPU operations %s", facts->operations, facts->steps > 0 ? "per step" : "in all");
}

/* Whether what waits in the queue waits for no more than the launches themselves. */
static bool queue_moves(const TraceFacts *facts)
{
    return facts->idle_by_cause[TRACE_CAUSE_QUEUED] <= verdict_limits.LAUNCH_GAP_NS * facts->queued_gaps;
}

/* Says which decode steps ran without a graph; false: none did, or there are no decode steps. */
static bool add_eager_steps(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceInference *decode = trace_find_decode(facts->rank);

    if (!decode || !decode->eager_sequences[0])
        return false;
    str_addf(&finding->evidence, "; %lld of %lld decode steps launched no CUDA graph, those of %s sequences",
             (long long)(decode->steps - decode->graph_steps), (long long)decode->steps, decode->eager_sequences);
    verdict_add_hint(finding, VERDICT_HINT_GRAPHS_ENGINE);
    return true;
}

static void hint_launches(const TraceFacts *facts, VerdictFinding *finding)
{
    const bool graphs = facts->rank->launch.graph_launches > 0;

    if (!add_eager_steps(facts, finding))
        verdict_add_hint(finding, graphs ? VERDICT_HINT_GRAPHS_MORE : VERDICT_HINT_GRAPHS);
    if (memory_has_room(facts->rank))
        verdict_add_hint(finding, VERDICT_HINT_BATCH_ROOM);
}

static bool is_compiled(const TraceRank *rank)
{
    return has_name(rank, "CompiledFunction") || has_name(rank, "CompiledFxGraph") ||
           has_name(rank, "Torch-Compiled Region");
}

bool rule_launch_bound(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceLaunch *launch = &facts->rank->launch;
    const ShortKernels kernels = count_short(facts->rank);

    if (!find_idle(facts, finding, TRACE_CAUSE_HOST_BOUND, "GPU idle while the host prepares and launches work: "))
        return false;
    add_operations(&finding->evidence, facts);
    if (launch->call_count > 0)
        str_addf(&finding->evidence, ", a launch call takes %s", TIME_TEXT(launch->call_median_ns));
    if (facts->operations > 0)
        str_addf(&finding->evidence, ", the GPU works %s per operation", TIME_TEXT(facts->busy_ns / facts->operations));
    if (kernels.most) {
        add_short(&finding->evidence, &kernels);
        if (!finding->once && !is_compiled(facts->rank))
            verdict_add_hint(finding, VERDICT_HINT_COMPILE);
    }
    if (finding->once) {
        finding->hints_only = true;
        str_clear(&finding->hints);
        verdict_add_hint(finding, VERDICT_HINT_ONCE);
    } else {
        hint_launches(facts, finding);
    }
    return true;
}

bool rule_short_kernels(const TraceFacts *facts, VerdictFinding *finding)
{
    const ShortKernels kernels = count_short(facts->rank);

    finding->cost_ns = facts->idle_by_cause[TRACE_CAUSE_SHORT];
    if (queue_moves(facts))
        finding->cost_ns += facts->idle_by_cause[TRACE_CAUSE_QUEUED];
    if (finding->cost_ns <= 0 || !kernels.most)
        return false;
    verdict_add_cost(facts, finding, "GPU idle between operations that were launched in time: ");
    add_short(&finding->evidence, &kernels);
    add_operations(&finding->evidence, facts);
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

bool rule_queued(const TraceFacts *facts, VerdictFinding *finding)
{
    TraceIdleCursor cursor = {0};

    finding->cost_ns = facts->idle_by_cause[TRACE_CAUSE_QUEUED];
    if (finding->cost_ns <= 0 || (queue_moves(facts) && count_short(facts->rank).most))
        return false;
    verdict_add_cost(facts, finding, "GPU idle with work launched and not started: ");
    for (const TraceGap *gap; (gap = trace_next_idle(facts->rank, &cursor));) {
        if (gap->cause != TRACE_CAUSE_QUEUED)
            continue;
        str_addf(&finding->evidence, "; the longest gap, %s, before %s", TIME_TEXT(gap->end - gap->start),
                 NAME_TEXT(gap->after));
        break;
    }
    find_once(facts, finding, TRACE_CAUSE_QUEUED);
    if (!finding->once)
        verdict_add_hint(finding, has_streams(facts->rank) ? VERDICT_HINT_QUEUED_STREAMS : VERDICT_HINT_QUEUED_ALONE);
    return true;
}

bool rule_synchronisation(const TraceFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_SYNCHRONISATION, "GPU idle after the host waited for it: "))
        return false;
    add_calls(&finding->evidence, facts, TRACE_HOST_SYNC);
    if (call_has(facts, TRACE_HOST_SYNC, "", "item") || call_has(facts, TRACE_HOST_SYNC, "", "_local_scalar_dense"))
        verdict_add_hint(finding, VERDICT_HINT_SYNC_ITEM);
    if (call_has(facts, TRACE_HOST_SYNC, "", "nonzero") || call_has(facts, TRACE_HOST_SYNC, "", "unique") ||
        call_has(facts, TRACE_HOST_SYNC, "", "masked_select"))
        verdict_add_hint(finding, VERDICT_HINT_SYNC_NONZERO);
    if (call_has(facts, TRACE_HOST_SYNC, "", "copy_"))
        verdict_add_hint(finding, VERDICT_HINT_SYNC_COPY);
    if (call_has(facts, TRACE_HOST_SYNC, "DeviceSynchronize", NULL))
        verdict_add_hint(finding, VERDICT_HINT_SYNC_EXPLICIT);
    return true;
}

bool rule_allocator(const TraceFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_ALLOCATOR, "GPU idle while memory is allocated or freed: "))
        return false;
    add_calls(&finding->evidence, facts, TRACE_HOST_ALLOCATOR);
    if (call_has(facts, TRACE_HOST_ALLOCATOR, "Free", ""))
        verdict_add_hint(finding, VERDICT_HINT_ALLOC_FREE);
    if (call_has(facts, TRACE_HOST_ALLOCATOR, "HostAlloc", "") ||
        call_has(facts, TRACE_HOST_ALLOCATOR, "HostMalloc", ""))
        verdict_add_hint(finding, VERDICT_HINT_ALLOC_HOST);
    return true;
}

static bool goes_over_gloo(const TraceRank *rank)
{
    return rank->devices.len > 0 && has_name(rank, "gloo:");
}

bool rule_collective_wait(const TraceFacts *facts, VerdictFinding *finding)
{
    return !goes_over_gloo(facts->rank) &&
           find_idle(facts, finding, TRACE_CAUSE_COLLECTIVE_WAIT, "GPU idle while the host waits for other ranks: ");
}

bool rule_gloo(const TraceFacts *facts, VerdictFinding *finding)
{
    return goes_over_gloo(facts->rank) &&
           find_idle(facts, finding, TRACE_CAUSE_COLLECTIVE_WAIT, "GPU idle while gloo communicates on the host: ");
}

/* Rules that are one cause of idle time each. */
#define IDLE_RULE(rule, cause, text)                                                                                   \
    bool rule(const TraceFacts *facts, VerdictFinding *finding)                                                        \
    {                                                                                                                  \
        return find_idle(facts, finding, cause, text);                                                                 \
    }

IDLE_RULE(rule_compile, TRACE_CAUSE_COMPILE, "GPU idle while code is compiled: ")
IDLE_RULE(rule_loading, TRACE_CAUSE_LOADING, "GPU idle while code is loaded to it: ")
IDLE_RULE(rule_initialising, TRACE_CAUSE_INITIALISING, "GPU idle while a context or a library is made ready: ")
IDLE_RULE(rule_tokenising, TRACE_CAUSE_TOKENISING, "GPU idle while text is tokenised: ")
IDLE_RULE(rule_collecting, TRACE_CAUSE_COLLECTING, "GPU idle while Python collects garbage: ")
IDLE_RULE(rule_checkpoint, TRACE_CAUSE_CHECKPOINT, "GPU idle while a checkpoint is written or read: ")
IDLE_RULE(rule_logging, TRACE_CAUSE_LOGGING, "GPU idle while something is logged: ")
IDLE_RULE(rule_before_profile, TRACE_CAUSE_BEFORE_PROFILE,
          "GPU idle as far as the profile shows, behind work that was launched before it began: ")
IDLE_RULE(rule_python, TRACE_CAUSE_PYTHON, "GPU idle while Python runs: ")

bool rule_optimizer(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceOptimizer *optimizer = &facts->rank->optimizer;

    finding->cost_ns = facts->optimizer_ns;
    if (finding->cost_ns <= 0)
        return false;
    verdict_add_cost(facts, finding, "the optimizer's many launches: ");
    str_addf(
        &finding->evidence,
        "; %.0f GPU operations per Optimizer.step, each with the time of the shortest kernel (%s) and the idle time "
        "before it (%s in all)",
        (double)optimizer->operations / (double)optimizer->steps, TIME_TEXT(verdict_find_shortest_kernel(facts->rank)),
        TIME_TEXT(facts->optimizer_idle_ns));
    return true;
}

bool rule_decode_gap(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceInference *decode = trace_find_decode(facts->rank);
    size_t said = 0;

    finding->cost_ns = facts->decode_gap_ns;
    if (finding->cost_ns <= 0)
        return false;
    verdict_add_cost(facts, finding, "GPU idle between decode steps while the host prepares the next: ");
    str_addf(&finding->evidence, "; %lld decode steps of %s, %s idle before each", (long long)decode->steps,
             TIME_TEXT(decode->mean_ns), TIME_TEXT(decode->between_mean_ns));
    for (size_t i = 0; i < facts->rank->decode_gaps.len; i++) {
        const TraceDecodeGap *gap = &facts->rank->decode_gaps.at[i];

        if (!gap->name[0])
            continue;
        if (!verdict_begin_name(&finding->evidence, &said, "; in the gaps the host was in "))
            break;
        str_addf(&finding->evidence, "%s (%s in %lld gaps)", NAME_TEXT(gap->name), TIME_TEXT(gap->total_ns),
                 (long long)gap->count);
    }
    add_eager_steps(facts, finding);
    return true;
}

bool rule_idle_unknown(const TraceFacts *facts, VerdictFinding *finding)
{
    const bool recorded = facts->rank->operators.len + facts->rank->calls.len > 0;

    if (!find_idle(facts, finding, TRACE_CAUSE_UNKNOWN, "GPU idle for a reason that the profile does not hold: "))
        return false;
    verdict_add_hint(finding,
                     recorded && !facts->rank->with_stack ? VERDICT_HINT_RECORD_STACK : VERDICT_HINT_RECORD_CPU);
    return true;
}

bool rule_idle_spread(const TraceFacts *facts, VerdictFinding *finding)
{
    const char *separator = "; of it ";

    finding->cost_ns = facts->idle_ns;
    verdict_add_cost(facts, finding, "GPU idle: ");
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++) {
        if (facts->idle_by_cause[i] <= 0)
            continue;
        str_addf(&finding->evidence, "%s%s %s", separator, WORD_TEXT(trace_cause_words[i]),
                 TIME_TEXT(facts->idle_by_cause[i]));
        separator = ", ";
    }
    return facts->idle_ns > 0;
}
