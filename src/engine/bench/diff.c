/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bench/judge_inside.h"

const WordRow bench_changes[BENCH_CHANGE_END] = {BENCH_CHANGE_TABLE(WORD_ROW)};

typedef struct Match {
    const BenchRun *before, *after;
    BenchTable before_values, after_values;
    uint32_t places[BENCH_GPUS_MAX]; /* in `before`, of each GPU of `after`; BENCH_NONE: it is new */
    bool matched[BENCH_GPUS_MAX];    /* those of `before` */
    BenchDiff *out;
} Match;

static uint32_t count_gpus(const BenchRun *run)
{
    return (uint32_t)(run->gpus.len < BENCH_GPUS_MAX ? run->gpus.len : BENCH_GPUS_MAX);
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

static bool is_same_gpu(const BenchGpu *a, const BenchGpu *b, bool by_uuid)
{
    if (by_uuid)
        return a->device.uuid[0] && strcmp(a->device.uuid, b->device.uuid) == 0;
    return a->index == b->index && strcmp(a->device.name, b->device.name) == 0;
}

static void match_gpus(Match *m, bool by_uuid)
{
    for (uint32_t a = 0; a < count_gpus(m->after); a++)
        for (uint32_t b = 0; b < count_gpus(m->before) && m->places[a] == BENCH_NONE; b++)
            if (!m->matched[b] && is_same_gpu(&m->before->gpus.at[b], &m->after->gpus.at[a], by_uuid)) {
                m->places[a] = b;
                m->matched[b] = true;
            }
}

static BenchChange *add_change(Match *m, BenchChangeKind kind, uint32_t before, uint32_t after, uint32_t column)
{
    BenchChange *change = vec_add(&m->out->changes);

    *change = (BenchChange){.kind = kind,
                            .before_gpu = before,
                            .after_gpu = after,
                            .column = column,
                            .before = (double)NAN,
                            .after = (double)NAN,
                            .worse_percent = (double)NAN};
    return change;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static void compare_values(Match *m, uint32_t before, uint32_t after, uint32_t column)
{
    const double old = m->before_values.at[before][column], now = m->after_values.at[after][column];
    BenchChange *change;

    if (!(old > 0) && !(now > 0))
        return;
    change = add_change(m,
                        !(now > 0)   ? BENCH_VANISHED
                        : !(old > 0) ? BENCH_APPEARED
                                     : BENCH_CHANGED,
                        before, after, column);
    change->before = old;
    change->after = now;
    if (change->kind == BENCH_CHANGED) {
        const BenchComparison c = {.basis = BENCH_BY_HISTORY, .behind_percent = bench_behind(column, now, old)};

        change->worse_percent = c.behind_percent;
        change->beyond = compare_settings(column, &m->before->gpus.at[before], &m->after->gpus.at[after]) &&
                         compare_limit(column, &c, false, &change->severity);
    }
    m->out->worse += change->beyond || (change->kind == BENCH_VANISHED && column != BENCH_GEMM_LIBRARY);
}

static void compare_gpus(Match *m)
{
    for (uint32_t a = 0; a < count_gpus(m->after); a++) {
        if (m->places[a] == BENCH_NONE) {
            add_change(m, BENCH_APPEARED, BENCH_NONE, a, BENCH_COLUMNS);
            continue;
        }
        for (uint32_t column = 0; column < BENCH_COLUMNS; column++)
            compare_values(m, m->places[a], a, column);
    }
    for (uint32_t b = 0; b < count_gpus(m->before); b++)
        if (!m->matched[b]) {
            add_change(m, BENCH_VANISHED, b, BENCH_NONE, BENCH_COLUMNS);
            m->out->worse++;
        }
}

/* --- findings ----------------------------------------------------------------------------------------------------- */

static const char *uuid_of(const BenchRun *run, uint32_t gpu)
{
    return gpu < run->gpus.len ? run->gpus.at[gpu].device.uuid : "";
}

static bool is_same_finding(const BenchFinding *a, const BenchRun *of_a, const BenchFinding *b, const BenchRun *of_b)
{
    return a->symptom == b->symptom && a->part == b->part && a->severity == b->severity && a->sm == b->sm &&
           strcmp(uuid_of(of_a, a->gpu), uuid_of(of_b, b->gpu)) == 0 &&
           strcmp(uuid_of(of_a, a->peer), uuid_of(of_b, b->peer)) == 0;
}

static bool has_finding(const BenchJudgement *judgement, const BenchRun *run, const BenchFinding *f,
                        const BenchRun *of_f)
{
    for (size_t i = 0; i < judgement->findings.len; i++)
        if (is_same_finding(f, of_f, &judgement->findings.at[i], run))
            return true;
    return false;
}

static void compare_findings(Match *m)
{
    BenchJudgement before, after;

    bench_judge(m->before, NULL, &before);
    bench_judge(m->after, NULL, &after);
    for (size_t i = 0; i < after.findings.len; i++)
        if (!has_finding(&before, m->before, &after.findings.at[i], m->after)) {
            vec_push(&m->out->appeared, after.findings.at[i]);
            m->out->worse += after.findings.at[i].severity > BENCH_NOTICE;
        }
    for (size_t i = 0; i < before.findings.len; i++)
        if (!has_finding(&after, m->after, &before.findings.at[i], m->before))
            vec_push(&m->out->vanished, before.findings.at[i]);
    bench_judgement_done(&before);
    bench_judgement_done(&after);
}

void bench_diff(const BenchRun *before, const BenchRun *after, BenchDiff *ret)
{
    Match m = {.before = before,
               .after = after,
               .before_values = bench_table_make(before),
               .after_values = bench_table_make(after),
               .out = ret};

    *ret = (BenchDiff){.other_data = strcmp(before->data, after->data) != 0};
    for (size_t i = 0; i < BENCH_GPUS_MAX; i++)
        m.places[i] = BENCH_NONE;
    match_gpus(&m, true);
    match_gpus(&m, false);
    compare_gpus(&m);
    compare_findings(&m);
    free(m.before_values.at);
    free(m.after_values.at);
}

void bench_diff_done(BenchDiff *diff)
{
    vec_done(&diff->changes);
    vec_done(&diff->appeared);
    vec_done(&diff->vanished);
}
