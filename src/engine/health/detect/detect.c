/* SPDX-License-Identifier: Apache-2.0 */
/* The watches made of the catalogue's rules, one tick over all of them, and their findings: made, kept without data,
 * and reported as evidence: of each GPU, or of the node if most GPUs are affected. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/health/detect/detector.h"

static const DetectImpl *const impls[] = {
#define DETECTOR(id, ...) &detect_##id,
#include "engine/health/detect/detect.def"
#undef DETECTOR
};

#define FACTS_OLD_NS (2 * NS_PER_MIN)
#define KEEP_NS (5 * NS_PER_MIN)
#define KEEP_RELEASED_NS NS_PER_H
#define KEEP_AWAY_NS NS_PER_DAY
#define RECENT_NS NS_PER_MIN /* a finding so young counts among those that are compared */

typedef struct Slot {
    bool used;
    uint64_t seen_ns;
    uint64_t up_ns, reset_ns; /* see DetectCase */
    double energy_mj;
    PciAddress pci;
    char uuid[DEVICE_UUID_CAP];
} Slot;

struct Detectors {
    size_t count;
    DetectWatch *watches;
    Slot slots[DETECT_SLOTS];
    DetectTick tick;
};

/* --- watches ------------------------------------------------------------------------------------------------------ */

static bool is_of_node(const FaultRule *rule)
{
    return rule->scope == SCOPE_NODE || rule->scope == SCOPE_FABRIC;
}

static bool is_used(const FaultRule *rule)
{
    return rule->detector && rule->fault && rule->fault->enabled;
}

static void open_watch(DetectWatch *watch, const FaultRule *rule)
{
    watch->rule = rule;
    watch->impl = impls[rule->detector - detector_specs];
    watch->share = -1;
    for (size_t i = 0; i < rule->detector->param_count; i++)
        if (strcmp(rule->detector->params[i].name, "gpus") == 0)
            watch->share = rule->params[i];
    watch->states = xcalloc(DETECT_SLOTS + 1, sizeof(DetectState *));
}

static void free_states(DetectWatch *watch)
{
    for (size_t i = 0; watch->states && i <= DETECT_SLOTS; i++)
        free(watch->states[i]);
    free(watch->states);
}

/* Whether two watches look at the same: the detector, its choices and, with `exact`, times and metrics. How much is too
 * much may differ. */
static bool looks_at_same(const DetectWatch *a, const DetectWatch *b, bool exact)
{
    const DetectorSpec *spec = a->rule->detector;

    if (spec != b->rule->detector)
        return false;
    for (size_t i = 0; i < spec->param_count; i++)
        if ((spec->params[i].type == DETECTOR_CHOICE || (exact && spec->params[i].type != DETECTOR_NUMBER)) &&
            memcmp(&a->rule->params[i], &b->rule->params[i], sizeof a->rule->params[i]) != 0)
            return false;
    return true;
}

static void take_over_states(DetectWatch *watch, Detectors *before)
{
    for (size_t i = 0; before && i < before->count; i++) {
        DetectWatch *old = &before->watches[i];

        if (!old->states || strcmp(watch->rule->id, old->rule->id) != 0 || !looks_at_same(watch, old, true))
            continue;
        free_states(watch);
        watch->states = old->states;
        watch->whole = old->whole;
        old->states = NULL;
        return;
    }
}

/* Finds for each rule about single GPUs the one that reports the same of the node: of the same detector and class. */
static void pair_watches(Detectors *detectors)
{
    for (size_t i = 0; i < detectors->count; i++)
        for (size_t k = 0; k < detectors->count; k++) {
            DetectWatch *narrow = &detectors->watches[i], *wide = &detectors->watches[k];

            if (wide->share >= 0 && wide->rule->fault == narrow->rule->fault && is_of_node(wide->rule) &&
                !is_of_node(narrow->rule) && looks_at_same(wide, narrow, false))
                narrow->wide = wide;
        }
}

/* Rules of the node come first: those of GPUs look at them. */
static void open_watches(Detectors *detectors, const Catalogue *catalogue, Detectors *before, bool node)
{
    for (size_t i = 0; i < catalogue->rule_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];

        if (!is_used(rule) || is_of_node(rule) != node)
            continue;
        DetectWatch *watch = &detectors->watches[detectors->count++];
        open_watch(watch, rule);
        take_over_states(watch, before);
    }
}

Detectors *detectors_new(const Catalogue *catalogue, Detectors *before)
{
    Detectors *detectors = xcalloc(1, sizeof *detectors);

    detectors->watches = xcalloc(catalogue->rule_count + 1, sizeof *detectors->watches);
    open_watches(detectors, catalogue, before, true);
    open_watches(detectors, catalogue, before, false);
    pair_watches(detectors);
    if (before)
        memcpy(detectors->slots, before->slots, sizeof detectors->slots);
    detectors_free(before);
    return detectors;
}

void detectors_free(Detectors *detectors)
{
    if (!detectors)
        return;
    for (size_t i = 0; i < detectors->count; i++)
        free_states(&detectors->watches[i]);
    free(detectors->watches);
    free(detectors);
}

bool detectors_wanted(const Detectors *detectors, uint64_t wanted[METRIC_SET_WORDS])
{
    bool links = false;

    for (size_t i = 0; i < detectors->count; i++) {
        const DetectWatch *watch = &detectors->watches[i];
        const DetectorSpec *spec = watch->rule->detector;

        for (const MetricId *id = watch->impl->metrics; id && *id != METRIC_END; id++)
            metric_set_add(wanted, *id);
        for (size_t k = 0; k < spec->param_count; k++)
            if (spec->params[k].type == DETECTOR_METRIC)
                metric_set_add(wanted, (MetricId)watch->rule->params[k]);
        links |= watch->impl->links;
    }
    return links;
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

/* Allocated when a GPU is met for the first time: most nodes have far fewer than there is room for. */
static DetectState *find_state(DetectWatch *watch, size_t slot)
{
    if (!watch->states[slot])
        watch->states[slot] = xcalloc(1, sizeof(DetectState) + watch->impl->size);
    return watch->states[slot];
}

/* `of`: a GPU of the tick, NULL the node. */
static DetectCase make_case(DetectWatch *watch, const DetectTick *tick, const DetectCase *of)
{
    DetectCase c = of ? *of : (DetectCase){.slot = DETECT_NODE};
    DetectState *state = find_state(watch, c.slot);

    c.watch = watch;
    c.tick = tick;
    c.finding = &state->finding;
    c.memory = state->memory;
    return c;
}

DetectCase detect_peer(const DetectCase *c, size_t i)
{
    return make_case(c->watch, c->tick, &c->tick->gpus[i]);
}

void *detect_node_memory(const DetectCase *c)
{
    return find_state(c->watch, DETECT_NODE)->memory;
}

bool detect_is_any_up(const DetectTick *tick, uint64_t then_ns)
{
    for (size_t i = 0; i < tick->count; i++)
        if (tick->gpus[i].up_ns && tick->gpus[i].up_ns <= then_ns)
            return true;
    return false;
}

/* --- findings ----------------------------------------------------------------------------------------------------- */

DetectOutcome detect_hold(const DetectCase *c, const char *fmt, ...)
{
    DetectFinding *finding = c->finding;
    va_list args;

    finding->action = ACTION_NONE;
    finding->counter_count = 0;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
    return DETECT_HOLDS;
}

DetectOutcome detect_counter(const DetectCase *c, const char *name, double before, double after)
{
    DetectFinding *finding = c->finding;

    if (finding->counter_count < EVIDENCE_COUNTERS) {
        IncidentCounter *counter = &finding->counters[finding->counter_count++];

        snprintf(counter->name, sizeof counter->name, "%s", name);
        counter->before = before < 0 ? 0 : before;
        counter->after = after;
    }
    return DETECT_HOLDS;
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

DetectOutcome detect_absent(const DetectCase *c, const Sample *sample)
{
    return c->gpu->state == GPU_UP && !sample->valid && is_for_good(sample->absence) ? DETECT_NEVER : DETECT_NO_DATA;
}

static uint64_t keep_time_ns(const NodeGpu *gpu)
{
    if (!gpu || gpu->state == GPU_UP)
        return KEEP_NS;
    return gpu->state == GPU_RELEASED || gpu->state == GPU_GONE ? KEEP_RELEASED_NS : KEEP_AWAY_NS;
}

void detect_settle(const DetectCase *c, DetectOutcome outcome)
{
    DetectFinding *finding = c->finding;

    switch (outcome) {
    case DETECT_FINE:
    case DETECT_HOLDS:
        finding->holds = outcome == DETECT_HOLDS;
        finding->decided_ns = c->tick->now_ns;
        break;
    case DETECT_NEVER:
        finding->holds = false;
        break;
    case DETECT_NO_DATA:
        finding->holds =
            finding->holds &&
            detect_age(c, c->up_ns > finding->decided_ns ? c->up_ns : finding->decided_ns) <= keep_time_ns(c->gpu);
        break;
    case DETECT_SAME:
        break;
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

bool detect_fresh(const DetectCase *c, const Sample *sample, MetricPace pace)
{
    uint64_t age;

    if (!sample_age(sample, c->tick->now_ns, &age))
        return false;
    if (pace == METRIC_PACE_ONCE || pace == METRIC_PACE_EVENTS)
        return true;
    return age <= (pace == METRIC_PACE_SLOW ? 15 * NS_PER_MIN : 3 * NS_PER_MIN);
}

/* What is read once a run does not change with a reset. */
static bool is_current(const DetectCase *c, MetricId id)
{
    const Sample *sample = detect_sample(c, id);
    const MetricPace pace = metric_get(id)->pace;

    return c->gpu->state == GPU_UP && detect_fresh(c, sample, pace) &&
           (pace == METRIC_PACE_ONCE || sample->time_ns >= c->reset_ns);
}

bool detect_value(const DetectCase *c, MetricId id, double *ret)
{
    return is_current(c, id) && sample_double(detect_sample(c, id), ret);
}

bool detect_int(const DetectCase *c, MetricId id, int64_t *ret)
{
    return is_current(c, id) && sample_int64(detect_sample(c, id), ret);
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

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double detect_median(double *numbers, size_t count)
{
    if (count == 0)
        return 0;
    qsort(numbers, count, sizeof *numbers, compare_numbers);
    return count % 2 ? numbers[count / 2] : (numbers[count / 2 - 1] + numbers[count / 2]) / 2;
}

/* --- evidence ----------------------------------------------------------------------------------------------------- */

static void report_finding(const DetectTick *tick, const FaultRule *rule, const DetectFinding *finding,
                           const Device *device, int32_t pid, bool holds)
{
    Evidence evidence = {.verdict = fault_verdict(rule),
                         .holds = holds,
                         .time_ns = tick->now_ns,
                         .real_ns = tick->real_ns,
                         .pid = pid,
                         .counter_count = finding->counter_count};

    if (finding->action != ACTION_NONE)
        evidence.verdict.action = finding->action;
    if (device)
        evidence.device = *device;
    else
        device_init(&evidence.device, DEVICE_NODE);
    memcpy(evidence.text, finding->text, sizeof evidence.text);
    memcpy(evidence.counters, finding->counters, finding->counter_count * sizeof evidence.counters[0]);
    tick->sink->evidence(tick->sink->self, &evidence);
}

void detect_report(const DetectCase *c, const Device *device, int32_t pid)
{
    if (c->finding->holds)
        report_finding(c->tick, c->watch->rule, c->finding, device, pid, true);
}

void detect_report_moment(const DetectCase *c, const Device *device, int32_t pid)
{
    report_finding(c->tick, c->watch->rule, c->finding, device, pid, false);
}

typedef struct Hits {
    size_t decided, hit;
    const NodeGpu *first; /* by its PCI address */
    const DetectFinding *finding;
} Hits;

static Hits count_hits(DetectWatch *watch, const DetectTick *tick)
{
    Hits hits = {0};

    for (size_t i = 0; i < tick->count; i++) {
        const DetectCase c = make_case(watch, tick, &tick->gpus[i]);

        hits.decided +=
            c.finding->holds || (c.finding->decided_ns && detect_age(&c, c.finding->decided_ns) <= RECENT_NS);
        if (!c.finding->holds)
            continue;
        hits.hit++;
        if (!hits.first || pci_compare(c.gpu->reading.device.pci, hits.first->reading.device.pci) < 0) {
            hits.first = c.gpu;
            hits.finding = c.finding;
        }
    }
    return hits;
}

/* Many GPUs are the node: two at least, and the share; once so, more than half of the share. A rule of the node without
 * a share speaks for any one. */
static bool is_whole(const DetectWatch *watch, const Hits *hits)
{
    if (watch->share <= 0)
        return is_of_node(watch->rule) && hits->hit > 0;
    return hits->hit >= 2 && (double)hits->hit >= watch->share * (double)hits->decided * (watch->whole.holds ? 0.6 : 1);
}

static void report_whole(DetectWatch *watch, const DetectTick *tick, const Hits *hits)
{
    watch->whole = *hits->finding;
    watch->whole.action = ACTION_NONE;
    if (tick->count > 1)
        snprintf(watch->whole.text, sizeof watch->whole.text, "%zu of %zu GPUs; GPU %d: %.180s", hits->hit, tick->count,
                 (int)hits->first->reading.device.index, hits->finding->text);
    report_finding(tick, watch->rule, &watch->whole, NULL, -1, true);
}

static void report_watch(DetectWatch *watch, const DetectTick *tick)
{
    const DetectCase node = make_case(watch, tick, NULL);

    detect_report(&node, NULL, -1);
    if (!watch->impl->of_gpu || (watch->impl->alone && node.finding->holds))
        return;
    const Hits hits = count_hits(watch, tick);
    if (is_whole(watch, &hits)) {
        report_whole(watch, tick, &hits);
        return;
    }
    watch->whole.holds = false;
    if (is_of_node(watch->rule) || (watch->wide && watch->wide->whole.holds))
        return; /* too few for the node; or reported there */
    for (size_t i = 0; i < tick->count; i++) {
        const DetectCase c = make_case(watch, tick, &tick->gpus[i]);

        detect_report(&c, &c.gpu->reading.device, -1);
    }
}

/* --- a tick ------------------------------------------------------------------------------------------------------- */

static void forget_slot(Detectors *detectors, size_t slot)
{
    for (size_t i = 0; i < detectors->count; i++) {
        free(detectors->watches[i].states[slot]);
        detectors->watches[i].states[slot] = NULL;
    }
}

/* The place of a GPU: its own, or a free one, or that of the one that was not seen for longest. */
static size_t find_slot(Detectors *detectors, const Device *device)
{
    size_t at = 0;

    for (size_t i = 0; i < DETECT_SLOTS; i++) {
        const Slot *slot = &detectors->slots[i];

        if (slot->used && pci_compare(slot->pci, device->pci) == 0)
            return i;
        if (detectors->slots[at].used && (!slot->used || slot->seen_ns < detectors->slots[at].seen_ns))
            at = i;
    }
    forget_slot(detectors, at);
    detectors->slots[at] = (Slot){.used = true, .pci = device->pci};
    return at;
}

static const FactsGpu *find_facts(const Facts *facts, PciAddress pci)
{
    for (size_t i = 0; i < facts->gpu_count && i < NODE_GPUS_MAX; i++)
        if (pci_compare(facts->gpus[i].pci, pci) == 0)
            return &facts->gpus[i];
    return NULL;
}

/* Resets are not logged: detect them by the energy counter going backwards. Findings on the GPU end then; readings that
 * are taken less often are still from before. */
static void check_reset(Detectors *detectors, const NodeGpu *gpu, size_t at)
{
    const Sample *sample = &gpu->reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION];
    Slot *slot = &detectors->slots[at];
    double energy_mj;

    if (!sample_double(sample, &energy_mj))
        return;
    if (energy_mj < slot->energy_mj) {
        forget_slot(detectors, at);
        slot->reset_ns = sample->time_ns;
        if (detectors->tick.sink->reset)
            detectors->tick.sink->reset(detectors->tick.sink->self, gpu);
    }
    slot->energy_mj = energy_mj;
}

static void add_gpu(Detectors *detectors, const NodeGpu *gpu)
{
    const Device *device = &gpu->reading.device;
    DetectTick *tick = &detectors->tick;
    const size_t at = find_slot(detectors, device);
    Slot *slot = &detectors->slots[at];

    slot->seen_ns = tick->now_ns;
    if (slot->uuid[0] && device->uuid[0] && strcmp(slot->uuid, device->uuid) != 0) { /* another board in its place */
        forget_slot(detectors, at);
        *slot = (Slot){.used = true, .pci = device->pci, .seen_ns = tick->now_ns};
    }
    if (device->uuid[0])
        memcpy(slot->uuid, device->uuid, sizeof slot->uuid);
    if (gpu->state != GPU_UP)
        slot->up_ns = 0;
    else if (slot->up_ns == 0)
        slot->up_ns = tick->now_ns;
    check_reset(detectors, gpu, at);
    tick->gpus[tick->count++] = (DetectCase){.gpu = gpu,
                                             .facts = find_facts(tick->facts, device->pci),
                                             .slot = at,
                                             .up_ns = slot->up_ns,
                                             .reset_ns = slot->reset_ns};
}

static void begin_tick(Detectors *detectors, const Node *node, const Facts *facts)
{
    static const Facts nothing;
    DetectTick *tick = &detectors->tick;
    const bool known = facts && facts->time_ns != 0 &&
                       (node->time_ns <= facts->time_ns || node->time_ns - facts->time_ns <= FACTS_OLD_NS);

    tick->node = node;
    tick->now_ns = node->time_ns;
    tick->real_ns = node->real_ns;
    tick->released = node->release_until_ns > node->time_ns;
    tick->facts_known = known;
    tick->facts = known ? facts : &nothing;
    tick->count = 0;
    for (size_t i = 0; i < node->gpu_count && i < NODE_GPUS_MAX; i++)
        add_gpu(detectors, &node->gpus[i]);
}

static void run_detector(const DetectCase *c, DetectFunction function)
{
    if (function)
        detect_settle(c, function(c));
}

void detectors_tick(Detectors *detectors, const Node *node, const Facts *facts, const DetectorSink *sink)
{
    const DetectTick *tick = &detectors->tick;

    detectors->tick.sink = sink;
    begin_tick(detectors, node, facts);
    for (size_t i = 0; i < detectors->count; i++) {
        DetectWatch *watch = &detectors->watches[i];
        DetectCase c = make_case(watch, tick, NULL);

        run_detector(&c, watch->impl->of_node);
        for (size_t k = 0; watch->impl->of_gpu && k < tick->count; k++) {
            c = make_case(watch, tick, &tick->gpus[k]);
            run_detector(&c, watch->impl->of_gpu);
        }
        report_watch(watch, tick);
    }
}
