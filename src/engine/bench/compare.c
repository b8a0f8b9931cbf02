/* SPDX-License-Identifier: Apache-2.0 */
/* What a value is compared with. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/bench/judge_inside.h"
#include "model/peak.h"

enum { HBM_BITS = 1024, LIMIT_TOLERANCE_PERCENT = 1 };

static const double clock_notice = 3, clock_degraded = 8;   /* per cent */
static const double board_notice = 10, board_degraded = 20; /* against published values and peaks */
static const double rounding = 1e-6;                        /* of what is exactly at a limit */
static const double noise_spreads = 3 * 1.4826;             /* median distances that are three standard deviations */

static const struct {
    const char *word, *also;
    BenchMeasureId id;
    double value;
} published[] = {
#define PUBLISHED(word, also, measure, value, source) {word, also, measure, value},
#include "engine/bench/reference.def"
};

typedef struct ClassRate {
    uint32_t major, minor;
    const char *word;
    double rates[10];
} ClassRate;

static const ClassRate class_rates[] = {
#define CLASS_RATE(major, minor, word, ...) {major, minor, word, {__VA_ARGS__}},
#include "engine/bench/reference.def"
};

/* The place of a measure in a row of CLASS_RATE, and the share that programs reach. */
static const struct {
    BenchMeasureId id;
    size_t place;
    double share;
} class_places[] = {
    {BENCH_FMA_FP32, 0, 0.97},   {BENCH_FMA_FP64, 1, 0.97},  {BENCH_MMA_FP16, 2, 0.97},     {BENCH_MMA_BF16, 2, 0.97},
    {BENCH_MMA_TF32, 3, 0.97},   {BENCH_MMA_INT8, 4, 0.97},  {BENCH_MMA_FP8, 5, 0.97},      {BENCH_MMA_FP64, 6, 0.97},
    {BENCH_WGMMA_BF16, 7, 0.95}, {BENCH_WGMMA_FP8, 8, 0.95}, {BENCH_TCGEN05_BF16, 9, 0.95},
};

/* What of the memory's peak programs reach: stacked memory, and the other kinds. */
static const struct {
    BenchMeasureId id;
    double stacked, other;
} memory_shares[] = {
    {BENCH_MEMORY_WRITE, 0.93, 0.92},
    {BENCH_MEMORY_READ, 0.92, 0.92},
    {BENCH_MEMORY_COPY, 0.87, 0.90},
    {BENCH_MEMORY_TRIAD, 0.87, 0.90},
};

/* --- the board ---------------------------------------------------------------------------------------------------- */

double compare_published(const char *gpu_name, BenchMeasureId id)
{
    for (size_t i = 0; i < ARRAY_LEN(published); i++)
        if (published[i].id == id && peak_has_name(gpu_name, published[i].word, published[i].also))
            return published[i].value;
    return NAN;
}

static const ClassRate *find_class(const BenchDevice *d)
{
    for (size_t i = 0; i < ARRAY_LEN(class_rates); i++)
        if (class_rates[i].major == d->major && class_rates[i].minor == d->minor &&
            strstr(d->name, class_rates[i].word))
            return &class_rates[i];
    return NULL;
}

/* By its clocks and widths, as a part of which is reached. NAN: not known, or a MIG device, which has a part of them.
 */
static double find_peak(const BenchDevice *d, uint32_t column)
{
    const ClassRate *class = find_class(d);
    const double peak_gbs = d->bus_bits / 8.0 * d->memory_clock_mhz * 2 / 1e3;

    if (strncmp(d->uuid, "MIG-", 4) == 0 || column >= BENCH_MEASURE_END)
        return NAN;
    for (size_t i = 0; i < ARRAY_LEN(memory_shares); i++)
        if (memory_shares[i].id == (BenchMeasureId)column && peak_gbs > 0)
            return peak_gbs * (d->bus_bits >= HBM_BITS ? memory_shares[i].stacked : memory_shares[i].other);
    for (size_t i = 0; class && i < ARRAY_LEN(class_places); i++)
        if (class_places[i].id == (BenchMeasureId)column && class->rates[class_places[i].place] > 0)
            return class->rates[class_places[i].place] * class_places[i].share;
    return NAN;
}

/* --- other values ------------------------------------------------------------------------------------------------- */

bool compare_limits(double a_w, double b_w)
{
    if (!(a_w > 0) || !(b_w > 0))
        return true;
    return fabs(a_w - b_w) * 100 <= LIMIT_TOLERANCE_PERCENT * fmax(a_w, b_w);
}

/* The clock follows from the power limit. GDDR keeps the bits of ECC among the data, which costs bandwidth. */
bool compare_settings(uint32_t column, const BenchGpu *a, const BenchGpu *b)
{
    return column == BENCH_CLOCK ? compare_limits(a->limit_w, b->limit_w)
                                 : !bench_uses_memory(column) || a->device.ecc == b->device.ecc;
}

/* Rates of other data are other rates. */
static bool is_same_data(const BenchRun *a, const BenchRun *b)
{
    return !a->data[0] || !b->data[0] || strcmp(a->data, b->data) == 0;
}

static size_t gather_history(const Judge *j, uint32_t column, uint32_t gpu, double ret[BENCH_HISTORY_MAX])
{
    const BenchGpu *own = &j->run->gpus.at[gpu];
    size_t count = 0;

    for (size_t r = 0; r < j->refs->history_count && own->device.uuid[0]; r++) {
        const BenchRun *run = j->refs->history[r];

        for (size_t i = 0; i < run->gpus.len && i < j->history[r].gpu_count && is_same_data(j->run, run); i++)
            if (count < BENCH_HISTORY_MAX && strcmp(run->gpus.at[i].device.uuid, own->device.uuid) == 0 &&
                j->history[r].at[i][column] > 0 && compare_settings(column, own, &run->gpus.at[i])) {
                ret[count++] = j->history[r].at[i][column];
                break;
            }
    }
    return count;
}

static size_t gather_peers(const Judge *j, uint32_t column, uint32_t gpu, double ret[BENCH_GPUS_MAX])
{
    size_t count = 0;

    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (i != gpu && judge_same_model(j, i, gpu) && j->values.at[i][column] > 0 &&
            compare_settings(column, &j->run->gpus.at[gpu], &j->run->gpus.at[i]))
            ret[count++] = j->values.at[i][column];
    return count;
}

static size_t add_comparison(BenchBasis basis, uint32_t column, double value, double *values, size_t count,
                             BenchComparison *ret)
{
    *ret = (BenchComparison){.basis = basis, .count = (uint32_t)count, .value = value};
    ret->reference = bench_median(values, count, &ret->spread_percent);
    ret->behind_percent = bench_behind(column, value, ret->reference);
    return 1;
}

static size_t add_fleet(const Judge *j, uint32_t column, uint32_t gpu, double value, BenchComparison *ret)
{
    const BenchGpu *g = &j->run->gpus.at[gpu];
    const BenchFleetRow *row = j->refs->fleet ? bench_fleet_find(j->refs->fleet, g, column) : NULL;

    if (!row || row->nodes < BENCH_NODES_MIN)
        return 0;
    *ret = (BenchComparison){.basis = BENCH_BY_FLEET,
                             .count = row->nodes,
                             .value = value,
                             .reference = row->median,
                             .spread_percent = row->spread_percent,
                             .behind_percent = bench_behind(column, value, row->median)};
    return 1;
}

static size_t add_board(const Judge *j, uint32_t column, uint32_t gpu, double value, BenchComparison *ret)
{
    const BenchDevice *d = &j->run->gpus.at[gpu].device;
    const bool whole = strncmp(d->uuid, "MIG-", 4) != 0;
    double known = column < BENCH_MEASURE_END && whole ? compare_published(d->name, (BenchMeasureId)column) : NAN;
    const BenchBasis basis = isfinite(known) ? BENCH_BY_PUBLISHED : BENCH_BY_PEAK;

    known = isfinite(known) ? known : find_peak(d, column);
    if (!isfinite(known))
        return 0;
    *ret = (BenchComparison){.basis = basis,
                             .count = 1,
                             .value = value,
                             .reference = known,
                             .spread_percent = NAN,
                             .behind_percent = bench_behind(column, value, known)};
    return 1;
}

size_t compare_all(const Judge *j, uint32_t column, uint32_t gpu, BenchComparison ret[BENCH_BASIS_END])
{
    const double value = j->values.at[gpu][column];
    double earlier[BENCH_HISTORY_MAX], others[BENCH_GPUS_MAX];
    size_t count = 0;

    if (!(value > 0))
        return 0;
    const size_t history = gather_history(j, column, gpu, earlier), peers = gather_peers(j, column, gpu, others);
    if (history >= BENCH_HISTORY_MIN)
        count += add_comparison(BENCH_BY_HISTORY, column, value, earlier, history, &ret[count]);
    if (peers >= BENCH_PEERS_MIN)
        count += add_comparison(BENCH_BY_PEERS, column, value, others, peers, &ret[count]);
    count += add_fleet(j, column, gpu, value, &ret[count]);
    count += add_board(j, column, gpu, value, &ret[count]);
    return count;
}

/* --- what a comparison says --------------------------------------------------------------------------------------- */

static bool find_step(double behind, double notice, double degraded, double fault, BenchSeverity *ret)
{
    if (notice <= 0 || behind + rounding < notice)
        return false;
    *ret = fault > 0 && behind + rounding >= fault         ? BENCH_FAULT
           : degraded > 0 && behind + rounding >= degraded ? BENCH_DEGRADED
                                                           : BENCH_NOTICE;
    return true;
}

bool compare_limit(uint32_t column, const BenchComparison *c, bool closer, BenchSeverity *ret)
{
    const BenchMeasureRow *row = column < BENCH_MEASURE_END ? &bench_measures[column] : NULL;

    if (c->basis == BENCH_BY_PUBLISHED || c->basis == BENCH_BY_PEAK)
        return find_step(c->behind_percent, closer ? board_degraded : board_notice, board_degraded, 0, ret);
    if (c->spread_percent > 0 && c->behind_percent <= noise_spreads * c->spread_percent)
        return false;
    return row ? find_step(c->behind_percent, row->notice, row->degraded, row->fault, ret)
               : find_step(c->behind_percent, clock_notice, clock_degraded, 0, ret);
}

bool compare_worst(const Judge *j, uint32_t column, uint32_t gpu, BenchComparison *ret, BenchSeverity *ret_severity)
{
    BenchComparison all[BENCH_BASIS_END];
    const size_t count = compare_all(j, column, gpu, all);
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        BenchSeverity severity;

        if (!compare_limit(column, &all[i], i > 0, &severity) || (found && severity <= *ret_severity))
            continue;
        *ret = all[i];
        *ret_severity = severity;
        found = true;
    }
    return found;
}

void compare_set(BenchFinding *f, const BenchComparison *c)
{
    f->basis = c->basis;
    f->count = c->count;
    f->value = c->value;
    f->reference = c->reference;
    f->spread_percent = c->spread_percent;
    f->behind_percent = c->behind_percent;
}

void compare_say(const Judge *j, BenchFinding *f, uint32_t gpu, const BenchComparison *c, const char *unit)
{
    const bool more = f->measure < BENCH_MEASURE_END && bench_measures[f->measure].less_is_better;
    char model[BENCH_NAME_CAP], reference[BENCH_NAME_CAP];

    bench_model(j->run->gpus.at[gpu].device.name, model);
    bench_number(c->reference, reference);
    if (c->basis == BENCH_BY_PUBLISHED || c->basis == BENCH_BY_PEAK) {
        judge_say(f, "%.0f %% of what is usual for this board (%s %s, %s)", 100 - c->behind_percent, reference, unit,
                  c->basis == BENCH_BY_PUBLISHED ? "as published" : "by its clocks and widths");
        return;
    }
    judge_say(f, "%.*f %% %s ", c->behind_percent < 9.95, c->behind_percent, more ? "more than" : "behind");
    if (c->basis == BENCH_BY_HISTORY)
        judge_say(f, "its own %" PRIu32 " earlier runs", c->count);
    else if (c->basis == BENCH_BY_PEERS)
        judge_say(f, "the %" PRIu32 " other %.40s of this node", c->count, model);
    else
        judge_say(f, "the %.40s of %" PRIu32 " nodes", model, c->count);
    judge_say(f, " (median %s, MAD %.2f %%)", reference, c->spread_percent);
}
