/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GPU performance monitoring (Hopper and newer): two samples of the driver, at least 100 ms apart, give the metrics of
 * the time between them. A gap of more than ten minutes starts anew.
 */

#include "source/nvml/gpu.h"

/* Asks once whether the GPU has it and tells the board. */
void nvml_gpm_find(NvmlGpu *gpu);
/* Takes a sample of the whole GPU, and of each GPU instance where MIG is on, and sets what follows from it. */
void nvml_gpm_read(NvmlGpu *gpu);
/* Gives a pair of buffers back. */
void nvml_gpm_free(NvmlGpu *gpu, NvmlGpm *gpm);
