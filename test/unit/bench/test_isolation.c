/* SPDX-License-Identifier: Apache-2.0 */
/* What isolation.c says of victims whose values are made up. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/bench/isolation.h"

/* GB/s, GB/s, TFLOP/s, MHz, us, us, GB/s */
static const double healthy[ISOLATION_MEASURE_END] = {400, 1000, 80, 1900, 10, 14, 55};

static IsolationRun run;
static IsolationJudgement found;

static void fill_run(void)
{
    run = (IsolationRun){.setup = ISOLATION_TWO_INSTANCES, .twins = true, .checked_bytes = 1e9};
    for (IsolationRound r = 0; r < ISOLATION_ROUND_END; r++) {
        memcpy(run.value[r], healthy, sizeof healthy);
        run.l2_mhz[r] = 1900;
    }
}

static void scale(IsolationRound round, IsolationMeasure measure, double factor)
{
    run.value[round][measure] *= factor;
}

/* All that follows the clock, with it. */
static void scale_clock(IsolationRound round, double factor)
{
    scale(round, ISOLATION_L2, factor);
    scale(round, ISOLATION_COMPUTE, factor);
    scale(round, ISOLATION_CLOCK, factor);
    run.l2_mhz[round] *= factor;
}

static IsolationVerdict judge(void)
{
    isolation_judge(&run, &found);
    return found.verdict;
}

static IsolationVerdict verdict_of(IsolationMeasure measure)
{
    return found.measures[measure].verdict;
}

static void nothing_lost_is_isolated(void **state)
{
    (void)state;
    fill_run();
    assert_int_equal(judge(), ISOLATION_ISOLATED);
    assert_true(isolation_is_fine(&found));
    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++)
        assert_int_equal(verdict_of(m), ISOLATION_ISOLATED);
}

/* 2 % of bandwidth are nothing, 2.1 % are something; of copies and launches more is nothing. */
static void limits_are_those_of_each_measure(void **state)
{
    static const struct {
        IsolationMeasure measure;
        double below, above;
        IsolationVerdict verdict;
    } rows[] = {
        {ISOLATION_READ, 0.981, 0.979, ISOLATION_SHARES_MEMORY},
        {ISOLATION_L2, 0.981, 0.979, ISOLATION_SHARES_MEMORY},
        {ISOLATION_COMPUTE, 0.981, 0.979, ISOLATION_SHARES_SMS},
        {ISOLATION_LAUNCH, 1.24, 1.26, ISOLATION_SHARES_LINK},
        {ISOLATION_LAUNCH_P99, 1.49, 1.51, ISOLATION_SHARES_LINK},
        {ISOLATION_COPY, 0.925, 0.915, ISOLATION_SHARES_LINK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fill_run();
        scale(ISOLATION_MEMORY, rows[i].measure, rows[i].below);
        assert_int_equal(judge(), ISOLATION_ISOLATED);
        assert_int_equal(verdict_of(rows[i].measure), ISOLATION_ISOLATED);
        fill_run();
        scale(ISOLATION_MEMORY, rows[i].measure, rows[i].above);
        judge();
        assert_int_equal(verdict_of(rows[i].measure), rows[i].verdict);
    }
}

/* The link is shared by design, and launches vary with the host: neither is broken isolation. */
static void the_host_side_does_not_decide(void **state)
{
    (void)state;
    fill_run();
    scale(ISOLATION_COPIES, ISOLATION_COPY, 0.5);
    scale(ISOLATION_COPIES, ISOLATION_LAUNCH_P99, 5);
    assert_int_equal(judge(), ISOLATION_ISOLATED);
    assert_int_equal(verdict_of(ISOLATION_COPY), ISOLATION_SHARES_LINK);
    assert_int_equal(verdict_of(ISOLATION_LAUNCH_P99), ISOLATION_SHARES_LINK);
    assert_true(isolation_is_fine(&found));
    assert_non_null(strstr(found.text, "from host loses 50 % under host copies"));
}

static void a_lower_clock_is_shared_power(void **state)
{
    (void)state;
    fill_run();
    scale_clock(ISOLATION_BURN, 0.85);
    scale(ISOLATION_BURN, ISOLATION_READ, 0.96);
    assert_int_equal(judge(), ISOLATION_SHARES_POWER);
    assert_int_equal(verdict_of(ISOLATION_CLOCK), ISOLATION_SHARES_POWER);
    assert_int_equal(verdict_of(ISOLATION_READ), ISOLATION_SHARES_POWER);
    assert_int_equal(verdict_of(ISOLATION_L2), ISOLATION_ISOLATED);
    assert_int_equal(verdict_of(ISOLATION_COMPUTE), ISOLATION_ISOLATED);
    assert_true(isolation_is_fine(&found));
}

static void mps_shares_memory_and_sms(void **state)
{
    (void)state;
    fill_run();
    scale(ISOLATION_MEMORY, ISOLATION_READ, 0.5);
    scale(ISOLATION_L2_FLOOD, ISOLATION_L2, 0.4);
    scale(ISOLATION_MEMORY, ISOLATION_LAUNCH_P99, 60); /* no room on the SMs: no turns */
    scale(ISOLATION_BURN, ISOLATION_COMPUTE, 0.5);
    assert_int_equal(judge(), ISOLATION_SHARES_MEMORY);
    assert_int_equal(verdict_of(ISOLATION_READ), ISOLATION_SHARES_MEMORY);
    assert_int_equal(verdict_of(ISOLATION_L2), ISOLATION_SHARES_MEMORY);
    assert_int_equal(verdict_of(ISOLATION_LAUNCH_P99), ISOLATION_SHARES_MEMORY);
    assert_int_equal(verdict_of(ISOLATION_COMPUTE), ISOLATION_SHARES_SMS);
    assert_int_equal(found.measures[ISOLATION_L2].flood, BENCH_FLOOD_L2);
    assert_false(isolation_is_fine(&found));
}

static void turns_are_time_sharing(void **state)
{
    (void)state;
    fill_run();
    for (IsolationRound r = ISOLATION_MEMORY; r <= ISOLATION_BURN; r++) {
        scale(r, ISOLATION_READ, 0.5);
        scale(r, ISOLATION_L2, 0.5);
        scale(r, ISOLATION_COMPUTE, 0.5);
        scale(r, ISOLATION_LAUNCH_P99, 140);
    }
    scale(ISOLATION_COPIES, ISOLATION_COPY, 0.5);
    assert_int_equal(judge(), ISOLATION_TIME_SHARED);
    assert_int_equal(verdict_of(ISOLATION_COMPUTE), ISOLATION_TIME_SHARED);
    assert_int_equal(verdict_of(ISOLATION_COPY), ISOLATION_SHARES_LINK);
    /* late launches alone, or a loss alone, are something else */
    run.value[ISOLATION_BURN][ISOLATION_COMPUTE] = healthy[ISOLATION_COMPUTE];
    assert_int_equal(judge(), ISOLATION_SHARES_MEMORY);
    run.value[ISOLATION_BURN][ISOLATION_COMPUTE] /= 2;
    run.value[ISOLATION_BURN][ISOLATION_LAUNCH_P99] = healthy[ISOLATION_LAUNCH_P99] + 199;
    assert_int_equal(judge(), ISOLATION_SHARES_MEMORY);
    run.value[ISOLATION_BURN][ISOLATION_LAUNCH_P99] += 2;
    assert_int_equal(judge(), ISOLATION_TIME_SHARED);
}

static void what_is_missing_is_not_isolated(void **state)
{
    (void)state;
    for (IsolationRound r = 0; r < ISOLATION_OTHER; r++)
        for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++) {
            fill_run();
            run.value[r][m] = NAN;
            assert_int_equal(judge(), ISOLATION_UNKNOWN);
            assert_int_equal(verdict_of(m), ISOLATION_UNKNOWN);
            assert_false(isolation_is_fine(&found));
        }
    scale(ISOLATION_MEMORY, ISOLATION_READ, 0.5); /* what was found stays */
    assert_int_equal(judge(), ISOLATION_SHARES_MEMORY);
}

/* Without the neighbour being there, too. */
static void what_wanders_by_itself_is_not_blamed_on_it(void **state)
{
    (void)state;
    fill_run();
    scale(ISOLATION_AFTER, ISOLATION_READ, 0.9);
    scale(ISOLATION_BURN, ISOLATION_READ, 0.9);
    assert_int_equal(judge(), ISOLATION_UNKNOWN);
    assert_true(found.measures[ISOLATION_READ].unsteady);
    scale(ISOLATION_BURN, ISOLATION_READ, 0.5); /* much more than it wanders */
    assert_int_equal(judge(), ISOLATION_SHARES_SMS);
    fill_run();
    scale(ISOLATION_AFTER, ISOLATION_LAUNCH_P99, 3); /* the host's */
    assert_int_equal(judge(), ISOLATION_ISOLATED);
    assert_int_equal(verdict_of(ISOLATION_LAUNCH_P99), ISOLATION_UNKNOWN);
}

static void slow_by_itself_is_not_the_neighbour(void **state)
{
    (void)state;
    fill_run();
    for (IsolationRound r = 0; r < ISOLATION_OTHER; r++)
        scale(r, ISOLATION_READ, 0.9);
    assert_int_equal(judge(), ISOLATION_ISOLATED);
    assert_int_equal(found.slow_measure, ISOLATION_READ);
    assert_true(fabs(found.slow - 0.1) < 1e-9);
    assert_non_null(strstr(found.text, "slow by itself: alone, memory, read is 10.0 % below"));
    assert_false(isolation_is_fine(&found));
    run.twins = false;
    judge();
    assert_true(found.slow <= 0 && isolation_is_fine(&found));
    fill_run();
    for (IsolationRound r = 0; r < ISOLATION_OTHER; r++)
        scale(r, ISOLATION_READ, 0.975);
    judge();
    assert_true(found.slow <= 0);
}

static void data_of_the_neighbour_are_a_leak(void **state)
{
    (void)state;
    fill_run();
    run.foreign_words = 1023; /* less than a page is chance */
    judge();
    assert_true(!found.leaks && isolation_is_fine(&found));
    run.foreign_words = 1024;
    judge();
    assert_true(found.leaks && !isolation_is_fine(&found));
    assert_non_null(strstr(found.text, "held 1024 words of the neighbour's data"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_lost_is_isolated),
        cmocka_unit_test(limits_are_those_of_each_measure),
        cmocka_unit_test(the_host_side_does_not_decide),
        cmocka_unit_test(a_lower_clock_is_shared_power),
        cmocka_unit_test(mps_shares_memory_and_sms),
        cmocka_unit_test(turns_are_time_sharing),
        cmocka_unit_test(what_is_missing_is_not_isolated),
        cmocka_unit_test(what_wanders_by_itself_is_not_blamed_on_it),
        cmocka_unit_test(slow_by_itself_is_not_the_neighbour),
        cmocka_unit_test(data_of_the_neighbour_are_a_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
