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
    uint32_t column, limit_w;
    bool without_ecc;
    uint32_t gpus;
    double value;
} Entry;

typedef VEC(Entry) EntryVec;

/* Where the value of a GPU belongs. */
static Entry make_entry(const BenchGpu *gpu, uint32_t column)
{
    return (Entry){
        .model = gpu->device.name,
        .column = column,
        .limit_w = column == BENCH_CLOCK && gpu->limit_w > 0 && gpu->limit_w < 1e6 ? (uint32_t)lround(gpu->limit_w) : 0,
        .without_ecc = bench_uses_memory(column) && !gpu->device.ecc};
}

static int compare_entries(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    const int model = strcmp(x->model, y->model);

    if (model != 0)
        return model;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    if (x->limit_w != y->limit_w)
        return x->limit_w < y->limit_w ? -1 : 1;
    return x->without_ecc - y->without_ecc;
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
    const Entry a = make_entry(&run->gpus.at[first], column), b = make_entry(&run->gpus.at[gpu], column);

    return compare_entries(&a, &b) == 0;
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
    if (count == 0)
        return;
    Entry *entry = vec_add(entries);
    *entry = make_entry(&run->gpus.at[first], column);
    entry->gpus = count;
    entry->value = bench_median(values, count, NULL);
}

static void add_row(const Entry *entries, size_t count, BenchFleet *fleet)
{
    CLEANUP_FREE double *values = xcalloc(count, sizeof *values);
    BenchFleetRow *row = vec_add(&fleet->rows);

    snprintf(row->model, sizeof row->model, "%s", entries->model);
    row->column = entries->column;
    row->limit_w = entries->limit_w;
    row->without_ecc = entries->without_ecc;
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

const BenchFleetRow *bench_fleet_find(const BenchFleet *fleet, const BenchGpu *gpu, unsigned column)
{
    const Entry wanted = make_entry(gpu, column);

    for (size_t i = 0; i < fleet->rows.len; i++) {
        const BenchFleetRow *row = &fleet->rows.at[i];
        const Entry found = {
            .model = row->model, .column = row->column, .limit_w = row->limit_w, .without_ecc = row->without_ecc};

        if (compare_entries(&found, &wanted) == 0)
            return row;
    }
    return NULL;
}
