/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the readers of numbers, durations and sizes, checked against libc and against their own writers. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/opt.h"

enum { TEXT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void integers(const char *text)
{
    uint64_t u;
    int64_t i;
    char out[NUMBER_U64_MAX + 1] = "", neg[NUMBER_I64_MAX + 1] = "";
    if (number_parse_u64(text, 0, UINT64_MAX, &u, NULL) == 0) {
        errno = 0;
        must(u == strtoull(text, NULL, 10) && errno == 0);
        number_write_u64(out, u);
        must(strtoull(out, NULL, 10) == u);
    }
    if (number_parse_i64(text, INT64_MIN, INT64_MAX, &i, NULL) == 0) {
        must(i == strtoll(text, NULL, 10));
        number_write_i64(neg, i);
        must(strtoll(neg, NULL, 10) == i);
    }
    if (number_parsen_hex(text, strlen(text), UINT64_MAX, &u, NULL) == 0)
        must(u == strtoull(text, NULL, 16));
    if (number_parse_u64(text, 10, 1000, &u, NULL) == 0)
        must(u >= 10 && u <= 1000);
}

static void write_and_read(double value)
{
    char out[NUMBER_DOUBLE_MAX + 1];
    double back = 0;
    size_t len = number_write_double(out, value);
    must(len > 0 && len <= NUMBER_DOUBLE_MAX);
    out[len] = '\0';
    if (isnan(value))
        return;
    must(number_parse_double(out, -INFINITY, INFINITY, &back, NULL) == 0);
    must(memcmp(&back, &value, sizeof value) == 0);
}

static void doubles(const char *text, const uint8_t *data, size_t size)
{
    double value, same, bits;
    if (number_parse_double(text, -INFINITY, INFINITY, &value, NULL) == 0) {
        same = strtod(text, NULL);
        must(memcmp(&same, &value, sizeof same) == 0);
        write_and_read(value);
    }
    if (size >= sizeof bits) {
        memcpy(&bits, data, sizeof bits);
        write_and_read(bits);
    }
}

static void durations(const char *text)
{
    uint64_t ns, back, bytes;
    char out[DURATION_TEXT_MAX];
    if (duration_parse(text, &ns, NULL) == 0) {
        must(duration_format(out, ns) == strlen(out));
        must(duration_parse(out, &back, NULL) == 0 && back == ns);
    }
    (void)opt_parse_size(text, &bytes, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TEXT_MAX)
        return 0;
    char *text = malloc(size + 1); /* exactly as large: a byte too far is seen */
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    integers(text);
    doubles(text, data, size);
    durations(text);
    free(text);
    return 0;
}
