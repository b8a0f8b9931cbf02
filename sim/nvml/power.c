/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power, its limits, and energy.
 */
#include "sim/nvml/getter.h"

/* From Ampere on the reading is a mean of one second; GA100 (8.0) and what came before show the instant. */
static double power_w(const NvmlCall *c)
{
    const SimBoard *b = c->board;
    const int is_mean = b->arch > NVML_DEVICE_ARCH_AMPERE || (b->arch == NVML_DEVICE_ARCH_AMPERE && b->cc_minor != 0);
    return is_mean ? c->now->watt_mean : c->now->watt;
}

/* What was asked for; the board's default when nobody asked. */
static unsigned int limit_mw(const NvmlCall *c)
{
    const unsigned int asked = c->now->cond.set[SIM_KEY_POWER_LIMIT_MW];
    return asked ? asked : c->board->power_default_mw;
}

NVML_GETTER(nvmlDeviceGetPowerUsage, NVML_TAKES_GPU, unsigned int, 1, nvml_round(power_w(&c) * 1000))
NVML_GETTER(nvmlDeviceGetPowerManagementMode, NVML_TAKES_GPU, nvmlEnableState_t, 1, NVML_FEATURE_ENABLED)
NVML_GETTER(nvmlDeviceGetPowerManagementLimit, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0, limit_mw(&c))
NVML_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0,
            c.board->power_default_mw)
NVML_GETTER_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0,
                 c.board->power_min_mw, c.board->power_max_mw)
NVML_GETTER(nvmlDeviceGetEnforcedPowerLimit, NVML_TAKES_GPU, unsigned int, c.board->power_max_mw != 0,
            nvml_round(c.now->limit_w * 1000))
NVML_GETTER(nvmlDeviceGetTotalEnergyConsumption, NVML_TAKES_GPU, unsigned long long,
            c.board->arch >= NVML_DEVICE_ARCH_VOLTA, nvml_round(c.now->energy_mj))
NVML_GETTER(nvmlDeviceGetPowerSource, NVML_TAKES_GPU, nvmlPowerSource_t, 1, NVML_POWER_SOURCE_AC)
