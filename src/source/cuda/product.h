/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The product of two matrices of bfloat16 on the tensor cores, as a rate and as a check: integers make it exact, and
 * each tile of the result is known to have come from one SM. Memory is the stage's. One thread.
 */

#include "source/cuda/stage.h"

typedef struct ProductSize {
    uint32_t m, n, k;
} ProductSize;

/* A product with all that it needs; a tile is a block of the launch. */
typedef struct Product {
    CudaGpu *gpu;
    ProductSize size;
    CudaResults results; /* of the tiles */
    CudaLaunch launch;
} Product;

/* The exact one, with what it has to be. */
typedef struct ProductCheck {
    Product product;
    CUdeviceptr want;
} ProductCheck;

enum { PRODUCT_SIDE = 8192, PRODUCT_CHECK_SIDE = 2048, PRODUCT_TILE = 128 };

/* Operations; bytes of factors and result; tiles. */
double product_work(ProductSize size);
uint64_t product_bytes(ProductSize size);
uint32_t product_tiles(ProductSize size);
/* The size asked for, else one whose memory and time fit this GPU. 1: the GPU has no kernel for it. */
int product_choose_size(BenchProcess *process, CudaGpu *gpu, ProductSize *ret);

/* Fills both factors with normal numbers, or with integers. */
int product_init(Product *product, CudaGpu *gpu, ProductSize size, bool integers);
/* The exact product of at most PRODUCT_CHECK_SIDE a side, and its reference by multiply-adds. */
int product_check_init(ProductCheck *check, CudaGpu *gpu, ProductSize most);
/* Compares what the product's memory holds with the reference: `ret` has the results. */
int product_compare(const ProductCheck *check, CudaLaunch *ret);
/* Multiplies and compares; sends what is wrong, by the SM that computed it, as of `measure`. */
int product_check_run(BenchProcess *process, ProductCheck *check, BenchMeasureId measure);
