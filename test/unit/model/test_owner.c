/* SPDX-License-Identifier: Apache-2.0 */
/* When two owners are the same, and what of an owner is known. */
#include "model/owner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const Owner all = {.user = "alice",
                          .job = "4711",
                          .account = "physics",
                          .pod = "chat-0",
                          .namespace = "serving",
                          .container = "main",
                          .process = "python",
                          .pid = 42,
                          .start_ns = 7};

static void test_same(void **state)
{
    const Owner again = {.user = "alice",
                         .job = "4711",
                         .account = "another",
                         .pod = "chat-0",
                         .namespace = "serving",
                         .container = "main",
                         .process = "ruby",
                         .pid = -1};

    (void)state;
    assert_true(owner_is_same(&all, &again));
    assert_int_equal(owner_hash(&all), owner_hash(&again));
    assert_int_equal(owner_work_hash(&all), owner_work_hash(&again));
}

static void test_each_text_counts(void **state)
{
    static const size_t texts[] = {offsetof(Owner, user), offsetof(Owner, job), offsetof(Owner, pod),
                                   offsetof(Owner, namespace), offsetof(Owner, container)};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        Owner other = all;
        ((char *)&other)[texts[i]] = 'X';
        assert_false(owner_is_same(&all, &other));
        assert_int_not_equal(owner_hash(&all), owner_hash(&other));
        assert_true((owner_work_hash(&all) != owner_work_hash(&other)) == (i > 0)); /* all but the user is work */
    }
}

static void test_known(void **state)
{
    const Owner bare = {.process = "python", .pid = 42}, user = {.user = "alice"}, pod = {.pod = "a"};

    (void)state;
    assert_false(owner_is_known(&bare));
    assert_int_equal(owner_hash(&bare), 0);
    assert_true(owner_is_known(&user));
    assert_int_equal(owner_work_hash(&user), 0);
    assert_true(owner_is_known(&pod));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_each_text_counts),
        cmocka_unit_test(test_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
