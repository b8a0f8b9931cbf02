/* SPDX-License-Identifier: Apache-2.0 */
/* By the list of processes: memory that leaks or belongs to none of them, neighbours that take too much, MIG devices
 * that went away under them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "engine/health/detect/detector.h"

#define MIB 1048576.0

/* --- memory-leak -------------------------------------------------------------------------------------------------- */

/* A process whose memory grows all through the window while it works. Not one that loads (it does not work yet, or
 * stops growing before the window is over), nor one that grows and shrinks. */

enum { LEAK_PROCESSES = 16, LEAK_POINTS = 24, LEAK_PARTS = 20, LEAK_THIRDS = 3 };

typedef struct LeakPoint {
    uint64_t time_ns;
    double bytes;
    bool busy;
} LeakPoint;

typedef struct LeakProcess {
    uint32_t pid, gpu_instance, compute_instance;
    uint64_t seen_ns;   /* 0: free */
    bool busy, unknown; /* since the last point; the driver gives no shares */
    uint8_t len;
    LeakPoint at[LEAK_POINTS]; /* oldest first */
    DetectFinding finding;
} LeakProcess;

typedef struct LeakMemory {
    uint64_t list_ns;
    LeakProcess processes[LEAK_PROCESSES];
} LeakMemory;

/* Its place, or a free one; NULL: all are in use. */
static LeakProcess *find_place(LeakMemory *memory, const NodeProcess *of)
{
    LeakProcess *place = NULL;

    for (size_t i = 0; i < LEAK_PROCESSES; i++) {
        LeakProcess *process = &memory->processes[i];

        if (process->seen_ns && process->pid == of->pid && process->gpu_instance == of->gpu_instance &&
            process->compute_instance == of->compute_instance)
            return process;
        if (!process->seen_ns && !place)
            place = process;
    }
    if (place)
        *place =
            (LeakProcess){.pid = of->pid, .gpu_instance = of->gpu_instance, .compute_instance = of->compute_instance};
    return place;
}

static bool add_point(LeakProcess *process, uint64_t time_ns, double bytes, uint64_t apart_ns)
{
    if (process->len && time_ns - process->at[process->len - 1].time_ns < apart_ns)
        return false;
    if (process->len && time_ns - process->at[process->len - 1].time_ns > 4 * apart_ns)
        process->len = 0; /* too long a gap to say what was in it */
    if (process->len == LEAK_POINTS)
        memmove(process->at, process->at + 1, --process->len * sizeof process->at[0]);
    process->at[process->len++] = (LeakPoint){time_ns, bytes, process->busy || process->unknown};
    process->busy = false;
    return true;
}

/* Bytes per second: the median slope of all pairs (Theil and Sen), which single jumps do not move. */
static double find_slope(const LeakPoint *at, size_t count)
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

/* Free bytes of the GPU or of the MIG device that the process is on. */
static bool find_free_bytes(const DetectCase *c, const LeakProcess *process, double *ret)
{
    const Reading *reading = &c->gpu->reading;

    for (size_t i = 0; process->gpu_instance != DEVICE_NO_NUMBER && i < c->gpu->instance_count; i++)
        if (c->gpu->instances[i].device.gpu_instance == process->gpu_instance)
            reading = &c->gpu->instances[i];
    if (!detect_fresh(c, &reading->sample[METRIC_FB_FREE], METRIC_PACE_NORMAL) ||
        !sample_double(&reading->sample[METRIC_FB_FREE], ret))
        return false;
    *ret *= MIB;
    return true;
}

static DetectOutcome check_growth(const DetectCase *c, const LeakProcess *process)
{
    const uint64_t window_ns = detect_time(c, MEMORY_LEAK_WINDOW), part_ns = window_ns / LEAK_PARTS;
    const double easier = c->finding->holds ? 0.5 : 1;
    const LeakPoint *last = &process->at[process->len - 1], *at = process->at;
    char growth_text[HUMAN_MAX], used[HUMAN_MAX], span[DURATION_TEXT_MAX], left_text[DURATION_TEXT_MAX];
    double left;

    while (last->time_ns - at->time_ns > window_ns + part_ns)
        at++;
    if (last->time_ns - at->time_ns < window_ns - part_ns || !find_free_bytes(c, process, &left))
        return DETECT_NO_DATA;
    const size_t count = (size_t)(last - at) + 1;
    const double growth = last->bytes - at->bytes;
    if (c->finding->holds && growth > -MIB && left < last->bytes / 50) /* it has taken all there was */
        return detect_hold(c, "pid %" PRIu32 " has %s of memory, and no more is left", process->pid,
                           human_bytes(used, last->bytes));
    const double slope = growth >= detect_param(c, MEMORY_LEAK_BYTES) * easier ? find_slope(at, count) : 0;
    if (slope <= 0 || left / slope * NS_PER_S > detect_param(c, MEMORY_LEAK_LEFT) / easier ||
        !is_steady(at, count, growth))
        return DETECT_FINE;
    detect_hold(c,
                "the memory of pid %" PRIu32 " has grown by %s within %s to %s, and does not stop; none is left in %s",
                process->pid, human_bytes(growth_text, growth), detect_span_text(last->time_ns - at->time_ns, span),
                human_bytes(used, last->bytes), detect_span_text((uint64_t)(left / slope * NS_PER_S), left_text));
    return detect_counter(c, "used_bytes", at->bytes, last->bytes);
}

static void read_list(const DetectCase *c, LeakMemory *memory)
{
    const uint64_t apart_ns = detect_time(c, MEMORY_LEAK_WINDOW) / LEAK_PARTS;

    memory->list_ns = c->gpu->process_list.time_ns;
    for (size_t i = 0; i < c->gpu->process_count; i++) {
        const NodeProcess *of = &c->gpu->processes[i];
        LeakProcess *process = of->used_bytes == UINT64_MAX ? NULL : find_place(memory, of);

        if (!process)
            continue;
        process->seen_ns = memory->list_ns;
        process->unknown = of->sm_percent == UINT8_MAX;
        process->busy |= of->sm_percent > 0 && !process->unknown;
        if (add_point(process, memory->list_ns, (double)of->used_bytes, apart_ns)) {
            DetectCase one = *c;

            one.finding = &process->finding;
            detect_settle(&one, check_growth(&one, process));
        }
    }
    for (size_t i = 0; i < LEAK_PROCESSES; i++)
        if (memory->processes[i].seen_ns != memory->list_ns) /* it has ended */
            memory->processes[i] = (LeakProcess){0};
}

/* Each process has a finding of its own. */
static DetectOutcome check_leaks(const DetectCase *c)
{
    LeakMemory *memory = c->memory;

    if (c->gpu->state == GPU_UP && detect_fresh(c, &c->gpu->process_list, METRIC_PACE_SLOW) &&
        c->gpu->process_list.time_ns != memory->list_ns)
        read_list(c, memory);
    for (size_t i = 0; i < LEAK_PROCESSES; i++) {
        LeakProcess *process = &memory->processes[i];
        Device device = c->gpu->reading.device;
        DetectCase one = *c;

        one.finding = &process->finding;
        detect_settle(&one, DETECT_NO_DATA);
        if (process->gpu_instance != DEVICE_NO_NUMBER) {
            device_make_part(&device, process->compute_instance == DEVICE_NO_NUMBER ? DEVICE_GPU_INSTANCE
                                                                                    : DEVICE_COMPUTE_INSTANCE);
            device.gpu_instance = process->gpu_instance;
            device.compute_instance = process->compute_instance;
        }
        detect_report(&one, &device, (int32_t)process->pid);
    }
    return DETECT_SAME;
}

const DetectImpl detect_memory_leak = {
    .size = sizeof(LeakMemory), .of_gpu = check_leaks, .metrics = DETECT_METRICS(METRIC_FB_FREE)};

/* --- memory-orphaned ---------------------------------------------------------------------------------------------- */

/* Bytes of all listed processes; false where the list is not whole or does not give all. */
static bool sum_listed_bytes(const DetectCase *c, double *ret)
{
    const NodeGpu *gpu = c->gpu;
    int64_t count;
    double sum = 0;

    if (!detect_fresh(c, &gpu->process_list, METRIC_PACE_SLOW) || !sample_int64(&gpu->process_list, &count) ||
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

/* The node's memory: whether a process was seen in a list. Where lists are always empty they hide what there is. */
static DetectOutcome check_lists(const DetectCase *c)
{
    bool *readable = c->memory;

    for (size_t i = 0; i < c->tick->count; i++) {
        const NodeGpu *gpu = c->tick->gpus[i].gpu;

        *readable |= gpu->process_list.valid && gpu->process_count > 0;
    }
    return DETECT_SAME;
}

/* Used without what the driver keeps for itself; an old driver that does not tell that apart has it among the used. */
static bool find_held_bytes(const DetectCase *c, double *ret)
{
    double used, reserved, total;

    if (c->gpu->reading.mig || !detect_value(c, METRIC_FB_USED, &used))
        return false;
    if (!detect_value(c, METRIC_FB_RESERVED, &reserved))
        used -= detect_value(c, METRIC_FB_TOTAL, &total) ? total * 0.03 : 1024;
    *ret = used * MIB;
    return true;
}

/* The memory: since when something is amiss. What works is not dead but hidden, and may hold more than is listed. */
static DetectOutcome check_orphaned(const DetectCase *c)
{
    const bool *readable = detect_node_memory(c);
    char bytes[HUMAN_MAX], all[HUMAN_MAX], span[DURATION_TEXT_MAX];
    double used, listed, load;
    const bool known = *readable && find_held_bytes(c, &used) && sum_listed_bytes(c, &listed) &&
                       detect_value(c, METRIC_GPU_UTIL, &load);
    const bool bad = known && used - listed >= detect_param(c, MEMORY_ORPHANED_BYTES) && load <= 1;
    const uint64_t lasts_ns = detect_lasts(c, bad, c->memory);

    if (!known)
        return detect_absent(c, detect_sample(c, METRIC_FB_USED));
    if (!bad)
        return DETECT_FINE;
    if (lasts_ns < detect_time(c, MEMORY_ORPHANED_WINDOW))
        return DETECT_NO_DATA;
    return detect_hold(c, "%s of %s in use belong to none of its %zu processes, for %s",
                       human_bytes(bytes, used - listed), human_bytes(all, used), c->gpu->process_count,
                       detect_span_text(lasts_ns, span));
}

const DetectImpl detect_memory_orphaned = {
    .size = sizeof(uint64_t),
    .of_node = check_lists,
    .of_gpu = check_orphaned,
    .metrics = DETECT_METRICS(METRIC_FB_USED, METRIC_FB_RESERVED, METRIC_FB_TOTAL, METRIC_GPU_UTIL)};

static double find_orphaned_limit(void)
{
    for (size_t i = 0; i < detector_spec_count; i++)
        if (strcmp(detector_specs[i].name, "memory-orphaned") == 0)
            return detector_specs[i].params[MEMORY_ORPHANED_BYTES].value;
    return (double)INFINITY;
}

bool detect_left_memory(const NodeGpu *gpu, double *ret_mib)
{
    double used;

    if (gpu->process_count > 0 || !gpu->process_list.valid || gpu->reading.mig ||
        !sample_double(&gpu->reading.sample[METRIC_FB_USED], &used) || !(used * MIB >= find_orphaned_limit()))
        return false;
    *ret_mib = used;
    return true;
}

/* --- noisy-neighbour ---------------------------------------------------------------------------------------------- */

/* On a GPU that is shared in turns and has nothing left to give, a process that came later takes the larger part, and
 * one that was there before has less than it had by itself. Two that were always there together are no case: nobody
 * knows what each would have alone. MIG devices do not share. */

enum { NEIGHBOURS = 8, CALM_WINDOWS = 5 };

#define SATURATED 0.9 /* share of time of all together */

typedef struct Neighbour {
    uint32_t pid;
    uint64_t since_ns, seen_ns; /* seen_ns 0: free */
    Trail sm, memory;           /* shares, 0 to 1 */
    Trail calm;                 /* the share of time over five windows, since somebody came after it or left */
    double sm_now, memory_now;  /* means over the window */
    bool known;                 /* they are */
    bool idle;                  /* in the last list: it wants nothing */
    bool crowded;               /* somebody came after it */
    bool had;                   /* what it had before is known */
    double usual_sm;
} Neighbour;

typedef struct NeighbourMemory {
    uint64_t list_ns;
    Neighbour at[NEIGHBOURS];
} NeighbourMemory;

static Neighbour *find_neighbour(NeighbourMemory *memory, uint32_t pid, uint64_t now_ns)
{
    Neighbour *place = NULL;

    for (size_t i = 0; i < NEIGHBOURS; i++) {
        if (memory->at[i].seen_ns && memory->at[i].pid == pid)
            return &memory->at[i];
        if (!memory->at[i].seen_ns && !place)
            place = &memory->at[i];
    }
    if (place)
        *place = (Neighbour){.pid = pid, .since_ns = now_ns};
    return place;
}

static void read_shares(const DetectCase *c, NeighbourMemory *memory)
{
    const uint64_t list_ns = c->gpu->process_list.time_ns, window_ns = detect_time(c, NOISY_WINDOW);

    memory->list_ns = list_ns;
    for (size_t i = 0; i < c->gpu->process_count; i++) {
        const NodeProcess *process = &c->gpu->processes[i];
        Neighbour *one = process->sm_percent == UINT8_MAX ? NULL : find_neighbour(memory, process->pid, list_ns);

        if (!one)
            continue;
        one->seen_ns = list_ns;
        one->idle = process->sm_percent == 0;
        trail_gauge(&one->sm, list_ns, process->sm_percent / 100.0, window_ns);
        trail_gauge(&one->calm, list_ns, process->sm_percent / 100.0, CALM_WINDOWS * window_ns);
        if (process->memory_percent != UINT8_MAX)
            trail_gauge(&one->memory, list_ns, process->memory_percent / 100.0, window_ns);
        one->known = trail_rate(&one->sm, window_ns, 0.8, &one->sm_now);
        if (!trail_rate(&one->memory, window_ns, 0.8, &one->memory_now))
            one->memory_now = 0;
    }
    for (size_t i = 0; i < NEIGHBOURS; i++)
        if (memory->at[i].seen_ns != list_ns) /* it has ended; those it was in the way of may learn anew */
            memory->at[i] = (Neighbour){0};
}

/* Came so much later that the other one's usual share is known from the time before. */
static bool came_after(const Neighbour *later, const Neighbour *earlier, uint64_t window_ns)
{
    return later->seen_ns && later->since_ns >= earlier->since_ns + window_ns;
}

/* When somebody comes, what there was so far is what it has by itself; then it begins anew. */
static void learn_shares(const DetectCase *c, NeighbourMemory *memory)
{
    const uint64_t window_ns = detect_time(c, NOISY_WINDOW);

    for (size_t i = 0; i < NEIGHBOURS; i++) {
        Neighbour *one = &memory->at[i];
        bool crowded = false;

        for (size_t k = 0; one->seen_ns && k < NEIGHBOURS; k++)
            crowded |= k != i && came_after(&memory->at[k], one, window_ns);
        if (crowded == one->crowded)
            continue;
        one->had = crowded && trail_rate(&one->calm, CALM_WINDOWS * window_ns, 0.8 / CALM_WINDOWS, &one->usual_sm);
        one->crowded = crowded;
        trail_forget(&one->calm);
    }
}

static bool is_saturated(const DetectCase *c)
{
    const NeighbourMemory *memory = c->memory;
    double all = 0;

    for (size_t i = 0; i < NEIGHBOURS; i++)
        all += memory->at[i].seen_ns && memory->at[i].known ? memory->at[i].sm_now : 0;
    return all >= SATURATED * (c->finding->holds ? 0.9 : 1);
}

/* Has so much less since it is not alone any more; *ret: what it has. */
static bool has_lost(const DetectCase *c, const Neighbour *loser, double *ret)
{
    return loser->seen_ns && loser->had && !loser->idle && loser->usual_sm >= 0.1 &&
           trail_rate(&loser->calm, CALM_WINDOWS * detect_time(c, NOISY_WINDOW), 0.8 / CALM_WINDOWS, ret) &&
           *ret <= loser->usual_sm * (1 - detect_limit(c, NOISY_LOST, 0.3));
}

/* Who takes from this one; NULL: none. */
static const Neighbour *find_noisy(const DetectCase *c, const Neighbour *loser, double left)
{
    const NeighbourMemory *memory = c->memory;
    const double share = detect_limit(c, NOISY_SHARE, 0.8);

    for (size_t i = 0; i < NEIGHBOURS; i++) {
        const Neighbour *noisy = &memory->at[i];

        if (came_after(noisy, loser, detect_time(c, NOISY_WINDOW)) && noisy->known && noisy->sm_now > left &&
            (noisy->sm_now >= share || noisy->memory_now >= share))
            return noisy;
    }
    return NULL;
}

static DetectOutcome check_neighbours(const DetectCase *c)
{
    NeighbourMemory *memory = c->memory;
    const NodeGpu *gpu = c->gpu;

    if (gpu->state != GPU_UP || gpu->reading.mig || !detect_fresh(c, &gpu->process_list, METRIC_PACE_SLOW))
        return detect_absent(c, &gpu->process_list);
    if (gpu->process_list.time_ns == memory->list_ns)
        return DETECT_SAME;
    read_shares(c, memory);
    learn_shares(c, memory);
    for (size_t i = 0; i < NEIGHBOURS && is_saturated(c); i++) {
        const Neighbour *loser = &memory->at[i];
        double left;
        const Neighbour *noisy = has_lost(c, loser, &left) ? find_noisy(c, loser, left) : NULL;

        if (noisy)
            return detect_hold(c,
                               "pid %" PRIu32 " has %.0f %% of the GPU's time and %.0f %% of its memory's; pid %" PRIu32
                               " fell from %.0f %% to %.0f %% since it came",
                               noisy->pid, noisy->sm_now * 100, noisy->memory_now * 100, loser->pid,
                               loser->usual_sm * 100, left * 100);
    }
    return DETECT_FINE;
}

const DetectImpl detect_noisy_neighbour = {.size = sizeof(NeighbourMemory), .of_gpu = check_neighbours};

/* --- mig-changed -------------------------------------------------------------------------------------------------- */

typedef struct MigMemory {
    bool known;
    size_t count;
    struct {
        Device device;
        char profile[READING_PROFILE_CAP];
        uint32_t pid;     /* one of its processes, when it was seen last */
        size_t processes; /* 0: none, or not known */
    } at[NODE_INSTANCES_MAX];
} MigMemory;

static void note_instances(const DetectCase *c, MigMemory *memory)
{
    const NodeGpu *gpu = c->gpu;
    const bool listed = detect_fresh(c, &gpu->process_list, METRIC_PACE_NORMAL);

    memory->known = true;
    memory->count = gpu->instance_count < NODE_INSTANCES_MAX ? gpu->instance_count : NODE_INSTANCES_MAX;
    for (size_t i = 0; i < memory->count; i++) {
        memory->at[i].device = gpu->instances[i].device;
        memcpy(memory->at[i].profile, gpu->instances[i].profile, sizeof memory->at[i].profile);
        memory->at[i].processes = 0;
        for (size_t k = 0; listed && k < gpu->process_count; k++)
            if (node_process_is_on(&gpu->processes[k], &memory->at[i].device)) {
                memory->at[i].pid = gpu->processes[k].pid;
                memory->at[i].processes++;
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

/* Only from one tick in which the GPU was up to the next: what changes while it is released, lost or reset is known by
 * another name. */
static DetectOutcome check_instances(const DetectCase *c)
{
    MigMemory *memory = c->memory;

    if (c->gpu->state != GPU_UP || c->tick->released) {
        memory->known = false;
        return DETECT_SAME;
    }
    for (size_t i = 0; memory->known && i < memory->count; i++) {
        const Device *device = &memory->at[i].device;

        if (memory->at[i].processes == 0 || is_there(c->gpu, device))
            continue;
        detect_hold(c, "MIG device %s (GI %" PRIu32 ", CI %" PRIu32 ") went away with %zu process%s on it",
                    memory->at[i].profile[0] ? memory->at[i].profile : "of this GPU", device->gpu_instance,
                    device->compute_instance, memory->at[i].processes, memory->at[i].processes == 1 ? "" : "es");
        detect_report_moment(c, device, (int32_t)memory->at[i].pid);
    }
    note_instances(c, memory);
    return DETECT_SAME;
}

const DetectImpl detect_mig_changed = {.size = sizeof(MigMemory), .of_gpu = check_instances};
