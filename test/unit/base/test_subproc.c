/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/subproc.c. */
#include "base/subproc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "../run_command.h"

enum { LONG_MS = 300 * 1000 }; /* a deadline that no test reaches */

#define SHELL(script) ((const char *const[]){"sh", "-c", (script), NULL})

static int run(const char *const *argv, Str *out, Str *errout, SubprocEnd *end)
{
    return run_command(&(SubprocSpec){.argv = argv}, LONG_MS, out, errout, end, NULL);
}

static void test_output_and_code(void **state)
{
    CLEANUP(str_done) Str out;
    CLEANUP(str_done) Str errout;
    SubprocEnd end;

    (void)state;
    str_init(&out, 1000);
    str_init(&errout, 1000);
    assert_int_equal(run(SHELL("echo out; echo err >&2; cat; exit 3"), &out, &errout, &end), 0);
    assert_string_equal(out.text, "out\n"); /* cat saw the end of /dev/null */
    assert_string_equal(errout.text, "err\n");
    assert_true(end.exited);
    assert_int_equal(end.exit_code, 3);
    assert_false(end.timed_out);
    assert_int_equal(run(SHELL("kill -9 $$"), NULL, NULL, &end), 0);
    assert_false(end.exited);
    assert_int_equal(end.signal, SIGKILL);
}

static void test_output_is_capped(void **state)
{
    CLEANUP(str_done) Str out;
    SubprocEnd end;

    (void)state;
    str_init(&out, 1000);
    assert_int_equal(run(SHELL("head -c 300000 /dev/zero | tr '\\0' x"), &out, NULL, &end), 0);
    assert_int_equal(out.len, 1000);
    assert_true(out.overflow);
    assert_int_equal(end.exit_code, 0);
}

static void test_not_started(void **state)
{
    static const char *const none[] = {"/no-such-folder/program", NULL}, *const dir[] = {"/tmp", NULL},
                             *const absent[] = {"no-such-program", NULL};
    Subproc child = {0};
    Err err = {0};

    (void)state;
    assert_int_equal(subproc_start(&(SubprocSpec){.argv = none}, &child, &err), -ENOENT);
    assert_string_equal(err.text, "run '/no-such-folder/program': No such file or directory");
    assert_int_equal(subproc_start(&(SubprocSpec){.argv = dir}, &child, &err), -EACCES);
    assert_string_equal(err.text, "run '/tmp': Permission denied");
    assert_int_equal(subproc_start(&(SubprocSpec){.argv = absent}, &child, &err), -ENOENT);
    assert_string_equal(err.text, "run 'no-such-program': No such file or directory");
    assert_int_equal(child.pid, 0);
    subproc_done(&child);
}

/* Without us as its parent a killed process is gone, or a zombie until its new parent looks. */
static bool is_running(pid_t pid)
{
    CLEANUP(str_done) Str stat;
    char path[64];

    str_init(&stat, 4096);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return file_read(path, 4096, &stat, NULL) == 0 && !strstr(stat.text, ") Z");
}

/* The whole group goes, also what holds the pipes open and what ignores SIGTERM. */
static void test_deadline(void **state)
{
    CLEANUP(str_done) Str out;
    char text[SUBPROC_TEXT_MAX];
    SubprocEnd end;
    pid_t grandchild;

    (void)state;
    str_init(&out, 1000);
    for (uint64_t ms = 300; out.len == 0; ms *= 4) { /* a busy machine may end it before it has said anything */
        const SubprocSpec spec = {.argv = SHELL("trap '' TERM; sleep 1000 & echo $!; wait")};

        assert_true(ms < 600 * 1000);
        assert_int_equal(run_command(&spec, ms, &out, NULL, &end, NULL), 0);
        assert_true(end.timed_out);
    }
    subproc_describe(&end, text);
    assert_string_equal(text, "timed out");
    grandchild = (pid_t)atoi(out.text);
    assert_true(grandchild > 0);
    while (is_running(grandchild))
        usleep(2000);
}

static void test_environment(void **state)
{
    static const char *const changes[] = {"STOKER_NEW=n", "STOKER_OLD=changed", "STOKER_GONE", NULL};
    CLEANUP(str_done) Str out;
    SubprocEnd end;
    SubprocSpec spec = {.argv = SHELL("echo $STOKER_NEW $STOKER_OLD ${STOKER_GONE-unset} $STOKER_KEPT"),
                        .env = changes};

    (void)state;
    setenv("STOKER_OLD", "old", 1);
    setenv("STOKER_GONE", "there", 1);
    setenv("STOKER_KEPT", "kept", 1);
    str_init(&out, 1000);
    assert_int_equal(run_command(&spec, LONG_MS, &out, NULL, &end, NULL), 0);
    assert_string_equal(out.text, "n changed unset kept\n");
}

/* The child has 0, 1, 2 and what it was given - whatever else is open here. */
static void test_descriptors(void **state)
{
    CLEANUP(str_done) Str out;
    SubprocEnd end;
    int pass[2][2], leak = open("/dev/null", O_RDONLY); /* on purpose without O_CLOEXEC */
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(pass[0], O_CLOEXEC), 0);
    assert_int_equal(pipe2(pass[1], O_CLOEXEC), 0);
    /* crossed, so that each target may be the other's source */
    fds[0] = pass[1][1];
    fds[1] = pass[0][1];
    str_init(&out, 1000);
    SubprocSpec spec = {.argv = SHELL("echo a >&3; echo b >&4; ls /proc/self/fd"), .pass_fds = fds, .pass_count = 2};
    assert_int_equal(run_command(&spec, LONG_MS, &out, NULL, &end, NULL), 0);
    assert_string_equal(out.text, "0\n1\n2\n3\n4\n5\n"); /* 5 is the directory that ls reads */
    char got[3] = "";
    assert_int_equal(read(pass[1][0], got, 2), 2);
    assert_string_equal(got, "a\n");
    assert_int_equal(read(pass[0][0], got, 2), 2);
    assert_string_equal(got, "b\n");
    for (int i = 0; i < 2; i++) {
        close(pass[i][0]);
        close(pass[i][1]);
    }
    close(leak);
}

static const char *enter_root(void *self)
{
    return chdir(self) < 0 ? "enter a folder for" : NULL;
}

static void test_prepared(void **state)
{
    char there[] = "/", not_there[] = "/none/such";
    SubprocSpec spec = {.argv = SHELL("pwd"), .prepare = enter_root, .self = there};
    CLEANUP(str_done) Str out = str_limited(100);
    SubprocEnd end;
    Subproc child;
    Err err;

    (void)state;
    assert_int_equal(run_command(&spec, LONG_MS, &out, NULL, &end, NULL), 0);
    assert_string_equal(out.text, "/\n");
    spec.self = not_there;
    assert_int_equal(subproc_start(&spec, &child, &err), -ENOENT);
    assert_string_equal(err.text, "enter a folder for 'sh': No such file or directory");
}

static void test_background(void **state)
{
    SubprocSpec spec = {.argv = SHELL("echo ready; exec sleep 1000"), .pipe_out = true, .die_with_us = true};
    Subproc child;
    SubprocEnd end;
    char got[16] = "", text[SUBPROC_TEXT_MAX];

    (void)state;
    assert_int_equal(subproc_start(&spec, &child, NULL), 0);
    assert_int_equal(child.err_fd, -1);
    struct pollfd out = {.fd = child.out_fd, .events = POLLIN};
    assert_int_equal(poll(&out, 1, LONG_MS), 1);
    assert_int_equal(read(child.out_fd, got, sizeof(got)), 6);
    assert_string_equal(got, "ready\n");
    assert_int_equal(subproc_wait(&child, 0, &end, NULL), SUBPROC_RUNNING);
    assert_int_equal(subproc_stop(&child, LONG_MS, &end, NULL), 0);
    assert_int_equal(end.signal, SIGTERM);
    subproc_describe(&end, text);
    assert_string_equal(text, "killed by signal 15 (Terminated)");
    assert_int_equal(child.pid, 0);
    assert_int_equal(subproc_wait(&child, 0, &end, NULL), -ESRCH);
    assert_int_equal(subproc_stop(&child, 10, &end, NULL), -ESRCH); /* and not our own group */
    subproc_done(&child);
    subproc_done(&child);
}

static void test_signals_are_reset(void **state)
{
    CLEANUP(str_done) Str out;
    SubprocEnd end;
    sigset_t mask, old;

    (void)state;
    str_init(&out, 100);
    for (int sig = 1; sig < SIGRTMIN; sig++) /* whatever we were started with, under nohup for one */
        signal(sig, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, &old);
    assert_int_equal(run(SHELL("grep -E '^Sig(Blk|Ign):' /proc/self/status"), &out, NULL, &end), 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(SIGPIPE, SIG_DFL);
    /* 32 and 33 are libc's own: some starters (make) leave them ignored, and nobody can change that through libc */
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(out.text, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & ~0x180000000ull, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_and_code),   cmocka_unit_test(test_output_is_capped),
        cmocka_unit_test(test_not_started),       cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_environment),       cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_prepared),          cmocka_unit_test(test_background),
        cmocka_unit_test(test_signals_are_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
