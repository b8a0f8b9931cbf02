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

bool bench_is_wrong(const BenchFinding *finding)
{
    return finding->symptom == BENCH_WRONG_VALUES || finding->symptom == BENCH_CORRUPTS;
}

bool bench_is_reported(const BenchFinding *finding)
{
    return finding->symptom == BENCH_XID || finding->symptom == BENCH_MEMORY_ERROR ||
           finding->symptom == BENCH_ECC_ERRORS || finding->symptom == BENCH_LINK_ERRORS;
}

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

static bool is_of_speed(const BenchFinding *finding)
{
    return finding->symptom == BENCH_SLOW || finding->symptom == BENCH_LOW_CLOCK || finding->symptom == BENCH_SLOW_SM ||
           finding->symptom == BENCH_HELD_MEMORY || finding->symptom == BENCH_NO_RESULT;
}

/* Beside other work a rate says nothing. What was stopped for it has a finding. */
static void judge_shared(Judge *j)
{
    uint64_t shared = 0;

    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++)
        shared |= j->run->gpus.at[gpu].shared ? UINT64_C(1) << gpu : 0;
    for (size_t i = j->out->findings.len; i-- > 0;)
        if (j->out->findings.at[i].gpus & shared && is_of_speed(&j->out->findings.at[i]))
            vec_remove(&j->out->findings, i);
    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++)
        if (shared >> gpu & 1 && !judge_find(j, gpu, BENCH_STOPPED))
            judge_say(judge_add(j, BENCH_UNTESTED, BENCH_BESIDE_OTHERS, BENCH_PART_START, gpu),
                      "other processes ran on it during the test: its speed is not judged");
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
    judge_shared(&j);
    judge_end(&j);
    set_verdicts(&j);
    free_tables(&j);
}

void bench_judgement_done(BenchJudgement *judgement)
{
    vec_done(&judgement->findings);
}
