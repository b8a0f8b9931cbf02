/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities of the Kubernetes API. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/quantity.h"

static void quantities_are_those_of_the_api(void **state)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"4", 4},
                {"500m", 0.5},
                {"1Gi", 0x1p30},
                {"2k", 2000},
                {"1.5", 1.5},
                {"12e6", 12e6},
                {"1E3", 1000},
                {"1E", 1e18},
                {"100n", 1e-7},
                {"0", 0},
                {"128974848", 128974848},
                {"7u", 7e-6},
                {"3Mi", 3 << 20},
                {"1e3", 1000}};
    static const char *const bad[] = {"", "m", "-1", "1kb", "1 Gi", "1gi", "Gi", "0x10", "1e400", "2E", "nan", "inf"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        double value = -1;

        assert_int_equal(quantity_parse(good[i].text, &value, NULL), 0);
        assert_true(fabs(value - good[i].value) <= good[i].value * 1e-12);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        double value = -1;

        if (quantity_parse(bad[i], &value, NULL) != -EINVAL)
            fail_msg("'%s' was taken for %g", bad[i], value);
        assert_true(value < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantities_are_those_of_the_api)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
