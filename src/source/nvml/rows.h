/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls that are made one by one: a row per call, with the metrics that it fills. All metrics of a row are of one
 * pace, the row's. What comes from fields, GPM, events and the MIG mode is read elsewhere.
 */

#include <stddef.h>
#include <stdint.h>

#include "source/nvml/gpu.h"

enum { NVML_ROW_METRICS = 5 };

/* Makes the call and fills one number per metric of the row; they start valid and 0. */
typedef nvmlReturn_t NvmlReadFn(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[NVML_ROW_METRICS]);

typedef struct NvmlRow {
    NvmlReadFn *read;
    unsigned int arg; /* a clock, a threshold, a direction */
    uint32_t count;
    MetricId metrics[NVML_ROW_METRICS];
} NvmlRow;

/* The row number i; NULL past the end. */
const NvmlRow *nvml_row(size_t i);

/* Makes all wanted calls of a pace and sets their samples in gpu->reading. */
void nvml_rows_read(NvmlGpu *gpu, MetricPace pace);
/* Makes one call; its metrics are wanted. */
void nvml_row_read(NvmlGpu *gpu, const NvmlRow *row);
/* The rows of pace BLOCKING; nvml_blocking_rows of them. */
const NvmlRow *nvml_blocking_row(uint32_t which);

/* The memory of a handle, of a GPU or a MIG device, as numbers of FB_TOTAL, FB_FREE, FB_USED, FB_RESERVED. */
nvmlReturn_t nvml_read_memory(NvmlGpu *gpu, nvmlDevice_t handle, NvmlNumber numbers[4]);

/* Whether a metric cannot be had while MIG is on, though the GPU has it. */
bool nvml_mig_hides(MetricId id);
/* The reason for a sample of this GPU: NOT_SUPPORTED becomes MIG_MODE where MIG is why. */
Absence nvml_reason(const NvmlGpu *gpu, MetricId id, Absence why);
