/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory-leak: a process whose memory grows all through the window while it works. Not one that loads (it does not
 * work yet, or stops growing before the window is over), nor one that grows and shrinks.
 */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/human.h"

enum { LEAK_PROCESSES = 16, LEAK_POINTS = 24, LEAK_PARTS = 20, LEAK_THIRDS = 3 };

#define MIB 1048576.0

typedef struct LeakPoint {
    uint64_t time_ns;
    double bytes;
    bool busy;
} LeakPoint;

typedef struct LeakProcess {
    uint32_t pid, gpu_instance, compute_instance;
    uint64_t seen_ns;    /* 0: free */
    bool busy, not_told; /* since the last point; the driver tells no shares */
    uint8_t len;
    LeakPoint at[LEAK_POINTS]; /* oldest first */
    DetectVerdict verdict;
} LeakProcess;

typedef struct LeakMem {
    DetectVerdict none; /* the processes have their own */
    uint64_t list_ns;
    LeakProcess processes[LEAK_PROCESSES];
} LeakMem;

static LeakProcess *place_of(LeakMem *mem, const NodeProcess *of)
{
    LeakProcess *oldest = &mem->processes[0];

    for (size_t i = 0; i < LEAK_PROCESSES; i++) {
        LeakProcess *process = &mem->processes[i];

        if (process->seen_ns && process->pid == of->pid && process->gpu_instance == of->gpu_instance &&
            process->compute_instance == of->compute_instance)
            return process;
        if (process->seen_ns < oldest->seen_ns)
            oldest = process;
    }
    if (oldest->seen_ns) /* all places are in use by those that were seen before */
        return NULL;
    *oldest = (LeakProcess){.pid = of->pid, .gpu_instance = of->gpu_instance, .compute_instance = of->compute_instance};
    return oldest;
}

static bool add_point(LeakProcess *process, uint64_t time_ns, double bytes, uint64_t apart_ns)
{
    if (process->len && time_ns - process->at[process->len - 1].time_ns < apart_ns)
        return false;
    if (process->len && time_ns - process->at[process->len - 1].time_ns > 4 * apart_ns)
        process->len = 0; /* too long a gap to say what was in it */
    if (process->len == LEAK_POINTS)
        memmove(process->at, process->at + 1, --process->len * sizeof process->at[0]);
    process->at[process->len++] = (LeakPoint){time_ns, bytes, process->busy || process->not_told};
    process->busy = false;
    return true;
}

/* Bytes per second: the median slope of all pairs (Theil and Sen), which single jumps do not move. */
static double slope_of(const LeakPoint *at, size_t count)
{
    double slopes[LEAK_POINTS * (LEAK_POINTS - 1) / 2];
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            slopes[len++] = (at[k].bytes - at[i].bytes) * NS_PER_S / (double)(at[k].time_ns - at[i].time_ns);
    return detect_median(slopes, len);
}

/* All of it steadily: in each third a sixth of the growth at least, little of it given back, and at work meanwhile. */
static bool is_steady(const LeakPoint *at, size_t count, double growth)
{
    double back = 0;
    size_t busy = 0;

    for (size_t i = 1; i < count; i++) {
        back += fmax(0, at[i - 1].bytes - at[i].bytes);
        busy += at[i].busy;
    }
    for (size_t i = 0; i < LEAK_THIRDS; i++)
        if (at[(i + 1) * (count - 1) / LEAK_THIRDS].bytes - at[i * (count - 1) / LEAK_THIRDS].bytes < growth / 6)
            return false;
    return back <= growth / 10 && busy * 2 >= count;
}

/* Free bytes of the GPU or of the MIG device that it is on. */
static bool free_bytes(const DetectTurn *turn, const DetectSeen *seen, const LeakProcess *process, double *ret)
{
    const Reading *reading = &seen->gpu->reading;

    for (size_t i = 0; process->gpu_instance != DEVICE_NO_NUMBER && i < seen->gpu->instance_count; i++)
        if (seen->gpu->instances[i].device.gpu_instance == process->gpu_instance)
            reading = &seen->gpu->instances[i];
    if (!detect_fresh(turn, &reading->sample[METRIC_FB_FREE], METRIC_PACE_NORMAL) ||
        !sample_double(&reading->sample[METRIC_FB_FREE], ret))
        return false;
    *ret *= MIB;
    return true;
}

static void judge_growth(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, LeakProcess *process)
{
    const uint64_t window_ns = detect_time(watch, MEMORY_LEAK_WINDOW);
    const double less = process->verdict.holds ? 0.5 : 1;
    size_t from = 0;
    char growth_text[HUMAN_MAX], used[HUMAN_MAX], span[DURATION_TEXT_MAX], left_text[DURATION_TEXT_MAX];
    double left, growth, slope;

    const LeakPoint *last = &process->at[process->len - 1];
    while (last->time_ns - process->at[from].time_ns > window_ns + window_ns / LEAK_PARTS)
        from++;
    const LeakPoint *at = &process->at[from];
    const size_t count = process->len - from;
    if (last->time_ns - at->time_ns < window_ns - window_ns / LEAK_PARTS || !free_bytes(turn, seen, process, &left)) {
        detect_silent(turn, &process->verdict, seen);
        return;
    }
    growth = last->bytes - at->bytes;
    if (process->verdict.holds && growth > -MIB && left < last->bytes / 50) { /* it has taken all there was */
        detect_holds(turn, &process->verdict, "pid %" PRIu32 " has %s of memory, and no more is left", process->pid,
                     human_bytes(used, last->bytes));
        return;
    }
    slope = growth >= detect_param(watch, MEMORY_LEAK_BYTES) * less ? slope_of(at, count) : 0;
    if (slope <= 0 || left / slope * NS_PER_S > detect_param(watch, MEMORY_LEAK_LEFT) / less ||
        !is_steady(at, count, growth)) {
        detect_fine(turn, &process->verdict);
        return;
    }
    detect_holds(turn, &process->verdict,
                 "the memory of pid %" PRIu32 " has grown by %s within %s to %s, and does not stop; none is left in %s",
                 process->pid, human_bytes(growth_text, growth), detect_span_text(last->time_ns - at->time_ns, span),
                 human_bytes(used, last->bytes), detect_span_text((uint64_t)(left / slope * NS_PER_S), left_text));
    detect_counter(&process->verdict, "used_bytes", at->bytes, last->bytes);
}

static void take_list(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, LeakMem *mem)
{
    const NodeGpu *gpu = seen->gpu;
    const uint64_t list_ns = gpu->process_list.time_ns;

    for (size_t i = 0; i < gpu->process_count; i++) {
        const NodeProcess *of = &gpu->processes[i];
        LeakProcess *process = of->used_bytes == UINT64_MAX ? NULL : place_of(mem, of);

        if (!process)
            continue;
        process->seen_ns = list_ns;
        process->not_told = of->sm_percent == UINT8_MAX;
        process->busy |= of->sm_percent > 0 && !process->not_told;
        if (add_point(process, list_ns, (double)of->used_bytes, detect_time(watch, MEMORY_LEAK_WINDOW) / LEAK_PARTS))
            judge_growth(watch, turn, seen, process);
    }
    for (size_t i = 0; i < LEAK_PROCESSES; i++)
        if (mem->processes[i].seen_ns != list_ns) /* it has ended */
            mem->processes[i] = (LeakProcess){0};
    mem->list_ns = list_ns;
}

static void report_leak(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, const LeakProcess *process)
{
    Device device = seen->gpu->reading.device;

    if (!process->verdict.holds)
        return;
    if (process->gpu_instance != DEVICE_NO_NUMBER) {
        device.kind = process->compute_instance == DEVICE_NO_NUMBER ? DEVICE_GPU_INSTANCE : DEVICE_COMPUTE_INSTANCE;
        device.gpu_instance = process->gpu_instance;
        device.compute_instance = process->compute_instance;
        memcpy(device.parent_uuid, device.uuid, sizeof device.parent_uuid);
        device.uuid[0] = '\0';
    }
    detect_give_sign(turn, watch, &process->verdict, &device, (int32_t)process->pid);
}

static void leak_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    LeakMem *mem = detect_memory(watch, seen->slot);
    const bool news = seen->gpu->state == GPU_UP && detect_fresh(turn, &seen->gpu->process_list, METRIC_PACE_SLOW) &&
                      seen->gpu->process_list.time_ns != mem->list_ns;

    if (news)
        take_list(watch, turn, seen, mem);
    for (size_t i = 0; i < LEAK_PROCESSES; i++) {
        detect_silent(turn, &mem->processes[i].verdict, seen);
        report_leak(watch, turn, seen, &mem->processes[i]);
    }
}

const DetectImpl detect_memory_leak = {
    .size = sizeof(LeakMem),
    .each = leak_each,
    .metrics = (const MetricId[]){METRIC_FB_FREE, METRIC_END},
};
