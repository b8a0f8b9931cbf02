/* SPDX-License-Identifier: Apache-2.0 */
/* engine/place/share: what Kueue's and KAI's documents say of quotas, cohorts and fair shares, as examples. GPUs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/place/share.h"

#define GPUS(n) ((uint64_t)(n)*CLUSTER_GPU)
#define NO_LIMIT UINT64_MAX

static Shares *make(const ClusterQueue *queues, size_t count, unsigned gpus, double half_life_s, double past_weight)
{
    Shares *shares = NULL;
    Err err;

    assert_int_equal(shares_new(queues, count, GPUS(gpus), half_life_s, past_weight, &shares, &err), 0);
    return shares;
}

static unsigned available(const Shares *shares, const char *name)
{
    return (unsigned)(shares_available(shares, shares_find(shares, name)) / CLUSTER_GPU);
}

static void use(Shares *shares, const char *name, unsigned gpus)
{
    shares_use(shares, shares_find(shares, name), GPUS(gpus));
}

#define QUEUE(name, parent, nominal, borrowing, lending, weight)                                                       \
    {                                                                                                                  \
        name, parent, nominal, borrowing, lending, weight                                                              \
    }

/* Two queues of one cohort, with quotas of 9 and 12. */
static void what_a_cohort_does_not_use_can_be_borrowed(void **state)
{
    const ClusterQueue queues[] = {
        QUEUE("ab", NULL, 0, NO_LIMIT, NO_LIMIT, 1), QUEUE("a", "ab", GPUS(9), NO_LIMIT, NO_LIMIT, 1),
        QUEUE("b", "ab", GPUS(12), NO_LIMIT, NO_LIMIT, 1), QUEUE("alone", NULL, GPUS(4), NO_LIMIT, NO_LIMIT, 1)};
    Shares *shares = make(queues, ARRAY_LEN(queues), 25, 0, 0);

    (void)state;
    assert_int_equal(available(shares, "a"), 21);
    assert_int_equal(available(shares, "alone"), 4);
    use(shares, "a", 15);
    assert_int_equal(available(shares, "a"), 6);
    assert_int_equal(available(shares, "b"), 6);
    assert_true(shares_is_nominal(shares, shares_find(shares, "b"), GPUS(12)));
    assert_false(shares_is_nominal(shares, shares_find(shares, "b"), GPUS(12) + 1));
    assert_false(shares_is_nominal(shares, shares_find(shares, "a"), 0));
    shares_give_back(shares, shares_find(shares, "a"), GPUS(15));
    assert_int_equal(available(shares, "b"), 21);
    assert_int_equal(shares_available(shares, -1), UINT64_MAX);
    assert_int_equal(shares_find(shares, NULL), -1);
    shares_free(shares);
}

static void limits_of_borrowing_and_lending_hold(void **state)
{
    const ClusterQueue borrowing[] = {QUEUE("ab", NULL, 0, NO_LIMIT, NO_LIMIT, 1),
                                      QUEUE("a", "ab", GPUS(9), GPUS(1), NO_LIMIT, 1),
                                      QUEUE("b", "ab", GPUS(12), NO_LIMIT, NO_LIMIT, 1)};
    const ClusterQueue lending[] = {QUEUE("ab", NULL, 0, NO_LIMIT, NO_LIMIT, 1),
                                    QUEUE("a", "ab", GPUS(9), NO_LIMIT, NO_LIMIT, 1),
                                    QUEUE("b", "ab", GPUS(12), NO_LIMIT, GPUS(1), 1)};
    Shares *shares = make(borrowing, 3, 21, 0, 0);

    (void)state;
    assert_int_equal(available(shares, "a"), 10);
    assert_int_equal(available(shares, "b"), 21);
    shares_free(shares);
    shares = make(lending, 3, 21, 0, 0);
    assert_int_equal(available(shares, "a"), 10);
    assert_int_equal(available(shares, "b"), 21);
    use(shares, "b", 11);
    assert_int_equal(available(shares, "a"), 10); /* up to 11 are of what it does not lend */
    use(shares, "b", 1);
    assert_int_equal(available(shares, "a"), 9);
    use(shares, "a", 9);
    assert_int_equal(available(shares, "b"), 0);
    shares_free(shares);
}

/* A cohort's own quota is for all below it, and what a cohort does not use goes up the tree. */
static void cohorts_form_a_tree(void **state)
{
    const ClusterQueue queues[] = {
        QUEUE("root", NULL, GPUS(12), NO_LIMIT, NO_LIMIT, 1), QUEUE("left", "root", GPUS(4), NO_LIMIT, GPUS(2), 1),
        QUEUE("right", "root", 0, GPUS(6), NO_LIMIT, 1), QUEUE("l", "left", 0, NO_LIMIT, NO_LIMIT, 1),
        QUEUE("r", "right", 0, NO_LIMIT, NO_LIMIT, 1)};
    Shares *shares = make(queues, ARRAY_LEN(queues), 16, 0, 0);

    (void)state;
    assert_int_equal(available(shares, "l"), 16);
    assert_int_equal(available(shares, "r"), 6);
    use(shares, "l", 13);
    assert_int_equal(available(shares, "r"), 3); /* 12 + 2 lent - 11 of them borrowed by the left */
    assert_int_equal(available(shares, "l"), 3);
    shares_free(shares);
}

static void divide(Shares *shares, const uint64_t *gpus, const char *const *names, const double *fair, size_t count)
{
    uint64_t asked[8] = {0};

    for (size_t i = 0; i < count; i++)
        asked[i] = GPUS(gpus[i]);
    shares_divide(shares, asked);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(shares_fair(shares, shares_find(shares, names[i])) - fair[i] * CLUSTER_GPU) < 2);
}

/* Deserved quota first, then the rest by weight among those that ask for more. */
static void the_rest_is_divided_by_weight(void **state)
{
    const ClusterQueue queues[] = {QUEUE("a", NULL, GPUS(10), NO_LIMIT, NO_LIMIT, 1),
                                   QUEUE("b", NULL, GPUS(20), NO_LIMIT, NO_LIMIT, 3),
                                   QUEUE("c", NULL, GPUS(0), GPUS(5), NO_LIMIT, 4)};
    const char *const names[] = {"a", "b", "c"};
    Shares *shares = make(queues, 3, 70, 0, 0);

    (void)state;
    divide(shares, (const uint64_t[]){100, 100, 0}, names, (const double[]){20, 50, 0}, 3);
    divide(shares, (const uint64_t[]){15, 100, 0}, names, (const double[]){15, 55, 0}, 3);
    divide(shares, (const uint64_t[]){5, 8, 0}, names, (const double[]){5, 8, 0}, 3);
    divide(shares, (const uint64_t[]){100, 100, 100}, names, (const double[]){18.75, 46.25, 5}, 3); /* c has a limit */
    use(shares, "a", 10);
    assert_true(fabs(shares_saturation(shares, 0, 0) - 10 / 18.75) < 1e-3);
    assert_true(fabs(shares_saturation(shares, 0, GPUS(5)) - 15 / 18.75) < 1e-3);
    shares_free(shares);
}

/* Each organisation's part is divided among its own. */
static void levels_are_divided_one_by_one(void **state)
{
    const ClusterQueue queues[] = {
        QUEUE("root", NULL, 0, NO_LIMIT, NO_LIMIT, 1),         QUEUE("important", "root", 0, NO_LIMIT, NO_LIMIT, 0.75),
        QUEUE("regular", "root", 0, NO_LIMIT, NO_LIMIT, 0.25), QUEUE("i1", "important", 0, NO_LIMIT, NO_LIMIT, 1),
        QUEUE("i2", "important", 0, NO_LIMIT, NO_LIMIT, 2),    QUEUE("r1", "regular", 0, NO_LIMIT, NO_LIMIT, 1)};
    const char *const names[] = {"root", "important", "regular", "i1", "i2", "r1"};
    Shares *shares = make(queues, 6, 100, 0, 0);

    (void)state;
    divide(shares, (const uint64_t[]){0, 0, 0, 90, 90, 90}, names, (const double[]){100, 75, 25, 25, 50, 25}, 6);
    divide(shares, (const uint64_t[]){0, 0, 0, 10, 90, 90}, names, (const double[]){100, 75, 25, 10, 65, 25}, 6);
    divide(shares, (const uint64_t[]){0, 0, 0, 0, 0, 90}, names, (const double[]){90, 0, 90, 0, 0, 90}, 6);
    shares_free(shares);
}

/* A use one half-life ago counts half; a queue that had everything gets less of the rest than one that had nothing. */
static void the_past_decays_and_counts(void **state)
{
    const ClusterQueue queues[] = {QUEUE("a", NULL, 0, NO_LIMIT, NO_LIMIT, 1),
                                   QUEUE("b", NULL, 0, NO_LIMIT, NO_LIMIT, 1)};
    const uint64_t asked[] = {GPUS(16), GPUS(16)};
    Shares *shares = make(queues, 2, 16, 3600, 1);

    (void)state;
    use(shares, "a", 16);
    shares_advance(shares, 3600);
    assert_true(fabs(shares_past(shares, 0) - 1) < 1e-9);
    shares_divide(shares, asked); /* portions 0.5 + (0.5 - 1) and 0.5 + 0.5 */
    assert_true(fabs(shares_fair(shares, 0)) < 1 && fabs(shares_fair(shares, 1) - GPUS(16)) < 1);
    shares_give_back(shares, 0, GPUS(16));
    use(shares, "b", 16);
    shares_advance(shares, 7200); /* of a the hour before, at half */
    assert_true(fabs(shares_past(shares, 0) - 1. / 3) < 1e-9);
    assert_true(fabs(shares_past(shares, 1) - 2. / 3) < 1e-9);
    shares_divide(shares, asked); /* 0.5 + 1/6 and 0.5 - 1/6 */
    assert_true(fabs(shares_fair(shares, 0) - 16000. * 2 / 3) < 2);
    shares_advance(shares, 7000); /* a clock that goes back adds nothing */
    assert_true(fabs(shares_past(shares, 0) - 1. / 3) < 1e-9);
    shares_free(shares);
}

static void wrong_queues_are_told(void **state)
{
    const ClusterQueue twice[] = {{.name = "a"}, {.name = "a"}};
    const ClusterQueue orphan[] = {{.name = "a", .parent = "nobody"}};
    const ClusterQueue loop[] = {{.name = "a", .parent = "b"}, {.name = "b", .parent = "a"}};
    Shares *shares = NULL;
    Err err;

    (void)state;
    assert_true(shares_new(twice, 2, 1, 0, 0, &shares, &err) < 0);
    assert_string_equal(err.text, "queue 'a' occurs twice");
    assert_true(shares_new(orphan, 1, 1, 0, 0, &shares, &err) < 0);
    assert_string_equal(err.text, "queue 'a': its parent 'nobody' is not among the queues");
    assert_true(shares_new(loop, 2, 1, 0, 0, &shares, &err) < 0);
    assert_string_equal(err.text, "queue 'a' is its own ancestor");
    assert_null(shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_cohort_does_not_use_can_be_borrowed),
        cmocka_unit_test(limits_of_borrowing_and_lending_hold),
        cmocka_unit_test(cohorts_form_a_tree),
        cmocka_unit_test(the_rest_is_divided_by_weight),
        cmocka_unit_test(levels_are_divided_one_by_one),
        cmocka_unit_test(the_past_decays_and_counts),
        cmocka_unit_test(wrong_queues_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
