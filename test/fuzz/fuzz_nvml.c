/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a client that calls the library in any order with any arguments: dead, foreign and made-up handles, NULL
 * for every pointer, small buffers, any version tag. What a client owns is exactly as large as it says.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feed.h"
#include "node.h"
#include "nvml_abi.h"

enum { CALLS_MAX = 24, POOL_MAX = 32, INITS_MAX = 3 };
enum {
    POOL_nvmlDevice_t,
    POOL_nvmlGpuInstance_t,
    POOL_nvmlComputeInstance_t,
    POOL_nvmlEventSet_t,
    POOL_nvmlSystemEventSet_t,
    POOL_nvmlGpmSample_t,
    POOL_COUNT
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *pool[POOL_COUNT][POOL_MAX];
static unsigned int pool_len[POOL_COUNT];

static void feed_keep(Feed *feed, int kind, void *handle)
{
    (void)feed;
    for (unsigned int i = 0; i < pool_len[kind]; i++)
        if (pool[kind][i] == handle)
            return;
    if (pool_len[kind] < POOL_MAX)
        pool[kind][pool_len[kind]++] = handle;
}

/* Mostly a handle that the library gave, sometimes one of another kind, one beside a true one, or none. */
static void *feed_handle(Feed *feed, int kind)
{
    uint8_t how = feed_byte(feed);
    int from = how >= 250 ? how % POOL_COUNT : kind;
    if (how == 249 || pool_len[from] == 0)
        return how & 1 ? NULL : (void *)(uintptr_t)feed_value(feed);
    char *handle = pool[from][how % pool_len[from]];
    return how == 248 ? handle + feed_byte(feed) : handle;
}

static void feed_answer(Feed *feed, nvmlReturn_t r)
{
    const char *text = nvmlErrorString(r);
    feed_end(feed);
    if (!text || !*text || (unsigned int)r > 999)
        abort();
}

/* ---- structs that point to a client's memory, or that make a call wait ---- */

static void patch_details(Feed *feed, nvmlProcessDetailList_t *list)
{
    if (!list)
        return;
    list->numProcArrayEntries %= 8;
    list->procArray = feed_room(feed, list->numProcArrayEntries * sizeof *list->procArray, 0);
}

static void patch_utilization(Feed *feed, nvmlProcessesUtilizationInfo_t *info)
{
    if (!info)
        return;
    info->processSamplesCount %= 8;
    info->procUtilArray = feed_room(feed, info->processSamplesCount * sizeof *info->procUtilArray, 0);
}

static void patch_wait(Feed *feed, nvmlSystemEventSetWaitRequest_t *request)
{
    if (!request)
        return;
    request->timeoutms = 0;
    request->set = feed_handle(feed, POOL_nvmlSystemEventSet_t);
    request->dataSize %= 8;
    request->data = feed_room(feed, request->dataSize * sizeof *request->data, 0);
}

static void patch_free(Feed *feed, nvmlSystemEventSetFreeRequest_t *request)
{
    if (request)
        request->set = feed_handle(feed, POOL_nvmlSystemEventSet_t);
}

static void patch_register(Feed *feed, nvmlSystemRegisterEventRequest_t *request)
{
    if (request)
        request->set = feed_handle(feed, POOL_nvmlSystemEventSet_t);
}

static void patch_counters(Feed *feed, nvmlPRMCounterList_v1_t *list)
{
    if (!list)
        return;
    list->numCounters = feed_byte(feed) % 8;
    list->counters = feed_room(feed, list->numCounters * sizeof *list->counters, 0);
}

static void patch_metrics(Feed *feed, nvmlGpmMetricsGet_t *get)
{
    if (!get)
        return;
    get->sample1 = feed_handle(feed, POOL_nvmlGpmSample_t);
    get->sample2 = feed_handle(feed, POOL_nvmlGpmSample_t);
    get->numMetrics = feed_byte(feed) % 8;
    for (unsigned int i = 0; i < get->numMetrics; i++)
        get->metrics[i].metricId = (unsigned int)feed_value(feed);
}

#include "fuzz_nvml_calls.h"

static void begin(SimImage *image)
{
    fuzz_node_reset(image);
    memset(pool_len, 0, sizeof pool_len);
    if (nvmlInit_v2() != NVML_SUCCESS)
        abort();
    for (unsigned int i = 0; i < image->gpu_count; i++) {
        nvmlDevice_t gpu, mig;
        if (nvmlDeviceGetHandleByIndex_v2(i, &gpu) != NVML_SUCCESS)
            abort();
        feed_keep(NULL, POOL_nvmlDevice_t, gpu);
        if (nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &mig) == NVML_SUCCESS)
            feed_keep(NULL, POOL_nvmlDevice_t, mig);
    }
}

/* Frees what is left; what was freed before is refused. */
static void end(unsigned int inits)
{
    for (unsigned int i = 0; i < pool_len[POOL_nvmlEventSet_t]; i++)
        nvmlEventSetFree(pool[POOL_nvmlEventSet_t][i]);
    for (unsigned int i = 0; i < pool_len[POOL_nvmlSystemEventSet_t]; i++)
        nvmlSystemEventSetFree(&(nvmlSystemEventSetFreeRequest_t){
            .version = NVML_STRUCT_TAG(nvmlSystemEventSetFreeRequest_t, 1), .set = pool[POOL_nvmlSystemEventSet_t][i]});
    for (unsigned int i = 0; i < pool_len[POOL_nvmlGpmSample_t]; i++)
        nvmlGpmSampleFree(pool[POOL_nvmlGpmSample_t][i]);
    while (inits--)
        nvmlShutdown();
    unsigned int count;
    if (nvmlDeviceGetCount_v2(&count) != NVML_ERROR_UNINITIALIZED)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned int call_count = sizeof calls / sizeof *calls;
    SimImage *image = fuzz_node();
    Feed feed = {.data = data, .size = size};
    unsigned int inits = 1;
    begin(image);
    for (unsigned int n = 0; n < CALLS_MAX && feed.size; n++) {
        uint8_t which = feed_byte(&feed);
        if (which < call_count)
            calls[which](&feed);
        else if (which == 255 && inits > 0 && nvmlShutdown() == NVML_SUCCESS)
            inits--;
        else if (which == 254 && inits < INITS_MAX &&
                 nvmlInitWithFlags((unsigned int)feed_value(&feed)) == NVML_SUCCESS)
            inits++;
        else if (which == 253)
            sim_clock_advance(image, feed_byte(&feed) * (SIM_NS / 64));
    }
    if (inits == 0 && nvmlInit_v2() == NVML_SUCCESS) /* to free what is left */
        inits = 1;
    end(inits);
    return 0;
}
