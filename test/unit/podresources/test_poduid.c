/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/podresources/poduid.c with a folder that says what the test wants, fails, or hangs. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include <uv.h>

#include "base/duration.h"
#include "source/podresources/podresources.h"

#define PATIENCE_NS (300 * NS_PER_S)

/* The folder; both threads use it. Each rig has a path of its own, so that a reading which outlived the rig before does
 * not count. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hangs;
    int fails;             /* -errno, or 0 */
    const char *key, *uid; /* the one pod that has a folder; NULL: none */
    unsigned begun, ended;
    char path[32];
} folder = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int read_folder(const char *path, const Map *pods, Err *err)
{
    PodDir *pod;
    int rc = 0;

    pthread_mutex_lock(&folder.lock);
    if (strcmp(path, folder.path) != 0) {
        pthread_mutex_unlock(&folder.lock);
        return 0;
    }
    folder.begun++;
    while (folder.hangs)
        pthread_cond_wait(&folder.changed, &folder.lock);
    pod = folder.key ? map_get(pods, folder.key) : NULL;
    if (folder.fails)
        rc = err_set(err, folder.fails, "open '/pods': no");
    else if (pod)
        (void)snprintf(pod->uid, sizeof(pod->uid), "%s", folder.uid);
    folder.ended++;
    pthread_cond_broadcast(&folder.changed);
    pthread_mutex_unlock(&folder.lock);
    return rc;
}

static void set_folder(bool hangs, int fails, const char *key, const char *uid)
{
    pthread_mutex_lock(&folder.lock);
    folder.hangs = hangs;
    folder.fails = fails;
    folder.key = key;
    folder.uid = uid;
    pthread_cond_broadcast(&folder.changed);
    pthread_mutex_unlock(&folder.lock);
}

static void counts(unsigned *ret_begun, unsigned *ret_ended)
{
    pthread_mutex_lock(&folder.lock);
    *ret_begun = folder.begun;
    *ret_ended = folder.ended;
    pthread_mutex_unlock(&folder.lock);
}

typedef struct Rig {
    Log log;
    int pipe[2];
    PodUids *uids;
    unsigned changes;
} Rig;

static void tick(Rig *rig)
{
    usleep(500);
    rig->changes += pod_uids_tick(rig->uids);
}

static void open_rig(Rig *rig, uint64_t again_ns, uint64_t late_ns)
{
    static unsigned rigs;
    PodUidsConfig config = {
        .dir = folder.path, .again_ns = again_ns, .late_ns = late_ns, .log = &rig->log, .read = read_folder};

    memset(rig, 0, sizeof(*rig));
    pthread_mutex_lock(&folder.lock);
    folder.begun = folder.ended = 0;
    (void)snprintf(folder.path, sizeof(folder.path), "/pods%u", rigs++);
    pthread_mutex_unlock(&folder.lock);
    set_folder(false, 0, NULL, NULL);
    assert_int_equal(pipe(rig->pipe), 0);
    log_init(&rig->log, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    rig->log.fd = rig->pipe[1];
    assert_int_equal(pod_uids_new(&config, &rig->uids, NULL), 0);
}

static void close_rig(Rig *rig)
{
    pod_uids_free(rig->uids);
}

/* The lines that were logged, and no more of them will come: the pipe's writing end is closed. */
static const char *log_of(Rig *rig)
{
    static char text[8192];
    ssize_t len;

    close(rig->pipe[1]);
    len = read(rig->pipe[0], text, sizeof(text) - 1);
    close(rig->pipe[0]);
    text[len > 0 ? len : 0] = '\0';
    return text;
}

static unsigned times(const char *text, const char *word)
{
    unsigned count = 0;

    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

/* Ticks until `*value` is at least `least`. */
static void until(Rig *rig, const unsigned *value, unsigned least)
{
    uint64_t start = uv_hrtime();

    while (*value < least) {
        assert_true(uv_hrtime() - start < PATIENCE_NS);
        tick(rig);
    }
}

static void until_begun(Rig *rig, unsigned least)
{
    unsigned begun = 0, ended;

    for (uint64_t start = uv_hrtime(); begun < least; counts(&begun, &ended)) {
        assert_true(uv_hrtime() - start < PATIENCE_NS);
        tick(rig);
    }
}

static void want(Rig *rig, const char *first, const char *second)
{
    AllocationTable table;
    const char *const names[] = {first, second};

    allocation_table_init(&table);
    for (size_t i = 0; i < 2; i++) {
        if (names[i])
            allocation_table_add(&table, &(Allocation){.namespace = "ns", .pod = names[i], .container = "c"});
    }
    pod_uids_want(rig->uids, &table);
    allocation_table_done(&table);
}

static const char *uid(const Rig *rig, const char *pod)
{
    return pod_uids_get(rig->uids, "ns", pod);
}

static void test_pods_get_their_uids(void **state)
{
    Rig rig;
    unsigned begun, ended;

    (void)state;
    open_rig(&rig, 3600 * NS_PER_S, 3600 * NS_PER_S);
    set_folder(false, 0, "ns_a", "uid-a");
    tick(&rig); /* no pod, no reading */
    assert_string_equal(uid(&rig, "a"), "");
    want(&rig, "a", "b");
    until(&rig, &rig.changes, 1);
    assert_string_equal(uid(&rig, "a"), "uid-a");
    assert_string_equal(uid(&rig, "b"), "");
    assert_string_equal(uid(&rig, "other"), "");
    assert_string_equal(pod_uids_get(rig.uids, "ns_a", ""), "");
    set_folder(false, 0, "ns_c", "uid-c");
    want(&rig, "a", "c");
    assert_string_equal(uid(&rig, "a"), "uid-a"); /* as it is, until the folder was read */
    until(&rig, &rig.changes, 2);
    assert_string_equal(uid(&rig, "c"), "uid-c");
    assert_string_equal(uid(&rig, "a"), ""); /* has no folder any more */
    counts(&begun, &ended);
    assert_int_equal(begun, 2);
    want(&rig, NULL, NULL);
    close_rig(&rig);
    counts(&begun, &ended);
    assert_int_equal(begun, 2);
    assert_string_equal(log_of(&rig), "");
}

static void test_the_folder_is_read_again(void **state)
{
    Rig rig;

    (void)state;
    open_rig(&rig, NS_PER_MS, 3600 * NS_PER_S);
    set_folder(false, 0, "ns_a", "uid-1");
    want(&rig, "a", NULL);
    until(&rig, &rig.changes, 1);
    until_begun(&rig, 10);
    assert_int_equal(rig.changes, 1);
    set_folder(false, 0, "ns_a", "uid-2"); /* made anew under its old name */
    until(&rig, &rig.changes, 2);
    assert_string_equal(uid(&rig, "a"), "uid-2");
    close_rig(&rig);
    assert_string_equal(log_of(&rig), "");
}

static void test_a_pod_that_went_is_forgotten(void **state)
{
    Rig rig;

    (void)state;
    open_rig(&rig, 3600 * NS_PER_S, 3600 * NS_PER_S);
    set_folder(false, 0, "ns_a", "uid-1");
    want(&rig, "a", NULL);
    until(&rig, &rig.changes, 1);
    set_folder(true, 0, "ns_a", "uid-2");
    want(&rig, "b", NULL);
    want(&rig, "a", "b");
    assert_string_equal(uid(&rig, "a"), "");
    set_folder(false, 0, "ns_a", "uid-2");
    until(&rig, &rig.changes, 2);
    assert_string_equal(uid(&rig, "a"), "uid-2");
    close_rig(&rig);
    log_of(&rig);
}

static void test_what_fails_is_said_once(void **state)
{
    Rig rig;
    const char *log;

    (void)state;
    open_rig(&rig, NS_PER_MS, 3600 * NS_PER_S);
    set_folder(false, 0, "ns_a", "uid-1");
    want(&rig, "a", NULL);
    until(&rig, &rig.changes, 1);
    set_folder(false, -ENOENT, NULL, NULL);
    want(&rig, "a", "b");
    until_begun(&rig, 20);
    assert_int_equal(rig.changes, 1);
    assert_string_equal(uid(&rig, "a"), "uid-1");
    set_folder(false, 0, "ns_b", "uid-b");
    until(&rig, &rig.changes, 2);
    assert_string_equal(uid(&rig, "b"), "uid-b");
    close_rig(&rig);
    log = log_of(&rig);
    assert_int_equal(times(log, "open '/pods': no"), 1);
    assert_int_equal(times(log, "--kubernetes-pod-logs"), 1);
    assert_int_equal(times(log, "' can be read"), 1);
    assert_int_equal(times(log, "\n"), 2);
}

static void test_trouble_that_comes_and_goes_does_not_fill_the_log(void **state)
{
    Rig rig;
    unsigned begun, ended;

    (void)state;
    open_rig(&rig, 1, 3600 * NS_PER_S);
    want(&rig, "a", NULL);
    for (int i = 0; i < 40; i++) {
        counts(&begun, &ended);
        set_folder(false, i % 2 ? 0 : -EIO, NULL, NULL);
        until_begun(&rig, begun + 2);
    }
    close_rig(&rig);
    assert_true(times(log_of(&rig), "\n") <= 6);
}

static int logged(const Rig *rig)
{
    int bytes = 0;

    assert_int_equal(ioctl(rig->pipe[0], FIONREAD, &bytes), 0);
    return bytes;
}

static void turn(Rig *rig)
{
    tick(rig);
    want(rig, "a", "b");
    assert_string_equal(uid(rig, "a"), "uid-1");
}

static void test_a_disk_that_hangs(void **state)
{
    Rig rig;
    unsigned begun, begun_since, ended;
    const char *log;
    int said;

    (void)state;
    open_rig(&rig, NS_PER_MS, 100 * NS_PER_MS);
    set_folder(false, 0, "ns_a", "uid-1");
    want(&rig, "a", NULL);
    until(&rig, &rig.changes, 1);
    set_folder(true, 0, "ns_a", "uid-2");
    counts(&begun, &ended);
    until_begun(&rig, ended + 1);
    counts(&begun, &ended);
    said = logged(&rig);
    for (uint64_t start = uv_hrtime(); logged(&rig) == said; turn(&rig))
        assert_true(uv_hrtime() - start < PATIENCE_NS);
    said = logged(&rig);
    for (int i = 0; i < 150; i++)
        turn(&rig);
    assert_int_equal(logged(&rig), said); /* once */
    counts(&begun_since, &ended);
    assert_int_equal(begun_since, begun); /* one at a time */
    set_folder(false, 0, "ns_a", "uid-2");
    until(&rig, &rig.changes, 2);
    assert_string_equal(uid(&rig, "a"), "uid-2");
    close_rig(&rig);
    log = log_of(&rig);
    assert_true(times(log, "takes long") > 0);
    assert_true(times(log, "answers again") > 0);
}

/* The agent ends, or is told to read another folder, while the disk hangs. */
static void test_the_end_does_not_wait(void **state)
{
    Rig rig;
    unsigned begun, ended;

    (void)state;
    open_rig(&rig, NS_PER_MS, 3600 * NS_PER_S);
    set_folder(true, 0, NULL, NULL);
    want(&rig, "a", NULL);
    until_begun(&rig, 1);
    close_rig(&rig);
    counts(&begun, &ended);
    assert_int_equal(begun, 1);
    assert_int_equal(ended, 0);
    assert_int_equal(rig.changes, 0);
    log_of(&rig);
    pthread_mutex_lock(&folder.lock);
    folder.hangs = false;
    pthread_cond_broadcast(&folder.changed);
    while (!folder.ended)
        pthread_cond_wait(&folder.changed, &folder.lock);
    pthread_mutex_unlock(&folder.lock);
}

/* Ends at every stage of a reading. */
static void test_ends_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        Rig rig;

        open_rig(&rig, 1, 3600 * NS_PER_S);
        set_folder(false, 0, "ns_a", "uid-1");
        want(&rig, "a", NULL);
        for (int n = 0; n < i % 7; n++)
            sched_yield();
        if (i % 3)
            pod_uids_tick(rig.uids);
        close_rig(&rig);
        assert_string_equal(log_of(&rig), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_get_their_uids),
        cmocka_unit_test(test_the_folder_is_read_again),
        cmocka_unit_test(test_a_pod_that_went_is_forgotten),
        cmocka_unit_test(test_what_fails_is_said_once),
        cmocka_unit_test(test_trouble_that_comes_and_goes_does_not_fill_the_log),
        cmocka_unit_test(test_a_disk_that_hangs),
        cmocka_unit_test(test_the_end_does_not_wait),
        cmocka_unit_test(test_ends_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
