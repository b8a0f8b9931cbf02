/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured of whom, and what a refusal costs. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "place.h"

static const MetricId metrics[] = {METRIC_PROF_GR_ENGINE_ACTIVE, METRIC_PROF_DRAM_ACTIVE, METRIC_PROF_PIPE_FP64_ACTIVE,
                                   METRIC_PROF_PCIE_TX_BYTES};
enum { COUNT = 4 };

static DcgmWatch *watch_of(Dcgm *dcgm, DcgmTarget target, int expect)
{
    DcgmWatch *watch = NULL;
    Err err = {0};
    int rc = dcgm_watch_new(dcgm, &target, metrics, COUNT, PERIOD, &watch, &err);

    if (rc != expect)
        fail_msg("%d: %s", rc, err.text);
    return watch;
}

static unsigned int times(const char *function)
{
    unsigned int count = 0;
    size_t length = strlen(function);

    for (const char *at = strstr(seen.log, function); at; at = strstr(at + length, function))
        count++;
    return count;
}

/* Entity 10 + GPU number; values name entity and field. */
static void test_gpus(void **state)
{
    Dcgm *dcgm = place_open();
    DcgmWatch *watches[3];
    Sample out[COUNT];
    double value = 0;
    int64_t bytes = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        watches[i] = watch_of(dcgm, place_gpu(i), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dcgm_read(watches[i], place_now, out), COUNT);
        assert_true(sample_double(&out[1], &value));
        assert_true(value == 10 + i + 0.1005);
        assert_true(sample_int64(&out[3], &bytes));
        assert_int_equal(bytes, (10 + i) * 10000 + 1009);
    }
    assert_int_equal(times("dcgmFieldGroupCreate"), 1); /* one list for all */
    dcgm_watch_free(watches[1]);
    assert_int_equal(times("dcgmFieldGroupDestroy"), 0);
    assert_int_equal(dcgm_read(watches[2], place_now, out), COUNT);
    dcgm_watch_free(NULL);
    assert_true(dcgm_close(dcgm)); /* with what is left */
    assert_int_equal(times("dcgmUnwatchFields"), 3);
    assert_int_equal(times("dcgmFieldGroupDestroy"), 1);
    assert_int_equal(seen.begun, seen.ended);
}

/* A GPU is asked for its address once; those behind it in the list are left alone. */
static void test_few_questions(void **state)
{
    Dcgm *dcgm = place_open();

    (void)state;
    (void)watch_of(dcgm, place_gpu(2), 0); /* the mute one, then it */
    assert_int_equal(times("dcgmEntitiesGetLatestValues"), 2);
    (void)watch_of(dcgm, place_gpu(2), 0);
    assert_int_equal(times("dcgmEntitiesGetLatestValues"), 3); /* the mute one again, it may have come back */
    (void)dcgm_close(dcgm);
}

static void test_instance(void **state)
{
    Dcgm *dcgm = place_open();
    DcgmWatch *watch = watch_of(dcgm, place_instance(), 0);
    Sample out[COUNT];
    double value = 0;

    (void)state;
    assert_int_equal(dcgm_read(watch, place_now, out), 3);
    assert_true(sample_double(&out[0], &value));
    assert_true(value == 203 + 0.1001); /* the compute instance */
    assert_true(sample_double(&out[1], &value));
    assert_true(value == 103 + 0.1005); /* memory is the GPU instance's */
    assert_false(out[3].valid);         /* the bus is the GPU's */
    assert_int_equal(out[3].absence, ABSENCE_NOT_SUPPORTED);
    (void)dcgm_close(dcgm);
}

static void test_unknown(void **state)
{
    Dcgm *dcgm = place_open();
    DcgmTarget target = place_gpu(0);
    DcgmWatch *watch = (DcgmWatch *)&target;
    Err err = {0};

    (void)state;
    target.gpu.bus = 0x99;
    assert_int_equal(dcgm_watch_new(dcgm, &target, metrics, COUNT, PERIOD, &watch, &err), -ENODEV);
    assert_non_null(strstr(err.text, "00000000:99:00.0"));
    target = place_instance();
    target.compute_instance = 1; /* that one is on another GPU */
    assert_int_equal(dcgm_watch_new(dcgm, &target, metrics, COUNT, PERIOD, &watch, &err), -ENODEV);
    assert_ptr_equal(watch, &target);
    (void)setenv("FAKE_DCGM_FAIL", "dcgmGetGpuInstanceHierarchy:-12", 1);
    assert_int_equal(dcgm_watch_new(dcgm, &target, metrics, COUNT, PERIOD, &watch, &err), -EPROTO);
    assert_non_null(strstr(err.text, "version"));
    (void)unsetenv("FAKE_DCGM_FAIL");
    (void)dcgm_close(dcgm);
}

/* One field of four is not there: the other three are measured. */
static void test_one_field_refused(void **state)
{
    Dcgm *dcgm;
    DcgmWatch *watches[2];
    Sample out[COUNT];

    (void)state;
    (void)setenv("FAKE_DCGM_BAD_FIELD", "1006:-36", 1);
    dcgm = place_open();
    watches[0] = watch_of(dcgm, place_gpu(0), 0);
    watches[1] = watch_of(dcgm, place_gpu(1), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dcgm_read(watches[i], place_now, out), 3);
        assert_false(out[2].valid);
        assert_int_equal(out[2].absence, ABSENCE_NOT_SUPPORTED);
    }
    dcgm_watch_free(watches[0]);
    assert_int_equal(dcgm_read(watches[1], place_now, out), 3);
    assert_true(dcgm_close(dcgm));
}

static void refuse(const char *order, Absence why, unsigned int tries)
{
    Dcgm *dcgm = place_open();
    DcgmWatch *watches[2];
    Sample out[COUNT];

    (void)setenv("FAKE_DCGM_WATCH", order, 1);
    watches[0] = watch_of(dcgm, place_gpu(0), DCGM_REFUSED);
    watches[1] = watch_of(dcgm, place_gpu(1), 0); /* others go on */
    assert_int_equal(times("dcgmWatchFields"), tries + 1);
    assert_int_equal(dcgm_read(watches[0], place_now, out), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_false(out[i].valid);
        assert_int_equal(out[i].absence, why);
    }
    assert_int_equal(dcgm_read(watches[1], place_now, out), COUNT);
    (void)unsetenv("FAKE_DCGM_WATCH"); /* the reason goes away */
    dcgm_watch_free(watches[0]);
    watches[0] = watch_of(dcgm, place_gpu(0), 0);
    assert_int_equal(dcgm_read(watches[0], place_now, out), COUNT);
    (void)setenv("FAKE_DCGM_WATCH", order, 1); /* and comes back */
    dcgm_watch_free(watches[0]);
    watches[0] = watch_of(dcgm, place_gpu(0), DCGM_REFUSED);
    assert_int_equal(dcgm_read(watches[0], place_now, out), 0);
    assert_int_equal(out[0].absence, why);
    assert_true(dcgm_close(dcgm));
    (void)place_reset(NULL);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("10:-34", ABSENCE_IN_USE, 1);
    refuse("10:-29", ABSENCE_NO_PERMISSION, 1);
    refuse("10:-17", ABSENCE_NO_PERMISSION, 1);
    refuse("10:-33", ABSENCE_NO_LIBRARY, 1);
    refuse("10:-18", ABSENCE_GPU_LOST, 1);
    refuse("10:-44", ABSENCE_DRIVER_LACKS, 1);
    refuse("10:-36", ABSENCE_NOT_SUPPORTED, 1 + COUNT);
}

/* Sets or clears CAP_SYS_ADMIN of this process; false where that cannot be. */
static bool be_administrator(bool on)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    uint32_t bit = UINT32_C(1) << CAP_SYS_ADMIN;

    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    data[0].effective = on ? data[0].effective | bit : data[0].effective & ~bit;
    return syscall(SYS_capset, &header, data) == 0;
}

/* The one answer for "in use" and "not permitted" is told apart by what we are. */
static void test_profiling_library_error(void **state)
{
    (void)state;
    assert_true(be_administrator(false));
    refuse("10:-37", ABSENCE_NO_PERMISSION, 1);
    if (be_administrator(true))
        refuse("10:-37", ABSENCE_IN_USE, 1);
}

/* Groups fail, too. */
static void test_failing_groups(void **state)
{
    static const char *const fails[] = {"dcgmGroupCreate:-24", "dcgmGroupAddEntity:-1", "dcgmFieldGroupCreate:-24"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(fails); i++) {
        Dcgm *dcgm = place_open();
        Sample out[COUNT];
        DcgmWatch *watch;

        (void)setenv("FAKE_DCGM_FAIL", fails[i], 1);
        watch = watch_of(dcgm, place_gpu(0), DCGM_REFUSED);
        assert_int_equal(dcgm_read(watch, place_now, out), 0);
        assert_int_equal(out[0].absence, ABSENCE_FAILED);
        (void)place_reset(NULL);
        assert_true(dcgm_close(dcgm));
    }
}

/* More targets than the engine has groups for: those that fit go on, the rest says so. */
static void test_too_many(void **state)
{
    Dcgm *dcgm = place_open();
    Sample out[COUNT];
    DcgmWatch *last = NULL;

    (void)state;
    for (int i = 0; i < 64; i++)
        last = watch_of(dcgm, place_gpu(i % 3), 0);
    assert_int_equal(dcgm_read(last, place_now, out), COUNT);
    last = watch_of(dcgm, place_gpu(0), DCGM_REFUSED);
    assert_int_equal(dcgm_read(last, place_now, out), 0);
    assert_true(dcgm_close(dcgm));
}

/* A host engine that ends: no more calls, reasons instead, and a clean close. */
static void test_lost(void **state)
{
    DcgmPlace place = place_of("node1:5555");
    Dcgm *dcgm = NULL;
    Sample out[COUNT];
    DcgmTarget gpu = place_gpu(0);
    DcgmWatch *watch, *other = NULL;
    Err err = {0};

    (void)state;
    assert_int_equal(dcgm_open(&place, &hooks, &dcgm, NULL), 0);
    watch = watch_of(dcgm, gpu, 0);
    assert_int_equal(dcgm_read(watch, place_now, out), COUNT);
    (void)setenv("FAKE_DCGM_FAIL", "dcgmEntitiesGetLatestValues:-21", 1);
    assert_int_equal(dcgm_read(watch, place_now, out), 0);
    assert_true(dcgm_lost(dcgm));
    assert_int_equal(out[0].absence, ABSENCE_FAILED);
    seen.log[0] = '\0';
    assert_int_equal(dcgm_read(watch, place_now, out), 0);

    assert_int_equal(dcgm_watch_new(dcgm, &gpu, metrics, COUNT, PERIOD, &other, &err), -EPIPE);
    assert_int_equal(dcgm_read(watch, place_now, out), 0);
    assert_string_equal(seen.log, "");
    (void)dcgm_close(dcgm);
    assert_string_equal(seen.log, "dcgmDisconnect dcgmShutdown dlclose ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_gpus, place_reset),
        cmocka_unit_test_setup(test_few_questions, place_reset),
        cmocka_unit_test_setup(test_instance, place_reset),
        cmocka_unit_test_setup(test_unknown, place_reset),
        cmocka_unit_test_setup(test_one_field_refused, place_reset),
        cmocka_unit_test_setup(test_refusals, place_reset),
        cmocka_unit_test_setup(test_failing_groups, place_reset),
        cmocka_unit_test_setup(test_too_many, place_reset),
        cmocka_unit_test_setup(test_lost, place_reset),
        cmocka_unit_test_setup(test_profiling_library_error, place_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
