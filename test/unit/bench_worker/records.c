/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the records that stoker-bench sent (standard input) as lines of JSON. */
#include <stdio.h>

#include "model/bench.h"

static void print_measure(const BenchMeasure *m)
{
    printf(", \"measure\": \"%s\", \"peer\": %d, \"sm_mhz\": %g, \"bytes\": %lu, \"samples\": [",
           bench_measures[m->id].key, (int)m->peer, m->sm_mhz == m->sm_mhz ? m->sm_mhz : 0, (unsigned long)m->bytes);
    for (uint32_t i = 0; i < m->count; i++)
        printf("%s%g", i ? ", " : "", m->samples[i]);
    printf("], \"per_clock\": [");
    for (uint32_t i = 0; i < m->sm_count; i++)
        printf("%s%g", i ? ", " : "", (double)m->per_clock[i]);
    printf("]");
}

static void print_error(const BenchError *e)
{
    printf(", \"error\": \"%s\", \"stage\": \"%s\", \"peer\": %d, \"sm\": %d, \"code\": %d, \"repeats\": %d, \"path\": "
           "%d, "
           "\"count\": %lu, \"address\": %lu, \"want\": %lu, \"got\": %lu, \"measure\": \"%s\", \"what\": \"%s\"",
           bench_errors[e->kind].key, bench_stages[e->stage].key, (int)e->peer, (int)e->sm, e->code, e->repeats,
           e->path, (unsigned long)e->count, (unsigned long)e->address, (unsigned long)e->want, (unsigned long)e->got,
           e->measure < BENCH_MEASURE_END ? bench_measures[e->measure].key : "", e->what);
}

static void print_record(const BenchRecord *r)
{
    static const char *const kinds[] = {"device", "stage", "measure", "error"};

    printf("{\"kind\": \"%s\", \"gpu\": %d", kinds[r->kind], (int)r->gpu);
    if (r->kind == BENCH_RECORD_DEVICE)
        printf(", \"uuid\": \"%s\", \"name\": \"%s\", \"sm_count\": %u", r->device.uuid, r->device.name,
               r->device.sm_count);
    else if (r->kind == BENCH_RECORD_STAGE)
        printf(", \"stage\": \"%s\"", bench_stages[r->stage].key);
    else if (r->kind == BENCH_RECORD_MEASURE)
        print_measure(&r->measure);
    else
        print_error(&r->error);
    printf("}\n");
}

int main(void)
{
    BenchRecord record;

    while (fread(&record, sizeof record, 1, stdin) == 1)
        print_record(&record);
    return 0;
}
