/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that are made one by one. */

#include "source/nvml/readers.h"

#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"

enum { FANS_MAX = 16 };

/* fn(device, Type *), where `v` is made as `start`: a number by each expression about it and `arg` */
#define READ_STRUCT(fn, Type, start, ...)                                                                              \
    static nvmlReturn_t read_##fn(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])                                \
    {                                                                                                                  \
        Type v = start;                                                                                                \
        const nvmlReturn_t r = NVML_GPU_CALL(gpu, fn, (gpu->handle, &v));                                              \
        const NvmlNumber all[] = {__VA_ARGS__};                                                                        \
        (void)arg;                                                                                                     \
        memcpy(numbers, all, sizeof all);                                                                              \
        return r;                                                                                                      \
    }
/* fn(device, Type *): one number */
#define READ_ONE(fn, Type) READ_STRUCT(fn, Type, (Type)0, nvml_whole_unsigned(v))
/* fn(device, ArgType, unsigned int *): one number */
#define READ_OF(fn, ArgType)                                                                                           \
    static nvmlReturn_t read_##fn(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])                                \
    {                                                                                                                  \
        unsigned int value = 0;                                                                                        \
        const nvmlReturn_t r = NVML_GPU_CALL(gpu, fn, (gpu->handle, (ArgType)arg, &value));                            \
        numbers[0] = nvml_whole(value);                                                                                \
        return r;                                                                                                      \
    }
/* fn(device, unsigned int *, unsigned int *): two numbers, or one and an unused period */
#define READ_TWO(fn)                                                                                                   \
    static nvmlReturn_t read_##fn(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])                                \
    {                                                                                                                  \
        unsigned int first = 0, second = 0;                                                                            \
        const nvmlReturn_t r = NVML_GPU_CALL(gpu, fn, (gpu->handle, &first, &second));                                 \
        (void)arg;                                                                                                     \
        numbers[0] = nvml_whole(first);                                                                                \
        numbers[1] = nvml_whole(second);                                                                               \
        return r;                                                                                                      \
    }

READ_OF(nvmlDeviceGetClockInfo, nvmlClockType_t)
READ_OF(nvmlDeviceGetApplicationsClock, nvmlClockType_t)
READ_OF(nvmlDeviceGetMaxClockInfo, nvmlClockType_t)
READ_OF(nvmlDeviceGetTemperatureThreshold, nvmlTemperatureThresholds_t)
READ_ONE(nvmlDeviceGetPowerUsage, unsigned int)
READ_ONE(nvmlDeviceGetPowerManagementLimit, unsigned int)
READ_ONE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int)
READ_ONE(nvmlDeviceGetEnforcedPowerLimit, unsigned int)
READ_ONE(nvmlDeviceGetPcieReplayCounter, unsigned int)
READ_ONE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int)
READ_ONE(nvmlDeviceGetCurrPcieLinkWidth, unsigned int)
READ_ONE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int)
READ_ONE(nvmlDeviceGetMaxPcieLinkWidth, unsigned int)
READ_ONE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
READ_ONE(nvmlDeviceGetFanSpeed, unsigned int)
READ_ONE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t)
READ_ONE(nvmlDeviceGetComputeMode, nvmlComputeMode_t)
READ_ONE(nvmlDeviceGetNumFans, unsigned int)
READ_ONE(nvmlDeviceGetMemoryBusWidth, unsigned int)
READ_TWO(nvmlDeviceGetGspFirmwareMode)
READ_TWO(nvmlDeviceGetPowerManagementLimitConstraints)
READ_TWO(nvmlDeviceGetEncoderUtilization)
READ_TWO(nvmlDeviceGetDecoderUtilization)
READ_STRUCT(nvmlDeviceGetMarginTemperature, nvmlMarginTemperature_t, {.version = nvmlMarginTemperature_v1},
            nvml_whole(v.marginTemperature))
READ_STRUCT(nvmlDeviceGetUtilizationRates, nvmlUtilization_t, {0}, nvml_whole(v.gpu), nvml_whole(v.memory))
READ_STRUCT(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_UNKNOWN,
            v <= NVML_PSTATE_15 ? nvml_whole(v) : nvml_lacking(ABSENCE_NO_DATA))
/* arg: only the size */
READ_STRUCT(nvmlDeviceGetBAR1MemoryInfo, nvmlBAR1Memory_t, {0}, nvml_whole_unsigned(arg ? v.bar1Total : v.bar1Used),
            nvml_whole_unsigned(v.bar1Free))
READ_STRUCT(nvmlDeviceGetRowRemapperHistogram, nvmlRowRemapperHistogramValues_t, {0}, nvml_whole(v.max),
            nvml_whole(v.high), nvml_whole(v.partial), nvml_whole(v.low), nvml_whole(v.none))
/* Uncorrected are those of parity and those of the error code, which no board counts both. */
READ_STRUCT(nvmlDeviceGetSramEccErrorStatus, nvmlEccSramErrorStatus_t, {.version = nvmlEccSramErrorStatus_v1},
            nvml_whole(v.bThresholdExceeded != 0),
            nvml_add(nvml_whole_unsigned(v.volatileUncParity), nvml_whole_unsigned(v.volatileUncSecDed)),
            nvml_add(nvml_whole_unsigned(v.aggregateUncParity), nvml_whole_unsigned(v.aggregateUncSecDed)),
            nvml_whole_unsigned(v.volatileCor), nvml_whole_unsigned(v.aggregateCor))
READ_STRUCT(nvmlDeviceGetUnrepairableMemoryFlag_v1, nvmlUnrepairableMemoryStatus_v1_t, {0},
            nvml_whole(v.bUnrepairableMemory != 0))
READ_STRUCT(nvmlDeviceGetRepairStatus, nvmlRepairStatus_t, {.version = nvmlRepairStatus_v1},
            nvml_whole(v.bChannelRepairPending != 0), nvml_whole(v.bTpcRepairPending != 0))

/* The driver counts for 20 ms while we wait. */
static nvmlReturn_t read_throughput(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    unsigned int kb_per_s = 0;
    const nvmlReturn_t r =
        NVML_CALL_WITHIN(&gpu->reader->library, &gpu->target, NVML_BLOCKING_LIMIT_MS, nvmlDeviceGetPcieThroughput,
                         (gpu->handle, (nvmlPcieUtilCounter_t)arg, &kb_per_s));

    numbers[0] = nvml_whole(kb_per_s);
    return r;
}

/* The newer function where the older one is gone. */
static nvmlReturn_t read_temperature(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    unsigned int celsius = 0;
    nvmlTemperature_t newer = {.version = nvmlTemperature_v1, .sensorType = NVML_TEMPERATURE_GPU};
    nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetTemperature, (gpu->handle, NVML_TEMPERATURE_GPU, &celsius));

    (void)arg;
    numbers[0] = nvml_whole(celsius);
    if (r != NVML_ERROR_FUNCTION_NOT_FOUND && r != NVML_ERROR_DEPRECATED)
        return r;
    r = NVML_GPU_CALL(gpu, nvmlDeviceGetTemperatureV, (gpu->handle, &newer));
    numbers[0] = nvml_whole(newer.temperature);
    return r;
}

/* The older form counts reserved memory as used. */
static nvmlReturn_t read_memory_v1(NvmlGpu *gpu, nvmlDevice_t handle, NvmlNumber numbers[])
{
    nvmlMemory_t memory = {0};
    const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetMemoryInfo, (handle, &memory));

    numbers[0] = nvml_whole_unsigned(memory.total);
    numbers[1] = nvml_whole_unsigned(memory.free);
    numbers[2] = nvml_whole_unsigned(memory.used);
    numbers[3] = nvml_lacking(ABSENCE_DRIVER_LACKS);
    return r;
}

nvmlReturn_t nvml_read_memory(NvmlGpu *gpu, nvmlDevice_t handle, NvmlNumber numbers[4])
{
    nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
    const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetMemoryInfo_v2, (handle, &memory));

    if (r == NVML_ERROR_FUNCTION_NOT_FOUND || r == NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        return read_memory_v1(gpu, handle, numbers);
    numbers[0] = nvml_whole_unsigned(memory.total);
    numbers[1] = nvml_whole_unsigned(memory.free);
    numbers[2] = nvml_whole_unsigned(memory.used);
    numbers[3] = nvml_whole_unsigned(memory.reserved);
    return r;
}

static nvmlReturn_t read_memory(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    (void)arg;
    return nvml_read_memory(gpu, gpu->handle, numbers);
}

/* Without room for addresses the driver returns their number. */
static nvmlReturn_t read_retired(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    unsigned int count = 0;
    const nvmlReturn_t r =
        NVML_GPU_CALL(gpu, nvmlDeviceGetRetiredPages, (gpu->handle, (nvmlPageRetirementCause_t)arg, &count, NULL));

    numbers[0] = nvml_whole(count);
    return r == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : r;
}

/* 0 where licences are not needed; where they are, the state of the vGPU feature, if it is in the list. */
static nvmlReturn_t read_licence(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    nvmlGridLicensableFeatures_t licences = {0};
    const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetGridLicensableFeatures_v4, (gpu->handle, &licences));
    const unsigned int room = ARRAY_LEN(licences.gridLicensableFeatures);

    (void)arg;
    numbers[0] = licences.isGridLicenseSupported ? nvml_lacking(ABSENCE_NO_DATA) : nvml_whole(0);
    for (unsigned int i = 0; i < licences.licensableFeaturesCount && i < room; i++)
        if (licences.gridLicensableFeatures[i].featureCode == NVML_GRID_LICENSE_FEATURE_CODE_VGPU)
            numbers[0] = nvml_whole(licences.gridLicensableFeatures[i].featureState > 0);
    return r;
}

/* DCGM's numbers: 1 not started, 2 in progress, 3 registered, 4 failed. A board without a fabric has none. */
static NvmlNumber fabric_status(unsigned int state, nvmlReturn_t status)
{
    enum { REGISTERED = 3, FAILED = 4, UNKNOWN = 5 };

    if (state == NVML_GPU_FABRIC_STATE_NOT_SUPPORTED)
        return nvml_lacking(ABSENCE_NOT_SUPPORTED);
    if (state == NVML_GPU_FABRIC_STATE_COMPLETED)
        return nvml_whole(status == NVML_SUCCESS ? REGISTERED : FAILED);
    return nvml_whole(state < NVML_GPU_FABRIC_STATE_COMPLETED ? state : UNKNOWN);
}

static nvmlReturn_t read_fabric_v1(NvmlGpu *gpu, NvmlNumber numbers[])
{
    nvmlGpuFabricInfo_t fabric = {0};
    const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetGpuFabricInfo, (gpu->handle, &fabric));

    numbers[0] = fabric_status(fabric.state, fabric.status);
    numbers[1] = numbers[2] = numbers[0].valid ? nvml_lacking(ABSENCE_DRIVER_LACKS) : numbers[0];
    return r;
}

/* The newest version of the struct that the driver accepts. */
static nvmlReturn_t read_fabric(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    nvmlGpuFabricInfoV_t fabric = {.version = nvmlGpuFabricInfo_v3};
    nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetGpuFabricInfoV, (gpu->handle, &fabric));
    bool summary = true;

    (void)arg;
    if (r == NVML_ERROR_ARGUMENT_VERSION_MISMATCH) {
        fabric = (nvmlGpuFabricInfoV_t){.version = nvmlGpuFabricInfo_v2};
        r = NVML_GPU_CALL(gpu, nvmlDeviceGetGpuFabricInfoV, (gpu->handle, &fabric));
        summary = false;
    }
    if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
        return read_fabric_v1(gpu, numbers);
    numbers[0] = fabric_status(fabric.state, fabric.status);
    numbers[1] = numbers[0].valid ? nvml_whole(fabric.healthMask) : numbers[0];
    numbers[2] = numbers[0].valid ? nvml_whole(fabric.healthSummary) : numbers[0];
    if (numbers[0].valid && !summary)
        numbers[2] = nvml_lacking(ABSENCE_DRIVER_LACKS);
    else if (numbers[0].valid && fabric.healthSummary == NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED)
        numbers[2] = nvml_lacking(ABSENCE_NOT_SUPPORTED);
    return r;
}

/* The driver reads the whole flash for this, so it is read once an hour and cached. */
static nvmlReturn_t read_inforom(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    const uint64_t now = nvml_gpu_now(gpu);

    (void)arg;
    if (gpu->inforom.asked_ns == 0 || now - gpu->inforom.asked_ns >= 60 * NS_PER_MIN) {
        gpu->inforom.answer = NVML_CALL_WITHIN(&gpu->reader->library, &gpu->target, NVML_ATTACH_LIMIT_MS,
                                               nvmlDeviceValidateInforom, (gpu->handle));
        gpu->inforom.asked_ns = gpu->target.trouble ? 0 : now;
    }
    numbers[0] = nvml_whole(gpu->inforom.answer == NVML_SUCCESS);
    return gpu->inforom.answer == NVML_ERROR_CORRUPTED_INFOROM ? NVML_SUCCESS : gpu->inforom.answer;
}

/* One fan: its speed, and its target speed; -1 where that is unknown. */
static nvmlReturn_t read_fan(NvmlGpu *gpu, unsigned int fan, int64_t *ret_speed, int64_t *ret_target)
{
    unsigned int speed = 0, target = 0;
    const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetFanSpeed_v2, (gpu->handle, fan, &speed));

    *ret_speed = speed;
    *ret_target = -1;
    if (r == NVML_SUCCESS &&
        NVML_GPU_CALL(gpu, nvmlDeviceGetTargetFanSpeed, (gpu->handle, fan, &target)) == NVML_SUCCESS)
        *ret_target = target;
    return r;
}

/* Of several fans the one that lags most; where there are no targets, the slowest. */
static nvmlReturn_t read_fans(NvmlGpu *gpu, unsigned int arg, NvmlNumber numbers[])
{
    unsigned int fans = 0;
    int64_t most = 0;
    nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlDeviceGetNumFans, (gpu->handle, &fans));

    (void)arg;
    numbers[0] = numbers[1] = nvml_lacking(ABSENCE_NOT_SUPPORTED);
    for (unsigned int fan = 0; r == NVML_SUCCESS && fan < fans && fan < FANS_MAX; fan++) {
        int64_t speed, target, lag;

        r = read_fan(gpu, fan, &speed, &target);
        lag = target < 0 ? -speed : target - speed;
        if (r != NVML_SUCCESS || (numbers[0].valid && lag <= most))
            continue;
        most = lag;
        numbers[0] = nvml_whole(speed);
        numbers[1] = target < 0 ? nvml_lacking(ABSENCE_DRIVER_LACKS) : nvml_whole(target);
    }
    return r;
}

#define ROW(reader, of, ...)                                                                                           \
    {                                                                                                                  \
        .read = (reader), .arg = (of), .count = sizeof((MetricId[]){__VA_ARGS__}) / sizeof(MetricId), .metrics = {     \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

const NvmlRow nvml_rows[] = {
    ROW(read_nvmlDeviceGetClockInfo, NVML_CLOCK_SM, METRIC_SM_CLOCK),
    ROW(read_nvmlDeviceGetClockInfo, NVML_CLOCK_MEM, METRIC_MEM_CLOCK),
    ROW(read_nvmlDeviceGetPowerUsage, 0, METRIC_POWER_USAGE),
    ROW(read_nvmlDeviceGetUtilizationRates, 0, METRIC_GPU_UTIL, METRIC_MEM_COPY_UTIL),
    ROW(read_nvmlDeviceGetCurrentClocksEventReasons, 0, METRIC_CLOCKS_EVENT_REASONS),

    ROW(read_nvmlDeviceGetClockInfo, NVML_CLOCK_VIDEO, METRIC_VIDEO_CLOCK),
    ROW(read_temperature, 0, METRIC_GPU_TEMP),
    ROW(read_nvmlDeviceGetMarginTemperature, 0, METRIC_GPU_TEMP_LIMIT),
    ROW(read_nvmlDeviceGetCurrPcieLinkGeneration, 0, METRIC_PCIE_LINK_GEN),
    ROW(read_nvmlDeviceGetCurrPcieLinkWidth, 0, METRIC_PCIE_LINK_WIDTH),
    ROW(read_nvmlDeviceGetEncoderUtilization, 0, METRIC_ENC_UTIL),
    ROW(read_nvmlDeviceGetDecoderUtilization, 0, METRIC_DEC_UTIL),
    ROW(read_memory, 0, METRIC_FB_TOTAL, METRIC_FB_FREE, METRIC_FB_USED, METRIC_FB_RESERVED),
    ROW(read_nvmlDeviceGetFanSpeed, 0, METRIC_FAN_SPEED),
    ROW(read_nvmlDeviceGetPerformanceState, 0, METRIC_PSTATE),

    ROW(read_nvmlDeviceGetApplicationsClock, NVML_CLOCK_GRAPHICS, METRIC_APP_SM_CLOCK),
    ROW(read_nvmlDeviceGetApplicationsClock, NVML_CLOCK_MEM, METRIC_APP_MEM_CLOCK),
    ROW(read_nvmlDeviceGetPowerManagementLimit, 0, METRIC_POWER_MGMT_LIMIT),
    ROW(read_nvmlDeviceGetEnforcedPowerLimit, 0, METRIC_ENFORCED_POWER_LIMIT),
    ROW(read_nvmlDeviceGetPcieReplayCounter, 0, METRIC_PCIE_REPLAY_COUNTER),
    ROW(read_nvmlDeviceGetBAR1MemoryInfo, 0, METRIC_BAR1_USED, METRIC_BAR1_FREE),
    ROW(read_retired, NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, METRIC_RETIRED_SBE),
    ROW(read_nvmlDeviceGetRowRemapperHistogram, 0, METRIC_BANKS_REMAP_ROWS_AVAIL_MAX,
        METRIC_BANKS_REMAP_ROWS_AVAIL_HIGH, METRIC_BANKS_REMAP_ROWS_AVAIL_PARTIAL, METRIC_BANKS_REMAP_ROWS_AVAIL_LOW,
        METRIC_BANKS_REMAP_ROWS_AVAIL_NONE),
    ROW(read_nvmlDeviceGetSramEccErrorStatus, 0, METRIC_SRAM_THRESHOLD, METRIC_ECC_SRAM_UNC_VOLATILE,
        METRIC_ECC_SRAM_UNC_AGGREGATE, METRIC_ECC_SRAM_COR_VOLATILE, METRIC_ECC_SRAM_COR_AGGREGATE),
    ROW(read_nvmlDeviceGetUnrepairableMemoryFlag_v1, 0, METRIC_UNREPAIRABLE_MEMORY),
    ROW(read_nvmlDeviceGetRepairStatus, 0, METRIC_CHANNEL_REPAIR_PENDING, METRIC_TPC_REPAIR_PENDING),
    ROW(read_inforom, 0, METRIC_INFOROM_VALID),
    ROW(read_fans, 0, METRIC_FAN_SLOWEST, METRIC_FAN_TARGET),
    ROW(read_licence, 0, METRIC_VGPU_LICENSE_STATUS),
    ROW(read_nvmlDeviceGetPersistenceMode, 0, METRIC_PERSISTENCE_MODE),
    ROW(read_nvmlDeviceGetComputeMode, 0, METRIC_COMPUTE_MODE),
    ROW(read_fabric, 0, METRIC_FABRIC_MANAGER_STATUS, METRIC_FABRIC_HEALTH_MASK, METRIC_FABRIC_HEALTH_SUMMARY),

    ROW(read_nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM, METRIC_MAX_SM_CLOCK),
    ROW(read_nvmlDeviceGetMaxClockInfo, NVML_CLOCK_MEM, METRIC_MAX_MEM_CLOCK),
    ROW(read_nvmlDeviceGetMaxClockInfo, NVML_CLOCK_VIDEO, METRIC_MAX_VIDEO_CLOCK),
    ROW(read_nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, METRIC_SLOWDOWN_TEMP),
    ROW(read_nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, METRIC_SHUTDOWN_TEMP),
    ROW(read_nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_GPU_MAX, METRIC_GPU_MAX_OP_TEMP),
    ROW(read_nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_MEM_MAX, METRIC_MEM_MAX_OP_TEMP),
    ROW(read_nvmlDeviceGetPowerManagementLimitConstraints, 0, METRIC_POWER_MGMT_LIMIT_MIN, METRIC_POWER_MGMT_LIMIT_MAX),
    ROW(read_nvmlDeviceGetPowerManagementDefaultLimit, 0, METRIC_POWER_MGMT_LIMIT_DEF),
    ROW(read_nvmlDeviceGetMaxPcieLinkGeneration, 0, METRIC_PCIE_MAX_LINK_GEN),
    ROW(read_nvmlDeviceGetMaxPcieLinkWidth, 0, METRIC_PCIE_MAX_LINK_WIDTH),
    ROW(read_nvmlDeviceGetBAR1MemoryInfo, 1, METRIC_BAR1_TOTAL),
    ROW(read_nvmlDeviceGetNumFans, 0, METRIC_FANS),
    ROW(read_nvmlDeviceGetMemoryBusWidth, 0, METRIC_MEMORY_BUS_WIDTH),
    ROW(read_nvmlDeviceGetGspFirmwareMode, 0, METRIC_GSP_ENABLED),

    ROW(read_throughput, NVML_PCIE_UTIL_TX_BYTES, METRIC_PCIE_TX_THROUGHPUT),
    ROW(read_throughput, NVML_PCIE_UTIL_RX_BYTES, METRIC_PCIE_RX_THROUGHPUT),
};

const size_t nvml_rows_count = ARRAY_LEN(nvml_rows);

/* The last rows are the blocking ones. */
enum { BLOCKING_ROWS = 2 };

uint32_t nvml_blocking_rows(void)
{
    return BLOCKING_ROWS;
}

const NvmlRow *nvml_blocking_row(uint32_t which)
{
    return &nvml_rows[ARRAY_LEN(nvml_rows) - BLOCKING_ROWS + which % BLOCKING_ROWS];
}

/* ---- MIG ---- */

static bool is_of_links(MetricId id)
{
    const MetricSource *source = &metric_get(id)->source;

    return source->kind == METRIC_FROM_FIELD && (source->scope > NVML_LINKS_MAX || source->second_id != 0);
}

/* Whether a metric cannot be had while MIG is on, though the GPU has it. */
static bool is_hidden_by_mig(MetricId id)
{
    switch (id) {
    case METRIC_GPU_UTIL:
    case METRIC_MEM_COPY_UTIL:
    case METRIC_ENC_UTIL:
    case METRIC_DEC_UTIL:
    case METRIC_BANKS_REMAP_ROWS_AVAIL_MAX:
    case METRIC_BANKS_REMAP_ROWS_AVAIL_HIGH:
    case METRIC_BANKS_REMAP_ROWS_AVAIL_PARTIAL:
    case METRIC_BANKS_REMAP_ROWS_AVAIL_LOW:
    case METRIC_BANKS_REMAP_ROWS_AVAIL_NONE:
    case METRIC_UNCORRECTABLE_REMAPPED_ROWS:
    case METRIC_CORRECTABLE_REMAPPED_ROWS:
    case METRIC_ROW_REMAP_FAILURE:
    case METRIC_ROW_REMAP_PENDING:
        return true;
    default:
        return is_of_links(id);
    }
}

Absence nvml_absence_of(const NvmlGpu *gpu, MetricId id, Absence why)
{
    if (why != ABSENCE_NOT_SUPPORTED || !gpu->reading.mig || !is_hidden_by_mig(id))
        return why;
    return is_of_links(id) && gpu->links == 0 ? why : ABSENCE_MIG_MODE;
}

/* ---- reading ---- */

static bool row_wanted(const NvmlGpu *gpu, const NvmlRow *row)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (nvml_gpu_wants(gpu, row->metrics[i]))
            return true;
    return false;
}

static void set_sample(NvmlGpu *gpu, MetricId id, NvmlNumber number, uint64_t now)
{
    Sample *sample = &gpu->reading.sample[id];

    if (!nvml_gpu_wants(gpu, id))
        return;
    if (!number.valid)
        number.absence = nvml_absence_of(gpu, id, number.absence);
    nvml_sample_set(metric_get(id), number, now, sample);
}

void nvml_row_read(NvmlGpu *gpu, const NvmlRow *row)
{
    NvmlNumber numbers[NVML_ROW_METRICS] = {{0}};
    const nvmlReturn_t answer = row->read(gpu, row->arg, numbers);
    const Absence why = nvml_gpu_count_answer(gpu, answer);
    const uint64_t now = nvml_gpu_now(gpu);

    for (uint32_t i = 0; i < row->count; i++)
        set_sample(gpu, row->metrics[i], answer == NVML_SUCCESS ? numbers[i] : nvml_lacking(why), now);
}

void nvml_rows_read(NvmlGpu *gpu, MetricPace pace)
{
    for (size_t i = 0; i < ARRAY_LEN(nvml_rows) && !gpu->target.trouble; i++)
        if (metric_get(nvml_rows[i].metrics[0])->pace == pace && row_wanted(gpu, &nvml_rows[i]))
            nvml_row_read(gpu, &nvml_rows[i]);
}
