/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/json.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"

static void commas_stand_between_values(void **state)
{
    CLEANUP(str_done) Str out;

    (void)state;
    str_init(&out, 4096);
    json_open(&out, NULL, '{');
    json_add_text(&out, "text", "a\"b,");
    json_add_text(&out, "none", NULL);
    json_add_bool(&out, "yes", true);
    json_add_bool(&out, "no", false);
    json_open(&out, "empty", '[');
    json_close(&out, ']');
    json_open(&out, "list", '[');
    json_add_i64(&out, NULL, INT64_MIN);
    json_add_u64(&out, NULL, UINT64_MAX);
    json_open(&out, NULL, '{');
    json_close(&out, '}');
    json_open(&out, NULL, '{');
    json_add_double(&out, "half", 0.5);
    json_close(&out, '}');
    json_add_null(&out, NULL);
    json_close(&out, ']');
    json_add_double(&out, "nan", (double)NAN);
    json_add_double(&out, "infinite", -HUGE_VAL);
    json_add_time(&out, "at", 1738324800 * NS_PER_S + 5 * NS_PER_MS);
    json_add_time(&out, "never", 0);
    json_add_seconds(&out, "long", 61 * NS_PER_S + 7 * NS_PER_MS);
    json_close(&out, '}');
    assert_string_equal(out.text, "{\"text\":\"a\\\"b,\",\"none\":null,\"yes\":true,\"no\":false,\"empty\":[],"
                                  "\"list\":[-9223372036854775808,18446744073709551615,{},{\"half\":0.5},null],"
                                  "\"nan\":null,\"infinite\":null,\"at\":\"2025-01-31T12:00:00.005Z\",\"never\":null,"
                                  "\"long\":61.007}");
}

/* Behind another text, as an event stream's "data: ", a value begins without a comma. */
static void the_first_value_has_no_comma(void **state)
{
    CLEANUP(str_done) Str out;

    (void)state;
    str_init(&out, 100);
    str_add(&out, "data: ");
    json_open(&out, NULL, '[');
    json_add_text(&out, NULL, "");
    json_add_text(&out, NULL, "[");
    json_close(&out, ']');
    str_add(&out, "\n");
    json_add_i64(&out, NULL, 1);
    assert_string_equal(out.text, "data: [\"\",\"[\"]\n1");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_values),
        cmocka_unit_test(the_first_value_has_no_comma),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
