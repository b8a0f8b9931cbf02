/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Field values: one call for all that a pace wants; each entry has its own answer, type and time. */

#include "source/nvml/gpu.h"

/* Asks for the fields of a pace and sets their samples in gpu->reading. */
void nvml_fields_read(NvmlGpu *gpu, MetricPace pace);
/* The number of NVLinks; 0 where there are none or the driver does not say. */
uint32_t nvml_fields_links(NvmlGpu *gpu);
