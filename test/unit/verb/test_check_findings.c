/* SPDX-License-Identifier: Apache-2.0 */
/* verb/check/findings.c: what fails which profile, and how it is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "verb/check/findings.h"
#include "verb/verb.h"

#define NOW_NS (1000 * NS_PER_S)
#define REAL_NS (UINT64_C(1767600000) * NS_PER_S)

typedef struct Rig {
    Node node;
    NodeGpu gpus[4];
    NodeProcess processes[6];
    Incident incidents[8];
    const Incident *list[8];
    Snapshot seen;
    Str out;
} Rig;

static Rig *rig;

static int set_up(void **state)
{
    (void)state;
    rig = calloc(1, sizeof *rig);
    rig->node = (Node){.tick = 1,
                       .time_ns = NOW_NS,
                       .real_ns = REAL_NS,
                       .gpus = rig->gpus,
                       .gpu_count = 4,
                       .gpus_on_bus = 4,
                       .gpus_expected = 4,
                       .gpus_found = 4};
    for (uint32_t i = 0; i < 4; i++) {
        NodeGpu *gpu = &rig->gpus[i];

        reading_init(&gpu->reading, DEVICE_GPU);
        gpu->reading.device.index = i;
        gpu->reading.device.has_pci = true;
        gpu->reading.device.pci = (PciAddress){.bus = (uint8_t)(0x1b + i)};
        snprintf(gpu->reading.device.uuid, sizeof gpu->reading.device.uuid, "GPU-%u", i);
        gpu->state = GPU_UP;
        gpu->last_sample_ns = NOW_NS;
        sample_set_int64(&gpu->process_list, NOW_NS, 0);
        gpu->processes = rig->processes;
    }
    rig->seen = (Snapshot){.node = &rig->node, .incidents = rig->list};
    str_init(&rig->out, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    str_done(&rig->out);
    free(rig);
    return 0;
}

static Incident *add(const char *class, FaultSeverity severity, int gpu)
{
    Incident *incident = &rig->incidents[rig->seen.incident_count];

    *incident = (Incident){.state = INCIDENT_OPEN,
                           .severity = severity,
                           .action = ACTION_DRAIN_AND_REBOOT,
                           .cause = CAUSE_BUS,
                           .scope = gpu < 0 ? SCOPE_NODE : SCOPE_GPU,
                           .first_real_ns = REAL_NS};
    snprintf(incident->id, sizeof incident->id, "i%zu", rig->seen.incident_count);
    snprintf(incident->class, sizeof incident->class, "%s", class);
    snprintf(incident->title, sizeof incident->title, "%s on %d", class, gpu);
    if (gpu < 0)
        device_init(&incident->device, DEVICE_NODE);
    else
        incident->device = rig->gpus[gpu].reading.device;
    rig->list[rig->seen.incident_count++] = incident;
    return incident;
}

/* Asks as the control socket does. */
static int ask(const char *words)
{
    char text[256];
    const char *list[16];
    size_t count = 0;
    char *rest = NULL;

    snprintf(text, sizeof text, "check %s", words);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        list[count++] = word;
    str_clear(&rig->out);
    return check_answer(&rig->seen, true, list, count, &rig->out);
}

static int code_of(const char *profile)
{
    char words[64];

    snprintf(words, sizeof words, "%s line 0 0", profile);
    return ask(words);
}

static void a_node_that_is_well(void **state)
{
    (void)state;
    for (size_t i = 0; check_profile_names[i]; i++)
        assert_int_equal(code_of(check_profile_names[i]), EXIT_FINE);
    assert_int_equal(ask("slurm line 0 0"), 0);
    assert_string_equal(rig->out.text, "ok: nothing against 4 GPUs\n");
    assert_int_equal(ask("slurm reason 0 0"), 0);
    assert_string_equal(rig->out.text, "\n");
    const char *const alone[] = {"check", "prolog", "line", "0", "0", "2"};
    str_clear(&rig->out);
    assert_int_equal(check_answer(&rig->seen, false, alone, ARRAY_LEN(alone), &rig->out), 0);
    assert_string_equal(rig->out.text, "ok: nothing against 1 GPU (no agent runs; one sample taken)\n");
}

/* severity, action and cause, and the codes of slurm, liveness, readiness, prolog, epilog. The class does not matter.
 */
static const struct {
    FaultSeverity severity;
    FaultAction action;
    FaultCause cause;
    int codes[CHECK_PROFILE_END];
} cases[] = {
    {SEVERITY_FATAL, ACTION_DRAIN_AND_REBOOT, CAUSE_BUS, {1, 0, 1, 1, 1}},
    {SEVERITY_FATAL, ACTION_WATCH, CAUSE_UNKNOWN, {1, 0, 1, 1, 1}},
    {SEVERITY_ERROR, ACTION_DRAIN_AND_RESET, CAUSE_FIRMWARE, {1, 0, 1, 1, 1}},
    {SEVERITY_ERROR, ACTION_CHECK_COOLING, CAUSE_THERMAL, {1, 0, 1, 1, 1}},
    {SEVERITY_WARNING, ACTION_CHECK_COOLING, CAUSE_THERMAL, {0, 0, 0, 0, 0}},
    {SEVERITY_INFO, ACTION_RESET_GPU, CAUSE_MEMORY, {0, 0, 0, 0, 0}},
    {SEVERITY_FATAL, ACTION_CHECK_APP, CAUSE_APPLICATION, {0, 0, 0, 0, 0}}, /* XID 13, 31, 43 */
    {SEVERITY_ERROR, ACTION_RESTART_APP, CAUSE_MEMORY, {0, 0, 0, 0, 0}},    /* XID 94 */
    {SEVERITY_WARNING, ACTION_RESET_GPU, CAUSE_MEMORY, {0, 0, 0, 0, 1}},    /* between two jobs a reset is free */
    {SEVERITY_WARNING, ACTION_RESET_GPU, CAUSE_APPLICATION, {0, 0, 0, 0, 0}},
    {SEVERITY_WARNING, ACTION_CHECK_MONITOR, CAUSE_HOST, {0, 0, 1, 0, 0}},
    {SEVERITY_INFO, ACTION_CHECK_MONITOR, CAUSE_HOST, {0, 0, 0, 0, 0}},
};

static void what_fails_what(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        rig->seen.incident_count = 0;
        Incident *incident = add("something-of-the-site", cases[i].severity, 1);

        incident->action = cases[i].action;
        incident->cause = cases[i].cause;
        for (size_t p = 0; p < CHECK_PROFILE_END; p++)
            if (code_of(check_profile_names[p]) != cases[i].codes[p])
                fail_msg("%s with case %zu: %s", check_profile_names[p], i, rig->out.text);
    }
}

static void a_line_and_a_reason(void **state)
{
    (void)state;
    add("gsp-failure", SEVERITY_ERROR, 2);
    add("gpu-lost", SEVERITY_FATAL, 3);
    assert_int_equal(ask("slurm line 0 0"), 1);
    assert_string_equal(rig->out.text, "gpu-lost on 3; Drain and reboot this node; and 1 more\n");
    assert_int_equal(ask("slurm reason 0 0"), 1);
    assert_string_equal(rig->out.text, "stoker: gpu3 gpu-lost drain-and-reboot i1 +1\n");
    snprintf(rig->incidents[0].title, sizeof rig->incidents[0].title, "it says \"stop\"\n");
    assert_int_equal(ask("slurm json 0 0"), 1);
    json_error_t error;
    json_t *root = json_loadb(rig->out.text, rig->out.len, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "code")), 1);
    const json_t *findings = json_object_get(root, "findings");
    assert_int_equal(json_array_size(findings), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(findings, 0), "gpu")), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(findings, 0), "incident")), "i1");
    json_decref(root);
}

static void only_the_gpus_of_the_job(void **state)
{
    (void)state;
    add("gpu-lost", SEVERITY_FATAL, 3);
    assert_int_equal(ask("prolog line 0 0 0 1"), 0);
    assert_int_equal(ask("prolog line 0 0 GPU-3"), 1);
    assert_int_equal(ask("prolog line 0 0 0 0000:1e:00.0"), 1);
    assert_int_equal(ask("prolog line 0 0 0 9"), 1);
    assert_string_equal(rig->out.text, "there is no GPU 9 here\n");
    add("driver-error", SEVERITY_FATAL, -1); /* the node's is everybody's */
    assert_int_equal(ask("prolog line 0 0 0 1"), 1);
    assert_int_equal(ask("slurm reason 0 0 0"), 1);
    assert_string_equal(rig->out.text, "stoker: driver-error drain-and-reboot i1\n");
}

static void what_is_left_over(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        rig->processes[i] = (NodeProcess){.pid = 100 + i, .graphics = i == 0};
    rig->gpus[1].process_count = 6;
    assert_int_equal(ask("prolog line 0 0 1"), 1);
    assert_string_equal(rig->out.text, "GPU 1: 5 processes are still on it: 101, 102, 103, 104, ...\n");
    assert_int_equal(ask("epilog line 0 0 1"), 1);
    assert_int_equal(ask("epilog line 0 1 1"), 0); /* shared: they may be others' */
    assert_int_equal(ask("epilog line 0 0 0"), 0);
    assert_int_equal(ask("slurm line 0 0 1"), 0);
    rig->gpus[1].process_count = 1; /* a display alone */
    assert_int_equal(ask("prolog line 0 0 1"), 0);
    rig->gpus[1].process_count = 0;
    sample_set_int64(&rig->gpus[1].reading.sample[METRIC_FB_USED], NOW_NS, 511);
    assert_int_equal(ask("prolog line 0 0 1"), 0);
    sample_set_int64(&rig->gpus[1].reading.sample[METRIC_FB_USED], NOW_NS, 512); /* as the detector memory-orphaned */
    assert_int_equal(ask("prolog line 0 0 1"), 1);
    sample_set_int64(&rig->gpus[1].reading.sample[METRIC_FB_USED], NOW_NS, 70000);
    assert_int_equal(ask("prolog line 0 0 1"), 1);
    assert_string_equal(rig->out.text, "GPU 1: 70000 MiB are in use, by no process that is listed\n");
    sample_set_absent(&rig->gpus[1].process_list, NOW_NS, ABSENCE_TIMED_OUT); /* then nobody knows whose it is */
    assert_int_equal(ask("prolog line 0 0 1"), 0);
}

/* No process was listed yet, which is not none. */
static void processes_are_not_known_yet(void **state)
{
    (void)state;
    sample_set_absent(&rig->gpus[1].process_list, 0, ABSENCE_NOT_YET);
    assert_int_equal(ask("prolog line 0 0 1"), EXIT_UNKNOWN);
    assert_string_equal(rig->out.text, "unknown: the processes of not every GPU have been listed yet\n");
    assert_int_equal(ask("epilog line 0 0"), EXIT_UNKNOWN);
    assert_int_equal(ask("prolog line 0 0 0"), EXIT_FINE);
    assert_int_equal(ask("slurm line 0 0 1"), EXIT_FINE);
    add("gpu-lost", SEVERITY_FATAL, 1);
    assert_int_equal(ask("prolog line 0 0 1"), 1);
}

static void what_happened_during_the_job(void **state)
{
    Incident *old = add("gsp-failure", SEVERITY_ERROR, 1);

    (void)state;
    old->first_real_ns = REAL_NS - 7200 * NS_PER_S;
    assert_int_equal(ask("epilog line 0 0 1"), 1);
    assert_int_equal(ask("epilog line 1767596400000 0 1"), 0); /* an hour ago */
    old->first_real_ns = REAL_NS - 1800 * NS_PER_S;
    assert_int_equal(ask("epilog line 1767596400000 0 1"), 1);
    old->action = ACTION_RESET_GPU; /* whenever it came: now is the time for a reset */
    old->severity = SEVERITY_WARNING;
    old->first_real_ns = REAL_NS - 7200 * NS_PER_S;
    assert_int_equal(ask("epilog line 1767596400000 0 1"), 1);
}

static void in_maintenance_nobody_drains(void **state)
{
    (void)state;
    add("gpu-lost", SEVERITY_FATAL, 1)->silenced = true;
    assert_int_equal(code_of("slurm"), 0);
    assert_int_equal(code_of("prolog"), 1);
    rig->incidents[0].state = INCIDENT_CLEARED;
    assert_int_equal(code_of("prolog"), 0);
}

/* Where no incident is open yet, or no agent runs. */
static void by_a_look_alone(void **state)
{
    (void)state;
    rig->gpus[2].state = GPU_LOST;
    rig->gpus[2].state_since_ns = NOW_NS - 5 * NS_PER_S;
    assert_int_equal(code_of("slurm"), 1);
    assert_non_null(strstr(rig->out.text, "GPU 2 (0000:1d:00.0): the driver has lost it"));
    assert_int_equal(ask("slurm reason 0 0"), 1);
    assert_string_equal(rig->out.text, "stoker: gpu2 lost\n");
    assert_int_equal(code_of("liveness"), 0);
    assert_int_equal(code_of("readiness"), 1);
    assert_int_equal(ask("prolog line 0 0 0 1"), 0);
    add("gpu-lost", SEVERITY_FATAL, 2);
    assert_int_equal(code_of("slurm"), 1);
    assert_null(strstr(rig->out.text, "more"));
}

static void nothing_is_known_yet(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        rig->gpus[i].state = GPU_STARTING;
        rig->gpus[i].last_sample_ns = 0;
    }
    assert_int_equal(code_of("slurm"), EXIT_UNKNOWN);
    assert_string_equal(rig->out.text, "unknown: no GPU has been sampled yet\n");
    assert_int_equal(code_of("readiness"), 1);
    assert_int_equal(code_of("liveness"), 0);
}

/* A GPU that has not answered yet is neither sick nor well, and none is missing while the others may still come. */
static void a_gpu_is_not_known_yet(void **state)
{
    (void)state;
    rig->gpus[3].state = GPU_STARTING;
    rig->gpus[3].last_sample_ns = 0;
    assert_int_equal(code_of("slurm"), EXIT_UNKNOWN);
    assert_string_equal(rig->out.text, "unknown: not every GPU has been sampled yet\n");
    assert_int_equal(ask("prolog line 0 0 3"), EXIT_UNKNOWN);
    assert_int_equal(ask("prolog line 0 0 GPU-of-the-fourth"), EXIT_UNKNOWN);
    assert_int_equal(ask("prolog line 0 0 0 1 2"), EXIT_FINE);
    add("gpu-lost", SEVERITY_FATAL, 2);
    assert_int_equal(code_of("slurm"), 1);
    rig->node.gpu_count = 0; /* the driver has not listed them yet */
    rig->seen.incident_count = 0;
    assert_int_equal(ask("prolog line 0 0 2"), EXIT_UNKNOWN);
    assert_string_equal(rig->out.text, "unknown: no GPU has been sampled yet\n");
    rig->gpus[3].state = GPU_HUNG; /* that it did not answer is known */
    rig->node.gpu_count = 4;
    assert_int_equal(ask("prolog line 0 0 9"), 1);
}

static void words_that_are_none(void **state)
{
    static const char *const bad[] = {"",
                                      "slurm",
                                      "slurm line",
                                      "slurm line 0",
                                      "sturm line 0 0",
                                      "slurm xml 0 0",
                                      "slurm line -1 0",
                                      "slurm line 0 2",
                                      "slurm line soon 0"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(ask(bad[i]), EXIT_USAGE);
}

static void more_findings_than_room(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        add("gsp-failure", SEVERITY_ERROR, i % 4);
    const char *words[CHECK_WORDS_MAX] = {"check", "prolog", "json", "0", "0"};
    for (size_t i = 5; i < CHECK_WORDS_MAX; i++)
        words[i] = "GPU-that-is-not-there";
    words[5] = "1";
    assert_int_equal(check_answer(&rig->seen, true, words, CHECK_WORDS_MAX, &rig->out), EXIT_FINDING);
    json_error_t error;
    json_t *root = json_loadb(rig->out.text, rig->out.len, JSON_REJECT_DUPLICATES, &error);
    assert_int_equal(json_integer_value(json_object_get(root, "count")), CHECK_GPUS_MAX - 1 + 2);
    assert_int_equal(json_array_size(json_object_get(root, "findings")), CHECK_FINDINGS_MAX);
    json_decref(root);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_node_that_is_well),          TEST(what_fails_what),         TEST(a_line_and_a_reason),
        TEST(only_the_gpus_of_the_job),     TEST(what_is_left_over),       TEST(what_happened_during_the_job),
        TEST(in_maintenance_nobody_drains), TEST(by_a_look_alone),         TEST(nothing_is_known_yet),
        TEST(a_gpu_is_not_known_yet),
        TEST(processes_are_not_known_yet),
        TEST(words_that_are_none),          TEST(more_findings_than_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
