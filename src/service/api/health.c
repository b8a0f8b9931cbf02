/* SPDX-License-Identifier: Apache-2.0 */
/* The judgement behind /healthz and /readyz: what a monitor must not hide about itself and its GPUs. */
#include "service/api/api.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/duration.h"

static const struct {
    const char *key;
    bool ready;
} causes[HEALTH_CAUSE_END] = {
#define HEALTH_CAUSE(id, key, ready) [HEALTH_##id] = {key, ready},
    HEALTH_CAUSE_TABLE(HEALTH_CAUSE)
#undef HEALTH_CAUSE
};

const char *health_cause_key(HealthCauseId id)
{
    assert((size_t)id < HEALTH_CAUSE_END);
    return causes[id].key;
}

__attribute__((format(printf, 3, 4))) static void add(Health *health, HealthCauseId id, const char *fmt, ...)
{
    va_list args;

    if (health->count == HEALTH_CAUSES_MAX)
        return;
    health->causes[health->count].id = id;
    va_start(args, fmt);
    vsnprintf(health->causes[health->count++].text, HEALTH_TEXT_CAP, fmt, args);
    va_end(args);
}

static const char *age_text(const Node *node, uint64_t since_ns, char out[DURATION_TEXT_MAX])
{
    uint64_t age = node->time_ns > since_ns ? node->time_ns - since_ns : 0;

    duration_format(out, age - age % NS_PER_S);
    return out;
}

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

static void add_down(const Node *node, const NodeGpu *gpu, const char *name, Health *ret)
{
    char age[DURATION_TEXT_MAX];

    add(ret, HEALTH_GPU_DOWN, "%s is %s for %s%s%s", name, gpu_state_key(gpu->state),
        age_text(node, gpu->state_since_ns, age), gpu->why[0] ? ": " : "", gpu->why);
}

/* An operator has drained it, and it went: that is no fault of the node's. */
static bool is_taken_out(const NodeGpu *gpu)
{
    return gpu->drained && (gpu->state == GPU_GONE || gpu->state == GPU_MISSING || gpu->state == GPU_LOST);
}

static void judge_gpu(const Node *node, const NodeGpu *gpu, uint64_t normal_ns, Health *ret)
{
    char name[64], age[DURATION_TEXT_MAX];

    if (is_taken_out(gpu))
        return;
    gpu_text(gpu, name);
    switch (gpu->state) {
    case GPU_STARTING:
        add(ret, HEALTH_STARTING, "%s has not been sampled yet", name);
        return;
    case GPU_HUNG:
    case GPU_LOST:
    case GPU_MISSING:
    case GPU_FAILED:
    case GPU_GONE:
        add_down(node, gpu, name, ret);
        return;
    case GPU_UP:
        if (node->time_ns > gpu->last_sample_ns &&
            node->time_ns - gpu->last_sample_ns > reading_fresh_ns(METRIC_PACE_NORMAL, normal_ns))
            add(ret, HEALTH_SAMPLES_STALE, "the newest sample of %s is %s old", name,
                age_text(node, gpu->last_sample_ns, age));
        return;
    case GPU_NO_DRIVER: /* said once, for the node, unless only the sampler of this GPU has none */
        if (!node->driver_why[0] && node->release_until_ns <= node->time_ns)
            add_down(node, gpu, name, ret);
        return;
    case GPU_RELEASED:
    case GPU_STATE_END:
        return;
    }
}

static void judge_node(const Node *node, Health *ret)
{
    char left[DURATION_TEXT_MAX];
    uint32_t taken = 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        taken += is_taken_out(&node->gpus[i]);
    if (node->tick == 0)
        add(ret, HEALTH_STARTING, "the agent has just started");
    if (node->release_until_ns > node->time_ns) {
        uint64_t rest = node->release_until_ns - node->time_ns;

        duration_format(left, rest - rest % NS_PER_S);
        add(ret, HEALTH_RELEASED, "the driver is let go for maintenance, for %s more", left);
        return; /* GPUs that are not looked at are not missed */
    }
    if (node->driver_why[0])
        add(ret, HEALTH_DRIVER, "%s", node->driver_why);
    else if (node->tick > 0 && node->gpus_found + taken < node->gpus_expected)
        add(ret, HEALTH_GPUS_MISSING, "the driver has %" PRIu32 " of %" PRIu32 " GPUs", node->gpus_found,
            node->gpus_expected);
}

void api_judge(const Node *node, uint64_t normal_ns, Health *ret)
{
    ret->count = 0;
    judge_node(node, ret);
    for (size_t i = 0; i < node->gpu_count; i++)
        judge_gpu(node, &node->gpus[i], normal_ns, ret);
    for (size_t i = 0; i < node->sampler_count; i++) {
        const NodeSampler *s = &node->samplers[i];
        char age[DURATION_TEXT_MAX];

        if (s->state == SAMPLER_ABANDONED)
            add(ret, HEALTH_SAMPLER_ABANDONED, "sampler %d does not end on SIGKILL for %s%s%s%s%s%s%s", (int)s->pid,
                age_text(node, s->since_ns, age), s->gpu[0] ? ", GPU " : "", s->gpu, s->function[0] ? ", in " : "",
                s->function, s->wchan[0] ? ", waiting in " : "", s->wchan);
    }
}

bool health_is_well(const Health *health)
{
    for (size_t i = 0; i < health->count; i++)
        if (health->causes[i].id != HEALTH_RELEASED)
            return false;
    return true;
}

bool health_is_ready(const Health *health)
{
    for (size_t i = 0; i < health->count; i++)
        if (causes[health->causes[i].id].ready)
            return false;
    return true;
}

void api_health(const Health *health, bool fine, const Node *node, Str *out)
{
    str_addf(out, "{\"status\":\"%s\",\"gpus\":{\"expected\":%" PRIu32 ",\"found\":%" PRIu32 ",\"on_bus\":%" PRIu32 "}",
             fine ? "ok" : "failing", node->gpus_expected, node->gpus_found, node->gpus_on_bus);
    str_add(out, ",\"causes\":[");
    for (size_t i = 0; i < health->count; i++) {
        str_addf(out, "%s{\"cause\":\"%s\",\"text\":", i ? "," : "", health_cause_key(health->causes[i].id));
        str_add_json(out, health->causes[i].text);
        str_addc(out, '}');
    }
    str_add(out, "]}\n");
}
