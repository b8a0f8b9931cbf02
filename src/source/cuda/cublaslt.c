/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage library: the rate of the same product by the vendor's libcublasLt, where the machine has one. It is loaded
 * by a guess of its interface and may do anything, so that the stage has a process to itself; its first result is
 * compared with what it has to be before a rate is taken. What it makes beside its handle ends with the process.
 */
#include <dlfcn.h>

#include "base/cleanup.h"
#include "cublaslt_abi.h"
#include "source/cuda/product.h"
#include "source/cuda/rate.h"

#define WORKSPACE_BYTES (UINT64_C(32) << 20) /* docs.nvidia.com/cuda/cublas, cublasSetWorkspace: as much on Hopper */
enum { TIMES_MAX = 8192 };

typedef struct Library {
    CudaGpu *gpu;
    CublasLtTable table;
    CublasLtHandle handle;
} Library;

/* It is told of columns where we have rows: the transposed result, n x m, of the second factor with the first. */
typedef struct LibraryProduct {
    const Library *library;
    const Product *product;
    CublasLtDesc desc;
    CublasLtLayout a, b, c;
    CublasLtHeuristic found;
    CUdeviceptr workspace;
} LibraryProduct;

/* As CUDA_TRY; a status is kept as if it were a result of CUDA. */
#define LIBRARY_TRY(library, fn, args)                                                                                 \
    do {                                                                                                               \
        if (cuda_check((library)->gpu->cuda, #fn, (library)->table.fn args) != CUBLASLT_SUCCESS)                       \
            return -EIO;                                                                                               \
    } while (0)

/* 1: there is none. */
static int open_library(Library *library)
{
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"};
    static const CudaSymbol symbols[] = {
#define LIBRARY_SYMBOL(name, arguments) {#name, offsetof(CublasLtTable, name)},
        CUBLASLT_FUNCTION_TABLE(LIBRARY_SYMBOL)
#undef LIBRARY_SYMBOL
    };
    void *loaded = NULL;

    for (size_t i = 0; i < ARRAY_LEN(files) && !loaded; i++)
        loaded = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
        return 1;
    return cuda_fill_table(library->gpu->cuda, loaded, symbols, ARRAY_LEN(symbols), &library->table) < 0 ? -EIO : 0;
}

static int find_algorithm(LibraryProduct *p)
{
    const Library *library = p->library;
    const uint64_t workspace_bytes = WORKSPACE_BYTES;
    CublasLtPreference preference = NULL;
    int count = 0;

    LIBRARY_TRY(library, cublasLtMatmulPreferenceCreate, (&preference));
    LIBRARY_TRY(library, cublasLtMatmulPreferenceSetAttribute,
                (preference, CUBLASLT_PREFERENCE_WORKSPACE, &workspace_bytes, sizeof workspace_bytes));
    LIBRARY_TRY(library, cublasLtMatmulAlgoGetHeuristic,
                (library->handle, p->desc, p->b, p->a, p->c, p->c, preference, 1, &p->found, &count));
    if (count == 0)
        p->found.state = CUBLASLT_NOT_SUPPORTED;
    cuda_check(library->gpu->cuda, "cublasLtMatmulAlgoGetHeuristic", p->found.state);
    return p->found.state == CUBLASLT_SUCCESS ? 0 : -EIO;
}

static int prepare_product(const Library *library, const Product *product, LibraryProduct *ret)
{
    const ProductSize size = product->size;
    const int32_t transposed = CUBLASLT_TRANSPOSED;

    *ret = (LibraryProduct){.library = library, .product = product};
    LIBRARY_TRY(library, cublasLtMatmulDescCreate, (&ret->desc, CUBLASLT_COMPUTE_FP32, CUBLASLT_FP32));
    LIBRARY_TRY(library, cublasLtMatmulDescSetAttribute,
                (ret->desc, CUBLASLT_DESC_TRANSA, &transposed, sizeof transposed));
    LIBRARY_TRY(library, cublasLtMatrixLayoutCreate, (&ret->a, CUBLASLT_BF16, size.k, size.m, size.k));
    LIBRARY_TRY(library, cublasLtMatrixLayoutCreate, (&ret->b, CUBLASLT_BF16, size.k, size.n, size.k));
    LIBRARY_TRY(library, cublasLtMatrixLayoutCreate, (&ret->c, CUBLASLT_FP32, size.n, size.m, size.n));
    TRY(cuda_gpu_memory(library->gpu, WORKSPACE_BYTES, &ret->workspace));
    return find_algorithm(ret);
}

/* c = a * b + beta * c */
static int queue_product(const LibraryProduct *p, float beta)
{
    const Library *library = p->library;
    const CudaKernelArgs *args = &p->product->launch.args;
    const float alpha = 1;

    LIBRARY_TRY(library, cublasLtMatmul,
                (library->handle, p->desc, &alpha, args->b, p->b, args->a, p->a, &beta, args->c, p->c, args->c, p->c,
                 &p->found.algo, p->workspace, WORKSPACE_BYTES, library->gpu->stream));
    return 0;
}

/* 1: it was wrong, and was sent. Added to zeros: those of the result are +0 then, as the reference has them. */
static int check_result(BenchProcess *process, const Library *library, ProductSize size)
{
    CudaGpu *gpu = library->gpu;
    Cuda *cuda = gpu->cuda;
    BenchError wrong = bench_error_of(BENCH_ERROR_MISCOMPARE, gpu->place, BENCH_NONE, "cublasLtMatmul");
    LibraryProduct p;
    ProductCheck check;
    CudaLaunch compare;

    TRY(product_check_init(&check, gpu, size));
    TRY(prepare_product(library, &check.product, &p));
    size = check.product.size;
    CUDA_TRY(cuda, cuMemsetD8Async, (check.product.launch.args.c, 0, (size_t)size.m * size.n * 4, gpu->stream));
    TRY(queue_product(&p, 1));
    TRY(product_compare(&check, &compare));
    wrong.measure = BENCH_GEMM_LIBRARY;
    wrong.count = 0;
    for (uint32_t i = 0; i < compare.grid; i++)
        wrong.count += cuda_gpu_results_of(gpu, &compare)[i].errors;
    if (wrong.count == 0)
        return 0;
    TRY(bench_send_error(&process->sender, &wrong));
    return 1;
}

static int run_products(const LibraryProduct *p, uint32_t times, double *ret_ms)
{
    CudaGpu *gpu = p->library->gpu;

    TRY(cuda_gpu_record(gpu, gpu->begin));
    for (uint32_t i = 0; i < times; i++)
        TRY(queue_product(p, 0));
    TRY(cuda_gpu_record(gpu, gpu->end));
    return cuda_gpu_elapsed(gpu, gpu->begin, gpu->end, ret_ms);
}

/* Runs it until clocks are up, and finds how many fill a window. */
static int find_times(const LibraryProduct *p, uint32_t *ret)
{
    uint32_t times = 1;
    double ms = 0, sum_ms = 0;

    TRY(run_products(p, 1, &ms)); /* pays for its loading */
    while (sum_ms < RATE_WARM_MS && times <= TIMES_MAX) {
        TRY(run_products(p, times, &ms));
        sum_ms += ms;
        if (ms < RATE_WINDOW_MS)
            times *= 2;
    }
    *ret = times;
    return 0;
}

static int measure_rate(BenchProcess *process, const Library *library, ProductSize size)
{
    BenchMeasure measure = bench_measure_of(BENCH_GEMM_LIBRARY, library->gpu->place, BENCH_NONE);
    LibraryProduct p;
    Product product;
    uint32_t times = 0;
    double ms = 0;

    TRY(product_init(&product, library->gpu, size, false));
    TRY(prepare_product(library, &product, &p));
    TRY(find_times(&p, &times));
    measure.bytes = product_bytes(size);
    for (; measure.count < process->options.windows; measure.count++) {
        TRY(run_products(&p, times, &ms));
        measure.samples[measure.count] = product_work(size) / 1e9 * times / ms;
    }
    return bench_send_measure(&process->sender, &measure);
}

int bench_stage_library(BenchProcess *process, CudaGpu *gpu)
{
    Library library = {.gpu = gpu};
    ProductSize size = {0};
    int rc = open_library(&library);

    if (rc == 0)
        rc = product_choose_size(process, gpu, &size);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    LIBRARY_TRY(&library, cublasLtCreate, (&library.handle));
    rc = check_result(process, &library, size);
    TRY(rc);
    cuda_gpu_release(gpu);
    if (rc == 0)
        TRY(measure_rate(process, &library, size));
    LIBRARY_TRY(&library, cublasLtDestroy, (library.handle));
    return 0;
}
