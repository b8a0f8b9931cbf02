/* SPDX-License-Identifier: Apache-2.0 */
/* service/status and service/api/health.c: what a person reads, what the probes answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../set_metric.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "service/status/status.h"
#include "test/unit/golden.h"

enum { NOW_S = 1000 };

typedef struct Rig {
    Node node;
    NodeGpu gpus[8];
    NodeSampler samplers[2];
    Reading instances[9];
    size_t height; /* of the screen; 0: no end */
    Activity activities[9];
    Holding holdings[4];
    size_t holding_count;
    Why verdicts[2];
    Incident incidents[8];
    const Incident *list[8];
    size_t incident_count;
    Maintenance *maintenance;
    Str out;
} Rig;

static void put(NodeGpu *gpu, MetricId id, double value)
{
    set_metric(&gpu->reading, id, (NOW_S - 1) * NS_PER_S, value);
}

static void make_gpu(NodeGpu *gpu, uint32_t index)
{
    reading_init(&gpu->reading, DEVICE_GPU);
    Device *d = &gpu->reading.device;
    d->index = index;
    d->has_pci = true;
    d->pci = (PciAddress){.bus = (uint8_t)(0x1b + index)};
    snprintf(d->name, sizeof d->name, "NVIDIA H100 80GB HBM3");
    snprintf(d->uuid, sizeof d->uuid, "GPU-%u", (unsigned)index);
    gpu->state = GPU_UP;
    gpu->activity =
        (Activity){.word = ACTIVITY_WORKING, .sm_active = 0.42, .utilization = 0.97, .text = "SM active 42 %"};
    gpu->last_sample_ns = (NOW_S - 1) * NS_PER_S;
    put(gpu, METRIC_GPU_UTIL, 12); /* of this instant: the means of the last minute are shown */
    put(gpu, METRIC_PROF_SM_ACTIVE, 0.03);
    put(gpu, METRIC_FB_USED, 61440);
    put(gpu, METRIC_FB_TOTAL, 81559);
    put(gpu, METRIC_POWER_USAGE, 612.3);
    put(gpu, METRIC_ENFORCED_POWER_LIMIT, 700);
    put(gpu, METRIC_GPU_TEMP, 63);
    put(gpu, METRIC_SM_CLOCK, 1980);
}

static int set_up(void **state)
{
    static Rig rig;

    memset(&rig, 0, sizeof rig);
    rig.node = (Node){.tick = 5,
                      .time_ns = NOW_S * NS_PER_S,
                      .real_ns = 1767225600 * NS_PER_S,
                      .gpus = rig.gpus,
                      .gpu_count = 2,
                      .samplers = rig.samplers,
                      .gpus_on_bus = 2,
                      .gpus_expected = 2,
                      .gpus_found = 2};
    snprintf(rig.node.hostname, sizeof rig.node.hostname, "node-7");
    snprintf(rig.node.driver_version, sizeof rig.node.driver_version, "590.48.01");
    make_gpu(&rig.gpus[0], 0);
    make_gpu(&rig.gpus[1], 1);
    for (size_t i = 0; i < ARRAY_LEN(rig.activities); i++)
        rig.activities[i] = (Activity){.sm_active = NAN, .utilization = NAN};
    str_init(&rig.out, 1 << 20);
    *state = &rig;
    return 0;
}

static int tear_down(void **state)
{
    maintenance_free(((Rig *)*state)->maintenance);
    str_done(&((Rig *)*state)->out);
    return 0;
}

static Snapshot seen_of(Rig *rig)
{
    return (Snapshot){.node = &rig->node,
                      .incidents = rig->list,
                      .incident_count = rig->incident_count,
                      .holdings = rig->holdings,
                      .holding_count = rig->holding_count,
                      .maintenance = rig->maintenance};
}

static const char *screen(Rig *rig, size_t width, bool colour)
{
    StatusStyle style = {.width = width, .height = rig->height, .colour = colour};

    str_clear(&rig->out);
    const Snapshot seen = seen_of(rig);

    status_text(&seen, &style, &rig->out);
    return rig->out.text;
}

static int code_of(Rig *rig)
{
    const Snapshot seen = seen_of(rig);

    return status_code(&seen);
}

/* An open incident; of GPU `index`, or of the node where there is none. */
static Incident *add_incident(Rig *rig, const char *class, FaultSeverity severity, uint32_t index)
{
    Incident *incident = &rig->incidents[rig->incident_count];

    *incident = (Incident){.state = INCIDENT_OPEN,
                           .severity = severity,
                           .cause = CAUSE_BUS,
                           .action = ACTION_DRAIN_AND_REBOOT,
                           .route = ROUTE_PAGE,
                           .count = 1,
                           .pid = -1,
                           .scope = SCOPE_GPU,
                           .opened_real_ns = rig->node.real_ns - 240 * NS_PER_S};
    snprintf(incident->id, sizeof incident->id, "id%zu", rig->incident_count);
    snprintf(incident->class, sizeof incident->class, "%s", class);
    snprintf(incident->title, sizeof incident->title, "%s has happened", class);
    if (index == DEVICE_NO_NUMBER)
        device_init(&incident->device, DEVICE_NODE);
    else
        incident->device = rig->gpus[index].reading.device;
    rig->list[rig->incident_count++] = incident;
    return incident;
}

/* Keys of the causes, a blank behind each. */
static const char *causes_of(Rig *rig, bool ready)
{
    static char keys[256];
    NodeCause causes[16];
    const Snapshot seen = seen_of(rig);
    const size_t count = api_causes(&seen, ready, causes, 16);

    keys[0] = '\0';
    for (size_t i = 0; i < count; i++)
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%.40s ", causes[i].key);
    str_clear(&rig->out);
    assert_int_equal(api_health_json(&seen, ready, &rig->out), count == 0);
    assert_non_null(strstr(rig->out.text, count ? "\"status\":\"failing\"" : "\"status\":\"ok\""));
    return keys;
}

static void a_node_that_is_well(void **state)
{
    assert_string_equal(screen(*state, 100, false),
                        "node-7  2026-01-01 00:00:00Z  driver 590.48.01  2 GPUs: 2 working\n"
                        "All healthy\n"
                        " GPU                 activity   util    SM    memory     power temp  MHz\n"
                        "   0  H100 80GB HBM3 working     97%   42%    60/80G  612/700W  63C 1980\n"
                        "   1  H100 80GB HBM3 working     97%   42%    60/80G  612/700W  63C 1980\n");
    assert_int_equal(code_of(*state), 0);
    assert_string_equal(causes_of(*state, true), "");
}

/* A wide screen says why a clock is low; a narrow one has no room for that and for the limit of power. */
static void a_low_clock_says_why(void **state)
{
    Rig *rig = *state;

    put(&rig->gpus[1], METRIC_SM_CLOCK, 585);
    put(&rig->gpus[1], METRIC_CLOCKS_EVENT_REASONS, 0x20);
    put(&rig->gpus[0], METRIC_CLOCKS_EVENT_REASONS, 0x01); /* idle is not slowed down */
    assert_non_null(strstr(screen(rig, 100, false), "temp  MHz slowed by\n"));
    assert_non_null(strstr(rig->out.text, "612/700W  63C 1980\n"));
    assert_non_null(strstr(rig->out.text, "612/700W  63C  585 hot\n"));
    assert_non_null(strstr(screen(rig, 99, false), " 612W  63C  585\n"));
    assert_null(strstr(rig->out.text, "slowed by"));
}

static void brief_is_one_line(void **state)
{
    Rig *rig = *state;
    Snapshot seen = seen_of(rig);

    str_clear(&rig->out);
    status_brief(&seen, &rig->out);
    assert_string_equal(rig->out.text, "node-7: All healthy: 2 working\n");
    add_incident(rig, "row-remap-pending", SEVERITY_WARNING, 0);
    add_incident(rig, "gpu-lost", SEVERITY_FATAL, 1);
    add_incident(rig, "driver-reloaded", SEVERITY_INFO, 1);
    seen = seen_of(rig);
    str_clear(&rig->out);
    status_brief(&seen, &rig->out);
    assert_string_equal(rig->out.text,
                        "node-7: Problem: gpu-lost has happened. DO: Drain and reboot this node; 1 more problem\n");
    rig->incident_count = 0;
    rig->gpus[1].state = GPU_HUNG;
    snprintf(rig->gpus[1].why, NODE_WHY_CAP, "a call has not returned");
    seen = seen_of(rig);
    str_clear(&rig->out);
    status_brief(&seen, &rig->out);
    assert_string_equal(rig->out.text, "node-7: Unknown: GPU 1: a call has not returned\n");
}

/* Until an incident tells what it is, a GPU without data is unknown, not healthy. */
static void a_hung_gpu_says_what_and_since_when(void **state)
{
    Rig *rig = *state;

    rig->gpus[1].state = GPU_HUNG;
    rig->gpus[1].activity.word = ACTIVITY_UNKNOWN;
    rig->gpus[1].state_since_ns = (NOW_S - 42) * NS_PER_S;
    snprintf(rig->gpus[1].why, NODE_WHY_CAP, "nvmlDeviceGetPowerUsage has not returned for 42 s");
    const char *text = screen(rig, 80, false);
    assert_non_null(strstr(text, "2 GPUs: 1 working, 1 unknown\n"));
    assert_non_null(strstr(text, "unknown   hung for 42s\n"));
    assert_non_null(strstr(text, "\nUnknown: GPU 1: nvmlDeviceGetPowerUsage has not returned for 42 s\n"));
    rig->gpus[1].reading.device.index = DEVICE_NO_NUMBER; /* the driver never told it */
    text = screen(rig, 100, false);
    assert_non_null(strstr(text, "\nUnknown: GPU 0000:1c:00.0: nvmlDeviceGetPowerUsage has not returned for 42 s\n"));
    rig->gpus[1].reading.device.index = 1;
    assert_int_equal(code_of(rig), 3);
    assert_string_equal(causes_of(rig, false), "hung ");
    assert_non_null(strstr(rig->out.text, "GPU 1 (0000:1c:00.0): nvmlDeviceGetPowerUsage"));
    add_incident(rig, "driver-hang", SEVERITY_FATAL, 1);
    assert_int_equal(code_of(rig), 1);
    assert_string_equal(causes_of(rig, false), "driver-hang ");
    assert_non_null(strstr(rig->out.text, "\"incident\":\"id0\""));
}

static void no_driver_and_no_gpu_is_one_sentence(void **state)
{
    Rig *rig = *state;

    rig->node.gpu_count = rig->node.gpus_on_bus = rig->node.gpus_expected = rig->node.gpus_found = 0;
    rig->node.driver_version[0] = '\0';
    snprintf(rig->node.driver_why, NODE_WHY_CAP, "libnvidia-ml.so.1: cannot open shared object file");
    assert_string_equal(screen(rig, 80, false),
                        "node-7  2026-01-01 00:00:00Z  0 GPUs\n"
                        "No NVIDIA driver: install it, or try 'stoker sim run default -- stoker agent'\n");
    assert_int_equal(code_of(rig), 3);
    assert_string_equal(causes_of(rig, false), "no_driver ");
}

static void gpus_that_wait_are_named_once_a_cause(void **state)
{
    Rig *rig = *state;

    for (size_t i = 0; i < 2; i++)
        rig->gpus[i].activity =
            (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT, .text = "waits for input"};
    const char *text = screen(rig, 80, false);
    assert_non_null(strstr(text, "All healthy\nwaiting: GPU 0,1: waits for input\n GPU"));
    rig->gpus[1].activity.cause = ACTIVITY_CAUSE_LAUNCHES;
    snprintf(rig->gpus[1].activity.text, sizeof rig->gpus[1].activity.text, "small kernels");
    text = screen(rig, 80, false);
    assert_non_null(strstr(text, "\nwaiting: GPU 0: waits for input\nwaiting: GPU 1: small kernels\n GPU"));
    assert_int_equal(code_of(rig), 0);
}

/* The others of the job stand beside whose work it hits. */
static void who_waits_because_of_a_fault_is_counted(void **state)
{
    Rig *rig = *state;
    Incident *incident = add_incident(rig, "thermal", SEVERITY_ERROR, 1);

    rig->gpus[1].activity.waiters = 1;
    rig->gpus[1].activity.waiters_speed = NAN;
    assert_non_null(strstr(screen(rig, 100, false), "\n whose   1 GPU waits for GPU 1\n"));
    incident->owner_count = 1;
    snprintf(incident->owners[0].job, sizeof incident->owners[0].job, "4713");
    rig->gpus[1].activity.waiters = 7;
    rig->gpus[1].activity.waiters_speed = 0.443;
    assert_non_null(strstr(screen(rig, 100, false),
                           "\n whose   job 4713: 7 GPUs wait for GPU 1, at about 44 % of its speed\n"));
    rig->gpus[1].activity.waiters = 0;
    assert_non_null(strstr(screen(rig, 100, false), "\n whose   job 4713\n"));
}

static Holding *add_holding(Rig *rig, size_t gpu, const char *user, double share)
{
    Holding *holding = &rig->holdings[rig->holding_count++];

    *holding = (Holding){.gpu = gpu,
                         .gpu_instance = DEVICE_NO_NUMBER,
                         .compute_instance = DEVICE_NO_NUMBER,
                         .state = HOLDING_USED,
                         .attribution = share < 1 ? ATTRIBUTION_SAMPLED : ATTRIBUTION_EXCLUSIVE,
                         .share = share,
                         .memory_bytes = UINT64_C(20) << 30,
                         .owner = {.pid = 100}};
    snprintf(holding->owner.user, sizeof holding->owner.user, "%s", user);
    return holding;
}

/* "100 % busy" that is idle is said so, with what to do; one paragraph for the GPUs of one owner and cause. */
static void a_verdict_says_what_to_do(void **state)
{
    Rig *rig = *state;

    for (size_t i = 0; i < 2; i++) {
        rig->gpus[i].activity =
            (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_LAUNCHES, .sm_active = 0.02, .utilization = 1};
        rig->verdicts[i] = (Why){.window_s = 60, .count = 1};
        rig->verdicts[i].verdicts[0] = (WhyVerdict){.cause = WHY_LAUNCHES,
                                                    .confidence = WHY_HIGH,
                                                    .share = 0.98,
                                                    .text = "100 % busy by utilisation, yet nearly idle"};
        rig->gpus[i].verdicts = &rig->verdicts[i];
        snprintf(add_holding(rig, i, "erin", 1)->owner.job, PROCESS_JOB_CAP, "4711");
    }
    assert_string_equal(strstr(screen(rig, 80, false), "All healthy\n"),
                        "All healthy\n"
                        "waiting: GPU 0,1 (job 4711): 100 % busy by utilisation, yet nearly idle\n"
                        " DO      Launch less and more at once: torch.compile(mode=\"reduce-overhead\") or\n"
                        "         CUDA graphs, a larger batch, fused optimizers (fused=True).\n"
                        " share   98 % of 60 s, confidence high\n"
                        " more    stoker why 0\n"
                        " GPU                 activity   util    SM    memory power temp  MHz  owner\n"
                        "   0  H100 80GB HBM3 waiting    100%    2%    60/80G  612W  63C 1980  job 4711\n"
                        "   1  H100 80GB HBM3 waiting    100%    2%    60/80G  612W  63C 1980  job 4711\n");
    rig->height = 9; /* one line where there is no room for more */
    assert_non_null(strstr(screen(rig, 80, false), "yet nearly idle\n GPU"));
    rig->height = 0;
    snprintf(rig->holdings[1].owner.job, PROCESS_JOB_CAP, "4712"); /* of another job */
    assert_non_null(strstr(screen(rig, 80, false), "\nwaiting: GPU 0 (job 4711): 100 %"));
    assert_non_null(strstr(rig->out.text, "\nwaiting: GPU 1 (job 4712): 100 %"));
    assert_non_null(strstr(screen(rig, 100, false), "63C 1980  job 4711 of erin\n"));
}

/* GPUs are told of together where all of their owners are the same, not the first alone. */
static void sharers_are_told_of_together(void **state)
{
    Rig *rig = *state;

    for (size_t i = 0; i < 2; i++) {
        rig->gpus[i].activity = (Activity){.word = ACTIVITY_IDLE_HELD, .text = "nothing runs"};
        add_holding(rig, i, "erin", 0.5);
        add_holding(rig, i, "bob", 0.5);
    }
    assert_non_null(strstr(screen(rig, 80, false), "\nidle held: GPU 0,1 (2 owners): nothing runs\n"));
    snprintf(rig->holdings[3].owner.user, sizeof rig->holdings[3].owner.user, "eve");
    assert_non_null(strstr(screen(rig, 80, false), "\nidle held: GPU 0 (2 owners): nothing runs\n"));
    assert_non_null(strstr(rig->out.text, "\nidle held: GPU 1 (2 owners): nothing runs\n"));
}

/* A fault comes first, and one line is enough for those that wait. */
static void a_fault_is_before_what_waits(void **state)
{
    Rig *rig = *state;

    rig->gpus[0].activity = (Activity){.word = ACTIVITY_IDLE_HELD, .text = "nothing runs"};
    rig->verdicts[0] = (Why){.window_s = 60, .count = 1};
    rig->verdicts[0].verdicts[0] = (WhyVerdict){
        .cause = WHY_IDLE_HELD, .share = 1, .text = "a program holds 70.0 GiB of its memory and nothing runs"};
    rig->gpus[0].verdicts = rig->verdicts;
    add_incident(rig, "gpu-lost", SEVERITY_FATAL, 1);
    assert_non_null(strstr(screen(rig, 80, false),
                           " more    stoker runbook id0; stoker incidents show id0\n"
                           "idle held: GPU 0: a program holds 70.0 GiB of its memory and nothing runs\n"
                           "\n GPU "));
}

/* What a GPU at work does to others is told, wherever it stands among its verdicts. */
static void a_gpu_that_others_wait_for_is_told_of(void **state)
{
    Rig *rig = *state;

    rig->verdicts[1] = (Why){.window_s = 60, .count = 2};
    rig->verdicts[1].verdicts[0] = (WhyVerdict){.cause = WHY_TENSOR_CORES, .text = "computes on tensor cores"};
    rig->verdicts[1].verdicts[1] = (WhyVerdict){.cause = WHY_STRAGGLER,
                                                .confidence = WHY_MEDIUM,
                                                .share = 0.23,
                                                .text = "the other GPUs of its job wait for it"};
    rig->gpus[1].verdicts = &rig->verdicts[1];
    snprintf(add_holding(rig, 1, "erin", 1)->owner.job, PROCESS_JOB_CAP, "4711");
    assert_non_null(strstr(screen(rig, 100, false), "All healthy\n"
                                                    "working: GPU 1 (job 4711): the other GPUs of its job wait for it\n"
                                                    " DO      Compare its input"));
    assert_non_null(strstr(rig->out.text, "\n share   23 % of 60 s, confidence medium\n more    stoker why 1\n"));
    assert_null(strstr(rig->out.text, "computes on tensor cores"));
    const Snapshot seen = seen_of(rig);
    str_clear(&rig->out);
    status_json(&seen, &rig->out);
    const char *beside = strstr(rig->out.text, "\"beside\":[{\"cause\":\"straggler\"");
    assert_non_null(beside);
    assert_non_null(strstr(beside, "\"noticed\":true"));
    assert_non_null(strstr(rig->out.text, "\"cause\":\"tensor_cores\""));
    assert_null(strstr(beside + 1, "\"beside\":[{"));
    rig->verdicts[1].verdicts[1].cause = WHY_INPUT; /* beside work, and of no one else */
    assert_non_null(strstr(screen(rig, 80, false), "\nAll healthy\n GPU"));
}

static void make_instance(Rig *rig, size_t i, uint32_t number)
{
    Reading *instance = &rig->instances[i];

    reading_init(instance, DEVICE_COMPUTE_INSTANCE);
    instance->device.gpu_instance = number;
    instance->device.compute_instance = 0;
    snprintf(instance->device.uuid, sizeof instance->device.uuid, "MIG-%u", number);
    rig->activities[i] = (Activity){.word = ACTIVITY_WORKING, .sm_active = 0.5, .utilization = NAN};
}

/* Of a split GPU the instance is named, those of one cause and owner together, over GPUs too. */
static void an_instance_that_wastes_is_named(void **state)
{
    Rig *rig = *state;
    Why verdicts[9] = {{.window_s = 60, .count = 1}};

    verdicts[0].verdicts[0] = (WhyVerdict){
        .cause = WHY_INPUT, .confidence = WHY_HIGH, .share = 0.7, .text = "waits for its input: no kernel runs 70 %"};
    for (size_t i = 0; i < 4; i++)
        make_instance(rig, i, 7 + (uint32_t)i);
    for (size_t i = 0; i < 2; i++) {
        rig->gpus[i].instances = &rig->instances[2 * i];
        rig->gpus[i].instance_count = 2;
        rig->gpus[i].instance_activity = &rig->activities[2 * i];
        rig->gpus[i].instance_verdicts = &verdicts[2 * i];
        rig->gpus[i].activity = (Activity){.word = ACTIVITY_WAITING, .text = "1 of 2 MIG instances waiting"};
    }
    rig->activities[1] = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    verdicts[1] = verdicts[0];
    assert_non_null(strstr(screen(rig, 100, false), "All healthy\n"
                                                    "waiting: GPU 0 MIG 8/0: waits for its input: no kernel runs 70 %\n"
                                                    " DO      DataLoader("));
    assert_non_null(strstr(rig->out.text, "\n more    stoker why MIG-8\n"));
    assert_null(strstr(rig->out.text, "1 of 2 MIG instances"));
    rig->activities[0] = rig->activities[3] = rig->activities[1];
    verdicts[3] = verdicts[1];
    assert_non_null(strstr(screen(rig, 100, false), "\nwaiting: GPU 0 MIG 7/0,8/0, GPU 1 MIG 10/0: waits for its"));
    add_holding(rig, 0, "erin", 1)->gpu_instance = 8;
    rig->holdings[0].compute_instance = 0;
    assert_non_null(strstr(screen(rig, 100, false), "\nwaiting: GPU 0 MIG 7/0, GPU 1 MIG 10/0: waits for its"));
    assert_non_null(strstr(rig->out.text, "\nwaiting: GPU 0 MIG 8/0 (erin): waits for its"));
}

/* A GPU that works is told of in its line alone, whatever the verdict. */
static void a_working_gpu_is_quiet(void **state)
{
    Rig *rig = *state;

    rig->verdicts[0] = (Why){.window_s = 60, .count = 1};
    rig->verdicts[0].verdicts[0] = (WhyVerdict){.cause = WHY_NO_TENSOR_CORES, .text = "computes in FP32"};
    rig->gpus[0].verdicts = rig->verdicts;
    add_holding(rig, 0, "erin", 1);
    assert_non_null(strstr(screen(rig, 80, false), "\nAll healthy\n GPU"));
    assert_null(strstr(rig->out.text, "FP32"));
}

/* Two owners of one GPU: each its part, and how that was found; never twice the whole. */
static void sharers_have_their_part_each(void **state)
{
    Rig *rig = *state;

    add_holding(rig, 0, "erin", 0.75);
    Holding *reserved = add_holding(rig, 0, "", 0.25);
    reserved->state = HOLDING_RESERVED;
    reserved->memory_bytes = 0;
    snprintf(reserved->owner.pod, sizeof reserved->owner.pod, "chat-0");
    snprintf(reserved->owner.namespace, sizeof reserved->owner.namespace, "serving");
    assert_non_null(strstr(screen(rig, 80, false),
                           "  63C 1980  2 owners\n"
                           "       75 % sampled  working                20.0 GiB  a process (100) of erin\n"
                           "       25 % sampled  reserved                      -  pod serving/chat-0\n"
                           "   1  H100"));
    assert_null(strstr(rig->out.text, "100 %"));
}

static void no_line_is_wider_than_the_screen(void **state)
{
    Rig *rig = *state;

    rig->gpus[1].state = GPU_LOST;
    snprintf(rig->gpus[1].why, NODE_WHY_CAP,
             "the driver says that it is lost, and this text is rather long so that it "
             "has to be broken more than once on a narrow screen");
    for (size_t width = 40; width < 120; width += 7)
        for (const char *at = screen(rig, width, false); *at; at += strcspn(at, "\n") + 1)
            assert_true(strcspn(at, "\n") <= width);
}

static void an_owner_that_does_not_fit_is_shortened(void **state)
{
    Rig *rig = *state;
    StatusStyle style = {.width = 80, .utf8 = true};
    Holding *holding = add_holding(rig, 0, "", 1);

    snprintf(holding->owner.pod, sizeof holding->owner.pod, "chat-décode-0");
    snprintf(holding->owner.namespace, sizeof holding->owner.namespace, "serving");
    assert_non_null(strstr(screen(rig, 79, false), "  63C 1980  chat-d...\n"));
    const Snapshot seen = seen_of(rig);
    for (size_t i = 0; i < 5; i++) {
        static const char *const names[] = {"chat…", "chat-…", "chat-d…", "chat-dé…", "chat-déc…"};
        char line[64];

        style.width = 75 + i;
        str_clear(&rig->out);
        status_text(&seen, &style, &rig->out);
        snprintf(line, sizeof line, "  63C 1980  %s\n", names[i]);
        assert_non_null(strstr(rig->out.text, line));
    }
    assert_null(strstr(screen(rig, 72, false), "63C 1980 ")); /* no room */
}

/* Nothing ends inside a word, and no number of the verdict is lost. */
static void what_is_cut_ends_behind_a_word(void **state)
{
    Rig *rig = *state;
    StatusStyle style = {.width = 70, .utf8 = true};

    rig->gpus[1].state = GPU_HUNG;
    rig->gpus[1].activity.word = ACTIVITY_UNKNOWN;
    rig->gpus[1].state_since_ns = (NOW_S - 42) * NS_PER_S;
    rig->gpus[1].reading.device.index = DEVICE_NO_NUMBER;
    snprintf(rig->gpus[1].why, NODE_WHY_CAP, "nvmlDeviceGetHandleByPciBusId_v2 has not returned for 42 s");
    assert_non_null(strstr(screen(rig, 80, false),
                           "\nUnknown: GPU 0000:1c:00.0: nvmlDeviceGetHandleByPciBusId_v2 has not returned for\n"
                           "         42 s\n"));
    assert_non_null(strstr(screen(rig, 62, false), "node-7  2026-01-01 00:00:00Z  driver 590.48.01\n"
                                                   "         2 GPUs: 1 working, 1 unknown\n"));
    assert_non_null(strstr(rig->out.text, "  0  H100 80GB HBM3 working     97%   42%    60/80G  612W...\n"));
    const Snapshot seen = seen_of(rig);
    str_clear(&rig->out);
    status_text(&seen, &style, &rig->out);
    assert_non_null(strstr(rig->out.text, "   0  H100 80GB HBM3 working     97%   42%    60/80G  612W  63C 1980\n"));
    style.width = 66;
    str_clear(&rig->out);
    status_text(&seen, &style, &rig->out);
    assert_non_null(strstr(rig->out.text, "   0  H100 80GB HBM3 working     97%   42%    60/80G  612W  63C…\n"));
    rig->gpus[1].state = GPU_UP;
}

static void absent_values_are_dashes(void **state)
{
    Rig *rig = *state;

    reading_lose(&rig->gpus[0].reading, 1, ABSENCE_NOT_SUPPORTED);
    rig->gpus[0].activity.sm_active = rig->gpus[0].activity.utilization = NAN;
    const char *text = screen(rig, 100, false);
    assert_non_null(strstr(text, "   0  H100 80GB HBM3 working      -     -          -         -   -     -\n"));
    assert_null(strstr(text, "   0  H100 80GB HBM3 working     0%"));
}

/* Readings decide nothing here: that is what detectors are for. */
static void readings_alone_are_no_problem(void **state)
{
    Rig *rig = *state;

    put(&rig->gpus[0], METRIC_ROW_REMAP_PENDING, 1);
    put(&rig->gpus[0], METRIC_CLOCKS_EVENT_REASONS, 0x4 | 0x40);
    put(&rig->gpus[1], METRIC_GPU_RECOVERY_ACTION, 1);
    assert_non_null(strstr(screen(rig, 120, false), "\nAll healthy\n"));
    assert_string_equal(causes_of(rig, true), "");
}

static void what_the_probes_say(void **state)
{
    Rig *rig = *state;
    Node *n = &rig->node;

    n->tick = 0;
    assert_string_equal(causes_of(rig, false), "starting ");
    n->tick = 5;
    rig->gpus[0].state = GPU_STARTING;
    assert_string_equal(causes_of(rig, false), "starting ");
    rig->gpus[0].state = GPU_GONE;
    assert_string_equal(causes_of(rig, false), "gone ");
    rig->gpus[0].drained = true; /* an operator took it out */
    assert_string_equal(causes_of(rig, false), "");
    assert_int_equal(code_of(rig), 0);
    rig->gpus[0].state = GPU_UP;

    Incident *incident = add_incident(rig, "a-sites-own", SEVERITY_WARNING, 0);
    incident->action = ACTION_RESEAT;
    assert_string_equal(causes_of(rig, true), ""); /* it goes on */
    incident->action = ACTION_CHECK_MONITOR;
    assert_string_equal(causes_of(rig, false), "a-sites-own ");
    incident->action = ACTION_RESEAT;
    incident->severity = SEVERITY_ERROR;
    assert_string_equal(causes_of(rig, false), "a-sites-own ");
    incident->state = INCIDENT_CLEARED;
    assert_string_equal(causes_of(rig, false), "");

    n->release_until_ns = (NOW_S + 60) * NS_PER_S;
    rig->gpus[0].state = rig->gpus[1].state = GPU_RELEASED;
    assert_string_equal(causes_of(rig, false), ""); /* meant so */
    assert_string_equal(causes_of(rig, true), "released ");
}

static void nothing_sampled_is_not_fine(void **state)
{
    Rig *rig = *state;

    for (size_t i = 0; i < 2; i++) {
        rig->gpus[i].state = GPU_STARTING;
        rig->gpus[i].last_sample_ns = 0;
    }
    screen(rig, 80, false);
    assert_non_null(strstr(rig->out.text, "Unknown: nothing has been sampled yet\n"));
    assert_int_equal(code_of(rig), 3);
}

static void colours_only_when_asked(void **state)
{
    Rig *rig = *state;

    rig->gpus[1].state = GPU_HUNG;
    add_incident(rig, "driver-hang", SEVERITY_FATAL, 1);
    assert_null(strchr(screen(rig, 80, false), '\033'));
    assert_non_null(strchr(screen(rig, 80, true), '\033'));
}

static void instances_are_shown_below_their_gpu(void **state)
{
    Rig *rig = *state;

    reading_init(&rig->instances[0], DEVICE_COMPUTE_INSTANCE);
    rig->instances[0].device.gpu_instance = 7;
    rig->instances[0].device.compute_instance = 0;
    snprintf(rig->instances[0].profile, READING_PROFILE_CAP, "1g.10gb");
    rig->gpus[0].instances = rig->instances;
    rig->gpus[0].instance_count = 1;
    rig->gpus[0].instance_activity = rig->activities;
    rig->activities[0].word = ACTIVITY_IDLE_HELD;
    assert_non_null(strstr(screen(rig, 100, false), "\n      7/0  1g.10gb   idle held"));
}

/* What is wrong and what to do stands above the table, and no finding repeats it. */
static void incidents_come_first(void **state)
{
    Rig *rig = *state;

    rig->gpus[1].state = GPU_LOST;
    rig->gpus[1].state_since_ns = (NOW_S - 42) * NS_PER_S;
    rig->gpus[1].activity.word = ACTIVITY_UNUSABLE;
    add_incident(rig, "row-remap-pending", SEVERITY_WARNING, 0)->action = ACTION_RESET_GPU;
    add_incident(rig, "gpu-lost", SEVERITY_FATAL, 1);
    assert_string_equal(screen(rig, 100, false),
                        "node-7  2026-01-01 00:00:00Z  driver 590.48.01  2 GPUs: 1 unusable, 1 working\n"
                        "Problem: GPU 1, GPU 0\n"
                        "\n"
                        "fatal    gpu-lost has happened\n"
                        " DO      Drain and reboot this node\n"
                        " means   the device cannot be used until somebody acts. Critical: act now.\n"
                        " why     for 4 min, seen 1 time\n"
                        " more    stoker runbook id1; stoker incidents show id1\n"
                        "warning  row-remap-pending has happened\n"
                        " DO      Reset the GPU when it is idle\n"
                        " means   work goes on, something is not as it should be. Critical: act now.\n"
                        " why     for 4 min, seen 1 time\n"
                        " more    stoker runbook id0; stoker incidents show id0\n"
                        "\n"
                        " GPU                 activity   util    SM    memory     power temp  MHz\n"
                        ">  0  H100 80GB HBM3 working     97%   42%    60/80G  612/700W  63C 1980\n"
                        ">  1  H100 80GB HBM3 unusable  lost for 42s\n");
    assert_int_equal(code_of(rig), 1);
}

static void worth_knowing_is_not_wrong(void **state)
{
    Rig *rig = *state;

    add_incident(rig, "driver-reloaded", SEVERITY_INFO, DEVICE_NO_NUMBER);
    assert_int_equal(code_of(rig), 0);
    assert_non_null(strstr(screen(rig, 80, false), "info     driver-reloaded has happened\n"));
    assert_non_null(strstr(rig->out.text, "All healthy\n"));
}

static void a_storm_leaves_the_gpus_on_the_screen(void **state)
{
    Rig *rig = *state;

    for (int i = 0; i < 8; i++)
        add_incident(rig, i == 7 ? "gpu-lost" : "fan", i == 7 ? SEVERITY_FATAL : SEVERITY_WARNING, 0);
    const char *text = screen(rig, 80, false);
    assert_non_null(strstr(text, "\n\nfatal    gpu-lost has happened\n"));
    assert_non_null(strstr(text, "and 2 more: stoker incidents\n"));
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* Eight GPUs with nine devices each. */
static void make_72_instances(Rig *rig)
{
    for (uint32_t i = 0; i < 9; i++) {
        reading_init(&rig->instances[i], DEVICE_COMPUTE_INSTANCE);
        rig->instances[i].device.gpu_instance = i;
        rig->instances[i].device.compute_instance = 0;
    }
    rig->node.gpu_count = rig->node.gpus_on_bus = rig->node.gpus_expected = rig->node.gpus_found = 8;
    for (uint32_t i = 0; i < 8; i++) {
        make_gpu(&rig->gpus[i], i);
        rig->gpus[i].instances = rig->instances;
        rig->gpus[i].instance_count = 9;
    }
}

static void a_low_terminal_does_not_scroll(void **state)
{
    Rig *rig = *state;

    make_72_instances(rig);
    assert_int_equal(lines_of(screen(rig, 80, false)), 2 + 1 + 8 + 72);
    rig->height = 24;
    assert_int_equal(lines_of(screen(rig, 80, false)), 2 + 1 + 8 + 1);
    assert_non_null(strstr(rig->out.text, "63C 1980 9 MIG\n"));
    assert_non_null(strstr(rig->out.text, "\n72 MIG devices not listed; all: stoker status --all\n"));

    for (uint32_t i = 0; i < 8; i++)
        add_incident(rig, i == 5 ? "gpu-lost" : "fan", i == 5 ? SEVERITY_FATAL : SEVERITY_WARNING, i == 5 ? 5 : 1);
    for (size_t height = 24; height < 100; height += 4) {
        rig->height = height;
        const char *text = screen(rig, 80, false);
        assert_true(lines_of(text) < height);
        assert_non_null(
            strstr(text, "\nProblem: GPU 5, GPU 1\n\nfatal    gpu-lost has happened\n DO      Drain and reboot"));
    }
    rig->height = 24;
    assert_non_null(strstr(screen(rig, 80, false), "\n>  5  H100 80GB HBM3 working "));
    assert_non_null(strstr(rig->out.text, "\n6 GPUs without a problem not listed; all: stoker status --all\n"));
}

/* What a program did is no fault of the GPU that it ran on. */
static void a_program_s_fault_does_not_mark_its_gpu(void **state)
{
    Rig *rig = *state;

    add_incident(rig, "app-fault", SEVERITY_ERROR, 1)->cause = CAUSE_APPLICATION;
    assert_non_null(strstr(screen(rig, 80, false), "\nProblem: a program on GPU 1\n"));
    assert_null(strchr(rig->out.text, '>'));
    add_incident(rig, "fan", SEVERITY_WARNING, 1);
    assert_non_null(strstr(screen(rig, 80, false), "\nProblem: a program on GPU 1, GPU 1\n"));
    assert_non_null(strstr(rig->out.text, "\n>  1 "));
    assert_null(strstr(rig->out.text, ">  0"));
}

static size_t columns_of(const char *line)
{
    size_t columns = 0;

    for (; *line && *line != '\n'; line++) {
        if (*line == '\033')
            line = strchr(line, 'm');
        else
            columns++;
    }
    return columns;
}

/* Colours take no room; what is cut leaves none switched on. */
static void no_coloured_line_is_wider_either(void **state)
{
    Rig *rig = *state;

    make_72_instances(rig);
    for (uint32_t i = 0; i < 8; i++)
        add_incident(rig, "fan", SEVERITY_FATAL, i);
    for (size_t width = 40; width < 120; width += 7)
        for (const char *at = screen(rig, width, true); *at; at += strcspn(at, "\n") + 1)
            assert_true(columns_of(at) <= width);
    assert_non_null(strstr(screen(rig, 60, true), "\033[1;37;41m Problem \033[0m\033[1m GPU "));
    const char *end = strstr(rig->out.text, " more\033[0m\n");
    assert_non_null(end);
}

static void maintenance_is_shown(void **state)
{
    Rig *rig = *state;
    MaintenanceWindow window = {.gpus = 3,
                                .reason = "new fans",
                                .who = "kim",
                                .from_real_ns = rig->node.real_ns - NS_PER_S,
                                .until_real_ns = rig->node.real_ns + 3600 * NS_PER_S};
    char id[INCIDENT_ID_CAP], line[160];
    Err err;

    rig->maintenance = maintenance_new();
    assert_int_equal(maintenance_start(rig->maintenance, &window, rig->node.real_ns, id, &err), 0);
    maintenance_advance(rig->maintenance, rig->node.real_ns);
    snprintf(line, sizeof line, "\nmaintenance of GPU 0,1 until 2026-01-01 01:00:00Z: new fans (kim, %s)\n", id);
    assert_non_null(strstr(screen(rig, 100, false), line));
    Incident *incident = add_incident(rig, "fan", SEVERITY_WARNING, 0);
    incident->silenced = true;
    memcpy(incident->window, id, sizeof id);
    snprintf(line, sizeof line, "\n silent  in maintenance window %s: no alerts\n", id);
    assert_non_null(strstr(screen(rig, 100, false), line));

    const Snapshot seen = seen_of(rig);
    str_clear(&rig->out);
    status_json(&seen, &rig->out);
    snprintf(line, sizeof line, "\"maintenance\":[{\"id\":\"%s\",\"reason\":\"new fans\",\"who\":\"kim\",\"from\":\"",
             id);
    assert_non_null(strstr(rig->out.text, line));
    assert_non_null(strstr(rig->out.text, "\"active\":true,\"recurring\":false,\"gpus\":[0,1],\"uuids\":[]}]"));
    assert_non_null(strstr(rig->out.text, "{\"status\":\"failing\",\"incidents\":[{\"id\":\"id0\""));
    window.gpus = 0;
    str_clear(&rig->out);
    maintenance_window_json(&window, &rig->out);
    assert_non_null(strstr(rig->out.text, "\"gpus\":\"all\"}"));
    strcpy(window.uuids[0], "GPU-7"); /* one that is known by its UUID alone */
    str_clear(&rig->out);
    maintenance_window_json(&window, &rig->out);
    assert_non_null(strstr(rig->out.text, "\"gpus\":[],\"uuids\":[\"GPU-7\"]}"));
    strcpy(window.uuids[1], "GPU-8");
    str_clear(&rig->out);
    status_add_scope(&window, &rig->out);
    assert_string_equal(rig->out.text, "of GPU GPU-7,GPU-8");
}

/* What an incident is about, by the kind of its device. */
static void an_incident_has_a_place(void **state)
{
    static const struct {
        DeviceKind kind;
        FaultScope scope;
        uint32_t index;
        bool has_pci;
        FaultCause cause;
        const char *name;
    } cases[] = {
        {DEVICE_NODE, SCOPE_FABRIC, DEVICE_NO_NUMBER, false, CAUSE_LINK, "fabric"},
        {DEVICE_NODE, SCOPE_NODE, DEVICE_NO_NUMBER, false, CAUSE_DRIVER, "node"},
        {DEVICE_NODE, SCOPE_NODE, DEVICE_NO_NUMBER, false, CAUSE_APPLICATION, "a program"},
        {DEVICE_SWITCH, SCOPE_GPU, DEVICE_NO_NUMBER, true, CAUSE_LINK, "switch 0000:c1:00.0"},
        {DEVICE_SWITCH_LINK, SCOPE_GPU, DEVICE_NO_NUMBER, false, CAUSE_LINK, "switch ?"},
        {DEVICE_GPU, SCOPE_GPU, 3, true, CAUSE_BUS, "GPU 3"},
        {DEVICE_GPU, SCOPE_GPU, DEVICE_NO_NUMBER, true, CAUSE_BUS, "GPU 0000:c1:00.0"},
        {DEVICE_GPU, SCOPE_GPU, DEVICE_NO_NUMBER, false, CAUSE_APPLICATION, "a program on GPU ?"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Incident incident = {.state = INCIDENT_OPEN,
                             .severity = SEVERITY_ERROR,
                             .action = ACTION_DRAIN_AND_RESET,
                             .scope = cases[i].scope,
                             .cause = cases[i].cause};
        const Incident *list[] = {&incident, &incident};

        device_init(&incident.device, cases[i].kind);
        incident.device.index = cases[i].index;
        incident.device.has_pci = cases[i].has_pci;
        incident.device.pci.bus = 0xc1;
        const StatusNames names = status_name_problems(list, 2);
        assert_int_equal(names.len, 1); /* each once */
        assert_int_equal(names.all, 1);
        assert_string_equal(names.at[0], cases[i].name);
    }
}

/* What the height of the terminal leaves of the table: all, those with a problem, or one line. */
static void the_table_is_as_large_as_there_is_room(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str shown = str_limited(1 << 12);

    rig->node.gpus_expected = 4;
    rig->gpus[1].state = GPU_LOST;
    for (rig->height = 2; rig->height < 9; rig->height++) {
        const char *text = screen(rig, 100, false), *left = strstr(text, "not listed");

        while (left && left[-1] != '\n')
            left--;
        str_addf(&shown, "%zu: %zu lines, GPU 0%s, GPU 1%s, head%s, %.*s\n", rig->height, lines_of(text),
                 strstr(text, " 0  H100") ? "" : " not", strstr(text, " 1  H100") ? "" : " not",
                 strstr(text, " GPU   ") ? "" : " not", left ? (int)strcspn(left, "\n") : 3, left ? left : "all");
    }
    assert_string_equal(shown.text,
                        "2: 3 lines, GPU 0 not, GPU 1 not, head not, 2 GPUs not listed; all: stoker status --all\n"
                        "3: 3 lines, GPU 0 not, GPU 1 not, head not, 2 GPUs not listed; all: stoker status --all\n"
                        "4: 3 lines, GPU 0 not, GPU 1 not, head not, 2 GPUs not listed; all: stoker status --all\n"
                        "5: 3 lines, GPU 0 not, GPU 1 not, head not, 2 GPUs not listed; all: stoker status --all\n"
                        "6: 5 lines, GPU 0, GPU 1, head, all\n"
                        "7: 5 lines, GPU 0, GPU 1, head, all\n"
                        "8: 5 lines, GPU 0, GPU 1, head, all\n");
    assert_ptr_equal(strstr(screen(rig, 100, false), "node-7  2026-01-01 00:00:00Z  driver 590.48.01  2 of 4 GPUs: "),
                     rig->out.text);
}

/* A node with something of each kind at several widths and heights, in colours and without, whole: golden/status.txt.
 */
static void screens_are_as_in_the_file(void **state)
{
    static const struct {
        size_t width, height;
        bool colour, utf8;
    } screens[] = {{40, 0, true, true},  {62, 0, false, false}, {80, 0, true, false},
                   {80, 30, true, true}, {80, 12, true, false}, {130, 0, false, true}};
    Rig *rig = *state;
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    MaintenanceWindow window = {.gpus = 3,
                                .reason = "new fans",
                                .who = "kim",
                                .from_real_ns = rig->node.real_ns - NS_PER_S,
                                .until_real_ns = rig->node.real_ns + 3600 * NS_PER_S};
    char id[INCIDENT_ID_CAP];
    Err err;

    make_72_instances(rig);
    for (uint32_t i = 0; i < 9; i++)
        snprintf(rig->instances[i].device.uuid, DEVICE_UUID_CAP, "MIG-%u", i);
    for (size_t i = 1; i < 8; i++)
        rig->gpus[i].instance_count = 0;
    rig->gpus[0].instance_count = 2;
    rig->gpus[0].instance_activity = rig->activities;
    rig->activities[1] =
        (Activity){.word = ACTIVITY_IDLE_HELD, .sm_active = NAN, .utilization = NAN, .text = "nothing runs in it"};
    rig->gpus[2].state = GPU_LOST;
    rig->gpus[2].state_since_ns = (NOW_S - 42) * NS_PER_S;
    rig->gpus[2].activity.word = ACTIVITY_UNUSABLE;
    rig->gpus[3].state = GPU_HUNG;
    rig->gpus[3].activity.word = ACTIVITY_UNKNOWN;
    snprintf(rig->gpus[3].why, NODE_WHY_CAP, "nvmlDeviceGetPowerUsage has not returned for 42 s");
    rig->gpus[4].activity = (Activity){.word = ACTIVITY_WAITING,
                                       .cause = ACTIVITY_CAUSE_LAUNCHES,
                                       .sm_active = 0.42,
                                       .utilization = 0.97,
                                       .text = "small kernels"};
    rig->verdicts[0] = (Why){.window_s = 60, .count = 1};
    rig->verdicts[0].verdicts[0] = (WhyVerdict){.cause = WHY_LAUNCHES,
                                                .confidence = WHY_HIGH,
                                                .share = 0.98,
                                                .text = "100 % busy by utilisation, yet nearly idle"};
    rig->gpus[4].verdicts = &rig->verdicts[0];
    add_holding(rig, 5, "erin", 0.75);
    add_holding(rig, 5, "bob", 0.25)->state = HOLDING_UNMANAGED;
    snprintf(add_holding(rig, 6, "j\xc3\xbcrgen", 1)->owner.job, PROCESS_JOB_CAP, "4711");
    add_incident(rig, "gpu-lost", SEVERITY_FATAL, 2);
    add_incident(rig, "app-fault", SEVERITY_ERROR, 1)->cause = CAUSE_APPLICATION;
    add_incident(rig, "fan", SEVERITY_WARNING, DEVICE_NO_NUMBER);
    add_incident(rig, "driver-reloaded", SEVERITY_INFO, DEVICE_NO_NUMBER);
    rig->maintenance = maintenance_new();
    snprintf(window.id, sizeof window.id, "w1");
    assert_int_equal(maintenance_start(rig->maintenance, &window, rig->node.real_ns, id, &err), 0);
    maintenance_advance(rig->maintenance, rig->node.real_ns);
    const Snapshot seen = seen_of(rig);
    for (size_t i = 0; i < ARRAY_LEN(screens); i++) {
        const StatusStyle style = {.width = screens[i].width,
                                   .height = screens[i].height,
                                   .colour = screens[i].colour,
                                   .utf8 = screens[i].utf8};

        str_addf(&out, "# %zux%zu\n", style.width, style.height);
        status_text(&seen, &style, &out);
    }
    for (char *at = strstr(out.text, id); at; at = strstr(at, id)) /* the window's is drawn */
        memset(at, 'w', strlen(id));
    assert_golden(GOLDEN "/status.txt", &out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(incidents_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(worth_knowing_is_not_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_storm_leaves_the_gpus_on_the_screen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_low_terminal_does_not_scroll, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_program_s_fault_does_not_mark_its_gpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_coloured_line_is_wider_either, set_up, tear_down),
        cmocka_unit_test_setup_teardown(maintenance_is_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(screens_are_as_in_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_incident_has_a_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_table_is_as_large_as_there_is_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_because_of_a_fault_is_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gpus_that_wait_are_named_once_a_cause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_verdict_says_what_to_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_gpu_that_others_wait_for_is_told_of, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_instance_that_wastes_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sharers_are_told_of_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fault_is_before_what_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_working_gpu_is_quiet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sharers_have_their_part_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_is_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_low_clock_says_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(brief_is_one_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hung_gpu_says_what_and_since_when, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_driver_and_no_gpu_is_one_sentence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_line_is_wider_than_the_screen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_that_does_not_fit_is_shortened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_cut_ends_behind_a_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(absent_values_are_dashes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readings_alone_are_no_problem, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_probes_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_sampled_is_not_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(colours_only_when_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(instances_are_shown_below_their_gpu, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
