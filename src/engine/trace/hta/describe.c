/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

double hta_quantile(const double *sorted, size_t count, double at)
{
    double place = at * (double)(count - 1), part = place - floor(place);
    size_t low = (size_t)place, high = low + 1 < count ? low + 1 : low;

    if (part >= 0.5)
        return sorted[high] - (sorted[high] - sorted[low]) * (1 - part);
    return sorted[low] + (sorted[high] - sorted[low]) * part;
}

double hta_round(double value, int decimals)
{
    double scale = pow(10, decimals);

    return nearbyint(value * scale) / scale + 0.0; /* no -0 */
}

static double deviation(const HtaNumbers *numbers, double mean)
{
    double squares = 0;

    if (numbers->len < 2)
        return NAN;
    for (size_t i = 0; i < numbers->len; i++)
        squares += (numbers->at[i] - mean) * (numbers->at[i] - mean);
    return sqrt(squares / (double)(numbers->len - 1));
}

HtaDescribe hta_describe(HtaNumbers *numbers)
{
    HtaDescribe out = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double sum = 0;

    if (numbers->len == 0)
        return out;
    for (size_t i = 0; i < numbers->len; i++)
        sum += numbers->at[i];
    qsort(numbers->at, numbers->len, sizeof *numbers->at, by_value);
    out.count = (int64_t)numbers->len;
    out.mean = sum / (double)numbers->len;
    out.std = deviation(numbers, out.mean);
    out.min = numbers->at[0];
    out.p25 = hta_quantile(numbers->at, numbers->len, 0.25);
    out.p50 = hta_quantile(numbers->at, numbers->len, 0.5);
    out.p75 = hta_quantile(numbers->at, numbers->len, 0.75);
    out.max = numbers->at[numbers->len - 1];
    return out;
}
