/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: service/prometheus/counters. Every row that is taken is a metric of the catalogue, once; what strict
 * reading takes, lenient reading takes as well, without a warning. */
#include <stdlib.h>
#include <string.h>

#include "service/prometheus/counters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const Counters *counters)
{
    for (size_t i = 0; i < counters->rows.len; i++) {
        const CounterRow *row = &counters->rows.at[i];
        const MetricName *name = metric_find(row->name.text);
        if (!name || name->metric != row->name.metric || !row->help || !row->line || row->type > COUNTER_LABEL)
            abort();
        for (size_t k = 0; k < i; k++)
            if (strcmp(counters->rows.at[k].name.text, row->name.text) == 0)
                abort();
    }
    for (size_t i = 0; i < counters->warnings.len; i++)
        if (strncmp(counters->warnings.at[i].text, "fuzz:", 5) != 0 || !counters->warnings.at[i].line)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Counters lenient, strict;
    Err err = {0};
    int rc, rc_strict;

    counters_init(&lenient);
    counters_init(&strict);
    rc = counters_read(&lenient, (const char *)data, size, "fuzz", false, &err);
    check(&lenient);
    if (rc < 0 && (lenient.rows.len || strncmp(err.text, "fuzz:", 5) != 0))
        abort();
    rc_strict = counters_read(&strict, (const char *)data, size, "fuzz", true, &err);
    check(&strict);
    if (rc_strict == 0 && rc == 0 && (lenient.warnings.len || lenient.rows.len != strict.rows.len))
        abort();
    if (rc_strict < 0 && (strict.rows.len || (rc == 0 && !lenient.warnings.len)))
        abort();
    counters_done(&lenient);
    counters_done(&strict);
    return 0;
}
