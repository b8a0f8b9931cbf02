/* SPDX-License-Identifier: Apache-2.0 */
/* What lines of the kernel log say (source/kmsg/line.c): every form that drivers print, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "source/kmsg/line.h"

CLEANUP_POINTER(LineReader, line_reader_free);

static bool read_one(const char *line, Event *event)
{
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(NULL, 0);

    return line_read(reader, line, strlen(line), event);
}

static Event read_good(const char *line)
{
    Event event;

    if (!read_one(line, &event))
        fail_msg("nothing was read in: %s", line);
    return event;
}

typedef struct XidCase {
    const char *line;
    int32_t code;
    const char *pci; /* NULL: none */
    uint32_t gi, ci, link;
    int32_t pid;
    const char *process;
    EventWord word;
    int32_t caused_by, action, gpc, tpc;
    uint32_t registers, first_register;
    const char *unit;
} XidCase;

#define NONE                                                                                                           \
    .gi = DEVICE_NO_NUMBER, .ci = DEVICE_NO_NUMBER, .link = DEVICE_NO_NUMBER, .pid = -1, .process = "",                \
    .action = EVENT_NO_ACTION, .gpc = -1, .tpc = -1, .unit = ""
#pragma GCC diagnostic ignored "-Woverride-init"

static const XidCase xids[] = {
    {NONE, .line = "NVRM: Xid (0000:03:00): 14, Channel 00000001", .code = 14, .pci = "0000:03:00.0"},
    {NONE, .line = "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.", .code = 79, .pci = "0000:05:00.0"},
    {NONE, .line = "NVRM: Xid (PCI:0000:05:00): 79", .code = 79, .pci = "0000:05:00.0"},
    {NONE, .line = "NVRM: Xid (PCI:10000:05:1f): 48, pid=7, x", .code = 48, .pci = "10000:05:1f.0", .pid = 7},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No",
     .code = 94, .pci = "0000:01:00.0", .pid = 7062},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 43, pid=2239, name=python, Ch 00000008", .code = 43,
     .pci = "0000:01:00.0", .pid = 2239, .process = "python"},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 45, pid='<unknown>', name=<unknown>, Ch 00000008", .code = 45,
     .pci = "0000:01:00.0"},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 31, pid=9, name=nvc:[driver], Ch 00000007, intr 00000000.", .code = 31,
     .pci = "0000:01:00.0", .pid = 9, .process = "nvc:[driver]"},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 31, pid=9, name=ray::Worker Dict, Ch 1", .code = 31,
     .pci = "0000:01:00.0", .pid = 9, .process = "ray::Worker Dict"},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9).", .code = 94,
     .pci = "0000:01:00.0", .gi = 5, .pid = 7194},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:03): 13, pid=1, name=a, Graphics Exception: x",
     .code = 13, .pci = "0000:01:00.0", .gi = 5, .ci = 3, .pid = 1, .process = "a"},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 45, pid=1, name=a, Ch 00000008 caused by previous Xid 149", .code = 45,
     .pci = "0000:01:00.0", .pid = 1, .process = "a", .caused_by = 149},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 13, pid=1, Graphics SM Warp Exception on (GPC 7, TPC 6, SM 0): Illegal",
     .code = 13, .pci = "0000:01:00.0", .pid = 1, .gpc = 7, .tpc = 6},
    {NONE,
     .line = "NVRM: Xid (PCI:0000:01:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on "
             "link 14(0x2, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
     .code = 74, .pci = "0000:01:00.0", .link = 14, .registers = 7, .first_register = 2},
    {NONE,
     .line = "NVRM: Xid (PCI:0000:01:00): 145, pid=11436, name=cache_mgr_main, RLW_SRC_TRACK Nonfatal XC1 i0 "
             "Link 03 (0x040868e2 0x00000008 0x0 0x0 0x0 0x0)",
     .code = 145, .pci = "0000:01:00.0", .link = 3, .pid = 11436, .process = "cache_mgr_main", .word = EVENT_NONFATAL,
     .registers = 6, .first_register = 0x040868e2, .unit = "RLW_SRC_TRACK"},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x1)", .code = 149,
     .pci = "0000:01:00.0", .word = EVENT_FATAL, .registers = 2, .first_register = 0x000fe406, .unit = "NETIR"},
    {NONE,
     .line = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset "
             "Required)",
     .code = 154, .pci = "0000:01:00.0", .action = 1},
    {NONE,
     .line = "NVRM: Xid (PCI:0000:01:00): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response from "
             "GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x58c).",
     .code = 119, .pci = "0000:01:00.0", .pid = 1, .process = "x"},
    {NONE, .line = "[  12.345678] NVRM: Xid (PCI:0000:01:00): 62, 0c48(2250) 00000000 00000000", .code = 62,
     .pci = "0000:01:00.0"},
    {NONE, .line = "Nov 21 07:00:00 host kernel: NVRM: Xid (PCI:0000:01:00): 62, 0c48(2250)", .code = 62,
     .pci = "0000:01:00.0"},
    {NONE, .line = "NVRM: Xid (garbage): 79, GPU has fallen off the bus.", .code = 79},
    {NONE, .line = "NVRM: Xid (PCI:0000:01:00): 9999, something new", .code = 9999, .pci = "0000:01:00.0"},
};

static void check_xid(const XidCase *c)
{
    const Event event = read_good(c->line);
    char text[PCI_TEXT_CAP];

    assert_int_equal(event.kind, EVENT_XID);
    assert_int_equal(event.code, c->code);
    assert_int_equal(event.has_pci, c->pci != NULL);
    if (c->pci)
        assert_string_equal(pci_format(event.pci, PCI_FORM_SYSFS, text), c->pci);
    assert_int_equal(event.gpu_instance, c->gi);
    assert_int_equal(event.compute_instance, c->ci);
    assert_int_equal(event.link, c->link);
    assert_int_equal(event.pid, c->pid);
    assert_string_equal(event.process, c->process);
    assert_int_equal(event.word, c->word);
    assert_int_equal(event.caused_by, c->caused_by);
    assert_int_equal(event.recovery_action, c->action);
    assert_int_equal(event.gpc, c->gpc);
    assert_int_equal(event.tpc, c->tpc);
    assert_int_equal(event.register_count, c->registers);
    if (c->registers)
        assert_int_equal(event.registers[0], c->first_register);
    assert_string_equal(event.unit, c->unit);
    assert_true(strncmp(event.text, "Xid (", 5) == 0);
}

static void xid_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(xids); i++) {
        print_message("%s\n", xids[i].line);
        check_xid(&xids[i]);
    }
}

static void other_lines(void **state)
{
    static const struct {
        const char *line;
        EventKind kind;
        const char *pci;
        int32_t code, pid;
        const char *process;
        EventWord word;
        uint32_t link;
    } rows[] = {
        {"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
         EVENT_SXID, "0000:c1:00.0", 28006, -1, "", EVENT_NONFATAL, 46},
        {"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 28 sourcetrack timeout error (First)",
         EVENT_SXID, "0000:c1:00.0", 24007, -1, "", EVENT_FATAL, 28},
        {"nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20012, Correctable, Link 07 x", EVENT_SXID, "0000:86:00.0", 20012,
         -1, "", EVENT_CORRECTABLE, 7},
        {"nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 10006, NVSWITCH Temperature 101C | OVERT Threshold 100C",
         EVENT_SXID, "0000:86:00.0", 10006, -1, "", EVENT_NO_WORD, DEVICE_NO_NUMBER},
        {"NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", EVENT_OFF_BUS, "0000:18:00.0", 0, -1, "", 0,
         DEVICE_NO_NUMBER},
        {"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x65:1589)", EVENT_INIT_FAILED, "0000:01:00.0", 0, -1, "",
         0, DEVICE_NO_NUMBER},
        {"NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0", EVENT_INIT_FAILED, "0000:01:00.0", 0,
         -1, "", 0, DEVICE_NO_NUMBER},
        {"NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!", EVENT_NVLINK_DRIVER,
         NULL, 0, -1, "", 0, DEVICE_NO_NUMBER},
        {"NVRM: nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further "
         "processing",
         EVENT_PEERMEM, NULL, 0, -1, "", 0, DEVICE_NO_NUMBER},
        {"NVRM: Slow RPC response from GPU4 GSP", EVENT_GSP_SLOW, NULL, 0, -1, "", 0, DEVICE_NO_NUMBER},
        {"pcieport 0000:00:03.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)", EVENT_AER,
         "0000:00:03.1", 0, -1, "", EVENT_CORRECTABLE, DEVICE_NO_NUMBER},
        {"pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)", EVENT_AER,
         "0000:00:03.1", 0, -1, "", EVENT_CORRECTABLE, DEVICE_NO_NUMBER},
        {"nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer", EVENT_AER,
         "0000:18:00.0", 0, -1, "", EVENT_NONFATAL, DEVICE_NO_NUMBER},
        {"nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible", EVENT_AER,
         "0000:18:00.0", 0, -1, "", EVENT_FATAL, DEVICE_NO_NUMBER},
        {"Memory cgroup out of memory: Killed process 1234 (python) total-vm:1kB, anon-rss:1kB", EVENT_OOM_KILL, NULL,
         0, 1234, "python", 0, DEVICE_NO_NUMBER},
        {"Out of memory: Killed process 1532 (bad (system) p) total-vm:1kB", EVENT_OOM_KILL, NULL, 0, 1532,
         "bad (system", 0, DEVICE_NO_NUMBER},
        {"INFO: task nvidia-smi:136986 blocked for more than 120 seconds.", EVENT_HUNG_TASK, NULL, 0, 136986,
         "nvidia-smi", 0, DEVICE_NO_NUMBER},
        {"INFO: task ray::Worker:7 blocked for more than 120 seconds.", EVENT_HUNG_TASK, NULL, 0, 7, "ray::Worker", 0,
         DEVICE_NO_NUMBER},
        {"watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]", EVENT_LOCKUP, NULL, 0, -1, "", 0,
         DEVICE_NO_NUMBER},
        {"pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c sp 00007f7c error 4 in libnccl.so.2[7f+d]",
         EVENT_SEGFAULT, NULL, 0, 2536443, "pt_main_thread", 0, DEVICE_NO_NUMBER},
        {"EDAC MC0: 4 CE error on CPU#0Channel#2_DIMM#0 (channel:2 slot:0)", EVENT_MCE, NULL, 0, -1, "",
         EVENT_CORRECTABLE, DEVICE_NO_NUMBER},
        {"EDAC MC1: 1 UE memory scrubbing error on DIMM0", EVENT_MCE, NULL, 0, -1, "", EVENT_FATAL, DEVICE_NO_NUMBER},
        {"nvidia-nvlink: Unregistered Nvlink Core, major device number 510", EVENT_MODULE_UNLOADED, NULL, 0, -1, "", 0,
         DEVICE_NO_NUMBER},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[PCI_TEXT_CAP];

        print_message("%s\n", rows[i].line);
        const Event event = read_good(rows[i].line);
        assert_int_equal(event.kind, rows[i].kind);
        assert_int_equal(event.has_pci, rows[i].pci != NULL);
        if (rows[i].pci)
            assert_string_equal(pci_format(event.pci, PCI_FORM_SYSFS, text), rows[i].pci);
        assert_int_equal(event.code, rows[i].code);
        assert_int_equal(event.pid, rows[i].pid);
        assert_string_equal(event.process, rows[i].process);
        assert_int_equal(event.word, rows[i].word);
        assert_int_equal(event.link, rows[i].link);
    }
}

static void nothing_to_tell(void **state)
{
    static const char *const rows[] = {
        "",
        "usb 1-1: new high-speed USB device",
        "NVRM: Xid (PCI:0000:01:00",
        "NVRM: Xid (PCI:0000:01:00): what, Ch 1",
        "NVRM: Xid (PCI:0000:01:00): 99999999999, too long",
        "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 12033, Severity 1 Engine instance 00 Sub-engine instance 00",
        "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 12033, Data {0x00000000, 0x00000000}",
        "NVRM: GPU 0000:18:00.0: GPU serial number is 1654922003421.",
        "NVRM: GPU Board Serial Number: 1654922003421",
        "pcieport 0000:00:03.1: AER: Correctable error message received from 0000:00:00.0",
        "pcieport 0000:00:03.1:   device [1022:1453] error status/mask=00001000/00006000",
        "pcieport 0000:00:03.1:    [12] Timeout",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=1234,uid=0",
        "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "python[1]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6[7f+d]",
        "mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5)",
    };
    Event event;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (read_one(rows[i], &event))
            fail_msg("read as %s: %s", event_kinds[event.kind].key, rows[i]);
}

/* The last line of `lines` gives an event, those before it none. */
static Event read_last(const char *const *lines, size_t count)
{
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(NULL, 0);
    Event event;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(line_read(reader, lines[i], strlen(lines[i]), &event), i + 1 == count);
    return event;
}

static void messages_of_several_lines(void **state)
{
    static const char *const off_bus[] = {"NVRM: The NVIDIA GPU 0000:41:00.0",
                                          "NVRM: (PCI ID: 10de:2330) installed in this system has",
                                          "NVRM: fallen off the bus and is not responding to commands."};
    static const char *const mismatch[] = {
        "NVRM: API mismatch: the client 'nvidia-smi' (pid 4711)",
        "NVRM: has the version 590.48.01, but this kernel module has",
        "NVRM: the version 580.95.05.  Please make sure that this kernel module and all NVIDIA driver components"};
    char text[PCI_TEXT_CAP];

    (void)state;
    Event event = read_last(off_bus, ARRAY_LEN(off_bus));
    assert_int_equal(event.kind, EVENT_OFF_BUS);
    assert_string_equal(pci_format(event.pci, PCI_FORM_SYSFS, text), "0000:41:00.0");
    event = read_last(mismatch, ARRAY_LEN(mismatch));
    assert_int_equal(event.kind, EVENT_API_MISMATCH);
    assert_int_equal(event.pid, 4711);
    assert_string_equal(event.process, "nvidia-smi");
    assert_string_equal(event.version[0], "590.48.01");
    assert_string_equal(event.version[1], "580.95.05");
}

static void one_line_says_all(void **state)
{
    (void)state;
    Event event = read_good("NVRM: API mismatch: the client 'x' (pid 3) has the version 590.48.01, but this kernel "
                            "module has the version 580.95.05. Please");
    assert_string_equal(event.version[0], "590.48.01");
    assert_string_equal(event.version[1], "580.95.05");
    event = read_good("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (dvs)");
    assert_int_equal(event.kind, EVENT_MODULE_LOADED);
    assert_string_equal(event.version[1], "590.48.01");
}

static void gpus_are_learned(void **state)
{
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(NULL, 0);
    static const char *const who = "NVRM: GPU at PCI:0000:18:00: GPU-5d6e4f3a-1111-2222-3333-444444444444";
    static const char *const xid = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.";
    static const char *const other = "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.";
    Event event;

    (void)state;
    assert_false(line_read(reader, who, strlen(who), &event));
    assert_true(line_read(reader, xid, strlen(xid), &event));
    assert_string_equal(event.uuid, "GPU-5d6e4f3a-1111-2222-3333-444444444444");
    assert_true(line_read(reader, other, strlen(other), &event));
    assert_string_equal(event.uuid, "");
}

static void a_second_line_says_no_more(void **state)
{
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(NULL, 0);
    static const char *const first = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x65:1589)";
    static const char *const second = "NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0";
    Event event;

    (void)state;
    assert_true(line_read(reader, first, strlen(first), &event));
    assert_false(line_read(reader, second, strlen(second), &event));
    assert_true(line_read(reader, second, strlen(second), &event)); /* alone it does */
}

static void patterns_of_the_site(void **state)
{
    static const char *const patterns[] = {"Detected insufficient power", ""};
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(patterns, ARRAY_LEN(patterns));
    static const char *const line = "mlx5_core 0000:5c:00.0: Detected insufficient power on the PCIe slot (27W).";
    Event event;

    (void)state;
    assert_true(line_read(reader, line, strlen(line), &event));
    assert_int_equal(event.kind, EVENT_LINE);
    assert_false(line_read(reader, "nothing of it", 13, &event));
}

static void texts_are_fit_to_show(void **state)
{
    static const char *const line = "NVRM: Xid (PCI:0000:01:00): 13, pid=1, name=a\x1b[31m\xff, b\ttab";
    const Event event = read_good(line);
    char lengthy[4096];

    (void)state;
    assert_string_equal(event.process, "a?[31m?");
    assert_null(strchr(event.text, '\x1b'));
    assert_non_null(strstr(event.text, "b tab"));
    memset(lengthy, 'x', sizeof lengthy - 1);
    memcpy(lengthy, line, 34);
    lengthy[sizeof lengthy - 1] = '\0';
    const Event cut = read_good(lengthy);
    assert_int_equal(strlen(cut.text), EVENT_TEXT_CAP - 1);
    lengthy[EVENT_TEXT_CAP - 10] = ' '; /* a word ends there */
    const Event worded = read_good(lengthy);
    assert_true(strlen(worded.text) < EVENT_TEXT_CAP - 1 && strlen(worded.text) > EVENT_TEXT_CAP / 2);
    assert_int_equal(worded.text[strlen(worded.text) - 1], 'x');
}

static void records(void **state)
{
    KmsgRecord record;
    const char *good = "6,1234,5678901,-,caller=T1;NVRM: hello\n SUBSYSTEM=pci\n";

    (void)state;
    assert_int_equal(kmsg_record(good, strlen(good), &record), 0);
    assert_int_equal(record.sequence, 1234);
    assert_int_equal(record.usec, 5678901);
    assert_int_equal(record.len, strlen("NVRM: hello"));
    assert_memory_equal(record.text, "NVRM: hello", record.len);
    static const char *const bad[] = {"",
                                      "6",
                                      "6,",
                                      "6,1,2",
                                      "x,1,2,-;t",
                                      "6,1,2,-",
                                      "6,,2,-;t",
                                      "-6,1,2,-;t",
                                      ";",
                                      "6,1;t",
                                      "99999999999999999999999,1,2,-;t",
                                      "NVRM: hello"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_not_equal(kmsg_record(bad[i], strlen(bad[i]), &record), 0);
}

static void fabric_lines(void **state)
{
    static const char *const fatal =
        "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
        "00000000:86:00.0 physical id 3 port 33";
    static const char *const other =
        "[Jul 23 2024 07:53:55] [ERROR] [tid 841] failed to find the GPU handle 5410063385821516767 in the multicast";
    static const char *const info = "[Jul 23 2024 07:53:55] [INFO] [tid 841] Multicast group allocated";
    char text[PCI_TEXT_CAP];
    uint64_t at = 0;
    Event event;

    (void)state;
    assert_true(line_read_fabric(fatal, strlen(fatal), &event, &at));
    assert_int_equal(event.kind, EVENT_SXID);
    assert_int_equal(event.code, 20034);
    assert_int_equal(event.word, EVENT_FATAL);
    assert_int_equal(event.link, 33);
    assert_string_equal(pci_format(event.pci, PCI_FORM_SYSFS, text), "0000:86:00.0");
    assert_true(at > 1721600000ull * 1000000000 && at < 1721900000ull * 1000000000);
    assert_true(line_read_fabric(other, strlen(other), &event, &at));
    assert_int_equal(event.kind, EVENT_FABRIC_LOG);
    assert_true(strncmp(event.text, "failed to find", 14) == 0);
    assert_false(line_read_fabric(info, strlen(info), &event, &at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xid_lines),
        cmocka_unit_test(other_lines),
        cmocka_unit_test(nothing_to_tell),
        cmocka_unit_test(messages_of_several_lines),
        cmocka_unit_test(one_line_says_all),
        cmocka_unit_test(gpus_are_learned),
        cmocka_unit_test(a_second_line_says_no_more),
        cmocka_unit_test(patterns_of_the_site),
        cmocka_unit_test(texts_are_fit_to_show),
        cmocka_unit_test(records),
        cmocka_unit_test(fabric_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
