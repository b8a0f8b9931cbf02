/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a node, one sentence each. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/status/status.h"

/* A kind of finding, and the classes of incidents that tell it better. */
typedef struct Kind {
    FaultSeverity severity;
    const char *classes[STATUS_COVERED_MAX + 1];
} Kind;

typedef struct List {
    const Snapshot *seen;
    StatusFinding *at;
    size_t len, cap;
} List;

static bool on_gpu(const Incident *incident, const NodeGpu *gpu)
{
    if (!gpu || incident->device.kind == DEVICE_NODE || incident->scope == SCOPE_FABRIC)
        return true;
    return incident->device.has_pci && pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

/* Whether an open incident tells it already. */
static bool covered(const Snapshot *seen, const NodeGpu *gpu, const Kind *kind)
{
    for (size_t i = 0; i < seen->incident_count; i++) {
        const Incident *incident = seen->incidents[i];

        if (incident->state != INCIDENT_OPEN || !on_gpu(incident, gpu))
            continue;
        for (size_t k = 0; kind->classes[k]; k++)
            if (strcmp(incident->class, kind->classes[k]) == 0)
                return true;
    }
    return false;
}

__attribute__((format(printf, 4, 5))) static void add(List *list, const NodeGpu *gpu, const Kind *kind, const char *fmt,
                                                      ...)
{
    va_list args;

    if (list->len == list->cap || covered(list->seen, gpu, kind))
        return;
    StatusFinding *finding = &list->at[list->len++];
    *finding = (StatusFinding){.gpu = gpu, .severity = kind->severity};
    memcpy(finding->classes, kind->classes, sizeof finding->classes);
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
}

/* In the order of HealthCauseId. A GPU that is down says more by its state. */
static const Kind causes[HEALTH_CAUSE_END] = {
    [HEALTH_STARTING] = {SEVERITY_INFO, {NULL}},
    [HEALTH_DRIVER] = {SEVERITY_FATAL,
                       {"driver-error", "driver-unloaded", "driver-mismatch", "driver-hang", "access-lost"}},
    [HEALTH_GPUS_MISSING] = {SEVERITY_FATAL,
                             {"gpu-missing", "gpu-lost", "driver-error", "driver-unloaded", "driver-mismatch",
                              "access-lost"}},
    [HEALTH_GPU_DOWN] = {SEVERITY_FATAL, {"gpu-missing", "gpu-lost", "gsp-failure", "driver-error", "access-lost"}},
    [HEALTH_SAMPLES_STALE] = {SEVERITY_WARNING, {"monitor-blind", "driver-hang", "driver-slow"}},
    [HEALTH_SAMPLER_ABANDONED] = {SEVERITY_WARNING, {"monitor-blind", "driver-hang"}},
    [HEALTH_RELEASED] = {SEVERITY_INFO, {NULL}},
};

static const Kind hung = {SEVERITY_FATAL, {"driver-hang", "gpu-lost", "gsp-failure"}};
static const Kind lost = {SEVERITY_FATAL, {"gpu-lost", "gpu-missing", "driver-error", "gsp-failure", "reset-required"}};
static const Kind no_driver = {SEVERITY_FATAL, {"driver-unloaded", "driver-mismatch", "driver-error", "access-lost"}};

static const Kind *down_kind(const NodeGpu *gpu)
{
    switch (gpu ? gpu->state : GPU_UP) {
    case GPU_HUNG:
        return &hung;
    case GPU_LOST:
        return &lost;
    case GPU_NO_DRIVER:
        return &no_driver;
    default:
        return &causes[HEALTH_GPU_DOWN];
    }
}

static int64_t value_of(const NodeGpu *gpu, MetricId id)
{
    int64_t value;

    return sample_int64(&gpu->reading.sample[id], &value) ? value : 0;
}

/* nvmlDeviceGpuRecoveryAction_t (nvml.h); 0 is none. */
static const char *const actions[] = {NULL, "a GPU reset", "a reboot of the node", "draining its peers",
                                      "draining and a reset"};

/* Of a GPU whose hardware incident is open the action is part of that incident. */
static const Kind wants_action = {SEVERITY_ERROR,
                                  {"reset-required", "gpu-lost", "gsp-failure", "ecc-uncorrectable", "ecc-contained",
                                   "row-remap-pending", "row-remap-failed", "nvlink-down"}};
static const Kind remap_failed = {SEVERITY_FATAL, {"row-remap-failed"}};
static const Kind remap_pending = {SEVERITY_WARNING, {"row-remap-pending", "ecc-uncorrectable", "row-remap-failed"}};

/* Bits of nvmlClocksEventReasons that mean trouble rather than work (nvml.h). */
static const struct {
    uint32_t bit;
    Kind kind;
    const char *text;
} slowdowns[] = {
    {0x20, {SEVERITY_WARNING, {"thermal", "fan"}}, "the driver holds its clocks down because of heat"},
    {0x40, {SEVERITY_WARNING, {"thermal", "fan"}}, "the hardware holds its clocks down because of heat"},
    {0x80, {SEVERITY_WARNING, {"power-brake", "power-cabling"}}, "the power brake holds its clocks down"},
};

static void look_at(List *list, const NodeGpu *gpu)
{
    int64_t action = value_of(gpu, METRIC_GPU_RECOVERY_ACTION);
    int64_t reasons = value_of(gpu, METRIC_CLOCKS_EVENT_REASONS);
    uint32_t index = gpu->reading.device.index;

    if (action > 0)
        add(list, gpu, &wants_action, "GPU %" PRIu32 ": the driver asks for %s", index,
            (size_t)action < sizeof actions / sizeof actions[0] ? actions[action] : "a recovery action");
    if (value_of(gpu, METRIC_ROW_REMAP_FAILURE))
        add(list, gpu, &remap_failed,
            "GPU %" PRIu32 ": a memory row could not be remapped; the board has to be replaced", index);
    else if (value_of(gpu, METRIC_ROW_REMAP_PENDING))
        add(list, gpu, &remap_pending, "GPU %" PRIu32 ": a memory row waits for a reset to be remapped", index);
    for (size_t i = 0; i < sizeof slowdowns / sizeof slowdowns[0]; i++)
        if (reasons & slowdowns[i].bit)
            add(list, gpu, &slowdowns[i].kind, "GPU %" PRIu32 ": %s", index, slowdowns[i].text);
}

static const NodeGpu *named_in(const Node *node, const char *text)
{
    char pci[PCI_TEXT_CAP];

    for (size_t i = 0; i < node->gpu_count; i++)
        if (strstr(text, pci_format(node->gpus[i].reading.device.pci, PCI_FORM_SYSFS, pci)))
            return &node->gpus[i];
    return NULL;
}

size_t status_findings(const Snapshot *seen, StatusFinding *out, size_t cap)
{
    const Node *node = seen->node;
    const Health *health = seen->health;
    List list = {.seen = seen, .at = out, .cap = cap};

    for (size_t i = 0; i < health->count; i++) {
        const HealthCause *cause = &health->causes[i];
        const NodeGpu *gpu = named_in(node, cause->text);

        if (cause->id != HEALTH_STARTING)
            add(&list, gpu, cause->id == HEALTH_GPU_DOWN ? down_kind(gpu) : &causes[cause->id], "%s", cause->text);
    }
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_UP)
            look_at(&list, &node->gpus[i]);
    return list.len;
}

int status_code(const Snapshot *seen)
{
    StatusFinding one;
    bool sampled = false;

    for (size_t i = 0; i < seen->incident_count; i++)
        if (seen->incidents[i]->state == INCIDENT_OPEN && seen->incidents[i]->severity >= SEVERITY_WARNING)
            return 1;
    for (size_t i = 0; i < seen->node->gpu_count; i++)
        sampled |= seen->node->gpus[i].last_sample_ns != 0;
    if (status_findings(seen, &one, 1) > 0)
        return 1;
    return sampled ? 0 : 3;
}
