/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/worker.c. */
#include "base/worker.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

/* What outlives a job. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hangs;
    unsigned begun, ended, freed;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

typedef struct Job {
    unsigned runs;
} Job;

static void run_job(void *self)
{
    Job *job = self;

    pthread_mutex_lock(&world.lock);
    world.begun++;
    pthread_cond_broadcast(&world.changed);
    while (world.hangs)
        pthread_cond_wait(&world.changed, &world.lock);
    world.ended++;
    pthread_mutex_unlock(&world.lock);
    job->runs++;
}

static void free_job(void *self)
{
    pthread_mutex_lock(&world.lock);
    world.freed++;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
    free(self);
}

static void wait_for(const unsigned *count, unsigned least)
{
    pthread_mutex_lock(&world.lock);
    while (*count < least)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
}

static void set_hangs(bool hangs)
{
    pthread_mutex_lock(&world.lock);
    world.hangs = hangs;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

static int begin(void **state)
{
    (void)state;
    world.hangs = false;
    world.begun = world.ended = world.freed = 0;
    return 0;
}

static Worker *make(Job **ret)
{
    Worker *worker = NULL;

    *ret = xcalloc(1, sizeof(**ret));
    assert_int_equal(worker_new(run_job, free_job, *ret, &worker, NULL), 0);
    return worker;
}

static void test_each_start_is_one_run(void **state)
{
    Job *job;
    Worker *worker = make(&job);

    (void)state;
    assert_false(worker_is_busy(worker));
    for (unsigned i = 1; i <= 100; i++) {
        worker_start(worker);
        while (worker_is_busy(worker))
            sched_yield();
        assert_int_equal(job->runs, i);
    }
    worker_free(worker);
    assert_int_equal(world.freed, 1);
    worker_free(NULL);
}

static void test_nobody_waits_for_one_that_hangs(void **state)
{
    Job *job;
    Worker *worker = make(&job);

    (void)state;
    set_hangs(true);
    worker_start(worker);
    wait_for(&world.begun, 1);
    assert_true(worker_is_busy(worker));
    worker_free(worker);
    assert_int_equal(world.ended, 0);
    assert_int_equal(world.freed, 0);
    set_hangs(false);
    wait_for(&world.freed, 1);
    assert_int_equal(world.ended, 1);
}

static void test_it_ends_at_any_moment(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 200; i++) {
        Job *job;
        Worker *worker = make(&job);

        if (i % 4)
            worker_start(worker);
        for (unsigned n = 0; n < i % 7; n++)
            sched_yield();
        worker_free(worker);
        wait_for(&world.freed, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_start_is_one_run, begin),
        cmocka_unit_test_setup(test_nobody_waits_for_one_that_hangs, begin),
        cmocka_unit_test_setup(test_it_ends_at_any_moment, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
