/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The address space of the process: device memory and the host memory that devices see. Allocations of up to
 * CU_REAL_BYTES, and those of the host, have real bytes; larger ones are lists of contents (content.h), whose addresses
 * and sizes are in words of 4 bytes.
 */
#include "sim/cuda/content.h"
#include "sim/cuda/lib.h"

enum { CU_REAL_BYTES = 1 << 20 };

typedef struct CuArea {
    CUdeviceptr base;
    uint64_t bytes;
    CuDevice *device; /* NULL: memory of the host */
    uint8_t *real;    /* NULL: see pieces */
    CuPieces pieces;
} CuArea;

/* Takes device memory, or memory of the host. */
CUresult cu_space_take(CuDevice *device, uint64_t bytes, CUdeviceptr *ret);
CUresult cu_space_take_host(uint64_t bytes, void **ret);
/* CUDA_BAD_ARGUMENT where no area of that kind begins. */
CUresult cu_space_give(CUdeviceptr base, bool host);
/* Frees all of a device's; returns the bytes. */
uint64_t cu_space_give_all(CuDevice *device);
/* Free and total memory of a device, as CUDA counts it. */
void cu_space_measure(CuDevice *device, uint64_t *ret_free, uint64_t *ret_total);

/* The area that holds all of [address, address + bytes); NULL: there is none. */
CuArea *cu_space_find(CUdeviceptr address, uint64_t bytes);

/* What a stretch holds now; it has to lie in an area, and its size and address in one without real bytes to be in whole
 * words. Append to pieces that are empty or hold the stretch before. */
void cu_space_view(CUdeviceptr address, uint64_t bytes, CuPieces *ret);
/* Writes the pieces there. A word of the device's bad page keeps its stuck bit. */
void cu_space_store(CUdeviceptr address, const CuPieces *pieces);
/* The same with one content from its word 0 on; drops it. */
void cu_space_fill(CUdeviceptr address, uint64_t words, CuContent *content);
/* Real bytes in and out. */
void cu_space_write(CUdeviceptr address, const void *from, uint64_t bytes);
void cu_space_read(CUdeviceptr address, void *to, uint64_t bytes);
uint32_t cu_space_word(CUdeviceptr address);
/* Makes one of the words wrong. */
void cu_space_damage(CUdeviceptr address, uint64_t words);
void cu_space_set_word(CUdeviceptr address, uint32_t word);
