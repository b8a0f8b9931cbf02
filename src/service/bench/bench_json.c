/* SPDX-License-Identifier: Apache-2.0 */
/* A run with its judgement as JSON, and back: one list of calls for both ways. A file may be anybody's. Runs beside
 * each other as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "base/utf8.h"
#include "engine/bench/roof.h"
#include "service/bench/bench_report.h"
#include "service/json/members.h"

enum { VERSION = 1, MEASURES_MAX = 65536, ERRORS_MAX = 4096, FINDINGS_MAX = 4096 };

CLEANUP_POINTER(json_t, json_decref);

/* --- members ------------------------------------------------------------------------------------------------------ */

/* null is NAN. */
static void convert_known(const Convert *c, const char *name, double *value)
{
    if (!c->out)
        *value = (double)NAN;
    convert_real(c, name, value);
}

static void convert_u32(const Convert *c, const char *name, uint32_t *value)
{
    uint64_t wide = *value;

    convert_count(c, name, &wide);
    *value = (uint32_t)number_min_u64(wide, UINT32_MAX);
}

/* A text that is too long ends with a whole character. */
static void convert_name(const Convert *c, const char *name, char *text, size_t room)
{
    size_t len = 0, step = 1;
    uint32_t character;

    convert_text(c, name, text, room);
    for (const size_t all = strlen(text); !c->out && step > 0 && len < all; len += step)
        step = utf8_read(text + len, all - len, &character);
    if (!c->out)
        text[len] = '\0';
}
#define CONVERT_NAME(c, name, field) convert_name(c, name, field, sizeof(field))

/* 64 bits as "0x1f": numbers of JSON have 53. */
static void convert_bits(const Convert *c, const char *name, uint64_t *value)
{
    char text[NUMBER_HEX_MAX + 3];

    snprintf(text, sizeof text, "0x%" PRIx64, *value);
    CONVERT_TEXT(c, name, text);
    if (!c->out && number_parsen_hex(text, strlen(text), UINT64_MAX, value, NULL) < 0)
        *value = 0;
}

/* The key of a measure; null: none. */
static void convert_measure_id(const Convert *c, const char *name, BenchMeasureId *id)
{
    if (c->out)
        json_add_text(c->out, name, *id < BENCH_MEASURE_END ? bench_measures[*id].key : NULL);
    else {
        const char *key = member_text(NULL, c->in, name);

        *id = key ? bench_measure_find(key) : BENCH_MEASURE_END;
    }
}

/* An enum whose end is null. */
static void convert_optional(const Convert *c, const char *name, void *value, const WordRow *words, unsigned end)
{
    if (c->out && *(unsigned *)value >= end)
        json_add_null(c->out, name);
    else
        convert_word(c, name, value, words, end);
}

static void convert_stages(const Convert *c, const char *name, uint32_t *bits)
{
    const json_t *list;
    const uint32_t count = convert_open_list(c, name, 0, BENCH_STAGE_COUNT, &list);

    for (BenchStage s = 0; c->out && s < BENCH_STAGE_COUNT; s++)
        if (*bits >> s & 1)
            json_add_text(c->out, NULL, bench_stages[s].key);
    for (uint32_t i = 0; !c->out && i < count; i++) {
        const int stage = word_find(bench_stages, BENCH_STAGE_COUNT, json_string_value(json_array_get(list, i)));

        *bits |= stage >= 0 ? 1u << stage : 0;
    }
    convert_close(c, ']');
}

static double read_number(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

static void convert_identity(const Convert *c, BenchGpu *gpu)
{
    convert_u32(c, "index", &gpu->index);
    CONVERT_NAME(c, "uuid", gpu->device.uuid);
    CONVERT_NAME(c, "name", gpu->device.name);
}

static void convert_device(const Convert *c, BenchGpu *gpu)
{
    BenchDevice *d = &gpu->device;

    convert_identity(c, gpu);
    CONVERT_NAME(c, "pci", d->pci);
    CONVERT_NAME(c, "vbios", gpu->vbios);
    convert_bool(c, "known", &gpu->known);
    convert_bool(c, "shared", &gpu->shared);
    convert_stages(c, "ended", &gpu->ended);
    convert_u32(c, "compute_major", &d->major);
    convert_u32(c, "compute_minor", &d->minor);
    convert_u32(c, "sms", &d->sm_count);
    convert_u32(c, "sm_clock_mhz", &d->sm_clock_mhz);
    convert_u32(c, "memory_clock_mhz", &d->memory_clock_mhz);
    convert_u32(c, "memory_bus_bits", &d->bus_bits);
    convert_u32(c, "cuda_version", &d->cuda_version);
    convert_bool(c, "ecc", &d->ecc);
    convert_count(c, "memory_bytes", &d->memory_bytes);
    convert_count(c, "free_bytes", &d->free_bytes);
    convert_count(c, "l2_bytes", &d->l2_bytes);
    convert_known(c, "power_limit_w", &gpu->limit_w);
    convert_known(c, "slowdown_c", &gpu->temp_slowdown_c);
}

static void convert_watch(const Convert *c, BenchWatch *watch)
{
    convert_word(c, "stage", &watch->stage, bench_stages, BENCH_STAGE_COUNT);
    convert_u32(c, "samples", &watch->samples);
    convert_known(c, "sm_clock_mhz", &watch->sm_mhz);
    convert_known(c, "power_w", &watch->power_w);
    convert_known(c, "temperature_c", &watch->temp_c);
    convert_known(c, "memory_temperature_c", &watch->memory_temp_c);
    convert_known(c, "power_limit_w", &watch->limit_w);
    convert_bits(c, "clock_reasons", &watch->reasons);
    convert_u32(c, "pcie_generation", &watch->pcie_gen);
    convert_u32(c, "pcie_lanes", &watch->pcie_width);
}

static void convert_watches(const Convert *c, BenchGpu *gpu)
{
    const json_t *list;

    gpu->watch_count = convert_open_list(c, "watch", gpu->watch_count, BENCH_STAGE_COUNT, &list);
    for (uint32_t i = 0; i < gpu->watch_count; i++) {
        const Convert one = convert_open_element(c, list, i);

        convert_watch(&one, &gpu->watch[i]);
        convert_close(&one, '}');
    }
    convert_close(c, ']');
}

static void convert_counters(const Convert *c, const char *name, double counters[BENCH_COUNTER_END])
{
    const Convert in = convert_open(c, name);

    for (int i = 0; i < BENCH_COUNTER_END; i++)
        convert_known(&in, bench_counters[i].key, &counters[i]);
    convert_close(&in, '}');
}

static void convert_xid(const Convert *c, BenchXid *xid)
{
    convert_u32(c, "xid", &xid->code);
    convert_bool(c, "fault", &xid->fault);
    convert_word(c, "cause", &xid->cause, fault_causes, CAUSE_END);
    convert_word(c, "severity", &xid->severity, fault_severities, SEVERITY_END);
    CONVERT_NAME(c, "name", xid->name);
}

static void convert_xids(const Convert *c, BenchGpu *gpu)
{
    const json_t *list;

    gpu->xid_count = convert_open_list(c, "xids", gpu->xid_count, BENCH_XIDS_MAX, &list);
    for (uint32_t i = 0; i < gpu->xid_count; i++) {
        const Convert one = convert_open_element(c, list, i);

        convert_xid(&one, &gpu->xids[i]);
        convert_close(&one, '}');
    }
    convert_close(c, ']');
}

/* `verdict` NULL: it was not judged. */
static void convert_gpu(const Convert *c, BenchGpu *gpu, BenchVerdict *verdict)
{
    convert_device(c, gpu);
    if (verdict)
        convert_word(c, "verdict", verdict, bench_verdicts, BENCH_VERDICT_END);
    convert_watches(c, gpu);
    convert_counters(c, "before", gpu->before);
    convert_counters(c, "after", gpu->after);
    convert_xids(c, gpu);
    CONVERT_NAME(c, "library_error", gpu->library_error);
}

/* --- measures, errors, findings ----------------------------------------------------------------------------------- */

static void convert_samples(const Convert *c, BenchMeasure *m)
{
    const json_t *list;

    m->count = convert_open_list(c, "samples", m->count, BENCH_SAMPLES_MAX, &list);
    for (uint32_t i = 0; i < m->count; i++)
        if (c->out)
            json_add_double(c->out, NULL, m->samples[i]);
        else
            m->samples[i] = read_number(list, i);
    convert_close(c, ']');
}

/* Float's eight digits. */
static double shorten_float(float value)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", (double)value);
    return strtod(text, NULL);
}

static void convert_sms(const Convert *c, BenchMeasure *m)
{
    const json_t *list;

    if (c->out && m->sm_count == 0)
        return;
    m->sm_count = convert_open_list(c, "per_clock", m->sm_count, BENCH_SMS_MAX, &list);
    for (uint32_t i = 0; i < m->sm_count; i++)
        if (c->out)
            json_add_double(c->out, NULL, shorten_float(m->per_clock[i]));
        else
            m->per_clock[i] = (float)read_number(list, i);
    convert_close(c, ']');
}

static void convert_measure(const Convert *c, BenchMeasure *m)
{
    convert_measure_id(c, "measure", &m->id);
    if (c->out) {
        json_add_text(c->out, "unit", bench_measures[m->id].unit);
        json_add_double(c->out, "median", bench_measure_median(m));
    }
    convert_number(c, "gpu", &m->gpu);
    convert_number(c, "peer", &m->peer);
    convert_known(c, "sm_clock_mhz", &m->sm_mhz);
    convert_count(c, "bytes", &m->bytes);
    convert_samples(c, m);
    convert_sms(c, m);
}

static void convert_error(const Convert *c, BenchError *e)
{
    convert_optional(c, "kind", &e->kind, bench_errors, BENCH_ERROR_END);
    convert_word(c, "stage", &e->stage, bench_stages, BENCH_STAGE_COUNT);
    convert_number(c, "gpu", &e->gpu);
    convert_number(c, "peer", &e->peer);
    convert_number(c, "sm", &e->sm);
    convert_measure_id(c, "measure", &e->measure);
    convert_code(c, "code", &e->code, 0);
    convert_bool(c, "repeats", &e->repeats);
    convert_bool(c, "path", &e->path);
    convert_count(c, "count", &e->count);
    convert_bits(c, "address", &e->address);
    convert_bits(c, "want", &e->want);
    convert_bits(c, "got", &e->got);
    CONVERT_NAME(c, "what", e->what);
}

static void convert_places(const Convert *c, uint64_t *gpus)
{
    const json_t *list;
    const uint32_t count = convert_open_list(c, "gpus", 0, BENCH_GPUS_MAX, &list);

    for (uint32_t i = 0; c->out && i < BENCH_GPUS_MAX; i++)
        if (*gpus >> i & 1)
            json_add_u64(c->out, NULL, i);
    for (uint32_t i = 0; !c->out && i < count; i++) {
        const json_int_t place = json_integer_value(json_array_get(list, i));

        *gpus |= place >= 0 && place < BENCH_GPUS_MAX ? UINT64_C(1) << place : 0;
    }
    convert_close(c, ']');
}

static void convert_finding(const Convert *c, BenchFinding *f)
{
    convert_word(c, "severity", &f->severity, bench_severities, BENCH_SEVERITY_END);
    convert_word(c, "symptom", &f->symptom, bench_symptoms, BENCH_SYMPTOM_END);
    convert_word(c, "part", &f->part, bench_parts, BENCH_PART_END);
    convert_places(c, &f->gpus);
    convert_number(c, "gpu", &f->gpu);
    convert_number(c, "peer", &f->peer);
    convert_number(c, "sm", &f->sm);
    convert_measure_id(c, "measure", &f->measure);
    convert_optional(c, "error", &f->error, bench_errors, BENCH_ERROR_END);
    convert_code(c, "code", &f->code, 0);
    convert_word(c, "compared_with", &f->basis, bench_bases, BENCH_BASIS_END);
    convert_u32(c, "compared_count", &f->count);
    convert_known(c, "value", &f->value);
    convert_known(c, "reference", &f->reference);
    convert_known(c, "spread_percent", &f->spread_percent);
    convert_known(c, "behind_percent", &f->behind_percent);
    convert_word(c, "reason", &f->reason, bench_reasons, BENCH_REASON_END);
    convert_bool(c, "repeats", &f->repeats);
    convert_bool(c, "silent", &f->silent);
    CONVERT_NAME(c, "text", f->text);
}

static void convert_head(const Convert *c, BenchRun *run)
{
    CONVERT_NAME(c, "rung", run->rung);
    CONVERT_NAME(c, "node", run->node);
    CONVERT_NAME(c, "driver", run->driver);
    CONVERT_NAME(c, "stoker", run->version);
    CONVERT_NAME(c, "data", run->data);
    convert_time(c, "time", &run->real_ns);
    convert_known(c, "seconds", &run->seconds);
    convert_stages(c, "stages", &run->stages);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* The members of a list's i-th element. */
typedef void WriteElement(Str *out, const void *from, size_t i);

static void write_list(Str *out, const char *name, size_t count, WriteElement *write, const void *from)
{
    json_open(out, name, '[');
    for (size_t i = 0; i < count; i++) {
        json_open(out, NULL, '{');
        write(out, from, i);
        json_close(out, '}');
    }
    json_close(out, ']');
}

typedef struct JudgedRun {
    const BenchRun *run;
    const BenchJudgement *judgement; /* NULL: none */
} JudgedRun;

static BenchVerdict find_verdict(const BenchJudgement *judgement, size_t gpu)
{
    return judgement && gpu < BENCH_GPUS_MAX ? judgement->gpus[gpu] : BENCH_UNKNOWN;
}

static void write_gpu(Str *out, const void *from, size_t i)
{
    const JudgedRun *judged = from;
    BenchGpu gpu = judged->run->gpus.at[i];
    BenchVerdict verdict = find_verdict(judged->judgement, i);

    convert_gpu(&(Convert){.out = out}, &gpu, judged->judgement ? &verdict : NULL);
}

static void write_finding(Str *out, const void *from, size_t i)
{
    BenchFinding finding = ((const BenchFinding *)from)[i];

    convert_finding(&(Convert){.out = out}, &finding);
}

static void write_error(Str *out, const void *from, size_t i)
{
    BenchError error = ((const BenchError *)from)[i];

    convert_error(&(Convert){.out = out}, &error);
}

static void write_measure(Str *out, const void *from, size_t i)
{
    BenchMeasure measure = ((const BenchMeasure *)from)[i];

    convert_measure(&(Convert){.out = out}, &measure);
}

static void write_ceiling(Str *out, const void *from, size_t i)
{
    const BenchCeiling *ceiling = &((const BenchCeiling *)from)[i];

    json_add_text(out, "measure", bench_measures[ceiling->id].key);
    json_add_text(out, "unit", bench_measures[ceiling->id].unit);
    json_add_double(out, "value", ceiling->tera);
    json_add_double(out, "sm_clock_mhz", ceiling->sm_mhz);
    json_add_double(out, "sheet", ceiling->sheet_tera);
    json_add_double(out, "share_percent", ceiling->share_percent);
    json_add_double(out, "ridge_op_per_byte", ceiling->ridge);
    json_add_double(out, "l2_ridge_op_per_byte", ceiling->l2_ridge);
}

static void write_roof(Str *out, const void *from, size_t i)
{
    const BenchRoof roof = bench_roof(from, (uint32_t)i);

    json_add_u64(out, "gpu", i);
    json_add_double(out, "memory_gbs", roof.memory_gbs);
    json_add_double(out, "memory_sheet_gbs", roof.sheet_gbs);
    json_add_double(out, "memory_share_percent", roof.memory_share_percent);
    json_add_double(out, "l2_gbs", roof.l2_gbs);
    write_list(out, "ceilings", roof.count, write_ceiling, roof.ceilings);
}

static void write_head(Str *out, const BenchRun *run)
{
    BenchRun head = *run; /* its lists are borrowed */

    convert_head(&(Convert){.out = out}, &head);
}

static void write_findings(Str *out, const BenchJudgement *judgement)
{
    write_list(out, "findings", judgement ? judgement->findings.len : 0, write_finding,
               judgement ? judgement->findings.at : NULL);
}

static void open_root(Str *out)
{
    json_open(out, NULL, '{');
    json_add_u64(out, "version", VERSION);
}

static void close_root(Str *out)
{
    json_close(out, '}');
    str_addc(out, '\n');
}

void bench_write_json(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    open_root(out);
    write_head(out, run);
    if (judgement)
        json_add_text(out, "verdict", bench_verdicts[judgement->verdict].key);
    write_list(out, "gpus", run->gpus.len, write_gpu, &(JudgedRun){run, judgement});
    write_findings(out, judgement);
    write_list(out, "errors", run->errors.len, write_error, run->errors.at);
    write_list(out, "measures", run->measures.len, write_measure, run->measures.at);
    if (strcmp(run->rung, "roof") == 0)
        write_list(out, "roof", run->gpus.len, write_roof, run);
    close_root(out);
}

/* --- runs beside each other --------------------------------------------------------------------------------------- */

static void write_named_gpu(Str *out, const void *from, size_t i)
{
    const JudgedRun *judged = from;
    BenchGpu gpu = judged->run->gpus.at[i];

    convert_identity(&(Convert){.out = out}, &gpu);
    if (judged->judgement)
        json_add_text(out, "verdict", bench_verdicts[find_verdict(judged->judgement, i)].key);
}

/* `judgement` NULL: without verdicts. */
static void write_compared(Str *out, const BenchRun *run, const BenchJudgement *judgement)
{
    write_head(out, run);
    if (judgement)
        json_add_text(out, "verdict", bench_verdicts[judgement->verdict].key);
    write_list(out, "gpus", run->gpus.len, write_named_gpu, &(JudgedRun){run, judgement});
}

/* BENCH_COLUMNS: the GPU itself, null. */
static void write_column(Str *out, uint32_t column)
{
    json_add_text(out, "measure",
                  column < BENCH_MEASURE_END ? bench_measures[column].key
                  : column == BENCH_CLOCK    ? "clock"
                                             : NULL);
    json_add_text(out, "unit", column < BENCH_COLUMNS ? bench_value_unit(column) : NULL);
}

static void write_change(Str *out, const void *from, size_t i)
{
    BenchChange change = ((const BenchChange *)from)[i];

    json_add_text(out, "kind", bench_changes[change.kind].key);
    convert_number(&(Convert){.out = out}, "before_gpu", &change.before_gpu);
    convert_number(&(Convert){.out = out}, "after_gpu", &change.after_gpu);
    write_column(out, change.column);
    json_add_double(out, "before", change.before);
    json_add_double(out, "after", change.after);
    json_add_double(out, "worse_percent", change.worse_percent);
    json_add_text(out, "severity", change.beyond ? bench_severities[change.severity].key : NULL);
}

void bench_write_diff_json(const BenchRun *before, const BenchRun *after, const BenchDiff *diff, Str *out)
{
    open_root(out);
    json_open(out, "before", '{');
    write_compared(out, before, NULL);
    json_close(out, '}');
    json_open(out, "after", '{');
    write_compared(out, after, NULL);
    json_close(out, '}');
    json_add_bool(out, "other_data", diff->other_data);
    json_add_u64(out, "worse", diff->worse);
    write_list(out, "changes", diff->changes.len, write_change, diff->changes.at);
    write_list(out, "new_findings", diff->appeared.len, write_finding, diff->appeared.at);
    write_list(out, "gone_findings", diff->vanished.len, write_finding, diff->vanished.at);
    close_root(out);
}

static void write_fleet_row(Str *out, const void *from, size_t i)
{
    const BenchFleetRow *row = &((const BenchFleetRow *)from)[i];

    json_add_text(out, "model", row->model);
    write_column(out, row->column);
    json_add_double(out, "power_limit_w", row->limit_w ? row->limit_w : (double)NAN);
    json_add_bool(out, "without_ecc", row->without_ecc);
    json_add_u64(out, "nodes", row->nodes);
    json_add_u64(out, "gpus", row->gpus);
    json_add_double(out, "median", row->median);
    json_add_double(out, "spread_percent", row->spread_percent);
    json_add_double(out, "least", row->least);
    json_add_double(out, "most", row->most);
}

static void write_node(Str *out, const void *from, size_t i)
{
    const BenchRanked *node = &((const BenchRanked *)from)[i];

    write_compared(out, node->run, &node->judgement);
    write_findings(out, &node->judgement);
}

void bench_write_fleet_json(const BenchRanking *ranking, Str *out)
{
    open_root(out);
    json_add_u64(out, "not_fit", ranking->behind);
    write_list(out, "measures", ranking->fleet.rows.len, write_fleet_row, ranking->fleet.rows.at);
    write_list(out, "nodes", ranking->nodes.len, write_node, ranking->nodes.at);
    close_root(out);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

#define ADVICE "give a result of 'stoker bench ready', 'memory', 'matmul', 'links', 'burn' or 'roof'"

/* A list of objects. */
static int read_list(const json_t *root, const char *name, size_t max, const json_t **ret, Err *err)
{
    *ret = json_object_get(root, name);
    if (!json_is_array(*ret))
        return err_set(err, -EINVAL, "it has no list '%s'; " ADVICE, name);
    if (json_array_size(*ret) > max)
        return err_set(err, -EINVAL, "'%s' has %zu entries, more than %zu; " ADVICE, name, json_array_size(*ret), max);
    for (size_t i = 0; i < json_array_size(*ret); i++)
        if (!json_is_object(json_array_get(*ret, i)))
            return err_set(err, -EINVAL, "%s[%zu] is no object; " ADVICE, name, i);
    return 0;
}

/* The GPU of a measure or an error, or the peer: a place in the list of GPUs, or none where that may be. */
static int check_gpu(const BenchRun *run, const char *list, size_t i, uint32_t gpu, bool may_be_none, Err *err)
{
    if (gpu < run->gpus.len || (gpu == BENCH_NONE && may_be_none))
        return 0;
    if (gpu == BENCH_NONE)
        return err_set(err, -EINVAL, "%s[%zu] names no GPU; " ADVICE, list, i);
    return err_set(err, -EINVAL, "%s[%zu] is of GPU %" PRIu32 " of the list 'gpus', which has %zu; " ADVICE, list, i,
                   gpu, run->gpus.len);
}

static int read_gpus(const json_t *root, BenchRun *run, BenchJudgement *judgement, Err *err)
{
    const json_t *list;

    TRY(read_list(root, "gpus", BENCH_GPUS_MAX, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const Convert c = {.in = json_array_get(list, i)};

        convert_gpu(&c, vec_add(&run->gpus), judgement ? &judgement->gpus[i] : NULL);
    }
    return 0;
}

static int read_measures(const json_t *root, BenchRun *run, Err *err)
{
    const json_t *list;

    TRY(read_list(root, "measures", MEASURES_MAX, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const Convert c = {.in = json_array_get(list, i)};
        BenchMeasure m = {.gpu = BENCH_NONE, .peer = BENCH_NONE};

        convert_measure(&c, &m);
        if (m.id == BENCH_MEASURE_END) /* of a newer Stoker */
            continue;
        TRY(check_gpu(run, "measures", i, m.gpu, false, err));
        TRY(check_gpu(run, "measures", i, m.peer, true, err));
        vec_push(&run->measures, m);
    }
    return 0;
}

static int read_errors(const json_t *root, BenchRun *run, Err *err)
{
    const json_t *list;

    TRY(read_list(root, "errors", ERRORS_MAX, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const Convert c = {.in = json_array_get(list, i)};
        BenchError e = {.kind = BENCH_ERROR_END, .gpu = BENCH_NONE, .peer = BENCH_NONE, .sm = BENCH_NONE};

        convert_error(&c, &e);
        if (e.kind == BENCH_ERROR_END)
            return err_set(err, -EINVAL, "errors[%zu] is of a kind that this version does not know; update stoker", i);
        TRY(check_gpu(run, "errors", i, e.gpu, true, err));
        TRY(check_gpu(run, "errors", i, e.peer, true, err));
        vec_push(&run->errors, e);
    }
    return 0;
}

static int read_findings(const json_t *root, const BenchRun *run, BenchJudgement *judgement, Err *err)
{
    const json_t *list;

    TRY(read_list(root, "findings", FINDINGS_MAX, &list, err));
    for (size_t i = 0; judgement && i < json_array_size(list); i++) {
        const Convert c = {.in = json_array_get(list, i)};
        BenchFinding f = {.gpu = BENCH_NONE, .peer = BENCH_NONE, .sm = BENCH_NONE, .error = BENCH_ERROR_END};

        convert_finding(&c, &f);
        TRY(check_gpu(run, "findings", i, f.gpu, true, err));
        TRY(check_gpu(run, "findings", i, f.peer, true, err));
        vec_push(&judgement->findings, f);
    }
    return 0;
}

static int read_root(const json_t *root, BenchRun *run, BenchJudgement *judgement, Err *err)
{
    const Convert c = {.in = root};
    uint64_t version = 0;

    if (!json_is_object(root))
        return err_set(err, -EINVAL, "it is no object; " ADVICE);
    convert_count(&c, "version", &version);
    if (version != VERSION)
        return err_set(err, -EINVAL, "its 'version' is not %d: it is of another program, or of a newer stoker; " ADVICE,
                       VERSION);
    convert_head(&c, run);
    if (judgement)
        convert_word(&c, "verdict", &judgement->verdict, bench_verdicts, BENCH_VERDICT_END);
    TRY(read_gpus(root, run, judgement, err));
    TRY(read_measures(root, run, err));
    TRY(read_errors(root, run, err));
    return read_findings(root, run, judgement, err);
}

static int read_text(const char *text, size_t len, BenchRun *run, BenchJudgement *judgement, Err *err)
{
    json_error_t error;

    if (len > BENCH_TEXT_MAX)
        return err_set(err, -EFBIG, "it is larger than %d MiB; " ADVICE, BENCH_TEXT_MAX >> 20);
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return err_set(err, -EINVAL, "line %d: %s; " ADVICE, error.line, error.text);
    return read_root(root, run, judgement, err);
}

int bench_read_json(const char *text, size_t len, BenchRun *ret, Err *err)
{
    *ret = (BenchRun){.real_ns = 0};
    const int rc = read_text(text, len, ret, NULL, err);
    if (rc < 0) {
        bench_run_done(ret);
        *ret = (BenchRun){.real_ns = 0};
    }
    return rc;
}

int bench_read_judged(const char *text, size_t len, BenchRun *ret, BenchJudgement *ret_judgement, Err *err)
{
    *ret = (BenchRun){.real_ns = 0};
    *ret_judgement = (BenchJudgement){.verdict = BENCH_UNKNOWN};
    const int rc = read_text(text, len, ret, ret_judgement, err);
    if (rc < 0) {
        bench_run_done(ret);
        bench_judgement_done(ret_judgement);
        *ret = (BenchRun){.real_ns = 0};
        *ret_judgement = (BenchJudgement){.verdict = BENCH_UNKNOWN};
    }
    return rc;
}
