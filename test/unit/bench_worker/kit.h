/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs what stoker-bench does on the CUDA of fake_cuda.h and reads what it sent. */

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "fake_cuda.h"
#include "source/cuda/stage.h"

typedef VEC(BenchRecord) RecordVec;

static RecordVec records;
static Cuda *stoppable;

static inline void stop_at_signal(int UNUSED number)
{
    cuda_request_stop(stoppable);
}

static inline void read_records(int fd)
{
    BenchRecord record;

    vec_clear(&records);
    lseek(fd, 0, SEEK_SET);
    while (read(fd, &record, sizeof record) == (ssize_t)sizeof record)
        vec_push(&records, record);
}

/* `arguments` divided by blanks. Its exit code; `records` are what it sent. */
static inline int run_bench(const char *arguments)
{
    CLEANUP_FREE BenchProcess *process = xcalloc(1, sizeof *process);
    CLEANUP_FREE char *text = xstrdup(arguments);
    CLEANUP_FD int fd = memfd_create("records", MFD_CLOEXEC);
    char *argv[16] = {(char[]){"stoker-bench"}}, *at = text, *word;
    int argc = 1, code;
    Err err = {0};

    while ((word = strsep(&at, " ")))
        argv[argc++] = word;
    if (bench_options_parse(argc, argv, &process->options, &err) < 0)
        fail_msg("%s", err.text);
    process->sender.fd = fd;
    cuda_init(&process->cuda);
    stoppable = &process->cuda;
    signal(SIGTERM, stop_at_signal);
    code = bench_process_run(process, &fake_table);
    signal(SIGTERM, SIG_DFL);
    stoppable = NULL;
    read_records(fd);
    return code;
}

static inline const BenchMeasure *find_measure(BenchMeasureId id, uint32_t gpu, uint32_t peer)
{
    for (size_t i = 0; i < records.len; i++) {
        const BenchRecord *r = &records.at[i];
        if (r->kind == BENCH_RECORD_MEASURE && r->measure.id == id && r->measure.gpu == gpu && r->measure.peer == peer)
            return &r->measure;
    }
    return NULL;
}

static inline const BenchError *find_error(BenchErrorKind kind, size_t nth)
{
    for (size_t i = 0; i < records.len; i++)
        if (records.at[i].kind == BENCH_RECORD_ERROR && records.at[i].error.kind == kind && nth-- == 0)
            return &records.at[i].error;
    return NULL;
}

static inline size_t count_errors(void)
{
    size_t count = 0;

    for (size_t i = 0; i < records.len; i++)
        count += records.at[i].kind == BENCH_RECORD_ERROR;
    return count;
}

static inline BenchStage last_stage(void)
{
    BenchStage stage = BENCH_STAGE_COUNT;

    for (size_t i = 0; i < records.len; i++)
        if (records.at[i].kind == BENCH_RECORD_STAGE)
            stage = records.at[i].stage;
    return stage;
}
