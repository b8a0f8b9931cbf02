/* SPDX-License-Identifier: Apache-2.0 */
/* The last test of a node as metrics. */
#include <inttypes.h>
#include <math.h>

#include "base/number.h"
#include "service/bench/bench_report.h"

/* A label's value in quotes (Prometheus' text format). */
static void add_quoted(Str *out, const char *text)
{
    static const char *const escapes[STR_ESCAPES] = {['\\'] = "\\\\", ['"'] = "\\\"", ['\n'] = "\\n"};

    str_addc(out, '"');
    str_add_escaped(out, text, NULL, escapes);
    str_addc(out, '"');
}

static void add_head(Str *out, const char *name, const char *help)
{
    str_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

/* "NAME{UUID="...",gpu="0"": further labels and the end of the line follow. */
static void add_gpu(Str *out, const char *name, const BenchGpu *gpu)
{
    str_addf(out, "%s{UUID=", name);
    add_quoted(out, gpu->device.uuid);
    str_addf(out, ",gpu=\"%" PRIu32 "\"", gpu->index);
}

static void add_value(Str *out, double value)
{
    char text[NUMBER_DOUBLE_MAX];

    str_add(out, "} ");
    str_addn(out, text, number_write_double(text, value));
    str_addc(out, '\n');
}

static void add_verdicts(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    static const char name[] = "stoker_bench_verdict";

    add_head(out, name, "1 for what the last test of the GPU said: fit, not-fit or unknown");
    for (size_t i = 0; i < run->gpus.len && i < BENCH_GPUS_MAX; i++)
        for (BenchVerdict v = 0; v < BENCH_VERDICT_END; v++) {
            add_gpu(out, name, &run->gpus.at[i]);
            str_addf(out, ",verdict=\"%s\"", bench_verdicts[v].key);
            add_value(out, judgement->gpus[i] == v);
        }
}

static void add_findings(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    static const char name[] = "stoker_bench_findings";

    add_head(out, name, "What the last test of the GPU found, by severity");
    for (size_t i = 0; i < run->gpus.len && i < BENCH_GPUS_MAX; i++)
        for (BenchSeverity s = 0; s < BENCH_SEVERITY_END; s++) {
            size_t count = 0;

            for (size_t f = 0; f < judgement->findings.len; f++)
                count += judgement->findings.at[f].severity == s && judgement->findings.at[f].gpus >> i & 1;
            add_gpu(out, name, &run->gpus.at[i]);
            str_addf(out, ",severity=\"%s\"", bench_severities[s].key);
            add_value(out, (double)count);
        }
}

static void add_values(const BenchRun *run, Str *out)
{
    static const char name[] = "stoker_bench_value";

    add_head(out, name, "The median of each measure of the last test, in its unit");
    for (size_t i = 0; i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];
        const double value = bench_measure_median(m);

        if (m->peer != BENCH_NONE || m->gpu >= run->gpus.len || !isfinite(value))
            continue;
        add_gpu(out, name, &run->gpus.at[m->gpu]);
        str_addf(out, ",measure=\"%s\",unit=\"%s\"", bench_measures[m->id].key, bench_measures[m->id].unit);
        add_value(out, value);
    }
}

static void add_clocks(const BenchRun *run, Str *out)
{
    static const char name[] = "stoker_bench_load_clock_hertz";

    add_head(out, name, "The SM clock that was held under load in the last test");
    for (uint32_t i = 0; i < run->gpus.len; i++) {
        const BenchMeasure *m = bench_run_find(run, BENCH_BURN, i, BENCH_NONE);

        if (!m || !isfinite(m->sm_mhz))
            continue;
        add_gpu(out, name, &run->gpus.at[i]);
        add_value(out, m->sm_mhz * 1e6);
    }
}

static void add_age(const BenchRun *run, uint64_t real_ns, Str *out)
{
    static const char name[] = "stoker_bench_age_seconds";

    if (run->real_ns == 0)
        return;
    add_head(out, name, "How long ago the last test began");
    str_addf(out, "%s{rung=", name);
    add_quoted(out, run->rung);
    add_value(out, real_ns > run->real_ns ? (double)(real_ns - run->real_ns) / 1e9 : 0);
}

void bench_write_metrics(const BenchRun *run, const BenchJudgement *judgement, uint64_t real_ns, Str *out)
{
    add_age(run, real_ns, out);
    add_clocks(run, out);
    add_findings(run, judgement, out);
    add_values(run, out);
    add_verdicts(run, judgement, out);
}
