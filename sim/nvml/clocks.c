/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, their limits, performance states, and how busy the engines are. */
#include <string.h>

#include "sim/nvml/getter.h"

/* --- clocks ------------------------------------------------------------------------------------------------------ */

enum {
    POLICIES = 6,
    ALL_REASONS = 0x1ff
}; /* captures of H100 and H200 at 590.48.01, which drive no display, have its bit too */

/* ---- current and greatest ---- */

static unsigned int current_clock(const NvmlCall *c, nvmlClockType_t type)
{
    switch (type) {
    case NVML_CLOCK_MEM:
        return c->now->mem_mhz;
    case NVML_CLOCK_VIDEO:
        return c->now->video_mhz;
    default:
        return c->now->sm_mhz;
    }
}

static unsigned int max_clock(const NvmlCall *c, nvmlClockType_t type)
{
    switch (type) {
    case NVML_CLOCK_MEM:
        return c->board->mem_clock_max;
    case NVML_CLOCK_VIDEO:
        return c->board->video_clock_max;
    default:
        return c->board->sm_clock_max;
    }
}

/* Boards for the desk have no clocks for applications to ask for. */
static int has_application_clocks(const NvmlCall *c, nvmlClockType_t type)
{
    return c->board->has_ecc && type != NVML_CLOCK_VIDEO;
}

static unsigned int application_clock(const NvmlCall *c, nvmlClockType_t type)
{
    const SimKey key = type == NVML_CLOCK_MEM ? SIM_KEY_APP_MEM_MHZ : SIM_KEY_APP_SM_MHZ;
    const unsigned int asked = c->now->cond.set[key];
    return asked ? asked : max_clock(c, type);
}

/* Enters a function that takes a clock domain. */
static nvmlReturn_t enter_clock(NvmlFn fn, nvmlDevice_t device, nvmlClockType_t type, const unsigned int *mhz,
                                NvmlCall *ret)
{
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, ret);

    if (r != NVML_SUCCESS)
        return r;
    return !mhz || (unsigned int)type >= NVML_CLOCK_COUNT ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

#define CLOCK(fn, when, value)                                                                                         \
    nvmlReturn_t fn(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)                                      \
    {                                                                                                                  \
        NvmlCall c;                                                                                                    \
        const nvmlReturn_t r = enter_clock(NVML_FN_##fn, device, type, mhz, &c);                                       \
                                                                                                                       \
        if (r != NVML_SUCCESS)                                                                                         \
            return r;                                                                                                  \
        if (!(when))                                                                                                   \
            return NVML_ERROR_NOT_SUPPORTED;                                                                           \
        *mhz = value;                                                                                                  \
        return NVML_SUCCESS;                                                                                           \
    }
CLOCK(nvmlDeviceGetClockInfo, 1, current_clock(&c, type))
CLOCK(nvmlDeviceGetMaxClockInfo, 1, max_clock(&c, type))
CLOCK(nvmlDeviceGetApplicationsClock, has_application_clocks(&c, type), application_clock(&c, type))
CLOCK(nvmlDeviceGetDefaultApplicationsClock, has_application_clocks(&c, type), max_clock(&c, type))
CLOCK(nvmlDeviceGetMaxCustomerBoostClock, has_application_clocks(&c, type), max_clock(&c, type))

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *mhz)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_clock(NVML_FN_nvmlDeviceGetClock, device, type, mhz, &c);

    if (r != NVML_SUCCESS)
        return r;
    if ((unsigned int)id >= NVML_CLOCK_ID_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (id == NVML_CLOCK_ID_CURRENT) {
        *mhz = current_clock(&c, type);
        return NVML_SUCCESS;
    }
    if (!has_application_clocks(&c, type))
        return NVML_ERROR_NOT_SUPPORTED;
    if (id != NVML_CLOCK_ID_CUSTOMER_BOOST_MAX && nvml_library_generation >= 590)
        return NVML_ERROR_DEPRECATED; /* as the functions of their own */
    *mhz = id == NVML_CLOCK_ID_APP_CLOCK_TARGET ? application_clock(&c, type) : max_clock(&c, type);
    return NVML_SUCCESS;
}

/* ---- supported ---- */

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *mhz)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetSupportedMemoryClocks, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!count || (!mhz && *count > 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned int room = *count;
    *count = c.board->mem_clock_count;
    if (room < c.board->mem_clock_count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (uint32_t i = 0; i < c.board->mem_clock_count; i++)
        mhz[i] = c.board->mem_clocks[i];
    return NVML_SUCCESS;
}

int nvml_is_memory_clock(const SimBoard *board, unsigned int mhz)
{
    for (uint32_t i = 0; i < board->mem_clock_count; i++)
        if (board->mem_clocks[i] == mhz)
            return 1;
    return 0;
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz, unsigned int *count,
                                                  unsigned int *mhz)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetSupportedGraphicsClocks, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!count || (!mhz && *count > 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!nvml_is_memory_clock(c.board, memory_mhz))
        return NVML_ERROR_NOT_FOUND;
    const unsigned int step = c.board->sm_clock_step ? c.board->sm_clock_step : 1;
    const unsigned int top = c.board->sm_clock_max, low = c.board->sm_clock_min;
    const unsigned int need = top >= low ? (top - low) / step + 1 : 0;
    const unsigned int room = *count;
    *count = need;
    if (room < need)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < need; i++)
        mhz[i] = top - i * step; /* the highest first */
    return NVML_SUCCESS;
}

/* The last boards that boosted by themselves were Maxwell's. nvml.h wants the first place only. */
nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(nvmlDevice_t device, nvmlEnableState_t *enabled,
                                                   nvmlEnableState_t *default_enabled)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetAutoBoostedClocksEnabled, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!enabled)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (c.board->arch > NVML_DEVICE_ARCH_MAXWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    *enabled = c.now->cond.set[SIM_KEY_AUTO_BOOST] ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    if (default_enabled)
        *default_enabled = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}
NVML_GETTER(nvmlDeviceGetAdaptiveClockInfoStatus, NVML_TAKES_GPU, unsigned int,
            c.board->arch >= NVML_DEVICE_ARCH_PASCAL, NVML_ADAPTIVE_CLOCKING_INFO_STATUS_ENABLED)

/* ---- what holds the clocks down ---- */

NVML_GETTER(nvmlDeviceGetCurrentClocksEventReasons, NVML_TAKES_GPU, unsigned long long, 1, c.now->reasons)
NVML_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, NVML_TAKES_GPU, unsigned long long, 1, c.now->reasons)
NVML_GETTER(nvmlDeviceGetSupportedClocksEventReasons, NVML_TAKES_GPU, unsigned long long, 1, ALL_REASONS)
NVML_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, NVML_TAKES_GPU, unsigned long long, 1, ALL_REASONS)

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *time)
{
    NvmlCall c;
    double held_ns = 0;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetViolationStatus, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!time)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((unsigned int)policy < POLICIES)
        held_ns = c.now->throttle_ns[policy];
    else if (policy == NVML_PERF_POLICY_TOTAL_APP_CLOCKS || policy == NVML_PERF_POLICY_TOTAL_BASE_CLOCKS)
        for (unsigned int i = 0; i < POLICIES; i++)
            held_ns += c.now->throttle_ns[i];
    else
        return NVML_ERROR_INVALID_ARGUMENT;
    time->referenceTime = nvml_stamp(c.image, c.now->t_ns);
    time->violationTime = nvml_round(held_ns);
    return NVML_SUCCESS;
}

/* ---- performance states ---- */

NVML_GETTER(nvmlDeviceGetPerformanceState, NVML_TAKES_GPU, nvmlPstates_t, 1, c.now->pstate)
NVML_GETTER(nvmlDeviceGetPowerState, NVML_TAKES_GPU, nvmlPstates_t, 1, c.now->pstate)

/* HBM keeps its clock and the board its state; others drop to P8, and those with a display have steps between. */
static unsigned int states_of(const SimBoard *board, nvmlPstates_t states[NVML_MAX_GPU_PERF_PSTATES])
{
    static const nvmlPstates_t steady[] = {NVML_PSTATE_0}, server[] = {NVML_PSTATE_0, NVML_PSTATE_8},
                               desk[] = {NVML_PSTATE_0, NVML_PSTATE_2, NVML_PSTATE_3, NVML_PSTATE_5, NVML_PSTATE_8};
    const nvmlPstates_t *from = steady;
    unsigned int count = 1;

    if (board->has_display) {
        from = desk;
        count = sizeof desk / sizeof *desk;
    } else if (board->mem_clock_idle < board->mem_clock_max) {
        from = server;
        count = sizeof server / sizeof *server;
    }
    memcpy(states, from, count * sizeof *states);
    return count;
}

nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *states,
                                                     unsigned int size_bytes)
{
    NvmlCall c;
    nvmlPstates_t known[NVML_MAX_GPU_PERF_PSTATES];
    const nvmlReturn_t r =
        nvml_enter_device(NVML_FN_nvmlDeviceGetSupportedPerformanceStates, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!states)
        return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned int count = states_of(c.board, known);
    const size_t room = size_bytes / sizeof *states;
    if (room < count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < room; i++)
        states[i] = i < count ? known[i] : NVML_PSTATE_UNKNOWN;
    return NVML_SUCCESS;
}

/* --- utilisation ------------------------------------------------------------------------------------------------- */

/*
 * How busy the engines are: percent of time over the last window. With MIG on, a GPU as a whole has no such figures.
 */

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

/* Share of the host link's capacity, in the busier direction. */
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
