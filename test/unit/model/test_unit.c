/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the table of units (model/unit.def, unit.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/metric.h"

/* Each base unit is itself in the table with factor 1, and counted things have no base but factor 1. */
static void bases_are_whole(void **state)
{
    static const char *const bases[] = {"celsius",          "watts", "joules", "hertz", "bytes",
                                        "bytes_per_second", "ratio", "seconds"};

    (void)state;
    for (Unit unit = 0; unit < UNIT_END; unit++) {
        const char *suffix = metric_units[unit].suffix;
        bool known = suffix[0] == '\0' && metric_units[unit].factor == 1;
        bool has_one = known;

        for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
            known = known || strcmp(bases[i], suffix) == 0;
        for (Unit other = 0; other < UNIT_END; other++)
            has_one = has_one || (strcmp(metric_units[other].suffix, suffix) == 0 && metric_units[other].factor == 1);
        assert_true(known && has_one);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(bases_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
