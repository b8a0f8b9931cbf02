/* SPDX-License-Identifier: Apache-2.0 */
/* Running commands among a tree's files: the tree is the real one inside, the machine is as before outside. Needs
 * root, and is skipped without. */
#include "node_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"

#define NODE                                                                                                           \
    "about: x\ntruth: []\nnode: {driver: \"590.48.01\"}\n"                                                             \
    "gpus: {board: h100-sxm-80gb, count: 4, mig: [3g.40gb]}\nwork: []\n"

typedef struct Inside {
    Kit *kit;
    NodeTree tree;
    NodeProc proc;
} Inside;

static int may_enter(void)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : 1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void begin_with(Inside *in, NodeProc proc, uint32_t flags)
{
    if (!may_enter()) {
        print_message(
            "# skipped: a private mount namespace needs root (CAP_SYS_ADMIN) and a root that is a mount point\n");
        skip();
    }
    in->kit = kit_new(NODE);
    in->proc = proc;
    kit_ok(node_tree_write(in->kit->image, kit_path(in->kit, "n"), 0, flags, &in->tree, &in->kit->err), in->kit);
}

static void begin(Inside *in, NodeProc proc)
{
    begin_with(in, proc, 0);
}

static void end(Inside *in)
{
    kit_free(in->kit);
}

static pid_t spawn(Inside *in, const char *script)
{
    static const char *const env[] = {"STOKER_TEST=yes", NULL};
    const char *argv[] = {"sh", "-c", script, NULL};
    pid_t pid = 0;
    NodeCommand command = {.root = kit_path(in->kit, "n"), .enter = true, .argv = argv, .env = env, .proc = in->proc};
    kit_ok(node_spawn(&command, &pid, &in->kit->err), in->kit);
    return pid;
}

static int finish(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What a shell command prints inside, without the last newline. */
static char *inside(Inside *in, const char *script)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "exec >%s 2>&1; %s", kit_path(in->kit, "out"), script);
    finish(spawn(in, whole));
    char *text = xstrdup(kit_read(in->kit, "out"));
    size_t len = strlen(text);
    if (len && text[len - 1] == '\n')
        text[len - 1] = '\0';
    return text;
}

static void assert_inside(Inside *in, const char *script, const char *expected)
{
    CLEANUP_FREE char *text = inside(in, script);
    assert_string_equal(text, expected);
}

static void check_files(NodeProc proc)
{
    Inside in;
    begin(&in, proc);
    CLEANUP_FREE char *version = inside(&in, "cat /proc/driver/nvidia/version");
    assert_int_equal(strncmp(version, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01", 66), 0);
    CLEANUP_FREE char *self = inside(&in, "ls /proc/self");
    assert_non_null(strstr(self, "cmdline\n"));
    assert_non_null(strstr(self, "mountinfo\n"));
    assert_inside(&in, "cat /sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de");
    assert_inside(&in, "readlink -f /sys/bus/pci/devices/0000:1b:00.0",
                  "/sys/devices/pci0000:18/0000:18:01.0/0000:19:00.0/0000:1a:00.0/0000:1b:00.0");
    assert_inside(&in, "readlink -f /sys/bus/pci/devices/0000:1b:00.0/driver", "/sys/bus/pci/drivers/nvidia");
    assert_inside(&in, "cat /sys/class/infiniband/mlx5_0/device/vendor", "0x15b3");
    assert_inside(&in, "cat /sys/module/nvidia/version", "590.48.01");
    assert_inside(&in, "ls -d /dev/nvidia[0-9]* /dev/nvidiactl",
                  "/dev/nvidia0\n/dev/nvidia1\n/dev/nvidia2\n/dev/nvidia3\n/dev/nvidiactl");
    assert_inside(&in, "test -e /dev/nvidia-caps/nvidia-cap1 && echo yes", "yes");
    assert_inside(&in, "grep -c '^gpu0/gi1/access 12$' /proc/driver/nvidia-caps/mig-minors", "1");
    assert_inside(&in, "echo $STOKER_TEST", "yes");
    end(&in);
}

static void test_files_of_the_node(void **state)
{
    (void)state;
    check_files(NODE_PROC_AUTO);
}

static void test_files_of_the_node_in_a_rebuilt_proc(void **state)
{
    (void)state;
    check_files(NODE_PROC_REBUILD);
}

static void check_machine(NodeProc proc)
{
    Inside in;
    begin(&in, proc);
    assert_inside(&in, "test -r /proc/sys/kernel/pid_max && test -r /proc/meminfo && test -r /proc/mounts && echo yes",
                  "yes");
    assert_inside(
        &in, "readlink /proc/self/exe >/dev/null && test -d /proc/self/fd && test -d /proc/self/task && echo y", "y");
    assert_inside(&in, "test -d /proc/1 && test -d /proc/$$ && echo yes", "yes");
    assert_inside(&in, "cut -d' ' -f1 /proc/$$/stat | grep -qx $$ && echo yes", "yes");
    assert_inside(&in, "echo x >/dev/null && head -c 4 /dev/zero | wc -c", "4");
    assert_inside(&in, "test -c /dev/null && test -c /dev/urandom && test -d /dev/shm && test -e /dev/stdin && echo y",
                  "y");
    assert_inside(&in,
                  "test -d /sys/devices/system/cpu && ls -d /sys/class/net/lo && test -r /sys/class/net/lo/mtu "
                  "&& test -d /sys/fs && test -d /sys/kernel && echo yes",
                  "/sys/class/net/lo\nyes");
    end(&in);
}

static void test_the_machine_is_still_there(void **state)
{
    (void)state;
    check_machine(NODE_PROC_KEEP);
}

static void test_the_machine_is_still_there_in_a_rebuilt_proc(void **state)
{
    (void)state;
    check_machine(NODE_PROC_REBUILD);
}

static void test_nothing_is_seen_outside(void **state)
{
    (void)state;
    Inside in;
    struct stat before = {0}, after = {0};
    stat("/sys/devices", &before); /* a root may have no /sys */
    begin(&in, NODE_PROC_REBUILD);
    assert_inside(&in, "touch /dev/stoker-test-file && echo made", "made"); /* /dev is its own */
    assert_int_equal(access("/dev/stoker-test-file", F_OK), -1);
    assert_int_equal(access("/proc/driver/nvidia/version", F_OK), -1);
    assert_int_equal(access("/proc/.kernel", F_OK), -1);
    stat("/sys/devices", &after);
    assert_true(before.st_dev == after.st_dev && before.st_ino == after.st_ino);
    CLEANUP(str_done) Str mounts;
    str_init(&mounts, 1 << 20);
    kit_ok(file_read("/proc/self/mounts", 1 << 20, &mounts, &in.kit->err), in.kit);
    assert_null(strstr(mounts.text, in.kit->dir));
    end(&in);
}

/* Two-way: a command that waits at a pipe while the tree changes under it. */
static void check_changes(NodeProc proc)
{
    Inside in;
    char script[1024], pipe_path[256], byte = '\n';
    begin(&in, proc);
    snprintf(pipe_path, sizeof pipe_path, "%s", kit_path(in.kit, "go"));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    snprintf(script, sizeof script,
             "exec >%s 2>&1; cat /sys/module/nvidia/version; cd /proc/driver; read x <%s; "
             "ls /proc/driver; test -e /sys/module/nvidia || echo unloaded; "
             "test -e /sys/bus/pci/devices/0000:43:00.0 || echo unplugged; i=0; while [ -e /dev/nvidia1 ] && [ $i -lt "
             "200 ]; do i=$((i+1)); sleep 0.05; done; "
             "test -e /dev/nvidia1 || echo gone; "
             "! test -e /proc/modules || grep -c '^nvidia' /proc/modules",
             kit_path(in.kit, "out"), pipe_path);
    pid_t pid = spawn(&in, script);
    CLEANUP_FD int go = open(pipe_path, O_WRONLY | O_CLOEXEC); /* waits for the reader */
    assert_true(go >= 0);
    kit_apply(in.kit, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .u = SIM_DRIVER_UNLOADED});
    kit_apply(in.kit, (SimOp){.type = SIM_OP_PLUG, .gpu = 1, .origin = SIM_FROM_INJECT});
    assert_int_equal(node_tree_update(&in.tree, 0, &in.kit->err), NODE_TREE_CHANGED);
    assert_int_equal(write(go, &byte, 1), 1);
    finish(pid);
    const char *modules = proc == NODE_PROC_REBUILD || access("/proc/modules", F_OK) == 0 ? "0\n" : "";
    char expected[256];
    snprintf(expected, sizeof expected, "590.48.01\nunloaded\nunplugged\ngone\n%s", modules);
    assert_string_equal(kit_read(in.kit, "out"), expected);
    end(&in);
}

static void test_changes_are_seen_inside(void **state)
{
    (void)state;
    check_changes(NODE_PROC_KEEP);
}

static void test_changes_are_seen_in_a_rebuilt_proc(void **state)
{
    (void)state;
    check_changes(NODE_PROC_REBUILD);
}

#define WAIT_FOR                                                                                                       \
    "wait_for() { i=0; while [ $i -lt 200 ]; do eval \"$1\" && return; i=$((i+1)); sleep 0.05; done; echo never; }; "

/* Nodes with the driver's modes, no links: nvidia-ctk looks at them with lstat. They come and go with the tree's. */
static void test_devices_are_nodes(void **state)
{
    (void)state;
    Inside in;
    char script[1024];
    const dev_t number = makedev(195, 1);
    begin_with(&in, NODE_PROC_KEEP, NODE_TREE_DEVICES);
    if (mknod(kit_path(in.kit, "node"), S_IFCHR | 0600, number) < 0) {
        print_message("# skipped: no device may be made here\n");
        end(&in);
        skip();
    }
    assert_inside(&in, "stat -c '%A %t:%T' /dev/nvidia1 /dev/nvidia-caps/nvidia-cap1 /dev/nvidia-caps/nvidia-cap21",
                  "crw-rw-rw- c3:1\ncr-------- 193:1\ncr--r--r-- 193:15");
    assert_int_equal(mkfifo(kit_path(in.kit, "go"), 0600), 0);
    snprintf(script, sizeof script,
             WAIT_FOR "exec >%s 2>&1; read x <%s; wait_for 'test ! -e /dev/nvidia1'; "
                      "wait_for 'test ! -e /dev/nvidia-caps/nvidia-cap21'; ls -d /dev/nvidia[0-9]*",
             kit_path(in.kit, "out"), kit_path(in.kit, "go"));
    pid_t pid = spawn(&in, script);
    CLEANUP_FD int go = open(kit_path(in.kit, "go"), O_WRONLY | O_CLOEXEC); /* waits for the reader */
    kit_apply(in.kit, (SimOp){.type = SIM_OP_PLUG, .gpu = 1, .origin = SIM_FROM_INJECT});
    kit_apply(in.kit, (SimOp){.type = SIM_OP_CI_DESTROY, .gpu = 0, .a = {2, 0}});
    kit_apply(in.kit, (SimOp){.type = SIM_OP_GI_DESTROY, .gpu = 0, .a = {2}});
    assert_int_equal(node_tree_update(&in.tree, 0, &in.kit->err), NODE_TREE_CHANGED);
    assert_int_equal(write(go, "\n", 1), 1);
    finish(pid);
    assert_string_equal(kit_read(in.kit, "out"), "/dev/nvidia0\n/dev/nvidia2\n/dev/nvidia3\n");
    end(&in);
}

static void test_new_processes_appear_and_vanish(void **state)
{
    (void)state;
    Inside in;
    begin(&in, NODE_PROC_REBUILD);
    /* the helper looks every 50 ms; a loop that gives up after some seconds */
    assert_inside(&in,
                  WAIT_FOR "sleep 1000 & p=$!; wait_for \"grep -qs sleep /proc/$p/comm\"; cat /proc/$p/comm; kill $p; "
                           "wait $p 2>/dev/null; wait_for \"[ ! -e /proc/$p ] && [ ! -L /proc/$p ]\"; echo done",
                  "sleep\ndone");
    end(&in);
}

/* The command must not see the helper as a child of its own, nor wait for it at its end. */
static void test_the_helper_is_nobodys_child(void **state)
{
    (void)state;
    Inside in;
    begin(&in, NODE_PROC_REBUILD);
    assert_inside(&in, "read c </proc/$$/task/$$/children; echo \"[$c]\"", "[]");
    end(&in);
}

static void test_failures(void **state)
{
    (void)state;
    Inside in;
    pid_t pid = 0;
    begin(&in, NODE_PROC_KEEP);
    const char *none[] = {"no-such-program-anywhere", NULL}, *yes[] = {"true", NULL};
    NodeCommand command = {.root = kit_path(in.kit, "n"), .enter = true, .argv = none, .proc = NODE_PROC_KEEP};
    assert_int_equal(node_spawn(&command, &pid, &in.kit->err), -ENOENT);
    assert_string_equal(in.kit->err.text, "run 'no-such-program-anywhere': No such file or directory");
    command.argv = yes;
    command.root = "/proc";
    assert_int_equal(node_spawn(&command, &pid, &in.kit->err), -EINVAL);
    command.root = "/nowhere/at/all";
    assert_int_equal(node_spawn(&command, &pid, &in.kit->err), -ENOENT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    end(&in);
}

/* As anybody but root. */
static void test_without_root(void **state)
{
    (void)state;
    const char *yes[] = {"true", NULL};
    NodeCommand command = {.root = "/tmp", .enter = true, .argv = yes};
    int status = 0;
    pid_t other = fork(), pid = 0;
    if (other == 0) {
        Err err;
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(3);
        if (node_spawn(&command, &pid, &err) != -EPERM)
            _exit(1);
        _exit(strstr(err.text, "needs root (CAP_SYS_ADMIN)") ? 0 : 2);
    }
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_the_node),
        cmocka_unit_test(test_files_of_the_node_in_a_rebuilt_proc),
        cmocka_unit_test(test_the_machine_is_still_there),
        cmocka_unit_test(test_the_machine_is_still_there_in_a_rebuilt_proc),
        cmocka_unit_test(test_nothing_is_seen_outside),
        cmocka_unit_test(test_changes_are_seen_inside),
        cmocka_unit_test(test_changes_are_seen_in_a_rebuilt_proc),
        cmocka_unit_test(test_devices_are_nodes),
        cmocka_unit_test(test_new_processes_appear_and_vanish),
        cmocka_unit_test(test_the_helper_is_nobodys_child),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_without_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
