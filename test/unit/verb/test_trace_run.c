/* SPDX-License-Identifier: Apache-2.0 */
/* How files share the threads (verb/trace/run.c). trace_one is replaced, so that each file is a matter of counting. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verb/trace/one.h"
#include "verb/trace/run.h"

enum { FILES_MAX = 64 };

/* Files at work. */
typedef struct Watch {
    pthread_mutex_t lock;
    pthread_cond_t came;
    size_t at_work, most_at_work, done;
    size_t meet;                   /* a file waits until so many have been at work at a time; 0: none waits */
    unsigned int threads, most;    /* of all files at work, now and at most */
    unsigned int given[FILES_MAX]; /* by number of the file */
    const Arena *arenas[FILES_MAX];
} Watch;

static Watch watch;

int __wrap_trace_one(TraceOne *one, TraceRank *ret, Err *err);

int __wrap_trace_one(TraceOne *one, TraceRank *ret, Err *err)
{
    (void)ret;
    (void)err;
    for (unsigned int i = 0; i < one->threads; i++) /* there is one for each thread */
        arena_strdup(&one->arena[i], "text");
    pthread_mutex_lock(&watch.lock);
    watch.given[one->number] = one->threads;
    watch.arenas[one->number] = one->arena;
    watch.threads += one->threads;
    watch.most = watch.threads > watch.most ? watch.threads : watch.most;
    watch.at_work++;
    watch.most_at_work = watch.at_work > watch.most_at_work ? watch.at_work : watch.most_at_work;
    pthread_cond_broadcast(&watch.came);
    while (watch.most_at_work < watch.meet)
        pthread_cond_wait(&watch.came, &watch.lock);
    watch.at_work--;
    watch.threads -= one->threads;
    watch.done++;
    pthread_mutex_unlock(&watch.lock);
    return TRACE_ONE_OTHER_RANK;
}

/* Runs so many files; `meet` of them are at work at a time for once. */
static void run_files(size_t count, unsigned int threads, size_t meet)
{
    static const char *names[FILES_MAX];
    ProfilePaths files = {0};
    TraceAsk ask = {0};
    TraceResult result;

    watch = (Watch){.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER, .meet = meet};
    for (size_t i = 0; i < count; i++) {
        names[i] = "file.json";
        vec_push(&files.files, names[i]);
    }
    trace_run(&(TraceRun){.path = "test",
                          .files = &files,
                          .ask = &ask,
                          .config = &trace_config_default,
                          .threads = threads,
                          .memory = 1 << 20},
              &result);
    assert_int_equal(watch.done, count);
    assert_int_equal(result.analysed + result.failed, 0);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(watch.arenas[i], watch.arenas[k]);
    trace_result_done(&result);
    profile_paths_done(&files);
}

static void one_file_has_all_threads(void **state)
{
    (void)state;
    for (unsigned int threads = 1; threads <= 9; threads++) {
        run_files(1, threads, 0);
        assert_int_equal(watch.given[0], threads);
    }
}

static void files_at_work_share_them(void **state)
{
    (void)state;
    run_files(2, 8, 2);
    assert_int_equal(watch.given[0], 4);
    assert_int_equal(watch.given[1], 4);
    run_files(3, 8, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(watch.given[i], 2);
}

static void many_files_have_one_each(void **state)
{
    (void)state;
    run_files(FILES_MAX, 4, 4);
    for (size_t i = 0; i < FILES_MAX - 4; i++) /* before the last ones as many as threads are still to be done */
        assert_int_equal(watch.given[i], 1);
    assert_int_equal(watch.most_at_work, 4);
    run_files(5, 1, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(watch.given[i], 1);
}

static void never_more_than_there_are(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 12; count++)
        for (unsigned int threads = 1; threads <= 6; threads++) {
            run_files(count, threads, 0);
            assert_in_range(watch.most, 1, threads);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_has_all_threads),
        cmocka_unit_test(files_at_work_share_them),
        cmocka_unit_test(many_files_have_one_each),
        cmocka_unit_test(never_more_than_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
