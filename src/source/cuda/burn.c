/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of normal numbers over and over, which draws more power than most work, its result compared from run to
 * run by the checksums of its tiles; and every half second an exact one, compared with what it has to be. While a batch
 * of products runs, the results of the one before it are read: the GPU never waits.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "source/cuda/product.h"

enum {
    BATCH_MS = 60,
    BATCH_MAX = 32,
    BATCHES = 2, /* one runs, one is read */
    SAMPLE_MS = 250,
    CHECK_MS = 500,
    SAMPLES = 12, /* the last three seconds */
    GOLDEN_RUNS = 3,
    WRONG_MAX = 16,
};

typedef struct Batch {
    CudaResults results[BATCH_MAX];
    CUevent begin, end;
} Batch;

/* Tiles that an SM computed otherwise than before. */
typedef struct Wrong {
    BenchError error; /* its count: not sent yet */
    bool sent;
} Wrong;

typedef struct Sample {
    double ms, work; /* in 10^9 operations */
    CudaClock clock;
} Sample;

typedef struct Burn {
    BenchProcess *process;
    CudaGpu *gpu;
    Product product;
    ProductCheck check;
    uint64_t *golden;      /* checksum of each tile */
    uint32_t tiles, times; /* products of a batch */
    Batch batches[BATCHES];
    Sample samples[SAMPLES], current;
    uint32_t sample_count;
    double check_ms; /* since the last exact one */
    double all_ms;   /* that products ran */
    Wrong wrong[WRONG_MAX];
    uint32_t wrongs;
} Burn;

/* ---- making ---- */

static int prepare_batches(Burn *b)
{
    double ms = 0;

    for (int i = 0; i < 2; i++)
        TRY(cuda_gpu_run(b->gpu, &b->product.launch, 1, &ms));
    b->times = (uint32_t)number_min_u64((uint64_t)(BATCH_MS / ms) + 1, BATCH_MAX);
    for (int i = 0; i < BATCHES; i++) {
        TRY(cuda_gpu_event(b->gpu, &b->batches[i].begin));
        TRY(cuda_gpu_event(b->gpu, &b->batches[i].end));
        for (uint32_t k = 0; k < b->times; k++)
            TRY(cuda_gpu_results(b->gpu, b->tiles, &b->batches[i].results[k]));
    }
    return 0;
}

static uint64_t read_checksum(const Burn *b, uint32_t run, uint32_t tile)
{
    return b->batches[0].results[run].at[tile].checksum;
}

/* ---- errors ---- */

static Wrong *find_wrong(Burn *b, uint32_t sm)
{
    for (uint32_t i = 0; i < b->wrongs; i++)
        if (b->wrong[i].error.sm == sm)
            return &b->wrong[i];
    if (b->wrongs == WRONG_MAX) { /* too many to be told apart */
        b->wrong[WRONG_MAX - 1].error.sm = BENCH_NONE;
        return &b->wrong[WRONG_MAX - 1];
    }
    b->wrong[b->wrongs].error = bench_error_of(BENCH_ERROR_MISCOMPARE, b->gpu->place, BENCH_NONE, "gemm_bf16");
    b->wrong[b->wrongs].error.measure = BENCH_BURN;
    b->wrong[b->wrongs].error.count = 0;
    b->wrong[b->wrongs].error.sm = sm;
    return &b->wrong[b->wrongs++];
}

static void note_tile(Burn *b, uint32_t tile, const CudaBlockResult *result)
{
    Wrong *wrong = find_wrong(b, result->smid);
    BenchError *error = &wrong->error;

    if (error->count == 0 && !wrong->sent) {
        error->address = tile;
        error->want = b->golden[tile];
        error->got = result->checksum;
    } else if (error->address == tile) {
        error->repeats = error->got == result->checksum;
    }
    error->count++;
}

/* The first errors of an SM at once, in case that nothing comes after them; further ones in the end. */
static int send_wrong(Burn *b, bool last)
{
    for (uint32_t i = 0; i < b->wrongs; i++) {
        Wrong *wrong = &b->wrong[i];

        if (wrong->error.count == 0 || (wrong->sent && !last))
            continue;
        TRY(bench_send_error(&b->process->sender, &wrong->error));
        wrong->error.count = 0;
        wrong->sent = true;
    }
    return 0;
}

/* ---- batches ---- */

static int queue_batch(Burn *b, Batch *batch)
{
    CudaLaunch launch = b->product.launch;

    TRY(cuda_gpu_record(b->gpu, batch->begin));
    for (uint32_t i = 0; i < b->times; i++) {
        launch.results = &batch->results[i];
        TRY(cuda_gpu_launch(b->gpu, &launch));
    }
    return cuda_gpu_record(b->gpu, batch->end);
}

static void end_sample(Burn *b)
{
    if (b->current.ms < SAMPLE_MS)
        return;
    if (b->sample_count == SAMPLES)
        memmove(b->samples, b->samples + 1, (SAMPLES - 1) * sizeof b->samples[0]);
    else
        b->sample_count++;
    b->samples[b->sample_count - 1] = b->current;
    b->current = (Sample){0};
}

static int read_batch(Burn *b, Batch *batch)
{
    double ms = 0;

    TRY(cuda_gpu_elapsed(b->gpu, batch->begin, batch->end, &ms));
    b->all_ms += ms;
    b->check_ms += ms;
    b->current.ms += ms;
    b->current.work += product_work(b->product.size) * b->times / 1e9;
    for (uint32_t i = 0; i < b->times; i++) {
        const CudaBlockResult *results = batch->results[i].at;

        cuda_clock_add(&b->current.clock, results, b->tiles);
        for (uint32_t tile = 0; tile < b->tiles; tile++)
            if (results[tile].checksum != b->golden[tile])
                note_tile(b, tile, &results[tile]);
    }
    end_sample(b);
    return send_wrong(b, false);
}

/* What two of three runs agree on. */
static int find_golden(Burn *b)
{
    const uint32_t times = b->times;

    b->times = GOLDEN_RUNS;
    TRY(queue_batch(b, &b->batches[0]));
    TRY(cuda_gpu_synchronize(b->gpu));
    b->times = times;
    for (uint32_t tile = 0; tile < b->tiles; tile++) {
        const uint64_t first = read_checksum(b, 0, tile), second = read_checksum(b, 1, tile);

        b->golden[tile] = first == second ? first : read_checksum(b, 2, tile);
    }
    for (uint32_t run = 0; run < GOLDEN_RUNS; run++)
        for (uint32_t tile = 0; tile < b->tiles; tile++)
            if (read_checksum(b, run, tile) != b->golden[tile])
                note_tile(b, tile, &b->batches[0].results[run].at[tile]);
    return send_wrong(b, false);
}

static int run_batches(Burn *b, double seconds)
{
    uint32_t next = 0;

    TRY(queue_batch(b, &b->batches[0]));
    while (b->all_ms < seconds * 1000) {
        TRY(queue_batch(b, &b->batches[!next]));
        TRY(read_batch(b, &b->batches[next]));
        next = !next;
        if (b->check_ms < CHECK_MS)
            continue;
        b->check_ms = 0;
        TRY(product_check_run(b->process, &b->check, BENCH_BURN));
    }
    return read_batch(b, &b->batches[next]);
}

/* ---- the stage ---- */

static int send_rate(Burn *b)
{
    BenchMeasure measure = bench_measure_of(BENCH_BURN, b->gpu->place, BENCH_NONE);
    CudaClock clock = {0};

    if (b->sample_count == 0 && b->current.ms > 0) /* shorter than a sample */
        b->samples[b->sample_count++] = b->current;
    for (uint32_t i = 0; i < b->sample_count; i++) {
        measure.samples[measure.count++] = b->samples[i].work / b->samples[i].ms;
        clock.clocks += b->samples[i].clock.clocks;
        clock.ns += b->samples[i].clock.ns;
    }
    measure.sm_mhz = cuda_clock_mhz(&clock);
    measure.bytes = product_bytes(b->product.size);
    return bench_send_measure(&b->process->sender, &measure);
}

static int run_burn(Burn *b, ProductSize size)
{
    int rc;

    TRY(product_init(&b->product, b->gpu, size, false));
    TRY(product_check_init(&b->check, b->gpu, size));
    b->tiles = product_tiles(size);
    b->golden = xcalloc(b->tiles, sizeof *b->golden);
    TRY(prepare_batches(b));
    TRY(find_golden(b));
    TRY(product_check_run(b->process, &b->check, BENCH_BURN));
    rc = run_batches(b, b->process->options.seconds);
    TRY(send_wrong(b, true));
    TRY(rc);
    return send_rate(b);
}

/* GPUs of a node begin one after the other: all at once is a step of power that supplies may not bear. */
static int wait_delay(const BenchProcess *process)
{
    const uint64_t until_ns = clock_read(CLOCK_MONOTONIC) + process->options.delay_ms * NS_PER_MS;

    while (!process->cuda.stopping && clock_read(CLOCK_MONOTONIC) < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 10 * NS_PER_MS}, NULL);
    return process->cuda.stopping ? -EINTR : 0;
}

int bench_stage_burn(BenchProcess *process, CudaGpu *gpu)
{
    CLEANUP_FREE Burn *burn = xcalloc(1, sizeof *burn);
    ProductSize size = {0};
    int rc = product_choose_size(process, gpu, &size);

    if (rc != 0)
        return rc < 0 ? rc : 0;
    TRY(wait_delay(process));
    burn->process = process;
    burn->gpu = gpu;
    rc = run_burn(burn, size);
    free(burn->golden);
    return rc;
}
