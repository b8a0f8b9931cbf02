/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GPU is: names, numbers, versions, and the modes it is in. A MIG device has its own name and UUID and shares
 * brand, architecture and compute capability with its GPU.
 */
#include "sim/nvml/getter.h"

#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    NvmlCall c;
    char text[2 * NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetName, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!c.mig)
        return nvml_copy_text(name, length, c.board->name);
    const SimProfile *profile = &c.board->profiles[c.gi.profile];
    if (c.ci.size < profile->slices)
        snprintf(text, sizeof text, "%s MIG %uc.%s", c.board->name, c.ci.size, profile->name);
    else
        snprintf(text, sizeof text, "%s MIG %s", c.board->name, profile->name);
    return nvml_copy_text(name, length, text);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    NvmlCall c;
    char text[48];
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetUUID, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!c.mig)
        return nvml_copy_text(uuid, length, c.id->uuid);
    sim_mig_uuid(c.id, &c.gi, &c.ci, text);
    return nvml_copy_text(uuid, length, text);
}

NVML_GETTER_TEXT(nvmlDeviceGetSerial, NVML_TAKES_GPU, c.id->serial)
NVML_GETTER_TEXT(nvmlDeviceGetVbiosVersion, NVML_TAKES_GPU, c.board->vbios)
NVML_GETTER_TEXT(nvmlDeviceGetBoardPartNumber, NVML_TAKES_GPU, c.board->part_number)

/* ---- the info ROM ---- */

static int inforom_bad(const NvmlCall *c)
{
    return c->now->cond.set[SIM_KEY_INFOROM_BAD] != 0;
}

NVML_GETTER_TEXT(nvmlDeviceGetInforomImageVersion, NVML_TAKES_GPU, c.board->inforom_image)

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *version,
                                         unsigned int length)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetInforomVersion, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!version || (unsigned int)object >= NVML_INFOROM_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    const char *const texts[NVML_INFOROM_COUNT] = {
        [NVML_INFOROM_OEM] = c.board->inforom_oem,
        [NVML_INFOROM_ECC] = c.board->inforom_ecc,
        [NVML_INFOROM_POWER] = c.board->inforom_power,
        [NVML_INFOROM_DEN] = "",
    };
    if (!*texts[object] || strcmp(texts[object], "N/A") == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return nvml_copy_text(version, length, texts[object]);
}

nvmlReturn_t nvmlDeviceGetInforomConfigurationChecksum(nvmlDevice_t device, unsigned int *checksum)
{
    NvmlCall c;
    const nvmlReturn_t r =
        nvml_enter_device(NVML_FN_nvmlDeviceGetInforomConfigurationChecksum, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!checksum)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!*c.board->inforom_image)
        return NVML_ERROR_NOT_SUPPORTED;
    if (inforom_bad(&c))
        return NVML_ERROR_CORRUPTED_INFOROM;
    *checksum = (unsigned int)nvml_made_up(c.board->pci_subsystem_id, c.board->pci_device_id);
    return NVML_SUCCESS;
}

/* ---- the GSP firmware, since Turing ---- */

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetGspFirmwareVersion, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (c.board->arch < NVML_DEVICE_ARCH_TURING)
        return NVML_ERROR_NOT_SUPPORTED;
    return nvml_copy_text(version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, c.image->driver);
}

NVML_GETTER_PAIR(nvmlDeviceGetGspFirmwareMode, NVML_TAKES_GPU, unsigned int, c.board->arch >= NVML_DEVICE_ARCH_TURING,
                 1, 1)

/* ---- numbers ---- */

static unsigned int index_of(uint32_t gpu)
{
    for (uint32_t i = 0; i < nvml_visible_count(); i++)
        if (nvml_visible_gpu(i) == gpu)
            return i;
    return 0;
}

NVML_GETTER(nvmlDeviceGetIndex, NVML_TAKES_GPU, unsigned int, 1, index_of(c.gpu))
/* A second identifier of the device, 64 bits. */
NVML_GETTER_TAGGED(nvmlDeviceGetPdi, NVML_TAKES_GPU, nvmlPdi_t, nvmlPdi_v1, 1,
                   ((nvmlPdi_t){.version = nvmlPdi_v1, .value = nvml_made_up(c.image->seed, 16 + c.gpu)}))

NVML_GETTER(nvmlDeviceGetMinorNumber, NVML_TAKES_GPU, unsigned int, 1, c.id->minor)
NVML_GETTER(nvmlDeviceGetModuleId, NVML_TAKES_GPU, unsigned int, 1, c.id->module_id)
NVML_GETTER(nvmlDeviceGetBoardId, NVML_TAKES_GPU, unsigned int, 1, c.id->bus << 8 | c.id->device)
NVML_GETTER(nvmlDeviceGetMultiGpuBoard, NVML_TAKES_GPU, unsigned int, 1, 0)
NVML_GETTER(nvmlDeviceGetBrand, NVML_TAKES_ANY, nvmlBrandType_t, 1, c.board->brand)
NVML_GETTER(nvmlDeviceGetArchitecture, NVML_TAKES_ANY, nvmlDeviceArchitecture_t, 1, c.board->arch)
NVML_GETTER_PAIR(nvmlDeviceGetCudaComputeCapability, NVML_TAKES_ANY, int, 1, c.board->cc_major, c.board->cc_minor)
NVML_GETTER(nvmlDeviceGetNumGpuCores, NVML_TAKES_GPU, unsigned int, 1, (c.board->sm_count * c.board->cores_per_sm))

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int *on_same_board)
{
    NvmlCall c;
    nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceOnSameBoard, first, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!on_same_board || !nvml_handle_valid(second))
        return NVML_ERROR_INVALID_ARGUMENT;
    *on_same_board = first == second; /* every board carries one GPU */
    return NVML_SUCCESS;
}

/* ---- modes ---- */

NVML_GETTER(nvmlDeviceGetPersistenceMode, NVML_TAKES_GPU, nvmlEnableState_t, 1,
            c.now->cond.set[SIM_KEY_PERSISTENCE] != 0)
NVML_GETTER(nvmlDeviceGetComputeMode, NVML_TAKES_GPU, nvmlComputeMode_t, 1, c.now->cond.set[SIM_KEY_COMPUTE_MODE])
NVML_GETTER(nvmlDeviceGetDisplayMode, NVML_TAKES_GPU, nvmlEnableState_t, 1, NVML_FEATURE_DISABLED)
NVML_GETTER(nvmlDeviceGetDisplayActive, NVML_TAKES_GPU, nvmlEnableState_t, 1, NVML_FEATURE_DISABLED)
/* Driver models are Windows'. Either pointer may be NULL. */
static nvmlReturn_t no_driver_model(NvmlFn fn, nvmlDevice_t device, const void *current, const void *pending)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    return current || pending ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending)
{
    return no_driver_model(NVML_FN_nvmlDeviceGetDriverModel, device, current, pending);
}

nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending)
{
    return no_driver_model(NVML_FN_nvmlDeviceGetDriverModel_v2, device, current, pending);
}

/* Only Kepler could switch parts of itself off. */
NVML_GETTER_PAIR(nvmlDeviceGetGpuOperationMode, NVML_TAKES_GPU, nvmlGpuOperationMode_t,
                 c.board->arch <= NVML_DEVICE_ARCH_KEPLER, c.now->cond.set[SIM_KEY_GOM_PENDING],
                 c.now->cond.set[SIM_KEY_GOM_PENDING])

nvmlReturn_t nvmlDeviceGetAPIRestriction(nvmlDevice_t device, nvmlRestrictedAPI_t api, nvmlEnableState_t *restricted)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetAPIRestriction, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!restricted || (unsigned int)api >= NVML_RESTRICTED_API_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (api == NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS && c.board->arch > NVML_DEVICE_ARCH_MAXWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    const SimKey key =
        api == NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS ? SIM_KEY_API_AUTO_BOOST : SIM_KEY_API_APP_CLOCKS;
    *restricted = c.now->cond.set[key] ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

/* ---- the machine around it ---- */

/* A name that an operator may give a GPU; not the node's. Nobody has given one: all captures show N/A. */
NVML_GETTER_STRUCT(nvmlDeviceGetHostname_v1, NVML_TAKES_GPU, nvmlHostname_v1_t, 0, (nvmlHostname_v1_t){{0}})

NVML_GETTER_TAGGED(nvmlDeviceGetAddressingMode, NVML_TAKES_GPU, nvmlDeviceAddressingMode_t, nvmlDeviceAddressingMode_v1,
                   1,
                   ((nvmlDeviceAddressingMode_t){.version = nvmlDeviceAddressingMode_v1,
                                                 .value = c.board->addressing_mode}))

NVML_GETTER_STRUCT(nvmlDeviceGetC2cModeInfoV, NVML_TAKES_GPU, nvmlC2cModeInfo_v1_t,
                   c.board->arch >= NVML_DEVICE_ARCH_HOPPER, (nvmlC2cModeInfo_v1_t){.isC2cEnabled = c.board->has_c2c})
