/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions by range reduction and series; see num.h for why. */
#include "sim/core/num.h"

#include <string.h>

#define LN2_HI 6.93147180369123816490e-01
#define LN2_LO 1.90821492927058770002e-10
#define LN2_INV 1.44269504088896338700

static double from_bits(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t to_bits(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

double sim_floor(double x)
{
    double t = (double)(int64_t)x;
    return t > x ? t - 1 : t;
}

double sim_exp(double x)
{
    if (x < -708)
        return 0;
    if (x > 700)
        x = 700;
    double k = sim_floor(x * LN2_INV + 0.5);
    double r = (x - k * LN2_HI) - k * LN2_LO; /* |r| <= 0.35: 14 terms of the series reach 1e-17 */
    double sum = 1;
    for (int i = 14; i >= 1; i--)
        sum = 1 + sum * r / i;
    return sum * from_bits((uint64_t)((int64_t)k + 1023) << 52);
}

double sim_log(double x)
{
    uint64_t bits = to_bits(x);
    int64_t e = (int64_t)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
    if (m > 1.41421356237309504880) {
        m /= 2;
        e++;
    }
    double z = (m - 1) / (m + 1), z2 = z * z, sum = 0; /* |z| <= 0.172: atanh series */
    for (int i = 21; i >= 1; i -= 2)
        sum = sum * z2 + 1.0 / i;
    return (double)e * LN2_HI + ((double)e * LN2_LO + 2 * z * sum);
}

double sim_pow(double x, double y)
{
    return x <= 0 ? 0 : sim_exp(y * sim_log(x));
}

uint64_t sim_hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = a * 0x9e3779b97f4a7c15ull;
    const uint64_t in[2] = {b, c};
    for (int i = 0; i < 2; i++) {
        h ^= in[i] + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
        h ^= h >> 32;
        h *= 0xd6e8feb86659fd93ull;
        h ^= h >> 32;
        h *= 0xd6e8feb86659fd93ull;
        h ^= h >> 32;
    }
    return h;
}

double sim_unit(uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(sim_hash(a, b, c) >> 11) * 0x1p-53;
}

double sim_noise(uint64_t a, uint64_t b, uint64_t c)
{
    return 2 * sim_unit(a, b, c) - 1;
}
