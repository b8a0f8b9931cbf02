/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Operations and bytes per second of a device that works, from the activity of its pipes and of its memory, and where
 * that is under its roofs (model/roof.h). An estimate beside the verdicts, which do not go by it. Pure.
 */

#include "engine/activity/activity.h"
#include "model/roof.h"

/* What is read of each second: shares are 0 to 1, clocks in MHz. NaN: no reading in that second. */
typedef enum RoofSeries {
    ROOF_OF_TENSOR,
    ROOF_OF_IMMA, /* of it in integers */
    ROOF_OF_DFMA, /* of it in 64 bit */
    ROOF_OF_FP64,
    ROOF_OF_FP32,
    ROOF_OF_FP16,
    ROOF_OF_DRAM,
    ROOF_OF_SM_CLOCK,
    ROOF_OF_MEMORY_CLOCK,
    ROOF_SERIES_END,
} RoofSeries;

typedef struct RoofInput {
    const char *gpu_name; /* by the driver; the board's, of an instance too */
    uint32_t window_s;    /* as the verdicts have it */
    bool instance;
    const char *profile;   /* of an instance: "3g.40gb" */
    double instance_share; /* of an instance: its memory of the GPU's, 0 to 1; NaN: not known, as all below */
    double bus_bits;
    double rows[ROOF_SERIES_END][ACTIVITY_WINDOW_S]; /* the last minute, the oldest second first */
    const char *absent[ROOF_SERIES_END]; /* why there is no reading now; NULL: there is one, or it is not known why */
} RoofInput;

void roof_estimate(const RoofInput *input, Roof *ret);

/* The metrics that the series are read from, in their order; the clocks are those of the board. */
extern const MetricId roof_metrics[ROOF_SERIES_END];
