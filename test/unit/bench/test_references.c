/* SPDX-License-Identifier: Apache-2.0 */
/* engine/bench: what a value is compared with, and runs beside each other. */
#include "runs.h"

#include "engine/bench/diff.h"
#include "engine/bench/rank.h"
#include "engine/bench/roof.h"

enum { RUNS = 12 };

static uint64_t seed;
static BenchRun run, others[RUNS];
static const BenchRun *list[RUNS];
static size_t other_count;
static BenchFleet fleet;
static BenchJudgement judged;

static int start_anew(void **state)
{
    (void)state;
    seed = 11;
    other_count = 0;
    fleet = (BenchFleet){0};
    run = make_run("n1", 1, &seed);
    return 0;
}

static int end_anew(void **state)
{
    (void)state;
    bench_run_done(&run);
    for (size_t i = 0; i < other_count; i++)
        bench_run_done(&others[i]);
    bench_fleet_done(&fleet);
    bench_judgement_done(&judged);
    return 0;
}

/* Another run with so many GPUs. */
static BenchRun *add_other(const char *node, uint32_t gpus)
{
    others[other_count] = make_run(node, gpus, &seed);
    list[other_count] = &others[other_count];
    return &others[other_count++];
}

static void judge(const BenchReferences *references)
{
    bench_judgement_done(&judged);
    bench_judge(&run, references, &judged);
}

static BenchBasis judge_basis(const BenchReferences *references)
{
    judge(references);
    for (size_t i = 1; i < judged.findings.len; i++)
        print_message("# %s\n", judged.findings.at[i].text);
    assert_int_equal(judged.findings.len, 1);
    return judged.findings.at[0].basis;
}

/* --- which reference ---------------------------------------------------------------------------------------------- */

static void each_reference_in_its_order(void **state)
{
    BenchReferences references = {0};

    (void)state;
    slow_memory(&run, 0, 0.6);
    assert_int_equal(judge_basis(NULL), BENCH_BY_PUBLISHED);
    assert_int_equal(judged.findings.at[0].severity, BENCH_DEGRADED);
    for (int i = 0; i < 3; i++) {
        char node[16];

        snprintf(node, sizeof node, "m%d", i);
        add_other(node, 4);
    }
    bench_fleet_make(list, other_count, &fleet);
    references.fleet = &fleet;
    assert_int_equal(judge_basis(&references), BENCH_BY_FLEET);
    assert_int_equal(judged.findings.at[0].count, 3);
    assert_int_equal(judged.findings.at[0].severity, BENCH_FAULT);
    bench_run_done(&run);
    run = make_run("n1", 4, &seed);
    slow_memory(&run, 0, 0.6);
    assert_int_equal(judge_basis(&references), BENCH_BY_PEERS);
    assert_int_equal(judged.findings.at[0].count, 3);
    for (int i = 0; i < 3; i++)
        add_other("n1", 4);
    references.history = &list[3];
    references.history_count = 3;
    assert_int_equal(judge_basis(&references), BENCH_BY_HISTORY);
    assert_int_equal(judged.findings.at[0].count, 3);
    references.history_count = 2; /* too few */
    assert_int_equal(judge_basis(&references), BENCH_BY_PEERS);
}

static void three_others_are_enough_and_two_are_not(void **state)
{
    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 4, &seed);
    slow_memory(&run, 1, 0.95);
    assert_int_equal(judge_basis(NULL), BENCH_BY_PEERS);
    bench_run_done(&run);
    run = make_run("n1", 3, &seed);
    slow_memory(&run, 1, 0.95);
    judge(NULL);
    assert_int_equal(judged.findings.len, 0);
}

static void fleet_of_two_nodes_is_none(void **state)
{
    BenchReferences references = {.fleet = &fleet};

    (void)state;
    add_other("m1", 8);
    add_other("m2", 8);
    slow_memory(&run, 0, 0.95);
    bench_fleet_make(list, other_count, &fleet);
    judge(&references);
    assert_int_equal(judged.findings.len, 0);
    bench_fleet_done(&fleet);
    add_other("m2", 8)->real_ns++; /* the same node again */
    bench_fleet_make(list, other_count, &fleet);
    judge(&references);
    assert_int_equal(judged.findings.len, 0);
}

static void board_by_its_clocks(void **state)
{
    (void)state;
    for (BenchMeasureId id = BENCH_MMA_FP16; id <= BENCH_MMA_BF16; id++)
        scale_measure(&run, id, 0, 0.85); /* of FP16 and BF16 nothing is published per clock */
    assert_int_equal(judge_basis(NULL), BENCH_BY_PEAK);
    assert_int_equal(judged.findings.at[0].severity, BENCH_NOTICE);
    for (BenchMeasureId id = BENCH_MMA_FP16; id <= BENCH_MMA_BF16; id++)
        scale_measure(&run, id, 0, 0.1); /* never a fault */
    assert_int_equal(judge_basis(NULL), BENCH_BY_PEAK);
    assert_int_equal(judged.findings.at[0].severity, BENCH_DEGRADED);
}

static void board_with_closer_references(void **state)
{
    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 8, &seed);
    for (uint32_t i = 0; i < 8; i++)
        slow_memory(&run, i, 0.84); /* all alike: 15 % behind what is published is not enough */
    judge(NULL);
    assert_int_equal(judged.findings.len, 0);
    for (uint32_t i = 0; i < 8; i++)
        slow_memory(&run, i, 0.9);
    assert_int_equal(judge_basis(NULL), BENCH_BY_PUBLISHED);
    assert_int_equal(judged.findings.at[0].gpus, 0xff);
    assert_int_equal(judged.findings.at[0].gpu, BENCH_NONE);
    assert_int_equal(judged.gpus[5], BENCH_NOT_FIT);
    assert_non_null(strstr(judged.findings.at[0].text, "all 8 GPUs (the worst): memory"));
    assert_non_null(strstr(judged.findings.at[0].text, "% of what is usual for this board ("));
}

/* What was always so is found by the others of its model. */
static void history_does_not_hide_a_slow_gpu(void **state)
{
    BenchReferences references = {.history = list, .history_count = 3};

    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 8, &seed);
    slow_memory(&run, 2, 0.94);
    for (int i = 0; i < 3; i++)
        slow_memory(add_other("n1", 8), 2, 0.94);
    assert_int_equal(judge_basis(&references), BENCH_BY_PEERS);
}

static void history_of_other_data_or_gpus_does_not_count(void **state)
{
    BenchReferences references = {.history = list, .history_count = 3};

    (void)state;
    for (int i = 0; i < 3; i++)
        snprintf(add_other("n1", 1)->data, sizeof run.data, "zeros");
    slow_memory(&run, 0, 0.95);
    judge(&references);
    assert_int_equal(judged.findings.len, 0);
    for (int i = 0; i < 3; i++) {
        snprintf(others[i].data, sizeof run.data, "normal");
        snprintf(others[i].gpus.at[0].device.uuid, sizeof run.gpus.at[0].device.uuid, "GPU-other");
    }
    judge(&references);
    assert_int_equal(judged.findings.len, 0);
}

/* The newest ten count. */
static void history_is_of_ten_runs(void **state)
{
    BenchReferences references = {.history = list};

    (void)state;
    for (references.history_count = 0; references.history_count < RUNS; references.history_count++)
        if (references.history_count >= 10)
            slow_memory(add_other("n1", 1), 0, 0.5);
        else
            add_other("n1", 1);
    slow_memory(&run, 0, 0.95);
    assert_int_equal(judge_basis(&references), BENCH_BY_HISTORY);
    assert_int_equal(judged.findings.at[0].count, 10);
}

/* A node whose links all became slow has one finding. */
static void history_of_pairs(void **state)
{
    BenchReferences references = {.history = list, .history_count = 3};

    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 2, &seed);
    for (int i = 0; i < 3; i++)
        add_other("n1", 2);
    judge(&references);
    assert_int_equal(judged.findings.len, 0);
    scale_pair(&run, BENCH_PEER, 1, 0, 0.5);
    judge(&references);
    assert_int_equal(judged.findings.len, 1);
    assert_int_equal(judged.findings.at[0].part, BENCH_PART_PEER_LINK);
    assert_int_equal(judged.findings.at[0].basis, BENCH_BY_HISTORY);
}

static void clock_of_history_at_another_limit(void **state)
{
    BenchReferences references = {.history = list, .history_count = 3};

    (void)state;
    for (int i = 0; i < 3; i++)
        add_other("n1", 1);
    lower_clock(&run, 0, 1400, 4);
    assert_int_equal(judge_basis(&references), BENCH_BY_HISTORY);
    assert_int_equal(judged.findings.at[0].symptom, BENCH_LOW_CLOCK);
    run.gpus.at[0].limit_w = 400;
    judge(&references);
    assert_int_equal(judged.findings.len, 0);
}

/* As on GDDR, where a GPU with ECC is slower than its peers without; alone with it, it is compared with its board. */
static void memory_with_another_ecc_mode(void **state)
{
    const BenchReferences none = {0};

    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 8, &seed);
    for (uint32_t gpu = 0; gpu < 8; gpu++)
        run.gpus.at[gpu].device.ecc = gpu == 3;
    slow_memory(&run, 3, 0.95);
    judge(&none);
    assert_int_equal(judged.findings.len, 0);
    run.gpus.at[3].device.ecc = false;
    assert_int_equal(judge_basis(&none), BENCH_BY_PEERS);
}

/* --- two runs ----------------------------------------------------------------------------------------------------- */

static const BenchChange *find_change(const BenchDiff *diff, uint32_t gpu, uint32_t column)
{
    for (size_t i = 0; i < diff->changes.len; i++)
        if (diff->changes.at[i].after_gpu == gpu && diff->changes.at[i].column == column)
            return &diff->changes.at[i];
    return NULL;
}

static void changes_of_two_runs(void **state)
{
    BenchRun *later = add_other("n1", 8);
    BenchDiff diff;

    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 8, &seed);
    bench_diff(&run, later, &diff);
    assert_int_equal(diff.worse, 0);
    assert_int_equal(diff.appeared.len + diff.vanished.len, 0);
    bench_diff_done(&diff);
    slow_memory(later, 3, 0.94);
    scale_measure(later, BENCH_MEMORY_READ, 2, 1.05);
    bench_diff(&run, later, &diff);
    assert_true(find_change(&diff, 3, BENCH_MEMORY_READ)->beyond);
    assert_int_equal(find_change(&diff, 3, BENCH_MEMORY_READ)->severity, BENCH_DEGRADED);
    assert_false(find_change(&diff, 2, BENCH_MEMORY_READ)->beyond);
    assert_true(find_change(&diff, 2, BENCH_MEMORY_READ)->worse_percent < -4);
    assert_false(find_change(&diff, 4, BENCH_MEMORY_READ)->beyond);
    assert_int_equal(diff.appeared.len, 1);
    assert_int_equal(diff.appeared.at[0].gpu, 3);
    bench_diff_done(&diff);
    bench_diff(later, &run, &diff); /* the other way it became better, but for the fast one */
    assert_int_equal(diff.vanished.len, 1);
    assert_int_equal(diff.worse, 1);
    bench_diff_done(&diff);
}

/* A library that is gone is no loss, as any other measure would be. */
static void library_that_is_gone(void **state)
{
    BenchRun *later = add_other("n1", 2);
    BenchDiff diff;

    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 2, &seed);
    vec_push(&run.measures, make_measure(BENCH_GEMM_LIBRARY, 1, BENCH_NONE, 790, &seed));
    bench_diff(&run, later, &diff);
    assert_int_equal(find_change(&diff, 1, BENCH_GEMM_LIBRARY)->kind, BENCH_VANISHED);
    assert_int_equal(diff.worse, 0);
    bench_diff_done(&diff);
    vec_push(&run.measures, make_measure(BENCH_MMA_FP8, 1, BENCH_NONE, 1300, &seed));
    bench_diff(&run, later, &diff);
    assert_int_equal(diff.worse, 1);
    bench_diff_done(&diff);
}

/* GPUs keep their places by UUID; one of another UUID is compared with what was there. */
static void changes_of_moved_and_replaced_gpus(void **state)
{
    BenchRun *later = add_other("n1", 2);
    BenchGpu first = later->gpus.at[0];
    BenchDiff diff;

    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 2, &seed);
    scale_measure(&run, BENCH_HOST_TO_GPU, 0, 0.5);
    scale_measure(later, BENCH_HOST_TO_GPU, 1, 0.5);
    memcpy(first.device.uuid, later->gpus.at[1].device.uuid, sizeof first.device.uuid);
    memcpy(later->gpus.at[1].device.uuid, later->gpus.at[0].device.uuid, sizeof first.device.uuid);
    memcpy(later->gpus.at[0].device.uuid, first.device.uuid, sizeof first.device.uuid);
    bench_diff(&run, later, &diff);
    assert_int_equal(find_change(&diff, 1, BENCH_HOST_TO_GPU)->before_gpu, 0);
    assert_int_equal(diff.worse, 0);
    bench_diff_done(&diff);
    snprintf(later->gpus.at[1].device.uuid, sizeof first.device.uuid, "GPU-new");
    later->gpus.at[1].index = 0;
    bench_diff(&run, later, &diff);
    assert_int_equal(find_change(&diff, 1, BENCH_HOST_TO_GPU)->before_gpu, 0);
    bench_diff_done(&diff);
    later->gpus.at[1].index = 7;
    bench_diff(&run, later, &diff);
    assert_int_equal(find_change(&diff, 1, BENCH_COLUMNS)->kind, BENCH_APPEARED);
    assert_int_equal(find_change(&diff, BENCH_NONE, BENCH_COLUMNS)->kind, BENCH_VANISHED);
    bench_diff_done(&diff);
}

/* --- many nodes --------------------------------------------------------------------------------------------------- */

static void nodes_by_their_worst_gpu(void **state)
{
    BenchRanking ranking;

    (void)state;
    for (int i = 0; i < 8; i++) {
        char node[16];

        snprintf(node, sizeof node, "m%d", i);
        add_other(node, 4);
    }
    for (uint32_t gpu = 0; gpu < 4; gpu++)
        slow_memory(&others[6], gpu, 0.96); /* the whole node */
    slow_memory(&others[2], 3, 0.85);
    add_wrong(&others[5], BENCH_STAGE_BURN, 1, BENCH_NONE, "gemm_bf16")->sm = 3;
    bench_rank(list, other_count, &ranking);
    assert_int_equal(ranking.nodes.len, 8);
    assert_int_equal(ranking.behind, 3);
    assert_string_equal(ranking.nodes.at[0].run->node, "m2");
    assert_string_equal(ranking.nodes.at[1].run->node, "m5");
    assert_string_equal(ranking.nodes.at[2].run->node, "m6");
    assert_string_equal(ranking.nodes.at[3].run->node, "m0");
    assert_int_equal(ranking.nodes.at[2].judgement.findings.len, 1);
    assert_int_equal(ranking.nodes.at[2].judgement.findings.at[0].basis, BENCH_BY_FLEET);
    BenchGpu gpu = others[0].gpus.at[0];
    const BenchFleetRow *row = bench_fleet_find(&ranking.fleet, &gpu, BENCH_MEMORY_READ);
    assert_int_equal(row->nodes, 8);
    assert_int_equal(row->gpus, 32);
    assert_true(row->median > 3200 && row->median < 3210);
    assert_non_null(bench_fleet_find(&ranking.fleet, &gpu, BENCH_CLOCK));
    gpu.limit_w = 400;
    gpu.device.ecc = !gpu.device.ecc;
    assert_null(bench_fleet_find(&ranking.fleet, &gpu, BENCH_CLOCK));
    assert_null(bench_fleet_find(&ranking.fleet, &gpu, BENCH_MEMORY_READ));
    assert_non_null(bench_fleet_find(&ranking.fleet, &gpu, BENCH_FMA_FP32));
    bench_ranking_done(&ranking);
}

/* --- rooflines ---------------------------------------------------------------------------------------------------- */

static void roof_of_a_gpu(void **state)
{
    const BenchRoof roof = bench_roof(&run, 0);

    (void)state;
    assert_true(fabs(roof.memory_gbs - 3205) < 10);
    assert_true(fabs(roof.memory_share_percent - 95.6) < 1);
    assert_int_equal(roof.ceilings[0].id, BENCH_WGMMA_BF16);
    assert_true(fabs(roof.ceilings[0].ridge - 1020e3 / 3205) < 2);
    assert_true(fabs(roof.ceilings[0].l2_ridge - 1020e3 / 7050) < 2);
    for (size_t i = 0; i < roof.count; i++)
        if (roof.ceilings[i].id == BENCH_FMA_FP64) /* the sheet's 67 are those of tensor cores */
            assert_true(fabs(roof.ceilings[i].share_percent - 99) < 1);
}

static void roof_of_nothing(void **state)
{
    (void)state;
    run.measures.len = 0;
    const BenchRoof roof = bench_roof(&run, 0);
    assert_int_equal(roof.count, 0);
    assert_true(isnan(roof.memory_gbs));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, start_anew, end_anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_reference_in_its_order),
        CASE(three_others_are_enough_and_two_are_not),
        CASE(fleet_of_two_nodes_is_none),
        CASE(board_by_its_clocks),
        CASE(board_with_closer_references),
        CASE(history_does_not_hide_a_slow_gpu),
        CASE(history_of_other_data_or_gpus_does_not_count),
        CASE(history_is_of_ten_runs),
        CASE(history_of_pairs),
        CASE(clock_of_history_at_another_limit),
        CASE(memory_with_another_ecc_mode),
        CASE(changes_of_two_runs),
        CASE(library_that_is_gone),
        CASE(changes_of_moved_and_replaced_gpus),
        CASE(nodes_by_their_worst_gpu),
        CASE(roof_of_a_gpu),
        CASE(roof_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
