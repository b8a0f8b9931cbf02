/* SPDX-License-Identifier: Apache-2.0 */
/* A run for a person: a table of the GPUs, what was found, what was tested, and what such a test does not see. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/human.h"
#include "service/bench/bench_report.h"
#include "service/report/table.h"

enum {
    WIDTH = 110,
    SEVERITY_WIDTH = 10,
    CELL_CAP = 32,
    CELL_MIN = 6,
    MODEL_MAX = 16,
    VERDICT_WIDTH = 7,
    RARE_SECONDS = 60
};

/* --- the table ---------------------------------------------------------------------------------------------------- */

typedef double ReadCell(const BenchRun *run, const BenchTable *table, uint32_t gpu);

typedef struct BenchColumn {
    const char *title, *unit;
    BenchPart part;
    ReadCell *read; /* NULL: the median of a measure */
    BenchMeasureId id;
    int digits;
} BenchColumn;

static double read_tensor(const BenchRun *run, const BenchTable *table, uint32_t gpu)
{
    static const BenchMeasureId ids[] = {BENCH_TCGEN05_BF16, BENCH_WGMMA_BF16, BENCH_MMA_BF16, BENCH_MMA_FP16};

    (void)table;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        const BenchMeasure *m = bench_run_find(run, ids[i], gpu, BENCH_NONE);

        if (m)
            return bench_measure_median(m);
    }
    return (double)NAN;
}

static double read_clock(const BenchRun *run, const BenchTable *table, uint32_t gpu)
{
    (void)run;
    return table->at[gpu][BENCH_CLOCK];
}

static double read_peers(const BenchRun *run, const BenchTable *table, uint32_t gpu)
{
    (void)run;
    return table->at[gpu][BENCH_PEER];
}

static const BenchWatch *find_load(const BenchRun *run, uint32_t gpu)
{
    const BenchGpu *g = &run->gpus.at[gpu];

    for (uint32_t i = 0; i < g->watch_count && i < BENCH_STAGE_COUNT; i++)
        if (g->watch[i].stage == BENCH_STAGE_BURN)
            return &g->watch[i];
    return NULL;
}

static double read_power(const BenchRun *run, const BenchTable *table, uint32_t gpu)
{
    const BenchWatch *watch = find_load(run, gpu);

    (void)table;
    return watch ? watch->power_w : (double)NAN;
}

static double read_temperature(const BenchRun *run, const BenchTable *table, uint32_t gpu)
{
    const BenchWatch *watch = find_load(run, gpu);

    (void)table;
    return watch ? watch->temp_c : (double)NAN;
}

static const BenchColumn columns[] = {
    {"read", "GB/s", BENCH_PART_MEMORY, NULL, BENCH_MEMORY_READ, 0},
    {"copy", "GB/s", BENCH_PART_MEMORY, NULL, BENCH_MEMORY_COPY, 0},
    {"L2", "GB/s", BENCH_PART_L2, NULL, BENCH_L2_READ, 0},
    {"fp32", "TFLOP/s", BENCH_PART_COMPUTE, NULL, BENCH_FMA_FP32, 1},
    {"tensor", "TFLOP/s", BENCH_PART_COMPUTE, read_tensor, BENCH_MEASURE_END, 0},
    {"product", "TFLOP/s", BENCH_PART_COMPUTE, NULL, BENCH_GEMM_BF16, 0},
    {"cuBLASLt", "TFLOP/s", BENCH_PART_COMPUTE, NULL, BENCH_GEMM_LIBRARY, 0},
    {"clock", "MHz", BENCH_PART_CLOCK, read_clock, BENCH_MEASURE_END, 0},
    {"power", "W", BENCH_PART_CLOCK, read_power, BENCH_MEASURE_END, 0},
    {"temp", "C", BENCH_PART_CLOCK, read_temperature, BENCH_MEASURE_END, 0},
    {"to host", "GB/s", BENCH_PART_HOST_LINK, NULL, BENCH_GPU_TO_HOST, 1},
    {"from host", "GB/s", BENCH_PART_HOST_LINK, NULL, BENCH_HOST_TO_GPU, 1},
    {"to GPUs", "GB/s", BENCH_PART_PEER_LINK, read_peers, BENCH_MEASURE_END, 0},
};

static double read_cell(const BenchRun *run, const BenchTable *table, const BenchColumn *column, uint32_t gpu)
{
    const BenchMeasure *m = column->read ? NULL : bench_run_find(run, column->id, gpu, BENCH_NONE);

    if (column->read)
        return column->read(run, table, gpu);
    return m ? bench_measure_median(m) : (double)NAN;
}

/* Whether the value is the odd one of a finding. */
static bool is_odd(const BenchFinding *f, const BenchColumn *column)
{
    const bool tensor = f->measure >= BENCH_MMA_FP16 && f->measure <= BENCH_TCGEN05_BF16;

    if (f->symptom == BENCH_LOW_CLOCK)
        return column->read == read_clock;
    if (f->part != column->part || (f->symptom != BENCH_SLOW && f->symptom != BENCH_SLOW_SM))
        return false;
    return f->part != BENCH_PART_COMPUTE || f->measure == column->id || (tensor && column->read == read_tensor);
}

static bool is_marked(const BenchJudgement *judgement, const BenchColumn *column, uint32_t gpu)
{
    for (size_t i = 0; i < judgement->findings.len; i++)
        if (judgement->findings.at[i].gpus >> gpu & 1 && is_odd(&judgement->findings.at[i], column))
            return true;
    return false;
}

static bool has_column(const BenchRun *run, const BenchTable *table, const BenchColumn *column)
{
    for (uint32_t gpu = 0; gpu < table->gpu_count; gpu++)
        if (isfinite(read_cell(run, table, column, gpu)))
            return true;
    return false;
}

static void format_cell(double value, int digits, bool marked, char out[CELL_CAP])
{
    char grouped[HUMAN_MAX];

    if (!isfinite(value))
        snprintf(out, CELL_CAP, "-");
    else if (digits == 0)
        snprintf(out, CELL_CAP, "%s%s", marked ? "*" : "",
                 human_count(grouped, value > -1e15 && value < 1e15 ? llround(value) : -1));
    else
        snprintf(out, CELL_CAP, "%s%.*f", marked ? "*" : "", digits, value);
}

static void add_cell(Str *out, size_t width, const char *text)
{
    str_addf(out, " %*s", (int)width, text);
}

static size_t width_of(const BenchColumn *column)
{
    const size_t title = strlen(column->title), unit = strlen(column->unit), wide = title > unit ? title : unit;

    return wide > CELL_MIN ? wide : CELL_MIN;
}

/* A model's name, safe for a terminal. */
static void write_model(const BenchRun *run, uint32_t gpu, Str *to)
{
    char model[BENCH_NAME_CAP];

    str_clear(to);
    bench_model(run->gpus.at[gpu].device.name, model);
    model[MODEL_MAX] = '\0';
    clean_add(to, model, false);
}

static int find_model_width(const BenchRun *run)
{
    CLEANUP(str_done) Str model = str_limited(BENCH_NAME_CAP);
    size_t width = strlen("model");

    for (uint32_t gpu = 0; gpu < run->gpus.len; gpu++) {
        write_model(run, gpu, &model);
        width = model.len > width ? model.len : width;
    }
    return (int)width;
}

static void add_heads(const BenchRun *run, const BenchTable *table, int model_width, Str *out)
{
    str_addf(out, "GPU %-*s %-*s", model_width, "model", VERDICT_WIDTH, "verdict");
    for (size_t c = 0; c < ARRAY_LEN(columns); c++)
        if (has_column(run, table, &columns[c]))
            add_cell(out, width_of(&columns[c]), columns[c].title);
    str_addf(out, "\n%*s", (int)strlen("GPU ") + model_width + 1 + VERDICT_WIDTH, "");
    for (size_t c = 0; c < ARRAY_LEN(columns); c++)
        if (has_column(run, table, &columns[c]))
            add_cell(out, width_of(&columns[c]), columns[c].unit);
    str_addc(out, '\n');
}

static void add_gpu(const BenchRun *run, const BenchTable *table, const BenchJudgement *judgement, uint32_t gpu,
                    int model_width, Str *out)
{
    CLEANUP(str_done) Str model = str_limited(BENCH_NAME_CAP);

    write_model(run, gpu, &model);
    str_addf(out, "%3" PRIu32 " %-*s %-*s", run->gpus.at[gpu].index, model_width, model.text, VERDICT_WIDTH,
             gpu < BENCH_GPUS_MAX ? bench_verdicts[judgement->gpus[gpu]].key : "-");
    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        char cell[CELL_CAP];

        if (!has_column(run, table, &columns[c]))
            continue;
        format_cell(read_cell(run, table, &columns[c], gpu), columns[c].digits, is_marked(judgement, &columns[c], gpu),
                    cell);
        add_cell(out, width_of(&columns[c]), cell);
    }
    if (strncmp(run->gpus.at[gpu].device.uuid, "MIG-", 4) == 0) { /* those of one GPU have its number */
        str_addc(out, ' ');
        clean_add(out, run->gpus.at[gpu].device.uuid, false);
    }
    str_addc(out, '\n');
}

static void add_table(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    BenchTable table = bench_table_make(run);

    const int model_width = find_model_width(run);

    add_heads(run, &table, model_width, out);
    for (uint32_t gpu = 0; gpu < table.gpu_count; gpu++)
        add_gpu(run, &table, judgement, gpu, model_width, out);
    free(table.at);
}

/* --- what was found ----------------------------------------------------------------------------------------------- */

static void add_head(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    str_add(out, "bench ");
    clean_add(out, run->rung[0] ? run->rung : "?", true);
    str_add(out, ": ");
    clean_add(out, run->node[0] ? run->node : "this node", true);
    str_addf(out, ", %zu GPU%s", run->gpus.len, human_plural(run->gpus.len));
    if (run->driver[0]) {
        str_add(out, ", driver ");
        clean_add(out, run->driver, true);
    }
    if (isfinite(run->seconds))
        str_addf(out, ", %.1f s", run->seconds);
    str_addf(out, ": %s\n\n", bench_verdicts[judgement->verdict].text);
}

static void add_findings(const BenchJudgement *judgement, Str *out)
{
    str_addc(out, '\n');
    if (judgement->findings.len == 0)
        str_add(out, "Nothing was found to be slow or wrong.\n");
    for (size_t i = 0; i < judgement->findings.len; i++) {
        const BenchFinding *f = &judgement->findings.at[i];
        CLEANUP(str_done) Str clean = str_limited(8 * BENCH_FINDING_CAP);

        clean_add(&clean, f->text, true);
        str_addf(out, "%-*s", SEVERITY_WIDTH, bench_severities[f->severity].key);
        str_add_wrapped(out, clean.text ? clean.text : "", SEVERITY_WIDTH, SEVERITY_WIDTH, WIDTH);
    }
}

/* Why there is no rate of the vendor's library: a line for all GPUs with the same reason. */
static void add_library_error(const BenchRun *run, uint32_t first, Str *out)
{
    CLEANUP(str_done) Str gpus = str_limited(1024), text = str_limited(2048);
    const char *why = run->gpus.at[first].library_error;
    size_t count = 0;

    for (uint32_t gpu = 0; gpu < run->gpus.len; gpu++) {
        if (strcmp(run->gpus.at[gpu].library_error, why) != 0)
            continue;
        if (gpu < first) /* it has its line */
            return;
        str_addf(&gpus, "%s%" PRIu32, count++ ? ", " : "", run->gpus.at[gpu].index);
    }
    str_add(&text, "no rate");
    if (count < run->gpus.len)
        str_addf(&text, " of GPU%s %s", human_plural(count), gpus.text);
    str_add(&text, ": ");
    clean_add(&text, why, true);
    str_addf(out, "%-*s", SEVERITY_WIDTH, "cuBLASLt");
    str_add_wrapped(out, text.text, SEVERITY_WIDTH, SEVERITY_WIDTH, WIDTH);
}

static void add_library_errors(const BenchRun *run, Str *out)
{
    for (uint32_t gpu = 0; gpu < run->gpus.len; gpu++)
        if (run->gpus.at[gpu].library_error[0])
            add_library_error(run, gpu, out);
}

/* --- what was tested ---------------------------------------------------------------------------------------------- */

typedef enum StageState { STAGE_NOWHERE, STAGE_PARTLY, STAGE_EVERYWHERE } StageState;

/* On which GPUs a stage ended. */
static StageState find_state(const BenchRun *run, BenchStage stage)
{
    size_t ended = 0;

    for (size_t i = 0; i < run->gpus.len; i++)
        ended += run->gpus.at[i].ended >> stage & 1;
    if (ended == 0)
        return STAGE_NOWHERE;
    return ended == run->gpus.len ? STAGE_EVERYWHERE : STAGE_PARTLY;
}

static void add_stages(const BenchRun *run, StageState state, const char *front, Str *out)
{
    CLEANUP(str_done) Str text = str_limited(1024);

    for (BenchStage s = BENCH_STAGE_START; s < BENCH_STAGE_FRESH; s++)
        if (find_state(run, s) == state)
            str_addf(&text, "%s%s", text.len ? ", " : "", bench_stages[s].text);
    if (text.len == 0)
        return;
    str_add(out, front);
    str_addc(&text, '.');
    str_add_wrapped(out, text.text, strlen(front), strlen(front), WIDTH);
}

static const char not_seen_short[] =
    "faults that show after minutes of load and heat, wrong results as rare as one in 10^9 operations of a core, and "
    "power supplies under steps of load (stoker bench burn 1h); links between nodes.";
static const char not_seen_long[] = "links between nodes, and faults that need certain data or a hotter room.";

static void add_tested(const BenchRun *run, Str *out)
{
    static const char front[] = "Not seen:   ";

    str_addc(out, '\n');
    add_stages(run, STAGE_EVERYWHERE, "Tested:     ", out);
    add_stages(run, STAGE_PARTLY, "In part:    ", out);
    add_stages(run, STAGE_NOWHERE, "Not tested: ", out);
    str_add(out, front);
    str_add_wrapped(out, run->seconds >= RARE_SECONDS ? not_seen_long : not_seen_short, strlen(front), strlen(front),
                    WIDTH);
}

void bench_write_text(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    add_head(run, judgement, out);
    if (run->gpus.len > 0)
        add_table(run, judgement, out);
    add_findings(judgement, out);
    add_library_errors(run, out);
    add_tested(run, out);
}
