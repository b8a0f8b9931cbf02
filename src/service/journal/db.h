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
    DB_PUT_COUNT,
    DB_PUT_OUTBOX,
    DB_END_OUTBOX,
    DB_PUT_LEDGER,
    DB_PUT_JOB,
    DB_PUT_BENCH,
    DB_STATEMENT_END,
} DbStatement;

enum { DB_VALUES_MAX = 10 + LEDGER_AMOUNT_END + LEDGER_PEAK_END };

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
/* Equal for changes of which one replaces the other; 0 of one that is never replaced. */
uint64_t db_change_key(const DbChange *change);

typedef struct Db Db;

/* Opens; makes or migrates the tables where it is not read-only. */
int db_open(const char *path, bool read_only, Db **ret, Err *err);
void db_close(Db *db); /* accepts NULL */
/* Moves a file and what belongs to it aside: "<path>.damaged-<time>", which is written to `aside`. Of
 * all that were set aside the newest three stay. */
int db_set_aside(const char *path, char aside[256], Err *err);

/* Writes all of the changes, or none. Those of the ledger alone survive the end of the process, and are on the disk
 * with the next commit of something else: a tick is not worth a sync. */
int db_write(Db *db, const DbChange *changes, size_t count, Err *err);

int db_read_kept(Db *db, JournalKept *ret, Err *err);
/* Opens the file of an agent that may be writing it. -ENOENT, -EACCES. */
int db_open_for_reading(const char *path, Db **ret, Err *err);
/* Calls `add` for each row of a query, whose parameters are numbers; whose one parameter is a text. */
struct sqlite3_stmt;
typedef void (*DbAdd)(void *self, struct sqlite3_stmt *row);
int db_read_rows(Db *db, const char *sql, const uint64_t *numbers, DbAdd add, void *self, Err *err);
int db_read_text(Db *db, const char *sql, const char *text, DbAdd add, void *self, Err *err);

/* db_ledger.c: the ledger's tables and their rows, as SQL and out of it. Knows no Db. A row has five texts; those that
 * it is merged by are its names. */
enum { DB_LEDGER_DEVICE, DB_LEDGER_OWNER, DB_LEDGER_PRICE, DB_LEDGER_KIND, DB_LEDGER_NAMES };
enum { DB_LEDGER_AMOUNTS = 5 + DB_LEDGER_NAMES, DB_LEDGER_PEAKS = DB_LEDGER_AMOUNTS + LEDGER_AMOUNT_END };
enum { DB_LEDGER_NAME = 1024, DB_LEDGER_SQL = 1024 };
#define DB_LEDGER_AMOUNT(id, key) ", " key
extern const char db_ledger_tables[], db_ledger_peaks[];
extern const char db_ledger_put[];      /* its texts are given as their numbers */
extern const char db_ledger_put_name[]; /* returns the number of a text */
void db_ledger_names(const LedgerRow *row, char names[DB_LEDGER_NAMES][DB_LEDGER_NAME]);
void db_ledger_set_names(LedgerRow *row, const char *const names[DB_LEDGER_NAMES]);
/* A row of the view ledger_rows. */
void db_ledger_read_row(struct sqlite3_stmt *from, LedgerRow *row);
/* DbAdd: of rows by falling id, to the JournalKept `self`. */
void db_ledger_add_last(void *self, struct sqlite3_stmt *from);
/* Statements that delete the oldest rows, and names that no row has any more. */
void db_ledger_prune_older(char sql[DB_LEDGER_SQL], uint64_t keep_ns);
void db_ledger_prune_oldest(char sql[DB_LEDGER_SQL], uint64_t max_bytes);

/* db_jobs.c: the table of job reports and its rows. Knows no Db. */
enum { DB_JOB_MAX = 1 << 20 }; /* bytes of one, unpacked */
extern const char db_job_tables[], db_job_put[];
/* The report in the first column; false: it is damaged. */
bool db_job_unpack(struct sqlite3_stmt *row, Str *json);
void db_job_add_kept(void *self, struct sqlite3_stmt *row); /* DbAdd: to the JournalKept `self` */
void db_job_prune_older(char sql[DB_LEDGER_SQL], uint64_t before_real_ns);
void db_job_prune_oldest(char sql[DB_LEDGER_SQL], uint64_t max_bytes);

/* db_bench.c: the table of active tests. */
enum { DB_BENCH_MAX = 8 << 20 }; /* bytes of one run, unpacked */
extern const char db_bench_table[], db_bench_put[], db_bench_read[];
void db_bench_prune(char sql[DB_LEDGER_SQL]);                 /* keeps the newest JOURNAL_BENCH_KEPT */
void db_bench_add_kept(void *self, struct sqlite3_stmt *row); /* DbAdd: to the JournalKept `self` */

/* db_clock.c: what the wall clock showed while the monotonic one ran, as SQL. Knows no Db. A row's age is the monotonic
 * time that is known behind its instant: a wall clock that lay in the future makes nothing old. */
typedef struct DbClock {
    char boot_id[LEDGER_BOOT_CAP]; /* "" unknown */
    uint64_t mono_ns, real_ns;
} DbClock;

enum { DB_CLOCK_SQL = 1024 };
extern const char db_clock_table[];
/* A statement that notes that the clocks ran together from `before` (NULL: not known) until `now`. */
void db_clock_note(char sql[DB_CLOCK_SQL], const DbClock *before, const DbClock *now);
/* A query for the instant of the wall clock before which rows are older than `keep_ns`; 0: none is. */
void db_clock_find(char sql[DB_CLOCK_SQL], uint64_t keep_ns);
/* A statement that deletes what no `keep_ns` needs any more. */
void db_clock_prune(char sql[DB_CLOCK_SQL], uint64_t keep_ns);

/* jobs.c */
DbChange db_job_change(const JournalJob *job);

/* ledger.c */
DbChange db_ledger_change(const LedgerRow *row);

/* Notes both clocks as they are now, and were at the call before (NULL: there was none). Both calls of a boot show the
 * same time between them, or nothing is noted: only clocks that ran together make rows old. */
int db_note_clock(Db *db, const DbClock *before, const DbClock *now, Err *err);

/* Deletes job reports that are older than `keep_jobs_ns`, or more than a quarter of `max_bytes` together; cleared
 * incidents, events, counts and GPUs that are older than `keep_ns` (0: none), and rows of the ledger behind which it
 * covers more than `keep_ledger_ns`; then, while the file is larger than `max_bytes` (0: no limit), the oldest of them,
 * of the ledger only where it fills half of that. Ages are those of db_note_clock. *ret_bytes is the size left. */
int db_prune(Db *db, const JournalConfig *config, uint64_t *ret_bytes, Err *err);

/* The pause before the disk is tried again, after one of `last_ms` (0: the first failure): doubled up to a limit. */
uint64_t db_next_retry_ms(uint64_t last_ms);
