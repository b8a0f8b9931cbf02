/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pieces of one piece of work, on several threads: each is run once, after those that it needs, by whichever thread is
 * free. What they make may not depend on which thread that was nor on what ran beside them. The threads live for one
 * call; the caller's is one of them.
 */

#include <stddef.h>
#include <stdint.h>

enum { TRACE_TASKS_MAX = 32, TRACE_TASK_THREADS_MAX = TRACE_TASKS_MAX };

typedef struct TraceTask {
    /* `place` in the table; `thread` from 0 (the caller's), below the number asked for */
    void (*run)(void *context, size_t place, unsigned int thread);
    uint32_t after; /* bits 1 << place of those that have to be done before; they have lower places */
    size_t bytes;   /* memory that it takes while it runs */
} TraceTask;

/* Runs all `count` (TRACE_TASKS_MAX at most) tasks, beginning with the first ones: the longest should come first. On
 * one thread (or 0) they run in the order of the table. A task is put off while the running ones' memory and its own
 * come to more than `memory` bytes together; one always runs. Fewer threads are started where there are no more to be
 * had. */
void trace_tasks_run(const TraceTask *tasks, size_t count, void *context, unsigned int threads, size_t memory);
