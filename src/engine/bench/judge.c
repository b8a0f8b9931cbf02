/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/judge.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/bench/judge_inside.h"

const WordRow bench_verdicts[BENCH_VERDICT_END] = {BENCH_VERDICT_TABLE(WORD_ROW)};
const WordRow bench_severities[BENCH_SEVERITY_END] = {BENCH_SEVERITY_TABLE(WORD_ROW)};
const WordRow bench_bases[BENCH_BASIS_END] = {BENCH_BASIS_TABLE(WORD_ROW)};
const WordRow bench_symptoms[BENCH_SYMPTOM_END] = {BENCH_SYMPTOM_TABLE(WORD_ROW)};
const WordRow bench_reasons[BENCH_REASON_END] = {BENCH_REASON_TABLE(WORD_ROW)};

bool bench_worst(const BenchJudgement *judgement, uint32_t gpu, BenchSeverity *ret)
{
    bool found = false;

    for (size_t i = 0; i < judgement->findings.len; i++) {
        const BenchFinding *f = &judgement->findings.at[i];

        if (!(f->gpus >> gpu & 1) || (found && f->severity <= *ret))
            continue;
        *ret = f->severity;
        found = true;
    }
    return found;
}

static BenchVerdict verdict_of(bool found, BenchSeverity worst)
{
    if (!found || worst == BENCH_NOTICE)
        return BENCH_FIT;
    return worst == BENCH_UNTESTED ? BENCH_UNKNOWN : BENCH_NOT_FIT;
}

/* What is about no GPU counts for the node alone. */
static void set_verdicts(Judge *j)
{
    bool found = false;
    BenchSeverity worst = BENCH_NOTICE;

    for (uint32_t i = 0; i < j->gpu_count; i++) {
        BenchSeverity severity = BENCH_NOTICE;
        const bool any = bench_worst(j->out, i, &severity);

        j->out->gpus[i] = verdict_of(any, severity);
    }
    for (size_t i = 0; i < j->out->findings.len; i++) {
        const BenchSeverity severity = j->out->findings.at[i].severity;

        worst = !found || severity > worst ? severity : worst;
        found = true;
    }
    j->out->verdict = j->gpu_count ? verdict_of(found, worst) : BENCH_UNKNOWN;
}

static void make_tables(Judge *j)
{
    j->values = bench_table_make(j->run);
    j->history = xcalloc(j->refs->history_count + 1, sizeof *j->history);
    for (size_t i = 0; i < j->refs->history_count; i++)
        j->history[i] = bench_table_make(j->refs->history[i]);
}

static void free_tables(Judge *j)
{
    for (size_t i = 0; i < j->refs->history_count; i++)
        free(j->history[i].at);
    free(j->history);
    free(j->values.at);
}

/* Later parts leave out what earlier ones explain. */
void bench_judge(const BenchRun *run, const BenchReferences *references, BenchJudgement *ret)
{
    static const BenchReferences none = {0};
    Judge j = {.run = run, .refs = references ? references : &none, .out = ret};

    *ret = (BenchJudgement){.verdict = BENCH_UNKNOWN};
    j.gpu_count = (uint32_t)(run->gpus.len < BENCH_GPUS_MAX ? run->gpus.len : BENCH_GPUS_MAX);
    make_tables(&j);
    judge_errors(&j);
    judge_counters(&j);
    judge_clocks(&j);
    judge_rates(&j);
    judge_links(&j);
    judge_together(&j);
    judge_missing(&j);
    judge_end(&j);
    set_verdicts(&j);
    free_tables(&j);
}

void bench_judgement_done(BenchJudgement *judgement)
{
    vec_done(&judgement->findings);
}
