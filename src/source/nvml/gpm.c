/* SPDX-License-Identifier: Apache-2.0 */
/* GPU performance monitoring. Times are the kernel's, as the driver's are. */

#include "source/nvml/gpm.h"

#include "base/duration.h"
#include "source/nvml/answer.h"
#include "source/nvml/counters.h"

enum { GPM_NO = 1, GPM_YES = 2 };

#define GAP_MIN_NS (100 * NS_PER_MS)
#define GAP_MAX_NS (10 * NS_PER_MIN)
#define GOOD_MAX_NS (3 * NS_PER_S) /* a pair that the driver refuses leaves the values before it for so long */

/* What one pair of buffers is read for. */
typedef struct Subject {
    const NvmlGpmList *list;
    NvmlGpm *gpm;
    Reading *reading;
} Subject;

void nvml_gpm_find(NvmlGpu *gpu)
{
    nvmlGpmSupport_t support = {.version = NVML_GPM_SUPPORT_VERSION};
    const nvmlReturn_t r = NVML_ASK(gpu, nvmlGpmQueryDeviceSupport, (gpu->handle, &support));

    if (gpu->target.trouble)
        return;
    gpu->gpm_support = r == NVML_SUCCESS && support.isSupportedDevice ? GPM_YES : GPM_NO;
    atomic_store_explicit(&gpu->row->gpm, gpu->gpm_support, memory_order_relaxed);
}

void nvml_gpm_free(NvmlGpu *gpu, NvmlGpm *gpm)
{
    nvml_counter_free(gpm->counter);
    if (gpm->allocated)
        for (int i = 0; i < 2; i++)
            NVML_LET_GO(&gpu->reader->library, &gpu->target, nvmlGpmSampleFree, (gpm->sample[i]));
    *gpm = (NvmlGpm){.instance = gpm->instance};
}

static nvmlReturn_t allocate(NvmlGpu *gpu, NvmlGpm *gpm)
{
    nvmlReturn_t r = NVML_ASK(gpu, nvmlGpmSampleAlloc, (&gpm->sample[0]));

    if (r != NVML_SUCCESS)
        return r;
    r = NVML_ASK(gpu, nvmlGpmSampleAlloc, (&gpm->sample[1]));
    if (r == NVML_SUCCESS)
        gpm->allocated = true;
    else
        NVML_LET_GO(&gpu->reader->library, &gpu->target, nvmlGpmSampleFree, (gpm->sample[0]));
    return r;
}

static nvmlReturn_t take(NvmlGpu *gpu, const NvmlGpm *gpm, nvmlGpmSample_t sample)
{
    if (gpm->instance == DEVICE_NO_NUMBER)
        return NVML_ASK(gpu, nvmlGpmSampleGet, (gpu->handle, sample));
    return NVML_ASK(gpu, nvmlGpmMigSampleGet, (gpu->handle, gpm->instance, sample));
}

static void lose(NvmlGpu *gpu, const Subject *subject, Absence why)
{
    for (uint16_t i = 0; i < subject->list->count; i++)
        sample_set_absent(&subject->reading->sample[subject->list->metrics[i]], nvml_gpu_now(gpu), why);
}

static void set_all(NvmlGpu *gpu, const Subject *subject)
{
    const nvmlGpmMetricsGet_t *got = &gpu->reader->gpm;
    const uint64_t now = nvml_gpu_now(gpu);

    for (uint16_t i = 0; i < subject->list->count; i++) {
        const MetricId id = subject->list->metrics[i];
        const nvmlGpmMetric_t *metric = &got->metrics[i];
        Sample *sample = &subject->reading->sample[id];
        if (metric->nvmlReturn == NVML_SUCCESS)
            nvml_sample_set_gpm(metric_get(id), metric->value, now, sample);
        else
            sample_set_absent(sample, now, nvml_answer_absence(metric->nvmlReturn));
    }
}

/* Metrics of the time between the older sample and the newer one, which is the newer of the next pair. */
static void compute(NvmlGpu *gpu, const Subject *subject, uint64_t newer_ns)
{
    nvmlGpmMetricsGet_t *get = &gpu->reader->gpm;
    NvmlGpm *gpm = subject->gpm;
    nvmlReturn_t answer;

    get->version = NVML_GPM_METRICS_GET_VERSION;
    get->numMetrics = subject->list->count;
    get->sample1 = gpm->sample[gpm->older];
    get->sample2 = gpm->sample[!gpm->older];
    for (uint16_t i = 0; i < subject->list->count; i++)
        get->metrics[i] = (nvmlGpmMetric_t){.metricId = metric_get(subject->list->metrics[i])->source.id};
    answer = NVML_ASK(gpu, nvmlGpmMetricsGet, (get));
    if (answer == NVML_SUCCESS) {
        set_all(gpu, subject);
        gpm->good_ns = newer_ns;
        gpm->older = !gpm->older;
        gpm->older_ns = newer_ns;
        return;
    }
    /* no pair: the driver's time stood still between them. The older one stays for the next try. */
    if (newer_ns - gpm->good_ns > GOOD_MAX_NS)
        lose(gpu, subject, nvml_gpu_note(gpu, answer));
}

static void read_subject(NvmlGpu *gpu, const Subject *subject)
{
    NvmlGpm *gpm = subject->gpm;
    const uint64_t now = board_kernel_now();
    nvmlReturn_t answer = NVML_SUCCESS;

    if (subject->list->count == 0 || gpu->target.trouble)
        return;
    if (gpm->seeded && now - gpm->older_ns > GAP_MAX_NS)
        gpm->seeded = false;
    if (gpm->seeded && now - gpm->older_ns < GAP_MIN_NS)
        return;
    if (!gpm->allocated)
        answer = allocate(gpu, gpm);
    if (answer == NVML_SUCCESS)
        answer = take(gpu, gpm, gpm->sample[gpm->seeded ? !gpm->older : gpm->older]);
    if (answer != NVML_SUCCESS) {
        gpm->seeded = false;
        lose(gpu, subject, nvml_gpu_note(gpu, answer));
        return;
    }
    /* A sample lies between these two instants: taken this late as the older one and this early as the newer, a pair is
     * never closer than it seems. */
    const uint64_t taken = board_kernel_now();
    if (gpm->seeded) {
        compute(gpu, subject, taken);
        return;
    }
    gpm->seeded = true;
    gpm->older_ns = gpm->good_ns = taken;
    lose(gpu, subject, ABSENCE_NO_DATA);
}

/* Of a GPU without GPM. */
static void read_otherwise(NvmlGpu *gpu, const Subject *subject)
{
    if (!gpu->reader->counters)
        lose(gpu, subject, ABSENCE_NOT_SUPPORTED);
    else if (!gpu->target.trouble)
        nvml_counters_read(gpu, subject->list, subject->gpm, subject->reading);
}

static void copy_to_siblings(NvmlGpu *gpu, uint32_t head, const NvmlGpmList *list)
{
    NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];

    for (uint32_t i = head + 1; i < gpu->mig.count && !pool[i].reading.instance_head; i++)
        for (uint16_t k = 0; k < list->count; k++)
            pool[i].reading.sample[list->metrics[k]] = pool[head].reading.sample[list->metrics[k]];
}

void nvml_gpm_read(NvmlGpu *gpu)
{
    const NvmlPlan *plan = &gpu->reader->plan;
    NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];
    Subject whole = {.list = &plan->gpm_gpu, .gpm = &gpu->gpm, .reading = &gpu->reading};

    if (whole.list->count == 0)
        return;
    if (gpu->gpm_support == 0)
        nvml_gpm_find(gpu);
    if (gpu->gpm_support == GPM_YES)
        read_subject(gpu, &whole);
    else
        read_otherwise(gpu, &whole);
    for (uint32_t i = 0; i < gpu->mig.count; i++) {
        Subject one = {.list = &plan->gpm_instance, .gpm = &pool[i].gpm, .reading = &pool[i].reading};
        if (gpu->gpm_support != GPM_YES) {
            read_otherwise(gpu, &one); /* which tells compute instances apart */
        } else if (pool[i].reading.instance_head) {
            read_subject(gpu, &one);
            copy_to_siblings(gpu, i, one.list);
        }
    }
}
