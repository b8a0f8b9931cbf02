/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The MIG mode of a GPU, its MIG devices, and what is read of each: its memory. None of it needs root. */

#include "source/nvml/gpu.h"

/* Asks for the mode and the devices. A device that is still there keeps what was read of it. */
void nvml_mig_find(NvmlGpu *gpu);
/* Reads the memory of each MIG device. */
void nvml_mig_read(NvmlGpu *gpu);
/* Forgets the devices and gives their buffers back. */
void nvml_mig_forget(NvmlGpu *gpu);
