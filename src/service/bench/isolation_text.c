/* SPDX-License-Identifier: Apache-2.0 */
/* What a neighbour costs: a table for a person, and JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "service/bench/bench_report.h"

enum { WIDTH = 110, CELL_CAP = 32 };

static const char *const units[ISOLATION_MEASURE_END] = {
    [ISOLATION_READ] = "GB/s", [ISOLATION_L2] = "GB/s",   [ISOLATION_COMPUTE] = "TFLOP/s",
    [ISOLATION_CLOCK] = "MHz", [ISOLATION_LAUNCH] = "us", [ISOLATION_LAUNCH_P99] = "us",
    [ISOLATION_COPY] = "GB/s",
};

static const BenchGpu *neighbour_of(const BenchRun *run)
{
    return &run->gpus.at[run->gpus.len - 1];
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void add_device(Str *out, const char *title, const BenchGpu *gpu)
{
    str_addf(out, "%-11s GPU %" PRIu32 ", %s, %s\n", title, gpu->index, gpu->device.name, gpu->device.uuid);
}

/* A number with its unit; "-" where it is not known. */
static void add_cell(Str *out, int width, bool sign, int digits, double value, const char *unit)
{
    char cell[CELL_CAP] = "-";

    if (isfinite(value))
        snprintf(cell, sizeof cell, sign ? "%+.*f%s" : "%.*f%s", digits, value, unit);
    str_addf(out, " %*s", width, cell);
}

static void add_row(Str *out, const IsolationJudgement *j, IsolationMeasure m)
{
    str_addf(out, "  %-16s", isolation_measures[m].text);
    add_cell(out, 10, false, m != ISOLATION_CLOCK, j->measures[m].alone, "");
    str_addf(out, " %-8s", units[m]);
    for (BenchFlood flood = 0; flood < BENCH_FLOOD_END; flood++) {
        const double percent = 100 * isolation_change(j, m, flood);

        if (percent >= 1000)
            add_cell(out, 13, false, 0, percent / 100 + 1, " times");
        else
            add_cell(out, 13, true, 1, fabs(percent) < 0.05 ? 0 : percent, " %");
    }
    str_addf(out, "  %s\n", isolation_verdicts[j->measures[m].verdict].text);
}

static void add_table(Str *out, const IsolationJudgement *j)
{
    str_addf(out, "\n  %-16s %10s %-8s", "", "alone", "");
    for (BenchFlood flood = 0; flood < BENCH_FLOOD_END; flood++)
        str_addf(out, " %13s", bench_floods[flood].text);
    str_add(out, "\n");
    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++)
        add_row(out, j, m);
    str_add(out, "  Changes of L2 and mma.sync are per clock.\n\n");
}

static void add_errors(Str *out, const BenchRun *run)
{
    for (size_t i = 0; i < run->errors.len; i++) {
        const BenchError *e = &run->errors.at[i];

        str_addf(out, "Problem: %s during '%s'%s%s", bench_errors[e->kind].text, bench_stages[e->stage].text,
                 e->what[0] ? ": " : "", e->what);
        if (e->code)
            str_addf(out, " (%" PRId32 ")", e->code);
        str_add(out, "\n");
    }
}

void isolation_write_text(const BenchRun *run, const IsolationRun *values, const IsolationJudgement *j, Str *out)
{
    add_device(out, "Measured:", &run->gpus.at[0]);
    add_device(out, "Neighbour:", neighbour_of(run));
    str_addf(out, "%-11s %s\n", "", isolation_setups[values->setup].text);
    add_table(out, j);
    add_errors(out, run);
    str_addf(out, "Verdict: %s\n", isolation_verdicts[j->verdict].text);
    str_add_wrapped(out, j->text, 0, 0, WIDTH);
    str_add(out, "\n");
    if (isfinite(values->checked_bytes) && values->checked_bytes > 0 && !j->leaks)
        str_addf(out, "None of the neighbour's data were in %.1f GB of new memory.\n", values->checked_bytes / 1e9);
    str_addf(out, "%.0f s. Not tested: TLB thrash, a neighbour that crashes, several neighbours at a time.\n",
             run->seconds);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_json_device(Str *out, const char *name, const BenchGpu *gpu)
{
    json_open(out, name, '{');
    json_add_u64(out, "gpu", gpu->index);
    json_add_text(out, "uuid", gpu->device.uuid);
    json_add_text(out, "name", gpu->device.name);
    json_add_u64(out, "sms", gpu->device.sm_count);
    json_close(out, '}');
}

static void add_json_measure(Str *out, const IsolationRun *values, const IsolationJudgement *j, IsolationMeasure m)
{
    const IsolationFinding *f = &j->measures[m];

    json_open(out, NULL, '{');
    json_add_text(out, "measure", isolation_measures[m].key);
    json_add_text(out, "unit", units[m]);
    json_add_text(out, "verdict", isolation_verdicts[f->verdict].key);
    json_add_double(out, "alone", f->alone);
    json_open(out, "values", '{');
    for (IsolationRound r = 0; r < ISOLATION_ROUND_END; r++)
        json_add_double(out, isolation_rounds[r].key, values->value[r][m]);
    json_close(out, '}');
    json_open(out, "change", '{');
    for (BenchFlood flood = 0; flood < BENCH_FLOOD_END; flood++)
        json_add_double(out, bench_floods[flood].key, isolation_change(j, m, flood));
    json_close(out, '}');
    json_add_double(out, "drift", f->drift);
    json_add_bool(out, "unsteady", f->unsteady);
    json_close(out, '}');
}

static void add_json_problems(Str *out, const BenchRun *run)
{
    json_open(out, "problems", '[');
    for (size_t i = 0; i < run->errors.len; i++) {
        const BenchError *e = &run->errors.at[i];

        json_open(out, NULL, '{');
        json_add_text(out, "error", bench_errors[e->kind].key);
        json_add_text(out, "stage", bench_stages[e->stage].key);
        json_add_text(out, "what", e->what);
        json_add_i64(out, "code", e->code);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void isolation_write_json(const BenchRun *run, const IsolationRun *values, const IsolationJudgement *j, Str *out)
{
    json_open(out, NULL, '{');
    json_add_u64(out, "version", 1);
    json_add_text(out, "rung", run->rung);
    json_add_text(out, "node", run->node);
    json_add_text(out, "driver", run->driver);
    json_add_text(out, "stoker", run->version);
    json_add_time(out, "time", run->real_ns);
    json_add_double(out, "seconds", run->seconds);
    add_json_device(out, "victim", &run->gpus.at[0]);
    add_json_device(out, "neighbour", neighbour_of(run));
    json_add_text(out, "setup", isolation_setups[values->setup].key);
    json_add_text(out, "verdict", isolation_verdicts[j->verdict].key);
    json_add_text(out, "text", j->text);
    json_add_bool(out, "leaks", j->leaks);
    json_add_double(out, "checked_bytes", values->checked_bytes);
    json_add_double(out, "foreign_words", values->foreign_words);
    json_add_double(out, "slow_by_itself", j->slow);
    json_add_text(out, "slow_measure", j->slow > 0 ? isolation_measures[j->slow_measure].key : NULL);
    json_open(out, "measures", '[');
    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++)
        add_json_measure(out, values, j, m);
    json_close(out, ']');
    add_json_problems(out, run);
    json_close(out, '}');
    str_add(out, "\n");
}
