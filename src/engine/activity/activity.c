/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/activity/activity.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/health/incidents.h"

enum { JOB_CAP = 80, YOUNG_S = 10, SOON_S = 5, HOURS = 24, GAP_S = 90 };

/* A word replaces another one when it was right for so long. */
#define DWELL_NS (10 * NS_PER_S)
/* MiB of a device that nobody holds: contexts of the driver itself; of a small instance a twentieth of its memory. */
static const double unheld_mib = 1024, unheld_share = 0.05;

/* Seconds of each word in an hour of the clock. */
typedef struct Hour {
    uint64_t number;
    uint16_t seconds[ACTIVITY_END];
} Hour;

typedef struct Slot {
    Activity shown;
    Activity next; /* another word that was right since next.since_ns */
    uint64_t counted_s;
    Hour day[HOURS];
} Slot;

typedef struct GpuSlot {
    PciAddress pci;
    char uuid[DEVICE_UUID_CAP];
    char job[JOB_CAP]; /* of the processes on it when they were last listed, "" unknown */
    Slot gpu;
    size_t instance_count;
    Slot instances[NODE_INSTANCES_MAX];
    Activity shown[NODE_INSTANCES_MAX];
} GpuSlot;

struct Activities {
    size_t count;
    GpuSlot *gpus[NODE_GPUS_MAX];
};

/* The device under decision. */
typedef struct Subject {
    const Snapshot *snapshot;
    const Store *store;
    const NodeGpu *gpu;
    const Reading *reading;  /* of the GPU or of one of its instances */
    const Reading *instance; /* NULL: the GPU */
} Subject;

Activities *activities_new(void)
{
    return xcalloc(1, sizeof(Activities));
}

void activities_free(Activities *activities)
{
    for (size_t i = 0; activities && i < activities->count; i++)
        free(activities->gpus[i]);
    free(activities);
}

static const SecondsSource sources[] = {
    {ACTIVITY_OF_SM, METRIC_PROF_SM_ACTIVE, 1, METRIC_END, false},
    {ACTIVITY_OF_UTIL, METRIC_GPU_UTIL, 0.01, METRIC_END, false},
    {ACTIVITY_OF_TENSOR, METRIC_PROF_PIPE_TENSOR_ACTIVE, 1, METRIC_END, false},
    {ACTIVITY_OF_DRAM, METRIC_PROF_DRAM_ACTIVE, 1, METRIC_END, false},
    {ACTIVITY_OF_POWER, METRIC_POWER_USAGE, 1, METRIC_ENFORCED_POWER_LIMIT, false},
    {ACTIVITY_OF_CLOCK, METRIC_SM_CLOCK, 1, METRIC_MAX_SM_CLOCK, false},
    {ACTIVITY_OF_VIDEO, METRIC_ENC_UTIL, 0.01, METRIC_END, false},
    {ACTIVITY_OF_VIDEO, METRIC_DEC_UTIL, 0.01, METRIC_END, false},
    {ACTIVITY_OF_LINK, METRIC_NVLINK_TX_BYTES_COUNT, 1, METRIC_END, true},
    {ACTIVITY_OF_LINK, METRIC_NVLINK_RX_BYTES_COUNT, 1, METRIC_END, true},
};

void activities_add_wanted(uint64_t wanted[METRIC_SET_WORDS])
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        metric_set_add(wanted, sources[i].metric);
        metric_set_add(wanted, sources[i].limit);
    }
    metric_set_add(wanted, METRIC_PROF_GR_ENGINE_ACTIVE);
    metric_set_add(wanted, METRIC_FB_USED);
    metric_set_add(wanted, METRIC_FB_TOTAL);
}

static GpuSlot *find_slot(Activities *activities, const Device *device)
{
    GpuSlot *slot;

    for (size_t i = 0; i < activities->count; i++)
        if (device_is_gpu(device, activities->gpus[i]->uuid, activities->gpus[i]->pci))
            return activities->gpus[i];
    slot = activities->count < NODE_GPUS_MAX ? xcalloc(1, sizeof *slot) : activities->gpus[NODE_GPUS_MAX - 1];
    if (activities->count < NODE_GPUS_MAX)
        activities->gpus[activities->count++] = slot;
    *slot = (GpuSlot){.pci = device->pci};
    memcpy(slot->uuid, device->uuid, sizeof slot->uuid);
    return slot;
}

/* --- the last minute ---------------------------------------------------------------------------------------------- */

static bool has_process(const Subject *s)
{
    for (size_t i = 0; i < s->gpu->process_count; i++)
        if (!s->instance || node_process_is_on(&s->gpu->processes[i], &s->instance->device))
            return true;
    return false;
}

static bool has_owner(const Subject *s)
{
    const AllocationTable *allocations = s->snapshot->allocations;

    for (size_t i = 0; allocations && i < allocations->len; i++)
        if (allocation_device_is(&allocations->at[i].device, &s->gpu->reading, s->instance))
            return true;
    return false;
}

static bool has_memory(const Reading *reading)
{
    double used, total, least = unheld_mib;

    if (!sample_double(&reading->sample[METRIC_FB_USED], &used))
        return false;
    if (sample_double(&reading->sample[METRIC_FB_TOTAL], &total))
        least = fmin(least, unheld_share * total);
    return used > least;
}

static void read_minute(const Subject *s, ActivitySeconds *ret)
{
    seconds_read(s->store, s->reading, s->snapshot->node->time_ns, sources, ARRAY_LEN(sources), ret->at);
    ret->held = has_process(s) || has_owner(s) || has_memory(s->reading);
}

/* --- one device --------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static Activity make_unknown(bool held, const char *fmt, ...)
{
    Activity a = {.held = held,
                  .sm_active = NAN,
                  .utilization = NAN,
                  .power_share = NAN,
                  .clock_share = NAN,
                  .tensor = NAN,
                  .dram = NAN,
                  .waiters_speed = NAN};
    va_list args;

    va_start(args, fmt);
    vsnprintf(a.text, sizeof a.text, fmt, args);
    va_end(args);
    return a;
}

/* The incident that takes the device out of use: the worst kind first. */
static const Incident *find_block(const Subject *s, IncidentUse *ret_use)
{
    const uint32_t instance = s->instance ? s->instance->device.gpu_instance : DEVICE_NO_NUMBER;
    const Incident *found = NULL;

    *ret_use = INCIDENT_USE_GOES_ON;
    for (size_t i = 0; i < s->snapshot->incident_count; i++) {
        const Incident *incident = s->snapshot->incidents[i];
        const IncidentUse use = incident_use(incident);

        if (use <= *ret_use || !incident_hits_instance(incident, &s->gpu->reading.device, instance))
            continue;
        *ret_use = use;
        found = incident;
    }
    return found;
}

static void block_by_incident(Activity *a, const Incident *incident)
{
    a->word = ACTIVITY_UNUSABLE;
    a->cause = ACTIVITY_CAUSE_NONE;
    a->basis = ACTIVITY_BASIS_INCIDENT;
    memcpy(a->incident, incident->id, sizeof a->incident);
    snprintf(a->text, sizeof a->text, "%s", incident->title);
}

/* Without readings to decide by. */
static Activity explain_absence(const Subject *s, bool held)
{
    const Sample *util = &s->reading->sample[METRIC_GPU_UTIL];

    if ((s->gpu->state == GPU_STARTING && s->gpu->last_sample_ns == 0) ||
        (s->gpu->state == GPU_UP && !util->valid && util->absence == ABSENCE_NOT_YET))
        return make_unknown(held, "just started");
    if (s->gpu->state != GPU_UP)
        return make_unknown(held, "%s", s->gpu->why[0] ? s->gpu->why : gpu_states[s->gpu->state].text);
    return make_unknown(held, "SM activity not reported by this %s", s->instance ? "instance" : "GPU");
}

/* SM activity is a difference of two readings: the first has none. */
static bool comes_soon(const Sample *sm)
{
    return !sm->valid && (sm->absence == ABSENCE_NOT_YET || sm->absence == ABSENCE_NO_DATA);
}

/* By the readings; a device on which nothing is measured and that nobody holds is free. */
static Activity decide_by_readings(const Subject *s, const Activity *before)
{
    ActivitySeconds seconds;
    Activity a;

    if (s->gpu->state != GPU_UP)
        return explain_absence(s, false);
    read_minute(s, &seconds);
    activity_decide(&seconds, before, &a);
    if (a.basis == ACTIVITY_BASIS_UTILIZATION && a.window_s < SOON_S &&
        comes_soon(&s->reading->sample[METRIC_PROF_SM_ACTIVE]))
        return make_unknown(seconds.held, "just started");
    if (a.basis != ACTIVITY_BASIS_NONE)
        return a;
    a = explain_absence(s, seconds.held);
    if (!seconds.held && s->gpu->process_list.valid && s->gpu->last_sample_ns) {
        a.word = ACTIVITY_FREE;
        snprintf(a.text, sizeof a.text, "no process");
    }
    return a;
}

/* SM active of a split GPU by its own reading, which counts multiprocessors of no instance too. NaN: it has none. */
static double read_own_sm(const Subject *s, uint32_t window_s)
{
    ActivitySeconds seconds;

    read_minute(s, &seconds);
    return seconds_mean(seconds.at[ACTIVITY_OF_SM], ACTIVITY_WINDOW_S - (int)window_s);
}

/* Of a split GPU: the busiest word of its instances; without a reading of its own, their activity weighed by their
 * slices. */
static Activity sum_up_instances(const Subject *s, const GpuSlot *slot)
{
    const NodeGpu *gpu = s->gpu;
    static const ActivityWord order[] = {ACTIVITY_WORKING, ACTIVITY_WAITING, ACTIVITY_IDLE_HELD,
                                         ACTIVITY_UNKNOWN, ACTIVITY_FREE,    ACTIVITY_UNUSABLE};
    Activity a = make_unknown(false, "%s", "");
    size_t counts[ACTIVITY_END] = {0};
    double sm = 0;
    bool known = false;

    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Activity *one = &slot->shown[i];

        counts[one->word]++;
        a.held |= one->held;
        a.window_s = one->window_s > a.window_s ? one->window_s : a.window_s;
        if (isfinite(one->sm_active) && one->window_s > 0) {
            sm += one->sm_active * reading_mig_share(&gpu->reading, &gpu->instances[i]);
            known = true;
        }
    }
    a.basis = ACTIVITY_BASIS_INSTANCES;
    a.sm_active = read_own_sm(s, a.window_s);
    if (isnan(a.sm_active) && known)
        a.sm_active = fmin(sm, 1);
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (counts[order[i]] > 0) {
            a.word = order[i];
            break;
        }
    for (size_t i = 0; i < gpu->instance_count && !a.cause && a.word == ACTIVITY_WAITING; i++)
        a.cause = slot->shown[i].cause;
    snprintf(a.text, sizeof a.text, "%zu of %zu MIG instances %s", counts[a.word], gpu->instance_count,
             activity_words[a.word].key);
    return a;
}

/* Whether the change may be noise: not what is a fact, nor what a few seconds after the start had said. */
static bool is_noise(const Activity *from, const Activity *to)
{
    const bool firm = from->word == ACTIVITY_UNKNOWN || from->word == ACTIVITY_UNUSABLE ||
                      to->word == ACTIVITY_UNKNOWN || to->word == ACTIVITY_UNUSABLE || from->basis != to->basis;
    const bool young = from->window_s < YOUNG_S;
    const bool idle = (from->word == ACTIVITY_IDLE_HELD || from->word == ACTIVITY_FREE) &&
                      (to->word == ACTIVITY_IDLE_HELD || to->word == ACTIVITY_FREE);

    return !firm && !young && !idle;
}

/* Takes over what was found; another word or cause than the shown one waits until it was right for DWELL_NS. */
static void show_settled(Slot *slot, const Activity *found, uint64_t now_ns)
{
    Activity *shown = &slot->shown;
    const bool same = found->word == shown->word && found->cause == shown->cause && shown->since_ns;

    if (!same && shown->since_ns && is_noise(shown, found)) {
        if (slot->next.since_ns == 0 || slot->next.word != found->word || slot->next.cause != found->cause)
            slot->next = (Activity){.word = found->word, .cause = found->cause, .since_ns = now_ns};
        if (now_ns - slot->next.since_ns < DWELL_NS)
            return; /* numbers and text stay those of the word */
    }
    slot->next.since_ns = 0;
    const uint64_t since = shown->since_ns && found->word == shown->word ? shown->since_ns : now_ns;
    *shown = *found;
    shown->since_ns = since;
}

/* Adds the time since the last call to the word in force; a longer gap belongs to none. */
static void count_day(Slot *slot, uint64_t now_ns)
{
    const uint64_t now_s = now_ns / NS_PER_S, number = now_s / 3600;
    const uint64_t passed = now_s - slot->counted_s;
    Hour *hour = &slot->day[number % HOURS];

    if (hour->number != number)
        *hour = (Hour){.number = number};
    if (slot->counted_s && passed <= GAP_S)
        hour->seconds[slot->shown.word] = (uint16_t)(hour->seconds[slot->shown.word] + passed);
    slot->counted_s = now_s;
    memset(slot->shown.day_s, 0, sizeof slot->shown.day_s);
    for (size_t i = 0; i < HOURS; i++)
        for (ActivityWord word = 0; word < ACTIVITY_END && number - slot->day[i].number < HOURS; word++)
            slot->shown.day_s[word] += slot->day[i].seconds[word];
}

static void decide_device(const Subject *s, Slot *slot, const Activity *summed)
{
    IncidentUse use;
    const Incident *incident = find_block(s, &use);
    Activity found = summed ? *summed : decide_by_readings(s, &slot->shown);

    if (use == INCIDENT_USE_NONE ||
        (use == INCIDENT_USE_NO_NEW_WORK && found.word != ACTIVITY_WORKING && found.word != ACTIVITY_WAITING))
        block_by_incident(&found, incident);
    show_settled(slot, &found, s->snapshot->node->time_ns);
    count_day(slot, s->snapshot->node->time_ns);
}

/* --- the node ----------------------------------------------------------------------------------------------------- */

/* What tells one job from another: its number, pod or container. Of the first process that has one. */
static void note_job(const Snapshot *snapshot, const NodeGpu *gpu, char job[JOB_CAP])
{
    for (size_t i = 0; i < gpu->process_count; i++) {
        const ProcessOwner *owner = process_list_find(&snapshot->processes, gpu->processes[i].pid);
        const char *name = !owner              ? ""
                           : owner->job[0]     ? owner->job
                           : owner->pod_uid[0] ? owner->pod_uid
                                               : owner->container;

        if (!name[0])
            continue;
        snprintf(job, JOB_CAP, "%.*s", (int)sizeof owner->container - 1, name);
        return;
    }
    if (gpu->process_list.valid)
        job[0] = '\0';
}

/* Another GPU of the job that does not spin: it is the one that is waited for. */
static NodeGpu *find_missing_rank(GpuSlot *const slots[], const Node *node, size_t self)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Activity *other = &slots[i]->gpu.shown;
        const bool spins = other->word == ACTIVITY_WAITING && other->cause >= ACTIVITY_CAUSE_COLLECTIVE;

        if (i != self && !spins && other->word != ACTIVITY_UNKNOWN && strcmp(slots[i]->job, slots[self]->job) == 0)
            return &node->gpus[i];
    }
    return NULL;
}

/* Names the rank that a spinning GPU waits for, on what the node shows; the slot keeps the bare cause. */
static void blame_other_rank(GpuSlot *const slots[], const Node *node, size_t i)
{
    Activity *a = &node->gpus[i].activity;
    NodeGpu *other;

    if (a->cause != ACTIVITY_CAUSE_COLLECTIVE || !slots[i]->job[0])
        return;
    other = find_missing_rank(slots, node, i);
    if (!other)
        return;
    other->activity.waiters++;
    a->cause = ACTIVITY_CAUSE_OTHER_RANK;
    snprintf(a->text, sizeof a->text, "waits in a collective for GPU %" PRIu32 ", which is %s",
             other->reading.device.index, activity_words[other->activity.word].key);
}

static void decide_gpu(GpuSlot *slot, const Snapshot *snapshot, const Store *store, NodeGpu *gpu)
{
    Activity summed;
    Subject subject = {.snapshot = snapshot, .store = store, .gpu = gpu};

    if (slot->instance_count != gpu->instance_count)
        memset(slot->instances, 0, sizeof slot->instances);
    slot->instance_count = gpu->instance_count;
    for (size_t i = 0; i < gpu->instance_count; i++) {
        subject.reading = subject.instance = &gpu->instances[i];
        decide_device(&subject, &slot->instances[i], NULL);
        slot->shown[i] = slot->instances[i].shown;
    }
    subject.reading = &gpu->reading;
    subject.instance = NULL;
    if (gpu->instance_count > 0)
        summed = sum_up_instances(&subject, slot);
    decide_device(&subject, &slot->gpu, gpu->instance_count > 0 && gpu->state == GPU_UP ? &summed : NULL);
    gpu->activity = slot->gpu.shown;
    gpu->instance_activity = slot->shown;
    if (gpu->state == GPU_UP)
        note_job(snapshot, gpu, slot->job);
}

void activities_update(Activities *activities, const Snapshot *snapshot, const Store *store)
{
    const Node *node = snapshot->node;
    GpuSlot *slots[NODE_GPUS_MAX];

    for (size_t i = 0; i < node->gpu_count; i++) {
        slots[i] = find_slot(activities, &node->gpus[i].reading.device);
        decide_gpu(slots[i], snapshot, store, &node->gpus[i]);
    }
    for (size_t i = 0; i < node->gpu_count; i++)
        blame_other_rank(slots, node, i);
}
