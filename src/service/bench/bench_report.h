/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs of active tests and what was judged of them: JSON (docs/bench.schema.json) and back, text for a terminal, a
 * page, and lines for Prometheus. Nothing is decided here. Pure. One thread.
 */

#include "base/err.h"
#include "base/str.h"
#include "engine/bench/diff.h"
#include "engine/bench/isolation.h"
#include "engine/bench/judge.h"
#include "engine/bench/rank.h"

enum { BENCH_TEXT_MAX = 8 << 20 }; /* bytes of JSON that are read */

/* --- bench_json.c ------------------------------------------------------------------------------------------------- */

/* One object, ended by a newline. `judgement` NULL: without verdicts and findings. Of the rung "roof" also the roofline
 * of each GPU. */
void bench_write_json(const BenchRun *run, const BenchJudgement *judgement, Str *out);

/* What bench_write_json wrote; members that are not known are ignored, those that are missing are not known. `ret` is
 * the caller's (bench_run_done), empty after an error: -EINVAL, -EFBIG, with what is wrong, where, and what to do. */
int bench_read_json(const char *text, size_t len, BenchRun *ret, Err *err);
/* The same with the judgement that is in it; of one without, all GPUs are unknown. */
int bench_read_judged(const char *text, size_t len, BenchRun *ret, BenchJudgement *ret_judgement, Err *err);

/* Two runs, each of whose changes is there, and many nodes. One object, ended by a newline. */
void bench_write_diff_json(const BenchRun *before, const BenchRun *after, const BenchDiff *diff, Str *out);
void bench_write_fleet_json(const BenchRanking *ranking, Str *out);

/* --- bench_text.c ------------------------------------------------------------------------------------------------- */

/* A table of the GPUs, what was found, what was tested, and what such a test does not see. */
void bench_write_text(const BenchRun *run, const BenchJudgement *judgement, Str *out);

/* --- compare_text.c ----------------------------------------------------------------------------------------------- */

/* What changed of each GPU. */
void bench_write_diff(const BenchRun *before, const BenchRun *after, const BenchDiff *diff, Str *out);

/* Of each model and measure the median and the spread; the nodes, that with the worst GPU first, and what is behind. */
void bench_write_fleet(const BenchRanking *ranking, Str *out);

/* --- isolation_text.c --------------------------------------------------------------------------------------------- */

/* What a neighbour costs: the run's first GPU is the victim, its last one has the neighbour. */
void isolation_write_text(const BenchRun *run, const IsolationRun *values, const IsolationJudgement *judgement,
                          Str *out);
void isolation_write_json(const BenchRun *run, const IsolationRun *values, const IsolationJudgement *judgement,
                          Str *out);

/* --- roof_text.c -------------------------------------------------------------------------------------------------- */

/* The roofline of each GPU: bandwidths, types of arithmetic, ridges, shares of the data sheet. */
void bench_write_roof(const BenchRun *run, Str *out);
/* The same as a page with a picture of each model's first GPU. */
void bench_write_roof_page(const BenchRun *run, Str *out);

/* --- bench_metrics.c ---------------------------------------------------------------------------------------------- */

/* stoker_bench_*: the verdicts, the last values, and how old they are at this wall clock, in Prometheus' text format.
 */
void bench_write_metrics(const BenchRun *run, const BenchJudgement *judgement, uint64_t real_ns, Str *out);
