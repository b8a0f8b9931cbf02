/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/proc/who.c: names of folders, honest and hostile, and a folder of them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "source/proc/who.h"

#define UUID_A "0d9f3c1e-5b6a-4c7d-8e9f-a0b1c2d3e4f5"
#define UUID_B "fd9f3c1e-5b6a-4c7d-8e9f-a0b1c2d3e4f5"
#define HASH "0123456789abcdef0123456789abcdef"
#define TEN "aaaaaaaaaa"
#define SIXTY TEN TEN TEN TEN TEN TEN

typedef struct Place {
    char dir[64];
    Map pods;
    PodDir pod[3];
} Place;

static int setup(void **state)
{
    Place *place = calloc(1, sizeof(*place));

    if (!place)
        return -1;
    (void)snprintf(place->dir, sizeof(place->dir), "/tmp/test-poddir-XXXXXX");
    if (!mkdtemp(place->dir))
        return -1;
    map_init(&place->pods);
    map_put(&place->pods, "ns_web-0", &place->pod[0]);
    map_put(&place->pods, "ns_web-1", &place->pod[1]);
    map_put(&place->pods, "kube-system_static.node-1", &place->pod[2]);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    Place *place = *state;

    map_done(&place->pods);
    (void)file_remove_tree("/tmp", place->dir + 5, NULL);
    free(place);
    return 0;
}

static const char *path_of(const Place *place, const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", place->dir, name);
    return path;
}

static void make(const Place *place, const char *name)
{
    assert_int_equal(mkdir(path_of(place, name), 0750), 0);
}

/* Ends once the kernel's clock for files has gone on, so that what is made next is newer than `name`. */
static void wait_a_moment(const Place *place, const char *name)
{
    struct stat old, now;

    assert_int_equal(stat(path_of(place, name), &old), 0);
    do {
        int fd = open(path_of(place, "clock"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(fchmod(fd, 0600), 0);
        assert_int_equal(fstat(fd, &now), 0);
        close(fd);
    } while (now.st_ctim.tv_sec == old.st_ctim.tv_sec && now.st_ctim.tv_nsec == old.st_ctim.tv_nsec);
}

static void forget(Place *place)
{
    memset(place->pod, 0, sizeof(place->pod));
}

static void test_names(void **state)
{
    static const struct {
        const char *name, *key, *uid;
    } rows[] = {
        {"ns_pod_" UUID_A, "ns_pod", UUID_A},
        {"kube-system_etcd-node.example.org_" HASH, "kube-system_etcd-node.example.org", HASH},
        {"0_1_" UUID_B, "0_1", UUID_B},
        {SIXTY "bbb_" SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaabbb_" UUID_A,
         SIXTY "bbb_" SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaabbb", UUID_A},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char uid[POD_UID_CAP] = "";
        size_t len = 0;

        assert_true(poddir_parse(rows[i].name, &len, uid));
        assert_int_equal(len, strlen(rows[i].key));
        assert_memory_equal(rows[i].name, rows[i].key, len);
        assert_string_equal(uid, rows[i].uid);
    }
}

static void test_names_that_are_none(void **state)
{
    static const char *const rows[] = {
        "",
        "_",
        "__",
        "___",
        ".",
        "..",
        "ns",
        "ns_pod",
        "ns_pod_",
        "ns_" UUID_A,
        "_pod_" UUID_A,
        "ns__" UUID_A,
        UUID_A,
        HASH,
        "ns_pod_x_" UUID_A,
        "ns_pod__" UUID_A,
        "ns_pod_" UUID_A "_",
        "ns_pod_" UUID_A "0",
        "ns_pod_0d9f3c1e-5b6a-4c7d-8e9f-a0b1c2d3e4f",
        "ns_pod_0d9f3c1ex5b6a-4c7d-8e9f-a0b1c2d3e4f5",
        "ns_pod_0d9f3c1e-5b6a-4c7d-8e9fxa0b1c2d3e4f5",
        "ns_pod_0d9f3c1-e5b6a-4c7d-8e9f-a0b1c2d3e4f5",
        "ns_pod_gd9f3c1e-5b6a-4c7d-8e9f-a0b1c2d3e4f5",
        "ns_pod_------------------------------------",
        "ns_pod_0123456789abcdef0123456789abcdeg",
        "ns_pod_" HASH "0",
        "NS_pod_" UUID_A,
        "ns_Pod_" UUID_A,
        "n.s_pod_" UUID_A,
        "ns_p\303\266d_" UUID_A,
        "ns_p\nd_" UUID_A,
        "ns_pod_" UUID_A "\n",
        "n s_pod_" UUID_A,
        "n/s_pod_" UUID_A,
        "\377\376_pod_" UUID_A,
        SIXTY "bbbb_pod_" UUID_A,
        "ns_" SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaabbbb_" UUID_A,
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char uid[POD_UID_CAP] = "as before";
        size_t len = 77;

        if (poddir_parse(rows[i], &len, uid))
            fail_msg("'%s' was taken", rows[i]);
        assert_int_equal(len, 77);
        assert_string_equal(uid, "as before");
    }
}

static void test_keys(void **state)
{
    static const struct {
        const char *namespace, *pod;
        bool fine;
    } rows[] = {
        {"ns", "web-0", true},
        {"ns", "web.0", true},
        {"", "web-0", false},
        {"ns", "", false},
        {"a_b", "c", false}, /* would be another pod's */
        {"a", "b_c", false},
        {"n.s", "web", false},
        {"ns", "Web", false},
        {"ns", "web/0", false},
        {SIXTY "bbb", SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaabbb", true},
        {SIXTY "bbbb", "web", false},
        {"ns", SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaabbbb", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char key[PODDIR_KEY_ROOM] = "", name[PODDIR_KEY_ROOM + POD_UID_CAP], uid[POD_UID_CAP];
        size_t len = 0;

        assert_int_equal(poddir_make_key(rows[i].namespace, rows[i].pod, key), rows[i].fine);
        if (!rows[i].fine)
            continue;
        (void)snprintf(name, sizeof(name), "%s_%s", key, UUID_A);
        assert_true(poddir_parse(name, &len, uid));
        assert_int_equal(len, strlen(key));
    }
}

static void test_a_folder(void **state)
{
    Place *place = *state;

    make(place, "ns_web-0_" UUID_A);
    make(place, "ns_web-2_" UUID_A); /* nobody's */
    make(place, "kube-system_static.node-1_" HASH);
    make(place, "lost+found");
    make(place, "ns_web-1");
    assert_int_equal(close(open(path_of(place, "ns_web-1_" UUID_A), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    assert_int_equal(symlink("ns_web-0_" UUID_A, path_of(place, "ns_web-1_" UUID_B)), 0);
    assert_int_equal(poddir_read(place->dir, &place->pods, NULL), 0);
    assert_string_equal(place->pod[0].uid, UUID_A);
    assert_string_equal(place->pod[1].uid, ""); /* a file and a link */
    assert_string_equal(place->pod[2].uid, HASH);
    assert_int_equal(place->pods.len, 3);
    assert_true(place->pod[0].made_ns > 0);
}

/* A pod that was made anew under its old name, in both orders of the names. */
static void test_the_last_one_wins(void **state)
{
    Place *place = *state;
    struct statx seen;

    make(place, "ns_web-0_" UUID_B);
    make(place, "ns_web-1_" UUID_A);
    wait_a_moment(place, "ns_web-1_" UUID_A);
    make(place, "ns_web-0_" UUID_A);
    make(place, "ns_web-1_" UUID_B);
    assert_int_equal(poddir_read(place->dir, &place->pods, NULL), 0);
    assert_string_equal(place->pod[0].uid, UUID_A);
    assert_string_equal(place->pod[1].uid, UUID_B);

    /* the old one is being removed: its ctime is the newer one, its birth stays */
    wait_a_moment(place, "ns_web-0_" UUID_A);
    make(place, "ns_web-0_" UUID_B "/main");
    forget(place);
    assert_int_equal(statx(AT_FDCWD, place->dir, 0, STATX_BTIME, &seen), 0);
    assert_int_equal(poddir_read(place->dir, &place->pods, NULL), 0);
    assert_string_equal(place->pod[0].uid, seen.stx_mask & STATX_BTIME ? UUID_A : UUID_B);

    assert_int_equal(rmdir(path_of(place, "ns_web-1_" UUID_B)), 0);
    forget(place);
    assert_int_equal(poddir_read(place->dir, &place->pods, NULL), 0);
    assert_string_equal(place->pod[1].uid, UUID_A);
}

static void test_what_cannot_be_read(void **state)
{
    Place *place = *state;
    Err err = {0};

    assert_int_equal(poddir_read(path_of(place, "none"), &place->pods, &err), -ENOENT);
    assert_non_null(strstr(err.text, place->dir));
    assert_int_equal(close(open(path_of(place, "file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    assert_int_equal(poddir_read(path_of(place, "file"), &place->pods, &err), -ENOTDIR);
    assert_int_equal(mkfifo(path_of(place, "fifo"), 0600), 0); /* would wait for its writer */
    assert_int_equal(poddir_read(path_of(place, "fifo"), &place->pods, &err), -ENOTDIR);
    assert_string_equal(place->pod[0].uid, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_that_are_none),
        cmocka_unit_test(test_keys),
        cmocka_unit_test_setup_teardown(test_a_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_last_one_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_read, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
