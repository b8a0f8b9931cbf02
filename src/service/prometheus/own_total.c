/* SPDX-License-Identifier: Apache-2.0 */
/* One series per physical GPU that counts nothing twice: memory summed over the GPU instances, everything of the board
 * once, however many instances there are. Pure, one thread. */

#include "base/owner.h"
#include "service/prometheus/own.h"
#include "service/prometheus/page.h"

/* The sum over the GPU instances; false where one of them is unknown, as a part is not a sum. */
static bool sum(const Page *page, const NodeGpu *gpu, const Metric *metric, double *ret)
{
    double all = 0, one;

    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        if (!instance->instance_head)
            continue;
        if (!page_fresh(page, &instance->sample[metric->id], metric->pace) ||
            !sample_double(&instance->sample[metric->id], &one))
            return false;
        all += one;
    }
    *ret = all;
    return true;
}

static bool total_of(const Page *page, const NodeGpu *gpu, const Metric *metric, double *ret)
{
    const Sample *sample = &gpu->reading.sample[metric->id];

    if (metric->scope == METRIC_SCOPE_COMPUTE_INSTANCE && gpu->instance_count)
        return sum(page, gpu, metric, ret);
    return page_fresh(page, sample, metric->pace) && sample_double(sample, ret);
}

static void total(Page *page, const Family *family)
{
    const Metric *metric = metric_get(family->own->metric);

    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        double value;

        if (total_of(page, page_gpu(page, target), metric, &value))
            page_target(page, family, target, page_scaled(value, unit_factor(metric->unit)));
    }
}

static void instances(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        const NodeGpu *gpu = page_gpu(page, target);
        size_t count = 0;

        for (size_t k = 0; k < gpu->instance_count; k++)
            count += gpu->instances[k].instance_head;
        if (gpu->state == GPU_UP)
            page_target(page, family, target, (double)count);
    }
}

const OwnFamily own_total_families[] = {
    {"stoker_gpu_energy_joules_total", FAMILY_COUNTER, "Energy the board used since the driver was loaded", total,
     .metric = METRIC_TOTAL_ENERGY_CONSUMPTION},
    {"stoker_gpu_fb_capacity_bytes", FAMILY_GAUGE, "Memory of the GPU, or of its instances together", total,
     .metric = METRIC_FB_TOTAL},
    {"stoker_gpu_fb_free_bytes", FAMILY_GAUGE, "Memory free on the GPU, or on its instances together", total,
     .metric = METRIC_FB_FREE},
    {"stoker_gpu_fb_reserved_bytes", FAMILY_GAUGE, "Memory reserved on the GPU, or on its instances together", total,
     .metric = METRIC_FB_RESERVED},
    {"stoker_gpu_fb_used_bytes", FAMILY_GAUGE, "Memory in use on the GPU, or on its instances together", total,
     .metric = METRIC_FB_USED},
    {"stoker_gpu_instances", FAMILY_GAUGE, "GPU instances the GPU is split into", .write = instances},
    {"stoker_gpu_memory_clock_hertz", FAMILY_GAUGE, "Frequency of the memory", total, .metric = METRIC_MEM_CLOCK},
    {"stoker_gpu_memory_temperature_celsius", FAMILY_GAUGE, "Temperature of the memory", total,
     .metric = METRIC_MEMORY_TEMP},
    {"stoker_gpu_power_watts", FAMILY_GAUGE, "Power the board draws", total, .metric = METRIC_POWER_USAGE},
    {"stoker_gpu_sm_clock_hertz", FAMILY_GAUGE, "Frequency of the multiprocessors", total, .metric = METRIC_SM_CLOCK},
    {"stoker_gpu_temperature_celsius", FAMILY_GAUGE, "Temperature of the GPU core", total, .metric = METRIC_GPU_TEMP},
};
const size_t own_total_family_count = ARRAY_LEN(own_total_families);
