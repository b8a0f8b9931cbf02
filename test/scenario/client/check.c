/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the answers agree with each other and with what a GPU can be. */
#include "client.h"

#include <math.h>
#include <string.h>

/* Nobody made a mistake and nothing is broken: neither "uninitialised" nor "lost" nor "unknown" may come. */
int check_code(nvmlReturn_t code)
{
    static const nvmlReturn_t fine[] = {NVML_SUCCESS,
                                        NVML_ERROR_INVALID_ARGUMENT,
                                        NVML_ERROR_NOT_SUPPORTED,
                                        NVML_ERROR_NO_PERMISSION,
                                        NVML_ERROR_NOT_FOUND,
                                        NVML_ERROR_INSUFFICIENT_SIZE,
                                        NVML_ERROR_TIMEOUT,
                                        NVML_ERROR_FUNCTION_NOT_FOUND,
                                        NVML_ERROR_IN_USE,
                                        NVML_ERROR_NO_DATA,
                                        NVML_ERROR_INSUFFICIENT_RESOURCES,
                                        NVML_ERROR_FREQ_NOT_SUPPORTED,
                                        NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
                                        NVML_ERROR_DEPRECATED};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (code == fine[i])
            return 1;
    return 0;
}

static const SimBoard *board_of(const Client *c, unsigned int gpu)
{
    unsigned int minor = 0;
    CALL(nvmlDeviceGetMinorNumber, c->devices[gpu], &minor);
    for (uint32_t g = 0; g < c->image->gpu_count; g++)
        if (c->image->gpus[g].minor == minor)
            return &c->image->boards[c->image->gpus[g].board];
    return &c->image->boards[0];
}

#define EXPECT(c, gpu, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            client_wrong(c, "device %u: not so: %s", gpu, #condition);                                                 \
    } while (0)

/* 0 where the board has it, NOT_SUPPORTED where not. */
static nvmlReturn_t where(int has)
{
    return has ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static void check_codes(Client *c, unsigned int gpu, int mig)
{
    const SimBoard *b = board_of(c, gpu);
    nvmlDevice_t d = c->devices[gpu];
    unsigned int a[4];
    unsigned long long u;
    nvmlEnableState_t on, pending;
    nvmlUtilization_t util;
    nvmlRowRemapperHistogramValues_t rows;
    nvmlGpmSupport_t gpm = {.version = 1};
    EXPECT(c, gpu, CALL(nvmlDeviceGetFanSpeed, d, a) == where(b->fans > 0));
    EXPECT(c, gpu, CALL(nvmlDeviceGetMigMode, d, a, a + 1) == where((int)b->has_mig));
    EXPECT(c, gpu, CALL(nvmlDeviceGetEccMode, d, &on, &pending) == where((int)b->has_ecc));
    EXPECT(c, gpu, CALL(nvmlDeviceGetTotalEccErrors, d, 0, 0, &u) == where((int)b->has_ecc));
    EXPECT(c, gpu, CALL(nvmlDeviceGetRowRemapperHistogram, d, &rows) == where((int)b->has_remap));
    EXPECT(c, gpu, CALL(nvmlDeviceGetRemappedRows, d, a, a + 1, a + 2, a + 3) == where(b->has_remap && !mig));
    EXPECT(c, gpu, CALL(nvmlDeviceGetUtilizationRates, d, &util) == where(!mig));
    EXPECT(c, gpu, CALL(nvmlDeviceGetNvLinkState, d, b->link_count, &on) == NVML_ERROR_NOT_SUPPORTED);
    EXPECT(c, gpu, CALL(nvmlDeviceGetNvLinkState, d, 99, &on) == NVML_ERROR_INVALID_ARGUMENT || !b->link_count);
    EXPECT(c, gpu, CALL(nvmlDeviceGetTotalEnergyConsumption, d, &u) == NVML_SUCCESS);
    EXPECT(c, gpu, CALL(nvmlDeviceGetPowerUsage, d, a) == NVML_SUCCESS);
    EXPECT(c, gpu, CALL(nvmlDeviceGetFanSpeed, d, NULL) == NVML_ERROR_INVALID_ARGUMENT || !b->fans);
    if (CALL(nvmlGpmQueryDeviceSupport, d, &gpm) == NVML_SUCCESS)
        EXPECT(c, gpu, gpm.isSupportedDevice == b->has_gpm);
    if (!mig && b->link_count)
        for (unsigned int link = 0; link < b->link_count; link++)
            EXPECT(c, gpu, CALL(nvmlDeviceGetNvLinkState, d, link, &on) == NVML_SUCCESS);
}

/* ---- one instant ---- */

static void check_memory(Client *c, unsigned int i)
{
    nvmlDevice_t d = c->devices[i];
    nvmlMemory_t old;
    nvmlMemory_v2_t memory = {.version = NVML_STRUCT_TAG(nvmlMemory_v2_t, 2)};
    nvmlBAR1Memory_t bar;
    if (CALL(nvmlDeviceGetMemoryInfo_v2, d, &memory) != NVML_SUCCESS ||
        CALL(nvmlDeviceGetMemoryInfo, d, &old) != NVML_SUCCESS)
        return;
    EXPECT(c, i, memory.used + memory.free + memory.reserved == memory.total);
    EXPECT(c, i, old.total == memory.total && old.used + old.free == old.total);
    if (!c->changing)
        EXPECT(c, i, old.used == memory.used + memory.reserved);
    if (CALL(nvmlDeviceGetBAR1MemoryInfo, d, &bar) == NVML_SUCCESS)
        EXPECT(c, i, bar.bar1Used + bar.bar1Free == bar.bar1Total);
    nvmlProcessInfo_t list[CLIENT_LIST_MAX];
    unsigned int count = CLIENT_LIST_MAX;
    unsigned long long sum = 0;
    static const NvmlFn kinds[] = {NVML_FN_nvmlDeviceGetComputeRunningProcesses_v3,
                                   NVML_FN_nvmlDeviceGetGraphicsRunningProcesses_v3,
                                   NVML_FN_nvmlDeviceGetMPSComputeRunningProcesses_v3};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++, count = CLIENT_LIST_MAX) {
        ClientFn fn = library_fn(kinds[k]);
        if (!fn || ((__typeof__(nvmlDeviceGetComputeRunningProcesses_v3) *)fn)(d, &count, list) != NVML_SUCCESS)
            continue;
        for (unsigned int p = 0; p < count; p++)
            sum += list[p].usedGpuMemory != ~0ull ? list[p].usedGpuMemory : 0;
        unsigned int none = 0;
        nvmlReturn_t code = ((__typeof__(nvmlDeviceGetComputeRunningProcesses_v3) *)fn)(d, &none, NULL);
        if (!c->changing)
            EXPECT(c, i, code == (count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS) && none == count);
    }
    if (!c->changing)
        EXPECT(c, i, sum <= memory.used && memory.used - sum < (1ull << 30) + memory.total / 64);
}

static void check_power(Client *c, unsigned int i)
{
    nvmlDevice_t d = c->devices[i];
    unsigned int mw, limit, enforced, least, most, usual;
    if (CALL(nvmlDeviceGetPowerUsage, d, &mw) != NVML_SUCCESS ||
        CALL(nvmlDeviceGetPowerManagementLimit, d, &limit) != NVML_SUCCESS)
        return;
    EXPECT(c, i, mw > 0);
    if (CALL(nvmlDeviceGetEnforcedPowerLimit, d, &enforced) == NVML_SUCCESS && !c->changing)
        EXPECT(c, i, mw <= enforced && enforced <= limit);
    if (CALL(nvmlDeviceGetPowerManagementLimitConstraints, d, &least, &most) == NVML_SUCCESS)
        EXPECT(c, i, least <= limit && limit <= most && mw <= most);
    if (CALL(nvmlDeviceGetPowerManagementDefaultLimit, d, &usual) == NVML_SUCCESS)
        EXPECT(c, i, usual > 0);
}

static void check_rates(Client *c, unsigned int i)
{
    nvmlDevice_t d = c->devices[i];
    nvmlUtilization_t util;
    unsigned int percent, period, mhz, max;
    static const NvmlFn engines[] = {NVML_FN_nvmlDeviceGetEncoderUtilization, NVML_FN_nvmlDeviceGetDecoderUtilization,
                                     NVML_FN_nvmlDeviceGetJpgUtilization, NVML_FN_nvmlDeviceGetOfaUtilization};
    if (CALL(nvmlDeviceGetUtilizationRates, d, &util) == NVML_SUCCESS)
        EXPECT(c, i, util.gpu <= 100 && util.memory <= 100);
    for (size_t k = 0; k < sizeof engines / sizeof *engines; k++) {
        ClientFn fn = library_fn(engines[k]);
        if (fn && ((__typeof__(nvmlDeviceGetEncoderUtilization) *)fn)(d, &percent, &period) == NVML_SUCCESS)
            EXPECT(c, i, percent <= 100);
    }
    if (CALL(nvmlDeviceGetFanSpeed, d, &percent) == NVML_SUCCESS)
        EXPECT(c, i, percent <= 100);
    for (unsigned int type = 0; type < 4; type++)
        if (CALL(nvmlDeviceGetClockInfo, d, (nvmlClockType_t)type, &mhz) == NVML_SUCCESS &&
            CALL(nvmlDeviceGetMaxClockInfo, d, (nvmlClockType_t)type, &max) == NVML_SUCCESS)
            EXPECT(c, i, mhz > 0 && mhz <= max);
    if (CALL(nvmlDeviceGetCurrPcieLinkGeneration, d, &mhz) == NVML_SUCCESS &&
        CALL(nvmlDeviceGetMaxPcieLinkGeneration, d, &max) == NVML_SUCCESS)
        EXPECT(c, i, mhz <= max);
    if (CALL(nvmlDeviceGetTemperature, d, NVML_TEMPERATURE_GPU, &mhz) == NVML_SUCCESS)
        EXPECT(c, i, mhz > 5 && mhz < 120);
}

/* What the MIG devices of a GPU have is at most what it has. */
static void check_mig(Client *c, unsigned int gpu)
{
    const SimBoard *b = board_of(c, gpu);
    unsigned int slices = 0, compute = 0, sms = 0, found = 0;
    unsigned long long mib = 0;
    for (unsigned int i = c->gpus; i < c->device_count; i++) {
        nvmlDeviceAttributes_t a;
        nvmlDevice_t parent = NULL;
        nvmlMemory_t memory;
        if (CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, c->devices[i], &parent) != NVML_SUCCESS ||
            parent != c->devices[gpu] || CALL(nvmlDeviceGetAttributes_v2, c->devices[i], &a) != NVML_SUCCESS)
            continue;
        found++;
        slices += a.gpuInstanceSliceCount;
        compute += a.computeInstanceSliceCount;
        sms += a.multiprocessorCount;
        mib += a.memorySizeMB;
        EXPECT(c, i, a.multiprocessorCount > 0 && a.memorySizeMB > 0);
        EXPECT(c, i, a.computeInstanceSliceCount <= a.gpuInstanceSliceCount);
        if (CALL(nvmlDeviceGetMemoryInfo, c->devices[i], &memory) == NVML_SUCCESS)
            EXPECT(c, i, memory.total / 1048576 <= a.memorySizeMB);
    }
    if (c->changing || !found)
        return;
    EXPECT(c, gpu, found <= b->mig_max_devices && slices <= b->mig_slices && compute <= b->mig_slices);
    EXPECT(c, gpu, sms <= b->sm_count && mib <= b->memory_mib);
}

void check_now(Client *c)
{
    for (unsigned int i = 0; i < c->device_count; i++) {
        check_memory(c, i);
        check_power(c, i);
        check_rates(c, i);
    }
    for (unsigned int g = 0; g < c->gpus; g++) {
        unsigned int mode = 0, pending;
        CALL(nvmlDeviceGetMigMode, c->devices[g], &mode, &pending);
        if (!c->changing)
            check_codes(c, g, mode != 0);
        if (mode)
            check_mig(c, g);
    }
}

/* ---- a course of time ---- */

enum { COUNTERS = 8 };

static void counters_of(nvmlDevice_t d, unsigned long long value[COUNTERS])
{
    unsigned int replays = 0;
    memset(value, 0, COUNTERS * sizeof *value);
    CALL(nvmlDeviceGetTotalEnergyConsumption, d, &value[0]);
    CALL(nvmlDeviceGetTotalEccErrors, d, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &value[1]);
    CALL(nvmlDeviceGetTotalEccErrors, d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC, &value[2]);
    CALL(nvmlDeviceGetPcieReplayCounter, d, &replays);
    value[3] = replays;
    CALL(nvmlDeviceGetNvLinkErrorCounter, d, 0, 0, &value[4]);
    for (unsigned int k = 0; k < 3; k++) {
        nvmlViolationTime_t time = {0, 0};
        CALL(nvmlDeviceGetViolationStatus, d, (nvmlPerfPolicyType_t)k, &time);
        value[5 + k] = time.violationTime;
    }
}

static void check_one_course(Client *c, unsigned int gpu, double seconds)
{
    unsigned long long before[COUNTERS], now[COUNTERS], first;
    double millijoules = 0;
    counters_of(c->devices[gpu], before);
    first = before[0];
    for (double t = 0; t < seconds; t += SIM_TICK_NS / 1e9) {
        unsigned int mw = 0;
        CALL(nvmlDeviceGetPowerUsage, c->devices[gpu], &mw);
        sim_clock_advance(c->image, SIM_TICK_NS);
        millijoules += mw * (SIM_TICK_NS / 1e9);
        counters_of(c->devices[gpu], now);
        for (int k = 0; k < COUNTERS; k++)
            if (now[k] < before[k])
                client_wrong(c, "device %u: counter %d falls from %llu to %llu", gpu, k, before[k], now[k]);
        memcpy(before, now, sizeof before);
    }
    double energy = (double)(now[0] - first);
    if (fabs(energy / millijoules - 1) > 0.01)
        client_wrong(c, "device %u: energy %.0f mJ, integral of power %.0f mJ", gpu, energy, millijoules);
}

/* Two samples a second apart: fractions are fractions. */
static void check_gpm(Client *c, unsigned int gpu)
{
    nvmlGpmSample_t sample[2] = {NULL, NULL};
    static nvmlGpmMetricsGet_t get; /* large; only one thread checks a course */
    int fine = 1;
    for (int k = 0; k < 2; k++) {
        fine &= CALL(nvmlGpmSampleAlloc, &sample[k]) == NVML_SUCCESS;
        fine = fine && CALL(nvmlGpmSampleGet, c->devices[gpu], sample[k]) == NVML_SUCCESS;
        sim_clock_advance(c->image, SIM_NS);
    }
    get = (nvmlGpmMetricsGet_t){.version = 1, .numMetrics = 10, .sample1 = sample[0], .sample2 = sample[1]};
    for (unsigned int k = 0; k < 10; k++)
        get.metrics[k].metricId = k + 1; /* 1 to 10: parts of the SMs and of the memory */
    nvmlReturn_t code = CALL(nvmlGpmMetricsGet, &get);
    EXPECT(c, gpu, (code == NVML_SUCCESS) == fine);
    for (unsigned int k = 0; k < 10 && code == NVML_SUCCESS; k++)
        if (get.metrics[k].nvmlReturn == NVML_SUCCESS)
            EXPECT(c, gpu, get.metrics[k].value >= 0 && get.metrics[k].value <= 100);
    EXPECT(c, gpu, (code == NVML_SUCCESS) == (board_of(c, gpu)->has_gpm != 0) || c->device_count > c->gpus);
    for (int k = 0; k < 2; k++)
        if (sample[k])
            CALL(nvmlGpmSampleFree, sample[k]);
}

void check_course(Client *c, double seconds)
{
    for (unsigned int g = 0; g < c->gpus; g++)
        check_one_course(c, g, seconds);
    for (unsigned int g = 0; g < c->gpus; g++)
        check_gpm(c, g);
}
