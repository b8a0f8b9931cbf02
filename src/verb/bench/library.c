/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a test the rate of the vendor's library, for comparison: a process of its own for each GPU that has a rate of
 * our product. Whatever becomes of it, the test's result stays; where there is no rate, BenchGpu.library_error says
 * why.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/attribute.h"
#include "base/human.h"
#include "verb/bench/bench_verbs.h"
#include "verb/bench/test.h"

enum { CUDA_LACKS = 500 }; /* CUDA_ERROR_NOT_FOUND: of a function of a library */

/* The first reason, where there is no rate. */
PRINTF_LIKE(3, 4) static void note_reason(BenchRun *run, uint32_t gpu, const char *fmt, ...)
{
    char *to = run->gpus.at[gpu].library_error;
    va_list args;

    if (to[0] || bench_run_find(run, BENCH_GEMM_LIBRARY, gpu, BENCH_NONE))
        return;
    va_start(args, fmt);
    vsnprintf(to, BENCH_NAME_CAP, fmt, args);
    va_end(args);
}

static bool is_usable(const BenchMeasure *m)
{
    for (uint32_t i = 0; i < m->count && i < BENCH_SAMPLES_MAX; i++)
        if (!isfinite(m->samples[i]) || m->samples[i] <= 0)
            return false;
    return m->id == BENCH_GEMM_LIBRARY && m->count > 0 && m->count <= BENCH_SAMPLES_MAX;
}

/* Of the measure only what it has: the process may have sent anything. */
static void take_measure(BenchRun *run, uint32_t gpu, const BenchMeasure *sent)
{
    BenchMeasure measure = {
        .id = sent->id, .gpu = gpu, .peer = BENCH_NONE, .count = sent->count, .sm_mhz = (double)NAN};

    if (sent->id == BENCH_CONTEXT)
        return;
    if (!is_usable(sent)) {
        note_reason(run, gpu, "no usable value");
        return;
    }
    for (uint32_t i = 0; i < sent->count; i++)
        measure.samples[i] = sent->samples[i];
    measure.bytes = sent->bytes;
    if (!bench_run_find(run, BENCH_GEMM_LIBRARY, gpu, BENCH_NONE))
        vec_push(&run->measures, measure);
}

static void take_error(BenchRun *run, uint32_t gpu, const BenchError *error)
{
    if (error->kind == BENCH_ERROR_MISCOMPARE)
        note_reason(run, gpu, "%" PRIu64 " wrong value%s in its first result", error->count,
                    human_plural(error->count));
    else if (error->kind == BENCH_ERROR_CALL && error->code == CUDA_LACKS)
        note_reason(run, gpu, "libcublasLt has no %.47s", error->what);
    else if (error->kind == BENCH_ERROR_CALL)
        note_reason(run, gpu, "%.47s failed with status %" PRId32, error->what, error->code);
}

static void take_end(BenchTest *test, uint32_t gpu, const BenchWorker *worker)
{
    BenchRun *run = bench_test_result(test);

    if (worker->kill_at_ns)
        note_reason(run, gpu, bench_test_is_over(test) ? "stopped before its end" : "no answer within its time");
    else if (!bench_worker_ended_well(worker))
        note_reason(run, gpu, "its process ended (%s %d)", worker->end.exited ? "exit code" : "signal",
                    worker->end.exited ? worker->end.exit_code : worker->end.signal);
}

static void take_record(void *self, BenchWorker *worker, const BenchRecord *record)
{
    BenchRun *run = bench_test_result(self);
    const uint32_t gpu = worker->spec.tag;

    if (!record)
        take_end(self, gpu, worker);
    else if (record->kind == BENCH_RECORD_MEASURE)
        take_measure(run, gpu, &record->measure);
    else if (record->kind == BENCH_RECORD_ERROR)
        take_error(run, gpu, &record->error);
}

void bench_compare_library(BenchTest *test)
{
    BenchRun *run = bench_test_result(test);

    for (uint32_t gpu = 0; gpu < run->gpus.len; gpu++) {
        const BenchTask task = {.gpu = gpu, .stages = 1u << BENCH_STAGE_LIBRARY, .give = take_record, .self = test};
        BenchWorker *worker;
        Err err = {0};

        if (!bench_test_ended_well(test, gpu) || !bench_run_find(run, BENCH_GEMM_BF16, gpu, BENCH_NONE))
            continue;
        if (bench_test_start(test, &task, &worker, &err) < 0)
            note_reason(run, gpu, "%.90s", err.text);
    }
    while (bench_test_turn(test))
        ;
}
