/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's library, asked directly: what the machine is, its settings before and after, how long calls take, and
 * GPM between two samples. Only functions that read are called. The library is loaded in the process of a step and not
 * before, so that a driver that hangs costs one step.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "nvml_abi.h"

enum {
    GPUS_MAX = 64,
    CALLS_MAX = 300,      /* of one function */
    CALL_BUDGET_MS = 250, /* for one function, after its first call */
    PROCESSES_MAX = 256,
    FIELDS_MANY = 40,
    GPM_METRICS = 12,
};

static void *library;

/* The function by its name, as a pointer of its own type; NULL where this driver has none. */
static void find_symbol(const char *name, void *ret)
{
    void *symbol = dlsym(library, name);

    memcpy(ret, &symbol, sizeof symbol);
}

#define FIND(fn, pointer)                                                                                              \
    __typeof__(fn) *pointer = NULL;                                                                                    \
    find_symbol(#fn, &pointer)

static int open_library(const Real *real, Err *err)
{
    nvmlReturn_t rc;

    library = dlopen(real->library, RTLD_NOW);
    if (!library)
        return err_set(err, -ENOENT, "no driver library: %s", dlerror());
    FIND(nvmlInit_v2, start);
    rc = start ? start() : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (rc != NVML_SUCCESS)
        return err_set(err, -EIO, "the driver's library does not start: NVML error %d", (int)rc);
    return 0;
}

/* Handles of all GPUs that have one, at their indices; NULL for the others. */
static unsigned int list_devices(nvmlDevice_t ret[GPUS_MAX])
{
    unsigned int count = 0;
    FIND(nvmlDeviceGetCount_v2, get_count);
    FIND(nvmlDeviceGetHandleByIndex_v2, get);

    if (!get_count || !get || get_count(&count) != NVML_SUCCESS)
        return 0;
    count = count > GPUS_MAX ? GPUS_MAX : count;
    for (unsigned int i = 0; i < count; i++)
        if (get(i, &ret[i]) != NVML_SUCCESS)
            ret[i] = NULL;
    return count;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static json_t *describe_gpu(unsigned int index, nvmlDevice_t device)
{
    char name[96] = "", vbios[64] = "";
    nvmlPciInfo_t pci = {0};
    int major = 0, minor = 0;
    unsigned int gpm = 0;
    FIND(nvmlDeviceGetName, get_name);
    FIND(nvmlDeviceGetVbiosVersion, get_vbios);
    FIND(nvmlDeviceGetPciInfo_v3, get_pci);
    FIND(nvmlDeviceGetCudaComputeCapability, get_capability);
    FIND(nvmlGpmQueryDeviceSupport, query);

    if (device && get_name)
        get_name(device, name, sizeof name);
    if (device && get_vbios)
        get_vbios(device, vbios, sizeof vbios);
    if (device && get_pci)
        get_pci(device, &pci);
    if (device && get_capability)
        get_capability(device, &major, &minor);
    if (device && query) {
        nvmlGpmSupport_t support = {.version = 1};

        gpm = query(device, &support) == NVML_SUCCESS && support.isSupportedDevice;
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:i, s:b, s:b}", "index", (int)index, "name", name, "pci", pci.busId,
                     "vbios", vbios, "compute_capability", 10 * major + minor, "gpm", (int)gpm, "answers",
                     device != NULL);
}

StepEnd library_read_machine(const Real *real, json_t *result, Err *err)
{
    nvmlDevice_t devices[GPUS_MAX] = {NULL};
    char driver[96] = "unknown", nvml[96] = "unknown";
    json_t *gpus = json_array();
    unsigned int count;
    int cuda = 0;
    struct utsname kernel;

    uname(&kernel);
    json_object_set_new(result, "kernel", json_string(kernel.release));
    json_object_set_new(result, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(result, "libc", json_string(gnu_get_libc_version()));
    json_object_set_new(result, "root", json_boolean(geteuid() == 0));
    json_object_set_new(result, "gpus", gpus);
    if (open_library(real, err) < 0)
        return STEP_FAILED;
    FIND(nvmlSystemGetDriverVersion, get_driver);
    FIND(nvmlSystemGetNVMLVersion, get_nvml);
    FIND(nvmlSystemGetCudaDriverVersion, get_cuda);
    if (get_driver)
        get_driver(driver, sizeof driver);
    if (get_nvml)
        get_nvml(nvml, sizeof nvml);
    if (get_cuda)
        get_cuda(&cuda);
    json_object_set_new(result, "driver", json_string(driver));
    json_object_set_new(result, "nvml", json_string(nvml));
    json_object_set_new(result, "cuda", json_integer(cuda));
    count = list_devices(devices);
    for (unsigned int i = 0; i < count; i++) {
        json_t *gpu = describe_gpu(i, devices[i]);

        real_add_line(result, "GPU %u: %s at %s, GPM %s", i, json_string_value(json_object_get(gpu, "name")),
                      json_string_value(json_object_get(gpu, "pci")),
                      json_is_true(json_object_get(gpu, "gpm")) ? "yes" : "no");
        json_array_append_new(gpus, gpu);
    }
    return real_end(result, count ? STEP_OK : STEP_FAILED, "%u GPUs, driver %s, CUDA %d.%d, kernel %s, glibc %s", count,
                    driver, cuda / 1000, cuda % 1000 / 10, kernel.release, gnu_get_libc_version());
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

/* READ(id, function, type): one value; READ2: two values of the type; READ_OF: one value of a second argument. */
#define READ(id, fn, type)                                                                                             \
    static nvmlReturn_t read_##id(nvmlDevice_t device, double ret[2])                                                  \
    {                                                                                                                  \
        type a = 0;                                                                                                    \
        FIND(fn, get);                                                                                                 \
        const nvmlReturn_t rc = get ? get(device, &a) : NVML_ERROR_FUNCTION_NOT_FOUND;                                 \
        ret[0] = (double)a;                                                                                            \
        return rc;                                                                                                     \
    }
#define READ2(id, fn, type)                                                                                            \
    static nvmlReturn_t read_##id(nvmlDevice_t device, double ret[2])                                                  \
    {                                                                                                                  \
        type a = 0, b = 0;                                                                                             \
        FIND(fn, get);                                                                                                 \
        const nvmlReturn_t rc = get ? get(device, &a, &b) : NVML_ERROR_FUNCTION_NOT_FOUND;                             \
        ret[0] = (double)a;                                                                                            \
        ret[1] = (double)b;                                                                                            \
        return rc;                                                                                                     \
    }
#define READ_OF(id, fn, type, ...)                                                                                     \
    static nvmlReturn_t read_##id(nvmlDevice_t device, double ret[2])                                                  \
    {                                                                                                                  \
        type a = 0;                                                                                                    \
        FIND(fn, get);                                                                                                 \
        const nvmlReturn_t rc = get ? get(device, __VA_ARGS__, &a) : NVML_ERROR_FUNCTION_NOT_FOUND;                    \
        ret[0] = (double)a;                                                                                            \
        return rc;                                                                                                     \
    }

/* What an administrator can set and NVML can read. Locked clocks cannot be read; NVML_CLOCK_ID_APP_CLOCK_TARGET is the
 * clock that is aimed at under them. */
#define SETTINGS(ROW, ROW2, ROW_OF)                                                                                    \
    ROW(persistence_mode, nvmlDeviceGetPersistenceMode, nvmlEnableState_t)                                             \
    ROW(compute_mode, nvmlDeviceGetComputeMode, nvmlComputeMode_t)                                                     \
    ROW(accounting_mode, nvmlDeviceGetAccountingMode, nvmlEnableState_t)                                               \
    ROW(accounting_buffer, nvmlDeviceGetAccountingBufferSize, unsigned int)                                            \
    ROW(power_limit_mw, nvmlDeviceGetPowerManagementLimit, unsigned int)                                               \
    ROW2(ecc_mode, nvmlDeviceGetEccMode, nvmlEnableState_t)                                                            \
    ROW2(mig_mode, nvmlDeviceGetMigMode, unsigned int)                                                                 \
    ROW2(auto_boost, nvmlDeviceGetAutoBoostedClocksEnabled, nvmlEnableState_t)                                         \
    ROW_OF(application_clock_graphics, nvmlDeviceGetApplicationsClock, unsigned int, NVML_CLOCK_GRAPHICS)              \
    ROW_OF(application_clock_memory, nvmlDeviceGetApplicationsClock, unsigned int, NVML_CLOCK_MEM)                     \
    ROW_OF(clock_target_sm, nvmlDeviceGetClock, unsigned int, NVML_CLOCK_SM, NVML_CLOCK_ID_APP_CLOCK_TARGET)           \
    ROW_OF(clock_target_memory, nvmlDeviceGetClock, unsigned int, NVML_CLOCK_MEM, NVML_CLOCK_ID_APP_CLOCK_TARGET)      \
    ROW_OF(clock_most_sm, nvmlDeviceGetClock, unsigned int, NVML_CLOCK_SM, NVML_CLOCK_ID_CUSTOMER_BOOST_MAX)           \
    ROW_OF(who_sets_clocks, nvmlDeviceGetAPIRestriction, nvmlEnableState_t, NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS)

SETTINGS(READ, READ2, READ_OF)

typedef struct Setting {
    const char *name;
    nvmlReturn_t (*read)(nvmlDevice_t device, double ret[2]);
} Setting;

#define SETTING_ROW(id, ...) {#id, read_##id},
static const Setting settings[] = {SETTINGS(SETTING_ROW, SETTING_ROW, SETTING_ROW)};

/* An object per GPU: {name: [code, value, second value]}. */
static json_t *collect_settings(void)
{
    nvmlDevice_t devices[GPUS_MAX] = {NULL};
    const unsigned int count = list_devices(devices);
    json_t *gpus = json_array();

    for (unsigned int i = 0; i < count; i++) {
        json_t *gpu = json_object();

        for (size_t k = 0; devices[i] && k < ARRAY_LEN(settings); k++) {
            double value[2] = {0, 0};
            const nvmlReturn_t rc = settings[k].read(devices[i], value);

            if (rc != NVML_SUCCESS)
                value[0] = value[1] = 0;
            json_object_set_new(gpu, settings[k].name, json_pack("[i, f, f]", (int)rc, value[0], value[1]));
        }
        json_array_append_new(gpus, gpu);
    }
    return gpus;
}

StepEnd library_read_settings(const Real *real, json_t *result, Err *err)
{
    json_t *gpus;

    if (open_library(real, err) < 0)
        return STEP_FAILED;
    gpus = collect_settings();
    json_object_set_new(result, "gpus", gpus);
    return real_end(result, STEP_OK, "%zu settings of each of %zu GPUs were read", ARRAY_LEN(settings),
                    json_array_size(gpus));
}

StepEnd library_compare_settings(const Real *real, json_t *result, Err *err)
{
    const json_t *before = json_object_get(real_result(real, "settings"), "gpus");
    unsigned int changed = 0;
    const char *name;
    json_t *gpus, *was, *now;
    size_t i;

    if (!before)
        return real_end(result, STEP_FAILED, "the settings before were not read");
    if (open_library(real, err) < 0)
        return STEP_FAILED;
    gpus = collect_settings();
    json_object_set_new(result, "gpus", gpus);
    for (i = 0; i < json_array_size(before); i++)
        json_object_foreach(json_array_get(before, i), name, was)
        {
            now = json_object_get(json_array_get(gpus, i), name);
            if (json_equal(was, now))
                continue;
            changed++;
            real_add_line(result, "GPU %zu: %s was %g, %g (code %d) and is %g, %g (code %d)", i, name,
                          json_number_value(json_array_get(was, 1)), json_number_value(json_array_get(was, 2)),
                          (int)json_integer_value(json_array_get(was, 0)), json_number_value(json_array_get(now, 1)),
                          json_number_value(json_array_get(now, 2)), (int)json_integer_value(json_array_get(now, 0)));
        }
    if (changed)
        return real_end(result, STEP_FINDING, "%u settings are not as they were", changed);
    return real_end(result, STEP_OK, "all %zu settings are as they were", ARRAY_LEN(settings));
}

/* --- times of calls ----------------------------------------------------------------------------------------------- */

/* What the calls need, and where they put what they get. */
typedef struct CallPlace {
    nvmlDevice_t device;
    nvmlGpmSample_t samples[2];
    nvmlFieldValue_t fields[FIELDS_MANY];
    nvmlProcessInfo_t processes[PROCESSES_MAX];
    nvmlProcessUtilizationSample_t utilizations[PROCESSES_MAX];
    nvmlGpmMetricsGet_t metrics;
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory_v2;
    nvmlBAR1Memory_t bar1;
    nvmlUtilization_t utilization;
    nvmlPciInfo_t pci;
    nvmlTemperature_t temperature;
    nvmlPstates_t pstate;
    nvmlEnableState_t state;
    unsigned long long wide;
    unsigned int a, b;
    int level;
    char text[96];
} CallPlace;

/* Fields of many kinds: ECC, links, limits, power, energy, clock event counters, PCIe. */
static const unsigned int field_ids[FIELDS_MANY] = {
    1,   3,   4,   5,   6,   7,   8,   11,  12,  74,  75,  76,  77,  78,  79,  82,  83,  90,  91,  94,
    138, 139, 142, 143, 144, 145, 146, 147, 183, 185, 186, 190, 193, 194, 195, 196, 226, 230, 269, 270};
static const unsigned int gpm_ids[GPM_METRICS] = {1, 2, 3, 5, 7, 10, 11, 12, 13, 20, 21, 60};

static nvmlFieldValue_t *prepare_fields(CallPlace *c, int count)
{
    for (int i = 0; i < count; i++)
        c->fields[i] = (nvmlFieldValue_t){.fieldId = field_ids[i]};
    return c->fields;
}

static nvmlGpmMetricsGet_t *prepare_metrics(CallPlace *c)
{
    c->metrics.version = 1;
    c->metrics.numMetrics = GPM_METRICS;
    c->metrics.sample1 = c->samples[0];
    c->metrics.sample2 = c->samples[1];
    for (unsigned int i = 0; i < GPM_METRICS; i++)
        c->metrics.metrics[i].metricId = gpm_ids[i];
    return &c->metrics;
}

static unsigned int *offer_processes(CallPlace *c)
{
    c->a = PROCESSES_MAX;
    return &c->a;
}

/* CALL(name of the row, function, arguments) */
#define CALLS(CALL)                                                                                                    \
    CALL(temperature, nvmlDeviceGetTemperature, c->device, NVML_TEMPERATURE_GPU, &c->a)                                \
    CALL(power_usage, nvmlDeviceGetPowerUsage, c->device, &c->a)                                                       \
    CALL(energy, nvmlDeviceGetTotalEnergyConsumption, c->device, &c->wide)                                             \
    CALL(utilization, nvmlDeviceGetUtilizationRates, c->device, &c->utilization)                                       \
    CALL(encoder, nvmlDeviceGetEncoderUtilization, c->device, &c->a, &c->b)                                            \
    CALL(decoder, nvmlDeviceGetDecoderUtilization, c->device, &c->a, &c->b)                                            \
    CALL(clock_sm, nvmlDeviceGetClockInfo, c->device, NVML_CLOCK_SM, &c->a)                                            \
    CALL(clock_memory, nvmlDeviceGetClockInfo, c->device, NVML_CLOCK_MEM, &c->a)                                       \
    CALL(clock_most_sm, nvmlDeviceGetMaxClockInfo, c->device, NVML_CLOCK_SM, &c->a)                                    \
    CALL(event_reasons, nvmlDeviceGetCurrentClocksEventReasons, c->device, &c->wide)                                   \
    CALL(memory, nvmlDeviceGetMemoryInfo, c->device, &c->memory)                                                       \
    CALL(memory_v2, nvmlDeviceGetMemoryInfo_v2, c->device, (c->memory_v2.version = nvmlMemory_v2, &c->memory_v2))      \
    CALL(bar1, nvmlDeviceGetBAR1MemoryInfo, c->device, &c->bar1)                                                       \
    CALL(power_limit, nvmlDeviceGetPowerManagementLimit, c->device, &c->a)                                             \
    CALL(enforced_limit, nvmlDeviceGetEnforcedPowerLimit, c->device, &c->a)                                            \
    CALL(pstate, nvmlDeviceGetPerformanceState, c->device, &c->pstate)                                                 \
    CALL(persistence, nvmlDeviceGetPersistenceMode, c->device, &c->state)                                              \
    CALL(pcie_generation, nvmlDeviceGetCurrPcieLinkGeneration, c->device, &c->a)                                       \
    CALL(pcie_width, nvmlDeviceGetCurrPcieLinkWidth, c->device, &c->a)                                                 \
    CALL(pcie_replays, nvmlDeviceGetPcieReplayCounter, c->device, &c->a)                                               \
    CALL(pcie_throughput, nvmlDeviceGetPcieThroughput, c->device, NVML_PCIE_UTIL_TX_BYTES, &c->a)                      \
    CALL(ecc_total, nvmlDeviceGetTotalEccErrors, c->device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,     \
         &c->wide)                                                                                                     \
    CALL(fan, nvmlDeviceGetFanSpeed, c->device, &c->a)                                                                 \
    CALL(link_state, nvmlDeviceGetNvLinkState, c->device, 0, &c->state)                                                \
    CALL(mig_mode, nvmlDeviceGetMigMode, c->device, &c->a, &c->b)                                                      \
    CALL(fields_1, nvmlDeviceGetFieldValues, c->device, 1, prepare_fields(c, 1))                                       \
    CALL(fields_40, nvmlDeviceGetFieldValues, c->device, FIELDS_MANY, prepare_fields(c, FIELDS_MANY))                  \
    CALL(compute_processes, nvmlDeviceGetComputeRunningProcesses_v3, c->device, offer_processes(c), c->processes)      \
    CALL(graphics_processes, nvmlDeviceGetGraphicsRunningProcesses_v3, c->device, offer_processes(c), c->processes)    \
    CALL(process_utilization, nvmlDeviceGetProcessUtilization, c->device, c->utilizations, offer_processes(c), 0)      \
    CALL(uuid, nvmlDeviceGetUUID, c->device, c->text, sizeof c->text)                                                  \
    CALL(name, nvmlDeviceGetName, c->device, c->text, sizeof c->text)                                                  \
    CALL(pci, nvmlDeviceGetPciInfo_v3, c->device, &c->pci)                                                             \
    CALL(inforom, nvmlDeviceValidateInforom, c->device)                                                                \
    CALL(driver_version, nvmlSystemGetDriverVersion, c->text, sizeof c->text)                                          \
    CALL(device_count, nvmlDeviceGetCount_v2, &c->a)                                                                   \
    CALL(gpm_sample, nvmlGpmSampleGet, c->device, c->samples[0])                                                       \
    CALL(gpm_metrics_12, nvmlGpmMetricsGet, prepare_metrics(c))

typedef void AnyFunction(void);

#define CALL_FUNCTION(id, fn, ...)                                                                                     \
    static nvmlReturn_t call_##id(AnyFunction *function, CallPlace *c)                                                 \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        return ((__typeof__(fn) *)function)(__VA_ARGS__);                                                              \
    }
CALLS(CALL_FUNCTION)

typedef struct CallRow {
    const char *name, *function;
    nvmlReturn_t (*call)(AnyFunction *function, CallPlace *c);
} CallRow;

#define CALL_ROW(id, fn, ...) {#id, #fn, call_##id},
static const CallRow call_rows[] = {CALLS(CALL_ROW)};

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double time_call(const CallRow *row, AnyFunction *function, CallPlace *c, nvmlReturn_t *ret_rc)
{
    const uint64_t start = clock_read(CLOCK_MONOTONIC);

    *ret_rc = row->call(function, c);
    return (double)(clock_read(CLOCK_MONOTONIC) - start) / 1000;
}

static json_t *measure_call(const CallRow *row, CallPlace *c, json_t *result)
{
    AnyFunction *function = NULL;
    double times[CALLS_MAX], first, sum = 0;
    nvmlReturn_t rc = NVML_SUCCESS, first_rc;
    size_t n = 0;

    find_symbol(row->function, &function);
    if (!function)
        return json_pack("{s:s, s:s, s:n}", "call", row->name, "function", row->function, "code");
    first = time_call(row, function, c, &first_rc);
    for (; n < CALLS_MAX && sum < CALL_BUDGET_MS * 1000; n++)
        sum += times[n] = time_call(row, function, c, &rc);
    qsort(times, n, sizeof times[0], compare_times);
    real_add_line(result, "%-20s %-42s code %3d  first %9.1f us  median %9.1f  p99 %9.1f  most %9.1f  (%zu calls)",
                  row->name, row->function, (int)first_rc, first, times[n / 2], times[n * 99 / 100], times[n - 1], n);
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:i}", "call", row->name, "function", row->function, "code",
                     (int)first_rc, "first_us", first, "median_us", times[n / 2], "p99_us", times[n * 99 / 100],
                     "most_us", times[n - 1], "calls", (int)n);
}

/* Two GPM samples a quarter of a second apart; both NULL where the GPU has no GPM. */
static void take_samples(CallPlace *c)
{
    FIND(nvmlGpmSampleAlloc, make);
    FIND(nvmlGpmSampleGet, fill);

    for (int i = 0; i < 2 && make && fill; i++) {
        if (make(&c->samples[i]) != NVML_SUCCESS || fill(c->device, c->samples[i]) != NVML_SUCCESS)
            return;
        usleep(250000);
    }
}

StepEnd library_measure_calls(const Real *real, json_t *result, Err *err)
{
    static CallPlace place;
    nvmlDevice_t devices[GPUS_MAX] = {NULL};
    const uint64_t start = clock_read(CLOCK_MONOTONIC);
    json_t *list = json_array();
    double open_ms, attach_ms, slowest = 0;
    const char *which = "";

    json_object_set_new(result, "calls", list);
    if (open_library(real, err) < 0)
        return STEP_FAILED;
    open_ms = (double)(clock_read(CLOCK_MONOTONIC) - start) / 1e6;
    if (list_devices(devices) == 0 || !devices[0])
        return real_end(result, STEP_FAILED, "GPU 0 has no handle");
    attach_ms = (double)(clock_read(CLOCK_MONOTONIC) - start) / 1e6 - open_ms;
    json_object_set_new(result, "open_ms", json_real(open_ms));
    json_object_set_new(result, "attach_ms", json_real(attach_ms));
    place.device = devices[0];
    take_samples(&place);
    for (size_t i = 0; i < ARRAY_LEN(call_rows); i++) {
        json_t *row = measure_call(&call_rows[i], &place, result);
        const double median = json_number_value(json_object_get(row, "median_us"));

        json_array_append_new(list, row);
        if (median > slowest) {
            slowest = median;
            which = call_rows[i].name;
        }
    }
    return real_end(result, STEP_OK, "load and init %.0f ms, handles of all GPUs %.0f ms; slowest call %s, %.0f us",
                    open_ms, attach_ms, which, slowest);
}

/* --- GPM ---------------------------------------------------------------------------------------------------------- */

/* Percents as ratios, MiB/s as bytes/s: ids 20, 21 and 60 to 159 are rates, the others percents (NVML's GPM ids). */
static double convert_metric(unsigned int id, double value)
{
    const bool rate = id == 20 || id == 21 || (id >= 60 && id < 160);

    return rate ? value * 1048576 : value / 100;
}

int library_read_gpm(const Real *real, int gpu, const unsigned int *ids, size_t count, uint64_t ms, double *ret,
                     Err *err)
{
    static CallPlace place;
    nvmlDevice_t devices[GPUS_MAX] = {NULL};
    nvmlReturn_t rc;

    TRY(open_library(real, err));
    if (list_devices(devices) <= (unsigned int)gpu || !devices[gpu])
        return err_set(err, -ENODEV, "GPU %d has no handle", gpu);
    FIND(nvmlGpmSampleAlloc, make);
    FIND(nvmlGpmSampleGet, fill);
    FIND(nvmlGpmMetricsGet, get);
    if (!make || !fill || !get)
        return err_set(err, -ENOSYS, "this driver has no GPM");
    for (int i = 0; i < 2; i++) {
        rc = make(&place.samples[i]);
        if (rc == NVML_SUCCESS)
            rc = fill(devices[gpu], place.samples[i]);
        if (rc != NVML_SUCCESS)
            return err_set(err, rc == NVML_ERROR_NOT_SUPPORTED ? -ENOSYS : -EIO,
                           "a GPM sample is refused: NVML error %d", (int)rc);
        if (i == 0)
            clock_sleep(clock_kernel(), ms * NS_PER_MS);
    }
    prepare_metrics(&place);
    place.metrics.numMetrics = (unsigned int)count;
    for (size_t i = 0; i < count; i++)
        place.metrics.metrics[i].metricId = ids[i];
    rc = get(&place.metrics);
    if (rc != NVML_SUCCESS)
        return err_set(err, -EIO, "GPM's metrics are refused: NVML error %d", (int)rc);
    for (size_t i = 0; i < count; i++)
        ret[i] = place.metrics.metrics[i].nvmlReturn == NVML_SUCCESS
                     ? convert_metric(ids[i], place.metrics.metrics[i].value)
                     : NAN;
    return 0;
}
