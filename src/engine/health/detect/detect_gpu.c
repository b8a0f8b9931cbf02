/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as wholes: the driver's word about one, the PCI bus against the driver, what the driver asks for. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/health/detect/detector.h"

typedef enum GpuAway { AWAY_NO, AWAY_TROUBLE, AWAY_OFF_BUS } GpuAway;

typedef struct GpuMemory {
    GpuAway away;   /* how it is away, at the tick before */
    bool announced; /* an operator had said so before it went */
} GpuMemory;

/* --- gpu-state ---------------------------------------------------------------------------------------------------- */

/* By the detector's parameter `state`. */
static const GpuTrouble troubles[] = {GPU_TROUBLE_FELL_OFF, GPU_TROUBLE_RESET, GPU_TROUBLE_REFUSED};

/* Which of the three a GPU's state is, -1: none. */
static int find_trouble(const NodeGpu *gpu)
{
    for (size_t i = 0; i < ARRAY_LEN(troubles); i++)
        if (gpu->trouble == troubles[i])
            return (int)i;
    return -1;
}

/* The driver calls a GPU lost that was taken from the bus. Whether it was, a scan of the bus after that tells, unless
 * scans hang. */
static bool was_scanned(const DetectCase *c)
{
    return c->tick->facts->time_ns >= c->gpu->state_since_ns;
}

static bool waits_for_scan(const DetectCase *c)
{
    return c->tick->facts_known && !was_scanned(c) && !c->tick->facts->scan_hangs;
}

static bool is_off_bus(const DetectCase *c)
{
    return c->gpu->state == GPU_GONE || (c->gpu->state == GPU_LOST && c->facts && !c->facts->present && was_scanned(c));
}

static GpuAway find_away(const DetectCase *c)
{
    if (is_off_bus(c))
        return AWAY_OFF_BUS;
    return c->gpu->trouble == GPU_TROUBLE_FELL_OFF || c->gpu->trouble == GPU_TROUBLE_REFUSED ||
                   c->gpu->state == GPU_MISSING
               ? AWAY_TROUBLE
               : AWAY_NO;
}

/* Whether an operator is taking a GPU out: it was drained, or the driver released, before it went, and that still
 * holds. Draining one that has failed already announces nothing, until it leaves the bus. */
static bool is_taken_out(const DetectCase *c)
{
    GpuMemory *memory = c->memory;
    const bool said = c->gpu->drained || c->tick->released;
    const GpuAway away = find_away(c);

    if (away != memory->away)
        memory->announced = said;
    memory->away = away;
    memory->announced &= said;
    return away != AWAY_NO && memory->announced;
}

static DetectOutcome check_state(const DetectCase *c)
{
    const NodeGpu *gpu = c->gpu;
    const bool taken = is_taken_out(c) && !c->tick->released;
    const int trouble = taken || is_off_bus(c) ? -1 : find_trouble(gpu);

    if (trouble >= 0 && troubles[trouble] == GPU_TROUBLE_FELL_OFF && !c->finding->holds && waits_for_scan(c))
        return DETECT_NO_DATA;
    if (trouble == detect_choice(c, GPU_STATE_STATE))
        return detect_hold(c, "%s", gpu->why[0] ? gpu->why : gpu_states[gpu->state].text);
    return taken || trouble >= 0 || gpu->state == GPU_UP || gpu->state == GPU_MISSING || is_off_bus(c) ? DETECT_FINE
                                                                                                       : DETECT_NO_DATA;
}

const DetectImpl detect_gpu_state = {.size = sizeof(GpuMemory), .of_gpu = check_state};

/* --- gpu-bus ------------------------------------------------------------------------------------------------------ */

enum { BUS_DIFFERS, BUS_ONES, BUS_TAKEN_OUT };

static DetectOutcome check_config_space(const DetectCase *c)
{
    if (!c->facts)
        return DETECT_NO_DATA;
    if (c->facts->present && c->facts->config_lost && !c->facts->asleep)
        return detect_hold(c, "its PCI configuration space reads as all ones: it no longer answers on the bus");
    return DETECT_FINE;
}

static DetectOutcome hold_off_bus(const DetectCase *c)
{
    const Node *node = c->tick->node;
    const bool says_more = c->gpu->state == GPU_GONE && strcmp(c->gpu->why, gpu_states[GPU_GONE].text) != 0;
    char expected[32] = "";

    if (node->gpus_expected > node->gpus_on_bus)
        snprintf(expected, sizeof expected, ", %" PRIu32 " expected", node->gpus_expected);
    return detect_hold(c, "it is no longer on the PCI bus; %" PRIu32 " GPUs are%s%s%s", node->gpus_on_bus, expected,
                       says_more ? "; " : "", says_more ? c->gpu->why : "");
}

static DetectOutcome compare_lists(const DetectCase *c)
{
    const Node *node = c->tick->node;

    if (is_off_bus(c))
        return hold_off_bus(c);
    if (c->gpu->state == GPU_UP)
        return DETECT_FINE;
    if (c->gpu->state != GPU_MISSING || c->tick->released || node->driver_why[0])
        return DETECT_NO_DATA;
    if (c->facts && c->facts->driver[0] && strcmp(c->facts->driver, "nvidia") != 0)
        return DETECT_FINE; /* bound to a virtual machine */
    return detect_hold(c, "it is on the PCI bus, but not among the %" PRIu32 " GPUs that the driver lists",
                       node->gpus_found);
}

static DetectOutcome check_bus(const DetectCase *c)
{
    const bool taken = is_taken_out(c);

    if (detect_choice(c, GPU_BUS_WHAT) == BUS_ONES)
        return check_config_space(c);
    if (detect_choice(c, GPU_BUS_WHAT) != BUS_TAKEN_OUT)
        return taken ? DETECT_FINE : compare_lists(c);
    if (!taken)
        return DETECT_FINE;
    return detect_hold(c, "an operator had %s before it %s", c->gpu->drained ? "drained it" : "the driver let go",
                       is_off_bus(c)                  ? "left the PCI bus"
                       : c->gpu->state == GPU_MISSING ? "left the driver's list of GPUs"
                                                      : "stopped answering");
}

/* GPUs that were not seen since the agent began: only their number is known. */
static DetectOutcome count_gpus(const DetectCase *c)
{
    const Node *node = c->tick->node;
    const uint32_t there = node->gpus_on_bus > node->gpus_found ? node->gpus_on_bus : node->gpus_found;
    uint32_t gone = 0;

    if (detect_choice(c, GPU_BUS_WHAT) != BUS_DIFFERS)
        return DETECT_SAME;
    for (size_t i = 0; i < c->tick->count; i++)
        gone += c->tick->gpus[i].gpu->state == GPU_GONE;
    if (there == 0 && !c->tick->facts_known)
        return DETECT_NO_DATA;
    if (node->gpus_expected <= there + gone)
        return DETECT_FINE;
    return detect_hold(c, "%" PRIu32 " GPUs on the PCI bus, %" PRIu32 " expected", there, node->gpus_expected);
}

const DetectImpl detect_gpu_bus = {.size = sizeof(GpuMemory), .of_node = count_gpus, .of_gpu = check_bus};

/* --- recovery-action ---------------------------------------------------------------------------------------------- */

static DetectOutcome check_recovery(const DetectCase *c)
{
    int64_t asked;

    if (!detect_int(c, METRIC_GPU_RECOVERY_ACTION, &asked))
        return detect_absent(c, detect_sample(c, METRIC_GPU_RECOVERY_ACTION));
    if (asked <= 0)
        return DETECT_FINE;
    const bool known = asked < FAULT_RECOVERIES;
    detect_hold(c, "the driver asks for %s (recovery action %" PRId64 ")",
                known ? fault_recoveries[asked].text : "a recovery that is not known here", asked);
    c->finding->action = known ? fault_recoveries[asked].action : ACTION_NONE;
    return detect_counter(c, metric_get(METRIC_GPU_RECOVERY_ACTION)->name, NAN, (double)asked);
}

const DetectImpl detect_recovery_action = {.of_gpu = check_recovery,
                                           .metrics = DETECT_METRICS(METRIC_GPU_RECOVERY_ACTION)};

/* --- test-result -------------------------------------------------------------------------------------------------- */

static DetectOutcome check_test(const DetectCase *c)
{
    const NodeTest *test = detect_choice(c, TEST_RESULT_WHAT) == 0 ? c->gpu->test_wrong : c->gpu->test_slow;

    if (!test)
        return DETECT_FINE;
    detect_hold(c, "'stoker bench %s': %s", test->rung, test->text);
    if (test->grave)
        c->finding->action = ACTION_DRAIN_AND_INSPECT;
    return DETECT_HOLDS;
}

const DetectImpl detect_test_result = {.of_gpu = check_test};

/* --- metric ------------------------------------------------------------------------------------------------------- */

static bool is_beyond(const DetectCase *c, double value, char *why, size_t cap)
{
    const double above = detect_param(c, LIMIT_ABOVE), below = detect_param(c, LIMIT_BELOW);
    const double back = detect_param(c, LIMIT_BACK);
    const bool held = c->finding->holds && !isnan(back);
    const uint64_t bits = (uint64_t)detect_param(c, LIMIT_BITS);
    TrailSpan span;

    if (value > above || (held && !isinf(above) && value > back))
        snprintf(why, cap, "above %g", above);
    else if (value < below || (held && !isinf(below) && value < back))
        snprintf(why, cap, "below %g", below);
    else if (value == detect_param(c, LIMIT_EQUAL))
        snprintf(why, cap, "which it must not be");
    else if (bits && value >= 0 && value < 0x1p63 && ((uint64_t)value & bits))
        snprintf(why, cap, "with bits 0x%" PRIx64 " set", (uint64_t)value & bits);
    else if (!trail_span(c->memory, detect_time(c, LIMIT_WINDOW), 0, &span))
        return false;
    else if (span.sum > detect_param(c, LIMIT_INCREASE))
        snprintf(why, cap, "%g more than %.0f s before", span.sum, span.seconds);
    else if (span.seconds * NS_PER_S >= detect_param(c, LIMIT_WINDOW) / 2 && span.rate > detect_param(c, LIMIT_RATE))
        snprintf(why, cap, "%.3g more every second", span.rate);
    else
        return false;
    return true;
}

static DetectOutcome check_metric(const DetectCase *c)
{
    const MetricId id = (MetricId)detect_param(c, LIMIT_METRIC);
    char why[64];
    double value;

    if (id >= METRIC_END)
        return DETECT_SAME;
    if (!detect_value(c, id, &value))
        return detect_absent(c, detect_sample(c, id));
    trail_count(c->memory, detect_sample(c, id)->time_ns, value, detect_time(c, LIMIT_WINDOW));
    if (!is_beyond(c, value, why, sizeof why))
        return DETECT_FINE;
    detect_hold(c, "%s is %.10g, %s", metric_get(id)->name, value, why);
    return detect_counter(c, metric_get(id)->name, NAN, value);
}

const DetectImpl detect_metric = {.size = sizeof(Trail), .of_gpu = check_metric};
