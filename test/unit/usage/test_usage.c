/* SPDX-License-Identifier: Apache-2.0 */
/* engine/usage and service/usage: whose part of a GPU is whose, what is added up over time, and what reports say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "../golden.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/yaml.h"
#include "service/usage/usage_report.h"

/* cmocka's assert_float_equal takes NaN for equal to any number. */
#define assert_near(left, right, within) assert_true(fabs((double)(left) - (double)(right)) <= (within))

enum { OWN = 100, OTHER = 200, MIB = 1 << 20 };

/* A node of one GPU, at second 100 of its clock. */
static NodeProcess processes[8];
static Reading instances[2];
static Activity instance_activity[2];
static NodeGpu gpu;
static Node node;
static Usage usage;
static const uint32_t own_pids[] = {OWN, OWN + 1};
static UsageGroup group;

static void set_value(Reading *reading, MetricId id, double value)
{
    sample_set_double(&reading->sample[id], node.time_ns, value);
}

static void list_process(uint32_t pid, uint64_t mib, uint8_t sm_percent)
{
    processes[gpu.process_count++] = (NodeProcess){.pid = pid,
                                                   .gpu_instance = DEVICE_NO_NUMBER,
                                                   .compute_instance = DEVICE_NO_NUMBER,
                                                   .used_bytes = mib * MIB,
                                                   .sm_percent = sm_percent,
                                                   .memory_percent = UINT8_MAX};
}

static int begin(void **state)
{
    (void)state;
    memset(&gpu, 0, sizeof gpu);
    memset(&node, 0, sizeof node);
    node.time_ns = 100 * NS_PER_S;
    reading_init(&gpu.reading, DEVICE_GPU);
    gpu.reading.device.index = 3;
    gpu.reading.device.has_pci = true;
    gpu.reading.device.pci.bus = 0x1b;
    strcpy(gpu.reading.device.uuid, "GPU-a");
    strcpy(gpu.reading.device.name, "NVIDIA H100 80GB HBM3");
    gpu.state = GPU_UP;
    gpu.last_sample_ns = 1;
    gpu.processes = processes;
    gpu.activity.word = ACTIVITY_WORKING;
    sample_set_int64(&gpu.process_list, node.time_ns, 0);
    node.gpus = &gpu;
    node.gpu_count = 1;
    group = (UsageGroup){.pids = own_pids, .pid_count = ARRAY_LEN(own_pids)};
    usage_init(&usage);
    return 0;
}

/* Lets `seconds` pass with a power and the counter of it. */
static void tick(double seconds, double watt)
{
    static double energy_mj;

    node.time_ns += (uint64_t)(seconds * 1e9);
    energy_mj += watt * seconds * 1000;
    set_value(&gpu.reading, METRIC_POWER_USAGE, watt);
    set_value(&gpu.reading, METRIC_TOTAL_ENERGY_CONSUMPTION, energy_mj);
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
}

/* --- whose part --------------------------------------------------------------------------------------------------- */

static void test_a_part_by_who_else_is_there(void **state)
{
    (void)state;
    UsagePart part = usage_find_part(&gpu, NULL, &group);
    assert_false(part.held);
    assert_true(part.share <= 0);

    list_process(OWN, 10, 50);
    list_process(OWN + 1, 5, UINT8_MAX);
    part = usage_find_part(&gpu, NULL, &group);
    assert_int_equal(part.attribution, ATTRIBUTION_EXCLUSIVE);
    assert_true(part.share >= 1 && part.memory_bytes == 15 * MIB && part.processes == 2);

    list_process(OTHER, 20, 30); /* one is not sampled: equal parts */
    part = usage_find_part(&gpu, NULL, &group);
    assert_int_equal(part.attribution, ATTRIBUTION_EVEN);
    assert_near(part.share, 2.0 / 3, 1e-9);
    assert_int_equal(part.memory_bytes, 15 * MIB);

    processes[1].sm_percent = 10;
    part = usage_find_part(&gpu, NULL, &group);
    assert_int_equal(part.attribution, ATTRIBUTION_SAMPLED);
    assert_near(part.share, 60.0 / 90, 1e-9);

    processes[0].sm_percent = processes[1].sm_percent = processes[2].sm_percent = 0; /* nobody computes */
    assert_int_equal(usage_find_part(&gpu, NULL, &group).attribution, ATTRIBUTION_EVEN);

    processes[1].used_bytes = UINT64_MAX;
    assert_true(usage_find_part(&gpu, NULL, &group).memory_bytes == UINT64_MAX);
}

static void test_selected_gpus_and_all(void **state)
{
    static const char *const names[] = {"3", "GPU-a", "1b:00.0", "0000:1B:00.0", "4", "GPU-b", "1c:00.0", ""};

    (void)state;
    list_process(OTHER, 10, 50);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const UsageGroup chosen = {.selected = &names[i], .selected_count = 1};
        const UsagePart part = usage_find_part(&gpu, NULL, &chosen);

        assert_int_equal(part.held, i < 4);
        assert_int_equal(part.attribution, ATTRIBUTION_UNKNOWN);
        assert_true(part.share >= (i < 4));
        assert_true(part.memory_bytes == UINT64_MAX); /* without a process of its own */
    }
    assert_true(usage_find_part(&gpu, NULL, &(UsageGroup){.all = true}).held);
}

static void test_a_part_of_an_instance(void **state)
{
    (void)state;
    reading_init(&instances[0], DEVICE_COMPUTE_INSTANCE);
    instances[0].device.gpu_instance = 1;
    instances[0].device.compute_instance = 0;
    list_process(OWN, 10, UINT8_MAX);
    list_process(OTHER, 10, UINT8_MAX);
    processes[0].gpu_instance = 1;
    processes[0].compute_instance = 0;
    processes[1].gpu_instance = 2;
    assert_int_equal(usage_find_part(&gpu, &instances[0], &group).attribution, ATTRIBUTION_MIG);
    assert_false(usage_find_part(&gpu, NULL, &group).held);
    instances[0].device.gpu_instance = 2;
    assert_false(usage_find_part(&gpu, &instances[0], &group).held);
    instances[0].device.gpu_instance = 1;
    instances[0].device.compute_instance = 1;
    assert_false(usage_find_part(&gpu, &instances[0], &group).held);
}

/* --- over time ---------------------------------------------------------------------------------------------------- */

static void test_only_the_time_on_the_gpu_counts(void **state)
{
    const UsageDevice *d = usage.devices;

    (void)state;
    set_value(&gpu.reading, METRIC_FB_USED, 500);
    sample_set_int64(&gpu.process_list, node.time_ns, 0);
    set_value(&gpu.reading, METRIC_FB_TOTAL, 80000);
    tick(0, 100);
    tick(1, 100);
    assert_true(d->held_s <= 0 && d->energy_j <= 0);
    node.time_ns++;
    set_value(&gpu.reading, METRIC_FB_USED, 2500); /* the group came, and the list of processes is older */
    tick(0, 100);

    list_process(OWN, 2000, UINT8_MAX);
    set_value(&gpu.reading, METRIC_FB_USED, 2500);
    set_value(&gpu.reading, METRIC_PROF_SM_ACTIVE, 0.8);
    set_value(&gpu.reading, METRIC_GPU_TEMP, 70);
    tick(1, 400);
    processes[0].used_bytes = 1000 * MIB;
    set_value(&gpu.reading, METRIC_PROF_SM_ACTIVE, 0.4);
    set_value(&gpu.reading, METRIC_GPU_TEMP, 60);
    gpu.activity = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    tick(3, 200);
    gpu.process_count = 0;
    set_value(&gpu.reading, METRIC_GPU_TEMP, 90);
    tick(1, 900);

    assert_near(d->held_s, 4, 1e-6);
    assert_near(usage.measured_s, 6, 1e-6);
    assert_near(d->energy_j, 400 + 600, 1e-6);
    assert_int_equal(d->energy_basis, USAGE_ENERGY_COUNTER);
    assert_near(usage_mean(d, USAGE_SM), (0.8 + 3 * 0.4) / 4, 1e-9);
    assert_near(usage_mean(d, USAGE_POWER), 250, 1e-6);
    assert_true(isnan(usage_mean(d, USAGE_TENSOR)));
    assert_near(d->temperature_max_c, 70, 0);
    assert_near(d->memory_before_bytes, 500.0 * MIB, 0);
    assert_near(d->memory_peak_bytes, 2000.0 * MIB, 0);
    assert_near(d->device_peak_bytes, 2500.0 * MIB, 0);
    assert_near(usage.memory_peak_bytes, 2000.0 * MIB, 0);
    assert_near(d->activity_s[ACTIVITY_WORKING][0], 1, 1e-6);
    assert_near(d->activity_s[ACTIVITY_WAITING][ACTIVITY_CAUSE_INPUT], 3, 1e-6);
    assert_int_equal(usage_attribution(d), ATTRIBUTION_EXCLUSIVE);
}

static void test_a_sharer_has_its_part_of_the_numbers(void **state)
{
    (void)state;
    list_process(OWN, 2000, 20);
    list_process(OTHER, 3000, 60);
    set_value(&gpu.reading, METRIC_FB_USED, 5000);
    set_value(&gpu.reading, METRIC_PROF_SM_ACTIVE, 0.8);
    tick(0, 400);
    tick(2, 400);
    assert_near(usage_own_mean(usage.devices, USAGE_SM), 0.2, 1e-9);
    assert_near(usage_mean(usage.devices, USAGE_SM), 0.8, 1e-9);
    assert_near(usage.devices->energy_j, 200, 1e-6);
    assert_near(usage.devices->memory_before_bytes, 3000.0 * MIB, 0); /* it was there at the first reading */
}

/* The counter is read less often than we look: the span since then is shared by who was there in it. */
static void test_energy_of_a_span_in_which_the_group_came(void **state)
{
    (void)state;
    tick(0, 400);
    node.time_ns += NS_PER_S;
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
    list_process(OWN, 1, UINT8_MAX);
    for (int i = 0; i < 2; i++) {
        node.time_ns += NS_PER_S;
        usage_update(&usage, &(Snapshot){.node = &node}, &group);
    }
    double before;
    assert_true(sample_double(&gpu.reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], &before));
    assert_true(usage.devices->energy_j <= 0);
    node.time_ns += NS_PER_S;
    set_value(&gpu.reading, METRIC_TOTAL_ENERGY_CONSUMPTION, before + 1600e3);
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
    assert_near(usage.devices->energy_j, 1200, 1e-6);
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
    assert_near(usage.devices->energy_j, 1200, 1e-6);
}

static void test_energy_without_a_counter_or_with_one_that_was_reset(void **state)
{
    (void)state;
    list_process(OWN, 1, UINT8_MAX);
    tick(0, 100);
    tick(1, 100);
    node.time_ns += NS_PER_S;
    set_value(&gpu.reading, METRIC_TOTAL_ENERGY_CONSUMPTION, 1);
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
    assert_near(usage.devices->energy_j, 200, 1e-3);
    assert_int_equal(usage.devices->energy_basis, USAGE_ENERGY_POWER);

    sample_set_absent(&gpu.reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], node.time_ns, ABSENCE_NOT_SUPPORTED);
    usage_init(&usage);
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
    node.time_ns += 2 * NS_PER_S;
    usage_update(&usage, &(Snapshot){.node = &node}, &group);
    assert_near(usage.devices->energy_j, 200, 1e-6);
    assert_near(usage_energy_j(&usage), 200, 1e-6);
}

static void test_the_end_adds_what_no_reading_has(void **state)
{
    (void)state;
    list_process(OWN, 1, UINT8_MAX);
    tick(0, 100);
    tick(1, 100);
    usage_end(&usage, node.time_ns + NS_PER_S / 2);
    assert_near(usage.devices->energy_j, 150, 1e-6);
    usage_end(&usage, node.time_ns + 3 * NS_PER_S); /* too long ago */
    assert_near(usage.devices->energy_j, 150, 1e-6);
}

static void test_throttling_by_counters_and_by_bits(void **state)
{
    const UsageDevice *d = usage.devices;

    (void)state;
    list_process(OWN, 1, UINT8_MAX);
    set_value(&gpu.reading, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, 5e9);
    set_value(&gpu.reading, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, 0);
    tick(0, 1);
    tick(1, 1);
    assert_true(d->throttle_known && d->throttled_s <= 0);
    set_value(&gpu.reading, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, 5.5e9);
    set_value(&gpu.reading, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, 0.25e9);
    tick(1, 1);
    assert_near(d->throttle_s[USAGE_THROTTLE_POWER], 0.5, 1e-6);
    assert_near(d->throttle_s[USAGE_THROTTLE_THERMAL], 0.25, 1e-6);
    assert_near(d->throttled_s, 0.25, 1e-6); /* the power limit is the board's rating */
    set_value(&gpu.reading, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, 99e9); /* more than the tick is the tick */
    sample_set_int64(&gpu.reading.sample[METRIC_CLOCKS_EVENT_REASONS], node.time_ns, 0x80);
    tick(1, 1);
    assert_near(d->throttle_s[USAGE_THROTTLE_POWER], 1.5, 1e-6);
    assert_near(d->throttle_s[USAGE_THROTTLE_BRAKE], 1, 1e-6); /* has no counter here */
    assert_near(d->throttled_s, 1.25, 1e-6);
}

static void test_gaps(void **state)
{
    const UsageDevice *d = usage.devices;

    (void)state;
    list_process(OWN, 1, UINT8_MAX);
    tick(0, 100);
    tick(1, 100);
    gpu.state = GPU_HUNG;
    gpu.process_count = 0;
    sample_set_absent(&gpu.process_list, node.time_ns, ABSENCE_TIMED_OUT);
    tick(2, 100);
    assert_near(d->held_s, 3, 1e-6); /* where it was, as nobody says otherwise */
    assert_near(d->gap_s, 2, 1e-6);
    assert_near(d->energy_j, 100, 1e-6);
    assert_near(d->activity_s[ACTIVITY_UNUSABLE][0], 0, 0);
    gpu.activity.word = ACTIVITY_UNUSABLE; /* an incident says so */
    gpu.verdicts = &(Why){.count = 1, .verdicts = {{.cause = WHY_UNUSABLE, .confidence = WHY_HIGH}}};
    tick(2, 100);
    assert_near(d->gap_s, 4, 1e-6);
    assert_near(d->activity_s[ACTIVITY_UNUSABLE][0], 2, 1e-6);
    assert_near(d->verdict_s[ACTIVITY_UNUSABLE][WHY_UNUSABLE][WHY_HIGH], 2, 1e-6);
    gpu.activity.word = ACTIVITY_WORKING;
    gpu.verdicts = NULL;
    gpu.state = GPU_UP;
    sample_set_int64(&gpu.process_list, node.time_ns, 0);
    tick(10, 100);
    assert_near(usage.gap_s, 0, 0);
    tick(10.5, 100); /* the machine slept */
    assert_near(usage.gap_s, 10.5, 1e-6);
    assert_near(usage.measured_s, 15, 1e-6);
    assert_near(d->held_s, 5, 1e-6);
}

static void test_nothing_counts_before_the_driver_answers(void **state)
{
    (void)state;
    list_process(OWN, 1, UINT8_MAX);
    gpu.last_sample_ns = 0;
    gpu.state = GPU_STARTING;
    strcpy(node.driver_why, "the driver is not loaded");
    tick(1, 100);
    tick(1, 100);
    assert_int_equal(usage.last_ns, 0);
    assert_string_equal(usage.driver_why, "the driver is not loaded");
}

/* The group's process on an instance of this profile, the only one of the GPU. */
static void split_gpu(const char *profile)
{
    reading_init(&instances[0], DEVICE_COMPUTE_INSTANCE);
    instances[0].device.gpu_instance = 1;
    instances[0].device.compute_instance = 0;
    strcpy(instances[0].device.parent_uuid, "GPU-a");
    strcpy(instances[0].device.uuid, "MIG-a");
    strcpy(instances[0].profile, profile);
    instance_activity[0].word = ACTIVITY_IDLE_HELD;
    gpu.instances = instances;
    gpu.instance_count = 1;
    gpu.instance_activity = instance_activity;
    list_process(OWN, 1, UINT8_MAX);
    processes[0].gpu_instance = 1;
    processes[0].compute_instance = 0;
}

static void test_an_instance_has_its_slices_of_the_power(void **state)
{
    (void)state;
    split_gpu("2g.20gb");
    tick(0, 700);
    tick(1, 700);
    assert_int_equal(usage.devices[0].device.kind, DEVICE_COMPUTE_INSTANCE);
    assert_near(usage.devices[0].energy_j, 200, 1e-3);
    assert_near(usage_own_mean(&usage.devices[0], USAGE_POWER), 200, 1e-3);
    assert_near(usage.devices[0].activity_s[ACTIVITY_IDLE_HELD][0], 1, 1e-6);
    assert_true(usage.devices[1].held_s <= 0); /* the GPU around it */
    gpu.instance_count = 0;                    /* it was destroyed */
    tick(1, 700);
    assert_near(usage.devices[0].held_s, 1, 1e-6);
    assert_false(usage.devices[0].now.held);
}

static void test_boards_of_fewer_slices(void **state)
{
    (void)state;
    strcpy(gpu.reading.device.name, "NVIDIA A30");
    split_gpu("1g.6gb");
    tick(0, 160);
    tick(1, 160);
    assert_near(usage.devices[0].energy_j, 40, 1e-3);
    assert_near(usage_own_mean(&usage.devices[0], USAGE_POWER), 40, 1e-3);
    assert_near(usage_mean(&usage.devices[0], USAGE_POWER), 160, 1e-3);
}

static void test_verdicts_over_time(void **state)
{
    const UsageDevice *d = usage.devices;
    UsageVerdict verdicts[USAGE_VERDICTS_MAX];
    Why why = {.count = 2, .verdicts = {{.cause = WHY_INPUT, .confidence = WHY_HIGH}, {.cause = WHY_NEIGHBOUR}}};

    (void)state;
    gpu.verdicts = &why;
    tick(0, 1);
    tick(5, 1); /* nobody of the group yet */
    list_process(OWN, 1, UINT8_MAX);
    tick(1, 1);
    assert_int_equal(usage_verdicts(d, verdicts), 1);
    why.verdicts[0].confidence = WHY_MEDIUM;
    tick(2, 1);
    gpu.activity.word = ACTIVITY_WAITING;
    tick(1, 1);
    why.count = 0;
    tick(0.5, 1);
    assert_int_equal(usage_verdicts(d, verdicts), 3);
    assert_true(verdicts[0].cause == WHY_INPUT && verdicts[0].activity == ACTIVITY_WORKING);
    assert_int_equal(verdicts[0].confidence, WHY_MEDIUM);
    assert_near(verdicts[0].seconds, 3, 1e-6);
    assert_true(verdicts[1].cause == WHY_INPUT && verdicts[1].activity == ACTIVITY_WAITING);
    assert_near(verdicts[1].seconds, 1, 1e-6);
    assert_true(verdicts[2].cause == WHY_UNKNOWN && verdicts[2].confidence == WHY_LOW);
    assert_near(verdicts[2].seconds, 0.5, 1e-6);
}

/* Checkpoints take their share of the window; the rest is what the GPU does between two of them. */
static void test_a_checkpoint_is_a_part_of_the_time(void **state)
{
    const UsageDevice *d = usage.devices;
    UsageVerdict verdicts[USAGE_VERDICTS_MAX];
    const Why why = {.count = 2, .verdicts = {{.cause = WHY_CHECKPOINT, .share = 0.25}, {.cause = WHY_TENSOR_CORES}}};

    (void)state;
    gpu.verdicts = &why;
    tick(0, 1);
    list_process(OWN, 1, UINT8_MAX);
    for (int i = 0; i < 8; i++)
        tick(1, 1);
    assert_int_equal(usage_verdicts(d, verdicts), 2);
    assert_true(verdicts[0].cause == WHY_TENSOR_CORES && verdicts[1].cause == WHY_CHECKPOINT);
    assert_near(verdicts[0].seconds, 6, 1e-6);
    assert_near(verdicts[1].seconds, 2, 1e-6);
}

static void test_an_instance_has_its_own_verdict(void **state)
{
    const Why whole = {.count = 1, .verdicts = {{.cause = WHY_PCIE}}};
    const Why part = {.count = 1, .verdicts = {{.cause = WHY_FP64}}};
    UsageVerdict verdicts[USAGE_VERDICTS_MAX];

    (void)state;
    split_gpu("2g.20gb");
    gpu.verdicts = &whole;
    gpu.instance_verdicts = &part;
    tick(0, 1);
    tick(1, 1);
    assert_int_equal(usage_verdicts(&usage.devices[0], verdicts), 1);
    assert_int_equal(verdicts[0].cause, WHY_FP64);
}

static void test_the_cost_is_the_groups_part_of_the_price(void **state)
{
    static const char yaml[] = "currency: EUR\n"
                               "list:\n"
                               "  - {id: old, on_demand: 9, from: 2020-01-01}\n"
                               "  - {id: h100, board: H100, on_demand: 3.6, from: 2021-01-01}\n"
                               "  - {id: b200, board: B200, on_demand: 9}\n";
    CLEANUP(arena_done) Arena arena;
    const YamlNode *root;
    const Prices *prices;
    char currency[PRICE_CURRENCY_CAP];
    Err err;

    (void)state;
    arena_init(&arena, 4096);
    assert_int_equal(yaml_load("prices", yaml, strlen(yaml), &arena, &root, &err), 0);
    assert_int_equal(prices_read(root, &arena, &prices, &err), 0);
    split_gpu("2g.20gb");
    list_process(OTHER, 1, UINT8_MAX);
    processes[1].gpu_instance = 1;
    processes[1].compute_instance = 0;
    tick(0, 700);
    tick(5, 700);
    tick(5, 700);
    assert_true(isnan(usage_cost(&usage, currency)));
    usage_find_prices(&usage, prices, UINT64_C(1700000000) * NS_PER_S);
    /* half of two slices of seven, for ten seconds */
    assert_true(fabs(usage_cost(&usage, currency) - 10.0 / 3600 * 3.6 / 2 * 2 / 7) < 1e-9);
    assert_string_equal(currency, "EUR");
    usage_set_price(&usage, "MIG-b", "x spot 7.2 USD");
    assert_string_equal(currency, "EUR");
    usage_set_price(&usage, "MIG-a", "x spot 7.2 USD");
    assert_true(fabs(usage_cost(&usage, currency) - 10.0 / 3600 * 7.2 / 2 * 2 / 7) < 1e-9);
    assert_string_equal(currency, "USD");
}

static void test_xids_of_the_devices_that_were_held(void **state)
{
    XidEvent event = {.gpu = gpu.reading.device.pci, .xid = 31, .gpu_instance = DEVICE_NO_NUMBER};

    (void)state;
    tick(0, 1);
    usage_add_xid(&usage, &event, 5);
    assert_int_equal(usage.devices->xid_count, 0);
    list_process(OWN, 1, UINT8_MAX);
    tick(1, 1);
    usage_add_xid(&usage, &event, 6);
    usage_add_xid(&usage, &event, 7);
    event.xid = 79;
    usage_add_xid(&usage, &event, 8);
    event.gpu.bus++;
    usage_add_xid(&usage, &event, 9);
    assert_int_equal(usage.devices->xid_count, 2);
    assert_true(usage.devices->xids[0].count == 2 && usage.devices->xids[0].first_real_ns == 6);
    assert_true(usage.devices->xids[1].xid == 79 && usage.devices->xids[1].count == 1);
}

static void test_problems_once_each(void **state)
{
    Incident incident = {.id = "a", .class = "thermal", .severity = SEVERITY_WARNING, .title = "GPU 3 is hot"};

    (void)state;
    incident.device = gpu.reading.device;
    tick(0, 1);
    usage_add_problem(&usage, &incident); /* not ours */
    assert_int_equal(usage.problem_count, 0);
    list_process(OWN, 1, UINT8_MAX);
    tick(1, 1);
    usage_add_problem(&usage, &incident);
    strcpy(incident.id, "b"); /* the agent's own name for it */
    usage_add_problem(&usage, &incident);
    assert_int_equal(usage.problem_count, 1);
    assert_int_equal(usage.problems[0].gpu_index, 3);
    strcpy(incident.class, "fan");
    usage_add_problem(&usage, &incident);
    assert_int_equal(usage.problem_count, 2);
    gpu.process_count = 0; /* the group has left, and was there */
    tick(1, 1);
    assert_false(usage.devices->now.held);
    strcpy(incident.class, "clock");
    usage_add_problem(&usage, &incident);
    assert_int_equal(usage.problem_count, 3);
    incident.device.pci.bus++; /* another GPU */
    strcpy(incident.device.uuid, "GPU-b");
    strcpy(incident.class, "power");
    usage_add_problem(&usage, &incident);
    assert_int_equal(usage.problem_count, 3);
}

/* What the agent tells of is noted with each reading. A group that is there before any time has passed is there. */
static void test_problems_of_the_agent(void **state)
{
    Incident incident = {.id = "a", .class = "thermal", .severity = SEVERITY_WARNING, .title = "GPU 3 is hot"};
    const Incident *incidents[] = {&incident};

    (void)state;
    incident.device = gpu.reading.device;
    list_process(OWN, 1, UINT8_MAX);
    usage_update(&usage, &(Snapshot){.node = &node, .incidents = incidents, .incident_count = 1}, &group);
    assert_true(usage.devices->held_s <= 0);
    assert_int_equal(usage.problem_count, 1);
}

/* A GPU that hangs, or has no list of processes: the group is where it was, whatever an old list says. */
static void test_the_group_is_where_it_was(void **state)
{
    (void)state;
    list_process(OWN, 1, UINT8_MAX);
    tick(0, 100);
    gpu.process_count = 0;
    gpu.state = GPU_HUNG;
    tick(1, 100);
    assert_true(usage.devices->now.held);
    gpu.state = GPU_UP;
    sample_set_absent(&gpu.process_list, node.time_ns, ABSENCE_TIMED_OUT);
    tick(1, 100);
    assert_true(usage.devices->now.held);
    sample_set_int64(&gpu.process_list, node.time_ns, 0);
    tick(1, 100);
    assert_false(usage.devices->now.held);
    assert_near(usage.devices->held_s, 2, 1e-6);
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

static void test_text_and_json_of_a_run(void **state)
{
    static const char *const notes[] = {"a note"};
    const UsageRun run = {.version = "1",
                          .command = "train",
                          .started_real_ns = NS_PER_S,
                          .wall_ns = 4 * NS_PER_S,
                          .exit_status = 143,
                          .signal = 15,
                          .notes = notes,
                          .note_count = 1};
    const Why why = {.count = 1, .verdicts = {{.cause = WHY_FP64, .confidence = WHY_MEDIUM}}};
    CLEANUP(str_done) Str text, json, line;
    json_error_t error;

    (void)state;
    list_process(OWN, 2048, 20);
    list_process(OTHER, 3000, 60);
    set_value(&gpu.reading, METRIC_PROF_SM_ACTIVE, 0.8);
    set_value(&gpu.reading, METRIC_FB_TOTAL, 80 * 1024);
    tick(0, 400);
    gpu.verdicts = &why;
    tick(2, 400);
    usage_set_price(&usage, "GPU-a", "list owned 3.6 EUR");
    str_init(&text, 1 << 20);
    str_init(&json, 1 << 20);
    str_init(&line, 1 << 20);
    usage_text(&usage, &run, false, &text);
    usage_json(&usage, &run, &json);
    usage_json_line(&usage, &node, &line);
    assert_string_equal(
        text.text, "stoker run: train: 4.00 s, ended by signal 15; 1 GPU, 200 J, 2.00 GiB of GPU memory "
                   "at its peak, 0.0005 EUR\n"
                   "  note: a note\n"
                   "\n"
                   "GPU 3 H100 80GB HBM3: held for 2.00 s, shared: 25 % of its work is this command's, by "
                   "the driver's samples\n"
                   "  activity   working 100 %\n"
                   "  verdict    computing in double precision: 100 % (medium confidence)\n"
                   "  advice     Nothing to fix where the numbers need 64 bit; else FP32 is twice as fast or more, "
                   "and\n             tensor cores in mixed precision many times.\n"
                   "  work       SM active 20 %; of all programs: SM active 80 %\n"
                   "  memory     2.00 GiB at its peak of 80.0 GiB\n"
                   "  power      100 W on average, 200 J\n"
                   "  cost       0.0005 EUR (list, 3.60 EUR an hour of a whole GPU)\n");
    json_t *report = json_loadb(json.text, json.len, 0, &error);
    assert_non_null(report);
    assert_int_equal(json_integer_value(json_object_get(report, "exit_status")), 143);
    const json_t *one = json_array_get(json_object_get(report, "gpus"), 0);
    assert_near(json_number_value(json_object_get(one, "sm_active")), 0.2, 1e-9);
    assert_string_equal(json_string_value(json_object_get(one, "attribution")), "sampled");
    assert_true(json_is_null(json_object_get(one, "memory_before_bytes")));
    const json_t *verdict = json_array_get(json_object_get(report, "verdicts"), 0);
    assert_string_equal(json_string_value(json_object_get(verdict, "activity")), "working");
    assert_string_equal(json_string_value(json_object_get(verdict, "cause")), "fp64");
    assert_string_equal(json_string_value(json_object_get(verdict, "confidence")), "medium");
    assert_near(json_number_value(json_object_get(verdict, "share")), 1, 1e-9);
    assert_true(fabs(json_number_value(json_object_get(report, "cost")) - 0.0005) < 1e-9);
    assert_string_equal(json_string_value(json_object_get(report, "currency")), "EUR");
    assert_string_equal(json_string_value(json_object_get(one, "price")), "list");
    json_decref(report);
    report = json_loadb(line.text, line.len, 0, &error);
    assert_non_null(report);
    assert_int_equal(json_array_size(json_object_get(report, "gpus")), 1);
    json_decref(report);
}

static void test_text_without_a_gpu(void **state)
{
    const UsageRun run = {.command = "true", .wall_ns = 7261 * NS_PER_S};
    CLEANUP(str_done) Str text;

    (void)state;
    str_init(&text, 1 << 20);
    usage_text(&usage, &run, false, &text);
    assert_string_equal(text.text, "stoker run: true: 2h1m1s, exit status 0\n");
    tick(0, 1);
    tick(1, 1);
    str_clear(&text);
    usage_text(&usage, &run, false, &text);
    assert_string_equal(text.text, "stoker run: true: 2h1m1s, exit status 0; no process of it was on a GPU\n");
}

/* A job that was given its devices before the first tick that saw it, or within it. */
static void test_a_begin_that_is_told_later(void **state)
{
    UsageDevice d = {.held_s = 10,
                     .gap_s = 2,
                     .share_s = 5,
                     .throttled_s = 4,
                     .now = {.attribution = ATTRIBUTION_EVEN, .share = 0.5}};

    (void)state;
    d.attribution_s[ATTRIBUTION_EVEN] = d.known_s[USAGE_SM] = d.activity_s[ACTIVITY_WAITING][1] = 10;
    d.verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_HIGH] = d.sum[USAGE_SM] = d.own[USAGE_SM] = d.throttle_s[0] = 10;
    usage_device_begin(&d, -4);
    assert_near(d.held_s, 6, 1e-9);
    assert_near(d.gap_s, 1.2, 1e-9);
    assert_near(d.share_s, 3, 1e-9);
    assert_near(d.throttled_s, 2.4, 1e-9);
    const double tens[] = {d.attribution_s[ATTRIBUTION_EVEN],
                           d.known_s[USAGE_SM],
                           d.activity_s[ACTIVITY_WAITING][1],
                           d.verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_HIGH],
                           d.sum[USAGE_SM],
                           d.own[USAGE_SM],
                           d.throttle_s[0]};
    for (size_t i = 0; i < ARRAY_LEN(tens); i++)
        assert_near(tens[i], 6, 1e-9);
    usage_device_begin(&d, 4);
    assert_near(d.held_s, 10, 1e-9);
    assert_near(d.share_s, 5, 1e-9);
    assert_near(d.attribution_s[ATTRIBUTION_EVEN], 10, 1e-9);
    assert_near(d.activity_s[ACTIVITY_IDLE_HELD][0], 4, 1e-9);
    assert_near(d.verdict_s[ACTIVITY_IDLE_HELD][WHY_IDLE_HELD][WHY_HIGH], 4, 1e-9);
    assert_near(usage_own_mean(&d, USAGE_SM), 1, 1e-9);
    usage_device_begin(&d, -11); /* more than there is */
    assert_near(d.held_s, 0, 1e-9);
    usage_device_begin(&d, -1);
    assert_near(d.held_s, 0, 1e-9);
}

/* The advice of the cause that took most of the time, of those that are sure enough and took a tenth of it. */
static void test_whose_advice(void **state)
{
    static const struct {
        double input_s, tensor_s;
        WhyConfidence input, tensor;
        int cause; /* -1: none */
    } cases[] = {
        {60, 40, WHY_MEDIUM, WHY_MEDIUM, WHY_INPUT},
        {40, 60, WHY_MEDIUM, WHY_MEDIUM, WHY_NO_TENSOR_CORES},
        {60, 40, WHY_LOW, WHY_MEDIUM, WHY_NO_TENSOR_CORES},
        {60, 40, WHY_LOW, WHY_LOW, -1},
        {10, 0, WHY_HIGH, WHY_HIGH, WHY_INPUT},
        {9.9, 0, WHY_HIGH, WHY_HIGH, -1},
        {90.2, 9.8, WHY_LOW, WHY_HIGH, -1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        UsageDevice d = {.held_s = 100};

        d.verdict_s[ACTIVITY_WAITING][WHY_INPUT][cases[i].input] = cases[i].input_s;
        d.verdict_s[ACTIVITY_WORKING][WHY_NO_TENSOR_CORES][cases[i].tensor] = cases[i].tensor_s;
        assert_string_equal(usage_advice(&d), cases[i].cause < 0 ? "" : why_causes[cases[i].cause].advice);
    }
}

/* --- stories: drawn readings and processes on a GPU with two instances, against stories.json -----------------------
 */

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)(*seed >> 20) % below;
}

static void change_story(uint64_t *seed)
{
    static const struct {
        MetricId id;
        double values[3];
    } metrics[] = {
        {METRIC_PROF_SM_ACTIVE, {0, 0.5, 1}},
        {METRIC_GPU_UTIL, {0, 40, 100}},
        {METRIC_PROF_PIPE_TENSOR_ACTIVE, {0, 0.25, 0.5}},
        {METRIC_PROF_DRAM_ACTIVE, {0, 0.3, 0.6}},
        {METRIC_GPU_TEMP, {40, 70, 90}},
        {METRIC_FB_USED, {0, 1000, 60000}},
        {METRIC_FB_TOTAL, {80000, 80000, 40000}},
        {METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, {0, 5e9, 9e9}},
        {METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, {0, 5e9, 9e9}},
        {METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, {0, 5e9, 9e9}},
        {METRIC_CLOCKS_EVENT_REASONS, {0x4, 0x44, 0x80}},
    };
    const uint32_t at = draw(seed, ARRAY_LEN(metrics)), value = draw(seed, 4);
    Reading *reading = draw(seed, 3) ? &gpu.reading : &instances[draw(seed, 2)];

    switch (draw(seed, 8)) {
    case 0:
        gpu.process_count = 0;
        for (uint32_t count = 1 + draw(seed, 3); count > 0; count--) {
            const uint8_t percent = draw(seed, 3) ? (uint8_t)(10 * count) : UINT8_MAX;

            list_process(OWN + draw(seed, 3), 100 * count, percent);
            if (gpu.instance_count > 0)
                processes[gpu.process_count - 1].gpu_instance = 1 + draw(seed, 2);
        }
        break;
    case 1:
        gpu.activity =
            (Activity){.word = (ActivityWord)draw(seed, ACTIVITY_END), .cause = (ActivityCause)draw(seed, 3)};
        instance_activity[draw(seed, 2)] = gpu.activity;
        break;
    case 2:
        gpu.state = draw(seed, 3) ? GPU_UP : GPU_LOST;
        gpu.process_list.valid = gpu.state == GPU_UP;
        break;
    case 3:
        gpu.instance_count = draw(seed, 3) ? 0 : 2;
        gpu.process_count = 0;
        break;
    case 4:
        usage_add_xid(&usage,
                      &(XidEvent){.gpu = gpu.reading.device.pci,
                                  .xid = 31 + draw(seed, 2),
                                  .gpu_instance = DEVICE_NO_NUMBER,
                                  .compute_instance = DEVICE_NO_NUMBER},
                      node.time_ns);
        break;
    default:
        if (value < 3)
            set_value(reading, metrics[at].id, metrics[at].values[value]);
        else
            sample_set_absent(&reading->sample[metrics[at].id], node.time_ns, ABSENCE_NO_DATA);
        break;
    }
}

/* An object per line. */
static void add_objects(Str *out, const Str *json)
{
    for (size_t i = 0; i < json->len; i++) {
        if (i > 0 && json->text[i] == '{')
            str_addc(out, '\n');
        str_addc(out, json->text[i]);
    }
}

static void test_stories(void **state)
{
    enum { STORIES = 10, STEPS = 60 };
    static const double seconds[] = {1, 1, 1, 2, 3, 10, 10.5};
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX), json = str_limited(GOLDEN_MAX);

    for (uint64_t story = 1; story <= STORIES; story++) {
        uint64_t seed = story * 88172645463325252u;
        const UsageRun run = {.version = "1", .command = "train"};

        begin(state);
        gpu.instances = instances;
        gpu.instance_activity = instance_activity;
        for (uint32_t i = 0; i < 2; i++) {
            reading_init(&instances[i], DEVICE_GPU_INSTANCE);
            instances[i].device.gpu_instance = i + 1;
            snprintf(instances[i].device.uuid, sizeof instances[i].device.uuid, "MIG-%u", i);
            snprintf(instances[i].profile, sizeof instances[i].profile, i ? "2g.20gb" : "3g.40gb");
        }
        list_process(OWN, 100, 20);
        for (int i = 0; i < STEPS; i++) {
            change_story(&seed);
            sample_set_int64(&gpu.process_list, node.time_ns, (int64_t)gpu.process_count);
            gpu.process_list.valid = gpu.state == GPU_UP;
            const uint32_t watts = 100 * draw(&seed, 4);

            tick(seconds[draw(&seed, ARRAY_LEN(seconds))], watts);
            if (i % 20 == 10)
                usage_json_line(&usage, &node, &json);
        }
        usage_end(&usage, node.time_ns + NS_PER_S);
        usage_json(&usage, &run, &json);
    }
    add_objects(&out, &json);
    assert_golden(STORIES_JSON, &out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_part_by_who_else_is_there, begin),
        cmocka_unit_test_setup(test_selected_gpus_and_all, begin),
        cmocka_unit_test_setup(test_a_part_of_an_instance, begin),
        cmocka_unit_test_setup(test_only_the_time_on_the_gpu_counts, begin),
        cmocka_unit_test_setup(test_a_sharer_has_its_part_of_the_numbers, begin),
        cmocka_unit_test_setup(test_energy_of_a_span_in_which_the_group_came, begin),
        cmocka_unit_test_setup(test_energy_without_a_counter_or_with_one_that_was_reset, begin),
        cmocka_unit_test_setup(test_the_end_adds_what_no_reading_has, begin),
        cmocka_unit_test_setup(test_throttling_by_counters_and_by_bits, begin),
        cmocka_unit_test_setup(test_gaps, begin),
        cmocka_unit_test_setup(test_nothing_counts_before_the_driver_answers, begin),
        cmocka_unit_test_setup(test_an_instance_has_its_slices_of_the_power, begin),
        cmocka_unit_test_setup(test_boards_of_fewer_slices, begin),
        cmocka_unit_test_setup(test_verdicts_over_time, begin),
        cmocka_unit_test_setup(test_a_checkpoint_is_a_part_of_the_time, begin),
        cmocka_unit_test_setup(test_an_instance_has_its_own_verdict, begin),
        cmocka_unit_test_setup(test_the_cost_is_the_groups_part_of_the_price, begin),
        cmocka_unit_test_setup(test_xids_of_the_devices_that_were_held, begin),
        cmocka_unit_test_setup(test_problems_once_each, begin),
        cmocka_unit_test_setup(test_problems_of_the_agent, begin),
        cmocka_unit_test_setup(test_the_group_is_where_it_was, begin),
        cmocka_unit_test_setup(test_text_and_json_of_a_run, begin),
        cmocka_unit_test_setup(test_text_without_a_gpu, begin),
        cmocka_unit_test(test_a_begin_that_is_told_later),
        cmocka_unit_test(test_whose_advice),
        cmocka_unit_test(test_stories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
