/* SPDX-License-Identifier: Apache-2.0 */
/* engine/ledger/idle: who is told of a device that is held idle, when, with what cost, and what ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/ledger/idle.h"

typedef struct Rig {
    IdleWatch *watch;
    Arena arena;
    Node node;
    NodeGpu gpu;
    Reading instances[2];
    Activity activity[2];
    Holding holdings[4];
    size_t holding_count;
    JobInfo job;
    JobInfoList jobs;
    FaultClass class;
    const IdlePolicies *policies;
    const Prices *prices;
    const Incident *open[1];
    size_t open_count;
    Evidence told[4]; /* in the last tick */
    size_t told_count;
} Rig;

static void read_config(Rig *rig, const char *text)
{
    const YamlNode *root = NULL;
    Err err = {0};

    if (yaml_load("stoker.yaml", text, strlen(text), &rig->arena, &root, &err) < 0 ||
        idle_policies_read(yaml_get(root, "idle"), &rig->arena, &rig->policies, &err) < 0 ||
        prices_read(yaml_get(root, "prices"), &rig->arena, &rig->prices, &err) < 0)
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    Rig *rig = calloc(1, sizeof *rig);

    if (!rig)
        return -1;
    rig->watch = idle_watch_new();
    rig->node = (Node){.time_ns = 50000 * NS_PER_S, .real_ns = 490000 * NS_PER_H, .gpu_count = 1, .gpus = &rig->gpu};
    reading_init(&rig->gpu.reading, DEVICE_GPU);
    snprintf(rig->gpu.reading.device.uuid, sizeof rig->gpu.reading.device.uuid, "GPU-1");
    snprintf(rig->gpu.reading.device.name, sizeof rig->gpu.reading.device.name, "NVIDIA H100 80GB HBM3");
    rig->gpu.instances = rig->instances;
    rig->gpu.instance_activity = rig->activity;
    rig->class = (FaultClass){.id = IDLE_CLASS, .enabled = true, .severity = SEVERITY_INFO, .route = ROUTE_USER};
    rig->jobs = (JobInfoList){&rig->job, 1};
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    Rig *rig = *state;

    idle_watch_free(rig->watch);
    arena_done(&rig->arena);
    free(rig);
    return 0;
}

static Holding *hold(Rig *rig, const char *user, const char *namespace, HoldingState state, double share)
{
    Holding *h = &rig->holdings[rig->holding_count++];

    *h = (Holding){.gpu_instance = DEVICE_NO_NUMBER,
                   .compute_instance = DEVICE_NO_NUMBER,
                   .state = state,
                   .share = share,
                   .sm_share = NAN,
                   .owner = {.process = "python", .pid = 812}};
    snprintf(h->owner.user, sizeof h->owner.user, "%s", user);
    snprintf(h->owner.namespace, sizeof h->owner.namespace, "%s", namespace);
    return h;
}

static void hear(void *self, const Evidence *evidence)
{
    Rig *rig = self;

    assert_true(rig->told_count < ARRAY_LEN(rig->told));
    rig->told[rig->told_count++] = *evidence;
}

static void tick(Rig *rig, ActivityWord word, uint64_t seconds)
{
    const IdleLook look = {.node = &rig->node,
                           .holdings = rig->holdings,
                           .holding_count = rig->holding_count,
                           .jobs = &rig->jobs,
                           .policies = rig->policies,
                           .prices = rig->prices,
                           .open = rig->open,
                           .open_count = rig->open_count,
                           .class = &rig->class};

    rig->gpu.activity.word = word;
    rig->node.time_ns += seconds * NS_PER_S;
    rig->node.real_ns += seconds * NS_PER_S;
    rig->told_count = 0;
    idle_watch_update(rig->watch, &look, hear, rig);
}

/* Ticks of ten seconds and less. */
static void pass(Rig *rig, ActivityWord word, uint64_t seconds)
{
    for (uint64_t left = seconds; left > 0; left -= left < 10 ? left : 10)
        tick(rig, word, left < 10 ? left : 10);
}

/* --- the watch ---------------------------------------------------------------------------------------------------- */

static void told_after_its_time(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle: [{after: 10m}]\nprices: {currency: EUR, list: [{id: h, board: H100, on_demand: 6}]}\n");
    Holding *h = hold(rig, "ann", "", HOLDING_IDLE_HELD, 1);
    snprintf(h->owner.job, sizeof h->owner.job, "4711");
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    pass(rig, ACTIVITY_IDLE_HELD, 599);
    assert_int_equal(rig->told_count, 0);
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    assert_int_equal(rig->told_count, 1);
    const Evidence *in = &rig->told[0];
    assert_true(in->holds);
    assert_string_equal(in->verdict.rule->id, IDLE_CLASS);
    assert_ptr_equal(in->verdict.fault, &rig->class);
    assert_int_equal(in->verdict.route, ROUTE_USER);
    assert_string_equal(in->device.uuid, "GPU-1");
    assert_string_equal(in->owner->user, "ann");
    assert_string_equal(in->text, "job 4711 of ann has held it idle for 10m: 0.17 GPU hours, 1.00 EUR so far");
    assert_string_equal(in->counters[1].name, "held_idle_seconds");
    assert_true(fabs(in->counters[1].after - 600) < 1e-9);
    assert_string_equal(in->counters[2].name, "cost");
    assert_true(fabs(in->counters[2].after - 1) < 1e-9);
    pass(rig, ACTIVITY_IDLE_HELD, 5400);
    assert_string_equal(rig->told[0].text,
                        "job 4711 of ann has held it idle for 1h40m: 1.67 GPU hours, 10.00 EUR so far");
}

static void used_again(void **state)
{
    static const ActivityWord uses[] = {ACTIVITY_WORKING, ACTIVITY_WAITING, ACTIVITY_UNUSABLE};
    Rig *rig = *state;

    read_config(rig, "idle: [{after: 10s}]\n");
    Holding *h = hold(rig, "ann", "", HOLDING_IDLE_HELD, 1);
    for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
        h->state = HOLDING_IDLE_HELD;
        tick(rig, ACTIVITY_IDLE_HELD, 1);
        tick(rig, ACTIVITY_IDLE_HELD, 10);
        assert_int_equal(rig->told_count, 1);
        assert_int_equal(rig->told[0].counter_count, 2); /* no price */
        assert_null(strstr(rig->told[0].text, "USD"));
        h->state = HOLDING_USED;
        tick(rig, uses[i], 1);
        assert_int_equal(rig->told_count, 0);
        h->state = HOLDING_IDLE_HELD;
        tick(rig, ACTIVITY_IDLE_HELD, 1);
        tick(rig, ACTIVITY_IDLE_HELD, 9);
        assert_int_equal(rig->told_count, 0); /* its time began anew */
    }
}

/* A device of which nothing is known stays as it was, and that time is not counted; one that is free but given to
 * somebody is held. */
static void what_is_not_known_changes_nothing(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle: [{after: 10s}]\n");
    Holding *h = hold(rig, "ann", "", HOLDING_USED, 1);
    tick(rig, ACTIVITY_UNKNOWN, 1);
    pass(rig, ACTIVITY_UNKNOWN, 100);
    assert_int_equal(rig->told_count, 0);
    h->state = HOLDING_RESERVED;
    tick(rig, ACTIVITY_FREE, 1);
    pass(rig, ACTIVITY_FREE, 9);
    pass(rig, ACTIVITY_UNKNOWN, 100);
    assert_int_equal(rig->told_count, 0);
    tick(rig, ACTIVITY_FREE, 1);
    assert_int_equal(rig->told_count, 1);
    pass(rig, ACTIVITY_UNKNOWN, 50);
    assert_int_equal(rig->told_count, 1);
    assert_true(fabs(rig->told[0].counters[1].after - 10) < 1e-9);
    rig->holding_count = 0; /* its list cannot be read for a while */
    pass(rig, ACTIVITY_UNKNOWN, 30);
    rig->holding_count = 1;
    tick(rig, ACTIVITY_IDLE_HELD, 30);
    assert_int_equal(rig->told_count, 1);
    assert_true(fabs(rig->told[0].counters[1].after - 10) < 1e-9);
    rig->holding_count = 0;
    pass(rig, ACTIVITY_FREE, 61);
    rig->holding_count = 1;
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    assert_int_equal(rig->told_count, 0);
}

/* No policy can be found for them, and there is nobody to tell. */
static void processes_of_nobody_known_are_not_told(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle: [{user: bob, after: never}, {after: 5s}]\n");
    hold(rig, "", "", HOLDING_IDLE_HELD, 1);
    pass(rig, ACTIVITY_IDLE_HELD, 60);
    assert_int_equal(rig->told_count, 0);
    snprintf(rig->holdings[0].owner.user, sizeof rig->holdings[0].owner.user, "ann");
    pass(rig, ACTIVITY_IDLE_HELD, 20);
    assert_int_equal(rig->told_count, 1);
}

/* The agent was stopped, or the node suspended: as in the ledger, nobody knows what was then. */
static void a_gap_is_not_counted(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle: [{after: 1h}]\n");
    hold(rig, "ann", "", HOLDING_IDLE_HELD, 0.5);
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    pass(rig, ACTIVITY_IDLE_HELD, 1800);
    tick(rig, ACTIVITY_IDLE_HELD, 36000);
    pass(rig, ACTIVITY_IDLE_HELD, 1799);
    assert_int_equal(rig->told_count, 0);
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    assert_int_equal(rig->told_count, 1);
    assert_string_equal(rig->told[0].text, "python (812) of ann has held it idle for 1h: 0.50 GPU hours so far");
}

static void the_first_policy_that_fits(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle:\n- {user: 'bot-*', after: never}\n- {namespace: 'nb-*', user: ann, after: 30s}\n"
                     "- {partition: debug, after: 40s}\n- {namespace: '?*', after: 50s}\n");
    hold(rig, "bot-1", "nb-a", HOLDING_IDLE_HELD, 0.25);
    hold(rig, "ann", "nb-a", HOLDING_IDLE_HELD, 0.25);
    hold(rig, "ann", "", HOLDING_IDLE_HELD, 0.25);
    hold(rig, "bob", "nb-a", HOLDING_IDLE_HELD, 0.25);
    snprintf(rig->holdings[2].owner.job, sizeof rig->holdings[2].owner.job, "7");
    snprintf(rig->job.job, sizeof rig->job.job, "7");
    snprintf(rig->job.partition, sizeof rig->job.partition, "debug");
    tick(rig, ACTIVITY_WORKING, 1); /* others use it: these only hold it */
    pass(rig, ACTIVITY_WORKING, 30);
    assert_int_equal(rig->told_count, 1);
    assert_string_equal(rig->told[0].owner->namespace, "nb-a");
    assert_string_equal(rig->told[0].owner->user, "ann");
    assert_true(fabs(rig->told[0].counters[0].after - 0.25 * 30 / 3600) < 1e-9); /* its share */
    tick(rig, ACTIVITY_WORKING, 10);
    assert_int_equal(rig->told_count, 2);
    assert_string_equal(rig->told[1].owner->job, "7");
    tick(rig, ACTIVITY_WORKING, 10);
    assert_int_equal(rig->told_count, 3);
    assert_string_equal(rig->told[2].owner->user, "bob");
    pass(rig, ACTIVITY_WORKING, 86400);
    assert_int_equal(rig->told_count, 3);
    rig->policies = NULL;
    tick(rig, ACTIVITY_WORKING, 1);
    assert_int_equal(rig->told_count, 0);
}

/* What was told before a restart goes on, without the time in which no agent ran. */
static void a_restart_goes_on(void **state)
{
    Rig *rig = *state;
    Incident told = {.class = IDLE_CLASS,
                     .state = INCIDENT_OPEN,
                     .owner_count = 1,
                     .counter_len = 2,
                     .counters = {{"held_idle_gpu_hours", 0, 1}, {"held_idle_seconds", 0, 7200}}};

    read_config(rig, "idle: [{after: 1h}]\n");
    Holding *h = hold(rig, "ann", "", HOLDING_USED, 0.5);
    told.device = rig->gpu.reading.device;
    told.owners[0] = h->owner;
    told.first_real_ns = rig->node.real_ns - 1000 * NS_PER_H; /* the agent was away nearly all of them */
    rig->open[0] = &told;
    rig->open_count = 1;
    tick(rig, ACTIVITY_UNKNOWN, 60);
    assert_int_equal(rig->told_count, 1);
    assert_string_equal(rig->told[0].text, "python (812) of ann has held it idle for 2h: 1.00 GPU hours so far");
    h->state = HOLDING_IDLE_HELD;
    pass(rig, ACTIVITY_IDLE_HELD, 3600);
    assert_string_equal(rig->told[0].text, "python (812) of ann has held it idle for 3h: 1.50 GPU hours so far");
    h->state = HOLDING_USED;
    tick(rig, ACTIVITY_WORKING, 1);
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    assert_int_equal(rig->told_count, 0); /* the incident is open still, and has nothing to say */

    idle_watch_free(rig->watch);
    rig->watch = idle_watch_new();
    told.counter_len = 0; /* of an older Stoker: as long as the policy, at least */
    tick(rig, ACTIVITY_UNKNOWN, 1);
    assert_string_equal(rig->told[0].text, "python (812) of ann has held it idle for 1h: 0.00 GPU hours so far");

    idle_watch_free(rig->watch);
    rig->watch = idle_watch_new();
    snprintf(told.owners[0].user, sizeof told.owners[0].user, "bob"); /* of somebody else */
    tick(rig, ACTIVITY_UNKNOWN, 1);
    assert_int_equal(rig->told_count, 0);
}

static void a_policy_without_a_time_is_a_quarter_of_an_hour(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle: [{user: ann}]\n");
    hold(rig, "ann", "", HOLDING_IDLE_HELD, 1);
    hold(rig, "bob", "", HOLDING_IDLE_HELD, 1);
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    pass(rig, ACTIVITY_IDLE_HELD, 899);
    assert_int_equal(rig->told_count, 0);
    tick(rig, ACTIVITY_IDLE_HELD, 1);
    assert_int_equal(rig->told_count, 1); /* and none of who fits no policy */
    assert_string_equal(rig->told[0].owner->user, "ann");
}

static void a_mig_instance_has_its_share(void **state)
{
    Rig *rig = *state;

    read_config(rig, "idle: [{after: 1h}]\nprices: {list: [{id: h, on_demand: 7}]}\n");
    rig->gpu.instance_count = 1;
    reading_init(&rig->instances[0], DEVICE_COMPUTE_INSTANCE);
    snprintf(rig->instances[0].device.parent_uuid, sizeof rig->instances[0].device.parent_uuid, "GPU-1");
    rig->instances[0].device.gpu_instance = 3;
    rig->instances[0].device.compute_instance = 0;
    snprintf(rig->instances[0].profile, sizeof rig->instances[0].profile, "1g.10gb");
    Holding *h = hold(rig, "ann", "", HOLDING_IDLE_HELD, 1);
    h->gpu_instance = 3;
    h->compute_instance = 0;
    rig->activity[0].word = ACTIVITY_IDLE_HELD;
    tick(rig, ACTIVITY_WORKING, 1);
    pass(rig, ACTIVITY_WORKING, 3600);
    assert_int_equal(rig->told_count, 1);
    assert_int_equal(rig->told[0].device.gpu_instance, 3);
    assert_true(fabs(rig->told[0].counters[2].after - 1) < 1e-9);
    h->gpu_instance = 4; /* it is not there */
    tick(rig, ACTIVITY_WORKING, 1);
    assert_int_equal(rig->told_count, 0);
}

/* --- the configuration -------------------------------------------------------------------------------------------- */

static void wrong_policies_are_named(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"idle: {after: 1h}", "stoker.yaml:1:7: 'idle' must be a list"},
        {"idle: [{after: }]", "'after' must be 'never' or a duration"},
        {"idle: [{after: 0s}]", "'after' must be 'never' or a duration"},
        {"idle: [{after: soon}]", "stoker.yaml:1:16: 'after' must be 'never' or a duration"},
        {"idle: [{after: 2y}]", "a year at most"},
        {"idle: [{after: 1h, users: ann}]", "stoker.yaml:1:20: 'users' is no key of a policy of 'idle'"},
        {"idle: [{after: 1h, user: [ann]}]", "'user' must be"},
        {"idle: [1h]", "a policy"},
    };
    Rig *rig = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const YamlNode *root = NULL;
        Err err = {0};

        assert_int_equal(yaml_load("stoker.yaml", cases[i].text, strlen(cases[i].text), &rig->arena, &root, &err), 0);
        assert_true(idle_policies_read(yaml_get(root, "idle"), &rig->arena, &rig->policies, &err) < 0);
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
    read_config(rig, "idle: null\n");
    assert_null(rig->policies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(told_after_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_known_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(processes_of_nobody_known_are_not_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_gap_is_not_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_policy_that_fits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_policy_without_a_time_is_a_quarter_of_an_hour, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_mig_instance_has_its_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_policies_are_named, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
