/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked for and did not come, or came without a usable value: nothing is fit by default. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/bench/judge_inside.h"

/* What a stage gives of every GPU. */
static const struct {
    BenchStage stage;
    BenchMeasureId id;
} stage_measures[] = {
    {BENCH_STAGE_MEMORY, BENCH_MEMORY_WRITE}, {BENCH_STAGE_MEMORY, BENCH_MEMORY_READ},
    {BENCH_STAGE_MEMORY, BENCH_MEMORY_COPY},  {BENCH_STAGE_MEMORY, BENCH_MEMORY_TRIAD},
    {BENCH_STAGE_GEMM, BENCH_GEMM_BF16},      {BENCH_STAGE_BURN, BENCH_BURN},
    {BENCH_STAGE_HOST, BENCH_HOST_TO_GPU},    {BENCH_STAGE_HOST, BENCH_GPU_TO_HOST},
};

static bool is_mig(const Judge *j, uint32_t gpu)
{
    return strncmp(j->run->gpus.at[gpu].device.uuid, "MIG-", 4) == 0;
}

/* Something says already that the GPU's test did not come to its end. */
static bool is_told(const Judge *j, uint32_t gpu)
{
    static const BenchSymptom ends[] = {BENCH_CALL_FAILED, BENCH_HUNG, BENCH_PROCESS_ENDED,
                                        BENCH_STOPPED,     BENCH_HOT,  BENCH_MEMORY_ERROR};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (judge_find(j, gpu, ends[i]))
            return true;
    return false;
}

static bool has_partner(const Judge *j, uint32_t gpu)
{
    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (i != gpu && !is_mig(j, i) && !is_told(j, i))
            return true;
    return false;
}

/* MIG devices do nothing with others, nor a GPU alone. Links of the host are tested with whole GPUs. */
static bool is_asked(const Judge *j, uint32_t gpu, BenchStage stage)
{
    if (stage == BENCH_STAGE_END_OF_WORK || !(j->run->stages & 1u << stage))
        return false;
    if (stage == BENCH_STAGE_PAIRS || stage == BENCH_STAGE_COLLECTIVES)
        return !is_mig(j, gpu) && has_partner(j, gpu);
    return stage != BENCH_STAGE_HOST || !is_mig(j, gpu);
}

static BenchFinding *add_missing(Judge *j, uint32_t gpu, BenchPart part)
{
    BenchFinding *f = judge_add(j, BENCH_UNTESTED, BENCH_NO_RESULT, part, gpu);

    judge_say(f, "not tested to the end: ");
    return f;
}

static bool judge_stages(Judge *j, uint32_t gpu)
{
    BenchFinding *f = NULL;

    for (BenchStage stage = 0; stage < BENCH_STAGE_COUNT; stage++) {
        if (!is_asked(j, gpu, stage) || j->run->gpus.at[gpu].ended & 1u << stage)
            continue;
        judge_say(f ? f : add_missing(j, gpu, BENCH_PART_START), "%s'%s'", f ? ", " : "", bench_stages[stage].text);
        f = &j->out->findings.at[j->out->findings.len - 1];
    }
    if (f)
        judge_say(f, " did not end");
    return f != NULL;
}

/* Which measures each GPU has, with a value or without. */
typedef struct Present {
    bool of[BENCH_GPUS_MAX][BENCH_MEASURE_END];
} Present;

static void find_present(const BenchRun *run, Present *ret)
{
    for (size_t i = 0; i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];

        if (m->gpu < BENCH_GPUS_MAX && m->peer == BENCH_NONE)
            ret->of[m->gpu][m->id] = true;
    }
}

static bool has_probe(const Present *present, uint32_t gpu)
{
    for (BenchMeasureId id = BENCH_FMA_FP32; id < BENCH_GEMM_BF16; id++)
        if (present->of[gpu][id])
            return true;
    return false;
}

static bool has_any(const Judge *j, uint32_t gpu)
{
    for (size_t i = 0; i < j->run->measures.len; i++) {
        const BenchMeasure *m = &j->run->measures.at[i];

        if (m->id != BENCH_CONTEXT && (m->gpu == gpu || m->peer == gpu))
            return true;
    }
    return false;
}

/* Another GPU of its model in the run has a value of its own. */
static bool has_model(const Judge *j, const Present *present, uint32_t gpu, BenchMeasureId id)
{
    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (i != gpu && present->of[i][id] && judge_same_model(j, i, gpu))
            return true;
    return false;
}

/* Before Ampere there is no bf16. */
static bool has_products(const Judge *j, uint32_t gpu, BenchMeasureId id)
{
    return (id != BENCH_GEMM_BF16 && id != BENCH_BURN) || j->run->gpus.at[gpu].device.major >= 8;
}

static bool is_missing(const Judge *j, const Present *present, uint32_t gpu, BenchMeasureId id)
{
    if (present->of[gpu][id] || !has_products(j, gpu, id))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(stage_measures); i++)
        if (stage_measures[i].id == id && is_asked(j, gpu, stage_measures[i].stage))
            return true;
    return bench_measures[id].notice > 0 && has_model(j, present, gpu, id);
}

static void judge_measures(Judge *j, const Present *present, uint32_t gpu)
{
    BenchFinding *f = NULL;
    char label[BENCH_NAME_CAP];

    for (BenchMeasureId id = 0; id < BENCH_MEASURE_END; id++) {
        if (!is_missing(j, present, gpu, id))
            continue;
        bench_label(id, label);
        judge_say(f ? f : add_missing(j, gpu, bench_measures[id].part), "%s%s", f ? ", " : "", label);
        f = &j->out->findings.at[j->out->findings.len - 1];
    }
    if (f)
        judge_say(f, " gave no result");
    else if (is_asked(j, gpu, BENCH_STAGE_PROBES) && !has_probe(present, gpu))
        judge_say(add_missing(j, gpu, BENCH_PART_COMPUTE), "arithmetic of its SMs gave no result");
    else if (!is_asked(j, gpu, BENCH_STAGE_PATTERNS) && !has_any(j, gpu))
        judge_say(add_missing(j, gpu, BENCH_PART_START), "nothing of it was measured");
}

/* A copy between two GPUs that has neither a rate nor an error that says why. */
static bool is_hole(const Judge *j, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < j->run->errors.len; i++) {
        const BenchError *e = &j->run->errors.at[i];

        if ((e->kind == BENCH_ERROR_NO_PEER || e->kind == BENCH_ERROR_STAGED) &&
            ((e->gpu == from && e->peer == to) || (e->gpu == to && e->peer == from)))
            return false;
    }
    return !bench_run_find(j->run, BENCH_PEER, from, to);
}

static void judge_pairs(Judge *j, uint32_t gpu)
{
    uint32_t holes = 0, last = 0;

    for (uint32_t i = 0; i < j->gpu_count && is_asked(j, gpu, BENCH_STAGE_PAIRS); i++)
        if (i != gpu && !is_mig(j, i) && !is_told(j, i) && is_hole(j, gpu, i)) {
            holes++;
            last = i;
        }
    if (holes == 0)
        return;
    BenchFinding *f = add_missing(j, gpu, BENCH_PART_PEER_LINK);
    judge_say(f, "copies to %s%" PRIu32 "%s gave no result", holes == 1 ? "GPU " : "",
              holes == 1 ? judge_index(j, last) : holes, holes == 1 ? "" : " GPUs");
}

static bool is_usable(const Judge *j, const BenchMeasure *m)
{
    const double value = bench_measure_median(m);

    for (uint32_t i = 0; i < m->count && i < BENCH_SAMPLES_MAX; i++)
        if (!(m->samples[i] > 0) || !isfinite(m->samples[i]))
            return false;
    return isfinite(value) && (bench_measures[m->id].notice <= 0 || isfinite(bench_value(j->run, m)));
}

static void judge_values(Judge *j, uint32_t gpu)
{
    char label[BENCH_NAME_CAP];
    BenchFinding *f = NULL;
    uint32_t more = 0;

    for (size_t i = 0; i < j->run->measures.len; i++) {
        const BenchMeasure *m = &j->run->measures.at[i];

        if (m->gpu != gpu || m->id == BENCH_GEMM_LIBRARY || is_usable(j, m))
            continue;
        if (f && f->measure == m->id) { /* of another pair */
            more++;
            continue;
        }
        bench_label(m->id, label);
        f = f ? f : judge_add(j, BENCH_UNTESTED, BENCH_NO_RESULT, bench_measures[m->id].part, gpu);
        judge_say(f, "%s%s", f->text[0] ? ", " : "", label);
        f->measure = m->id;
    }
    if (f)
        judge_say(f, " gave no usable value%s", more ? " with several GPUs" : "");
}

/* A part of a model's SMs is enough to work, and less than was paid for. */
static void judge_sm_count(Judge *j, uint32_t gpu)
{
    const uint32_t own = j->run->gpus.at[gpu].device.sm_count;
    double others[BENCH_GPUS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (i != gpu && judge_same_model(j, i, gpu) && j->run->gpus.at[i].device.sm_count > 0)
            others[count++] = j->run->gpus.at[i].device.sm_count;
    if (count < BENCH_PEERS_MIN || own == 0 || judge_find(j, gpu, BENCH_MISSING_SM))
        return;
    const double usual = bench_median(others, count, NULL);
    if (own >= usual)
        return;
    BenchFinding *f = judge_add(j, BENCH_DEGRADED, BENCH_MISSING_SM, BENCH_PART_COMPUTE, gpu);
    f->basis = BENCH_BY_PEERS;
    f->count = (uint32_t)count;
    f->value = own;
    f->reference = usual;
    f->behind_percent = 100 * (1 - own / usual);
    judge_say(f, "has %" PRIu32 " SMs, the others of its model %.0f", own, usual);
}

void judge_missing(Judge *j)
{
    CLEANUP_FREE Present *present = xcalloc(1, sizeof *present);

    find_present(j->run, present);
    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++) {
        judge_sm_count(j, gpu);
        judge_values(j, gpu);
        if (is_told(j, gpu))
            continue;
        if (!j->run->gpus.at[gpu].known) {
            judge_say(add_missing(j, gpu, BENCH_PART_START), "the process that tests it said nothing of it");
            continue;
        }
        if (judge_stages(j, gpu)) /* else all of a stage's measures would be missing too */
            continue;
        judge_measures(j, present, gpu);
        judge_pairs(j, gpu);
    }
    if (j->gpu_count > 0 && j->run->stages == 0)
        judge_say(judge_add(j, BENCH_UNTESTED, BENCH_NO_RESULT, BENCH_PART_START, BENCH_NONE),
                  "the run does not say what was tested");
}
