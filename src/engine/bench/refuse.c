/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/refuse.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/attribute.h"

/* nvml.h: NVML_COMPUTEMODE_PROHIBITED, nvmlClocksEventReasonHwPowerBrakeSlowdown */
enum { COMPUTE_PROHIBITED = 2, REASON_POWER_BRAKE = 0x80 };

PRINTF_LIKE(3, 4) static bool say_why(char *why, size_t cap, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, cap, fmt, args);
    va_end(args);
    return true;
}

double bench_slowdown_c(const Reading *reading)
{
    return reading_value(reading, METRIC_SLOWDOWN_TEMP);
}

/* A state in which a result says nothing of the GPU. */
static bool is_sick(const BenchRefuseQuery *q, char *why, size_t cap)
{
    const Reading *r = &q->gpu->reading;
    const double slowdown = bench_slowdown_c(r), temp = reading_value(r, METRIC_GPU_TEMP);
    const double mode = reading_value(r, METRIC_COMPUTE_MODE), reasons = reading_value(r, METRIC_CLOCKS_EVENT_REASONS);

    if (q->gpu->state != GPU_UP)
        return say_why(why, cap, "%s: %s", gpu_states[q->gpu->state].key,
                       q->gpu->why[0] ? q->gpu->why : gpu_states[q->gpu->state].text);
    if (q->gpu->drained)
        return say_why(why, cap, "the driver is told to drain it");
    if (reading_value(r, METRIC_ROW_REMAP_PENDING) > 0)
        return say_why(why, cap, "rows of its memory wait to be remapped: reset it first");
    if (reading_value(r, METRIC_GPU_RECOVERY_ACTION) > 0)
        return say_why(why, cap, "the driver asks for a reset or more: do that first");
    if (mode >= COMPUTE_PROHIBITED && mode < COMPUTE_PROHIBITED + 1)
        return say_why(why, cap, "its compute mode is prohibited");
    if (reasons > 0 && ((uint64_t)reasons & REASON_POWER_BRAKE))
        return say_why(why, cap, "the server holds it back (power brake)");
    if (temp >= slowdown - BENCH_HOT_BELOW_C) /* false where either is NAN */
        return say_why(why, cap, "it has %.0f °C, and slows down at %.0f", temp, slowdown);
    return false;
}

static bool has_process(const BenchRefuseQuery *q, char *why, size_t cap)
{
    const NodeGpu *gpu = q->gpu;

    if (!gpu->process_list.valid)
        return say_why(why, cap, "the processes on it are not known: %s", absences[gpu->process_list.absence].text);
    for (size_t i = 0; i < gpu->process_count; i++)
        if (!q->instance || node_process_is_on(&gpu->processes[i], &q->instance->device))
            return say_why(why, cap, "process %" PRIu32 " runs on it", gpu->processes[i].pid);
    return false;
}

/* Given to a job or pod that has not begun to use it. */
static bool is_promised(const BenchRefuseQuery *q, char *why, size_t cap)
{
    const Snapshot *s = q->snapshot;

    for (size_t i = 0; i < s->holding_count; i++) {
        const Holding *h = &s->holdings[i];
        const bool whole = h->gpu_instance == DEVICE_NO_NUMBER || !q->instance;

        if (h->basis == HOLDING_BY_MEMORY || &s->node->gpus[h->gpu] != q->gpu ||
            (!whole && h->gpu_instance != q->instance->device.gpu_instance))
            continue;
        if (h->owner.job[0] && !(q->job && strcmp(h->owner.job, q->job) == 0))
            return say_why(why, cap, "job %s has it", h->owner.job);
        if (h->owner.pod[0] && !(q->pod && strcmp(h->owner.pod, q->pod) == 0))
            return say_why(why, cap, "pod %s/%s has it", h->owner.namespace, h->owner.pod);
    }
    return false;
}

bool bench_refuse(const BenchRefuseQuery *query, char *why, size_t cap)
{
    if (!query->jobs_only && (is_sick(query, why, cap) || (!query->in_use && has_process(query, why, cap))))
        return true;
    return !query->in_use && is_promised(query, why, cap);
}
