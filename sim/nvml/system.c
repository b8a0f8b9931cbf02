/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the node and not of a device: versions, error texts, counting and finding devices, excluded devices.
 */
#include <stdio.h>
#include <string.h>

#include "sim/nvml/getter.h"

/* Texts of driver 535; what lies behind them came later and is unknown to it. */
static const char *const error_texts[] = {
    [NVML_SUCCESS] = "Success",
    [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
    [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
    [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
    [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
    [NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
    [NVML_ERROR_NOT_FOUND] = "Not Found",
    [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
    [NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
    [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
    [NVML_ERROR_TIMEOUT] = "Timeout",
    [NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
    [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
    [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
    [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
    [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
    [NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
    [NVML_ERROR_OPERATING_SYSTEM] = "GPU access blocked by the operating system",
    [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
    [NVML_ERROR_IN_USE] = "In use by another client",
    [NVML_ERROR_MEMORY] = "Insufficient Memory",
    [NVML_ERROR_NO_DATA] = "No data",
    [NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "vGPU ECC not supported",
    [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
    [NVML_ERROR_FREQ_NOT_SUPPORTED] = "Invalid Frequency",
    [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument version mismatch",
    [NVML_ERROR_DEPRECATED] = "Requested functionality has been deprecated",
    [NVML_ERROR_NOT_READY] = "System is not in ready state",
    [NVML_ERROR_GPU_NOT_FOUND] = "GPU Not Found",
    [NVML_ERROR_INVALID_STATE] = "Invalid State",
    [NVML_ERROR_RESET_TYPE_NOT_SUPPORTED] = "Reset Type Not Supported",
};

const char *nvmlErrorString(nvmlReturn_t result)
{
    const unsigned int known =
        nvml_library_generation >= 590 ? NVML_ERROR_RESET_TYPE_NOT_SUPPORTED : NVML_ERROR_NOT_READY;

    return (unsigned int)result <= known ? error_texts[result] : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlSystemGetDriverVersion, &image);

    return r != NVML_SUCCESS ? r : nvml_copy_text(version, length, image->driver);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];

    nvml_version_text(text, sizeof text);
    return nvml_copy_text(version, length, text);
}

static nvmlReturn_t cuda_version(NvmlFn fn, int *version)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (fn == NVML_FN_nvmlSystemGetCudaDriverVersion_v2 && nvml_process.no_libcuda)
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    *version = (int)image->cuda_version;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(NVML_FN_nvmlSystemGetCudaDriverVersion, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(NVML_FN_nvmlSystemGetCudaDriverVersion_v2, version);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *info, unsigned int length)
{
    SimImage *image;
    unsigned int major = 0, minor = 0;
    char branch[32];
    nvmlReturn_t r = nvml_enter(NVML_FN_nvmlSystemGetDriverBranch, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(NVML_FN_nvmlSystemGetDriverBranch, info->version, nvmlSystemDriverBranchInfo_v1);
    if (r != NVML_SUCCESS)
        return r;
    if (sscanf(image->driver, "%u.%u", &major, &minor) < 1)
        return NVML_ERROR_UNKNOWN;
    snprintf(branch, sizeof branch, "r%u_%02u", major, minor);
    return nvml_copy_text(info->branch, length < sizeof info->branch ? length : sizeof info->branch, branch);
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *count, nvmlHwbcEntry_t *entries)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlSystemGetHicVersion, &image);

    (void)entries; /* host interface cards belong to S-class units, which no node has */
    if (r != NVML_SUCCESS)
        return r;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetNvlinkBwMode(unsigned int *mode)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlSystemGetNvlinkBwMode, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!mode)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_visible_count(); i++) {
        const SimBoard *board = &image->boards[image->gpus[nvml_visible_gpu(i)].board];
        if (board->arch < NVML_DEVICE_ARCH_HOPPER || board->link_count == 0)
            return NVML_ERROR_NOT_SUPPORTED;
    }
    *mode = 0; /* full bandwidth */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlSystemGetConfComputeState, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!state)
        return NVML_ERROR_INVALID_ARGUMENT;
    *state = (nvmlConfComputeSystemState_t){0};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings)
{
    const NvmlFn fn = NVML_FN_nvmlSystemGetConfComputeSettings;
    SimImage *image;
    nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!settings)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(fn, settings->version, nvmlSystemConfComputeSettings_v1);
    if (r != NVML_SUCCESS)
        return r;
    *settings = (nvmlSystemConfComputeSettings_t){.version = nvmlSystemConfComputeSettings_v1};
    return NVML_SUCCESS;
}

/* ---- excluded devices: none ---- */

static nvmlReturn_t excluded_count(NvmlFn fn, unsigned int *count)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t excluded_info(NvmlFn fn)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(fn, &image);

    return r != NVML_SUCCESS ? r : NVML_ERROR_INVALID_ARGUMENT; /* no index is below the count */
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
    return excluded_count(NVML_FN_nvmlGetExcludedDeviceCount, count);
}

nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count)
{
    return excluded_count(NVML_FN_nvmlGetBlacklistDeviceCount, count);
}

nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info)
{
    (void)index;
    (void)info;
    return excluded_info(NVML_FN_nvmlGetExcludedDeviceInfoByIndex);
}

nvmlReturn_t nvmlGetBlacklistDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info)
{
    (void)index;
    (void)info;
    return excluded_info(NVML_FN_nvmlGetBlacklistDeviceInfoByIndex);
}

/* --- units ------------------------------------------------------------------------------------------------------- */

/* S-class units: no node has one, so the count is 0 and every other nvmlUnit* is a generated refusal. */

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlUnitGetCount, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

/* --- virtual GPUs ------------------------------------------------------------------------------------------------ */

/*
 * Virtual GPUs: a simulated node is bare metal and has none, so there is nothing to license. All other functions of
 * this family are generated stubs.
 */

NVML_GETTER(nvmlDeviceGetVirtualizationMode, NVML_TAKES_GPU, nvmlGpuVirtualizationMode_t, 1,
            NVML_GPU_VIRTUALIZATION_MODE_NONE)

/* The structs of the four versions differ in the length of their features: only their common head is written. */
static nvmlReturn_t no_features(NvmlFn fn, nvmlDevice_t device, void *out)
{
    static const nvmlGridLicensableFeaturesHead_t none;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    memcpy(out, &none, sizeof none);
    return NVML_SUCCESS;
}

#define FEATURES(name, type)                                                                                           \
    nvmlReturn_t name(nvmlDevice_t device, type *features)                                                             \
    {                                                                                                                  \
        return no_features(NVML_FN_##name, device, features);                                                          \
    }
FEATURES(nvmlDeviceGetGridLicensableFeatures, nvmlGridLicensableFeaturesHead_t)
FEATURES(nvmlDeviceGetGridLicensableFeatures_v2, nvmlGridLicensableFeaturesHead_t)
FEATURES(nvmlDeviceGetGridLicensableFeatures_v3, nvmlGridLicensableFeaturesHead_t)
FEATURES(nvmlDeviceGetGridLicensableFeatures_v4, nvmlGridLicensableFeatures_t)
