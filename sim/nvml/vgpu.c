/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual GPUs: a simulated node is bare metal and has none, so there is nothing to license. All other functions of
 * this family are generated stubs.
 */
#include <string.h>

#include "sim/nvml/lib.h"

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetVirtualizationMode, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!mode)
        return NVML_ERROR_INVALID_ARGUMENT;
    *mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
    return NVML_SUCCESS;
}

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
