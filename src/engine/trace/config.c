/* SPDX-License-Identifier: Apache-2.0 */

/* What an analysis does where nobody asks for more. */

#include "engine/trace/analyse.h"

const TraceConfig trace_config_default = {
    .gap_threshold_ns = 1000,
    .short_kernel_ns = 10000,
    .gaps_kept = 20000,
    .timeline = false,
    .timeline_slices = 20000,
};
