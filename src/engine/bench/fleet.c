/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

/* The median of one node's GPUs of a model. */
typedef struct Entry {
    const char *model;
    uint32_t column, limit_w, gpus;
    double value;
} Entry;

typedef VEC(Entry) EntryVec;

static uint32_t round_limit(double limit_w)
{
    return limit_w > 0 && limit_w < 1e6 ? (uint32_t)lround(limit_w) : 0;
}

bool bench_fleet_is_old(const BenchRun *const *runs, size_t count, size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (k != i && runs[i]->node[0] && strcmp(runs[k]->node, runs[i]->node) == 0 &&
            (runs[k]->real_ns > runs[i]->real_ns || (runs[k]->real_ns == runs[i]->real_ns && k > i)))
            return true;
    return false;
}

/* The GPU belongs to the entry that the GPU `first` begins. */
static bool is_alike(const BenchRun *run, size_t first, size_t gpu, unsigned column)
{
    const BenchGpu *a = &run->gpus.at[first], *b = &run->gpus.at[gpu];

    return strcmp(a->device.name, b->device.name) == 0 &&
           (column != BENCH_CLOCK || round_limit(a->limit_w) == round_limit(b->limit_w));
}

static void add_entry(const BenchRun *run, const BenchTable *table, size_t first, unsigned column, EntryVec *entries)
{
    double values[BENCH_GPUS_MAX];
    uint32_t count = 0;

    for (size_t i = 0; i < first; i++)
        if (is_alike(run, first, i, column))
            return; /* it was that GPU's */
    for (size_t i = first; i < table->gpu_count && count < BENCH_GPUS_MAX; i++)
        if (is_alike(run, first, i, column) && table->at[i][column] > 0)
            values[count++] = table->at[i][column];
    if (count > 0)
        vec_push(entries, ((Entry){.model = run->gpus.at[first].device.name,
                                   .column = column,
                                   .limit_w = column == BENCH_CLOCK ? round_limit(run->gpus.at[first].limit_w) : 0,
                                   .gpus = count,
                                   .value = bench_median(values, count, NULL)}));
}

static int compare_entries(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    const int model = strcmp(x->model, y->model);

    if (model != 0)
        return model;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (x->limit_w > y->limit_w) - (x->limit_w < y->limit_w);
}

static void add_row(const Entry *entries, size_t count, BenchFleet *fleet)
{
    CLEANUP_FREE double *values = xcalloc(count, sizeof *values);
    BenchFleetRow *row = vec_add(&fleet->rows);

    snprintf(row->model, sizeof row->model, "%s", entries->model);
    row->column = entries->column;
    row->limit_w = entries->limit_w;
    row->nodes = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        values[i] = entries[i].value;
        row->gpus += entries[i].gpus;
    }
    row->median = bench_median(values, count, &row->spread_percent);
    row->least = values[0];
    row->most = values[count - 1];
}

void bench_fleet_make(const BenchRun *const *runs, size_t count, BenchFleet *ret)
{
    EntryVec entries = {0};
    size_t first = 0;

    *ret = (BenchFleet){0};
    for (size_t i = 0; i < count; i++) {
        if (bench_fleet_is_old(runs, count, i))
            continue;
        BenchTable table = bench_table_make(runs[i]);
        for (size_t gpu = 0; gpu < table.gpu_count; gpu++)
            for (unsigned column = 0; column < BENCH_COLUMNS; column++)
                add_entry(runs[i], &table, gpu, column, &entries);
        free(table.at);
    }
    vec_sort(&entries, compare_entries);
    for (size_t i = 1; i <= entries.len; i++) {
        if (i < entries.len && compare_entries(&entries.at[first], &entries.at[i]) == 0)
            continue;
        add_row(&entries.at[first], i - first, ret);
        first = i;
    }
    vec_done(&entries);
}

void bench_fleet_done(BenchFleet *fleet)
{
    vec_done(&fleet->rows);
}

const BenchFleetRow *bench_fleet_find(const BenchFleet *fleet, const char *model, unsigned column, double limit_w)
{
    const uint32_t limit = column == BENCH_CLOCK ? round_limit(limit_w) : 0;

    for (size_t i = 0; i < fleet->rows.len; i++) {
        const BenchFleetRow *row = &fleet->rows.at[i];

        if (row->column == column && row->limit_w == limit && strcmp(row->model, model) == 0)
            return row;
    }
    return NULL;
}
