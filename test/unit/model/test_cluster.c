/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/cluster.h"

static void gpus_as_text(void **state)
{
    char text[CLUSTER_GPUS_CAP];
    uint16_t read;

    (void)state;
    for (unsigned gpus = 0; gpus <= UINT16_MAX; gpus++) {
        assert_true(cluster_read_gpus(cluster_write_gpus((uint16_t)gpus, text), &read));
        assert_int_equal(read, gpus);
    }
    assert_int_equal(strlen(text), CLUSTER_GPUS_CAP - 3); /* with all of them */
    assert_string_equal(cluster_write_gpus(0x8009, text), "0,3,15");
}

static void what_is_none(void **state)
{
    static const char *const texts[] = {"16", "-1", "1,,2", ",1", "1, 2", "GPU 1", "1;2", "99999999999999999999"};
    uint16_t read = 7;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(cluster_read_gpus(texts[i], &read));
    assert_int_equal(read, 7);
    assert_true(cluster_read_gpus("2,1,2", &read));
    assert_int_equal(read, 6);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(gpus_as_text), cmocka_unit_test(what_is_none)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
