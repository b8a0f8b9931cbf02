/* SPDX-License-Identifier: Apache-2.0 */
/* From phases and limits to a pattern: power stays in its budget, time stretches by the right causes. */
#include "node.h"

#include <math.h>
#include <string.h>

#include "sim/core/plan.h"

static PatternUse use_of(const SimBoard *board)
{
    return (PatternUse){.board = board,
                        .clock_ratio = 1,
                        .min_ratio = (double)board->sm_clock_min / board->sm_clock_max,
                        .budget_w = 1e9,
                        .dram_ratio = 1,
                        .link_ratio = 1,
                        .pcie_ratio = 1,
                        .share = 1,
                        .mem_share = 1,
                        .stretch = 1,
                        .leak = 1,
                        .cap_part = 1,
                        .kelvin_per_watt = board->kelvin_per_watt,
                        .tau_s = board->tau_s};
}

static SimWork kind(const SimBoard *board, const char *name, uint32_t ranks)
{
    SimWork work = {.gpu = 0, .mig = SIM_NONE, .job = SIM_NONE, .slow = 1};
    strncpy(work.kind, name, sizeof work.kind - 1);
    assert_int_equal(sim_kind_fill(&work, board, &(SimKindParam){.ranks = ranks, .seed = 3}), 0);
    return work;
}

static double phase_s(const SimPattern *p, uint32_t k)
{
    uint64_t end = k + 1 < p->phase_count ? p->phases[k + 1].start_ns : p->period_ns;
    return (double)(end - p->phases[k].start_ns) / 1e9;
}

/* Sums and heat of the phases are those of the pattern. */
static void assert_sound(const SimPattern *p)
{
    double sum[SIM_CH_COUNT] = {0}, heat = 0;
    assert_true(p->phase_count > 0 && p->period_ns > 0 && p->phases[0].start_ns == 0);
    for (uint32_t k = 0; k < p->phase_count; k++) {
        assert_true(phase_s(p, k) > 0);
        assert_true(fabs(p->phases[k].heat - heat) < 1e-9);
        for (int c = 0; c < SIM_CH_COUNT; c++) {
            assert_true(p->phases[k].rate[c] >= 0);
            assert_true(fabs(p->phases[k].before[c] - sum[c]) <= 1e-9 * sum[c]);
            sum[c] += p->phases[k].rate[c] * phase_s(p, k);
        }
        double keep = exp(-phase_s(p, k) / p->tau_s);
        heat = heat * keep + p->kelvin_per_watt * p->phases[k].rate[SIM_CH_WATT] * (1 - keep);
    }
    for (int c = 0; c < SIM_CH_COUNT; c++)
        assert_true(fabs(p->total[c] - sum[c]) <= 1e-9 * sum[c]);
    assert_true(fabs(p->heat - heat) < 1e-9);
}

static void every_kind_is_sound_and_stays_in_its_budget(void **state)
{
    (void)state;
    static SimPattern p;
    for (const char *const *key = node_boards(); *key; key++) {
        const SimBoard *board = node_board(*key);
        for (uint32_t k = 0; sim_kind_name(k); k++) {
            SimWork work = kind(board, sim_kind_name(k), 4);
            double before = 1e12, peak = 0;
            for (double watt = 1000; watt > 1; watt *= 0.8) {
                PatternUse use = use_of(board);
                use.budget_w = watt;
                pattern_build(&work, &use, &p);
                assert_sound(&p);
                peak = pattern_peak_w(&p);
                assert_true(peak <= watt * (1 + 1e-9) && peak <= before * (1 + 1e-9));
                assert_true(pattern_mean_w(&p) <= peak * (1 + 1e-12));
                assert_true(fabs((double)p.period_ns / 1e9 - pattern_seconds(&work, &use)) < 1e-6);
                before = peak;
            }
        }
    }
}

/* Held down, a work sits at its limit: a client sees power at the limit and a lower clock. */
static void held_down_means_at_the_limit(void **state)
{
    (void)state;
    const SimBoard *board = node_board("h100-sxm-80gb");
    SimWork work = kind(board, "burn", 1);
    static SimPattern p;
    PatternUse use = use_of(board);
    double last_mhz = board->sm_clock_max + 1, last_s = 0;
    for (double watt = 550; watt > 150; watt -= 50) {
        use.budget_w = watt;
        pattern_build(&work, &use, &p);
        assert_true(fabs(pattern_peak_w(&p) - watt) < 0.01);
        assert_true(p.phases[0].rate[SIM_CH_SW_CAP] == 1);
        assert_true(p.phases[0].sm_mhz < last_mhz && p.phases[0].sm_mhz >= board->sm_clock_min);
        assert_true(phase_s(&p, 0) > last_s);
        last_mhz = p.phases[0].sm_mhz;
        last_s = phase_s(&p, 0);
    }
}

static double seconds_with(const SimBoard *board, const SimWork *work, PatternUse use)
{
    (void)board;
    static SimPattern p;
    pattern_build(work, &use, &p);
    assert_sound(&p);
    return (double)p.period_ns / 1e9;
}

/* One phase of one second, bound by one thing: only that thing makes it longer. */
static void time_stretches_by_its_cause(void **state)
{
    (void)state;
    const SimBoard *board = node_board("h100-sxm-80gb");
    static const double want[][4] = {/* clock, DRAM, PCIe, links at one half */
                                     [SIM_BOUND_FIXED] = {1, 1, 1, 1},
                                     [SIM_BOUND_CORE] = {2, 1, 1, 1},
                                     [SIM_BOUND_DRAM] = {1, 2, 1, 1},
                                     [SIM_BOUND_PCIE] = {1, 1, 2, 1},
                                     [SIM_BOUND_LINK] = {1, 1, 1, 2}};
    for (uint32_t bound = SIM_BOUND_FIXED; bound <= SIM_BOUND_LINK; bound++) {
        SimWork work = {.slow = 1, .phase_count = 1, .phases = {{.seconds = 1, .bound = bound}}};
        work.phases[0].act[SIM_CH_KERNEL] = 1;
        work.phases[0].act[SIM_CH_SM] = 0.5;
        for (int cause = 0; cause < 4; cause++) {
            PatternUse use = use_of(board);
            double *ratio[4] = {&use.clock_ratio, &use.dram_ratio, &use.pcie_ratio, &use.link_ratio};
            *ratio[cause] = 0.5;
            assert_true(fabs(seconds_with(board, &work, use) - want[bound][cause]) < 1e-8);
        }
        PatternUse use = use_of(board);
        use.stretch = 3;
        assert_true(fabs(seconds_with(board, &work, use) - 3) < 1e-8);
        work.slow = 1.5; /* a straggler computes slower */
        assert_true(fabs(seconds_with(board, &work, use_of(board)) - (bound == SIM_BOUND_CORE ? 1.5 : 1)) < 1e-8);
    }
}

/* The same bytes and steps, over a longer time. */
static void stretched_work_is_the_same_work(void **state)
{
    (void)state;
    const SimBoard *board = node_board("h100-sxm-80gb");
    SimWork work = kind(board, "train", 4);
    static SimPattern full, slow;
    PatternUse use = use_of(board);
    pattern_build(&work, &use, &full);
    use.stretch = 2.5;
    pattern_build(&work, &use, &slow);
    assert_true(slow.period_ns > 2 * full.period_ns);
    for (int c = 0; c < SIM_CH_WATT; c++)
        assert_true(fabs(slow.total[c] - full.total[c]) <= 1e-6 * full.total[c]);
    use.stretch = 1;
    use.link_ratio = 0.25;
    pattern_build(&work, &use, &slow);
    assert_true(fabs(slow.total[SIM_CH_NVL_TX] - full.total[SIM_CH_NVL_TX]) <= 1e-6 * full.total[SIM_CH_NVL_TX]);
    use.clock_ratio = 0.5;
    pattern_build(&work, &use, &slow);
    assert_true(fabs(slow.total[SIM_CH_DRAM] - full.total[SIM_CH_DRAM]) <= 0.01 * full.total[SIM_CH_DRAM]);
    assert_true(fabs(slow.total[SIM_CH_STEPS] - 1) < 1e-6);
    assert_true(slow.total[SIM_CH_WATT] < full.total[SIM_CH_WATT]); /* a lower clock needs less for the same */
}

static void ranks_wait_at_the_barrier(void **state)
{
    (void)state;
    const SimBoard *board = node_board("h100-sxm-80gb");
    SimWork work = kind(board, "train", 4);
    static SimPattern full, waits;
    PatternUse use = use_of(board);
    pattern_build(&work, &use, &full);
    use.wait_s = 0.1;
    pattern_build(&work, &use, &waits);
    assert_sound(&waits);
    assert_int_equal(waits.phase_count, full.phase_count + 1);
    assert_int_equal(waits.period_ns, full.period_ns + 100000000);
    assert_true(fabs(waits.total[SIM_CH_STEPS] - full.total[SIM_CH_STEPS]) < 1e-9);
    uint32_t spin = 0;
    while (waits.phases[spin].rate[SIM_CH_SM] != 0.14)
        spin++;
    assert_true(waits.phases[spin].rate[SIM_CH_KERNEL] == 1 && fabs(phase_s(&waits, spin) - 0.1) < 1e-8);
    use.hung = 1;
    pattern_build(&work, &use, &waits);
    assert_int_equal(waits.phase_count, 1);
    assert_true(waits.total[SIM_CH_STEPS] == 0 && waits.phases[0].rate[SIM_CH_KERNEL] == 1);
    SimWork alone = kind(board, "train", 1); /* no barrier, nobody to wait for */
    use = use_of(board);
    pattern_build(&alone, &use, &full);
    use.wait_s = 0.1;
    pattern_build(&alone, &use, &waits);
    assert_int_equal(waits.period_ns, full.period_ns);
}

static void nothing_is_a_pattern_too(void **state)
{
    (void)state;
    static SimPattern p;
    SimWork work = {.slow = 1};
    PatternUse use = use_of(node_board("t4"));
    pattern_build(&work, &use, &p);
    assert_sound(&p);
    assert_true(pattern_peak_w(&p) == 0 && p.period_ns == SIM_NS);
    strcpy(work.kind, "no-such-kind");
    assert_true(sim_kind_fill(&work, use.board, &(SimKindParam){.ranks = 1}) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_sound_and_stays_in_its_budget),
        cmocka_unit_test(held_down_means_at_the_limit),
        cmocka_unit_test(time_stretches_by_its_cause),
        cmocka_unit_test(stretched_work_is_the_same_work),
        cmocka_unit_test(ranks_wait_at_the_barrier),
        cmocka_unit_test(nothing_is_a_pattern_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
