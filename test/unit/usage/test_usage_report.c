/* SPDX-License-Identifier: Apache-2.0 */
/* service/usage: every line of the report of a run and every member of its JSON, from sums that the test makes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/usage/usage_report.h"

static const double gib = 1073741824.0;

/* A command that had GPU 3 for 100 s, half of it, a MIG instance of GPU 4 for 50 s, and not GPU 5. */
static Usage usage;
static const char *const notes[] = {"a note", "and another", "status 500: \033[31mred\r\n\xff"};
static UsageRun run;

static void put_mean(UsageDevice *d, UsageMean mean, double own, double all)
{
    d->known_s[mean] = 10;
    d->own[mean] = 10 * own;
    d->sum[mean] = 10 * all;
}

static void begin_device(UsageDevice *d, uint32_t index, double held_s)
{
    memset(d, 0, sizeof *d);
    device_init(&d->device, DEVICE_GPU);
    d->device.index = d->gpu_index = index;
    d->gpu_share = 1;
    d->held_s = held_s;
    d->temperature_max_c = d->memory_before_bytes = d->memory_total_bytes = d->memory_peak_bytes =
        d->device_peak_bytes = NAN;
    snprintf(d->device.uuid, sizeof d->device.uuid, "GPU-%u", index);
    snprintf(d->device.name, sizeof d->device.name, "NVIDIA H100");
}

static void fill_whole(UsageDevice *d)
{
    begin_device(d, 3, 100);
    d->device.has_pci = true;
    d->device.pci.bus = 0x1b;
    d->share_s = 50;
    d->attribution_s[ATTRIBUTION_SAMPLED] = 80;
    d->attribution_s[ATTRIBUTION_EXCLUSIVE] = 20;
    d->gap_s = 7;
    d->processes = 4;
    put_mean(d, USAGE_SM, .3, .6);
    put_mean(d, USAGE_UTIL, .45, .9);
    put_mean(d, USAGE_TENSOR, .2, .4);
    put_mean(d, USAGE_DRAM, .1, .2);
    put_mean(d, USAGE_POWER, 250, 500);
    d->activity_s[ACTIVITY_WORKING][0] = 60;
    d->activity_s[ACTIVITY_WAITING][ACTIVITY_CAUSE_INPUT] = 39.8;
    d->activity_s[ACTIVITY_IDLE_HELD][0] = .2; /* not worth a word */
    d->verdict_s[ACTIVITY_WORKING][WHY_TENSOR_CORES][WHY_HIGH] = 60;
    d->verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_MEDIUM] = 39.8;
    d->energy_j = 25000;
    d->energy_basis = USAGE_ENERGY_COUNTER;
    d->throttle_known = true;
    d->throttled_s = 10;
    d->throttle_s[USAGE_THROTTLE_POWER] = 71;
    d->throttle_s[USAGE_THROTTLE_THERMAL] = 10;
    d->throttle_s[USAGE_THROTTLE_BRAKE] = .1;
    d->temperature_max_c = 71;
    d->memory_before_bytes = gib;
    d->memory_total_bytes = 80 * gib;
    d->memory_peak_bytes = 20 * gib;
    d->device_peak_bytes = 50 * gib;
    d->xid_count = 2;
    d->xids[0] = (UsageXid){.xid = 31, .count = 2, .first_real_ns = 5 * NS_PER_S};
    d->xids[1] = (UsageXid){.xid = 79, .count = 1, .first_real_ns = 6 * NS_PER_S};
}

static int set_up(void **state)
{
    (void)state;
    usage_init(&usage);
    usage.device_count = 3;
    usage.measured_s = 120;
    usage.memory_peak_bytes = 21 * gib;
    snprintf(usage.hostname, sizeof usage.hostname, "node-7");
    snprintf(usage.driver_version, sizeof usage.driver_version, "550.54");
    fill_whole(&usage.devices[0]);
    begin_device(&usage.devices[1], 4, 50);
    usage.devices[1].device.kind = DEVICE_COMPUTE_INSTANCE;
    usage.devices[1].device.gpu_instance = 7;
    usage.devices[1].device.compute_instance = 1;
    usage.devices[1].device.uuid[0] = '\0';
    usage.devices[1].share_s = 50;
    usage.devices[1].attribution_s[ATTRIBUTION_MIG] = 50;
    snprintf(usage.devices[1].profile, sizeof usage.devices[1].profile, "1g.10gb");
    begin_device(&usage.devices[2], 5, 0);
    usage.problem_count = 2;
    usage.problems[0] = (UsageProblem){.class = "thermal",
                                       .title = "GPU 3 is hot",
                                       .severity = SEVERITY_WARNING,
                                       .gpu_index = 3,
                                       .first_real_ns = 7 * NS_PER_S};
    usage.problems[1] = (UsageProblem){
        .class = "clock", .title = "the clock", .severity = SEVERITY_INFO, .gpu_index = DEVICE_NO_NUMBER};
    run = (UsageRun){.version = "1.2",
                     .command = "train",
                     .started_real_ns = 10 * NS_PER_S,
                     .wall_ns = 130 * NS_PER_S,
                     .exit_status = 3,
                     .notes = notes,
                     .note_count = ARRAY_LEN(notes)};
    return 0;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static const char *write_text(bool utf8)
{
    static char copy[1 << 14];
    CLEANUP(str_done) Str text = str_limited(sizeof copy - 1);

    usage_text(&usage, &run, utf8, &text);
    snprintf(copy, sizeof copy, "%s", text.text);
    return copy;
}

/* Whole lines. */
static void expect_lines(const char *lines)
{
    const char *text = write_text(false), *at = strstr(text, lines);

    if (!at || (at != text && at[-1] != '\n'))
        fail_msg("no '%s' in\n%s", lines, text);
}

static void each_line_says_its_numbers(void **state)
{
    (void)state;
    expect_lines("stoker run: train: 2m10s, exit status 3; 2 GPUs, 6.9 Wh, 21.0 GiB of GPU memory at its peak\n"
                 "  note: a note\n"
                 "  note: and another\n"
                 "  note: status 500: ?[31mred? ?\n" /* a terminal obeys no server */
                 "\n"
                 "GPU 3 H100: held for 1m40s, shared: 50 % of its work is this command's, by the driver's samples\n"
                 "  activity   working 60 %, waiting (input) 40 %\n"
                 "  verdict    ");
    expect_lines("  work       SM active 30 %, tensor cores 20 %, memory interface 10 %, a kernel ran 45 %; of all "
                 "programs: SM active 60 %\n"
                 "  memory     20.0 GiB at its peak of 80.0 GiB; 1.00 GiB in use before\n"
                 "  power      250 W on average, 6.9 Wh, at most 71 C\n"
                 "  throttled  10 % of the time, temperature 10 %\n"
                 "  at limit   71 % of the time at its power limit\n"
                 "  gap        7.00 s without a reading\n"
                 "  problem    XID 31, 2 times; 'stoker xid 31' explains it\n"
                 "             XID 79, 1 time; 'stoker xid 79' explains it\n"
                 "\n"
                 "GPU 4 instance 7/1 (1g.10gb): held for 50.00 s, alone on the instance\n"
                 "  activity   \n"
                 "  work       not known: the driver gave no reading\n"
                 "\n"
                 "Problem: GPU 3 is hot\n");
    assert_null(strstr(write_text(false), "the clock"));
    assert_null(strstr(write_text(false), "GPU 5"));
    assert_non_null(strstr(write_text(true), "at most 71 \u00b0C\n"));
}

static void verdicts_are_told_with_the_advice_of_the_largest(void **state)
{
    UsageDevice *d = &usage.devices[0];
    char lines[512];

    (void)state;
    snprintf(lines, sizeof lines, "  verdict    %s: 60 %%\n             %s: 40 %% (medium confidence)\n  advice     ",
             why_causes[WHY_TENSOR_CORES].title, why_causes[WHY_INPUT].title);
    expect_lines(lines);
    d->verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_MEDIUM] = 10; /* a tenth is worth advice */
    assert_non_null(strstr(write_text(false), "\n  advice "));
    d->verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_MEDIUM] = 9.9;
    assert_null(strstr(write_text(false), "\n  advice "));
    d->verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_MEDIUM] = 0;
    d->verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_LOW] = 30; /* a guess is none */
    assert_null(strstr(write_text(false), "\n  advice "));
    assert_non_null(strstr(write_text(false), "(low confidence)"));
    d->verdict_s[ACTIVITY_WAITING][WHY_INPUT][WHY_LOW] = .4; /* not worth a line */
    assert_null(strstr(write_text(false), why_causes[WHY_INPUT].title));
}

static void whose_work_it_is_is_told(void **state)
{
    static const struct {
        Attribution attribution;
        const char *text;
    } kinds[] = {
        {ATTRIBUTION_EXCLUSIVE, "GPU 3 H100: held for 1m40s, alone on it\n"},
        {ATTRIBUTION_SAMPLED, "GPU 3 H100: held for 1m40s, shared: 50 % of its work is this command's, by the "},
        {ATTRIBUTION_EVEN, "GPU 3 H100: held for 1m40s, shared: 50 % of it counted, an equal part per process\n"},
        {ATTRIBUTION_UNKNOWN, "GPU 3 H100: held for 1m40s, counted whole: whose work it does is not known\n"},
    };
    UsageDevice *d = &usage.devices[0];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        memset(d->attribution_s, 0, sizeof d->attribution_s);
        d->attribution_s[kinds[i].attribution] = 100;
        expect_lines(kinds[i].text);
    }
    d->share_s = 99.6; /* nearly all of it */
    assert_null(strstr(write_text(false), "of all programs"));
}

static void what_is_not_known_is_left_out(void **state)
{
    UsageDevice *d = &usage.devices[0];

    (void)state;
    d->gap_s = 0;
    d->throttled_s = .4;
    assert_null(strstr(write_text(false), "  gap "));
    assert_null(strstr(write_text(false), "  throttled "));
    d->throttled_s = 10;
    d->throttle_known = false;
    assert_null(strstr(write_text(false), "  throttled "));
    assert_null(strstr(write_text(false), "  at limit "));
    d->memory_before_bytes = NAN;
    expect_lines("  memory     20.0 GiB at its peak of 80.0 GiB\n");
    d->memory_total_bytes = NAN;
    expect_lines("  memory     20.0 GiB at its peak\n");
    d->memory_peak_bytes = NAN;
    assert_null(strstr(write_text(false), "  memory "));
    d->temperature_max_c = NAN;
    expect_lines("  power      250 W on average, 6.9 Wh\n");
    d->known_s[USAGE_POWER] = 0;
    expect_lines("  power      6.9 Wh\n");
    d->energy_basis = USAGE_ENERGY_UNKNOWN;
    assert_null(strstr(write_text(false), "  power "));
    d->known_s[USAGE_SM] = 0;
    expect_lines("  work       tensor cores 20 %, memory interface 10 %, utilisation (a kernel ran) 45 %; of all "
                 "programs: utilisation 90 %\n");
    d->held_s = 0; /* it came in this tick */
    d->now.held = true;
    expect_lines("GPU 3 H100: held for 0.00 s\n\nGPU 4");
    d->gpu_index = DEVICE_NO_NUMBER;
    expect_lines("GPU H100: held for 0.00 s\n");
}

static void numbers_have_their_units(void **state)
{
    static const struct {
        double joules;
        const char *text;
    } energies[] = {{3599, ", 3599 J,"}, {3600, ", 1.0 Wh,"}, {3.59e6, ", 997.2 Wh,"}, {3.6e6, ", 1.00 kWh,"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(energies); i++) {
        usage.devices[0].energy_j = energies[i].joules;
        assert_non_null(strstr(write_text(false), energies[i].text));
    }
    run.wall_ns = 99990 * NS_PER_MS;
    assert_non_null(strstr(write_text(false), "train: 99.99 s, exit"));
    run.wall_ns = 100 * NS_PER_S;
    assert_non_null(strstr(write_text(false), "train: 1m40s, exit"));
    run.signal = 9;
    assert_non_null(strstr(write_text(false), ", ended by signal 9; 2 GPUs"));
    usage.device_count = 1;
    assert_non_null(strstr(write_text(false), "; 1 GPU,"));
    usage.device_count = 0;
    assert_non_null(strstr(write_text(false), "; no process of it was on a GPU"));
    usage.measured_s = 0;
    assert_null(strstr(write_text(false), "no process of it"));
}

static void a_cost_has_its_price(void **state)
{
    (void)state;
    assert_null(strstr(write_text(false), "  cost "));
    usage_set_price(&usage, "GPU-3", "list owned 36 EUR"); /* half of it for 100 s */
    expect_lines("  cost       0.5000 EUR (list, 36.00 EUR an hour of a whole GPU)\n");
    usage_set_price(&usage, "GPU-3", "list owned 72 EUR");
    expect_lines("  cost       1.00 EUR (list, 72.00 EUR an hour of a whole GPU)\n");
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

/* The member at "gpus.0.held_s". */
static const json_t *find_member(const json_t *from, const char *path)
{
    char copy[128], *rest = copy, *name;

    snprintf(copy, sizeof copy, "%s", path);
    while (from && (name = strsep(&rest, ".")))
        from = json_is_array(from) ? json_array_get(from, (size_t)(name[0] - '0')) : json_object_get(from, name);
    return from;
}

/* 20 and 20.0 are the same. */
static bool is_same(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;

    if (json_is_number(a) && json_is_number(b))
        return fabs(json_number_value(a) - json_number_value(b)) < 1e-9;
    if (!json_is_object(a) || !json_is_object(b))
        return json_equal(a, b);
    json_object_foreach((json_t *)(uintptr_t)b, key, value)
    {
        if (!is_same(json_object_get(a, key), value))
            return false;
    }
    return json_object_size(a) == json_object_size(b);
}

static void each_member_has_its_value(void **state)
{
    static const struct {
        const char *path, *value; /* as JSON writes it */
    } members[] = {
        {"version", "1"},
        {"stoker", "\"1.2\""},
        {"command", "\"train\""},
        {"node", "\"node-7\""},
        {"driver", "\"550.54\""},
        {"started", "\"1970-01-01T00:00:10.000Z\""},
        {"ended", "\"1970-01-01T00:02:20.000Z\""},
        {"wall_s", "130"},
        {"exit_status", "3"},
        {"signal", "null"},
        {"measured_s", "120"},
        {"energy_j", "25000"},
        {"memory_peak_bytes", "22548578304"},
        {"currency", "\"EUR\""},
        {"notes.1", "\"and another\""},
        {"gpus.0.gpu", "3"},
        {"gpus.0.instance", "null"},
        {"gpus.0.uuid", "\"GPU-3\""},
        {"gpus.0.pci", "\"00000000:1B:00.0\""},
        {"gpus.0.model", "\"H100\""},
        {"gpus.0.profile", "null"},
        {"gpus.0.held_s", "100"},
        {"gpus.0.gap_s", "7"},
        {"gpus.0.processes", "4"},
        {"gpus.0.attribution", "\"sampled\""},
        {"gpus.0.share", "0.5"},
        {"gpus.0.attribution_s", "{\"exclusive\":20,\"sampled\":80}"},
        {"gpus.0.utilization", "0.45"},
        {"gpus.0.device.utilization", "0.9"},
        {"gpus.0.device.power_mean_w", "500"},
        {"gpus.0.device.memory_peak_bytes", "53687091200"},
        {"gpus.0.memory_peak_bytes", "21474836480"},
        {"gpus.0.memory_before_bytes", "1073741824"},
        {"gpus.0.memory_total_bytes", "85899345920"},
        {"gpus.0.energy_j", "25000"},
        {"gpus.0.energy_basis", "\"counter\""},
        {"gpus.0.price", "\"list\""},
        {"gpus.0.temperature_max_c", "71"},
        {"gpus.0.throttled_share", "0.1"},
        {"gpus.0.throttled_s", "{\"power_brake\":0.1,\"thermal\":10}"},
        {"gpus.0.power_limit_s", "71"},
        {"gpus.0.xids", "[{\"count\":2,\"first\":\"1970-01-01T00:00:05.000Z\",\"xid\":31},"
                        "{\"count\":1,\"first\":\"1970-01-01T00:00:06.000Z\",\"xid\":79}]"},
        {"gpus.1.gpu", "4"},
        {"gpus.1.instance", "{\"compute_instance\":1,\"gpu_instance\":7}"},
        {"gpus.1.uuid", "null"},
        {"gpus.1.pci", "null"},
        {"gpus.1.profile", "\"1g.10gb\""},
        {"gpus.1.share", "1"},
        {"gpus.1.energy_j", "null"},
        {"gpus.1.energy_basis", "\"unknown\""},
        {"gpus.1.cost", "null"},
        {"gpus.1.price", "null"},
        {"gpus.1.memory_peak_bytes", "null"},
        {"gpus.1.throttled_share", "null"},
        {"gpus.1.throttled_s", "{\"power_brake\":null,\"thermal\":null}"},
        {"gpus.1.power_limit_s", "null"},
        {"verdicts.1.gpu", "3"},
        {"verdicts.1.activity", "\"waiting\""},
        {"verdicts.1.cause", "\"input\""},
        {"verdicts.1.confidence", "\"medium\""},
        {"verdicts.1.seconds", "39.8"},
        {"verdicts.1.share", "0.398"},
        {"problems.0", "{\"class\":\"thermal\",\"first\":\"1970-01-01T00:00:07.000Z\",\"gpu\":3,"
                       "\"severity\":\"warning\",\"title\":\"GPU 3 is hot\"}"},
        {"problems.1.gpu", "null"},
    };
    CLEANUP(str_done) Str text = str_limited(1 << 16);
    json_t *report;

    (void)state;
    usage_set_price(&usage, "GPU-3", "list owned 36 EUR");
    usage_json(&usage, &run, &text);
    assert_int_equal(text.text[text.len - 1], '\n');
    report = json_loadb(text.text, text.len, 0, NULL);
    assert_non_null(report);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        json_t *wanted = json_loads(members[i].value, JSON_DECODE_ANY, NULL);

        if (!is_same(find_member(report, members[i].path), wanted))
            fail_msg("%s: %s", members[i].path, text.text);
        json_decref(wanted);
    }
    assert_true(fabs(json_number_value(find_member(report, "cost")) - .5) < 1e-9);
    assert_true(fabs(json_number_value(find_member(report, "gpus.0.cost")) - .5) < 1e-9);
    assert_int_equal(json_array_size(find_member(report, "gpus")), 2);
    assert_int_equal(json_array_size(find_member(report, "verdicts")), 2);
    json_decref(report);
}

/* A line of the series: what is on the devices that the group holds now. */
static void a_line_is_of_this_instant(void **state)
{
    static const char *const paths[] = {"sm_active",     "utilization", "tensor_active", "dram_active", "power_w",
                                        "temperature_c", "share",       "memory_bytes",  "energy_j"};
    static const double values[] = {.5, .9, .3, .2, 400, 60, .25, 4096, 25000};
    static Why why = {.count = 1, .verdicts = {{.cause = WHY_FP64}}};
    NodeGpu gpu = {.verdicts = &why, .activity = {.word = ACTIVITY_WORKING}};
    const Node node = {.gpus = &gpu, .gpu_count = 1, .real_ns = 20 * NS_PER_S};
    CLEANUP(str_done) Str text = str_limited(1 << 16);
    UsageDevice *d = &usage.devices[0];
    json_t *line;

    (void)state;
    reading_init(&gpu.reading, DEVICE_GPU);
    gpu.reading.device = d->device;
    sample_set_double(&gpu.reading.sample[METRIC_PROF_SM_ACTIVE], 1, .5);
    sample_set_double(&gpu.reading.sample[METRIC_GPU_UTIL], 1, 90);
    sample_set_double(&gpu.reading.sample[METRIC_PROF_PIPE_TENSOR_ACTIVE], 1, .3);
    sample_set_double(&gpu.reading.sample[METRIC_PROF_DRAM_ACTIVE], 1, .2);
    sample_set_double(&gpu.reading.sample[METRIC_POWER_USAGE], 1, 400);
    sample_set_double(&gpu.reading.sample[METRIC_GPU_TEMP], 1, 60);
    d->now = (UsagePart){.held = true, .attribution = ATTRIBUTION_EVEN, .share = .25, .memory_bytes = 4096};
    usage_json_line(&usage, &node, &text);
    line = json_loadb(text.text, text.len, 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(find_member(line, "time")), "1970-01-01T00:00:20.000Z");
    assert_string_equal(json_string_value(find_member(line, "gpus.0.activity")), "working");
    assert_string_equal(json_string_value(find_member(line, "gpus.0.cause")), "fp64");
    assert_string_equal(json_string_value(find_member(line, "gpus.0.attribution")), "even");
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (!(fabs(json_number_value(json_object_get(find_member(line, "gpus.0"), paths[i])) - values[i]) < 1e-9))
            fail_msg("%s: %s", paths[i], text.text);
    json_decref(line);
    str_clear(&text);
    usage_json_self(&usage, &node, 70, "trainer", &text); /* the same, of a process that is asked for */
    line = json_loadb(text.text, text.len, 0, NULL);
    assert_int_equal(json_integer_value(find_member(line, "pid")), 70);
    assert_string_equal(json_string_value(find_member(line, "name")), "trainer");
    assert_string_equal(json_string_value(find_member(line, "time")), "1970-01-01T00:00:20.000Z");
    assert_string_equal(json_string_value(find_member(line, "gpus.0.activity")), "working");
    assert_int_equal(text.text[text.len - 1], '\n');
    json_decref(line);
    d->now.memory_bytes = UINT64_MAX; /* not known, as the other two */
    d->energy_basis = USAGE_ENERGY_UNKNOWN;
    d->gpu_index = DEVICE_NO_NUMBER;
    str_clear(&text);
    usage_json_line(&usage, &node, &text);
    line = json_loadb(text.text, text.len, 0, NULL);
    assert_true(json_is_null(find_member(line, "gpus.0.memory_bytes")));
    assert_true(json_is_null(find_member(line, "gpus.0.energy_j")));
    assert_true(json_is_null(find_member(line, "gpus.0.gpu")));
    json_decref(line);
    d->now.held = false;
    text.len = 0;
    usage_json_line(&usage, &node, &text);
    line = json_loadb(text.text, text.len, 0, NULL);
    assert_non_null(line);
    assert_int_equal(json_array_size(find_member(line, "gpus")), 0);
    json_decref(line);
}

/* A MIG device has its own readings and words, and the power and temperature of its GPU. */
static void a_line_of_an_instance_has_its_gpus_power(void **state)
{
    static Why why[] = {{.count = 1, .verdicts = {{.cause = WHY_FP64}}},
                        {.count = 1, .verdicts = {{.cause = WHY_INPUT}}}};
    static Activity words[] = {{.word = ACTIVITY_FREE}, {.word = ACTIVITY_WAITING}};
    Reading instances[2];
    NodeGpu gpu = {.instances = instances, .instance_count = 2, .instance_activity = words, .instance_verdicts = why};
    const Node node = {.gpus = &gpu, .gpu_count = 1};
    CLEANUP(str_done) Str text = str_limited(1 << 16);
    UsageDevice *d = &usage.devices[0];
    json_t *line;

    (void)state;
    reading_init(&gpu.reading, DEVICE_GPU);
    for (uint32_t i = 0; i < 2; i++) {
        reading_init(&instances[i], DEVICE_COMPUTE_INSTANCE);
        instances[i].device.gpu_instance = 7 + i;
        instances[i].device.compute_instance = 0;
        snprintf(instances[i].device.uuid, sizeof instances[i].device.uuid, "MIG-%u", i);
        snprintf(instances[i].device.parent_uuid, sizeof instances[i].device.parent_uuid, "GPU-3");
    }
    sample_set_double(&gpu.reading.sample[METRIC_POWER_USAGE], 1, 400);
    sample_set_double(&instances[1].sample[METRIC_POWER_USAGE], 1, 1);
    sample_set_double(&instances[1].sample[METRIC_PROF_SM_ACTIVE], 1, .5);
    d->device = instances[1].device;
    d->now = (UsagePart){.held = true};
    usage_json_line(&usage, &node, &text);
    line = json_loadb(text.text, text.len, 0, NULL);
    assert_int_equal(json_array_size(find_member(line, "gpus")), 1);
    assert_string_equal(json_string_value(find_member(line, "gpus.0.uuid")), "MIG-1");
    assert_string_equal(json_string_value(find_member(line, "gpus.0.activity")), "waiting");
    assert_string_equal(json_string_value(find_member(line, "gpus.0.cause")), "input");
    assert_true(fabs(json_number_value(find_member(line, "gpus.0.sm_active")) - .5) < 1e-9);
    assert_true(fabs(json_number_value(find_member(line, "gpus.0.power_w")) - 400) < 1e-9);
    json_decref(line);
    gpu.instance_activity = NULL;
    gpu.instance_verdicts = NULL;
    str_clear(&text);
    usage_json_line(&usage, &node, &text);
    line = json_loadb(text.text, text.len, 0, NULL);
    assert_true(json_is_null(find_member(line, "gpus.0.activity")));
    assert_true(json_is_null(find_member(line, "gpus.0.cause")));
    json_decref(line);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup(test, set_up)
    static const struct CMUnitTest tests[] = {
        TEST(each_line_says_its_numbers),
        TEST(verdicts_are_told_with_the_advice_of_the_largest),
        TEST(whose_work_it_is_is_told),
        TEST(what_is_not_known_is_left_out),
        TEST(numbers_have_their_units),
        TEST(a_cost_has_its_price),
        TEST(each_member_has_its_value),
        TEST(a_line_is_of_this_instant),
        TEST(a_line_of_an_instance_has_its_gpus_power),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
