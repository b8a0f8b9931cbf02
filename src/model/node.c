/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

uint64_t node_real_ns(const Node *node, uint64_t time_ns)
{
    const uint64_t age = node->time_ns > time_ns ? node->time_ns - time_ns : 0;

    return node->real_ns > age ? node->real_ns - age : 0;
}

bool node_process_is_on(const NodeProcess *process, const Device *instance)
{
    return process->gpu_instance == instance->gpu_instance &&
           (process->compute_instance == DEVICE_NO_NUMBER || process->compute_instance == instance->compute_instance);
}

size_t node_pids(const Node *node, uint32_t *out, size_t cap)
{
    size_t count = 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        for (size_t k = 0; k < node->gpus[i].process_count && count < cap; k++)
            out[count++] = node->gpus[i].processes[k].pid;
    return count;
}

const NodeGpu *node_find_gpu(const Node *node, PciAddress pci)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci && pci_compare(node->gpus[i].reading.device.pci, pci) == 0)
            return &node->gpus[i];
    return NULL;
}

bool node_is_taken_out(const NodeGpu *gpu)
{
    return gpu->drained && (gpu->state == GPU_GONE || gpu->state == GPU_MISSING || gpu->state == GPU_LOST);
}

const Reading *node_find_instance(const NodeGpu *gpu, uint32_t gpu_instance, uint32_t compute_instance)
{
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].device.gpu_instance == gpu_instance &&
            gpu->instances[i].device.compute_instance == compute_instance)
            return &gpu->instances[i];
    return NULL;
}

const char *node_unread_why(const NodeGpu *gpu)
{
    if (gpu->state == GPU_STARTING)
        return "the driver has not answered for it yet";
    if (gpu->state != GPU_UP)
        return gpu->why[0] ? gpu->why : gpu_states[gpu->state].text;
    return gpu->process_list.valid ? NULL : absences[gpu->process_list.absence].text;
}

const char *node_unnamed_why(const Node *node)
{
    if (node->driver_why[0])
        return node->driver_why;
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.index == DEVICE_NO_NUMBER && node->gpus[i].state != GPU_UP)
            return node_unread_why(&node->gpus[i]);
    return NULL;
}

const Activity *node_activity(const NodeGpu *gpu, const Reading *instance)
{
    static const Activity unknown;

    if (!instance)
        return &gpu->activity;
    return gpu->instance_activity ? &gpu->instance_activity[instance - gpu->instances] : &unknown;
}

const Why *node_why(const NodeGpu *gpu, const Reading *instance)
{
    static const Why none;
    const Why *of = instance ? gpu->instance_verdicts : gpu->verdicts;

    return of ? &of[instance ? instance - gpu->instances : 0] : &none;
}

static bool is_wasted(const Activity *activity)
{
    return activity->word == ACTIVITY_WAITING || activity->word == ACTIVITY_IDLE_HELD;
}

const WhyVerdict *node_notice(const NodeGpu *gpu, const Reading *instance)
{
    const Why *why = node_why(gpu, instance);
    const Activity *activity = node_activity(gpu, instance);

    if (is_wasted(activity))
        return why->count > 0 ? &why->verdicts[0] : NULL;
    for (uint32_t i = 0; i < why->count && activity->word == ACTIVITY_WORKING; i++)
        if (why->verdicts[i].cause == WHY_STRAGGLER)
            return &why->verdicts[i];
    return NULL;
}

bool node_is_noticed(const NodeGpu *gpu, const Reading *instance)
{
    if (!instance && gpu->instance_count > 0)
        return false;
    return is_wasted(node_activity(gpu, instance)) || node_notice(gpu, instance);
}
