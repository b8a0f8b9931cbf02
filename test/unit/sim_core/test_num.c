/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions against libm, and the spread of the hash. */
#include "node.h"

#include <math.h>
#include <stdlib.h>

#include "sim/core/num.h"

static double relative(double got, double want)
{
    return want != 0 ? fabs(got - want) / fabs(want) : fabs(got);
}

static void exp_is_exact(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        double x = (node_rand(&seed) - 0.5) * (i % 2 ? 1400 : 4);
        if (relative(sim_exp(x), exp(x)) > 1e-14)
            fail_msg("exp(%.17g): %.17g, libm %.17g", x, sim_exp(x), exp(x));
    }
    assert_true(sim_exp(0) == 1);
    assert_true(sim_exp(-1e9) == 0);
    assert_true(sim_exp(1e9) == sim_exp(700)); /* capped, never infinite */
}

static void exp_is_monotone(void **state)
{
    (void)state;
    for (double x = -30; x < 30; x += 0.00037)
        if (sim_exp(x + 1e-9) < sim_exp(x))
            fail_msg("exp falls at %.17g", x);
}

static void log_is_exact(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 200000; i++) {
        double x = i % 2 ? exp((node_rand(&seed) - 0.5) * 1200) : 0.5 + node_rand(&seed);
        double error = fabs(sim_log(x) - log(x));
        if (error > 1e-14 * fabs(log(x)) + 1e-16)
            fail_msg("log(%.17g): %.17g, libm %.17g", x, sim_log(x), log(x));
    }
    for (double x = 0.01; x < 100; x *= 1.00013)
        if (sim_log(x * (1 + 1e-12)) < sim_log(x))
            fail_msg("log falls at %.17g", x);
    assert_true(sim_log(1) == 0);
}

static void pow_is_exact(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 100000; i++) {
        double x = 0.01 + 3 * node_rand(&seed), y = (node_rand(&seed) - 0.3) * 5;
        if (relative(sim_pow(x, y), pow(x, y)) > 1e-13)
            fail_msg("%.17g ^ %.17g: %.17g, libm %.17g", x, y, sim_pow(x, y), pow(x, y));
    }
    assert_true(sim_pow(0, 2.4) == 0);
    assert_true(sim_pow(-1, 2) == 0);
}

static void floor_rounds_down(void **state)
{
    (void)state;
    static const double x[] = {0, -0.5, 0.5, -1, 1, -1.0000001, 3.999999, 1e15 + 0.5, -1e15 - 0.5, 0x1p61, -0x1p61};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        assert_true(sim_floor(x[i]) == floor(x[i]));
}

/* Neighbouring arguments must land anywhere: counts per bucket, and how many bits change with one bit of input. */
static void hash_spreads(void **state)
{
    (void)state;
    enum { BUCKETS = 256, EACH = 400, N = BUCKETS * EACH };
    for (int arg = 0; arg < 3; arg++) {
        static uint32_t low[BUCKETS], high[BUCKETS];
        for (int i = 0; i < BUCKETS; i++)
            low[i] = high[i] = 0;
        double bits = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t in[3] = {7, 8, 9}, to[3] = {7, 8, 9};
            in[arg] = i;
            to[arg] = i ^ (1ull << (i % 64));
            uint64_t h = sim_hash(in[0], in[1], in[2]);
            low[h % BUCKETS]++;
            high[h >> 56]++;
            bits += __builtin_popcountll(h ^ sim_hash(to[0], to[1], to[2]));
        }
        for (int i = 0; i < BUCKETS; i++) {
            assert_in_range(low[i], EACH - 100, EACH + 100); /* five standard deviations */
            assert_in_range(high[i], EACH - 100, EACH + 100);
        }
        assert_true(fabs(bits / N - 32) < 0.5);
    }
}

static void noise_is_even(void **state)
{
    (void)state;
    double sum = 0, square = 0;
    enum { N = 100000 };
    for (uint64_t i = 0; i < N; i++) {
        double x = sim_noise(1, i, 2), u = sim_unit(1, i, 2);
        assert_true(x >= -1 && x < 1 && u >= 0 && u < 1);
        sum += x;
        square += x * x;
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(square / N - 1.0 / 3) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_exact),  cmocka_unit_test(exp_is_monotone),   cmocka_unit_test(log_is_exact),
        cmocka_unit_test(pow_is_exact),  cmocka_unit_test(floor_rounds_down), cmocka_unit_test(hash_spreads),
        cmocka_unit_test(noise_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
