/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stoker beside nvidia-smi: the agent is asked some times, then nvidia-smi, then the agent again for a bit more than a
 * second, so that nvidia-smi's reading was made among Stoker's. judge.c says what makes them the same.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "real.h"

enum {
    GPUS_MAX = 64,
    ASKS_BEFORE = 4,
    ASKS_MAX = 16, /* of the agent in a round */
    ASK_EACH_MS = 100,
    PROCESS_MIB = 2, /* rounded to MiB by nvidia-smi */
    BETWEEN_MS = 1200,
    IDLE_ROUNDS = 4,
    GPM_MS = 1000,
    DMON_COUNT = 3, /* seconds */
};

typedef enum RowKind { ROW_LEVEL, ROW_FIXED, ROW_COUNT, ROW_TEXT } RowKind;

typedef struct Row {
    const char *metric, *column, *why;
    double limit, share;
    RowKind kind;
} Row;

#define LEVEL(metric, column, limit, share, why) {metric, column, why, limit, share, ROW_LEVEL},
#define FIXED(metric, column) {metric, column, "does not change by itself", 0.001, 0, ROW_FIXED},
#define COUNT(metric, column) {metric, column, "never falls", 0, 0, ROW_COUNT},
#define TEXT(metric, column) {metric, column, "does not change by itself", 0, 0, ROW_TEXT},
static const Row rows[] = {
#include "compare.def"
};

typedef struct GpmRow {
    const char *metric;
    unsigned int id; /* of GPM */
    double limit, share;
} GpmRow;

/* Both are means of a second, of seconds that overlap. */
static const GpmRow gpm_rows[] = {
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1, 0.05, 0.05},
    {"DCGM_FI_PROF_SM_ACTIVE", 2, 0.05, 0.05},
    {"DCGM_FI_PROF_SM_OCCUPANCY", 3, 0.05, 0.05},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 5, 0.05, 0.05},
    {"DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", 7, 0.05, 0.05},
    {"DCGM_FI_PROF_DRAM_ACTIVE", 10, 0.05, 0.05},
    {"DCGM_FI_PROF_PIPE_FP32_ACTIVE", 12, 0.05, 0.05},
    {"DCGM_FI_PROF_PCIE_TX_BYTES", 20, 5e6, 0.2},
    {"DCGM_FI_PROF_PCIE_RX_BYTES", 21, 5e6, 0.2},
};

/* What was seen of one row of one GPU in all rounds. */
typedef struct Seen {
    unsigned int verdicts[COMPARE_END];
    double before, smi, after, difference,
        limit; /* of the round with the worst verdict; of a level, lowest and highest */
    CompareVerdict worst;
} Seen;

/* Of verdicts, the least welcome last. */
static const CompareVerdict by_weight[] = {COMPARE_NEITHER,     COMPARE_SAME,     COMPARE_MOVING,
                                           COMPARE_ONLY_STOKER, COMPARE_ONLY_SMI, COMPARE_DIFFERS};

static unsigned int weight_of(CompareVerdict verdict)
{
    unsigned int i = 0;

    while (by_weight[i] != verdict)
        i++;
    return i;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* --- nvidia-smi --------------------------------------------------------------------------------------------------- */

/* nvidia-smi's answer: a line per GPU, a cell per row that this nvidia-smi knows. */
typedef struct SmiTable {
    bool refused[ARRAY_LEN(rows)]; /* no column of this nvidia-smi */
    Str text;
    const char *cells[GPUS_MAX][ARRAY_LEN(rows)]; /* into text; NULL: none */
    bool present[GPUS_MAX];
} SmiTable;

static char *trim_cell(char *cell)
{
    size_t len;

    cell += strspn(cell, " \t");
    len = strlen(cell);
    while (len > 0 && (cell[len - 1] == ' ' || cell[len - 1] == '\r'))
        cell[--len] = '\0';
    return cell;
}

static void read_line(SmiTable *table, char *line)
{
    char *save = NULL, *cell = strtok_r(line, ",", &save);
    const int gpu = cell ? atoi(cell) : -1;

    if (gpu < 0 || gpu >= GPUS_MAX)
        return;
    table->present[gpu] = true;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        table->cells[gpu][i] = NULL;
        if (!table->refused[i] && (cell = strtok_r(NULL, ",", &save)) != NULL)
            table->cells[gpu][i] = trim_cell(cell);
    }
}

/* nvidia-smi refuses a query for one field that it does not know: that one is taken out. False: nothing is refused. */
static bool take_out_field(SmiTable *table)
{
    if (!strstr(table->text.text, "not a valid field"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(str_done) Str quoted = str_limited(256);

        str_addf(&quoted, "\"%s\"", rows[i].column);
        if (!table->refused[i] && strstr(table->text.text, quoted.text)) {
            table->refused[i] = true;
            return true;
        }
    }
    return false;
}

static int ask_smi(SmiTable *table, Err *err)
{
    char *save = NULL;
    int code;

    do {
        CLEANUP(str_done) Str query = str_limited(8192);
        const char *options[] = {NULL, "--format=csv,noheader,nounits", NULL};

        str_add(&query, "--query-gpu=index");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            if (!table->refused[i])
                str_addf(&query, ",%s", rows[i].column);
        options[0] = query.text;
        str_clear(&table->text);
        TRY(command_run_smi(options, &table->text, &code, err));
    } while (take_out_field(table));
    if (code != 0 || table->text.len == 0 || strchr("0123456789", table->text.text[0]) == NULL)
        return err_set(err, -EIO, "nvidia-smi --query-gpu ended with %d: %.200s", code, table->text.text);
    for (char *line = strtok_r(table->text.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        read_line(table, line);
    return 0;
}

/* --- one round ---------------------------------------------------------------------------------------------------- */

static void judge_text(const Row *row, const json_t *gpu, const char *cell, Seen *seen)
{
    const char *ours = json_string_value(json_object_get(gpu, row->metric));
    const bool told = cell && *cell != '[' && strcmp(cell, "N/A") != 0;

    seen->before = seen->smi = seen->after = seen->difference = NAN;
    if (!ours || !told)
        seen->worst = ours ? COMPARE_ONLY_STOKER : told ? COMPARE_ONLY_SMI : COMPARE_NEITHER;
    else
        seen->worst = strcasecmp(ours, cell) == 0 ? COMPARE_SAME : COMPARE_DIFFERS;
}

/* Stoker's readings of a round: the first and the last of a counter, the lowest and the highest of what moves. */
static void read_range(const Row *row, int gpu, json_t *const *asks, Seen *seen)
{
    seen->before = command_read_metric(command_find_gpu(asks[0], gpu), row->metric);
    seen->after = command_read_metric(command_find_gpu(asks[ASKS_MAX - 1], gpu), row->metric);
    for (int i = 0; row->kind == ROW_LEVEL && i < ASKS_MAX; i++) {
        const double value = command_read_metric(command_find_gpu(asks[i], gpu), row->metric);

        seen->before = fmin(seen->before, value);
        seen->after = fmax(seen->after, value);
    }
}

static void judge_row(const Row *row, int gpu, json_t *const *asks, const char *cell, Seen *sum)
{
    Seen now = {.limit = 0};

    if (row->kind == ROW_TEXT) {
        judge_text(row, command_find_gpu(asks[0], gpu), cell, &now);
    } else {
        read_range(row, gpu, asks, &now);
        now.smi = cell ? compare_read_text(cell) : NAN;
        now.limit = row->limit + (isfinite(now.smi) ? row->share * fabs(now.smi) : 0);
        now.worst = compare_judge(now.before, now.smi, now.after, now.limit, row->kind == ROW_COUNT, &now.difference);
    }
    memcpy(now.verdicts, sum->verdicts, sizeof now.verdicts);
    now.verdicts[now.worst]++;
    if (weight_of(now.worst) >= weight_of(sum->worst))
        *sum = now;
    else
        sum->verdicts[now.worst]++;
}

/* Asks the agent `count` times. */
static int ask_often(const Real *real, json_t **ret, int count, Err *err)
{
    for (int i = 0; i < count; i++) {
        if (!(ret[i] = command_ask_agent(real, err)))
            return err->code;
        clock_sleep(clock_kernel(), ASK_EACH_MS * NS_PER_MS);
    }
    return 0;
}

static int run_round(const Real *real, SmiTable *table, Seen (*seen)[ARRAY_LEN(rows)], Err *err)
{
    json_t *asks[ASKS_MAX] = {NULL};
    int rc = ask_often(real, asks, ASKS_BEFORE, err);

    if (rc == 0)
        rc = ask_smi(table, err);
    if (rc == 0)
        rc = ask_often(real, asks + ASKS_BEFORE, ASKS_MAX - ASKS_BEFORE, err);
    for (int gpu = 0; rc == 0 && gpu < GPUS_MAX; gpu++)
        for (size_t i = 0; table->present[gpu] && i < ARRAY_LEN(rows); i++)
            if (!table->refused[i])
                judge_row(&rows[i], gpu, asks, table->cells[gpu][i], &seen[gpu][i]);
    for (int i = 0; i < ASKS_MAX; i++)
        json_decref(asks[i]);
    return rc;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static const json_t *find_by(const json_t *list, const char *key, const char *text, json_int_t number)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const json_t *value = json_object_get(one, key);

        if (text ? json_is_string(value) && strcasecmp(json_string_value(value), text) == 0
                 : json_integer_value(value) == number)
            return one;
    }
    return NULL;
}

/* One line "UUID, pid, MiB" of nvidia-smi. The memory of a process may be "[N/A]" for both. */
static CompareVerdict judge_process(const json_t *gpus, char *line, json_t *list, json_t *result)
{
    char *save = NULL, *uuid = strtok_r(line, ",", &save), *pid = strtok_r(NULL, ",", &save);
    char *memory = strtok_r(NULL, ",", &save);
    const json_t *gpu = uuid ? find_by(gpus, "uuid", trim_cell(uuid), 0) : NULL;
    const json_t *process = pid ? find_by(json_object_get(gpu, "processes"), "pid", NULL, atoll(pid)) : NULL;
    const json_t *used = json_object_get(process, "used_bytes");
    const double smi = memory ? compare_read_text(trim_cell(memory)) : NAN;
    const double ours = json_is_number(used) ? json_number_value(used) / 1048576 : NAN;
    double off;
    CompareVerdict verdict;

    if (!pid)
        return COMPARE_SAME; /* no process at all */
    verdict = process ? compare_judge(ours, smi, ours, PROCESS_MIB, false, &off) : COMPARE_ONLY_SMI;
    verdict = process && verdict == COMPARE_NEITHER ? COMPARE_SAME : verdict;
    real_add_line(result, "process %s: %.0f MiB, nvidia-smi %.0f MiB: %s", trim_cell(pid), ours, smi,
                  compare_words[verdict]);
    json_array_append_new(list, json_pack("{s:i, s:o, s:o, s:s}", "pid", atoi(pid), "mib", number_or_null(ours),
                                          "smi_mib", number_or_null(smi), "verdict", compare_words[verdict]));
    return verdict;
}

/* The compute processes and their memory, as nvidia-smi lists them. */
static StepEnd compare_processes(const Real *real, json_t *result, Err *err)
{
    const char *options[] = {"--query-compute-apps=gpu_uuid,pid,used_gpu_memory", "--format=csv,noheader,nounits",
                             NULL};
    CLEANUP(str_done) Str text = str_limited(REAL_TEXT_MAX);
    json_t *status = NULL, *list = json_array();
    StepEnd end = STEP_OK;
    char *save = NULL;
    int code = 0;

    json_object_set_new(result, "processes", list);
    if (command_run_smi(options, &text, &code, err) < 0 || code != 0 || !(status = command_ask_agent(real, err))) {
        real_add_line(result, "processes are not compared: nvidia-smi's exit code %d, %s", code, err->text);
        return STEP_FAILED;
    }
    for (char *line = strtok_r(text.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (judge_process(json_object_get(json_object_get(status, "node"), "gpus"), line, list, result) != COMPARE_SAME)
            end = STEP_FINDING;
    json_decref(status);
    return end;
}

/* --- all rounds --------------------------------------------------------------------------------------------------- */

/* A reading may be caught in a jump once; one that differs in most of the rounds is different. */
static CompareVerdict sum_up(const Row *row, const Seen *seen)
{
    if (seen->worst == COMPARE_DIFFERS && row->kind == ROW_LEVEL &&
        seen->verdicts[COMPARE_DIFFERS] <= seen->verdicts[COMPARE_SAME] + seen->verdicts[COMPARE_MOVING])
        return seen->verdicts[COMPARE_MOVING] > seen->verdicts[COMPARE_SAME] ? COMPARE_MOVING : COMPARE_SAME;
    return seen->worst;
}

static json_t *describe_row(int gpu, const Row *row, const Seen *seen, CompareVerdict verdict)
{
    static const char *const kinds[] = {"level", "fixed", "count", "text"};
    json_t *counts = json_object();

    for (int i = 0; i < COMPARE_END; i++)
        if (seen->verdicts[i])
            json_object_set_new(counts, compare_words[i], json_integer(seen->verdicts[i]));
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:f, s:s, s:o}", "gpu", gpu, "metric", row->metric,
                     "column", row->column, "kind", kinds[row->kind], "verdict", compare_words[verdict], "before",
                     number_or_null(seen->before), "smi", number_or_null(seen->smi), "after",
                     number_or_null(seen->after), "difference", number_or_null(seen->difference), "limit", seen->limit,
                     "why", row->why, "rounds", counts);
}

static void tell_row(int gpu, const Row *row, const Seen *seen, CompareVerdict verdict, json_t *result)
{
    if (row->kind == ROW_TEXT)
        real_add_line(result, "GPU %d  %-42s %-38s %s", gpu, row->metric, row->column, compare_words[verdict]);
    else
        real_add_line(result, "GPU %d  %-42s %-38s %10.6g .. %-10.6g %10.6g  off %-8.4g limit %-7.4g %s (%s)", gpu,
                      row->metric, row->column, seen->before, seen->after, seen->smi, seen->difference, seen->limit,
                      compare_words[verdict], row->why);
}

StepEnd compare_run(const Real *real, unsigned int rounds, json_t *result, Err *err)
{
    static Seen seen[GPUS_MAX][ARRAY_LEN(rows)];
    static SmiTable table;
    unsigned int sums[COMPARE_END] = {0};
    json_t *list = json_array();
    StepEnd end;

    str_init(&table.text, REAL_TEXT_MAX);
    memset(seen, 0, sizeof seen);
    for (int gpu = 0; gpu < GPUS_MAX; gpu++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            seen[gpu][i].worst = COMPARE_NEITHER;
    json_object_set_new(result, "rows", list);
    for (unsigned int i = 0; i < rounds; i++)
        if (run_round(real, &table, seen, err) < 0)
            return STEP_FAILED;
    for (int gpu = 0; gpu < GPUS_MAX; gpu++)
        for (size_t i = 0; table.present[gpu] && i < ARRAY_LEN(rows); i++) {
            const CompareVerdict verdict = sum_up(&rows[i], &seen[gpu][i]);

            if (table.refused[i])
                continue;
            sums[verdict]++;
            json_array_append_new(list, describe_row(gpu, &rows[i], &seen[gpu][i], verdict));
            tell_row(gpu, &rows[i], &seen[gpu][i], verdict, result);
        }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (table.refused[i])
            real_add_line(result, "this nvidia-smi has no column %s", rows[i].column);
    str_done(&table.text);
    end = compare_processes(real, result, err);
    return real_end(
        result, real_worse(end, sums[COMPARE_DIFFERS] + sums[COMPARE_ONLY_SMI] ? STEP_FINDING : STEP_OK),
        "%u values in %u rounds: %u the same, %u differ, %u moving, %u only Stoker, %u only the driver; %u processes%s",
        (unsigned int)json_array_size(list), rounds, sums[COMPARE_SAME], sums[COMPARE_DIFFERS], sums[COMPARE_MOVING],
        sums[COMPARE_ONLY_STOKER], sums[COMPARE_ONLY_SMI],
        (unsigned int)json_array_size(json_object_get(result, "processes")),
        end == STEP_OK        ? ""
        : end == STEP_FINDING ? " not alike"
                              : " not compared");
}

void compare_add_counters(Str *csv)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strncmp(rows[i].metric, "DCGM_", 5) == 0 && rows[i].kind != ROW_TEXT)
            str_addf(csv, "%s, gauge, compared\n", rows[i].metric);
    for (size_t i = 0; i < ARRAY_LEN(gpm_rows); i++)
        str_addf(csv, "%s, gauge, compared\n", gpm_rows[i].metric);
}

StepEnd compare_read_idle(const Real *real, json_t *result, Err *err)
{
    return compare_run(real, real->pace < 1 ? 1 : IDLE_ROUNDS, result, err);
}

/* --- GPM ---------------------------------------------------------------------------------------------------------- */

/* The last line of numbers of dmon: its last columns are the metrics that were asked for, in the order of their ids. */
static bool read_dmon(char *text, double ret[ARRAY_LEN(gpm_rows)])
{
    char *save = NULL, *cells = NULL;
    const char *last = NULL;
    double all[128];
    size_t n = 0;

    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (line[strspn(line, " ")] != '#' && line[strspn(line, " ")])
            last = line;
    if (!last)
        return false;
    cells = strdup(last);
    for (char *word = strtok_r(cells, " \t", &save); word && n < ARRAY_LEN(all); word = strtok_r(NULL, " \t", &save))
        all[n++] = compare_read_text(word);
    free(cells);
    for (size_t i = 0; n > ARRAY_LEN(gpm_rows) && i < ARRAY_LEN(gpm_rows); i++) {
        const double value = all[n - ARRAY_LEN(gpm_rows) + i];

        ret[i] = gpm_rows[i].id >= 20 ? value * 1048576 : value / 100;
    }
    return n > ARRAY_LEN(gpm_rows);
}

/* nvidia-smi dmon of a few seconds; false, and a line that says why, where this one has no GPM. */
static bool ask_dmon(int gpu, double ret[ARRAY_LEN(gpm_rows)], json_t *result)
{
    CLEANUP(str_done) Str ids = str_limited(256);
    CLEANUP(str_done) Str out = str_limited(REAL_TEXT_MAX);
    char number[16], count[16];
    const char *options[] = {"dmon", "-i", number, "-d", "1", "-c", count, NULL, NULL};
    Err err = {0};
    int code = 0;

    snprintf(number, sizeof number, "%d", gpu);
    snprintf(count, sizeof count, "%d", DMON_COUNT);
    for (size_t i = 0; i < ARRAY_LEN(gpm_rows); i++)
        str_addf(&ids, "%s%u", i ? "," : "--gpm-metrics=", gpm_rows[i].id);
    options[7] = ids.text;
    if (command_run_smi(options, &out, &code, &err) < 0 || code != 0) {
        real_add_line(result, "nvidia-smi dmon --gpm-metrics: exit code %d, %s %.120s", code, err.text, out.text);
        return false;
    }
    json_object_set_new(result, "dmon", json_string(out.text));
    return read_dmon(out.text, ret);
}

StepEnd compare_read_gpm(const Real *real, int gpu, json_t *result, Err *err)
{
    double nvml[ARRAY_LEN(gpm_rows)], dmon[ARRAY_LEN(gpm_rows)];
    unsigned int ids[ARRAY_LEN(gpm_rows)], differ = 0;
    json_t *list = json_array(), *before, *after;
    bool has_dmon;
    int rc;

    json_object_set_new(result, "gpm", list);
    for (size_t i = 0; i < ARRAY_LEN(gpm_rows); i++) {
        ids[i] = gpm_rows[i].id;
        dmon[i] = NAN;
    }
    has_dmon = ask_dmon(gpu, dmon, result);
    before = command_ask_agent(real, err);
    rc = library_read_gpm(real, gpu, ids, ARRAY_LEN(ids), GPM_MS, nvml, err);
    clock_sleep(clock_kernel(), BETWEEN_MS * NS_PER_MS);
    after = command_ask_agent(real, err);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(gpm_rows); i++) {
        const GpmRow *row = &gpm_rows[i];
        const double limit = row->limit + row->share * (isfinite(nvml[i]) ? fabs(nvml[i]) : 0);
        const double a = command_read_metric(command_find_gpu(before, gpu), row->metric);
        const double b = command_read_metric(command_find_gpu(after, gpu), row->metric);
        double off;
        const CompareVerdict verdict = compare_judge(a, nvml[i], b, limit, false, &off);

        differ += verdict == COMPARE_DIFFERS || verdict == COMPARE_ONLY_SMI;
        real_add_line(result, "GPU %d  GPM %-3u %-38s %10.5g .. %-10.5g NVML %10.5g  dmon %10.5g  %s", gpu, row->id,
                      row->metric, a, b, nvml[i], dmon[i], compare_words[verdict]);
        json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:f}", "gpu", gpu, "metric",
                                              row->metric, "id", (int)row->id, "verdict", compare_words[verdict],
                                              "before", number_or_null(a), "nvml", number_or_null(nvml[i]), "after",
                                              number_or_null(b), "dmon", number_or_null(dmon[i]), "limit", limit));
    }
    json_decref(before);
    json_decref(after);
    if (rc == -ENOSYS)
        return real_end(result, STEP_IMPOSSIBLE, "no GPM here: %s", err->text);
    if (rc < 0)
        return STEP_FAILED;
    return real_end(result, differ ? STEP_FINDING : STEP_OK, "%zu metrics of GPU %d, %u differ from NVML's%s",
                    ARRAY_LEN(gpm_rows), gpu, differ, has_dmon ? "" : "; nvidia-smi dmon has no GPM here");
}

StepEnd compare_read_gpm_idle(const Real *real, json_t *result, Err *err)
{
    return compare_read_gpm(real, 0, result, err);
}
