/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: addresses inside two tables that live as long as the library. A MIG device has its place by (GPU, GPU
 * instance, compute instance), so the same device has the same handle each time without any bookkeeping.
 */
#include "sim/nvml/process.h"

#include <stdio.h>

NvmlProcess nvml_process;

static struct nvmlDevice_st gpu_handles[SIM_GPU_MAX];
static struct nvmlDevice_st mig_handles[SIM_GPU_MAX][NVML_GI_IDS][NVML_CI_IDS];

static void fill_tables(void)
{
    for (uint32_t g = 0; g < SIM_GPU_MAX; g++) {
        gpu_handles[g] = (struct nvmlDevice_st){.gpu = g, .gi_id = SIM_NONE, .ci_id = SIM_NONE};
        for (int32_t gi = 0; gi < NVML_GI_IDS; gi++)
            for (int32_t ci = 0; ci < NVML_CI_IDS; ci++)
                mig_handles[g][gi][ci] = (struct nvmlDevice_st){.gpu = g, .gi_id = gi, .ci_id = ci};
    }
}

static uint64_t bus_address(const SimGpuId *id)
{
    return (uint64_t)id->domain << 16 | id->bus << 8 | id->device;
}

void nvml_handles_build(SimImage *image)
{
    NvmlProcess *p = &nvml_process;
    static SimNow now; /* large, and only one thread is here at a time */

    if (!gpu_handles[0].gi_id)
        fill_tables();
    p->visible_count = p->visible_mask = 0;
    for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++) {
        const SimGpuId *id = &image->gpus[g];
        snprintf(p->bus_id[g], sizeof p->bus_id[g], "%08X:%02X:%02X.0", id->domain, id->bus & 0xff, id->device & 0xff);
        snprintf(p->bus_id_legacy[g], sizeof p->bus_id_legacy[g], "%04X:%02X:%02X.0", id->domain & 0xffff,
                 id->bus & 0xff, id->device & 0xff);
        sim_state_at(image, g, sim_clock_now(image), &now);
        if (!now.cond.present || now.cond.set[SIM_KEY_NOT_STARTED])
            continue;
        uint32_t at = p->visible_count++;
        while (at > 0 && bus_address(&image->gpus[p->visible[at - 1]]) > bus_address(id)) {
            p->visible[at] = p->visible[at - 1];
            at--;
        }
        p->visible[at] = g;
        p->visible_mask |= 1u << g;
    }
}

/* Whether `address` is that of an element of a table of handles. */
static int in_table(uintptr_t address, const void *table, size_t bytes)
{
    const uintptr_t offset = address - (uintptr_t)table;
    return offset < bytes && offset % sizeof(struct nvmlDevice_st) == 0;
}

int nvml_handle_valid(nvmlDevice_t device)
{
    const uintptr_t address = (uintptr_t)device;

    if (!in_table(address, gpu_handles, sizeof gpu_handles) && !in_table(address, mig_handles, sizeof mig_handles))
        return 0;
    return nvml_process.visible_mask >> device->gpu & 1;
}

nvmlDevice_t nvml_handle_gpu(uint32_t gpu)
{
    if (gpu >= SIM_GPU_MAX || !(nvml_process.visible_mask >> gpu & 1))
        return NULL;
    return &gpu_handles[gpu];
}

nvmlDevice_t nvml_handle_mig(uint32_t gpu, uint32_t gi_id, uint32_t ci_id)
{
    if (gpu >= SIM_GPU_MAX || gi_id >= NVML_GI_IDS || ci_id >= NVML_CI_IDS)
        return NULL;
    return &mig_handles[gpu][gi_id][ci_id];
}

uint32_t nvml_visible_count(void)
{
    return nvml_process.visible_count;
}

uint32_t nvml_visible_gpu(uint32_t index)
{
    return index < nvml_process.visible_count ? nvml_process.visible[index] : 0;
}
