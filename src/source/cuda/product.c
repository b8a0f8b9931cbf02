/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/product.h"
#include "source/cuda/rate.h"

#define CHECK_BYTES (UINT64_C(64) << 20) /* room for the exact product beside it */
enum {
    SEED_A = 1,
    SEED_B = 2,
    FILL_GRID = 512,
    COMPARE_GRID = 2048,
    REFERENCE_ROWS = 256, /* a launch of the reference, which is slow */
    KERNEL_MS = 40,
    TRIAL_SIDE = 2048,
    WRONG_MAX = 8,
};

double product_work(ProductSize size)
{
    return 2.0 * size.m * size.n * size.k;
}

uint32_t product_tiles(ProductSize size)
{
    return size.m / PRODUCT_TILE * (size.n / PRODUCT_TILE);
}

uint64_t product_bytes(ProductSize size)
{
    return ((uint64_t)size.m * size.k + (uint64_t)size.n * size.k) * 2 + (uint64_t)size.m * size.n * 4;
}

/* ---- making one ---- */

static int fill_factor(CudaGpu *gpu, CUdeviceptr at, uint64_t words, uint32_t seed, bool integers)
{
    const CudaLaunch launch = {.kernel = integers ? CUDA_FILL_INTEGER : CUDA_FILL_NORMAL,
                               .grid = FILL_GRID,
                               .args = {.a = at, .count = words, .seed = seed}};
    double ms = 0;

    TRY(cuda_gpu_load(gpu, launch.kernel));
    return cuda_gpu_run(gpu, &launch, 1, &ms);
}

int product_init(Product *product, CudaGpu *gpu, ProductSize size, bool integers)
{
    const uint64_t a_words = (uint64_t)size.m * size.k / 2, b_words = (uint64_t)size.n * size.k / 2;
    CUdeviceptr a = 0, b = 0, c = 0;

    TRY(cuda_gpu_memory(gpu, a_words * 4, &a));
    TRY(cuda_gpu_memory(gpu, b_words * 4, &b));
    TRY(cuda_gpu_memory(gpu, (uint64_t)size.m * size.n * 4, &c));
    *product = (Product){.gpu = gpu, .size = size};
    TRY(cuda_gpu_results(gpu, product_tiles(size), &product->results));
    product->launch = (CudaLaunch){.kernel = CUDA_GEMM_BF16,
                                   .grid = product_tiles(size),
                                   .results = &product->results,
                                   .args = {.a = a, .b = b, .c = c, .m = size.m, .n = size.n, .k = size.k}};
    TRY(fill_factor(gpu, a, a_words, SEED_A, integers));
    return fill_factor(gpu, b, b_words, SEED_B, integers);
}

/* The largest square whose memory may be had and whose product takes KERNEL_MS at most, by a trial of a small one. */
int product_choose_size(BenchProcess *process, CudaGpu *gpu, ProductSize *ret)
{
    const BenchOptions *o = &process->options;
    const ProductSize trial = {TRIAL_SIDE, TRIAL_SIDE, TRIAL_SIDE};
    uint64_t budget = 0;
    uint32_t side = PRODUCT_SIDE;
    Product product;
    double ms = 0;
    const int rc = cuda_gpu_load(gpu, CUDA_GEMM_BF16);

    if (rc != 0)
        return rc;
    if (o->m) {
        *ret = (ProductSize){o->m, o->n, o->k};
        return 0;
    }
    TRY(cuda_gpu_budget(gpu, o->memory_percent, o->keep_mib, &budget));
    TRY(product_init(&product, gpu, trial, false));
    for (int i = 0; i < 2; i++)
        TRY(cuda_gpu_run(gpu, &product.launch, 1, &ms));
    cuda_gpu_release(gpu);
    while (side > TRIAL_SIDE && (product_bytes((ProductSize){side, side, side}) + CHECK_BYTES > budget ||
                                 ms * product_work((ProductSize){side, side, side}) / product_work(trial) > KERNEL_MS))
        side /= 2;
    *ret = (ProductSize){side, side, side};
    return 0;
}

/* ---- the exact one ---- */

int product_check_init(ProductCheck *check, CudaGpu *gpu, ProductSize most)
{
    const ProductSize size = {(uint32_t)number_min_u64(most.m, PRODUCT_CHECK_SIDE),
                              (uint32_t)number_min_u64(most.n, PRODUCT_CHECK_SIDE),
                              (uint32_t)number_min_u64(most.k, PRODUCT_CHECK_SIDE)};
    CudaLaunch launch;
    double ms = 0;

    TRY(product_init(&check->product, gpu, size, true));
    TRY(cuda_gpu_memory(gpu, (uint64_t)size.m * size.n * 4, &check->want));
    TRY(cuda_gpu_load(gpu, CUDA_GEMM_REFERENCE));
    TRY(cuda_gpu_load(gpu, CUDA_COMPARE));
    launch = check->product.launch;
    launch.kernel = CUDA_GEMM_REFERENCE;
    launch.results = NULL;
    launch.grid = FILL_GRID;
    for (uint32_t row = 0; row < size.m; row += REFERENCE_ROWS) {
        launch.args.a = check->product.launch.args.a + (uint64_t)row * size.k * 2;
        launch.args.c = check->want + (uint64_t)row * size.n * 4;
        launch.args.m = (uint32_t)number_min_u64(REFERENCE_ROWS, size.m - row);
        TRY(cuda_gpu_run(gpu, &launch, 1, &ms));
    }
    return 0;
}

/* Which SM computed the value: that of its tile. */
static uint32_t find_sm(const Product *product, uint64_t index)
{
    const uint64_t row = index / product->size.n, column = index % product->size.n;
    const uint64_t tile = row / PRODUCT_TILE * (product->size.n / PRODUCT_TILE) + column / PRODUCT_TILE;

    return tile < product->launch.grid ? product->results.at[tile].smid : BENCH_NONE;
}

int product_compare(const ProductCheck *check, CudaLaunch *ret)
{
    const Product *product = &check->product;
    double ms = 0;

    *ret = (CudaLaunch){
        .kernel = CUDA_COMPARE,
        .grid = COMPARE_GRID,
        .args = {.a = product->launch.args.c, .b = check->want, .count = (uint64_t)product->size.m * product->size.n}};
    return cuda_gpu_run(product->gpu, ret, 1, &ms);
}

static int multiply_and_compare(const ProductCheck *check, CudaLaunch *compare)
{
    double ms = 0;

    TRY(cuda_gpu_run(check->product.gpu, &check->product.launch, 1, &ms));
    return product_compare(check, compare);
}

/* Adds the block's errors to those of the SM that computed its first wrong value. */
static void note_wrong(const Product *product, const CudaBlockResult *block, BenchError *wrong, uint32_t *count,
                       const BenchError *empty)
{
    const uint32_t sm = find_sm(product, block->first_bad);
    uint32_t i = 0;

    while (i < *count && wrong[i].sm != sm)
        i++;
    if (i == WRONG_MAX) {
        wrong[i - 1].count += block->errors;
        wrong[i - 1].sm = BENCH_NONE;
        return;
    }
    if (i == *count) {
        wrong[(*count)++] = *empty;
        wrong[i].sm = sm;
    }
    wrong[i].count += block->errors;
    if (wrong[i].address <= block->first_bad * 4)
        return;
    wrong[i].address = block->first_bad * 4;
    wrong[i].want = block->want;
    wrong[i].got = block->got;
}

static bool value_repeats(const CudaBlockResult *blocks, const BenchError *wrong)
{
    for (uint32_t i = 0; i < COMPARE_GRID; i++)
        if (blocks[i].errors > 0 && blocks[i].first_bad * 4 == wrong->address)
            return blocks[i].got == wrong->got;
    return false;
}

int product_check_run(BenchProcess *process, ProductCheck *check, BenchMeasureId measure)
{
    const Product *product = &check->product;
    BenchError wrong[WRONG_MAX] = {0},
               empty = bench_error_of(BENCH_ERROR_MISCOMPARE, product->gpu->place, BENCH_NONE, "gemm_bf16");
    const CudaBlockResult *blocks;
    CudaLaunch compare;
    uint32_t count = 0;

    empty.count = 0;
    empty.address = UINT64_MAX;
    empty.measure = measure;
    TRY(multiply_and_compare(check, &compare));
    blocks = cuda_gpu_results_of(product->gpu, &compare);
    for (uint32_t i = 0; i < compare.grid; i++)
        if (blocks[i].errors > 0)
            note_wrong(product, &blocks[i], wrong, &count, &empty);
    if (count == 0)
        return 0;
    TRY(multiply_and_compare(check, &compare));
    for (uint32_t i = 0; i < count; i++) {
        wrong[i].repeats = value_repeats(blocks, &wrong[i]);
        TRY(bench_send_error(&process->sender, &wrong[i]));
    }
    return 0;
}

/* ---- the stage ---- */

int bench_stage_gemm(BenchProcess *process, CudaGpu *gpu)
{
    BenchMeasure measure = bench_measure_of(BENCH_GEMM_BF16, gpu->place, BENCH_NONE);
    ProductSize size = {0};
    ProductCheck check;
    Product product;
    const int rc = product_choose_size(process, gpu, &size);

    if (rc != 0)
        return rc < 0 ? rc : 0;
    TRY(product_init(&product, gpu, size, false));
    measure.bytes = product_bytes(size);
    TRY(rate_warm_up(gpu, &product.launch));
    TRY(rate_sample(gpu, &product.launch, process->options.windows, product_work(size) / 1e9, &measure));
    TRY(bench_send_measure(&process->sender, &measure));
    cuda_gpu_release(gpu);
    TRY(product_check_init(&check, gpu, size));
    return product_check_run(process, &check, BENCH_GEMM_BF16);
}
