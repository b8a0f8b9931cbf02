/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLink: a link index from 36 on is an argument error, one that the board does not have is not supported. With MIG on,
 * links read as down and nothing else about them can be asked.
 */
#include <stdio.h>
#include <string.h>

#include "sim/nvml/getter.h"

enum { UNSEEN_SWITCHES = 2 }; /* where switches are no PCI functions */
#define NVSWITCH_PCI_ID 0x22A310DEu

/* Enters a function about one link. */
static nvmlReturn_t enter_link(NvmlFn fn, nvmlDevice_t device, unsigned int link, const void *out, NvmlCall *ret)
{
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU_NS, ret);

    if (r != NVML_SUCCESS)
        return r;
    if (!out || link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    return link < ret->board->link_count ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* The same for what MIG takes away. */
static nvmlReturn_t enter_link_no_mig(NvmlFn fn, nvmlDevice_t device, unsigned int link, const void *out, NvmlCall *ret)
{
    const nvmlReturn_t r = enter_link(fn, device, link, out, ret);

    if (r != NVML_SUCCESS)
        return r;
    return ret->now->cond.mig_mode ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static int link_down(const NvmlCall *c, unsigned int link)
{
    return c->now->cond.link[link].state == NVML_NVLINK_STATE_INACTIVE;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_link(NVML_FN_nvmlDeviceGetNvLinkState, device, link, active, &c);

    if (r == NVML_SUCCESS)
        *active = c.now->cond.mig_mode || link_down(&c, link) ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return r;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_link_no_mig(NVML_FN_nvmlDeviceGetNvLinkVersion, device, link, version, &c);

    if (r == NVML_SUCCESS)
        *version = c.board->link_version;
    return r;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, nvmlNvLinkCapability_t capability,
                                           unsigned int *result)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_link_no_mig(NVML_FN_nvmlDeviceGetNvLinkCapability, device, link, result, &c);

    if (r != NVML_SUCCESS)
        return r;
    if ((unsigned int)capability >= NVML_NVLINK_CAP_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *result = capability != NVML_NVLINK_CAP_SLI_BRIDGE || c.board->has_display;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, nvmlNvLinkErrorCounter_t counter,
                                             unsigned long long *value)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_link_no_mig(NVML_FN_nvmlDeviceGetNvLinkErrorCounter, device, link, value, &c);

    if (r != NVML_SUCCESS)
        return r;
    if ((unsigned int)counter >= NVML_NVLINK_ERROR_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *value = (unsigned long long)c.now->cond.link[link].count[counter];
    return NVML_SUCCESS;
}

/* ---- the other end ---- */

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t *type)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_link_no_mig(NVML_FN_nvmlDeviceGetNvLinkRemoteDeviceType, device, link, type, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (link_down(&c, link))
        *type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    else
        *type = c.board->link_to_switch ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
}

static void fill_pci(nvmlPciInfo_t *pci, const SimGpuId *at, unsigned int device_id, unsigned int subsystem_id)
{
    *pci = (nvmlPciInfo_t){.domain = at->domain,
                           .bus = at->bus,
                           .device = at->device,
                           .pciDeviceId = device_id,
                           .pciSubSystemId = subsystem_id};
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", at->domain & 0xffff, at->bus & 0xff,
             at->device & 0xff);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", at->domain, at->bus & 0xff, at->device & 0xff);
}

/* The place of a GPU among those of its kind, by bus. */
static uint32_t place_of(const SimImage *image, uint32_t gpu)
{
    const SimGpuId *id = &image->gpus[gpu];
    uint32_t place = 0;

    for (const SimGpuId *g = image->gpus; g < image->gpus + image->gpu_count; g++)
        place += g->board == id->board && (g->domain < id->domain || (g->domain == id->domain && g->bus < id->bus));
    return place;
}

int nvml_bridged_gpu(const SimImage *image, uint32_t gpu)
{
    const uint32_t wanted = place_of(image, gpu) ^ 1;

    for (uint32_t g = 0; g < image->gpu_count; g++)
        if (image->gpus[g].board == image->gpus[gpu].board && place_of(image, g) == wanted)
            return (int)g;
    return -1;
}

static nvmlReturn_t remote_pci(NvmlFn fn, nvmlDevice_t device, unsigned int link, const void *out, nvmlPciInfo_t *ret)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_link_no_mig(fn, device, link, out, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (link_down(&c, link))
        return NVML_ERROR_NOT_SUPPORTED;
    if (c.board->link_to_switch) {
        const uint32_t switches = sim_switch_count(c.board) ? sim_switch_count(c.board) : UNSEEN_SWITCHES;
        const SimGpuId at = {.bus = sim_switch_bus(c.board, link * switches / c.board->link_count)};
        fill_pci(ret, &at, NVSWITCH_PCI_ID, 0);
        return NVML_SUCCESS;
    }
    const int peer = nvml_bridged_gpu(c.image, c.gpu);
    if (peer < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    fill_pci(ret, &c.image->gpus[peer], c.board->pci_device_id, c.board->pci_subsystem_id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
    nvmlPciInfo_t full;
    const nvmlReturn_t r = remote_pci(NVML_FN_nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, pci, &full);

    if (r == NVML_SUCCESS)
        *pci = full;
    return r;
}

/* The callers of the oldest form own 36 bytes. */
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_v1_t *pci)
{
    nvmlPciInfo_t full;
    const nvmlReturn_t r = remote_pci(NVML_FN_nvmlDeviceGetNvLinkRemotePciInfo, device, link, pci, &full);

    if (r != NVML_SUCCESS)
        return r;
    *pci = (nvmlPciInfo_v1_t){.domain = full.domain,
                              .bus = full.bus,
                              .device = full.device,
                              .pciDeviceId = full.pciDeviceId,
                              .pciSubSystemId = full.pciSubSystemId};
    snprintf(pci->busId, sizeof pci->busId, "%s", full.busIdLegacy);
    return NVML_SUCCESS;
}

/* --- the fabric -------------------------------------------------------------------------------------------------- */

/*
 * The NVLink fabric a GPU registered with, and the place of its module in the rack.
 */

enum { HEALTH_FIELD = 3, CONFIGURATION_FIELD = 15 };

typedef struct Fabric {
    nvmlReturn_t status;
    unsigned int health;
    nvmlGpuFabricState_t state;
} Fabric;

/* Cluster and clique stay 0: on a baseboard that stands alone no NVLink leaves the node. Captures of H100 and H200 at
 * 590.48.01 (nvidia_gpu_exporter) show clique 0. */
static Fabric fabric_of(const NvmlCall *c)
{
    const uint32_t *set = c->now->cond.set;
    Fabric f = {.status = NVML_SUCCESS, .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};

    if (!c->board->has_fabric)
        return f;
    f.state = (nvmlGpuFabricState_t)set[SIM_KEY_FABRIC_STATE];
    f.status = (nvmlReturn_t)set[SIM_KEY_FABRIC_STATUS];
    f.health = set[SIM_KEY_FABRIC_HEALTH];
    return f;
}

static unsigned int health_field(unsigned int mask, unsigned int shift, unsigned int width_mask)
{
    return mask >> shift & width_mask;
}

static unsigned char summary_of(unsigned int mask)
{
    const unsigned int wrong =
        health_field(mask, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION, CONFIGURATION_FIELD);

    if (mask == 0)
        return NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED;
    if (wrong > NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE ||
        health_field(mask, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, HEALTH_FIELD) ==
            NVML_GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_TRUE)
        return NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY;
    if (health_field(mask, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, HEALTH_FIELD) ==
        NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE)
        return NVML_GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY;
    return NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY;
}

/* Boards before Hopper know no fabric; later ones without one say so in the state. */
static nvmlReturn_t enter_fabric(NvmlFn fn, nvmlDevice_t device, const void *out, NvmlCall *ret)
{
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU_NS, ret);

    if (r != NVML_SUCCESS)
        return r;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    return ret->board->arch >= NVML_DEVICE_ARCH_HOPPER || ret->board->has_fabric ? NVML_SUCCESS
                                                                                 : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_fabric(NVML_FN_nvmlDeviceGetGpuFabricInfo, device, info, &c);

    if (r != NVML_SUCCESS)
        return r;
    const Fabric f = fabric_of(&c);
    memset(info->clusterUuid, 0, sizeof info->clusterUuid);
    info->status = f.status;
    info->cliqueId = 0;
    info->state = f.state;
    return NVML_SUCCESS;
}

/* The third version is the second with a summary behind it. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetGpuFabricInfoV;
    const nvmlReturn_t r = enter_fabric(fn, device, info, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (info->version != nvmlGpuFabricInfo_v2 && info->version != nvmlGpuFabricInfo_v3)
        return nvml_check_tag(fn, info->version, nvmlGpuFabricInfo_v3);
    const Fabric f = fabric_of(&c);
    memset(info->clusterUuid, 0, sizeof info->clusterUuid);
    info->status = f.status;
    info->cliqueId = 0;
    info->state = f.state;
    info->healthMask = f.health;
    if (info->version == nvmlGpuFabricInfo_v3)
        info->healthSummary = summary_of(f.health);
    return NVML_SUCCESS;
}

/* ---- the rack ---- */

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetPlatformInfo;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU_NS, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != nvmlPlatformInfo_v1 && info->version != nvmlPlatformInfo_v2)
        return nvml_check_tag(fn, info->version, nvmlPlatformInfo_v2);
    /* Both versions have the same members in the same places; the first calls the serial a GUID. Captures of boards
     * that are in no rack (H100, H200, L40S, GeForce; 590 and later) show these numbers, and no serial. */
    *info = (nvmlPlatformInfo_t){.version = info->version, .hostId = 1, .moduleId = (unsigned char)c.id->module_id};
    return NVML_SUCCESS;
}
