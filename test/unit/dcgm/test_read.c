/* SPDX-License-Identifier: Apache-2.0 */
/* Values, blanks, times, and that reading takes no memory. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place.h"

static const MetricId metrics[] = {METRIC_PROF_SM_ACTIVE, METRIC_PROF_PCIE_RX_BYTES};
enum { COUNT = 2 };

typedef struct Scene {
    Dcgm *dcgm;
    DcgmWatch *watch;
    Sample out[COUNT];
} Scene;

static Scene scene;

static int set_up(void **state)
{
    DcgmTarget gpu = place_gpu(0);

    (void)place_reset(state);
    scene.dcgm = place_open();
    return dcgm_watch_new(scene.dcgm, &gpu, metrics, COUNT, PERIOD, &scene.watch, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    return dcgm_close(scene.dcgm) ? 0 : 1;
}

static size_t read_as(const char *mode)
{
    (void)setenv("FAKE_DCGM_VALUES", mode, 1);
    return dcgm_read(scene.watch, place_now, scene.out);
}

static void assert_values(uint64_t time_ns)
{
    double ratio = 0;
    int64_t bytes = 0;

    assert_true(sample_double(&scene.out[0], &ratio));
    assert_true(ratio == 10 + 0.1002);
    assert_int_equal(scene.out[0].kind, SAMPLE_DOUBLE);
    assert_true(sample_int64(&scene.out[1], &bytes));
    assert_int_equal(bytes, 101010);
    assert_int_equal(scene.out[0].time_ns, time_ns);
    assert_int_equal(scene.out[1].time_ns, time_ns);
}

static void assert_absent(Absence why)
{
    for (int i = 0; i < COUNT; i++) {
        assert_false(scene.out[i].valid);
        assert_int_equal(scene.out[i].absence, why);
        assert_int_equal(scene.out[i].time_ns, NOW_NS);
    }
}

static void test_values(void **state)
{
    (void)state;
    assert_int_equal(read_as("fine"), COUNT);
    assert_values(NOW_NS);
    assert_int_equal(read_as("reversed"), COUNT);
    assert_values(NOW_NS);
}

static void test_blanks(void **state)
{
    static const struct {
        const char *mode;
        Absence why;
    } rows[] = {
        {"blank", ABSENCE_NO_DATA},
        {"not_found", ABSENCE_NO_DATA},
        {"not_supported", ABSENCE_NOT_SUPPORTED},
        {"not_permitted", ABSENCE_NO_PERMISSION},
        {"text", ABSENCE_FAILED},
        {"status:-18", ABSENCE_GPU_LOST},
        {"status:-36", ABSENCE_NOT_SUPPORTED},
        {"status:-54", ABSENCE_IN_USE},
        {"status:-999", ABSENCE_FAILED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(read_as(rows[i].mode), 0);
        assert_absent(rows[i].why);
        assert_int_equal(read_as("fine"), COUNT); /* it comes back */
    }
}

static void test_not_a_number(void **state)
{
    (void)state;
    assert_int_equal(read_as("nan"), 1);
    assert_false(scene.out[0].valid);
    assert_int_equal(scene.out[0].absence, ABSENCE_NO_DATA);
}

/* Before the first value there is none yet; afterwards it is missed. */
static void test_not_yet(void **state)
{
    DcgmTarget gpu = place_gpu(0);

    (void)state;
    assert_int_equal(read_as("none"), 0);
    assert_absent(ABSENCE_NOT_YET);
    assert_int_equal(read_as("status:-16"), 0);
    assert_absent(ABSENCE_NOT_YET);
    assert_int_equal(read_as("fine"), COUNT);
    assert_int_equal(read_as("none"), 0);
    assert_absent(ABSENCE_NO_DATA);
    dcgm_watch_free(scene.watch);
    assert_int_equal(dcgm_watch_new(scene.dcgm, &gpu, metrics, COUNT, PERIOD, &scene.watch, NULL), 0);

    assert_int_equal(read_as("none"), 0);
    assert_absent(ABSENCE_NOT_YET);
}

/* A value keeps the time at which it was measured, and is dropped when that is too long ago. */
static void test_age(void **state)
{
    (void)state;
    (void)setenv("FAKE_DCGM_NOW_US", "1699999998000000", 1); /* 2 s ago */
    assert_int_equal(read_as("fine"), COUNT);
    assert_values(NOW_NS - UINT64_C(2000000000));
    (void)setenv("FAKE_DCGM_NOW_US", "1699999997000000", 1); /* 3 s */
    assert_int_equal(read_as("fine"), COUNT);
    (void)setenv("FAKE_DCGM_NOW_US", "1699999996999999", 1);
    assert_int_equal(read_as("fine"), 0);
    assert_absent(ABSENCE_NO_DATA);
    (void)setenv("FAKE_DCGM_NOW_US", "1700000005000000", 1); /* a clock that went back */
    assert_int_equal(read_as("fine"), COUNT);
    assert_values(NOW_NS);
    (void)setenv("FAKE_DCGM_NOW_US", "0", 1);
    assert_int_equal(read_as("fine"), 0);
    (void)setenv("FAKE_DCGM_NOW_US", "-9223372036854775807", 1);
    assert_int_equal(read_as("fine"), 0);
}

static void test_failing_call(void **state)
{
    (void)state;
    (void)setenv("FAKE_DCGM_FAIL", "dcgmEntitiesGetLatestValues:-57", 1);
    assert_int_equal(read_as("fine"), 0);
    assert_absent(ABSENCE_TIMED_OUT);
    assert_false(dcgm_lost(scene.dcgm));
    (void)unsetenv("FAKE_DCGM_FAIL");
    assert_int_equal(read_as("fine"), COUNT);
}

static void test_no_memory_taken(void **state)
{
    struct mallinfo2 before, after;

    (void)state;
    assert_int_equal(read_as("fine"), COUNT);
    seen.log[0] = '\0';
    before = mallinfo2();
    for (int i = 0; i < 100; i++)
        assert_int_equal(dcgm_read(scene.watch, place_now, scene.out), COUNT);
    after = mallinfo2();
    assert_int_equal(after.uordblks, before.uordblks);
    assert_int_equal(strncmp(seen.log, "dcgmEntitiesGetLatestValues dcgmEntitiesGetLatestValues ", 56), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_values),         TEST(test_blanks), TEST(test_not_a_number),
                                       TEST(test_not_yet),        TEST(test_age),    TEST(test_failing_call),
                                       TEST(test_no_memory_taken)};
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
