/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml-record: asks a driver library everything it can be asked without changing anything, and writes the answers as
 * one JSON file. compare.py holds a recording of a real GPU against one of a simulated node with the same board.
 *
 * usage: nvml-record [FILE [LIBRARY [WITHOUT]]]     standard output and libnvidia-ml.so.1 by default; WITHOUT:
 * functions that are not called, with commas
 *
 * Where a call crashes or the program is ended, "in FUNCTION" on standard output says in which one.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rec.h"

enum { GPUS_MAX = 64, MIG_MAX = 16, GI_IDS = 16, CI_IDS = 8, FIELD_MAX = 303, ROOM = 512, PRM_COUNTERS = 4 };
#define LEN(array) (sizeof(array) / sizeof((array)[0]))

#include "record_calls.h"

/* Declares `fn` with the type of a function and looks it up. */
#define FIND(r, name, fn)                                                                                              \
    __typeof__(name) *fn = NULL;                                                                                       \
    const int fn##_found = rec_find(r, #name, &fn, sizeof fn)

/* ---- calls whose arguments follow from other calls ---- */

static void write_field(Rec *r, const nvmlFieldValue_t *v)
{
    static const char *const types[] = {"double",    "unsigned int", "unsigned long", "unsigned long long",
                                        "long long", "int",          "unsigned short"};
    unsigned int type = (unsigned int)v->valueType;
    rec_begin(r, "nvmlDeviceGetFieldValues");
    rec_arg(r, "fieldId", v->fieldId);
    rec_arg(r, "scopeId", v->scopeId);
    rec_code(r, v->nvmlReturn);
    if (v->nvmlReturn == NVML_SUCCESS && type < LEN(types)) {
        rec_out(r, "value", types[type]);
        switch (type) {
        case NVML_VALUE_TYPE_DOUBLE:
            rec_double(r, v->value.dVal);
            break;
        case NVML_VALUE_TYPE_UNSIGNED_INT:
            rec_number(r, v->value.uiVal, 0);
            break;
        case NVML_VALUE_TYPE_SIGNED_INT:
            rec_number(r, v->value.siVal, 0);
            break;
        case NVML_VALUE_TYPE_UNSIGNED_SHORT:
            rec_number(r, v->value.usVal, 0);
            break;
        default:
            rec_number(r, (long long)v->value.ullVal, 0);
        }
        rec_raw(r, "]");
    }
    rec_end(r);
}

static void fields(Rec *r)
{
    static const unsigned int scopes[] = {0, 1}; /* links, or parts of the board; most fields have one only */
    FIND(r, nvmlDeviceGetFieldValues, fn);
    for (unsigned int id = 1; fn_found && id <= FIELD_MAX; id++)
        for (size_t i = 0; i < LEN(scopes); i++) {
            nvmlFieldValue_t v = {.fieldId = id, .scopeId = scopes[i]};
            nvmlReturn_t rc = fn(r->device, 1, &v);
            if (rc != NVML_SUCCESS)
                v.nvmlReturn = rc;
            write_field(r, &v);
        }
}

static void graphics_clocks(Rec *r)
{
    static unsigned int memory[ROOM], graphics[ROOM];
    unsigned int memories = ROOM;
    FIND(r, nvmlDeviceGetSupportedMemoryClocks, get_memory);
    FIND(r, nvmlDeviceGetSupportedGraphicsClocks, fn);
    if (!get_memory_found || !fn_found || get_memory(r->device, &memories, memory) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < memories; i++) {
        unsigned int count = ROOM;
        nvmlReturn_t rc = fn(r->device, memory[i], &count, graphics);
        rec_begin(r, "nvmlDeviceGetSupportedGraphicsClocks");
        rec_arg(r, "memory_mhz", memory[i]);
        rec_code(r, rc);
        if (rc == NVML_SUCCESS && count > 0) {
            rec_out(r, "mhz", "unsigned int[]");
            rec_raw(r, "[");
            for (unsigned int k = 0; k < count; k++) {
                rec_raw(r, k ? ", " : "");
                rec_number(r, graphics[k], 0);
            }
            rec_raw(r, "]]");
        }
        rec_end(r);
    }
}

/* Writes a call whose only interesting answer is the code. */
static void code_only(Rec *r, const char *name, nvmlReturn_t rc)
{
    rec_begin(r, name);
    rec_code(r, rc);
    rec_end(r);
}

static void drain_state(Rec *r)
{
    nvmlPciInfo_t pci;
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;
    FIND(r, nvmlDeviceGetPciInfo_v3, get);
    FIND(r, nvmlDeviceQueryDrainState, fn);
    if (!get_found || !fn_found || get(r->device, &pci) != NVML_SUCCESS)
        return;
    nvmlReturn_t rc = fn(&pci, &state);
    rec_begin(r, "nvmlDeviceQueryDrainState");
    rec_code(r, rc);
    if (rc == NVML_SUCCESS) {
        rec_out(r, "state", "nvmlEnableState_t");
        rec_number(r, state, 0);
        rec_raw(r, "]");
    }
    rec_end(r);
}

/* Finding the device again by what it says about itself. */
static void handles(Rec *r)
{
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE], serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];
    nvmlPciInfo_t pci;
    nvmlDevice_t same;
    FIND(r, nvmlDeviceGetUUID, get_uuid);
    FIND(r, nvmlDeviceGetSerial, get_serial);
    FIND(r, nvmlDeviceGetPciInfo_v3, get_pci);
    FIND(r, nvmlDeviceGetHandleByUUID, by_uuid);
    FIND(r, nvmlDeviceGetHandleBySerial, by_serial);
    FIND(r, nvmlDeviceGetHandleByPciBusId_v2, by_bus);
    FIND(r, nvmlDeviceGetHandleByPciBusId, by_bus_v1);
    if (get_uuid_found && by_uuid_found && get_uuid(r->device, uuid, sizeof uuid) == NVML_SUCCESS)
        code_only(r, "nvmlDeviceGetHandleByUUID", by_uuid(uuid, &same));
    if (get_serial_found && by_serial_found && get_serial(r->device, serial, sizeof serial) == NVML_SUCCESS)
        code_only(r, "nvmlDeviceGetHandleBySerial", by_serial(serial, &same));
    if (!get_pci_found || get_pci(r->device, &pci) != NVML_SUCCESS)
        return;
    if (by_bus_found)
        code_only(r, "nvmlDeviceGetHandleByPciBusId_v2", by_bus(pci.busId, &same));
    if (by_bus_v1_found)
        code_only(r, "nvmlDeviceGetHandleByPciBusId", by_bus_v1(pci.busIdLegacy, &same));
}

static void process_details(Rec *r)
{
    static nvmlProcessDetail_v1_t details[ROOM];
    FIND(r, nvmlDeviceGetRunningProcessDetailList, fn);
    for (unsigned int mode = 0; fn_found && mode <= 3; mode++) {
        nvmlProcessDetailList_t list = {.version = NVML_STRUCT_TAG(nvmlProcessDetailList_t, 1),
                                        .mode = mode,
                                        .numProcArrayEntries = ROOM,
                                        .procArray = details};
        nvmlReturn_t rc = fn(r->device, &list);
        rec_begin(r, "nvmlDeviceGetRunningProcessDetailList");
        rec_arg(r, "mode", mode);
        rec_code(r, rc);
        if (rc == NVML_SUCCESS) {
            rec_out(r, "procArray", "nvmlProcessDetail_v1_t[]");
            rec_raw(r, "[");
            for (unsigned int i = 0; i < list.numProcArrayEntries && i < ROOM; i++) {
                rec_raw(r, i ? ", " : "");
                write_nvmlProcessDetail_v1_t(r, &details[i]);
            }
            rec_raw(r, "]]");
        }
        rec_end(r);
    }
}

static void process_utilization(Rec *r)
{
    static nvmlProcessUtilizationInfo_v1_t infos[ROOM];
    nvmlProcessesUtilizationInfo_t list = {.version = NVML_STRUCT_TAG(nvmlProcessesUtilizationInfo_t, 1),
                                           .processSamplesCount = ROOM,
                                           .procUtilArray = infos};
    FIND(r, nvmlDeviceGetProcessesUtilizationInfo, fn);
    if (!fn_found)
        return;
    nvmlReturn_t rc = fn(r->device, &list);
    rec_begin(r, "nvmlDeviceGetProcessesUtilizationInfo");
    rec_code(r, rc);
    if (rc == NVML_SUCCESS) {
        rec_out(r, "procUtilArray", "nvmlProcessUtilizationInfo_v1_t[]");
        rec_raw(r, "[");
        for (unsigned int i = 0; i < list.processSamplesCount && i < ROOM; i++) {
            rec_raw(r, i ? ", " : "");
            write_nvmlProcessUtilizationInfo_v1_t(r, &infos[i]);
        }
        rec_raw(r, "]]");
    }
    rec_end(r);
}

/* Of the first process that accounting knows. */
static void accounting(Rec *r)
{
    static unsigned int pids[ROOM * 8];
    unsigned int count = LEN(pids);
    nvmlAccountingStats_t stats;
    FIND(r, nvmlDeviceGetAccountingPids, get);
    FIND(r, nvmlDeviceGetAccountingStats, fn);
    if (!get_found || !fn_found || get(r->device, &count, pids) != NVML_SUCCESS || count == 0)
        return;
    nvmlReturn_t rc = fn(r->device, pids[0], &stats);
    rec_begin(r, "nvmlDeviceGetAccountingStats");
    rec_code(r, rc);
    if (rc == NVML_SUCCESS) {
        rec_out(r, "stats", "nvmlAccountingStats_t");
        write_nvmlAccountingStats_t(r, &stats);
        rec_raw(r, "]");
    }
    rec_end(r);
}

static void write_metrics(Rec *r, const nvmlGpmMetricsGet_t *get)
{
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        const nvmlGpmMetric_t *m = &get->metrics[i];
        rec_begin(r, "nvmlGpmMetricsGet");
        rec_arg(r, "metricId", m->metricId);
        rec_code(r, m->nvmlReturn);
        if (m->nvmlReturn == NVML_SUCCESS) {
            rec_out(r, "value", "double");
            rec_double(r, m->value);
            rec_raw(r, "]");
            rec_out(r, "unit", "text");
            rec_text(r, m->metricInfo.unit ? m->metricInfo.unit : "", 64, 0);
            rec_raw(r, "]");
        }
        rec_end(r);
    }
}

/* All metrics of two samples that lie a quarter of a second apart. */
static void gpm(Rec *r)
{
    static nvmlGpmMetricsGet_t get;
    nvmlGpmSample_t samples[2] = {NULL, NULL};
    FIND(r, nvmlGpmSampleAlloc, make);
    FIND(r, nvmlGpmSampleGet, fill);
    FIND(r, nvmlGpmMetricsGet, fn);
    FIND(r, nvmlGpmSampleFree, drop);
    if (!make_found || !fill_found || !fn_found || !drop_found)
        return;
    nvmlReturn_t rc = NVML_SUCCESS;
    for (int i = 0; i < 2 && rc == NVML_SUCCESS; i++) {
        rc = make(&samples[i]);
        if (rc == NVML_SUCCESS)
            rc = fill(r->device, samples[i]);
        if (rc == NVML_SUCCESS && i == 0)
            usleep(250000);
    }
    code_only(r, "nvmlGpmSampleGet", rc);
    if (rc == NVML_SUCCESS) {
        memset(&get, 0, sizeof get);
        get.version = 1;
        get.sample1 = samples[0];
        get.sample2 = samples[1];
        get.numMetrics = LEN(get.metrics) - 1;
        if (get.numMetrics > 211)
            get.numMetrics = 209; /* what every driver with GPM takes */
        for (unsigned int i = 0; i < get.numMetrics; i++)
            get.metrics[i].metricId = i + 1;
        rc = fn(&get);
        if (rc == NVML_SUCCESS)
            write_metrics(r, &get);
        else
            code_only(r, "nvmlGpmMetricsGet", rc);
    }
    for (int i = 0; i < 2; i++)
        if (samples[i])
            drop(samples[i]);
}

static void prm_counters(Rec *r)
{
    static nvmlPRMCounter_v1_t counters[PRM_COUNTERS];
    nvmlPRMCounterList_v1_t list = {.numCounters = PRM_COUNTERS, .counters = counters};
    FIND(r, nvmlDeviceReadPRMCounters_v1, fn);
    if (!fn_found)
        return;
    for (unsigned int i = 0; i < PRM_COUNTERS; i++)
        counters[i].counterId = i + 1;
    code_only(r, "nvmlDeviceReadPRMCounters_v1", fn(r->device, &list));
}

/* ---- walking the node ---- */

static void (*const by_hand[])(Rec *r) = {fields,          graphics_clocks,     drain_state, handles,
                                          process_details, process_utilization, accounting,  prm_counters};

static void computes(Rec *r, unsigned int gpu, unsigned int gi)
{
    __typeof__(nvmlGpuInstanceGetComputeInstanceById) *get;
    if (!rec_find(r, "nvmlGpuInstanceGetComputeInstanceById", &get, sizeof get))
        return;
    for (unsigned int ci = 0; ci < CI_IDS; ci++) {
        if (get(r->instance, ci, &r->compute) != NVML_SUCCESS)
            continue;
        snprintf(r->on, sizeof r->on, "%u:%u:%u", gpu, gi, ci);
        for (size_t i = 0; i < LEN(compute_calls); i++)
            compute_calls[i](r);
    }
}

static void instances(Rec *r, unsigned int gpu)
{
    __typeof__(nvmlDeviceGetGpuInstanceById) *get;
    if (!rec_find(r, "nvmlDeviceGetGpuInstanceById", &get, sizeof get))
        return;
    for (unsigned int gi = 0; gi < GI_IDS; gi++) {
        if (get(r->device, gi, &r->instance) != NVML_SUCCESS)
            continue;
        snprintf(r->on, sizeof r->on, "%u:%u", gpu, gi);
        for (size_t i = 0; i < LEN(instance_calls); i++)
            instance_calls[i](r);
        computes(r, gpu, gi);
    }
}

static void device(Rec *r)
{
    for (size_t i = 0; i < LEN(device_calls); i++)
        device_calls[i](r);
    for (size_t i = 0; i < LEN(by_hand); i++)
        by_hand[i](r);
}

static void mig_devices(Rec *r, unsigned int gpu, nvmlDevice_t parent)
{
    __typeof__(nvmlDeviceGetMigDeviceHandleByIndex) *get;
    if (!rec_find(r, "nvmlDeviceGetMigDeviceHandleByIndex", &get, sizeof get))
        return;
    for (unsigned int i = 0; i < MIG_MAX; i++) {
        if (get(parent, i, &r->device) != NVML_SUCCESS)
            continue;
        snprintf(r->on, sizeof r->on, "%u/%u", gpu, i);
        device(r);
    }
    r->device = parent;
}

static void pairs(Rec *r, unsigned int gpu, const nvmlDevice_t *all, unsigned int count)
{
    snprintf(r->on, sizeof r->on, "%u", gpu);
    for (unsigned int other = 0; other < count; other++) {
        r->second = all[other];
        r->second_index = (int)other;
        for (size_t i = 0; i < LEN(pair_calls); i++)
            pair_calls[i](r);
    }
    r->second_index = -1;
}

static void node(Rec *r)
{
    nvmlDevice_t all[GPUS_MAX];
    unsigned int count = 0, found = 0;
    FIND(r, nvmlDeviceGetCount_v2, get_count);
    FIND(r, nvmlDeviceGetHandleByIndex_v2, get);
    for (size_t i = 0; i < LEN(system_calls); i++)
        system_calls[i](r);
    if (!get_count_found || !get_found || get_count(&count) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < count && i < GPUS_MAX; i++)
        if (get(i, &all[found]) == NVML_SUCCESS)
            found++;
    for (unsigned int i = 0; i < found; i++) {
        r->device = all[i];
        snprintf(r->on, sizeof r->on, "%u", i);
        fprintf(stderr, "GPU %u of %u\n", i, found);
        device(r);
        gpm(r);
        pairs(r, i, all, found);
        instances(r, i);
        mig_devices(r, i, all[i]);
    }
}

static void head(Rec *r)
{
    char driver[96] = "", date[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    __typeof__(nvmlSystemGetDriverVersion) *get;
    if (rec_have(r, "nvmlSystemGetDriverVersion", &get, sizeof get))
        get(driver, sizeof driver);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    fprintf(r->out, "{\"format\": 1, \"driver\": ");
    rec_text(r, driver, sizeof driver, 0);
    fprintf(r->out, ", \"date\": \"%s\", \"root\": %s, \"calls\": [", date, geteuid() == 0 ? "true" : "false");
}

static int record(Rec *r)
{
    __typeof__(nvmlInit_v2) *start;
    __typeof__(nvmlShutdown) *stop;
    int whole = rec_have(r, "nvmlInit_v2", &start, sizeof start) && rec_have(r, "nvmlShutdown", &stop, sizeof stop);
    nvmlReturn_t rc = whole ? start() : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (rc != NVML_SUCCESS) {
        fprintf(stderr, "nvml-record: the library does not start: code %d\n", (int)rc);
        return 1;
    }
    head(r);
    node(r);
    fputs("\n]}\n", r->out);
    stop();
    return 0;
}

static Rec *recording; /* for the handler */

static void tell_call(int signal_number)
{
    const char *name = recording->asked ? recording->asked : "nothing";
    if (write(STDOUT_FILENO, "in ", 3) < 0 || write(STDOUT_FILENO, name, strlen(name)) < 0 ||
        write(STDOUT_FILENO, "\n", 1) < 0)
        _exit(1);
    _exit(128 + signal_number);
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM};
    const char *library = argc > 2 ? argv[2] : "libnvidia-ml.so.1";
    Rec r = {.out = stdout, .second_index = -1, .without = argc > 3 ? argv[3] : NULL};
    if (argc > 4) {
        fputs("usage: nvml-record [FILE [LIBRARY [WITHOUT]]]\n", stderr);
        return 2;
    }
    recording = &r;
    for (size_t i = 0; i < LEN(signals); i++)
        signal(signals[i], tell_call);
    r.library = dlopen(library, RTLD_NOW);
    if (!r.library) {
        fprintf(stderr, "nvml-record: %s\n", dlerror());
        return 1;
    }
    if (argc > 1 && !(r.out = fopen(argv[1], "w"))) {
        perror(argv[1]);
        return 1;
    }
    int rc = record(&r);
    if (fclose(r.out) != 0) {
        perror("nvml-record");
        return 1;
    }
    return rc;
}
