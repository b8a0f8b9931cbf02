/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass over a GPU: attach where it has no handle, read what is due, publish if it is still ours. What a call says of
 * the GPU as a whole (lost, wants a reset) ends the pass; the GPU is let go and tried again a second later.
 */

#include "source/nvml/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "source/board/words.h"
#include "source/nvml/answer.h"
#include "source/nvml/drain.h"
#include "source/nvml/events.h"
#include "source/nvml/fields.h"
#include "source/nvml/gpm.h"
#include "source/nvml/identity.h"
#include "source/nvml/links.h"
#include "source/nvml/mig.h"
#include "source/nvml/peers.h"
#include "source/nvml/processes.h"
#include "source/nvml/rows.h"

#define RETRY_NS NS_PER_S

enum { ALL_PACES = 1 << METRIC_PACE_FAST | 1 << METRIC_PACE_NORMAL | 1 << METRIC_PACE_SLOW | 1 << METRIC_PACE_ONCE };

/* ---- life ---- */

/* Who the GPU is, and its last XID, outlive a sampler: they are taken over from the board. All else is read anew. */
static void take_over(NvmlGpu *gpu)
{
    const Sample *xid = &gpu->reading.sample[METRIC_XID_ERRORS];
    Sample kept;

    reading_init(&gpu->reading, DEVICE_GPU);
    if (!board_copy(&gpu->row->gpu, &gpu->reading))
        return;
    kept = *xid;
    memset(gpu->reading.sample, 0, sizeof gpu->reading.sample);
    if (kept.valid)
        gpu->reading.sample[METRIC_XID_ERRORS] = kept;
    if (!gpu->reading.device.uuid[0])
        reading_init(&gpu->reading, DEVICE_GPU);
}

NvmlGpu *nvml_gpu_new(NvmlReader *reader, uint32_t index)
{
    NvmlGpu *gpu = xcalloc(1, sizeof *gpu);
    Device *device = &gpu->reading.device;

    gpu->reader = reader;
    gpu->row = &reader->board->gpus[index];
    gpu->target = (NvmlTarget){.index = index, .owner = &gpu->row->owner};
    gpu->gpm.instance = DEVICE_NO_NUMBER;
    gpu->peers.changed = gpu->nvlinks.changed = gpu->processes.changed = true; /* what the sampler before saw goes */
    take_over(gpu);
    device->kind = DEVICE_GPU;
    device->vendor = DEVICE_NVIDIA;
    device->has_pci = true;
    device->pci = gpu->row->pci;
    return gpu;
}

void nvml_gpu_detach(NvmlGpu *gpu)
{
    nvml_mig_forget(gpu);
    nvml_gpm_free(gpu, &gpu->gpm);
    nvml_events_close(gpu);
    gpu->handle = NULL;
    gpu->peers.left = 0;
    gpu->nvlinks.by_function = false;
    gpu->processes.seen_us = 0;
    gpu->inforom.asked_ns = 0;
    gpu->no_mig = false;
    gpu->gpm_support = 0;
    gpu->plan_number = 0;
    memset(gpu->rates, 0, sizeof gpu->rates);
}

void nvml_gpu_free(NvmlGpu *gpu)
{
    if (!gpu)
        return;
    nvml_gpu_detach(gpu);
    free(gpu);
}

/* ---- publishing ---- */

static void publish_row(BoardRow *row, const Reading *reading)
{
    words_store(board_begin(row), reading, sizeof *reading);
    board_commit(row);
}

static void publish(NvmlGpu *gpu)
{
    const NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];

    publish_row(&gpu->row->gpu, &gpu->reading);
    for (uint32_t i = 0; i < gpu->mig.count; i++)
        publish_row(&gpu->row->instances[i], &pool[i].reading);
    atomic_store_explicit(&gpu->row->instance_count, gpu->mig.count, memory_order_release);
    nvml_peers_publish(gpu);
    nvml_links_publish(gpu);
    nvml_processes_publish(gpu);
}

static void publish_fast(NvmlGpu *gpu)
{
    FastReading fast = {.time_ns = nvml_gpu_now(gpu)};

    for (int i = 0; i < READING_FAST_CAP; i++) {
        const MetricId id = metric_fast_at(i);
        if (id == METRIC_END)
            break;
        if (sample_double(&gpu->reading.sample[id], &fast.value[i]))
            fast.valid |= UINT32_C(1) << i;
    }
    if (fast.valid)
        board_push_fast(&gpu->row->gpu, &fast);
}

static void set_outcome(NvmlGpu *gpu, BoardOutcome outcome, nvmlReturn_t code)
{
    atomic_store_explicit(&gpu->row->code, (int32_t)code, memory_order_relaxed);
    if (outcome == BOARD_FINE)
        atomic_store_explicit(&gpu->row->last_sample_ns, nvml_gpu_now(gpu), memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&gpu->row->failed_passes, 1, memory_order_relaxed);
    atomic_store_explicit(&gpu->row->outcome, outcome, memory_order_release);
}

/* All but the last XID, which says what became of the GPU. */
static void lose_readings(NvmlGpu *gpu, Absence why)
{
    const Sample xid = gpu->reading.sample[METRIC_XID_ERRORS];
    NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];
    const uint64_t now = nvml_gpu_now(gpu);

    reading_lose(&gpu->reading, now, why);
    if (xid.valid)
        gpu->reading.sample[METRIC_XID_ERRORS] = xid;
    for (uint32_t i = 0; i < gpu->mig.count; i++)
        reading_lose(&pool[i].reading, now, why);
    nvml_peers_lose(gpu, why);
    nvml_links_lose(gpu, why);
    nvml_processes_lose(gpu, why);
}

void nvml_gpu_lose(NvmlGpu *gpu, Absence why)
{
    lose_readings(gpu, why);
    if (nvml_gpu_is_ours(gpu))
        publish(gpu);
}

/* The GPU as a whole cannot be read: `code`. */
static void fail(NvmlGpu *gpu, nvmlReturn_t code)
{
    lose_readings(gpu, nvml_answer_absence(code));
    if (nvml_gpu_is_ours(gpu)) {
        publish(gpu);
        set_outcome(gpu, nvml_answer_outcome(code), code);
    }
    nvml_gpu_detach(gpu);
    gpu->retry_ns = board_kernel_now() + RETRY_NS;
}

/* ---- the pass ---- */

Absence nvml_gpu_note(NvmlGpu *gpu, nvmlReturn_t answer)
{
    if (nvml_answer_is_failure(answer)) {
        gpu->pass.failed++;
        gpu->pass.code = answer;
    } else if (answer != NVML_ERROR_FUNCTION_NOT_FOUND) { /* which says nothing of the GPU */
        gpu->pass.good++;
    }
    return nvml_answer_absence(answer);
}

static nvmlReturn_t attach(NvmlGpu *gpu)
{
    char address[PCI_TEXT_CAP];
    nvmlDevice_t handle = NULL;
    const nvmlReturn_t r =
        NVML_CALL_WITHIN(&gpu->reader->library, &gpu->target, NVML_ATTACH_LIMIT_MS, nvmlDeviceGetHandleByPciBusId_v2,
                         (pci_format(gpu->row->pci, PCI_FORM_NVML, address), &handle));

    if (r != NVML_SUCCESS)
        return r;
    gpu->handle = handle;
    gpu->reader->peers_anew = true;
    gpu->links = nvml_fields_links(gpu);
    nvml_identity_read(gpu);
    return NVML_SUCCESS;
}

/* What is not read has its reason; what is read starts anew. */
static void follow_plan(NvmlGpu *gpu)
{
    const NvmlPlan *plan = &gpu->reader->plan;
    const uint64_t now = nvml_gpu_now(gpu);

    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);
        if (metric->pace == METRIC_PACE_DERIVE || metric->type == METRIC_LABEL)
            continue;
        if (!nvml_plan_wants(plan, id))
            sample_set_absent(&gpu->reading.sample[id], now, ABSENCE_TURNED_OFF);
        else if (plan->lacking[id])
            sample_set_absent(&gpu->reading.sample[id], now, ABSENCE_DRIVER_LACKS);
    }
    nvml_identity_texts(gpu);
    if (!nvml_gpu_wants(gpu, METRIC_XID_ERRORS))
        nvml_events_close(gpu);
    nvml_events_open(gpu);
    nvml_peers_follow_plan(gpu);
    nvml_links_follow_plan(gpu);
    nvml_processes_follow_plan(gpu);
    gpu->plan_number = plan->number;
}

static void read_pace(NvmlGpu *gpu, MetricPace pace)
{
    nvml_rows_read(gpu, pace);
    nvml_fields_read(gpu, pace);
}

static void read_paces(NvmlGpu *gpu, uint32_t paces)
{
    nvml_events_read(gpu);
    if (paces & 1 << METRIC_PACE_NORMAL)
        nvml_mig_find(gpu);
    if (paces & 1 << METRIC_PACE_FAST)
        read_pace(gpu, METRIC_PACE_FAST);
    for (MetricPace pace = METRIC_PACE_NORMAL; pace <= METRIC_PACE_ONCE; pace++)
        if (paces & 1U << pace)
            read_pace(gpu, pace);
    if (paces & 1 << METRIC_PACE_NORMAL) {
        nvml_mig_read(gpu);
        nvml_gpm_read(gpu);
    }
    nvml_links_read(gpu, paces);
    if (paces & 1 << METRIC_PACE_SLOW) {
        nvml_drain_read(gpu);
        nvml_processes_read(gpu);
        nvml_peers_begin(gpu);
    }
}

/* Only failures, and not a single call that worked: the driver refuses the GPU. The few calls of a fast pass do not say
 * enough for that. */
static nvmlReturn_t verdict(const NvmlGpu *gpu, uint32_t paces)
{
    const bool whole = paces & 1 << METRIC_PACE_NORMAL;

    if (gpu->target.trouble)
        return gpu->target.trouble;
    return whole && gpu->pass.failed > 0 && gpu->pass.good == 0 ? gpu->pass.code : NVML_SUCCESS;
}

static void finish(NvmlGpu *gpu, uint32_t paces, uint64_t start_ns)
{
    const nvmlReturn_t code = verdict(gpu, paces);

    if (code != NVML_SUCCESS) {
        fail(gpu, code);
        return;
    }
    if (!nvml_gpu_is_ours(gpu))
        return;
    publish(gpu);
    if (paces & 1 << METRIC_PACE_FAST)
        publish_fast(gpu);
    if (paces & 1 << METRIC_PACE_NORMAL)
        atomic_store_explicit(&gpu->row->pass_ns, board_kernel_now() - start_ns, memory_order_relaxed);
    set_outcome(gpu, BOARD_FINE, NVML_SUCCESS);
}

bool nvml_gpu_pass(NvmlGpu *gpu, uint32_t paces)
{
    const uint64_t start_ns = board_kernel_now();
    nvmlReturn_t r = NVML_SUCCESS;

    if (!gpu->handle && start_ns < gpu->retry_ns)
        return true;
    gpu->target.trouble = NVML_SUCCESS;
    memset(&gpu->pass, 0, sizeof gpu->pass);
    if (!gpu->handle)
        r = attach(gpu);
    if (r == NVML_SUCCESS && gpu->plan_number != gpu->reader->plan.number) {
        follow_plan(gpu);
        paces = ALL_PACES;
    }
    if (r == NVML_SUCCESS)
        read_paces(gpu, paces);
    if (gpu->reader->library.gone)
        return false;
    if (gpu->target.trouble == NVML_NOT_OURS)
        return true;
    if (r != NVML_SUCCESS && nvml_answer_outcome(r) != BOARD_LOST)
        nvml_drain_read(gpu); /* a drained one is not handed out any more */
    if (gpu->reader->library.gone)
        return false;
    if (r != NVML_SUCCESS)
        fail(gpu, r);
    else
        finish(gpu, paces, start_ns);
    return true;
}

void nvml_gpu_events(NvmlGpu *gpu)
{
    if (gpu->handle && !gpu->target.trouble)
        nvml_events_read(gpu);
}

bool nvml_gpu_is_new(const NvmlGpu *gpu)
{
    return gpu->handle ? gpu->plan_number != gpu->reader->plan.number : board_kernel_now() >= gpu->retry_ns;
}

bool nvml_gpu_block(NvmlGpu *gpu, uint32_t which)
{
    const NvmlRow *row = nvml_blocking_row(which);

    if (!gpu->handle || !nvml_gpu_wants(gpu, row->metrics[0]) || gpu->target.trouble)
        return false;
    nvml_row_read(gpu, row);
    return true;
}
