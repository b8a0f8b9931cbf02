/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcublasLt, as far as Stoker's comparison needs it: a client of the simulated libcuda beside it, which multiplies
 * with the kernel gemm_bf16 at the rate that the vendor's library has. It takes that one problem and refuses all
 * others; descriptions of it end with the process.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cublaslt_abi.h"
#include "sim/cuda/kernel.h"

enum { OBJECTS_MAX = 64, TILE = 128, SLAB = 32, TILES_MAX = 65536, THREADS = 256, MAGIC = 0x4c74 };
enum { ORDER_HANG = -1, ORDER_KILL = -2, ORDER_WRONG = -3 };
#define RESULT_BYTES (TILES_MAX * sizeof(CudaBlockResult))

struct CublasLtContext {
    CudaTable cuda;
    CUmodule module;
    CUfunction function;
    void *memory; /* results of blocks, and behind them the word that stops them */
    CUdeviceptr address;
};

struct CublasLtDescOpaque {
    int compute_type, scale_type;
    int32_t transa;
};

struct CublasLtLayoutOpaque {
    int type;
    uint64_t rows, columns;
    int64_t pitch;
};

struct CublasLtPreferenceOpaque {
    uint64_t workspace_bytes;
};

static struct CublasLtContext context; /* one at a time */
static struct CublasLtDescOpaque descs[OBJECTS_MAX];
static struct CublasLtLayoutOpaque layouts[OBJECTS_MAX];
static struct CublasLtPreferenceOpaque preferences[OBJECTS_MAX];
static size_t desc_count, layout_count, preference_count;

#define CUBLASLT_DECLARE(name, arguments) __attribute__((visibility("default"))) CublasLtStatus name arguments;
CUBLASLT_FUNCTION_TABLE(CUBLASLT_DECLARE)
#undef CUBLASLT_DECLARE

/* --- what tests order -------------------------------------------------------------------------------------------- */

static const char *const names[CUBLASLT_FUNCTION_COUNT] = {
#define CUBLASLT_NAME(name, arguments) [CUBLASLT_FN_##name] = #name,
    CUBLASLT_FUNCTION_TABLE(CUBLASLT_NAME)
#undef CUBLASLT_NAME
};

static int parse_order(const char *text)
{
    return strcmp(text, "hang") == 0    ? ORDER_HANG
           : strcmp(text, "kill") == 0  ? ORDER_KILL
           : strcmp(text, "wrong") == 0 ? ORDER_WRONG
                                        : atoi(text);
}

/* STOKER_SIM_CUBLASLT_FAIL=FUNCTION:N:STATUS|hang|kill|wrong: the N-th call of a function. 0: nothing is ordered. */
static int find_order(CublasLtFunction fn)
{
    static unsigned long calls[CUBLASLT_FUNCTION_COUNT];
    const char *text = getenv("STOKER_SIM_CUBLASLT_FAIL");
    const size_t length = strlen(names[fn]);
    char *rest;

    calls[fn]++;
    if (!text || strncmp(text, names[fn], length) != 0 || text[length] != ':')
        return 0;
    const unsigned long nth = strtoul(text + length + 1, &rest, 10);
    const int order = *rest == ':' && nth == calls[fn] ? parse_order(rest + 1) : 0;
    if (order == ORDER_KILL)
        kill(getpid(), SIGKILL);
    if (order == ORDER_HANG)
        for (;;)
            pause();
    return order;
}

/* Leaves the function with the status that is ordered. */
#define CUBLASLT_OBEY(fn)                                                                                              \
    do {                                                                                                               \
        const int order_ = find_order(CUBLASLT_FN_##fn);                                                               \
        if (order_ > 0)                                                                                                \
            return order_;                                                                                             \
    } while (0)

/* --- descriptions ------------------------------------------------------------------------------------------------ */

CublasLtStatus cublasLtMatmulDescCreate(CublasLtDesc *desc, int compute_type, int scale_type)
{
    CUBLASLT_OBEY(cublasLtMatmulDescCreate);
    if (!desc || desc_count == OBJECTS_MAX)
        return CUBLASLT_BAD_VALUE;
    *desc = &descs[desc_count++];
    **desc = (struct CublasLtDescOpaque){.compute_type = compute_type, .scale_type = scale_type};
    return CUBLASLT_SUCCESS;
}

CublasLtStatus cublasLtMatmulDescSetAttribute(CublasLtDesc desc, int attribute, const void *value, size_t bytes)
{
    CUBLASLT_OBEY(cublasLtMatmulDescSetAttribute);
    if (!desc || !value || attribute != CUBLASLT_DESC_TRANSA || bytes != sizeof desc->transa)
        return CUBLASLT_BAD_VALUE;
    memcpy(&desc->transa, value, bytes);
    return CUBLASLT_SUCCESS;
}

CublasLtStatus cublasLtMatrixLayoutCreate(CublasLtLayout *layout, int type, uint64_t rows, uint64_t columns,
                                          int64_t pitch)
{
    CUBLASLT_OBEY(cublasLtMatrixLayoutCreate);
    if (!layout || layout_count == OBJECTS_MAX)
        return CUBLASLT_BAD_VALUE;
    *layout = &layouts[layout_count++];
    **layout = (struct CublasLtLayoutOpaque){type, rows, columns, pitch};
    return CUBLASLT_SUCCESS;
}

CublasLtStatus cublasLtMatmulPreferenceCreate(CublasLtPreference *preference)
{
    CUBLASLT_OBEY(cublasLtMatmulPreferenceCreate);
    if (!preference || preference_count == OBJECTS_MAX)
        return CUBLASLT_BAD_VALUE;
    *preference = &preferences[preference_count++];
    return CUBLASLT_SUCCESS;
}

CublasLtStatus cublasLtMatmulPreferenceSetAttribute(CublasLtPreference preference, int attribute, const void *value,
                                                    size_t bytes)
{
    CUBLASLT_OBEY(cublasLtMatmulPreferenceSetAttribute);
    if (!preference || !value || attribute != CUBLASLT_PREFERENCE_WORKSPACE ||
        bytes != sizeof preference->workspace_bytes)
        return CUBLASLT_BAD_VALUE;
    memcpy(&preference->workspace_bytes, value, bytes);
    return CUBLASLT_SUCCESS;
}

/* --- the library ------------------------------------------------------------------------------------------------- */

static const char text[] = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry gemm_bf16()\n{\nret;\n}\n";

/* The client's, which has loaded it already. */
static bool find_cuda(CudaTable *ret)
{
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define CUDA_SYMBOL(name, arguments) {#name, offsetof(CudaTable, name)},
        CUDA_FUNCTION_TABLE(CUDA_SYMBOL)
#undef CUDA_SYMBOL
    };
    void *loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    for (size_t i = 0; loaded && i < sizeof symbols / sizeof *symbols; i++) {
        void *at = dlsym(loaded, symbols[i].name);

        if (!at)
            return false;
        memcpy((char *)ret + symbols[i].offset, &at, sizeof at);
    }
    return loaded != NULL;
}

CublasLtStatus cublasLtCreate(CublasLtHandle *handle)
{
    const CudaTable *cuda = &context.cuda;

    CUBLASLT_OBEY(cublasLtCreate);
    if (!handle || !find_cuda(&context.cuda) ||
        cuda->cuModuleLoadDataEx(&context.module, text, 0, NULL, NULL) != CUDA_SUCCESS ||
        cuda->cuModuleGetFunction(&context.function, context.module, "gemm_bf16") != CUDA_SUCCESS ||
        cuda->cuMemHostAlloc(&context.memory, RESULT_BYTES + 64, CUDA_HOST_MAPPED) != CUDA_SUCCESS ||
        cuda->cuMemHostGetDevicePointer_v2(&context.address, context.memory, 0) != CUDA_SUCCESS)
        return CUBLASLT_NOT_READY;
    *handle = &context;
    return CUBLASLT_SUCCESS;
}

CublasLtStatus cublasLtDestroy(CublasLtHandle handle)
{
    CUBLASLT_OBEY(cublasLtDestroy);
    if (handle != &context || context.cuda.cuModuleUnload(context.module) != CUDA_SUCCESS ||
        context.cuda.cuMemFreeHost(context.memory) != CUDA_SUCCESS)
        return CUBLASLT_BAD_VALUE;
    context = (struct CublasLtContext){0};
    return CUBLASLT_SUCCESS;
}

static bool is_matrix(CublasLtLayout layout, int type, uint64_t rows, uint64_t columns)
{
    return layout->type == type && layout->rows == rows && layout->columns == columns &&
           layout->pitch == (int64_t)layout->rows;
}

/* c (n x m) = a (k x n, transposed) * b (k x m), column by column: the arguments of gemm_bf16 the other way round. */
static CublasLtStatus check_problem(CublasLtDesc desc, CublasLtLayout a, CublasLtLayout b, CublasLtLayout c)
{
    if (!desc || !a || !b || !c)
        return CUBLASLT_BAD_VALUE;
    const uint64_t m = b->columns, n = a->columns, k = a->rows;
    return desc->compute_type == CUBLASLT_COMPUTE_FP32 && desc->scale_type == CUBLASLT_FP32 &&
                   desc->transa == CUBLASLT_TRANSPOSED && is_matrix(a, CUBLASLT_BF16, k, n) &&
                   is_matrix(b, CUBLASLT_BF16, k, m) && is_matrix(c, CUBLASLT_FP32, n, m) && m % TILE == 0 &&
                   n % TILE == 0 && k % SLAB == 0 && m && n && k && m / TILE * (n / TILE) <= TILES_MAX
               ? CUBLASLT_SUCCESS
               : CUBLASLT_NOT_SUPPORTED;
}

CublasLtStatus cublasLtMatmulAlgoGetHeuristic(CublasLtHandle handle, CublasLtDesc desc, CublasLtLayout a,
                                              CublasLtLayout b, CublasLtLayout c, CublasLtLayout d,
                                              CublasLtPreference preference, int wanted, CublasLtHeuristic *found,
                                              int *count)
{
    CUBLASLT_OBEY(cublasLtMatmulAlgoGetHeuristic);
    if (handle != &context || c != d || !preference || wanted < 1 || !found || !count)
        return CUBLASLT_BAD_VALUE;
    const CublasLtStatus status = check_problem(desc, a, b, c);
    *count = status == CUBLASLT_SUCCESS;
    if (*count)
        *found = (CublasLtHeuristic){.algo.opaque = {MAGIC}, .workspace_bytes = preference->workspace_bytes};
    return status;
}

/* c = alpha * a * b + beta * c: with 1 and 0, or with 1 and c all zeros, which is not looked at. */
CublasLtStatus cublasLtMatmul(CublasLtHandle handle, CublasLtDesc desc, const void *alpha, CUdeviceptr a,
                              CublasLtLayout a_layout, CUdeviceptr b, CublasLtLayout b_layout, const void *beta,
                              CUdeviceptr c, CublasLtLayout c_layout, CUdeviceptr d, CublasLtLayout d_layout,
                              const CublasLtAlgo *algo, CUdeviceptr workspace, size_t workspace_bytes, CUstream stream)
{
    const int order = find_order(CUBLASLT_FN_cublasLtMatmul);
    float factors[2];

    if (order > 0)
        return order;
    const CublasLtStatus status = check_problem(desc, a_layout, b_layout, c_layout);
    if (status != CUBLASLT_SUCCESS)
        return status;
    if (handle != &context || !alpha || !beta || c != d || c_layout != d_layout || !algo || algo->opaque[0] != MAGIC ||
        !workspace || !workspace_bytes)
        return CUBLASLT_BAD_VALUE;
    memcpy(&factors[0], alpha, sizeof factors[0]);
    memcpy(&factors[1], beta, sizeof factors[1]);
    if (factors[0] < 1 || factors[0] > 1 || factors[1] < 0 || factors[1] > 1)
        return CUBLASLT_NOT_SUPPORTED;
    const uint32_t m = (uint32_t)b_layout->columns, n = (uint32_t)a_layout->columns;
    CudaKernelArgs args = {.a = b,
                           .b = a,
                           .c = d,
                           .m = m,
                           .n = n,
                           .k = (uint32_t)a_layout->rows,
                           .result = context.address,
                           .stop = context.address + RESULT_BYTES,
                           .flags = CU_PRODUCT_OF_LIBRARY};
    void *params[] = {&args};
    const CUresult result = handle->cuda.cuLaunchKernel(context.function, m / TILE * (n / TILE), 1, 1, THREADS, 1, 1, 0,
                                                        stream, params, NULL);
    if (result == CUDA_SUCCESS && order == ORDER_WRONG)
        return handle->cuda.cuMemsetD8Async(d, 0x7f, sizeof(float), stream);
    return result == CUDA_SUCCESS ? CUBLASLT_SUCCESS : CUBLASLT_BAD_VALUE;
}
