/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of the kernel log: formats, order, no line twice, going on where one has stopped. Covers kernel_log.c. */
#include "node_kit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

#define BUSY                                                                                                           \
    "about: x\ntruth: []\nnode: {driver: \"590.48.01\"}\n"                                                             \
    "gpus: {board: h100-sxm-80gb, count: 8}\n"                                                                         \
    "work: [{name: train, kind: train, gpus: all, process: python}]\n"                                                 \
    "at:\n"                                                                                                            \
    "  - {time: 1m, do: kmsg, text: \"mlx5_core 0000:1c:00.0: Port module event: module 0, Cable unplugged\"}\n"       \
    "  - {time: 2m, do: xid, gpu: 3, code: 13, work: train}\n"                                                         \
    "  - {time: 2m, do: xid, gpu: 5, code: 43}\n"                                                                      \
    "  - {time: 3m, do: xid, gpu: all, code: 45, every: 20ms, times: 150}\n"                                           \
    "  - {time: 4m, do: xid, gpu: 3, code: 31}\n"                                                                      \
    "  - {time: 5m, do: xid, gpu: 1, code: 79}\n"
#define END_NS (600 * SIM_NS)

static void open_log(Kit *kit, KernelLog *log, const char *name, KernelLogFormat format, uint32_t from)
{
    KernelLogSpec spec = {.path = kit_path(kit, "%s", name), .format = format, .boot_us = 1000000, .from = from};
    kit_ok(kernel_log_open(log, kit->image, &spec, &kit->err), kit);
}

static char *whole(Kit *kit, KernelLogFormat format)
{
    KernelLog log;
    open_log(kit, &log, "whole", format, 0);
    assert_true(kernel_log_write(&log, END_NS, NULL, &kit->err) > 1200);
    kernel_log_done(&log);
    return xstrdup(kit_read(kit, "whole"));
}

static void test_kmsg_format(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    CLEANUP_FREE char *text = whole(kit, KERNEL_LOG_KMSG);
    assert_int_equal(strncmp(text, "4,0,61000000,-;mlx5_core 0000:1c:00.0: Port module", 50), 0);
    assert_non_null(strstr(text, "\n4,1,121000000,-;NVRM: GPU at PCI:0000:61:00: GPU-"));
    assert_non_null(strstr(text, "\n4,2,121000000,-;NVRM: GPU Board Serial Number: "));
    assert_non_null(strstr(text, "\n4,3,121000000,-;NVRM: Xid (PCI:0000:61:00): 13, pid="));
    /* numbers without gaps, times that never go back, every line a record */
    uint64_t wanted = 0, last_us = 0;
    for (const char *p = text; *p; p = strchr(p, '\n') + 1, wanted++) {
        unsigned priority;
        unsigned long long number, us;
        assert_int_equal(sscanf(p, "%u,%llu,%llu,-;", &priority, &number, &us), 3);
        assert_int_equal(priority, 4);
        assert_int_equal(number, wanted);
        assert_true(us >= last_us);
        last_us = us;
    }
    assert_true(wanted > 1200);
    kit_free(kit);
}

static void test_dmesg_format(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    CLEANUP_FREE char *text = whole(kit, KERNEL_LOG_DMESG);
    assert_int_equal(strncmp(text, "[   61.000000] mlx5_core 0000:1c:00.0:", 38), 0);
    assert_non_null(strstr(text, "\n[  121.000000] NVRM: Xid (PCI:0000:61:00): 13, "));
    assert_non_null(strstr(text, "\n[  181.020000] NVRM: Xid (PCI:0000:1b:00): 45, "));
    kit_free(kit);
}

/* /dev/kmsg itself is not written to in a test: the same bytes into a file. */
static void test_device_format(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    KernelLog log;
    fclose(fopen(kit_path(kit, "device"), "w")); /* a device is not created */
    open_log(kit, &log, "device", KERNEL_LOG_DEVICE, 0);
    assert_int_equal(kernel_log_write(&log, 60 * SIM_NS, NULL, &kit->err), 1);
    kernel_log_done(&log);
    assert_string_equal(kit_read(kit, "device"),
                        "<4>mlx5_core 0000:1c:00.0: Port module event: module 0, Cable unplugged (stoker-sim)\n");
    KernelLogSpec spec = {.path = kit_path(kit, "no-such-device"), .format = KERNEL_LOG_DEVICE};
    assert_int_equal(kernel_log_open(&log, kit->image, &spec, &kit->err), -ENOENT);
    kernel_log_done(&log);
    kit_free(kit);
}

static void test_steps_write_what_one_go_writes(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    CLEANUP_FREE char *expected = whole(kit, KERNEL_LOG_KMSG);
    KernelLog log;
    uint64_t next = 0, steps = 0;
    open_log(kit, &log, "steps", KERNEL_LOG_KMSG, 0);
    for (uint64_t t = 0; t < END_NS; t += 7 * SIM_NS / 3, steps++) {
        int lines = kernel_log_write(&log, t, &next, &kit->err);
        assert_true(lines >= 0);
        assert_true(next > t);
        assert_int_equal(kernel_log_write(&log, t, &next, &kit->err), 0); /* nothing is due twice */
    }
    assert_int_equal(next, SIM_FOREVER);
    kernel_log_done(&log);
    assert_true(steps > 200);
    assert_string_equal(kit_read(kit, "steps"), expected);
    kit_free(kit);
}

static void test_next_is_when_to_come_again(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    KernelLog log;
    uint64_t next = 0;
    open_log(kit, &log, "next", KERNEL_LOG_KMSG, 0);
    assert_int_equal(kernel_log_write(&log, 0, &next, &kit->err), 0);
    assert_int_equal(next, 60 * SIM_NS);
    assert_int_equal(kernel_log_write(&log, next - 1, &next, &kit->err), 0);
    assert_int_equal(kernel_log_write(&log, next, &next, &kit->err), 1);
    assert_int_equal(next, 120 * SIM_NS);
    kernel_log_done(&log);
    kit_free(kit);
}

static void test_another_writer_goes_on(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    CLEANUP_FREE char *expected = whole(kit, KERNEL_LOG_KMSG);
    uint32_t from = 0;
    for (uint64_t t = 30 * SIM_NS; t <= END_NS; t += 30 * SIM_NS) { /* each time a new one */
        KernelLog log;
        open_log(kit, &log, "turns", KERNEL_LOG_KMSG, from);
        assert_true(kernel_log_write(&log, t, NULL, &kit->err) >= 0);
        from = kernel_log_next(&log);
        kernel_log_done(&log);
    }
    assert_string_equal(kit_read(kit, "turns"), expected);
    kit_free(kit);
}

static void test_live_events_come_once(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: x\ntruth: []\ngpus: {board: h100-sxm-80gb, count: 2}\nwork: []\n");
    KernelLog log;
    open_log(kit, &log, "live", KERNEL_LOG_KMSG, 0);
    int lines = 0;
    for (int i = 0; i < 50; i++) {
        sim_clock_advance(kit->image, SIM_NS);
        kit_apply(kit, (SimOp){.type = SIM_OP_XID, .gpu = i % 2, .a = {92, -1, -1, -1}, .origin = SIM_FROM_INJECT});
        if (i % 3) /* sometimes in the very instant of the op, sometimes later */
            lines += kernel_log_write(&log, sim_clock_now(kit->image), NULL, &kit->err);
    }
    lines += kernel_log_write(&log, END_NS, NULL, &kit->err);
    assert_int_equal(lines, 50 + 2 * 2);
    kernel_log_done(&log);
    const char *text = kit_read(kit, "live");
    int found = 0;
    for (const char *p = text; (p = strstr(p, "): 92, ")); p++)
        found++;
    assert_int_equal(found, 50);
    kit_free(kit);
}

/* A full disk: an event is written whole or not at all, and later. */
static void test_a_full_file_loses_nothing(void **state)
{
    (void)state;
    Kit *kit = kit_new(BUSY);
    CLEANUP_FREE char *expected = whole(kit, KERNEL_LOG_KMSG);
    KernelLog log;
    struct rlimit old, small;
    open_log(kit, &log, "full", KERNEL_LOG_KMSG, 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 3000;
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = kernel_log_write(&log, END_NS, NULL, &kit->err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, -EFBIG);
    const char *half = kit_read(kit, "full");
    size_t len = strlen(half);
    assert_true(len > 1000 && len <= 3000);
    assert_int_equal(half[len - 1], '\n');
    assert_true(kernel_log_write(&log, END_NS, NULL, &kit->err) > 1000);
    kernel_log_done(&log);
    assert_string_equal(kit_read(kit, "full"), expected);
    kit_free(kit);
}

#define BROKEN                                                                                                         \
    "about: x\ntruth: []\ngpus: {board: l40s, count: 1}\nwork: []\nat:\n"                                              \
    "  - {time: 1m, do: kmsg, text: one}\n"                                                                            \
    "  - {time: 2m, do: log, state: overrun, count: 40}\n"                                                             \
    "  - {time: 3m, do: kmsg, text: two}\n"                                                                            \
    "  - {time: 4m, do: log, state: away, for: 2m}\n"                                                                  \
    "  - {time: 5m, do: kmsg, text: three}\n"

static void test_lost_records_and_a_log_that_is_away(void **state)
{
    (void)state;
    Kit *kit = kit_new(BROKEN);
    KernelLog log;
    open_log(kit, &log, "log", KERNEL_LOG_KMSG, 0);
    assert_int_equal(kernel_log_write(&log, 200 * SIM_NS, NULL, &kit->err), 2);
    assert_string_equal(kit_read(kit, "log"), "4,0,61000000,-;one\n4,41,181000000,-;two\n");
    assert_int_equal(kernel_log_write(&log, 310 * SIM_NS, NULL, &kit->err), 1);
    assert_false(kit_exists(kit, "log"));
    assert_int_equal(kernel_log_write(&log, 400 * SIM_NS, NULL, &kit->err), 0);
    assert_string_equal(kit_read(kit, "log"), "4,0,61000000,-;one\n4,41,181000000,-;two\n4,42,301000000,-;three\n");
    kernel_log_done(&log);
    kit_free(kit);
}

static void test_done_twice(void **state)
{
    KernelLog log = {.image = NULL};
    (void)state;
    kernel_log_done(&log);
    kernel_log_done(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kmsg_format),
        cmocka_unit_test(test_dmesg_format),
        cmocka_unit_test(test_device_format),
        cmocka_unit_test(test_steps_write_what_one_go_writes),
        cmocka_unit_test(test_next_is_when_to_come_again),
        cmocka_unit_test(test_another_writer_goes_on),
        cmocka_unit_test(test_live_events_come_once),
        cmocka_unit_test(test_a_full_file_loses_nothing),
        cmocka_unit_test(test_lost_records_and_a_log_that_is_away),
        cmocka_unit_test(test_done_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
