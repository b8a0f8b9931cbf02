/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Profiling metrics of GPUs without GPM (before Hopper), by NVIDIA's libdcgm: see source/dcgm/dcgm.h. One engine for
 * all GPUs of a sampler, opened only where such a GPU is ours and its metrics are wanted. An engine in this process
 * touches all GPUs of the node and shuts out every other one. So there is none while any GPU is somebody else's or
 * nobody's (one that hangs is), nor before each of ours was read once. One thread.
 *
 * A pass reads what is there. All that may take long is done between passes, one thing a turn.
 */

#include "source/dcgm/dcgm.h"
#include "source/nvml/gpu.h"

/* `place` and its texts are borrowed. Nothing is loaded before `after_ns` of kernel time. */
NvmlCounters *nvml_counters_new(NvmlReader *reader, const DcgmPlace *place, uint64_t after_ns);
/* Closes. All GPUs must have been freed. NULL is fine. */
void nvml_counters_free(NvmlCounters *counters);
/* Ends the engine and lets go of the library; to be called before nvmlShutdown. NULL is fine. */
void nvml_counters_close(NvmlCounters *counters);
/* Opens, closes or starts to measure what is due. NULL is fine. */
void nvml_counters_turn(NvmlCounters *counters);

/* Sets the metrics of `list` in a reading of the GPU's own or of one of its MIG devices; `gpm` is that one's. */
void nvml_counters_read(NvmlGpu *gpu, const NvmlGpmList *list, NvmlGpm *gpm, Reading *reading);
/* Stops measuring. NULL is fine. */
void nvml_counter_free(NvmlCounter *counter);
