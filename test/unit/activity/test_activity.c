/* SPDX-License-Identifier: Apache-2.0 */
/* engine/activity: the word for a GPU by its last minute, its hysteresis, and what incidents and peers make of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../set_metric.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/activity/activity.h"

/* --- by readings -------------------------------------------------------------------------------------------------- */

/* A minute of one kind; what is not named is absent. */
typedef struct Minute {
    double sm, util, tensor, dram, power, clock, link, video;
} Minute;

#define NO (double)NAN

static void fill(ActivitySeconds *s, int from, int to, Minute m)
{
    const double values[ACTIVITY_SERIES_END] = {
        [ACTIVITY_OF_SM] = m.sm,         [ACTIVITY_OF_UTIL] = m.util, [ACTIVITY_OF_VIDEO] = m.video,
        [ACTIVITY_OF_TENSOR] = m.tensor, [ACTIVITY_OF_DRAM] = m.dram, [ACTIVITY_OF_POWER] = m.power,
        [ACTIVITY_OF_CLOCK] = m.clock,   [ACTIVITY_OF_LINK] = m.link,
    };

    for (int k = 0; k < ACTIVITY_SERIES_END; k++)
        for (int i = from; i < to; i++)
            s->at[k][i] = values[k];
}

static const Minute nothing = {NO, NO, NO, NO, NO, NO, NO, NO};
static const Minute training = {.84, 1, .43, .44, .87, 1, 5e9, 0};
static const Minute starved = {.27, .31, .13, .14, .36, 1, 1e9, 0};
static const Minute spin = {.14, 1, 0, .002, .22, 1, 0, 0};
static const Minute rest = {0, 0, 0, 0, .1, .2, 0, 0};

static const struct {
    const char *what;
    Minute minute;
    bool held;
    ActivityWord word;
    ActivityCause cause;
    ActivityBasis basis;
} kinds[] = {
    {"training",
     {.84, 1, .43, .44, .87, 1, 5e9, 0},
     true,
     ACTIVITY_WORKING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"decoding",
     {.62, .95, .06, .86, .5, 1, 0, 0},
     true,
     ACTIVITY_WORKING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"starved",
     {.27, .31, .13, .14, .36, 1, 1e9, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_INPUT,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"just enough",
     {.41, .5, .2, .2, .4, 1, 0, 0},
     true,
     ACTIVITY_WORKING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"just not",
     {.39, .5, .2, .2, .4, 1, 0, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_INPUT,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"tiny kernels",
     {.0076, 1, 0, .0005, .2, 1, 0, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_LAUNCHES,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"hung in a collective",
     {.14, 1, 0, .002, .22, 1, 0, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_COLLECTIVE,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"an exchange moves bytes",
     {.14, 1, 0, .002, .22, 1, 50e9, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_LAUNCHES,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"small kernels with tensor work",
     {.14, 1, .02, .03, .3, 1, 0, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_LAUNCHES,
     ACTIVITY_BASIS_SM_ACTIVE},
    {"a notebook", {0, 0, 0, 0, .1, .2, 0, 0}, true, ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE, ACTIVITY_BASIS_SM_ACTIVE},
    {"nobody", {0, 0, 0, 0, .1, .2, 0, 0}, false, ACTIVITY_FREE, ACTIVITY_CAUSE_NONE, ACTIVITY_BASIS_SM_ACTIVE},
    {"video", {.15, .2, 0, .1, .3, 1, 0, .6}, true, ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE, ACTIVITY_BASIS_SM_ACTIVE},
    {"A100, training",
     {NO, .96, NO, NO, 1, 1, NO, 0},
     true,
     ACTIVITY_WORKING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_UTILIZATION},
    {"A100, starved",
     {NO, .31, NO, NO, .4, 1, NO, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_INPUT,
     ACTIVITY_BASIS_UTILIZATION},
    {"A100, spinning",
     {NO, 1, NO, NO, .22, 1, NO, 0},
     true,
     ACTIVITY_WAITING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_UTILIZATION},
    {"A100, held down by heat",
     {NO, 1, NO, NO, .22, .3, NO, 0},
     true,
     ACTIVITY_WORKING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_UTILIZATION},
    {"A100, no power told",
     {NO, 1, NO, NO, NO, NO, NO, NO},
     true,
     ACTIVITY_WORKING,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_UTILIZATION},
    {"A100, held",
     {NO, 0, NO, NO, .1, .2, NO, 0},
     true,
     ACTIVITY_IDLE_HELD,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_UTILIZATION},
    {"A100, free",
     {NO, .04, NO, NO, .1, .2, NO, 0},
     false,
     ACTIVITY_FREE,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_UTILIZATION},
    {"nothing is read",
     {NO, NO, NO, NO, NO, NO, NO, NO},
     true,
     ACTIVITY_UNKNOWN,
     ACTIVITY_CAUSE_NONE,
     ACTIVITY_BASIS_NONE},
};

static void a_word_for_each_minute(void **state)
{
    const Activity none = {0};
    ActivitySeconds s;
    Activity a;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        s.held = kinds[i].held;
        fill(&s, 0, ACTIVITY_WINDOW_S, kinds[i].minute);
        activity_decide(&s, &none, &a);
        if (a.word != kinds[i].word || a.cause != kinds[i].cause || a.basis != kinds[i].basis)
            fail_msg("%s: %s %s %s: %s", kinds[i].what, activity_words[a.word].key, activity_causes[a.cause].key,
                     activity_bases[a.basis].key, a.text);
        assert_int_equal(a.window_s, a.basis == ACTIVITY_BASIS_NONE ? 0 : ACTIVITY_WINDOW_S);
        if (a.basis == ACTIVITY_BASIS_UTILIZATION && a.word != ACTIVITY_FREE && a.word != ACTIVITY_IDLE_HELD)
            assert_non_null(strstr(a.text, "by utilisation"));
    }
}

static Activity decide_parts(Minute first, int first_s, Minute second, const Activity *before)
{
    const Activity none = {0};
    ActivitySeconds s = {.held = true};
    Activity a;

    fill(&s, 0, first_s, first);
    fill(&s, first_s, ACTIVITY_WINDOW_S, second);
    activity_decide(&s, before ? before : &none, &a);
    return a;
}

/* A pause of 20 seconds ends what was before; a shorter one is part of the work. */
static void pauses(void **state)
{
    (void)state;
    assert_int_equal(decide_parts(rest, 55, training, NULL).word, ACTIVITY_WORKING);
    assert_int_equal(decide_parts(rest, 55, training, NULL).window_s, 5);
    assert_int_equal(decide_parts(training, 40, rest, NULL).word, ACTIVITY_IDLE_HELD);
    assert_int_equal(decide_parts(training, 41, rest, NULL).word, ACTIVITY_WORKING); /* .84 * 41/60 */
    assert_int_equal(decide_parts(rest, 19, training, NULL).window_s, 60);
    assert_int_equal(decide_parts(rest, 20, training, NULL).window_s, 40);
    assert_int_equal(decide_parts(nothing, 50, training, NULL).window_s, 10); /* since the start */
}

/* Thirty seconds without progress are no step of a job. */
static void spins_are_seen_after_half_a_minute(void **state)
{
    (void)state;
    assert_int_equal(decide_parts(training, 30, spin, NULL).cause, ACTIVITY_CAUSE_COLLECTIVE);
    assert_int_equal(decide_parts(training, 31, spin, NULL).word, ACTIVITY_WORKING);
    assert_int_equal(decide_parts(nothing, 35, spin, NULL).cause, ACTIVITY_CAUSE_LAUNCHES); /* too young to say */
}

/* A limit belongs to the word that it is the limit of. One second, as a mean of several may differ by a rounding. */
static void limits_count(void **state)
{
    const Minute idle = {.01, .05, 0, 0, .2, 1, 0, 0}, works = {.40, 1, 0, 0, .5, 1, 0, 0};
    const Minute input = {.30, .60, 0, 0, .4, 1, 0, 0}, fills_few = {.25, 1, 0, 0, .4, 1, 0, 0};
    const Minute little = {NO, 1, NO, NO, .35, .5, NO, 0};

    (void)state;
    assert_int_equal(decide_parts(nothing, 59, idle, NULL).word, ACTIVITY_IDLE_HELD);
    assert_int_equal(decide_parts(nothing, 59, works, NULL).word, ACTIVITY_WORKING);
    assert_int_equal(decide_parts(nothing, 59, input, NULL).cause, ACTIVITY_CAUSE_INPUT);
    assert_int_equal(decide_parts(nothing, 59, fills_few, NULL).cause, ACTIVITY_CAUSE_LAUNCHES);
    assert_int_equal(decide_parts(nothing, 59, little, NULL).word, ACTIVITY_WAITING);
}

/* At a limit the word in force stays. */
static void limits_are_wider_for_the_word_in_force(void **state)
{
    const Activity working = {.word = ACTIVITY_WORKING, .basis = ACTIVITY_BASIS_SM_ACTIVE};
    const Activity waiting = {
        .word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT, .basis = ACTIVITY_BASIS_SM_ACTIVE};
    Minute m = starved;

    (void)state;
    m.sm = .37;
    m.util = .5;
    assert_int_equal(decide_parts(m, 0, m, &working).word, ACTIVITY_WORKING);
    assert_int_equal(decide_parts(m, 0, m, &waiting).word, ACTIVITY_WAITING);
    m.sm = .34;
    assert_int_equal(decide_parts(m, 0, m, &working).word, ACTIVITY_WAITING);
    m.util = .65;
    assert_int_equal(decide_parts(m, 0, m, &waiting).cause, ACTIVITY_CAUSE_INPUT);
    m.util = .75;
    assert_int_equal(decide_parts(m, 0, m, &waiting).cause, ACTIVITY_CAUSE_LAUNCHES);
}

/* --- over time, with incidents and peers -------------------------------------------------------------------------- */

enum { GPUS = 3 };

typedef struct Rig {
    Node node;
    NodeGpu gpus[GPUS];
    NodeProcess processes[GPUS];
    ProcessOwner owners[GPUS];
    Incident incident;
    const Incident *list[1];
    Snapshot snapshot;
    Store *store;
    Activities *activities;
} Rig;

static Rig *rig;

static int set_up(void **state)
{
    static Rig one;

    (void)state;
    rig = &one;
    memset(rig, 0, sizeof *rig);
    rig->node = (Node){.time_ns = 1000 * NS_PER_S, .gpus = rig->gpus, .gpu_count = GPUS};
    rig->list[0] = &rig->incident;
    rig->snapshot =
        (Snapshot){.node = &rig->node, .incidents = rig->list, .processes = {.at = rig->owners, .len = GPUS}};
    for (uint32_t i = 0; i < GPUS; i++) {
        NodeGpu *gpu = &rig->gpus[i];

        reading_init(&gpu->reading, DEVICE_GPU);
        gpu->reading.device.index = i;
        gpu->reading.device.has_pci = true;
        gpu->reading.device.pci = (PciAddress){.bus = (uint8_t)(1 + i)};
        snprintf(gpu->reading.device.uuid, sizeof gpu->reading.device.uuid, "GPU-%u", i);
        gpu->state = GPU_UP;
        gpu->last_sample_ns = 1;
        gpu->processes = &rig->processes[i];
        gpu->process_count = 1;
        rig->processes[i] = (NodeProcess){.pid = 100 + i};
        process_owner_init(&rig->owners[i], 100 + i);
        snprintf(rig->owners[i].job, sizeof rig->owners[i].job, "4711.0");
    }
    rig->store = store_new(256);
    rig->activities = activities_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    activities_free(rig->activities);
    store_free(rig->store);
    return 0;
}

static void put(NodeGpu *gpu, MetricId id, double value)
{
    if (!isfinite(value))
        sample_set_absent(&gpu->reading.sample[id], rig->node.time_ns, ABSENCE_NOT_SUPPORTED);
    else
        set_metric(&gpu->reading, id, rig->node.time_ns, value);
}

static void put_minute(NodeGpu *gpu, Minute m)
{
    put(gpu, METRIC_PROF_SM_ACTIVE, m.sm);
    put(gpu, METRIC_GPU_UTIL, 100 * m.util);
    put(gpu, METRIC_PROF_PIPE_TENSOR_ACTIVE, m.tensor);
    put(gpu, METRIC_PROF_DRAM_ACTIVE, m.dram);
    put(gpu, METRIC_POWER_USAGE, 700 * m.power);
    put(gpu, METRIC_ENFORCED_POWER_LIMIT, 700);
    sample_set_int64(&gpu->process_list, rig->node.time_ns, (int64_t)gpu->process_count);
}

/* All GPUs of one kind but the first, for so many seconds. Returns how often the first one's word changed. */
static int run(Minute first, Minute others, int seconds)
{
    int changes = 0;

    for (int i = 0; i < seconds; i++) {
        const Activity before = rig->gpus[0].activity;

        rig->node.time_ns += NS_PER_S;
        for (size_t k = 0; k < GPUS; k++)
            if (rig->gpus[k].state == GPU_UP)
                put_minute(&rig->gpus[k], k == 0 ? first : others);
        store_add_node(rig->store, &rig->node);
        activities_update(rig->activities, &rig->snapshot, rig->store);
        changes += before.word != rig->gpus[0].activity.word || before.cause != rig->gpus[0].activity.cause;
    }
    return changes;
}

static const Activity *first(void)
{
    return &rig->gpus[0].activity;
}

/* Utilisation that is 0 or 100 at each look, as NVML gives it. */
static void a_sawtooth_keeps_its_word(void **state)
{
    Minute high = starved, low = starved;
    int changes = 0;

    (void)state;
    high.util = 1;
    low.util = 0;
    run(starved, training, 60);
    assert_int_equal(first()->word, ACTIVITY_WAITING);
    for (int i = 0; i < 300; i++)
        changes += run(i % 3 ? low : high, training, 1);
    assert_int_equal(changes, 0);
    assert_int_equal(first()->cause, ACTIVITY_CAUSE_INPUT);
    assert_int_equal(rig->gpus[1].activity.word, ACTIVITY_WORKING);
}

static void another_word_has_to_last(void **state)
{
    (void)state;
    run(training, training, 60);
    const uint64_t since = first()->since_ns;
    assert_int_equal(run(starved, training, 30), 0); /* the minute's mean is still over its limit */
    assert_int_equal(first()->word, ACTIVITY_WORKING);
    assert_int_equal(run(starved, training, 31), 0); /* it has been under it for ten seconds */
    assert_int_equal(run(starved, training, 1), 1);
    assert_int_equal(first()->word, ACTIVITY_WAITING);
    assert_true(first()->since_ns > since);
    assert_int_equal(run(rest, training, 29), 0);
    assert_int_equal(run(rest, training, 1), 1);
    assert_int_equal(first()->word, ACTIVITY_IDLE_HELD);
    rig->gpus[0].process_count = 0; /* who holds it is no noise */
    assert_int_equal(run(rest, training, 1), 1);
    assert_int_equal(first()->word, ACTIVITY_FREE);
    assert_int_equal(first()->day_s[ACTIVITY_FREE], 1);
}

static void open_incident(FaultSeverity severity, FaultAction action, const Device *device)
{
    rig->incident = (Incident){.state = INCIDENT_OPEN, .severity = severity, .action = action, .cause = CAUSE_BUS};
    snprintf(rig->incident.id, sizeof rig->incident.id, "1abc");
    snprintf(rig->incident.title, sizeof rig->incident.title, "it has a fault");
    if (device)
        rig->incident.device = *device;
    else
        device_init(&rig->incident.device, DEVICE_NODE);
    rig->snapshot.incident_count = 1;
}

static void incidents_make_it_unusable(void **state)
{
    const Device *device = &rig->gpus[0].reading.device;

    (void)state;
    rig->gpus[0].process_count = 0;
    run(rest, training, 30);
    assert_int_equal(first()->word, ACTIVITY_FREE);
    open_incident(SEVERITY_ERROR, ACTION_DRAIN_AND_RESET, device); /* never free then */
    assert_int_equal(run(rest, training, 1), 1);
    assert_int_equal(first()->word, ACTIVITY_UNUSABLE);
    assert_string_equal(first()->incident, "1abc");
    assert_string_equal(first()->text, "it has a fault");
    assert_int_equal(rig->gpus[1].activity.word, ACTIVITY_WORKING);
    open_incident(SEVERITY_WARNING, ACTION_DRAIN_AND_RESET, device);
    run(rest, training, 1);
    assert_int_equal(first()->word, ACTIVITY_FREE);
    open_incident(SEVERITY_ERROR, ACTION_RESTART_APP, device);
    run(rest, training, 1);
    assert_int_equal(first()->word, ACTIVITY_FREE);
    open_incident(SEVERITY_ERROR, ACTION_DRAIN_AND_RESET, NULL); /* what runs may end */
    run(rest, training, 1);
    assert_int_equal(first()->word, ACTIVITY_UNUSABLE);
    assert_int_equal(rig->gpus[1].activity.word, ACTIVITY_WORKING);
    open_incident(SEVERITY_FATAL, ACTION_FIX_DRIVER, NULL); /* the driver is gone: all of them */
    run(rest, training, 1);
    for (size_t i = 0; i < GPUS; i++)
        assert_int_equal(rig->gpus[i].activity.word, ACTIVITY_UNUSABLE);
    rig->incident.state = INCIDENT_CLEARED;
    run(rest, training, 1);
    assert_int_equal(first()->word, ACTIVITY_FREE);
}

static void without_data_it_is_unknown(void **state)
{
    (void)state;
    rig->gpus[0].state = GPU_STARTING;
    snprintf(rig->gpus[0].why, sizeof rig->gpus[0].why, "no sample for 2 s");
    run(rest, rest, 1);
    assert_int_equal(first()->word, ACTIVITY_UNKNOWN);
    assert_string_equal(first()->text, "no sample for 2 s");
    rig->gpus[0].last_sample_ns = 0;
    run(rest, rest, 1);
    assert_string_equal(first()->text, "just started");
    rig->gpus[0].state = GPU_LOST;
    snprintf(rig->gpus[0].why, sizeof rig->gpus[0].why, "it fell off the bus");
    run(rest, rest, 1);
    assert_int_equal(first()->word, ACTIVITY_UNKNOWN); /* until an incident says more */
    assert_string_equal(first()->text, "it fell off the bus");
    open_incident(SEVERITY_FATAL, ACTION_DRAIN_AND_REBOOT, &rig->gpus[0].reading.device);
    run(rest, rest, 1);
    assert_int_equal(first()->word, ACTIVITY_UNUSABLE);
}

/* The others of the job spin: they wait for the one that does not. */
static void the_missing_rank_is_named(void **state)
{
    (void)state;
    run(training, training, 60);
    run(rest, spin, 60);
    assert_int_equal(first()->word, ACTIVITY_IDLE_HELD);
    for (size_t i = 1; i < GPUS; i++) {
        assert_int_equal(rig->gpus[i].activity.cause, ACTIVITY_CAUSE_OTHER_RANK);
        assert_non_null(strstr(rig->gpus[i].activity.text, "GPU 0, which is idle held"));
    }
    assert_int_equal(first()->waiters, GPUS - 1);
    assert_true(isnan(first()->waiters_speed));
    const size_t count = rig->gpus[0].process_count;
    rig->gpus[0].process_count = 0; /* nor one that the job has left */
    run(rest, spin, 2);
    assert_int_equal(rig->gpus[1].activity.cause, ACTIVITY_CAUSE_COLLECTIVE);
    assert_int_equal(first()->waiters, 0);
    rig->gpus[0].process_count = count;
    run(rest, spin, 60);
    assert_int_equal(rig->gpus[1].activity.cause, ACTIVITY_CAUSE_OTHER_RANK);
    snprintf(rig->owners[0].job, sizeof rig->owners[0].job, "4712.0"); /* another job's GPU is not waited for */
    run(rest, spin, 2);
    assert_int_equal(rig->gpus[1].activity.cause, ACTIVITY_CAUSE_COLLECTIVE);
}

/* An instance is held by its own processes: those of its GPU instance and, where it is said, of its compute instance.
 */
static void an_instance_is_held_by_its_own(void **state)
{
    Reading instances[2];
    NodeGpu *gpu = &rig->gpus[0];
    NodeProcess *process = &rig->processes[0];

    (void)state;
    for (uint32_t i = 0; i < ARRAY_LEN(instances); i++) {
        reading_init(&instances[i], DEVICE_COMPUTE_INSTANCE);
        instances[i].device = gpu->reading.device;
        instances[i].device.kind = DEVICE_COMPUTE_INSTANCE;
        instances[i].device.gpu_instance = 1 + i;
        instances[i].device.compute_instance = 0;
        sample_set_double(&instances[i].sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns, 0);
    }
    gpu->instances = instances;
    gpu->instance_count = ARRAY_LEN(instances);
    *process = (NodeProcess){.pid = 100, .gpu_instance = 2, .compute_instance = DEVICE_NO_NUMBER};
    run(rest, rest, 40);
    assert_int_equal(gpu->instance_activity[0].word, ACTIVITY_FREE);
    assert_int_equal(gpu->instance_activity[1].word, ACTIVITY_IDLE_HELD);
    process->compute_instance = 1; /* the other half of it */
    run(rest, rest, 1);
    assert_int_equal(gpu->instance_activity[1].word, ACTIVITY_FREE);
    process->compute_instance = 0;
    run(rest, rest, 1);
    assert_int_equal(gpu->instance_activity[1].word, ACTIVITY_IDLE_HELD);
    assert_int_equal(gpu->instance_activity[0].word, ACTIVITY_FREE);
    /* it has no utilisation: that its engine was active tells small kernels from nothing */
    sample_set_double(&instances[1].sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns, .008);
    sample_set_double(&instances[1].sample[METRIC_PROF_GR_ENGINE_ACTIVE], rig->node.time_ns, 1);
    run(rest, rest, 40);
    assert_int_equal(gpu->instance_activity[1].word, ACTIVITY_WAITING);
    assert_int_equal(gpu->instance_activity[1].cause, ACTIVITY_CAUSE_LAUNCHES);
    /* two halves of an A30 that work are all of it */
    snprintf(gpu->reading.device.name, sizeof gpu->reading.device.name, "NVIDIA A30");
    for (uint32_t i = 0; i < ARRAY_LEN(instances); i++) {
        snprintf(instances[i].profile, sizeof instances[i].profile, "2g.12gb");
        sample_set_double(&instances[i].sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns, 1);
    }
    run(rest, rest, 70);
    assert_true(gpu->activity.sm_active == 0); /* its own reading goes before what its halves add up to */
    run(nothing, rest, 70);
    assert_true(gpu->activity.sm_active > .99);
}

/* Seconds of each word in the last day: what is older falls out by the hour, a gap of more than 90 s belongs to none.
 */
static void a_day_is_counted_by_words(void **state)
{
    uint32_t sum = 0;

    (void)state;
    rig->node.time_ns = 3600 * NS_PER_S;
    run(training, training, 100);
    assert_int_equal(first()->day_s[ACTIVITY_WORKING], 99);
    rig->node.time_ns += 89 * NS_PER_S;
    run(training, training, 1);
    assert_int_equal(first()->day_s[ACTIVITY_WORKING], 99 + 90);
    rig->node.time_ns += 90 * NS_PER_S;
    run(training, training, 1);
    assert_int_equal(first()->day_s[ACTIVITY_WORKING], 99 + 90);
    rig->node.time_ns = 7200 * NS_PER_S;
    run(training, training, 41); /* the next hour */
    assert_int_equal(first()->day_s[ACTIVITY_WORKING], 99 + 90 + 40);
    rig->node.time_ns = 24 * 3600 * NS_PER_S;
    run(training, training, 11);
    assert_int_equal(first()->day_s[ACTIVITY_WORKING], 99 + 90 + 40 + 10);
    rig->node.time_ns = 25 * 3600 * NS_PER_S; /* the first hour was a day ago */
    run(training, training, 11);
    assert_int_equal(first()->day_s[ACTIVITY_WORKING], 40 + 10 + 10);
    for (size_t i = 0; i < ACTIVITY_END; i++)
        sum += first()->day_s[i];
    assert_int_equal(sum, 60);
}

/* A reading that is to come soon is waited for; one that has no reading for long is judged by what there is. */
static void a_first_difference_is_waited_for(void **state)
{
    static const Absence soon[] = {ABSENCE_NOT_YET, ABSENCE_NO_DATA},
                         never[] = {ABSENCE_NOT_SUPPORTED, ABSENCE_NO_PERMISSION};
    Minute m = training;

    (void)state;
    m.sm = NO;
    for (size_t i = 0; i < 4; i++) {
        (void)tear_down(NULL);
        (void)set_up(NULL);
        for (int k = 0; k < 6; k++) {
            rig->node.time_ns += NS_PER_S;
            for (size_t g = 0; g < GPUS; g++)
                put_minute(&rig->gpus[g], m);
            sample_set_absent(&rig->gpus[0].reading.sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns,
                              i < 2 ? soon[i] : never[i - 2]);
            store_add_node(rig->store, &rig->node);
            activities_update(rig->activities, &rig->snapshot, rig->store);
            assert_int_equal(first()->word, i < 2 && k < 4 ? ACTIVITY_UNKNOWN : ACTIVITY_WORKING);
        }
    }
}

/* Memory that a context of the driver takes holds nothing: 1 GiB, of a small device a twentieth. */
static void memory_in_use_holds_a_gpu(void **state)
{
    static const struct {
        double used, total;
        bool held;
    } cases[] = {{1024, 81559, false}, {1025, 81559, true}, {500, 10000, false}, {501, 10000, true}, {1025, NO, true}};

    (void)state;
    for (size_t i = 0; i < GPUS; i++)
        rig->gpus[i].process_count = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put(&rig->gpus[0], METRIC_FB_USED, cases[i].used);
        put(&rig->gpus[0], METRIC_FB_TOTAL, cases[i].total);
        run(rest, rest, 30);
        assert_int_equal(first()->word, cases[i].held ? ACTIVITY_IDLE_HELD : ACTIVITY_FREE);
    }
}

static void all_that_is_read_is_wanted(void **state)
{
    static const MetricId some[] = {
        METRIC_PROF_SM_ACTIVE, METRIC_GPU_UTIL,    METRIC_PROF_GR_ENGINE_ACTIVE, METRIC_FB_USED,
        METRIC_FB_TOTAL,       METRIC_POWER_USAGE, METRIC_MAX_SM_CLOCK,          METRIC_ENFORCED_POWER_LIMIT};
    uint64_t wanted[METRIC_SET_WORDS] = {0};

    (void)state;
    activities_add_wanted(wanted);
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        assert_true(wanted[some[i] / 64] >> some[i] % 64 & 1);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_for_each_minute),
        cmocka_unit_test(pauses),
        cmocka_unit_test(spins_are_seen_after_half_a_minute),
        cmocka_unit_test(limits_count),
        cmocka_unit_test(limits_are_wider_for_the_word_in_force),
        TEST(a_sawtooth_keeps_its_word),
        TEST(another_word_has_to_last),
        TEST(incidents_make_it_unusable),
        TEST(without_data_it_is_unknown),
        TEST(the_missing_rank_is_named),
        TEST(an_instance_is_held_by_its_own),
        TEST(a_day_is_counted_by_words),
        TEST(a_first_difference_is_waited_for),
        TEST(memory_in_use_holds_a_gpu),
        TEST(all_that_is_read_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
