/* SPDX-License-Identifier: Apache-2.0 */
/* States and error counters of links, by fields; states by a function where the fields do not tell. */

#include "source/nvml/links.h"

#include <assert.h>
#include <string.h>

#include "source/nvml/answer.h"

enum { SPLIT_LINKS = 12, FIRST_LINKS = 6 };

static_assert((int)NODE_LINKS_MAX * (int)NODE_LINK_ERROR_END <= (int)NVML_FIELDS_MAX,
              "the reader's array has room for a call");

static bool knows(const NvmlGpu *gpu, unsigned int field)
{
    return field < nvml_known_fields(gpu->reader->library.driver_major);
}

static bool is_nvlink5(const NvmlGpu *gpu)
{
    return gpu->reading.device.arch >= DEVICE_ARCH_BLACKWELL;
}

static void set(Sample *sample, NvmlNumber number, uint64_t now)
{
    if (number.valid)
        sample_set_int64(sample, now, number.i);
    else
        sample_set_absent(sample, now, number.absence);
}

/* ---- state ---- */

/* One that sleeps is up: it wakes with the next byte. */
static NvmlNumber state_number(NvmlNumber state)
{
    return state.valid ? nvml_whole(state.i != NVML_NVLINK_STATE_INACTIVE) : state;
}

static void read_states_by_function(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;

    for (uint32_t i = 0; i < list->count && !gpu->target.trouble; i++) {
        nvmlEnableState_t active = NVML_FEATURE_DISABLED;
        const nvmlReturn_t r = NVML_ASK(gpu, nvmlDeviceGetNvLinkState, (gpu->handle, i, &active));
        const Absence why = nvml_gpu_note(gpu, r);

        set(&list->links[i].active, r == NVML_SUCCESS ? nvml_whole(active != 0) : nvml_lacking(why), nvml_gpu_now(gpu));
    }
}

/* False where the driver does not tell so. */
static bool read_states_by_field(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;
    nvmlFieldValue_t *values = gpu->reader->fields;
    nvmlReturn_t r;
    Absence why;

    for (uint32_t i = 0; i < list->count; i++)
        values[i] = (nvmlFieldValue_t){.fieldId = NVML_FI_DEV_NVLINK_GET_STATE, .scopeId = i};
    r = NVML_ASK(gpu, nvmlDeviceGetFieldValues, (gpu->handle, (int)list->count, values));
    why = nvml_gpu_note(gpu, r);
    for (uint32_t i = 0; i < list->count; i++) {
        const NvmlNumber state = r == NVML_SUCCESS ? state_number(nvml_field_number(&values[i])) : nvml_lacking(why);
        if (i == 0 && !state.valid && state.absence == ABSENCE_NOT_SUPPORTED)
            return false;
        set(&list->links[i].active, state, nvml_gpu_now(gpu));
    }
    return true;
}

static void read_states(NvmlGpu *gpu, bool slow)
{
    NvmlLinks *links = &gpu->nvlinks;

    if (!links->by_function)
        links->by_function = !knows(gpu, NVML_FI_DEV_NVLINK_GET_STATE) || !read_states_by_field(gpu);
    if (links->by_function && slow)
        read_states_by_function(gpu);
}

/* ---- errors ---- */

/* Numbers of the first six links and of the six after them. */
static unsigned int of_link(unsigned int first, unsigned int seventh, uint32_t link)
{
    return link < FIRST_LINKS ? first + link : seventh + link - FIRST_LINKS;
}

static unsigned int field_of(const NvmlGpu *gpu, NodeLinkError error, uint32_t link, bool split)
{
    if (is_nvlink5(gpu))
        return error == NODE_LINK_RECOVERY && knows(gpu, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS)
                   ? NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS
                   : 0;
    switch ((int)error) {
    case NODE_LINK_CRC_FLIT:
        return split ? of_link(NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6,
                               link)
                     : NVML_FI_DEV_NVLINK_ERROR_DL_CRC;
    case NODE_LINK_CRC_DATA:
        return split ? of_link(NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6,
                               link)
                     : 0;
    case NODE_LINK_REPLAY:
        return split ? of_link(NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6, link)
                     : NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY;
    default:
        return split ? of_link(NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6,
                               link)
                     : NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY;
    }
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
        r = NVML_ASK(gpu, nvmlDeviceGetFieldValues, (gpu->handle, asked, values));
        why = nvml_gpu_note(gpu, r);
    }
    for (uint32_t i = 0; i < list->count; i++)
        for (NodeLinkError k = 0; k < NODE_LINK_ERROR_END; k++) {
            NvmlNumber number = nvml_lacking(ABSENCE_NOT_SUPPORTED);
            if (field_of(gpu, k, i, split))
                number = r == NVML_SUCCESS ? nvml_field_number(&values[at++]) : nvml_lacking(why);
            set(&list->links[i].errors[k], number, nvml_gpu_now(gpu));
        }
}

/* ---- where they lead ---- */

/* Asked once of each link that is up: boards are not wired anew while they run. */
static void read_remotes(NvmlGpu *gpu)
{
    BoardLinkList *list = &gpu->nvlinks.list;

    for (uint32_t i = 0; i < list->count && !gpu->target.trouble; i++) {
        NodeLink *link = &list->links[i];
        nvmlPciInfo_t pci = {0};
        int64_t up;

        if (link->remote.valid || link->remote.absence != ABSENCE_NOT_YET || !sample_int64(&link->active, &up) || !up)
            continue;
        const nvmlReturn_t r = NVML_ASK(gpu, nvmlDeviceGetNvLinkRemotePciInfo_v2, (gpu->handle, i, &pci));
        const Absence why = nvml_gpu_note(gpu, r);
        const PciAddress at = {.domain = pci.domain, .bus = (uint8_t)pci.bus, .device = (uint8_t)pci.device};
        set(&link->remote, r == NVML_SUCCESS ? nvml_whole(pci_pack(at)) : nvml_lacking(why), nvml_gpu_now(gpu));
    }
}

/* ---- the whole ---- */

static void lose_all(NvmlGpu *gpu, Absence why)
{
    BoardLinkList *list = &gpu->nvlinks.list;
    const uint64_t now = nvml_gpu_now(gpu);

    for (uint32_t i = 0; i < list->count; i++) {
        sample_set_absent(&list->links[i].active, now, why);
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++)
            sample_set_absent(&list->links[i].errors[k], now, why);
    }
    gpu->nvlinks.changed = true;
}

void nvml_links_read(NvmlGpu *gpu, uint32_t paces)
{
    const bool slow = paces & 1 << METRIC_PACE_SLOW, normal = paces & 1 << METRIC_PACE_NORMAL;
    NvmlLinks *links = &gpu->nvlinks;

    if (!gpu->reader->plan.board.want_links || !(slow || normal) || gpu->target.trouble)
        return;
    links->list.count = gpu->links < NODE_LINKS_MAX ? gpu->links : NODE_LINKS_MAX;
    if (gpu->reading.mig) {
        lose_all(gpu, ABSENCE_MIG_MODE);
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

void nvml_links_follow_plan(NvmlGpu *gpu)
{
    if (gpu->reader->plan.board.want_links)
        return;
    memset(&gpu->nvlinks, 0, sizeof gpu->nvlinks);
    gpu->nvlinks.changed = true;
}

void nvml_links_lose(NvmlGpu *gpu, Absence why)
{
    lose_all(gpu, why);
}

void nvml_links_publish(NvmlGpu *gpu)
{
    if (!gpu->nvlinks.changed)
        return;
    board_set_links(&gpu->row->links, &gpu->nvlinks.list);
    gpu->nvlinks.changed = false;
}
