/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernels of sim/cuda/abi/cuda_kernel.h as PTX text, made by kernels.py when Stoker is built. */
#include "cuda_kernel.h"

extern const char *const cuda_texts[CUDA_TEXT_COUNT];
