/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual clock: only forward, at its speed, woken by changes; and opening images. Uses threads. */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * SIM_NS + (uint64_t)ts.tv_nsec;
}

static SimImage *node(void)
{
    SimImage *image = node_of("t4", 1);
    sim_plan_build(image);
    return image;
}

static void stands_and_steps(void **state)
{
    (void)state;
    SimImage *image = node();
    assert_int_equal(sim_clock_now(image), 0);
    assert_true(sim_clock_speed(image) == 0);
    node_step(image, 1.5);
    assert_int_equal(sim_clock_now(image), node_ns(1.5));
    assert_int_equal(sim_clock_now(image), node_ns(1.5));
    assert_int_equal(sim_clock_advance(image, UINT64_MAX), -EOVERFLOW);
    assert_int_equal(sim_clock_advance(image, UINT64_MAX / 4), -EOVERFLOW);
    assert_int_equal(sim_clock_now(image), node_ns(1.5));
    assert_int_equal(sim_clock_wall_us(image, node_ns(1.5)), image->epoch_us + 1500000);
    sim_image_close(image);
}

/* Virtual time lies between what passed for sure and what can have passed at most. */
static void runs_at_its_speed(void **state)
{
    (void)state;
    SimImage *image = node();
    static const double speeds[] = {1, 60, 0.5, 1e6, 1};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        uint64_t outer = real_ns();
        sim_clock_set_speed(image, speeds[i]);
        assert_true(sim_clock_speed(image) == speeds[i]);
        uint64_t from = sim_clock_now(image), inner = real_ns();
        usleep(5000);
        uint64_t least = real_ns() - inner;
        uint64_t to = sim_clock_now(image);
        uint64_t most = real_ns() - outer;
        double passed = (double)(to - from) / speeds[i];
        assert_true(passed >= (double)least * 0.999 - 1 && passed <= (double)most * 1.001 + 1);
    }
    sim_clock_set_speed(image, 0);
    uint64_t stands = sim_clock_now(image);
    usleep(2000);
    assert_int_equal(sim_clock_now(image), stands);
    sim_clock_set_speed(image, -3); /* never back */
    assert_true(sim_clock_speed(image) == 0);
    sim_image_close(image);
}

/* ---- threads ---- */

static SimImage *shared;
static _Atomic int stop;

static void *watch(void *arg)
{
    uint64_t last = 0;
    uintptr_t backwards = 0;
    (void)arg;
    while (!atomic_load(&stop)) {
        uint64_t now = sim_clock_now(shared);
        backwards += now < last;
        last = now;
    }
    return (void *)backwards;
}

static void only_forward_whatever_is_done_to_it(void **state)
{
    (void)state;
    enum { WATCHERS = 3 };
    pthread_t thread[WATCHERS];
    shared = node();
    atomic_store(&stop, 0);
    for (int i = 0; i < WATCHERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, watch, NULL), 0);
    uint64_t seed = 3;
    for (int i = 0; i < 20000 / TEST_SLOW; i++) {
        if (node_pick(&seed, 8) == 0)
            sim_clock_advance(shared, node_pick(&seed, 1000));
        sim_clock_set_speed(shared, i % 2 ? 0 : 1e6); /* a nanosecond seen too much is a millisecond */
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < WATCHERS; i++) {
        void *backwards;
        pthread_join(thread[i], &backwards);
        assert_null(backwards);
    }
    sim_image_close(shared);
}

static void *wait_long(void *arg)
{
    sim_clock_wait(shared, *(uint64_t *)arg, -1);
    return NULL;
}

typedef void (*Change)(void);

static void change_step(void)
{
    node_step(shared, 100);
}

static void change_speed(void)
{
    sim_clock_set_speed(shared, 1e6);
}

static void change_plan(void)
{
    node_do(shared, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .u = 4});
}

/* A sleeper on a clock that stands is woken by whatever changes clock or plan. A hang here is the failure. */
static void sleepers_are_woken(void **state)
{
    (void)state;
    static const Change changes[] = {change_step, change_speed, change_plan};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        shared = node();
        uint64_t until = 50 * SIM_NS;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_long, &until), 0);
        usleep(3000);
        changes[i]();
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 20000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
        while (pthread_timedjoin_np(thread, NULL, &soon) != 0) /* changed before it slept: once more */
            changes[i]();
        sim_image_close(shared);
    }
}

static void waits_end(void **state)
{
    (void)state;
    SimImage *image = node();
    sim_clock_wait(image, 0, -1); /* is over already */
    uint64_t before = real_ns();
    sim_clock_wait(image, SIM_NS, 3); /* stands: the timeout */
    assert_true(real_ns() - before >= 3000000);
    sim_clock_set_speed(image, 1000);
    uint64_t until = sim_clock_now(image) + SIM_NS;
    while (sim_clock_now(image) < until)
        sim_clock_wait(image, until, -1);
    sim_image_close(image);
}

/* ---- images ---- */

static void images_are_checked(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-core-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_null(sim_image_open(path)); /* empty */
    assert_int_equal(errno, EPROTO);
    assert_null(sim_image_create(path, SIM_GPU_MAX + 1));
    assert_int_equal(errno, EINVAL);
    close(fd);
    SimImage *image = sim_image_create(path, 1);
    assert_non_null(image);
    image->boards[0] = *node_board("t4");
    image->board_count = 1;
    assert_null(sim_image_open(path)); /* not planned: not an image yet */
    assert_int_equal(errno, EPROTO);
    sim_plan_build(image);
    SimImage *again = sim_image_open(path);
    assert_non_null(again);
    node_step(image, 3);
    assert_int_equal(sim_clock_now(again), 3 * SIM_NS);
    sim_image_close(again);
    image->layout++;
    assert_null(sim_image_open(path));
    assert_int_equal(errno, EPROTO);
    image->layout--;
    assert_int_equal(truncate(path, (off_t)image->bytes - 4096), 0);
    assert_null(sim_image_open(path));
    assert_int_equal(errno, EPROTO);
    sim_image_close(image);
    unlink(path);
    assert_null(sim_image_open(path));
    assert_int_equal(errno, ENOENT);
    sim_image_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stands_and_steps),
        cmocka_unit_test(runs_at_its_speed),
        cmocka_unit_test(only_forward_whatever_is_done_to_it),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(waits_end),
        cmocka_unit_test(images_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
