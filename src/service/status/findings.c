/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a node, one sentence each. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/status/status.h"

typedef struct List {
    StatusFinding *at;
    size_t len, cap;
} List;

__attribute__((format(printf, 3, 4))) static void add(List *list, const NodeGpu *gpu, const char *fmt, ...)
{
    va_list args;

    if (list->len == list->cap)
        return;
    list->at[list->len].gpu = gpu;
    va_start(args, fmt);
    vsnprintf(list->at[list->len++].text, sizeof list->at->text, fmt, args);
    va_end(args);
}

static int64_t value_of(const NodeGpu *gpu, MetricId id)
{
    int64_t value;

    return sample_int64(&gpu->reading.sample[id], &value) ? value : 0;
}

/* nvmlDeviceGpuRecoveryAction_t (nvml.h); 0 is none. */
static const char *const actions[] = {NULL, "a GPU reset", "a reboot of the node", "draining its peers",
                                      "draining and a reset"};

/* Bits of nvmlClocksEventReasons that mean trouble rather than work (nvml.h). */
static const struct {
    uint32_t bit;
    const char *text;
} slowdowns[] = {
    {0x20, "the driver holds its clocks down because of heat"},
    {0x40, "the hardware holds its clocks down because of heat"},
    {0x80, "the power brake holds its clocks down"},
};

static void look_at(List *list, const NodeGpu *gpu)
{
    int64_t action = value_of(gpu, METRIC_GPU_RECOVERY_ACTION);
    int64_t reasons = value_of(gpu, METRIC_CLOCKS_EVENT_REASONS);
    uint32_t index = gpu->reading.device.index;

    if (action > 0)
        add(list, gpu, "GPU %" PRIu32 ": the driver asks for %s", index,
            (size_t)action < sizeof actions / sizeof actions[0] ? actions[action] : "a recovery action");
    if (value_of(gpu, METRIC_ROW_REMAP_FAILURE))
        add(list, gpu, "GPU %" PRIu32 ": a memory row could not be remapped; the board has to be replaced", index);
    else if (value_of(gpu, METRIC_ROW_REMAP_PENDING))
        add(list, gpu, "GPU %" PRIu32 ": a memory row waits for a reset to be remapped", index);
    for (size_t i = 0; i < sizeof slowdowns / sizeof slowdowns[0]; i++)
        if (reasons & slowdowns[i].bit)
            add(list, gpu, "GPU %" PRIu32 ": %s", index, slowdowns[i].text);
}

static const NodeGpu *named_in(const Node *node, const char *text)
{
    char pci[PCI_TEXT_CAP];

    for (size_t i = 0; i < node->gpu_count; i++)
        if (strstr(text, pci_format(node->gpus[i].reading.device.pci, PCI_FORM_SYSFS, pci)))
            return &node->gpus[i];
    return NULL;
}

size_t status_findings(const Node *node, const Health *health, StatusFinding *out, size_t cap)
{
    List list = {.at = out, .cap = cap};

    for (size_t i = 0; i < health->count; i++)
        if (health->causes[i].id != HEALTH_STARTING)
            add(&list, named_in(node, health->causes[i].text), "%s", health->causes[i].text);
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_UP)
            look_at(&list, &node->gpus[i]);
    return list.len;
}

int status_code(const Node *node, const Health *health)
{
    StatusFinding one;
    bool sampled = false;

    for (size_t i = 0; i < node->gpu_count; i++)
        sampled |= node->gpus[i].last_sample_ns != 0;
    if (status_findings(node, health, &one, 1) > 0)
        return 1;
    return sampled ? 0 : 3;
}
