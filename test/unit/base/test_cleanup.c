/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/cleanup.c and src/base/alloc.c. */
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

static int closed_texts;

static void note_end(const char **text)
{
    if (*text)
        closed_texts++;
}

static const char *take_or_keep(int take)
{
    CLEANUP(note_end) const char *text = "x";

    return take ? TAKE(text) : NULL;
}

static void test_take_hands_over(void **state)
{
    (void)state;
    closed_texts = 0;
    assert_null(take_or_keep(0));
    assert_int_equal(closed_texts, 1);
    assert_string_equal(take_or_keep(1), "x");
    assert_int_equal(closed_texts, 1);
}

static void test_fd_closes_and_keeps_errno(void **state)
{
    int kept = open("/dev/null", O_RDONLY | O_CLOEXEC), seen;

    (void)state;
    {
        CLEANUP_FD int fd = dup(kept);

        assert_true(fd >= 0);
        seen = fd;
        errno = EXDEV;
    }
    assert_int_equal(errno, EXDEV);
    assert_int_equal(fcntl(seen, F_GETFD), -1);
    {
        CLEANUP_FD int fd = kept;

        assert_int_equal(fd_take(&fd), kept);
        assert_int_equal(fd, -1);
    }
    assert_true(fcntl(kept, F_GETFD) >= 0);
    fd_close(&kept);
    assert_int_equal(kept, -1);
    fd_close(&kept);
}

static void test_free_and_pointer(void **state)
{
    char *text = xstrdup("text");
    FILE *file = fopen("/dev/null", "re");

    (void)state;
    cleanup_free(&text);
    assert_null(text);
    cleanup_free(&text);
    fclose_at(&file);
    assert_null(file);
    fclose_at(&file);
}

static void test_alloc(void **state)
{
    CLEANUP_FREE int *numbers = xcalloc(100, sizeof(*numbers));
    CLEANUP_FREE char *copy = xmemdup0("abcdef", 3);
    CLEANUP_FREE void *nothing = xmalloc(0);

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(numbers[i], 0);
    assert_string_equal(copy, "abc");
    assert_non_null(nothing);
    copy = xrealloc(copy, 100, 2);
    assert_memory_equal(copy, "abc", 3);
}

static void test_overflow_aborts(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        free(xrealloc(NULL, (size_t)-1, 16));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_hands_over),  cmocka_unit_test(test_fd_closes_and_keeps_errno),
        cmocka_unit_test(test_free_and_pointer), cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_overflow_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
