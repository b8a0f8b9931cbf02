/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The journal's file: opening, writing, reading, pruning. Every call may take as long as the disk does. One thread per
 * Db. db.c also holds journal_read_* (journal.h). Not for others. */

#include <errno.h>

#include "base/err.h"
#include "base/vec.h"
#include "service/journal/journal.h"

/* Errors beside those of the disk (-ENOSPC, -EIO, -EACCES, ...). */
enum { DB_DAMAGED = -EUCLEAN, DB_NEWER = -EPROTO };

typedef struct Db Db;

/* Opens; makes or migrates the tables where it is not read-only. */
int db_open(const char *path, bool read_only, Db **ret, Err *err);
void db_close(Db *db); /* accepts NULL */
/* Moves a file and what belongs to it aside: "<path>.damaged-<time>", which is written to `aside`. */
int db_set_aside(const char *path, char aside[256], Err *err);

int db_begin(Db *db, Err *err);
int db_commit(Db *db, Err *err);
void db_rollback(Db *db);

int db_incident(Db *db, const Incident *incident, Err *err);
int db_event(Db *db, const Event *event, const char *incident_id, Err *err);
int db_bundle(Db *db, const char *incident_id, uint64_t real_ns, const char *gz, size_t len, Err *err);
int db_window(Db *db, const MaintenanceWindow *window, bool ended, Err *err);
int db_gpu(Db *db, const JournalGpu *gpu, bool forgotten, Err *err);
int db_meta(Db *db, const char *key, const char *value, Err *err);
int db_outbox(Db *db, const char *receiver, const char *key, const char *text, size_t len, Err *err);

int db_kept(Db *db, JournalKept *ret, Err *err);
int db_each_outbox(Db *db, void (*fn)(void *self, const char *receiver, const char *key, const char *text, size_t len),
                   void *self, Err *err);

/* Deletes cleared incidents, events and GPUs that are more than `keep_ns` (0: none) older than the newest change in the
 * file; then, while the file is larger than `max_bytes` (0: no limit), the oldest of them. *ret_bytes is the size left.
 */
int db_prune(Db *db, uint64_t keep_ns, uint64_t max_bytes, uint64_t *ret_bytes, Err *err);
int db_count(Db *db, const char *table, uint64_t *ret, Err *err);
