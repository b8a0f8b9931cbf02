/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the binary interface of libcublasLt.so.11 to .13 that multiplies two matrices. The same in all three:
 * numbers of enums by docs.nvidia.com/cuda/nvmath-python (bindings.cublasLt, bindings.cublas) and, for CUDA 11.4 to
 * 12.8, by the declarations that github.com/coreylowman/cudarc generates (src/cublaslt/sys/mod.rs). The header and the
 * library of CUDA 13.0 agree.
 */
#include <stddef.h>
#include <stdint.h>

#include "cuda_abi.h"

typedef int CublasLtStatus; /* cublasStatus_t */

/* Opaque: made and read by the library alone. */
typedef struct CublasLtContext *CublasLtHandle;
typedef struct CublasLtDescOpaque *CublasLtDesc;
typedef struct CublasLtLayoutOpaque *CublasLtLayout;
typedef struct CublasLtPreferenceOpaque *CublasLtPreference;

/* cublasStatus_t: cudarc */
enum { CUBLASLT_SUCCESS = 0, CUBLASLT_NOT_READY = 1, CUBLASLT_BAD_VALUE = 7, CUBLASLT_NOT_SUPPORTED = 15 };
enum { CUBLASLT_FP32 = 0, CUBLASLT_BF16 = 14 }; /* cudaDataType_t: cudarc */
enum { CUBLASLT_COMPUTE_FP32 = 68 };            /* cublasComputeType_t: nvmath ComputeType.COMPUTE_32F */
enum { CUBLASLT_TRANSPOSED = 1 };               /* cublasOperation_t, an int32_t: cudarc */
enum { CUBLASLT_DESC_TRANSA = 3 };              /* nvmath MatmulDescAttribute.TRANSA */
enum { CUBLASLT_PREFERENCE_WORKSPACE = 1 };     /* a uint64_t: nvmath MatmulPreferenceAttribute */

typedef struct CublasLtAlgo {
    uint64_t opaque[8];
} CublasLtAlgo;

/* cublasLtMatmulHeuristicResult_t: members by nvmath MatmulHeuristicResult, the rest of it by cudarc. */
typedef struct CublasLtHeuristic {
    CublasLtAlgo algo;
    size_t workspace_bytes;
    CublasLtStatus state;
    float waves;
    int reserved[4];
} CublasLtHeuristic;
_Static_assert(sizeof(CublasLtAlgo) == 64 && sizeof(CublasLtHeuristic) == 96, "the library writes it");
_Static_assert(offsetof(CublasLtHeuristic, workspace_bytes) == 64 && offsetof(CublasLtHeuristic, state) == 72 &&
                   offsetof(CublasLtHeuristic, reserved) == 80,
               "the library writes it");

/* CUBLASLT_FUNCTION(exported name, arguments): all return CublasLtStatus; arguments by cudarc */
#define CUBLASLT_FUNCTION_TABLE(FUNCTION)                                                                              \
    FUNCTION(cublasLtCreate, (CublasLtHandle * handle))                                                                \
    FUNCTION(cublasLtDestroy, (CublasLtHandle handle))                                                                 \
    FUNCTION(cublasLtMatmulDescCreate, (CublasLtDesc * desc, int compute_type, int scale_type))                        \
    FUNCTION(cublasLtMatmulDescSetAttribute, (CublasLtDesc desc, int attribute, const void *value, size_t bytes))      \
    FUNCTION(cublasLtMatrixLayoutCreate,                                                                               \
             (CublasLtLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t pitch))                      \
    FUNCTION(cublasLtMatmulPreferenceCreate, (CublasLtPreference * preference))                                        \
    FUNCTION(cublasLtMatmulPreferenceSetAttribute,                                                                     \
             (CublasLtPreference preference, int attribute, const void *value, size_t bytes))                          \
    FUNCTION(cublasLtMatmulAlgoGetHeuristic,                                                                           \
             (CublasLtHandle handle, CublasLtDesc desc, CublasLtLayout a, CublasLtLayout b, CublasLtLayout c,          \
              CublasLtLayout d, CublasLtPreference preference, int wanted, CublasLtHeuristic *found, int *count))      \
    FUNCTION(cublasLtMatmul,                                                                                           \
             (CublasLtHandle handle, CublasLtDesc desc, const void *alpha, CUdeviceptr a, CublasLtLayout a_layout,     \
              CUdeviceptr b, CublasLtLayout b_layout, const void *beta, CUdeviceptr c, CublasLtLayout c_layout,        \
              CUdeviceptr d, CublasLtLayout d_layout, const CublasLtAlgo *algo, CUdeviceptr workspace,                 \
              size_t workspace_bytes, CUstream stream))

typedef enum CublasLtFunction {
#define CUBLASLT_ID(name, arguments) CUBLASLT_FN_##name,
    CUBLASLT_FUNCTION_TABLE(CUBLASLT_ID)
#undef CUBLASLT_ID
        CUBLASLT_FUNCTION_COUNT
} CublasLtFunction;

typedef struct CublasLtTable {
#define CUBLASLT_MEMBER(name, arguments) CublasLtStatus(*name) arguments;
    CUBLASLT_FUNCTION_TABLE(CUBLASLT_MEMBER)
#undef CUBLASLT_MEMBER
} CublasLtTable;
