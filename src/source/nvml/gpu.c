/* SPDX-License-Identifier: Apache-2.0 */
/* A pass over a GPU: attach where it has no handle, read what is due, publish if the GPU is still ours. An answer that
 * concerns the GPU as a whole (lost, wants a reset) ends the pass; the GPU is detached and tried again a second later.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "source/nvml/readers.h"

/* A text of the driver into the array `out`, which stays as it is where the call fails. */
#define READ_TEXT(gpu, fn, out)                                                                                        \
    do {                                                                                                               \
        char got_[DEVICE_NAME_CAP];                                                                                    \
        if (NVML_GPU_CALL(gpu, fn, ((gpu)->handle, got_, sizeof got_)) == NVML_SUCCESS)                                \
            snprintf(out, sizeof(out), "%.*s", (int)sizeof(out) - 1, got_);                                            \
    } while (0)

static void read_identity(NvmlGpu *gpu)
{
    Device *device = &gpu->reading.device;
    unsigned int number = 0;
    nvmlDeviceArchitecture_t arch = 0;

    READ_TEXT(gpu, nvmlDeviceGetUUID, device->uuid);
    READ_TEXT(gpu, nvmlDeviceGetName, device->name);
    READ_TEXT(gpu, nvmlDeviceGetSerial, device->serial);
    READ_TEXT(gpu, nvmlDeviceGetBoardPartNumber, device->board);
    if (NVML_GPU_CALL(gpu, nvmlDeviceGetIndex, (gpu->handle, &number)) == NVML_SUCCESS)
        device->index = number;
    if (NVML_GPU_CALL(gpu, nvmlDeviceGetMinorNumber, (gpu->handle, &number)) == NVML_SUCCESS)
        device->minor = number;
    if (NVML_GPU_CALL(gpu, nvmlDeviceGetArchitecture, (gpu->handle, &arch)) == NVML_SUCCESS)
        device->arch = arch == UINT32_MAX ? DEVICE_ARCH_UNKNOWN : arch;
}

/* ---- texts ---- */

static void set_text(NvmlGpu *gpu, ReadingText which, const char *text)
{
    snprintf(gpu->reading.text[which], READING_TEXT_CAP, "%.*s", READING_TEXT_CAP - 1, text);
}

static void read_inforom(NvmlGpu *gpu, MetricId id, nvmlInforomObject_t object)
{
    char got[READING_TEXT_CAP];

    if (nvml_gpu_wants(gpu, id) &&
        NVML_GPU_CALL(gpu, nvmlDeviceGetInforomVersion, (gpu->handle, object, got, sizeof got)) == NVML_SUCCESS)
        set_text(gpu, reading_text_of(id), got);
}

static void read_texts(NvmlGpu *gpu)
{
    Reading *reading = &gpu->reading;
    nvmlBrandType_t brand = NVML_BRAND_UNKNOWN;

    memset(reading->text, 0, sizeof reading->text);
    set_text(gpu, READING_DRIVER_VERSION, gpu->reader->library.driver_version);
    set_text(gpu, READING_NVML_VERSION, gpu->reader->library.nvml_version);
    set_text(gpu, READING_SERIAL, reading->device.serial);
    if (nvml_gpu_wants(gpu, METRIC_BRAND) &&
        NVML_GPU_CALL(gpu, nvmlDeviceGetBrand, (gpu->handle, &brand)) == NVML_SUCCESS)
        set_text(gpu, READING_BRAND, nvml_brand_text(brand));
    read_inforom(gpu, METRIC_OEM_INFOROM_VER, NVML_INFOROM_OEM);
    read_inforom(gpu, METRIC_ECC_INFOROM_VER, NVML_INFOROM_ECC);
    read_inforom(gpu, METRIC_POWER_INFOROM_VER, NVML_INFOROM_POWER);
    if (nvml_gpu_wants(gpu, METRIC_INFOROM_IMAGE_VER))
        READ_TEXT(gpu, nvmlDeviceGetInforomImageVersion, reading->text[READING_INFOROM_IMAGE_VER]);
    if (nvml_gpu_wants(gpu, METRIC_VBIOS_VERSION))
        READ_TEXT(gpu, nvmlDeviceGetVbiosVersion, reading->text[READING_VBIOS_VERSION]);
}

/* Whether an operator keeps new clients off the GPU (nvmlDeviceModifyDrainState). Asked by PCI address, since the
 * driver hands out no handle of a drained GPU; needs no root. The last answer stays on the board while there is no new
 * one. */
static void read_drain_state(NvmlGpu *gpu)
{
    const PciAddress pci = gpu->row->pci;
    NvmlTarget target = {.index = gpu->target.index, .slot = gpu->target.slot}; /* whatever trouble there is */
    nvmlPciInfo_t info = {.domain = pci.domain, .bus = pci.bus, .device = pci.device};
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;
    char name[PCI_TEXT_CAP];

    snprintf(info.busId, sizeof info.busId, "%s", pci_format(pci, PCI_FORM_NVML, name));
    snprintf(info.busIdLegacy, sizeof info.busIdLegacy, "%04X:%02X:%02X.0", pci.domain & 0xffff, pci.bus, pci.device);
    if (NVML_CALL(&gpu->reader->library, &target, nvmlDeviceQueryDrainState, (&info, &state)) != NVML_SUCCESS)
        return;
    if (nvml_gpu_is_ours(gpu))
        atomic_store_explicit(&gpu->row->drained, state == NVML_FEATURE_ENABLED ? 2 : 1, memory_order_relaxed);
}

enum { EVENTS_AT_ONCE = 64 };

/* A set per GPU, so that a lost GPU does not keep events of the others away. */
static void close_events(NvmlGpu *gpu)
{
    if (gpu->events)
        NVML_LET_GO(&gpu->reader->library, &gpu->target, nvmlEventSetFree, (gpu->events));
    gpu->events = NULL;
}

static void open_events(NvmlGpu *gpu)
{
    unsigned long long types = nvmlEventTypeXidCriticalError;
    Sample *sample = &gpu->reading.sample[METRIC_XID_ERRORS];
    nvmlReturn_t r;
    Absence why;

    if (gpu->events || !nvml_gpu_wants(gpu, METRIC_XID_ERRORS) || gpu->target.trouble)
        return;
    r = NVML_GPU_CALL(gpu, nvmlDeviceGetSupportedEventTypes, (gpu->handle, &types));
    if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
        r = NVML_SUCCESS; /* the result of registering decides */
    if (r == NVML_SUCCESS && !(types & nvmlEventTypeXidCriticalError))
        r = NVML_ERROR_NOT_SUPPORTED;
    if (r == NVML_SUCCESS)
        r = NVML_GPU_CALL(gpu, nvmlEventSetCreate, (&gpu->events));
    if (r == NVML_SUCCESS) {
        r = NVML_GPU_CALL(gpu, nvmlDeviceRegisterEvents, (gpu->handle, nvmlEventTypeXidCriticalError, gpu->events));
        if (r != NVML_SUCCESS)
            close_events(gpu);
    }
    why = nvml_gpu_count_answer(gpu, r);
    if (!sample->valid)
        sample_set_absent(sample, nvml_gpu_now(gpu), why);
}

/* The older form does not say which instance. */
static nvmlReturn_t next_event(NvmlGpu *gpu, nvmlEventData_t *ret)
{
    nvmlEventData_v1_t older = {0};
    nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlEventSetWait_v2, (gpu->events, ret, 0));

    if (r != NVML_ERROR_FUNCTION_NOT_FOUND)
        return r;
    r = NVML_GPU_CALL(gpu, nvmlEventSetWait, (gpu->events, &older, 0));
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

static void record_event(NvmlGpu *gpu, const nvmlEventData_t *data)
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

static void read_events(NvmlGpu *gpu)
{
    nvmlEventData_t data = {0};

    for (int i = 0; gpu->events && i < EVENTS_AT_ONCE; i++) {
        if (next_event(gpu, &data) != NVML_SUCCESS)
            return;
        record_event(gpu, &data);
    }
}

#define RETRY_NS NS_PER_S

enum { ALL_PACES = 1 << METRIC_PACE_FAST | 1 << METRIC_PACE_NORMAL | 1 << METRIC_PACE_SLOW | 1 << METRIC_PACE_ONCE };

/* Identity and last XID outlive a sampler: copied from the board. All else is read again. */
static void copy_from_board(NvmlGpu *gpu)
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
    gpu->target = (NvmlTarget){.index = index, .slot = &gpu->row->slot};
    gpu->gpm.instance = DEVICE_NO_NUMBER;
    gpu->peers.changed = gpu->nvlinks.changed = gpu->processes.changed = true; /* what the sampler before saw goes */
    copy_from_board(gpu);
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
    close_events(gpu);
    gpu->handle = NULL;
    gpu->peers.left = 0;
    gpu->nvlinks.by_function = false;
    gpu->processes.since_us = gpu->processes.next_us = 0;
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

static void publish_all(NvmlGpu *gpu)
{
    const NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];

    board_set_row(&gpu->row->gpu, &gpu->reading);
    for (uint32_t i = 0; i < gpu->mig.count; i++)
        board_set_row(&gpu->row->instances[i], &pool[i].reading);
    atomic_store_explicit(&gpu->row->instance_count, gpu->mig.count, memory_order_release);
    nvml_gpu_publish_lists(gpu);
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

/* All but the last XID, which explains what happened to the GPU. */
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
    nvml_peers_set_absent(gpu, why);
    nvml_links_set_absent(gpu, why);
    nvml_processes_set_absent(gpu, why);
}

void nvml_gpu_set_absent(NvmlGpu *gpu, Absence why)
{
    lose_readings(gpu, why);
    if (nvml_gpu_is_ours(gpu))
        publish_all(gpu);
}

/* The GPU as a whole cannot be read: `code`. */
static void fail_gpu(NvmlGpu *gpu, nvmlReturn_t code)
{
    lose_readings(gpu, nvml_answer_absence(code));
    gpu->reading.mig_known = false;
    if (nvml_gpu_is_ours(gpu)) {
        publish_all(gpu);
        set_outcome(gpu, nvml_answer_outcome(code), code);
    }
    nvml_gpu_detach(gpu);
    gpu->retry_ns = board_kernel_now() + RETRY_NS;
}

/* ---- the pass ---- */

static nvmlReturn_t attach_gpu(NvmlGpu *gpu)
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
    read_identity(gpu);
    return NVML_SUCCESS;
}

/* Unwanted metrics get their reason; wanted ones start again. */
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
    read_texts(gpu);
    if (!nvml_gpu_wants(gpu, METRIC_XID_ERRORS))
        close_events(gpu);
    open_events(gpu);
    if (!nvml_gpu_wants(gpu, METRIC_EXP_P2P_STATUS))
        gpu->peers = (NvmlPeers){.changed = true};
    if (!nvml_links_wanted(gpu))
        gpu->nvlinks = (NvmlLinks){.changed = true};
    if (!plan->board.want_processes)
        gpu->processes = (NvmlProcesses){.changed = true};
    gpu->plan_number = plan->number;
}

static void read_pace(NvmlGpu *gpu, MetricPace pace)
{
    nvml_rows_read(gpu, pace);
    nvml_fields_read(gpu, pace);
}

static void read_paces(NvmlGpu *gpu, uint32_t paces)
{
    read_events(gpu);
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
        nvml_processes_read(gpu, paces & 1 << METRIC_PACE_SLOW);
    }
    nvml_links_read(gpu, paces);
    if (paces & 1 << METRIC_PACE_SLOW) {
        read_drain_state(gpu);
        nvml_peers_begin(gpu);
    }
}

/* The driver refuses the GPU if calls failed and none succeeded. The few calls of a fast pass do not prove that. */
static nvmlReturn_t find_gpu_trouble(const NvmlGpu *gpu, uint32_t paces)
{
    const bool whole = paces & 1 << METRIC_PACE_NORMAL;

    if (gpu->target.trouble)
        return gpu->target.trouble;
    return whole && gpu->pass.failed > 0 && gpu->pass.good == 0 ? gpu->pass.code : NVML_SUCCESS;
}

static void finish_pass(NvmlGpu *gpu, uint32_t paces, uint64_t start_ns)
{
    const nvmlReturn_t code = find_gpu_trouble(gpu, paces);

    if (code != NVML_SUCCESS) {
        fail_gpu(gpu, code);
        return;
    }
    if (!nvml_gpu_is_ours(gpu))
        return;
    publish_all(gpu);
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
        r = attach_gpu(gpu);
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
        read_drain_state(gpu); /* a drained one is not handed out any more */
    if (gpu->reader->library.gone)
        return false;
    if (r != NVML_SUCCESS)
        fail_gpu(gpu, r);
    else
        finish_pass(gpu, paces, start_ns);
    return true;
}

void nvml_gpu_read_events(NvmlGpu *gpu)
{
    if (gpu->handle && !gpu->target.trouble)
        read_events(gpu);
}

bool nvml_gpu_is_new(const NvmlGpu *gpu)
{
    return gpu->handle ? gpu->plan_number != gpu->reader->plan.number : board_kernel_now() >= gpu->retry_ns;
}

bool nvml_gpu_read_blocking(NvmlGpu *gpu, uint32_t which)
{
    const NvmlRow *row = nvml_blocking_row(which);

    if (!gpu->handle || !nvml_gpu_wants(gpu, row->metrics[0]) || gpu->target.trouble)
        return false;
    nvml_row_read(gpu, row);
    return true;
}
