/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU is and how it is set up. */
#include "sim/smi/get.h"

#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/owner.h"

/* The member of `nvml` at offset `arg`; GET_CALL has checked its type. */
#define CALL_AT(type, arg) (*(type *const *)(const void *)((const char *)&nvml + (arg)))

void get_none(const Subject *of, int arg, Value *ret)
{
    (void)of;
    (void)arg;
    value_error(ret, NVML_ERROR_NOT_SUPPORTED);
}

void get_uint(const Subject *of, int arg, Value *ret)
{
    GetUintCall *call = CALL_AT(GetUintCall, arg);
    unsigned int number = 0;
    nvmlReturn_t rc = call ? call(of->gpu->handle, &number) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_uint(ret, rc, number);
}

void get_watt(const Subject *of, int arg, Value *ret)
{
    GetUintCall *call = CALL_AT(GetUintCall, arg);
    unsigned int number = 0;
    nvmlReturn_t rc = call ? call(of->gpu->handle, &number) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_watt(ret, rc, number);
}

void get_hex(const Subject *of, int arg, Value *ret)
{
    GetUintCall *call = CALL_AT(GetUintCall, arg);
    unsigned int number = 0;
    nvmlReturn_t rc = call ? call(of->gpu->handle, &number) : NVML_ERROR_FUNCTION_NOT_FOUND;

    if (rc == NVML_SUCCESS)
        value_text(ret, "0x%x", number);
    else
        value_error(ret, rc);
}

void get_text(const Subject *of, int arg, Value *ret)
{
    GetTextCall *call = CALL_AT(GetTextCall, arg);

    ret->text[0] = '\0';
    ret->rc = call ? call(of->gpu->handle, ret->text, 96) : NVML_ERROR_FUNCTION_NOT_FOUND;
}

void get_enabled(const Subject *of, int arg, Value *ret)
{
    GetEnableCall *call = CALL_AT(GetEnableCall, arg);
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;
    nvmlReturn_t rc = call ? call(of->gpu->handle, &state) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_enabled(ret, rc, state);
}

void get_engine(const Subject *of, int arg, Value *ret)
{
    GetEngineCall *call = CALL_AT(GetEngineCall, arg);
    unsigned int percent = 0, period_us = 0;
    nvmlReturn_t rc = call ? call(of->gpu->handle, &percent, &period_us) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_uint(ret, rc, percent);
}

void get_timestamp(const Subject *of, int arg, Value *ret)
{
    struct timeval now;
    struct tm local;
    char text[32];

    (void)of;
    (void)arg;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &local);
    value_text(ret, "%s.%03d", text, (int)(now.tv_usec / 1000));
}

void get_driver_version(const Subject *of, int arg, Value *ret)
{
    (void)of;
    (void)arg;
    ret->text[0] = '\0';
    ret->rc = NV(SystemGetDriverVersion, ret->text, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
}

void get_count(const Subject *of, int arg, Value *ret)
{
    (void)arg;
    value_uint(ret, NVML_SUCCESS, of->gpu->total);
}

void get_index(const Subject *of, int arg, Value *ret)
{
    (void)arg;
    value_uint(ret, NVML_SUCCESS, of->gpu->index);
}

void get_cuda_cap(const Subject *of, int arg, Value *ret)
{
    int major = 0, minor = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetCudaComputeCapability, of->gpu->handle, &major, &minor);
    if (rc == NVML_SUCCESS)
        value_text(ret, "%d.%d", major, minor);
    else
        value_error(ret, rc);
}

void get_brand(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"Unknown",
                                        "Quadro",
                                        "Tesla",
                                        "NVS",
                                        "Grid",
                                        "GeForce",
                                        "Titan",
                                        "NVIDIA Virtual Applications",
                                        "NVIDIA Virtual PC",
                                        "NVIDIA Virtual Compute Server",
                                        "NVIDIA RTX Virtual Workstation",
                                        "NVIDIA Cloud Gaming",
                                        "Quadro RTX",
                                        "NVIDIA RTX",
                                        "NVIDIA",
                                        "GeForce RTX",
                                        "Titan RTX"};
    nvmlBrandType_t brand = NVML_BRAND_UNKNOWN;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetBrand, of->gpu->handle, &brand);
    value_word(ret, rc, brand, words, ARRAY_LEN(words));
}

void get_arch(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {
        [NVML_DEVICE_ARCH_KEPLER] = "Kepler",       [NVML_DEVICE_ARCH_MAXWELL] = "Maxwell",
        [NVML_DEVICE_ARCH_PASCAL] = "Pascal",       [NVML_DEVICE_ARCH_VOLTA] = "Volta",
        [NVML_DEVICE_ARCH_TURING] = "Turing",       [NVML_DEVICE_ARCH_AMPERE] = "Ampere",
        [NVML_DEVICE_ARCH_ADA] = "Ada Lovelace",    [NVML_DEVICE_ARCH_HOPPER] = "Hopper",
        [NVML_DEVICE_ARCH_BLACKWELL] = "Blackwell", [NVML_DEVICE_ARCH_RUBIN] = "Rubin",
    };
    nvmlDeviceArchitecture_t arch = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetArchitecture, of->gpu->handle, &arch);
    value_word(ret, rc, arch, words, ARRAY_LEN(words));
}

void get_addressing(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"None", "HMM", "ATS"};
    nvmlDeviceAddressingMode_t mode = {.version = NVML_STRUCT_TAG(nvmlDeviceAddressingMode_t, 1)};

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetAddressingMode, of->gpu->handle, &mode);
    value_word(ret, rc, mode.value, words, ARRAY_LEN(words));
}

/* No call of its own: a board with a display mode says it there, the others by an active display. */
void get_display_attached(const Subject *of, int arg, Value *ret)
{
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetDisplayMode, of->gpu->handle, &state);
    if (rc != NVML_SUCCESS)
        rc = NV(DeviceGetDisplayActive, of->gpu->handle, &state);
    value_yes(ret, rc, state);
}

void get_multi_gpu(const Subject *of, int arg, Value *ret)
{
    unsigned int multi = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetMultiGpuBoard, of->gpu->handle, &multi);
    value_yes(ret, rc, multi);
}

void get_inforom(const Subject *of, int arg, Value *ret)
{
    ret->text[0] = '\0';
    ret->rc = NV(DeviceGetInforomVersion, of->gpu->handle, (nvmlInforomObject_t)arg, ret->text,
                 NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE);
}

void get_checksum(const Subject *of, int arg, Value *ret)
{
    (void)arg;
    nvmlReturn_t rc = NV(DeviceValidateInforom, of->gpu->handle);
    if (rc == NVML_SUCCESS || rc == NVML_ERROR_CORRUPTED_INFOROM)
        value_text(ret, "%s", rc == NVML_SUCCESS ? "valid" : "invalid");
    else
        value_error(ret, rc);
}

void get_gom(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"All On", "Compute", "Low Double Precision"};
    nvmlGpuOperationMode_t mode[2] = {NVML_GOM_ALL_ON, NVML_GOM_ALL_ON};
    nvmlReturn_t rc = NV(DeviceGetGpuOperationMode, of->gpu->handle, &mode[0], &mode[1]);

    value_word(ret, rc, mode[arg], words, ARRAY_LEN(words));
}

void get_driver_model(const Subject *of, int arg, Value *ret)
{
    get_none(of, arg, ret); /* other operating systems only */
}

void get_recovery(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"None",      "Reset",           "Reboot",
                                        "Drain P2P", "Drain and Reset", "Recover IMEX Domain"};
    nvmlFieldValue_t field;

    (void)arg;
    nvmlReturn_t rc = gpu_field(of->gpu, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0, &field);
    value_word(ret, rc, rc == NVML_SUCCESS ? (unsigned long long)gpu_field_number(&field) : 0, words, ARRAY_LEN(words));
}

void get_virtualization(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"};
    nvmlGpuVirtualizationMode_t mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetVirtualizationMode, of->gpu->handle, &mode);
    value_word(ret, rc, mode, words, ARRAY_LEN(words));
}

void get_gsp(const Subject *of, int arg, Value *ret)
{
    (void)arg;
    ret->text[0] = '\0';
    ret->rc = NV(DeviceGetGspFirmwareVersion, of->gpu->handle, ret->text);
}

void get_gsp_mode(const Subject *of, int arg, Value *ret)
{
    unsigned int mode[2] = {0, 0};
    nvmlReturn_t rc = NV(DeviceGetGspFirmwareMode, of->gpu->handle, &mode[0], &mode[1]);

    value_enabled(ret, rc, mode[arg] != 0);
}

void get_c2c(const Subject *of, int arg, Value *ret)
{
    nvmlC2cModeInfo_v1_t mode = {0};

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetC2cModeInfoV, of->gpu->handle, &mode);
    value_enabled(ret, rc, mode.isC2cEnabled);
}

void get_compute_mode(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
    nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetComputeMode, of->gpu->handle, &mode);
    value_word(ret, rc, mode, words, ARRAY_LEN(words));
}

void get_mig_mode(const Subject *of, int arg, Value *ret)
{
    unsigned int mode[2] = {0, 0};
    nvmlReturn_t rc = NV(DeviceGetMigMode, of->gpu->handle, &mode[0], &mode[1]);

    value_enabled(ret, rc, mode[arg]);
}

void get_platform(const Subject *of, int arg, Value *ret)
{
    static const char *const peers[] = {"Direct Connected", "Switch Connected"};
    const nvmlPlatformInfo_t *info;
    unsigned int module = 0;
    nvmlReturn_t rc = gpu_platform(of->gpu, &info);
    const unsigned int numbers[] = {[PLATFORM_SLOT] = info->slotNumber,
                                    [PLATFORM_TRAY] = info->trayIndex,
                                    [PLATFORM_HOST] = info->hostId,
                                    [PLATFORM_MODULE] = info->moduleId};

    if (rc != NVML_SUCCESS && arg == PLATFORM_MODULE) {
        rc = NV(DeviceGetModuleId, of->gpu->handle, &module);
        value_uint(ret, rc, module);
    } else if (rc != NVML_SUCCESS) {
        value_error(ret, rc);
    } else if (arg == PLATFORM_CHASSIS) {
        value_text(ret, "%.*s", (int)sizeof(info->chassisSerialNumber), (const char *)info->chassisSerialNumber);
    } else if (arg == PLATFORM_PEER) {
        value_word(ret, rc, info->peerType, peers, ARRAY_LEN(peers));
    } else if (arg == PLATFORM_GUID) {
        unsigned long long guid;
        memcpy(&guid, info->ibGuid, sizeof(guid));
        value_text(ret, "0x%016llx", guid);
    } else {
        value_uint(ret, rc, numbers[arg]);
    }
}

void get_hostname(const Subject *of, int arg, Value *ret)
{
    nvmlHostname_v1_t name = {0};

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetHostname_v1, of->gpu->handle, &name);
    if (rc == NVML_SUCCESS && !name.value[0])
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        value_text(ret, "%.*s", (int)sizeof(name.value), name.value);
    else
        value_error(ret, rc);
}

void get_dram_encryption(const Subject *of, int arg, Value *ret)
{
    nvmlDramEncryptionInfo_t mode[2] = {{.version = NVML_STRUCT_TAG(nvmlDramEncryptionInfo_t, 1)},
                                        {.version = NVML_STRUCT_TAG(nvmlDramEncryptionInfo_t, 1)}};
    nvmlReturn_t rc = NV(DeviceGetDramEncryptionMode, of->gpu->handle, &mode[0], &mode[1]);

    value_enabled(ret, rc, mode[arg].encryptionState);
}

/* Memory of the CPU that other nodes reach: no simulated board has it on. */
void get_egm(const Subject *of, int arg, Value *ret)
{
    (void)of;
    (void)arg;
    value_text(ret, "disabled");
}
