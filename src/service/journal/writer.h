/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal's thread: writes queued jobs in one transaction and reports its progress. When the disk refuses, it keeps
 * the jobs and retries. The functions below are for the loop; they hold the lock briefly and do not wait for the disk
 * unless noted. Not for others.
 */

#include <pthread.h>

#include "base/vec.h"
#include "service/journal/db.h"

typedef enum JobKind {
    JOB_INCIDENT,
    JOB_EVENT,
    JOB_BUNDLE,
    JOB_WINDOW,
    JOB_WINDOW_END,
    JOB_GPU,
    JOB_POSITION,
    JOB_OUTBOX,
} JobKind;

typedef struct JobPosition {
    char boot_id[40];
    uint64_t sequence, fabric_offset, fabric_inode;
} JobPosition;

/* One kind for both, so that a newer job replaces an older one. */
typedef struct JobGpu {
    JournalGpu gpu;
    bool forgotten;
} JobGpu;

typedef struct Job {
    struct Job *next;
    JobKind kind;
    bool taken; /* being written now: not to be replaced */
    uint64_t ticket;
    uint64_t real_ns; /* of a bundle */
    char key[80], receiver[64];
    size_t len;
    unsigned char data[] __attribute__((aligned(16)));
} Job;

Job *job_new(JobKind kind, size_t len);
void job_free(Job *job);

typedef struct Writer {
    const JournalConfig *config; /* borrowed, of the journal */
    struct WriterShared *shared; /* outlives the writer where the thread hangs in the disk; NULL: no thread */
    uint64_t given_up;           /* where there is no thread */
} Writer;

/* Starts the thread and waits, at most for the configured patience, until the file is open or could not be had.
 * -EBUSY where another process has it; any other trouble is the state's. `wake` is called from the thread. */
int writer_start(Writer *writer, const JournalConfig *config, void (*wake)(void *self), void *self, Err *err);
/* Waits at most for the patience until all is written and the thread has ended; leaves it behind otherwise. */
void writer_stop(Writer *writer);

void writer_put(Writer *writer, Job *job); /* takes it over */
void writer_give_up(Writer *writer, uint64_t ticket);
/* The loop waited too long: the state is MEMORY until the thread answers again. */
void writer_late(Writer *writer);

typedef struct WriterProgress {
    uint64_t on_disk, given_up; /* all tickets up to these */
} WriterProgress;
void writer_progress(Writer *writer, WriterProgress *ret);
void writer_state(const Writer *writer, JournalState *ret);
/* The pause before the next try, after one of `last_ms` (0: the first failure): doubled up to a limit. */
uint64_t writer_next_retry_ms(uint64_t last_ms);

/* Answered by the thread; they wait at most for the patience: -ETIMEDOUT. */
int writer_kept(Writer *writer, JournalKept *ret, Err *err);
typedef VEC(Job *) WriterOutbox;
int writer_outbox(Writer *writer, WriterOutbox *ret, Err *err);
