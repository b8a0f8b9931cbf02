/* SPDX-License-Identifier: Apache-2.0 */
/* source/slurm/slurm.c: the answers of scontrol, and when it is asked. The program is a script. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "source/slurm/slurm.h"

#define REST                                                                                                           \
    " GroupId=users(100) MCS_label=N/A Priority=1 Nice=0 Account=physics QOS=normal JobState=RUNNING TimeLimit="

static const struct {
    const char *text;
    JobInfo wanted;
} answers[] = {
    {"JobId=4711 JobName=pretrain UserId=alice(1001)" REST "1-02:03:04 Partition=gpu NumNodes=4-4 NumCPUs=8\n",
     {.name = "pretrain",
      .user = "alice",
      .account = "physics",
      .partition = "gpu",
      .nodes = 4,
      .cpus = 8,
      .limit_s = 93784}},
    {"JobId=4711 JobName=a b UserId=alice(1001)" REST "30:00 Partition=gpu NumNodes=1\n",
     {.name = "a b", .user = "alice", .account = "physics", .partition = "gpu", .nodes = 1, .limit_s = 1800}},
    {"JobId=4711 HetJobId=4711 HetJobOffset=0 JobName=a b HetJobIdSet=4711-4712 UserId=alice(1001)" REST
     "30:00 Partition=gpu NumNodes=1\n",
     {.name = "a b", .user = "alice", .account = "physics", .partition = "gpu", .nodes = 1, .limit_s = 1800}},
    {"JobId=4711 JobName= UserId=al(7)\n", {.user = "al"}},
    {"JobId=4711 JobName=x NumCPUs=1 UserId=al(7) NumNodes=1 NumCPUs=64\n",
     {.name = "x NumCPUs=1", .user = "al", .nodes = 1}},
    {"JobId=4711 JobName=a b\nUserId=al(7)\n", {.name = "a"}}, /* a name with a line in it */
    {"JobId=4711 JobName=a UserId=al(7)" REST "UNLIMITED\n", {.name = "a", .user = "al", .account = "physics"}},
    {"JobId=4711 JobName=(null) UserId=al(7) Account=(null) TimeLimit=Partition_Limit\n", {.user = "al"}},
    /* a name that pays with somebody else's account */
    {"JobId=4711 JobName=x UserId=root(0) Account=free y UserId=alice(1001)" REST "30:00 Partition=gpu\n",
     {.name = "x", .partition = "gpu", .limit_s = 1800}},
    {"JobId=4711 JobName=\033[2J UserId=al(7)\n", {.name = "?[2J", .user = "al"}},
    /* an array: each task, and that with its id among them */
    {"JobId=4712 ArrayJobId=4711 ArrayTaskId=1 JobName=a UserId=al(7) NumNodes=2\n"
     "JobId=47110 ArrayJobId=4711 ArrayTaskId=2 JobName=b UserId=al(7) NumNodes=3\n"
     "JobId=4711 ArrayJobId=4711 ArrayTaskId=3 JobName=c UserId=al(7) NumNodes=4\n",
     {.name = "c", .user = "al", .nodes = 4, .array = "4711_3"}},
    {"JobId=4711 ArrayJobId=4700 ArrayTaskId=4-9%2 JobName=a UserId=al(7) StartTime=2026-11-23T17:46:04 EndTime=x\n",
     {.name = "a", .user = "al", .started = "2026-11-23T17:46:04", .started_real_ns = 1795455964 * NS_PER_S}},
    {"JobId=4711 JobName=a UserId=al(7) StartTime=Unknown EndTime=x\n",
     {.name = "a", .user = "al", .started = "Unknown"}},
    {"JobId=4711 JobName=a UserId=al(7) StartTime=2026-11-23T17:46 EndTime=x\n",
     {.name = "a", .user = "al", .started = "2026-11-23T17:46"}},
    {"JobId=4713 ArrayJobId=4700 ArrayTaskId=1 JobName=a UserId=al(7) NumNodes=2\n",
     {.name = "a", .user = "al", .nodes = 2, .array = "4700_1"}},
};

static void test_answers(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        JobInfo info = {.job = "4711"};

        assert_int_equal(slurm_parse(answers[i].text, &info), 0);
        assert_string_equal(info.job, "4711");
        assert_string_equal(info.name, answers[i].wanted.name);
        assert_string_equal(info.user, answers[i].wanted.user);
        assert_string_equal(info.account, answers[i].wanted.account);
        assert_string_equal(info.partition, answers[i].wanted.partition);
        assert_int_equal(info.nodes, answers[i].wanted.nodes);
        assert_int_equal(info.cpus, answers[i].wanted.cpus);
        assert_int_equal(info.limit_s, answers[i].wanted.limit_s);
        assert_string_equal(info.array, answers[i].wanted.array);
        assert_string_equal(info.started, answers[i].wanted.started);
        assert_int_equal(info.started_real_ns, answers[i].wanted.started_real_ns);
    }
    JobInfo info = {.job = "4711", .name = "as it was"};
    assert_int_equal(slurm_parse("slurm_load_jobs error: Invalid job id specified\n", &info), -EBADMSG);
    assert_int_equal(slurm_parse("", &info), -EBADMSG);
    assert_int_equal(slurm_parse("JobId=4710 ArrayJobId=4711 JobName=x\nJobId=4711 Account=free\n"
                                 "JobId=4711 ArrayJobId=4711 Account=physics\n",
                                 &info),
                     -EBADMSG);
    assert_string_equal(info.name, "as it was");
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/test_slurm_XXXXXX", program[64], asked[64];
static Log log_off;

static int open_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(program, sizeof program, "%s/scontrol", folder);
    snprintf(asked, sizeof asked, "%s/asked", folder);
    log_init(&log_off, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, "test", clock_kernel());
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    (void)unlink(program);
    (void)unlink(asked);
    return rmdir(folder);
}

static void write_program(const char *body)
{
    FILE *file = fopen(program, "w");

    assert_non_null(file);
    fprintf(file, "#!/bin/sh\necho \"$*\" >> %s\n%s\n", asked, body);
    fclose(file);
    assert_int_equal(chmod(program, 0755), 0);
    (void)unlink(asked);
}

static size_t count_asked(void)
{
    FILE *file = fopen(asked, "r");
    size_t lines = 0;

    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

/* Ticks at this instant until as many answers are there and as many questions were asked. */
static void wait_for(Slurm *slurm, const Holding *holdings, size_t count, uint64_t now_ns, size_t told, size_t lines)
{
    for (int i = 0; i < 6000; i++) {
        slurm_tick(slurm, holdings, count, now_ns);
        if (slurm_jobs(slurm).len == told && count_asked() == lines)
            return;
        usleep(10000);
    }
    fail_msg("%zu answers, %zu questions", slurm_jobs(slurm).len, count_asked());
}

static void test_once_per_job(void **state)
{
    static const Holding holdings[] = {{.owner.job = "4711"},   {.owner.job = "4711"},   {.owner.job = ""},
                                       {.owner.job = "--help"}, {.owner.job = "4712_3"}, {.owner.job = "47_"}};
    Slurm *slurm;

    (void)state;
    write_program("echo \"JobId=$3 JobName=n$3 UserId=alice(1)\"");
    assert_int_equal(slurm_new(program, 60000, &log_off, &slurm, NULL), 0);
    wait_for(slurm, holdings, ARRAY_LEN(holdings), NS_PER_H, 2, 2);
    static const Holding more[] = {{.owner.job = "4711"}, {.owner.job = "4712_3"}, {.owner.job = "4713"}};
    wait_for(slurm, more, 3, 2 * NS_PER_H, 3, 3); /* the new one alone is asked for */
    JobInfoList jobs = slurm_jobs(slurm);
    assert_string_equal(jobs.at[1].job, "4712_3");
    assert_string_equal(jobs.at[1].name, "n4712_3");
    slurm_tick(slurm, holdings, 2, 2 * NS_PER_H); /* the other one has ended */
    assert_int_equal(slurm_jobs(slurm).len, 1);
    slurm_free(slurm);
}

/* The job that has no answer is asked for again after a while, before any other. */
static void test_a_controller_that_does_not_answer(void **state)
{
    static const Holding holdings[] = {{.owner.job = "4711"}, {.owner.job = "4712"}, {.owner.job = "4713"}};
    Slurm *slurm;

    (void)state;
    write_program("[ $3 != 4711 ] && echo JobId=$3");
    assert_int_equal(slurm_new(program, 60000, &log_off, &slurm, NULL), 0);
    wait_for(slurm, holdings, 2, NS_PER_H, 1, 2);
    wait_for(slurm, holdings, 3, NS_PER_H + SLURM_AGAIN_NS - 1, 2, 3);
    wait_for(slurm, holdings, 3, NS_PER_H + SLURM_AGAIN_NS, 2, 4);
    slurm_free(slurm);
}

/* It hangs: the deadline ends it, and the next question is asked. */
static void test_a_deadline(void **state)
{
    static const Holding holdings[] = {{.owner.job = "4711"}, {.owner.job = "4712"}};
    Slurm *slurm;

    (void)state;
    write_program("[ $3 = 4712 ] || exec sleep 600\necho JobId=4712 JobName=b");
    assert_int_equal(slurm_new(program, 3000, &log_off, &slurm, NULL), 0);
    wait_for(slurm, holdings, 2, NS_PER_H, 1, 2);
    assert_string_equal(slurm_jobs(slurm).at[0].job, "4712");
    slurm_free(slurm);
}

static void test_no_such_program(void **state)
{
    static const Holding holdings[] = {{.owner.job = "4711"}};
    Slurm *slurm;

    (void)state;
    write_program("");
    assert_int_equal(slurm_new("/nonexistent/scontrol", 1000, &log_off, &slurm, NULL), 0);
    for (int i = 0; i < 20; i++) {
        slurm_tick(slurm, holdings, 1, (uint64_t)(1 + i) * NS_PER_H);
        usleep(1000);
    }
    assert_int_equal(slurm_jobs(slurm).len, 0);
    slurm_free(slurm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_once_per_job),
        cmocka_unit_test(test_a_controller_that_does_not_answer),
        cmocka_unit_test(test_a_deadline),
        cmocka_unit_test(test_no_such_program),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
