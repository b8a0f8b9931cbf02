/* SPDX-License-Identifier: Apache-2.0 */
/* Why the node is not fit to be relied on, for /healthz, /readyz, status and check: open incidents and GPUs without
 * data. Decides nothing itself. */
#include "service/api/api.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/cleanup.h"
#include "engine/health/incidents.h"

/* "GPU 3 (0000:4e:00.0)" */
static const char *gpu_text(const NodeGpu *gpu, char out[64])
{
    char pci[PCI_TEXT_CAP];
    const Device *device = &gpu->reading.device;

    pci_format(device->pci, PCI_FORM_SYSFS, pci);
    if (device->index == DEVICE_NO_NUMBER)
        snprintf(out, 64, "the GPU at %s", pci);
    else
        snprintf(out, 64, "GPU %" PRIu32 " (%s)", device->index, pci);
    return out;
}

typedef struct CauseList {
    NodeCause *at;
    size_t len, cap;
} CauseList;

__attribute__((format(printf, 3, 4))) static NodeCause *add_cause(CauseList *list, const char *key, const char *fmt,
                                                                  ...)
{
    NodeCause *cause = list->len < list->cap ? &list->at[list->len++] : NULL;
    va_list args;

    if (!cause)
        return NULL;
    *cause = (NodeCause){0};
    snprintf(cause->key, sizeof cause->key, "%s", key);
    va_start(args, fmt);
    vsnprintf(cause->text, sizeof cause->text, fmt, args);
    va_end(args);
    return cause;
}

static const NodeGpu *find_gpu(const Node *node, const Incident *incident)
{
    for (size_t i = 0; incident->device.kind != DEVICE_NODE && i < node->gpu_count; i++)
        if (incident_hits(incident, &node->gpus[i].reading.device))
            return &node->gpus[i];
    return NULL;
}

/* What was seen of it last. */
static const char *find_last_evidence(const Incident *incident)
{
    if (incident->last_len)
        return incident->last[incident->last_len - 1].text;
    return incident->first_len ? incident->first[incident->first_len - 1].text : "";
}

static void add_incidents(const Snapshot *s, CauseList *list)
{
    for (size_t i = 0; i < s->incident_count; i++) {
        const Incident *incident = s->incidents[i];
        const bool blind = incident_is_problem(incident) && incident->action == ACTION_CHECK_MONITOR;
        NodeCause *cause;

        if (incident_use(incident) == INCIDENT_USE_GOES_ON && !blind)
            continue;
        cause = add_cause(list, incident->class, "%s%s%s", incident->title, blind ? ": " : "",
                          blind ? find_last_evidence(incident) : "");
        if (cause) {
            cause->incident = incident;
            cause->gpu = find_gpu(s->node, incident);
        }
    }
}

static bool is_explained(const Snapshot *s, const NodeGpu *gpu)
{
    for (size_t i = 0; i < s->incident_count; i++)
        if (incident_use(s->incidents[i]) != INCIDENT_USE_GOES_ON &&
            incident_hits(s->incidents[i], &gpu->reading.device))
            return true;
    return false;
}

size_t api_causes(const Snapshot *s, bool ready, NodeCause *out, size_t cap)
{
    const Node *node = s->node;
    const bool released = node->release_until_ns > node->time_ns;
    CauseList list = {.at = out, .cap = cap};
    char left[DURATION_TEXT_MAX], name[64];

    add_incidents(s, &list);
    if (node->tick == 0)
        add_cause(&list, "starting", "the agent has just started");
    if (released && ready) {
        const uint64_t rest = node->release_until_ns - node->time_ns;

        duration_format(left, rest - rest % NS_PER_S);
        add_cause(&list, "released", "the driver is released for maintenance, for %s more", left);
    }
    if (node->gpu_count == 0 && node->driver_why[0] && list.len == 0 && !released)
        add_cause(&list, gpu_states[GPU_NO_DRIVER].key, "%s", node->driver_why);
    for (size_t i = 0; i < node->gpu_count && !released; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        NodeCause *cause;

        if (gpu->state == GPU_UP || gpu->state == GPU_RELEASED || node_is_taken_out(gpu) || is_explained(s, gpu))
            continue;
        cause = add_cause(&list, gpu_states[gpu->state].key, "%s: %s", gpu_text(gpu, name),
                          gpu->why[0] ? gpu->why : gpu_states[gpu->state].text);
        if (cause)
            cause->gpu = gpu;
    }
    return list.len;
}

bool api_health_json(const Snapshot *s, bool ready, Str *out)
{
    CLEANUP_FREE NodeCause *list = xcalloc(API_CAUSES_MAX, sizeof *list);
    const size_t count = api_causes(s, ready, list, API_CAUSES_MAX);

    json_open(out, NULL, '{');
    json_add_text(out, "status", count ? "failing" : "ok");
    json_open(out, "gpus", '{');
    json_add_u64(out, "expected", s->node->gpus_expected);
    json_add_u64(out, "found", s->node->gpus_found);
    json_add_u64(out, "on_bus", s->node->gpus_on_bus);
    json_close(out, '}');
    json_open(out, "causes", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "cause", list[i].key);
        json_add_text(out, "text", list[i].text);
        if (list[i].incident)
            json_add_text(out, "incident", list[i].incident->id);
        json_close(out, '}');
    }
    str_add(out, "]}\n");
    return count == 0;
}
