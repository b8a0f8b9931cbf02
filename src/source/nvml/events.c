/* SPDX-License-Identifier: Apache-2.0 */
/* XID events, asked for with no time to wait. */

#include "source/nvml/events.h"

enum { EVENTS_AT_ONCE = 64 };

static void set_none(NvmlGpu *gpu, Absence why)
{
    Sample *sample = &gpu->reading.sample[METRIC_XID_ERRORS];

    if (!sample->valid)
        sample_set_absent(sample, nvml_gpu_now(gpu), why);
}

void nvml_events_open(NvmlGpu *gpu)
{
    unsigned long long types = nvmlEventTypeXidCriticalError;
    nvmlReturn_t r;

    if (gpu->events || !nvml_gpu_wants(gpu, METRIC_XID_ERRORS) || gpu->target.trouble)
        return;
    r = NVML_ASK(gpu, nvmlDeviceGetSupportedEventTypes, (gpu->handle, &types));
    if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
        r = NVML_SUCCESS; /* registering will tell */
    if (r == NVML_SUCCESS && !(types & nvmlEventTypeXidCriticalError))
        r = NVML_ERROR_NOT_SUPPORTED;
    if (r == NVML_SUCCESS)
        r = NVML_ASK(gpu, nvmlEventSetCreate, (&gpu->events));
    if (r == NVML_SUCCESS) {
        r = NVML_ASK(gpu, nvmlDeviceRegisterEvents, (gpu->handle, nvmlEventTypeXidCriticalError, gpu->events));
        if (r != NVML_SUCCESS)
            nvml_events_close(gpu);
    }
    set_none(gpu, nvml_gpu_note(gpu, r));
}

void nvml_events_close(NvmlGpu *gpu)
{
    if (gpu->events)
        NVML_LET_GO(&gpu->reader->library, &gpu->target, nvmlEventSetFree, (gpu->events));
    gpu->events = NULL;
}

/* The older form does not say which instance. */
static nvmlReturn_t next_event(NvmlGpu *gpu, nvmlEventData_t *ret)
{
    nvmlEventData_v1_t older = {0};
    nvmlReturn_t r = NVML_ASK(gpu, nvmlEventSetWait_v2, (gpu->events, ret, 0));

    if (r != NVML_ERROR_FUNCTION_NOT_FOUND)
        return r;
    r = NVML_ASK(gpu, nvmlEventSetWait, (gpu->events, &older, 0));
    *ret = (nvmlEventData_t){.device = older.device,
                             .eventType = older.eventType,
                             .eventData = older.eventData,
                             .gpuInstanceId = DEVICE_NO_NUMBER,
                             .computeInstanceId = DEVICE_NO_NUMBER};
    return r;
}

static void set_instance(NvmlGpu *gpu, const XidEvent *event)
{
    NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];

    for (uint32_t i = 0; event->gpu_instance != DEVICE_NO_NUMBER && i < gpu->mig.count; i++) {
        const Device *device = &pool[i].reading.device;
        if (device->gpu_instance == event->gpu_instance &&
            (event->compute_instance == DEVICE_NO_NUMBER || event->compute_instance == device->compute_instance))
            sample_set_int64(&pool[i].reading.sample[METRIC_XID_ERRORS], event->time_ns, (int64_t)event->xid);
    }
}

static void take(NvmlGpu *gpu, const nvmlEventData_t *data)
{
    const XidEvent event = {.time_ns = nvml_gpu_now(gpu),
                            .gpu = gpu->row->pci,
                            .xid = data->eventData,
                            .gpu_instance = data->gpuInstanceId,
                            .compute_instance = data->computeInstanceId};

    if (!(data->eventType & nvmlEventTypeXidCriticalError))
        return;
    board_push_event(gpu->reader->library.self, &event);
    nvml_sample_set(metric_get(METRIC_XID_ERRORS), nvml_whole_unsigned(event.xid), event.time_ns,
                    &gpu->reading.sample[METRIC_XID_ERRORS]);
    set_instance(gpu, &event);
}

void nvml_events_read(NvmlGpu *gpu)
{
    nvmlEventData_t data = {0};

    for (int i = 0; gpu->events && i < EVENTS_AT_ONCE; i++) {
        if (next_event(gpu, &data) != NVML_SUCCESS)
            return;
        take(gpu, &data);
    }
}
