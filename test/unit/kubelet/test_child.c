/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a sub verb, which is this program again: what it wrote is told, and nothing behind its close; a
 * process of its own that keeps the pipe holds up nothing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "verb/kubelet/child.h"

enum { LONG_S = 20 };

typedef struct Told {
    int times;
    char text[64];
} Told;

static void take(void *self, const Str *out)
{
    Told *told = self;

    told->times++;
    snprintf(told->text, sizeof told->text, "%s", out->text);
}

/* `sub`: what the process does. */
static void start(Child *child, uv_loop_t *loop, const char *sub, Told *told)
{
    static const VerbCall call = {.argc = 1};
    static Log log;

    log_init(&log, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, "test", clock_kernel());
    uv_loop_init(loop);
    *child = (Child){.call = &call, .sub = sub, .done = take, .self = told, .log = &log};
    child_init(child, loop);
    child_want(child);
    child_tick(child);
}

static void test_what_it_wrote_is_told(void **state)
{
    Told told = {0};
    Child child;
    uv_loop_t loop;

    (void)state;
    start(&child, &loop, "write", &told);
    while (told.times == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_string_equal(told.text, "written");
    child_close(&child);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.times, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* It has ended, and the loop does not know it yet. */
static void test_nothing_is_told_behind_the_close(void **state)
{
    Told told = {0};
    Child child;
    uv_loop_t loop;

    (void)state;
    start(&child, &loop, "write", &told);
    assert_int_equal(waitid(P_PID, (id_t)child.process.pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    child_close(&child);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.times, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_whoever_keeps_the_pipe_is_not_waited_for(void **state)
{
    Told told = {0};
    Child child;
    uv_loop_t loop;

    (void)state;
    start(&child, &loop, "keep", &told);
    while (told.times == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(kill(atoi(told.text), 0), 0); /* it still has the pipe */
    child_close(&child);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    kill(atoi(told.text), SIGKILL);
}

/* As `stoker kubelet SUB`. */
static int run_sub(const char *sub)
{
    pid_t other = strcmp(sub, "keep") == 0 ? fork() : -1;

    if (other == 0) {
        sleep(LONG_S);
        _exit(0);
    }
    if (other > 0)
        printf("%d", (int)other);
    else
        printf("written");
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_wrote_is_told),
        cmocka_unit_test(test_nothing_is_told_behind_the_close),
        cmocka_unit_test(test_whoever_keeps_the_pipe_is_not_waited_for),
    };

    return argc == 3 ? run_sub(argv[2]) : cmocka_run_group_tests(tests, NULL, NULL);
}
