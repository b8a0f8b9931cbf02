/* SPDX-License-Identifier: Apache-2.0 */
/* A call that never comes back stays announced, whichever it is, so that who looks from outside can tell. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "place.h"

/* Shared with the child: the call in progress, as a board would have it. */
typedef struct Shared {
    _Atomic(const char *) now; /* text of a program that both run */
    atomic_bool finished;
} Shared;

static void announce(void *self, const char *function)
{
    Shared *shared = self;

    (void)strncpy(seen.now, function, sizeof seen.now - 1);
    atomic_store(&shared->now, function);
}

static void over(void *self)
{
    Shared *shared = self;

    seen.now[0] = '\0';
    atomic_store(&shared->now, NULL);
}

/* A whole life, on an engine here. */
static void live(Shared *shared)
{
    static const MetricId metrics[] = {METRIC_PROF_SM_ACTIVE, METRIC_PROF_DRAM_ACTIVE};
    DcgmHooks shared_hooks = {.before = announce, .after = over, .self = shared};
    DcgmPlace place = place_of("");
    DcgmTarget gpu = place_gpu(0), instance = place_instance();
    DcgmWatch *watch = NULL;
    Dcgm *dcgm = NULL;
    Sample out[2];

    if (dcgm_open(&place, &shared_hooks, &dcgm, NULL) == 0) {
        (void)dcgm_watch_new(dcgm, &gpu, metrics, 2, PERIOD, &watch, NULL);
        (void)dcgm_watch_new(dcgm, &instance, metrics, 2, PERIOD, &watch, NULL);
        (void)dcgm_read(watch, place_now, out);
        (void)dcgm_close(dcgm);
    }
    atomic_store(&shared->finished, true);
}

static bool is_stuck_in(pid_t child, const Shared *shared, const char *function)
{
    const char *now = NULL;
    int status;

    while (!atomic_load(&shared->finished)) {
        if (waitpid(child, &status, WNOHANG) != 0)
            return false;
        now = atomic_load(&shared->now);
        if (now && strcmp(now, function) == 0)
            return true; /* the stand-in leaves it no other way than by a signal */
        (void)sched_yield();
    }
    return false;
}

static void test_each_call(void **state)
{
    static const char *const functions[] = {
        "dcgmInit",
        "dcgmStartEmbedded",
        "dcgmGetAllDevices",
        "dcgmGetGpuInstanceHierarchy",
        "dcgmGroupCreate",
        "dcgmGroupAddEntity",
        "dcgmFieldGroupCreate",
        "dcgmWatchFields",
        "dcgmEntitiesGetLatestValues",
        "dcgmUnwatchFields",
        "dcgmFieldGroupDestroy",
        "dcgmGroupDestroy",
        "dcgmStopEmbedded",
        "dcgmShutdown",
    };
    Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(shared != MAP_FAILED);
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        pid_t child;

        atomic_store(&shared->now, NULL);
        atomic_store(&shared->finished, false);
        (void)setenv("FAKE_DCGM_HANG", functions[i], 1);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            live(shared);
            _exit(0);
        }
        if (!is_stuck_in(child, shared, functions[i]))
            fail_msg("%s did not stay announced", functions[i]);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_false(atomic_load(&shared->finished));
        assert_string_equal(atomic_load(&shared->now), functions[i]);
    }
    (void)munmap(shared, sizeof *shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_each_call, place_reset)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
