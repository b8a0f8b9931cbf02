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

/* What sums are named after; a container is one of its pod. */
static void test_names_of_sums(void **state)
{
    static const char *const wanted[OWNER_KEY_END] = {"alice",   "4711",    "serving/chat-0",
                                                      "serving", "physics", "serving/chat-0/main"};
    const Owner docker = {.container = "0123abcd"};
    char name[OWNER_NAME_CAP];

    (void)state;
    for (OwnerKey key = 0; key < OWNER_KEY_END; key++) {
        owner_name(&all, key, name);
        assert_string_equal(name, wanted[key]);
        owner_name(&docker, key, name);
        assert_string_equal(name, key == OWNER_BY_CONTAINER ? "0123abcd" : "");
    }
}

/* Names as the controllers of Kubernetes and the training operators of Kubeflow make them. */
static void test_workloads(void **state)
{
    static const struct {
        const char *pod, *kind, *name; /* kind NULL: no workload */
    } rows[] = {
        {"chat-6d4cf56db6-x7k2p", "Deployment", "chat"},
        {"chat-api-7f9b8c-x7k2p", "", "chat-api-7f9b8c"}, /* a hash has at least 8 characters */
        {"a-b-bcdfghjkl2-zzzzz", "Deployment", "a-b"},
        {"train-x7k2p", "", "train"}, /* a Job, a DaemonSet */
        {"train-3-x7k2p", "Job", "train"},
        {"chat-0", "StatefulSet", "chat"},
        {"chat-worker-group-12", "StatefulSet", "chat-worker-group"},
        {"pretrain-master-0", "PyTorchJob", "pretrain"},
        {"pretrain-worker-13", "PyTorchJob", "pretrain"},
        {"bench-launcher-0", "MPIJob", "bench"},
        {"tf-ps-1", "TFJob", "tf"},
        {"notebook", NULL, NULL},
        {"notebook-alice", NULL, NULL}, /* vowels */
        {"-0", NULL, NULL},
        {"-x7k2p", NULL, NULL},
        {"", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Workload made = {.name = "untouched"};

        assert_true(workload_from_pod(rows[i].pod, &made) == (rows[i].kind != NULL));
        assert_true(made.derived == (rows[i].kind != NULL));
        assert_string_equal(made.kind, rows[i].kind ? rows[i].kind : "");
        assert_string_equal(made.name, rows[i].kind ? rows[i].name : "untouched");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_each_text_counts),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_names_of_sums),
        cmocka_unit_test(test_workloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
