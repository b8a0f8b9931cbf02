/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI bus (source/pci/scan.c) and /proc (source/proc/) on trees made by hand, and the real ones. The simulated
 * node's trees: test_pci_tree.py. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/duration.h"
#include "source/pci/pci.h"
#include "source/proc/task.h"

static char root[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/stoker-scan-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree("/tmp", root + strlen("/tmp/"), NULL);
}

static void put_data(const char *path, const void *data, size_t len)
{
    char whole[512], dir[512];

    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    snprintf(dir, sizeof(dir), "%s", whole);
    *strrchr(dir, '/') = '\0';
    assert_int_equal(file_make_dirs(dir, 0755, NULL), 0);
    assert_int_equal(file_write(whole, data, len, 0644, NULL), 0);
}

static void put(const char *path, const char *text)
{
    put_data(path, text, strlen(text));
}

#define AT(name, file) "sys/bus/pci/devices/" name "/" file

static void gpus_are_found_and_sorted(void **state)
{
    FactsGpu gpus[8];
    size_t count;
    char link[512];

    (void)state;
    put(AT("0000:9d:00.0", "vendor"), "0x10de\n");
    put(AT("0000:9d:00.0", "class"), "0x030200\n");
    put(AT("0000:9d:00.0", "current_link_speed"), "32.0 GT/s PCIe\n");
    put(AT("0000:9d:00.0", "max_link_speed"), "64.0 GT/s PCIe\n");
    put(AT("0000:9d:00.0", "current_link_width"), "8\n");
    put(AT("0000:9d:00.0", "max_link_width"), "16\n");
    put_data(AT("0000:9d:00.0", "config"), "\xde\x10\x30\x23", 4);
    snprintf(link, sizeof(link), "%s/%s", root, AT("0000:9d:00.0", "driver"));
    assert_int_equal(symlink("../../../../bus/pci/drivers/nvidia", link), 0);
    put(AT("0000:1b:00.0", "vendor"), "0x10de\n");
    put(AT("0000:1b:00.0", "class"), "0x030000\n");
    put_data(AT("0000:1b:00.0", "config"), "\xff\xff\xff\xff", 4);
    put(AT("0000:1b:00.0", "current_link_width"), "63\n");
    put(AT("0000:1c:00.0", "vendor"), "0x10de\n"); /* an NVSwitch */
    put(AT("0000:1c:00.0", "class"), "0x068000\n");
    put(AT("0000:1d:00.0", "vendor"), "0x1002\n"); /* another vendor's */
    put(AT("0000:1d:00.0", "class"), "0x030000\n");
    put(AT("nonsense", "vendor"), "0x10de\n");
    put(AT("nonsense", "class"), "0x030000\n");
    assert_int_equal(pci_scan(root, gpus, 8, &count, NULL, NULL), 0);
    assert_int_equal(count, 2);
    assert_int_equal(gpus[0].pci.bus, 0x1b);
    assert_true(gpus[0].config_lost);
    assert_string_equal(gpus[0].driver, "");
    assert_int_equal(gpus[0].current.width, 0);
    assert_int_equal(gpus[1].pci.bus, 0x9d);
    assert_false(gpus[1].config_lost);
    assert_string_equal(gpus[1].driver, "nvidia");
    assert_int_equal(gpus[1].current.speed_mts, 32000);
    assert_int_equal(gpus[1].current.width, 8);
    assert_int_equal(gpus[1].max.speed_mts, 64000);
    assert_int_equal(gpus[1].max.width, 16);
}

static void nonsense_is_unknown(void **state)
{
    FactsGpu gpu;
    size_t count;

    (void)state;
    put(AT("0000:01:00.0", "vendor"), "0x10de\n");
    put(AT("0000:01:00.0", "class"), "0x030200\n");
    put_data(AT("0000:01:00.0", "config"), "\xde\x10", 2); /* cut short */
    put(AT("0000:02:00.0", "vendor"), "0x10de\n");
    put(AT("0000:02:00.0", "class"), "0x030200\n");
    put_data(AT("0000:02:00.0", "config"), "\xde\x10\x30\x23", 4);
    put(AT("0000:02:00.0", "current_link_speed"), "Unknown\n");
    put(AT("0000:02:00.0", "max_link_speed"), "99999999999999999999 GT/s\n");
    put(AT("0000:02:00.0", "current_link_width"), "-1\n");
    put(AT("0000:02:00.0", "max_link_width"), "");
    assert_int_equal(pci_scan(root, &gpu, 1, &count, NULL, NULL), 0);
    assert_int_equal(count, 2); /* more than there was room for */
    put(AT("0000:01:00.0", "vendor"), "0x8086\n");
    assert_int_equal(pci_scan(root, &gpu, 1, &count, NULL, NULL), 0);
    assert_int_equal(gpu.pci.bus, 2);
    assert_false(gpu.config_lost);
    assert_int_equal(gpu.current.speed_mts, 0);
    assert_int_equal(gpu.current.width, 0);
    assert_int_equal(gpu.max.width, 0);
    put(AT("0000:01:00.0", "vendor"), "0x10de\n");
    put(AT("0000:02:00.0", "vendor"), "");
    assert_int_equal(pci_scan(root, &gpu, 1, &count, NULL, NULL), 0);
    assert_int_equal(count, 1);
    assert_true(gpu.config_lost);
}

static void a_sleeping_gpu_is_not_woken(void **state)
{
    FactsGpu gpu;
    size_t count;

    (void)state;
    put(AT("0000:01:00.0", "vendor"), "0x10de\n");
    put(AT("0000:01:00.0", "class"), "0x030000\n");
    put(AT("0000:01:00.0", "power/runtime_status"), "suspended\n");
    put(AT("0000:01:00.0", "current_link_width"), "16\n");
    assert_int_equal(pci_scan(root, &gpu, 1, &count, NULL, NULL), 0); /* there is no config to read */
    assert_int_equal(count, 1);
    assert_true(gpu.asleep);
    assert_false(gpu.config_lost);
    assert_int_equal(gpu.current.width, 0);
}

static void no_bus_is_no_gpu(void **state)
{
    size_t count = 9;
    Err err;

    (void)state;
    assert_int_equal(pci_scan(root, NULL, 0, &count, NULL, &err), 0);
    assert_int_equal(count, 0);
    put("sys/bus/pci/devices", "a file");
    assert_int_equal(pci_scan(root, NULL, 0, &count, NULL, &err), -ENOTDIR);
    assert_int_equal(pci_scan("", NULL, 0, &count, NULL, &err), 0);
}

static void one_self_costs_something(void **state)
{
    ProcSelf self, again;
    int fd;
    Err err;

    (void)state;
    assert_int_equal(proc_self_read("", &self, &err), 0);
    assert_true(self.cpu_ns > 0);
    assert_true(self.rss_bytes >= 4096 && self.virtual_bytes >= self.rss_bytes);
    assert_true(self.open_fds >= 3 && self.open_fds <= self.max_fds);
    assert_true(self.start_real_ns > 1600000000 * NS_PER_S);
    fd = open("/dev/null", O_RDONLY);
    assert_int_equal(proc_self_read("", &again, &err), 0);
    assert_int_equal(again.open_fds, self.open_fds + 1);
    close(fd);
}

static void a_made_up_process_is_read(void **state)
{
    ProcTask task = {.state = 'x'};
    ProcSelf self;
    char text[32];
    Err err;

    (void)state;
    put("proc/42/stat", "42 (a ) S (b)) D 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 12345 9000000 7 "
                        "18446744073709551615 1 1 0 0 0\n");
    assert_int_equal(proc_task_read(root, 42, &task, &err), 0);
    assert_int_equal(task.state, 'D');
    assert_int_equal(task.cpu_ns, 200 * NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
    assert_int_equal(task.rss_bytes, 7 * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(proc_task_read(root, 43, &task, &err), -ENOENT);
    put("proc/43/stat", "43 (cut");
    assert_int_equal(proc_task_read(root, 43, &task, &err), -EBADMSG);
    assert_int_equal(task.state, 'D');

    put("proc/self/stat", "42 (b) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 500 9000000 7 1\n");
    put("proc/self/fd/0", "");
    put("proc/self/fd/1", "");
    assert_int_equal(proc_self_read(root, &self, &err), -ENOENT);
    put("proc/stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 4\n");
    assert_int_equal(proc_self_read(root, &self, &err), 0);
    assert_int_equal(self.open_fds, 2);
    assert_int_equal(self.start_real_ns, 1700000000 * NS_PER_S + 500 * NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));

    proc_task_wchan(root, 42, text, sizeof(text));
    assert_string_equal(text, "");
    put("proc/42/syscall", "16 0x3 0x1 0x2\n");
    proc_task_wchan(root, 42, text, sizeof(text));
    assert_string_equal(text, "syscall 16");
    put("proc/42/stack", "[<0>] nv_wait+0x1f/0x40 [nvidia]\n[<0>] do_it+0x1/0x2\n");
    put("proc/42/wchan", "0");
    proc_task_wchan(root, 42, text, sizeof(text));
    assert_string_equal(text, "nv_wait");
    put("proc/42/wchan", "os_acquire_rwlock_write");
    proc_task_wchan(root, 42, text, sizeof(text));
    assert_string_equal(text, "os_acquire_rwlock_write");
    proc_task_wchan(root, 42, text, 4);
    assert_string_equal(text, "os_");
}

static void a_real_process_is_read(void **state)
{
    ProcTask task;
    char text[64];
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        for (;;)
            pause();
    do
        assert_int_equal(proc_task_read("", pid, &task, NULL), 0);
    while (task.state != 'S');
    proc_task_wchan("", pid, text, sizeof(text)); /* what it says depends on our rights */
    assert_true(strlen(text) < sizeof(text));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(proc_task_read("", pid, &task, NULL) < 0);
}

int main(void)
{
#define TREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TREE(gpus_are_found_and_sorted), TREE(nonsense_is_unknown),      TREE(a_sleeping_gpu_is_not_woken),
        TREE(no_bus_is_no_gpu),          TREE(one_self_costs_something), TREE(a_made_up_process_is_read),
        TREE(a_real_process_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
