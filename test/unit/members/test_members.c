/* SPDX-License-Identifier: Apache-2.0 */
/* service/json/members.c: what is missing, null or wrong leaves a field as it is, and a strict reader names the first
 * wrong member. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "model/device.h"
#include "base/cleanup.h"
#include "service/json/members.h"

static const WordRow words[] = {{"red", NULL}, {"green", NULL}};

typedef struct Thing {
    char text[8];
    unsigned word;
    uint64_t count, real_ns;
    uint32_t number;
    int32_t pid;
    double real;
    bool yes, has_pci;
    PciAddress pci;
} Thing;

static void convert_thing(const Convert *c, Thing *thing)
{
    CONVERT_TEXT(c, "text", thing->text);
    convert_word(c, "word", &thing->word, words, 2);
    convert_count(c, "count", &thing->count);
    convert_number(c, "number", &thing->number);
    convert_code(c, "pid", &thing->pid, -1);
    convert_real(c, "real", &thing->real);
    convert_bool(c, "yes", &thing->yes);
    convert_time(c, "time", &thing->real_ns);
    convert_pci(c, &thing->has_pci, &thing->pci, PCI_FORM_SYSFS);
}

static Thing read_thing(const char *json, Thing before)
{
    json_t *root = json_loads(json, 0, NULL);

    assert_non_null(root);
    convert_thing(&(Convert){.in = root}, &before);
    json_decref(root);
    return before;
}

static const Thing some = {
    .text = "a", .word = 1, .count = 2, .number = 3, .pid = 4, .real = 5, .yes = true, .real_ns = 7};

static void assert_unchanged(const char *json)
{
    const Thing read = read_thing(json, some);

    assert_memory_equal(&read, &some, sizeof some);
}

static void missing_null_and_wrong_members_leave_the_field(void **state)
{
    (void)state;
    assert_unchanged("{}");
    assert_unchanged(
        "{\"text\":null,\"word\":null,\"count\":null,\"number\":null,\"pid\":null,\"real\":null,\"yes\":null,"
        "\"time\":null,\"pci\":null}");
    assert_unchanged(
        "{\"text\":1,\"word\":\"blue\",\"count\":-1,\"number\":4294967296,\"pid\":2147483648,\"real\":\"1\","
        "\"yes\":1,\"time\":\"noon\",\"pci\":\"here\"}");
}

static void what_is_written_is_read(void **state)
{
    const Thing none = {.number = DEVICE_NO_NUMBER, .pid = -1, .has_pci = true, .pci = {.bus = 0x1b}};
    Thing thing = none;
    Str out;

    (void)state;
    str_init(&out, 4096);
    json_open(&out, NULL, '{');
    convert_thing(&(Convert){.out = &out}, &thing);
    json_close(&out, '}');
    assert_string_equal(out.text, "{\"text\":null,\"word\":\"red\",\"count\":0,\"number\":null,\"pid\":null,\"real\":0,"
                                  "\"yes\":false,\"time\":null,\"pci\":\"0000:1b:00.0\"}");
    Thing read = read_thing(out.text, (Thing){.number = DEVICE_NO_NUMBER, .pid = -1});
    assert_int_equal(pci_compare(read.pci, thing.pci), 0);
    read.pci = thing.pci;
    assert_memory_equal(&read, &none, sizeof none);
    str_done(&out);
}

static void a_list_is_read_up_to_its_limit(void **state)
{
    json_t *root = json_loads("{\"list\":[{},{},{}]}", 0, NULL);
    const json_t *list;

    (void)state;
    assert_int_equal(convert_open_list(&(Convert){.in = root}, "list", 0, 2, &list), 2);
    assert_int_equal(convert_open_list(&(Convert){.in = root}, "other", 0, 2, &list), 0);
    json_decref(root);
}

static void the_first_wrong_member_is_reported(void **state)
{
    json_t *root =
        json_loads("{\"number\":4294967295,\"count\":3,\"seconds\":-1,\"list\":[1,2],\"real\":0.5}", 0, NULL);
    Err err = {0};
    MemberReader r = {.place = "gpus[3]", .err = &err};
    uint64_t ns = 7, count = 0;
    uint32_t number = 0;
    double real = 0;

    (void)state;
    assert_true(member_u32(&r, root, "number", &number) && number == UINT32_MAX);
    assert_true(member_u64(&r, root, "count", 3, &count) && count == 3);
    assert_true(member_real(&r, root, "real", &real) && real == 0.5);
    assert_non_null(member_list(&r, root, "list", 2));
    assert_false(member_seconds(&r, root, "missing", &ns));
    assert_int_equal(r.rc, 0);
    assert_false(member_seconds(&r, root, "seconds", &ns));
    assert_null(member_list(&r, root, "list", 1));
    assert_false(member_u64(&r, root, "count", 2, &count));
    assert_true(ns == 7 && count == 3);
    assert_int_equal(r.rc, -EINVAL);
    assert_string_equal(err.text, "gpus[3]: 'seconds' is no number of seconds");
    json_decref(root);
}

static void a_number_is_whole_and_within_its_limit(void **state)
{
    static const struct {
        const char *json;
        uint64_t max;
        bool fine, wrong;
    } cases[] = {
        {"{\"n\":0}", 0, true, false},           {"{\"n\":1}", 0, false, true},
        {"{\"n\":-1}", UINT64_MAX, false, true}, {"{\"n\":1.0}", UINT64_MAX, false, true},
        {"{\"n\":\"1\"}", 9, false, true},       {"{\"n\":null}", 9, false, false},
        {"{\"n\":9}", 9, true, false},           {"{}", 9, false, false},
    };
    (void)state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *root = json_loads(cases[i].json, 0, NULL);
        Err err = {0};
        MemberReader r = {.place = "it", .err = &err};
        uint64_t number = 77;

        if (member_u64(&r, root, "n", cases[i].max, &number) != cases[i].fine)
            fail_msg("%s", cases[i].json);
        assert_int_equal(number == 77, !cases[i].fine);
        assert_int_equal(r.rc, cases[i].wrong ? -EINVAL : 0);
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_null_and_wrong_members_leave_the_field),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_list_is_read_up_to_its_limit),
        cmocka_unit_test(the_first_wrong_member_is_reported),
        cmocka_unit_test(a_number_is_whole_and_within_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
