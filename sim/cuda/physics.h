/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How fast things are: memory, arithmetic and links of a device at a time of the process, from its board, the node's
 * state and the faults of the scenario. docs/sim.md states the shares that are used.
 */
#include "cuda_kernel.h"
#include "sim/cuda/lib.h"

/* What kernels reach of the memory's peak. Published: write 96 to 99 %, read 95 to 98, copy 87 to 92, triad 84 to 90.
 */
#define CU_SHARE_WRITE 0.97
#define CU_SHARE_READ 0.95
#define CU_SHARE_COPY 0.90
#define CU_SHARE_TRIAD 0.89
#define CU_L2_FACTOR 2.4 /* L2 by DRAM, at the highest SM clock */
#define CU_CHASE_NS 650.0
#define CU_PCIE_SHARE 0.88
#define CU_ALL_SHARE 0.92 /* of each link, where several GPUs copy from or to the host at a time */
#define CU_NVLINK_SHARE 0.93
#define CU_STAGED_SHARE 0.5 /* of PCIe: a copy through the host crosses it twice */
#define CU_GEMM_SHARE 0.80
#define CU_LIBRARY_SHARE 0.80 /* of the tensor cores' peak. Published: A100 82 to 87 %, H100 80, B200 78 */
#define CU_LAUNCH_S 2e-6

double cu_sm_mhz(CuDevice *device, uint64_t t_ns);
/* Bytes per second at the interface, and out of L2. */
double cu_memory_rate(CuDevice *device, uint64_t t_ns);
double cu_l2_rate(CuDevice *device, uint64_t t_ns);
/* Operations of one healthy SM in a clock: of a probe's instruction, of a matrix product. */
double cu_sm_operations(const CuDevice *device, CudaKernel kernel);
double cu_library_operations(const CuDevice *device); /* of a product of bfloat16 by the vendor's library */
/* The speed of an SM; 0: there is none. */
double cu_sm_speed(CuDevice *device, uint32_t sm, uint64_t t_ns);
/* SMs that answer, in their order: the n-th one; and how many healthy ones they are worth. */
uint32_t cu_sm_present(CuDevice *device, uint64_t t_ns);
uint32_t cu_sm_number(CuDevice *device, uint32_t nth, uint64_t t_ns);
double cu_sm_worth(CuDevice *device, uint64_t t_ns);
/* How much longer kernels on memory, or on SMs alone, take because others use them too: >= 1. Processes take turns on
 * the SMs; under MPS they share SMs and memory. MIG devices share the memory of one GPU instance. */
double cu_stretch(CuDevice *device, bool memory, uint64_t t_ns);
/* How long a kernel waits for its process' turn, where the process had nothing to do before. */
uint64_t cu_turn_wait(CuDevice *device, uint64_t t_ns);

/* A way of bytes. */
typedef struct CuRoute {
    CuDevice *from, *to; /* NULL: the host */
    bool nvlink, staged;
} CuRoute;
CuRoute cu_route_find(CuDevice *from, CuDevice *to, bool access);
/* Whether kernels and copies of `from` can reach `to` at all. */
bool cu_can_access(CuDevice *from, CuDevice *to);
/* Whether what goes from one to the other arrives wrong. */
bool cu_is_corrupt(CuDevice *from, CuDevice *to);

/* The links that a route uses: numbers below CU_LINKS, -1: none. */
enum { CU_LINKS = SIM_GPU_MAX * 4 };
void cu_route_links(const CuRoute *route, int ret[2]);
/* Bytes per second of a link, alone. */
double cu_link_rate(const CuRoute *route, int link, uint64_t t_ns);
