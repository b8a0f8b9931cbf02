/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs below `stoker bench` that read results, and what tests share with them. */

#include "base/cleanup.h"
#include "engine/bench/judge.h"
#include "service/bench/bench_report.h"
#include "verb/verb.h"

extern const Verb verb_bench_diff, verb_bench_fleet, verb_bench_mig;

CLEANUP_POINTER(BenchRun, bench_run_done);

struct BenchTest;
/* BenchPlan.after: the rate of the vendor's library (library.c). */
void bench_compare_library(struct BenchTest *test);
/* A result that was kept in a file, to be freed in any case (bench_run_done). -errno. */
int bench_read_run(VerbCall *call, const char *path, BenchRun *ret);
