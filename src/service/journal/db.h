/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal's file: opening, writing, reading, pruning. Every call may take as long as the disk does. One thread per
 * Db; a change is made in one thread and given to another. db.c also holds journal_read_* (journal.h). Not for others.
 */

#include <errno.h>

#include "base/err.h"
#include "service/journal/journal.h"

/* Errors beside those of the disk (-ENOSPC, -EIO, -EACCES, ...). */
enum { DB_DAMAGED = -EUCLEAN, DB_NEWER = -EPROTO };

typedef enum DbStatement {
    DB_PUT_INCIDENT,
    DB_PUT_EVENT,
    DB_PUT_BUNDLE,
    DB_PUT_WINDOW,
    DB_END_WINDOW,
    DB_PUT_GPU,
    DB_END_GPU,
    DB_PUT_POSITION,
    DB_PUT_OUTBOX,
    DB_END_OUTBOX,
    DB_STATEMENT_END,
} DbStatement;

enum { DB_VALUES_MAX = 7 };

typedef struct DbValue {
    char *text; /* NULL: a number */
    size_t len;
    int64_t number;
} DbValue;

/* A statement and its values, which it owns. */
typedef struct DbChange {
    DbStatement statement;
    DbValue values[DB_VALUES_MAX];
} DbChange;

/* Values; texts are copied. */
DbValue db_text(const char *text);
DbValue db_bytes(const char *bytes, size_t len);
DbValue db_number(uint64_t number);
void db_change_done(DbChange *change);
/* Whether both are about the same row, so that the newer one alone is enough. */
bool db_change_replaces(const DbChange *newer, const DbChange *older);

typedef struct Db Db;

/* Opens; makes or migrates the tables where it is not read-only. */
int db_open(const char *path, bool read_only, Db **ret, Err *err);
void db_close(Db *db); /* accepts NULL */
/* Moves a file and what belongs to it aside: "<path>.damaged-<time>", which is written to `aside`. Of
 * those that were set aside before, the newest two stay. */
int db_set_aside(const char *path, char aside[256], Err *err);

/* Writes all of the changes, or none. */
int db_write(Db *db, const DbChange *changes, size_t count, Err *err);

int db_read_kept(Db *db, JournalKept *ret, Err *err);
/* Deletes cleared incidents, events and GPUs that are more than `keep_ns` (0: none) older than the newest change in the
 * file; then, while the file is larger than `max_bytes` (0: no limit), the oldest of them. *ret_bytes is the size left.
 */
int db_prune(Db *db, uint64_t keep_ns, uint64_t max_bytes, uint64_t *ret_bytes, Err *err);

/* The pause before the disk is tried again, after one of `last_ms` (0: the first failure): doubled up to a limit. */
uint64_t db_next_retry_ms(uint64_t last_ms);
