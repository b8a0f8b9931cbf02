/* SPDX-License-Identifier: Apache-2.0 */
/* Whose work an incident hits (engine/health/incidents_match.c). */
#include "kit.h"

#include <stdio.h>

#define NO_LINK DEVICE_NO_NUMBER

/* What runs: by GPU, at most two each. */
static Owner working[KIT_GPUS][2];
static int asked;

static uint32_t find_working(void *self, const Device *device, int32_t pid, Owner out[INCIDENT_OWNERS])
{
    uint32_t count = 0;

    (void)self;
    asked++;
    for (int pass = 0; pass < 2; pass++) /* that of the process first */
        for (int gpu = 0; gpu < KIT_GPUS; gpu++)
            for (int i = 0; i < 2; i++) {
                const Owner *owner = &working[gpu][i];
                const bool here = device->kind == DEVICE_NODE || pci_compare(device->pci, kit_pci(gpu)) == 0;

                if (owner->user[0] && (owner->pid == pid) == (pass == 0) && (here || owner->pid == pid)) {
                    if (count < INCIDENT_OWNERS)
                        out[count] = *owner;
                    count++;
                }
            }
    return count > INCIDENT_OWNERS ? INCIDENT_OWNERS + 1 : count;
}

static void put(int gpu, int at, int32_t pid, const char *user, const char *job, const char *pod)
{
    Owner *owner = &working[gpu][at];

    *owner = (Owner){.pid = pid, .start_ns = (uint64_t)pid};
    snprintf(owner->user, sizeof owner->user, "%s", user);
    snprintf(owner->job, sizeof owner->job, "%s", job);
    snprintf(owner->pod, sizeof owner->pod, "%s", pod);
    snprintf(owner->namespace, sizeof owner->namespace, "%s", pod[0] ? "serving" : "");
}

static int open_busy(void **state)
{
    Kit *kit;

    memset(working, 0, sizeof working);
    asked = 0;
    kit_open(state);
    kit = *state;
    incidents_set_owners(kit->incidents, find_working, NULL);
    put(1, 0, 100, "alice", "4712", "");
    put(1, 1, 101, "bob", "", "chat-0");
    put(2, 0, 200, "carol", "4713", "");
    return 0;
}

/* The process goes with the GPU; what is told later tells it still. */
static void those_at_the_moment_of_the_fault_stay(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_say(kit, 1, 79);
    assert_int_equal(kit->told[0].incident.owner_count, 2);
    memset(working, 0, sizeof working);
    put(1, 0, 300, "dave", "9", "");
    kit_tick(kit, 2 * MINUTE);
    kit_say(kit, 1, 79);
    kit_tick(kit, 2 * MINUTE);
    it = kit_open_one(kit, "gpu-lost", 1);
    assert_int_equal(it->owner_count, 2);
    assert_string_equal(it->owners[0].user, "alice");
    assert_string_equal(it->owners[1].pod, "chat-0");
    assert_string_equal(it->job, "4712");
    assert_true(it->revision > 1);
}

static void that_of_the_process_comes_first(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_app(kit, 1, 48, 101, "vllm");
    it = kit_open_one(kit, "ecc-uncorrectable", 1);
    assert_int_equal(it->owner_count, 2);
    assert_string_equal(it->owners[0].user, "bob");
    assert_string_equal(it->job, "serving/chat-0");
}

static void a_programs_own_fault_is_its_owners_alone(void **state)
{
    Kit *kit = *state;

    kit_app(kit, 1, 31, 101, "vllm");
    assert_int_equal(kit_open_one(kit, "app-fault", 1)->owner_count, 1);
    assert_string_equal(kit_open_one(kit, "app-fault", 1)->owners[0].user, "bob");
    kit_app(kit, 2, 31, 999, "short"); /* it is not known, but there is only one */
    assert_string_equal(kit_open_one(kit, "app-fault", 2)->owners[0].user, "carol");
    kit_app(kit, 1, 13, 999, "short");
    assert_int_equal(kit->told[kit->told_count - 1].incident.code, 13);
    assert_int_equal(kit->told[kit->told_count - 1].incident.owner_count, 0); /* one of two: nobody is blamed */
}

/* One name, two people: each is told of their own. */
static void two_users_of_one_program_are_two(void **state)
{
    Kit *kit = *state;

    kit_app(kit, 1, 31, 100, "python");
    kit_app(kit, 1, 31, 101, "python");
    kit_app(kit, 1, 31, 101, "python");
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, "app-fault"), 2);
    assert_string_equal(kit->told[0].incident.owners[0].user, "alice");
    assert_string_equal(kit->told[1].incident.owners[0].user, "bob");
}

static void of_the_node_all_are_hit(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 0, 0);

    event.kind = EVENT_MCE;
    event.has_pci = false;
    kit_give(kit, &event);
    event.kind = EVENT_OOM_KILL; /* of the host's memory: one process, and not one of these */
    event.pid = 77;
    strcpy(event.process, "tar");
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "host-memory", -1)->owner_count, 3);
    assert_int_equal(kit_open_one(kit, "host-oom", -1)->owner_count, 0);
}

static void more_than_are_kept(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 0, 0);
    char user[32];

    for (int i = 0; i < KIT_GPUS; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(user, sizeof user, "u%d%d", i, k);
            put(i, k, 1000 + 2 * i + k, user, "", "");
        }
    event.kind = EVENT_MCE;
    event.has_pci = false;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "host-memory", -1)->owner_count, INCIDENT_OWNERS + 1);
    assert_string_equal(kit_open_one(kit, "host-memory", -1)->owners[INCIDENT_OWNERS - 1].user, "u31");
}

/* Who was on it then is not known now. */
static void a_line_from_before_the_start_has_none(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 79);

    event.before = true;
    event.time_ns -= MINUTE;
    event.real_ns -= MINUTE;
    kit_give(kit, &event);
    for (int i = 0; i < 5; i++)
        kit_tick(kit, SECOND);
    assert_int_equal(kit_open_one(kit, "gpu-lost", 1)->owner_count, 0);
    assert_int_equal(asked, 0);
}

static void what_comes_back_hits_others(void **state)
{
    Kit *kit = *state;
    Event reset = kit_xid(kit, 1, 0);

    kit_say(kit, 1, 48);
    kit_tick(kit, SECOND);
    reset.kind = EVENT_RESET;
    reset.time_ns = kit->now_ns;
    kit_give(kit, &reset);
    kit_tick(kit, MINUTE);
    memset(working, 0, sizeof working);
    put(1, 0, 300, "dave", "9", "");
    kit_say(kit, 1, 48);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_REOPENED, NULL), 1);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->owner_count, 1);
    assert_string_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->owners[0].user, "dave");
}

/* A child came first, and its process is gone when the parent opens. */
static void a_parent_takes_over_those_of_what_came_before(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 119);

    kit_give(kit, &event);
    memset(working, 0, sizeof working);
    event = kit_xid(kit, 1, 79);
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit->told_count, 1);
    assert_string_equal(kit_open_one(kit, "gpu-lost", 1)->owners[0].user, "alice");
}

/* From the journal, with the line of the log once more: nobody is told again. */
static void after_a_restart_it_is_the_same(void **state)
{
    Kit *kit = *state, next;
    Event event;
    Incident kept;

    kit_app(kit, 1, 31, 100, "python");
    kept = *kit_open_one(kit, "app-fault", 1);
    kit_init(&next);
    next.now_ns = kit->now_ns + MINUTE;
    next.real_ns = kit->real_ns + MINUTE;
    incidents_set_owners(next.incidents, find_working, NULL);
    incidents_restore(next.incidents, &kept, 1, next.now_ns, next.real_ns);
    event = kit_xid(&next, 1, 31);
    event.before = true;
    event.pid = 100;
    strcpy(event.process, "python");
    event.time_ns -= MINUTE;
    event.real_ns -= MINUTE;
    kit_give(&next, &event);
    for (int i = 0; i < 5; i++)
        kit_tick(&next, SECOND);
    assert_int_equal(next.told_count, 0);
    kit_app(&next, 1, 31, 100, "python"); /* and now: it goes there */
    assert_int_equal(kit_told(&next, INCIDENT_CHANGE_OPENED, NULL), 0);
    assert_int_equal(kit_open_one(&next, "app-fault", 1)->count, 2);
    kit_done(&next);
}

/* A class that parts owners: a second, in which the owners of GPU 1 are so many. */
static void hold_idle(Kit *kit, int owners)
{
    const FaultClass *class = catalogue_class(NULL, "gpu-held-idle");
    const FaultRule rule = {.id = "gpu-held-idle", .keep_ns = class->keep_ns};

    kit_tick(kit, SECOND);
    for (int i = 0; i < owners; i++) {
        Evidence in = {.verdict = fault_verdict_of_class(&rule, class),
                       .holds = true,
                       .time_ns = kit->now_ns,
                       .real_ns = kit->real_ns,
                       .pid = -1,
                       .owner = &working[1][i],
                       .text = "held idle"};

        device_init(&in.device, DEVICE_GPU);
        in.device.has_pci = true;
        in.device.pci = kit_pci(1);
        incidents_add_evidence(kit->incidents, &in);
    }
    incidents_advance(kit->incidents, kit->now_ns, kit->real_ns);
}

static void owners_of_one_gpu_are_parted(void **state)
{
    Kit *kit = *state, next;
    Incident kept[2];

    for (int i = 0; i < 5; i++)
        hold_idle(kit, 2);
    assert_int_equal(kit->told_count, 2);
    assert_int_equal(kit->told[0].incident.owner_count, 1);
    assert_string_equal(kit->told[0].incident.owners[0].user, "alice");
    assert_string_equal(kit->told[1].incident.owners[0].user, "bob");
    assert_non_null(strstr(kit->told[1].incident.title, "is held idle: pod serving/chat-0"));
    assert_int_equal(kit->told[1].incident.severity, SEVERITY_INFO);
    for (size_t i = 0; i < 2; i++)
        kept[i] = kit->told[i].incident;
    for (int i = 0; i < 60; i++) /* bob uses his again */
        hold_idle(kit, 1);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_CLEARED, "gpu-held-idle"), 1);
    assert_string_equal(kit->told[kit->told_count - 1].incident.owners[0].user, "bob");
    assert_int_equal(kit_open_count(kit), 1);

    kit_init(&next); /* both were open when the agent was killed */
    incidents_restore(next.incidents, kept, 2, next.now_ns, next.real_ns);
    for (int i = 0; i < 300; i++)
        hold_idle(&next, 2);
    assert_int_equal(kit_told(&next, INCIDENT_CHANGE_OPENED, NULL), 0);
    assert_int_equal(kit_open_count(&next), 2);
    kit_done(&next);
}

int main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, open_busy, kit_close)
    const struct CMUnitTest tests[] = {
        ONE(those_at_the_moment_of_the_fault_stay),
        ONE(that_of_the_process_comes_first),
        ONE(a_programs_own_fault_is_its_owners_alone),
        ONE(two_users_of_one_program_are_two),
        ONE(of_the_node_all_are_hit),
        ONE(more_than_are_kept),
        ONE(a_line_from_before_the_start_has_none),
        ONE(what_comes_back_hits_others),
        ONE(a_parent_takes_over_those_of_what_came_before),
        ONE(after_a_restart_it_is_the_same),
        ONE(owners_of_one_gpu_are_parted),
    };

    return cmocka_run_group_tests_name("health incident_owners", tests, NULL, NULL);
}
