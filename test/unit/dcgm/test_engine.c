/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: what is loaded, started, said when it fails, and left behind. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "place.h"

static void test_embedded(void **state)
{
    Dcgm *dcgm = place_open();

    (void)state;
    assert_false(dcgm_lost(dcgm));
    assert_true(place_is_mapped("libdcgm.so"));
    assert_true(dcgm_close(dcgm));
    assert_string_equal(seen.log, "dlopen dcgmInit dcgmStartEmbedded dcgmStopEmbedded dcgmShutdown dlclose ");
    assert_int_equal(seen.begun, seen.ended);
    assert_int_equal(seen.calls, seen.begun - 2); /* the loader is no function of the library */
    assert_false(place_is_mapped("libdcgm.so"));
    assert_true(dcgm_close(NULL));
}

static void test_again(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(dcgm_close(place_open()));
    assert_false(place_is_mapped("libdcgm.so"));
    assert_int_equal(seen.begun, 20 * 6);
}

static void test_remote(void **state)
{
    static const char *const addresses[] = {"node1:5555", "unix:/run/engine"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        DcgmPlace place = place_of(addresses[i]);
        Dcgm *dcgm = NULL;

        (void)place_reset(NULL);
        assert_int_equal(dcgm_open(&place, &hooks, &dcgm, NULL), 0);
        assert_true(dcgm_close(dcgm));
        assert_string_equal(seen.log, "dlopen dcgmInit dcgmConnect_v2 dcgmDisconnect dcgmShutdown dlclose ");
    }
}

static int open_fails(const char *library, const char *address, Err *err)
{
    DcgmPlace place = place_of(address);
    Dcgm *dcgm = (Dcgm *)&place;
    int rc;

    place.library = library ? library : place.library;
    rc = dcgm_open(&place, &hooks, &dcgm, err);
    assert_ptr_equal(dcgm, &place); /* untouched */
    assert_int_equal(seen.begun, seen.ended);
    assert_false(place_is_mapped("libdcgm.so"));
    return rc;
}

static void test_not_there(void **state)
{
    Err err = {0};

    (void)state;
    assert_int_equal(open_fails("/nonexistent/libdcgm.so.4", "", &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/libdcgm.so.4"));
    assert_string_equal(seen.log, "dlopen ");
}

static void test_missing_function(void **state)
{
    Err err = {0};

    (void)state;
    assert_int_equal(open_fails(getenv("FAKE_DCGM_OLD"), "", &err), -ENOSYS);
    assert_non_null(strstr(err.text, "dcgmEntitiesGetLatestValues"));
    assert_string_equal(seen.log, "dlopen dlclose "); /* nothing of it was called */
}

/* Every step may fail with every code: nothing stays, and the text names the call. */
static void test_failing_steps(void **state)
{
    static const struct {
        const char *address, *fail, *function;
        int rc;
    } rows[] = {
        {"", "dcgmInit:-7", "dcgmInit", -EIO},
        {"", "dcgmInit:-12", "dcgmInit", -EPROTO},
        {"", "dcgmStartEmbedded:-29", "dcgmStartEmbedded", -EACCES},
        {"", "dcgmStartEmbedded:-12", "dcgmStartEmbedded", -EPROTO},
        {"node1:5555", "dcgmConnect_v2:-12", "dcgmConnect_v2", -EPROTO},
        {"node2", "", "node2", -EIO},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Err err = {0};

        (void)place_reset(NULL);
        (void)setenv("FAKE_DCGM_FAIL", rows[i].fail, 1);
        assert_int_equal(open_fails(NULL, rows[i].address, &err), rows[i].rc);
        assert_non_null(strstr(err.text, rows[i].function));
    }
}

/* Run by test_search in a process of its own: the loader reads its search path at the start. */
/* The names under which libraries of DCGM were loaded. */
static int print_dcgm(struct dl_phdr_info *library, size_t size, void *self)
{
    const char *name = strstr(library->dlpi_name, "/libdcgm.so.");

    (void)size;
    (void)self;
    if (name)
        (void)puts(name + 1);
    return 0;
}

static int open_default(void)
{
    DcgmPlace place = {.library = "", .address = ""};
    Dcgm *dcgm = NULL;
    Err err = {0};

    (void)place_reset(NULL);
    if (dcgm_open(&place, &hooks, &dcgm, &err) != 0) {
        (void)puts(err.text);
        return 1;
    }
    (void)dl_iterate_phdr(print_dcgm, NULL);
    return dcgm_close(dcgm) ? 0 : 1;
}

static void run_default(const char *folder, char text[256])
{
    int ends[2];
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)setenv("LD_LIBRARY_PATH", folder, 1);
        (void)execl("/proc/self/exe", "test_dcgm_engine", "--open-default", (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    got = read(ends[0], text, 255);
    text[got > 0 ? got : 0] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Found by its name: version 4, else 3. */
static void test_search(void **state)
{
    static const char *const names[] = {"libdcgm.so.3", "libdcgm.so.4"};
    char folder[] = "/tmp/dcgm-XXXXXX", path[64], text[256], expect[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)snprintf(expect, sizeof expect, "%s\n", names[i]);
        assert_int_equal(symlink(getenv("FAKE_DCGM"), path), 0);
        run_default(folder, text);
        assert_string_equal(text, expect);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_embedded, place_reset),
        cmocka_unit_test_setup(test_again, place_reset),
        cmocka_unit_test_setup(test_remote, place_reset),
        cmocka_unit_test_setup(test_not_there, place_reset),
        cmocka_unit_test_setup(test_missing_function, place_reset),
        cmocka_unit_test_setup(test_failing_steps, place_reset),
        cmocka_unit_test_setup(test_search, place_reset),
    };

    if (argc > 1 && strcmp(argv[1], "--open-default") == 0)
        return open_default();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
