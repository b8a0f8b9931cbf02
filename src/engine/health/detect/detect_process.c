/* SPDX-License-Identifier: Apache-2.0 */
/* By the list of processes: memory that belongs to none of them, MIG devices that went away under them. */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"

#define MIB 1048576.0

/* ---- memory-orphaned ---- */

typedef struct OrphanMem {
    DetectVerdict verdict;
    uint64_t since_ns; /* 0: nothing is amiss */
} OrphanMem;

typedef struct OrphanNode {
    bool readable; /* a process was seen in a list: where lists are always empty they hide what there is */
} OrphanNode;

/* Bytes of all listed processes; false where the list is not whole or does not tell all. */
static bool listed_bytes(const DetectTurn *turn, const NodeGpu *gpu, double *ret)
{
    int64_t count;
    double sum = 0;

    if (!detect_fresh(turn, &gpu->process_list, METRIC_PACE_SLOW) || !sample_int64(&gpu->process_list, &count) ||
        count != (int64_t)gpu->process_count)
        return false;
    for (size_t i = 0; i < gpu->process_count; i++) {
        if (gpu->processes[i].used_bytes == UINT64_MAX)
            return false;
        sum += (double)gpu->processes[i].used_bytes;
    }
    *ret = sum;
    return true;
}

static void orphan_look(DetectWatch *watch, const DetectTurn *turn)
{
    OrphanNode *node = detect_memory(watch, DETECT_NODE);

    for (size_t i = 0; i < turn->count; i++)
        node->readable |= turn->at[i].gpu->process_list.valid && turn->at[i].gpu->process_count > 0;
}

/* Used without what the driver keeps for itself; an old driver that does not tell that apart has it among the used. */
static bool held_bytes(const DetectTurn *turn, const DetectSeen *seen, double *ret)
{
    double used, reserved, total;

    if (seen->gpu->reading.mig || !detect_value(turn, seen, METRIC_FB_USED, &used))
        return false;
    if (!detect_value(turn, seen, METRIC_FB_RESERVED, &reserved))
        used -= detect_value(turn, seen, METRIC_FB_TOTAL, &total) ? total * 0.03 : 1024;
    *ret = used * MIB;
    return true;
}

static void orphan_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    OrphanMem *mem = detect_memory(watch, seen->slot);
    const OrphanNode *node = detect_memory(watch, DETECT_NODE);
    char bytes[HUMAN_MAX], all[HUMAN_MAX], span[DURATION_TEXT_MAX];
    double used, listed, load;

    if (!node->readable || !held_bytes(turn, seen, &used) || !listed_bytes(turn, seen->gpu, &listed) ||
        !detect_value(turn, seen, METRIC_GPU_UTIL, &load)) {
        mem->since_ns = 0;
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_FB_USED));
        return;
    }
    if (used - listed < detect_param(watch, MEMORY_ORPHANED_BYTES) || load > 1) {
        mem->since_ns = 0; /* what works is not dead but hidden, and whoever works may hold more than is listed */
        detect_fine(turn, &mem->verdict);
        return;
    }
    if (mem->since_ns == 0)
        mem->since_ns = turn->now_ns;
    if (detect_since(turn->now_ns, mem->since_ns) < detect_time(watch, MEMORY_ORPHANED_WINDOW))
        detect_silent(turn, &mem->verdict, seen);
    else
        detect_holds(turn, &mem->verdict, "%s of %s in use belong to none of its %zu processes, for %s",
                     human_bytes(bytes, used - listed), human_bytes(all, used), seen->gpu->process_count,
                     detect_span_text(detect_since(turn->now_ns, mem->since_ns), span));
}

const DetectImpl detect_memory_orphaned = {
    .size = sizeof(OrphanMem),
    .look = orphan_look,
    .each = orphan_each,
    .metrics = (const MetricId[]){METRIC_FB_USED, METRIC_FB_RESERVED, METRIC_FB_TOTAL, METRIC_GPU_UTIL, METRIC_END},
};

/* ---- mig-changed ---- */

typedef struct MigMem {
    DetectVerdict none;
    bool known;
    size_t count;
    struct {
        Device device;
        char profile[READING_PROFILE_CAP];
        uint32_t pid;     /* one of its processes, when it was seen last */
        size_t processes; /* 0: none, or not known */
    } at[NODE_INSTANCES_MAX];
} MigMem;

static bool is_on(const NodeProcess *process, const Device *device)
{
    return process->gpu_instance == device->gpu_instance &&
           (process->compute_instance == device->compute_instance || process->compute_instance == DEVICE_NO_NUMBER);
}

static void remember_process(const DetectTurn *turn, const NodeGpu *gpu, MigMem *mem)
{
    const bool listed = detect_fresh(turn, &gpu->process_list, METRIC_PACE_NORMAL);

    mem->known = true;
    mem->count = gpu->instance_count < NODE_INSTANCES_MAX ? gpu->instance_count : NODE_INSTANCES_MAX;
    for (size_t i = 0; i < mem->count; i++) {
        mem->at[i].device = gpu->instances[i].device;
        memcpy(mem->at[i].profile, gpu->instances[i].profile, sizeof mem->at[i].profile);
        mem->at[i].processes = 0;
        for (size_t k = 0; listed && k < gpu->process_count; k++)
            if (is_on(&gpu->processes[k], &mem->at[i].device)) {
                mem->at[i].pid = gpu->processes[k].pid;
                mem->at[i].processes++;
            }
    }
}

static bool is_there(const NodeGpu *gpu, const Device *device)
{
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Device *other = &gpu->instances[i].device;

        if (other->uuid[0] && device->uuid[0]
                ? strcmp(other->uuid, device->uuid) == 0
                : other->gpu_instance == device->gpu_instance && other->compute_instance == device->compute_instance)
            return true;
    }
    return false;
}

/* Only from one tick in which the GPU was up to the next: what changes while it is let go, lost or reset is known by
 * another name. */
static void mig_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    MigMem *mem = detect_memory(watch, seen->slot);
    DetectVerdict moment = {0};

    if (seen->gpu->state != GPU_UP || turn->released) {
        mem->known = false;
        return;
    }
    for (size_t i = 0; mem->known && i < mem->count; i++) {
        if (mem->at[i].processes == 0 || is_there(seen->gpu, &mem->at[i].device))
            continue;
        detect_holds(turn, &moment, "MIG device %s (GI %" PRIu32 ", CI %" PRIu32 ") went away with %zu process%s on it",
                     mem->at[i].profile[0] ? mem->at[i].profile : "of this GPU", mem->at[i].device.gpu_instance,
                     mem->at[i].device.compute_instance, mem->at[i].processes, mem->at[i].processes == 1 ? "" : "es");
        detect_give_event(turn, watch, &moment, &mem->at[i].device, (int32_t)mem->at[i].pid);
    }
    remember_process(turn, seen->gpu, mem);
}

const DetectImpl detect_mig_changed = {.size = sizeof(MigMem), .each = mig_each};
