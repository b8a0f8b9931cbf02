/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as wholes: the driver's word about one, the PCI bus against the driver, what the driver asks for. */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum GpuAway { AWAY_NO, AWAY_TROUBLE, AWAY_OFF_BUS } GpuAway;

typedef struct GpuMem {
    DetectVerdict verdict;
    GpuAway away;   /* how it is away, at the tick before */
    bool announced; /* an operator had said so before it went */
} GpuMem;

/* ---- gpu-state ---- */

enum { STATE_LOST, STATE_RESET, STATE_REFUSED };

/* Which of the three a GPU's state is, -1: none. */
static int trouble_of(const NodeGpu *gpu)
{
    switch (gpu->trouble) {
    case GPU_TROUBLE_FELL_OFF:
        return STATE_LOST;
    case GPU_TROUBLE_RESET:
        return STATE_RESET;
    case GPU_TROUBLE_REFUSED:
        return STATE_REFUSED;
    default:
        return -1;
    }
}

/* The driver calls a GPU lost that was taken from the bus. Whether it was, the next look at the bus tells; that is
 * waited for, but not for long. */
#define LOOK_WAIT_NS (15 * NS_PER_S)

static bool waits_for_look(const DetectTurn *turn, const NodeGpu *gpu)
{
    return turn->facts_known && turn->facts->time_ns <= gpu->state_since_ns &&
           detect_since(turn->now_ns, gpu->state_since_ns) < LOOK_WAIT_NS;
}

static bool is_off_bus(const DetectTurn *turn, const DetectSeen *seen)
{
    return seen->gpu->state == GPU_GONE || (seen->gpu->state == GPU_LOST && seen->facts && !seen->facts->present &&
                                            turn->facts->time_ns > seen->gpu->state_since_ns);
}

static GpuAway away_of(const DetectTurn *turn, const DetectSeen *seen)
{
    if (is_off_bus(turn, seen))
        return AWAY_OFF_BUS;
    return seen->gpu->trouble == GPU_TROUBLE_FELL_OFF || seen->gpu->trouble == GPU_TROUBLE_REFUSED ||
                   seen->gpu->state == GPU_MISSING
               ? AWAY_TROUBLE
               : AWAY_NO;
}

/* Whether an operator is taking a GPU out: it was drained, or the driver let go, before it went, and that still holds.
 * Who drains one that has failed already announces nothing, until it leaves the bus. */
static bool is_taken_out(const DetectTurn *turn, const DetectSeen *seen, GpuMem *mem)
{
    const bool said = seen->gpu->drained || turn->released;
    const GpuAway away = away_of(turn, seen);

    if (away != mem->away)
        mem->announced = said;
    mem->away = away;
    mem->announced &= said;
    return away != AWAY_NO && mem->announced;
}

static void state_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    GpuMem *mem = detect_memory(watch, seen->slot);
    const NodeGpu *gpu = seen->gpu;
    const bool taken = is_taken_out(turn, seen, mem) && !turn->released;
    const int trouble = taken || is_off_bus(turn, seen) ? -1 : trouble_of(gpu);

    if (trouble == STATE_LOST && !mem->verdict.holds && waits_for_look(turn, gpu))
        detect_silent(turn, &mem->verdict, seen);
    else if (trouble == (int)detect_param(watch, GPU_STATE_STATE))
        detect_holds(turn, &mem->verdict, "%s", gpu->why[0] ? gpu->why : gpu_state_text(gpu->state));
    else if (taken || trouble >= 0 || gpu->state == GPU_UP || gpu->state == GPU_MISSING || is_off_bus(turn, seen))
        detect_fine(turn, &mem->verdict);
    else
        detect_silent(turn, &mem->verdict, seen);
}

const DetectImpl detect_gpu_state = {.size = sizeof(GpuMem), .each = state_each};

/* ---- gpu-bus ---- */

enum { BUS_DIFFERS, BUS_ONES, BUS_TAKEN_OUT };

static void judge_ones(const DetectTurn *turn, const DetectSeen *seen, DetectVerdict *verdict)
{
    if (!seen->facts)
        detect_silent(turn, verdict, seen);
    else if (seen->facts->present && seen->facts->config_lost && !seen->facts->asleep)
        detect_holds(turn, verdict, "its PCI configuration space reads as all ones: it no longer answers on the bus");
    else
        detect_fine(turn, verdict);
}

/* A GPU that is bound to a virtual machine or to no driver is not missing. */
static bool is_drivers(const DetectSeen *seen)
{
    return !seen->facts || seen->facts->driver[0] == '\0' || strcmp(seen->facts->driver, "nvidia") == 0;
}

static void hold_off_bus(const DetectTurn *turn, const NodeGpu *gpu, DetectVerdict *verdict)
{
    const Node *node = turn->node;
    const bool says_more = gpu->state == GPU_GONE && strcmp(gpu->why, gpu_state_text(GPU_GONE)) != 0;

    if (node->gpus_expected > node->gpus_on_bus)
        detect_holds(turn, verdict, "it is no longer on the PCI bus; %" PRIu32 " GPUs are, %" PRIu32 " expected%s%s",
                     node->gpus_on_bus, node->gpus_expected, says_more ? "; " : "", says_more ? gpu->why : "");
    else
        detect_holds(turn, verdict, "it is no longer on the PCI bus; %" PRIu32 " GPUs are%s%s", node->gpus_on_bus,
                     says_more ? "; " : "", says_more ? gpu->why : "");
}

static void judge_lists(const DetectTurn *turn, const DetectSeen *seen, DetectVerdict *verdict)
{
    const Node *node = turn->node;

    if (is_off_bus(turn, seen)) {
        hold_off_bus(turn, seen->gpu, verdict);
        return;
    }
    switch (seen->gpu->state) {
    case GPU_MISSING:
        if (turn->released || node->driver_why[0])
            detect_silent(turn, verdict, seen);
        else if (is_drivers(seen))
            detect_holds(turn, verdict,
                         "it is on the PCI bus, but not among the %" PRIu32 " GPUs that the driver lists",
                         node->gpus_found);
        else
            detect_fine(turn, verdict);
        break;
    case GPU_UP:
        detect_fine(turn, verdict);
        break;
    default:
        detect_silent(turn, verdict, seen);
    }
}

static void judge_taken_out(const DetectTurn *turn, const DetectSeen *seen, DetectVerdict *verdict, bool taken)
{
    if (!taken)
        detect_fine(turn, verdict);
    else
        detect_holds(turn, verdict, "an operator had %s before it %s",
                     seen->gpu->drained ? "drained it" : "the driver let go",
                     is_off_bus(turn, seen)            ? "left the PCI bus"
                     : seen->gpu->state == GPU_MISSING ? "left the driver's list of GPUs"
                                                       : "stopped answering");
}

static void bus_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    GpuMem *mem = detect_memory(watch, seen->slot);
    const bool taken = is_taken_out(turn, seen, mem);

    switch ((int)detect_param(watch, GPU_BUS_WHAT)) {
    case BUS_ONES:
        judge_ones(turn, seen, &mem->verdict);
        break;
    case BUS_TAKEN_OUT:
        judge_taken_out(turn, seen, &mem->verdict, taken);
        break;
    default:
        if (taken)
            detect_fine(turn, &mem->verdict);
        else
            judge_lists(turn, seen, &mem->verdict);
    }
}

/* GPUs that were not seen since the agent began: only their number is known. */
static void bus_look(DetectWatch *watch, const DetectTurn *turn)
{
    const Node *node = turn->node;
    uint32_t there = node->gpus_on_bus > node->gpus_found ? node->gpus_on_bus : node->gpus_found, gone = 0;

    if ((int)detect_param(watch, GPU_BUS_WHAT) != BUS_DIFFERS)
        return;
    for (size_t i = 0; i < turn->count; i++)
        gone += turn->at[i].gpu->state == GPU_GONE;
    if (there == 0 && !turn->facts_known)
        detect_silent(turn, &watch->node, NULL);
    else if (node->gpus_expected > there + gone)
        detect_holds(turn, &watch->node, "%" PRIu32 " GPUs on the PCI bus, %" PRIu32 " expected", there,
                     node->gpus_expected);
    else
        detect_fine(turn, &watch->node);
}

const DetectImpl detect_gpu_bus = {.size = sizeof(GpuMem), .look = bus_look, .each = bus_each};

/* ---- recovery-action ---- */

/* nvmlDeviceGpuRecoveryAction_t (nvml.h). */
static const struct {
    const char *text;
    FaultAction action;
} actions[] = {
    [1] = {"a reset of the GPU", ACTION_RESET_GPU},
    [2] = {"a reboot of the node", ACTION_REBOOT_NODE},
    [3] = {"an end of what uses peer to peer", ACTION_RESTART_APP},
    [4] = {"an end of the work and a reset", ACTION_DRAIN_AND_RESET},
    [5] = {"recovery of its IMEX domain", ACTION_RESTART_FABRIC},
};

static void recovery_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    GpuMem *mem = detect_memory(watch, seen->slot);
    int64_t asked;

    if (!detect_int(turn, seen, METRIC_GPU_RECOVERY_ACTION, &asked)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_GPU_RECOVERY_ACTION));
        return;
    }
    if (asked <= 0) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    const bool known = asked < (int64_t)ARRAY_LEN(actions);
    detect_holds(turn, &mem->verdict, "the driver asks for %s (recovery action %" PRId64 ")",
                 known ? actions[asked].text : "a recovery that is not known here", asked);
    mem->verdict.action = known ? actions[asked].action : ACTION_NONE;
}

const DetectImpl detect_recovery_action = {
    .size = sizeof(GpuMem),
    .each = recovery_each,
    .metrics = (const MetricId[]){METRIC_GPU_RECOVERY_ACTION, METRIC_END},
};

/* ---- metric ---- */

typedef struct LimitMem {
    DetectVerdict verdict;
    Trail trail;
} LimitMem;

static bool is_beyond(const DetectWatch *watch, const LimitMem *mem, double value, char *why, size_t cap)
{
    const double above = detect_param(watch, LIMIT_ABOVE), below = detect_param(watch, LIMIT_BELOW);
    const double back = detect_param(watch, LIMIT_BACK);
    const bool held = mem->verdict.holds && !isnan(back);
    const uint64_t bits = (uint64_t)detect_param(watch, LIMIT_BITS);
    TrailSpan span;

    if (value > above || (held && !isinf(above) && value > back))
        snprintf(why, cap, "above %g", above);
    else if (value < below || (held && !isinf(below) && value < back))
        snprintf(why, cap, "below %g", below);
    else if (value == detect_param(watch, LIMIT_EQUAL))
        snprintf(why, cap, "which it must not be");
    else if (bits && value >= 0 && value < 0x1p63 && ((uint64_t)value & bits))
        snprintf(why, cap, "with bits 0x%" PRIx64 " set", (uint64_t)value & bits);
    else if (!trail_span(&mem->trail, detect_time(watch, LIMIT_WINDOW), 0, &span))
        return false;
    else if (span.sum > detect_param(watch, LIMIT_INCREASE))
        snprintf(why, cap, "%g more than %.0f s before", span.sum, span.seconds);
    else if (span.seconds * NS_PER_S >= detect_param(watch, LIMIT_WINDOW) / 2 &&
             span.sum / span.seconds > detect_param(watch, LIMIT_RATE))
        snprintf(why, cap, "%.3g more every second", span.sum / span.seconds);
    else
        return false;
    return true;
}

static void limit_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    LimitMem *mem = detect_memory(watch, seen->slot);
    const MetricId id = (MetricId)detect_param(watch, LIMIT_METRIC);
    char why[64];
    double value;

    if (id >= METRIC_END)
        return;
    if (!detect_value(turn, seen, id, &value)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, id));
        return;
    }
    trail_count(&mem->trail, detect_sample(seen, id)->time_ns, value, detect_time(watch, LIMIT_WINDOW));
    if (!is_beyond(watch, mem, value, why, sizeof why)) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(turn, &mem->verdict, "%s is %.10g, %s", metric_get(id)->name, value, why);
    detect_counter(&mem->verdict, metric_get(id)->name, NAN, value);
}

const DetectImpl detect_metric = {.size = sizeof(LimitMem), .each = limit_each};
