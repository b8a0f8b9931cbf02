/* SPDX-License-Identifier: Apache-2.0 */
/* service/why: which devices a name stands for, and the text and JSON of their verdicts. */
#include <errno.h>
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
#include "service/why/why.h"

enum { GPUS = 4, PROCESSES = 5, WIDE = 300 };

/* GPU 0 and 1 train for one job, GPU 2 has two MIG instances with a pod on the second, GPU 3 is free. */
static NodeGpu gpus[GPUS];
static NodeProcess on_gpu[GPUS][2];
static ProcessOwner owners[PROCESSES];
static Reading slices[2];
static Activity activities[2];
static Why verdicts[GPUS], slice_verdicts[2];
static Node node;
static Snapshot snapshot;

static void put_process(size_t gpu, uint32_t pid, uint32_t gpu_instance)
{
    on_gpu[gpu][gpus[gpu].process_count++] =
        (NodeProcess){.pid = pid,
                      .gpu_instance = gpu_instance,
                      .compute_instance = gpu_instance == DEVICE_NO_NUMBER ? gpu_instance : 0};
}

static int set_up(void **state)
{
    (void)state;
    memset(gpus, 0, sizeof gpus);
    memset(verdicts, 0, sizeof verdicts);
    memset(slice_verdicts, 0, sizeof slice_verdicts);
    memset(activities, 0, sizeof activities);
    node = (Node){.hostname = "node-7", .real_ns = UINT64_C(1767614400) * NS_PER_S, .gpus = gpus, .gpu_count = GPUS};
    snapshot = (Snapshot){.node = &node, .processes = {.at = owners, .len = PROCESSES}};
    for (uint32_t i = 0; i < GPUS; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        gpus[i].reading.device.index = i;
        snprintf(gpus[i].reading.device.uuid, DEVICE_UUID_CAP, "GPU-%u", i);
        snprintf(gpus[i].reading.device.name, sizeof gpus[i].reading.device.name, "NVIDIA H100");
        gpus[i].state = GPU_UP;
        sample_set_int64(&gpus[i].process_list, 1, 0);
        gpus[i].processes = on_gpu[i];
        gpus[i].verdicts = &verdicts[i];
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        process_owner_init(&owners[i], 100 + i);
        snprintf(owners[i].name, sizeof owners[i].name, "python");
        snprintf(owners[i].user, sizeof owners[i].user, "ada");
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(owners[i].job, sizeof owners[i].job, "4711.0");
        gpus[i].activity.word = ACTIVITY_WORKING;
        verdicts[i] =
            (Why){.window_s = 60,
                  .count = 1,
                  .verdicts = {{.cause = WHY_TENSOR_CORES,
                                .confidence = WHY_HIGH,
                                .share = .9,
                                .evidence_count = 2,
                                .evidence = {{"DCGM_FI_PROF_SM_ACTIVE", "SM active", WHY_UNIT_RATIO, .9},
                                             {"/proc/PID/io", "written", WHY_UNIT_BYTES_PER_SECOND, 2.5e6, 1}},
                                .names = {"4712.0"},
                                .text = "computes on tensor cores"}}};
    }
    verdicts[0].roof = (Roof){.nearest = ROOF_COMPUTE,
                              .window_s = 60,
                              .flops = 6e14,
                              .flops_low = 3e14,
                              .flops_high = 1.2e15,
                              .flops_peak = 9.89e14,
                              .flops_share = .61,
                              .bytes = NAN,
                              .bytes_share = NAN,
                              .intensity = NAN,
                              .position = .61,
                              .type = "fp16",
                              .absent = "memory activity: stale",
                              .text = "about 600 TFLOP/s"};
    put_process(0, 100, DEVICE_NO_NUMBER);
    put_process(1, 101, DEVICE_NO_NUMBER);
    put_process(2, 102, 7);
    put_process(2, 103, 8);
    gpus[2].instances = slices;
    gpus[2].instance_count = 2;
    gpus[2].instance_activity = activities;
    gpus[2].instance_verdicts = slice_verdicts;
    for (uint32_t k = 0; k < 2; k++) {
        reading_init(&slices[k], DEVICE_COMPUTE_INSTANCE);
        slices[k].device.gpu_instance = 7 + k;
        slices[k].device.compute_instance = 0;
        snprintf(slices[k].device.uuid, DEVICE_UUID_CAP, "MIG-%u", k);
        snprintf(slices[k].profile, sizeof slices[k].profile, "1g.10gb");
        activities[k] = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    }
    snprintf(owners[3].pod, sizeof owners[3].pod, "chat-0");
    snprintf(owners[3].namespace, sizeof owners[3].namespace, "serving");
    snprintf(owners[3].pod_uid, sizeof owners[3].pod_uid, "0a1b2c3d");
    snprintf(owners[3].container, sizeof owners[3].container, "0123456789abcdef");
    slice_verdicts[1] = (Why){
        .window_s = 30,
        .count = 2,
        .verdicts = {{.cause = WHY_UNCLEAR,
                      .confidence = WHY_LOW,
                      .share = NAN,
                      .between_count = 2,
                      .between = {WHY_INPUT, WHY_LAUNCHES},
                      .text = "no cause stands out"},
                     {.cause = WHY_MEMORY_FULL, .confidence = WHY_MEDIUM, .share = .25, .text = "its memory is full"}}};
    gpus[3].activity.word = ACTIVITY_FREE;
    verdicts[3] = (Why){.window_s = 60,
                        .count = 1,
                        .verdicts = {{.cause = WHY_FREE, .confidence = WHY_HIGH, .share = 1, .text = "nobody"}}};
    return 0;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static void a_name_is_a_device_a_pid_or_work(void **state)
{
    static const struct {
        const char *name;
        int gpu, instance; /* -1: any */
        uint32_t pid;
        const char *job;
    } names[] = {
        {NULL, -1, -1, 0, ""},
        {"", -1, -1, 0, ""},
        {"1", 1, -1, 0, ""},
        {"GPU-2", 2, -1, 0, ""},
        {"gpu-2", 2, -1, 0, ""},
        {"MIG-1", 2, 1, 0, ""},
        {"103", -1, -1, 103, ""},
        {"4711", -1, -1, 0, "4711"},
        {"4711.0", -1, -1, 0, "4711.0"},
        {"chat-0", -1, -1, 0, "chat-0"},
        {"serving/chat-0", -1, -1, 0, "serving/chat-0"},
        {"0a1b2c3d", -1, -1, 0, "0a1b2c3d"},
        {"0123456789ab", -1, -1, 0, "0123456789ab"},
    };
    static const char *const nobody[] = {
        "4",      "104",         "99",          "471",          "47110",        "4711.1",  "chat",     "ada",
        "python", "0123456789a", "0a1b2c3d-no", "0123456789ac", "other/chat-0", "/chat-0", "serving/", "/"};
    WhyAsk ask;
    Err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(why_find_subject(&snapshot, names[i].name, &ask, &err), 0);
        assert_ptr_equal(ask.gpu, names[i].gpu < 0 ? NULL : &gpus[names[i].gpu]);
        assert_ptr_equal(ask.instance, names[i].instance < 0 ? NULL : &slices[names[i].instance]);
        assert_int_equal(ask.pid, names[i].pid);
        assert_string_equal(ask.job, names[i].job);
    }
    for (size_t i = 0; i < ARRAY_LEN(nobody); i++) {
        if (why_find_subject(&snapshot, nobody[i], &ask, &err) != -ENOENT)
            fail_msg("'%s' was found", nobody[i]);
        assert_true(!ask.gpu && !ask.pid && !ask.job[0]);
    }
}

/* A GPU whose driver hangs has no list of processes, and keeps the owners that it had; one may be given and not used.
 */
static void work_is_found_by_who_holds_a_gpu(void **state)
{
    static const HoldingProcess process = {.pid = 977};
    static const Holding held[] = {
        {.gpu = 3,
         .gpu_instance = DEVICE_NO_NUMBER,
         .compute_instance = DEVICE_NO_NUMBER,
         .owner = {.job = "977001", .pid = 977},
         .process_count = 1,
         .processes = &process},
        {.gpu = 2,
         .gpu_instance = 7,
         .compute_instance = 0,
         .owner = {.pod = "late-0", .namespace = "serving", .pid = -1}},
    };
    static const char *const found[] = {"977", "977001", "late-0", "serving/late-0"};
    static const char *const nobody[] = {"97", "97700", "977001.0", "other/late-0"};
    WhyAsk ask;
    Err err;

    (void)state;
    snapshot.holdings = held;
    snapshot.holding_count = ARRAY_LEN(held);
    for (size_t i = 0; i < ARRAY_LEN(found); i++)
        assert_int_equal(why_find_subject(&snapshot, found[i], &ask, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(nobody); i++)
        assert_int_equal(why_find_subject(&snapshot, nobody[i], &ask, &err), -ENOENT);
    snapshot.holdings = NULL;
    snapshot.holding_count = 0;
}

/* That there is none of this name is a claim, which takes readings of all. */
static void a_name_is_not_known_where_a_gpu_cannot_be_read(void **state)
{
    WhyAsk ask;
    Err err;

    (void)state;
    gpus[3].state = GPU_STARTING;
    assert_int_equal(why_find_subject(&snapshot, "0", &ask, &err), 0);
    assert_int_equal(why_find_subject(&snapshot, "471", &ask, &err), -EIO);
    assert_string_equal(err.text,
                        "'471' is not found, and not all GPUs can be read: the driver has not answered for it yet");
    node.gpu_count = 0;
    snprintf(node.driver_why, sizeof node.driver_why, "no driver is loaded");
    assert_int_equal(why_find_subject(&snapshot, "0", &ask, &err), -EIO);
    assert_non_null(strstr(err.text, "no driver is loaded"));
}

/* The devices that are shown for a name, as "0 1 2/7/0". */
static void the_devices_of_a_name_are_shown(void **state)
{
    static const struct {
        const char *name, *shown;
        size_t processes; /* of the last one */
    } asked[] = {
        {"", "0 1 2/7/0 2/8/0 3 ", 0}, {"1", "1 ", 1},      {"2", "2/7/0 2/8/0 ", 1}, {"MIG-1", "2/8/0 ", 1},
        {"102", "2/7/0 ", 1},          {"4711", "0 1 ", 1}, {"chat-0", "2/8/0 ", 1},  {"101", "1 ", 1},
        {"0123456789ab", "2/8/0 ", 1}, {"GPU-3", "3 ", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        CLEANUP(str_done) Str out = str_limited(1 << 20);
        char shown[64] = "";
        size_t at, len = 0, processes = 0;
        json_t *whole, *one;
        WhyAsk ask;
        Err err;

        assert_int_equal(why_find_subject(&snapshot, asked[i].name, &ask, &err), 0);
        why_json(&snapshot, &ask, &out);
        whole = json_loads(out.text, 0, NULL);
        assert_non_null(whole);
        json_array_foreach(json_object_get(whole, "gpus"), at, one)
        {
            const json_t *instance = json_object_get(one, "instance");
            char text[32] = "";

            assert_non_null(instance);
            if (!json_is_null(instance))
                snprintf(text, sizeof text, "/%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
                         json_integer_value(json_object_get(instance, "gpu_instance")),
                         json_integer_value(json_object_get(instance, "compute_instance")));
            len += (size_t)snprintf(shown + len, sizeof shown - len, "%" JSON_INTEGER_FORMAT "%s ",
                                    json_integer_value(json_object_get(one, "gpu")), text);
            processes = json_array_size(json_object_get(one, "processes"));
        }
        assert_string_equal(shown, asked[i].shown);
        assert_int_equal(processes, asked[i].processes);
        json_decref(whole);
    }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void the_json_holds_all_that_is_known(void **state)
{
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    json_t *whole, *wanted, *gpu, *value;
    const char *key;

    (void)state;
    why_json(&snapshot, &(WhyAsk){0}, &out);
    assert_int_equal(out.text[out.len - 1], '\n');
    whole = json_loads(out.text, 0, NULL);
    assert_non_null(whole);
    assert_string_equal(json_string_value(json_object_get(whole, "node")), "node-7");
    assert_string_equal(json_string_value(json_object_get(whole, "time")), "2026-01-05T12:00:00.000Z");
    gpu = json_array_get(json_object_get(whole, "gpus"), 0);
    wanted =
        json_pack("{s:i, s:s, s:n, s:s, s:s, s:n, s:i, s:{s:s, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:i, s:s, s:s}, s:s, "
                  "s:s, s:s, s:f, s:s, s:[], s:[{s:s, s:s, s:s, s:f, "
                  "s:n, s:s}, {s:s, s:s, "
                  "s:s, s:i, s:s, s:s}], s:n, s:s, s:n, s:[], s:[{s:i, s:s, s:s, s:s, s:n}]}",
                  "gpu", 0, "uuid", "GPU-0", "instance", "model", "NVIDIA H100", "activity", "working",
                  "activity_cause", "window_s", 60, "roof", "nearest", "compute", "flops_per_second", 6e14, "flops_low",
                  3e14, "flops_high", 1.2e15, "flops_peak", 9.89e14, "flops_share", .61, "type", "fp16", "position",
                  .61, "window_s", 60, "absent", "memory activity: stale", "text", "about 600 TFLOP/s", "cause",
                  "tensor_cores", "title", why_causes[WHY_TENSOR_CORES].title, "text", "computes on tensor cores",
                  "share", .9, "confidence", "high", "between", "evidence", "counter", "DCGM_FI_PROF_SM_ACTIVE",
                  "label", "SM active", "unit", "ratio", "value", .9, "of", "text", "SM active 90 %", "counter",
                  "/proc/PID/io", "label", "written", "unit", "bytes/s", "value", 2500000, "of", "4712.0", "text",
                  "written of 4712.0 2.5 MB/s", "advice", "next", why_causes[WHY_TENSOR_CORES].next, "incident",
                  "beside", "processes", "pid", 100, "name", "python", "user", "ada", "job", "4711.0", "pod");
    assert_non_null(wanted);
    json_object_foreach(wanted, key, value)
    {
        if (strcmp(key, "advice") != 0 && !json_equal(json_object_get(gpu, key), value))
            fail_msg("%s: %s", key, out.text);
    }
    assert_int_equal(json_object_size(gpu), json_object_size(wanted));
    json_decref(wanted);
    gpu = json_array_get(json_object_get(whole, "gpus"), 3);
    wanted = json_pack("[s, s]", "input", "launches");
    assert_true(json_equal(json_object_get(gpu, "between"), wanted));
    json_decref(wanted);
    assert_true(json_is_null(json_object_get(gpu, "share")));
    assert_string_equal(json_string_value(json_object_get(gpu, "activity_cause")), "input");
    assert_string_equal(json_string_value(json_object_get(gpu, "uuid")), "MIG-1");
    gpu = json_array_get(json_object_get(gpu, "beside"), 0);
    assert_string_equal(json_string_value(json_object_get(gpu, "cause")), "memory_full");
    assert_string_equal(json_string_value(json_object_get(gpu, "advice")), why_causes[WHY_MEMORY_FULL].advice);
    gpu = json_array_get(json_object_get(whole, "gpus"), 2); /* nothing was decided */
    assert_true(json_is_null(json_object_get(gpu, "roof")));
    assert_string_equal(json_string_value(json_object_get(gpu, "cause")), "unknown");
    assert_string_equal(json_string_value(json_object_get(gpu, "text")), "not decided yet");
    json_decref(whole);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void numbers_have_their_units(void **state)
{
    static const struct {
        WhyUnit unit;
        double value;
        const char *text;
    } numbers[] = {
        {WHY_UNIT_RATIO, 0, "x 0 %"},
        {WHY_UNIT_RATIO, .0994, "x 9.9 %"},
        {WHY_UNIT_RATIO, .0995, "x 10 %"},
        {WHY_UNIT_RATIO, 1, "x 100 %"},
        {WHY_UNIT_BYTES_PER_SECOND, 999e6, "x 999 MB/s"},
        {WHY_UNIT_BYTES_PER_SECOND, 1e9, "x 1 GB/s"},
        {WHY_UNIT_BYTES_PER_SECOND, 63.04e9, "x 63 GB/s"},
        {WHY_UNIT_BYTES, 1073741824.0 * 5, "x 5.00 GiB"},
        {WHY_UNIT_CORES, .25, "x 0.2 cores"},
        {WHY_UNIT_SECONDS, 30, "x 30 s"},
        {WHY_UNIT_COUNT, 5, "x 5"},
    };
    char out[WHY_NAME_CAP];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        assert_string_equal(
            why_evidence_text(
                &(WhyVerdict){.evidence = {{.label = "x", .unit = numbers[i].unit, .value = numbers[i].value}}}, 0,
                out),
            numbers[i].text);
}

static const char *write_text(const char *name, bool colour, size_t width)
{
    static char text[1 << 16];
    CLEANUP(str_done) Str out = str_limited(sizeof text - 1);
    WhyAsk ask;
    Err err;

    assert_int_equal(why_find_subject(&snapshot, name, &ask, &err), 0);
    why_text(&snapshot, &ask, &(WhyStyle){.width = width, .colour = colour}, &out);
    snprintf(text, sizeof text, "%s", out.text ? out.text : "");
    return text;
}

static void expect_text(const char *name, const char *wanted)
{
    assert_string_equal(write_text(name, false, WIDE), wanted);
}

static void a_paragraph_says_why(void **state)
{
    char wanted[4096];

    (void)state;
    snprintf(wanted, sizeof wanted,
             "GPU 0  H100  working\n"
             "  why       computes on tensor cores\n"
             "  share     90 %% of 60 s, confidence high\n"
             "  numbers   SM active 90 %%, written of 4712.0 2.5 MB/s\n"
             "  roof      about 600 TFLOP/s\n"
             "  process   python (100) of ada, job 4711.0\n"
             "  next      %s\n",
             why_causes[WHY_TENSOR_CORES].next);
    expect_text("0", wanted);
    snprintf(wanted, sizeof wanted,
             "GPU 2 instance 8/0 1g.10gb  H100  waiting\n"
             "  why       no cause stands out\n"
             "  one of    %s; %s\n"
             "  share     confidence low, by 30 s\n"
             "  process   python (103) of ada, pod chat-0\n",
             why_causes[WHY_INPUT].title, why_causes[WHY_LAUNCHES].title);
    const char *text = write_text("MIG-1", false, WIDE);
    assert_int_equal(strncmp(text, wanted, strlen(wanted)), 0);
    assert_non_null(strstr(text, "  to know   "));
    assert_non_null(strstr(text, "  also      its memory is full\n            "));
    on_gpu[3][1] = on_gpu[3][0] = (NodeProcess){.pid = 104, .gpu_instance = DEVICE_NO_NUMBER};
    on_gpu[3][1].pid = 999; /* nothing is known of it */
    gpus[3].process_count = 2;
    expect_text("3", "GPU 3  H100  free\n"
                     "  why       nobody\n"
                     "  share     100 % of 60 s, confidence high\n"
                     "  process   python (104) of ada, process (999)\n");
    gpus[3].process_count = 0;
    gpus[3].reading.device.index = DEVICE_NO_NUMBER;
    gpus[3].reading.device.has_pci = true;
    assert_int_equal(strncmp(write_text("GPU-3", false, WIDE), "GPU 0000:00:00.0  H100", 22), 0);
    expect_text("MIG-0", "GPU 2 instance 7/0 1g.10gb  H100  waiting\n"
                         "  why       not decided yet\n");
    slice_verdicts[1].verdicts[0].cause = WHY_SMALL_BATCH;
    assert_non_null(strstr(write_text("MIG-1", false, WIDE), "  or        "));
    gpus[3].reading.device.index = 3;
    verdicts[3].window_s = 0; /* without a window there is no share */
    expect_text("3", "GPU 3  H100  free\n"
                     "  why       nobody\n");
}

/* One paragraph for devices of one cause whose first process is of one job, pod and program. */
static void alike_devices_share_a_paragraph(void **state)
{
    static const char alike[] = "GPU 0, 1  H100  working  (numbers of GPU 0)\n", first[] = "GPU 0  H100  working\n";

    (void)state;
    for (int i = 0; i < 9; i++) {
        (void)set_up(NULL);
        const char *title = first;
        switch (i) {
        case 0:
            title = alike;
            break;
        case 1:
            owners[1].job[0] = '5';
            break;
        case 2:
            owners[1].pod[0] = 'x';
            break;
        case 3:
            owners[1].name[0] = 'x';
            break;
        case 4:
            verdicts[1].verdicts[0].cause = WHY_FP64;
            break;
        case 5:
            verdicts[1].verdicts[0].confidence = WHY_MEDIUM;
            break;
        case 6:
            gpus[1].activity.word = ACTIVITY_WAITING;
            break;
        case 7:
            gpus[1].process_count = 0;
            break;
        default: /* without any process they are alike */
            gpus[0].process_count = gpus[1].process_count = 0;
            title = alike;
        }
        const char *text = write_text("", false, WIDE);
        if (strncmp(text, title, strlen(title)) != 0)
            fail_msg("case %d: %s", i, text);
        assert_true((strstr(text, "\n\nGPU 1  H100") != NULL) == (title == first));
        assert_non_null(strstr(text, "\n\nGPU 3  H100  free\n"));
    }
    (void)set_up(NULL);
    gpus[0].activity.word = gpus[1].activity.word = ACTIVITY_UNUSABLE; /* each has its own incident */
    assert_int_equal(strncmp(write_text("", false, WIDE), "GPU 0  H100  unusable\n", 22), 0);
}

static void colours_are_of_the_activity(void **state)
{
    static const struct {
        ActivityWord word;
        const char *colour;
    } colours[] = {{ACTIVITY_WORKING, "\033[32mworking"},
                   {ACTIVITY_UNUSABLE, "\033[31munusable"},
                   {ACTIVITY_FREE, "\033[2mfree"},
                   {ACTIVITY_IDLE_HELD, "\033[33midle held"},
                   {ACTIVITY_WAITING, "\033[33mwaiting"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(colours); i++) {
        gpus[3].activity.word = colours[i].word;
        assert_non_null(strstr(write_text("3", true, WIDE), colours[i].colour));
        assert_null(strchr(write_text("3", false, WIDE), '\033'));
    }
    assert_int_equal(strncmp(write_text("3", true, WIDE), "\033[1mGPU 3\033[0m  H100", 18), 0);
}

static void long_words_are_wrapped(void **state)
{
    (void)state;
    snprintf(verdicts[3].verdicts[0].text, sizeof verdicts[3].verdicts[0].text,
             "one two three four five six seven eight nine ten");
    expect_text("3", "GPU 3  H100  free\n"
                     "  why       one two three four five six seven eight nine ten\n"
                     "  share     100 % of 60 s, confidence high\n");
    for (size_t width = 0; width <= 40; width += 20) /* at least 40 columns */
        assert_non_null(strstr(write_text("3", false, width), "why       one two three four five six\n"
                                                              "            seven eight nine ten\n"));
}

static void a_node_without_a_gpu_says_so(void **state)
{
    (void)state;
    node.gpu_count = 0;
    expect_text("", "No GPU: the driver lists none\n");
    snprintf(node.driver_why, sizeof node.driver_why, "the driver is not loaded");
    expect_text("", "No GPU: the driver is not loaded\n");
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup(test, set_up)
    static const struct CMUnitTest tests[] = {
        TEST(a_name_is_a_device_a_pid_or_work),
        TEST(work_is_found_by_who_holds_a_gpu),
        TEST(a_name_is_not_known_where_a_gpu_cannot_be_read),
        TEST(the_devices_of_a_name_are_shown),
        TEST(the_json_holds_all_that_is_known),
        TEST(numbers_have_their_units),
        TEST(a_paragraph_says_why),
        TEST(alike_devices_share_a_paragraph),
        TEST(colours_are_of_the_activity),
        TEST(long_words_are_wrapped),
        TEST(a_node_without_a_gpu_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
