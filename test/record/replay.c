/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml.so.1 that answers from a recording (NVML_REPLAY names the file): what Stoker makes of the answers of a
 * driver that is not here. Time stands still: counters do not grow, and events do not come. PCI addresses are told from
 * their numbers, as their texts are masked; UUIDs and serial numbers stay masked.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml_abi.h"

enum { HANDLES_MAX = 128, KEY_MAX = 256, TIMEOUT_MOST_MS = 1000 };

struct nvmlDevice_st {
    char on[16]; /* as in the recording: "0", "0/1" */
};

struct nvmlGpmSample_st {
    nvmlDevice_t device;
};

typedef struct Replay {
    char key[KEY_MAX];
    const json_t *call;
} Replay;

static json_t *recording, *calls; /* calls: {key: call} */
static struct nvmlDevice_st handles[HANDLES_MAX];
static size_t handle_count;

/* --- looking answers up ------------------------------------------------------------------------------------------- */

static void add_text(char key[KEY_MAX], const char *name, long long value)
{
    const size_t len = strlen(key);

    snprintf(key + len, KEY_MAX - len, "%s=%lld;", name, value);
}

static void index_calls(void)
{
    static const char *const unread[] = {"length", "since_us"};
    const char *name;
    json_t *call, *value;
    size_t i;

    calls = json_object();
    json_array_foreach(json_object_get(recording, "calls"), i, call)
    {
        char key[KEY_MAX];

        snprintf(key, sizeof key, "%s|%s|", json_string_value(json_object_get(call, "f")),
                 json_string_value(json_object_get(call, "on")));
        json_object_foreach(json_object_get(call, "args"), name,
                            value) if (strcmp(name, unread[0]) != 0 && strcmp(name, unread[1]) != 0)
            add_text(key, name, json_integer_value(value));
        json_object_set(calls, key, call);
    }
}

static void replay_begin(Replay *ret, const char *function, nvmlDevice_t device, nvmlDevice_t second)
{
    snprintf(ret->key, sizeof ret->key, "%s|%s|", function, device ? device->on : "");
    if (second)
        add_text(ret->key, "second", atoi(second->on));
}

static void replay_add(Replay *call, const char *name, long long value)
{
    add_text(call->key, name, value);
}

/* The recorded code. A function that the driver lacked, or that was not asked this, has none. */
static nvmlReturn_t replay_find(Replay *call)
{
    const json_t *code;

    call->call = json_object_get(calls, call->key);
    code = json_object_get(call->call, "rc");
    if (!call->call)
        return NVML_ERROR_NOT_SUPPORTED;
    return json_is_integer(code) ? (nvmlReturn_t)json_integer_value(code) : NVML_ERROR_FUNCTION_NOT_FOUND;
}

/* An output's value: ["type", value]. */
static const json_t *replay_out(const Replay *call, const char *name)
{
    return json_array_get(json_object_get(json_object_get(call->call, "out"), name), 1);
}

/* --- reading values ----------------------------------------------------------------------------------------------- */

/* Runs what follows with `v` as the member's value, where there is one. */
#define REPLAY_MEMBER(object, name, v) for (const json_t *v = json_object_get(object, name); v; v = NULL)
/* Runs what follows for each place of an array that has a value, which is `v`. */
#define REPLAY_EACH(list, i, v, places)                                                                                \
    for (size_t i = 0; i < sizeof(places) / sizeof((places)[0]); i++)                                                  \
    REPLAY_VALUE(list, i, v)
#define REPLAY_VALUE(list, i, v) for (const json_t *v = json_array_get(list, i); v; v = NULL)
/* The same for a list with a count: returns with the count that is needed where the places do not suffice. */
#define REPLAY_LIST(list, places, count)                                                                               \
    const json_t *all_##places = (list);                                                                               \
    const unsigned int room_##places = *(count);                                                                       \
    *(count) = (unsigned int)json_array_size(all_##places);                                                            \
    if (*(count) > room_##places)                                                                                      \
        return NVML_ERROR_INSUFFICIENT_SIZE;                                                                           \
    for (size_t i = 0; i < *(count); i++)                                                                              \
        for (const json_t *v = json_array_get(all_##places, i); v; v = NULL)

static long long replay_whole(const json_t *v)
{
    return json_is_true(v) ? 1 : json_integer_value(v);
}

static void replay_text(const json_t *v, char *ret, size_t size)
{
    const char *text = json_string_value(v);

    snprintf(ret, size, "%s", text ? text : "");
}

static void replay_bytes(const json_t *v, void *ret, size_t size)
{
    const char *hex = json_string_value(v);
    unsigned char *bytes = ret;
    unsigned int byte;

    for (size_t i = 0; hex && i < size && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
        bytes[i] = (unsigned char)byte;
}

static int replay_buffer(const json_t *v, char *ret, size_t size)
{
    const char *text = json_string_value(v);

    if (!text || strlen(text) >= size)
        return -1;
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

#include "replay_calls.h"

/* --- what is done by hand ----------------------------------------------------------------------------------------- */

static nvmlDevice_t find_handle(const char *on)
{
    for (size_t i = 0; i < handle_count; i++)
        if (strcmp(handles[i].on, on) == 0)
            return &handles[i];
    if (handle_count == HANDLES_MAX)
        return NULL;
    snprintf(handles[handle_count].on, sizeof handles[0].on, "%s", on);
    return &handles[handle_count++];
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    const char *file = getenv("NVML_REPLAY");

    (void)flags;
    if (!recording && file)
        recording = json_load_file(file, 0, NULL);
    if (!recording)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (!calls)
        index_calls();
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_SUCCESS ? "Success" : "as recorded";
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    char on[16];
    Replay call;
    nvmlReturn_t rc;

    replay_begin(&call, "nvmlDeviceGetHandleByIndex_v2", NULL, NULL);
    replay_add(&call, "index", index);
    rc = replay_find(&call);
    snprintf(on, sizeof on, "%u", index);
    *device = rc == NVML_SUCCESS ? find_handle(on) : NULL;
    return rc;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    char on[32];
    Replay call;
    nvmlReturn_t rc;

    replay_begin(&call, "nvmlDeviceGetMigDeviceHandleByIndex", device, NULL);
    replay_add(&call, "index", index);
    rc = replay_find(&call);
    snprintf(on, sizeof on, "%s/%u", device->on, index);
    *mig = rc == NVML_SUCCESS ? find_handle(on) : NULL;
    return rc;
}

/* Addresses are masked as texts: told by their numbers. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    nvmlReturn_t rc;
    Replay call;

    replay_begin(&call, "nvmlDeviceGetPciInfo_v3", device, NULL);
    rc = replay_find(&call);
    if (rc == NVML_SUCCESS) {
        read_nvmlPciInfo_t(replay_out(&call, "pci"), pci);
        snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
        snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
                 pci->device & 0xff);
    }
    return rc;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    unsigned int count = 0, domain, bus, slot;

    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlDeviceGetCount_v2(&count);
    for (unsigned int i = 0; i < count; i++) {
        nvmlPciInfo_t pci;

        if (nvmlDeviceGetHandleByIndex_v2(i, device) == NVML_SUCCESS &&
            nvmlDeviceGetPciInfo_v3(*device, &pci) == NVML_SUCCESS && pci.domain == domain && pci.bus == bus &&
            pci.device == slot)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

/* Fields were asked with the scopes 0 and 1; others have what these have. */
static void read_field(nvmlDevice_t device, nvmlFieldValue_t *field)
{
    static const char *const types[] = {"double",    "unsigned int", "unsigned long", "unsigned long long",
                                        "long long", "int",          "unsigned short"};
    const unsigned int scopes[] = {field->scopeId, 1, 0};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    field->timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0] && field->nvmlReturn != NVML_SUCCESS; i++) {
        const json_t *out;
        Replay call;

        replay_begin(&call, "nvmlDeviceGetFieldValues", device, NULL);
        replay_add(&call, "fieldId", field->fieldId);
        replay_add(&call, "scopeId", scopes[i]);
        field->nvmlReturn = replay_find(&call);
        out = json_object_get(json_object_get(call.call, "out"), "value");
        for (unsigned int t = 0; out && t < sizeof types / sizeof types[0]; t++)
            if (strcmp(types[t], json_string_value(json_array_get(out, 0))) == 0)
                field->valueType = (nvmlValueType_t)t;
        if (out && field->valueType == NVML_VALUE_TYPE_DOUBLE)
            field->value.dVal = json_number_value(json_array_get(out, 1));
        else if (out)
            field->value.sllVal = json_integer_value(json_array_get(out, 1)); /* the lower bytes of all whole types */
    }
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    for (int i = 0; i < count; i++)
        read_field(device, &values[i]);
    return NVML_SUCCESS;
}

/* --- events: none come -------------------------------------------------------------------------------------------- */

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    *set = (nvmlEventSet_t)handles;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    (void)set;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long event_types,
                                                  nvmlEventSet_t set)
{
    (void)device;
    (void)event_types;
    (void)set;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    (void)set;
    (void)data;
    usleep(1000 * (timeout_ms < TIMEOUT_MOST_MS ? timeout_ms : TIMEOUT_MOST_MS));
    return NVML_ERROR_TIMEOUT;
}

/* --- GPM: a sample knows its device, and two of them give what was recorded -----------------------------------------
 */

NVML_EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    free(sample);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    Replay call;

    sample->device = device;
    replay_begin(&call, "nvmlGpmSampleGet", device, NULL);
    return replay_find(&call);
}

NVML_EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metrics)
{
    static char none[] = "";

    for (unsigned int i = 0; i < metrics->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &metrics->metrics[i];
        Replay call;

        replay_begin(&call, "nvmlGpmMetricsGet", metrics->sample2->device, NULL);
        replay_add(&call, "metricId", metric->metricId);
        metric->nvmlReturn = replay_find(&call);
        metric->value = json_number_value(replay_out(&call, "value"));
        metric->metricInfo.shortName = metric->metricInfo.longName = metric->metricInfo.unit = none;
    }
    return NVML_SUCCESS;
}
