/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in few bytes (service/report/out.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/json.h"
#include "service/report/out.h"
#include "../report_sink.h"

static void check(const uint64_t *numbers, size_t count, const char *json)
{
    Pack pack;
    Str str;
    Out out;

    str_init(&str, 4096);
    out_init(&out, report_sink_str(&str), NULL);
    json_open(&out.room, NULL, '{');
    pack_begin(&pack, &out, "k");
    for (size_t i = 0; i < count; i++)
        pack_u64(&pack, numbers[i]);
    pack_end(&pack);
    json_add_bool(&out.room, "l", false);
    json_close(&out.room, '}');
    assert_int_equal(out_done(&out), 0);
    assert_string_equal(str.text, json);
    str_done(&str);
}

/* The base64 of 00 | 7f | 80 01 | ff x 9, 01 as RFC 4648 says. */
static void numbers_are_packed(void **state)
{
    (void)state;
    check(NULL, 0, "{\"k\":\"\",\"l\":false}");
    check((const uint64_t[]){0}, 1, "{\"k\":\"AA==\",\"l\":false}");
    check((const uint64_t[]){0, 127}, 2, "{\"k\":\"AH8=\",\"l\":false}");
    check((const uint64_t[]){127, 128}, 2, "{\"k\":\"f4AB\",\"l\":false}");
    check((const uint64_t[]){UINT64_MAX}, 1, "{\"k\":\"////////////AQ==\",\"l\":false}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_packed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
