/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ledger/idle.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/owner/holdings.h"

#define LEFT_NS NS_PER_MIN /* an owner that comes back sooner has held on */
#define AFTER_MAX_NS NS_PER_YEAR

/* Counters of the evidence; those of an incident go on after a restart. */
#define IDLE_HOURS "held_idle_gpu_hours"
#define IDLE_SECONDS "held_idle_seconds"
#define IDLE_SECONDS_MAX 1e9

/* --- policies ----------------------------------------------------------------------------------------------------- */

static int read_after(const YamlNode *node, uint64_t *ret, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, "after", err));
    if (strcmp(node->text, "never") == 0)
        *ret = 0;
    else if (duration_parse(node->text, ret, NULL) < 0 || *ret == 0 || *ret > AFTER_MAX_NS)
        return yaml_fail(node, err, "'after' must be 'never' or a duration such as 2h, a year at most, not '%.40s'",
                         node->text);
    return 0;
}

static int read_policy(const YamlNode *node, Arena *arena, IdlePolicy *policy, Err *err)
{
    const struct {
        const char *key, **into;
    } patterns[] = {{"namespace", &policy->namespace}, {"partition", &policy->partition}, {"user", &policy->user}};
    const YamlNode *after = yaml_get(node, "after");

    TRY(yaml_want(node, YAML_MAP, "a policy", err));
    for (size_t i = 0; i < node->len; i++) {
        const YamlPair *pair = &node->pairs[i];
        size_t k = 0;

        if (pair->value == after)
            continue;
        while (k < ARRAY_LEN(patterns) && strcmp(pair->key->text, patterns[k].key) != 0)
            k++;
        if (k == ARRAY_LEN(patterns))
            return yaml_fail(pair->key, err, "'%.40s' is no key of a policy of 'idle'", pair->key->text);
        TRY(yaml_want(pair->value, YAML_SCALAR, patterns[k].key, err));
        *patterns[k].into = arena_strdup(arena, pair->value->text);
    }
    policy->after_ns = IDLE_AFTER_NS;
    return after ? read_after(after, &policy->after_ns, err) : 0;
}

int idle_policies_read(const YamlNode *node, Arena *arena, const IdlePolicies **ret, Err *err)
{
    if (yaml_is_null(node)) {
        *ret = NULL;
        return 0;
    }
    TRY(yaml_want(node, YAML_SEQ, "idle", err));
    if (node->len > IDLE_POLICIES_MAX)
        return yaml_fail(node, err, "more than %d policies", IDLE_POLICIES_MAX);
    IdlePolicies *policies = arena_alloc(arena, sizeof *policies + node->len * sizeof policies->at[0]);
    policies->count = node->len;
    for (size_t i = 0; i < node->len; i++) {
        policies->at[i] = (IdlePolicy){0};
        TRY(read_policy(node->items[i], arena, &policies->at[i], err));
    }
    *ret = policies;
    return 0;
}

static bool pattern_fits(const char *pattern, const char *text)
{
    return !pattern || (text[0] && fnmatch(pattern, text, 0) == 0);
}

/* 0: it may hold a device idle for ever. */
static uint64_t find_after_ns(const IdleLook *look, const Owner *owner)
{
    const JobInfo *job = owner->job[0] ? job_info_find(look->jobs, owner->job) : NULL;

    for (size_t i = 0; i < look->policies->count; i++) {
        const IdlePolicy *policy = &look->policies->at[i];

        if (pattern_fits(policy->namespace, owner->namespace) &&
            pattern_fits(policy->partition, job ? job->partition : "") && pattern_fits(policy->user, owner->user))
            return policy->after_ns;
    }
    return 0;
}

/* --- the watch ---------------------------------------------------------------------------------------------------- */

/* An owner on a device. */
typedef struct Held {
    Device device;
    Owner owner;
    bool idle;        /* when its state was known last */
    uint64_t idle_ns; /* that it has been idle, as far as that was seen */
    double hours;     /* of them, GPU hours of its part */
    uint64_t seen_ns; /* the last tick */
} Held;

struct IdleWatch {
    VEC(Held) at;
    FaultRule rule; /* of the evidence */
};

IdleWatch *idle_watch_new(void)
{
    return xcalloc(1, sizeof(IdleWatch));
}

void idle_watch_free(IdleWatch *watch)
{
    if (!watch)
        return;
    vec_done(&watch->at);
    free(watch);
}

/* NULL: it is not there any more. */
static const Reading *find_reading(const NodeGpu *gpu, const Holding *holding)
{
    if (holding->gpu_instance == DEVICE_NO_NUMBER)
        return &gpu->reading;
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Device *device = &gpu->instances[i].device;

        if (device->gpu_instance == holding->gpu_instance && device->compute_instance == holding->compute_instance)
            return &gpu->instances[i];
    }
    return NULL;
}

static const Incident *find_told(const IdleLook *look, const Device *device, const Owner *owner)
{
    for (size_t i = 0; i < look->open_count; i++) {
        const Incident *it = look->open[i];

        if (strcmp(it->class, IDLE_CLASS) == 0 && device_equal(&it->device, device) && it->owner_count > 0 &&
            owner_is_same(&it->owners[0], owner))
            return it;
    }
    return NULL;
}

static double read_counter(const Incident *it, const char *name)
{
    for (uint32_t i = 0; i < it->counter_len; i++)
        if (strcmp(it->counters[i].name, name) == 0 && it->counters[i].after > 0)
            return it->counters[i].after;
    return 0;
}

/* What was told before a restart goes on; the time in which no agent ran is not known, and is not counted. */
static void restore_held(Held *held, const IdleLook *look)
{
    const Incident *told = find_told(look, &held->device, &held->owner);

    if (!told)
        return;
    held->idle = true;
    held->hours = read_counter(told, IDLE_HOURS);
    held->idle_ns = number_max_u64((uint64_t)(fmin(read_counter(told, IDLE_SECONDS), IDLE_SECONDS_MAX) * NS_PER_S),
                                   find_after_ns(look, &held->owner));
}

static Held *find_held(IdleWatch *watch, const IdleLook *look, const Device *device, const Owner *owner)
{
    for (size_t i = 0; i < watch->at.len; i++)
        if (device_equal(&watch->at.at[i].device, device) && owner_is_same(&watch->at.at[i].owner, owner))
            return &watch->at.at[i];
    Held *held = vec_add(&watch->at);
    held->device = *device;
    held->owner = *owner;
    restore_held(held, look);
    return held;
}

/* Adds the time since the last tick where it was idle then and is now, on `share` of a GPU. What happens in a gap, or
 * while nothing is known of the device, is not known: the time is not counted, and nothing begins anew. */
static void note_word(Held *held, ActivityWord word, double share, uint64_t now_ns)
{
    const uint64_t passed_ns = held->seen_ns ? now_ns - held->seen_ns : 0;

    held->seen_ns = now_ns;
    if (word == ACTIVITY_UNKNOWN)
        return;
    if (word == ACTIVITY_WORKING || word == ACTIVITY_WAITING || word == ACTIVITY_UNUSABLE) {
        held->idle = false;
        held->idle_ns = 0;
        held->hours = 0;
        return;
    }
    if (held->idle && passed_ns <= NODE_GAP_NS) {
        held->idle_ns += passed_ns;
        held->hours += (double)passed_ns / (double)NS_PER_H * share;
    }
    held->idle = true;
}

/* "job 4711 of ann has held it idle for 2h10m: 2.17 GPU hours, 6.28 EUR so far" */
static void write_text(const Owner *owner, uint64_t idle_ns, double hours, const PriceTag *price, Evidence *in)
{
    char span[DURATION_TEXT_MAX];
    Str out;

    str_init_room(&out, in->text, sizeof in->text);
    owner_add_text(owner, &out);
    duration_format(span, idle_ns >= NS_PER_MIN ? idle_ns / NS_PER_MIN * NS_PER_MIN : idle_ns / NS_PER_S * NS_PER_S);
    str_addf(&out, " has held it idle for %s: %.2f GPU hours", span, hours);
    if (price)
        str_addf(&out, ", %.2f %s", hours * price->per_hour, price->currency);
    str_add(&out, " so far");
}

/* An owner's part of a device in this tick. */
typedef struct Part {
    const Holding *holding;
    const Held *held;
    const Reading *reading, *gpu; /* of the device, and of its GPU */
    double slices;                /* share of the whole GPU that the device is */
} Part;

static void give_evidence(const IdleWatch *watch, const IdleLook *look, const Part *part,
                          void (*evidence)(void *self, const Evidence *evidence), void *self)
{
    const Node *node = look->node;
    const Held *held = part->held;
    Evidence in = {.verdict = fault_verdict_of_class(&watch->rule, look->class),
                   .holds = true,
                   .time_ns = node->time_ns,
                   .real_ns = node->real_ns,
                   .device = part->reading->device,
                   .pid = -1,
                   .owner = &part->holding->owner,
                   .counter_count = 2,
                   .counters = {{.name = IDLE_HOURS, .after = held->hours},
                                {.name = IDLE_SECONDS, .after = (double)held->idle_ns / (double)NS_PER_S}}};
    char text[PRICE_TEXT_CAP];
    PriceTag price;

    prices_find(look->prices, part->gpu->device.name, part->reading->profile, part->slices, node->real_ns, text);
    const bool priced = price_tag_read(text, &price) == 0;
    if (priced)
        in.counters[in.counter_count++] = (IncidentCounter){.name = "cost", .after = held->hours * price.per_hour};
    write_text(&part->holding->owner, held->idle_ns, held->hours, priced ? &price : NULL, &in);
    evidence(self, &in);
}

static void drop_gone(IdleWatch *watch, uint64_t now_ns)
{
    for (size_t i = watch->at.len; i-- > 0;)
        if (watch->at.at[i].seen_ns + LEFT_NS < now_ns)
            vec_remove(&watch->at, i);
}

void idle_watch_update(IdleWatch *watch, const IdleLook *look, void (*evidence)(void *self, const Evidence *evidence),
                       void *self)
{
    const uint64_t now_ns = look->node->time_ns;

    if (!look->policies || !look->class || !look->class->enabled) {
        vec_clear(&watch->at);
        return;
    }
    watch->rule = (FaultRule){.id = IDLE_CLASS, .for_ns = look->class->for_ns, .keep_ns = look->class->keep_ns};
    for (size_t i = 0; i < look->holding_count; i++) {
        const Holding *holding = &look->holdings[i];
        const Reading *gpu = &look->node->gpus[holding->gpu].reading;
        const Reading *reading = find_reading(&look->node->gpus[holding->gpu], holding);

        if (!reading || !owner_is_known(&holding->owner)) /* a process just started, or one of a hidden namespace */
            continue;
        const double slices = reading == gpu ? 1 : reading_mig_share(gpu, reading);
        const uint64_t after_ns = find_after_ns(look, &holding->owner);
        Held *held = find_held(watch, look, &reading->device, &holding->owner);
        note_word(held, holding_activity(holding, look->node), slices * holding->share, now_ns);
        if (after_ns && held->idle && held->idle_ns >= after_ns)
            give_evidence(watch, look, &(Part){holding, held, reading, gpu, slices}, evidence, self);
    }
    drop_gone(watch, now_ns);
}
