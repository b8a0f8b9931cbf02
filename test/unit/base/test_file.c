/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/file.c. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

/* Each test has an empty directory of its own, which is also the current one. */
static char root[] = "/tmp/stoker-file-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    strcpy(root, "/tmp/stoker-file-XXXXXX");
    return mkdtemp(root) && chdir(root) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree("/tmp", root + 5, NULL);
}

static size_t entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static void assert_content(const char *path, const char *expected)
{
    CLEANUP(str_done) Str text;

    str_init(&text, 1 << 20);
    assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
    assert_string_equal(text.text, expected);
}

static void test_read_caps(void **state)
{
    CLEANUP(str_done) Str text;
    char content[40001];
    Err err = {0};

    (void)state;
    memset(content, 'x', 40000);
    content[40000] = '\0';
    assert_int_equal(file_write("big", content, 40000, 0600, NULL), 0);
    str_init(&text, 1 << 20);
    str_add(&text, "kept");
    assert_int_equal(file_read("big", 39999, &text, &err), -EFBIG);
    assert_string_equal(err.text, "'big' is larger than 39999 bytes");
    assert_string_equal(text.text, "kept");
    assert_false(text.overflow);
    assert_int_equal(file_read("big", 40000, &text, NULL), 0);
    assert_int_equal(text.len, 40004);
    str_clear(&text);
    text.max = 100;
    assert_int_equal(file_read("big", 40000, &text, NULL), -EFBIG);
    assert_int_equal(text.len, 0);
}

static void test_read_others(void **state)
{
    CLEANUP(str_done) Str text;
    Err err = {0};

    (void)state;
    str_init(&text, 1 << 20);
    assert_int_equal(file_read("none", 10, &text, &err), -ENOENT);
    assert_string_equal(err.text, "open 'none': No such file or directory");
    assert_int_equal(file_read(".", 10, &text, NULL), -EISDIR);
    assert_int_equal(file_read("/proc/self/status", 1 << 16, &text, NULL), 0); /* stat says 0 bytes */
    assert_non_null(strstr(text.text, "Pid:"));
}

static void test_write_replaces(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(file_write("a", "one", 3, 0640, NULL), 0);
    assert_int_equal(file_write("a", "second", 6, 0600, NULL), 0);
    assert_content("a", "second");
    assert_int_equal(stat("a", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(entries("."), 1);
    assert_int_equal(file_write("a", NULL, 0, 0600, NULL), 0);
    assert_content("a", "");
}

static void test_failed_write_leaves_the_old(void **state)
{
    struct rlimit old, small;
    static char large[8192];
    Err err = {0};
    int rc;

    (void)state;
    assert_int_equal(file_write("a", "old", 3, 0600, NULL), 0);
    /* a full disk, as a limit on the size of a file */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = file_write("a", large, sizeof(large), 0600, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(rc, -EFBIG);
    assert_content("a", "old");
    assert_int_equal(entries("."), 1);
    /* the rename fails: a directory is in the way */
    assert_int_equal(mkdir("dir", 0700), 0);
    assert_int_equal(file_write("dir", "x", 1, 0600, NULL), -EISDIR);
    assert_int_equal(entries("."), 2);
    assert_int_equal(file_write("none/a", "x", 1, 0600, NULL), -ENOENT);
    /* a pipe or a device is not replaced */
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(file_write("pipe", "x", 1, 0600, NULL), -EINVAL);
    assert_int_equal(entries("."), 3);
}

static void test_make_dirs(void **state)
{
    char path[PATH_MAX];
    Err err = {0};

    (void)state;
    assert_int_equal(file_make_dirs("a/b//c/", 0700, NULL), 0);
    assert_int_equal(file_make_dirs("a/b/c", 0700, NULL), 0);
    snprintf(path, sizeof(path), "%s/x/y", root);
    assert_int_equal(file_make_dirs(path, 0700, NULL), 0);
    assert_int_equal(access("x/y", F_OK), 0);
    assert_int_equal(file_write("a/file", "", 0, 0600, NULL), 0);
    assert_int_equal(file_make_dirs("a/file/b", 0700, &err), -ENOTDIR);
    assert_int_equal(file_make_dirs("", 0700, NULL), -EINVAL);
}

static void test_remove_tree(void **state)
{
    (void)state;
    assert_int_equal(file_make_dirs("in/tree/deep", 0700, NULL), 0);
    assert_int_equal(file_make_dirs("outside", 0700, NULL), 0);
    assert_int_equal(file_write("in/tree/deep/f", "", 0, 0600, NULL), 0);
    assert_int_equal(file_write("outside/kept", "", 0, 0600, NULL), 0);
    assert_int_equal(symlink("../../outside", "in/tree/link"), 0);
    assert_int_equal(symlink("../outside/kept", "in/tree/file"), 0);
    assert_int_equal(file_remove_tree("in", "tree", NULL), 0);
    assert_int_equal(entries("in"), 0);
    assert_content("outside/kept", "");
    assert_int_equal(file_remove_tree("in", "tree", NULL), 0);
    assert_int_equal(file_remove_tree("in", "tree/below", NULL), 0);
    assert_int_equal(file_remove_tree("none", "tree", NULL), -ENOENT);
}

static void test_remove_refuses(void **state)
{
    static const char *const paths[] = {"",       ".",    "..", "/",   "/etc",  "../outside",     "a/..",
                                        "a/../b", "a//b", "a/", "./a", "a/./b", "a/../../outside"};

    (void)state;
    assert_int_equal(file_make_dirs("in/a/b", 0700, NULL), 0);
    assert_int_equal(file_make_dirs("outside/b", 0700, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(file_remove_tree("in", paths[i], NULL), -EINVAL);
    /* a link on the way */
    assert_int_equal(symlink("../outside", "in/link"), 0);
    assert_true(file_remove_tree("in", "link/b", NULL) < 0);
    assert_int_equal(access("outside/b", F_OK), 0);
    assert_int_equal(access("in/a/b", F_OK), 0);
}

static void test_remove_too_deep(void **state)
{
    int depth = FILE_DEPTH_MAX + 5;
    Err err = {0};

    (void)state;
    assert_int_equal(mkdir("deep", 0700), 0);
    for (int i = 0; i < depth; i++)
        assert_int_equal(chdir(i ? "d" : "deep") == 0 ? mkdir("d", 0700) : -1, 0);
    assert_int_equal(chdir(root), 0);
    assert_int_equal(file_remove_tree(".", "deep", &err), -E2BIG);
    for (; depth >= 0; depth--) {
        char path[4 * FILE_DEPTH_MAX] = "deep";

        for (int i = 0; i < depth; i++)
            strcat(path, "/d");
        assert_int_equal(rmdir(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_caps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_write_replaces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_write_leaves_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make_dirs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove_too_deep, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
