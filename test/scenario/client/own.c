/* SPDX-License-Identifier: Apache-2.0 */
/* What needs more than a row: finding, lists inside structs, field values, events, samples, creating and destroying. */
#include "client.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int client_device(const Client *c, nvmlDevice_t device)
{
    for (unsigned int i = 0; i < c->device_count; i++)
        if (c->devices[i] == device)
            return (int)i;
    return -1;
}

void client_answer(Client *c, const char *name, const char *what, nvmlReturn_t code)
{
    if (!check_code(code))
        client_wrong(c, "%s(%s) answers %d", name, what, (int)code);
    fprintf(c->out, "%s(%s) = %d", name, what, (int)code);
}

void client_wrong(Client *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("client: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    c->wrong++;
}

/* Answers of a call without values to print. */
static nvmlReturn_t said(Client *c, const char *name, unsigned int device, nvmlReturn_t code)
{
    char what[16];
    snprintf(what, sizeof what, "%u", device);
    client_answer(c, name, what, code);
    fputc('\n', c->out);
    return code;
}
enum { FIELDS_MAX = 302 };

/* The highest field id that a driver knows. */
static unsigned int fields_of(uint32_t generation)
{
    return generation >= 610 ? FIELDS_MAX : generation >= 590 ? 288 : 227;
}
#define SAY(c, device, name, ...) said(c, #name, device, CALL(name, __VA_ARGS__))

static void find_instances(Client *c, unsigned int gpu)
{
    for (unsigned int id = 0; id < 15 && c->instance_count < CLIENT_INSTANCES_MAX; id++) {
        nvmlGpuInstance_t gi;
        if (CALL(nvmlDeviceGetGpuInstanceById, c->devices[gpu], id, &gi) != NVML_SUCCESS)
            continue;
        c->instance_gpu[c->instance_count] = gpu;
        c->instances[c->instance_count++] = gi;
        for (unsigned int k = 0; k < 8 && c->compute_count < CLIENT_INSTANCES_MAX; k++) {
            nvmlComputeInstance_t ci;
            if (CALL(nvmlGpuInstanceGetComputeInstanceById, gi, k, &ci) == NVML_SUCCESS)
                c->computes[c->compute_count++] = ci;
        }
    }
}

void client_find(Client *c)
{
    unsigned int count = 0;
    c->gpus = c->device_count = c->instance_count = c->compute_count = 0;
    if (CALL(nvmlDeviceGetCount_v2, &count) != NVML_SUCCESS)
        client_wrong(c, "no count of devices");
    for (unsigned int i = 0; i < count && i < SIM_GPU_MAX; i++)
        if (CALL(nvmlDeviceGetHandleByIndex_v2, i, &c->devices[c->device_count]) == NVML_SUCCESS)
            c->device_count++;
    c->gpus = c->device_count;
    for (unsigned int g = 0; g < c->gpus; g++) {
        unsigned int migs = 0;
        CALL(nvmlDeviceGetMaxMigDeviceCount, c->devices[g], &migs);
        for (unsigned int i = 0; i < migs && c->device_count < CLIENT_DEVICES_MAX; i++)
            if (CALL(nvmlDeviceGetMigDeviceHandleByIndex, c->devices[g], i, &c->devices[c->device_count]) ==
                NVML_SUCCESS)
                c->device_count++;
        find_instances(c, g);
    }
}

/* ---- finding by name: each device by each of its names ---- */

static void found(Client *c, const char *how, unsigned int device, nvmlReturn_t code, const nvmlDevice_t *handle)
{
    said(c, how, device, code);
    if (code == NVML_SUCCESS && *handle != c->devices[device] && !c->changing)
        client_wrong(c, "%s gives another device than %u", how, device);
}

static void read_handles(Client *c)
{
    for (unsigned int i = 0; i < c->device_count; i++) {
        char text[96];
        nvmlPciInfo_t pci;
        nvmlDevice_t d = NULL;
        if (CALL(nvmlDeviceGetUUID, c->devices[i], text, sizeof text) == NVML_SUCCESS)
            found(c, "nvmlDeviceGetHandleByUUID", i, CALL(nvmlDeviceGetHandleByUUID, text, &d), &d);
        if (i >= c->gpus)
            continue;
        found(c, "nvmlDeviceGetHandleByIndex", i, CALL(nvmlDeviceGetHandleByIndex, i, &d), &d);
        found(c, "nvmlDeviceGetHandleByIndex_v2", i, CALL(nvmlDeviceGetHandleByIndex_v2, i, &d), &d);
        nvmlReturn_t serial = CALL(nvmlDeviceGetSerial, c->devices[i], text, sizeof text);
        found(c, "nvmlDeviceGetHandleBySerial", i, CALL(nvmlDeviceGetHandleBySerial, serial ? "none" : text, &d), &d);
        if (CALL(nvmlDeviceGetPciInfo_v3, c->devices[i], &pci) != NVML_SUCCESS)
            continue;
        found(c, "nvmlDeviceGetHandleByPciBusId", i, CALL(nvmlDeviceGetHandleByPciBusId, pci.busId, &d), &d);
        found(c, "nvmlDeviceGetHandleByPciBusId_v2", i, CALL(nvmlDeviceGetHandleByPciBusId_v2, pci.busIdLegacy, &d),
              &d);
    }
    for (int code = 0; code < 1000; code += code < 32 ? 1 : 967) {
        const char *text = ((__typeof__(nvmlErrorString) *)library_fn(NVML_FN_nvmlErrorString))((nvmlReturn_t)code);
        fprintf(c->out, "nvmlErrorString(%d) '%s'\n", code, text);
    }
}

/* ---- processes ---- */

static void read_processes(Client *c, unsigned int i)
{
    nvmlProcessDetail_v1_t detail[CLIENT_LIST_MAX];
    nvmlProcessInfo_t info[CLIENT_LIST_MAX];
    for (unsigned int mode = 0; mode < 3; mode++) {
        nvmlProcessDetailList_t list = {NVML_STRUCT_TAG(nvmlProcessDetailList_t, 1), mode, CLIENT_LIST_MAX, detail};
        memset(detail, 0, sizeof detail);
        nvmlReturn_t code = SAY(c, i, nvmlDeviceGetRunningProcessDetailList, c->devices[i], &list);
        for (unsigned int k = 0; code == NVML_SUCCESS && k < list.numProcArrayEntries; k++)
            fprintf(c->out, "  %u %llu %u %u\n", detail[k].pid, detail[k].usedGpuMemory, detail[k].gpuInstanceId,
                    detail[k].computeInstanceId);
    }
    unsigned int count = CLIENT_LIST_MAX;
    char name[64];
    if (CALL(nvmlDeviceGetComputeRunningProcesses_v3, c->devices[i], &count, info) != NVML_SUCCESS)
        count = 0;
    for (unsigned int k = 0; k < count; k++) {
        nvmlReturn_t code = SAY(c, info[k].pid, nvmlSystemGetProcessName, info[k].pid, name, sizeof name);
        if (code == NVML_SUCCESS)
            fprintf(c->out, "  '%s'\n", name);
    }
    SAY(c, 1, nvmlSystemGetProcessName, 1u << 31, name, sizeof name); /* nobody */
}

/* ---- clocks and field values ---- */

static void read_clocks(Client *c, unsigned int i)
{
    unsigned int memory[CLIENT_LIST_MAX], graphics[1024], memories = CLIENT_LIST_MAX;
    if (CALL(nvmlDeviceGetSupportedMemoryClocks, c->devices[i], &memories, memory) != NVML_SUCCESS)
        memories = 1, memory[0] = 1;
    for (unsigned int m = 0; m < memories; m++) {
        unsigned int count = sizeof graphics / sizeof *graphics;
        nvmlReturn_t code = SAY(c, i, nvmlDeviceGetSupportedGraphicsClocks, c->devices[i], memory[m], &count, graphics);
        for (unsigned int k = 0; code == NVML_SUCCESS && k < count; k++)
            fprintf(c->out, " %u", graphics[k]);
    }
    fputc('\n', c->out);
}

static void read_fields(Client *c, unsigned int i)
{
    nvmlFieldValue_t field[FIELDS_MAX];
    const unsigned int count = fields_of(c->image->generation);
    for (unsigned int scope = 0; scope < 2; scope++) {
        memset(field, 0, sizeof field);
        for (unsigned int k = 0; k < count; k++)
            field[k] = (nvmlFieldValue_t){.fieldId = k + 1, .scopeId = scope};
        if (SAY(c, i, nvmlDeviceGetFieldValues, c->devices[i], (int)count, field) != NVML_SUCCESS)
            continue;
        for (unsigned int k = 0; k < count; k++) {
            const nvmlFieldValue_t *f = &field[k];
            if (!check_code(f->nvmlReturn))
                client_wrong(c, "field %u answers %d", f->fieldId, (int)f->nvmlReturn);
            fprintf(c->out, "  %u/%u %d", f->fieldId, scope, (int)f->nvmlReturn);
            if (f->nvmlReturn == NVML_SUCCESS)
                fprintf(c->out, " %d %llu at %lld", (int)f->valueType, f->value.ullVal, f->timestamp);
            fputc('\n', c->out);
        }
    }
}

/* ---- events ---- */

static void read_events(Client *c)
{
    nvmlEventSet_t set = NULL;
    nvmlEventData_t data;
    nvmlEventData_v1_t old;
    if (SAY(c, 0, nvmlEventSetCreate, &set) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < c->gpus; i++) {
        unsigned long long types = 0;
        CALL(nvmlDeviceGetSupportedEventTypes, c->devices[i], &types);
        SAY(c, i, nvmlDeviceRegisterEvents, c->devices[i], types, set);
    }
    nvmlReturn_t code = CALL(nvmlEventSetWait_v2, set, &data, 0);
    if (code != NVML_ERROR_TIMEOUT && !c->changing)
        client_wrong(c, "an event on a quiet node: %d", (int)code);
    code = CALL(nvmlEventSetWait, set, &old, 0);
    if (code != NVML_ERROR_TIMEOUT && !c->changing)
        client_wrong(c, "an old event on a quiet node: %d", (int)code);
    SAY(c, 0, nvmlEventSetFree, set);
}

static void read_system_events(Client *c)
{
    nvmlSystemEventData_v1_t data[4];
    nvmlSystemEventSetCreateRequest_t create = {.version = NVML_STRUCT_TAG(nvmlSystemEventSetCreateRequest_t, 1)};
    if (SAY(c, 0, nvmlSystemEventSetCreate, &create) != NVML_SUCCESS)
        create.set = NULL;
    nvmlSystemRegisterEventRequest_t reg = {
        .version = NVML_STRUCT_TAG(nvmlSystemRegisterEventRequest_t, 1), .eventTypes = 3, .set = create.set};
    nvmlSystemEventSetWaitRequest_t wait = {
        .version = NVML_STRUCT_TAG(nvmlSystemEventSetWaitRequest_t, 1), .set = create.set, .data = data, .dataSize = 4};
    nvmlSystemEventSetFreeRequest_t end = {.version = NVML_STRUCT_TAG(nvmlSystemEventSetFreeRequest_t, 1),
                                           .set = create.set};
    SAY(c, 0, nvmlSystemRegisterEvents, &reg);
    nvmlReturn_t code = CALL(nvmlSystemEventSetWait, &wait);
    if (create.set && code != NVML_ERROR_TIMEOUT && !c->changing)
        client_wrong(c, "a system event on a quiet node: %d", (int)code);
    SAY(c, 0, nvmlSystemEventSetFree, &end);
}

/* ---- GPM and registers ---- */

static void read_gpm(Client *c, unsigned int i)
{
    nvmlGpmSample_t sample = NULL;
    SAY(c, i, nvmlGpmSampleAlloc, &sample);
    SAY(c, i, nvmlGpmSampleGet, c->devices[i], sample);
    SAY(c, i, nvmlGpmMigSampleGet, c->devices[i], 1, sample);
    SAY(c, i, nvmlGpmSampleFree, sample);
}

static void read_registers(Client *c, unsigned int i)
{
    nvmlPRMCounter_v1_t counter[2];
    memset(counter, 0, sizeof counter);
    nvmlPRMCounterList_v1_t list = {2, counter};
    nvmlPRMTLV_v1_t tlv;
    memset(&tlv, 0, sizeof tlv);
    SAY(c, i, nvmlDeviceReadPRMCounters_v1, c->devices[i], &list);
    SAY(c, i, nvmlDeviceReadWritePRM_v1, c->devices[i], &tlv);
}

void own_read(Client *c)
{
    read_handles(c);
    read_events(c);
    read_system_events(c);
    for (unsigned int i = 0; i < c->device_count; i++) {
        read_processes(c, i);
        read_clocks(c, i);
        read_fields(c, i);
        read_gpm(c, i);
        read_registers(c, i);
    }
}

/* ---- changes ---- */

/* Makes an instance of the smallest profile on a GPU in MIG mode, where there is room, and destroys it again. */
static void change_instances(Client *c, unsigned int i)
{
    nvmlGpuInstanceProfileInfo_t profile = {.id = 0};
    nvmlGpuInstancePlacement_t place[CLIENT_LIST_MAX] = {{0, 0}};
    nvmlGpuInstance_t gi = NULL;
    nvmlComputeInstance_t ci = NULL;
    unsigned int places = CLIENT_LIST_MAX;
    CALL(nvmlDeviceGetGpuInstanceProfileInfo, c->devices[i], 0, &profile);
    if (SAY(c, i, nvmlDeviceCreateGpuInstance, c->devices[i], profile.id, &gi) == NVML_SUCCESS)
        SAY(c, i, nvmlGpuInstanceDestroy, gi);
    CALL(nvmlDeviceGetGpuInstancePossiblePlacements_v2, c->devices[i], profile.id, place, &places);
    nvmlReturn_t code = NVML_ERROR_INSUFFICIENT_RESOURCES;
    for (unsigned int k = 0; k < (places ? places : 1) && code == NVML_ERROR_INSUFFICIENT_RESOURCES; k++)
        code = SAY(c, i, nvmlDeviceCreateGpuInstanceWithPlacement, c->devices[i], profile.id, &place[k], &gi);
    if (code != NVML_SUCCESS)
        return;
    if (SAY(c, i, nvmlGpuInstanceCreateComputeInstance, gi, 0, &ci) == NVML_SUCCESS) {
        if (SAY(c, i, nvmlGpuInstanceDestroy, gi) != NVML_ERROR_IN_USE)
            client_wrong(c, "an instance with compute instances is destroyed");
        SAY(c, i, nvmlComputeInstanceDestroy, ci);
    }
    SAY(c, i, nvmlGpuInstanceDestroy, gi);
}

static void change_mig(Client *c, unsigned int i)
{
    nvmlReturn_t activation = NVML_SUCCESS;
    unsigned int mode = 0, pending = 0;
    CALL(nvmlDeviceGetMigMode, c->devices[i], &mode, &pending);
    SAY(c, i, nvmlDeviceSetMigMode, c->devices[i], mode, &activation);
    change_instances(c, i);
}

/* Nothing is there to be made or destroyed by: what a client gets then. */
static void change_nothing(Client *c)
{
    SAY(c, 0, nvmlGpuInstanceDestroy, NULL);
    SAY(c, 0, nvmlComputeInstanceDestroy, NULL);
    SAY(c, 0, nvmlGpuInstanceCreateComputeInstance, NULL, 0, NULL);
}

void own_change(Client *c)
{
    for (unsigned int i = 0; i < c->gpus; i++) {
        unsigned int limit = 0;
        nvmlWorkloadPowerProfileUpdateProfiles_v1_t update;
        memset(&update, 0, sizeof update);
        if (CALL(nvmlDeviceGetPowerManagementLimit, c->devices[i], &limit) == NVML_SUCCESS)
            SAY(c, i, nvmlDeviceSetPowerManagementLimit, c->devices[i], limit);
        SAY(c, i, nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1, c->devices[i], &update);
        change_mig(c, i);
    }
    change_nothing(c);
    said(c, "nvmlInit", 0, CALL_PLAIN(nvmlInit));
    SAY(c, 0, nvmlInitWithFlags, 0);
    for (int k = 0; k < 2; k++)
        said(c, "nvmlShutdown", 0, CALL_PLAIN(nvmlShutdown));
}

void client_read_all(Client *c)
{
    rows_read(c);
    own_read(c);
}

void client_change_all(Client *c)
{
    rows_change(c);
    own_change(c);
}
