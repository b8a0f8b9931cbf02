/* SPDX-License-Identifier: Apache-2.0 */
/* service/kubelet/runner.c without programs and a clock: which runs when, what becomes of its output, and how long it
 * may take. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/str.h"
#include "base/subproc.h"
#include "service/kubelet/runner.h"

enum { CHILD = 4711 };

/* --- the doubles -------------------------------------------------------------------------------------------------- */

static uv_loop_t loop;
static uv_timer_t *timer; /* NULL: it is stopped */
static uint64_t now_ns;
static const char *output; /* of the child */
static SubprocEnd child_end;
static bool runs, refuse;
static Str trace;

uint64_t __wrap_uv_hrtime(void);
uint64_t __wrap_uv_hrtime(void)
{
    return now_ns;
}

int __wrap_uv_timer_start(uv_timer_t *one, uv_timer_cb done, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *one, uv_timer_cb done, uint64_t timeout, uint64_t repeat)
{
    assert_true(timeout == 0 && repeat > 0);
    one->timer_cb = done;
    timer = one;
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *one);
int __wrap_uv_timer_stop(uv_timer_t *one)
{
    assert_ptr_equal(one, timer);
    timer = NULL;
    return 0;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    str_addf(&trace, "signal %d to %d\n", number, (int)pid);
    return 0;
}

int __wrap_subproc_start(const SubprocSpec *spec, Subproc *ret_child, Err *err);
int __wrap_subproc_start(const SubprocSpec *spec, Subproc *ret_child, Err *err)
{
    int ends[2];

    if (refuse)
        return err_set(err, -ENOENT, "run '%s': no such file", spec->argv[0]);
    str_add(&trace, "run");
    for (size_t i = 0; spec->argv[i]; i++)
        str_addf(&trace, " %s", spec->argv[i]);
    str_addf(&trace, "%s%s\n", spec->pipe_out ? "" : ", its output is ours", spec->die_with_us ? "" : ", lives on");
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], output, strlen(output)), (ssize_t)strlen(output));
    close(ends[1]);
    *ret_child = (Subproc){.pid = CHILD, .pid_fd = -1, .out_fd = ends[0], .err_fd = -1};
    runs = true;
    return 0;
}

int __wrap_subproc_wait(Subproc *child, uint64_t timeout_ms, SubprocEnd *ret_end, Err *err);
int __wrap_subproc_wait(Subproc *child, uint64_t timeout_ms, SubprocEnd *ret_end, Err *err)
{
    (void)err;
    assert_true(timeout_ms == 0);
    if (runs)
        return SUBPROC_RUNNING;
    child->pid = 0;
    *ret_end = child_end;
    return 0;
}

int __wrap_subproc_stop(Subproc *child, uint64_t grace_ms, SubprocEnd *ret_end, Err *err);
int __wrap_subproc_stop(Subproc *child, uint64_t grace_ms, SubprocEnd *ret_end, Err *err)
{
    (void)ret_end, (void)err;
    str_addf(&trace, "stop after %d ms\n", (int)grace_ms);
    child->pid = 0;
    return 0;
}

/* --- the rig ------------------------------------------------------------------------------------------------------ */

static Runner *runner;

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * NS_PER_S;
    output = "";
    child_end = (SubprocEnd){.exited = true};
    runs = refuse = false;
    timer = NULL;
    str_init(&trace, 1 << 16);
    runner = NULL;
    if (uv_loop_init(&loop) < 0)
        return -1;
    runner = runner_new(&loop, "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    runner_close(runner);
    uv_run(&loop, UV_RUN_NOWAIT);
    str_done(&trace);
    return uv_loop_close(&loop);
}

static void note_end(void *self, const char *out, const Err *err)
{
    str_addf(&trace, "%s: '%s'%s%s\n", (const char *)self, out, err ? ", " : "", err ? err->text : "");
}

static void order(const char *name, bool of_driver)
{
    char what[64], argument[32]; /* texts are copied */

    snprintf(what, sizeof what, "%s cannot be done", name);
    snprintf(argument, sizeof argument, "--%s", name);
    runner_add(runner, &(RunnerSpec){.what = what,
                                     .of_driver = of_driver,
                                     .argv = {"/bin/tool", argument},
                                     .done = note_end,
                                     .self = (void *)(uintptr_t)name});
    memset(what, 'x', sizeof what - 1);
    memset(argument, 'x', sizeof argument - 1);
}

static void tick(void)
{
    assert_non_null(timer);
    timer->timer_cb(timer);
}

static void expect(const char *wanted)
{
    assert_string_equal(trace.text, wanted);
    str_clear(&trace);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void programs_run_one_after_the_other(void **state)
{
    (void)state;
    output = "MIG-0\tnow\n\n";
    order("a", false);
    order("b", true);
    tick();
    expect("run /bin/tool --a\n");
    tick();
    expect("");
    runs = false;
    tick();
    expect("a: 'MIG-0 now'\n");
    output = "";
    tick();
    expect("run /bin/tool --b\n");
    runs = false;
    tick();
    expect("b: ''\n");
    assert_non_null(timer);
    tick();
    assert_null(timer); /* nothing is left to do */
    order("c", false);
    assert_non_null(timer);
}

static void a_failure_is_told_with_the_output(void **state)
{
    (void)state;
    output = "no room\nleft\n";
    child_end.exit_code = 3;
    order("a", false);
    order("b", true);
    order("c", true);
    order("d", true);
    tick();
    runs = false;
    tick();
    expect("run /bin/tool --a\na: 'no room left', a cannot be done: the program exit code 3: no room left\n");
    child_end = (SubprocEnd){.signal = SIGSEGV};
    tick();
    runs = false;
    tick();
    expect("run /bin/tool --b\n"
           "b: 'no room left', b cannot be done: /bin/tool killed by signal 11 (Segmentation fault): no room left\n");
    refuse = true;
    tick();
    expect("c: '', run '/bin/tool': no such file\n");
    refuse = false;
    tick(); /* the next goes on */
    expect("run /bin/tool --d\n");
}

static void a_long_output_is_cut(void **state)
{
    static char large[1000];
    char wanted[400];

    (void)state;
    memset(large, 'x', sizeof large - 1);
    output = large;
    order("a", false);
    tick();
    runs = false;
    str_clear(&trace);
    tick();
    snprintf(wanted, sizeof wanted, "a: '%.299s'\n", large);
    expect(wanted);
}

/* 15 s after its start it is killed. */
static void a_program_that_hangs_is_killed(void **state)
{
    (void)state;
    order("a", false);
    tick();
    str_clear(&trace);
    now_ns += 15 * NS_PER_S - 1;
    tick();
    expect("");
    now_ns++;
    tick();
    expect("signal 9 to -4711\n");
    runs = false;
    child_end = (SubprocEnd){.signal = SIGKILL};
    tick();
    expect("a: '', a cannot be done: the program killed by signal 9 (Killed): \n");
}

/* Who is forgotten hears nothing; what was begun goes on. */
static void who_is_forgotten_hears_nothing(void **state)
{
    static const char a[] = "a", b[] = "b";

    (void)state;
    order(a, false);
    order(b, false);
    tick();
    runner_forget(runner, a);
    runs = false;
    tick();
    expect("run /bin/tool --a\n");
    tick();
    runs = false;
    tick();
    expect("run /bin/tool --b\nb: ''\n");
}

static void an_end_stops_what_runs(void **state)
{
    (void)state;
    order("a", false);
    order("b", false);
    tick();
    runner_close(runner);
    expect("run /bin/tool --a\nstop after 0 ms\n");
    runner = NULL; /* which is accepted too */
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(programs_run_one_after_the_other), TEST(a_failure_is_told_with_the_output), TEST(a_long_output_is_cut),
        TEST(a_program_that_hangs_is_killed),   TEST(who_is_forgotten_hears_nothing),    TEST(an_end_stops_what_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
