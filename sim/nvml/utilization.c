/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How busy the engines are: percent of time over the last window. With MIG on, a GPU as a whole has no such figures.
 */
#include "sim/nvml/getter.h"

enum { DOMAINS = 4 };
#define PERIOD_US (SIM_WINDOW_NS / 1000)

static nvmlUtilization_t utilization_of(const NvmlCall *c)
{
    return (nvmlUtilization_t){.gpu = nvml_percent(c->now->win[SIM_CH_KERNEL]),
                               .memory = nvml_percent(c->now->win[SIM_CH_DRAM_T])};
}

NVML_GETTER_STRUCT(nvmlDeviceGetUtilizationRates, NVML_TAKES_NO_MIG, nvmlUtilization_t, 1, utilization_of(&c))
NVML_GETTER_PAIR(nvmlDeviceGetEncoderUtilization, NVML_TAKES_NO_MIG, unsigned int, 1,
                 nvml_percent(c.now->win[SIM_CH_ENC]), PERIOD_US)
NVML_GETTER_PAIR(nvmlDeviceGetDecoderUtilization, NVML_TAKES_NO_MIG, unsigned int, 1,
                 nvml_percent(c.now->win[SIM_CH_DEC]), PERIOD_US)
NVML_GETTER_PAIR(nvmlDeviceGetJpgUtilization, NVML_TAKES_NO_MIG, unsigned int, c.board->arch >= NVML_DEVICE_ARCH_TURING,
                 nvml_percent(c.now->win[SIM_CH_JPG]), PERIOD_US)
NVML_GETTER_PAIR(nvmlDeviceGetOfaUtilization, NVML_TAKES_NO_MIG, unsigned int, c.board->arch >= NVML_DEVICE_ARCH_TURING,
                 nvml_percent(c.now->win[SIM_CH_OFA]), PERIOD_US)

/* Share of what the host link can carry, in the busier direction. */
static unsigned int bus_percent(const NvmlCall *c)
{
    static const double lane_bytes_per_s[] = {0, 250e6, 500e6, 985e6, 1969e6, 3938e6, 7877e6};
    const uint32_t gen = c->now->pcie_gen < 6 ? c->now->pcie_gen : 6;
    const double room = lane_bytes_per_s[gen] * c->now->pcie_width;
    const double tx = c->now->win[SIM_CH_PCIE_TX], rx = c->now->win[SIM_CH_PCIE_RX];
    return room > 0 ? nvml_percent((tx > rx ? tx : rx) / room) : 0;
}

nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device, nvmlGpuDynamicPstatesInfo_t *info)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetDynamicPstatesInfo, device, NVML_TAKES_NO_MIG, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    const double *win = c.now->win;
    const unsigned int percent[DOMAINS] = {
        nvml_percent(win[SIM_CH_KERNEL]),
        nvml_percent(win[SIM_CH_DRAM_T]),
        nvml_percent(win[SIM_CH_DEC] > win[SIM_CH_ENC] ? win[SIM_CH_DEC] : win[SIM_CH_ENC]),
        bus_percent(&c),
    };
    *info = (nvmlGpuDynamicPstatesInfo_t){.flags = 0};
    for (unsigned int i = 0; i < DOMAINS; i++) {
        info->utilization[i].bIsPresent = 1;
        info->utilization[i].percentage = percent[i];
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderCapacity(nvmlDevice_t device, nvmlEncoderType_t type, unsigned int *capacity)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetEncoderCapacity, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!capacity || (unsigned int)type > NVML_ENCODER_QUERY_AV1)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (c.board->enc_engines == 0 || (type == NVML_ENCODER_QUERY_AV1 && c.board->arch < NVML_DEVICE_ARCH_ADA))
        return NVML_ERROR_NOT_SUPPORTED;
    *capacity = 100 - nvml_percent(c.now->win[SIM_CH_ENC]);
    return NVML_SUCCESS;
}
