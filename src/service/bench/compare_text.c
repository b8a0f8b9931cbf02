/* SPDX-License-Identifier: Apache-2.0 */
/* Runs beside each other, for a person: two of one node, and those of many nodes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/human.h"
#include "service/bench/bench_report.h"
#include "service/report/table.h"

enum { WIDTH = 110, LABEL_WIDTH = 26, SEVERITY_WIDTH = 10, NODES_SHOWN = 50 };

static const double worth_saying = 0.05, much = 10; /* per cent; the second of measures without a limit */

static void add_label(uint32_t column, char out[BENCH_NAME_CAP])
{
    if (column < BENCH_MEASURE_END)
        bench_label((BenchMeasureId)column, out);
    else
        memcpy(out, "clock under load", sizeof "clock under load");
}

static void add_clean(Str *out, const char *text)
{
    clean_add(out, text[0] ? text : "?", true);
}

static void add_sentence(Str *out, const char *front, const char *text)
{
    CLEANUP(str_done) Str clean = str_limited(8 * BENCH_FINDING_CAP);

    clean_add(&clean, text, true);
    str_addf(out, "%-*s", SEVERITY_WIDTH, front);
    str_add_wrapped(out, clean.text ? clean.text : "", SEVERITY_WIDTH, SEVERITY_WIDTH, WIDTH);
}

/* --- two runs ----------------------------------------------------------------------------------------------------- */

static void add_run(const char *front, const BenchRun *run, Str *out)
{
    char time[CLOCK_TEXT_MAX] = "time not known";

    if (run->real_ns)
        clock_format(time, run->real_ns);
    str_addf(out, "%-7s %s, ", front, time);
    add_clean(out, run->node);
    str_add(out, ", driver ");
    add_clean(out, run->driver);
    str_addc(out, '\n');
}

static void add_gpu_head(const BenchRun *before, const BenchRun *after, const BenchChange *change, Str *out)
{
    const BenchGpu *g =
        change->after_gpu != BENCH_NONE ? &after->gpus.at[change->after_gpu] : &before->gpus.at[change->before_gpu];
    char model[BENCH_NAME_CAP];

    bench_model(g->device.name, model);
    str_addf(out, "\nGPU %" PRIu32 ", ", g->index);
    add_clean(out, model);
    str_add(out, ", ");
    add_clean(out, g->device.uuid);
    if (change->column == BENCH_COLUMNS)
        str_addf(out, ": %s", bench_changes[change->kind].text);
    else if (strcmp(g->device.uuid, before->gpus.at[change->before_gpu].device.uuid) != 0) {
        str_add(out, ", before it was ");
        add_clean(out, before->gpus.at[change->before_gpu].device.uuid);
    }
    str_addc(out, '\n');
}

static void add_change(const BenchChange *change, Str *out)
{
    char label[BENCH_NAME_CAP], before[BENCH_NAME_CAP], after[BENCH_NAME_CAP];

    add_label(change->column, label);
    bench_number(change->before, before);
    bench_number(change->after, after);
    str_addf(out, "  %-*s %10s %10s", LABEL_WIDTH, label, before, after);
    if (change->kind != BENCH_CHANGED)
        str_addf(out, "  %s", bench_changes[change->kind].text);
    else if (fabs(change->worse_percent) < worth_saying)
        str_addf(out, "  %8s  ", "=");
    else
        str_addf(out, "  %+6.1f %%  ", -change->worse_percent);
    if (change->kind == BENCH_CHANGED)
        str_add(out, bench_value_unit(change->column));
    if (change->beyond)
        str_addf(out, "  worse: %s", bench_severities[change->severity].key);
    str_addc(out, '\n');
}

/* Half of what healthy GPUs vary by is not shown. */
static bool is_shown(const BenchChange *change)
{
    const double notice = change->column < BENCH_MEASURE_END ? bench_measures[change->column].notice : 1;

    return change->kind != BENCH_CHANGED || change->beyond ||
           fabs(change->worse_percent) >= (notice > 0 ? notice / 2 : much);
}

static void add_rest(size_t hidden, Str *out)
{
    if (hidden > 0)
        str_addf(out, "  %zu value%s as before\n", hidden, human_plural(hidden));
}

static void add_changes(const BenchRun *before, const BenchRun *after, const BenchDiff *diff, Str *out)
{
    const BenchChange *last = NULL;
    size_t hidden = 0;

    for (size_t i = 0; i < diff->changes.len; i++) {
        const BenchChange *change = &diff->changes.at[i];

        if (!last || last->after_gpu != change->after_gpu || last->before_gpu != change->before_gpu) {
            add_rest(hidden, out);
            hidden = 0;
            add_gpu_head(before, after, change, out);
        }
        last = change;
        if (change->column == BENCH_COLUMNS)
            continue;
        if (is_shown(change))
            add_change(change, out);
        else
            hidden++;
    }
    add_rest(hidden, out);
}

void bench_write_diff(const BenchRun *before, const BenchRun *after, const BenchDiff *diff, Str *out)
{
    add_run("before", before, out);
    add_run("after", after, out);
    if (diff->other_data)
        str_add(out, "The two runs multiplied other data: rates of arithmetic differ by that alone.\n");
    add_changes(before, after, diff, out);
    if (diff->appeared.len + diff->vanished.len > 0)
        str_addc(out, '\n');
    for (size_t i = 0; i < diff->appeared.len; i++)
        add_sentence(out, "new", diff->appeared.at[i].text);
    for (size_t i = 0; i < diff->vanished.len; i++)
        add_sentence(out, "gone", diff->vanished.at[i].text);
    str_addf(out, "\n%s\n",
             diff->worse ? "Something became worse by more than healthy GPUs vary." : "Nothing became worse.");
}

/* --- many nodes --------------------------------------------------------------------------------------------------- */

static void add_model_head(const BenchFleetRow *row, Str *out)
{
    add_clean(out, row->model);
    str_addf(out, "\n  %-*s %7s %6s %11s %10s %11s %11s\n", LABEL_WIDTH, "", "nodes", "GPUs", "median", "MAD", "least",
             "most");
}

static void add_fleet_row(const BenchFleetRow *row, Str *out)
{
    char label[BENCH_NAME_CAP], median[BENCH_NAME_CAP], least[BENCH_NAME_CAP], most[BENCH_NAME_CAP];

    add_label(row->column, label);
    bench_number(row->median, median);
    bench_number(row->least, least);
    bench_number(row->most, most);
    str_addf(out, "  %-*s %7" PRIu32 " %6" PRIu32 " %11s %8.2f %% %11s %11s  %s", LABEL_WIDTH, label, row->nodes,
             row->gpus, median, row->spread_percent, least, most, bench_value_unit(row->column));
    if (row->limit_w)
        str_addf(out, " at %" PRIu32 " W", row->limit_w);
    if (row->without_ecc)
        str_add(out, " without ECC");
    str_addc(out, '\n');
}

static void add_node(const BenchRanked *node, Str *out)
{
    add_clean(out, node->run->node);
    str_addf(out, ": %s\n", bench_verdicts[node->judgement.verdict].text);
    for (size_t i = 0; i < node->judgement.findings.len; i++)
        add_sentence(out, bench_severities[node->judgement.findings.at[i].severity].key,
                     node->judgement.findings.at[i].text);
}

static void add_nodes(const BenchRanking *ranking, Str *out)
{
    size_t shown = 0, fine = 0;

    for (size_t i = 0; i < ranking->nodes.len; i++) {
        if (ranking->nodes.at[i].judgement.findings.len == 0)
            fine++;
        else if (shown++ < NODES_SHOWN) {
            str_addc(out, '\n');
            add_node(&ranking->nodes.at[i], out);
        }
    }
    if (shown > NODES_SHOWN)
        str_addf(out, "\n%zu more nodes with findings are not shown\n", shown - NODES_SHOWN);
    if (fine > 0)
        str_addf(out, "\n%zu node%s without a finding\n", fine, human_plural(fine));
}

void bench_write_fleet(const BenchRanking *ranking, Str *out)
{
    str_addf(out, "%zu node%s, %zu not fit\n\n", ranking->nodes.len, human_plural(ranking->nodes.len), ranking->behind);
    for (size_t i = 0; i < ranking->fleet.rows.len; i++) {
        const BenchFleetRow *row = &ranking->fleet.rows.at[i];

        if (i == 0 || strcmp(row->model, row[-1].model) != 0)
            add_model_head(row, out);
        add_fleet_row(row, out);
    }
    add_nodes(ranking, out);
}
