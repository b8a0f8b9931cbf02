/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temperatures, their thresholds, and fans.
 */
#include "sim/nvml/getter.h"

enum { ACOUSTIC_MIN_C = 65, ACOUSTIC_DEFAULT_C = 83, FAN_MIN_PERCENT = 30, FAN_MAX_PERCENT = 100 };

static int rounded_c(double celsius)
{
    return (int)(celsius < 0 ? celsius - 0.5 : celsius + 0.5);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetTemperature, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!celsius || sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *celsius = (unsigned int)nvml_round(c.now->temp_c);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetTemperatureV;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!temperature)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((r = nvml_check_tag(fn, temperature->version, nvmlTemperature_v1)) != NVML_SUCCESS)
        return r;
    if (temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = rounded_c(c.now->temp_c);
    return NVML_SUCCESS;
}

/* The temperature the fans aim at; only what has fans has one. */
static int acoustic_c(const NvmlCall *c)
{
    const int asked = (int)c->now->cond.set[SIM_KEY_TEMP_ACOUSTIC];
    return asked ? asked : ACOUSTIC_DEFAULT_C;
}

/* A threshold in degrees; 0 when the board has none. */
static int threshold_c(const NvmlCall *c, nvmlTemperatureThresholds_t threshold)
{
    switch (threshold) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        return c->board->temp_shutdown;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        return c->board->temp_slowdown;
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
        return c->board->temp_mem_max;
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
        return c->board->temp_gpu_max;
    case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN:
        return c->board->fans ? ACOUSTIC_MIN_C : 0;
    case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR:
        return c->board->fans ? acoustic_c(c) : 0;
    case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX:
        return c->board->fans ? c->board->temp_gpu_max : 0;
    default:
        return 0;
    }
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                               unsigned int *celsius)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetTemperatureThreshold, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!celsius || (unsigned int)threshold >= NVML_TEMPERATURE_THRESHOLD_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    const int value = threshold_c(&c, threshold);
    if (value <= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *celsius = (unsigned int)value;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetMarginTemperature;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!margin)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((r = nvml_check_tag(fn, margin->version, nvmlMarginTemperature_v1)) != NVML_SUCCESS)
        return r;
    if (!c.board->has_tlimit)
        return NVML_ERROR_NOT_SUPPORTED;
    margin->marginTemperature = c.board->temp_gpu_max - rounded_c(c.now->temp_c);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned int sensor_index,
                                          nvmlGpuThermalSettings_t *settings)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetThermalSettings, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!settings || (sensor_index != 0 && sensor_index != NVML_THERMAL_TARGET_ALL))
        return NVML_ERROR_INVALID_ARGUMENT;
    *settings = (nvmlGpuThermalSettings_t){.count = 1};
    settings->sensor[0].controller = NVML_THERMAL_CONTROLLER_GPU_INTERNAL;
    settings->sensor[0].defaultMinTemp = 0;
    settings->sensor[0].defaultMaxTemp = c.board->temp_slowdown;
    settings->sensor[0].currentTemp = rounded_c(c.now->temp_c);
    settings->sensor[0].target = NVML_THERMAL_TARGET_GPU;
    return NVML_SUCCESS;
}

/* ---- fans ---- */

NVML_GETTER(nvmlDeviceGetFanSpeed, NVML_TAKES_GPU, unsigned int, c.board->fans > 0, c.now->fan_percent)
NVML_GETTER(nvmlDeviceGetNumFans, NVML_TAKES_GPU, unsigned int, c.board->fans > 0, c.board->fans)
NVML_GETTER_PAIR(nvmlDeviceGetMinMaxFanSpeed, NVML_TAKES_GPU, unsigned int, c.board->fans > 0, FAN_MIN_PERCENT,
                 FAN_MAX_PERCENT)

/* Enters a function that takes the number of a fan. */
static nvmlReturn_t enter_fan(NvmlFn fn, nvmlDevice_t device, unsigned int fan, const unsigned int *percent,
                              NvmlCall *ret)
{
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, ret);

    if (r != NVML_SUCCESS)
        return r;
    if (!percent)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (ret->board->fans == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return fan < ret->board->fans ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_fan(NVML_FN_nvmlDeviceGetFanSpeed_v2, device, fan, percent, &c);

    if (r == NVML_SUCCESS)
        *percent = c.now->fan_percent;
    return r;
}

nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_fan(NVML_FN_nvmlDeviceGetTargetFanSpeed, device, fan, percent, &c);

    if (r == NVML_SUCCESS)
        *percent = c.now->fan_target;
    return r;
}
