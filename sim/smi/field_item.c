/* SPDX-License-Identifier: Apache-2.0 */
/* The queries and the fields of those that list things of a GPU: processes, pages, rows, clocks. */
#include "sim/smi/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/owner.h"

/* What every list begins with. */
#define GPU_FIELDS                                                                                                     \
    {"timestamp", NULL, NULL, get_timestamp, 0, "when the row was read"},                                              \
        {"gpu_name", NULL, NULL, GET_TEXT(DeviceGetName), "product name"},                                             \
        {"gpu_bus_id", NULL, NULL, get_pci, PCI_BUS_ID, "domain:bus:device.function, hexadecimal"},                    \
        {"gpu_serial", NULL, NULL, GET_TEXT(DeviceGetSerial), "serial number of the board"},                           \
    {                                                                                                                  \
        "gpu_uuid", NULL, NULL, GET_TEXT(DeviceGetUUID), "id of the GPU"                                               \
    }

static void rows_one(Gpu *gpu, QueryEach *each, void *user)
{
    each(&(Subject){.gpu = gpu}, user);
}

/* ---- processes */

void field_process_name(unsigned int pid, Value *ret)
{
    ret->text[0] = '\0';
    ret->rc = NV(SystemGetProcessName, pid, ret->text, VALUE_MAX);
    if (ret->rc == NVML_ERROR_NOT_FOUND)
        value_text(ret, "[Not Found]");
}

static void get_app(const Subject *of, int arg, Value *ret)
{
    const GpuProc *proc = of->item;

    if (arg == 0)
        value_uint(ret, NVML_SUCCESS, proc->pid);
    else if (arg == 1)
        field_process_name(proc->pid, ret);
    else
        value_mib(ret, proc->used_known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, proc->used_bytes);
}

static void rows_apps(Gpu *gpu, QueryEach *each, void *user)
{
    unsigned int count;
    GpuProc *procs = gpu_procs(gpu, &count);

    for (unsigned int i = 0; i < count; i++) {
        if (strcmp(procs[i].type, "G") != 0)
            each(&(Subject){.gpu = gpu, .item = &procs[i]}, user);
    }
    free(procs);
}

static const Field app_fields[] = {
    GPU_FIELDS,
    {"pid", NULL, NULL, get_app, 0, "process id"},
    {"process_name", "name", NULL, get_app, 1, "name of the process"},
    {"used_gpu_memory", "used_memory", "MiB", get_app, 2, "memory of its context"},
};

/* ---- accounted processes */

static void get_accounted(const Subject *of, int arg, Value *ret)
{
    const FieldAccounted *item = of->item;
    const unsigned long long parts[] = {item->pid, item->stats.gpuUtilization, item->stats.memoryUtilization, 0,
                                        item->stats.time};

    if (arg == 3)
        value_mib(ret, NVML_SUCCESS, item->stats.maxMemoryUsage);
    else
        value_uint(ret, NVML_SUCCESS, parts[arg]);
}

void field_accounted_rows(Gpu *gpu, QueryEach *each, void *user)
{
    unsigned int count = 0;

    if (NV(DeviceGetAccountingBufferSize, gpu->handle, &count) != NVML_SUCCESS || !count || count > 1 << 16)
        return;
    unsigned int *pids = calloc(count, sizeof(*pids));
    if (!pids || NV(DeviceGetAccountingPids, gpu->handle, &count, pids) != NVML_SUCCESS)
        count = 0;
    for (unsigned int i = 0; i < count; i++) {
        FieldAccounted item = {.pid = pids[i]};
        if (NV(DeviceGetAccountingStats, gpu->handle, pids[i], &item.stats) == NVML_SUCCESS)
            each(&(Subject){.gpu = gpu, .item = &item}, user);
    }
    free(pids);
}

static const Field accounted_fields[] = {
    GPU_FIELDS,
    {"vgpu_instance", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"pid", NULL, NULL, get_accounted, 0, "process id"},
    {"gpu_utilization", "gpu_util", "%", get_accounted, 1, "mean over its life"},
    {"mem_utilization", "mem_util", "%", get_accounted, 2, "mean over its life"},
    {"max_memory_usage", NULL, "MiB", get_accounted, 3, "highest memory of its context"},
    {"time", NULL, "ms", get_accounted, 4, "life time; 0 while it runs"},
};

/* ---- retired pages */

typedef struct Page {
    nvmlReturn_t rc; /* an error stands for all pages of the cause */
    nvmlPageRetirementCause_t cause;
    unsigned long long address, stamp_us;
} Page;

enum { PAGE_ADDRESS, PAGE_STAMP, PAGE_CAUSE, PAGES_MAX = 1024 };

static void get_page(const Subject *of, int arg, Value *ret)
{
    static const char *const causes[] = {"Single Bit ECC", "Double Bit ECC"};
    const Page *page = of->item;
    time_t seconds = (time_t)(page->stamp_us / 1000000);
    char text[64];
    struct tm local;

    if (arg == PAGE_CAUSE) {
        value_word(ret, NVML_SUCCESS, page->cause, causes, ARRAY_LEN(causes));
    } else if (page->rc != NVML_SUCCESS) {
        value_error(ret, page->rc);
    } else if (arg == PAGE_ADDRESS) {
        value_text(ret, "0x%016llx", page->address);
    } else {
        localtime_r(&seconds, &local);
        strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &local);
        value_text(ret, "%s", text);
    }
}

static void rows_pages(Gpu *gpu, QueryEach *each, void *user)
{
    static unsigned long long addresses[PAGES_MAX], stamps[PAGES_MAX];

    for (int cause = 0; cause < NVML_PAGE_RETIREMENT_CAUSE_COUNT; cause++) {
        Page page = {.cause = (nvmlPageRetirementCause_t)cause};
        unsigned int count = PAGES_MAX;
        page.rc = NV(DeviceGetRetiredPages_v2, gpu->handle, page.cause, &count, addresses, stamps);
        if (page.rc != NVML_SUCCESS)
            each(&(Subject){.gpu = gpu, .item = &page}, user);
        for (unsigned int i = 0; page.rc == NVML_SUCCESS && i < count; i++) {
            page.address = addresses[i];
            page.stamp_us = stamps[i];
            each(&(Subject){.gpu = gpu, .item = &page}, user);
        }
    }
}

static const Field page_fields[] = {
    GPU_FIELDS,
    {"retired_pages.address", NULL, NULL, get_page, PAGE_ADDRESS, "address of the page"},
    {"retired_pages.timestamp", NULL, NULL, get_page, PAGE_STAMP, "when it was retired"},
    {"retired_pages.cause", NULL, NULL, get_page, PAGE_CAUSE, "Single Bit ECC or Double Bit ECC"},
};

/* ---- remapped rows */

static const Field remap_fields[] = {
    GPU_FIELDS,
    {"remapped_rows.correctable", NULL, NULL, get_remapped, REMAP_COR, "rows, corrected errors"},
    {"remapped_rows.uncorrectable", NULL, NULL, get_remapped, REMAP_UNC, "rows, uncorrected errors"},
    {"remapped_rows.pending", NULL, NULL, get_remapped, REMAP_PENDING, "rows wait for a reset"},
    {"remapped_rows.failure", NULL, NULL, get_remapped, REMAP_FAILURE, "a row could not be remapped"},
    {"remapped_rows.histogram.max", NULL, NULL, get_histogram, BANKS_MAX, "banks with all spare rows"},
    {"remapped_rows.histogram.high", NULL, NULL, get_histogram, BANKS_HIGH, "banks with many"},
    {"remapped_rows.histogram.partial", NULL, NULL, get_histogram, BANKS_PARTIAL, "banks with some"},
    {"remapped_rows.histogram.low", NULL, NULL, get_histogram, BANKS_LOW, "banks with few"},
    {"remapped_rows.histogram.none", NULL, NULL, get_histogram, BANKS_NONE, "banks with none"},
};

/* ---- supported clocks */

enum { CLOCKS_MAX = 1024 };

static void get_pair(const Subject *of, int arg, Value *ret)
{
    const unsigned int *pair = of->item;

    value_uint(ret, NVML_SUCCESS, pair[arg]);
}

static void rows_clocks(Gpu *gpu, QueryEach *each, void *user)
{
    static unsigned int memory[CLOCKS_MAX], graphics[CLOCKS_MAX];
    unsigned int memories = CLOCKS_MAX;

    if (NV(DeviceGetSupportedMemoryClocks, gpu->handle, &memories, memory) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < memories; i++) {
        unsigned int count = CLOCKS_MAX;
        if (NV(DeviceGetSupportedGraphicsClocks, gpu->handle, memory[i], &count, graphics) != NVML_SUCCESS)
            continue;
        for (unsigned int k = 0; k < count; k++) {
            const unsigned int pair[2] = {memory[i], graphics[k]};
            each(&(Subject){.gpu = gpu, .item = pair}, user);
        }
    }
}

static const Field clock_fields[] = {
    GPU_FIELDS,
    {"memory", "mem", "MHz", get_pair, 0, "memory clock"},
    {"graphics", "gr", "MHz", get_pair, 1, "graphics clock that goes with it"},
};

/* ---- all queries. The first one's fields are another file's: query_find fills in their number. */

const Query queries[] = {
    {"gpu", "a row per GPU", field_gpu, 0, rows_one},
    {"compute-apps", "a row per compute process", app_fields, ARRAY_LEN(app_fields), rows_apps},
    {"accounted-apps", "a row per accounted process", accounted_fields, ARRAY_LEN(accounted_fields),
     field_accounted_rows},
    {"retired-pages", "a row per retired page", page_fields, ARRAY_LEN(page_fields), rows_pages},
    {"remapped-rows", "a row per GPU", remap_fields, ARRAY_LEN(remap_fields), rows_one},
    {"supported-clocks", "a row per pair of clocks", clock_fields, ARRAY_LEN(clock_fields), rows_clocks},
    {NULL, NULL, NULL, 0, NULL},
};

const Query *query_find(const char *name)
{
    for (const Query *query = queries; query->name; query++) {
        if (strcmp(query->name, name) == 0)
            return query;
    }
    return NULL;
}
