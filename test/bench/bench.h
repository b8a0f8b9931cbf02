/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A benchmark program is a table of things to time. All of them run once per round, one after the other, so that a
 * thing and its peer meet the same moods of the machine; run.py takes medians over the rounds and ratios within them.
 * Output: one JSON object per line, {"name": ..., "n": iterations, "ns": [per iteration, one per round]}.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct Bench {
    const char *name;
    void (*run)(size_t n); /* does it n times */
    void (*before)(void);  /* before every timed run; NULL: nothing */
    size_t most;           /* iterations of one run at most; 0: as many as fill BENCH_RUN_NS */
} Bench;

enum { BENCH_ROUNDS = 21, BENCH_RUN_NS = 4000000 };

void bench_all(const Bench *list, size_t count);

/* Lets the compiler believe that `p` is read. */
static inline void bench_use(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}
