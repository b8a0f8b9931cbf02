/* SPDX-License-Identifier: Apache-2.0 */
/* service/bench: runs as JSON and back, and whole outputs. */
#include "../golden.h"

#include <errno.h>

#include "runs.h"
#include "service/bench/bench_report.h"

enum { OUT_MAX = 4 << 20 };

static uint64_t seed;
static BenchRun run;
static BenchJudgement judged;
static Str out, again;

static int start_anew(void **state)
{
    (void)state;
    seed = 5;
    run = make_run("n1", 8, &seed);
    out = str_limited(OUT_MAX);
    again = str_limited(OUT_MAX);
    return 0;
}

static int end_anew(void **state)
{
    (void)state;
    bench_run_done(&run);
    bench_judgement_done(&judged);
    str_done(&out);
    str_done(&again);
    return 0;
}

/* Faults of several kinds. */
static void make_faults(void)
{
    BenchError *wrong;

    slow_memory(&run, 3, 0.94);
    run.gpus.at[5].limit_w = 400;
    lower_clock(&run, 5, 1410, 4);
    wrong = add_wrong(&run, BENCH_STAGE_BURN, 1, BENCH_NONE, "gemm_bf16");
    wrong->sm = 97;
    wrong->want = UINT64_MAX;
    add_wrong(&run, BENCH_STAGE_PAIRS, 2, 6, "peer")->measure = BENCH_PEER;
    add_error(&run, BENCH_ERROR_HUNG, BENCH_STAGE_HOST, 7, BENCH_NONE);
    run.gpus.at[7].ended &= ~(STAGE(HOST) | STAGE(PAIRS) | STAGE(COLLECTIVES));
    run.gpus.at[0].after[BENCH_ECC_CORRECTED] = 2;
    run.gpus.at[0].before[BENCH_NVLINKS_DOWN] = run.gpus.at[0].after[BENCH_NVLINKS_DOWN] = (double)NAN;
    add_xid(&run.gpus.at[4], 31, CAUSE_APPLICATION, SEVERITY_ERROR, "page fault of the GPU");
    add_xid(&run.gpus.at[4], 43, CAUSE_APPLICATION, SEVERITY_INFO, "a channel was reset");
    bench_judge(&run, NULL, &judged);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_and_back(void **state)
{
    BenchRun read;
    BenchJudgement read_judged;
    Err err;

    (void)state;
    make_faults();
    snprintf(run.gpus.at[5].library_error, sizeof run.gpus.at[5].library_error, "no answer within its time");
    scale_measure(&run, BENCH_MEMORY_READ, 6, 1)->samples[1] = (double)NAN;
    bench_write_json(&run, &judged, &out);
    if (bench_read_judged(out.text, out.len, &read, &read_judged, &err) < 0)
        fail_msg("%s", err.text);
    bench_write_json(&read, &read_judged, &again);
    assert_string_equal(out.text, again.text);
    assert_true(out.len < BENCH_TEXT_MAX);
    assert_int_equal(read.errors.at[0].want, UINT64_MAX);
    assert_int_equal(read.stages, READY);
    assert_int_equal(read.gpus.at[7].ended, run.gpus.at[7].ended);
    bench_judgement_done(&read_judged);
    bench_judge(&read, NULL, &read_judged); /* it says the same again, but for the value that was none */
    assert_int_equal(read_judged.findings.len, judged.findings.len + 1);
    for (size_t i = 0; i < judged.findings.len && i < 3; i++)
        assert_string_equal(read_judged.findings.at[i].text, judged.findings.at[i].text);
    bench_run_done(&read);
    bench_judgement_done(&read_judged);
}

static void json_of_a_small_run(void **state)
{
    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 2, &seed);
    slow_memory(&run, 1, 0.7);
    add_wrong(&run, BENCH_STAGE_PROBES, 0, BENCH_NONE, "mma_bf16")->sm = 4;
    for (size_t i = 0; i < run.measures.len; i++)
        run.measures.at[i].sm_count = run.measures.at[i].sm_count ? 4 : 0;
    bench_judge(&run, NULL, &judged);
    bench_write_json(&run, &judged, &out);
    assert_golden(GOLDEN "/run.json", &out);
    str_clear(&out);
    run.gpus.len = run.measures.len = run.errors.len = 0;
    bench_write_json(&run, NULL, &out);
    assert_golden(GOLDEN "/empty.json", &out);
}

static void wrong_files_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
        int rc;
    } cases[] = {
        {"", "line 1:", -EINVAL},
        {"[]", "it is no object; give a result of 'stoker bench ready'", -EINVAL},
        {"{}", "its 'version' is not 1", -EINVAL},
        {"{\"version\":2}", "its 'version' is not 1", -EINVAL},
        {"{\"version\":1}", "it has no list 'gpus'", -EINVAL},
        {"{\"version\":1,\"gpus\":[3]}", "gpus[0] is no object", -EINVAL},
        {"{\"version\":1,\"gpus\":[]}", "it has no list 'measures'", -EINVAL},
        {"{\"version\":1,\"gpus\":[],\"measures\":[{\"measure\":\"burn\",\"gpu\":0}]}",
         "measures[0] is of GPU 0 of the list 'gpus', which has 0", -EINVAL},
        {"{\"version\":1,\"gpus\":[{}],\"measures\":[{\"measure\":\"burn\"}]}", "measures[0] names no GPU", -EINVAL},
        {"{\"version\":1,\"gpus\":[{}],\"measures\":[{\"measure\":\"burn\",\"gpu\":0,\"peer\":1}]}",
         "measures[0] is of GPU 1", -EINVAL},
        {"{\"version\":1,\"gpus\":[],\"measures\":[],\"errors\":[{\"kind\":\"lost\"}]}",
         "errors[0] is of a kind that this version does not know", -EINVAL},
        {"{\"version\":1,\"gpus\":[],\"measures\":[],\"errors\":[]}", "it has no list 'findings'", -EINVAL},
        {"{\"version\":1,\"version\":1}", "duplicate object key", -EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        BenchRun read;
        Err err = {0};

        assert_int_equal(bench_read_json(cases[i].text, strlen(cases[i].text), &read, &err), cases[i].rc);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(read.gpus.len, 0);
    }
}

static void large_files_are_refused(void **state)
{
    BenchRun read;
    Err err = {0};

    (void)state;
    CLEANUP_FREE char *text = calloc(1, BENCH_TEXT_MAX + 1);
    assert_int_equal(bench_read_json(text, BENCH_TEXT_MAX + 1, &read, &err), -EFBIG);
    assert_non_null(strstr(err.text, "larger than 8 MiB"));
}

static void files_of_newer_versions_are_read(void **state)
{
    static const char text[] =
        "{\"version\":1,\"more\":{},\"gpus\":[{\"index\":4,\"colour\":\"red\"}],"
        "\"measures\":[{\"measure\":\"mma.fp2\",\"gpu\":0},{\"measure\":\"burn\",\"gpu\":0,\"samples\":[1,null]}],"
        "\"errors\":[],\"findings\":[]}";
    BenchRun read;

    (void)state;
    assert_int_equal(bench_read_json(text, strlen(text), &read, NULL), 0);
    assert_int_equal(read.measures.len, 1);
    assert_int_equal(read.measures.at[0].count, 2);
    assert_true(isnan(read.measures.at[0].samples[1]));
    assert_true(isnan(read.gpus.at[0].limit_w));
    bench_judge(&read, NULL, &judged);
    assert_int_equal(judged.gpus[0], BENCH_UNKNOWN);
    bench_run_done(&read);
}

static void long_names_end_with_a_whole_character(void **state)
{
    BenchRun read;

    (void)state;
    for (size_t i = 0; i < 200; i++)
        str_add(&out, i ? "\u00e9" : "{\"version\":1,\"rung\":\"a");
    str_add(&out, "\",\"gpus\":[],\"measures\":[],\"errors\":[],\"findings\":[]}");
    assert_int_equal(bench_read_json(out.text, out.len, &read, NULL), 0);
    assert_string_equal(read.rung, "a\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9");
    bench_run_done(&read);
}

/* --- whole outputs ------------------------------------------------------------------------------------------------ */

static void text_of_a_healthy_node(void **state)
{
    (void)state;
    bench_judge(&run, NULL, &judged);
    bench_write_text(&run, &judged, &out);
    assert_golden(GOLDEN "/healthy.txt", &out);
}

static void text_of_faults(void **state)
{
    (void)state;
    make_faults();
    bench_write_text(&run, &judged, &out);
    assert_golden(GOLDEN "/faults.txt", &out);
}

static void text_of_memory_alone(void **state)
{
    (void)state;
    run.stages = STAGE(START) | STAGE(PATTERNS) | STAGE(MEMORY);
    run.seconds = 620;
    snprintf(run.rung, sizeof run.rung, "memory");
    for (size_t i = run.measures.len; i-- > 0;)
        if (bench_measures[run.measures.at[i].id].part > BENCH_PART_MEMORY)
            vec_remove(&run.measures, i);
    for (uint32_t i = 0; i < 8; i++)
        run.gpus.at[i].ended = run.stages;
    bench_judge(&run, NULL, &judged);
    bench_write_text(&run, &judged, &out);
    assert_golden(GOLDEN "/memory.txt", &out);
}

static void write_diff(const BenchRun *before, const BenchRun *after, size_t worse)
{
    CLEANUP(bench_diff_done) BenchDiff diff = {.worse = 0};

    bench_diff(before, after, &diff);
    assert_int_equal(diff.worse, worse);
    bench_write_diff(before, after, &diff, &out);
    bench_write_diff_json(before, after, &diff, &again);
}

static void write_fleet(const BenchRun *runs, size_t count, size_t behind)
{
    CLEANUP_FREE const BenchRun **list = calloc(count, sizeof *list);
    CLEANUP(bench_ranking_done) BenchRanking ranking = {.behind = 0};

    for (size_t i = 0; i < count; i++)
        list[i] = &runs[i];
    bench_rank(list, count, &ranking);
    assert_int_equal(ranking.behind, behind);
    bench_write_fleet(&ranking, &out);
    bench_write_fleet_json(&ranking, &again);
}

static void set_library_error(uint32_t gpu, const char *why)
{
    snprintf(run.gpus.at[gpu].library_error, sizeof run.gpus.at[gpu].library_error, "%s", why);
}

/* The vendor's library has a column where it gave a rate, and a line for each reason why it did not. */
static void text_of_the_library(void **state)
{
    (void)state;
    vec_push(&run.measures, make_measure(BENCH_GEMM_LIBRARY, 0, BENCH_NONE, 790, &seed));
    for (uint32_t gpu = 1; gpu < 8; gpu++)
        set_library_error(gpu, gpu == 3 ? "its process ended (signal 11)" : "cublasLtMatmul failed with status 7");
    bench_judge(&run, NULL, &judged);
    bench_write_text(&run, &judged, &out);
    assert_non_null(strstr(out.text, " product cuBLASLt"));
    assert_non_null(strstr(out.text,
                           "\ncuBLASLt  no rate of GPUs 1, 2, 4, 5, 6, 7: cublasLtMatmul failed with status 7\n"
                           "cuBLASLt  no rate of GPU 3: its process ended (signal 11)\n"));
    str_clear(&out);
    for (uint32_t gpu = 0; gpu < 8; gpu++)
        set_library_error(gpu, "no answer within its time");
    bench_write_text(&run, &judged, &out);
    assert_non_null(strstr(out.text, "\ncuBLASLt  no rate: no answer within its time\n"));
}

/* Names of a file may be anybody's. */
static void text_of_foreign_names(void **state)
{
    (void)state;
    set_library_error(0, "\033[2J");
    snprintf(run.node, sizeof run.node, "n\033[2J1");
    snprintf(run.gpus.at[0].device.name, sizeof run.gpus.at[0].device.name, "NVIDIA \033]0;x\a");
    bench_judge(&run, NULL, &judged);
    bench_write_text(&run, &judged, &out);
    write_diff(&run, &run, 0);
    write_fleet(&run, 1, 0);
    bench_write_roof(&run, &out);
    assert_null(strchr(out.text, '\033'));
    assert_null(strchr(out.text, '\a'));
}

static void text_and_json_of_a_diff(void **state)
{
    BenchRun before = make_run("n1", 8, &seed);

    (void)state;
    make_faults();
    run.real_ns += UINT64_C(86400000000000);
    before.gpus.len = 4;
    run.gpus.len = 5;
    for (size_t i = run.measures.len; i-- > 0;)
        if (run.measures.at[i].gpu >= 5 || (run.measures.at[i].peer != BENCH_NONE && run.measures.at[i].peer >= 5))
            vec_remove(&run.measures, i);
    for (size_t i = before.measures.len; i-- > 0;)
        if (before.measures.at[i].gpu >= 4 ||
            (before.measures.at[i].peer != BENCH_NONE && before.measures.at[i].peer >= 4))
            vec_remove(&before.measures, i);
    run.errors.len = 1;
    write_diff(&before, &run, 7);
    assert_golden(GOLDEN "/diff.txt", &out);
    assert_golden(GOLDEN "/diff.json", &again);
    str_clear(&out);
    write_diff(&before, &before, 0);
    assert_non_null(strstr(out.text, "\nNothing became worse.\n"));
    bench_run_done(&before);
}

static void text_and_json_of_a_fleet(void **state)
{
    BenchRun runs[5];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        char node[16];

        snprintf(node, sizeof node, "node-%zu", i + 1);
        runs[i] = make_run(node, 4, &seed);
    }
    slow_memory(&runs[3], 2, 0.95);
    for (uint32_t gpu = 0; gpu < 4; gpu++)
        scale_measure(&runs[1], BENCH_HOST_TO_GPU, gpu, 0.9);
    write_fleet(runs, ARRAY_LEN(runs), 2);
    assert_golden(GOLDEN "/fleet.txt", &out);
    assert_golden(GOLDEN "/fleet.json", &again);
    for (size_t i = 0; i < ARRAY_LEN(runs); i++)
        bench_run_done(&runs[i]);
}

/* Only of this rung; a reader skips it. */
static void check_roof_json(void)
{
    BenchRun read;

    for (size_t i = 0; i < run.measures.len; i++)
        run.measures.at[i].sm_count = 0;
    run.measures.len = ARRAY_LEN(healthy);
    bench_write_json(&run, NULL, &out);
    assert_null(strstr(out.text, "\"roof\":["));
    str_clear(&out);
    snprintf(run.rung, sizeof run.rung, "roof");
    bench_write_json(&run, NULL, &out);
    assert_golden(GOLDEN "/roof.json", &out);
    assert_int_equal(bench_read_json(out.text, out.len, &read, NULL), 0);
    bench_write_json(&read, NULL, &again);
    assert_string_equal(out.text, again.text);
    bench_run_done(&read);
}

static void text_page_and_json_of_rooflines(void **state)
{
    (void)state;
    run.gpus.len = 1;
    bench_write_roof(&run, &out);
    assert_golden(GOLDEN "/roof.txt", &out);
    str_clear(&out);
    bench_write_roof_page(&run, &out);
    assert_golden(GOLDEN "/roof.html", &out);
    str_clear(&out);
    check_roof_json();
    str_clear(&out);
    run.measures.len = 0;
    bench_write_roof(&run, &out);
    assert_non_null(strstr(out.text, "neither memory nor arithmetic was measured"));
    bench_write_roof_page(&run, &out);
    assert_null(strstr(out.text, "nan"));
    str_clear(&out);
    bench_write_json(&run, NULL, &out);
    assert_non_null(strstr(out.text, "\"memory_share_percent\":null,\"l2_gbs\":null,\"ceilings\":[]"));
}

static void metrics_of_a_run(void **state)
{
    (void)state;
    bench_run_done(&run);
    run = make_run("n1", 2, &seed);
    snprintf(run.gpus.at[1].device.uuid, sizeof run.gpus.at[1].device.uuid, "GPU-\"\\");
    slow_memory(&run, 1, 0.7);
    bench_judge(&run, NULL, &judged);
    bench_write_metrics(&run, &judged, run.real_ns + UINT64_C(3600000000000), &out);
    assert_golden(GOLDEN "/metrics.txt", &out);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, start_anew, end_anew)

/* Two instances that share power, one of them slow, with an error in the last round. */
static void text_and_json_of_isolation(void **state)
{
    static const double alone[ISOLATION_MEASURE_END] = {357.5, 1005, 83, 1980, 9.4, 14.2, 55.5};
    IsolationRun values = {.setup = ISOLATION_TWO_INSTANCES, .twins = true, .checked_bytes = 62.5e9};
    IsolationJudgement found;

    (void)state;
    run.gpus.len = 2;
    snprintf(run.rung, sizeof run.rung, "mig");
    for (IsolationRound r = 0; r < ISOLATION_ROUND_END; r++) {
        memcpy(values.value[r], alone, sizeof alone);
        values.l2_mhz[r] = 1980;
    }
    values.value[ISOLATION_OTHER][ISOLATION_READ] = 397.5;
    values.value[ISOLATION_BURN][ISOLATION_CLOCK] = 1700;
    values.value[ISOLATION_BURN][ISOLATION_COMPUTE] *= 1700. / 1980;
    values.value[ISOLATION_COPIES][ISOLATION_COPY] /= 2;
    values.value[ISOLATION_COPIES][ISOLATION_LAUNCH_P99] *= 20;
    values.value[ISOLATION_L2_FLOOD][ISOLATION_LAUNCH] = (double)NAN;
    add_error(&run, BENCH_ERROR_HUNG, BENCH_STAGE_VICTIM, 0, BENCH_NONE);
    isolation_judge(&values, &found);
    isolation_write_text(&run, &values, &found, &out);
    assert_golden(GOLDEN "/isolation.txt", &out);
    isolation_write_json(&run, &values, &found, &again);
    assert_golden(GOLDEN "/isolation.json", &again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(json_and_back),
        CASE(json_of_a_small_run),
        CASE(wrong_files_are_refused),
        CASE(large_files_are_refused),
        CASE(files_of_newer_versions_are_read),
        CASE(long_names_end_with_a_whole_character),
        CASE(text_of_a_healthy_node),
        CASE(text_of_faults),
        CASE(text_of_memory_alone),
        CASE(text_of_the_library),
        CASE(text_of_foreign_names),
        CASE(text_and_json_of_a_diff),
        CASE(text_and_json_of_a_fleet),
        CASE(text_page_and_json_of_rooflines),
        CASE(metrics_of_a_run),
        CASE(text_and_json_of_isolation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
