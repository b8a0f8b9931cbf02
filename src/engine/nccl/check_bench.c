/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from nccl-tests: damage, zeros, the curve over sizes, and runs against each other. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/nccl/job.h"

/* Bus bandwidth against the smaller run: below these it is told. From one node to several the network takes over from
 * NVLink, so more may be lost. */
static const double scaling_low = 0.8, scaling_low_to_net = 0.5;
/* A dip: this part of the lower neighbour; on curves that have reached 1 GB/s. */
static const double dip_low = 0.6, dip_from_gbs = 1;

/* The better half of a row: in place and out of place differ by chance. */
static double bus_of(const NcclRow *row)
{
    return isnan(row->out.bus_gbs) || row->in.bus_gbs > row->out.bus_gbs ? row->in.bus_gbs : row->out.bus_gbs;
}

static void find_peak(NcclBench *b)
{
    b->peak_gbs = NAN;
    for (size_t i = 0; i < b->rows.len; i++) {
        double bus = bus_of(&b->rows.at[i]);
        if (!isnan(bus) && (isnan(b->peak_gbs) || bus > b->peak_gbs))
            b->peak_gbs = bus, b->peak_size = b->rows.at[i].size;
    }
    for (size_t i = 0; i < b->rows.len; i++)
        if (bus_of(&b->rows.at[i]) * 2 >= b->peak_gbs && (b->half_size == 0 || b->rows.at[i].size < b->half_size))
            b->half_size = b->rows.at[i].size;
}

static const char *name_of(const NcclBench *b)
{
    return b->name[0] ? b->name : "a test";
}

static void check_values(NcclJob *job, const NcclBench *b)
{
    for (size_t i = 0; i < b->rows.len; i++) {
        const NcclRow *row = &b->rows.at[i];
        if (row->out.wrong > 0 || row->in.wrong > 0)
            nccl_evidence(job, nccl_findf(job, NCCL_RULE_BENCH_WRONG, "%s on %" PRId64 " ranks", name_of(b), b->ranks),
                          row->place, "size %" PRIu64 ": %" PRId64 " wrong out of place, %" PRId64 " in place",
                          row->size, row->out.wrong < 0 ? 0 : row->out.wrong, row->in.wrong < 0 ? 0 : row->in.wrong);
    }
    if (b->out_of_bounds > 0)
        nccl_evidence(job, nccl_findf(job, NCCL_RULE_BENCH_BOUNDS, "%s on %" PRId64 " ranks", name_of(b), b->ranks),
                      b->bounds_place, "Out of bounds values : %" PRId64, b->out_of_bounds);
}

static void check_end(NcclJob *job, const NcclBench *b)
{
    bool cut = job->report.inputs.at[b->input].trouble[0];

    if (b->rows.len && !b->concluded && isnan(b->average_gbs) && !cut)
        nccl_evidence(job, nccl_findf(job, NCCL_RULE_BENCH_CUT, "%s on %" PRId64 " ranks", name_of(b), b->ranks),
                      b->rows.at[b->rows.len - 1].place, "the last size is %" PRIu64, b->rows.at[b->rows.len - 1].size);
    if (b->average_gbs == 0) /* NaN where it is not there */
        nccl_evidence(job,
                      nccl_findf(job, b->ranks == 1 ? NCCL_RULE_BENCH_ZERO_ONE : NCCL_RULE_BENCH_ZERO,
                                 "%s on %" PRId64 " ranks", name_of(b), b->ranks),
                      b->average_place, "Avg bus bandwidth    : 0, %zu sizes", b->rows.len);
}

static void check_curve(NcclJob *job, const NcclBench *b)
{
    for (size_t i = 1; i + 1 < b->rows.len; i++) {
        double before = bus_of(&b->rows.at[i - 1]), here = bus_of(&b->rows.at[i]), after = bus_of(&b->rows.at[i + 1]);
        bool rising = b->rows.at[i - 1].size < b->rows.at[i].size && b->rows.at[i].size < b->rows.at[i + 1].size;
        if (rising && before >= dip_from_gbs && here < dip_low * fmin(before, after))
            nccl_evidence(job, nccl_findf(job, NCCL_RULE_BENCH_DIP, "%s on %" PRId64 " ranks", name_of(b), b->ranks),
                          b->rows.at[i].place, "size %" PRIu64 ": %.2f GB/s, its neighbours %.2f and %.2f",
                          b->rows.at[i].size, here, before, after);
    }
}

static bool comparable(const NcclBench *a, const NcclBench *b)
{
    return a->name[0] && strcmp(a->name, b->name) == 0 && a->ranks > 1 && b->ranks > a->ranks && a->rows.len &&
           b->rows.len && strcmp(a->rows.at[0].type, b->rows.at[0].type) == 0;
}

/* The largest size that both have. */
static bool common_size(const NcclBench *a, const NcclBench *b, const NcclRow **ret_a, const NcclRow **ret_b)
{
    *ret_a = NULL;
    for (size_t i = a->rows.len; i-- > 0;)
        for (size_t k = b->rows.len; k-- > 0;) {
            const NcclRow *x = &a->rows.at[i], *y = &b->rows.at[k];
            if (x->size == y->size && (!*ret_a || x->size > (*ret_a)->size) && bus_of(x) > 0 && !isnan(bus_of(y)))
                *ret_a = x, *ret_b = y;
        }
    return *ret_a != NULL;
}

/* Each run against the one with the next fewer ranks. */
static void check_scaling(NcclJob *job, uint32_t bench)
{
    const NcclBenches *all = &job->report.benches;
    const NcclBench *b = &all->at[bench];
    uint32_t base = NCCL_NO_INDEX;
    const NcclRow *x, *y;

    for (uint32_t i = 0; i < all->len; i++)
        if (comparable(&all->at[i], b) && (base == NCCL_NO_INDEX || all->at[i].ranks > all->at[base].ranks))
            base = i;
    if (base == NCCL_NO_INDEX || !common_size(&all->at[base], b, &x, &y))
        return;
    const NcclBench *a = &all->at[base];
    NcclScaling scaling = {.base = base, .bench = bench, .size = x->size, .efficiency = bus_of(y) / bus_of(x)};
    vec_push(&job->report.scalings, scaling);
    double low = a->nodes <= 1 && b->nodes > 1 ? scaling_low_to_net : scaling_low;
    if (scaling.efficiency >= low)
        return;
    NcclFinding *f = nccl_findf(job, NCCL_RULE_BENCH_SCALING,
                                "%s: %.0f %% of the bus bandwidth from %" PRId64 " to %" PRId64 " ranks", b->name,
                                scaling.efficiency * 100, a->ranks, b->ranks);
    nccl_evidence(job, f, x->place, "%" PRId64 " ranks, %" PRId64 " nodes, size %" PRIu64 ": %.2f GB/s", a->ranks,
                  a->nodes, x->size, bus_of(x));
    nccl_evidence(job, f, y->place, "%" PRId64 " ranks, %" PRId64 " nodes, size %" PRIu64 ": %.2f GB/s", b->ranks,
                  b->nodes, y->size, bus_of(y));
}

/* By name and ranks, so that a series of runs reads upwards. */
static int compare(const void *a, const void *b, void *arg)
{
    const NcclBench *all = arg, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    int by = strcmp(x->name, y->name);

    if (by)
        return by;
    return x->ranks != y->ranks ? (x->ranks > y->ranks) - (x->ranks < y->ranks) : (x > y) - (x < y);
}

void nccl_check_benches(NcclJob *job)
{
    enum { COMPARED_MAX = 64 };
    uint32_t order[COMPARED_MAX], count = 0;

    for (uint32_t i = 0; i < job->report.benches.len; i++) {
        NcclBench *b = &job->report.benches.at[i];
        find_peak(b);
        check_values(job, b);
        check_end(job, b);
        check_curve(job, b);
    }
    while (count < COMPARED_MAX && count < job->report.benches.len)
        order[count] = count, count++;
    qsort_r(order, count, sizeof order[0], compare, job->report.benches.at);
    for (uint32_t i = 0; i < count; i++)
        check_scaling(job, order[i]);
}
