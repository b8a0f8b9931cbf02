/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* XID events. A set per GPU, so that one that is lost does not keep the others from being heard. */

#include "source/nvml/gpu.h"

/* Makes and registers the set, where XIDs are wanted and the GPU tells them. */
void nvml_events_open(NvmlGpu *gpu);
/* Takes what has come, without waiting: onto the board, and the last into the sample. */
void nvml_events_read(NvmlGpu *gpu);
void nvml_events_close(NvmlGpu *gpu);
