/* SPDX-License-Identifier: Apache-2.0 */
/* The table of detectors, the watches made of the catalogue's rules, and one tick over all of them. */
#include "engine/health/detect/detect_inside.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- the table ---- */

#define NUMBER(id, key, def, low, high, text)                                                                          \
    {.name = key, .type = DETECTOR_NUMBER, .value = def, .min = low, .max = high, .help = text},
#define TIME(id, key, def, low, high, text)                                                                            \
    {.name = key, .type = DETECTOR_DURATION, .value = def, .min = low, .max = high, .help = text},
#define METRIC_NAME(id, key, text) {.name = key, .type = DETECTOR_METRIC, .value = METRIC_END, .help = text},
#define NO_PARAMS

#define DETECTOR(id, text, about, ...) static const DetectorParam params_##id[] = {__VA_ARGS__{0}};
#include "engine/health/detect/detect.def"
#undef DETECTOR

static const DetectorSpec specs[] = {
#define DETECTOR(id, text, about, ...)                                                                                 \
    {.name = text, .help = about, .param_count = ARRAY_LEN(params_##id) - 1, .params = params_##id},
#include "engine/health/detect/detect.def"
#undef DETECTOR
};

static const DetectImpl *const impls[] = {
#define DETECTOR(id, ...) &detect_##id,
#include "engine/health/detect/detect.def"
#undef DETECTOR
};

enum { WATCHES_MAX = 512 };

#define FACTS_OLD_NS (2 * NS_PER_MIN)

typedef struct Slot {
    bool used;
    uint64_t seen_ns;
    uint64_t up_ns, reset_ns; /* see DetectSeen */
    double energy_mj;
    PciAddress pci;
    char uuid[DEVICE_UUID_CAP];
} Slot;

struct Detectors {
    size_t count;
    DetectWatch *watches;
    Slot slots[DETECT_SLOTS];
    DetectTurn turn; /* its memory */
};

const DetectorSpec *detector_specs(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(specs);
    return specs;
}

/* ---- making ---- */

static int row_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(specs); i++)
        if (strcmp(specs[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool is_used(const FaultRule *rule)
{
    return rule->match == FAULT_ON_DETECTOR && rule->fault && rule->fault->enabled && row_of(rule->detector) >= 0;
}

/* By name, so that rules of a catalogue that was read without the table (parameters as they stand) work too. */
static void take_params(DetectWatch *watch)
{
    const DetectorSpec *spec = &specs[watch->row];

    watch->gpus = -1;
    for (size_t i = 0; i < spec->param_count; i++) {
        watch->params[i] = spec->params[i].value;
        if (strcmp(spec->params[i].name, "gpus") == 0)
            watch->gpus = (int)i;
        for (size_t k = 0; k < watch->rule->param_count; k++)
            if (strcmp(watch->rule->params[k].name, spec->params[i].name) == 0)
                watch->params[i] = watch->rule->params[k].value;
    }
}

static void open_watch(DetectWatch *watch, const FaultRule *rule)
{
    watch->rule = rule;
    watch->row = (size_t)row_of(rule->detector);
    watch->impl = impls[watch->row];
    take_params(watch);
    watch->memory = xcalloc(DETECT_SLOTS + 1, sizeof *watch->memory);
}

static void drop_memory(DetectWatch *watch)
{
    for (size_t i = 0; watch->memory && i <= DETECT_SLOTS; i++)
        free(watch->memory[i]);
    free(watch->memory);
}

/* The detector's own choices are the same: what it looks at, not how much of it is too much. */
static bool is_same(const DetectWatch *a, const DetectWatch *b)
{
    const DetectorSpec *spec = &specs[a->row];

    if (a->row != b->row || strcmp(a->rule->id, b->rule->id) != 0)
        return false;
    for (size_t i = 0; i < spec->param_count; i++)
        if ((spec->params[i].type != DETECTOR_NUMBER || strcmp(spec->params[i].name, "reason") == 0 ||
             strcmp(spec->params[i].name, "what") == 0 || strcmp(spec->params[i].name, "kind") == 0 ||
             strcmp(spec->params[i].name, "state") == 0) &&
            memcmp(&a->params[i], &b->params[i], sizeof a->params[i]) != 0)
            return false;
    return true;
}

static void learn_from(DetectWatch *watch, Detectors *before)
{
    for (size_t i = 0; i < before->count; i++) {
        DetectWatch *old = &before->watches[i];

        if (!old->memory || !is_same(watch, old))
            continue;
        drop_memory(watch);
        watch->memory = old->memory;
        watch->node = old->node;
        watch->whole = old->whole;
        old->memory = NULL;
        return;
    }
}

/* A rule for the node and one for single GPUs: the same detector and class, and the same choice of what to look at. */
static bool is_wide_of(const DetectWatch *wide, const DetectWatch *narrow)
{
    const DetectorSpec *spec = &specs[wide->row];

    if (wide->row != narrow->row || wide->rule->fault != narrow->rule->fault || wide->gpus < 0)
        return false;
    for (size_t i = 0; i < spec->param_count; i++)
        if (strcmp(spec->params[i].name, "reason") == 0 &&
            memcmp(&wide->params[i], &narrow->params[i], sizeof wide->params[i]) != 0)
            return false;
    return detect_is_of_node(wide->rule) && !detect_is_of_node(narrow->rule);
}

static void pair_up(Detectors *detectors)
{
    for (size_t i = 0; i < detectors->count; i++)
        for (size_t k = 0; k < detectors->count; k++)
            if (is_wide_of(&detectors->watches[k], &detectors->watches[i]))
                detectors->watches[i].wide = &detectors->watches[k];
}

/* Rules for the node come first: those for GPUs ask them. */
static void open_watches(Detectors *detectors, const Catalogue *catalogue, Detectors *before, bool node)
{
    for (size_t i = 0; i < catalogue_rule_count(catalogue); i++) {
        const FaultRule *rule = catalogue_rule_at(catalogue, i);

        if (!is_used(rule) || detect_is_of_node(rule) != node || detectors->count == WATCHES_MAX)
            continue;
        DetectWatch *watch = &detectors->watches[detectors->count++];
        open_watch(watch, rule);
        if (before)
            learn_from(watch, before);
    }
}

Detectors *detectors_new(const Catalogue *catalogue, Detectors *before)
{
    Detectors *detectors = xcalloc(1, sizeof *detectors);
    size_t count = 0;

    for (size_t i = 0; i < catalogue_rule_count(catalogue); i++)
        count += is_used(catalogue_rule_at(catalogue, i));
    detectors->watches = xcalloc(count ? count : 1, sizeof *detectors->watches);
    open_watches(detectors, catalogue, before, true);
    open_watches(detectors, catalogue, before, false);
    pair_up(detectors);
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
        drop_memory(&detectors->watches[i]);
    free(detectors->watches);
    free(detectors);
}

/* ---- what they need ---- */

static void want_metric(uint64_t wanted[], MetricId id)
{
    if (id < METRIC_END)
        wanted[id / 64] |= UINT64_C(1) << (id % 64);
}

void detectors_wanted(const Detectors *detectors, uint64_t wanted[(METRIC_END + 63) / 64])
{
    for (size_t i = 0; i < detectors->count; i++) {
        const DetectWatch *watch = &detectors->watches[i];
        const DetectorSpec *spec = &specs[watch->row];

        for (const MetricId *id = watch->impl->metrics; id && *id != METRIC_END; id++)
            want_metric(wanted, *id);
        for (size_t k = 0; k < spec->param_count; k++)
            if (spec->params[k].type == DETECTOR_METRIC)
                want_metric(wanted, (MetricId)watch->params[k]);
    }
}

bool detectors_want_links(const Detectors *detectors)
{
    for (size_t i = 0; i < detectors->count; i++)
        if (detectors->watches[i].impl->links)
            return true;
    return false;
}

/* ---- a tick ---- */

static void drop_watch(Detectors *detectors, size_t slot)
{
    for (size_t i = 0; i < detectors->count; i++) {
        DetectWatch *watch = &detectors->watches[i];

        if (watch->impl->size)
            memset(detect_memory(watch, slot), 0, watch->impl->size);
    }
}

/* The place of a GPU: its own, or a free one, or that of the one that was not seen for longest. */
static size_t slot_of(Detectors *detectors, const Device *device)
{
    size_t at = 0;

    for (size_t i = 0; i < DETECT_SLOTS; i++) {
        const Slot *slot = &detectors->slots[i];

        if (slot->used && pci_compare(slot->pci, device->pci) == 0)
            return i;
        if (detectors->slots[at].used && (!slot->used || slot->seen_ns < detectors->slots[at].seen_ns))
            at = i;
    }
    drop_watch(detectors, at);
    detectors->slots[at] = (Slot){.used = true, .pci = device->pci};
    return at;
}

static const FactsGpu *facts_of(const Facts *facts, PciAddress pci)
{
    for (size_t i = 0; i < facts->gpu_count && i < NODE_GPUS_MAX; i++)
        if (pci_compare(facts->gpus[i].pci, pci) == 0)
            return &facts->gpus[i];
    return NULL;
}

/* Resets are not logged: detect them by the energy counter going backwards. Verdicts on the GPU end then; readings that
 * are taken less often are still from before. */
static void look_for_reset(Detectors *detectors, const NodeGpu *gpu, size_t at)
{
    const Sample *sample = &gpu->reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION];
    Slot *slot = &detectors->slots[at];
    double energy_mj;

    if (!sample_double(sample, &energy_mj))
        return;
    if (energy_mj < slot->energy_mj) {
        drop_watch(detectors, at);
        slot->reset_ns = sample->time_ns;
    }
    slot->energy_mj = energy_mj;
}

static void see_gpu(Detectors *detectors, const NodeGpu *gpu)
{
    const Device *device = &gpu->reading.device;
    DetectTurn *turn = &detectors->turn;
    const size_t at = slot_of(detectors, device);
    Slot *slot = &detectors->slots[at];

    slot->seen_ns = turn->now_ns;
    if (slot->uuid[0] && device->uuid[0] && strcmp(slot->uuid, device->uuid) != 0) { /* another board in its place */
        drop_watch(detectors, at);
        *slot = (Slot){.used = true, .pci = device->pci, .seen_ns = turn->now_ns};
    }
    if (device->uuid[0])
        memcpy(slot->uuid, device->uuid, sizeof slot->uuid);
    if (gpu->state != GPU_UP)
        slot->up_ns = 0;
    else if (slot->up_ns == 0)
        slot->up_ns = turn->now_ns;
    look_for_reset(detectors, gpu, at);
    turn->at[turn->count++] = (DetectSeen){.gpu = gpu,
                                           .facts = facts_of(turn->facts, device->pci),
                                           .slot = at,
                                           .up_ns = slot->up_ns,
                                           .reset_ns = slot->reset_ns};
}

static void begin_watch(Detectors *detectors, const Node *node, const Facts *facts)
{
    static const Facts nothing;
    DetectTurn *turn = &detectors->turn;

    turn->node = node;
    turn->now_ns = node->time_ns;
    turn->real_ns = node->real_ns;
    turn->released = node->release_until_ns > node->time_ns;
    turn->facts_known = facts && facts->time_ns != 0 && detect_since(node->time_ns, facts->time_ns) <= FACTS_OLD_NS;
    turn->facts = turn->facts_known ? facts : &nothing;
    turn->count = 0;
    for (size_t i = 0; i < node->gpu_count && i < NODE_GPUS_MAX; i++)
        see_gpu(detectors, &node->gpus[i]);
}

void detectors_tick(Detectors *detectors, const Node *node, const Facts *facts, DetectorSign give, void *self)
{
    DetectTurn *turn = &detectors->turn;

    begin_watch(detectors, node, facts);
    turn->give = give;
    turn->self = self;
    for (size_t i = 0; i < detectors->count; i++) {
        DetectWatch *watch = &detectors->watches[i];

        if (watch->impl->look)
            watch->impl->look(watch, turn);
        for (size_t k = 0; watch->impl->each && k < turn->count; k++)
            watch->impl->each(watch, turn, &turn->at[k]);
        detect_give_signs(watch, turn);
    }
}
