/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The readers of one GPU, for the files of this folder and the sampler: what they read goes into NvmlGpu, and to the
 * board when the pass ends. One thread.
 */

#include "source/dcgm/dcgm.h"
#include "source/nvml/gpu.h"

/* NVML_CALL about a GPU. */
#define NVML_GPU_CALL(gpu, fn, args) NVML_CALL(&(gpu)->reader->library, &(gpu)->target, fn, args)

/* Counts an answer for the outcome of the pass. Returns the reason it stands for. */
static inline Absence nvml_gpu_count_answer(NvmlGpu *gpu, nvmlReturn_t answer)
{
    if (nvml_answer_is_failure(answer)) {
        gpu->pass.failed++;
        gpu->pass.code = answer;
    } else if (answer != NVML_ERROR_FUNCTION_NOT_FOUND) { /* it says nothing about the GPU */
        gpu->pass.good++;
    }
    return nvml_answer_absence(answer);
}

static inline uint64_t nvml_gpu_now(const NvmlGpu *gpu)
{
    return board_now(gpu->reader->board);
}
static inline bool nvml_gpu_is_ours(const NvmlGpu *gpu)
{
    return atomic_load_explicit(gpu->target.slot, memory_order_acquire) == gpu->reader->library.slot;
}
static inline bool nvml_gpu_wants(const NvmlGpu *gpu, MetricId id)
{
    return nvml_plan_wants(&gpu->reader->plan, id);
}

/*
 * Calls made one by one (rows.c): a row per call, with the metrics that it fills. All metrics of a row have the pace of
 * the row.
 */
enum { NVML_ROW_METRICS = 5 };

/* Makes the call and fills one number per metric of the row; they start valid and 0. */
typedef nvmlReturn_t NvmlReadFn(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[NVML_ROW_METRICS]);

typedef struct NvmlRow {
    NvmlReadFn *read;
    unsigned int arg; /* a clock, a threshold, a direction */
    uint32_t count;
    MetricId metrics[NVML_ROW_METRICS];
} NvmlRow;

extern const NvmlRow nvml_rows[];
extern const size_t nvml_rows_count;

/* Makes all wanted calls of a pace and sets their samples in gpu->reading. */
void nvml_rows_read(NvmlGpu *gpu, MetricPace pace);
/* Makes one call; its metrics are wanted. */
void nvml_row_read(NvmlGpu *gpu, const NvmlRow *row);
/* The rows of pace BLOCKING; nvml_blocking_rows of them. */
const NvmlRow *nvml_blocking_row(uint32_t which);

/* The memory of a handle, of a GPU or a MIG device, as numbers of FB_TOTAL, FB_FREE, FB_USED, FB_RESERVED. */
nvmlReturn_t nvml_read_memory(NvmlGpu *gpu, nvmlDevice_t handle, NvmlNumber numbers[4]);

/* The reason for a sample of this GPU: NOT_SUPPORTED becomes MIG_MODE where MIG is why. */
Absence nvml_absence_of(const NvmlGpu *gpu, MetricId id, Absence why);

/* Field values (fields.c): one call for all fields of a pace; each entry has its own answer, type and time. */

/* Reads the fields of a pace into gpu->reading. */
void nvml_fields_read(NvmlGpu *gpu, MetricPace pace);
/* The number of NVLinks; 0 where there are none or it is unknown. */
uint32_t nvml_fields_links(NvmlGpu *gpu);

/* The MIG mode of a GPU, its MIG devices, and the memory of each (mig.c). None of it needs root. */

/* Reads the mode and the devices. A device that is still there keeps its readings. */
void nvml_mig_find(NvmlGpu *gpu);
/* Reads the memory of each MIG device. */
void nvml_mig_read(NvmlGpu *gpu);
/* Drops the devices and frees their buffers. */
void nvml_mig_forget(NvmlGpu *gpu);

/* NVLinks of a GPU (links.c). Does nothing where the plan does not want them. */

/* Reads what is due for the paces whose bits are set. */
void nvml_links_read(NvmlGpu *gpu, uint32_t paces);
/* Whether the plan wants anything of them. */
bool nvml_links_wanted(const NvmlGpu *gpu);
/* Makes all samples absent. */
void nvml_links_set_absent(NvmlGpu *gpu, Absence why);

/* NVLink reachability between pairs of GPUs (links.c): nvmlDeviceGetP2PStatus, at pace SLOW, a few calls per pass. */

/* Starts a new round over all other GPUs, unless one runs or the plan does not want it. */
void nvml_peers_begin(NvmlGpu *gpu);
/* Continues the round for a short time and publishes the result. Entry i is Board.gpus[i], NULL where it is not ours.
 * */
void nvml_peers_step(NvmlReader *reader, NvmlGpu *const gpus[NODE_GPUS_MAX]);
/* Makes all samples absent. */
void nvml_peers_set_absent(NvmlGpu *gpu, Absence why);

/* GPU performance monitoring (gpm.c): two samples at least 100 ms apart give the metrics of the time between them. */

/* Reads a sample of the whole GPU, and of each GPU instance where MIG is on, and sets the metrics between two samples.
 * */
void nvml_gpm_read(NvmlGpu *gpu);
/* Frees a pair of buffers. */
void nvml_gpm_free(NvmlGpu *gpu, NvmlGpm *gpm);

/*
 * Profiling metrics of GPUs without GPM (before Hopper) by NVIDIA's libdcgm (gpm.c, source/dcgm/dcgm.h). One engine for
 * all GPUs of a sampler, opened only where such a GPU is ours and its metrics are wanted. An engine in this process
 * touches all GPUs of the node and excludes every other engine. So there is none while any GPU belongs to another
 * sampler or to none (a GPU that hangs), nor before each of ours was read once.
 *
 * A pass reads the values that are there. What may take long is done between passes, one step at a time.
 */

/* `place` and its texts are borrowed. Nothing is loaded before `after_ns` of kernel time. */
NvmlCounters *nvml_counters_new(NvmlReader *reader, const DcgmPlace *place, uint64_t after_ns);
/* Closes. All GPUs must have been freed. NULL is fine. */
void nvml_counters_free(NvmlCounters *counters);
/* Ends the engine and unloads the library; call before nvmlShutdown. Accepts NULL. */
void nvml_counters_close(NvmlCounters *counters);
/* Opens or closes the engine, or starts one watch that is due. Accepts NULL. */
void nvml_counters_step(NvmlCounters *counters);

/* Processes of a GPU (processes.c), in each pass of pace NORMAL. Does nothing where the plan does not want them, or
 * where the lists are slow and this is no pass of pace SLOW. */

void nvml_processes_read(NvmlGpu *gpu, bool slow_pace);
/* Makes the list absent. */
void nvml_processes_set_absent(NvmlGpu *gpu, Absence why);

/* Publishes peers, links and processes where they changed (links.c). The GPU must be ours. */
void nvml_gpu_publish_lists(NvmlGpu *gpu);
