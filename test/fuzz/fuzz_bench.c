/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: results of active tests (service/bench). What is taken is written and taken again as the same, and can
 * be judged and shown; what is refused leaves nothing and says why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/bench/bench_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 64 << 20, SMALL = 64 << 10 };

static void must(int holds)
{
    if (!holds)
        abort();
}

static void check_again(const BenchRun *run, const BenchJudgement *judgement, Str *out, Str *again)
{
    BenchRun read;
    BenchJudgement read_judgement;

    bench_write_json(run, judgement, out);
    must(!out->overflow);
    if (out->len > BENCH_TEXT_MAX)
        return;
    must(bench_read_judged(out->text, out->len, &read, &read_judgement, NULL) == 0);
    bench_write_json(&read, &read_judgement, again);
    must(strcmp(out->text, again->text) == 0);
    bench_run_done(&read);
    bench_judgement_done(&read_judgement);
}

static void show(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    BenchRanking ranking;
    BenchDiff diff;

    bench_write_text(run, judgement, out);
    bench_write_roof_page(run, out);
    bench_write_metrics(run, judgement, run->real_ns, out);
    bench_rank(&run, 1, &ranking);
    bench_write_fleet(&ranking, out);
    bench_write_fleet_json(&ranking, out);
    bench_ranking_done(&ranking);
    bench_diff(run, run, &diff);
    bench_write_diff(run, run, &diff, out);
    bench_write_diff_json(run, run, &diff, out);
    bench_diff_done(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const BenchRun *history[BENCH_HISTORY_MIN];
    BenchReferences references = {.history = history, .history_count = BENCH_HISTORY_MIN};
    BenchJudgement kept, judged = {0};
    BenchRun run;
    Err err = {0};

    if (bench_read_judged((const char *)data, size, &run, &kept, &err) < 0) {
        must(run.gpus.len == 0 && kept.findings.len == 0 && err.code < 0 && err.text[0]);
        return 0;
    }
    Str out = str_limited(OUT_MAX), again = str_limited(OUT_MAX);
    check_again(&run, &kept, &out, &again);
    for (size_t i = 0; i < BENCH_HISTORY_MIN; i++)
        history[i] = &run;
    if (size < SMALL) {
        bench_judge(&run, &references, &judged);
        str_clear(&out);
        show(&run, &judged, &out);
        for (size_t i = 0; i < run.gpus.len; i++)
            must(judged.gpus[i] != BENCH_FIT || run.gpus.at[i].ended || run.stages == 0 || judged.findings.len > 0);
    }
    str_done(&out);
    str_done(&again);
    bench_run_done(&run);
    bench_judgement_done(&kept);
    bench_judgement_done(&judged);
    return 0;
}
