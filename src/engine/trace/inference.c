/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inference: steps by kind, what they compute per second, how long the GPU waits for the next step, and how much of it
 * was launched by graphs. A GPU operation belongs to the step in whose window its launch began. Between two steps lies
 * the idle time behind which the next step's first kernel, or a copy or set before that one, runs.
 */
#include "engine/trace/inference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/trace/analyse.h"
#include "engine/trace/select.h"
#include "engine/trace/tables.h"

const char *const trace_step_words[TRACE_STEP_KIND_COUNT] = {
    [TRACE_STEP_OTHER] = "",
    [TRACE_STEP_PREFILL] = "prefill",
    [TRACE_STEP_DECODE] = "decode",
    [TRACE_STEP_MIXED] = "mixed",
};

/* ---- names ---- */

enum { DIGITS_MAX = 9 };

/* By the letters of inference.def; -1: the name has none. */
enum { PROMPTS, PROMPT_TOKENS, DECODES, DECODE_TOKENS, SEQUENCES, NUMBER_COUNT };
static const char letters[] = "PpGgB";

static const struct Form {
    const char *name;
    TraceStepKind kind;
} forms[] = {
#define FORM(text, of) {.name = (text), .kind = TRACE_STEP_##of},
#include "engine/trace/inference.def"
};

static bool read_number(const char **name, int64_t *ret)
{
    const size_t digits = strspn(*name, "0123456789");

    if (digits == 0 || digits > DIGITS_MAX)
        return false;
    *ret = strtoll(*name, NULL, 10);
    *name += digits;
    return true;
}

static bool fits_form(const char *form, const char *name, int64_t numbers[NUMBER_COUNT])
{
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        numbers[i] = -1;
    for (; *form; form++) {
        const char *letter;
        int64_t number;

        if (*form != '%') {
            if (*name++ != *form)
                return false;
        } else if (*++form == '*') {
            name += strcspn(name, (char[]){form[1], '\0'});
        } else if (!read_number(&name, &number)) {
            return false;
        } else if ((letter = strchr(letters, *form))) {
            numbers[letter - letters] = number;
        }
    }
    return *name == '\0';
}

/* Tokens of the sequences of one sort: as the name says, else so many for each (0: not known). */
static int64_t count_tokens(int64_t sequences, int64_t tokens, int64_t each)
{
    if (sequences <= 0)
        return 0;
    return tokens >= 0 ? tokens : each > 0 ? sequences * each : -1;
}

static bool make_batch(TraceStepKind kind, const int64_t *numbers, TraceBatch *ret)
{
    const int64_t prompts = trace_larger(numbers[PROMPTS], 0), decodes = trace_larger(numbers[DECODES], 0);
    const int64_t prompt_tokens = count_tokens(prompts, numbers[PROMPT_TOKENS], 0);
    const TraceStepKind counted = prompts && decodes ? TRACE_STEP_MIXED
                                  : prompts          ? TRACE_STEP_PREFILL
                                                     : TRACE_STEP_DECODE;

    *ret = (TraceBatch){.kind = kind, .sequences = numbers[SEQUENCES], .tokens = -1};
    if (kind != TRACE_STEP_OTHER)
        return ret->sequences > 0;
    ret->kind = counted;
    ret->sequences = prompts + decodes;
    if (prompt_tokens >= 0)
        ret->tokens = prompt_tokens + count_tokens(decodes, numbers[DECODE_TOKENS], 1);
    return ret->sequences > 0;
}

bool trace_read_batch(const char *name, TraceBatch *ret)
{
    int64_t numbers[NUMBER_COUNT];

    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (fits_form(forms[i].name, name, numbers))
            return make_batch(forms[i].kind, numbers, ret);
    return false;
}

/* ---- the GPU's work of each step ---- */

typedef struct StepWork {
    int64_t gpu_ns, graph_ns;    /* sums over the operations that it launched; of these, by graphs */
    int64_t between_ns, between; /* idle time between the step before and it, on so many devices */
    size_t begun;                /* the last device, from 1, on which one of its kernels ran */
} StepWork;

/* Where an idle time between two steps ends. */
typedef struct Border {
    int64_t device, end;
} Border;

typedef struct Walk {
    const TraceJob *job;
    TraceRank *rank;
    StepWork *work;     /* by step */
    VEC(Border) decode; /* of decode steps, by device and end */
} Walk;

/* Whether the step before is of the same kind. */
static bool follows_alike(const TraceRank *rank, size_t step)
{
    return step > 0 && rank->steps.at[step].batch.kind == rank->steps.at[step - 1].batch.kind;
}

/* The device was idle from `end` on (INT64_MIN: nothing ran before). */
static void add_operation(Walk *walk, size_t nth, size_t row, size_t step, int64_t end)
{
    const TraceIndex *index = walk->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;
    StepWork *work = &walk->work[step];

    work->gpu_ns = trace_sum(work->gpu_ns, gpu->duration[row]);
    if (index->graph_name[index->profile->host.name[index->launch[row]]])
        work->graph_ns = trace_sum(work->graph_ns, gpu->duration[row]);
    if (work->begun == nth + 1 || !follows_alike(walk->rank, step))
        return;
    if (end != INT64_MIN && gpu->start[row] > end) {
        work->between_ns = trace_sum(work->between_ns, gpu->start[row] - end);
        if (walk->rank->steps.at[step].batch.kind == TRACE_STEP_DECODE)
            vec_push(&walk->decode, ((Border){index->devices.at[nth], gpu->start[row]}));
    }
    if (gpu->kind[row] == PROFILE_KERNEL) {
        work->begun = nth + 1;
        work->between++;
    }
}

static void walk_device(Walk *walk, size_t nth)
{
    const TraceIndex *index = walk->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;
    int64_t end = INT64_MIN;

    for (size_t row = index->device_first.at[nth]; row < index->device_first.at[nth + 1]; row++) {
        const int32_t step =
            index->launch[row] == PROFILE_NONE ? -1 : trace_step_at(walk->rank, trace_launch_start(index, row));

        if (step >= 0)
            add_operation(walk, nth, row, (size_t)step, end);
        end = trace_larger(end, profile_end(gpu, row));
    }
}

/* ---- what the host did between decode steps ---- */

static int by_border(const void *a_, const void *b_)
{
    const Border *a = a_, *b = b_;
    const int64_t keys[][2] = {{a->device, b->device}, {a->end, b->end}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static int by_time(const void *a_, const void *b_)
{
    const TraceDecodeGap *a = a_, *b = b_;
    const int64_t keys[][2] = {{b->total_ns, a->total_ns}, {strcmp(a->name, b->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* Marks the gaps between decode steps, and sums them by where the host was most of the time. */
static void name_gaps(Walk *walk)
{
    TraceRank *rank = walk->rank;
    CLEANUP(map_done) Map rows;

    map_init(&rows);
    for (size_t i = 0; i < rank->gaps.len && walk->decode.len > 0; i++) {
        TraceGap *gap = &rank->gaps.at[i];
        const Border border = {gap->device, gap->end};

        gap->between = bsearch(&border, walk->decode.at, walk->decode.len, sizeof(border), by_border);
        if (!gap->between)
            continue;
        const size_t row = trace_number_of(&rows, gap->host);

        if (row == rank->decode_gaps.len)
            vec_push(&rank->decode_gaps, ((TraceDecodeGap){.name = gap->host}));
        rank->decode_gaps.at[row].count++;
        rank->decode_gaps.at[row].total_ns = trace_sum(rank->decode_gaps.at[row].total_ns, gap->end - gap->start);
    }
    vec_sort(&rank->decode_gaps, by_time);
}

/* ---- a row per kind ---- */

/* What a kind's row is made of. */
typedef struct KindSum {
    TraceInference row;
    int64_t sequences, timed_tokens, timed_sequences;
    VEC(int64_t) times;
} KindSum;

static int64_t add_tokens(int64_t sum, int64_t tokens)
{
    return sum < 0 || tokens < 0 ? -1 : sum + tokens;
}

static void add_batch(KindSum *sum, const TraceBatch *batch)
{
    TraceInference *row = &sum->row;

    row->sequences_min = row->steps ? trace_smaller(row->sequences_min, batch->sequences) : batch->sequences;
    row->sequences_max = trace_larger(row->sequences_max, batch->sequences);
    row->tokens = add_tokens(row->tokens, batch->tokens);
    sum->sequences += batch->sequences;
    row->steps++;
}

static void add_window(KindSum *sum, const TraceStepRow *step)
{
    sum->timed_tokens = add_tokens(sum->timed_tokens, step->batch.tokens);
    sum->timed_sequences += step->batch.sequences;
    sum->row.total_ns = trace_sum(sum->row.total_ns, step->to - step->start);
    vec_push(&sum->times, step->to - step->start);
}

static void add_work(TraceInference *row, const TraceStepRow *step, const StepWork *work)
{
    for (size_t i = 0; i < step->devices.len; i++)
        row->idle_ns = trace_sum(row->idle_ns, step->devices.at[i].idle_ns);
    row->gpu_ns = trace_sum(row->gpu_ns, work->gpu_ns);
    row->graph_ns = trace_sum(row->graph_ns, work->graph_ns);
    row->graph_steps += work->graph_ns > 0;
    row->between_ns = trace_sum(row->between_ns, work->between_ns);
    row->between_count += work->between;
}

static double divide_known(double part, double whole)
{
    return whole > 0 && part >= 0 ? part / whole : NAN;
}

static void find_means(KindSum *sum)
{
    TraceInference *row = &sum->row;
    const bool one_each = row->kind == TRACE_STEP_DECODE && sum->timed_tokens == sum->timed_sequences;

    row->timed = (int64_t)sum->times.len;
    row->mean_ns = divide_known((double)row->total_ns, (double)row->timed);
    row->median_ns = trace_median(sum->times.at, sum->times.len);
    row->p99_ns = trace_percentile(sum->times.at, sum->times.len, 99);
    row->mean_sequences = divide_known((double)sum->sequences, (double)row->steps);
    row->tokens_per_second = divide_known(1e9 * (double)sum->timed_tokens, (double)row->total_ns);
    row->token_ns = one_each ? row->mean_ns : NAN;
    row->between_mean_ns = divide_known((double)row->between_ns, (double)row->between_count);
    row->graph_percent = divide_known(100 * (double)row->graph_ns, (double)row->gpu_ns);
}

/* The numbers of sequences of steps that ran without a graph, ascending: "3, 7". */
static const char *list_eager(const TraceJob *job, const TraceRank *rank, const StepWork *work, TraceStepKind kind)
{
    enum { LISTED = 8 };
    VEC(int64_t) sizes = {0};
    size_t listed = 0, different = 0;
    CLEANUP(str_done) Str text = str_limited(512);

    for (size_t i = 0; i < rank->steps.len; i++)
        if (rank->steps.at[i].batch.kind == kind && work[i].gpu_ns > 0 && work[i].graph_ns == 0)
            vec_push(&sizes, rank->steps.at[i].batch.sequences);
    vec_sort(&sizes, trace_by_number);
    for (size_t i = 0; i < sizes.len; i++) {
        if (i > 0 && sizes.at[i] == sizes.at[i - 1])
            continue;
        if (different++ < LISTED)
            str_addf(&text, "%s%lld", listed++ ? ", " : "", (long long)sizes.at[i]);
    }
    if (different > listed)
        str_addf(&text, " and %zu more", different - listed);
    vec_done(&sizes);
    return arena_strdup(job->arena, text.text);
}

static void add_kind(const Walk *walk, TraceStepKind kind)
{
    TraceRank *rank = walk->rank;
    KindSum sum = {.row.kind = kind};

    for (size_t i = 0; i < rank->steps.len; i++) {
        const TraceStepRow *step = &rank->steps.at[i];

        if (step->batch.kind != kind)
            continue;
        add_batch(&sum, &step->batch);
        add_work(&sum.row, step, &walk->work[i]);
        if (i + 1 < rank->steps.len)
            add_window(&sum, step);
    }
    if (sum.row.steps > 0) {
        find_means(&sum);
        sum.row.eager_sequences = list_eager(walk->job, rank, walk->work, kind);
        vec_push(&rank->inference, sum.row);
    }
    vec_done(&sum.times);
}

void trace_inference(const TraceJob *job, TraceRank *rank)
{
    Walk walk = {.job = job, .rank = rank};

    if (rank->steps.len == 0 || rank->steps.at[0].batch.kind == TRACE_STEP_OTHER)
        return;
    walk.work = xcalloc(rank->steps.len, sizeof(*walk.work));
    for (size_t nth = 0; nth < job->index->devices.len; nth++)
        walk_device(&walk, nth);
    name_gaps(&walk);
    for (TraceStepKind kind = TRACE_STEP_PREFILL; kind < TRACE_STEP_KIND_COUNT; kind++)
        add_kind(&walk, kind);
    vec_done(&walk.decode);
    free(walk.work);
}

const TraceInference *trace_find_decode(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->inference.len; i++)
        if (rank->inference.at[i].kind == TRACE_STEP_DECODE)
            return &rank->inference.at[i];
    return NULL;
}
