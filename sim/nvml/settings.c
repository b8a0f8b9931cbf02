/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may set on a GPU. Every change is an op at the present instant, by root; it is checked here as the
 * driver does: arguments first, then whether the board can, then permission. Any thread may call.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "sim/nvml/getter.h"

#define ENTER(fn, takes)                                                                                               \
    NvmlCall c;                                                                                                        \
    const nvmlReturn_t entered = nvml_enter_device(NVML_FN_##fn, device, takes, &c);                                   \
    if (entered != NVML_SUCCESS)                                                                                       \
    return entered
#define REFUSE_ARGUMENT(when)                                                                                          \
    if (when)                                                                                                          \
    return NVML_ERROR_INVALID_ARGUMENT
#define REFUSE_UNSUPPORTED(when)                                                                                       \
    if (when)                                                                                                          \
    return NVML_ERROR_NOT_SUPPORTED

/* ---- modes ---- */
nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    ENTER(nvmlDeviceSetPersistenceMode, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)mode > NVML_FEATURE_ENABLED);
    return nvml_change_key(&c, SIM_KEY_PERSISTENCE, (uint64_t)mode);
}

/* One thread per GPU went out of use with CUDA 8; instances of a GPU in MIG mode take no exclusive mode. */
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
    ENTER(nvmlDeviceSetComputeMode, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)mode >= NVML_COMPUTEMODE_COUNT);
    REFUSE_UNSUPPORTED(mode == NVML_COMPUTEMODE_EXCLUSIVE_THREAD);
    REFUSE_UNSUPPORTED(mode != NVML_COMPUTEMODE_DEFAULT && c.now->cond.mig_mode);
    return nvml_change_key(&c, SIM_KEY_COMPUTE_MODE, (uint64_t)mode);
}

/* Pending until the next reset. */
nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    ENTER(nvmlDeviceSetEccMode, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)mode > NVML_FEATURE_ENABLED);
    REFUSE_UNSUPPORTED(!c.board->has_ecc);
    return nvml_change_key(&c, SIM_KEY_ECC_PENDING, (uint64_t)mode);
}

nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counter)
{
    ENTER(nvmlDeviceClearEccErrorCounts, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)counter >= NVML_ECC_COUNTER_TYPE_COUNT);
    REFUSE_UNSUPPORTED(!c.board->has_ecc);
    return nvml_change(&c, (SimOp){.type = SIM_OP_CLEAR_ECC, .a = {(int32_t)counter}}, NULL);
}

/* There is one model on Linux. */
nvmlReturn_t nvmlDeviceSetDriverModel(nvmlDevice_t device, nvmlDriverModel_t model, unsigned int flags)
{
    (void)flags;
    ENTER(nvmlDeviceSetDriverModel, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)model > NVML_DRIVER_MCDM);
    return NVML_ERROR_NOT_SUPPORTED;
}

/* Only boards of the Kepler time had it. */
nvmlReturn_t nvmlDeviceSetGpuOperationMode(nvmlDevice_t device, nvmlGpuOperationMode_t mode)
{
    ENTER(nvmlDeviceSetGpuOperationMode, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)mode > NVML_GOM_LOW_DP);
    REFUSE_UNSUPPORTED(c.board->arch > NVML_DEVICE_ARCH_KEPLER);
    return nvml_change_key(&c, SIM_KEY_GOM_PENDING, (uint64_t)mode);
}

nvmlReturn_t nvmlDeviceSetAPIRestriction(nvmlDevice_t device, nvmlRestrictedAPI_t api, nvmlEnableState_t restricted)
{
    ENTER(nvmlDeviceSetAPIRestriction, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)api >= NVML_RESTRICTED_API_COUNT || (unsigned)restricted > NVML_FEATURE_ENABLED);
    REFUSE_UNSUPPORTED(api == NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS && c.board->arch > NVML_DEVICE_ARCH_MAXWELL);
    SimKey key = api == NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS ? SIM_KEY_API_APP_CLOCKS : SIM_KEY_API_AUTO_BOOST;
    return nvml_change_key(&c, key, (uint64_t)restricted);
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    ENTER(nvmlDeviceValidateInforom, NVML_TAKES_GPU);
    REFUSE_UNSUPPORTED(!c.board->inforom_image[0]);
    return c.now->cond.set[SIM_KEY_INFOROM_BAD] ? NVML_ERROR_CORRUPTED_INFOROM : NVML_SUCCESS;
}

/* ---- power and temperature ---- */
static nvmlReturn_t set_limit(const NvmlCall *c, unsigned int milliwatts)
{
    const SimBoard *b = c->board;
    REFUSE_UNSUPPORTED(b->power_max_mw == 0);
    REFUSE_ARGUMENT(milliwatts < b->power_min_mw || milliwatts > b->power_max_mw);
    return nvml_change_key(c, SIM_KEY_POWER_LIMIT_MW, milliwatts);
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int milliwatts)
{
    ENTER(nvmlDeviceSetPowerManagementLimit, NVML_TAKES_GPU);
    return set_limit(&c, milliwatts);
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t *value)
{
    ENTER(nvmlDeviceSetPowerManagementLimit_v2, NVML_TAKES_GPU);
    REFUSE_ARGUMENT(!value);
    nvmlReturn_t rc = nvml_check_tag(NVML_FN_nvmlDeviceSetPowerManagementLimit_v2, value->version, nvmlPowerValue_v2);
    if (rc != NVML_SUCCESS)
        return rc;
    REFUSE_ARGUMENT(value->powerScope > NVML_POWER_SCOPE_GPU_BASE);
    REFUSE_UNSUPPORTED(value->powerScope != NVML_POWER_SCOPE_GPU);
    return set_limit(&c, value->powerValueMw);
}

/* Only the temperature that the fans aim at can be set. */
nvmlReturn_t nvmlDeviceSetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold, int *celsius)
{
    ENTER(nvmlDeviceSetTemperatureThreshold, NVML_TAKES_GPU);
    REFUSE_ARGUMENT(!celsius || (unsigned)threshold >= NVML_TEMPERATURE_THRESHOLD_COUNT);
    REFUSE_UNSUPPORTED(threshold != NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR || c.board->fans == 0);
    unsigned int least = 0;
    nvmlReturn_t rc = nvmlDeviceGetTemperatureThreshold(device, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN, &least);
    if (rc != NVML_SUCCESS)
        return rc;
    REFUSE_ARGUMENT(*celsius < (int)least || *celsius > c.board->temp_gpu_max);
    return nvml_change_key(&c, SIM_KEY_TEMP_ACOUSTIC, (uint64_t)*celsius);
}

/* ---- clocks ---- */
static int is_sm_clock(const SimBoard *b, unsigned int mhz)
{
    return mhz >= b->sm_clock_min && mhz <= b->sm_clock_max &&
           (b->sm_clock_step == 0 || (b->sm_clock_max - mhz) % b->sm_clock_step == 0);
}

/* Two settings that belong together. */
static nvmlReturn_t change_two(const NvmlCall *c, SimKey first, uint64_t a, SimKey second, uint64_t b)
{
    nvmlReturn_t rc = nvml_change_key(c, first, a);
    return rc == NVML_SUCCESS ? nvml_change_key(c, second, b) : rc;
}

nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned int memory_mhz, unsigned int graphics_mhz)
{
    ENTER(nvmlDeviceSetApplicationsClocks, NVML_TAKES_GPU);
    REFUSE_UNSUPPORTED(!c.board->has_ecc); /* boards for the desk have none */
    REFUSE_ARGUMENT(!nvml_is_memory_clock(c.board, memory_mhz) || !is_sm_clock(c.board, graphics_mhz));
    return change_two(&c, SIM_KEY_APP_MEM_MHZ, memory_mhz, SIM_KEY_APP_SM_MHZ, graphics_mhz);
}

nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
    ENTER(nvmlDeviceResetApplicationsClocks, NVML_TAKES_GPU);
    REFUSE_UNSUPPORTED(!c.board->has_ecc);
    return change_two(&c, SIM_KEY_APP_MEM_MHZ, 0, SIM_KEY_APP_SM_MHZ, 0);
}

/* Limits may be named instead of given in MHz: the clock at the board's power, or none. */
static unsigned int named_limit(unsigned int mhz, unsigned int base, unsigned int max)
{
    return mhz == NVML_CLOCK_LIMIT_ID_TDP ? base : mhz == NVML_CLOCK_LIMIT_ID_UNLIMITED ? max : mhz;
}

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    ENTER(nvmlDeviceSetGpuLockedClocks, NVML_TAKES_GPU);
    const SimBoard *b = c.board;
    unsigned int least = named_limit(min_mhz, b->sm_clock_base, b->sm_clock_max);
    unsigned int most = named_limit(max_mhz, b->sm_clock_base, b->sm_clock_max);
    REFUSE_ARGUMENT(least > most || most < b->sm_clock_min || most > b->sm_clock_max);
    REFUSE_UNSUPPORTED(b->arch < NVML_DEVICE_ARCH_VOLTA);
    return change_two(&c, SIM_KEY_LOCK_SM_MIN, least, SIM_KEY_LOCK_SM_MAX, most);
}

nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    ENTER(nvmlDeviceResetGpuLockedClocks, NVML_TAKES_GPU);
    REFUSE_UNSUPPORTED(c.board->arch < NVML_DEVICE_ARCH_VOLTA);
    return change_two(&c, SIM_KEY_LOCK_SM_MIN, 0, SIM_KEY_LOCK_SM_MAX, 0);
}

nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    ENTER(nvmlDeviceSetMemoryLockedClocks, NVML_TAKES_GPU);
    REFUSE_ARGUMENT(min_mhz > max_mhz || max_mhz == 0 || max_mhz > c.board->mem_clock_max);
    REFUSE_UNSUPPORTED(c.board->arch < NVML_DEVICE_ARCH_AMPERE);
    return change_two(&c, SIM_KEY_LOCK_MEM_MIN, min_mhz, SIM_KEY_LOCK_MEM_MAX, max_mhz);
}

nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device)
{
    ENTER(nvmlDeviceResetMemoryLockedClocks, NVML_TAKES_GPU);
    REFUSE_UNSUPPORTED(c.board->arch < NVML_DEVICE_ARCH_AMPERE);
    return change_two(&c, SIM_KEY_LOCK_MEM_MIN, 0, SIM_KEY_LOCK_MEM_MAX, 0);
}

/* Later boards always boost. */
nvmlReturn_t nvmlDeviceSetAutoBoostedClocksEnabled(nvmlDevice_t device, nvmlEnableState_t enabled)
{
    ENTER(nvmlDeviceSetAutoBoostedClocksEnabled, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)enabled > NVML_FEATURE_ENABLED);
    REFUSE_UNSUPPORTED(c.board->arch > NVML_DEVICE_ARCH_MAXWELL);
    return nvml_change_key(&c, SIM_KEY_AUTO_BOOST, (uint64_t)enabled);
}

nvmlReturn_t nvmlDeviceSetDefaultAutoBoostedClocksEnabled(nvmlDevice_t device, nvmlEnableState_t enabled,
                                                          unsigned int flags)
{
    ENTER(nvmlDeviceSetDefaultAutoBoostedClocksEnabled, NVML_TAKES_GPU);
    REFUSE_ARGUMENT((unsigned)enabled > NVML_FEATURE_ENABLED || flags != 0);
    REFUSE_UNSUPPORTED(c.board->arch > NVML_DEVICE_ARCH_MAXWELL);
    return nvml_change_key(&c, SIM_KEY_AUTO_BOOST, (uint64_t)enabled);
}

/* ---- the calling thread's CPUs ---- */
/* The simulated node may have more CPUs than this machine: when none of the GPU's is here, the thread stays as it is.
 */
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
    ENTER(nvmlDeviceSetCpuAffinity, NVML_TAKES_GPU);
    cpu_set_t wanted, here;
    const nvmlReturn_t read =
        nvmlDeviceGetCpuAffinity(device, sizeof wanted / sizeof(unsigned long), (unsigned long *)(void *)&wanted);
    if (read != NVML_SUCCESS)
        return read;
    REFUSE_UNSUPPORTED(CPU_COUNT(&wanted) == 0);
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    CPU_ZERO(&here);
    for (long cpu = 0; cpu < cpus && cpu < CPU_SETSIZE; cpu++)
        CPU_SET((size_t)cpu, &here);
    CPU_AND(&wanted, &wanted, &here);
    if (CPU_COUNT(&wanted) == 0)
        return NVML_SUCCESS;
    return sched_setaffinity(0, sizeof wanted, &wanted) == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
    ENTER(nvmlDeviceClearCpuAffinity, NVML_TAKES_GPU);
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    return sched_setaffinity(0, sizeof all, &all) == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* ---- NVLink counters ---- */
static nvmlReturn_t check_link(const NvmlCall *c, unsigned int link)
{
    REFUSE_ARGUMENT(link >= NVML_NVLINK_MAX_LINKS);
    REFUSE_UNSUPPORTED(link >= c->board->link_count || c->now->cond.mig_mode);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int link)
{
    ENTER(nvmlDeviceResetNvLinkErrorCounters, NVML_TAKES_GPU);
    nvmlReturn_t rc = check_link(&c, link);
    if (rc != NVML_SUCCESS)
        return rc;
    return nvml_change(&c, (SimOp){.type = SIM_OP_LINK, .a = {(int32_t)link, SIM_LINK_CLEAR}}, NULL);
}

/* The two utilisation counters of a link: drivers since Volta have answered "not supported"; fields took their place.
 */
static nvmlReturn_t no_counter(NvmlFn fn, nvmlDevice_t device, unsigned int link, unsigned int counter, int valid)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    REFUSE_ARGUMENT(!valid || counter > 1);
    rc = check_link(&c, link);
    return rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc;
}

nvmlReturn_t nvmlDeviceGetNvLinkUtilizationControl(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                   nvmlNvLinkUtilizationControl_t *control)
{
    return no_counter(NVML_FN_nvmlDeviceGetNvLinkUtilizationControl, device, link, counter, control != NULL);
}

nvmlReturn_t nvmlDeviceGetNvLinkUtilizationCounter(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                   unsigned long long *received, unsigned long long *sent)
{
    return no_counter(NVML_FN_nvmlDeviceGetNvLinkUtilizationCounter, device, link, counter, received && sent);
}

nvmlReturn_t nvmlDeviceFreezeNvLinkUtilizationCounter(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                      nvmlEnableState_t freeze)
{
    return no_counter(NVML_FN_nvmlDeviceFreezeNvLinkUtilizationCounter, device, link, counter,
                      (unsigned)freeze <= NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceSetNvLinkUtilizationControl(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                   nvmlNvLinkUtilizationControl_t *control, unsigned int reset)
{
    (void)reset;
    return no_counter(NVML_FN_nvmlDeviceSetNvLinkUtilizationControl, device, link, counter, control != NULL);
}

nvmlReturn_t nvmlDeviceResetNvLinkUtilizationCounter(nvmlDevice_t device, unsigned int link, unsigned int counter)
{
    return no_counter(NVML_FN_nvmlDeviceResetNvLinkUtilizationCounter, device, link, counter, 1);
}

/* ---- registers and draining ---- */
/* Register access reaches hardware that a simulated GPU does not have; its links' counters are known. */
nvmlReturn_t nvmlDeviceReadWritePRM_v1(nvmlDevice_t device, nvmlPRMTLV_v1_t *buffer)
{
    ENTER(nvmlDeviceReadWritePRM_v1, NVML_TAKES_GPU);
    REFUSE_ARGUMENT(!buffer);
    return NVML_ERROR_NOT_SUPPORTED;
}

/* A port that the board does not have, or a counter that there is not, costs that entry. */
static nvmlReturn_t read_port(const NvmlCall *c, nvmlPRMCounter_v1_t *counter)
{
    const unsigned int port = counter->inData.localPort;
    unsigned long long value = 0;

    if (port == 0 || port > c->board->link_count || port > SIM_LINK_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    switch (counter->counterId) {
    case NVML_PRM_COUNTER_ID_PPCNT_PHYSICAL_LAYER_CTRS_LINK_DOWN_EVENTS:
        value = c->now->cond.link[port - 1].state == NVML_NVLINK_STATE_INACTIVE;
        break;
    case NVML_PRM_COUNTER_ID_PPCNT_PHYSICAL_LAYER_CTRS_SUCCESSFUL_RECOVERY_EVENTS:
    case NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TOTAL_SUCCESSFUL_RECOVERY_EVENTS:
        value = (unsigned long long)c->now->cond.link[port - 1].count[NVML_NVLINK_ERROR_DL_RECOVERY];
        break;
    case NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_SINCE_LAST_RECOVERY:
    case NVML_PRM_COUNTER_ID_PPCNT_RECOVERY_CTRS_TIME_BETWEEN_LAST_TWO_RECOVERIES:
        break;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
    counter->counterValue.outputType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    counter->counterValue.outputValue.ullVal = value;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceReadPRMCounters_v1(nvmlDevice_t device, nvmlPRMCounterList_v1_t *list)
{
    ENTER(nvmlDeviceReadPRMCounters_v1, NVML_TAKES_GPU);
    REFUSE_ARGUMENT(!list || !list->counters || list->numCounters == 0);
    if (c.board->link_version < NVML_NVLINK_VERSION_5_0 || c.now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    for (unsigned int i = 0; i < list->numCounters; i++)
        list->counters[i].counterValue.status = read_port(&c, &list->counters[i]);
    return NVML_SUCCESS;
}

/* Whether new clients are kept off a GPU, which is named by its address: it may have no handle any more. */
nvmlReturn_t nvmlDeviceQueryDrainState(nvmlPciInfo_t *pci, nvmlEnableState_t *state)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(NVML_FN_nvmlDeviceQueryDrainState, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    REFUSE_ARGUMENT(!pci || !state);
    for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++) {
        const SimGpuId *id = &image->gpus[g];
        if (id->domain != pci->domain || id->bus != pci->bus || id->device != pci->device)
            continue;
        const SimNow *now = sim_state_now(image, g);
        *state = now->cond.set[SIM_KEY_DRAIN] ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}
