/* SPDX-License-Identifier: Apache-2.0 */
/* The order of events in the file does not matter to the tables. */
#include "kit.h"
#include "kit_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { ROUNDS = 60, KEEP_BYTES = 1 << 20 };

static void run_all(Kit *kit, TraceRank *rank)
{
    static const KitAnalysis analyses[] = {trace_kernels, trace_copies,      trace_operators,
                                           trace_calls,   trace_annotations, trace_memory};

    for (size_t i = 0; i < sizeof analyses / sizeof analyses[0]; i++)
        kit_run(kit, analyses[i], rank);
}

#define N(row, field) (long long)(row)->field

/* Everything but what is a sum of doubles, as text. */
static void dump(const TraceRank *rank, Str *out)
{
    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *r = &rank->kernels.at[i];

        str_addf(out, "kernel %s %lld %lld %lld %lld %lld %d %u %u %lld %lld %d %lld\n", r->name, N(r, count),
                 N(r, total_ns), N(r, min_ns), N(r, max_ns), N(r, short_count), r->tensor_core, r->grid[0], r->block[0],
                 N(r, registers), N(r, shapes), r->device_count, N(r, blocks_ns));
    }
    for (size_t i = 0; i < rank->copies.len; i++) {
        const TraceCopy *r = &rank->copies.at[i];

        str_addf(out, "copy %s %s %s %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %.9g\n", r->kind, r->source,
                 r->target, N(r, count), N(r, bytes), N(r, total_ns), N(r, min_ns), N(r, max_ns), N(r, sized_bytes),
                 N(r, sized_ns), N(r, small_count), N(r, small_ns), N(r, exposed_ns), r->bandwidth_gbs);
    }
    for (size_t i = 0; i < rank->operators.len; i++) {
        const TraceOperator *r = &rank->operators.at[i];

        str_addf(out, "op %s %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld\n", r->name, N(r, count),
                 N(r, host_ns), N(r, host_self_ns), N(r, device_ns), N(r, device_self_ns), N(r, kernel_count),
                 N(r, tensor_core_ns), N(r, float_ns), N(r, shaped_count), N(r, misaligned_count), N(r, misaligned_ns));
    }
    for (size_t i = 0; i < rank->calls.len; i++) {
        const TraceCall *r = &rank->calls.at[i];

        str_addf(out, "call %s %s %s %lld %lld %lld %lld\n", r->name, r->inner, r->outer, N(r, count), N(r, total_ns),
                 N(r, min_ns), N(r, max_ns));
    }
    for (size_t i = 0; i < rank->annotations.len; i++) {
        const TraceAnnotation *r = &rank->annotations.at[i];

        str_addf(out, "range %s %d %lld %lld %lld %lld %lld %lld %lld\n", r->name, r->on_gpu, N(r, count),
                 N(r, total_ns), N(r, min_ns), N(r, max_ns), N(r, device_ns), N(r, busy_ns), N(r, operation_count));
    }
    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *r = &rank->memory.at[i];

        str_addf(out, "memory %d %lld %lld %lld %s %lld %lld %lld %lld\n", r->device, N(r, peak_allocated),
                 N(r, peak_reserved), N(r, peak_at), r->peak_op, N(r, allocations), N(r, releases),
                 N(r, allocated_bytes), N(r, growth_bytes));
    }
    assert_false(out->overflow);
}

static bool near(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-6 * fmax(1, fabs(b));
}

static void assert_same(const TraceRank *got, const TraceRank *want, uint64_t seed)
{
    Str a, b;

    str_init(&a, KEEP_BYTES);
    str_init(&b, KEEP_BYTES);
    dump(got, &a);
    dump(want, &b);
    if (strcmp(a.text, b.text) != 0)
        fail_msg("round %llu:\n%s\ninstead of\n%s", (unsigned long long)seed, a.text, b.text);
    for (size_t i = 0; i < want->kernels.len; i++) {
        const TraceKernel *g = &got->kernels.at[i], *w = &want->kernels.at[i];

        assert_true(near(g->mean_ns, w->mean_ns) && near(g->sd_ns, w->sd_ns));
        assert_true(near(g->occupancy_percent, w->occupancy_percent));
        assert_true(near(g->blocks_per_sm, w->blocks_per_sm) && near(g->sm_efficiency, w->sm_efficiency));
    }
    str_done(&a);
    str_done(&b);
}

static void order_in_the_file_does_not_matter(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        KitRecipe recipe = {.seed = round + 1000, .totals = true};
        Kit forwards, backwards;

        kit_init(&forwards);
        kit_init(&backwards);
        kit_fill_random(&forwards, &recipe, false);
        kit_fill_random(&backwards, &recipe, true);
        run_all(&forwards, &forwards.rank);
        run_all(&backwards, &backwards.rank);
        assert_same(&backwards.rank, &forwards.rank, round);
        kit_done(&forwards);
        kit_done(&backwards);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_in_the_file_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
