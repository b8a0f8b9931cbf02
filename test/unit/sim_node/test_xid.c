/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the kernel log, event by event: the whole text for each XID and driver version. Covers
 * kernel_log.c. */
#include "node_kit.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

#define NODE                                                                                                           \
    "about: x\ntruth: []\n"                                                                                            \
    "gpus: {board: h100-sxm-80gb, count: 8}\n"                                                                         \
    "work: [{name: train, kind: train, gpus: all, process: ray::WorkerDict.actor}]\n"
#define T4 "about: x\ntruth: []\ngpus: {board: t4, count: 8}\nwork: []\n"
#define AT "NVRM: Xid (PCI:0000:9d:00): "
#define NOBODY "pid='<unknown>', name=<unknown>, "
#define PID 4711
#define NAMED "pid=4711, name=ray::WorkerDict, "

enum { EVENT_XID = 8, GPU = 4, NAMED_WORK = 4 };

typedef struct Golden {
    const char *driver;
    uint32_t xid;
    int named; /* the event names a work */
    uint64_t extra;
    const char *line;
} Golden;

/* clang-format off */
static const Golden golden[] = {
    /* who: numbers only before 515, then names; unknown ones said for everything until 560, for channels ever since */
    {"470.256.02", 45, 1, 0, AT "45, pid=4711, Ch 0000000c"},
    {"470.256.02", 79, 0, 0, AT "79, GPU has fallen off the bus.\n"
                             "NVRM: GPU 0000:9d:00.0: GPU has fallen off the bus.\n"
                             "NVRM: GPU 0000:9d:00.0: GPU serial number is 1654422208288."},
    {"515.105.01", 45, 1, 0, AT "45, " NAMED "Ch 0000000c"},
    {"535.261.03", 79, 0, 0, AT "79, " NOBODY "GPU has fallen off the bus.\n"
                             "NVRM: GPU 0000:9d:00.0: GPU has fallen off the bus.\n"
                             "NVRM: GPU 0000:9d:00.0: GPU serial number is 1654422208288."},
    {"550.163.01", 92, 0, 0, AT "92, " NOBODY "High single-bit ECC error rate"},
    {"590.48.01", 92, 0, 0, AT "92, High single-bit ECC error rate"},
    {"590.48.01", 43, 0, 0, AT "43, " NOBODY "Ch 0000000e"},
    /* applications */
    {"590.48.01", 8, 1, 0, AT "8, " NAMED "Channel 0000000c"},
    {"590.48.01", 13, 1, 0,
     AT "13, " NAMED "Graphics SM Warp Exception on (GPC 4, TPC 2, SM 1): Out Of Range Address\n"
     AT "13, " NAMED "Graphics Exception: ESR 0x5217b0=0x9000e 0x5217b4=0x0 0x5217a8=0xf81eb60 0x5217ac=0x1174\n"
     AT "13, " NAMED "Graphics Exception: ChID 000c, Class 0000cbc0, Offset 00000000, Data 00000000"},
    {"590.48.01", 31, 1, 0,
     AT "31, " NAMED "Ch 0000000c, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_12 faulted @ "
     "0x7f6a_2a3f6000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"},
    {"590.48.01", 32, 1, 0, AT "32, " NAMED "Channel ID 0000000c intr0 00040000"},
    {"590.48.01", 43, 1, 0, AT "43, " NAMED "Ch 0000000c"},
    {"590.48.01", 69, 1, 0,
     AT "69, " NAMED "Class Error: ChId 000c, Class 0000cbc0, Offset 00000000, Data 00000000, ErrorCode 00000004"},
    {"590.48.01", 94, 1, 0, AT "94, " NAMED "Contained: CE User Channel (0x9). RST: No, D-RST: No"},
    {"590.48.01", 109, 1, 0, AT "109, " NAMED "Ch 0000000c, errorString CTX SWITCH TIMEOUT, Info 0x58006"},
    {"590.48.01", 77, 1, 0, AT "77, " NAMED "Ch 0000000c"},
    /* memory: the address that is given, or one of the GPU's */
    {"470.256.02", 48, 0, 0, AT "48, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer "
                             "at partition 7, subpartition 1."},
    {"590.48.01", 48, 0, 0x18f31d80, AT "48, An uncorrectable double bit error (DBE) has been detected on GPU in the "
                                     "framebuffer at physAddr 0x18f31d80 partition 7, subpartition 1."},
    {"590.48.01", 48, 0, 0, AT "48, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer "
                            "at physAddr 0x6fa628800 partition 7, subpartition 1."},
    {"590.48.01", 63, 0, 0x18f31d80,
     AT "63, Row Remapper: New row (0x0000000018f31d80) marked for remapping, reset gpu to activate."},
    {"590.48.01", 64, 0, 0x2eebc4100,
     AT "64, Row Remapper Error: (0x00000002eebc4100) - All reserved rows for bank are remapped"},
    {"590.48.01", 95, 0, 0, AT "95, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"},
    {"590.48.01", 140, 0, 0, AT "140, An uncorrectable ECC error detected (possible firmware handling failure) DRAM:0, "
                             "LTC:1, MMU:0, PCIE:0"},
    {"590.48.01", 171, 0, 0, AT "171, HBM, Uncorrectable DRAM error"},
    {"590.48.01", 172, 0, 0, AT "172, GSP-RISCV, Uncorrectable SRAM error"},
    /* firmware: the words changed at 535, 550 and 595; those of a task at 545 */
    {"515.105.01", 61, 0, 0, AT "61, " NOBODY "0df7(2912) 762af87b 00000000"},
    {"590.48.01", 62, 0, 0, AT "62, 0f3a(20ab) 87fc7a34 00000000"},
    {"525.147.05", 119, 0, 0, AT "119, " NOBODY "Timeout waiting for RPC from GSP! Expected function 76 "
                              "(GSP_RM_CONTROL) (0x20803032 0x58d)."},
    {"535.261.03", 119, 0, 0, AT "119, " NOBODY "Timeout waiting for RPC from GSP4! Expected function 76 "
                              "(GSP_RM_CONTROL) (0x20803032 0x58d)."},
    {"550.163.01", 119, 1, 0, AT "119, " NAMED "Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected "
                              "function 76 (GSP_RM_CONTROL) (0x20803032 0x58d)."},
    {"590.48.01", 119, 0, 0, AT "119, Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 "
                             "(GSP_RM_CONTROL) (0x20803032 0x58d)."},
    {"610.43.02", 119, 0, 0, AT "119, Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 "
                             "(GSP_RM_CONTROL) sequence 2010 (0x20803032 0x58d)."},
    {"535.261.03", 120, 0, 0, AT "120, " NOBODY "GSP Error: Task 1 raised error code 0xf for reason 0x0 at 0x4b99ac (1 "
                              "more errors skipped)"},
    {"550.163.01", 120, 0, 0, AT "120, " NOBODY "GSP Error: Task 1 raised error code 0xf for reason 0x0 at 0x4b99ac (1 "
                              "more errors skipped) The GPU likely needs to be reset."},
    {"590.48.01", 143, 0, 0,
     AT "143, Error status 0x65 while polling for FSP boot complete, 0xdf, 0x0, 0x0, 0x0, 0x0"},
    /* links: NVLink 5 codes mean something else before 560 */
    {"590.48.01", 74, 0, 14,
     AT "74, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"},
    {"590.48.01", 145, 1, 3, AT "145, " NAMED "RLW_SRC_TRACK Nonfatal XC0 i0 Link 03 (0x040868e2 0x00000008 0x00000000 "
                             "0x00000000 0x00000000 0x00000000)"},
    {"590.48.01", 149, 0, 8, AT "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000 0x00000000 "
                             "0x00000000 0x00000000)"},
    {"550.163.01", 149, 1, 8, AT "149, " NAMED "Ch 0000000c"},
    /* what to do */
    {"590.48.01", 154, 0, 1, AT "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"},
    {"590.48.01", 154, 0, 4, AT "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"},
    {"590.48.01", 154, 0, 0, ""}, /* no change */
};
/* clang-format on */

static SimEvent xid(uint32_t code)
{
    return (SimEvent){.t_ns = 60 * SIM_NS,
                      .type = EVENT_XID,
                      .data = code,
                      .gpu = GPU,
                      .gi = SIM_NONE,
                      .ci = SIM_NONE,
                      .work = SIM_NONE};
}

static const char *line_of(Kit *kit, const SimEvent *event)
{
    static char line[KERNEL_LINES_MAX];
    int n = kernel_log_line(kit->image, event, line, sizeof line);
    assert_int_equal(n, strlen(line));
    return line;
}

static void test_golden(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    sim_work_lend_pid(kit->image, NAMED_WORK, PID);
    for (size_t i = 0; i < ARRAY_LEN(golden); i++) {
        const Golden *g = &golden[i];
        SimEvent event = xid(g->xid);
        event.extra = g->extra;
        event.work = g->named ? NAMED_WORK : SIM_NONE;
        snprintf(kit->image->driver, sizeof kit->image->driver, "%s", g->driver);
        assert_string_equal(line_of(kit, &event), g->line);
    }
    kit_free(kit);
}

static void test_pages_are_retired_on_older_boards(void **state)
{
    (void)state;
    Kit *kit = kit_new_driver(T4, "590.48.01");
    SimEvent marked = xid(63), failed = xid(64);
    marked.extra = failed.extra = 0x12345000;
    assert_non_null(strstr(line_of(kit, &marked), "63, Dynamic Page Retirement: New retired page, reload the driver to "
                                                  "activate. (0x0000000000012345)"));
    assert_non_null(strstr(line_of(kit, &failed), "64, Dynamic Page Retirement: FATAL, unable to retire page "
                                                  "(0x0000000000012345)"));
    kit_free(kit);
}

static void test_mig_attribution(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    SimEvent event = xid(94);
    sim_work_lend_pid(kit->image, NAMED_WORK, PID);
    event.work = NAMED_WORK;
    event.gi = 5;
    assert_string_equal(line_of(kit, &event), "NVRM: Xid (PCI:0000:9d:00 GPU-I:05): 94, " NAMED
                                              "Contained: CE User Channel (0x9). RST: No, D-RST: No");
    event.ci = 3;
    assert_string_equal(line_of(kit, &event), "NVRM: Xid (PCI:0000:9d:00 GPU-I:05 GPU-CI:03): 94, " NAMED
                                              "Contained: CE User Channel (0x9). RST: No, D-RST: No");
    event.gi = 13;
    event.ci = 0;
    assert_non_null(strstr(line_of(kit, &event), "(PCI:0000:9d:00 GPU-I:13 GPU-CI:00): 94, "));
    kit_free(kit);
}

/* The lines of all events until now, in order. */
static char *all_lines(Kit *kit)
{
    SimEvent event;
    Str out;
    str_init(&out, 1 << 20);
    for (uint32_t i = 0; sim_event_next(kit->image, i, SIM_FOREVER, &event, NULL); i++) {
        const char *line = line_of(kit, &event);
        if (*line)
            str_addf(&out, "%s\n", line);
    }
    return str_take(&out);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void test_lines_of_one_incident_agree(void **state)
{
    (void)state;
    Kit *kit = kit_new_driver(NODE "at: [{time: 10m, do: xid, gpu: 2, code: 48, work: train, address: 418651520}]\n",
                              "590.48.01");
    CLEANUP_FREE char *text = all_lines(kit);
    assert_non_null(strstr(text, "48, pid="));
    assert_non_null(strstr(text, "physAddr 0x18f41d80"));
    assert_non_null(strstr(text, "63, pid="));
    assert_non_null(strstr(text, "New row (0x0000000018f41d80)"));
    assert_non_null(strstr(text, "from 0x0 (None) to 0x1 (GPU Reset Required)"));
    kit_free(kit);
}

static void test_45_names_what_caused_it(void **state)
{
    static const char *const drivers[] = {"570.172.08", "575.57.08"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
        Kit *kit = kit_new_driver(NODE "at: [{time: 1m, do: xid, gpu: 1, code: 149, link: 8, work: train},\n"
                                       "     {time: 5m, do: xid, gpu: 1, code: 45, work: train},\n"
                                       "     {time: 6m, do: xid, gpu: 2, code: 45, work: train}]\n",
                                  drivers[i]);
        CLEANUP_FREE char *text = all_lines(kit);
        assert_int_equal(count(text, "): 45, "), 3);
        assert_int_equal(count(text, " caused by previous Xid 149\n"), i); /* long after, or on another GPU: not */
        assert_int_equal(count(text, " caused by "), i);
        kit_free(kit);
    }
}

static void test_recovery_tells_changes_only(void **state)
{
    (void)state;
    Kit *kit =
        kit_new_driver(NODE "at: [{time: 1m, do: xid, gpu: 1, code: 95}, {time: 2m, do: xid, gpu: 1, code: 95},\n"
                            "     {time: 3m, do: xid, gpu: 1, code: 79}]\n",
                       "590.48.01");
    CLEANUP_FREE char *text = all_lines(kit);
    assert_int_equal(count(text, "): 154, "), 2);
    assert_int_equal(count(text, "from 0x0 (None) to 0x1 (GPU Reset Required)\n"), 1);
    assert_int_equal(count(text, "from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)\n"), 1);
    kit_free(kit);
}

static void test_texts_of_the_scenario(void **state)
{
    (void)state;
    Kit *kit = kit_new_driver(NODE "at:\n"
                                   "  - {time: 1m, do: xid, gpu: 4, code: 13, text: \"Graphics Exception: a\\nb\"}\n"
                                   "  - {time: 2m, do: xid, gpu: 4, code: 31, text: \"pid=7, name=x y, Ch 1\"}\n"
                                   "  - {time: 3m, do: sxid, code: 12033, switch: 1, link: 33, text: \"LTSSM\"}\n"
                                   "  - {time: 4m, do: kmsg, text: \"mce: [Hardware Error]: logged\"}\n",
                              "590.48.01");
    CLEANUP_FREE char *text = all_lines(kit);
    assert_non_null(strstr(text, AT "13, Graphics Exception: a b\n"));
    assert_non_null(strstr(text, AT "31, pid=7, name=x y, Ch 1\n"));
    assert_non_null(strstr(text, "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12033, Fatal, Link 33 LTSSM\n"
                                 "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12033, Severity 1 Engine instance 33 "
                                 "Sub-engine instance 00\n"
                                 "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12033, Data {0x00000021, 0x00000021, "));
    assert_non_null(strstr(text, "\nmce: [Hardware Error]: logged\n"));
    kit_free(kit);
}

static void test_first_seen_and_short_buffers(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    char line[512], expected[512];
    const SimGpuId *id = &kit->image->gpus[GPU];
    snprintf(expected, sizeof expected, "NVRM: GPU at PCI:0000:9d:00: %s\nNVRM: GPU Board Serial Number: %s", id->uuid,
             id->serial);
    assert_int_equal(kernel_log_first_seen(kit->image, GPU, line, sizeof line), strlen(expected));
    assert_string_equal(line, expected);
    kit->image->gpus[GPU].serial[0] = '\0'; /* not every board has one */
    kernel_log_first_seen(kit->image, GPU, line, sizeof line);
    assert_null(strchr(line, '\n'));
    SimEvent event = xid(92);
    assert_int_equal(kernel_log_line(kit->image, &event, line, 10), 9);
    assert_string_equal(line, "NVRM: Xid");
    assert_int_equal(kernel_log_line(kit->image, &event, line, 0), 0);
    event.gpu = SIM_NONE;
    assert_int_equal(kernel_log_line(kit->image, &event, line, sizeof line), 0);
    kit_free(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_pages_are_retired_on_older_boards),
        cmocka_unit_test(test_mig_attribution),
        cmocka_unit_test(test_lines_of_one_incident_agree),
        cmocka_unit_test(test_45_names_what_caused_it),
        cmocka_unit_test(test_recovery_tells_changes_only),
        cmocka_unit_test(test_texts_of_the_scenario),
        cmocka_unit_test(test_first_seen_and_short_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
