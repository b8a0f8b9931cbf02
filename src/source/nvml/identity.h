/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who a GPU is and the texts that go with it. */

#include "source/nvml/gpu.h"

/* Reads gpu->reading.device; what the driver does not tell stays as it was. */
void nvml_identity_read(NvmlGpu *gpu);
/* Reads the wanted texts. */
void nvml_identity_texts(NvmlGpu *gpu);
