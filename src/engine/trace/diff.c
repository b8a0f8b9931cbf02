/* SPDX-License-Identifier: Apache-2.0 */
/* What got slower between two profiles: kernels and operators, over all ranks, by name; what only one side has is
 * matched once more by its name without template arguments and parameters, then by what it does: a kernel by the
 * operator and shapes that launch it, an operator within a module by its module's own name. */
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/analyse.h"
#include "engine/trace/tables.h"

typedef struct Side {
    int64_t count, total_ns;
} Side;

/* One name and what both profiles have of it. */
typedef struct Row {
    const char *name;
    const char *exact[2]; /* of a sum of rows: the last name before and after */
    const char *does;     /* what else it is known by, NULL nothing */
    Side sides[2];        /* before, after */
    size_t parts[2];      /* what was added up */
    size_t shortened;     /* 1 + number of the shortened row that it is part of, 0 none */
    size_t moved;         /* the same of the row of what it does */
} Row;

typedef struct Table {
    Map numbers; /* of names */
    VEC(Row) rows;
} Table;

static void table_done(Table *table)
{
    map_done(&table->numbers);
    vec_done(&table->rows);
}

static Row *add_side(Table *table, const char *name, int side, const Side *more)
{
    const size_t number = trace_number_of(&table->numbers, name);
    if (number == table->rows.len)
        vec_push(&table->rows, ((Row){.name = name}));
    Row *row = &table->rows.at[number];
    row->sides[side].count = trace_sum(row->sides[side].count, more->count);
    row->sides[side].total_ns = trace_sum(row->sides[side].total_ns, more->total_ns);
    row->parts[side]++;
    return row;
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

/* Adds up what only one side has by its shortened name. */
static void find_renamed(Table *table, Table *shorts, Arena *names)
{
    for (size_t i = 0; i < table->rows.len; i++) {
        Row *row = &table->rows.at[i];
        const int side = row->sides[1].count > 0;
        if (row->sides[!side].count > 0 || row->sides[side].count <= 0)
            continue;
        const char *name = shorten_symbol(row->name, names);
        if (*name == '\0')
            continue;
        Row *sum = add_side(shorts, name, side, &row->sides[side]);
        sum->exact[side] = row->name;
        row->shortened = (size_t)(sum - shorts->rows.at) + 1;
    }
}

static bool is_renamed(const Table *shorts, const Row *row)
{
    const Row *sum = row->shortened ? &shorts->rows.at[row->shortened - 1] : NULL;

    return sum && sum->parts[0] > 0 && sum->parts[1] > 0;
}

/* Adds up by what it does what is still of one side. */
static void find_moved(Table *table, const Table *shorts, Table *moves)
{
    for (size_t i = 0; i < table->rows.len; i++) {
        Row *row = &table->rows.at[i];
        const int side = row->sides[1].count > 0;

        if (!row->does || is_renamed(shorts, row) || row->sides[!side].count > 0 || row->sides[side].count <= 0)
            continue;
        Row *sum = add_side(moves, row->does, side, &row->sides[side]);

        sum->exact[side] = row->name;
        row->moved = (size_t)(sum - moves->rows.at) + 1;
    }
}

/* One on each side: nothing else can be meant. */
static bool is_moved(const Table *moves, const Row *row)
{
    const Row *sum = row->moved ? &moves->rows.at[row->moved - 1] : NULL;

    return sum && sum->parts[0] == 1 && sum->parts[1] == 1;
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

static void push_row(TraceDiffRows *rows, const char *name, const char *was, const Row *row, const size_t *steps,
                     Arena *arena)
{
    const bool per_step = steps[0] > 0 && steps[1] > 0;
    TraceDiffRow out = {.name = arena_strdup(arena, name),
                        .was = strcmp(was, name) == 0 ? "" : arena_strdup(arena, was),
                        .count_before = row->sides[0].count,
                        .count_after = row->sides[1].count,
                        .total_before_ns = row->sides[0].total_ns,
                        .total_after_ns = row->sides[1].total_ns};
    out.per_step_before_ns = per_step ? (double)out.total_before_ns / (double)steps[0] : NAN;
    out.per_step_after_ns = per_step ? (double)out.total_after_ns / (double)steps[1] : NAN;
    vec_push(rows, out);
}

/* Rows of one side whose shortened names are one row on the other side: under the new name if there is only one, else
 * under the shortened name. Of the rest, rows that alone do the same on their sides are one under the new name. All
 * others as they are. */
static void push_rows(Table *table, const size_t *steps, Arena *arena, TraceDiffRows *rows)
{
    CLEANUP(arena_done) Arena names = {0};
    CLEANUP(table_done) Table shorts = {0};
    CLEANUP(table_done) Table moves = {0};
    map_init(&shorts.numbers);
    map_init(&moves.numbers);
    find_renamed(table, &shorts, &names);
    find_moved(table, &shorts, &moves);
    for (size_t i = 0; i < table->rows.len; i++) {
        const Row *row = &table->rows.at[i];
        if (!is_renamed(&shorts, row) && !is_moved(&moves, row))
            push_row(rows, row->name, row->name, row, steps, arena);
    }
    for (size_t i = 0; i < shorts.rows.len; i++) {
        const Row *row = &shorts.rows.at[i];
        const char *name = row->parts[1] == 1 ? row->exact[1] : row->name;
        if (row->parts[0] > 0 && row->parts[1] > 0)
            push_row(rows, name, row->parts[0] == 1 && row->parts[1] == 1 ? row->exact[0] : name, row, steps, arena);
    }
    for (size_t i = 0; i < moves.rows.len; i++) {
        const Row *row = &moves.rows.at[i];
        if (row->parts[0] == 1 && row->parts[1] == 1)
            push_row(rows, row->exact[1], row->exact[0], row, steps, arena);
    }
    vec_sort(rows, by_loss);
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

/* What a rank's kernels do: the operator and shapes that launch most of their time; origins come by time. */
static void learn_launchers(const TraceRank *rank, Table *kernels, Arena *names)
{
    for (size_t i = 0; i < rank->origins.len; i++) {
        const TraceOrigin *origin = &rank->origins.at[i];
        const uintptr_t number = (uintptr_t)map_get(&kernels->numbers, origin->kernel);

        if (number && origin->op[0] && !kernels->rows.at[number - 1].does)
            kernels->rows.at[number - 1].does = arena_printf(names, "%s %s", origin->op, origin->dims);
    }
}

/* The path's last two modules: wrappers around a model change what is before them. */
static const char *end_of_path(const char *path)
{
    const char *end = path;
    size_t slashes = 0;

    for (const char *at = path + strlen(path); at > path && slashes < 2; at--)
        if (at[-1] == '/' && ++slashes == 2)
            end = at;
    return end;
}

static void add_modules(const TraceRank *rank, int side, Table *modules, Arena *names)
{
    for (size_t i = 0; i < rank->origins.len; i++) {
        const TraceOrigin *origin = &rank->origins.at[i];
        const char *op = origin->op[0] ? origin->op : origin->kernel;

        if (!origin->module[0])
            continue;
        Row *row = add_side(modules, arena_printf(names, "%s: %s", origin->module, op), side,
                            &(Side){origin->count, origin->total_ns});
        if (!row->does)
            row->does = arena_printf(names, "%s: %s", end_of_path(origin->module), op);
    }
}

typedef struct Tables {
    Table kernels, operators, modules;
    Arena names;
} Tables;

static void add_rank(const TraceRank *rank, int side, bool on_gpu, Tables *tables)
{
    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *kernel = &rank->kernels.at[i];
        add_side(&tables->kernels, kernel->name, side, &(Side){kernel->count, kernel->total_ns});
    }
    for (size_t i = 0; i < rank->operators.len; i++) {
        const TraceOperator *row = &rank->operators.at[i];
        add_side(&tables->operators, row->name, side,
                 &(Side){row->count, on_gpu ? row->device_self_ns : row->host_self_ns});
    }
    learn_launchers(rank, &tables->kernels, &tables->names);
    add_modules(rank, side, &tables->modules, &tables->names);
}

static void tables_done(Tables *tables)
{
    table_done(&tables->kernels);
    table_done(&tables->operators);
    table_done(&tables->modules);
    arena_done(&tables->names);
}

void trace_diff(const TraceReport *before, const TraceReport *after, Arena *arena, TraceDiff *ret)
{
    const TraceReport *reports[] = {before, after};
    const size_t steps[] = {step_count(before), step_count(after)};
    const bool on_gpu = operators_on_gpu(before) > 0 || operators_on_gpu(after) > 0;
    CLEANUP(tables_done) Tables tables = {0};
    map_init(&tables.kernels.numbers);
    map_init(&tables.operators.numbers);
    map_init(&tables.modules.numbers);
    *ret = (TraceDiff){.per_step = steps[0] > 0 && steps[1] > 0};
    ret->step_before_ns = steps[0] > 0 ? before->step_ns : NAN;
    ret->step_after_ns = steps[1] > 0 ? after->step_ns : NAN;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < reports[side]->ranks.len; i++)
            add_rank(&reports[side]->ranks.at[i], side, on_gpu, &tables);
    }
    sum_times(before, &ret->busy_before_ns, &ret->idle_before_ns);
    sum_times(after, &ret->busy_after_ns, &ret->idle_after_ns);
    push_rows(&tables.kernels, steps, arena, &ret->kernels);
    push_rows(&tables.operators, steps, arena, &ret->operators);
    push_rows(&tables.modules, steps, arena, &ret->modules);
}

void trace_diff_done(TraceDiff *diff)
{
    vec_done(&diff->kernels);
    vec_done(&diff->operators);
    vec_done(&diff->modules);
}
