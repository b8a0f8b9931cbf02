/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks on several threads (engine/trace/analyse.c): each once, after those that it needs, within the memory, and on no
 * more threads than were asked for. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "engine/trace/analyse.h"
#include "random.h"

enum { ROUNDS = 300, BYTES = 100, LINGER_NS = 20000000 };

static const unsigned int thread_counts[] = {0, 1, 2, 3, 8, 200};

/* What is known of the tasks that run. */
typedef struct Watch {
    pthread_mutex_t lock;
    pthread_cond_t came;
    const TraceTask *tasks;
    unsigned int threads;
    uint32_t done, running;
    bool thread_busy[TRACE_TASK_THREADS_MAX];
    size_t runs[TRACE_TASKS_MAX], order[TRACE_TASKS_MAX], ended;
    size_t held, most_held, at_a_time, most_at_a_time;
    size_t meet; /* a task waits until so many run; 0: none waits */
    size_t most; /* a task lingers, so that one that must not run beside it would come; 0: none does */
} Watch;

static void begin(Watch *watch, size_t place, unsigned int thread)
{
    assert_true(thread < (watch->threads ? watch->threads : 1));
    assert_false(watch->thread_busy[thread]);
    assert_int_equal(watch->tasks[place].after & ~watch->done, 0);
    watch->thread_busy[thread] = true;
    watch->runs[place]++;
    watch->held += watch->tasks[place].bytes;
    watch->most_held = watch->held > watch->most_held ? watch->held : watch->most_held;
    watch->at_a_time++;
    watch->most_at_a_time = watch->at_a_time > watch->most_at_a_time ? watch->at_a_time : watch->most_at_a_time;
}

/* With the lock held. Nothing is asserted of the time: a machine that is slow sees less, and finds nothing wrong. */
static void linger(Watch *watch)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LINGER_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (watch->most_at_a_time <= watch->most && pthread_cond_timedwait(&watch->came, &watch->lock, &until) == 0)
        ;
}

static void run(void *context, size_t place, unsigned int thread)
{
    Watch *watch = context;

    pthread_mutex_lock(&watch->lock);
    begin(watch, place, thread);
    pthread_cond_broadcast(&watch->came);
    while (watch->most_at_a_time < watch->meet)
        pthread_cond_wait(&watch->came, &watch->lock);
    if (watch->most)
        linger(watch);
    watch->thread_busy[thread] = false;
    watch->held -= watch->tasks[place].bytes;
    watch->at_a_time--;
    watch->done |= UINT32_C(1) << place;
    watch->order[watch->ended++] = place;
    pthread_mutex_unlock(&watch->lock);
}

static Watch watch_tasks(const TraceTask *tasks, size_t count, unsigned int threads, size_t memory, size_t meet,
                         size_t most)
{
    Watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER,
                   .came = PTHREAD_COND_INITIALIZER,
                   .tasks = tasks,
                   .threads = threads,
                   .meet = meet,
                   .most = most};

    trace_tasks_run(tasks, count, &watch, threads, memory);
    assert_int_equal(watch.ended, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(watch.runs[i], 1);
    return watch;
}

static Watch watched(const TraceTask *tasks, size_t count, unsigned int threads, size_t memory, size_t meet)
{
    return watch_tasks(tasks, count, threads, memory, meet, 0);
}

/* Some bits of the places below. */
static uint32_t some_before(Random *random, size_t place)
{
    uint32_t all = place ? UINT32_MAX >> (32 - place) : 0;

    return all & (uint32_t)random_below(random, UINT64_C(1) << 32) & (uint32_t)random_below(random, UINT64_C(1) << 32);
}

static void each_runs_once_after_what_it_needs(void **state)
{
    Random random = {7};

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        TraceTask tasks[TRACE_TASKS_MAX] = {0};
        size_t count = random_below(&random, TRACE_TASKS_MAX + 1);

        for (size_t i = 0; i < count; i++)
            tasks[i] = (TraceTask){.run = run, .after = some_before(&random, i), .bytes = random_below(&random, BYTES)};
        for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
            Watch watch = watched(tasks, count, thread_counts[i], BYTES, 0);

            assert_true(watch.most_held <= BYTES);
        }
    }
}

static void one_thread_takes_them_in_order(void **state)
{
    TraceTask tasks[TRACE_TASKS_MAX] = {0};

    (void)state;
    for (size_t i = 0; i < TRACE_TASKS_MAX; i++)
        tasks[i] = (TraceTask){.run = run, .bytes = BYTES};
    Watch watch = watched(tasks, TRACE_TASKS_MAX, 1, 0, 0);
    assert_int_equal(watch.most_at_a_time, 1);
    for (size_t i = 0; i < TRACE_TASKS_MAX; i++)
        assert_int_equal(watch.order[i], i);
}

/* Would wait for ever if one were kept back. */
static void so_many_run_at_a_time(void **state)
{
    TraceTask tasks[8] = {0};

    (void)state;
    for (size_t i = 0; i < 8; i++)
        tasks[i] = (TraceTask){.run = run, .bytes = BYTES};
    assert_int_equal(watched(tasks, 8, 8, SIZE_MAX, 8).most_at_a_time, 8);
    assert_int_equal(watched(tasks, 8, 3, SIZE_MAX, 3).most_at_a_time, 3);
}

static void memory_keeps_tasks_back(void **state)
{
    TraceTask tasks[12] = {0};

    (void)state;
    for (size_t i = 0; i < 12; i++)
        tasks[i] = (TraceTask){.run = run, .bytes = BYTES};
    assert_true(watch_tasks(tasks, 12, 8, 3 * BYTES + 3, 0, 3).most_at_a_time <= 3);
    assert_int_equal(watch_tasks(tasks, 12, 8, BYTES - 1, 0, 1).most_at_a_time, 1); /* too large, and run yet */
    assert_int_equal(watch_tasks(tasks, 12, 8, 0, 0, 1).most_at_a_time, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_runs_once_after_what_it_needs),
        cmocka_unit_test(one_thread_takes_them_in_order),
        cmocka_unit_test(so_many_run_at_a_time),
        cmocka_unit_test(memory_keeps_tasks_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
