/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t time_run(const Bench *b, size_t n)
{
    if (b->before)
        b->before();
    uint64_t start = now_ns();
    b->run(n);
    return now_ns() - start;
}

static size_t calibrate(const Bench *b)
{
    size_t most = b->most ? b->most : SIZE_MAX / 4;
    size_t n = 1;
    while (n < most && time_run(b, n) < BENCH_RUN_NS)
        n *= 2;
    return n < most ? n : most;
}

void bench_all(const Bench *list, size_t count)
{
    size_t *n = calloc(count, sizeof *n);
    double(*ns)[BENCH_ROUNDS] = calloc(count, sizeof *ns);
    if (!n || !ns)
        abort();
    for (size_t i = 0; i < count; i++)
        n[i] = calibrate(&list[i]);
    for (size_t round = 0; round < BENCH_ROUNDS; round++)
        for (size_t i = 0; i < count; i++)
            ns[i][round] = (double)time_run(&list[i], n[i]) / (double)n[i];
    for (size_t i = 0; i < count; i++) {
        printf("{\"name\": \"%s\", \"n\": %zu, \"ns\": [", list[i].name, n[i]);
        for (size_t round = 0; round < BENCH_ROUNDS; round++)
            printf("%s%.2f", round ? ", " : "", ns[i][round]);
        puts("]}");
    }
    free(n);
    free(ns);
}
