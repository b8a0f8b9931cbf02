/* SPDX-License-Identifier: Apache-2.0 */
/* What got slower between two profiles: kernels and operators, over all ranks, by name; what only one side has is
 * matched once more by its name without template arguments and parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

typedef struct Side {
    int64_t count, total_ns;
} Side;

/* One name and what both profiles have of it. */
typedef struct Row {
    const char *name;
    Side sides[2]; /* before, after */
    bool taken;    /* has become part of a shortened row */
} Row;

typedef struct Table {
    Map numbers; /* name -> 1 + index */
    VEC(Row) rows;
} Table;

static Row *row_for(Table *table, const char *name)
{
    uintptr_t number = (uintptr_t)map_get(&table->numbers, name);
    if (number == 0) {
        vec_push(&table->rows, ((Row){.name = name}));
        number = table->rows.len;
        map_put(&table->numbers, name, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    return &table->rows.at[number - 1];
}

static void add_side(Table *table, const char *name, int side, int64_t count, int64_t total_ns)
{
    Side *sum = &row_for(table, name)->sides[side];
    sum->count = trace_sum(sum->count, count);
    sum->total_ns = trace_sum(sum->total_ns, total_ns);
}

/* ---- names without what a new build changes ---- */

/* The end of the brackets that open at `text`, or the end of the text; "->" closes nothing. */
static const char *skip_brackets(const char *text)
{
    int depth = 0;
    for (; *text; text++) {
        if (*text == '<' || *text == '(')
            depth++;
        else if (*text == ')' || (*text == '>' && text[-1] != '-'))
            depth--;
        if (depth == 0)
            return text + 1;
    }
    return text;
}

static char *shorten_symbol(const char *name, Arena *arena)
{
    static const char unnamed[] = "(anonymous namespace)";
    char *out = arena_strdup(arena, name);
    size_t len = 0;
    if (strncmp(name, "void ", 5) == 0)
        name += 5;
    while (*name) {
        if (strncmp(name, unnamed, sizeof(unnamed) - 1) == 0) {
            memcpy(out + len, name, sizeof(unnamed) - 1);
            len += sizeof(unnamed) - 1;
            name += sizeof(unnamed) - 1;
        } else if (*name == '<' || *name == '(') {
            name = skip_brackets(name);
        } else {
            out[len++] = *name++;
        }
    }
    while (len > 0 && out[len - 1] == ' ')
        len--;
    out[len] = '\0';
    return out;
}

static bool has_side(const Row *row, int side)
{
    return row->sides[side].count > 0;
}

/* What a shortened name stands for: the exact rows of each side. */
typedef struct Short {
    size_t rows[2];
    const char *name;  /* shortened */
    const char *exact; /* of the last row after */
} Short;
typedef VEC(Short) ShortVec;

static Short *short_for(Map *numbers, ShortVec *shorts, const char *name)
{
    uintptr_t number = (uintptr_t)map_get(numbers, name);
    if (number == 0) {
        vec_push(shorts, ((Short){.name = name}));
        number = shorts->len;
        map_put(numbers, name, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    return &shorts->at[number - 1];
}

/* Rows of one side whose shortened names are one row on the other side: under the new name if there is only one,
 * else under the shortened name. */
static void join_renamed(Table *table, Arena *arena)
{
    CLEANUP(map_done) Map numbers;
    ShortVec shorts = {0};
    map_init(&numbers);
    size_t len = table->rows.len;
    CLEANUP_FREE size_t *of = xcalloc(len + 1, sizeof(*of)); /* row -> 1 + index of its short */
    for (size_t i = 0; i < len; i++) {
        const Row *row = &table->rows.at[i];
        if (has_side(row, 0) == has_side(row, 1))
            continue;
        int side = has_side(row, 1);
        const char *name = shorten_symbol(row->name, arena);
        if (*name == '\0')
            continue;
        Short *group = short_for(&numbers, &shorts, name);
        of[i] = (size_t)(group - shorts.at) + 1;
        group->rows[side]++;
        if (side == 1)
            group->exact = row->name;
    }
    CLEANUP_FREE size_t *joined = xcalloc(shorts.len + 1, sizeof(*joined)); /* 1 + index of the new row */
    for (size_t i = 0; i < len; i++) {
        const Short *group = of[i] > 0 ? &shorts.at[of[i] - 1] : NULL;
        if (!group || group->rows[0] == 0 || group->rows[1] == 0)
            continue;
        if (joined[of[i] - 1] == 0) {
            vec_push(&table->rows, ((Row){.name = group->rows[1] == 1 ? group->exact : group->name}));
            joined[of[i] - 1] = table->rows.len;
        }
        Row *row = &table->rows.at[i], *sum = &table->rows.at[joined[of[i] - 1] - 1];
        for (int side = 0; side < 2; side++) {
            sum->sides[side].count = trace_sum(sum->sides[side].count, row->sides[side].count);
            sum->sides[side].total_ns = trace_sum(sum->sides[side].total_ns, row->sides[side].total_ns);
        }
        row->taken = true;
    }
    vec_done(&shorts);
}

/* ---- into the result ---- */

static size_t step_count(const TraceReport *report)
{
    size_t steps = 0;
    for (size_t i = 0; i < report->ranks.len; i++)
        steps += report->ranks.at[i].steps.len;
    return steps;
}

static double time_lost(const TraceDiffRow *row)
{
    return isnan(row->per_step_after_ns) ? (double)row->total_after_ns - (double)row->total_before_ns
                                         : row->per_step_after_ns - row->per_step_before_ns;
}

static int by_loss(const void *a, const void *b)
{
    const TraceDiffRow *x = a, *y = b;
    double x_loss = time_lost(x), y_loss = time_lost(y);
    if (x_loss != y_loss)
        return x_loss > y_loss ? -1 : 1;
    return strcmp(x->name, y->name);
}

static TraceDiffRow diff_row(const Row *row, const size_t *steps, bool per_step, Arena *arena)
{
    TraceDiffRow out = {.name = arena_strdup(arena, row->name),
                        .count_before = row->sides[0].count,
                        .count_after = row->sides[1].count,
                        .total_before_ns = row->sides[0].total_ns,
                        .total_after_ns = row->sides[1].total_ns,
                        .per_step_before_ns = NAN,
                        .per_step_after_ns = NAN};
    if (per_step) {
        out.per_step_before_ns = (double)out.total_before_ns / (double)steps[0];
        out.per_step_after_ns = (double)out.total_after_ns / (double)steps[1];
    }
    return out;
}

static int64_t operators_on_gpu(const TraceReport *report)
{
    int64_t sum = 0;
    for (size_t i = 0; i < report->ranks.len; i++) {
        for (size_t k = 0; k < report->ranks.at[i].operators.len; k++)
            sum = trace_sum(sum, report->ranks.at[i].operators.at[k].device_self_ns);
    }
    return sum;
}

static void sum_times(const TraceReport *report, int64_t *ret_busy, int64_t *ret_idle)
{
    for (size_t i = 0; i < report->ranks.len; i++) {
        for (size_t k = 0; k < report->ranks.at[i].devices.len; k++) {
            *ret_busy = trace_sum(*ret_busy, report->ranks.at[i].devices.at[k].busy_ns);
            *ret_idle = trace_sum(*ret_idle, report->ranks.at[i].devices.at[k].idle_ns);
        }
    }
}

static void add_rank(const TraceRank *rank, int side, bool on_gpu, Table *kernels, Table *operators)
{
    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *kernel = &rank->kernels.at[i];
        add_side(kernels, kernel->name, side, kernel->count, kernel->total_ns);
    }
    for (size_t i = 0; i < rank->operators.len; i++) {
        const TraceOperator *operator= & rank->operators.at[i];
        add_side(operators, operator->name, side, operator->count,
            on_gpu ? operator->device_self_ns : operator->host_self_ns);
    }
}

static void finish_table(Table *table, const size_t *steps, bool per_step, Arena *arena, TraceDiff *ret, bool kernels)
{
    CLEANUP(arena_done) Arena names = {0};
    join_renamed(table, &names);
    for (size_t i = 0; i < table->rows.len; i++) {
        if (table->rows.at[i].taken)
            continue;
        TraceDiffRow row = diff_row(&table->rows.at[i], steps, per_step, arena);
        if (kernels)
            vec_push(&ret->kernels, row);
        else
            vec_push(&ret->operators, row);
    }
    map_done(&table->numbers);
    vec_done(&table->rows);
}

void trace_diff(const TraceReport *before, const TraceReport *after, Arena *arena, TraceDiff *ret)
{
    const TraceReport *reports[] = {before, after};
    size_t steps[] = {step_count(before), step_count(after)};
    bool on_gpu = operators_on_gpu(before) > 0 || operators_on_gpu(after) > 0;
    Table kernels = {0}, operators = {0};
    map_init(&kernels.numbers);
    map_init(&operators.numbers);
    *ret = (TraceDiff){.per_step = steps[0] > 0 && steps[1] > 0};
    ret->step_before_ns = steps[0] > 0 ? before->step_ns : NAN;
    ret->step_after_ns = steps[1] > 0 ? after->step_ns : NAN;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < reports[side]->ranks.len; i++)
            add_rank(&reports[side]->ranks.at[i], side, on_gpu, &kernels, &operators);
    }
    sum_times(before, &ret->busy_before_ns, &ret->idle_before_ns);
    sum_times(after, &ret->busy_after_ns, &ret->idle_after_ns);
    finish_table(&kernels, steps, ret->per_step, arena, ret, true);
    finish_table(&operators, steps, ret->per_step, arena, ret, false);
    if (ret->kernels.len > 1)
        qsort(ret->kernels.at, ret->kernels.len, sizeof(*ret->kernels.at), by_loss);
    if (ret->operators.len > 1)
        qsort(ret->operators.at, ret->operators.len, sizeof(*ret->operators.at), by_loss);
}

void trace_diff_done(TraceDiff *diff)
{
    vec_done(&diff->kernels);
    vec_done(&diff->operators);
}
