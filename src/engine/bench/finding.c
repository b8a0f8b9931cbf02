/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: added, looked for, made one where all GPUs share them, and put in order. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/bench/judge_inside.h"

/* nvml.h, nvmlClocksEventReason*, the gravest first. */
static const struct {
    uint64_t bits;
    BenchReason reason;
} clock_reasons[] = {
    {0x80, BENCH_REASON_BRAKE},
    {0x60, BENCH_REASON_HEAT},
    {0x08, BENCH_REASON_SLOWDOWN},
    {0x04, BENCH_REASON_CAP},
};

BenchFinding *judge_add(Judge *j, BenchSeverity severity, BenchSymptom symptom, BenchPart part, uint32_t gpu)
{
    BenchFinding *f = vec_add(&j->out->findings);

    *f = (BenchFinding){.severity = severity,
                        .symptom = symptom,
                        .part = part,
                        .gpus = gpu < j->gpu_count ? UINT64_C(1) << gpu : 0,
                        .gpu = gpu < j->gpu_count ? gpu : BENCH_NONE,
                        .peer = BENCH_NONE,
                        .sm = BENCH_NONE,
                        .measure = BENCH_MEASURE_END,
                        .error = BENCH_ERROR_END,
                        .value = (double)NAN,
                        .reference = (double)NAN,
                        .spread_percent = (double)NAN,
                        .behind_percent = (double)NAN};
    return f;
}

void judge_say(BenchFinding *f, const char *fmt, ...)
{
    const size_t used = strlen(f->text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(f->text + used, sizeof f->text - used, fmt, args);
    va_end(args);
}

const BenchFinding *judge_find(const Judge *j, uint32_t gpu, BenchSymptom symptom)
{
    for (size_t i = 0; i < j->out->findings.len; i++)
        if (j->out->findings.at[i].symptom == symptom && (gpu == BENCH_NONE || j->out->findings.at[i].gpus >> gpu & 1))
            return &j->out->findings.at[i];
    return NULL;
}

bool judge_is_bad(const Judge *j, uint32_t gpu, BenchPart part)
{
    for (size_t i = 0; i < j->out->findings.len; i++) {
        const BenchFinding *f = &j->out->findings.at[i];

        if (f->part == part && f->severity >= BENCH_DEGRADED && (gpu == BENCH_NONE || f->gpus >> gpu & 1))
            return true;
    }
    return false;
}

uint32_t judge_index(const Judge *j, uint32_t gpu)
{
    return j->run->gpus.at[gpu].index;
}

uint64_t judge_all(const Judge *j)
{
    return j->gpu_count < BENCH_GPUS_MAX ? (UINT64_C(1) << j->gpu_count) - 1 : UINT64_MAX;
}

bool judge_has_nvlinks(const Judge *j)
{
    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (isfinite(j->run->gpus.at[i].after[BENCH_NVLINKS_DOWN]))
            return true;
    return false;
}

bool judge_same_model(const Judge *j, uint32_t a, uint32_t b)
{
    return strcmp(j->run->gpus.at[a].device.name, j->run->gpus.at[b].device.name) == 0;
}

const BenchWatch *judge_watch(const BenchGpu *gpu, BenchStage stage)
{
    for (uint32_t i = 0; i < gpu->watch_count && i < BENCH_STAGE_COUNT; i++)
        if (gpu->watch[i].stage == stage)
            return &gpu->watch[i];
    return NULL;
}

BenchReason judge_reason(const BenchGpu *gpu, BenchStage stage)
{
    const BenchWatch *watch = judge_watch(gpu, stage);

    for (size_t i = 0; watch && i < ARRAY_LEN(clock_reasons); i++)
        if (watch->reasons & clock_reasons[i].bits)
            return clock_reasons[i].reason;
    return BENCH_NO_REASON;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* What can have one cause for all GPUs of a node. With its neighbours a GPU is compared alone. */
static bool can_be_shared(const BenchFinding *f)
{
    return f->gpu != BENCH_NONE && f->peer == BENCH_NONE && f->basis != BENCH_BY_PEERS && f->basis != BENCH_BY_ITSELF &&
           f->symptom != BENCH_WRONG_VALUES && f->symptom != BENCH_MEMORY_ERROR && f->symptom != BENCH_XID &&
           f->symptom != BENCH_HUNG;
}

static bool is_alike(const BenchFinding *a, const BenchFinding *b)
{
    return can_be_shared(b) && a->severity == b->severity && a->symptom == b->symptom && a->part == b->part &&
           a->basis == b->basis && a->code == b->code && a->reason == b->reason;
}

/* Keeps the worst of findings that every GPU has, for all of them. */
static void merge_shared(Judge *j, size_t first)
{
    const uint64_t all = judge_all(j);
    const BenchFinding model = j->out->findings.at[first];
    uint64_t found = 0;
    size_t worst = first;

    for (size_t i = first; i < j->out->findings.len; i++) {
        const BenchFinding *f = &j->out->findings.at[i];

        if (!is_alike(&model, f))
            continue;
        found |= f->gpus;
        worst = f->behind_percent > j->out->findings.at[worst].behind_percent ? i : worst;
    }
    if (found != all || j->gpu_count < 2)
        return;
    BenchFinding *kept = &j->out->findings.at[first];
    *kept = j->out->findings.at[worst];
    kept->gpus = all;
    kept->gpu = BENCH_NONE;
    for (size_t i = j->out->findings.len; i-- > first + 1;)
        if (is_alike(&model, &j->out->findings.at[i]))
            vec_remove(&j->out->findings, i);
}

/* MIG devices of one GPU have its number. */
static void write_name(const Judge *j, uint32_t gpu, char *out, size_t room)
{
    const char *uuid = j->run->gpus.at[gpu].device.uuid;

    if (strncmp(uuid, "MIG-", 4) == 0)
        snprintf(out, room, "GPU %" PRIu32 " %.44s", judge_index(j, gpu), uuid);
    else
        snprintf(out, room, "GPU %" PRIu32, judge_index(j, gpu));
}

static void name_gpus(const Judge *j, BenchFinding *f)
{
    char text[BENCH_FINDING_CAP], names[BENCH_FINDING_CAP] = "";
    size_t n = 0;

    if (f->gpus == 0 || f->peer != BENCH_NONE)
        return;
    memcpy(text, f->text, sizeof text);
    if (f->gpu != BENCH_NONE)
        write_name(j, f->gpu, names, sizeof names);
    else if (f->symptom == BENCH_SLOW)
        snprintf(names, sizeof names, "all %" PRIu32 " GPUs (the worst)", j->gpu_count);
    else
        snprintf(names, sizeof names, "all %" PRIu32 " GPUs", j->gpu_count);
    n = strlen(names);
    snprintf(f->text, sizeof f->text, "%.*s: %.*s", (int)n, names, (int)(sizeof f->text - n - 3), text);
}

static int compare_findings(const void *a, const void *b)
{
    const BenchFinding *x = a, *y = b;
    const double behind_x = x->behind_percent > 0 ? x->behind_percent : 0,
                 behind_y = y->behind_percent > 0 ? y->behind_percent : 0;

    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    if (behind_x > behind_y || behind_x < behind_y)
        return behind_x > behind_y ? -1 : 1;
    if (x->gpu != y->gpu)
        return x->gpu < y->gpu ? -1 : 1;
    if (x->symptom != y->symptom)
        return x->symptom < y->symptom ? -1 : 1;
    return strcmp(x->text, y->text);
}

void judge_end(Judge *j)
{
    for (size_t i = 0; i < j->out->findings.len; i++)
        if (can_be_shared(&j->out->findings.at[i]))
            merge_shared(j, i);
    for (size_t i = 0; i < j->out->findings.len; i++)
        name_gpus(j, &j->out->findings.at[i]);
    vec_sort(&j->out->findings, compare_findings);
}
