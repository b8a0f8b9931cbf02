/* SPDX-License-Identifier: Apache-2.0 */
/* Options that change a GPU. */
#include "sim/smi/set.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/owner.h"
#include "sim/smi/value.h"

typedef struct Word {
    const char *word;
    unsigned int number;
} Word;

/* "1" or one of the words. */
static bool read_word(const char *text, const Word *words, size_t count, unsigned int *ret)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(text, words[i].word) == 0 || (*text && !*end && number == words[i].number)) {
            *ret = words[i].number;
            return true;
        }
    }
    printf("\"%s\" is not a valid value here.\n", text);
    return false;
}

static bool read_switch(const char *text, unsigned int *ret)
{
    static const Word words[] = {{"DISABLED", 0}, {"ENABLED", 1}};

    return read_word(text, words, ARRAY_LEN(words), ret);
}

static const char *enabled(unsigned int on)
{
    return on ? "Enabled" : "Disabled";
}

/* Prints the line for a success, a warning for what the board lacks (which then counts as success), or the error. */
PRINTF_LIKE(4, 5)
static nvmlReturn_t told(const Gpu *gpu, nvmlReturn_t rc, const char *what, const char *fmt, ...)
{
    va_list args;

    if (rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_DEPRECATED) {
        printf("Setting %s is not supported for GPU %s.\nTreating as warning and moving on.\n", what, gpu->bus_id);
        return NVML_SUCCESS;
    }
    if (rc != NVML_SUCCESS) {
        printf("Unable to set %s for GPU %s: %s\n", what, gpu->bus_id, nvml_error_text(rc));
        return rc;
    }
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    return NVML_SUCCESS;
}

static nvmlReturn_t set_persistence(Gpu *gpu, const char *value)
{
    unsigned int on;

    if (!read_switch(value, &on))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetPersistenceMode, gpu->handle, (nvmlEnableState_t)on);
    return told(gpu, rc, "persistence mode", "%s persistence mode for GPU %s.", enabled(on), gpu->bus_id);
}

static nvmlReturn_t set_power(Gpu *gpu, const char *value)
{
    unsigned int old = 0, min = 0, max = 0;
    char *end;
    double watts = strtod(value, &end);

    if (!*value || *end || !(watts > 0 && watts < 1e6))
        return NVML_ERROR_INVALID_ARGUMENT;
    (void)NV(DeviceGetPowerManagementLimit, gpu->handle, &old);
    (void)NV(DeviceGetPowerManagementLimitConstraints, gpu->handle, &min, &max);
    nvmlReturn_t rc = NV(DeviceSetPowerManagementLimit, gpu->handle, (unsigned int)(watts * 1000 + 0.5));
    if (rc == NVML_ERROR_INVALID_ARGUMENT) {
        printf("Provided power limit %.2f W is not a valid power limit which should be between %.2f W and %.2f W "
               "for GPU %s\n",
               watts, min / 1000.0, max / 1000.0, gpu->bus_id);
        return rc;
    }
    return told(gpu, rc, "power limit", "Power limit for GPU %s was set to %.2f W from %.2f W.", gpu->bus_id, watts,
                old / 1000.0);
}

static nvmlReturn_t set_compute(Gpu *gpu, const char *value)
{
    static const Word words[] = {{"DEFAULT", 0}, {"EXCLUSIVE_THREAD", 1}, {"PROHIBITED", 2}, {"EXCLUSIVE_PROCESS", 3}};
    unsigned int mode;

    if (!read_word(value, words, ARRAY_LEN(words), &mode))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetComputeMode, gpu->handle, (nvmlComputeMode_t)mode);
    return told(gpu, rc, "compute mode", "Set compute mode to %s for GPU %s.", words[mode].word, gpu->bus_id);
}

static nvmlReturn_t set_ecc(Gpu *gpu, const char *value)
{
    unsigned int on;

    if (!read_switch(value, &on))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetEccMode, gpu->handle, (nvmlEnableState_t)on);
    return told(gpu, rc, "ECC support", "%s ECC support for GPU %s.\nReboot required.", enabled(on), gpu->bus_id);
}

static nvmlReturn_t clear_ecc(Gpu *gpu, const char *value)
{
    static const Word words[] = {{"VOLATILE", 0}, {"AGGREGATE", 1}};
    unsigned int counter;

    if (!read_word(value, words, ARRAY_LEN(words), &counter))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceClearEccErrorCounts, gpu->handle, (nvmlEccCounterType_t)counter);
    return told(gpu, rc, "ECC error counts", "Reset %s ECC errors to zero for GPU %s.",
                counter ? "aggregate" : "volatile", gpu->bus_id);
}

static nvmlReturn_t set_accounting(Gpu *gpu, const char *value)
{
    unsigned int on;

    if (!read_switch(value, &on))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetAccountingMode, gpu->handle, (nvmlEnableState_t)on);
    return told(gpu, rc, "accounting mode", "%s Accounting Mode for GPU %s.", enabled(on), gpu->bus_id);
}

static nvmlReturn_t clear_accounted(Gpu *gpu, const char *value)
{
    (void)value;
    nvmlReturn_t rc = NV(DeviceClearAccountingPids, gpu->handle);
    return told(gpu, rc, "accounted processes", "Cleared Accounted PIDs for GPU %s.", gpu->bus_id);
}

static nvmlReturn_t set_mig(Gpu *gpu, const char *value)
{
    unsigned int on;
    nvmlReturn_t activation = NVML_SUCCESS;

    if (!read_switch(value, &on))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetMigMode, gpu->handle, on, &activation);
    if (rc == NVML_SUCCESS && activation != NVML_SUCCESS) {
        printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n"
               "It takes effect at the next reset or reboot.\n",
               on ? "enable" : "disable", gpu->bus_id, nvml_error_text(activation));
        return NVML_SUCCESS;
    }
    return told(gpu, rc, "MIG mode", "%s MIG Mode for GPU %s", enabled(on), gpu->bus_id);
}

/* The library has no call for it: nothing happens, and callers go on. */
static nvmlReturn_t reset(Gpu *gpu, const char *value)
{
    (void)value;
    return told(gpu, NVML_SUCCESS, "reset", "GPU %s was successfully reset.", gpu->bus_id);
}

/* "1500" or "1200,1500" */
static bool read_pair(const char *text, unsigned int *ret_first, unsigned int *ret_second)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10), second = first;

    if (end != text && *end == ',')
        second = strtoul(end + 1, &end, 10);
    if (end == text || *end || first > 100000 || second > 100000) {
        printf("\"%s\" is not a valid pair of clocks.\n", text);
        return false;
    }
    *ret_first = (unsigned int)first;
    *ret_second = (unsigned int)second;
    return true;
}

static nvmlReturn_t lock_gpu_clocks(Gpu *gpu, const char *value)
{
    unsigned int min, max;

    if (!read_pair(value, &min, &max))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetGpuLockedClocks, gpu->handle, min, max);
    return told(gpu, rc, "GPU clocks", "GPU clocks set to \"(gpuClkMin %u, gpuClkMax %u)\" for GPU %s", min, max,
                gpu->bus_id);
}

static nvmlReturn_t reset_gpu_clocks(Gpu *gpu, const char *value)
{
    (void)value;
    nvmlReturn_t rc = NV(DeviceResetGpuLockedClocks, gpu->handle);
    return told(gpu, rc, "GPU clocks", "All done for the GPU clocks of GPU %s", gpu->bus_id);
}

static nvmlReturn_t lock_memory_clocks(Gpu *gpu, const char *value)
{
    unsigned int min, max;

    if (!read_pair(value, &min, &max))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetMemoryLockedClocks, gpu->handle, min, max);
    return told(gpu, rc, "memory clocks", "Memory clocks set to \"(memClkMin %u, memClkMax %u)\" for GPU %s", min, max,
                gpu->bus_id);
}

static nvmlReturn_t reset_memory_clocks(Gpu *gpu, const char *value)
{
    (void)value;
    nvmlReturn_t rc = NV(DeviceResetMemoryLockedClocks, gpu->handle);
    return told(gpu, rc, "memory clocks", "All done for the memory clocks of GPU %s", gpu->bus_id);
}

static nvmlReturn_t set_app_clocks(Gpu *gpu, const char *value)
{
    unsigned int memory, graphics;

    if (!read_pair(value, &memory, &graphics))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetApplicationsClocks, gpu->handle, memory, graphics);
    return told(gpu, rc, "applications clocks", "Applications clocks set to \"(MEM %u, SM %u)\" for GPU %s", memory,
                graphics, gpu->bus_id);
}

static nvmlReturn_t reset_app_clocks(Gpu *gpu, const char *value)
{
    (void)value;
    nvmlReturn_t rc = NV(DeviceResetApplicationsClocks, gpu->handle);
    return told(gpu, rc, "applications clocks", "Applications clocks are the default ones for GPU %s", gpu->bus_id);
}

const Change changes[] = {
    {"-pm", "--persistence-mode", CHANGE_VALUE, set_persistence, "persistence mode, 0 or 1"},
    {"-e", "--ecc-config", CHANGE_VALUE, set_ecc, "ECC after the next reboot, 0 or 1"},
    {"-p", "--reset-ecc-errors", CHANGE_VALUE, clear_ecc, "zero the ECC counts: 0 volatile, 1 aggregate"},
    {"-c", "--compute-mode", CHANGE_VALUE, set_compute, "0 default, 2 prohibited, 3 one process"},
    {"-r", "--gpu-reset", CHANGE_MAYBE_VALUE, reset, "reset; nothing happens here"},
    {"-pl", "--power-limit", CHANGE_VALUE, set_power, "power limit in watts"},
    {"-am", "--accounting-mode", CHANGE_VALUE, set_accounting, "account processes, 0 or 1"},
    {"-caa", "--clear-accounted-apps", CHANGE_NO_VALUE, clear_accounted, "forget the accounted processes"},
    {"-mig", "--multi-instance-gpu", CHANGE_VALUE, set_mig, "MIG mode, 0 or 1"},
    {"-lgc", "--lock-gpu-clocks", CHANGE_VALUE, lock_gpu_clocks, "keep the GPU clock in MIN,MAX"},
    {"-rgc", "--reset-gpu-clocks", CHANGE_NO_VALUE, reset_gpu_clocks, "let the GPU clock free"},
    {"-lmc", "--lock-memory-clocks", CHANGE_VALUE, lock_memory_clocks, "keep the memory clock in MIN,MAX"},
    {"-rmc", "--reset-memory-clocks", CHANGE_NO_VALUE, reset_memory_clocks, "let the memory clock free"},
    {"-ac", "--applications-clocks", CHANGE_VALUE, set_app_clocks, "clocks of applications as MEMORY,GRAPHICS"},
    {"-rac", "--reset-applications-clocks", CHANGE_NO_VALUE, reset_app_clocks, "their defaults"},
};
const size_t change_count = ARRAY_LEN(changes);

nvmlReturn_t change_apply(const Change *change, const char *value, GpuSet *set)
{
    for (unsigned int i = 0; i < set->count; i++) {
        nvmlReturn_t rc = change->apply(&set->gpus[i], value);
        if (rc != NVML_SUCCESS) {
            printf("Terminating early due to previous errors.\n");
            return rc;
        }
    }
    printf("All done.\n");
    return NVML_SUCCESS;
}
