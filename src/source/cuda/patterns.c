/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory patterns: all memory that may be had is filled with a pattern, read back and turned into its complement, and
 * that is read back. All slices are filled before the first is read, so that an address line that does not work is
 * seen: two slices then have one memory, and random patterns differ by slice.
 */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/stage.h"

enum { MIB_SHIFT = 20, CHUNKS = 4, CHUNK_MIN_MIB = 32, FIRST_SLICE_MIB = 256, SLICE_MS = 15, ONE_SM_MIN = 16 };

static const char *const pattern_names[CUDA_PATTERN_COUNT] = {
    [CUDA_PATTERN_ZERO] = "zero",     [CUDA_PATTERN_AA] = "aa",           [CUDA_PATTERN_BYTES] = "bytes",
    [CUDA_PATTERN_WALK] = "walk",     [CUDA_PATTERN_ADDRESS] = "address", [CUDA_PATTERN_RANDOM] = "random",
    [CUDA_PATTERN_MODULO] = "modulo", [CUDA_PATTERN_CHECKER] = "checker",
};

typedef struct Slice {
    CUdeviceptr at;
    uint64_t offset, bytes; /* offset over all allocations */
} Slice;

typedef VEC(Slice) SliceVec;

/* What one pass of one pattern found wrong. */
typedef struct Findings {
    uint64_t count, address, want, got;
    const Slice *slice; /* the first one with errors */
    uint32_t sm;        /* BENCH_NONE: several */
    bool repeats;
} Findings;

typedef struct Patterns {
    BenchProcess *process;
    CudaGpu *gpu;
    SliceVec chunks, slices;
    CudaLaunch launch;
    bool inverted; /* the pass reads the complement */
} Patterns;

/* ---- memory ---- */

static int send_less_memory(Patterns *p, uint64_t want, uint64_t got)
{
    BenchError error = bench_error_of(BENCH_ERROR_LESS_MEMORY, p->gpu->place, BENCH_NONE, "cuMemAlloc_v2");

    error.want = want;
    error.got = got;
    error.count = want - got;
    return bench_send_error(&p->process->sender, &error);
}

/* A few large pieces; smaller ones where there is no room for a large one. */
static int allocate_chunks(Patterns *p)
{
    const BenchOptions *o = &p->process->options;
    const uint64_t least = (uint64_t)CHUNK_MIN_MIB << MIB_SHIFT, unit = (uint64_t)2 << MIB_SHIFT;
    uint64_t want = 0, got = 0, piece;

    TRY(cuda_gpu_budget(p->gpu, o->memory_percent, o->keep_mib, &want));
    want -= want % unit;
    for (piece = number_max_u64(want / CHUNKS / unit * unit, least); want - got >= unit;) {
        const uint64_t bytes = number_min_u64(piece, want - got);
        CUdeviceptr at = 0;
        const int rc = cuda_gpu_try_memory(p->gpu, bytes, &at);

        if (rc < 0)
            return rc;
        if (rc == 0) {
            vec_push(&p->chunks, ((Slice){.at = at, .offset = got, .bytes = bytes}));
            got += bytes;
        } else if (piece > least) {
            piece = number_max_u64(piece / 2 / unit * unit, least);
        } else {
            break;
        }
    }
    return got + want / 50 < want ? send_less_memory(p, want, got) : 0;
}

static int run_launch(Patterns *p, const Slice *slice, CudaKernel kernel, uint32_t flags, double *ret_ms)
{
    p->launch.kernel = kernel;
    p->launch.args.a = slice->at;
    p->launch.args.count = slice->bytes / 16;
    p->launch.args.seed = cuda_hash((uint32_t)(slice->offset >> MIB_SHIFT) + 1);
    p->launch.args.flags = flags;
    return cuda_gpu_run(p->gpu, &p->launch, 1, ret_ms);
}

/* Slices that one kernel fills in SLICE_MS: to read and to write one takes at most about three times as long. */
static int cut_slices(Patterns *p)
{
    uint64_t most = (uint64_t)FIRST_SLICE_MIB << MIB_SHIFT;
    Slice first = p->chunks.at[0];
    double ms = 0;

    first.bytes = number_min_u64(first.bytes, most);
    for (int i = 0; i < 2; i++) /* the first time it is slower */
        TRY(run_launch(p, &first, CUDA_MEMORY_WRITE, 0, &ms));
    most = (uint64_t)((double)first.bytes * SLICE_MS / ms);
    most = number_max_u64(most >> MIB_SHIFT, 1) << MIB_SHIFT;
    for (size_t i = 0; i < p->chunks.len; i++) {
        const Slice chunk = p->chunks.at[i];

        for (uint64_t done = 0; done < chunk.bytes; done += most)
            vec_push(&p->slices, ((Slice){.at = chunk.at + done,
                                          .offset = chunk.offset + done,
                                          .bytes = number_min_u64(most, chunk.bytes - done)}));
    }
    return 0;
}

/* ---- findings ---- */

static uint32_t verify_flags(bool inverted)
{
    return inverted ? CUDA_KERNEL_INVERTED : CUDA_KERNEL_INVERT;
}

/* The block with the lowest address among those with errors; NULL: there is none. */
static const CudaBlockResult *find_first(const Patterns *p, uint64_t *ret_errors)
{
    const CudaBlockResult *results = cuda_gpu_results_of(p->gpu, &p->launch), *first = NULL;

    for (uint32_t i = 0; i < p->launch.grid; i++) {
        if (results[i].errors == 0)
            continue;
        *ret_errors += results[i].errors;
        if (!first || results[i].first_bad < first->first_bad)
            first = &results[i];
    }
    return first;
}

/* The SM that alone read wrong values; of a few values nothing can be told, each address is read by one SM. */
static uint32_t find_only_sm(const Patterns *p, uint64_t errors)
{
    const CudaBlockResult *results = cuda_gpu_results_of(p->gpu, &p->launch);
    uint32_t sm = BENCH_NONE;

    for (uint32_t i = 0; i < p->launch.grid; i++) {
        if (results[i].errors == 0)
            continue;
        if (sm != BENCH_NONE && sm != results[i].smid)
            return BENCH_NONE;
        sm = results[i].smid;
    }
    return errors >= ONE_SM_MIN ? sm : BENCH_NONE;
}

static void note_findings(const Patterns *p, const Slice *slice, Findings *findings)
{
    uint64_t errors = 0;
    const CudaBlockResult *first = find_first(p, &errors);

    if (!first)
        return;
    if (findings->count == 0) {
        findings->slice = slice;
        findings->address = slice->offset + first->first_bad * 4;
        findings->want = first->want;
        findings->got = first->got;
        findings->sm = find_only_sm(p, errors);
    } else if (findings->sm != find_only_sm(p, errors)) {
        findings->sm = BENCH_NONE;
    }
    findings->count += errors;
}

/* Writes and reads the first slice with errors once more; leaves it as the pass does. */
static int repeat_slice(Patterns *p, Findings *findings)
{
    const Slice *slice = findings->slice;
    const CudaBlockResult *first;
    uint64_t errors = 0;
    double ms = 0;

    TRY(run_launch(p, slice, CUDA_MEMORY_WRITE, p->inverted ? CUDA_KERNEL_INVERT : 0, &ms));
    TRY(run_launch(p, slice, CUDA_MEMORY_VERIFY, verify_flags(p->inverted), &ms));
    first = find_first(p, &errors);
    findings->repeats =
        first && slice->offset + first->first_bad * 4 == findings->address && first->got == findings->got;
    return 0;
}

static int send_findings(Patterns *p, const Findings *findings)
{
    BenchError error = bench_error_of(BENCH_ERROR_MISCOMPARE, p->gpu->place, BENCH_NONE, "");

    snprintf(error.what, sizeof error.what, "%s%s", pattern_names[p->launch.args.pattern],
             p->inverted ? " inverted" : "");
    error.sm = findings->sm;
    error.repeats = findings->repeats;
    error.count = findings->count;
    error.address = findings->address;
    error.want = findings->want;
    error.got = findings->got;
    return bench_send_error(&p->process->sender, &error);
}

/* ---- passes ---- */

static int verify_slices(Patterns *p, bool inverted)
{
    Findings findings = {0};
    double ms = 0;

    p->inverted = inverted;
    for (size_t i = 0; i < p->slices.len; i++) {
        TRY(run_launch(p, &p->slices.at[i], CUDA_MEMORY_VERIFY, verify_flags(inverted), &ms));
        note_findings(p, &p->slices.at[i], &findings);
    }
    if (findings.count == 0)
        return 0;
    TRY(repeat_slice(p, &findings));
    return send_findings(p, &findings);
}

static int run_pattern(Patterns *p, CudaPattern pattern)
{
    double ms = 0;

    p->launch.args.pattern = pattern;
    for (size_t i = 0; i < p->slices.len; i++)
        TRY(run_launch(p, &p->slices.at[i], CUDA_MEMORY_WRITE, 0, &ms));
    TRY(verify_slices(p, false));
    return verify_slices(p, true);
}

static int run_patterns(Patterns *p)
{
    TRY(allocate_chunks(p));
    if (p->chunks.len == 0)
        return 0;
    TRY(cut_slices(p));
    for (CudaPattern pattern = 0; pattern < CUDA_PATTERN_COUNT; pattern++)
        TRY(run_pattern(p, pattern));
    return 0;
}

static void free_slices(Patterns *p)
{
    vec_done(&p->chunks);
    vec_done(&p->slices);
}

int bench_stage_patterns(BenchProcess *process, CudaGpu *gpu)
{
    CLEANUP(free_slices) Patterns p = {.process = process, .gpu = gpu, .launch.grid = gpu->facts.sm_count * 2};

    if (cuda_gpu_load(gpu, CUDA_MEMORY_WRITE) != 0 || cuda_gpu_load(gpu, CUDA_MEMORY_VERIFY) != 0)
        return -EIO;
    return run_patterns(&p);
}
