/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"

enum { QUANTITY_MAX = 64 };

static const struct {
    const char *suffix;
    double scale;
} scales[] = {
    {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},    {"k", 1e3},     {"M", 1e6},
    {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},    {"Ki", 0x1p10}, {"Mi", 0x1p20},
    {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60},
};

int quantity_parse(const char *text, double *ret, Err *err)
{
    size_t len = strlen(text);
    double value;
    Err why;

    while (len > 0 && isalpha((unsigned char)text[len - 1]))
        len--;
    for (size_t i = 0; i < ARRAY_LEN(scales) && strlen(text) < QUANTITY_MAX; i++) {
        if (strcmp(text + len, scales[i].suffix) != 0)
            continue;
        if (number_parsen_double(text, len, 0, 1e18, &value, &why) < 0 || value * scales[i].scale > 1e18)
            break;
        *ret = value * scales[i].scale;
        return 0;
    }
    return err_set(err, -EINVAL, "'%.40s' is no quantity such as 500m, 4 or 16Gi", text);
}
