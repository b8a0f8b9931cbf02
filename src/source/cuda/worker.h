/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * stoker-bench: the process that tests. One for each GPU, and one more for what several GPUs do together; it sees the
 * GPUs of CUDA_VISIBLE_DEVICES (UUIDs) and numbers them in that order. It is started with
 *
 *     stoker-bench gpu|links KEY=VALUE...
 *
 * sends BenchRecords (model/bench.h), each by one write, to descriptor 3, and ends with exit code 0 when it did all
 * that was asked, however the results are. SIGTERM makes its kernels return within 50 ms; it then sends
 * BENCH_ERROR_STOPPED and ends. It writes nothing else and changes no setting. The stage library loads code of others
 * (libcublasLt.so.13, .12 or .11, the first that the linker finds; none: it sends nothing), so that it is to be the
 * only one.
 *
 *     stages=patterns,memory,...   what to do, by their keys (bench_stages), in this order; `start` is always first
 *     seconds=8                    of the stage burn
 *     windows=5                    samples of each rate
 *     memory_percent=90            of the free memory, of which keep_mib=512 are left besides
 *     probes=fma.fp32,mma.bf16     measures of the stage probes, by their keys; none: all that the GPU can
 *     shape=8192x8192x8192         of the matrix product
 *     flood=memory|l2|compute|copy of the stage flood, which sends the rate of its load when that runs and goes on with
 *                                  it until SIGTERM, for `seconds` at most
 *     mps=DIR                      use the MPS daemon whose pipe directory that is
 *     delay_ms=400                 before the stage burn begins, so that not all GPUs of a node begin at once
 *     wait=1                       after the start it waits for SIGUSR1, which may come from its first record on
 *     library=PATH                 of libcuda, instead of libcuda.so.1
 *     root=DIR                     /sys is read below it
 */

enum { BENCH_WORKER_FD = 3 };
enum { BENCH_WORKER_EXIT_USAGE = 3, BENCH_WORKER_EXIT_GONE = 4 }; /* wrong arguments; nobody reads descriptor 3 */
