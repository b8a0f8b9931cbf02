/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts: made, kept without data, and given as signs: of each GPU, or of the node if most GPUs are affected. */
#include "engine/health/detect/detect_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_NS (5 * NS_PER_MIN)
#define KEEP_RELEASED_NS NS_PER_H
#define KEEP_AWAY_NS NS_PER_DAY
#define JUDGED_NS NS_PER_MIN /* a verdict so young counts among those that are compared */

/* ---- made and kept ---- */

void detect_holds(const DetectTurn *turn, DetectVerdict *verdict, const char *fmt, ...)
{
    va_list args;

    verdict->holds = true;
    verdict->judged_ns = turn->now_ns;
    verdict->action = ACTION_NONE;
    verdict->counter_count = 0;
    va_start(args, fmt);
    vsnprintf(verdict->text, sizeof verdict->text, fmt, args);
    va_end(args);
}

void detect_counter(DetectVerdict *verdict, const char *name, double before, double after)
{
    if (verdict->counter_count == DETECT_COUNTERS)
        return;
    IncidentCounter *counter = &verdict->counters[verdict->counter_count++];
    snprintf(counter->name, sizeof counter->name, "%s", name);
    counter->before = before;
    counter->after = after;
}

void detect_fine(const DetectTurn *turn, DetectVerdict *verdict)
{
    verdict->holds = false;
    verdict->judged_ns = turn->now_ns;
}

static uint64_t keep_ns(const DetectSeen *seen)
{
    if (!seen || seen->gpu->state == GPU_UP)
        return KEEP_NS;
    if (seen->gpu->state == GPU_RELEASED || seen->gpu->state == GPU_GONE)
        return KEEP_RELEASED_NS;
    return KEEP_AWAY_NS;
}

void detect_silent(const DetectTurn *turn, DetectVerdict *verdict, const DetectSeen *seen)
{
    const uint64_t since_ns = seen && seen->up_ns > verdict->judged_ns ? seen->up_ns : verdict->judged_ns;

    if (verdict->holds && detect_since(turn->now_ns, since_ns) > keep_ns(seen))
        verdict->holds = false;
}

static bool is_for_good(uint8_t absence)
{
    switch (absence) {
    case ABSENCE_NOT_SUPPORTED:
    case ABSENCE_DRIVER_LACKS:
    case ABSENCE_DEPRECATED:
    case ABSENCE_MIG_MODE:
    case ABSENCE_NO_PERMISSION:
    case ABSENCE_IN_USE:
    case ABSENCE_TURNED_OFF:
        return true;
    default:
        return false;
    }
}

void detect_absent(const DetectTurn *turn, DetectVerdict *verdict, const DetectSeen *seen, const Sample *sample)
{
    if (seen->gpu->state == GPU_UP && !sample->valid && is_for_good(sample->absence))
        verdict->holds = false;
    else
        detect_silent(turn, verdict, seen);
}

/* ---- values ---- */

bool detect_fresh(const DetectTurn *turn, const Sample *sample, MetricPace pace)
{
    uint64_t age;

    if (!sample_age(sample, turn->now_ns, &age))
        return false;
    if (pace == METRIC_PACE_ONCE || pace == METRIC_PACE_EVENTS)
        return true;
    return age <= (pace == METRIC_PACE_SLOW ? 15 * NS_PER_MIN : 3 * NS_PER_MIN);
}

/* What is read once a run does not change with a reset. */
static bool is_told(const DetectTurn *turn, const DetectSeen *seen, MetricId id)
{
    const Sample *sample = detect_sample(seen, id);
    const MetricPace pace = metric_get(id)->pace;

    return seen->gpu->state == GPU_UP && detect_fresh(turn, sample, pace) &&
           (pace == METRIC_PACE_ONCE || sample->time_ns >= seen->reset_ns);
}

bool detect_value(const DetectTurn *turn, const DetectSeen *seen, MetricId id, double *ret)
{
    return is_told(turn, seen, id) && sample_double(detect_sample(seen, id), ret);
}

bool detect_int(const DetectTurn *turn, const DetectSeen *seen, MetricId id, int64_t *ret)
{
    return is_told(turn, seen, id) && sample_int64(detect_sample(seen, id), ret);
}

const char *detect_span_text(uint64_t ns, char out[DURATION_TEXT_MAX])
{
    const uint64_t unit = ns >= 10 * NS_PER_MIN ? NS_PER_MIN : NS_PER_S;

    if (ns < 10 * NS_PER_S)
        snprintf(out, DURATION_TEXT_MAX, "%.1f s", (double)ns / NS_PER_S);
    else
        duration_format(out, (ns + unit / 2) / unit * unit);
    return out;
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double detect_median(double *numbers, size_t count)
{
    if (count == 0)
        return 0;
    qsort(numbers, count, sizeof *numbers, by_number);
    return count % 2 ? numbers[count / 2] : (numbers[count / 2 - 1] + numbers[count / 2]) / 2;
}

/* ---- signs ---- */

static void give_sign(const DetectTurn *turn, const DetectWatch *watch, const DetectVerdict *verdict,
                      const Device *device, int32_t pid, bool holds)
{
    const FaultRule *rule = watch->rule;
    const FaultAction action = verdict->action == ACTION_NONE ? rule->action : verdict->action;
    Sign sign = {.verdict = {rule, rule->cause, rule->severity, action, rule->route},
                 .holds = holds,
                 .time_ns = turn->now_ns,
                 .real_ns = turn->real_ns,
                 .pid = pid,
                 .counter_count = verdict->counter_count};

    if (device)
        sign.device = *device;
    else
        device_init(&sign.device, DEVICE_NODE);
    memcpy(sign.text, verdict->text, sizeof sign.text);
    for (size_t i = 0; i < verdict->counter_count; i++)
        sign.counters[i] = verdict->counters[i];
    turn->give(turn->self, &sign);
}

void detect_give_sign(const DetectTurn *turn, const DetectWatch *watch, const DetectVerdict *verdict,
                      const Device *device, int32_t pid)
{
    if (verdict->holds)
        give_sign(turn, watch, verdict, device, pid, true);
}

void detect_give_event(const DetectTurn *turn, const DetectWatch *watch, const DetectVerdict *verdict,
                       const Device *device, int32_t pid)
{
    give_sign(turn, watch, verdict, device, pid, false);
}

typedef struct Hits {
    size_t judged, hit;
    const DetectSeen *first;
    const DetectVerdict *verdict; /* of the first by its PCI address */
} Hits;

static Hits count_hits(const DetectWatch *watch, const DetectTurn *turn)
{
    Hits hits = {0};

    for (size_t i = 0; i < turn->count; i++) {
        const DetectVerdict *verdict = detect_memory(watch, turn->at[i].slot);
        const DetectSeen *seen = &turn->at[i];

        if (verdict->holds || (verdict->judged_ns && detect_since(turn->now_ns, verdict->judged_ns) <= JUDGED_NS))
            hits.judged++;
        if (!verdict->holds)
            continue;
        hits.hit++;
        if (!hits.first || pci_compare(seen->gpu->reading.device.pci, hits.first->gpu->reading.device.pci) < 0) {
            hits.first = seen;
            hits.verdict = verdict;
        }
    }
    return hits;
}

/* Many GPUs are the node: two at least, and the share; once so, more than half of the share. A rule of the node without
 * a share speaks for any one. */
static bool is_whole(const DetectWatch *watch, const Hits *hits)
{
    const double share = watch->gpus < 0 ? 0 : watch->params[watch->gpus];
    const double need = share * (double)hits->judged * (watch->whole.holds ? 0.6 : 1.0);

    if (share <= 0)
        return detect_is_of_node(watch->rule) && hits->hit > 0;
    return hits->hit >= 2 && (double)hits->hit >= need;
}

static void tell_whole(DetectWatch *watch, const DetectTurn *turn, const Hits *hits)
{
    if (turn->count == 1)
        detect_holds(turn, &watch->whole, "%s", hits->verdict->text);
    else
        detect_holds(turn, &watch->whole, "%zu of %zu GPUs; GPU %d: %.180s", hits->hit, turn->count,
                     (int)hits->first->gpu->reading.device.index, hits->verdict->text);
    for (size_t i = 0; i < hits->verdict->counter_count; i++)
        detect_counter(&watch->whole, hits->verdict->counters[i].name, hits->verdict->counters[i].before,
                       hits->verdict->counters[i].after);
    detect_give_sign(turn, watch, &watch->whole, NULL, -1);
}

void detect_give_signs(DetectWatch *watch, const DetectTurn *turn)
{
    detect_give_sign(turn, watch, &watch->node, NULL, -1);
    if (!watch->impl->each || (watch->impl->alone && watch->node.holds))
        return;
    const Hits hits = count_hits(watch, turn);
    if (is_whole(watch, &hits)) {
        tell_whole(watch, turn, &hits);
        return;
    }
    detect_fine(turn, &watch->whole);
    if (detect_is_of_node(watch->rule) || (watch->wide && watch->wide->whole.holds))
        return; /* too few for the node; or told there */
    for (size_t i = 0; i < turn->count; i++)
        detect_give_sign(turn, watch, detect_memory(watch, turn->at[i].slot), &turn->at[i].gpu->reading.device, -1);
}
