/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the stages of several GPUs share: buffers of one size on all of them, and wrong values of a copy. One thread. */

#include "source/cuda/stage.h"

/* A multiple of 1 MiB, at most `most`, and a `share`-th of what each GPU may give. */
int links_choose_bytes(BenchProcess *process, uint64_t most, uint32_t share, uint64_t *ret);
/* A miscompare of a copy without a wrong value yet. */
BenchError links_error(BenchMeasureId id, uint32_t gpu, uint32_t peer);
/* Adds what a kernel found that compared 32-bit words from byte `offset` on. */
void links_add_blocks(BenchError *error, const CudaBlockResult *results, uint32_t blocks, uint64_t offset);
/* Whether the second copy went wrong as the first one did. */
bool links_repeats(const BenchError *first, const BenchError *second);
