/* SPDX-License-Identifier: Apache-2.0 */
/* From the driver's numbers to the catalogue's. Covers src/source/nvml/convert.c and answer.c. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "source/nvml/library.h"
#include "source/nvml/convert.h"

static int64_t whole(const Sample *sample)
{
    int64_t value = INT64_MIN;

    assert_true(sample_int64(sample, &value));
    return value;
}

static double real(const Sample *sample)
{
    double value = NAN;

    assert_true(sample->valid && sample->kind == SAMPLE_DOUBLE);
    assert_true(sample_double(sample, &value));
    return value;
}

static Sample set(MetricId id, NvmlNumber number)
{
    Sample sample = {0};

    nvml_sample_set(metric_get(id), number, 7, &sample);
    assert_int_equal(sample.time_ns, 7);
    return sample;
}

static void units(void **state)
{
    Sample sample;

    (void)state;
    sample = set(METRIC_POWER_USAGE, nvml_whole(30982));
    assert_true(real(&sample) > 30.9819 && real(&sample) < 30.9821);
    sample = set(METRIC_FB_USED, nvml_whole(25002 * INT64_C(1048576) + 1048575));
    assert_int_equal(whole(&sample), 25002);
    sample = set(METRIC_GPU_TEMP, nvml_whole(200));
    assert_int_equal(whole(&sample), 200);
    sample = set(METRIC_GPU_TEMP, nvml_whole(201));
    assert_false(sample.valid);
    assert_int_equal(sample.absence, ABSENCE_NO_DATA);
    sample = set(METRIC_GPU_TEMP_LIMIT, nvml_whole(-3));
    assert_int_equal(whole(&sample), -3);
    sample = set(METRIC_TOTAL_ENERGY_CONSUMPTION, nvml_whole(123456789));
    assert_int_equal(whole(&sample), 123456789);
    sample = set(METRIC_SM_CLOCK, nvml_lacking(ABSENCE_DEPRECATED));
    assert_int_equal(sample.absence, ABSENCE_DEPRECATED);
    sample = set(METRIC_ECC_SBE_VOL_TOTAL, (NvmlNumber){.valid = true, .is_double = true, .d = 12.9});
    assert_int_equal(whole(&sample), 12);
}

static Sample gpm(MetricId id, double value)
{
    Sample sample = {0};

    nvml_sample_set_gpm(metric_get(id), value, 7, &sample);
    return sample;
}

static void gpm_units(void **state)
{
    Sample sample;

    (void)state;
    sample = gpm(METRIC_PROF_SM_ACTIVE, 25);
    assert_true(real(&sample) > 0.2499 && real(&sample) < 0.2501);
    sample = gpm(METRIC_PROF_SM_ACTIVE, 100.7);
    assert_true(real(&sample) >= 1 && real(&sample) <= 1);
    sample = gpm(METRIC_PROF_PCIE_TX_BYTES, 1.5);
    assert_int_equal(whole(&sample), 1572864);
    sample = gpm(METRIC_PROF_SM_CYCLES_ELAPSED_TOTAL, 1e15);
    assert_int_equal(whole(&sample), 1000000000000000);
    sample = gpm(METRIC_PROF_SM_ACTIVE, NAN);
    assert_int_equal(sample.absence, ABSENCE_NO_DATA);
    sample = gpm(METRIC_PROF_PCIE_TX_BYTES, NAN);
    assert_int_equal(sample.absence, ABSENCE_NO_DATA);
    sample = gpm(METRIC_PROF_PCIE_TX_BYTES, 1e300);
    assert_int_equal(sample.absence, ABSENCE_NO_DATA);
    sample = gpm(METRIC_PROF_SM_ACTIVE, -1);
    assert_int_equal(sample.absence, ABSENCE_NO_DATA);
}

static nvmlFieldValue_t field(nvmlValueType_t type)
{
    nvmlFieldValue_t value = {.valueType = type};

    memset(&value.value, 0xff, sizeof value.value);
    return value;
}

static void field_types(void **state)
{
    nvmlFieldValue_t value;

    (void)state;
    value = field(NVML_VALUE_TYPE_UNSIGNED_INT);
    assert_int_equal(nvml_field_number(&value).i, UINT32_MAX);
    value = field(NVML_VALUE_TYPE_SIGNED_INT);
    assert_int_equal(nvml_field_number(&value).i, -1);
    value = field(NVML_VALUE_TYPE_UNSIGNED_SHORT);
    assert_int_equal(nvml_field_number(&value).i, UINT16_MAX);
    value = field(NVML_VALUE_TYPE_SIGNED_LONG_LONG);
    assert_int_equal(nvml_field_number(&value).i, -1);
    value = field(NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
    assert_int_equal(nvml_field_number(&value).absence, ABSENCE_NO_DATA);
    value.value.ullVal = INT64_MAX;
    assert_int_equal(nvml_field_number(&value).i, INT64_MAX);
    value = field(NVML_VALUE_TYPE_DOUBLE);
    value.value.dVal = 2.5;
    assert_true(nvml_field_number(&value).is_double);
    value = field((nvmlValueType_t)77);
    assert_false(nvml_field_number(&value).valid);
    value.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    assert_int_equal(nvml_field_number(&value).absence, ABSENCE_NOT_SUPPORTED);
}

static void sums(void **state)
{
    NvmlNumber sum = nvml_add(nvml_whole(2), nvml_whole(3));

    (void)state;
    assert_true(sum.valid);
    assert_int_equal(sum.i, 5);
    assert_int_equal(nvml_add(nvml_whole(2), nvml_lacking(ABSENCE_MIG_MODE)).absence, ABSENCE_MIG_MODE);
    assert_int_equal(nvml_add(nvml_lacking(ABSENCE_IN_USE), nvml_whole(2)).absence, ABSENCE_IN_USE);
    assert_false(nvml_add(nvml_whole(INT64_MAX), nvml_whole(1)).valid);
}

/* Times of the driver in us, of the caller in ns. */
static void rate_by_driver_time(void **state)
{
    NvmlRate rate = {0};
    NvmlNumber got;

    (void)state;
    assert_false(nvml_rate_next(&rate, nvml_whole(5000000), 1000000, 1).valid);
    got = nvml_rate_next(&rate, nvml_whole(7500999), 3000000, 2);
    assert_true(got.valid);
    assert_int_equal(got.i, 1250); /* 2500999 KiB in 2 s, cut */
    got = nvml_rate_next(&rate, nvml_whole(7500999), 4000000, 3);
    assert_true(got.valid);
    assert_int_equal(got.i, 0);
}

static void rate_by_our_time(void **state)
{
    NvmlRate rate = {0};

    (void)state;
    assert_false(nvml_rate_next(&rate, nvml_whole(0), 0, 5 * NS_PER_S).valid);
    assert_int_equal(nvml_rate_next(&rate, nvml_whole(1000000), 0, 5 * NS_PER_S + NS_PER_S / 2).i, 2000);
}

static void rate_after_a_reset(void **state)
{
    NvmlRate rate = {0};
    NvmlNumber got;

    (void)state;
    nvml_rate_next(&rate, nvml_whole(9000000), 1000000, 1);
    assert_true(nvml_rate_next(&rate, nvml_whole(9001000), 2000000, 2).valid);
    got = nvml_rate_next(&rate, nvml_whole(100), 3000000, 3);
    assert_false(got.valid);
    assert_int_equal(got.absence, ABSENCE_NO_DATA);
    assert_int_equal(nvml_rate_next(&rate, nvml_whole(2000100), 4000000, 4).i, 2000);
}

/* A driver that renews its counters less often than it is asked. */
static void rate_is_held(void **state)
{
    NvmlRate rate = {0};

    (void)state;
    nvml_rate_next(&rate, nvml_whole(0), 1000000, NS_PER_S);
    assert_int_equal(nvml_rate_next(&rate, nvml_whole(3000000), 2000000, 2 * NS_PER_S).i, 3000);
    assert_int_equal(nvml_rate_next(&rate, nvml_whole(3000000), 2000000, 3 * NS_PER_S).i, 3000);
    assert_false(nvml_rate_next(&rate, nvml_whole(3000000), 2000000, 13 * NS_PER_S).valid);
}

static void rate_of_what_is_absent(void **state)
{
    NvmlRate rate = {0};

    (void)state;
    nvml_rate_next(&rate, nvml_whole(0), 1000000, 1);
    assert_int_equal(nvml_rate_next(&rate, nvml_lacking(ABSENCE_MIG_MODE), 2000000, 2).absence, ABSENCE_MIG_MODE);
    /* what was read before the gap is no basis */
    assert_false(nvml_rate_next(&rate, nvml_whole(3000000), 3000000, 3).valid);
}

static void profiles(void **state)
{
    char text[32];
    const nvmlDeviceAttributes_t whole_instance = {
        .gpuInstanceSliceCount = 3, .computeInstanceSliceCount = 3, .memorySizeMB = 40448};
    const nvmlDeviceAttributes_t part = {
        .gpuInstanceSliceCount = 3, .computeInstanceSliceCount = 1, .memorySizeMB = 40448};

    (void)state;
    nvml_profile_from_name("NVIDIA H100 80GB HBM3 MIG 1g.10gb", text, sizeof text);
    assert_string_equal(text, "1g.10gb");
    nvml_profile_from_name("NVIDIA A100 MIG 1c.3g.40gb+me", text, sizeof text);
    assert_string_equal(text, "1c.3g.40gb+me");
    nvml_profile_from_name("NVIDIA A100", text, sizeof text);
    assert_string_equal(text, "");
    nvml_profile_from_attributes(&whole_instance, text, sizeof text);
    assert_string_equal(text, "3g.40gb");
    nvml_profile_from_attributes(&part, text, sizeof text);
    assert_string_equal(text, "1c.3g.40gb");
}

static void texts(void **state)
{
    (void)state;
    assert_string_equal(nvml_brand_text(NVML_BRAND_NVIDIA), "NVIDIA");
    assert_string_equal(nvml_brand_text(NVML_BRAND_TITAN_RTX), "Titan RTX");
    assert_string_equal(nvml_brand_text((nvmlBrandType_t)99), "");
}

static void what_drivers_know(void **state)
{
    (void)state;
    assert_int_equal(nvml_known_fields(535), 200);
    assert_int_equal(nvml_known_fields(560), 269); /* between two that were measured: as the newer */
    assert_int_equal(nvml_known_fields(590), 289);
    assert_int_equal(nvml_known_fields(610), 303);
    assert_true(nvml_known_fields(700) > 303);
    assert_true(nvml_known_fields(0) > 303);
    assert_int_equal(nvml_known_gpm(535), 98);
    assert_true(nvml_known_gpm(590) > 260);
}

static void answers(void **state)
{
    static const struct {
        nvmlReturn_t answer;
        Absence absence;
        BoardOutcome outcome;
    } rows[] = {
        {NVML_ERROR_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, BOARD_REFUSED},
        {NVML_ERROR_NO_PERMISSION, ABSENCE_NO_PERMISSION, BOARD_REFUSED},
        {NVML_ERROR_FUNCTION_NOT_FOUND, ABSENCE_DRIVER_LACKS, BOARD_REFUSED},
        {NVML_ERROR_DEPRECATED, ABSENCE_DEPRECATED, BOARD_REFUSED},
        {NVML_ERROR_GPU_IS_LOST, ABSENCE_GPU_LOST, BOARD_LOST},
        {NVML_ERROR_RESET_REQUIRED, ABSENCE_RESET_REQUIRED, BOARD_RESET_REQUIRED},
        {NVML_ERROR_TIMEOUT, ABSENCE_TIMED_OUT, BOARD_REFUSED},
        {NVML_ERROR_IN_USE, ABSENCE_IN_USE, BOARD_REFUSED},
        {NVML_ERROR_NOT_FOUND, ABSENCE_NO_DATA, BOARD_NOT_FOUND},
        {NVML_ERROR_GPU_NOT_FOUND, ABSENCE_GONE, BOARD_NOT_FOUND},
        {NVML_ERROR_UNKNOWN, ABSENCE_FAILED, BOARD_REFUSED},
        {(nvmlReturn_t)555, ABSENCE_FAILED, BOARD_REFUSED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(nvml_answer_absence(rows[i].answer), rows[i].absence);
        assert_int_equal(nvml_answer_outcome(rows[i].answer), rows[i].outcome);
    }
    assert_true(nvml_answer_is_failure(NVML_ERROR_UNKNOWN));
    assert_false(nvml_answer_is_failure(NVML_ERROR_NOT_SUPPORTED));
    assert_false(nvml_answer_is_failure(NVML_SUCCESS));
}

static void words_for_a_driver(void **state)
{
    static const struct {
        nvmlReturn_t answer;
        NodeDriver driver;
    } rows[] = {
        {NVML_SUCCESS, NODE_DRIVER_FINE},
        {NVML_ERROR_NO_PERMISSION, NODE_DRIVER_DENIED},
        {NVML_ERROR_DRIVER_NOT_LOADED, NODE_DRIVER_UNLOADED},
        {NVML_ERROR_LIB_RM_VERSION_MISMATCH, NODE_DRIVER_MISMATCH},
        {NVML_ERROR_NOT_READY, NODE_DRIVER_NOT_READY},
        {NVML_ERROR_UNINITIALIZED, NODE_DRIVER_NOT_READY},
        {NVML_ERROR_OPERATING_SYSTEM, NODE_DRIVER_REFUSES},
        {NVML_ERROR_MEMORY, NODE_DRIVER_REFUSES},
        {NVML_ERROR_TIMEOUT, NODE_DRIVER_REFUSES},
        {NVML_ERROR_UNKNOWN, NODE_DRIVER_REFUSES},
        {(nvmlReturn_t)555, NODE_DRIVER_REFUSES},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(nvml_answer_driver(rows[i].answer), rows[i].driver);
}

static void sentences(void **state)
{
    char why[NODE_WHY_CAP];

    (void)state;
    nvml_answer_why(NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch", why, sizeof why);
    assert_non_null(strstr(why, "different versions"));
    nvml_answer_why(NVML_ERROR_UNKNOWN, "Unknown Error", why, sizeof why);
    assert_non_null(strstr(why, "Unknown Error"));
    assert_non_null(strstr(why, "999"));
    nvml_answer_why(NVML_ERROR_IRQ_ISSUE, NULL, why, sizeof why);
    assert_non_null(strstr(why, "11"));
    memset(why, 'x', sizeof why);
    nvml_answer_why(NVML_ERROR_DRIVER_NOT_LOADED, NULL, why, 10);
    assert_int_equal(strlen(why), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units),
        cmocka_unit_test(gpm_units),
        cmocka_unit_test(field_types),
        cmocka_unit_test(sums),
        cmocka_unit_test(rate_by_driver_time),
        cmocka_unit_test(rate_by_our_time),
        cmocka_unit_test(rate_after_a_reset),
        cmocka_unit_test(rate_is_held),
        cmocka_unit_test(rate_of_what_is_absent),
        cmocka_unit_test(profiles),
        cmocka_unit_test(texts),
        cmocka_unit_test(what_drivers_know),
        cmocka_unit_test(answers),
        cmocka_unit_test(words_for_a_driver),
        cmocka_unit_test(sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
