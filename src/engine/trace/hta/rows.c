/* SPDX-License-Identifier: Apache-2.0 */
/* Names are kept for rows on a stream and for steps alone: of the others HTA only asks which of its lists they are in.
 */
#include "engine/trace/hta/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/hta/event.h"

enum { ROOM_MAX = 64 << 20 };

static const char *const launch_calls[] = {
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
};

static const char *const queue_calls[] = {
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemsetAsync",
    "hipMemcpyAsync",
    "hipMemcpyWithStream",
    "urEnqueueUSMFill",
    "urEnqueueUSMFill2D",
    "urEnqueueUSMMemcpy",
    "urEnqueueUSMMemcpy2D",
    "urEnqueueKernelLaunch",
    "urEnqueueKernelLaunchExp",
    "urEnqueueKernelLaunchCustomExp",
    "urEnqueueKernelLaunchWithArgsExp",
    "urEnqueueCooperativeKernelLaunchExp",
    "urEnqueueMemBufferFill",
    "urEnqueueMemBufferRead",
    "urEnqueueMemBufferWrite",
    "urEnqueueMemBufferCopy",
    "urUSMHostAlloc",
    "urUSMSharedAlloc",
    "urUSMDeviceAlloc",
};

static const char *const idle_categories[] = {
    "kernel", "Kernel", "gpu_memset", "Memset", "gpu_memcpy", "Memcpy", "mtia_ccp_events",
};

static bool equals(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

static bool listed(const char *text, size_t len, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (equals(text, len, list[i]))
            return true;
    return false;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* In the first line: HTA's patterns do not go beyond it. */
static bool contains(const char *text, const char *part)
{
    const char *at = strstr(text, part), *line = strchr(text, '\n');

    return at && (!line || at < line);
}

static bool not_computation(const char *name)
{
    static const char *const begins[] = {
        "nccl",        "Stream Wait Event",
        "runFunction", "hip",
        "job_exe",     "packet",
        "pe_exe",      "cpum_exe_subgraph",
        "hccl",        "collective_subgraph_execution",
    };
    static const char *const holds[] = {"Memcpy", "Memset", "dma", "Sync"};

    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (starts(name, begins[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(holds); i++)
        if (contains(name, holds[i]))
            return true;
    return starts(name, "cuda") && contains(name + 4, "LaunchKernel");
}

HtaType hta_type(const char *name)
{
    if (starts(name, "nccl") || starts(name, "hip") || starts(name, "hccl") || contains(name, "ncclKernel"))
        return HTA_COMMUNICATION;
    if (starts(name, "Memcpy") || starts(name, "Memset") || starts(name, "dma"))
        return HTA_MEMORY;
    return not_computation(name) ? HTA_OTHER : HTA_COMPUTATION;
}

const char *hta_memory_kind(const char *name, char out[16])
{
    if (starts(name, "Memset"))
        return "Memset";
    if (!starts(name, "Memcpy"))
        return "Memcpy Unknown";
    memset(out, 0, 16);
    memcpy(out, name, strnlen(name, 11));
    return out;
}

void hta_rows_init(HtaRows *rows, size_t memory_max)
{
    *rows = (HtaRows){.memory_max = memory_max};
    map_init(&rows->name_ids);
    str_init(&rows->room, ROOM_MAX);
    vec_push(&rows->names, ((HtaName){.text = xstrdup(""), .type = HTA_OTHER}));
}

static void free_text(const HtaName *name)
{
    union {
        const char *text;
        void *memory;
    } own = {.text = name->text};

    free(own.memory);
}

void hta_rows_done(HtaRows *rows)
{
    for (size_t i = 0; i < rows->names.len; i++)
        free_text(&rows->names.at[i]);
    vec_done(&rows->names);
    vec_done(&rows->rows);
    map_done(&rows->name_ids);
    str_done(&rows->room);
    *rows = (HtaRows){0};
}

static uint32_t intern(HtaRows *rows, const char *text, size_t len)
{
    void *known = map_getn(&rows->name_ids, text, len);

    if (!known) {
        char *own = xmemdup0(text, len);
        vec_push(&rows->names, ((HtaName){.text = own, .type = hta_type(own)}));
        known = (void *)(uintptr_t)(rows->names.len - 1);
        map_putn(&rows->name_ids, text, len, known);
    }
    return (uint32_t)(uintptr_t)known;
}

static uint8_t flags_of(const HtaEvent *event)
{
    static const char *const of_gpu[] = {"cuda_sync", "cuda_event", "gpu_user_annotation"};
    const char *name = event->name, *category = event->category;
    size_t len = event->name_len, category_len = event->category_len;
    unsigned flags = 0;

    if (len >= 12 && memcmp(name, "ProfilerStep", 12) == 0)
        flags |= HTA_STEP;
    if (listed(name, len, launch_calls, ARRAY_LEN(launch_calls)))
        flags |= HTA_LAUNCH | HTA_QUEUE;
    else if (len > 5 && (name[0] == 'c' || name[0] == 'h' || name[0] == 'u') &&
             listed(name, len, queue_calls, ARRAY_LEN(queue_calls)))
        flags |= HTA_QUEUE;
    if (listed(category, category_len, idle_categories, ARRAY_LEN(idle_categories)))
        flags |= HTA_IDLE;
    else if (!listed(category, category_len, of_gpu, ARRAY_LEN(of_gpu)))
        flags |= HTA_HOST;
    flags |= equals(category, category_len, "cpu_op") ? HTA_CPU_OP : 0;
    flags |= equals(category, category_len, "cuda_sync") ? HTA_SYNC : 0;
    flags |= equals(name, len, "Event Sync") || equals(name, len, "Context Sync") ? HTA_WAIT : 0;
    return (uint8_t)flags;
}

void hta_rows_add(HtaRows *rows, const char *bytes, size_t len)
{
    uint32_t index = (uint32_t)rows->events++;
    HtaEvent event;
    HtaRow row;

    if (!hta_event_read(bytes, len, &rows->room, &event) || !event.has_start || !event.has_duration ||
        !event.category || equals(event.category, event.category_len, "Trace"))
        return;
    rows->full |= rows->memory_max && (rows->rows.len + 1) * sizeof row > rows->memory_max;
    if (rows->full)
        return;
    if (!event.name) {
        event.name = "";
        event.name_len = 0;
    }
    row = (HtaRow){.start = event.start,
                   .duration = event.duration,
                   .correlation = event.correlation,
                   .bandwidth = event.bandwidth,
                   .index = index,
                   .stream = event.stream < -1 || event.stream > INT32_MAX ? INT32_MAX : (int32_t)event.stream,
                   .flags = flags_of(&event)};
    if (row.stream != -1 || row.flags & HTA_STEP)
        row.name = intern(rows, event.name, event.name_len);
    rows->ns |= row.start % 1000 != 0 || row.duration % 1000 != 0;
    vec_push(&rows->rows, row);
}
