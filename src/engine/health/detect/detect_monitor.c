/* SPDX-License-Identifier: Apache-2.0 */
/* The watchers themselves: what they no longer see. */
#include "engine/health/detect/detect_inside.h"

#include <string.h>

/* ---- monitor-data ---- */

typedef struct DataMem {
    uint64_t looked_ns; /* the last look at the host */
} DataMem;

enum { STARTING_SLOWER = 4 }; /* a driver that is not kept loaded takes its time for the first call */

/* The age of a GPU's data, in the states in which monitoring itself is to blame; other states have a sign of their
 * own. */
static uint64_t age_of(const DetectTurn *turn, const DetectSeen *seen)
{
    const NodeGpu *gpu = seen->gpu;

    if (gpu->state == GPU_UP)
        return detect_since(turn->now_ns, gpu->last_sample_ns ? gpu->last_sample_ns : seen->up_ns);
    return gpu->state == GPU_STARTING ? detect_since(turn->now_ns, gpu->state_since_ns) : 0;
}

static bool is_old(const DetectTurn *turn, const DetectSeen *seen, uint64_t limit_ns)
{
    return age_of(turn, seen) >= limit_ns * (seen->gpu->state == GPU_STARTING ? STARTING_SLOWER : 1);
}

static const DetectSeen *find_oldest(const DetectTurn *turn, uint64_t limit_ns, size_t *count)
{
    const DetectSeen *found = NULL;

    *count = 0;
    for (size_t i = 0; i < turn->count; i++) {
        const DetectSeen *seen = &turn->at[i];

        if (!is_old(turn, seen, limit_ns))
            continue;
        ++*count;
        if (!found || age_of(turn, seen) > age_of(turn, found) ||
            (age_of(turn, seen) == age_of(turn, found) &&
             pci_compare(seen->gpu->reading.device.pci, found->gpu->reading.device.pci) < 0))
            found = seen;
    }
    return found;
}

/* Faults of neither driver nor GPU: no library, no sampler. */
static bool is_ours(const DetectTurn *turn)
{
    const NodeDriver driver = turn->node->driver;
    const bool ours =
        driver == NODE_DRIVER_NO_LIBRARY || driver == NODE_DRIVER_NO_SAMPLER || driver == NODE_DRIVER_DENIED;

    return ours && turn->node->gpus_on_bus > 0 && (turn->facts->module_loaded || !turn->facts->proc_known);
}

static void data_look(DetectWatch *watch, const DetectTurn *turn)
{
    DataMem *mem = detect_memory(watch, DETECT_NODE);
    const uint64_t limit_ns = detect_time(watch, MONITOR_DATA_AGE);
    const DetectSeen *worst;
    char age[DURATION_TEXT_MAX];
    size_t count;

    if (turn->facts_known)
        mem->looked_ns = turn->facts->time_ns;
    worst = find_oldest(turn, limit_ns, &count);
    if (turn->released)
        detect_silent(turn, &watch->node, NULL);
    else if (is_ours(turn))
        detect_holds(turn, &watch->node, "%s", turn->node->driver_why);
    else if (worst)
        detect_holds(turn, &watch->node, "nothing new of %zu of %zu GPUs; of GPU %d for %s", count, turn->count,
                     (int)worst->gpu->reading.device.index, detect_span_text(age_of(turn, worst), age));
    else if (mem->looked_ns && !turn->facts_known) /* older than two minutes */
        detect_holds(turn, &watch->node, "the look at /proc and /sys has not come back for %s",
                     detect_span_text(detect_since(turn->now_ns, mem->looked_ns), age));
    else
        detect_fine(turn, &watch->node);
}

const DetectImpl detect_monitor_data = {.size = sizeof(DataMem), .look = data_look};

/* ---- monitor-log ---- */

static void log_look(DetectWatch *watch, const DetectTurn *turn)
{
    const Facts *facts = turn->facts;
    char silent[DURATION_TEXT_MAX];

    if (!turn->facts_known)
        detect_silent(turn, &watch->node, NULL);
    else if (facts->log == FACTS_LOG_DENIED)
        detect_holds(turn, &watch->node, "the kernel log cannot be read%s%.150s", facts->log_why[0] ? ": " : "",
                     facts->log_why);
    else if (facts->log != FACTS_LOG_OFF && facts->log_silent_ns >= detect_time(watch, MONITOR_LOG_AGE))
        detect_holds(turn, &watch->node, "the kernel log could not be read for %s%s%.150s",
                     detect_span_text(facts->log_silent_ns, silent), facts->log_why[0] ? ": " : "", facts->log_why);
    else
        detect_fine(turn, &watch->node);
}

const DetectImpl detect_monitor_log = {.look = log_look};

/* ---- monitor-self ---- */

static void self_look(DetectWatch *watch, const DetectTurn *turn)
{
    const Node *node = turn->node;
    const NodeSampler *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < node->sampler_count; i++)
        if (node->samplers[i].state == SAMPLER_ABANDONED) {
            count++;
            if (!first || node->samplers[i].since_ns < first->since_ns)
                first = &node->samplers[i];
        }
    if (!first)
        detect_fine(turn, &watch->node);
    else
        detect_holds(turn, &watch->node, "sampler %d does not end on SIGKILL: it is in %.40s%s%.24s%s%.60s; %zu so far",
                     (int)first->pid, first->function[0] ? first->function : "a call of the driver",
                     first->gpu[0] ? " on GPU " : "", first->gpu, first->wchan[0] ? ", waiting in " : "", first->wchan,
                     count);
}

const DetectImpl detect_monitor_self = {.look = self_look};
