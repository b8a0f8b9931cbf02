/* SPDX-License-Identifier: Apache-2.0 */
/* engine/bench: faults in made-up runs and their near misses. Each is found, on the right GPU, and nothing else is. */
#include "runs.h"

static uint64_t seed;
static BenchRun run;
static BenchJudgement judged;

static int start_anew(void **state)
{
    (void)state;
    seed = 7;
    run = make_run("n1", 8, &seed);
    return 0;
}

static int end_anew(void **state)
{
    (void)state;
    bench_run_done(&run);
    bench_judgement_done(&judged);
    return 0;
}

static void judge(void)
{
    bench_judgement_done(&judged);
    bench_judge(&run, NULL, &judged);
}

/* Prints what was found where a test fails. */
static void check_count(size_t count)
{
    if (judged.findings.len == count)
        return;
    for (size_t i = 0; i < judged.findings.len; i++)
        print_message("# %s: %s\n", bench_severities[judged.findings.at[i].severity].key, judged.findings.at[i].text);
    fail_msg("%zu findings, not %zu", judged.findings.len, count);
}

/* The one finding, and the verdicts: of the GPUs in it, and fit for all others. */
static const BenchFinding *check_one(BenchSeverity severity, BenchSymptom symptom, BenchPart part, uint32_t gpu)
{
    judge();
    check_count(1);
    const BenchFinding *f = &judged.findings.at[0];
    const BenchVerdict verdict = severity == BENCH_NOTICE     ? BENCH_FIT
                                 : severity == BENCH_UNTESTED ? BENCH_UNKNOWN
                                                              : BENCH_NOT_FIT;

    assert_string_equal(bench_severities[f->severity].key, bench_severities[severity].key);
    assert_string_equal(bench_symptoms[f->symptom].key, bench_symptoms[symptom].key);
    assert_string_equal(bench_parts[f->part].key, bench_parts[part].key);
    assert_int_equal(f->gpu, gpu);
    assert_int_equal(judged.verdict, verdict);
    for (uint32_t i = 0; i < run.gpus.len; i++)
        assert_int_equal(judged.gpus[i], f->gpus >> i & 1 ? verdict : BENCH_FIT);
    return f;
}

static void check_text(const BenchFinding *f, const char *text)
{
    assert_string_equal(f->text, text);
}

static void check_says(const BenchFinding *f, const char *part)
{
    if (!strstr(f->text, part))
        fail_msg("'%s' is not in '%s'", part, f->text);
}

static void check_fine(void)
{
    judge();
    check_count(0);
    assert_int_equal(judged.verdict, BENCH_FIT);
    for (uint32_t i = 0; i < run.gpus.len; i++)
        assert_int_equal(judged.gpus[i], BENCH_FIT);
}

/* --- 1: healthy --------------------------------------------------------------------------------------------------- */

static void healthy_nodes_are_fit(void **state)
{
    (void)state;
    check_fine();
    for (uint32_t i = 0; i < 1000; i++) {
        bench_run_done(&run);
        run = make_run("n1", i % 4 ? 8 : 1 + (uint32_t)(next_random(&seed) % 10), &seed);
        check_fine();
    }
}

/* --- 2, 3: memory ------------------------------------------------------------------------------------------------- */

static void slow_memory_is_named_once(void **state)
{
    const BenchFinding *f;

    (void)state;
    slow_memory(&run, 3, 0.94);
    f = check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_MEMORY, 3);
    assert_int_equal(f->basis, BENCH_BY_PEERS);
    assert_int_equal(f->count, 7);
    assert_true(f->behind_percent > 5.9 && f->behind_percent < 6.2);
    check_says(f, "GPU 3: memory ");
    check_says(f, " % behind the 7 other H100 of this node (median ");
    check_says(f, "; memory is slow");
}

static void memory_at_its_limits(void **state)
{
    (void)state;
    slow_memory(&run, 3, 0.99); /* 1 %: nothing */
    check_fine();
    slow_memory(&run, 3, 0.98 / 0.99);
    check_one(BENCH_NOTICE, BENCH_SLOW, BENCH_PART_MEMORY, 3);
    slow_memory(&run, 3, 0.96 / 0.98);
    check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_MEMORY, 3);
    slow_memory(&run, 3, 0.89 / 0.96);
    check_one(BENCH_FAULT, BENCH_SLOW, BENCH_PART_MEMORY, 3);
}

/* Exactly at a limit it counts, and just before it does not. */
static void limits_are_exact(void **state)
{
    static const struct {
        double factor;
        BenchSeverity severity;
        size_t count;
    } cases[] = {{0.98501, BENCH_NOTICE, 0}, {0.985, BENCH_NOTICE, 1},     {0.97001, BENCH_NOTICE, 1},
                 {0.97, BENCH_DEGRADED, 1},  {0.90001, BENCH_DEGRADED, 1}, {0.9, BENCH_FAULT, 1}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (uint32_t gpu = 0; gpu < 8; gpu++) {
            BenchMeasure *m = scale_measure(&run, BENCH_MEMORY_READ, gpu, 1);

            for (uint32_t w = 0; w < m->count; w++)
                m->samples[w] = 3200 * (gpu == 5 ? cases[i].factor : 1);
        }
        judge();
        check_count(cases[i].count);
        if (cases[i].count) {
            assert_int_equal(judged.findings.at[0].severity, cases[i].severity);
            assert_int_equal(judged.findings.at[0].measure, BENCH_MEMORY_READ);
        }
    }
}

/* One of eight that differ by several per cent is no outlier. */
static void wide_spread_says_less(void **state)
{
    (void)state;
    for (uint32_t gpu = 0; gpu < 8; gpu++)
        scale_measure(&run, BENCH_L2_READ, gpu, 1 - 0.01 * gpu);
    check_fine();
    scale_measure(&run, BENCH_L2_READ, 7, 0.9);
    check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_L2, 7);
}

static void sentence_of_slow_memory(void **state)
{
    (void)state;
    for (uint32_t gpu = 0; gpu < 8; gpu++) {
        BenchMeasure *m = scale_measure(&run, BENCH_MEMORY_READ, gpu, 1);

        for (uint32_t w = 0; w < m->count; w++)
            m->samples[w] = gpu == 3 ? 3013 : gpu == 0 ? 3205 : gpu % 2 ? 3206.6 : 3203.4;
    }
    check_text(check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_MEMORY, 3),
               "GPU 3: memory read 3,013 GB/s, 6.0 % behind the 7 other H100 of this node (median 3,205, MAD 0.05 %); "
               "memory is slow");
}

/* --- 4: SMs ------------------------------------------------------------------------------------------------------- */

static void slow_sm(double factor)
{
    for (BenchMeasureId id = BENCH_FMA_FP32; id <= BENCH_WGMMA_BF16; id++) {
        BenchMeasure *m = (BenchMeasure *)(uintptr_t)bench_run_find(&run, id, 2, BENCH_NONE);

        if (m && m->sm_count) {
            m->per_clock[17] *= (float)factor;
            scale_measure(&run, id, 2, 1 - (1 - factor) / SMS);
        }
    }
}

static void slow_sm_is_named(void **state)
{
    const BenchFinding *f;

    (void)state;
    slow_sm(0.8);
    f = check_one(BENCH_DEGRADED, BENCH_SLOW_SM, BENCH_PART_COMPUTE, 2);
    assert_int_equal(f->sm, 17);
    assert_int_equal(f->basis, BENCH_BY_ITSELF);
    check_says(f, "GPU 2: SM 17 does 20 % less work per clock than the GPU's other SMs");
}

static void sm_at_its_limit(void **state)
{
    (void)state;
    slow_sm(0.9915);
    check_fine();
    slow_sm(0.985);
    assert_int_equal(check_one(BENCH_DEGRADED, BENCH_SLOW_SM, BENCH_PART_COMPUTE, 2)->sm, 17);
}

static void sm_exactly_at_its_limit(void **state)
{
    BenchMeasure *m = scale_measure(&run, BENCH_MMA_BF16, 2, 1);

    (void)state;
    m->sm_count = SMS;
    for (uint32_t s = 0; s < SMS; s++)
        m->per_clock[s] = s == 9 ? 2970.5F : 3000;
    check_fine();
    m->per_clock[9] = 2970;
    assert_int_equal(check_one(BENCH_DEGRADED, BENCH_SLOW_SM, BENCH_PART_COMPUTE, 2)->sm, 9);
    m->per_clock[9] = 0; /* it gave none: another part of the run says so */
    check_fine();
}

static void several_slow_sms_explain_the_sum(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < 12; s++)
        scale_measure(&run, BENCH_MMA_BF16, 6, 1)->per_clock[s] *= 0.8F;
    scale_measure(&run, BENCH_MMA_BF16, 6, 0.98);
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_SLOW_SM, BENCH_PART_COMPUTE, 6);
    assert_int_equal(f->sm, BENCH_NONE);
    check_says(f, "12 SMs (0, 1, 2, 3, 4, 5, 6, 7, ...) do up to 20 % less");
}

static void missing_sm(void **state)
{
    BenchError *e = add_error(&run, BENCH_ERROR_MISSING_SM, BENCH_STAGE_PROBES, 1, BENCH_NONE);

    (void)state;
    e->want = 132;
    e->got = 130;
    e->count = 2;
    check_text(check_one(BENCH_FAULT, BENCH_MISSING_SM, BENCH_PART_COMPUTE, 1), "GPU 1: 2 of its 132 SMs did no work");
}

/* --- 5, 6: wrong values ------------------------------------------------------------------------------------------- */

static void wrong_sm_is_silent(void **state)
{
    BenchError *e = add_wrong(&run, BENCH_STAGE_BURN, 5, BENCH_NONE, "gemm_bf16");

    (void)state;
    e->sm = 97;
    e->measure = BENCH_BURN;
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_WRONG_VALUES, BENCH_PART_COMPUTE, 5);
    assert_int_equal(f->sm, 97);
    assert_true(f->silent);
    assert_false(f->repeats);
    check_text(f, "GPU 5: SM 97 computes wrong: 3 wrong values (gemm_bf16: should be 0x55555555, is 0x55555557); "
                  "silent: no XID and no ECC error");
}

static void stuck_value_repeats(void **state)
{
    BenchError *e = add_wrong(&run, BENCH_STAGE_PROBES, 0, BENCH_NONE, "mma_bf16");

    (void)state;
    e->sm = 4;
    e->repeats = true;
    run.gpus.at[0].after[BENCH_ECC_CORRECTED] = 0;
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_WRONG_VALUES, BENCH_PART_COMPUTE, 0);
    assert_true(f->repeats);
    check_says(f, ", the same wrong value each time");
}

static void wrong_memory_explains_products(void **state)
{
    (void)state;
    add_wrong(&run, BENCH_STAGE_PATTERNS, 4, BENCH_NONE, "walking bit");
    add_wrong(&run, BENCH_STAGE_GEMM, 4, BENCH_NONE, "gemm_bf16");
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_WRONG_VALUES, BENCH_PART_MEMORY, 4);
    check_says(f, "ECC is on: not a memory cell, but the way to it is bad");
}

static void wrong_copies_of_the_host(void **state)
{
    (void)state;
    add_wrong(&run, BENCH_STAGE_HOST, 6, BENCH_NONE, "host.to")->measure = BENCH_HOST_TO_GPU;
    check_one(BENCH_FAULT, BENCH_CORRUPTS, BENCH_PART_HOST_LINK, 6);
}

/* --- 7, 8: what the driver counts --------------------------------------------------------------------------------- */

static void corrected_errors_are_noted(void **state)
{
    (void)state;
    run.gpus.at[2].before[BENCH_ECC_CORRECTED] = 12;
    run.gpus.at[2].after[BENCH_ECC_CORRECTED] = 312;
    check_text(check_one(BENCH_NOTICE, BENCH_ECC_ERRORS, BENCH_PART_MEMORY, 2),
               "GPU 2: 300 corrected ECC errors during the test");
}

static void memory_error_is_one_finding(void **state)
{
    BenchGpu *g = &run.gpus.at[6];
    BenchError *e = add_error(&run, BENCH_ERROR_CALL, BENCH_STAGE_PATTERNS, 6, BENCH_NONE);

    (void)state;
    e->code = 214;
    snprintf(e->what, sizeof e->what, "cuStreamSynchronize");
    add_error(&run, BENCH_ERROR_ENDED, BENCH_STAGE_PATTERNS, 6, BENCH_NONE);
    cut_stages(&run, 6, BENCH_STAGE_PATTERNS);
    g->after[BENCH_ECC_UNCORRECTED] = 1;
    g->after[BENCH_REMAP_PENDING] = 1;
    add_xid(g, 48, CAUSE_MEMORY, SEVERITY_ERROR, "uncorrectable memory error");
    add_xid(g, 63, CAUSE_MEMORY, SEVERITY_WARNING, "a memory row was marked for replacement");
    for (int i = 0; i < 2; i++)
        add_xid(g, 94, CAUSE_MEMORY, SEVERITY_ERROR, "contained memory error");
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_MEMORY_ERROR, BENCH_PART_MEMORY, 6);
    assert_int_equal(f->code, 48);
    check_text(f,
               "GPU 6: uncorrectable memory error: XID 48, 63, 94; 1 uncorrected ECC error; cuStreamSynchronize failed "
               "with error 214 during 'memory patterns'; rows of its memory wait to be replaced: it needs a reset");
}

static void xids_by_cause(void **state)
{
    static const struct {
        uint32_t xid;
        FaultCause cause;
        FaultSeverity fault;
        BenchSeverity severity;
        BenchPart part;
    } cases[] = {{79, CAUSE_BUS, SEVERITY_FATAL, BENCH_FAULT, BENCH_PART_HOST_LINK},
                 {74, CAUSE_LINK, SEVERITY_ERROR, BENCH_FAULT, BENCH_PART_PEER_LINK},
                 {149, CAUSE_LINK, SEVERITY_WARNING, BENCH_DEGRADED, BENCH_PART_PEER_LINK},
                 {119, CAUSE_FIRMWARE, SEVERITY_FATAL, BENCH_FAULT, BENCH_PART_START},
                 {13, CAUSE_APPLICATION, SEVERITY_ERROR, BENCH_NOTICE, BENCH_PART_COMPUTE},
                 {63, CAUSE_MEMORY, SEVERITY_WARNING, BENCH_DEGRADED, BENCH_PART_MEMORY},
                 {999, CAUSE_UNKNOWN, SEVERITY_ERROR, BENCH_FAULT, BENCH_PART_START}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        run.gpus.at[1].xid_count = 0;
        add_xid(&run.gpus.at[1], cases[i].xid, cases[i].cause, cases[i].fault, "something failed");
        const BenchFinding *f = check_one(cases[i].severity, BENCH_XID, cases[i].part, 1);
        assert_int_equal(f->code, cases[i].xid);
    }
    check_text(&judged.findings.at[0], "GPU 1: XID 999 during the test: something failed");
    run.gpus.at[1].xids[0].fault = false;
    judge();
    check_count(0);
}

static void beside_other_work_speed_is_not_judged(void **state)
{
    (void)state;
    run.gpus.at[3].shared = true;
    slow_memory(&run, 3, 0.5);
    check_text(check_one(BENCH_UNTESTED, BENCH_BESIDE_OTHERS, BENCH_PART_START, 3),
               "GPU 3: other processes ran on it during the test: its speed is not judged");
    add_wrong(&run, BENCH_STAGE_BURN, 3, BENCH_NONE, "gemm_bf16");
    judge();
    check_count(2);
    assert_int_equal(judged.findings.at[0].symptom, BENCH_WRONG_VALUES);
    assert_int_equal(judged.gpus[3], BENCH_NOT_FIT);
}

static void link_errors_are_noted(void **state)
{
    BenchGpu *g = &run.gpus.at[3];

    (void)state;
    g->after[BENCH_PCIE_REPLAYS] = 16;
    check_fine();
    g->after[BENCH_PCIE_REPLAYS] = 17;
    check_one(BENCH_NOTICE, BENCH_LINK_ERRORS, BENCH_PART_HOST_LINK, 3);
    g->before[BENCH_PCIE_REPLAYS] = 17; /* from before the test */
    check_fine();
    g->after[BENCH_NVLINK_ERRORS] = 1;
    check_one(BENCH_NOTICE, BENCH_LINK_ERRORS, BENCH_PART_PEER_LINK, 3);
    g->after[BENCH_NVLINK_ERRORS] = 0;
    g->after[BENCH_REMAPPED] = 1;
    check_text(check_one(BENCH_NOTICE, BENCH_ECC_ERRORS, BENCH_PART_MEMORY, 3),
               "GPU 3: 1 row of its memory replaced during the test");
    g->after[BENCH_REMAPPED] = 0;
    g->before[BENCH_NVLINKS_DOWN] = 0;
    g->after[BENCH_NVLINKS_DOWN] = 2;
    check_text(check_one(BENCH_DEGRADED, BENCH_LINKS_DOWN, BENCH_PART_PEER_LINK, 3),
               "GPU 3: 2 of its NVLinks went down during the test");
}

/* --- 9, 10: link to the host -------------------------------------------------------------------------------------- */

static BenchWatch *watch_of(uint32_t gpu, BenchStage stage)
{
    BenchGpu *g = &run.gpus.at[gpu];

    for (uint32_t i = 0; i < g->watch_count; i++)
        if (g->watch[i].stage == stage)
            return &g->watch[i];
    return NULL;
}

static void idle_link_is_normal(void **state)
{
    (void)state;
    watch_of(1, BENCH_STAGE_MEMORY)->pcie_gen = 1;
    check_fine();
}

static void slow_link_says_its_generation(void **state)
{
    (void)state;
    scale_measure(&run, BENCH_HOST_TO_GPU, 1, 0.06);
    scale_measure(&run, BENCH_GPU_TO_HOST, 1, 0.06);
    watch_of(1, BENCH_STAGE_HOST)->pcie_gen = 1;
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_SLOW, BENCH_PART_HOST_LINK, 1);
    assert_int_equal(f->reason, BENCH_REASON_PCIE);
    check_says(f, "its PCIe link ran at generation 1 x16 meanwhile, others at generation 5 x16");
}

static void half_width(void **state)
{
    (void)state;
    scale_measure(&run, BENCH_HOST_TO_GPU, 7, 0.51);
    scale_measure(&run, BENCH_GPU_TO_HOST, 7, 0.51);
    watch_of(7, BENCH_STAGE_HOST)->pcie_width = 8;
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_HOST_LINK, 7);
    check_says(f, "generation 5 x8 meanwhile");
}

/* Without NVLinks copies between GPUs go over that link as well. */
static void slow_host_link_explains_slow_pairs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        run.gpus.at[i].before[BENCH_NVLINKS_DOWN] = run.gpus.at[i].after[BENCH_NVLINKS_DOWN] = (double)NAN;
    scale_measure(&run, BENCH_HOST_TO_GPU, 1, 0.3);
    scale_measure(&run, BENCH_GPU_TO_HOST, 1, 0.3);
    for (uint32_t i = 0; i < 8; i++)
        if (i != 1) {
            scale_pair(&run, BENCH_PEER, 1, i, 0.3);
            scale_pair(&run, BENCH_PEER, i, 1, 0.3);
        }
    check_one(BENCH_FAULT, BENCH_SLOW, BENCH_PART_HOST_LINK, 1);
}

/* --- 11 to 14: pairs ---------------------------------------------------------------------------------------------- */

static void remove_pair(uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < run.measures.len; i++)
        if (run.measures.at[i].gpu == a && run.measures.at[i].peer == b) {
            vec_remove(&run.measures, i);
            return;
        }
}

static void pair_without_access(void **state)
{
    (void)state;
    add_error(&run, BENCH_ERROR_NO_PEER, BENCH_STAGE_PAIRS, 2, 5);
    add_error(&run, BENCH_ERROR_NO_PEER, BENCH_STAGE_PAIRS, 5, 2);
    add_error(&run, BENCH_ERROR_STAGED, BENCH_STAGE_PAIRS, 5, 2);
    remove_pair(2, 5);
    remove_pair(5, 2);
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_NO_ACCESS, BENCH_PART_PEER_LINK, 2);
    assert_int_equal(f->peer, 5);
    check_text(f, "GPUs 2 and 5: no access to each other's memory; other pairs of this node have");
}

static void gpu_without_access(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        if (i != 3)
            add_error(&run, BENCH_ERROR_NO_PEER, BENCH_STAGE_PAIRS, i, 3);
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_NO_ACCESS, BENCH_PART_PEER_LINK, 3);
    check_text(f, "GPU 3: has no access to GPUs 0, 1, 2, 4, 5, 6, 7; other pairs of this node have");
}

/* Boards without peer access are not faulty. */
static void board_without_access(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        run.gpus.at[i].before[BENCH_NVLINKS_DOWN] = run.gpus.at[i].after[BENCH_NVLINKS_DOWN] = (double)NAN;
        for (uint32_t k = 0; k < 8; k++)
            if (i != k)
                add_error(&run, BENCH_ERROR_NO_PEER, BENCH_STAGE_PAIRS, i, k);
    }
    judge();
    check_count(1);
    assert_int_equal(judged.findings.at[0].severity, BENCH_NOTICE);
    assert_int_equal(judged.verdict, BENCH_FIT);
    for (uint32_t i = 0; i < 8; i++) /* now it has NVLinks */
        run.gpus.at[i].after[BENCH_NVLINKS_DOWN] = 0;
    judge();
    check_count(1);
    assert_int_equal(judged.findings.at[0].severity, BENCH_DEGRADED);
    assert_int_equal(judged.gpus[4], BENCH_NOT_FIT);
}

static void pair_that_corrupts_blames_both(void **state)
{
    (void)state;
    add_wrong(&run, BENCH_STAGE_PAIRS, 2, 5, "peer")->measure = BENCH_PEER;
    scale_pair(&run, BENCH_PEER, 2, 5, 1);
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_CORRUPTS, BENCH_PART_PEER_LINK, 2);
    assert_int_equal(f->peer, 5);
    assert_int_equal(f->gpus, 1u << 2 | 1u << 5);
    check_text(f, "GPUs 2 and 5: the copy from GPU 2 to GPU 5 corrupts data: 3 wrong values (should be 0x55555555, is "
                  "0x55555557); silent: no XID and no error of a link");
}

static void gpu_that_corrupts_is_blamed_alone(void **state)
{
    (void)state;
    add_wrong(&run, BENCH_STAGE_PAIRS, 2, 5, "peer");
    add_wrong(&run, BENCH_STAGE_PAIRS, 2, 6, "peer");
    add_wrong(&run, BENCH_STAGE_COLLECTIVES, 1, 2, "all-reduce");
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_CORRUPTS, BENCH_PART_PEER_LINK, 2);
    assert_int_equal(f->peer, BENCH_NONE);
    check_says(f, "GPU 2: copies between it and GPUs 5, 6 corrupt data");
}

static void wrong_sum_without_a_wrong_pair(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        add_wrong(&run, BENCH_STAGE_COLLECTIVES, i, i == 3 ? BENCH_NONE : 3, "all-reduce");
    check_one(BENCH_FAULT, BENCH_CORRUPTS, BENCH_PART_COLLECTIVE, 3);
}

static void halve_links(uint32_t gpu)
{
    for (uint32_t i = 0; i < 8; i++)
        if (i != gpu) {
            scale_pair(&run, BENCH_PEER, gpu, i, 0.5);
            scale_pair(&run, BENCH_PEER, i, gpu, 0.5);
        }
    for (uint32_t i = 0; i < 8; i++)
        scale_measure(&run, BENCH_ALL_REDUCE, i, 0.52);
    scale_measure(&run, BENCH_RING, gpu, 0.5);
    run.gpus.at[gpu].before[BENCH_NVLINKS_DOWN] = run.gpus.at[gpu].after[BENCH_NVLINKS_DOWN] = 9;
}

static void half_nvlink_blames_one_gpu(void **state)
{
    (void)state;
    halve_links(4);
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_PEER_LINK, 4);
    assert_int_equal(f->reason, BENCH_REASON_NVLINKS);
    check_says(f, "GPU 4: copies to and from the other GPUs (GPU to GPU) reach 19");
    check_says(f, "50 % behind the 7 other H100 of this node");
    check_says(f, "; 9 of its NVLinks are down");
}

static void two_gpus_with_half_nvlink(void **state)
{
    (void)state;
    halve_links(4);
    halve_links(6);
    judge();
    check_count(2);
    assert_int_equal(judged.findings.at[0].gpus | judged.findings.at[1].gpus, 1u << 4 | 1u << 6);
}

static void one_nvlink_of_18(void **state)
{
    (void)state;
    run.gpus.at[4].before[BENCH_NVLINKS_DOWN] = run.gpus.at[4].after[BENCH_NVLINKS_DOWN] = 1;
    check_one(BENCH_DEGRADED, BENCH_LINKS_DOWN, BENCH_PART_PEER_LINK, 4);
    for (uint32_t i = 0; i < 8; i++) /* links that lead nowhere on this board */
        run.gpus.at[i].before[BENCH_NVLINKS_DOWN] = run.gpus.at[i].after[BENCH_NVLINKS_DOWN] = 6;
    check_fine();
}

static void one_slow_pair(void **state)
{
    (void)state;
    scale_pair(&run, BENCH_PEER, 2, 5, 0.7);
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_PEER_LINK, 2);
    assert_int_equal(f->peer, 5);
    check_says(f, "GPUs 2 and 5: copies between them are slow: 27");
}

static void slow_pair_at_its_limits(void **state)
{
    (void)state;
    scale_pair(&run, BENCH_PEER, 2, 5, 0.977);
    check_fine();
    scale_pair(&run, BENCH_PEER, 2, 5, 0.955 / 0.977);
    check_one(BENCH_NOTICE, BENCH_SLOW, BENCH_PART_PEER_LINK, 2);
}

/* GPUs with a bridge in pairs: the other copies go over PCIe. */
static void bridges_in_pairs_are_a_topology(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t k = 0; k < 8; k++)
            if (i != k && i / 2 != k / 2)
                scale_pair(&run, BENCH_PEER, i, k, 0.12);
    check_fine();
    scale_pair(&run, BENCH_PEER, 4, 5, 0.5);
    scale_pair(&run, BENCH_PEER, 5, 4, 0.5);
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_SLOW, BENCH_PART_PEER_LINK, 4);
    assert_int_equal(f->peer, 5);
}

static void staged_pair(void **state)
{
    (void)state;
    add_error(&run, BENCH_ERROR_STAGED, BENCH_STAGE_PAIRS, 0, 7);
    scale_pair(&run, BENCH_PEER, 0, 7, 0.0515);
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_STAGED, BENCH_PART_PEER_LINK, 0);
    check_says(f, "GPUs 0 and 7: copies between them go through the host, 20.");
}

/* --- 15, 16: clocks ----------------------------------------------------------------------------------------------- */

static void power_limit_is_a_setting(void **state)
{
    (void)state;
    run.gpus.at[5].limit_w = 400;
    lower_clock(&run, 5, 1410, 4);
    const BenchFinding *f = check_one(BENCH_NOTICE, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, 5);
    assert_int_equal(f->reason, BENCH_REASON_SETTING);
    check_says(f, "GPU 5: holds 1,410 MHz under load, the others 1,75");
    check_says(f, "; power limit 400 W, theirs 700 W: a setting, not a fault");
}

static void low_clock_at_equal_limit(void **state)
{
    (void)state;
    lower_clock(&run, 5, load_mhz * 0.975, 4);
    check_fine();
    lower_clock(&run, 5, load_mhz * 0.96, 4);
    check_one(BENCH_NOTICE, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, 5);
    lower_clock(&run, 5, load_mhz * 0.9, 0);
    check_says(check_one(BENCH_DEGRADED, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, 5), "; no reason given");
    lower_clock(&run, 5, load_mhz * 0.9, 0x44);
    const BenchFinding *f = check_one(BENCH_DEGRADED, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, 5);
    assert_int_equal(f->reason, BENCH_REASON_HEAT);
    check_says(f, "; it slows down for heat (61 C)");
    lower_clock(&run, 5, load_mhz * 0.9, 0x88);
    assert_int_equal(check_one(BENCH_DEGRADED, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, 5)->reason, BENCH_REASON_BRAKE);
    lower_clock(&run, 5, load_mhz * 0.9, 0x8);
    assert_int_equal(check_one(BENCH_DEGRADED, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, 5)->reason, BENCH_REASON_SLOWDOWN);
}

static void stopped_for_heat(void **state)
{
    BenchError *e = add_error(&run, BENCH_ERROR_STOPPED, BENCH_STAGE_BURN, 3, BENCH_NONE);

    (void)state;
    snprintf(e->what, sizeof e->what, "too hot");
    e->count = 6000;
    cut_stages(&run, 3, BENCH_STAGE_BURN);
    watch_of(3, BENCH_STAGE_BURN)->reasons = 0x44;
    watch_of(3, BENCH_STAGE_BURN)->temp_c = 88;
    check_text(check_one(BENCH_DEGRADED, BENCH_HOT, BENCH_PART_CLOCK, 3),
               "GPU 3: stopped during 'burn' after 6.0 s: too hot (88 C); check fans and airflow");
}

/* --- 17 to 19: what could not be tested --------------------------------------------------------------------------- */

static void memory_held_by_nobody(void **state)
{
    BenchError *e = add_error(&run, BENCH_ERROR_LESS_MEMORY, BENCH_STAGE_PATTERNS, 0, BENCH_NONE);

    (void)state;
    e->want = UINT64_C(70) << 30;
    e->got = UINT64_C(40) << 30;
    check_says(check_one(BENCH_DEGRADED, BENCH_HELD_MEMORY, BENCH_PART_MEMORY, 0),
               "30.0 GiB of its memory cannot be had");
    e->got = UINT64_C(68) << 30;
    check_says(check_one(BENCH_NOTICE, BENCH_HELD_MEMORY, BENCH_PART_MEMORY, 0),
               "2.00 GiB of its memory cannot be had");
}

static void hung_gpu_is_unknown(void **state)
{
    (void)state;
    add_error(&run, BENCH_ERROR_HUNG, BENCH_STAGE_BURN, 7, BENCH_NONE);
    cut_stages(&run, 7, BENCH_STAGE_BURN);
    check_text(check_one(BENCH_UNTESTED, BENCH_HUNG, BENCH_PART_START, 7),
               "GPU 7: gave no answer during 'burn'; its process was killed, and the rest was not tested");
    add_xid(&run.gpus.at[7], 79, CAUSE_BUS, SEVERITY_FATAL, "GPU has fallen off the bus");
    judge();
    check_count(2);
    assert_int_equal(judged.findings.at[0].symptom, BENCH_XID);
    assert_int_equal(judged.gpus[7], BENCH_NOT_FIT);
}

static void start_that_fails_names_its_cause(void **state)
{
    static const struct {
        int32_t code;
        const char *words;
    } cases[] = {{802, "the fabric manager is not running"},
                 {803, "of different versions"},
                 {100, "CUDA sees no GPU"},
                 {46, "exclusive use"},
                 {999, "an unknown error of the driver"},
                 {221, "libnvidia-ptxjitcompiler.so.1 is missing"},
                 {222, "the driver is too old"},
                 {4711, "CUDA failed (cuInit: error 4711)"}};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        snprintf(add_error(&run, BENCH_ERROR_CALL, BENCH_STAGE_START, i, BENCH_NONE)->what, 48, "cuInit");
        run.gpus.at[i].known = false;
        run.gpus.at[i].ended = 0;
    }
    run.measures.len = 0;
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        for (uint32_t i = 0; i < 8; i++)
            run.errors.at[i].code = cases[c].code;
        const BenchFinding *f = check_one(BENCH_UNTESTED, BENCH_CALL_FAILED, BENCH_PART_START, BENCH_NONE);
        assert_int_equal(f->code, cases[c].code);
        assert_int_equal(f->gpus, 0xff);
        check_says(f, cases[c].words);
        check_says(f, "all 8 GPUs: CUDA does not start: ");
    }
}

static void failed_kernel(void **state)
{
    BenchError *e = add_error(&run, BENCH_ERROR_CALL, BENCH_STAGE_PROBES, 2, BENCH_NONE);

    (void)state;
    e->code = 700;
    cut_stages(&run, 2, BENCH_STAGE_PROBES);
    check_says(check_one(BENCH_FAULT, BENCH_CALL_FAILED, BENCH_PART_COMPUTE, 2), "it ends well on other GPUs");
    for (uint32_t i = 0; i < 8; i++)
        run.gpus.at[i].ended &= ~STAGE(PROBES);
    judge();
    assert_int_equal(judged.verdict, BENCH_UNKNOWN); /* it may be the test's own fault */
}

static void older_kernels_are_noted_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        add_error(&run, BENCH_ERROR_OLDER_TEXT, BENCH_STAGE_START, i, BENCH_NONE);
    assert_int_equal(check_one(BENCH_NOTICE, BENCH_OLDER_TEXT, BENCH_PART_COMPUTE, BENCH_NONE)->gpus, 0xff);
}

static void ended_process(void **state)
{
    (void)state;
    snprintf(add_error(&run, BENCH_ERROR_ENDED, BENCH_STAGE_MEMORY, 1, BENCH_NONE)->what, 48, "signal 11");
    cut_stages(&run, 1, BENCH_STAGE_MEMORY);
    check_text(check_one(BENCH_UNTESTED, BENCH_PROCESS_ENDED, BENCH_PART_START, 1),
               "GPU 1: the process that tests it ended during 'memory bandwidth' (signal 11)");
}

static void interrupted_run_is_unknown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        snprintf(add_error(&run, BENCH_ERROR_STOPPED, BENCH_STAGE_BURN, i, BENCH_NONE)->what, 48, "interrupted");
        cut_stages(&run, i, BENCH_STAGE_BURN);
    }
    check_one(BENCH_UNTESTED, BENCH_STOPPED, BENCH_PART_START, BENCH_NONE);
}

/* --- never fit by default ----------------------------------------------------------------------------------------- */

static void nothing_is_not_fit(void **state)
{
    (void)state;
    bench_run_done(&run);
    run.gpus.len = 0;
    judge();
    assert_int_equal(judged.verdict, BENCH_UNKNOWN);
}

static void stage_that_did_not_end(void **state)
{
    (void)state;
    run.gpus.at[2].ended &= ~STAGE(PATTERNS);
    check_text(check_one(BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_START, 2),
               "GPU 2: not tested to the end: 'memory patterns' did not end");
}

static void gpu_that_said_nothing(void **state)
{
    (void)state;
    run.gpus.at[2].known = false;
    check_text(check_one(BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_START, 2),
               "GPU 2: not tested to the end: the process that tests it said nothing of it");
}

static void test_of_links_that_ended(void **state)
{
    (void)state;
    snprintf(add_error(&run, BENCH_ERROR_ENDED, BENCH_STAGE_PAIRS, BENCH_NONE, BENCH_NONE)->what, 48, "signal 9");
    for (uint32_t i = 0; i < 8; i++)
        run.gpus.at[i].ended &= ~(STAGE(PAIRS) | STAGE(COLLECTIVES));
    const BenchFinding *f = check_one(BENCH_UNTESTED, BENCH_PROCESS_ENDED, BENCH_PART_START, BENCH_NONE);
    assert_int_equal(f->gpus, 0xff);
    check_text(f, "all 8 GPUs: the test of links between GPUs ended during 'copies between GPUs' (signal 9)");
}

static void measure_that_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < run.measures.len; i++)
        if (run.measures.at[i].id == BENCH_WGMMA_BF16 && run.measures.at[i].gpu == 3) {
            vec_remove(&run.measures, i);
            break;
        }
    check_says(check_one(BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_COMPUTE, 3), "wgmma bf16 gave no result");
}

static void pair_that_is_missing(void **state)
{
    (void)state;
    remove_pair(2, 6);
    check_says(check_one(BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_PEER_LINK, 2), "copies to GPU 6 gave no result");
}

static void values_that_are_none(void **state)
{
    static const double bad[] = {(double)NAN, 0, -1, (double)INFINITY};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        scale_measure(&run, BENCH_MEMORY_READ, 3, 1)->samples[2] = bad[i];
        check_says(check_one(BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_MEMORY, 3),
                   "memory read gave no usable value");
    }
    scale_measure(&run, BENCH_MEMORY_READ, 3, 1)->samples[2] = 3205;
    scale_measure(&run, BENCH_MMA_BF16, 3, 1)->sm_mhz = (double)NAN;
    check_one(BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_COMPUTE, 3);
}

static void run_that_says_nothing(void **state)
{
    (void)state;
    run.stages = 0;
    judge();
    assert_int_equal(judged.verdict, BENCH_UNKNOWN);
}

/* The vendor's library is a comparison. */
static void rate_of_the_library_is_not_judged(void **state)
{
    (void)state;
    for (uint32_t gpu = 0; gpu < 8; gpu++)
        vec_push(&run.measures, make_measure(BENCH_GEMM_LIBRARY, gpu, BENCH_NONE, gpu == 5 ? 1 : 790, &seed));
    run.measures.at[run.measures.len - 1].samples[0] = (double)NAN;
    snprintf(run.gpus.at[2].library_error, sizeof run.gpus.at[2].library_error, "its process ended (signal 11)");
    check_fine();
}

/* --- 20: MIG ------------------------------------------------------------------------------------------------------ */

static void one_slow_mig_device(void **state)
{
    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 7, &seed);
    for (size_t i = run.measures.len; i-- > 0;)
        if (run.measures.at[i].peer != BENCH_NONE || bench_measures[run.measures.at[i].id].part >= BENCH_PART_HOST_LINK)
            vec_remove(&run.measures, i);
    for (uint32_t i = 0; i < 7; i++) {
        BenchGpu *g = &run.gpus.at[i];

        snprintf(g->device.uuid, sizeof g->device.uuid, "MIG-%u", i);
        snprintf(g->device.name, sizeof g->device.name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
        g->ended &= ~(STAGE(HOST) | STAGE(PAIRS) | STAGE(COLLECTIVES));
        g->index = 0;
        for (BenchMeasureId id = BENCH_MEMORY_WRITE; id <= BENCH_MEMORY_TRIAD; id++)
            scale_measure(&run, id, i, 0.125); /* of a whole one's */
    }
    check_fine();
    slow_memory(&run, 4, 0.89);
    const BenchFinding *f = check_one(BENCH_FAULT, BENCH_SLOW, BENCH_PART_MEMORY, 4);
    check_says(f, "GPU 0 MIG-4: memory ");
    check_says(f, "% behind the 6 other H100 1g.10gb of this node");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, start_anew, end_anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(healthy_nodes_are_fit),
        CASE(rate_of_the_library_is_not_judged),
        CASE(slow_memory_is_named_once),
        CASE(memory_at_its_limits),
        CASE(limits_are_exact),
        CASE(wide_spread_says_less),
        CASE(sentence_of_slow_memory),
        CASE(slow_sm_is_named),
        CASE(sm_at_its_limit),
        CASE(sm_exactly_at_its_limit),
        CASE(several_slow_sms_explain_the_sum),
        CASE(missing_sm),
        CASE(wrong_sm_is_silent),
        CASE(stuck_value_repeats),
        CASE(wrong_memory_explains_products),
        CASE(wrong_copies_of_the_host),
        CASE(corrected_errors_are_noted),
        CASE(memory_error_is_one_finding),
        CASE(xids_by_cause),
        CASE(beside_other_work_speed_is_not_judged),
        CASE(link_errors_are_noted),
        CASE(idle_link_is_normal),
        CASE(slow_link_says_its_generation),
        CASE(half_width),
        CASE(slow_host_link_explains_slow_pairs),
        CASE(pair_without_access),
        CASE(gpu_without_access),
        CASE(board_without_access),
        CASE(pair_that_corrupts_blames_both),
        CASE(gpu_that_corrupts_is_blamed_alone),
        CASE(wrong_sum_without_a_wrong_pair),
        CASE(half_nvlink_blames_one_gpu),
        CASE(two_gpus_with_half_nvlink),
        CASE(one_nvlink_of_18),
        CASE(one_slow_pair),
        CASE(slow_pair_at_its_limits),
        CASE(bridges_in_pairs_are_a_topology),
        CASE(staged_pair),
        CASE(power_limit_is_a_setting),
        CASE(low_clock_at_equal_limit),
        CASE(stopped_for_heat),
        CASE(memory_held_by_nobody),
        CASE(hung_gpu_is_unknown),
        CASE(start_that_fails_names_its_cause),
        CASE(failed_kernel),
        CASE(older_kernels_are_noted_once),
        CASE(ended_process),
        CASE(interrupted_run_is_unknown),
        CASE(nothing_is_not_fit),
        CASE(stage_that_did_not_end),
        CASE(gpu_that_said_nothing),
        CASE(test_of_links_that_ended),
        CASE(measure_that_is_missing),
        CASE(pair_that_is_missing),
        CASE(values_that_are_none),
        CASE(run_that_says_nothing),
        CASE(one_slow_mig_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
