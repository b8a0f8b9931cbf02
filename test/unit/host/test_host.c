/* SPDX-License-Identifier: Apache-2.0 */
/* Covers host.c: looks come when they are due, one that hangs is told and holds nothing up. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "kit.h"
#include "source/host/host.h"

#define CLASS "sys/devices/pci0000:aa/0000:aa:01.0/0000:bb:00.0/class"

static int begin(void **state)
{
    static Tree tree;

    tree_new(&tree);
    tree_gpu(&tree);
    *state = &tree;
    return 0;
}

static int end(void **state)
{
    tree_free(*state);
    return 0;
}

static Host *open_host(const Tree *tree, uint64_t period_ns)
{
    const HostConfig config = {.root = tree->root, .period_ns = period_ns};
    Err err = {0};
    Host *host = NULL;

    assert_int_equal(host_open(&config, &host, &err), 0);
    return host;
}

/* Turns at this instant until a look of at least `since_ns` is there. */
static const Facts *wait_for(Host *host, uint64_t now_ns, uint64_t since_ns)
{
    for (;;) {
        host_tick(host, now_ns, NULL, 0);
        if (host_facts(host)->time_ns >= since_ns)
            return host_facts(host);
        usleep(1000);
    }
}

static void looks_come_when_they_are_due(void **state)
{
    Host *host = open_host(*state, 10 * NS_PER_S);

    assert_int_equal(host_facts(host)->time_ns, 0);
    assert_int_equal(wait_for(host, NS_PER_S, 1)->time_ns, NS_PER_S);
    tree_task(*state, 20, "nvidia-smi", 'D', "0");
    for (uint64_t s = 2; s < 11; s++)
        host_tick(host, s * NS_PER_S, NULL, 0);
    assert_int_equal(host_facts(host)->stuck_len, 0);
    assert_int_equal(wait_for(host, 11 * NS_PER_S, 2 * NS_PER_S)->time_ns, 11 * NS_PER_S);
    assert_int_equal(host_facts(host)->stuck_len, 1);
    host_close(host);
}

static void one_that_is_wanted_comes_at_the_next_tick(void **state)
{
    Host *host = open_host(*state, NS_PER_H);

    wait_for(host, NS_PER_S, 1);
    host_want_scan(host, 3 * NS_PER_S);
    assert_int_equal(wait_for(host, 3 * NS_PER_S, 2 * NS_PER_S)->time_ns, 3 * NS_PER_S);
    for (uint64_t s = 4; s < 9; s++) { /* it was made */
        host_tick(host, s * NS_PER_S, NULL, 0);
        usleep(2000);
    }
    assert_int_equal(host_facts(host)->time_ns, 3 * NS_PER_S);
    assert_false(host_facts(host)->scan_hangs);
    host_close(host);
}

static void samplers_are_marked(void **state)
{
    const pid_t samplers[] = {7, 20};
    Host *host = open_host(*state, NS_PER_S);

    tree_task(*state, 20, "stoker-sampler", 'D', "nv_wait");
    tree_task(*state, 21, "other", 'D', "nv_wait");
    wait_for(host, NS_PER_S, 1);
    host_tick(host, NS_PER_S, samplers, 2);
    const Facts *facts = host_facts(host);
    assert_int_equal(facts->stuck_len, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(facts->stuck[i].ours == (facts->stuck[i].pid == 20));
    host_tick(host, NS_PER_S, NULL, 0);
    assert_false(facts->stuck[0].ours || facts->stuck[1].ours);
    host_close(host);
}

static void one_that_hangs_keeps_the_last_and_ends_with_itself(void **state)
{
    const Tree *tree = *state;
    Host *host = open_host(tree, NS_PER_S);
    uint64_t now = NS_PER_S;

    wait_for(host, now, 1);
    tree_pipe(tree, CLASS);
    now = 5 * NS_PER_S;
    for (int i = 0; i < 50; i++) {
        host_tick(host, now, NULL, 0);
        usleep(1000);
    }
    assert_int_equal(host_facts(host)->time_ns, NS_PER_S); /* of before */
    assert_int_equal(host_facts(host)->gpu_count, 1);
    tree_unblock(tree, CLASS); /* it reads nothing there: no GPU */
    tree_gone(tree, CLASS);
    wait_for(host, now, 2 * NS_PER_S);
    assert_false(host_facts(host)->gpus[0].present);
    host_close(host);
}

static void it_can_be_closed_in_the_middle(void **state)
{
    const Tree *tree = *state;
    Host *host = open_host(tree, NS_PER_S);

    tree_pipe(tree, CLASS);
    host_tick(host, NS_PER_S, NULL, 0);
    usleep(20000);
    host_close(host);
    for (int i = 0; i < 2000 && !tree_try_unblock(tree, CLASS); i++)
        usleep(1000); /* the scan may not have begun, and never comes then */
    host_close(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(looks_come_when_they_are_due),
        TEST(one_that_is_wanted_comes_at_the_next_tick),
        TEST(samplers_are_marked),
        TEST(one_that_hangs_keeps_the_last_and_ends_with_itself),
        TEST(it_can_be_closed_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
