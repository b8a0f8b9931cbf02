/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the thread and the loop's side share. Not for others. */

#include <time.h>

#include "service/journal/writer.h"

enum { WRITER_PATH_CAP = 4096, WRITER_GATHER_MAX = 2048, WRITER_LONE_COMMITS = 5 };

/* What the loop asks at the start. */
typedef enum AskKind { ASK_NOTHING, ASK_KEPT, ASK_OUTBOX } AskKind;

typedef struct WriterShared {
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* for the thread; for who waits for it */
    char path[WRITER_PATH_CAP];
    JournalConfig config;
    void (*wake)(void *self);
    void *self;
    /* under the lock */
    Job *queue, **queue_end;
    size_t queued;
    uint64_t put_to;    /* newest ticket in the queue */
    bool urgent;        /* something in the queue is waited for; else it may gather for a while */
    uint64_t gather_ns; /* since when it does; 0: nothing is queued */
    uint64_t on_disk, given_up;
    JournalState state;
    AskKind ask;
    JournalKept kept;
    WriterOutbox outbox;
    int ask_rc;
    Err ask_err;
    bool opened; /* the first try is over */
    bool stop, ended, abandoned;
    int busy; /* -EBUSY: another process has the file */
    Err busy_err;
    /* the thread's own */
    Db *db;
    int lock_fd;
    uint64_t retry_ms, retry_at_ns; /* 0: nothing failed */
    uint64_t prune_at_ns, newest_real_ns;
    uint64_t lone_ns[WRITER_LONE_COMMITS]; /* when the last commits were made that nobody waited for, a ring */
    size_t lone_at;                        /* the oldest of them */
} WriterShared;

/* The thread's function; its argument is the WriterShared, which it frees where it was abandoned. */
void *writer_run(void *shared);
void writer_shared_free(WriterShared *shared);
/* Under the lock: everything that is queued is acknowledged as kept in memory, and stays queued. */
void writer_in_memory(WriterShared *shared, const char *why);
struct timespec writer_in_ms(uint64_t ms);
uint64_t writer_now_ns(void);
uint64_t writer_real_now_ns(void);
