/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether an operator keeps new clients off a GPU, as is done before it is taken out (nvmlDeviceModifyDrainState). The
 * driver is asked by the PCI address, so that it answers for a GPU that it hands out no more; needs no root. What was
 * told last stays on the board while nothing can be told: of a GPU that is gone it is the last word.
 */

#include "source/nvml/gpu.h"

void nvml_drain_read(NvmlGpu *gpu);
