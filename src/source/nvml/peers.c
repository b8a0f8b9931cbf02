/* SPDX-License-Identifier: Apache-2.0 */
/* Asking about pairs of GPUs. */

#include "source/nvml/peers.h"

#include <string.h>

#include "base/duration.h"
#include "source/nvml/answer.h"

#define ROOM_NS (10 * NS_PER_MS) /* of a turn; a fast pass comes every 100 ms */

/* ---- one pair ---- */

static bool can_be_asked(const NvmlGpu *gpu)
{
    return gpu && gpu->handle && gpu->target.trouble == NVML_SUCCESS && nvml_gpu_is_ours(gpu);
}

static bool is_paused(const NvmlReader *reader)
{
    return board_kernel_now() < atomic_load_explicit(&reader->board->pairs_after_ns, memory_order_relaxed);
}

static void set(NvmlGpu *gpu, uint32_t at, nvmlReturn_t answer, nvmlGpuP2PStatus_t status)
{
    Sample *sample = &gpu->peers.status[at];
    const uint64_t now = nvml_gpu_now(gpu);

    if (answer == NVML_ERROR_GPU_IS_LOST || answer == NVML_ERROR_RESET_REQUIRED)
        sample_set_int64(sample, now, PEER_UNKNOWN); /* one of both is: its own calls tell which */
    else if (answer != NVML_SUCCESS)
        sample_set_absent(sample, now, nvml_answer_absence(answer));
    else
        sample_set_int64(sample, now, (unsigned int)status < PEER_STATUS_END ? (int64_t)status : PEER_UNKNOWN);
    gpu->peers.changed = true;
}

/* False where the GPU is no longer ours, or the driver is gone. */
static bool ask(NvmlGpu *gpu, uint32_t at, const NvmlGpu *peer)
{
    NvmlLibrary *library = &gpu->reader->library;
    NvmlTarget pair = {.index = UINT32_MAX, .owner = gpu->target.owner};
    nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;
    nvmlReturn_t answer = NVML_SUCCESS;

    if (is_paused(gpu->reader))
        answer = NVML_ERROR_TIMEOUT;
    else if (can_be_asked(peer))
        answer = NVML_CALL(library, &pair, nvmlDeviceGetP2PStatus,
                           (gpu->handle, peer->handle, NVML_P2P_CAPS_INDEX_NVLINK, &status));
    if (answer == NVML_NOT_OURS || library->gone)
        return false;
    set(gpu, at, answer, status);
    return true;
}

/* ---- a round ---- */

void nvml_peers_begin(NvmlGpu *gpu)
{
    const uint32_t count = atomic_load_explicit(&gpu->reader->board->gpu_count, memory_order_acquire);

    if (gpu->peers.left == 0 && nvml_gpu_wants(gpu, METRIC_EXP_P2P_STATUS))
        gpu->peers.left = count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
}

/* False where the time is over, or the driver is gone. */
static bool go_on(NvmlGpu *gpu, NvmlGpu *const gpus[NODE_GPUS_MAX], uint64_t end_ns)
{
    bool in_time = true;

    while (in_time && gpu->peers.left > 0) {
        const uint32_t at = gpu->peers.left - 1;

        if (at != gpu->target.index && !ask(gpu, at, gpus[at])) {
            gpu->peers.left = 0;
            break;
        }
        gpu->peers.left = at;
        in_time = board_kernel_now() < end_ns;
    }
    if (nvml_gpu_is_ours(gpu))
        nvml_peers_publish(gpu);
    return in_time && !gpu->reader->library.gone;
}

static void begin_all(NvmlReader *reader, NvmlGpu *const gpus[NODE_GPUS_MAX])
{
    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++)
        if (can_be_asked(gpus[i])) {
            gpus[i]->peers.left = 0;
            nvml_peers_begin(gpus[i]);
        }
    reader->peers_anew = false;
}

/* Each GPU in its turn, so that those with large numbers come too where the driver is slow. */
void nvml_peers_turn(NvmlReader *reader, NvmlGpu *const gpus[NODE_GPUS_MAX])
{
    const uint64_t end_ns = board_kernel_now() + ROOM_NS;

    if (reader->peers_anew)
        begin_all(reader, gpus);
    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++) {
        NvmlGpu *gpu = gpus[reader->peers_next];

        if (can_be_asked(gpu) && gpu->peers.left > 0 && !go_on(gpu, gpus, end_ns))
            return;
        reader->peers_next = (reader->peers_next + 1) % NODE_GPUS_MAX;
    }
}

/* ---- what becomes of it ---- */

void nvml_peers_follow_plan(NvmlGpu *gpu)
{
    if (nvml_gpu_wants(gpu, METRIC_EXP_P2P_STATUS))
        return;
    memset(&gpu->peers, 0, sizeof gpu->peers);
    gpu->peers.changed = true;
}

void nvml_peers_lose(NvmlGpu *gpu, Absence why)
{
    const uint64_t now = nvml_gpu_now(gpu);

    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++) {
        Sample *sample = &gpu->peers.status[i];

        if (sample->valid || sample->absence != ABSENCE_NOT_YET)
            sample_set_absent(sample, now, why);
    }
    gpu->peers.left = 0;
    gpu->peers.changed = true;
}

void nvml_peers_publish(NvmlGpu *gpu)
{
    if (!gpu->peers.changed)
        return;
    board_set_peers(&gpu->row->peers, gpu->peers.status);
    gpu->peers.changed = false;
}
