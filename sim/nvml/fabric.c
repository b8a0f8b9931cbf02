/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVLink fabric a GPU registered with, and the place of its module in the rack.
 */
#include "sim/nvml/getter.h"

#include <stdio.h>
#include <string.h>

enum { CLIQUES = 32766, HEALTH_FIELD = 3, CONFIGURATION_FIELD = 15 };

typedef struct Fabric {
    unsigned char cluster[16];
    nvmlReturn_t status;
    unsigned int clique, health;
    nvmlGpuFabricState_t state;
} Fabric;

static void made_up_bytes(uint64_t seed, unsigned char out[16])
{
    for (unsigned int i = 0; i < 2; i++) {
        const uint64_t word = nvml_made_up(seed, i);
        memcpy(out + 8 * i, &word, sizeof word);
    }
}

/* Cluster and clique are known once registration is over; all GPUs of the node are in the same. */
static Fabric fabric_of(const NvmlCall *c)
{
    const uint32_t *set = c->now->cond.set;
    Fabric f = {.status = NVML_SUCCESS, .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};

    if (!c->board->has_fabric)
        return f;
    f.state = (nvmlGpuFabricState_t)set[SIM_KEY_FABRIC_STATE];
    f.status = (nvmlReturn_t)set[SIM_KEY_FABRIC_STATUS];
    f.health = set[SIM_KEY_FABRIC_HEALTH];
    if (f.state == NVML_GPU_FABRIC_STATE_COMPLETED) {
        made_up_bytes(c->image->seed, f.cluster);
        f.clique = (unsigned int)(nvml_made_up(c->image->seed, 2) % CLIQUES) + 1;
    }
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
    memcpy(info->clusterUuid, f.cluster, sizeof info->clusterUuid);
    info->status = f.status;
    info->cliqueId = f.clique;
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
    memcpy(info->clusterUuid, f.cluster, sizeof info->clusterUuid);
    info->status = f.status;
    info->cliqueId = f.clique;
    info->state = f.state;
    info->healthMask = f.health;
    if (info->version == nvmlGpuFabricInfo_v3)
        info->healthSummary = summary_of(f.health);
    return NVML_SUCCESS;
}

/* ---- the rack ---- */

enum { PEER_SWITCH = 1 };

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
    if (!c.board->has_fabric || c.board->arch < NVML_DEVICE_ARCH_BLACKWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    /* Both versions have the same members in the same places; the first calls the serial a GUID. */
    *info = (nvmlPlatformInfo_t){.version = info->version,
                                 .slotNumber = 1,
                                 .trayIndex = 0,
                                 .hostId = 1,
                                 .peerType = PEER_SWITCH,
                                 .moduleId = (unsigned char)c.id->module_id};
    made_up_bytes(nvml_made_up(c.image->seed, 16 + c.gpu), info->ibGuid);
    char serial[sizeof info->chassisSerialNumber + 1];
    snprintf(serial, sizeof serial, "18%011llu",
             (unsigned long long)(nvml_made_up(c.image->seed, 3) % 100000000000ull));
    memcpy(info->chassisSerialNumber, serial, strlen(serial));
    return NVML_SUCCESS;
}
