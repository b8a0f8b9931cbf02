/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of verdict.def: what each measures and says. Each cause of idle time is the cost of one rule at a time, so
 * that all together cost no more than the idle. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "engine/trace/tables.h"
#include "engine/trace/verdict.h"

/* ---- texts ---- */

enum { NAME_BYTES_MAX = 80, NAME_ROOM = NAME_BYTES_MAX + sizeof "..." };

/* Texts that live as long as the block they stand in: "12.3 ms", "4.50 GiB", and a name, shortened. */
#define TIME_TEXT(ns) human_ns((char[HUMAN_MAX]){0}, (double)(ns), false)
#define BYTES_TEXT(bytes) human_bytes((char[HUMAN_MAX]){0}, (double)(bytes))
#define NAME_TEXT(name) shorten_name((char[NAME_ROOM]){0}, (name))

static const char *shorten_name(char out[NAME_ROOM], const char *name)
{
    size_t len = strlen(name);

    if (len <= NAME_BYTES_MAX)
        return name;
    for (len = NAME_BYTES_MAX; len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80; len--)
        ;
    snprintf(out, NAME_ROOM, "%.*s...", (int)len, name);
    return out;
}

static double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* A hint goes to the advice. */
static void add_hint(VerdictFinding *finding, VerdictHint hint)
{
    static const char *const texts[VERDICT_HINT_COUNT] = {
#define HINT(NAME, text) [VERDICT_HINT_##NAME] = text,
#include "engine/trace/verdict.def"
    };

    str_addf(&finding->advice, " %s", texts[hint]);
}

/* `what` and "69.3 ms of a step of 188 ms (36.9 %)". */
static void add_time(const TraceFacts *facts, VerdictFinding *finding, const char *what, double ns)
{
    str_addf(&finding->evidence, "%s%s of %s%s (%.1f %%)", what, TIME_TEXT(ns), facts->steps > 0 ? "a step of " : "",
             TIME_TEXT(facts->step_ns), percent_of(ns, facts->step_ns));
}

static void add_cost(const TraceFacts *facts, VerdictFinding *finding, const char *what)
{
    add_time(facts, finding, what, finding->cost_ns);
}

/* Begins the next name of a list. False: there are enough. */
static bool begin_name(Str *out, size_t *said, const char *first)
{
    if ((double)*said >= verdict_limits.NAMED)
        return false;
    str_add(out, (*said)++ == 0 ? first : ", ");
    return true;
}

/* Times by name, the largest first. */
typedef struct NameTime {
    const char *name;
    int64_t ns, count;
} NameTime;

static int by_time(const void *a, const void *b)
{
    const NameTime *x = a, *y = b;
    const int64_t keys[][2] = {{y->ns, x->ns}, {strcmp(x->name, y->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static bool is_judged_step(const TraceFacts *facts, int32_t step)
{
    return facts->steps == 0 || (step >= 0 && (size_t)step >= facts->first_step);
}

/* Where the host was in the gaps of that cause in judged steps; nothing where no gap has a name. */
static void add_gaps(Str *out, const TraceFacts *facts, TraceCause cause)
{
    CLEANUP(map_done) Map rows;
    VEC(NameTime) names = {0};
    size_t said = 0;

    map_init(&rows);
    for (size_t i = 0; i < facts->rank->gaps.len; i++) {
        const TraceGap *gap = &facts->rank->gaps.at[i];

        if (gap->cause != cause || !*gap->host || !is_judged_step(facts, gap->step))
            continue;
        const size_t row = trace_number_of(&rows, gap->host);

        if (row == names.len)
            vec_push(&names, ((NameTime){.name = gap->host}));
        names.at[row].ns = trace_sum(names.at[row].ns, gap->host_ns);
        names.at[row].count++;
    }
    vec_sort(&names, by_time);
    for (size_t i = 0; i < names.len && begin_name(out, &said, "; in the gaps the host was in "); i++)
        str_addf(out, "%s (%s in %lld gap%s)", NAME_TEXT(names.at[i].name), TIME_TEXT(names.at[i].ns),
                 (long long)names.at[i].count, names.at[i].count == 1 ? "" : "s");
    vec_done(&names);
}

/* ---- idle: each cause ---- */

/* The cost of an idle cause and where the host was. */
static bool find_idle(const TraceFacts *facts, VerdictFinding *finding, TraceCause cause, const char *what)
{
    finding->cost_ns = facts->idle_by_cause[cause];
    if (finding->cost_ns <= 0)
        return false;
    add_cost(facts, finding, what);
    add_gaps(&finding->evidence, facts, cause);
    return true;
}

static int64_t judged_calls(const TraceFacts *facts, const TraceCall *call)
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

        if (call->class != class || judged_calls(facts, call) == 0)
            continue;
        if (!begin_name(out, &said, "; calls: "))
            return;
        str_addf(out, "%s%s%s%s%s (%lld, %s)", NAME_TEXT(call->name), *call->inner ? " in " : "",
                 NAME_TEXT(call->inner), same ? "" : " of ", same ? "" : NAME_TEXT(call->outer),
                 (long long)judged_calls(facts, call), TIME_TEXT(facts->steps > 0 ? call->step_ns : call->total_ns));
    }
}

/* Whether a judged call of the class has `name` in its name, and in an operator around it `operator_part` (NULL: there
 * is no operator around it; "": no matter). */
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
    for (size_t i = 0; i < rank->operators.len; i++)
        if (strstr(rank->operators.at[i].name, part))
            return true;
    for (size_t i = 0; i < rank->annotations.len; i++)
        if (strstr(rank->annotations.at[i].name, part))
            return true;
    for (size_t i = 0; i < rank->gaps.len; i++)
        if (strstr(rank->gaps.at[i].host, part))
            return true;
    return false;
}

/* The peak of a device whose own totals and capacity are recorded, -1 otherwise. */
static int64_t memory_peak(const TraceMemoryDevice *memory)
{
    if (memory->device < 0 || memory->capacity_bytes <= 0 || !memory->totals)
        return -1;
    return memory->peak_reserved >= 0 ? memory->peak_reserved : memory->peak_allocated;
}

static bool memory_has_room(const TraceRank *rank)
{
    bool known = false;

    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &rank->memory.at[i];

        if ((double)memory_peak(memory) > verdict_limits.MEMORY_ROOM * (double)memory->capacity_bytes)
            return false;
        known |= memory_peak(memory) >= 0;
    }
    return known;
}

/* Whether an optimizer step launches tensor by tensor. */
static bool optimizer_is_slow(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->annotations.len; i++) {
        const TraceAnnotation *row = &rank->annotations.at[i];

        if (!row->on_gpu && row->count > 0 && strncmp(row->name, "Optimizer.step", strlen("Optimizer.step")) == 0 &&
            (double)row->operation_count > verdict_limits.OPTIMIZER_OPERATIONS * (double)row->count)
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

bool rule_data_loading(const TraceFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_DATA_LOADING, "GPU idle while input is loaded: "))
        return false;
    if (has_name(facts->rank, "_SingleProcessDataLoaderIter"))
        add_hint(finding, VERDICT_HINT_LOADER_SINGLE);
    else if (has_name(facts->rank, "_MultiProcessingDataLoaderIter"))
        add_hint(finding, VERDICT_HINT_LOADER_WORKERS);
    else
        add_hint(finding, VERDICT_HINT_LOADER_ANY);
    if (pageable_to_device(facts->rank))
        add_hint(finding, VERDICT_HINT_LOADER_PIN);
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
             percent_of((double)found->count, (double)found->all));
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

static void hint_launches(const TraceFacts *facts, VerdictFinding *finding)
{
    add_hint(finding, facts->rank->launch.graph_launches > 0 ? VERDICT_HINT_GRAPHS_MORE : VERDICT_HINT_GRAPHS);
    if (optimizer_is_slow(facts->rank))
        add_hint(finding, VERDICT_HINT_FOREACH);
    if (memory_has_room(facts->rank))
        add_hint(finding, VERDICT_HINT_BATCH_ROOM);
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
        if (!is_compiled(facts->rank))
            add_hint(finding, VERDICT_HINT_COMPILE);
    }
    hint_launches(facts, finding);
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
    add_cost(facts, finding, "GPU idle between operations that were launched in time: ");
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
    finding->cost_ns = facts->idle_by_cause[TRACE_CAUSE_QUEUED];
    if (finding->cost_ns <= 0 || (queue_moves(facts) && count_short(facts->rank).most))
        return false;
    add_cost(facts, finding, "GPU idle with work launched and not started: ");
    for (size_t i = 0; i < facts->rank->gaps.len; i++) {
        const TraceGap *gap = &facts->rank->gaps.at[i];

        if (gap->cause != TRACE_CAUSE_QUEUED)
            continue;
        str_addf(&finding->evidence, "; the longest gap, %s, before %s", TIME_TEXT(gap->end - gap->start),
                 NAME_TEXT(gap->after));
        break;
    }
    add_hint(finding, has_streams(facts->rank) ? VERDICT_HINT_QUEUED_STREAMS : VERDICT_HINT_QUEUED_ALONE);
    return true;
}

bool rule_synchronisation(const TraceFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_SYNCHRONISATION, "GPU idle after the host waited for it: "))
        return false;
    add_calls(&finding->evidence, facts, TRACE_HOST_SYNC);
    if (call_has(facts, TRACE_HOST_SYNC, "", "item") || call_has(facts, TRACE_HOST_SYNC, "", "_local_scalar_dense"))
        add_hint(finding, VERDICT_HINT_SYNC_ITEM);
    if (call_has(facts, TRACE_HOST_SYNC, "", "nonzero") || call_has(facts, TRACE_HOST_SYNC, "", "unique") ||
        call_has(facts, TRACE_HOST_SYNC, "", "masked_select"))
        add_hint(finding, VERDICT_HINT_SYNC_NONZERO);
    if (call_has(facts, TRACE_HOST_SYNC, "", "copy_"))
        add_hint(finding, VERDICT_HINT_SYNC_COPY);
    if (call_has(facts, TRACE_HOST_SYNC, "DeviceSynchronize", NULL))
        add_hint(finding, VERDICT_HINT_SYNC_EXPLICIT);
    return true;
}

bool rule_allocator(const TraceFacts *facts, VerdictFinding *finding)
{
    if (!find_idle(facts, finding, TRACE_CAUSE_ALLOCATOR, "GPU idle while memory is allocated or freed: "))
        return false;
    add_calls(&finding->evidence, facts, TRACE_HOST_ALLOCATOR);
    if (call_has(facts, TRACE_HOST_ALLOCATOR, "Free", ""))
        add_hint(finding, VERDICT_HINT_ALLOC_FREE);
    if (call_has(facts, TRACE_HOST_ALLOCATOR, "HostAlloc", "") ||
        call_has(facts, TRACE_HOST_ALLOCATOR, "HostMalloc", ""))
        add_hint(finding, VERDICT_HINT_ALLOC_HOST);
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

bool rule_compile(const TraceFacts *facts, VerdictFinding *finding)
{
    return find_idle(facts, finding, TRACE_CAUSE_COMPILE, "GPU idle while code is compiled or loaded: ");
}

bool rule_python(const TraceFacts *facts, VerdictFinding *finding)
{
    return find_idle(facts, finding, TRACE_CAUSE_PYTHON, "GPU idle while Python runs: ");
}

bool rule_idle_unknown(const TraceFacts *facts, VerdictFinding *finding)
{
    const bool recorded = facts->rank->operators.len + facts->rank->calls.len > 0;

    if (!find_idle(facts, finding, TRACE_CAUSE_UNKNOWN, "GPU idle for a reason that the profile does not hold: "))
        return false;
    add_hint(finding, recorded && !facts->rank->with_stack ? VERDICT_HINT_RECORD_STACK : VERDICT_HINT_RECORD_CPU);
    return true;
}

bool rule_idle_spread(const TraceFacts *facts, VerdictFinding *finding)
{
    const char *separator = "; of it ";

    finding->cost_ns = facts->idle_ns;
    add_cost(facts, finding, "GPU idle: ");
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++) {
        if (facts->idle_by_cause[i] <= 0)
            continue;
        str_addf(&finding->evidence, "%s%s %s", separator, trace_cause_words[i], TIME_TEXT(facts->idle_by_cause[i]));
        separator = ", ";
    }
    return facts->idle_ns > 0;
}

/* ---- what computes: types, shapes, and how full the GPU is ---- */

/* The share of a step of work that takes `ns` of all compute time. */
static double of_compute(const TraceFacts *facts, double ns)
{
    return facts->whole_compute_ns > 0 ? facts->compute_ns * fmin(1, ns / facts->whole_compute_ns) : 0;
}

static bool name_has_any(const char *name, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

static bool has_tensor_cores(const TraceRank *rank)
{
    static const char *const nvidia[] = {"V100", "T4",   "A100", "A10",  "A30",  "A40",  "A800", "L4",     "L20",
                                         "L40",  "H100", "H20",  "H800", "B200", "B300", "RTX",  "TITAN V"};
    static const char *const amd[] = {"MI100", "MI2", "MI3"};
    const TraceDevice *device;

    if (rank->devices.len == 0)
        return false;
    device = &rank->devices.at[0];
    if (rank->rocm)
        return name_has_any(device->name, amd, ARRAY_LEN(amd));
    if (strstr(device->name, "GTX 16")) /* Turing without tensor cores */
        return false;
    return device->major < 0 ? name_has_any(device->name, nvidia, ARRAY_LEN(nvidia)) : device->major >= 7;
}

typedef struct Matrices {
    double float_ns, tensor_ns;
    bool by_operator;
} Matrices;

/* Matrix work by operators where kernels could be joined to them, else by the kernels' names. */
static Matrices matrix_work(const TraceRank *rank)
{
    Matrices work = {0};

    for (size_t i = 0; i < rank->operators.len; i++) {
        const TraceOperator *row = &rank->operators.at[i];

        work.by_operator |= row->matrix && row->device_self_ns > 0;
        work.float_ns += row->matrix ? (double)row->float_ns : 0;
        work.tensor_ns += row->matrix ? (double)row->tensor_core_ns : 0;
    }
    if (work.by_operator)
        return work;
    for (size_t i = 0; i < rank->kernels.len; i++) {
        work.float_ns += rank->kernels.at[i].float_matrix ? (double)rank->kernels.at[i].total_ns : 0;
        work.tensor_ns += rank->kernels.at[i].tensor_core ? (double)rank->kernels.at[i].total_ns : 0;
    }
    return work;
}

/* Operators are in the order of their GPU time, kernels too. */
static void add_float_names(Str *out, const TraceRank *rank, bool by_operator)
{
    const TraceOperator *operators = rank->operators.at;
    const TraceKernel *kernels = rank->kernels.at;
    size_t said = 0;

    for (size_t i = 0; i < (by_operator ? rank->operators.len : rank->kernels.len); i++) {
        if (by_operator ? !operators[i].matrix || operators[i].float_ns <= 0 : !kernels[i].float_matrix)
            continue;
        if (!begin_name(out, &said, "; most in "))
            return;
        str_addf(out, "%s (%s)", NAME_TEXT(by_operator ? operators[i].name : kernels[i].name),
                 TIME_TEXT(by_operator ? operators[i].float_ns : kernels[i].total_ns));
    }
}

bool rule_mixed_precision(const TraceFacts *facts, VerdictFinding *finding)
{
    const Matrices work = matrix_work(facts->rank);
    const TraceDevice *device = facts->rank->devices.at;

    if (work.float_ns <= 0 || !has_tensor_cores(facts->rank) ||
        work.tensor_ns > verdict_limits.TENSOR_CORE_IDLE * (work.tensor_ns + work.float_ns))
        return false;
    finding->cost_ns = of_compute(facts, work.float_ns);
    add_cost(facts, finding, "matrix work in 32-bit float without tensor cores: ");
    add_float_names(&finding->evidence, facts->rank, work.by_operator);
    str_addf(&finding->evidence, "; on tensor cores %s", TIME_TEXT(work.tensor_ns));
    if (*device->name)
        str_addf(&finding->evidence, "; %s has them", device->name);
    if (!facts->rank->rocm && device->major == 7) {
        add_hint(finding, VERDICT_HINT_FLOAT16);
    } else {
        add_hint(finding, VERDICT_HINT_BFLOAT16);
        if (!facts->rank->rocm && device->major >= 8)
            add_hint(finding, VERDICT_HINT_TF32);
    }
    return finding->cost_ns > 0;
}

bool rule_misaligned(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceOperator *worst = NULL;
    int64_t count = 0, shaped = 0;
    double ns = 0;

    for (size_t i = 0; i < facts->rank->operators.len; i++) {
        const TraceOperator *row = &facts->rank->operators.at[i];

        if (row->misaligned_count < 0 || row->device_self_ns <= 0)
            continue;
        shaped += row->shaped_count;
        count += row->misaligned_count;
        ns += (double)row->misaligned_ns;
        if (row->misaligned_ns > 0 && (!worst || row->misaligned_ns > worst->misaligned_ns))
            worst = row;
    }
    if (!worst || !has_tensor_cores(facts->rank))
        return false;
    finding->cost_ns = of_compute(facts, ns);
    str_addf(&finding->evidence,
             "%lld of %lld matrix operators have dimensions that do not suit tensor cores: ", (long long)count,
             (long long)shaped);
    add_cost(facts, finding, "");
    str_addf(&finding->evidence, "; most in %s %s", NAME_TEXT(worst->name), NAME_TEXT(worst->misaligned_dims));
    return finding->cost_ns > 0;
}

static double empty_ns(const TraceKernel *kernel)
{
    const bool few_blocks = kernel->class == TRACE_COMPUTE && kernel->sm_efficiency < 1; /* false for NaN */

    return few_blocks ? (double)kernel->blocks_ns * (1 - kernel->sm_efficiency) : 0;
}

/* Enough blocks, few warps, and no matrix kernel: those do well with few. */
static double starved_ns(const TraceKernel *kernel)
{
    const bool starved = kernel->class == TRACE_COMPUTE && !kernel->tensor_core && !kernel->float_matrix &&
                         kernel->occupancy_percent < verdict_limits.OCCUPANCY_LOW && kernel->blocks_per_sm >= 1;

    return starved ? (double)kernel->occupancy_ns * (1 - kernel->occupancy_percent / 100) : 0;
}

static void describe_blocks(Str *out, const TraceKernel *kernel)
{
    str_addf(out, "%.2f blocks per multiprocessor", kernel->blocks_per_sm);
}

static void describe_warps(Str *out, const TraceKernel *kernel)
{
    str_addf(out, "occupancy %.0f %%", kernel->occupancy_percent);
    if (kernel->registers > 0)
        str_addf(out, ", %lld registers", (long long)kernel->registers);
}

/* Kernels that leave a part of the GPU unused: how much of a kernel's time (0: it does not), and how. */
static bool find_slack(const TraceFacts *facts, VerdictFinding *finding, const char *what,
                       double (*kernel_lost_ns)(const TraceKernel *kernel),
                       void (*describe)(Str *out, const TraceKernel *kernel))
{
    const TraceRank *rank = facts->rank;
    double lost_ns = 0;
    size_t said = 0;

    for (size_t i = 0; i < rank->kernels.len; i++)
        lost_ns += kernel_lost_ns(&rank->kernels.at[i]);
    if (lost_ns <= 0 || facts->busy_ns < verdict_limits.SM_BUSY_SHARE * facts->step_ns)
        return false;
    finding->cost_ns = of_compute(facts, lost_ns);
    add_cost(facts, finding, what);
    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *kernel = &rank->kernels.at[i];

        if (kernel_lost_ns(kernel) <= 0)
            continue;
        if (!begin_name(&finding->evidence, &said, "; "))
            break;
        str_addf(&finding->evidence, "%s (", NAME_TEXT(kernel->name));
        describe(&finding->evidence, kernel);
        str_addf(&finding->evidence, ", %s)", TIME_TEXT(kernel->total_ns));
    }
    return true;
}

bool rule_low_sm_efficiency(const TraceFacts *facts, VerdictFinding *finding)
{
    return find_slack(facts, finding, "multiprocessors without a block while kernels run: ", empty_ns, describe_blocks);
}

bool rule_low_occupancy(const TraceFacts *facts, VerdictFinding *finding)
{
    return find_slack(facts, finding, "kernels with few warps: ", starved_ns, describe_warps);
}

/* ---- copies: exposed time by what would help ---- */

typedef struct CopyParts {
    double pageable, small, rest; /* shares of the exposed copy time; 0 without copies */
    bool has_pageable;            /* some that are not small */
    bool many_small;
    const TraceCopy *largest; /* of the rest */
    int64_t small_count, pageable_bytes;
    double pageable_ns, small_ns;
    double blocked_ns; /* idle while the host was in a blocking copy: belongs to the kind of copy that blocks */
} CopyParts;

static bool is_copy_of(const TraceCopy *copy, const char *kind)
{
    return strcmp(copy->kind, kind) == 0;
}

static void add_copy(CopyParts *parts, const TraceCopy *copy)
{
    const bool to_or_from_host = is_copy_of(copy, "HtoD") || is_copy_of(copy, "DtoH");
    const bool pageable = strcmp(copy->source, "pageable") == 0 || strcmp(copy->target, "pageable") == 0;
    const double exposed = copy->exposed_ns > 0 ? (double)copy->exposed_ns : 0;
    const double small = to_or_from_host && copy->total_ns > 0 ? (double)copy->small_ns / (double)copy->total_ns : 0;

    parts->small += small * exposed;
    if (to_or_from_host) {
        parts->small_count += copy->small_count;
        parts->small_ns += (double)copy->small_ns;
    }
    if (to_or_from_host && pageable && copy->count > copy->small_count) {
        parts->has_pageable = true;
        parts->pageable += (1 - small) * exposed;
        parts->pageable_bytes += copy->bytes;
        parts->pageable_ns += (double)copy->total_ns;
        return;
    }
    parts->rest += (1 - small) * exposed;
    if (!parts->largest || copy->exposed_ns > parts->largest->exposed_ns)
        parts->largest = copy;
}

static double step_count(const TraceRank *rank)
{
    return rank->steps.len > 0 ? (double)rank->steps.len : 1;
}

static CopyParts copy_parts(const TraceFacts *facts)
{
    CopyParts parts = {.blocked_ns = facts->idle_by_cause[TRACE_CAUSE_COPY]};
    double all;

    for (size_t i = 0; i < facts->rank->copies.len; i++)
        add_copy(&parts, &facts->rank->copies.at[i]);
    all = parts.pageable + parts.small + parts.rest;
    if (all > 0) {
        parts.pageable /= all;
        parts.small /= all;
        parts.rest /= all;
    }
    parts.many_small = (double)parts.small_count >= verdict_limits.SMALL_COPIES_PER_STEP * step_count(facts->rank);
    return parts;
}

/* A share of the exposed copy time, and what is idle behind copies that block where this kind does. */
static bool find_copies(const TraceFacts *facts, VerdictFinding *finding, const char *what, double share,
                        double blocked_ns)
{
    finding->cost_ns = facts->exposed_copy_ns * share + blocked_ns;
    add_cost(facts, finding, what);
    if (blocked_ns > 0) {
        str_addf(&finding->evidence, ", of it idle while the host was in a copy %s", TIME_TEXT(blocked_ns));
        add_gaps(&finding->evidence, facts, TRACE_CAUSE_COPY);
    }
    return finding->cost_ns > 0;
}

bool rule_pageable_copy(const TraceFacts *facts, VerdictFinding *finding)
{
    const CopyParts parts = copy_parts(facts);

    if (!parts.has_pageable ||
        !find_copies(facts, finding, "pageable copies keep the GPU from computing: ", parts.pageable, parts.blocked_ns))
        return false;
    str_addf(&finding->evidence, "; in all %s", BYTES_TEXT(parts.pageable_bytes));
    if (parts.pageable_ns > 0)
        str_addf(&finding->evidence, " at %.1f GB/s", (double)parts.pageable_bytes / parts.pageable_ns);
    return true;
}

bool rule_small_copies(const TraceFacts *facts, VerdictFinding *finding)
{
    const CopyParts parts = copy_parts(facts);

    if (!parts.many_small || !find_copies(facts, finding, "small copies between host and device: ", parts.small,
                                          parts.has_pageable ? 0 : parts.blocked_ns))
        return false;
    str_addf(&finding->evidence, "; %lld under 64 KiB", (long long)parts.small_count);
    if (facts->rank->steps.len > 0)
        str_addf(&finding->evidence, " in %zu steps", facts->rank->steps.len);
    str_addf(&finding->evidence, ", %s", TIME_TEXT(parts.small_ns));
    return true;
}

bool rule_exposed_copy(const TraceFacts *facts, VerdictFinding *finding)
{
    static const struct {
        const char *kind;
        VerdictHint hint;
    } hints[] = {{"HtoD", VERDICT_HINT_COPY_HTOD},
                 {"DtoH", VERDICT_HINT_COPY_DTOH},
                 {"DtoD", VERDICT_HINT_COPY_DTOD},
                 {"set", VERDICT_HINT_COPY_SET}};
    const CopyParts parts = copy_parts(facts);
    const TraceCopy *most = parts.largest;
    const bool blocks = !parts.has_pageable && !parts.many_small;

    if (!most ||
        !find_copies(facts, finding, "copies while nothing computes: ", parts.rest, blocks ? parts.blocked_ns : 0))
        return false;
    str_addf(&finding->evidence, "; most in %s: %lld, %s", most->kind, (long long)most->count, BYTES_TEXT(most->bytes));
    if (!isnan(most->bandwidth_gbs))
        str_addf(&finding->evidence, " at %.1f GB/s", most->bandwidth_gbs);
    for (size_t i = 0; i < ARRAY_LEN(hints); i++)
        if (is_copy_of(most, hints[i].kind))
            add_hint(finding, hints[i].hint);
    return true;
}

/* ---- communication ---- */

/* Without sizes: many and short ones. */
static bool many_short(const TraceRank *rank)
{
    double count = 0, ns = 0;

    for (size_t i = 0; i < rank->kernels.len; i++) {
        if (rank->kernels.at[i].class != TRACE_COMMUNICATION)
            continue;
        count += (double)rank->kernels.at[i].count;
        ns += (double)rank->kernels.at[i].total_ns;
    }
    return count > verdict_limits.MANY_COLLECTIVES * step_count(rank) &&
           ns < verdict_limits.SHORT_COLLECTIVE_NS * count;
}

static bool mostly_small(const TraceRank *rank)
{
    size_t known = 0, small = 0;

    for (size_t i = 0; i < rank->collectives.len; i++) {
        int64_t bytes = rank->collectives.at[i].in_bytes;

        known += bytes > 0;
        small += bytes > 0 && (double)bytes < verdict_limits.SMALL_COLLECTIVE_BYTES;
    }
    return known > 0 ? (double)small > verdict_limits.SMALL_COLLECTIVE_SHARE * (double)known : many_short(rank);
}

static bool is_late(const TraceReport *report)
{
    return report->straggler.rank >= 0 && report->ranks.len > 1 &&
           report->straggler.confidence >= verdict_limits.STRAGGLER_CONFIDENCE;
}

bool rule_exposed_communication(const TraceFacts *facts, VerdictFinding *finding)
{
    const double all_ns = facts->communication_ns, exposed_ns = facts->exposed_communication_ns;
    size_t said = 0;

    finding->cost_ns = exposed_ns;
    if (finding->cost_ns <= 0)
        return false;
    add_cost(facts, finding, "communication while nothing computes: ");
    str_addf(&finding->evidence, "; %.1f %% of %s overlaps", percent_of(all_ns - exposed_ns, all_ns),
             TIME_TEXT(all_ns));
    for (size_t i = 0; i < facts->rank->kernels.len; i++) {
        const TraceKernel *kernel = &facts->rank->kernels.at[i];

        if (kernel->class != TRACE_COMMUNICATION)
            continue;
        if (!begin_name(&finding->evidence, &said, "; most in "))
            break;
        str_addf(&finding->evidence, "%s (%lld, %s)", NAME_TEXT(kernel->name), (long long)kernel->count,
                 TIME_TEXT(kernel->total_ns));
    }
    if (is_late(facts->report))
        add_hint(finding, VERDICT_HINT_COMM_STRAGGLER);
    else if (facts->report->ranks.len == 1)
        add_hint(finding, VERDICT_HINT_COMM_RANKS);
    if (mostly_small(facts->rank))
        add_hint(finding, VERDICT_HINT_COMM_BUCKETS);
    if (exposed_ns >= all_ns)
        add_hint(finding, VERDICT_HINT_COMM_NO_OVERLAP);
    add_hint(finding, VERDICT_HINT_COMM_LESS);
    return true;
}

/* Link speed of the rank's first device by name, GB/s; 0 unknown. */
static double link_speed(const TraceRank *rank)
{
    static const struct {
        const char *part;
        double gbs;
    } links[] = {
#define LINK(device, gbs) {device, gbs},
#include "engine/trace/verdict.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(links) && rank->devices.len > 0; i++)
        if (strstr(rank->devices.at[0].name, links[i].part))
            return links[i].gbs;
    return 0;
}

static bool on_one_host(const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        if (!*report->ranks.at[i].host || strcmp(report->ranks.at[i].host, report->ranks.at[0].host) != 0)
            return false;
    return report->ranks.len > 1;
}

/* All ranks of one host are given, and the GPU's links are known: only then can a bandwidth be called low. */
bool rule_low_bus_bandwidth(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceReport *report = facts->report;
    double link = link_speed(facts->rank), slow_ns = 0, could_ns = 0;
    const TraceCollectiveSum *worst = NULL;

    if (link <= 0 || facts->whole_communication_ns <= 0 || !on_one_host(report))
        return false;
    for (size_t i = 0; i < report->collectives.len; i++) {
        const TraceCollectiveSum *sum = &report->collectives.at[i];

        if (sum->group_size != (int64_t)report->ranks.len || sum->matched == 0 || isnan(sum->bus_gbs) ||
            (double)sum->bytes < verdict_limits.BUS_BYTES || sum->bus_gbs >= verdict_limits.BUS_SHARE * link)
            continue;
        slow_ns += (double)sum->best_ns * (double)sum->matched;
        could_ns += (double)sum->best_ns * (double)sum->matched * sum->bus_gbs / link;
        if (!worst || sum->total_ns > worst->total_ns)
            worst = sum;
    }
    if (!worst)
        return false;
    finding->cost_ns = facts->exposed_communication_ns *
                       fmin(1, slow_ns * (double)facts->rank->devices.len / facts->whole_communication_ns);
    finding->gain = 1 - could_ns / slow_ns;
    add_cost(facts, finding, "slow collectives exposed: ");
    str_addf(&finding->evidence,
             "; %s of %s over %lld ranks of one host reaches %.1f GB/s of bus bandwidth; %s has links of %.0f GB/s",
             worst->name, BYTES_TEXT(worst->bytes), (long long)worst->group_size, worst->bus_gbs,
             facts->rank->devices.at[0].name, link);
    return finding->cost_ns > 0;
}

/* What waiting for others can cost on the GPUs' own time: exposed communication, and idle in host waits. Mean over
 * the ranks that wait; `facts` is the first of all ranks'. */
static double waiting_ns(const TraceFacts *facts, int64_t late_rank)
{
    const TraceReport *report = facts->report;
    double ns = 0, ranks = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        if (report->ranks.at[i].rank == late_rank)
            continue;
        ns += facts[i].exposed_communication_ns + facts[i].idle_by_cause[TRACE_CAUSE_COLLECTIVE_WAIT];
        ranks++;
    }
    return ranks > 0 ? ns / ranks : 0;
}

bool rule_straggler(const TraceFacts *facts, VerdictFinding *finding)
{
    static const struct {
        const char *cause;
        VerdictHint hint;
    } hints[] = {{"computes_late", VERDICT_HINT_LATE_COMPUTE},
                 {"host_late", VERDICT_HINT_LATE_HOST},
                 {"copies_late", VERDICT_HINT_LATE_COPY},
                 {"unknown", VERDICT_HINT_LATE_UNKNOWN}};
    const TraceStraggler *straggler = &facts->report->straggler;

    if (!is_late(facts->report))
        return false;
    finding->rank = straggler->rank;
    finding->cost_ns = fmin(straggler->percent_of_step / 100 * facts->step_ns, waiting_ns(facts, straggler->rank));
    str_addf(&finding->evidence, "rank %lld comes %s late to each collective (%s), last in %.0f %% of %lld; ",
             (long long)straggler->rank, TIME_TEXT(straggler->late_ns), straggler->cause, 100 * straggler->share,
             (long long)straggler->matched);
    add_cost(facts, finding, "the others wait with nothing to compute ");
    for (size_t i = 0; i < ARRAY_LEN(hints); i++)
        if (strcmp(hints[i].cause, straggler->cause) == 0)
            add_hint(finding, hints[i].hint);
    return finding->cost_ns > 0;
}

/* ---- without a cost of their own: what to know, and what to do about it ---- */

bool rule_memory_full(const TraceFacts *facts, VerdictFinding *finding)
{
    for (size_t i = 0; i < facts->rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &facts->rank->memory.at[i];
        const double peak = (double)memory_peak(memory), capacity = (double)memory->capacity_bytes;

        if (peak < 0 || peak < verdict_limits.MEMORY_FULL * capacity)
            continue;
        str_addf(&finding->evidence, "device %d: peak %s %s of %s (%.1f %%)", memory->device, BYTES_TEXT(peak),
                 memory->peak_reserved >= 0 ? "reserved" : "allocated", BYTES_TEXT(capacity),
                 percent_of(peak, capacity));
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
        str_addf(&finding->evidence, "%s%s: %llu", separator, profile_loss_words[reason],
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
    add_time(facts, finding, "GPU busy ", facts->busy_ns);
    str_addf(&finding->evidence, ", computing %.1f %%", percent_of(facts->compute_ns, facts->step_ns));
    for (size_t i = 0; i < rank->kernels.len && begin_name(&finding->evidence, &said, "; most in "); i++)
        str_addf(&finding->evidence, "%s (%.1f %% of kernel time)", NAME_TEXT(rank->kernels.at[i].name),
                 percent_of((double)rank->kernels.at[i].total_ns, facts->whole_kernel_ns));
    return true;
}
