/* SPDX-License-Identifier: Apache-2.0 */
/* The readings of a GPU as text: the columns of --query-gpu, the table and the XML are made from them. */
#include "sim/smi/smi.h"

#include <sys/time.h>
#include <time.h>

#include "base/cleanup.h"

/* The member of `nvml` at offset `arg`; GET_CALL has checked its type. */
#define CALL_AT(type, arg) (*(type *const *)(const void *)((const char *)&nvml + (arg)))

void get_uint(Gpu *gpu, int arg, Value *ret)
{
    GetUintCall *call = CALL_AT(GetUintCall, arg);
    unsigned int number = 0;
    nvmlReturn_t rc = call ? call(gpu->handle, &number) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_uint(ret, rc, number);
}

void get_watt(Gpu *gpu, int arg, Value *ret)
{
    GetUintCall *call = CALL_AT(GetUintCall, arg);
    unsigned int number = 0;
    nvmlReturn_t rc = call ? call(gpu->handle, &number) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_watt(ret, rc, number);
}

void get_text(Gpu *gpu, int arg, Value *ret)
{
    GetTextCall *call = CALL_AT(GetTextCall, arg);

    ret->text[0] = '\0';
    ret->rc = call ? call(gpu->handle, ret->text, 96) : NVML_ERROR_FUNCTION_NOT_FOUND;
}

void get_enabled(Gpu *gpu, int arg, Value *ret)
{
    GetEnableCall *call = CALL_AT(GetEnableCall, arg);
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;
    nvmlReturn_t rc = call ? call(gpu->handle, &state) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_enabled(ret, rc, state);
}

void get_engine(Gpu *gpu, int arg, Value *ret)
{
    GetEngineCall *call = CALL_AT(GetEngineCall, arg);
    unsigned int percent = 0, period_us = 0;
    nvmlReturn_t rc = call ? call(gpu->handle, &percent, &period_us) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_uint(ret, rc, percent);
}

void get_timestamp(Gpu *gpu, int arg, Value *ret)
{
    struct timeval now;
    struct tm local;
    char text[32];

    (void)gpu;
    (void)arg;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &local);
    value_text(ret, "%s.%03d", text, (int)(now.tv_usec / 1000));
}

void get_driver_version(Gpu *gpu, int arg, Value *ret)
{
    (void)gpu;
    (void)arg;
    ret->text[0] = '\0';
    ret->rc = NV(SystemGetDriverVersion, ret->text, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
}

void get_count(Gpu *gpu, int arg, Value *ret)
{
    (void)arg;
    value_uint(ret, NVML_SUCCESS, gpu->total);
}

void get_index(Gpu *gpu, int arg, Value *ret)
{
    (void)arg;
    value_uint(ret, NVML_SUCCESS, gpu->index);
}

void get_arch(Gpu *gpu, int arg, Value *ret)
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
    nvmlReturn_t rc = NV(DeviceGetArchitecture, gpu->handle, &arch);
    value_word(ret, rc, arch, words, ARRAY_LEN(words));
}

void get_inforom(Gpu *gpu, int arg, Value *ret)
{
    ret->text[0] = '\0';
    ret->rc = NV(DeviceGetInforomVersion, gpu->handle, (nvmlInforomObject_t)arg, ret->text,
                 NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE);
}

void get_recovery(Gpu *gpu, int arg, Value *ret)
{
    static const char *const words[] = {"None",      "Reset",           "Reboot",
                                        "Drain P2P", "Drain and Reset", "Recover IMEX Domain"};
    nvmlFieldValue_t field;

    (void)arg;
    nvmlReturn_t rc = gpu_field(gpu, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, &field);
    value_word(ret, rc, rc == NVML_SUCCESS ? (unsigned long long)gpu_field_number(&field) : 0, words, ARRAY_LEN(words));
}

void get_compute_mode(Gpu *gpu, int arg, Value *ret)
{
    static const char *const words[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
    nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetComputeMode, gpu->handle, &mode);
    value_word(ret, rc, mode, words, ARRAY_LEN(words));
}

void get_mig_mode(Gpu *gpu, int arg, Value *ret)
{
    unsigned int mode[2] = {0, 0};
    nvmlReturn_t rc = NV(DeviceGetMigMode, gpu->handle, &mode[0], &mode[1]);

    value_enabled(ret, rc, mode[arg]);
}

void get_utilization(Gpu *gpu, int arg, Value *ret)
{
    nvmlUtilization_t rates = {0};
    nvmlReturn_t rc = NV(DeviceGetUtilizationRates, gpu->handle, &rates);

    value_uint(ret, rc, arg ? rates.memory : rates.gpu);
}

void get_pstate(Gpu *gpu, int arg, Value *ret)
{
    nvmlPstates_t state = NVML_PSTATE_UNKNOWN;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetPerformanceState, gpu->handle, &state);
    if (rc == NVML_SUCCESS && state == NVML_PSTATE_UNKNOWN)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        value_text(ret, "P%d", (int)state);
    else
        value_error(ret, rc);
}

void get_reasons(Gpu *gpu, int arg, Value *ret)
{
    unsigned long long active = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetCurrentClocksThrottleReasons, gpu->handle, &active);
    if (rc != NVML_SUCCESS)
        value_error(ret, rc);
    else
        value_text(ret, "0x%016llX", active);
}

static void read_clock(Gpu *gpu, GetClockCall *call, int arg, Value *ret)
{
    unsigned int mhz = 0;
    nvmlReturn_t rc = call ? call(gpu->handle, (nvmlClockType_t)arg, &mhz) : NVML_ERROR_FUNCTION_NOT_FOUND;

    value_uint(ret, rc, mhz);
}

void get_clock(Gpu *gpu, int arg, Value *ret)
{
    read_clock(gpu, nvml.DeviceGetClockInfo, arg, ret);
}

void get_max_clock(Gpu *gpu, int arg, Value *ret)
{
    read_clock(gpu, nvml.DeviceGetMaxClockInfo, arg, ret);
}

/* arg 0: the lowest limit that may be set; 1: the highest. */
void get_limit(Gpu *gpu, int arg, Value *ret)
{
    unsigned int limit[2] = {0, 0};
    nvmlReturn_t rc = NV(DeviceGetPowerManagementLimitConstraints, gpu->handle, &limit[0], &limit[1]);

    value_watt(ret, rc, limit[arg]);
}

void get_temperature(Gpu *gpu, int arg, Value *ret)
{
    unsigned int celsius = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetTemperature, gpu->handle, NVML_TEMPERATURE_GPU, &celsius);
    value_uint(ret, rc, celsius);
}

void get_field_int(Gpu *gpu, int arg, Value *ret)
{
    nvmlFieldValue_t field;
    nvmlReturn_t rc = gpu_field(gpu, (unsigned int)arg, &field);

    if (rc == NVML_SUCCESS)
        value_text(ret, "%.0f", gpu_field_number(&field));
    else
        value_error(ret, rc);
}

void get_ecc_mode(Gpu *gpu, int arg, Value *ret)
{
    nvmlEnableState_t mode[2] = {NVML_FEATURE_DISABLED, NVML_FEATURE_DISABLED};
    nvmlReturn_t rc = NV(DeviceGetEccMode, gpu->handle, &mode[0], &mode[1]);

    value_enabled(ret, rc, mode[arg]);
}

void get_ecc(Gpu *gpu, int arg, Value *ret)
{
    unsigned long long count = 0;
    nvmlReturn_t rc = NV(DeviceGetTotalEccErrors, gpu->handle, (nvmlMemoryErrorType_t)(arg >> 8),
                         (nvmlEccCounterType_t)(arg & 255), &count);

    value_uint(ret, rc, count);
}

void get_retired(Gpu *gpu, int arg, Value *ret)
{
    unsigned int count = 0;
    nvmlReturn_t rc = NV(DeviceGetRetiredPages_v2, gpu->handle, (nvmlPageRetirementCause_t)arg, &count, NULL, NULL);

    value_uint(ret, rc == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : rc, count);
}

void get_remapped(Gpu *gpu, int arg, Value *ret)
{
    unsigned int parts[4] = {0};
    nvmlReturn_t rc = NV(DeviceGetRemappedRows, gpu->handle, &parts[REMAP_COR], &parts[REMAP_UNC],
                         &parts[REMAP_PENDING], &parts[REMAP_FAILURE]);

    if (arg == REMAP_PENDING || arg == REMAP_FAILURE)
        value_yes(ret, rc, parts[arg]);
    else
        value_uint(ret, rc, parts[arg]);
}

void get_memory(Gpu *gpu, int arg, Value *ret)
{
    nvmlReturn_t rc = gpu_read_memory(gpu);
    const nvmlMemory_v2_t *memory = &gpu->memory;
    const unsigned long long parts[] = {[MEMORY_TOTAL] = memory->total,
                                        [MEMORY_RESERVED] = memory->reserved,
                                        [MEMORY_USED] = memory->used,
                                        [MEMORY_FREE] = memory->free};

    value_mib(ret, rc, parts[arg]);
}

void get_bar1(Gpu *gpu, int arg, Value *ret)
{
    nvmlBAR1Memory_t memory = {0};
    nvmlReturn_t rc = NV(DeviceGetBAR1MemoryInfo, gpu->handle, &memory);
    const unsigned long long parts[] = {
        [MEMORY_TOTAL] = memory.bar1Total, [MEMORY_USED] = memory.bar1Used, [MEMORY_FREE] = memory.bar1Free};

    value_mib(ret, rc, parts[arg]);
}

/* Boards before Ampere have no mean: there the plain reading is the instant one. */
static nvmlReturn_t read_old_instant(Gpu *gpu, nvmlFieldValue_t *field)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (gpu_field(gpu, NVML_FI_DEV_POWER_AVERAGE, &(nvmlFieldValue_t){0}) == NVML_SUCCESS)
        return NVML_ERROR_NOT_SUPPORTED;
    return NV(DeviceGetPowerUsage, gpu->handle, &field->value.uiVal);
}

void get_power_field(Gpu *gpu, int arg, Value *ret)
{
    nvmlFieldValue_t field;
    nvmlReturn_t rc = gpu_field(gpu, (unsigned int)arg, &field);

    if (rc == NVML_ERROR_NOT_SUPPORTED && arg == NVML_FI_DEV_POWER_INSTANT)
        rc = read_old_instant(gpu, &field);
    value_watt(ret, rc, rc == NVML_SUCCESS ? (unsigned int)gpu_field_number(&field) : 0);
}

void get_bus_id(Gpu *gpu, int arg, Value *ret)
{
    nvmlPciInfo_t pci = {0};

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetPciInfo_v3, gpu->handle, &pci);
    if (rc == NVML_SUCCESS)
        value_text(ret, "%s", pci.busId);
    else
        value_error(ret, rc);
}

void get_pcie_rate(Gpu *gpu, int arg, Value *ret)
{
    unsigned int rate = 0;
    nvmlReturn_t rc = NV(DeviceGetPcieThroughput, gpu->handle, (nvmlPcieUtilCounter_t)arg, &rate);

    value_uint(ret, rc, rate);
}
