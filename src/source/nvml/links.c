/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLinks of a GPU: state at pace NORMAL, error counters at SLOW, each one call for all links; the remote end once.
 * With MIG on the driver reports every link down and nothing else: absent then. Replays and recoveries are counted
 * per link. Boards with at most 12 links count checksum errors apart (flit, data); on others CRC_FLIT has both and
 * CRC_DATA is absent. NVLink 5 has neither checksums nor replays, only recoveries.
 *
 * Reachability of other GPUs. A call about two GPUs that does not return does not say which of them hangs. So it is
 * announced as about no GPU, and the supervisor blames neither (CALL_PAIR of supervisor_slot.c): all GPUs go to a new
 * sampler, whose own calls find the one that hangs, and pairs are not read for a while. An error, "lost" among them,
 * costs only this one status. A GPU that is not ours, or is in trouble, is UNKNOWN to the others.
 */
#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "source/nvml/readers.h"

enum { SPLIT_LINKS = 12, FIRST_LINKS = 6 };

static_assert((int)NODE_LINKS_MAX * (int)NODE_LINK_ERROR_END <= (int)NVML_FIELDS_MAX,
              "the reader's array has room for a call");

static bool knows_field(const NvmlGpu *gpu, unsigned int field)
{
    return field < nvml_known_fields(gpu->reader->library.driver_major);
}

static bool is_nvlink5(const NvmlGpu *gpu)
{
    return gpu->reading.device.arch >= DEVICE_ARCH_BLACKWELL;
}

/* ---- state ---- */

static void read_states_by_function(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;

    for (uint32_t i = 0; i < list->count && !gpu->target.trouble; i++) {
        nvmlEnableState_t active = NVML_FEATURE_DISABLED;
        const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetNvLinkState, (gpu->handle, i, &active));
        const Absence why = nvml_gpu_count_answer(gpu, r);

        nvml_sample_set_whole(r == NVML_SUCCESS ? nvml_whole(active != 0) : nvml_lacking(why), nvml_gpu_now(gpu),
                              &list->links[i].active);
    }
}

/* False where the driver has no such field. */
static bool read_states_by_field(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;
    nvmlFieldValue_t *values = gpu->reader->fields;
    nvmlReturn_t r;
    Absence why;

    for (uint32_t i = 0; i < list->count; i++)
        values[i] = (nvmlFieldValue_t){.fieldId = NVML_FI_DEV_NVLINK_GET_STATE, .scopeId = i};
    r = NVML_GPU_CALL(gpu, nvmlDeviceGetFieldValues, (gpu->handle, (int)list->count, values));
    why = nvml_gpu_count_answer(gpu, r);
    for (uint32_t i = 0; i < list->count; i++) {
        NvmlNumber state = r == NVML_SUCCESS ? nvml_field_number(&values[i]) : nvml_lacking(why);
        if (i == 0 && !state.valid && state.absence == ABSENCE_NOT_SUPPORTED)
            return false;
        if (state.valid) /* one that sleeps is up: it wakes with the next byte */
            state = nvml_whole(state.i != NVML_NVLINK_STATE_INACTIVE);
        nvml_sample_set_whole(state, nvml_gpu_now(gpu), &list->links[i].active);
    }
    return true;
}

static void read_states(NvmlGpu *gpu, bool slow)
{
    NvmlLinks *links = &gpu->nvlinks;

    if (!links->by_function)
        links->by_function = !knows_field(gpu, NVML_FI_DEV_NVLINK_GET_STATE) || !read_states_by_field(gpu);
    if (links->by_function && slow)
        read_states_by_function(gpu);
}

/* ---- errors ---- */

/* Fields of the first and the seventh link, from which the others count on, and the one of boards that count by scope;
 * 0: none. */
static const struct {
    unsigned int first, seventh, by_scope;
} error_fields[NODE_LINK_ERROR_END] = {
    [NODE_LINK_CRC_FLIT] = {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6,
                            NVML_FI_DEV_NVLINK_ERROR_DL_CRC},
    [NODE_LINK_CRC_DATA] = {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6, 0},
    [NODE_LINK_REPLAY] = {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6,
                          NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY},
    [NODE_LINK_RECOVERY] = {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6,
                            NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY},
};

static unsigned int field_of(const NvmlGpu *gpu, NodeLinkError error, uint32_t link, bool split)
{
    if (is_nvlink5(gpu))
        return error == NODE_LINK_RECOVERY && knows_field(gpu, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS)
                   ? NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS
                   : 0;
    if (!split)
        return error_fields[error].by_scope;
    return link < FIRST_LINKS ? error_fields[error].first + link : error_fields[error].seventh + link - FIRST_LINKS;
}

static int ask_errors(const NvmlGpu *gpu, nvmlFieldValue_t *values)
{
    const uint32_t count = gpu->nvlinks.list.count;
    const bool split = count <= SPLIT_LINKS, by_scope = !split || is_nvlink5(gpu);
    int asked = 0;

    for (uint32_t i = 0; i < count; i++)
        for (NodeLinkError k = 0; k < NODE_LINK_ERROR_END; k++) {
            const unsigned int id = field_of(gpu, k, i, split);
            if (id)
                values[asked++] = (nvmlFieldValue_t){.fieldId = id, .scopeId = by_scope ? i : 0};
        }
    return asked;
}

static void read_errors(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;
    nvmlFieldValue_t *values = gpu->reader->fields;
    const bool split = list->count <= SPLIT_LINKS;
    const int asked = ask_errors(gpu, values);
    nvmlReturn_t r = NVML_SUCCESS;
    Absence why = ABSENCE_NOT_SUPPORTED;
    int at = 0;

    if (asked > 0) {
        r = NVML_GPU_CALL(gpu, nvmlDeviceGetFieldValues, (gpu->handle, asked, values));
        why = nvml_gpu_count_answer(gpu, r);
    }
    for (uint32_t i = 0; i < list->count; i++)
        for (NodeLinkError k = 0; k < NODE_LINK_ERROR_END; k++) {
            NvmlNumber number = nvml_lacking(ABSENCE_NOT_SUPPORTED);
            if (field_of(gpu, k, i, split))
                number = r == NVML_SUCCESS ? nvml_field_number(&values[at++]) : nvml_lacking(why);
            nvml_sample_set_whole(number, nvml_gpu_now(gpu), &list->links[i].errors[k]);
        }
}

/* ---- counters of their ports ---- */

/* In the order of NODE_PORT_COUNTERS. */
static const unsigned int port_counters[] = {
    NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_SINCE_LAST_RECOVERY,
    NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_BETWEEN_LAST_TWO_RECOVERIES,
    NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_SUCCESSFUL_RECOVERY_EVENTS,
    NVML_PRM_COUNTER_ID_PPCNT_PHYSICAL_LAYER_CTRS_SUCCESSFUL_RECOVERY_EVENTS,
    NVML_PRM_COUNTER_ID_PPCNT_PHYSICAL_LAYER_CTRS_LINK_DOWN_EVENTS,
};
static_assert(ARRAY_LEN(port_counters) == NODE_PORT_COUNTERS, "one for each");

static MetricId port_metric(size_t k)
{
    return (MetricId)(METRIC_NVLINK_PPCNT_FIRST + k);
}

static bool wants_ports(const NvmlGpu *gpu)
{
    for (size_t k = 0; k < NODE_PORT_COUNTERS; k++)
        if (nvml_gpu_wants(gpu, port_metric(k)))
            return true;
    return false;
}

static NvmlNumber port_number(const nvmlPRMCounter_v1_t *counter)
{
    const nvmlPRMCounterValue_v1_t *value = &counter->counterValue;

    return nvml_field_number(
        &(nvmlFieldValue_t){.nvmlReturn = value->status, .valueType = value->outputType, .value = value->outputValue});
}

/* The GPU's own: the sum over the links, of a time the shortest; why the first has none where none has. */
static void set_port_total(NvmlGpu *gpu, size_t k)
{
    const BoardLinkList *list = &gpu->nvlinks.list;
    const bool is_time = metric_get(port_metric(k))->type == METRIC_GAUGE;
    NvmlNumber total = nvml_lacking(list->count ? list->links[0].ports[k].absence : ABSENCE_NOT_SUPPORTED);

    for (uint32_t i = 0; i < list->count; i++) {
        int64_t value;

        if (!sample_int64(&list->links[i].ports[k], &value))
            continue;
        if (!total.valid || (is_time && value < total.i))
            total = nvml_whole(value);
        else if (!is_time)
            total.i += value;
    }
    if (nvml_gpu_wants(gpu, port_metric(k)))
        nvml_sample_set_whole(total, nvml_gpu_now(gpu), &gpu->reading.sample[port_metric(k)]);
}

/* Ports count from 1. */
static void read_ports(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;
    nvmlPRMCounter_v1_t counters[NODE_LINKS_MAX * NODE_PORT_COUNTERS] = {{0}};
    nvmlPRMCounterList_v1_t asked = {.numCounters = list->count * NODE_PORT_COUNTERS, .counters = counters};
    nvmlReturn_t r = NVML_ERROR_NOT_SUPPORTED;

    for (uint32_t i = 0; i < asked.numCounters; i++) {
        counters[i].counterId = port_counters[i % NODE_PORT_COUNTERS];
        counters[i].inData.localPort = i / NODE_PORT_COUNTERS + 1;
    }
    if (is_nvlink5(gpu) && !gpu->reading.mig)
        r = NVML_GPU_CALL(gpu, nvmlDeviceReadPRMCounters_v1, (gpu->handle, &asked));
    const Absence why = gpu->reading.mig ? ABSENCE_MIG_MODE : nvml_gpu_count_answer(gpu, r);
    for (uint32_t i = 0; i < asked.numCounters; i++)
        nvml_sample_set_whole(r == NVML_SUCCESS ? port_number(&counters[i]) : nvml_lacking(why), nvml_gpu_now(gpu),
                              &list->links[i / NODE_PORT_COUNTERS].ports[i % NODE_PORT_COUNTERS]);
}

/* ---- where they lead ---- */

/* Read once for each link that is up: boards are not rewired while they run. */
static void read_remotes(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;

    for (uint32_t i = 0; i < list->count && !gpu->target.trouble; i++) {
        NodeLink *link = &list->links[i];
        nvmlPciInfo_t pci = {0};
        int64_t up;

        if (link->remote.valid || link->remote.absence != ABSENCE_NOT_YET || !sample_int64(&link->active, &up) || !up)
            continue;
        const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetNvLinkRemotePciInfo_v2, (gpu->handle, i, &pci));
        const Absence why = nvml_gpu_count_answer(gpu, r);
        const PciAddress at = {.domain = pci.domain, .bus = (uint8_t)pci.bus, .device = (uint8_t)pci.device};
        nvml_sample_set_whole(r == NVML_SUCCESS ? nvml_whole(pci_pack(at)) : nvml_lacking(why), nvml_gpu_now(gpu),
                              &link->remote);
    }
}

/* ---- the whole ---- */

void nvml_links_set_absent(NvmlGpu *gpu, Absence why)
{
    BoardLinkList *list = &gpu->nvlinks.list;
    const uint64_t now = nvml_gpu_now(gpu);

    for (uint32_t i = 0; i < list->count; i++) {
        sample_set_absent(&list->links[i].active, now, why);
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++)
            sample_set_absent(&list->links[i].errors[k], now, why);
        for (size_t k = 0; k < NODE_PORT_COUNTERS; k++)
            if (list->links[i].ports[k].time_ns)
                sample_set_absent(&list->links[i].ports[k], now, why);
    }
    gpu->nvlinks.changed = true;
}

bool nvml_links_wanted(const NvmlGpu *gpu)
{
    return gpu->reader->plan.board.want_links || wants_ports(gpu);
}

void nvml_links_read(NvmlGpu *gpu, uint32_t paces)
{
    const bool slow = paces & 1 << METRIC_PACE_SLOW, normal = paces & 1 << METRIC_PACE_NORMAL;
    NvmlLinks *links = &gpu->nvlinks;

    if (!nvml_links_wanted(gpu) || !(slow || normal) || gpu->target.trouble)
        return;
    links->list.count = gpu->links < NODE_LINKS_MAX ? gpu->links : NODE_LINKS_MAX;
    if (slow && wants_ports(gpu)) {
        if (links->list.count)
            read_ports(gpu);
        for (size_t k = 0; k < NODE_PORT_COUNTERS; k++)
            set_port_total(gpu, k);
    }
    if (gpu->reading.mig) {
        nvml_links_set_absent(gpu, ABSENCE_MIG_MODE);
        return;
    }
    if (links->list.count == 0)
        return;
    read_states(gpu, slow);
    if (slow && !gpu->target.trouble)
        read_errors(gpu);
    if (slow)
        read_remotes(gpu);
    links->changed = true;
}

#define ROOM_NS (10 * NS_PER_MS) /* of a step; a fast pass comes every 100 ms */

/* ---- one pair ---- */

static bool can_be_asked(const NvmlGpu *gpu)
{
    return gpu && gpu->handle && gpu->target.trouble == NVML_SUCCESS && nvml_gpu_is_ours(gpu);
}

static void set_peer_sample(NvmlGpu *gpu, uint32_t at, nvmlReturn_t answer, nvmlGpuP2PStatus_t status)
{
    Sample *sample = &gpu->peers.status[at];
    const uint64_t now = nvml_gpu_now(gpu);

    if (answer == NVML_ERROR_GPU_IS_LOST || answer == NVML_ERROR_RESET_REQUIRED)
        sample_set_int64(sample, now, PEER_UNKNOWN); /* one of the two is; its own calls show which */
    else if (answer != NVML_SUCCESS)
        sample_set_absent(sample, now, nvml_answer_absence(answer));
    else
        sample_set_int64(sample, now, (unsigned int)status < PEER_STATUS_END ? (int64_t)status : PEER_UNKNOWN);
    gpu->peers.changed = true;
}

/* False where the GPU is no longer ours, or the driver is gone. */
static bool ask_pair(NvmlGpu *gpu, uint32_t at, const NvmlGpu *peer)
{
    NvmlLibrary *library = &gpu->reader->library;
    NvmlTarget pair = {.index = UINT32_MAX, .slot = gpu->target.slot};
    nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;
    nvmlReturn_t answer = NVML_SUCCESS;

    if (board_kernel_now() < atomic_load_explicit(&gpu->reader->board->pairs_after_ns, memory_order_relaxed))
        answer = NVML_ERROR_TIMEOUT;
    else if (can_be_asked(peer))
        answer = NVML_CALL(library, &pair, nvmlDeviceGetP2PStatus,
                           (gpu->handle, peer->handle, NVML_P2P_CAPS_INDEX_NVLINK, &status));
    if (answer == NVML_NOT_OURS || library->gone)
        return false;
    set_peer_sample(gpu, at, answer, status);
    return true;
}

/* ---- a round ---- */

void nvml_peers_begin(NvmlGpu *gpu)
{
    const uint32_t count = atomic_load_explicit(&gpu->reader->board->gpu_count, memory_order_acquire);

    if (gpu->peers.left == 0 && nvml_gpu_wants(gpu, METRIC_EXP_P2P_STATUS))
        gpu->peers.left = count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
}

void nvml_gpu_publish_lists(NvmlGpu *gpu)
{
    if (gpu->peers.changed)
        board_set_peers(&gpu->row->peers, gpu->peers.status);
    if (gpu->nvlinks.changed)
        board_set_links(&gpu->row->links, &gpu->nvlinks.list);
    if (gpu->processes.changed)
        board_set_processes(&gpu->row->processes, &gpu->processes.list);
    gpu->peers.changed = gpu->nvlinks.changed = gpu->processes.changed = false;
}

/* False where the time is over, or the driver is gone. */
static bool ask_next_peers(NvmlGpu *gpu, NvmlGpu *const gpus[NODE_GPUS_MAX], uint64_t end_ns)
{
    bool in_time = true;

    while (in_time && gpu->peers.left > 0) {
        const uint32_t at = gpu->peers.left - 1;

        if (at != gpu->target.index && !ask_pair(gpu, at, gpus[at])) {
            gpu->peers.left = 0;
            break;
        }
        gpu->peers.left = at;
        in_time = board_kernel_now() < end_ns;
    }
    if (nvml_gpu_is_ours(gpu))
        nvml_gpu_publish_lists(gpu);
    return in_time && !gpu->reader->library.gone;
}

static void begin_all_peers(NvmlReader *reader, NvmlGpu *const gpus[NODE_GPUS_MAX])
{
    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++)
        if (can_be_asked(gpus[i])) {
            gpus[i]->peers.left = 0;
            nvml_peers_begin(gpus[i]);
        }
    reader->peers_anew = false;
}

/* Round robin, so that GPUs with large numbers are reached too where the driver is slow. */
void nvml_peers_step(NvmlReader *reader, NvmlGpu *const gpus[NODE_GPUS_MAX])
{
    const uint64_t end_ns = board_kernel_now() + ROOM_NS;

    if (reader->peers_anew)
        begin_all_peers(reader, gpus);
    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++) {
        NvmlGpu *gpu = gpus[reader->peers_next];

        if (can_be_asked(gpu) && gpu->peers.left > 0 && !ask_next_peers(gpu, gpus, end_ns))
            return;
        reader->peers_next = (reader->peers_next + 1) % NODE_GPUS_MAX;
    }
}

/* ---- what becomes of it ---- */

void nvml_peers_set_absent(NvmlGpu *gpu, Absence why)
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
