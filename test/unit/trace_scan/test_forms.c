/* SPDX-License-Identifier: Apache-2.0 */
/* What the scanner makes of each form that events come in. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static Profile profile;

/* Scans a text; then the same in single bytes, which must say the same. */
static int scan_with(const char *text, const TraceScanOptions *options)
{
    const KitWay whole = {0}, bytes = {.piece = 1};
    Profile again;
    Err err = {0};
    Str a, b;

    profile_done(&profile);
    const int rc = kit_scan(text, strlen(text), options, &whole, &profile, &err);
    const int rc_again = kit_scan(text, strlen(text), options, &bytes, &again, &err);

    assert_int_equal(rc, rc_again);
    if (rc == 0) {
        str_init(&a, 64 << 20);
        str_init(&b, 64 << 20);
        kit_print(&profile, &a);
        kit_print(&again, &b);
        assert_string_equal(a.text, b.text);
        str_done(&a);
        str_done(&b);
    }
    profile_done(&again);
    return rc;
}

static void scan(const char *text)
{
    assert_int_equal(scan_with(text, NULL), 0);
}

/* Events between the brackets of a list. */
static void scan_events(const char *events)
{
    Str text;

    str_init(&text, 1 << 20);
    str_addf(&text, "{\"traceEvents\": [%s]}", events);
    scan(text.text);
    str_done(&text);
}

static int done(void **state)
{
    (void)state;
    profile_done(&profile);
    return 0;
}

static const char *name_of(uint32_t name)
{
    return name == PROFILE_NONE ? "(none)" : profile_text(&profile, name, NULL);
}

static uint64_t lost(ProfileLossReason reason)
{
    return profile.lost_by_reason[reason];
}

static void assert_nothing_lost(void)
{
    for (int i = 0; i < PROFILE_LOSS_COUNT; i++)
        assert_int_equal(profile.lost_by_reason[i], 0);
}

#define X(cat, name, pid, tid, ts, dur, args)                                                                          \
    "{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name "\", \"pid\": " pid ", \"tid\": " tid ", \"ts\": " ts    \
    ", \"dur\": " dur ", \"args\": {" args "}}"

/* --- times ---------------------------------------------------------------------------------------------------------
 */

static void times_are_exact(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"4458676522690.655", 4458676522690655},
        {"1695835542514261", 1695835542514261000},
        {"1695835542514261.001", 1695835542514261001},
        {"0.001", 1},
        {"12.5", 12500},
        {"12.3456", 12346},
        {"12.3454", 12345},
        {"12.3455", 12346},
        {"-3.25", -3250},
        {"-0.0005", -1},
        {"1e3", 1000000},
        {"1.5E+2", 150000},
        {"25e-1", 2500},
        {"1e-9", 0},
        {"\"77.125\"", 77125},
        {"1e30", (INT64_C(1) << 61) - 1},
        {"-1e30", -((INT64_C(1) << 61) - 1)},
        {"99999999999999999999999", (INT64_C(1) << 61) - 1},
        {"2305843009213693.950", 2305843009213693950},
        {"00000000000000000012", 12000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Str text;

        str_init(&text, 4096);
        str_addf(&text, X("cpu_op", "a", "1", "1", "%s", "1", ""), cases[i].text);
        scan_events(text.text);
        assert_int_equal(profile.host.len, 1);
        assert_int_equal(profile.host.start[0], cases[i].ns);
        str_done(&text);
    }
}

static void microseconds_are_told(void **state)
{
    (void)state;
    scan_events(X("cpu_op", "a", "1", "1", "10", "1", ""));
    assert_true(profile.microseconds);
    scan_events(X("cpu_op", "a", "1", "1", "10.000", "1.5", ""));
    assert_false(profile.microseconds);
}

static void bad_times_are_lost(void **state)
{
    (void)state;
    scan_events(X("cpu_op", "a", "1", "1", "NaN", "1", "") "," X("cpu_op", "b", "1", "1", "null", "1", "") "," X(
        "cpu_op", "c", "1", "1", "\"x\"", "1",
        "") ","
            "{\"ph\": \"X\", \"name\": \"d\", \"dur\": 1}," X("kernel", "k", "0", "7", "0", "0",
                                                              "") "," X("kernel", "z", "0", "7", "0", "5", ""));
    assert_int_equal(lost(PROFILE_LOSS_NO_TIME), 5);
    assert_int_equal(profile.host.len, 0);
    assert_int_equal(profile.gpu.len, 1);
    assert_string_equal(name_of(profile.gpu.name[0]), "z");
    assert_int_equal(profile.losses.at[4].event, 4);
    assert_string_equal(profile.losses.at[4].excerpt, "k");
}

static void bad_durations_are_said(void **state)
{
    (void)state;
    scan_events(X("cpu_op", "a", "1", "1", "5", "-3", "") "," X("cpu_op", "b", "1", "1", "5", "604800000001", "") "," X(
        "cpu_op", "c", "1", "1", "5", "604800000000", "") ",{\"ph\":\"X\",\"name\":\"d\",\"ts\":1}");
    assert_int_equal(lost(PROFILE_LOSS_BAD_DURATION), 1);
    assert_int_equal(lost(PROFILE_LOSS_NO_TIME), 2);
    assert_int_equal(profile.host.len, 2);
    assert_int_equal(profile.host.duration[0], INT64_C(604800) * 1000000000);
    assert_int_equal(profile.host.duration[1], 0); /* the negative one */
}

/* --- kinds ---------------------------------------------------------------------------------------------------------
 */

static void categories_old_and_new(void **state)
{
    static const struct {
        const char *category;
        ProfileKind kind;
    } cases[] = {
        {"kernel", PROFILE_KERNEL},
        {"Kernel", PROFILE_KERNEL},
        {"gpu_memcpy", PROFILE_COPY},
        {"Memcpy", PROFILE_COPY},
        {"gpu_memset", PROFILE_SET},
        {"Memset", PROFILE_SET},
        {"mtia_ccp_events", PROFILE_KERNEL},
        {"collective_comm", PROFILE_KERNEL},
        {"cuda_runtime", PROFILE_CALL},
        {"Runtime", PROFILE_CALL},
        {"cuda_driver", PROFILE_CALL},
        {"xpu_runtime", PROFILE_CALL},
        {"mtia_runtime", PROFILE_CALL},
        {"glow_runtime", PROFILE_CALL},
        {"hpu_op", PROFILE_CALL},
        {"privateuse1_runtime", PROFILE_CALL},
        {"cpu_op", PROFILE_OP},
        {"Operator", PROFILE_OP},
        {"user_annotation", PROFILE_ANNOTATION},
        {"python_function", PROFILE_PYTHON},
        {"overhead", PROFILE_OVERHEAD},
        {"something new", PROFILE_OTHER},
        {"gpu_user_annotation", PROFILE_GPU_ANNOTATION},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Str text;

        str_init(&text, 4096);
        str_addf(&text, X("%s", "a", "3", "9", "1", "2", "\"stream\": 7, \"device\": 1"), cases[i].category);
        scan_events(text.text);
        const ProfileEvents *table = profile.gpu.len ? &profile.gpu : profile.host.len ? &profile.host : &profile.mark;

        assert_int_equal(table->len, 1);
        assert_int_equal(table->kind[0], cases[i].kind);
        const ProfileLane *lane = &profile.lanes.at[table->lane[0]];
        const bool gpu = cases[i].kind <= PROFILE_SET || cases[i].kind == PROFILE_GPU_ANNOTATION;

        assert_int_equal(lane->gpu, gpu);
        assert_int_equal(lane->tid, gpu ? 7 : 9);
        assert_int_equal(gpu ? lane->device : lane->pid, gpu ? 1 : 3);
        str_done(&text);
    }
    scan_events(X("collective_comm", "a", "3", "9", "1", "2", "")); /* names neither stream nor device */
    assert_int_equal(profile.host.kind[0], PROFILE_OTHER);
}

static void triton_ops_with_a_stream_are_host(void **state)
{
    (void)state;
    scan_events(
        X("cpu_op", "triton_poi", "4", "5", "1", "2", "\"External id\": 3, \"stream\": 7, \"grid\": \"grid(1,)\""));
    assert_int_equal(profile.gpu.len, 0);
    assert_int_equal(profile.host.link[0], 3);
}

static void what_no_analysis_needs_is_counted(void **state)
{
    (void)state;
    scan_events(
        "{\"ph\":\"s\",\"id\":1,\"ts\":1},{\"ph\":\"f\",\"id\":99999999999999999999,\"ts\":1},{\"ph\":\"C\",\"args\":"
        "{\"\":3}},{\"ph\":\"i\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\",\"ts\":9}," X(
            "Trace", "all", "\"Spans\"", "\"P\"", "1", "9", "") "," X("cuda_event", "e", "0", "7", "1", "0", "") ",{}");
    assert_int_equal(profile.events, 7);
    assert_int_equal(profile.ignored, 7);
    assert_nothing_lost();
}

static void kernels_have_launches(void **state)
{
#define LAUNCH                                                                                                         \
    "\"External id\": 12, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": %d, "          \
    "\"registers per thread\": 40, \"shared memory\": 400, \"blocks per SM\": 4.75, \"warps per SM\": 75.5, "          \
    "\"grid\": [512, 2, 1], \"block\": [256, 1, 3], \"est. achieved occupancy %%\": 75"
    Str text;

    (void)state;
    str_init(&text, 8192);
    str_addf(&text, X("kernel", "k", "0", "7", "1", "2", LAUNCH) "," X("kernel", "k", "0", "7", "5", "2", LAUNCH) ",",
             1, 2);
    str_addf(&text,
             X("kernel", "k", "0", "7", "9", "2",
               LAUNCH ", \"graph id\": 3, \"graph node id\": 77, \"occupancy\": "
                      "{\"limitingFactors\": \"WARPS|REGS\", \"x\": {\"grid\": [1]}}"),
             3);
    scan_events(text.text);
    str_done(&text);
    assert_int_equal(profile.launches.len, 2);
    assert_int_equal(profile.gpu.extra[0], profile.gpu.extra[1]);
    const ProfileLaunch *l = &profile.launches.at[profile.gpu.extra[0]];

    assert_int_equal(l->grid[0], 512);
    assert_int_equal(l->grid[1], 2);
    assert_int_equal(l->block[2], 3);
    assert_int_equal(l->registers, 40);
    assert_int_equal(l->shared_bytes, 400);
    assert_true(l->occupancy_percent == 75.0f && l->blocks_per_sm == 4.75f && l->warps_per_sm == 75.5f);
    assert_false(l->in_graph);
    assert_true(profile.launches.at[profile.gpu.extra[2]].in_graph);
    assert_int_equal(profile.gpu.link[2], 3);
    assert_int_equal(profile.gpu.external[2], 12);
}

static void copies_have_sizes(void **state)
{
    (void)state;
    scan_events(X(
        "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "0", "7", "1", "2",
        "\"device\": 0, \"stream\": 7, \"bytes\": 92928, \"memory bandwidth (GB/s)\": 7.744") "," X("gpu_memcpy",
                                                                                                    "Memcpy DtoH "
                                                                                                    "(Device -> "
                                                                                                    "Pinned)",
                                                                                                    "0", "7", "5", "2",
                                                                                                    "\"stream\": "
                                                                                                    "7, "
                                                                                                    "\"bytes\": "
                                                                                                    "8, \"memory "
                                                                                                    "bandwidth "
                                                                                                    "(GB/s)\": "
                                                                                                    "inf") "," X("gpu_"
                                                                                                                 "memse"
                                                                                                                 "t",
                                                                                                                 "Memse"
                                                                                                                 "t "
                                                                                                                 "(Devi"
                                                                                                                 "ce)",
                                                                                                                 "0",
                                                                                                                 "7",
                                                                                                                 "9",
                                                                                                                 "2",
                                                                                                                 "\"str"
                                                                                                                 "eam\""
                                                                                                                 ": 7, "
                                                                                                                 "\"byt"
                                                                                                                 "es\":"
                                                                                                                 " 1"
                                                                                                                 "6"));
    const ProfileCopy *c = profile.copies.at;

    assert_int_equal(profile.copies.len, 3);
    assert_int_equal(c[0].bytes, 92928);
    assert_true(c[0].reported_gbs > 7.7439 && c[0].reported_gbs < 7.7441);
    assert_int_equal(c[0].kind, PROFILE_COPY_HTOD);
    assert_int_equal(c[0].source, PROFILE_MEMORY_PAGEABLE);
    assert_int_equal(c[1].kind, PROFILE_COPY_DTOH);
    assert_true(isnan(c[1].reported_gbs));
    assert_int_equal(c[2].kind, PROFILE_COPY_SET);
    assert_nothing_lost();
}

static void rocm(void **state)
{
    (void)state;
    scan_events(
        X("cuda_runtime", "hipMemcpyWithStream", "5", "5", "1", "2",
          "\"External id\": 8, \"stream\": \"0x0\", \"cid\": 153, \"correlation\": 117, \"src\": \"0x55674ecd4180\","
          " \"size\": \"2560\", \"kind\": \"1\"") "," X("gpu_memcpy", "CopyHostToDevice", "2", "0", "4", "2",
                                                        "\"device\": 2, \"stream\": 0, \"correlation\": 117, \"kind\": "
                                                        "\"HtoD\"") "," X("kernel", "Cijk", "2", "0", "8", "2",
                                                                          "\"device\": 2, \"stream\": 0, "
                                                                          "\"correlation\": 118, "
                                                                          "\"kind\": \"Dispatch Kernel\", \"grid\": "
                                                                          "[64, 1, 1], \"block\": [256, 1, 1]"));
    assert_true(profile.rocm);
    assert_int_equal(profile.gpu.len, 2);
    assert_int_equal(profile.host.link[0], 117);
    const ProfileLane *lane = &profile.lanes.at[profile.gpu.lane[0]];

    assert_true(lane->gpu);
    assert_int_equal(lane->device, 2);
    assert_int_equal(lane->tid, 0);
    assert_int_equal(profile.copies.at[profile.gpu.extra[0]].kind, PROFILE_COPY_HTOD);
    assert_int_equal(profile.launches.at[profile.gpu.extra[1]].grid[0], 64);
}

static void streams_without_args(void **state)
{
    (void)state;
    scan_events(X("Kernel", "a", "0", "\"stream 7\"", "1", "2", "") "," X(
        "kernel", "b", "\"1\"", "\"20\"", "3", "2", "") "," X("kernel", "c", "\"GPU 3\"", "\"nowhere\"", "5", "1", ""));
    assert_int_equal(profile.gpu.len, 3);
    for (size_t i = 0; i < 3; i++) {
        const ProfileLane *lane = &profile.lanes.at[profile.gpu.lane[i]];
        const char which = *name_of(profile.gpu.name[i]);

        assert_int_equal(lane->device, which == 'a' ? 0 : which == 'b' ? 1 : 3);
        assert_int_equal(lane->tid, which == 'a' ? 7 : which == 'b' ? 20 : -1);
    }
}

static void collectives(void **state)
{
#define COLL                                                                                                           \
    "\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 2000, \"Group size\": 8, "       \
    "\"dtype\": \"c10::BFloat16\", \"Process Group Name\": \"0\", \"Process Group Description\": \"default_pg\", "     \
    "\"Process Group Ranks\": \"[0, 1]\", \"Seq\": 44"
    (void)state;
    scan_events(X("kernel", "ncclDevKernel", "0", "20", "3", "2", "\"stream\": 20, \"device\": 0, " COLL) "," X(
        "cpu_op", "record_param_comms", "1", "1", "1", "2",
        "\"External id\": 4, \"Sequence number\": 9, " COLL) "," X("cpu_op", "record_param_comms", "1", "1", "5", "2",
                                                                   "\"Collective name\": \"send\", \"Src Rank\": 1, "
                                                                   "\"Dst Rank\": 0, \"Process Group Ranks\": [0, 1]"));
    assert_int_equal(profile.collectives.len, 3);
    const ProfileCollective *c = &profile.collectives.at[profile.launches.at[profile.gpu.extra[0]].collective];

    assert_string_equal(name_of(c->name), "allreduce");
    assert_string_equal(name_of(c->dtype), "c10::BFloat16");
    assert_string_equal(name_of(c->group), "0");
    assert_string_equal(name_of(c->group_label), "default_pg");
    assert_string_equal(name_of(c->ranks), "[0, 1]");
    assert_int_equal(c->in_elements, 1000);
    assert_int_equal(c->out_elements, 2000);
    assert_int_equal(c->group_size, 8);
    assert_int_equal(c->sequence, 44);
    assert_int_equal(c->source, -1);
    const ProfileOp *op = &profile.ops.at[profile.host.extra[0]];

    assert_int_equal(op->sequence, 9);
    assert_int_equal(profile.collectives.at[op->collective].sequence, 44);
    c = &profile.collectives.at[profile.ops.at[profile.host.extra[1]].collective];
    assert_string_equal(name_of(c->name), "send");
    assert_int_equal(c->source, 1);
    assert_int_equal(c->target, 0);
    assert_string_equal(name_of(c->ranks), "[0, 1]");
}

/* Numbers among the inputs are kept where arithmetic needs them; texts that differ in them alone are two details. */
#define CALL_OF(op, at, list)                                                                                          \
    X("cpu_op", op, "1", "1", at, "2", "\"Input Dims\": [[8]], \"Concrete Inputs\": [\"\", \"" list "\"]")

static void convolutions_have_arguments(void **state)
{
    static const char *const conv = CALL_OF("aten::cudnn_convolution", "1", "[1, 1]");
    static const char *const other = CALL_OF("aten::cudnn_convolution", "5", "[2, 2]");
    Str text = str_limited(4096);

    (void)state;
    str_addf(&text, "%s,%s,%s", conv, other, CALL_OF("aten::mm", "9", "[2, 2]"));
    scan_events(text.text);
    str_done(&text);
    assert_int_equal(profile.ops.len, 3);
    assert_string_equal(name_of(profile.ops.at[profile.host.extra[0]].arguments), "[\"\", \"[1, 1]\"]");
    assert_string_equal(name_of(profile.ops.at[profile.host.extra[1]].arguments), "[\"\", \"[2, 2]\"]");
    assert_int_equal(profile.ops.at[profile.host.extra[2]].arguments, PROFILE_NONE);
}

#define OP_OF(at, numbers) X("cpu_op", "op", "1", "1", at, "2", numbers)

static void operators_have_nodes(void **state)
{
    Str text = str_limited(4096);

    (void)state;
    str_addf(&text, "%s,%s,", OP_OF("1", "\"External id\": 7, \"Sequence number\": 5, \"Fwd thread id\": 0"),
             OP_OF("5", "\"External id\": 8, \"Sequence number\": 5, \"Fwd thread id\": 1"));
    str_addf(&text, "%s,%s", OP_OF("9", "\"External id\": 9, \"Fwd thread id\": 0"),
             OP_OF("12", "\"External id\": 10, \"Sequence number\": -1, \"Fwd thread id\": 0"));
    scan_events(text.text);
    str_done(&text);
    assert_int_equal(profile.nodes.len, 2);
    assert_int_equal(profile.nodes.at[0].op_id, 7);
    assert_int_equal(profile.nodes.at[0].forward_thread, 0);
    assert_int_equal(profile.nodes.at[1].op_id, 8);
    assert_int_equal(profile.nodes.at[1].sequence, 5);
    assert_int_equal(profile.nodes.at[1].forward_thread, 1);
}

static void operators_have_shapes(void **state)
{
    (void)state;
    scan_events(X(
        "cpu_op", "aten::mm", "1", "1", "1", "2",
        "\"External id\": 7, \"Input Dims\": [[32, 128], [128, 64]], "
        "\"Input type\": [\"float\", \"float\"], \"Concrete Inputs\": [\"\", \"]\\\"[\"], \"Ev Idx\": 3") "," X("cpu_"
                                                                                                                "op",
                                                                                                                "aten"
                                                                                                                "::"
                                                                                                                "mm",
                                                                                                                "1",
                                                                                                                "1",
                                                                                                                "5",
                                                                                                                "2",
                                                                                                                "\"Ex"
                                                                                                                "tern"
                                                                                                                "al "
                                                                                                                "id\""
                                                                                                                ": "
                                                                                                                "8, "
                                                                                                                "\"In"
                                                                                                                "put "
                                                                                                                "type"
                                                                                                                "\": "
                                                                                                                "[\"f"
                                                                                                                "loat"
                                                                                                                "\", "
                                                                                                                "\"fl"
                                                                                                                "oat"
                                                                                                                "\"],"
                                                                                                                " "
                                                                                                                "\"In"
                                                                                                                "put "
                                                                                                                "Dims"
                                                                                                                "\": "
                                                                                                                "[["
                                                                                                                "32, "
                                                                                                                "128]"
                                                                                                                ", "
                                                                                                                "[128"
                                                                                                                ", "
                                                                                                                "64]"
                                                                                                                "]") "," X("cpu_op",
                                                                                                                           "aten::t",
                                                                                                                           "1",
                                                                                                                           "1",
                                                                                                                           "9",
                                                                                                                           "2",
                                                                                                                           "\"Ev Idx\": 4"));
    assert_int_equal(profile.ops.len, 1);
    assert_string_equal(name_of(profile.ops.at[0].dims), "[[32, 128], [128, 64]]");
    assert_string_equal(name_of(profile.ops.at[0].types), "[\"float\", \"float\"]");
    assert_int_equal(profile.host.extra[0], 0);
    assert_int_equal(profile.host.extra[1], 0);
    assert_int_equal(profile.host.extra[2], PROFILE_NONE);
    assert_int_equal(profile.host.link[1], 8);
    assert_true(profile.with_shapes);
}

static void synchronisations(void **state)
{
    (void)state;
    scan_events(X(
        "cuda_sync", "Stream Sync", "0", "1000007", "3", "2",
        "\"stream\": 7, \"correlation\": 15, \"device\": 0") "," X("cuda_sync", "Stream Wait Event", "0", "7", "8", "0",
                                                                   "\"stream\": 7, \"wait_on_stream\": 20, "
                                                                   "\"wait_on_cuda_event_record_corr_id\": 44, "
                                                                   "\"device\": 1, \"correlation\": 16") "," X("cuda_"
                                                                                                               "sync",
                                                                                                               "Context"
                                                                                                               " Sync",
                                                                                                               "0",
                                                                                                               "-1",
                                                                                                               "9", "5",
                                                                                                               "\"strea"
                                                                                                               "m\": "
                                                                                                               "4294967"
                                                                                                               "295"));
    assert_int_equal(profile.syncs.len, 3);
    const ProfileSync *s = profile.syncs.at;

    assert_string_equal(name_of(s[0].name), "Stream Sync");
    assert_int_equal(s[0].stream, 7);
    assert_int_equal(s[0].link, 15);
    assert_int_equal(s[0].wait_stream, -1);
    assert_int_equal(s[1].device, 1);
    assert_int_equal(s[1].wait_stream, 20);
    assert_int_equal(s[1].wait_link, 44);
    assert_int_equal(s[2].stream, -1);
    assert_int_equal(s[2].duration, 5000);
}

static void memory_instants(void **state)
{
    (void)state;
    scan_events(
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":7,\"tid\":8,\"ts\":2,"
        "\"args\":{\"Ev Idx\":4,\"Device Type\":1,\"Device Id\":1,\"Addr\":139926520725504,\"Bytes\":-5242880,"
        "\"Total Allocated\":5435638784,\"Total Reserved\":12782141440}},"
        "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":7,\"tid\":8,\"ts\":1,"
        "\"args\":{\"Device Type\":0,\"Device Id\":-1,\"Bytes\":4}}");
    assert_int_equal(profile.memory.len, 2);
    const ProfileMemory *m = profile.memory.at;

    assert_int_equal(m[0].bytes, 4);
    assert_int_equal(m[0].device, -1);
    assert_int_equal(m[0].allocated, -1);
    assert_int_equal(m[1].bytes, -5242880);
    assert_int_equal(m[1].address, 139926520725504);
    assert_int_equal(m[1].allocated, 5435638784);
    assert_int_equal(m[1].reserved, 12782141440);
    assert_int_equal(m[1].device, 1);
    assert_int_equal(profile.lanes.at[m[1].lane].tid, 8);
    assert_true(profile.with_memory);
}

/* --- threads and ids ------------------------------------------------------------------------------------------------
 */

static void numeric_strings_are_numbers(void **state)
{
    (void)state;
    scan_events(X("cpu_op", "a", "25738", "\"25738\"", "1", "2",
                  "") "," X("cpu_op", "b", "25738", "25738", "3", "2",
                            "") "," X("cpu_op", "c", "\"CPU functions\"", "\"\"", "5", "2",
                                      "") "," X("cpu_op", "d", "9223372036854775807", "-1", "7", "2",
                                                "") "," X("cpu_op", "e", "1.0", "18446744073709551615", "9", "1", ""));
    assert_int_equal(profile.host.len, 5);
    assert_int_equal(profile.lanes.len, 4);
    for (size_t i = 0; i < 5; i++) {
        const ProfileLane *lane = &profile.lanes.at[profile.host.lane[i]];

        switch (*name_of(profile.host.name[i])) {
        case 'a':
        case 'b':
            assert_int_equal(lane->tid, 25738);
            assert_int_equal(lane->tid_name, PROFILE_NONE);
            break;
        case 'c':
            assert_string_equal(name_of(lane->pid_name), "CPU functions");
            assert_string_equal(name_of(lane->tid_name), "");
            break;
        case 'd':
            assert_true(lane->pid == INT64_MAX && lane->tid == -1);
            break;
        default:
            assert_true(lane->pid == 1 && lane->tid == -1); /* all bits set */
        }
    }
}

static void labels_find_their_lanes(void **state)
{
    (void)state;
    scan_events(
        "{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":1,\"pid\":9,\"tid\":\"9\",\"args\":{\"name\":\"thread 9 "
        "(python)\"}},"
        "{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"ts\":1,\"pid\":9,\"tid\":9,\"args\":{\"sort_index\":-5}},"
        "{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":1,\"pid\":1,\"tid\":77,\"args\":{\"name\":\"nobody\"}}," X(
            "cpu_op", "a", "9", "9", "1", "2",
            "") "," X("kernel", "b", "0", "7", "1", "2",
                      "\"stream\":7,\"device\":0") ","
                                                   "{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":1,\"pid\":0,\"tid\":"
                                                   "\"stream 7\",\"args\":{\"name\":\"old\"}},"
                                                   "{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":1,\"pid\":0,\"tid\":"
                                                   "7,\"args\":{\"name\":\"stream 7 \"}}");
    assert_int_equal(profile.lanes.len, 2);
    for (size_t i = 0; i < 2; i++) {
        const ProfileLane *lane = &profile.lanes.at[i];

        assert_string_equal(name_of(lane->label), lane->gpu ? "stream 7 " : "thread 9 (python)");
    }
    assert_int_equal(profile.ignored, 5);
}

static void wide_ids_stay_apart(void **state)
{
    (void)state;
    scan_events(
        X("xpu_runtime", "call", "1", "1", "1", "1", "\"correlation\": 4294967303") "," X("xpu_runtime", "call", "1", "1", "3", "1", "\"correlation\": 7") "," X(
            "xpu_runtime", "call", "1", "1", "5", "1",
            "\"correlation\": 18446744073709551611") "," X("kernel", "k", "0", "1", "11", "1",
                                                           "\"correlation\": 18446744073709551611, \"External "
                                                           "id\": 8589934592") "," X("kernel", "k", "0", "1", "13", "1",
                                                                                     "\"correlation\": "
                                                                                     "\"4294967303\"") "," X("kern"
                                                                                                             "el",
                                                                                                             "k", "0",
                                                                                                             "1", "15",
                                                                                                             "1",
                                                                                                             "\"co"
                                                                                                             "rrel"
                                                                                                             "atio"
                                                                                                             "n\":"
                                                                                                             " -1,"
                                                                                                             " \"E"
                                                                                                             "xter"
                                                                                                             "nal "
                                                                                                             "id\""
                                                                                                             ": "
                                                                                                             "0"));
    assert_int_equal(profile.host.link[1], 7);
    assert_int_equal(profile.host.link[0], profile.gpu.link[1]);
    assert_int_equal(profile.host.link[2], profile.gpu.link[0]);
    assert_int_not_equal(profile.host.link[0], profile.host.link[2]);
    assert_int_not_equal(profile.host.link[0], 7);
    assert_int_not_equal(profile.host.link[0], 0);
    assert_int_not_equal(profile.gpu.external[0], 0);
    assert_int_equal(profile.gpu.link[2], 0);
    assert_int_equal(profile.gpu.external[2], 0);
}

static void begins_and_ends(void **state)
{
#define B(name, ts) "{\"ph\":\"B\",\"cat\":\"user_annotation\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" ts "}"
#define E(ts) "{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":" ts "}"
    (void)state;
    scan_events(E("9") "," B("outer", "1") "," B("inner", "2.5") "," E(
        "4") "," /* the one of 9 stands first */
             "{\"ph\":\"B\",\"name\":\"elsewhere\",\"pid\":1,\"tid\":3,\"ts\":0}," E(
                 "11") ","
                       "{\"ph\":\"B\",\"name\":\"left\",\"pid\":1,\"tid\":2,\"ts\":20}," B(
                           "right", "21") ","
                                          "{\"ph\":\"E\",\"name\":\"left\",\"pid\":1,\"tid\":2,\"ts\":30}");
    assert_int_equal(profile.host.len, 3);
    assert_string_equal(name_of(profile.host.name[0]), "outer");
    assert_int_equal(profile.host.duration[0], 8000);
    assert_int_equal(profile.host.kind[0], PROFILE_ANNOTATION);
    assert_string_equal(name_of(profile.host.name[1]), "inner");
    assert_int_equal(profile.host.start[1], 2500);
    assert_int_equal(profile.host.duration[1], 1500);
    assert_string_equal(name_of(profile.host.name[2]), "left");
    assert_int_equal(lost(PROFILE_LOSS_UNPAIRED), 3); /* elsewhere, the end at 11, right */
}

/* --- texts ----------------------------------------------------------------------------------------------------------
 */

static void texts_are_unescaped(void **state)
{
    (void)state;
    scan_events("{\"p\\u0068\":\"X\",\"cat\":\"cpu_op\",\"n\\u0061me\":\"a\\\"b\\\\c\\/"
                "\\n\\u00e9\\ud83d\\ude00\\q\\ud800\\uZ\",\"ts\":1,"
                "\"dur\":1},{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"plain\",\"ts\":2,\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"pl\\u0061in\",\"ts\":3,\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"\xff\x01\tend\",\"ts\":4,\"dur\":1}");
    assert_string_equal(name_of(profile.host.name[0]), "a\"b\\c/\n\xc3\xa9\xf0\x9f\x98\x80\\q\xed\xa0\x80\\uZ");
    assert_int_equal(profile.host.name[1], profile.host.name[2]);
    assert_string_equal(name_of(profile.host.name[3]), "\xff\x01\tend");
    assert_nothing_lost();
}

static void long_names_are_cut(void **state)
{
    Str text;

    (void)state;
    str_init(&text, 8 << 20);
    str_add(&text, "{\"traceEvents\":[");
    for (int round = 0; round < 2; round++) {
        str_addf(&text, "{\"ph\":\"X\",\"ts\":%d,\"dur\":1,\"name\":\"", round);
        for (int i = 0; i < TRACE_NAME_BYTES_MAX; i++) /* an odd byte first: a cut would fall into a character */
            str_add(&text, i == 0 ? (round ? "\\n" : "a") : "\xc3\xa9");
        str_add(&text, "\"},");
    }
    str_add(&text, "]}");
    scan(text.text);
    for (int i = 0; i < 2; i++) {
        size_t len;

        profile_text(&profile, profile.host.name[i], &len);
        assert_int_equal(len, TRACE_NAME_BYTES_MAX - 1);
    }
    assert_int_equal(lost(PROFILE_LOSS_TOO_LONG), 2);
    str_done(&text);
}

/* --- around the list ------------------------------------------------------------------------------------------------
 */

static void metadata_before_and_behind(void **state)
{
    (void)state;
    scan("\n{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 1, \"name\": \"A\\u0031\", \"totalGlobalMem\": "
         "42297524224, "
         "\"computeMajor\": 8, \"computeMinor\": 6, \"maxThreadsPerMultiprocessor\": 2048, \"warpSize\": 32, "
         "\"numSms\": 108}],\n"
         "\"traceEvents\": [], \"traceName\": \"x\", \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, "
         "\"world_size\": 8, \"pg_config\": [{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": "
         "\"cuda:nccl\", "
         "\"pg_size\": 2, \"ranks\": [0, 1]}, {\"pg_name\": \"1\", \"ranks\": \"[2, ...]\"}], \"nccl_version\": "
         "\"2.21.5\"}, "
         "\"with_stack\": 1, \"record_shapes\": 0, \"host_name\": \"h\", \"trace_id\": \"T\", \"hip_runtime_version\": "
         "6,\n"
         "\"baseTimeNanoseconds\": 1711964646000000000, \"INFO\": [\"INFO:x Record counts: Out-of-range = 12, "
         "Blocklisted "
         "runtime = 3\", \"INFO:x Record counts: Out-of-range = 0, Invalid ext correlations = 9\"], \"ERROR\": [\"2 "
         "records "
         "dropped\"]}\n");
    assert_int_equal(profile.rank, 3);
    assert_int_equal(profile.world_size, 8);
    assert_int_equal(profile.base_ns, 1711964646000000000);
    assert_string_equal(name_of(profile.backend), "nccl");
    assert_string_equal(name_of(profile.nccl_version), "2.21.5");
    assert_string_equal(name_of(profile.host_name), "h");
    assert_string_equal(name_of(profile.trace_id), "T");
    assert_string_equal(name_of(profile.framework), "pytorch");
    assert_true(profile.with_stack && !profile.with_shapes && profile.rocm);
    assert_int_equal(profile.devices.len, 1);
    const ProfileDevice *d = profile.devices.at;

    assert_int_equal(d->id, 1);
    assert_string_equal(name_of(d->name), "A1");
    assert_int_equal(d->memory_bytes, 42297524224);
    assert_int_equal(d->sm_count, 108);
    assert_int_equal(d->major * 10 + d->minor, 86);
    assert_int_equal(d->threads_per_sm, 2048);
    assert_int_equal(profile.groups.len, 2);
    assert_string_equal(name_of(profile.groups.at[0].ranks), "[0, 1]");
    assert_string_equal(name_of(profile.groups.at[1].ranks), "[2, ...]");
    assert_int_equal(profile.groups.at[0].size, 2);
    assert_int_equal(lost(PROFILE_LOSS_PROFILER), 2);
    assert_int_equal(profile_lost(&profile), 0);
}

static void containers(void **state)
{
#define ONE "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}"
    static const char *const texts[] = {
        "[" ONE "]",
        "\xef\xbb\xbf\r\n [ " ONE " ] ",
        "{\"traceEvents\":[" ONE "]}",
        "{ \"traceEvents\" : [ " ONE " , ] , \"x\" : null }",
        "{\"otherData\":{\"traceEvents\":[" ONE ONE "]},\"traceEvents\":[" ONE "]}",
        "{\"stackFrames\":{\"a\":{\"b\":[\"}]\"]}},\"traceEvents\":[" ONE
        "],\"systemTraceEvents\":\"SystemTraceData\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        scan(texts[i]);
        assert_int_equal(profile.events, 1);
        assert_int_equal(profile.host.len, 1);
        assert_nothing_lost();
    }
}

static void any_layout_is_the_same(void **state)
{
    /* keys in another order, indented by four, one line, args before everything, keys given twice: the last counts */
    static const char *const events[] = {
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1.5,\"dur\":2,\"args\":{\"stream\":"
        "7,\"device\":0,"
        "\"correlation\":5}}",
        "{\n        \"args\": {\n            \"correlation\": 5,\n            \"device\": 0,\n            \"stream\": "
        "7\n        },\n"
        "        \"cat\": \"kernel\",\n        \"dur\": 2,\n        \"name\": \"k\",\n        \"ph\": \"X\",\n        "
        "\"pid\": 0,\n"
        "        \"tid\": 7,\n        \"ts\": 1.5\n    }",
        "{\"ph\":\"B\",\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"j\",\"name\":\"k\",\"args\":{\"device\":9,\"bytes\":"
        "3},\"args\":{\"stream\":3,"
        "\"stream\":7,\"device\":0,\"correlation\":5},\"pid\":0,\"tid\":7,\"ts\":null,\"ts\":1.5,\"dur\":2}",
        "{ \"ts\" : \"1.5\" , \"dur\" : \"2\" , \"tid\" : \"7\" , \"pid\" : \"0\" , \"name\" : \"k\" , \"cat\" : "
        "\"kernel\" , \"args\" : { \"stream\" "
        ": \"7\" , \"device\" : 0.0 , \"correlation\" : 5e0 } , \"ph\" : \"X\" , \"cname\" : { \"x\" : [ \"}\" ] } }",
    };

    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        scan_events(events[i]);
        assert_int_equal(profile.gpu.len, 1);
        assert_int_equal(profile.gpu.start[0], 1500);
        assert_int_equal(profile.gpu.duration[0], 2000);
        assert_int_equal(profile.gpu.link[0], 5);
        assert_string_equal(name_of(profile.gpu.name[0]), "k");
        assert_int_equal(profile.lanes.at[profile.gpu.lane[0]].tid, 7);
        assert_int_equal(profile.gpu.extra[0], PROFILE_NONE);
        assert_nothing_lost();
    }
}

static void what_is_no_trace_is_refused(void **state)
{
    static const char *const texts[] = {"",          "   ",   "hello", "\"text\"", "12", "{}", "{\"a\": [1, 2]}",
                                        "[1, 2, 3]", "<html>"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(scan_with(texts[i], NULL), -74); /* EBADMSG */
    scan("[]");
    scan("{\"traceEvents\":[]}");
    assert_int_equal(profile.events, 0);
    assert_nothing_lost();
}

/* --- options --------------------------------------------------------------------------------------------------------
 */

#define SOME                                                                                                           \
    X("cpu_op", "op", "1", "1", "1", "8", "")                                                                          \
    "," X("python_function", "py", "1", "1", "2", "1",                                                                 \
          "") "," X("cuda_runtime", "call", "1", "1", "4", "1",                                                        \
                    "") "," X("user_annotation", "ProfilerStep#1", "1", "1", "0", "9",                                 \
                              "") "," X("kernel", "k", "0", "7", "5", "3",                                             \
                                        "\"stream\":7") "," X("gpu_user_annotation", "g", "0", "7", "5", "3", "")

static void options_leave_out(void **state)
{
    (void)state;
    assert_int_equal(scan_with("[" SOME "]", &(TraceScanOptions){.skip_host = true}), 0);
    assert_int_equal(profile.gpu.len, 1);
    assert_int_equal(profile.mark.len, 1);
    assert_int_equal(profile.host.len, 1);
    assert_int_equal(profile.host.kind[0], PROFILE_ANNOTATION);
    assert_int_equal(profile.events, 6);
    assert_int_equal(scan_with("[" SOME "]", &(TraceScanOptions){.skip_python = true}), 0);
    assert_int_equal(profile.host.len, 3);
    assert_int_equal(scan_with("[" SOME "]", &(TraceScanOptions){.from = 3000, .to = 5000}), 0);
    assert_int_equal(profile.host.len, 3); /* py ended at 3000 */
    assert_int_equal(profile.gpu.len, 0);
    assert_int_equal(scan_with("[" SOME "]", &(TraceScanOptions){.memory_max = 100}), -28); /* ENOSPC */
}

/* However a text is read: a profile over the limit is refused, also where no part of it is over the limit alone. */
static void memory_is_limited(void **state)
{
    const KitWay ways[] = {
        {.piece = 0}, {.piece = 1 << 12}, {.threads = 1, .part_bytes = 1 << 17}, {.threads = 2, .part_bytes = 1 << 17}};
    Err err = {0};
    Str text;

    (void)state;
    str_init(&text, 64 << 20);
    str_addc(&text, '[');
    for (int i = 0; i < 20000; i++)
        str_addf(&text, "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":1},",
                 i);
    str_addc(&text, ']');
    profile_done(&profile);
    assert_int_equal(kit_scan(text.text, text.len, NULL, &ways[0], &profile, &err), 0);
    const size_t all = profile_bytes(&profile);

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const TraceScanOptions enough = {.memory_max = 4 * all}, half = {.memory_max = all / 2};

        profile_done(&profile);
        assert_int_equal(kit_scan(text.text, text.len, &enough, &ways[i], &profile, &err), 0);
        assert_int_equal(profile.host.len, 20000);
        profile_done(&profile);
        assert_int_equal(kit_scan(text.text, text.len, &half, &ways[i], &profile, &err), -28); /* ENOSPC */
    }
    str_done(&text);
}

typedef struct Watched {
    const Str *text;
    size_t read; /* bytes in all */
} Watched;

static ssize_t read_watched(void *context, void *buffer, size_t len, Err *err)
{
    Watched *watched = context;
    const size_t n = watched->text->len - watched->read < len ? watched->text->len - watched->read : len;

    (void)err;
    memcpy(buffer, watched->text->text + watched->read, n);
    watched->read += n;
    return (ssize_t)n;
}

/* A text is not read to its end where a fraction of it is too much already: two pieces of 2 MiB are, and while a busy
 * machine lets the one who joins them wait, others read five more at most. */
static void what_is_too_much_is_not_read_on(void **state)
{
    Str text;

    (void)state;
    str_init(&text, 64 << 20);
    str_addc(&text, '[');
    while (text.len < 32 << 20)
        str_addf(&text, X("cpu_op", "op", "1", "1", "%zu", "1", "") ",", text.len);
    for (unsigned int i = 0; i < 2; i++) {
        Watched watched = {.text = &text};
        const TraceSource source = {.read = read_watched, .context = &watched};
        /* more than one piece of the text needs */
        const TraceScanOptions options = {.memory_max = 2000000};
        Err err = {0};

        profile_done(&profile);
        profile_init(&profile);
        assert_int_equal(trace_scan_parallel(&source, &options, 1 + i, &profile, &err), -28);
        assert_true(watched.read < text.len / 4 * 3);
    }
    str_done(&text);
}

typedef struct Seen {
    size_t count, kept, bytes;
    char phases[16];
} Seen;

static void see(void *context, const TraceRaw *raw)
{
    Seen *seen = context;

    seen->phases[seen->count++ % 16] = raw->phase ? raw->phase : '0';
    seen->kept += raw->kept;
    seen->bytes += raw->len;
    assert_true(raw->bytes[0] == '{' && raw->bytes[raw->len - 1] == '}');
    if (raw->phase == 'X' && raw->kind == PROFILE_KERNEL) {
        assert_int_equal(raw->start, 5000);
        assert_int_equal(raw->link, 6);
        assert_int_equal(raw->offset, 1 + strlen(ONE) + 1);
    }
    if (raw->phase == 's')
        assert_int_equal(raw->link, 9);
}

static void raw_events_are_shown(void **state)
{
    static const char text[] =
        "[" ONE "," X("kernel", "k", "0", "7", "5", "3",
                      "\"correlation\":6") ",{\"ph\":\"M\"},{\"ph\":\"s\",\"id\":9,\"ts\":1},"
                                           "{\"ph\":\"X\",\"name\":\"ab\",\"pid\":1,\"ts\":1,\"dur\":1}]";
    const KitWay ways[] = {{0}, {.threads = 2, .part_bytes = 10}};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        Seen seen = {0};
        const TraceScanOptions options = {.raw = see, .context = &seen};
        Err err = {0};

        profile_done(&profile);
        assert_int_equal(kit_scan(text, strlen(text), &options, &ways[i], &profile, &err), 0);
        assert_memory_equal(seen.phases, "XXMsX", 5);
        assert_int_equal(seen.kept, 3);
    }
}

/* --- XLA's profiler ------------------------------------------------------------------------------------------------
 */

#define M(what, pid, tid, name)                                                                                        \
    "{\"ph\": \"M\", \"name\": \"" what "\", \"pid\": " pid ", \"tid\": " tid ", \"args\": {\"name\": \"" name "\"}}"
#define BARE(name, pid, tid, ts, dur, args)                                                                            \
    "{\"ph\": \"X\", \"name\": \"" name "\", \"pid\": " pid ", \"tid\": " tid ", \"ts\": " ts ", \"dur\": " dur        \
    ", \"args\": {" args "}}"

/* Names behind the events decide; lines that repeat the streams are left out. */
static void names_make_streams(void **state)
{
    (void)state;
    scan_events(
        BARE("fusion", "3", "14", "10", "5",
             "\"correlation_id\": \"77\", \"kernel_details\": \"regs:24 static_shared:8 dynamic_shared:4 grid:2,3,1 "
             "block:128,1,1 occ_pct:37.5\"") "," BARE("fusion", "3", "99", "10", "5",
                                                      "") "," BARE("MemcpyH2D", "3", "15", "20", "1", "\"memcpy_details\": \"kind_src:pinned kind_dst:device size:640 dest:0 async:1\"") "," BARE("5", "3", "98", "10", "40", "") "," BARE("cuLaunchKernel", "7", "1", "8", "1", "\"correlation_id\": 77") "," BARE("train",
                                                                                                                                                                                                                                                                                                                    "7",
                                                                                                                                                                                                                                                                                                                    "1",
                                                                                                                                                                                                                                                                                                                    "8", "1", "\"step_num\": \"6\"") "," BARE("$a.py:3 f", "7", "1",
                                                                                                                                                                                                                                                                                                                                                              "8", "1", "") "," M("process_name",
                                                                                                                                                                                                                                                                                                                                                                                  "3", "0", "/device:GPU:10") "," M("thread_name", "3", "14", "Stream #14(Compute)") "," M("thread_name",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "3", "99", "XLA Ops") "," M("thread_name",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      "3",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      "98",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      "Steps"));
    assert_int_equal(profile.gpu.len, 2);
    assert_int_equal(profile.gpu.kind[0], PROFILE_KERNEL);
    assert_int_equal(profile.gpu.link[0], 77);
    const ProfileLane *lane = &profile.lanes.at[profile.gpu.lane[0]];
    const ProfileLaunch *launch = &profile.launches.at[profile.gpu.extra[0]];
    const ProfileCopy *copy = &profile.copies.at[profile.gpu.extra[1]];

    assert_int_equal(lane->device, 10);
    assert_int_equal(lane->tid, 14);
    assert_string_equal(name_of(lane->label), "Stream #14(Compute)");
    assert_int_equal(launch->grid[1], 3);
    assert_int_equal(launch->block[0], 128);
    assert_int_equal(launch->registers, 24);
    assert_int_equal(launch->shared_bytes, 12);
    assert_true(launch->occupancy_percent == 37.5f);
    assert_int_equal(copy->kind, PROFILE_COPY_HTOD);
    assert_int_equal(copy->source, PROFILE_MEMORY_PINNED);
    assert_int_equal(copy->bytes, 640);
    assert_int_equal(profile.mark.len, 1);
    assert_string_equal(name_of(profile.mark.name[0]), "step 5");
    assert_int_equal(profile.host.len, 3);
    for (size_t i = 0; i < profile.host.len; i++)
        assert_string_equal(name_of(profile.host.name[i]), profile.host.kind[i] == PROFILE_CALL ? "cuLaunchKernel"
                                                           : profile.host.kind[i] == PROFILE_ANNOTATION ? "train 6"
                                                                                                        : "$a.py:3 f");
    assert_nothing_lost();
}

/* What has a category, and what no GPU's process holds, stays what it was; ids of it mean nothing. */
static void without_a_gpu_names_make_nothing(void **state)
{
    (void)state;
    scan_events(BARE("fusion", "3", "14", "10", "5", "\"correlation_id\": 77, \"kernel_details\": \"regs:24\"") "," M(
        "process_name", "3", "0", "/device:TPU:0") "," M("thread_name", "3", "14", "Stream #14(Compute)"));
    assert_int_equal(profile.gpu.len, 0);
    assert_int_equal(profile.host.kind[0], PROFILE_OTHER);
    assert_int_equal(profile.host.link[0], 0);
    scan_events(X("cpu_op", "op", "3", "14", "10", "5", "") "," M("process_name", "3", "0", "/device:GPU:0"));
    assert_int_equal(profile.gpu.len, 0);
    assert_int_equal(profile.host.kind[0], PROFILE_OP);
}

/* The last name of a process counts. */
static void names_may_change(void **state)
{
    (void)state;
    scan_events(BARE("k", "3", "1", "10", "5", "") "," M("process_name", "3", "0",
                                                         "/device:GPU:0") "," M("process_name", "3", "5", "python"));
    assert_int_equal(profile.gpu.len, 0);
    scan_events(BARE("k", "3", "1", "10", "5", "") "," M("process_name", "3", "0",
                                                         "python") "," M("process_name", "3", "5", "/device:GPU:1"));
    assert_int_equal(profile.gpu.len, 1);
    assert_int_equal(profile.lanes.at[profile.gpu.lane[0]].device, 1);
}

static void pairs_have_ids(void **state)
{
#define HALF(ph, cat, ts, args)                                                                                        \
    "{\"ph\": \"" ph "\", \"cat\": \"" cat "\", \"name\": \"a\", \"pid\": 1, \"tid\": 1, \"ts\": " ts                  \
    ", \"args\": {" args "}}"
    (void)state;
    scan_events(HALF("B", "cuda_runtime", "1", "\"correlation\": 5") "," HALF("E", "cuda_runtime", "2", "") "," HALF(
        "B", "cuda_runtime", "3",
        "") "," HALF("E", "cuda_runtime", "4",
                     "\"correlation\": 6") "," HALF("B", "cpu_op", "5",
                                                    "") "," HALF("E", "cpu_op", "6",
                                                                 "\"External id\": 7, \"correlation\": "
                                                                 "1") "," HALF("B", "kernel", "7",
                                                                               "\"stream\": 7, "
                                                                               "\"correlation\": "
                                                                               "8589934599, \"External "
                                                                               "id\": 9") "," HALF("E",
                                                                                                   "kern"
                                                                                                   "el",
                                                                                                   "9",
                                                                                                   "") "," HALF("B",
                                                                                                                "other",
                                                                                                                "10",
                                                                                                                "\"corr"
                                                                                                                "elatio"
                                                                                                                "n\": "
                                                                                                                "8") "," HALF("E",
                                                                                                                              "other",
                                                                                                                              "11",
                                                                                                                              ""));
    assert_int_equal(profile.host.len, 4);
    assert_int_equal(profile.host.link[0], 5);
    assert_int_equal(profile.host.link[1], 6);
    assert_int_equal(profile.host.link[2], 7);
    assert_int_equal(profile.host.link[3], 0);
    assert_int_equal(profile.gpu.link[0], 10); /* over 32 bits: the next that nobody has */
    assert_int_equal(profile.gpu.external[0], 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names_make_streams, done),
        cmocka_unit_test_teardown(without_a_gpu_names_make_nothing, done),
        cmocka_unit_test_teardown(names_may_change, done),
        cmocka_unit_test_teardown(pairs_have_ids, done),
        cmocka_unit_test(times_are_exact),
        cmocka_unit_test(microseconds_are_told),
        cmocka_unit_test(bad_times_are_lost),
        cmocka_unit_test(bad_durations_are_said),
        cmocka_unit_test(categories_old_and_new),
        cmocka_unit_test(triton_ops_with_a_stream_are_host),
        cmocka_unit_test(what_no_analysis_needs_is_counted),
        cmocka_unit_test(kernels_have_launches),
        cmocka_unit_test(copies_have_sizes),
        cmocka_unit_test(rocm),
        cmocka_unit_test(streams_without_args),
        cmocka_unit_test(collectives),
        cmocka_unit_test(convolutions_have_arguments),
        cmocka_unit_test(operators_have_nodes),
        cmocka_unit_test(operators_have_shapes),
        cmocka_unit_test(synchronisations),
        cmocka_unit_test(memory_instants),
        cmocka_unit_test(numeric_strings_are_numbers),
        cmocka_unit_test(labels_find_their_lanes),
        cmocka_unit_test(wide_ids_stay_apart),
        cmocka_unit_test(begins_and_ends),
        cmocka_unit_test(texts_are_unescaped),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(metadata_before_and_behind),
        cmocka_unit_test(containers),
        cmocka_unit_test(any_layout_is_the_same),
        cmocka_unit_test(what_is_no_trace_is_refused),
        cmocka_unit_test(options_leave_out),
        cmocka_unit_test_teardown(memory_is_limited, done),
        cmocka_unit_test_teardown(what_is_too_much_is_not_read_on, done),
        cmocka_unit_test(raw_events_are_shown),
    };

    return cmocka_run_group_tests(tests, NULL, done);
}
