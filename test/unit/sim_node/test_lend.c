/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that stand for works: there while the work runs, under its name, gone after. Covers lend.c. */
#include "node_kit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

#define NODE                                                                                                           \
    "about: x\ntruth: []\n"                                                                                            \
    "gpus: {board: h100-sxm-80gb, count: 4}\n"                                                                         \
    "work:\n"                                                                                                          \
    "  - {name: a, kind: train, gpus: 0-1, process: ray::Worker x, user: 12345, start: 10s, stop: 60s}\n"              \
    "  - {name: b, kind: inference, gpus: 2, process: vllm, start: 20s}\n"                                             \
    "at: [{time: 40s, do: xid, gpu: 1, code: 79}]\n"

static void at(Kit *kit, Lend *lend, uint64_t s, int changes)
{
    uint64_t now = sim_clock_now(kit->image);
    if (s * SIM_NS > now)
        sim_clock_advance(kit->image, s * SIM_NS - now);
    int rc = lend_update(lend, sim_clock_now(kit->image), &kit->err);
    kit_ok(rc, kit);
    assert_int_equal(rc, changes);
}

static int alive(pid_t pid)
{
    return pid > 0 && kill(pid, 0) == 0;
}

/* A file of /proc/<pid>, NULs as they are; returns its length. */
static size_t proc_file(pid_t pid, const char *name, char out[1024])
{
    char path[64];
    Str text;
    Err err;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    str_init_room(&text, out, 1024);
    if (file_read(path, 1023, &text, &err) < 0)
        fail_msg("%s", err.text);
    return text.len;
}

static void test_they_come_and_go_with_the_work(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    Lend lend;
    lend_start(&lend, kit->image);
    at(kit, &lend, 0, 0);
    at(kit, &lend, 10, 2);
    pid_t first = lend.works[0].pid, second = lend.works[1].pid;
    assert_true(alive(first) && alive(second) && first != second);
    assert_int_equal(sim_work_pid(kit->image, 0), first);
    assert_int_equal(sim_work_pid(kit->image, 1), second);
    at(kit, &lend, 15, 0);
    at(kit, &lend, 30, 1);
    assert_true(alive(lend.works[2].pid));
    at(kit, &lend, 50, 1); /* the lost GPU's */
    assert_false(alive(second));
    assert_int_equal(sim_work_pid(kit->image, 1), kit->image->works[1].fixed_pid);
    assert_true(alive(first));
    at(kit, &lend, 100, 1);
    assert_false(alive(first));
    pid_t last = lend.works[2].pid;
    lend_stop(&lend);
    assert_false(alive(last));
    assert_int_equal(sim_work_pid(kit->image, 2), kit->image->works[2].fixed_pid);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left to wait for */
    lend_stop(&lend);
    kit_free(kit);
}

static void test_another_stage_is_the_same_process(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: x\ntruth: []\ngpus: {board: h100-sxm-80gb, count: 1}\nwork:\n"
                       "  - {name: chat, kind: idle-context, gpus: 0, memory: 8GiB, stop: 60s,\n"
                       "     then: [{time: 10s, kind: inference}, {time: 20s, memory: 16GiB}]}\n");
    Lend lend;
    lend_start(&lend, kit->image);
    at(kit, &lend, 1, 1);
    const uint32_t pid = sim_work_pid(kit->image, 0);
    at(kit, &lend, 11, 0);
    assert_int_equal(sim_work_pid(kit->image, 1), pid);
    at(kit, &lend, 21, 0);
    assert_int_equal(sim_work_pid(kit->image, 2), pid);
    assert_true(alive((pid_t)pid));
    at(kit, &lend, 61, 1);
    assert_false(alive((pid_t)pid));
    lend_stop(&lend);
    kit_free(kit);
}

static void test_names(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    Lend lend;
    char text[1024];
    struct stat st;
    lend_start(&lend, kit->image);
    at(kit, &lend, 20, 3);
    proc_file(lend.works[0].pid, "comm", text);
    assert_string_equal(text, "ray::Worker x\n");
    size_t len = proc_file(lend.works[0].pid, "cmdline", text);
    assert_int_equal(len, strlen("ray::Worker x") + 1);
    assert_string_equal(text, "ray::Worker x");
    proc_file(lend.works[2].pid, "comm", text);
    assert_string_equal(text, "vllm\n");
    snprintf(text, sizeof text, "/proc/%d", lend.works[0].pid);
    assert_int_equal(stat(text, &st), 0);
    assert_int_equal(st.st_uid, geteuid() == 0 ? 12345 : geteuid());
    proc_file(getpid(), "cmdline", text); /* ours is ours */
    assert_non_null(strstr(text, "test_sim_node_lend"));
    lend_stop(&lend);
    kit_free(kit);
}

static void test_they_hold_none_of_our_files(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    Lend lend;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0); /* not close-on-exec, and they do not exec */
    lend_start(&lend, kit->image);
    at(kit, &lend, 20, 3);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* or this would wait for them */
    close(ends[0]);
    lend_stop(&lend);
    kit_free(kit);
}

static void wait_dead(pid_t pid)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void test_killing_one_ends_the_work(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE "  # the same one comes back later\n");
    Lend lend;
    SimNow now;
    lend_start(&lend, kit->image);
    at(kit, &lend, 20, 3);
    pid_t pid = lend.works[2].pid;
    assert_int_equal(kill(pid, SIGTERM), 0);
    wait_dead(pid);
    at(kit, &lend, 20, 1);
    sim_state_at(kit->image, 2, sim_clock_now(kit->image), &now);
    assert_int_equal(now.proc_count, 0);
    at(kit, &lend, 30, 0); /* it stays away */
    assert_int_equal(lend.works[2].pid, 0);
    SimOp start = {.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {2}, .origin = SIM_FROM_INJECT};
    kit_apply(kit, start);
    at(kit, &lend, 31, 1); /* until it is started anew */
    assert_true(alive(lend.works[2].pid));
    assert_int_equal(sim_work_pid(kit->image, 2), lend.works[2].pid);
    lend_stop(&lend);
    kit_free(kit);
}

static void test_a_new_life_is_a_new_process(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    Lend lend;
    lend_start(&lend, kit->image);
    at(kit, &lend, 20, 3);
    pid_t pid = lend.works[2].pid;
    SimOp stop = {.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {2}, .origin = SIM_FROM_INJECT}, start = stop;
    start.type = SIM_OP_WORK_START;
    kit_apply(kit, stop);
    sim_clock_advance(kit->image, SIM_NS);
    kit_apply(kit, start); /* both between two looks */
    at(kit, &lend, 25, 2);
    assert_false(alive(pid));
    assert_true(alive(lend.works[2].pid));
    lend_stop(&lend);
    kit_free(kit);
}

/* Whoever lends may be killed: nothing stays behind. */
static void test_they_die_with_us(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE);
    int ends[2];
    pid_t pid = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t lender = fork();
    if (lender == 0) {
        Lend lend;
        lend_start(&lend, kit->image);
        sim_clock_advance(kit->image, 20 * SIM_NS);
        int rc = lend_update(&lend, sim_clock_now(kit->image), NULL);
        if (rc != 3 || write(ends[1], &lend.works[0].pid, sizeof(pid_t)) != sizeof(pid_t))
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
    assert_true(alive(pid));
    kill(lender, SIGKILL);
    assert_int_equal(waitpid(lender, NULL, 0), lender);
    for (int i = 0; i < 12000 && alive(pid); i++) { /* reaped by whoever adopts it: gone or a zombie */
        char text[1024];
        proc_file(pid, "stat", text);
        if (strstr(text, ") Z"))
            break;
        usleep(10000);
    }
    char text[1024] = ") Z";
    if (alive(pid))
        proc_file(pid, "stat", text);
    assert_non_null(strstr(text, ") Z"));
    close(ends[0]);
    close(ends[1]);
    kit_free(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_stage_is_the_same_process),
        cmocka_unit_test(test_they_come_and_go_with_the_work),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_they_hold_none_of_our_files),
        cmocka_unit_test(test_killing_one_ends_the_work),
        cmocka_unit_test(test_a_new_life_is_a_new_process),
        cmocka_unit_test(test_they_die_with_us),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
