/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/podresources/hpc.c on a directory of its own. */
#include <errno.h>
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
#include "base/str.h"
#include "model/device.h"
#include "source/podresources/hpc.h"

typedef struct Place {
    char dir[64];
    Hpc hpc;
} Place;

static int setup(void **state)
{
    Place *place = calloc(1, sizeof(*place));

    if (!place)
        return -1;
    (void)snprintf(place->dir, sizeof(place->dir), "/tmp/test-hpc-XXXXXX");
    if (!mkdtemp(place->dir))
        return -1;
    hpc_init(&place->hpc, place->dir);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    Place *place = *state;

    hpc_done(&place->hpc);
    (void)chmod(place->dir, 0700);
    (void)file_remove_tree("/tmp", place->dir + 5, NULL);
    free(place);
    return 0;
}

static const char *path_of(const Place *place, const char *name)
{
    static char path[400];

    (void)snprintf(path, sizeof(path), "%s/%s", place->dir, name);
    return path;
}

static void put(const Place *place, const char *name, const char *text)
{
    FILE *file = fopen(path_of(place, name), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* The table as "gpu[.instance]=job ..." */
static const char *table(const Hpc *hpc)
{
    static char text[4096];
    Str out;

    str_init_room(&out, text, sizeof(text));
    for (size_t i = 0; i < hpc->table.len; i++) {
        const JobAllocation *job = &hpc->table.at[i];

        str_addf(&out, "%s%u", i ? " " : "", job->gpu);
        if (job->gpu_instance != DEVICE_NO_NUMBER)
            str_addf(&out, ".%u", job->gpu_instance);
        str_addf(&out, "=%s", job->job);
    }
    return text;
}

static void test_jobs(void **state)
{
    Place *place = *state;
    Hpc *hpc = &place->hpc;

    assert_int_equal(hpc_update(hpc, NULL), 0);
    put(place, "0", "4711\n");
    put(place, "10", "12_3\n12_3\n  4711.batch \r\n\n");
    put(place, "2.7", "job with blanks");
    put(place, "2", "b\na\n");
    put(place, "README", "x\n");
    put(place, "3.", "x\n");
    put(place, ".3", "x\n");
    put(place, "3.1.2", "x\n");
    put(place, "-1", "x\n");
    put(place, "0x1", "x\n");
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "0=4711 2=a 2=b 2.7=job with blanks 10=12_3 10=4711.batch");
    assert_int_equal(hpc->left_out, 0);
    assert_int_equal(hpc_update(hpc, NULL), 0);
}

static void test_changes(void **state)
{
    Place *place = *state;
    Hpc *hpc = &place->hpc;
    char from[400];

    put(place, "0", "a\n");
    put(place, "1", "b\n");
    assert_int_equal(hpc_update(hpc, NULL), 1);
    put(place, "0", "c\n"); /* as long as before, in the same instant */
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "0=c 1=b");
    put(place, "0", "c\nc\n"); /* another file that says the same */
    assert_int_equal(hpc_update(hpc, NULL), 0);
    put(place, "new", "d\n");
    (void)snprintf(from, sizeof(from), "%s", path_of(place, "new"));
    assert_int_equal(rename(from, path_of(place, "1")), 0);
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "0=c 1=d");
    assert_int_equal(unlink(path_of(place, "0")), 0);
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "1=d");
    put(place, "1", "");
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "");
    assert_int_equal(unlink(path_of(place, "1")), 0);
    assert_int_equal(hpc_update(hpc, NULL), 0);
}

/* Files that stay as they are are not read each time, once they are older than the file system's clock is coarse. */
static void test_files_that_stay_are_not_read_again(void **state)
{
    Place *place = *state;
    Hpc *hpc = &place->hpc;
    uint64_t reads = 0;

    put(place, "0", "a\n");
    put(place, "1", "bad\001\n");
    assert_int_equal(hpc_update(hpc, NULL), 1);
    for (int i = 0; i < 600 && hpc->reads > reads; i++) {
        reads = hpc->reads;
        usleep(100 * 1000);
        assert_int_equal(hpc_update(hpc, NULL), 0);
    }
    assert_int_equal(hpc->reads, reads);
    assert_int_equal(hpc->left_out, 1);
    put(place, "0", "b\n"); /* as long as before */
    assert_int_equal(hpc_update(hpc, NULL), 1);
    put(place, "0", "c\n"); /* and again, which may be in the same instant */
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "0=c");
    assert_int_equal(unlink(path_of(place, "1")), 0);
    assert_int_equal(hpc_update(hpc, NULL), 0);
    assert_int_equal(hpc->left_out, 0);
}

static void test_what_is_left_out(void **state)
{
    Place *place = *state;
    Hpc *hpc = &place->hpc;
    char longest[HPC_JOB_BYTES_MAX + 2];

    memset(longest, 'j', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    put(place, "1", longest); /* one byte too long */
    put(place, "2", "good\nbad\001\nme too\nb\303\244d\n");
    put(place, "4294967295", "x\n"); /* stands for no number */
    put(place, "99999999999", "x\n");
    put(place, "000000000000000000000001", "x\n");
    put(place, "0003", "zeros\n");
    put(place, "3", "zeros\n");
    assert_int_equal(mkdir(path_of(place, "4"), 0700), 0);
    assert_int_equal(mkfifo(path_of(place, "5"), 0600), 0); /* would wait for its writer */
    assert_int_equal(symlink("/dev/zero", path_of(place, "6")), 0);
    assert_int_equal(symlink("nowhere", path_of(place, "7")), 0);
    assert_int_equal(symlink("2", path_of(place, "8")), 0);
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "2=good 2=me too 3=zeros 8=good 8=me too");
    assert_int_equal(hpc->left_out, 1 + 2 + 3 + 3 + 2); /* "7" is a file that went, no more */
    longest[HPC_JOB_BYTES_MAX] = '\0';
    put(place, "1", longest);
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_int_equal(strlen(hpc->table.at[0].job), HPC_JOB_BYTES_MAX);
}

static void test_caps(void **state)
{
    Place *place = *state;
    Hpc *hpc = &place->hpc;
    CLEANUP(str_done) Str text;
    char name[16];

    str_init(&text, 1 << 20);
    for (int i = 0; i < HPC_JOBS_MAX + 5; i++)
        str_addf(&text, "%d\n", i);
    put(place, "0", text.text);
    str_clear(&text);
    str_add(&text, "first\n");
    while (text.len < HPC_FILE_BYTES_MAX + 10)
        str_add(&text, "\n\n\n\n\n\n\n\nhalf");
    put(place, "1", text.text);
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_int_equal(hpc->table.len, HPC_JOBS_MAX + 2);
    assert_string_equal(hpc->table.at[HPC_JOBS_MAX].job, "first");
    assert_string_equal(hpc->table.at[HPC_JOBS_MAX + 1].job, "half");
    assert_true(hpc->left_out > 5);
    for (int i = 2; i < HPC_FILES_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        put(place, name, "j\n");
    }
    assert_int_equal(hpc_update(hpc, NULL), 1);
    /* Three files are too many, whichever the folder lists last. */
    size_t gpus = 0;
    for (size_t i = 0; i < hpc->table.len; i++)
        gpus += i == 0 || hpc->table.at[i].gpu != hpc->table.at[i - 1].gpu;
    assert_int_equal(gpus, HPC_FILES_MAX);
}

static void test_a_directory_that_cannot_be_read(void **state)
{
    Place *place = *state;
    Hpc *hpc = &place->hpc, none;
    Err err = {0};

    hpc_init(&none, path_of(place, "missing"));
    assert_int_equal(hpc_update(&none, &err), -ENOENT);
    assert_non_null(strstr(err.text, "missing"));
    hpc_done(&none);
    put(place, "0", "a\n");
    assert_int_equal(hpc_update(hpc, NULL), 1);
    hpc_init(&none, path_of(place, "0"));
    assert_int_equal(hpc_update(&none, &err), -ENOTDIR);
    hpc_done(&none);
    assert_int_equal(unlink(path_of(place, "0")), 0);
    assert_int_equal(rmdir(place->dir), 0);
    assert_int_equal(hpc_update(hpc, &err), -ENOENT);
    assert_int_equal(hpc->table.len, 0);
    assert_int_equal(mkdir(place->dir, 0700), 0); /* and again */
    put(place, "0", "a\n");
    assert_int_equal(hpc_update(hpc, NULL), 1);
    assert_string_equal(table(hpc), "0=a");
    if (geteuid() != 0) {
        assert_int_equal(chmod(path_of(place, "0"), 0), 0);
        assert_int_equal(hpc_update(hpc, NULL), 1);
        assert_int_equal(hpc->left_out, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_stay_are_not_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_left_out, setup, teardown),

        cmocka_unit_test_setup_teardown(test_caps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_directory_that_cannot_be_read, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
