/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/log.c. */
#include "base/log.h"

#include <endian.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "../fake_clock.h"

typedef struct Fixture {
    ClockFake fake;
    Log log;
    int pipe[2];
    char got[LOG_LINE_MAX * 2];
} Fixture;

static int set_up(void **state)
{
    Fixture *f = calloc(1, sizeof(*f));

    clock_fake_init(&f->fake, 0, UINT64_C(1738324800) * NS_PER_S + 5 * NS_PER_MS);
    log_init(&f->log, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "stoker", &f->fake.clock);
    if (pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    f->log.fd = f->pipe[1];
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;

    fd_close(&f->pipe[0]);
    fd_close(&f->pipe[1]);
    free(f);
    return 0;
}

static const char *written(Fixture *f)
{
    ssize_t got = read(f->pipe[0], f->got, sizeof(f->got) - 1);

    f->got[got > 0 ? got : 0] = '\0';
    return f->got;
}

static void test_text(void **state)
{
    Fixture *f = *state;

    log_write(&f->log, LOG_LEVEL_WARN, "lost %d", 7);
    assert_string_equal(written(f), "2025-01-31T12:00:00.005Z warn  lost 7\n");
}

/* Text from outside must not be able to forge a line. */
static void test_line_breaks_are_escaped(void **state)
{
    Fixture *f = *state;
    const char *text;

    log_write(&f->log, LOG_LEVEL_ERROR, "x\n2025 error forged\x1b[0m");
    text = written(f);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_null(strchr(text, '\x1b'));
}

static void test_level(void **state)
{
    Fixture *f = *state;

    errno = EXDEV;
    log_write(&f->log, LOG_LEVEL_DEBUG, "hidden");
    log_write(NULL, LOG_LEVEL_ERROR, "nowhere");
    assert_string_equal(written(f), "");
    f->log.level = LOG_LEVEL_DEBUG;
    log_write(&f->log, LOG_LEVEL_DEBUG, "shown");
    assert_non_null(strstr(written(f), "shown"));
    errno = EXDEV;
    log_write(&f->log, LOG_LEVEL_DEBUG, "errno is kept");
    assert_int_equal(errno, EXDEV);
}

static void test_json(void **state)
{
    Fixture *f = *state;

    f->log.format = LOG_FORMAT_JSON;
    log_write(&f->log, LOG_LEVEL_INFO, "say \"%s\"", "hi");
    assert_string_equal(written(f), "{\"time\":\"2025-01-31T12:00:00.005Z\",\"level\":\"info\",\"program\":\"stoker\","
                                    "\"message\":\"say \\\"hi\\\"\"}\n");
}

static void test_too_long(void **state)
{
    Fixture *f = *state;
    char *text = malloc(LOG_LINE_MAX * 2);

    memset(text, '\x01', LOG_LINE_MAX * 2 - 1);
    text[LOG_LINE_MAX * 2 - 1] = '\0';
    for (int format = LOG_FORMAT_TEXT; format <= LOG_FORMAT_JSON; format++) {
        const char *line;

        f->log.format = (LogFormat)format;
        log_write(&f->log, LOG_LEVEL_INFO, "%s", text);
        line = written(f);
        assert_non_null(strstr(line, "[cut]"));
        assert_int_equal(line[strlen(line) - 1], '\n');
    }
    free(text);
}

static void test_journal(void **state)
{
    Fixture *f = *state;
    char dir[] = "/tmp/stoker-log-XXXXXX", expected[200];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint64_t len = htole64(9);
    size_t size;
    ssize_t got;

    assert_non_null(mkdtemp(dir));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", dir);
    assert_int_equal(log_open_journal(&f->log, address.sun_path, NULL), -ENOENT);
    assert_int_equal(f->log.format, LOG_FORMAT_TEXT);
    assert_int_equal(bind(journal, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(log_open_journal(&f->log, address.sun_path, NULL), 0);
    assert_int_equal(f->log.format, LOG_FORMAT_JOURNAL);
    log_write(&f->log, LOG_LEVEL_WARN, "two\nlines");
    got = recv(journal, f->got, sizeof(f->got), 0);
    size = (size_t)snprintf(expected, sizeof(expected), "MESSAGE\n%.8stwo\nlines\n", "________");
    memcpy(expected + 8, &len, 8);
    size += (size_t)snprintf(expected + size, sizeof(expected) - size, "PRIORITY=4\nSYSLOG_IDENTIFIER=stoker\n");
    assert_int_equal(got, size);
    assert_memory_equal(f->got, expected, size);
    log_done(&f->log);
    assert_int_equal(f->log.fd, STDERR_FILENO);
    log_done(&f->log);
    close(journal);
    unlink(address.sun_path);
    rmdir(dir);
}

static void test_limit(void **state)
{
    LogLimit limit = {.window_ns = 10 * NS_PER_S, .burst = 2};
    uint64_t held = 77;

    (void)state;
    assert_true(log_limit(&limit, 0, &held));
    assert_int_equal(held, 0);
    assert_true(log_limit(&limit, NS_PER_S, &held));
    assert_false(log_limit(&limit, 2 * NS_PER_S, &held));
    assert_false(log_limit(&limit, 9 * NS_PER_S, &held));
    assert_true(log_limit(&limit, 11 * NS_PER_S, &held));
    assert_int_equal(held, 2);
    assert_true(log_limit(&limit, 12 * NS_PER_S, &held));
    assert_int_equal(held, 0);
    assert_false(log_limit(&limit, 13 * NS_PER_S, &held));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_line_breaks_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_level, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_journal, set_up, tear_down),
        cmocka_unit_test(test_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
